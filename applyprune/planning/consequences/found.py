"""Work out all consequences of a plan, in the order of its objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from applyprune.model.identity import Ref
from applyprune.model.plan import Consequence, Fate
from applyprune.planning.consequences.config_readers import (
    may_change_values,
    read_values,
    readers_of,
)
from applyprune.planning.consequences.facts import Change, Facts
from applyprune.planning.consequences.kept_fields import kept_fields
from applyprune.planning.consequences.owners import cascades
from applyprune.planning.consequences.rollouts import replaces_all, rollout
from applyprune.planning.consequences.selectors import no_pods
from applyprune.planning.consequences.stored_versions import stored_versions
from applyprune.planning.consequences.volumes import volumes


def consequences(facts: Facts) -> tuple[Consequence, ...]:
    """Return what a plan causes, as far as the facts show it; nothing else is said."""
    if not facts.has_changes:
        return ()
    found: defaultdict[Ref, list[Consequence]] = defaultdict(list)
    restarting = {change.ref for change in facts.changes if change.fate is Fate.CREATE}
    for change in facts.changes:
        for caused in rollout(change, facts.propagation):
            found[change.ref].append(caused)
            if replaces_all(change, caused):
                restarting.add(change.ref)
    changed = [change for change in facts.changes if may_change_values(change)]
    readers = readers_of(facts.wanted) if changed else {}
    for change in changed:
        found[change.ref] += read_values(change, readers, restarting)
    for caused in no_pods(facts):
        found[caused.ref].append(caused)
    for change in facts.changes:
        found[change.ref] += _deletions(change, facts)
        found[change.ref] += stored_versions(change)
        found[change.ref] += kept_fields(change)
    return tuple(
        caused
        for ref in dict.fromkeys(change.ref for change in facts.changes)
        for caused in found[ref]
    )


def _deletions(change: Change, facts: Facts) -> Iterator[Consequence]:
    yield from cascades(change, facts)
    yield from volumes(change, facts)
