"""Several replicas of the controller, as processes; and who has written what, by the audit log."""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self

from tests.support.controller import controller
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.support.controller import Controller, Tenant

LEASES = "coordination.k8s.io/v1"


@dataclass(slots=True)
class Fleet:
    """Replicas for the Bundles of one tenant, with their Lease in its namespace."""

    kubeconfig: Path
    folder: Path
    tenant: Tenant
    duration: float
    """That of the Lease, in seconds."""
    within: Sequence[str] = ()
    replicas: list[Controller] = field(default_factory=list)
    _ends: dict[int, ExitStack] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill every replica."""
        for running in list(self.replicas):
            self.kill(running)

    def start(self, *more: str, kubeconfig: Path | None = None) -> Controller:
        """Start a replica."""
        log = self.folder / f"replica-{next(self._numbers)}"
        arguments = (
            *(f"lease={self.duration}", "-n", self.tenant.namespace, *more),
            *(() if "--watch-namespaces" in more else self._watched),
        )
        ends = ExitStack()
        one = controller(kubeconfig or self.kubeconfig, log, *arguments, within=self.within)
        running = ends.enter_context(one)
        self.replicas.append(running)
        self._ends[id(running)] = ends
        return running

    def kill(self, running: Controller) -> None:
        """SIGKILL a replica."""
        running.kill()
        self._ended(running)

    def stop(self, running: Controller) -> None:
        """Ask a replica to end."""
        assert running.stop() == 0
        self._ended(running)

    def _ended(self, running: Controller) -> None:
        self.replicas.remove(running)
        self._ends.pop(id(running)).close()

    def leader(self) -> Controller:
        """Wait until one replica leads and the others stand by; return the one."""

        def leaders() -> list[Controller]:
            found = [one for one in self.replicas if leads(one)]
            return found if len(found) == 1 else []

        (found,) = eventually(leaders, lambda: "one leader")
        return found  # type: ignore[no-any-return]

    def lease(self) -> dict[str, Any]:
        """Return the only Lease in the namespace."""
        (found,) = self.tenant.api.get(self.tenant.path("leases", group=LEASES))["items"]
        return dict(found)

    @property
    def _watched(self) -> Sequence[str]:
        return ("--watch-namespaces", self.tenant.namespace)


def leads(running: Controller) -> bool:
    """Return whether a replica says that it leads."""
    return running.metric("applyprune_leader") == 1


def agent(event: dict[str, Any]) -> str:
    """Return the name of the replica that has sent a request; empty if none has."""
    program, _, rest = str(event.get("userAgent", "")).partition(" (")
    return rest.partition(")")[0].rpartition("; ")[2] if program.startswith("applyprune/") else ""


def written(events: list[dict[str, Any]], namespace: str) -> dict[tuple[str, str], list[str]]:
    """Return which replicas have changed each ConfigMap of Bundles, by its name and value.

    A request that leaves the object as it was has its old resourceVersion, and does not count.
    """
    versions: defaultdict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for one in events:
        about, reply = one.get("objectRef", {}), one.get("responseObject") or {}
        if (about.get("resource"), about.get("namespace")) != ("configmaps", namespace):
            continue
        if one["verb"] not in {"create", "patch", "update"} or reply.get("kind") != "ConfigMap":
            continue
        if "dryRun=All" in one["requestURI"]:
            continue
        name, value = reply["metadata"]["name"], (reply.get("data") or {}).get("key")
        if value is not None and agent(one):
            version = int(reply["metadata"]["resourceVersion"])
            versions[name].append((version, value, agent(one)))
    found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for name, states in versions.items():
        seen: set[int] = set()
        for version, value, who in sorted(states, key=itemgetter(0)):
            if version not in seen:
                found[name, value].append(who)
            seen.add(version)
    return found


def check_written_once(events: list[dict[str, Any]], namespace: str) -> None:
    """Assert that each object was changed once for each value, and never back to an older one."""
    found = written(events, namespace)
    assert found
    again = {key: who for key, who in found.items() if len(who) > 1}
    assert again == {}, again
    values: defaultdict[str, list[int]] = defaultdict(list)
    for name, value in found:
        values[name].append(int(value))
    assert all(old < new for seen in values.values() for old, new in pairwise(seen))


def deleted(events: list[dict[str, Any]], namespace: str) -> dict[str, list[str]]:
    """Return which replicas have deleted each ConfigMap, by its UID, with success."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for one in events:
        about = one.get("objectRef", {})
        if (about.get("resource"), about.get("namespace")) != ("configmaps", namespace):
            continue
        if one["verb"] == "delete" and one["responseStatus"]["code"] == 200 and agent(one):
            found[(one.get("responseObject") or {})["details"]["uid"]].append(agent(one))
    return found
