"""Errors about the other cluster of a Bundle."""

from __future__ import annotations

from applyprune.errors import ApplypruneError
from applyprune.model.problem import ProblemKind


class ClusterUnreached(ApplypruneError):
    """The other cluster of a Bundle does not answer, or refuses the credentials."""

    kind = ProblemKind.UNREACHABLE


class ClusterChanged(ApplypruneError):
    """A Bundle leads to another cluster than the one that has its objects."""

    kind = ProblemKind.INVALID_SPEC


class NamespaceMissing(ApplypruneError):
    """The other cluster of a Bundle lacks the namespace of the inventory."""

    kind = ProblemKind.SOURCE_MISSING


class KubeConfigMissing(ApplypruneError):
    """The Secret with the kubeconfig does not exist, or lacks its key."""

    kind = ProblemKind.SOURCE_MISSING
