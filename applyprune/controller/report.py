"""Report a reconcile: in the status, as Events and in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from applyprune.cluster.client import KubernetesClient
from applyprune.controller.clients import BundleObjects, request_of, status_of
from applyprune.controller.drift import reverted_fields, reverted_words
from applyprune.controller.reasons import COMPONENT, LOG, RUN, ConditionType, Key, Reason, fields
from applyprune.controller.result import RunResult, problem_message
from applyprune.controller.status import (
    ConditionStatus,
    ReconcileResult,
    condition_of,
    event_state,
    status_after,
)
from applyprune.controller.task import BundleSample, Measured
from applyprune.errors import AlreadyExists, ApplypruneError, Forbidden
from applyprune.model.events import Event, ObjectDone, Planned, WarningRaised
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.live import BUNDLES, EVENTS, NAMESPACES, LiveObject
from applyprune.model.problem import ProblemKind
from applyprune.planning.digests import is_digest
from applyprune.planning.normalize import digest
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from applyprune.controller.spec import BundleSpec
    from applyprune.engine.context import RunRequest

_REVISION = pattern(
    r"(?:[\w.][\w./+-]{0,254}@)?(?:sha1:[0-9a-f]{40}|sha256:[0-9a-f]{32}(?:[0-9a-f]{32})?)"
)


class Reporter(Struct, frozen=True):
    bundles: BundleObjects
    recorder: EventRecorder
    replica: str
    """The name of this replica."""
    unstored: set[str] = field(default_factory=set)
    """The fields of a status that the API server drops: its CRD is older than the controller."""

    def report(
        self,
        live: LiveObject,
        result: ReconcileResult,
        seconds: float,
        bundle: BundleSpec | None = None,
    ) -> Measured:
        """Write the status if it has changed, and report the result everywhere else.

        ``bundle`` is None if its spec is invalid.
        """
        before = status_of(live)
        inventory = None
        if bundle is not None and result.run_result is not None:
            inventory = (bundle.target.inventory.name, bundle.target.id)
        after = partial(
            status_after,
            generation=live.generation or 0,
            now=utc_now(),
            requested=request_of(live),
            inventory=inventory,
            replica=self.replica,
        )
        status, stored = self._written(live, result, after)
        moved = _moved(before, result)
        is_news = event_state(before) != event_state(status)
        key = live.ref.namespace, live.ref.name
        takes_events = self._events(stored or live, result, before, moved, is_news=is_news)
        if takes_events or live.terminating:
            _log_failures(key, result, before, status)
        else:
            # It goes with its namespace: what fails until then is nothing to look at.
            is_news = False
        self._log(key, result, seconds, is_news=is_news)
        return measured(result, seconds, status)

    def _written(
        self, live: LiveObject, result: ReconcileResult, after: Callable[..., dict[str, Any]]
    ) -> tuple[dict[str, Any], LiveObject | None]:
        """Write the status, which says what of it the server does not store; return both."""
        stored: LiveObject | None = live
        status: dict[str, Any] = {}
        for _ in range(_TRIES):
            if stored is None:
                break
            before = status_of(stored)
            status = after(before, result)
            sent = paths_of(status)
            told = self.unstored & sent
            if told:
                status = after(before, with_unstored(result, told))
            stored = self.bundles.write_status(stored, status)
            kept = paths_of(status_of(stored)) if stored is not None else sent
            lost = {path for path in sent - kept if path.rpartition(".")[0] not in sent - kept}
            self.unstored.difference_update(sent)
            self.unstored.update(lost)
            if lost == told:
                break
            if lost:
                LOG.error("status not stored", extra=fields(reason=_OLD_CRD, lacks=sorted(lost)))
        return status, stored

    def _events(
        self,
        live: LiveObject,
        result: ReconcileResult,
        before: Mapping[str, Any],
        moved: str,
        *,
        is_news: bool,
    ) -> bool:
        """Write an Event for a change of the objects, or of the Bundle's state; not for a retry.

        ``moved`` is the change of the revision in words; empty if it has not changed. Returns False
        if the namespace takes none any more, because it is being deleted.
        """
        takes_events = True
        run_result = result.run_result or RunResult()
        run = run_result.run
        if result.ready is ConditionStatus.READY:
            was_ready = condition_of(before, ConditionType.READY).get("status") == "True"
            if run_result.changed or moved or not was_ready:
                message = "; ".join(filter(None, (moved, _summary(result))))
                self.recorder.event(live, EventType.NORMAL, result.reason, message, run)
        elif result.ready is ConditionStatus.NOT_READY and is_news:
            waits = result.reason is Reason.PENDING_APPROVAL
            kind = EventType.NORMAL if waits else EventType.WARNING
            takes_events = self.recorder.event(live, kind, result.reason, _explained(result), run)
        if is_news or run_result.changed:
            for warning in run_result.server_warnings:
                self.recorder.event(live, EventType.WARNING, Reason.SERVER_WARNING, warning, run)
        return takes_events

    def _log(
        self, key: Key, result: ReconcileResult, seconds: float, *, is_news: bool = True
    ) -> None:
        run_result = result.run_result
        counts = (
            {str(outcome): count for outcome, count in run_result.outcomes.items()}
            if run_result
            else {}
        )
        failed = result.ready is ConditionStatus.NOT_READY
        waits = result.reason is Reason.PENDING_APPROVAL
        warns = (failed and not waits) or result.reason is Reason.REMOVAL_INCOMPLETE
        level = logging.WARNING if warns else logging.INFO
        is_quiet = result.ready is ConditionStatus.READY or not is_news
        if is_quiet and not (run_result is not None and run_result.changed):
            level = logging.DEBUG  # nothing has changed, nor has what is wrong
        LOG.log(
            level,
            "bundle reconciled",
            extra=fields(
                namespace=key[0],
                bundle=key[1],
                run=run_result.run if run_result else "",
                reason=str(result.reason),
                detail=_explained(result),
                seconds=round(seconds, 3),
                outcomes=counts or None,
            ),
        )

    def removed(self, key: Key, result: ReconcileResult, seconds: float) -> Measured:
        """Report that a Bundle is gone: it has no status any more."""
        self._log(key, result, seconds)
        return measured(result, seconds, {})

    def changed_cluster(self, live: LiveObject, uid: str) -> None:
        """Report that a Bundle goes on elsewhere, and leaves its objects in a cluster."""
        message = (
            f"it continues in another cluster; what it applied in the cluster {uid} is kept "
            "there, and listed in its inventory there"
        )
        self.recorder.event(live, EventType.WARNING, Reason.CLUSTER_CHANGED, message)


_TRIES = 2
"""The second one says what the first one has not stored."""
_OLD_CRD = "the CRD of Bundles is older than the controller"


def with_unstored(result: ReconcileResult, lost: AbstractSet[str]) -> ReconcileResult:
    """Return a result that says which fields of its status the API server does not store."""
    what = f"{_OLD_CRD}: the API server does not store {', '.join(sorted(lost))}"
    return replace(result, message=f"{result.message}. {what}. Apply the CRD of this version.")


def paths_of(status: Mapping[str, Any], place: str = "status") -> set[str]:
    """Return the fields of a status as ``status.objects.total``; what is in a list is left out."""
    # The server drops a null too.
    found = {f"{place}.{name}" for name, value in status.items() if value is not None}
    for name, value in status.items():
        if isinstance(value, Mapping):
            found |= paths_of(value, f"{place}.{name}")
    return found


_MOST_FAILURES = 10
"""Failed objects that one reconcile logs."""


def _log_failures(
    key: Key, result: ReconcileResult, before: Mapping[str, Any], status: Mapping[str, Any]
) -> None:
    """Log the objects that fail now, or with another message: not each of them at each retry."""
    known = before.get("failing") or ()
    news = [one for one in status.get("failing") or () if one not in known]
    run = result.run_result.run if result.run_result is not None else ""
    for one in news[:_MOST_FAILURES]:
        LOG.warning(
            "object failed",
            extra=fields(
                namespace=key[0],
                bundle=key[1],
                run=run,
                object=one["object"],
                object_namespace=one.get("namespace", ""),
                error=one["message"],
            ),
        )


def _moved(before: Mapping[str, Any], result: ReconcileResult) -> str:
    """Return from which revision to which a Bundle has gone; empty if it has not, or is new."""
    old, new = str(before.get("lastAppliedRevision") or ""), result.revision
    if not old or not new or old == new:
        return ""
    return f"{old} → {new}" if is_revision(old) else new


def _explained(result: ReconcileResult) -> str:
    return ": ".join(part for part in (result.message, result.details) if part)


def _summary(result: ReconcileResult) -> str:
    """Return the message of an Event about a successful reconcile."""
    run_result = result.run_result
    if run_result is None or not run_result.changed:
        return result.message
    return "; ".join(filter(None, (run_result.counts, reverted_words(run_result))))


def measured(result: ReconcileResult, seconds: float, status: Mapping[str, Any]) -> Measured:
    """Return what the metrics say about a reconcile, and about a Bundle with this status."""
    run = result.run_result
    refusal = run.refusal if run is not None else None
    objects = status.get("objects") or {}
    failing = int(objects.get("failing") or 0)
    applied = run.applied if run is not None else None
    if applied is None:
        applied = max(int(objects.get("total") or 0) - failing, 0)
    sample = BundleSample(
        conditions={one["type"]: one["status"] for one in status.get("conditions") or ()},
        suspended=result.reason is Reason.SUSPENDED,
        revision=_revision(status),
        applied=applied,
        failing=failing,
        pending="pendingPlan" in status,
        seconds=seconds,
        reverted=reverted_fields(run) if run is not None else 0,
    )
    return Measured(
        result.reason,
        pruned=run.deleted if run is not None else 0,
        refused=refusal is not None and refusal.kind is ProblemKind.PRUNE_REFUSED,
        sample=sample,
    )


def _revision(status: Mapping[str, Any]) -> str:
    """Return the revision that was applied last; whoever may write a status may write any text."""
    revision = str(status.get("lastAppliedRevision") or "")
    return revision if is_revision(revision) else ""  # guard: forged-revision -> revision


def is_revision(text: str) -> bool:
    """Return whether a text is a revision of a source, as this program writes them."""
    return is_digest(text) or _REVISION.fullmatch(text) is not None


class WarningLog(Struct):
    """Logs what the reconciles of a Bundle warn of; what the last one has said too, as debug."""

    key: Key
    before: frozenset[str] = frozenset()
    now: set[str] = field(default_factory=set)
    """The warnings of this reconcile, as digests."""

    def warn(self, what: str, warning: str, **more: object) -> None:
        """Log a warning; ``what`` is the constant message of the line."""
        mark = digest([what, warning])[:16]
        level = logging.DEBUG if mark in self.before | self.now else logging.WARNING
        self.now.add(mark)
        place = {"namespace": self.key[0], "bundle": self.key[1]}
        LOG.log(level, what, extra=fields(**place, **more, warning=warning))


def log_event(
    warnings: WarningLog, request: RunRequest, run_result: RunResult, event: Event
) -> None:
    """Log what a run has done to one object, and its warnings; the report has what has failed."""
    target = f"{request.applyset.namespace}/{request.applyset.name}"
    if isinstance(event, WarningRaised):
        message = problem_message(event.problem, secret=run_result.secret)
        warnings.warn("warning of a run", message, run=run_result.run, set=target)
    if isinstance(event, Planned):
        for record in event.plan.records:
            warnings.warn("objects of another tool", str(record), run=run_result.run, set=target)
    if isinstance(event, ObjectDone) and event.outcome not in _UNTOLD:
        LOG.info(
            "object processed",
            extra=fields(
                run=run_result.run,
                set=target,
                object=event.ref.short,
                object_namespace=event.ref.namespace,
                outcome=str(event.outcome),
            ),
        )


_UNTOLD = {Outcome.UNCHANGED, Outcome.NOT_PRUNED, Outcome.FAILED, Outcome.SKIPPED}


# Kubernetes Events about Bundles; one that comes again is counted.


_MESSAGE = 1000
_NAME = 230


class EventRecorder(Struct, frozen=True):
    """Writes Events; a failed write is only logged.

    The same message about the same Bundle is one Event with a count. The caller knows whether
    anything has changed.
    """

    client: KubernetesClient

    def event(
        self,
        live: LiveObject,
        event_type: EventType,
        reason: Reason,
        message: str,
        run: str = "",
    ) -> bool:
        """Write an Event about a Bundle; return False if its namespace is being deleted.

        ``run`` is the ID of the run that it is about; an annotation of the Event has it.
        """
        involved = {
            "apiVersion": BUNDLES.gvk.api_version,
            "kind": BUNDLES.kind,
            "namespace": live.ref.namespace,
            "name": live.ref.name,
            "uid": live.uid,
            "resourceVersion": live.resource_version,
        }
        return self._send(live.ref.namespace, involved, event_type, reason, message, run)

    def namespace_event(self, name: str, reason: Reason, message: str) -> None:
        """Write an Event about a terminating namespace to ``default``: it accepts none itself."""
        involved = {"apiVersion": "v1", "kind": NAMESPACES.kind, "name": name}
        self._send("default", involved, EventType.WARNING, reason, message)

    def _send(
        self,
        namespace: str,
        involved: Mapping[str, str],
        event_type: EventType,
        reason: Reason,
        message: str,
        run: str = "",
    ) -> bool:
        message = message if len(message) <= _MESSAGE else f"{message[: _MESSAGE - 1]}…"
        now = utc_now()
        # The same Event has the same name, so this process or the next replica finds the first one.
        mark = digest([involved.get("uid", ""), str(reason), message])[:16]
        name = f"{involved['name'][:_NAME]}.{mark}"
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": EVENTS.kind,
            "metadata": {"name": name, "namespace": namespace, **_annotated(run)},
            "involvedObject": dict(involved),
            "type": str(event_type),
            "reason": str(reason),
            "message": message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
        }
        ref = Ref("", EVENTS.kind, namespace, name)
        try:
            self.client.create(EVENTS, ref, body)
        except AlreadyExists:
            self._count(ref, now, run)
        except ApplypruneError as error:
            causes = error.causes if isinstance(error, Forbidden) else ()
            if any(cause.get("reason") == "NamespaceTerminating" for cause in causes):
                return False
            _log_unwritten(namespace, name, error)
        return True

    def _count(self, ref: Ref, now: str, run: str) -> None:
        try:
            event = self.client.get(EVENTS, ref, full=True)
            count = int((event.body or {}).get("count") or 1)
            again: dict[str, Any] = {"count": count + 1, "lastTimestamp": now}
            if run:
                again["metadata"] = _annotated(run)
            self.client.merge_patch(EVENTS, ref, again)
        except ApplypruneError as error:
            _log_unwritten(ref.namespace, ref.name, error)
        except (TypeError, ValueError):
            return


class EventType(StrEnum):
    NORMAL = "Normal"
    WARNING = "Warning"


def _annotated(run: str) -> dict[str, Any]:
    """Return the annotation that names the run; in the message, each Event would be a new one."""
    return {"annotations": {RUN: run}} if run else {}


def _log_unwritten(namespace: str, name: str, error: ApplypruneError) -> None:
    LOG.warning(
        "event could not be written",
        extra=fields(namespace=namespace, name=name, error=error.message),
    )


def utc_now() -> str:
    """Return the current time in the API's format: RFC 3339, UTC, whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
