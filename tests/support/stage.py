"""One set on a real API server, for the stories of the run: its manifests, its runs, its end."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from applyprune.cluster.auth.kubeconfig import connect
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.inventory.store import ConfigMapStore
from applyprune.cluster.transport.transport import Transport
from applyprune.engine.cancellation import Cancellation
from applyprune.engine.operations.move import Side, move
from applyprune.engine.operations.repair import repair
from applyprune.engine.run import RunRequest, run
from applyprune.model.events import (
    Event,
    Finished,
    MismatchFound,
    ObjectDone,
    Outcome,
    Planned,
    PruneBlocked,
    WarningRaised,
)
from applyprune.model.inventory import Ownership
from applyprune.model.options import DryRun, Mode, PruneLimit
from applyprune.planning.applyset import applyset_identity
from tests.support.objects import manifest
from tests.support.options import options_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from applyprune.model.inventory import Inventory, MismatchType
    from applyprune.planning.applyset import ApplySetIdentity


@dataclass(frozen=True, slots=True)
class Story:
    """What one run said."""

    events: tuple[Event, ...]

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """Return what became of each object, by ``kind/name``."""
        return {one.ref.short: one.outcome for one in self.events if isinstance(one, ObjectDone)}

    @property
    def exit_code(self) -> int:
        """Return the exit code that the run's end carries."""
        (end,) = (one for one in self.events if isinstance(one, Finished))
        return end.exit_code

    @property
    def refusal(self) -> str:
        """Return why the prune as a whole was refused, as the user reads it; empty when not."""
        return "".join(str(one.problem) for one in self.events if isinstance(one, PruneBlocked))

    @property
    def approval(self) -> str:
        """Return the digest that would approve the refused prune."""
        (planned,) = (one for one in self.events if isinstance(one, Planned))
        return planned.plan.approval

    @property
    def warnings(self) -> list[str]:
        """Return what the run warned of."""
        return [str(one.problem) for one in self.events if isinstance(one, WarningRaised)]

    @property
    def found(self) -> dict[str, MismatchType]:
        """Return what a check found, by ``kind/name``; the inventory's own faults by their word."""
        return {
            one.mismatch.ref.short
            if one.mismatch.ref
            else str(one.mismatch.type): one.mismatch.type
            for one in self.events
            if isinstance(one, MismatchFound)
        }

    def problem(self, name: str) -> str:
        """Return the problem of one object, as the user reads it."""
        (done,) = (
            one for one in self.events if isinstance(one, ObjectDone) and one.ref.short == name
        )
        return str(done.problem)


@dataclass(slots=True)
class Stage:
    """The set ``web`` of one namespace, through one kubeconfig; ``budget`` bounds its retries.

    ``owner`` is the Bundle in whose name it is run; ``takes_over`` lets it take the set over.
    """

    kubeconfig: Path
    namespace: str
    name: str = "web"
    budget: float = 5.0
    seen: Callable[[Event], None] = lambda _: None
    stop: Cancellation = field(default_factory=Cancellation)
    owner: str = ""
    takes_over: bool = False

    @property
    def target(self) -> ApplySetIdentity:
        """Return the set."""
        return applyset_identity(self.name, self.namespace)

    def run(self, *bodies: dict[str, Any], **options: Any) -> Story:
        """Run once and return what was said; what concerns the run as a whole is raised.

        Beside the options, ``empty`` are parts of the input that hold nothing.
        """
        empty = options.pop("empty", ())
        manifests = [manifest(raw, line) for line, raw in enumerate(bodies, 1)]
        request = RunRequest(
            self.target,
            manifests,
            self.namespace,
            options_of(**options),
            owner=self.owner,
            takes_over=self.takes_over,
            empty_inputs=empty,
        )
        with self._at_work() as (_, cluster):
            store = ConfigMapStore(cluster, self.target)
            return self._story(run(request, cluster, store, self.stop))

    @staticmethod
    def most(count: int) -> PruneLimit:
        """Return ``--max-prune COUNT``."""
        return PruneLimit(count=count, percent=0.0)

    def move(self, to: Stage, *names: str, **options: Any) -> Story:
        """Hand objects to another set, all of them when none is named."""
        with self._at_work() as (_, cluster):
            sides = [Side(one.target, ConfigMapStore(cluster, one.target)) for one in (self, to)]
            chosen = options_of(select=frozenset(names), **options)
            return self._story(move(sides[0], sides[1], chosen, cluster, self.stop))

    def orphan(self, *names: str, **options: Any) -> Story:
        """Orphan objects, all of them when none is named."""
        return self.run(mode=Mode.ORPHAN, select=frozenset(names), **options)

    def check(self) -> Story:
        """Compare the record with what is there."""
        return self.repair(dry_run=DryRun.SERVER)

    def repair(self, ownership: Ownership = Ownership.ADOPTED, **options: Any) -> Story:
        """Make the record fit what is there."""
        with self._at_work() as (_, cluster):
            store = ConfigMapStore(cluster, self.target)
            chosen = options_of(**options)
            return self._story(repair(self.target, chosen, ownership, cluster, store, self.stop))

    def inventory(self) -> Inventory:
        """Return the inventory as it is stored."""
        transport = self.transport()
        try:
            return self.store(transport).read()
        finally:
            transport.close()

    @contextmanager
    def _at_work(self) -> Iterator[tuple[Transport, KubernetesClient]]:
        transport = self.transport()
        try:
            yield transport, KubernetesClient(transport, "test")
        finally:
            transport.close()

    def _story(self, events: Iterable[Event]) -> Story:
        said: list[Event] = []
        for event in events:
            said.append(event)
            self.seen(event)
        return Story(tuple(said))

    def listed(self) -> set[str]:
        """Return what the inventory lists, by ``kind/name``."""
        return {ref.short for ref in self.inventory().entries}

    def store(self, transport: Transport) -> ConfigMapStore:
        """Return the store of the inventory."""
        return ConfigMapStore(KubernetesClient(transport, "test"), self.target)

    def transport(self) -> Transport:
        """Return a transport of one's own."""
        access = connect(kubeconfig=str(self.kubeconfig), environ=os.environ)
        return Transport(access, retry_budget=self.budget)
