"""One set on a real API server, for the stories of the run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, field

from applyprune import ApplySet, Input, connect
from applyprune.cluster.access import cluster_access
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.inventory_store import ConfigMapStore
from applyprune.cluster.transport import Transport
from applyprune.engine.context import RunRequest
from applyprune.engine.inventory import own, repair
from applyprune.engine.ports import Cancellation
from applyprune.engine.run import run
from applyprune.model.events import (
    Event,
    Explanation,
    Finished,
    MismatchFound,
    ObjectDone,
    Planned,
    PruneBlocked,
    WarningRaised,
)
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import DryRun, Mode, PruneLimit, StatusOptions
from applyprune.planning.applyset import applyset_identity
from applyprune.values import replace
from tests.support.objects import manifest
from tests.support.options import options_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from applyprune import ClusterConnection
    from applyprune.model.inventory import Inventory, MismatchType
    from applyprune.model.plan import Plan
    from applyprune.planning.applyset import ApplySetIdentity


E = TypeVar("E", bound=Event)


class Story(Struct, frozen=True):
    """The events of one run."""

    events: tuple[Event, ...]

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of a kind, in their order."""
        return [one for one in self.events if isinstance(one, kind)]

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """Return the outcome of each object, by ``kind/name``."""
        return {one.ref.short: one.outcome for one in self.of(ObjectDone)}

    @property
    def reasons(self) -> dict[str, str]:
        """Return the reason for the outcome of each object, by ``kind/name``."""
        return {one.ref.short: one.reason for one in self.of(ObjectDone)}

    @property
    def exit_code(self) -> int:
        """Return the exit code in the last event."""
        (end,) = self.of(Finished)
        return end.exit_code

    @property
    def refusal(self) -> str:
        """Return why the whole prune was refused, as the user reads it; empty if it was not."""
        return "".join(str(one.problem) for one in self.of(PruneBlocked))

    @property
    def plan(self) -> Plan:
        """Return the plan."""
        (planned,) = self.of(Planned)
        return planned.plan

    @property
    def deletions(self) -> str:
        """Return the digest that approves the deletions of the plan."""
        return self.plan.deletions

    @property
    def warnings(self) -> list[str]:
        """Return the warnings."""
        return [str(one.problem) for one in self.of(WarningRaised)]

    @property
    def found(self) -> dict[str, MismatchType]:
        """Return the mismatches by ``kind/name``, those of the inventory itself by their type."""
        return {
            one.mismatch.ref.short
            if one.mismatch.ref
            else str(one.mismatch.type): one.mismatch.type
            for one in self.of(MismatchFound)
        }

    @property
    def explanation(self) -> Explanation:
        """Return what is explained of one object."""
        (told,) = self.of(Explanation)
        return told

    def problem(self, name: str) -> str:
        """Return the problem of one object, as the user reads it."""
        (done,) = (one for one in self.of(ObjectDone) if one.ref.short == name)
        return str(done.problem)


def on(kind: type[Event], act: Callable[[], object]) -> Callable[[Event], None]:
    """Return what a stage sees: it does something at each event of a kind."""

    def seen(event: Event) -> None:
        if isinstance(event, kind):
            act()

    return seen


class Stage(Struct):
    """The set ``web`` of one namespace, through one kubeconfig; ``budget`` limits the retries.

    ``owner`` is the Bundle that it runs for; ``takes_over`` lets that Bundle take the set over.
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

    def path(self, name: str = "", plural: str = "configmaps", group: str = "/api/v1") -> str:
        """Return the path of an object in the set's namespace; without a name, of all of a kind."""
        return f"{group}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def run(self, *bodies: dict[str, Any], **options: Any) -> Story:
        """Run once and return the events; raise a failure of the whole run.

        Besides the options, ``empty`` are the parts of the input without objects, and ``siblings``
        the sets with which the one of a Bundle may exchange objects.
        """
        empty, siblings = options.pop("empty", ()), options.pop("siblings", None)
        manifests = tuple(manifest(raw, line) for line, raw in enumerate(bodies, 1))
        given, decided = Input(manifests, empty=tuple(empty)), options_of(**options)
        with self.connection() as cluster:
            applyset = self.applyset(cluster)
            if not self.owner:
                return self._story(applyset.iter_run(given, decided, cancellation=self.stop))
            # As the controller does: the API has no owner.
            request = RunRequest(
                self.target,
                given,
                self.namespace,
                decided,
                owner=self.owner,
                takes_over=self.takes_over,
                empty_inputs=given.empty,
                siblings=siblings,
            )
            return self._story(run(request, cluster.client, applyset.store(), self.stop))

    @staticmethod
    def most(count: int) -> PruneLimit:
        """Return ``--max-prune COUNT``."""
        return PruneLimit(count=count, percent=0.0)

    def explain(self, named: str, *bodies: dict[str, Any], given: bool = True) -> Story:
        """Explain what a run with this input would do with an object; or, without, a prune."""
        manifests = [manifest(raw, line) for line, raw in enumerate(bodies, 1)] if given else None
        with self.connection() as cluster:
            events = self.applyset(cluster).iter_explain(named, manifests, cancellation=self.stop)
            return self._story(events)

    def orphan(self, *names: str, **options: Any) -> Story:
        """Orphan objects; all of them if none is named."""
        return self.run(mode=Mode.ORPHAN, select=frozenset(names), **options)

    def status(self, **asked: Any) -> Story:
        """Report the status of the set."""
        with self.connection() as cluster:
            events = self.applyset(cluster).iter_status(
                StatusOptions(**asked), cancellation=self.stop
            )
            return self._story(events)

    def own(self, *names: str, **options: Any) -> Story:
        """Make objects owned."""
        with self.connection() as cluster:
            chosen = options_of(mode=Mode.REPAIR, select=frozenset(names), **options)
            request, store = RunRequest(self.target, options=chosen), self.applyset(cluster).store()
            return self._story(own(request, cluster.client, store, self.stop, lambda _: None))

    def check(self) -> Story:
        """Compare the inventory with the cluster."""
        return self.repair(dry_run=DryRun.SERVER)

    def repair(self, ownership: Ownership = Ownership.ADOPTED, **options: Any) -> Story:
        """Reconcile the inventory with the cluster."""
        with self.connection() as cluster:
            request = RunRequest(self.target, options=options_of(mode=Mode.REPAIR, **options))
            store = self.applyset(cluster).store()
            return self._story(repair(request, cluster.client, store, self.stop, ownership))

    def inventory(self) -> Inventory:
        """Return the inventory as it is stored."""
        with self.connection() as cluster:
            return self.applyset(cluster).inventory()

    def rewrite(self, **changes: Any) -> Inventory:
        """Write the inventory with other contents, as somebody does who may edit it."""
        transport = self.transport()
        try:
            store = self.store(transport)
            return store.write(replace(store.read(), **changes))
        finally:
            transport.close()

    def connection(self) -> ClusterConnection:
        """Return a connection of the stage's own, as a program would open it."""
        return connect(kubeconfig=self.kubeconfig, retry_budget=self.budget, cache=False)

    def applyset(self, cluster: ClusterConnection) -> ApplySet:
        """Return the set, as a program would name it."""
        return ApplySet(self.name, self.namespace, cluster=cluster)

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
        """Return a new transport."""
        access = cluster_access(kubeconfig=str(self.kubeconfig), environ=os.environ)
        return Transport(access, retry_budget=self.budget)
