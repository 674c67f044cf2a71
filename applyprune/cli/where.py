"""Which cluster and namespace one call is about."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Where:
    """What the user said about the cluster; every part may be empty."""

    kubeconfig: str
    context: str
    namespace: str
