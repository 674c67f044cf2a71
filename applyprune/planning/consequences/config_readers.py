"""Which workloads of the set read a changed ConfigMap or Secret, and which keep the old values.

The kubelet updates the files of a mounted ConfigMap or Secret. It sets an environment variable and
mounts a ``subPath`` only when a container starts. It does not watch an immutable object at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from applyprune.model.identity import GroupKind, Ref
from applyprune.model.live import count, field, mapping
from applyprune.model.plan import Consequence, ConsequenceKind, Desired, Fate
from applyprune.model.text import and_more
from applyprune.planning.consequences.facts import CONFIG_MAP, JOB, SECRET, Change
from applyprune.planning.pod_template import CRON_JOB, Reading, Way, pod_template, readings
from applyprune.values import dataclass

READABLE = frozenset({CONFIG_MAP, SECRET})
_PARTS = ("data", "binaryData")
_SHOWN = 5
# The Pods of a Job run once; the next Job of a CronJob reads the new values.
_RUN_ONCE = frozenset({JOB, CRON_JOB})
_AT_START = (Way.ENVIRONMENT, Way.SUB_PATH)


@dataclass(frozen=True, slots=True)
class Reader:
    """A workload that reads an object, and how."""

    workload: Desired
    reading: Reading


def readers_of(desired: Sequence[Desired]) -> Mapping[Ref, Sequence[Reader]]:
    """Return the readers of each ConfigMap and Secret among the workloads of a set."""
    found: defaultdict[Ref, list[Reader]] = defaultdict(list)
    for member in desired:
        for reading in readings(pod_template(member.ref.group_kind, member.body)):
            kind = GroupKind("", reading.kind)
            if kind in READABLE:
                ref = Ref("", reading.kind, member.ref.namespace, reading.name)
                found[ref].append(Reader(member, reading))
    return found


def may_change_values(change: Change) -> bool:
    """Return whether a live ConfigMap or Secret may get other values."""
    return change.kind in READABLE and (change.is_changed or change.fate is Fate.RECREATE)


def read_values(
    change: Change, readers: Mapping[Ref, Sequence[Reader]], restarting: Collection[Ref]
) -> Iterator[Consequence]:
    """Yield who reads the values that ``may_change_values``, and who keeps the old ones.

    ``restarting`` are the workloads whose Pods all start after the change anyway.
    """
    if change.before is None:
        return
    keys = _changed_keys(change)
    ways: dict[Ref, set[Way]] = {}
    workloads: dict[Ref, Desired] = {}
    for reader in readers.get(change.ref, ()):
        read = reader.reading.keys
        if keys and (read is None or read & keys):
            ways.setdefault(reader.workload.ref, set()).add(reader.reading.way)
            workloads[reader.workload.ref] = reader.workload
    if not ways:
        return
    refs = tuple(sorted(ways))
    names = and_more([ref.short for ref in refs], _SHOWN)
    word = "read by" if change.certain else "may change; read by"
    yield Consequence(
        ConsequenceKind.READ_BY,
        change.ref,
        f"{word} {names}",
        len(refs),
        refs,
        certain=change.certain,
    )
    stale = {
        ref: ", ".join(how)
        for ref in refs
        if ref not in restarting
        and _keeps_running(workloads[ref])
        and (how := _stale_ways(change, ways[ref]))
    }
    if stale:
        yield _old_value(change, stale)


def _old_value(change: Change, stale: Mapping[Ref, str]) -> Consequence:
    names = and_more([f"{ref.short} ({how})" for ref, how in stale.items()], _SHOWN)
    pronoun, verb = ("its", "keeps") if len(stale) == 1 else ("their", "keep")
    if not change.certain:
        verb = "may keep"
    return Consequence(
        ConsequenceKind.OLD_VALUE,
        change.ref,
        f"{names} {verb} the old values until {pronoun} Pods restart",
        len(stale),
        tuple(stale),
        certain=change.certain,
    )


def _changed_keys(change: Change) -> frozenset[str]:
    """Return the keys whose values change, or may change; of a Secret only whether they differ."""
    before = change.before or {}
    after = change.after
    if after is None and change.fate is Fate.RECREATE and change.desired is not None:
        after = change.desired.body
    keys: set[str] = set()
    for part in _PARTS:
        old = mapping(before.get(part))
        if after is not None:
            new = mapping(after.get(part))
            keys |= {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
        elif change.desired is not None:
            new = mapping(change.desired.body.get(part))
            keys |= {key for key, value in new.items() if old.get(key) != value}
            keys |= {str(path[1]) for path in change.removed(part) if len(path) > 1}
    return frozenset(keys)


def _keeps_running(workload: Desired) -> bool:
    if workload.ref.group_kind in _RUN_ONCE:
        return False
    return count(workload.body, "spec", "replicas", default=1) > 0


def _stale_ways(change: Change, ways: Collection[Way]) -> Sequence[str]:
    found = [str(way) for way in _AT_START if way in ways]
    is_replaced = change.fate is Fate.RECREATE and field(change.before or {}, "immutable") is True
    if is_replaced and Way.VOLUME in ways:
        found.append("immutable volume")
    return found
