"""One set on a real API server, for the stories of the run: its manifests, its runs, its end."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from applyprune.cluster.api_server import ApiServer
from applyprune.cluster.inventory_store import ConfigMapStore
from applyprune.cluster.kubeconfig import connect
from applyprune.cluster.transport import Transport
from applyprune.engine.run import Request, run
from applyprune.engine.workers import Stop
from applyprune.model.events import Done, Event, Finished, Outcome
from applyprune.model.manifests import Manifest, Origin
from applyprune.model.options import Options
from applyprune.model.refs import GVK
from applyprune.planning.tracking import identity

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.model.inventory import Inventory
    from applyprune.planning.tracking import SetIdentity


def manifest(raw: dict[str, Any], line: int = 1) -> Manifest:
    """Return a manifest as a source would read it from ``set.yaml``."""
    metadata = raw["metadata"]
    gvk = GVK.parse(raw["apiVersion"], raw["kind"])
    return Manifest(
        gvk, metadata.get("namespace", ""), metadata["name"], raw, Origin("set.yaml", 1, line)
    )


def config_map(name: str, value: str = "v", **metadata: Any) -> dict[str, Any]:
    """Return the body of a ConfigMap with one key."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"key": value},
    }


@dataclass(frozen=True, slots=True)
class Story:
    """What one run said."""

    events: tuple[Event, ...]

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """Return what became of each object, by ``kind/name``."""
        return {one.ref.short: one.outcome for one in self.events if isinstance(one, Done)}

    @property
    def exit_code(self) -> int:
        """Return the exit code that the run's end carries."""
        (end,) = (one for one in self.events if isinstance(one, Finished))
        return end.exit_code

    def problem(self, name: str) -> str:
        """Return the problem of one object, as the user reads it."""
        (done,) = (one for one in self.events if isinstance(one, Done) and one.ref.short == name)
        return str(done.problem)


@dataclass(slots=True)
class Stage:
    """The set ``web`` of one namespace, through one kubeconfig; ``budget`` bounds its retries."""

    kubeconfig: Path
    namespace: str
    name: str = "web"
    budget: float = 5.0
    seen: Callable[[Event], None] = lambda _: None
    stop: Stop = field(default_factory=Stop)

    @property
    def target(self) -> SetIdentity:
        """Return the set."""
        return identity(self.name, self.namespace)

    def run(self, *bodies: dict[str, Any], **options: Any) -> Story:
        """Run once and return what was said; what concerns the run as a whole is raised."""
        transport = self.transport()
        manifests = [manifest(raw, line) for line, raw in enumerate(bodies, 1)]
        request = Request(self.target, manifests, self.namespace, Options(**options))
        said: list[Event] = []
        try:
            for event in run(
                request,
                ApiServer(transport, "test"),
                ConfigMapStore(transport, self.target),
                self.stop,
            ):
                said.append(event)
                self.seen(event)
        finally:
            transport.close()
        return Story(tuple(said))

    def inventory(self) -> Inventory:
        """Return the inventory as it is stored."""
        transport = self.transport()
        try:
            return ConfigMapStore(transport, self.target).read()
        finally:
            transport.close()

    def listed(self) -> set[str]:
        """Return what the inventory lists, by ``kind/name``."""
        return {ref.short for ref in self.inventory().entries}

    def transport(self) -> Transport:
        """Return a transport of one's own."""
        access = connect(kubeconfig=str(self.kubeconfig), environ=os.environ)
        return Transport(access, retry_budget=self.budget)
