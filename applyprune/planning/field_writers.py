"""Who writes the fields of an object besides the set, and what resolves a conflict with them.

A field manager has only a name. What kind of writer it is, by that name and by how it writes,
decides which way out of a conflict is named first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from shlex import quote
from typing import TYPE_CHECKING

from applyprune.model.fieldset import to_server
from applyprune.model.kinds import SECRET
from applyprune.model.text import and_more, visible
from applyprune.planning.applyset import MANAGERS
from applyprune.planning.managed_fields import UNKNOWN
from applyprune.planning.marks import CONFLICTS, IGNORE_FIELDS
from applyprune.values import dataclass, pattern

if TYPE_CHECKING:
    from applyprune.model.live import LiveObject
    from applyprune.model.problem import ManagerConflict

_BELOW = "\n    "
_SHOWN = 3
_KUBERNETES = pattern(
    r"kube-controller-manager|kube-scheduler|kube-apiserver|cloud-controller-manager|kubelet"
)
_KNOWN: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (pattern(text), words)
    for text, words in (
        (_KUBERNETES.pattern, "Kubernetes"),
        (r"vpa-.*|recommender|updater", "the vertical Pod autoscaler"),
        (r"keda.*", "KEDA"),
        (r"(cert-manager-)?cainjector", "cert-manager"),
        (r"pilot-discovery|istio.*", "Istio"),
        (r"argocd.*", "Argo CD"),
        (r"kustomize-controller|helm-controller", "Flux"),
        (r".*(webhook|injector).*", "a webhook by its name"),
        (r".*(controller|operator).*", "a controller by its name"),
    )
)
_BY_HAND = pattern(r"kubectl.*|k9s|Lens|helm|before-first-apply|Mozilla|node-fetch")


def is_kubernetes(manager: str) -> bool:
    return _KUBERNETES.fullmatch(manager) is not None


def note_on(manager: str) -> str:
    """Return what its name says about a field manager; empty if nothing."""
    if manager == UNKNOWN:
        return "the object's managedFields were cleared, or it never had any"
    if manager.startswith(MANAGERS):
        return "another applyprune set, which applies it in each of its runs"
    if is_by_hand(manager):
        return "edited by hand (kubectl); no controller owns it"
    for name, words in _KNOWN:
        if name.fullmatch(manager):
            return f"{words}: it may rewrite the field"
    return ""


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


# What resolves a conflict: one way is named first, by who has written the fields.


class Way(Enum):
    """A way to resolve a conflict; if several fit, the first is named."""

    REVERT = "revert"
    LEAVE = "leave"
    SKIP = "skip"
    RELEASE = "release"
    FORCE = "force"
    TAKE_OVER = "take over"
    ADOPT = "adopt"
    REPAIR = "repair"


class WriterKind(Enum):
    """A kind of field manager: whether it writes again decides what helps."""

    PERSON = "person"
    CONTROLLER = "controller"
    APPLIER = "applier"
    SET = "set"
    UNKNOWN = "unknown"
    PROGRAM = "program"


_FITTING: Mapping[WriterKind, frozenset[Way]] = {
    WriterKind.PERSON: frozenset({Way.REVERT, Way.FORCE}),
    WriterKind.CONTROLLER: frozenset({Way.LEAVE}),
    WriterKind.APPLIER: frozenset({Way.TAKE_OVER}),
    WriterKind.SET: frozenset({Way.ADOPT}),
    WriterKind.UNKNOWN: frozenset({Way.FORCE}),
    WriterKind.PROGRAM: frozenset({Way.REVERT, Way.LEAVE}),
}
# If nothing fits all writers: these overwrite nothing.
_ANYWAY = (Way.LEAVE, Way.SKIP)
# The options of the command line, and the fields of a Bundle.
_OPTIONS: Mapping[Way, tuple[str, str]] = {
    Way.REVERT: ("--conflicts revert", "spec.drift.policy: Correct"),
    Way.FORCE: ("--conflicts force", "spec.conflicts: force"),
    Way.RELEASE: ("--conflicts force", "spec.conflicts: force"),
    Way.TAKE_OVER: ("--take-over", ""),
    Way.ADOPT: ("--adopt=all --conflicts force", "spec.adopt: all and spec.conflicts: force"),
}
# Of an object whose annotation asks for something else, whatever they say.
_MARKED: Mapping[Way, tuple[str, str]] = {
    Way.REVERT: (f"{CONFLICTS}: revert",) * 2,
    Way.FORCE: (f"{CONFLICTS}: force",) * 2,
    Way.RELEASE: (f"{CONFLICTS}: force",) * 2,
    Way.TAKE_OVER: _OPTIONS[Way.TAKE_OVER],
    Way.ADOPT: (f"--adopt=all and {CONFLICTS}: force", f"spec.adopt: all and {CONFLICTS}: force"),
}
_APPLIERS = pattern(r"helm|argocd.*|kustomize-controller|helm-controller|terraform.*|pulumi.*")


def writer_of(owner: ManagerConflict, *, adopts: bool = False) -> WriterKind:
    """Return what kind of writer owns a field.

    ``adopts`` says that no set has the object yet: then whoever has created it, unless it is
    a controller, may leave.
    """
    manager = owner.manager
    if manager == UNKNOWN:
        return WriterKind.UNKNOWN
    if manager.startswith(MANAGERS):
        return WriterKind.SET
    if owner.operation == "Apply" or _APPLIERS.fullmatch(manager):
        return WriterKind.APPLIER
    if any(name.fullmatch(manager) for name, _ in _KNOWN):
        return WriterKind.CONTROLLER
    if adopts and not owner.subresource:
        return WriterKind.APPLIER
    return WriterKind.PERSON if is_by_hand(manager) else WriterKind.PROGRAM


@dataclass(frozen=True, slots=True)
class Contest:
    """What decides how a conflict can be resolved."""

    owners: tuple[ManagerConflict, ...]
    """The other owners of its fields."""
    fields: tuple[str, ...] = ()
    """The JSON pointers of those fields that can be left to others."""
    leaves_all: bool = False
    """Whether these are all of its fields, and few enough to name them."""
    must_own: bool = False
    """Whether none of its fields can be left to others."""
    adopts: bool = False
    """Whether no set has the object yet."""
    reverts: bool = False
    """Whether the fields would be reverted as drift."""
    is_scaled: bool = False
    """Whether an autoscaler writes them, or may."""
    is_over: bool = False
    """Whether they were written by an autoscaler that is gone."""
    holds: bool = False
    """Whether the fields hold a part that has left the manifest."""
    is_marked: bool = False
    """Whether the object's own annotation says what to do, and no option changes it."""

    @property
    def writers(self) -> set[WriterKind]:
        if self.is_scaled:
            return {WriterKind.CONTROLLER}
        if self.is_over:
            return {WriterKind.PERSON}  # nobody writes them again
        return {writer_of(owner, adopts=self.adopts) for owner in self.owners}

    @property
    def tools(self) -> tuple[str, ...]:
        """Return the managers whose fields can be taken over as a whole."""
        found = {
            owner.manager
            for owner in self.owners
            if writer_of(owner, adopts=self.adopts) is WriterKind.APPLIER
        }
        return tuple(sorted(found))

    @property
    def possible(self) -> tuple[Way, ...]:
        """Return every way that would resolve it, or a part of it."""
        if self.writers == {WriterKind.UNKNOWN}:
            return Way.FORCE, Way.REPAIR
        if self.holds:
            return Way.RELEASE, Way.SKIP, *([Way.TAKE_OVER] if self.tools else [])
        conditions = {
            Way.REVERT: self.reverts,
            Way.LEAVE: not self.must_own,
            Way.SKIP: True,
            Way.FORCE: True,
            Way.TAKE_OVER: bool(self.tools),
            Way.ADOPT: any(owner.manager.startswith(MANAGERS) for owner in self.owners),
        }
        return tuple(way for way, holds in conditions.items() if holds)

    @property
    def ways(self) -> tuple[Way, ...]:
        """Return what resolves it: the one that fits first, then the others."""
        writers, possible = self.writers, self.possible
        if self.holds:
            return possible
        fitting = (way for way in Way if all(way in _FITTING[writer] for writer in writers))
        first = next(
            way
            for way in (*fitting, *_ANYWAY)
            if way in possible and (way is not Way.LEAVE or self.leaves_all)
        )
        return first, *(way for way in possible if way is not first)

    def words(self, way: Way, *, of_bundle: bool = False) -> str:
        """Return a way as a sentence; ``of_bundle`` names the field of a Bundle."""
        if of_bundle and way is Way.TAKE_OVER:
            way = Way.FORCE  # a Bundle has no field for a manager
        option = (_MARKED if self.is_marked else _OPTIONS).get(way, ("", ""))[of_bundle]
        names = " and ".join(self.tools)
        if way is Way.TAKE_OVER:
            option = " ".join(f"{option} {quote(name)}" for name in self.tools)
        yielding = (
            f", or annotate the object:{' ' if of_bundle else _BELOW}{IGNORE_FIELDS}: "
            f"{','.join(self.fields)}"
        )
        alone = "" if self.is_marked else f", or only for this object {CONFLICTS}: force"
        return {
            Way.REVERT: f"To overwrite their change with the manifest: {option}",
            Way.LEAVE: "To leave it to its owner, remove it from the manifest"
            + (yielding if self.fields else "."),
            Way.SKIP: f"To skip this object while the conflict lasts: {CONFLICTS}: skip",
            Way.RELEASE: f"To remove them with it: {option}{alone}",
            Way.FORCE: f"To overwrite it: {option}{alone}",
            Way.TAKE_OVER: f"To take over all fields of {names}: {option}",
            Way.ADOPT: f"To take over fields of another set: {option}",
            Way.REPAIR: "If the set was restored from a backup: applyprune inventory repair",
        }[way]
