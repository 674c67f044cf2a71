"""Select a part of a set, by name or by label: of an input, or of an inventory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.errors import PruneRefused, UsageError
from applyprune.model.identity import Ref
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.live import Absent, KindDeleted, LiveObject
from applyprune.model.options import Mode
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import and_more

if TYPE_CHECKING:
    from applyprune.model.live import State
    from applyprune.model.options import Options
    from applyprune.model.text import Selector
    from applyprune.planning.applyset import ApplySetIdentity

_SHOWN = 5


def chosen(names: Collection[str], entries: Iterable[InventoryEntry]) -> Sequence[InventoryEntry]:
    """Return the entries with the given names; all entries if there are no names."""
    return [entry for entry in entries if not names or entry.ref.is_among(names)]


def selected(
    inventory: Inventory, states: Mapping[Ref, State], options: Options
) -> Sequence[InventoryEntry]:
    """Return the entries that the options select, by name or by the labels of the live objects."""
    entries = chosen(options.select, inventory.entries.values())
    if (selector := options.select_labels) is None:
        return entries
    return [entry for entry in entries if _may_match(states[entry.ref], selector)]


def _may_match(state: State, selector: Selector) -> bool:
    """Return whether an object has these labels, or may have: then it is refused, never deleted.

    What is gone has no labels, so it stays in the inventory.
    """
    if isinstance(state, LiveObject):
        return selector.matches(state.labels)
    return not isinstance(state, Absent | KindDeleted)


def is_applied_part(options: Options, labels: Mapping[str, Any], ref: Ref) -> bool:
    """Return whether the options select a manifest, by its labels or by its name."""
    if options.corrects:
        return ref in options.corrects
    selector, only = options.apply.selector, options.apply.only
    if selector is not None and not selector.matches(labels):
        return False
    return not only or ref.is_among(only)


def unlisted(names: Collection[str], refs: Collection[Ref]) -> Sequence[str]:
    """Return the names that match no object."""
    return sorted(name for name in names if not any(ref.is_among((name,)) for ref in refs))


def selection_text(options: Options) -> str:
    """Return the options that select a part of a set, as on the command line."""
    selectors = (options.apply.selector, options.select_labels)
    names = sorted(options.apply.only | options.select)
    return " ".join(
        (
            *(f"-l {selector.text}" for selector in selectors if selector is not None),
            *(f"--only {name}" for name in names),
        )
    )


def partial_problem(options: Options, picked: Collection[Ref], listed: Collection[Ref]) -> Problem:
    """Return the warning for a run that works on a part of the set: ``picked``."""
    others = len(set(listed) - set(picked))
    objects = "1 other object" if others == 1 else f"{others} other objects"
    does = "does not" if others == 1 else "do not"
    done = "the inventory stays" if options.mode is Mode.DELETE else "nothing is pruned"
    return Problem(
        kind=ProblemKind.PART_OF_THE_SET,
        message=f"{done}: {selection_text(options)} selects only a part of the set",
        reason=f"{objects} in the inventory {does} change" if others else "",
    )


def refuse_unselected(
    options: Options,
    picked: Collection[Ref],
    listed: Collection[Ref],
    applyset: ApplySetIdentity,
) -> None:
    """Refuse an apply of names that the input does not have: a typing error must be visible."""
    if missing := unlisted(options.apply.only, picked):
        left = [name for name in missing if name not in unlisted(missing, listed)]
        delete = " ".join(f"--only {name}" for name in left)
        raise UsageError(
            f"the input has no {' and no '.join(missing)}",
            reason=f"the inventory lists {', '.join(left)}" if left else "",
            hint=f"To delete what has left the input: applyprune delete {applyset.arguments} "
            f"{delete}"
            if left
            else "",
        )


def unmatched(options: Options, listed: Collection[Ref]) -> UsageError:
    """Return the error for a delete that selects nothing: a typing error must be visible."""
    objects = "object" if len(listed) == 1 else "objects"
    return UsageError(
        f"{selection_text(options)} matches none of the {len(listed)} {objects} of the set",
        reason="it is compared with the labels of the live objects",
    )


def refuse_needed(
    entries: Iterable[InventoryEntry], inventory: Inventory, states: Mapping[Ref, State]
) -> None:
    """Refuse to delete a part of a set on which the rest of it depends, by depends-on."""
    going = {entry.ref for entry in entries}
    needed = {
        ref.short: entry.ref.short
        for entry in inventory.entries.values()
        if entry.ref not in going and not isinstance(states[entry.ref], Absent | KindDeleted)
        for ref in entry.depends_on
        if ref in going
    }
    if needed:
        pairs = [f"{other} depends on {one}" for one, other in sorted(needed.items())]
        names = sorted(set(needed.values()))
        raise PruneRefused(
            f"a part of the set was not deleted: {and_more(pairs, _SHOWN)}",
            reason="what stays would lose what it needs",
            hint=f"Select {and_more(names, _SHOWN)} too, or remove the annotation depends-on in an "
            "apply.",
        )
