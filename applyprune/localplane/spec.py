"""What a plane is asked to consist of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlaneSpec:
    """The components beside etcd and the API server; fewer of them start sooner.

    Without ``controller_manager`` namespaces are never gone and nothing is garbage-collected; pods
    need all three to run. ``nodes`` is how many nodes kwok plays; ``audit`` writes an audit log.
    """

    controller_manager: bool = True
    scheduler: bool = True
    kwok: bool = True
    nodes: int = 1
    audit: bool = False


FULL = PlaneSpec(audit=True)
API_SERVER_ONLY = PlaneSpec(controller_manager=False, scheduler=False, kwok=False, nodes=0)
