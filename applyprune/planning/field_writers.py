"""Who writes the fields of an object besides the set, and what resolves a conflict with them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from shlex import quote
from typing import TYPE_CHECKING

from msgspec import Struct

from applyprune.model.fieldset import to_server
from applyprune.model.kinds import SECRET
from applyprune.model.text import and_more, visible
from applyprune.planning.applyset import MANAGERS
from applyprune.planning.managed_fields import UNKNOWN
from applyprune.planning.marks import CONFLICTS, IGNORE_FIELDS
from applyprune.values import pattern

if TYPE_CHECKING:
    from applyprune.model.live import LiveObject
    from applyprune.model.problem import ManagerConflict

_BELOW = "\n    "
_SHOWN = 3
_KUBERNETES = pattern(
    r"kube-controller-manager|kube-scheduler|kube-apiserver|cloud-controller-manager|kubelet"
)
_BY_HAND = pattern(r"kubectl.*|k9s|Lens|helm|before-first-apply|Mozilla|node-fetch")


def is_kubernetes(manager: str) -> bool:
    return _KUBERNETES.fullmatch(manager) is not None


def writers_since(live: LiveObject, time: str, *, but: str) -> Sequence[str]:
    """Return who has written an object since a time, each with the fields that only writes own.

    ``but`` is a manager to leave out. Times count in seconds, and are those of the server.
    """
    found: dict[str, list[str]] = {}
    for one in live.writers:
        if one.manager in {"", but} or one.subresource == "status" or one.time < time:
            continue
        fields = found.setdefault(visible(one.manager), [])
        if one.operation == "Update" and live.ref.group_kind != SECRET:
            fields += map(to_server, one.fields.leaves())
    return [
        f"{manager} ({and_more(sorted(fields), _SHOWN)})" if fields else manager
        for manager, fields in sorted(found.items())
    ]


def is_by_hand(manager: str) -> bool:
    """Return whether people write with a field manager, by its name."""
    return _BY_HAND.fullmatch(manager) is not None


# What resolves a conflict: the same ways, in the same order, without those that cannot work.


class Contest(Struct, frozen=True):
    """What decides which ways out of a conflict work."""

    owners: Collection[ManagerConflict]
    """The other owners of its fields."""
    fields: tuple[str, ...] = ()
    """The JSON pointers of its fields, if they can be named in an annotation."""
    must_own: bool = False
    """Whether one of its fields cannot be left to others."""
    reverts: bool = False
    """Whether the fields would be reverted as drift."""
    adopts: bool = False
    """Whether no set has the object yet."""
    is_anothers: bool = False
    """Whether another set may list the object, so that force alone does not take it."""
    holds: bool = False
    """Whether the fields hold a part that has left the manifest."""
    is_marked: bool = False
    """Whether the object's own annotation says what to do, and no option changes it."""

    @property
    def is_unrecorded(self) -> bool:
        """Return whether nobody knows who has written the fields."""
        return any(owner.manager == UNKNOWN for owner in self.owners)

    @property
    def tools(self) -> Sequence[str]:
        """Return the managers whose fields can be taken over as a whole.

        They apply the object, or have created what no set has yet.
        """
        return sorted(
            {
                owner.manager
                for owner in self.owners
                if not (owner.manager == UNKNOWN or owner.manager.startswith(MANAGERS))
                and (owner.operation == "Apply" or (self.adopts and _may_have_created(owner)))
            }
        )

    @property
    def ways(self) -> str:
        """Return every way that works, each on a line, by the options of the command line."""
        return "\n  ".join(self._ways())

    @property
    def remedy(self) -> str:
        """Return every way that works for the object of a Bundle, in one line."""
        return f"Ways out: {'; '.join(self._fields_of_a_bundle())}"

    def _ways(self) -> Iterator[str]:
        if self._can_be_ignored:
            yielding = f", or annotate the object:{_BELOW}{IGNORE_FIELDS}: {','.join(self.fields)}"
            out = "To leave it to its owner, remove it from the manifest"
            yield out + (yielding if self.fields else ".")
        yield f"To skip this object while the conflict lasts: {CONFLICTS}: skip"
        if self.reverts:
            option = f"{CONFLICTS}: revert" if self.is_marked else "--conflicts revert"
            yield f"To overwrite their change with the manifest: {option}"
        what = "To remove them with it" if self.holds else "To overwrite"
        yield f"{what}: {self._force('--adopt=all', '--conflicts force')}"
        if tools := self.tools:
            options = " ".join(f"--take-over {quote(name)}" for name in tools)
            what = f"all fields of {' and '.join(tools)}, and remove those that the manifest lacks"
            yield f"To take over {what}:{_BELOW}{options}"
        if self.is_unrecorded:
            yield "If the set was restored from a backup: applyprune inventory repair"

    def _fields_of_a_bundle(self) -> Iterator[str]:
        if self._can_be_ignored:
            yield IGNORE_FIELDS
        yield f"{CONFLICTS}: skip"
        if self.reverts:
            yield f"{CONFLICTS}: revert" if self.is_marked else "spec.drift.policy: Correct"
        yield self._force("spec.adopt: all", "spec.conflicts: force")
        if self.is_unrecorded:
            yield "applyprune inventory repair, if the set was restored from a backup"

    @property
    def _can_be_ignored(self) -> bool:
        return not (self.must_own or self.holds or self.is_unrecorded)

    def _force(self, adopt: str, option: str) -> str:
        """Return what overwrites the fields; ``adopt`` and ``option`` are words of the caller."""
        mark = f"{CONFLICTS}: force"
        if self.is_anothers:
            return f"{adopt} and {mark if self.is_marked else option}"
        return mark if self.is_marked else f"{option}, or annotate {mark}"


def _may_have_created(owner: ManagerConflict) -> bool:
    return not (owner.subresource or is_kubernetes(owner.manager))
