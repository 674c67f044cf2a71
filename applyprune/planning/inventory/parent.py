"""Check that a ConfigMap is this set's own ApplySet parent, by the rules of KEP-3659.

kubectl checks the same: a tool must not change the parent of another tool, nor one whose label or
annotations do not fit it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from applyprune.errors import ForeignParent
from applyprune.model.text import and_more
from applyprune.planning.applyset import (
    GROUP_KINDS,
    SET_ID,
    TOOL,
    TOOLING,
    ApplySetIdentity,
    is_group_kind,
    listed_kinds,
)

if TYPE_CHECKING:
    from applyprune.model.identity import Ref

_SHOWN = 3


def foreign_parent(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    applyset: ApplySetIdentity,
    *,
    has_header: bool,
) -> ForeignParent | None:
    """Return why a ConfigMap is not this set's inventory, and stays as it is; None if it is.

    ``has_header`` says whether it contains an inventory of applyprune.
    """
    tooling = annotations.get(TOOLING)
    if tooling is not None and _tool(tooling) != TOOL:  # guard: other-tools-parent
        return ForeignParent(
            f"{applyset.inventory} is the ApplySet parent of another tool",
            reason=f"its annotation {TOOLING} is {tooling!r}, and a tool must not change the set "
            "of another one",
            hint="Nothing was changed. Choose another name for this set, or remove that ApplySet "
            "with its own tool first.",
        )
    label = labels.get(SET_ID)
    if label != applyset.id:  # guard: other-parent-id
        found = f"it has no label {SET_ID}" if label is None else f"its label {SET_ID} is {label!r}"
        return ForeignParent(
            f"{applyset.inventory} is not this set's inventory",
            reason=f"{found}, and its name and namespace give {applyset.id!r}",
            hint="Nothing was changed. It may be a copy of another set's inventory, or belong to "
            "something else. Choose another name for this set, or delete that ConfigMap.",
        )
    if tooling is None and not has_header:  # guard: nobodys-parent
        return ForeignParent(
            f"{applyset.inventory} is an ApplySet parent of an unknown tool",
            reason=f"it has no annotation {TOOLING}, and contains no inventory of {TOOL}",
            hint="Nothing was changed. Choose another name for this set, or delete that ConfigMap.",
        )
    return None


def parent_faults(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """Return what is wrong with the annotations of our own inventory: a repair writes them again.

    That the specification calls the kinds a hint does not help: they are the second record of what
    the set contains.
    """
    faults = []
    if TOOLING not in annotations:
        faults.append(f"it has no annotation {TOOLING}")
    if GROUP_KINDS not in annotations:
        faults.append(f"it has no annotation {GROUP_KINDS}")
    elif wrong := [name for name in listed_kinds(annotations) if not is_group_kind(name)]:
        named = and_more([repr(name) for name in wrong], _SHOWN)
        faults.append(f"its annotation {GROUP_KINDS} has {named}, and must list KIND.GROUP")
    return tuple(faults)


def kinds_fault(annotations: Mapping[str, str], refs: Collection[Ref]) -> tuple[str, ...]:
    """Return that the annotation lacks kinds of listed objects; empty if it does not.

    An empty annotation is a list that was too long.
    """
    named = set(listed_kinds(annotations))
    lacking = {str(ref.group_kind) for ref in refs} - named if named else set()
    if not lacking:
        return ()
    kinds = and_more(sorted(lacking), _SHOWN)
    return (f"its annotation {GROUP_KINDS} lacks {kinds}, and it lists objects of that kind",)


def _tool(tooling: str) -> str:
    """Return the name in ``NAME/VERSION``; a name may contain slashes."""
    return tooling.rpartition("/")[0] or tooling
