"""What passes between the main process and its workers: values, because each is a process.

The main process keeps them and looks at none of a source: so it imports nothing that reads one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct, field

from applyprune.addresses import AddressRules
from applyprune.controller.reasons import ConditionType, Key, Reason
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import HolderObservation
from applyprune.model.live import Resource
from applyprune.model.problem import Problem
from applyprune.planning.ownership import fingerprint_of
from applyprune.values import hiding, replace

if TYPE_CHECKING:
    from applyprune.model.inventory import ApplyFingerprint
    from applyprune.model.live import LiveObject


class ReconcileHistory(Struct, frozen=True):
    """What is known of the earlier reconciles of one Bundle."""

    failures: int = 0
    """How many reconciles in a row have failed."""
    unreverted: int = 0
    """How many reconciles in a row have failed to revert drift, for a reason that may pass."""
    generation: int | None = None
    """The generation that was tried last."""
    revision: str = ""
    """The revision of the source that was tried last."""
    version: str = ""
    """What that source had beyond its revision; empty if no manifest was a Secret."""
    waiting_since: float | None = None
    """The time since boot at which it began to wait for its objects; None if it does not."""
    ready_checks: int = 0
    """How many reconciles in a row have looked whether its objects are ready."""
    observation: HolderObservation | None = None
    """What was seen of another run that holds the inventory; one reconcile is too short for it."""
    cluster: str = ""
    """The host and port of another cluster that it may use; empty for none."""
    source: SourceState | None = None
    """What was read last of its source on another host; None if nothing was."""
    warned: frozenset[str] = frozenset()
    """The warnings of the last reconcile, as ``WarningLog`` has them."""
    was_suspended: bool = False
    resumed: str = ""
    """When it was first seen as resumed, by the API server's clock; empty if it never was.

    What a check has found that began before does not count.
    """
    removed: tuple[tuple[Outcome, int], ...] = ()
    """How many objects earlier looks of its removal have removed, by outcome."""

    def has_waited(self, timeout: float, now: float) -> bool:
        """Return whether it began to wait for its objects so many seconds ago."""
        return self.waiting_since is not None and now - self.waiting_since >= timeout

    def after_ready_check(self, now: float, *, waited: float = 0.0) -> ReconcileHistory:
        """Return what is known after a look at what is not ready.

        If it is the first one, others have ``waited`` for so many seconds before.
        """
        since = now - waited if self.waiting_since is None else self.waiting_since
        return replace(self, waiting_since=since, ready_checks=self.ready_checks + 1)


class Task(Struct, frozen=True):
    key: Key
    history: ReconcileHistory = ReconcileHistory()
    drifted: frozenset[Ref] = frozenset()
    """The objects that may have drifted since the last reconcile; empty for the whole set."""
    source: SourceState | None = None
    """What is known of its source on another host; None if it has none, or nothing is known."""
    unwatched: str | None = None
    """Why not all of its objects are watched, as ``Unwatched``; "" if they are, None if unknown."""
    undecided: tuple[str, ...] | None = None
    """The siblings that may still take what leaves it; None if its siblings are not known."""


class Answer(Struct, frozen=True):
    """The result of one reconcile, for the process that decides when the next one is due."""

    delay: float | None
    """Seconds until the next reconcile; None to wait for a change."""
    history: ReconcileHistory = ReconcileHistory()
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
    sibling: SiblingFacts | None = None
    """What its siblings must know; None if its spec was not read."""
    measured: Measured | None = None


class SiblingFacts(Struct, frozen=True):
    """What the Bundles of the same source and account must know of one after its reconcile."""

    key: str
    """What they have in common; empty if it has no source that others can have."""
    applyset: str
    """The id of its set."""
    takes: bool = False
    """Whether it takes what is offered to it."""
    has_planned: bool = False
    """Whether a plan of the whole set was made."""
    content: str = ""
    """The content of the source that was planned."""
    refused: frozenset[str] = frozenset()
    """The ids of the sets that have objects which the plan could not take."""
    prevented: frozenset[str] = frozenset()
    """The ids of those that give objects which the run did not take: something else was wrong."""
    gives: bool = False
    """Whether siblings may take something, because the run has offered or orphaned it."""

    @property
    def wanted(self) -> frozenset[str]:
        """Return the ids of the sets that have objects of its input."""
        return self.refused | self.prevented


class SourceObjects(Struct, frozen=True):
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


class AppliedObjects(Struct, frozen=True):
    """Where the objects of a Bundle's set are, after a reconcile."""

    account: str
    """The ServiceAccount that applies them."""
    applyset: str
    """The id of the set, which is the value of their label."""
    manager: str
    """The set's field manager."""
    kinds: frozenset[tuple[Resource, str]]
    """Their resources, each with a namespace."""
    marks: Mapping[Ref, SeenState] = field(default_factory=dict)
    """How the reconcile has left each object; another state may be drift."""
    is_part: bool = False
    """Whether the reconcile was about these objects only."""
    waits: bool = False
    """Whether the Bundle waits for them to become ready."""
    unwatched: str = ""
    """What its status says about why not all of them are watched; "" if nothing."""


MOST_WATCHED = 20_000
"""Objects of one Bundle of which drift is seen at once; of more, only the interval shows it."""


class Unwatched(StrEnum):
    """Why drift of a Bundle is only seen at its interval; the value is the word in its status."""

    NONE_FREE = "this replica of the controller has no watch left for some of its objects"
    REFUSED = "its account cannot list and watch some of its objects"
    ELSEWHERE = "nothing is watched in another cluster"
    TOO_MANY = f"it has more than {MOST_WATCHED:,} objects"


NO_DRIFT_THEN = "nothing had drifted at the last reconcile, and only the next one looks again: "
"""What the status says before these words."""


# Whether somebody else may have changed what a set has applied, by the metadata of the object.
#
# It is a hint: the reconcile that follows reads the object and decides. A write of the status alone
# is none where the kind counts generations, and neither is a write of the set itself.


_SHORT = 16


class SeenState(Struct, frozen=True):
    """A state of one object, as far as its metadata shows a change of the set's fields."""

    version: str = ""
    """Its resourceVersion; empty if it is not known."""
    generation: int | None = None
    """None if its kind does not count generations."""
    own: str = ""
    """The digest and the time of the set's Apply entry; empty if it has none."""
    exists: bool = True

    @classmethod
    def of(cls, live: LiveObject, manager: str) -> SeenState:
        """Return the mark of an object for the set with this field manager."""
        found = fingerprint_of(live, manager, None)
        if found is None:
            return cls(live.resource_version, live.generation)
        return cls.applied(found)

    @classmethod
    def applied(cls, fingerprint: ApplyFingerprint) -> SeenState:
        """Return the mark of an object as an apply has left it."""
        own = f"{fingerprint.managed_fields[:_SHORT]} {fingerprint.time}"
        return cls(fingerprint.resource_version, fingerprint.generation, own)


ABSENT = SeenState(exists=False)


def shows_change(known: SeenState, seen: SeenState) -> bool:
    """Return whether somebody else may have changed an object.

    ``known`` is how the last reconcile has left it, and ``seen`` what a watch shows, which may be
    behind.
    """
    if known.version == seen.version or _is_older(seen.version, known.version):
        return False
    if not (known.exists and seen.exists):
        return known.exists or seen.exists
    # The Apply entry shows paths, not values: another value, or another order, may leave it as is.
    is_counted = seen.generation is not None and seen.generation == known.generation
    return not (is_counted and seen.own == known.own)


def _is_older(version: str, than: str) -> bool:
    """Return whether a resourceVersion is older: they are numbers, whatever their size."""
    both = version.isascii() and version.isdecimal() and than.isascii() and than.isdecimal()
    return both and int(version) < int(than)


# Sources on other hosts.


SLOW = 2.0
"""Seconds after which a host counts as silent that has not answered a check."""


class CheckTask(Struct, frozen=True):
    """One check of a source: what its reference means now."""

    remote: bytes
    """A RemoteSource, pickled."""
    timeout: float
    """Seconds for all of it."""
    tip: bytes = b""
    """What the last check has found, pickled; empty before the first."""

    __repr__ = hiding("remote")


class CheckResult(Struct, frozen=True):
    tip: bytes
    """What the reference means now, pickled; that of the task if that has not changed."""
    is_new: bool = False
    """Whether that is, or may be, something else than in the task."""
    problem: Problem | None = None
    """Why the check has failed."""
    address: str = ""
    """An address of the host, if its answer took long, or there was none; empty if not known."""


class FetchTask(Struct, frozen=True):
    """The fetch of what a check has found."""

    remote: bytes
    """A RemoteSource, pickled."""
    place: str
    timeout: float
    """Seconds for all of it."""
    paths: Mapping[str, SourceContent | None]
    """The paths that Bundles need, each with the content that is known of it."""
    tip: bytes
    """What the check has found, pickled."""

    __repr__ = hiding("remote")


class FetchResult(Struct, frozen=True):
    paths: Mapping[str, SourceContent | Problem] = field(default_factory=dict)
    """The new content of each path, or why there is none; a path without news is left out."""
    problem: Problem | None = None
    """Why the fetch has failed, for every path."""


class SourceRequest(Struct, frozen=True):
    """What a Bundle needs of a source on another host."""

    remote: bytes
    """A RemoteSource, pickled."""
    check: str
    """The name of the check of its reference."""
    place: str
    """The name of what is kept of its host."""
    path: str
    """The folder or file in it; empty for the root."""
    interval: float
    """Seconds between two checks of its reference."""
    timeout: float
    """Seconds for one fetch, with its download."""
    asked: str = ""
    """The value of the annotation reconcile-now: a new one asks for a check now."""
    lost: str = ""
    """The artifact that is no longer in the cache; empty for none."""
    beside: frozenset[str] = frozenset()
    """The paths of the Bundles that it depends on, if these are of the same source."""
    older_than: str = ""
    """A check that began later than this is needed, RFC 3339; empty for any."""

    __repr__ = hiding("remote")

    @property
    def paths(self) -> frozenset[str]:
        """Every path whose content it needs to know."""
        return self.beside | {self.path}


class SourceContent(Struct, frozen=True):
    """The content of one path of a source."""

    content: str
    """What changes with the content, and with nothing else."""
    artifact: str
    """Its name in the cache."""
    revision: str
    """The version in which this content was first seen, as in ``status.lastAppliedRevision``."""


class SourceState(Struct, frozen=True):
    """What is known of a Bundle's source at the beginning of a reconcile."""

    check: str
    path: str
    content: SourceContent | None
    """The last content that was completely read and verified; None if none was yet."""
    problem: Problem | None = None
    """Why the last check, or what it has found, cannot be used."""
    unusable: tuple[Problem, ...] = ()
    """What is wrong with a newer content, instead of which this one was read."""
    checked: str = ""
    """When the newest check began that has found this content, by the API server's clock.

    RFC 3339; empty if the server has not told the time.
    """
    handled: str = ""
    """The value of reconcile-now that was known when the newest check began that has ended."""
    is_late: bool = False
    """Whether a check is awaited that begins later than one of another replica."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """The content of other paths that was asked for; empty if it cannot be read."""

    @property
    def news(self) -> tuple[object, ...]:
        """What of it a Bundle must know at once: not that a check has found the same again."""
        content = self.content.content if self.content is not None else None
        known = (self.check, self.path, content, self.problem)
        return *known, self.handled, self.is_late, self.beside


class SourceSettings(Struct, frozen=True):
    """How sources on other hosts are read, and where they are kept."""

    folder: Path
    """The folder of the cache."""
    limit: int
    """Bytes on the disk for the cache."""
    secret: bytes
    """What the names in the cache are made with."""
    addresses: AddressRules = field(default_factory=AddressRules)
    """Which addresses their hosts may have."""
    longest: float = 600.0
    """The most seconds for one fetch, whatever a Bundle says."""

    __repr__ = hiding("secret")


# What the metrics count.


STATUSES = ("True", "False", "Unknown")
"""The statuses of a condition."""
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
CODES = ("2xx", "3xx", "4xx", "5xx", "none")
SUCCESS = "Success"
RESULTS = (
    SUCCESS,
    Reason.FETCH_FAILED,
    Reason.AUTHENTICATION_FAILED,
    Reason.VERIFICATION_FAILED,
    Reason.PATH_NOT_FOUND,
    Reason.SOURCE_TOO_LARGE,
    Reason.INVALID_SOURCE,
)
"""How a check or a fetch of a source can end, in the words of the condition Ready."""


def result_of(problem: Problem | None) -> str:
    """Return the result of a check or a fetch that has ended with this problem, or with none."""
    if problem is None:
        return SUCCESS
    return str(problem.kind) if problem.kind in RESULTS else Reason.INVALID_SOURCE


Counts = Mapping[tuple[str, str], int]
"""How many tries there were, by method and kind of code."""


class Measured(Struct, frozen=True):
    """What the metrics say of one reconcile."""

    reason: Reason
    sample: BundleSample
    """What they say of the Bundle after it."""
    pruned: int = 0
    refused: bool = False
    """Whether a guard has refused the prune."""


class BundleSample(Struct, frozen=True):
    """What the metrics say about one Bundle."""

    conditions: Mapping[str, str] = field(default_factory=dict)
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
    """How many fields were reverted that others had changed."""

    @property
    def ready(self) -> str:
        found = self.conditions.get(ConditionType.READY, "")
        return found if found in STATUSES else "Unknown"


class SentRequests(Struct):
    """Counts the tries of requests; thread-safe."""

    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def traced(self, line: str) -> None:
        """Count one try, from the transport's trace line."""
        for label in request_labels(line):
            with self._lock:
                self._counts[label] += 1

    def take(self) -> Counts:
        with self._lock:
            counts, self._counts = self._counts, Counter()
        return counts


def request_labels(line: str) -> Iterator[tuple[str, str]]:
    """Yield the method and the kind of code of a transport's trace line, if it has them."""
    method, _, rest = line.partition(" ")
    code = f"{rest.partition(' ')[2][:1]}xx"
    if method in METHODS:
        yield method, code if code in CODES else "none"
