"""Report the drift of a run in the condition Drifted and in the status.

What others have changed stays a fact about the objects: with absolute times, and without values of
Secrets. Only where nobody will resolve it otherwise, both values are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from applyprune.controller.bundle_client import status_of
from applyprune.controller.constants import DriftPolicy, Reason
from applyprune.controller.drift.contention import (
    Count,
    Limits,
    Sighting,
    counted,
    read_counts,
    written_count,
)
from applyprune.controller.secret_source import shown_field
from applyprune.model.identity import called
from applyprune.model.plan_values.field_writer import FieldWriter
from applyprune.model.text.display import and_more, time_of
from applyprune.planning.adoption.left_alone import CONTENDED
from applyprune.planning.annotations import CONFLICTS, RECONCILE_NOW
from applyprune.planning.ownership.shared_fields import drifted_fields
from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.controller.bundle import Bundle
    from applyprune.controller.result import RunResult
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import ApplyStep
    from applyprune.model.plan_values.drifted_field import Drift

SHOWN = 10
_FIELDS_SHOWN = 5
_LONGEST_FIELD = 120
_LONGEST_POINTER = 500
"""What is around a field with a longer pointer is counted instead of it."""


@dataclass(frozen=True, slots=True)
class DriftReport:
    """What a reconcile says about drift; parts that it knows nothing new about are None."""

    condition: tuple[str, Reason, str] | None
    """Status, reason and message of the condition Drifted."""
    counts: tuple[Count, ...]
    rewritten: tuple[dict[str, Any], ...] | None = None
    contended: str = ""
    """Which objects are left alone because they are contended; empty if none is."""
    due: datetime | None = None
    """When the first contended object may be tried again; None if none is contended."""

    @property
    def fields(self) -> dict[str, Any]:
        """Return the fields of a Bundle's status, with an empty value for one to remove."""
        found: dict[str, Any] = {"contention": [written_count(count) for count in self.counts]}
        if self.rewritten is not None:
            found["rewritten"] = list(self.rewritten)
        return found


def limits_of(bundle: Bundle) -> Limits:
    """Return how often this Bundle reverts a field in which period."""
    contention = bundle.spec.drift.contention
    return Limits(contention.reverts, timedelta(seconds=contention.within))


def begins_anew(live: LiveObject, revision: str) -> bool:
    """Return whether the spec or the source has changed since the last reconcile, or one is asked.

    What was given up before is tried again then.
    """
    status = status_of(live)
    requested = live.annotations.get(RECONCILE_NOW, "")
    return bool(
        status.get("observedGeneration") != live.generation
        or status.get("lastHandledReconcileAt", "") != requested
        or (revision and status.get("lastAttemptedRevision") != revision)
    )


def counts_before(live: LiveObject, revision: str) -> tuple[Count, ...]:
    """Return the counts of a Bundle at the beginning of a reconcile."""
    if begins_anew(live, revision):
        return ()
    return read_counts(status_of(live))


def drift_report(
    bundle: Bundle,
    counts: Sequence[Count],
    status: Mapping[str, Any],
    run: RunResult | None,
    now: datetime,
    *,
    is_part: bool = False,
) -> DriftReport:
    """Return what a reconcile says about drift; ``status`` is the Bundle's, and ``run`` its run.

    With ``is_part``, it was about some of the objects only: what is known of the others stays.
    """
    if run is None or run.plan is None:
        return DriftReport(None, tuple(counts))
    limits = limits_of(bundle)
    refs = [step.desired.ref for step in run.plan.applies]
    seen = {(ref.short, ref.namespace) for ref in refs}
    is_secret = run.secret or bundle.has_secret_source
    found = [
        _Found(bundle, step, drift, step.desired.ref in run.written, is_secret)
        for step in run.plan.applies
        for drift in step.drift
        if not _is_rewriting(step, drift, run)
    ]
    left = [one for one in found if one.is_contended]
    remaining = [one for one in found if not (one.is_reverted or one.is_conflict)]
    sightings = [one.sighting for one in found if one.is_contended or one.is_reverted]
    after = counted(counts, sightings, seen, limits, now)
    rewritten = _rewritten(status, run, None if is_part else seen, is_secret=is_secret)
    contended = and_more(sorted({one.object for one in left}), SHOWN)
    quiet = [at for count in after if (at := count.quiet_at(limits)) is not None]
    condition = _condition(bundle, left, remaining, rewritten, limits)
    fresh = any(run.rewritten.values())
    return DriftReport(
        condition if left or remaining or fresh or not is_part else None,
        after,
        rewritten,
        contended,
        min(quiet, default=None),
    )


def _is_rewriting(step: ApplyStep, drift: Drift, run: RunResult) -> bool:
    """Return whether a field is only as admission has rewritten it: the write changed nothing."""
    ref = step.desired.ref
    is_sent = bool(run.rewritten.get(ref))
    return is_sent and ref not in run.written and not drift.manager  # guard: rewritten-no-drift


@dataclass(frozen=True, slots=True)
class _Found:
    """One drifted field of a run."""

    bundle: Bundle
    step: ApplyStep
    drift: Drift
    is_reverted: bool
    is_secret: bool
    """Whether a value may come from a Secret: then so may the key of a list's item."""

    @property
    def is_contended(self) -> bool:
        """Return whether it was left because its manager has won."""
        return self.step.keeps_drift and self.step.reason == CONTENDED

    @property
    def is_conflict(self) -> bool:
        """Return whether another manager applies the field: then Ready says so, and nobody else."""
        corrects = self.bundle.spec.drift.policy is DriftPolicy.CORRECT
        return corrects and self.drift.operation == "Apply"

    @property
    def object(self) -> str:
        """Return the name of its object, with a namespace that is not the Bundle's."""
        return called(self.step.desired.ref, self.bundle.namespace)

    @property
    def field(self) -> str:
        """Return its path; the key of an item is a value too."""
        path = _shown_path(self.drift.path, is_secret=self.is_secret)
        while len(path) > _LONGEST_POINTER:
            path = path.rpartition("/")[0]
        return path

    @property
    def text(self) -> str:
        """Return the field, who has changed it, and when."""
        drift = self.drift
        if not drift.path:
            return f"{self.object} was deleted"
        who = " ".join(part for part in (drift.manager, drift.time) if part)
        if not who:
            who = "removed" if drift.found == "none" else "no field manager shows"
        return f"{self.object} {_cut(self.field)} ({who})"

    @property
    def sighting(self) -> Sighting:
        """Return it as the counts need it."""
        drift = self.drift
        values = ("", "") if self.is_secret else (drift.wanted, drift.found)
        writer = FieldWriter.of(self.step.desired.ref, self.field, drift.manager)
        return Sighting(writer, self.is_reverted, time_of(drift.time), *values)

    def fight(self, limits: Limits) -> str:
        """Return who fights about a field, the values, and what would end that."""
        drift, ref = self.drift, self.step.desired.ref
        who = drift.manager or "somebody"
        if not drift.path:
            return (
                f"{self.object}: somebody has deleted it again after it was created again "
                f"{limits.reverts} times. To end this: remove it from the source."
            )
        values = "" if self.is_secret else f" (ours {drift.wanted}, theirs {drift.found})"
        kind = f"{ref.kind}.{ref.group}" if ref.group else ref.kind
        return (
            f"{self.object} {_cut(self.field)}: {who} has changed it again after {limits.reverts} "
            f"reverts{values}. To end this: ignoreFields: [{{kind: {kind}, fields: "
            f"['{self.field}']}}], or the annotation {CONFLICTS}: skip"
        )


def _condition(
    bundle: Bundle,
    left: Sequence[_Found],
    drifted: Sequence[_Found],
    rewritten: Sequence[Mapping[str, Any]],
    limits: Limits,
) -> tuple[str, Reason, str]:
    if bundle.spec.drift.policy is DriftPolicy.IGNORE:
        return "Unknown", Reason.DRIFT_IGNORED, "spec.drift.policy is Ignore"
    if left:
        more = f" (and {len(left) - 1} more)" if len(left) > 1 else ""
        return "True", Reason.CONTENDED, left[0].fight(limits) + more
    if drifted:
        texts = [one.text for one in drifted]
        return "True", Reason.DRIFT_DETECTED, and_more(texts, SHOWN, "; ")
    if rewritten:
        objects = [f"{one['object']} {', '.join(one['fields'])}" for one in rewritten]
        message = f"the server stores other values than were sent: {and_more(objects, SHOWN, '; ')}"
        return "True", Reason.CHANGED_BY_ADMISSION, message
    return "False", Reason.NO_DRIFT, "nothing has drifted"


def _rewritten(
    status: Mapping[str, Any],
    run: RunResult,
    listed: Collection[tuple[str, str]] | None,
    *,
    is_secret: bool,
) -> tuple[dict[str, Any], ...]:
    """Return the objects that admission has rewritten: of this run, and the known ones.

    ``listed`` are the objects of the source; None if they are not all known.
    """
    sent = {(ref.short, ref.namespace): fields for ref, fields in run.rewritten.items()}
    fresh = {
        place: {
            "object": place[0],
            **({"namespace": place[1]} if place[1] else {}),
            "fields": [
                _cut(_shown_path(field, is_secret=is_secret)) for field in fields[:_FIELDS_SHOWN]
            ],
        }
        for place, fields in sorted(sent.items())
        if fields
    }
    known = {
        (str(one["object"]), str(one.get("namespace", ""))): one
        for one in status.get("rewritten") or ()
    }
    kept = {
        place: one
        for place, one in known.items()
        if place not in sent and (listed is None or place in listed)
    }
    both = {**kept, **fresh}
    return tuple(both[place] for place in sorted(both))[:SHOWN]


def reverted_fields(run: RunResult) -> int:
    """Return how many fields, and deleted objects, a run has set back that others had changed."""
    plan = run.plan
    return sum(
        drift.operation != "Apply"
        for step in (plan.applies if plan is not None else ())
        if step.desired.ref in run.written
        for drift in step.drift
    )


def reverted_words(run: RunResult) -> str:
    """Return what a run has set back: ``reverted 2 fields that kubectl-patch had changed``."""
    plan = run.plan
    reverts = [
        revert
        for step in (plan.applies if plan is not None else ())
        if step.desired.ref in run.written
        for revert in step.reverts
    ]
    return f"reverted {drifted_fields(reverts)}" if reverts else ""


def _shown_path(path: str, *, is_secret: bool) -> str:
    if is_secret:  # guard: secret-source-keys
        return shown_field(path)
    return path


def _cut(field: str) -> str:
    return field if len(field) <= _LONGEST_FIELD else f"{field[:_LONGEST_FIELD]}…"
