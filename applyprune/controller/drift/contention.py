"""Count how often a field is reverted, and name the managers to which a Bundle gives way.

A field is contended if it was reverted as often as the limit allows, and the same manager has
changed it again. Its object is then left alone until that manager is quiet. The counts are a value
in the Bundle's status, so they survive the process that has counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from applyprune.model.plan_values.field_writer import FieldWriter
from applyprune.model.text.display import time_of
from applyprune.values import dataclass, replace

MOST = 50
"""How many fields are counted at once."""
_PLAUSIBLE = (datetime(2000, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC))
"""No clock is before or after these: whoever may write a status may write any time."""
_GRAIN = 10
"""A later change of a contended field counts as news after this part of the period."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How often a field is reverted in which period before its manager wins."""

    reverts: int
    within: timedelta

    @property
    def grain(self) -> timedelta:
        """Return the precision with which a status records that a fight goes on."""
        return self.within / _GRAIN


@dataclass(frozen=True, slots=True)
class Sighting:
    """A field that a run has reverted, or has left because it is contended."""

    writer: FieldWriter
    is_reverted: bool
    time: datetime | None = None
    """When the manager has changed it, by the server's record; None if unknown."""
    ours: str = ""
    theirs: str = ""
    """Both values, or nothing if they are confidential."""


@dataclass(frozen=True, slots=True)
class Count:
    """How often a field was reverted after the same manager had changed it."""

    writer: FieldWriter
    reverted: tuple[datetime, ...] = ()
    """When, within the period; the oldest first."""
    changed: datetime | None = None
    """When its manager has changed it last, while it is contended; None if it is not."""
    ours: str = ""
    theirs: str = ""

    @property
    def is_contended(self) -> bool:
        """Return whether its object was left alone in the last run."""
        return self.changed is not None

    def quiet_at(self, limits: Limits) -> datetime | None:
        """Return when its manager will have been quiet for the period; None if not contended."""
        return None if self.changed is None else self.changed + limits.within + limits.grain


def to_leave(counts: Iterable[Count], limits: Limits, now: datetime) -> frozenset[FieldWriter]:
    """Return the managers that win if they have changed their fields again."""
    return frozenset(count.writer for count in counts if _wins(count, limits, now))


def counted(
    counts: Sequence[Count],
    sightings: Iterable[Sighting],
    seen: Collection[tuple[str, str]],
    limits: Limits,
    now: datetime,
) -> tuple[Count, ...]:
    """Return the counts after a run, the contended ones first.

    ``seen`` are the objects that it was about, by name and namespace; others keep their counts.
    Of what one manager has changed in one object, one field is counted: a known one, or the first.
    """
    found: defaultdict[tuple[str, str, str], list[Sighting]] = defaultdict(list)
    for one in sightings:
        found[one.writer.object, one.writer.namespace, one.writer.manager].append(one)
    after: list[Count] = []
    known: set[tuple[str, str, str]] = set()
    for count in counts:
        if (count.writer.object, count.writer.namespace) not in seen:
            after.append(count)
            continue
        place = (count.writer.object, count.writer.namespace, count.writer.manager)
        mine = [one for one in found.get(place, ()) if count.writer.covers(one.writer)]
        if mine:
            known.add(place)
        after.append(_after(count, mine[0] if mine else None, limits, now))
    for several in (found[place] for place in sorted(found.keys() - known)):
        first = min(several, key=lambda one: one.writer)
        after.append(_after(Count(first.writer), first, limits, now))
    kept = [count for count in after if count.reverted or count.is_contended]
    # A stable sort: where nothing has changed, neither does the order.
    kept.sort(key=_rank)
    return tuple(kept[:MOST])


def _rank(count: Count) -> tuple[bool, float]:
    last = count.reverted[-1].timestamp() if count.reverted else 0.0
    return not count.is_contended, -last


def _wins(count: Count, limits: Limits, now: datetime) -> bool:
    if (quiet_at := count.quiet_at(limits)) is not None:
        return now < quiet_at  # guard: contended-until-quiet
    return len(_recent(count, limits, now)) >= limits.reverts


def _after(count: Count, seen: Sighting | None, limits: Limits, now: datetime) -> Count:
    recent = _recent(count, limits, now)
    if seen is None:
        # Only a status that says something else is written.
        reverted = count.reverted if recent else ()
        return replace(count, reverted=reverted, changed=None, ours="", theirs="")
    if seen.is_reverted:
        recent = (*recent, now)[-limits.reverts :]
        return Count(count.writer, recent)
    return Count(
        count.writer, count.reverted, _changed(count, seen, limits, now), seen.ours, seen.theirs
    )


def _changed(count: Count, seen: Sighting, limits: Limits, now: datetime) -> datetime:
    """Return when the manager of a contended field has changed it last."""
    if count.changed is None:
        return min(seen.time or now, now)
    if seen.time is None:
        # The server's record has no time for the scale subresource.
        return count.changed if seen.theirs == count.theirs else now
    latest = min(seen.time, now)
    return latest if latest - count.changed >= limits.grain else count.changed


def _recent(count: Count, limits: Limits, now: datetime) -> tuple[datetime, ...]:
    return tuple(time for time in count.reverted if now - time < limits.within)


def read_counts(status: Mapping[str, Any]) -> tuple[Count, ...]:
    """Return the counts in a Bundle's status."""
    return tuple(map(_read, status.get("contention") or ()))


def _read(stored: Mapping[str, Any]) -> Count:
    names = ("object", "namespace", "field", "manager")
    times = (_plausible(text) for text in stored.get("reverted") or ())
    return Count(
        FieldWriter(*(str(stored.get(name, "")) for name in names)),
        tuple(time for time in times if time is not None),
        _plausible(stored.get("changed")),
        str(stored.get("ours", "")),
        str(stored.get("theirs", "")),
    )


def _plausible(text: object) -> datetime | None:
    """Return a time with which can be calculated; None for any other text."""
    time, (first, last) = time_of(text), _PLAUSIBLE
    # guard: forged-time
    return time if time is not None and first < time < last else None


def written_count(count: Count) -> dict[str, Any]:
    """Return a count as a Bundle's status has it."""
    writer = count.writer
    stored = {
        "object": writer.object,
        "namespace": writer.namespace,
        "field": writer.field,
        "manager": writer.manager,
        "reverted": [_text(time) for time in count.reverted],
        "changed": "" if count.changed is None else _text(count.changed),
        "ours": count.ours,
        "theirs": count.theirs,
    }
    return {key: value for key, value in stored.items() if value or key == "object"}


def _text(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
