"""The components of a plane."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlaneSpec:
    """The components beside etcd and the API server; a plane with fewer components starts faster.

    Pods need the controller manager, the scheduler and kwok to run.
    """

    controller_manager: bool = True
    """Without it, namespaces are never removed and nothing is garbage-collected."""
    scheduler: bool = True
    kwok: bool = True
    nodes: int = 1
    """The number of nodes that kwok simulates."""
    audit: bool = False
    """Whether the API server writes an audit log."""


FULL = PlaneSpec(audit=True)
API_SERVER_ONLY = PlaneSpec(controller_manager=False, scheduler=False, kwok=False, nodes=0)
