"""The drift of a Bundle: its report, and who wins each object that two of them fight for.

What others have changed stays a fact about the objects: with absolute times, and without values of
Secrets. Only where nobody will resolve it otherwise, both values are shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from applyprune.controller.clients import request_of, status_of
from applyprune.controller.reasons import DriftPolicy, Reason
from applyprune.controller.result import shown_field
from applyprune.controller.task import NO_DRIFT_THEN
from applyprune.model.fate import Fate
from applyprune.model.fieldset import ObjectWriter
from applyprune.model.identity import kubectl_name
from applyprune.model.plan import Cause
from applyprune.model.text import and_more, time_of
from applyprune.planning.conflicts import drifted_fields
from applyprune.planning.marks import CONFLICTS
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.controller.result import RunResult
    from applyprune.controller.spec import BundleSpec
    from applyprune.model.fieldset import Drift
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import ApplyStep

DRIFT_SHOWN = 10
_LONGEST_POINTER = 500
"""What is around a field with a longer pointer is counted instead of it."""
FIELDS_SHOWN = 5
_LONGEST_FIELD = 120


def drift_report(
    bundle: BundleSpec,
    counts: Sequence[RevertCount],
    status: Mapping[str, Any],
    run: RunResult | None,
    now: datetime,
    *,
    is_part: bool = False,
    unwatched: str = "",
) -> DriftReport:
    """Return what a reconcile says about drift; ``status`` is the Bundle's, and ``run`` its run.

    With ``is_part``, it was about some of the objects only: what is known of the others stays.
    ``unwatched`` says why drift is only seen at the interval; it is empty if it is seen at once.
    """
    if run is None or run.plan is None:
        return DriftReport(None, tuple(counts))
    refs = [step.desired.ref for step in run.plan.applies]
    seen = {(ref.short, ref.namespace) for ref in refs}
    is_secret = run.secret or bundle.has_secret_source
    found = [
        _DriftedField(bundle, step, drift, step.desired.ref in run.written, is_secret)
        for step in run.plan.applies
        for drift in step.drift
        if not _is_rewriting(step, drift, run)
    ]
    left = [one for one in found if one.is_contended]
    remaining = [one for one in found if not (one.is_reverted or one.is_conflict)]
    limit = bundle.spec.drift.reverts
    sightings = [one.sighting for one in found if one.is_contended or one.is_reverted]
    after = updated_counts(counts, sightings, seen, limit, now)
    rewritten = _rewritten(status, run, None if is_part else seen, is_secret=is_secret)
    contended = and_more(sorted({one.object for one in left}), DRIFT_SHOWN)
    quiet = [count.quiet_at for count in after if count.reverts >= limit]
    condition = _condition(bundle, left, remaining, rewritten, unwatched)
    if condition[1] is Reason.NO_DRIFT and not _is_any_applied(run):
        condition = "Unknown", Reason.PROGRESSING, "nothing has been applied yet"
    fresh = any(run.rewritten.values())
    return DriftReport(
        condition if left or remaining or fresh or not is_part else None,
        after,
        rewritten,
        contended,
        min(quiet, default=None),
    )


class DriftReport(Struct, frozen=True):
    """What a reconcile says about drift; parts that it knows nothing new about are None."""

    condition: tuple[str, Reason, str] | None
    """Status, reason and message of the condition Drifted."""
    counts: tuple[RevertCount, ...]
    rewritten: tuple[dict[str, Any], ...] | None = None
    contended: str = ""
    """Which objects are left alone because they are contended; empty if none is."""
    due: datetime | None = None
    """When the first contended object may be tried again; None if none is contended."""

    @property
    def fields(self) -> dict[str, Any]:
        """Return the fields of a Bundle's status, with an empty value for one to remove."""
        found: dict[str, Any] = {"contention": [count_status(count) for count in self.counts]}
        if self.rewritten is not None:
            found["rewritten"] = list(self.rewritten)
        return found


def _is_any_applied(run: RunResult) -> bool:
    """Return whether anything of a set was applied, by this run or before it, if it has objects."""
    steps = run.plan.applies if run.plan is not None else ()
    known = (Fate.LEAVE, Fate.CHANGE, Fate.RECREATE)
    before = any(step.fate in known or step.drift for step in steps)
    return before or bool(run.written) or not steps


def _is_rewriting(step: ApplyStep, drift: Drift, run: RunResult) -> bool:
    """Return whether a field is only as admission has rewritten it: the write changed nothing."""
    ref = step.desired.ref
    is_sent = bool(run.rewritten.get(ref))
    # guard: rewritten-no-drift -> False
    return is_sent and ref not in run.written and not drift.manager


class _DriftedField(Struct, frozen=True):
    bundle: BundleSpec
    step: ApplyStep
    drift: Drift
    is_reverted: bool
    is_secret: bool
    """Whether a value may come from a Secret: then so may the key of a list's item."""

    @property
    def is_contended(self) -> bool:
        """Return whether it was left because its manager has won."""
        return self.step.cause is Cause.CONTENDED

    @property
    def is_conflict(self) -> bool:
        """Return whether another manager applies the field: then Ready says so, and nobody else."""
        corrects = self.bundle.spec.drift.policy is DriftPolicy.CORRECT
        return corrects and self.drift.operation == "Apply"

    @property
    def object(self) -> str:
        """Return the name of its object, with a namespace that is not the Bundle's."""
        return kubectl_name(self.step.desired.ref, self.bundle.namespace)

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
            who = "removed" if drift.found is None else "no field manager shows"
        return f"{self.object} {_cut(self.field)} ({who})"

    @property
    def sighting(self) -> WriteSighting:
        writer = ObjectWriter.of(self.step.desired.ref, self.drift.manager)
        return WriteSighting(writer, self.is_reverted, time_of(self.drift.time))

    @property
    def fight(self) -> str:
        """Return who fights about a field, the values, and what would end that."""
        drift, ref, most = self.drift, self.step.desired.ref, self.bundle.spec.drift.reverts
        who = drift.manager or "somebody"
        if not drift.path:
            return (
                f"{self.object}: somebody has deleted it again after it was created again "
                f"{most} times. To end this: remove it from the source."
            )
        values = (
            ""
            if self.is_secret
            else f" (ours {drift.wanted or 'none'}, theirs {drift.found or 'none'})"
        )
        kind = f"{ref.kind}.{ref.group}" if ref.group else ref.kind
        return (
            f"{self.object} {_cut(self.field)}: {who} has changed it again after {most} "
            f"reverts{values}. To end this: ignoreFields: [{{kind: {kind}, fields: "
            f"['{self.field}']}}], or the annotation {CONFLICTS}: skip"
        )


def _condition(
    bundle: BundleSpec,
    left: Sequence[_DriftedField],
    drifted: Sequence[_DriftedField],
    rewritten: Sequence[Mapping[str, Any]],
    unwatched: str,
) -> tuple[str, Reason, str]:
    if bundle.spec.drift.policy is DriftPolicy.IGNORE:
        return "Unknown", Reason.DRIFT_IGNORED, "spec.drift.policy is Ignore"
    if left:
        more = f" (and {len(left) - 1} more)" if len(left) > 1 else ""
        return "True", Reason.CONTENDED, left[0].fight + more
    if drifted:
        texts = [one.text for one in drifted]
        return "True", Reason.DRIFT_DETECTED, and_more(texts, DRIFT_SHOWN, "; ")
    if rewritten:
        objects = [f"{one['object']} {', '.join(one['fields'])}" for one in rewritten]
        message = (
            f"the server stores other values than were sent: {and_more(objects, DRIFT_SHOWN, '; ')}"
        )
        return "True", Reason.CHANGED_BY_ADMISSION, message
    if unwatched:  # guard: unwatched-is-unknown never
        return "Unknown", Reason.NOT_WATCHED, f"{NO_DRIFT_THEN}{unwatched}"
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
                _cut(_shown_path(field, is_secret=is_secret)) for field in fields[:FIELDS_SHOWN]
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
    return tuple(both[place] for place in sorted(both))[:DRIFT_SHOWN]


def _shown_path(path: str, *, is_secret: bool) -> str:
    if is_secret:  # guard: secret-source-keys never
        return shown_field(path)
    return path


def _cut(field: str) -> str:
    return field if len(field) <= _LONGEST_FIELD else f"{field[:_LONGEST_FIELD]}…"


def reverted_fields(run: RunResult) -> int:
    """Return how many fields, and deleted objects, a run has reverted that others had changed."""
    plan = run.plan
    return sum(
        drift.operation != "Apply"
        for step in (plan.applies if plan is not None else ())
        if step.desired.ref in run.written
        for drift in step.drift
    )


def reverted_words(run: RunResult) -> str:
    """Return what a run has reverted: ``reverted 2 fields that kubectl-patch had changed``."""
    plan = run.plan
    reverts = [
        revert
        for step in (plan.applies if plan is not None else ())
        if step.desired.ref in run.written
        for revert in step.reverts
    ]
    return f"reverted {drifted_fields(reverts)}" if reverts else ""


# How often an object is reverted, and to which managers a Bundle gives way.
#
# An object is contended if it was reverted as often as the limit allows, and the same manager has
# changed it again. It is then left alone until that manager is quiet. The counts are a value in the
# Bundle's status, so they survive the process that has counted.


QUIET = timedelta(minutes=10)
"""Who has not changed an object for so long begins from zero."""
_GRAIN = timedelta(minutes=1)
"""A later change of a contended object counts as news after this time."""
MOST_COUNTS = 50
"""How many objects and managers are counted at once."""
_PLAUSIBLE = (datetime(2000, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC))
"""No clock is before or after these: whoever may write a status may write any time."""


def counts_before(
    live: LiveObject, revision: str, *, is_new_source: bool = False
) -> tuple[RevertCount, ...]:
    """Return the counts that still hold; ``is_new_source`` says more than the revision does."""
    if is_new_source or is_new_attempt(live, revision):
        return ()
    return read_counts(status_of(live))


def is_new_attempt(live: LiveObject, revision: str) -> bool:
    """Return whether the spec or the source has changed since the last reconcile, or one is asked.

    What was given up before is tried again then.
    """
    status = status_of(live)
    return bool(
        status.get("observedGeneration") != live.generation
        or status.get("lastHandledReconcileAt", "") != request_of(live)
        or (revision and status.get("lastAttemptedRevision") != revision)
    )


class WriteSighting(Struct, frozen=True):
    """An object that a run has reverted, or has left because it is contended."""

    writer: ObjectWriter
    is_reverted: bool
    time: datetime | None = None
    """When the manager has changed it, by the server's record; None if unknown."""


class RevertCount(Struct, frozen=True):
    """How often an object was reverted after the same manager had changed it."""

    writer: ObjectWriter
    reverts: int
    last: datetime
    """When it was reverted last; of a contended object, when its manager has changed it last."""

    @property
    def quiet_at(self) -> datetime:
        """Return when its manager will have been quiet for long enough."""
        return self.last + QUIET + _GRAIN


def winning_writers(
    counts: Iterable[RevertCount], limit: int, now: datetime
) -> frozenset[ObjectWriter]:
    """Return the managers that win if they have changed their objects again."""
    return frozenset(count.writer for count in counts if _wins(count, limit, now))


def updated_counts(
    counts: Sequence[RevertCount],
    sightings: Iterable[WriteSighting],
    seen: Collection[tuple[str, str]],
    limit: int,
    now: datetime,
) -> tuple[RevertCount, ...]:
    """Return the counts after a run, the contended ones first.

    ``seen`` are the objects that it was about, by name and namespace; others keep their counts.
    However many fields a manager has changed in an object, that counts once.
    """
    found: defaultdict[ObjectWriter, list[WriteSighting]] = defaultdict(list)
    for one in sightings:
        found[one.writer].append(one)
    known = {count.writer: count for count in counts}
    after = []
    for writer in dict.fromkeys([*known, *sorted(found)]):
        count = known.get(writer)
        if (writer.object, writer.namespace) in seen:
            count = _after(count, found[writer], limit, now)
        if count is not None:
            after.append(count)
    # A stable sort: where nothing has changed, neither does the order.
    after.sort(key=lambda count: (count.reverts < limit, -count.last.timestamp()))
    return tuple(after[:MOST_COUNTS])


def _wins(count: RevertCount, limit: int, now: datetime) -> bool:
    # guard: contended-until-quiet -> False
    return count.reverts >= limit and now < count.quiet_at


def _after(
    count: RevertCount | None, seen: Sequence[WriteSighting], limit: int, now: datetime
) -> RevertCount | None:
    current = count if count is not None and now < count.quiet_at else None
    if not seen:
        return current
    writer = seen[0].writer
    if any(one.is_reverted for one in seen):
        before = 0 if current is None else current.reverts
        return RevertCount(writer, min(before + 1, limit), now)
    # The server's record has no time for the scale subresource.
    times = [one.time for one in seen if one.time is not None]
    if count is None:
        return RevertCount(writer, limit, min(max(times, default=now), now))
    changed = min(max(times, default=count.last), now)
    return replace(count, last=changed) if changed - count.last >= _GRAIN else count


def read_counts(status: Mapping[str, Any]) -> tuple[RevertCount, ...]:
    return tuple(
        RevertCount(
            ObjectWriter(
                *(str(stored.get(name, "")) for name in ("object", "namespace", "manager"))
            ),
            reverts if isinstance(reverts := stored.get("reverts"), int) else 0,
            last,
        )
        for stored in status.get("contention") or ()
        if (last := _plausible(stored.get("last"))) is not None
    )


def _plausible(text: object) -> datetime | None:
    """Return a time with which can be calculated; None for any other text."""
    time, (first, last) = time_of(text), _PLAUSIBLE
    # guard: forged-time -> time
    return time if time is not None and first < time < last else None


def count_status(count: RevertCount) -> dict[str, Any]:
    writer = count.writer
    stored = {
        "object": writer.object,
        "namespace": writer.namespace,
        "manager": writer.manager,
        "reverts": count.reverts,
        "last": count.last.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return {key: value for key, value in stored.items() if value or key == "object"}
