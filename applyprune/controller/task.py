"""What a reconcile gets and returns: values, because it runs in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping

from applyprune.controller.constants import Condition, Key, Reason
from applyprune.controller.drift.drift_hint import Mark
from applyprune.controller.fetching.fetch_task import SourceRequest, SourceState
from applyprune.controller.known_bundle import KnownBundle
from applyprune.model.holder_observation import HolderObservation
from applyprune.model.identity import Ref
from applyprune.model.resources import Resource
from applyprune.values import dataclass, field, replace

READY = ("True", "False", "Unknown")
"""The statuses of the condition Ready."""


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of the earlier reconciles of one Bundle."""

    failures: int = 0
    """How many reconciles in a row have failed."""
    unreverted: int = 0
    """How many reconciles in a row have failed to set back drift, for a reason that may pass."""
    generation: int | None = None
    """The generation that was tried last."""
    revision: str = ""
    """The revision of the source that was tried last."""
    waiting_since: float | None = None
    """The time since boot at which it began to wait for its objects; None if it does not."""
    looks: int = 0
    """How many reconciles in a row have looked whether its objects are ready."""
    observation: HolderObservation | None = None
    """What was seen of another run that holds the inventory; one reconcile is too short for it."""
    cluster: str = ""
    """The host and port of another cluster that it may use; empty for none."""
    source: SourceState | None = None
    """What was read last of its source on another host; None if nothing was."""

    def has_waited(self, timeout: float, now: float) -> bool:
        """Return whether it began to wait for its objects so many seconds ago."""
        return self.waiting_since is not None and now - self.waiting_since >= timeout

    def looked(self, now: float, *, waited: float = 0.0) -> Past:
        """Return what is known after a look at what is not ready.

        If it is the first one, others have ``waited`` for so many seconds before.
        """
        since = now - waited if self.waiting_since is None else self.waiting_since
        return replace(self, waiting_since=since, looks=self.looks + 1)


@dataclass(frozen=True, slots=True)
class Task:
    """One reconcile to do."""

    key: Key
    past: Past = Past()
    drifted: frozenset[Ref] = frozenset()
    """The objects that may have drifted since the last reconcile; empty for the whole set."""
    known: KnownBundle | None = None
    """The Bundle, if a watch says that it has not changed since it was read."""
    source: SourceState | None = None
    """What is known of its source on another host; None if it has none, or nothing is known."""


@dataclass(frozen=True, slots=True)
class SourceObjects:
    """The objects of a Bundle's source in the cluster, and what it needs of another host."""

    account: str
    """The ServiceAccount that reads them."""
    resources: Mapping[Ref, Resource]
    versions: Mapping[Ref, str]
    """Their resourceVersions; empty for an object that does not exist."""
    remote: SourceRequest | None = None
    """What is needed of another host; None if nothing is."""
    is_known: bool = True
    """Whether that is known; else what was needed before still is."""


@dataclass(frozen=True, slots=True)
class AppliedObjects:
    """Where the objects of a Bundle's set are, after a reconcile."""

    account: str
    """The ServiceAccount that applies them."""
    applyset: str
    """The id of the set, which is the value of their label."""
    manager: str
    """The set's field manager."""
    kinds: frozenset[tuple[Resource, str]]
    """Their resources, each with a namespace."""
    marks: Mapping[Ref, Mark] = field(default_factory=dict)
    """How the reconcile has left each object; another state may be drift."""
    is_part: bool = False
    """Whether the reconcile was about these objects only."""
    waits: bool = False
    """Whether the Bundle waits for them to become ready."""


@dataclass(frozen=True, slots=True)
class BundleSample:
    """What the metrics say about one Bundle."""

    conditions: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The status of each condition."""
    suspended: bool = False
    revision: str = ""
    """The revision that was applied last; empty before the first."""
    applied: int = 0
    failing: int = 0
    pending: bool = False
    seconds: float = 0.0
    """How long the last reconcile took."""
    reverted: int = 0
    """How many fields were set back that others had changed."""

    @property
    def ready(self) -> str:
        """Return the status of the condition Ready."""
        found = self.conditions.get(Condition.READY, "")
        return found if found in READY else "Unknown"


@dataclass(frozen=True, slots=True)
class Measured:
    """What the metrics say of one reconcile."""

    reason: Reason
    sample: BundleSample
    """What they say of the Bundle after it."""
    pruned: int = 0
    refused: bool = False
    """Whether a guard has refused the prune."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one reconcile, for the process that decides when the next one is due."""

    delay: float | None
    """Seconds until the next reconcile; None to wait for a change."""
    past: Past = Past()
    gone: bool = False
    """Whether the Bundle no longer exists."""
    source: SourceObjects | None = None
    """None if the source was not read: what is watched does not change."""
    objects: AppliedObjects | None = None
    """None if nothing was planned: what is watched does not change."""
    lacks_kinds: bool = False
    """Whether it waits for kinds that are not served."""
    waits_for: frozenset[str] | None = None
    """The Bundles of the namespace that it waits for; None if that was not looked at."""
    measured: Measured | None = None
    known: KnownBundle | None = None
    """The Bundle as read; None if it is not ready, or large."""
