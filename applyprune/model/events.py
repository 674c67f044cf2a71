"""The events of a run, its only output, and readiness in the words of kstatus.

A run yields Started, then Planned before any write, an event for each step, and Finished. If the
run as a whole fails, it raises an error instead, which the printer turns into ErrorRaised and
Finished; the printer may add the end of a read-only verb.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct

from applyprune.model.fate import Fate, Outcome
from applyprune.model.fieldset import Drift
from applyprune.model.identity import Ref, SetKey
from applyprune.model.inventory import (
    ApplyFingerprint,
    InventoryEntry,
    Mismatch,
    ObjectsOfOutcome,
    Ownership,
    RunRecord,
)
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import Plan
from applyprune.model.problem import Origin, Problem
from applyprune.model.reports import (
    ArtifactPushed,
    ImportEnded,
    InputChecked,
    ManifestMade,
    OwnerFound,
    VersionReport,
)
from applyprune.values import hiding


class Started(Struct, frozen=True):
    """A run began."""

    run: str
    """The ID of the run, also in the inventory's lock."""
    mode: Mode
    name: str
    namespace: str
    dry_run: DryRun
    context: str = ""
    """The context of the kubeconfig; empty if unknown."""
    server: str = ""
    """The URL of the API server; empty if unknown."""


class Planned(Struct, frozen=True):
    """The plan is complete; nothing of it has been written yet."""

    plan: Plan


class InventoryWritten(Struct, frozen=True):
    """The inventory was written."""

    phase: Phase
    entries: int
    generation: int
    """How often it was written."""


class Phase(StrEnum):
    """Which of its inventory writes a run made."""

    BEFORE_APPLY = "before-apply"
    APPLIED = "applied"
    BEFORE_DELETE = "before-delete"
    FINAL = "final"
    REMOVED = "removed"


class ObjectDone(Struct, frozen=True):
    """An object was processed."""

    ref: Ref
    outcome: Outcome
    origin: Origin | None = None
    """The place of its manifest; None if it is not in the input."""
    reason: str = ""
    """Why this is the outcome, in words; may be empty."""
    problem: Problem | None = None
    """The problem if it failed, or was skipped because of a failure."""
    rewritten: tuple[str, ...] | None = None
    """The fields that the server has stored with another value; None if nothing was sent."""
    fingerprint: ApplyFingerprint | None = None
    """What proves that it is as the server has stored it; None if that is unknown."""


class ReadinessReported(Struct, frozen=True):
    """The wait for an object has ended."""

    ref: Ref
    readiness: Readiness
    elapsed: float
    """Seconds since the wait began."""
    problem: Problem | None = None
    """Why it is not ready; None if it is ready."""


class ObjectStuck(Struct, frozen=True):
    """A problem that can pass holds up an object that a run waits for; once for each problem."""

    ref: Ref
    readiness: Readiness
    elapsed: float
    """Seconds since the wait began."""


class Waiting(Struct, frozen=True):
    """The run waits."""

    ref: Ref | None
    """The object that it waits for; None to wait for ``what`` itself."""
    what: str
    """The state that it waits for: ready, gone, served."""
    elapsed: float
    """Seconds since this wait began."""
    timeout: float
    """Seconds after which it ends."""
    reason: str = ""
    """Why the object is not in that state yet."""
    others: tuple[Pending, ...] = ()
    """The next few objects that it waits for."""
    count: int = 1
    """How many objects it waits for in total."""


class Pending(Struct, frozen=True):
    """An object that a run waits for, and the reason why it is not done."""

    ref: Ref
    reason: str


class RetryReported(Struct, frozen=True):
    """A webhook or the server does not answer, and the run tries again; once for each try."""

    what: str
    """What does not answer, in words."""
    message: str
    """What it does instead of answering, as a sentence."""
    tries: int
    """The number of the present try."""
    elapsed: float
    """Seconds since the first try."""
    reason: str = ""
    """Why the last try failed; empty during the first one."""


class WarningRaised(Struct, frozen=True):
    """A warning, which fails nothing."""

    problem: Problem


class MismatchFound(Struct, frozen=True):
    """A check found a mismatch between the inventory and the cluster."""

    mismatch: Mismatch


class PruneBlocked(Struct, frozen=True):
    """A guard blocked the whole prune; nothing was deleted."""

    problem: Problem


class ObjectDiff(Struct, frozen=True):
    """How an object would change, according to a dry run.

    Both states are safe to print: without the server's own metadata, and with Secret values masked.
    """

    ref: Ref
    fate: Fate
    before: Mapping[str, Any] | None
    """The state before; None if the object would be created."""
    after: Mapping[str, Any] | None
    """The state after; None if the object would be deleted."""
    origin: Origin | None = None
    not_checked: str = ""
    """The checks that the server could not make, in words."""
    drifted: bool | None = False
    """Whether somebody else has changed or deleted it since the last apply; None if unknown."""
    drift: tuple[Drift, ...] = ()
    """The drifted fields that are known."""

    __repr__ = hiding("before", "after")

    def unified(self) -> str:
        """Return the unified diff of both states as YAML, as ``applyprune diff`` shows it."""
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Yield the lines of that diff."""
        from applyprune.model.object_yaml import unified  # noqa: PLC0415 - only for who asks

        name = f"{self.ref.namespace}/{self.ref.short}".lstrip("/")
        return unified(self.before, self.after, name)


class ObjectStatus(Struct, frozen=True):
    """The status of an object of a set."""

    ref: Ref
    readiness: Readiness
    ownership: Ownership
    age: float | None
    """Seconds since its creation; None if unknown."""
    drifted: bool | None = None
    """Whether it has drifted; None if unknown."""
    drift: tuple[Drift, ...] = ()
    """The drifted fields that are known."""
    name: str = ""
    namespace: str = ""
    """The set, with the field before."""
    wave: int = 0
    events: tuple[WarningEvent, ...] = ()
    """The last warnings about it and its Pods, if it is not ready."""
    not_read: str = ""
    """What about its Pods and events could not be read, and why; empty if nothing."""
    logs: tuple[ContainerLog, ...] = ()
    """The last log lines of its failing containers, if they were requested."""
    tree: TreeNode | None = None
    """The object and what it owns, down to Pods, if that was requested."""


class ApplySetListed(Struct, frozen=True):
    """A set in the cluster."""

    name: str
    namespace: str
    objects: int | None = None
    """The number of its objects; None if unknown."""
    ready: int | None = None
    """How many of them are Current; None if that was not requested."""
    last: RunRecord | None = None
    """The last run that wrote the inventory."""
    owner: str = ""
    """The Bundle that owns the set; empty if none."""
    holder: str = ""
    """Who holds the inventory lock; empty if nobody."""
    problem: Problem | None = None
    """Why the set cannot be read; then the other fields are empty."""


class EntryListed(Struct, frozen=True):
    """An entry in the inventory of the set ``name`` in ``namespace``."""

    name: str
    namespace: str
    entry: InventoryEntry


class RunListed(Struct, frozen=True):
    """One of the last runs that changed an object of the set ``name`` in ``namespace``."""

    name: str
    namespace: str
    run: RunRecord
    objects: Mapping[Outcome, ObjectsOfOutcome] | None = None
    """What it has done, by outcome; None if that is not recorded any more."""


class Explanation(Struct, frozen=True):
    """What a run would do with an object, and every fact that decided it, in order."""

    ref: Ref
    verdict: str
    """What a run would do, as a sentence."""
    reasons: tuple[str, ...]
    """The facts that decided it."""
    origin: Origin | None = None
    passed: tuple[str, ...] = ()
    """The guards of a deletion that have passed."""


class ObjectBelongs(Struct, frozen=True):
    """What an object belongs to, and who sets its fields."""

    ref: Ref
    owners: tuple[str, ...]
    """What claims it: ``the set web in namespace shop``, ``the Helm release web``."""
    applied: str = ""
    """When the set has applied it last; RFC 3339, empty if that is unknown."""
    source: str = ""
    """Where that came from: ``deploy/prod @ 3f2a91c``; empty if unknown."""
    managers: tuple[FieldsOfManager, ...] = ()
    """Who else sets fields, the newest first."""
    more: int = 0
    """How many more managers there are."""


class FieldsOfManager(Struct, frozen=True):
    """The fields of an object that one manager sets."""

    who: str
    fields: tuple[str, ...]
    """The first of them: ``.spec.replicas``, ``the label team``."""
    more: int = 0
    """How many more there are."""
    time: str = ""
    """When it last wrote; RFC 3339, empty if the server's record does not say."""


class ErrorRaised(Struct, frozen=True):
    """An error that ended the whole run; each of several input errors is an event."""

    problem: Problem


class SetsBegan(Struct, frozen=True):
    """A command over many sets began: the first event of its stream, outside of all sets."""

    count: int
    """How many sets it runs."""


class SetEvent(Struct, frozen=True):
    """An event of one of the sets of a command; its Finished ends the set, not the command."""

    key: SetKey
    input: str
    """The folder of the file that names the set, as seen from the current one."""
    event: Event


class Finished(Struct, frozen=True):
    """The run has ended."""

    counts: Mapping[Outcome, int]
    """The number of objects with each outcome."""
    exit_code: int
    elapsed: float
    """Seconds since the run began."""
    problem: Problem | None = None
    """Why the run has failed; None if it has not."""


Event: TypeAlias = (
    Started
    | Planned
    | InventoryWritten
    | ObjectDone
    | ReadinessReported
    | ObjectStuck
    | Waiting
    | RetryReported
    | WarningRaised
    | MismatchFound
    | PruneBlocked
    | ObjectDiff
    | ObjectStatus
    | ApplySetListed
    | EntryListed
    | RunListed
    | Explanation
    | ObjectBelongs
    | ArtifactPushed
    | InputChecked
    | ManifestMade
    | ImportEnded
    | OwnerFound
    | VersionReport
    | ErrorRaised
    | SetsBegan
    | SetEvent
    | Finished
)


# Readiness, and what explains it: events, logs, owned objects.


class Readiness(Struct, frozen=True):
    """The readiness of an object."""

    status: Status
    message: str
    """The reason for the status."""
    stuck: bool = False
    """Whether a problem holds it up that can pass, such as a quota; --fail-fast ends a wait."""
    warning: str = ""
    """What is wrong with an object that is ready nevertheless; empty if nothing is."""
    lasting_message: str = ""
    """The message without what changes while the reason stays; empty if the message has no such."""

    @property
    def fact(self) -> str:
        """Return the message without what changes while the reason stays the same."""
        return self.lasting_message or self.message


class Status(StrEnum):
    """The states of kstatus (sigs.k8s.io/cli-utils), and one of ours.

    Only Current and Failed end a wait.
    """

    IN_PROGRESS = "InProgress"
    CURRENT = "Current"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    NOT_FOUND = "NotFound"
    UNKNOWN = "Unknown"
    OTHER_SET = "OtherSet"
    """It exists, and belongs to another set now."""

    @property
    def text(self) -> str:
        """Return the state for text output: ``Ready`` for Current."""
        return "Ready" if self is Status.CURRENT else self.value


def in_progress(message: str) -> Readiness:
    """Return the readiness of an object that is not ready yet."""
    return Readiness(Status.IN_PROGRESS, message)


def stuck(message: str) -> Readiness:
    """Return the readiness of an object that a problem holds up, which can pass."""
    return Readiness(Status.IN_PROGRESS, message, stuck=True)


def current(message: str, *, warning: str = "") -> Readiness:
    """Return the readiness of an object that matches its spec."""
    return Readiness(Status.CURRENT, message, warning=warning)


def failed(message: str) -> Readiness:
    """Return the readiness of an object that will not become ready without a change."""
    return Readiness(Status.FAILED, message)


class WarningEvent(Struct, frozen=True):
    """A Warning event about an object, its ReplicaSets or its Pods; equal ones are counted."""

    about: str
    """The object, as ``kind/name``; the newest one of several."""
    reason: str
    message: str
    count: int
    last: str
    """The time of the newest one, RFC 3339; empty if unknown."""

    @property
    def text(self) -> str:
        """Return ``Reason: message``, and how often it came."""
        times = f" (×{self.count})" if self.count > 1 else ""
        return f"{self.reason}: {self.message}{times}"


class ContainerLog(Struct, frozen=True):
    """The last lines that a container of a Pod has written; control characters are escaped."""

    pod: Ref
    container: str
    previous: bool
    """Whether they are of the instance that ran before the present one."""
    lines: tuple[str, ...] = ()
    problem: str = ""
    """Why there are none: the log is gone, or cannot be read; empty if it was read."""


class TreeNode(Struct, frozen=True):
    """An object and what it owns, by ownerReferences; the columns are those of kubectl."""

    ref: Ref
    ready: str
    """How many of its containers or Pods are ready, ``1/2``; empty if it has none."""
    state: str
    """Its STATUS."""
    restarts: int | None
    """How often its containers were restarted; None if it has none."""
    age: float | None
    """Seconds since its creation; None if unknown."""
    owned: tuple[TreeNode, ...] = ()
    """What it owns."""
