"""Explain a field conflict: the fields, both values, the other managers, and what to do."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.errors import ApplypruneError, Conflict
from applyprune.model.fieldset import Path, from_server, owns, to_pointer, value_at
from applyprune.model.live import LiveObject, mapping
from applyprune.model.options import Adopt, Options
from applyprune.model.plan import Desired, OnConflict
from applyprune.model.problem import ContestedField, ManagerConflict
from applyprune.model.text import age, and_more, seconds_since
from applyprune.planning.annotations import CONFLICTS, IGNORED
from applyprune.planning.applyset import MANAGERS, PART_OF, ApplySetIdentity
from applyprune.planning.fields.ignore_rule import is_ignorable
from applyprune.planning.fields.normalize import may_be_secret
from applyprune.planning.fields.redact import shown
from applyprune.planning.ownership.default_rules import targets
from applyprune.planning.ownership.managed_fields import set_manager
from applyprune.planning.ownership.migration import INVENTED
from applyprune.values import dataclass, pattern

if TYPE_CHECKING:
    from datetime import datetime

    from applyprune.model.plan import Migration


# The wording of apimachinery's managedfields/internal/conflict.go; an Update names its version.
_CAUSE = pattern(
    r'conflict with "(?P<manager>(?:[^"\\]|\\.)*)"'
    r'(?: with subresource "(?P<subresource>[^"]*)")?'
    r"(?P<update> using \S+)?(?: at (?P<time>\S+))?"
)
_REPLICAS = ".spec.replicas"
_UNREAD = "its HorizontalPodAutoscalers could not be read: one may rewrite the field"
_LINE = "\n    "
_LINES = 20
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


@dataclass(frozen=True, slots=True)
class FieldOwner:
    """Another manager of a field, as the server's error names it."""

    manager: str
    operation: str
    """``Apply`` or ``Update``; empty if unknown."""
    subresource: str
    time: str
    """The time of the last write, RFC 3339; empty if unknown."""


def contenders(error: Conflict) -> Mapping[str, tuple[FieldOwner, ...]]:
    """Return the other managers of each field in conflict, by the server's name of the field."""
    found: defaultdict[str, dict[FieldOwner, None]] = defaultdict(dict)
    for cause in error.causes:
        match = _CAUSE.match(cause.get("message", ""))
        owner = (
            FieldOwner(
                match["manager"],
                "Update" if match["update"] else "Apply",
                match["subresource"] or "",
                match["time"] or "",
            )
            if match
            else FieldOwner("another manager", "", "", "")
        )
        found[cause.get("field", "")][owner] = None
    return {name: tuple(owners) for name, owners in sorted(found.items())}


def managers(error: Conflict) -> frozenset[str]:
    """Return the other managers in a conflict."""
    return frozenset(owner.manager for owners in contenders(error).values() for owner in owners)


def forces(
    desired: Desired, live: LiveObject | None, options: Options, applyset: ApplySetIdentity
) -> bool:
    """Return whether to apply an object with force; its own annotation has priority.

    An object that another set has applied, and that has no label, may still be listed by that set.
    """
    if desired.conflicts is OnConflict.SKIP:
        return False
    if not (options.apply.force_conflicts or desired.conflicts is OnConflict.FORCE):
        return False
    if live is None or options.apply.adopt is Adopt.ALL or PART_OF in live.labels:
        return True
    ours = {applyset.manager, applyset.yielded}
    appliers = {entry.get("manager") for entry in live.managed_fields} - ours
    return not any(str(manager).startswith(MANAGERS) for manager in appliers)  # guard: other-set


def settled_first(
    live: LiveObject | None, migration: Migration, applyset: ApplySetIdentity
) -> frozenset[str]:
    """Return the managers whose fields are migrated first, so that they cannot conflict.

    Of an object without managedFields, the server would say that ``before-first-apply`` has them.
    """
    taken = live is not None and live.labels.get(PART_OF, applyset.id) != applyset.id
    old = {set_manager(live)} if live is not None and taken else set()
    invented = {INVENTED} if live is not None and not live.managed_fields else set()
    return frozenset({applyset.yielded, *migration.managers, *old, *invented})


def skips(desired: Desired, error: ApplypruneError) -> str:
    """Return why an object is skipped, as its manifest asks; empty if it fails instead."""
    if (
        desired.conflicts is not OnConflict.SKIP
        or not isinstance(error, Conflict)
        or not error.causes
    ):
        return ""
    return f"{CONFLICTS}: skip, and {contended(error)}"


def is_about_scale(error: Conflict) -> bool:
    """Return whether an autoscaler may cause a conflict."""
    return any(_is_scale(name, owners) for name, owners in contenders(error).items())


def is_drift(owned: Mapping[str, Any], path: Path, operation: str) -> bool:
    """Return whether a manager that owns a field by this operation has caused drift.

    It is drift if the set's last apply owned the field, and somebody has changed it since by an
    Update: of the object or of a subresource, by hand or by a controller. It is a conflict if
    another manager owns the field by Apply, or if it was never the set's. ``owned`` are the fields
    of the set's last apply.
    """
    return operation == "Update" and owns(owned, path)


def is_by_hand(manager: str) -> bool:
    """Return whether people write with a field manager, by its name."""
    return _BY_HAND.fullmatch(manager) is not None


def is_kubernetes(manager: str) -> bool:
    """Return whether a field manager belongs to Kubernetes itself, by its name."""
    return _KUBERNETES.fullmatch(manager) is not None


def contended(error: Conflict) -> str:
    """Return the fields and their managers in short words."""
    fields = [
        f"{name} is owned by {_joined([owner.manager for owner in owners])}"
        for name, owners in contenders(error).items()
    ]
    return and_more(fields, _LINES)


def explain(
    error: Conflict,
    desired: Desired,
    live: LiveObject | None,
    autoscalers: Sequence[Mapping[str, Any]] | None,
    now: datetime,
    *,
    reverts: bool,
) -> Conflict:
    """Return the conflict, worded for the person who must decide.

    ``live`` is the object in full; None if it could not be read. ``autoscalers`` are the readable
    HorizontalPodAutoscalers of its namespace; None if they could not be read. ``reverts`` says
    whether ``--on-drift revert`` would set the fields back.
    """
    fields = contenders(error)
    found = [scaler for scaler in autoscalers or () if targets(scaler, desired.ref)]
    leaving = [one for one in found if _is_pruned(one, desired)]  # guard: autoscaler-that-leaves
    staying = None if autoscalers is None else [one for one in found if one not in leaving]
    contested = {name: _contested(name, desired, live) for name in fields}
    pointers = [field.path for field in contested.values() if field.path is not None]

    def reason(at: datetime | None) -> str:
        notes = [_UNREAD] if staying is None else [_described(one, at) for one in staying]
        return _reason(fields, contested, live, notes or list(map(_former, leaving)), at)

    told = Conflict(
        f"{desired.ref} was not applied",
        code=error.code,
        status_reason=error.status_reason,
        causes=error.causes,
        location=desired.origin,
        reason=reason(now),
        hint=_hint(
            pointers[:_LINES],
            [owner for owners in fields.values() for owner in owners],
            must_own=bool(pointers) and not any(map(is_ignorable, pointers)),
            reverts=reverts and staying == [],
        ),
    )
    told.lasting_reason = reason(None)
    return told


def _reason(
    fields: Mapping[str, Sequence[FieldOwner]],
    contested: Mapping[str, ContestedField],
    live: LiveObject | None,
    scalers: Sequence[str],
    now: datetime | None,
) -> str:
    """Return the fields in conflict, one on each line; without ``now``, without ages.

    ``scalers`` are what is said about the object's autoscalers.
    """
    lines = []
    for name, owners in fields.items():
        field = contested[name]
        values = [] if field.ours is None else [f"ours {field.ours}"]
        values += [] if field.theirs is None else [f"theirs {field.theirs}"]
        who = _joined([_who(other, live, now) for other in owners])
        notes = scalers if scalers and _is_scale(name, owners) else _notes(owners)
        lines.append(f"{name}: {', '.join([*values, f'owned by {who}'])}{_after(notes)}")
    if len(fields) == 1:
        count = "another field manager owns one of its fields"
    else:
        count = f"other field managers own {len(fields)} of its fields"
    return f"{count}{_LINE}{and_more(lines, _LINES, _LINE)}"


def conflicts_of(
    error: Conflict, desired: Desired, live: LiveObject | None
) -> tuple[ManagerConflict, ...]:
    """Return the conflict as data: each other manager with the fields that it owns.

    ``live`` is the object in full; None if it could not be read.
    """
    owned: defaultdict[FieldOwner, list[ContestedField]] = defaultdict(list)
    for name, owners in contenders(error).items():
        field = _contested(name, desired, live)
        for other in owners:
            owned[other].append(field)
    return tuple(
        ManagerConflict(
            other.manager,
            other.operation,
            other.subresource,
            other.time or _time(other, live),
            tuple(fields),
        )
        for other, fields in sorted(owned.items(), key=lambda item: item[0].manager)
    )


def _contested(name: str, desired: Desired, live: LiveObject | None) -> ContestedField:
    """Return a field in conflict, with both values if they are known."""
    path = from_server(name, desired.body)
    if path is None:
        return ContestedField(name, None, None, None)
    secret = may_be_secret(desired.body)
    body = live.body if live else None
    theirs = shown(value_at(body, path), secret=secret) if body else None
    ours = shown(value_at(desired.body, path), secret=secret)
    return ContestedField(name, to_pointer(path), ours, theirs)


def _hint(
    pointers: Sequence[str], owners: Sequence[FieldOwner], *, must_own: bool, reverts: bool
) -> str:
    """Return what resolves a conflict; ``must_own`` says that none of its fields can be left."""
    fields = ",".join(dict.fromkeys(filter(is_ignorable, pointers)))
    yielding = f", or annotate the object:\n    {IGNORED}: {fields}" if fields else "."
    names = sorted({owner.manager for owner in owners})
    appliers = sorted({owner.manager for owner in owners if owner.operation == "Apply"})
    tools = [name for name in appliers if not name.startswith(MANAGERS)]
    lines = [
        "To set back what was changed: --on-drift revert." if reverts else "",
        "" if must_own else f"To leave it to its owner, remove it from the manifest{yielding}",
        f"To skip this object while the conflict lasts: {CONFLICTS}: skip.",
        f"To take it over: --force-conflicts, or only for this object {CONFLICTS}: force.",
        f"To take over all fields of {tools[0]}: --take-over {tools[0]}." if tools else "",
        "Fields of another set need --adopt=all."
        if any(name.startswith(MANAGERS) for name in names)
        else "",
    ]
    return "\n  ".join(line for line in lines if line)


def _who(owner: FieldOwner, live: LiveObject | None, now: datetime | None) -> str:
    how = owner.operation
    if owner.subresource:
        how += f" of {owner.subresource}"
    ago = _ago(owner.time or _time(owner, live), now)
    detail = ", ".join(part for part in (how, ago) if part)
    return f"{owner.manager} ({detail})" if detail else owner.manager


def _time(owner: FieldOwner, live: LiveObject | None) -> str:
    for entry in live.managed_fields if live else ():
        if (
            entry.get("manager") == owner.manager
            and entry.get("operation") == owner.operation
            and (entry.get("subresource") or "") == owner.subresource
        ):
            return str(entry.get("time", ""))
    return ""


def _ago(time: object, now: datetime | None) -> str:
    seconds = None if now is None else seconds_since(time, now)
    return "" if seconds is None else f"{age(seconds)} ago"


def _is_scale(name: str, owners: Sequence[FieldOwner]) -> bool:
    return name == _REPLICAS or any(
        (owner.manager, owner.subresource) == ("kube-controller-manager", "scale")
        for owner in owners
    )


def _described(scaler: Mapping[str, Any], now: datetime | None) -> str:
    name = mapping(scaler.get("metadata")).get("name")
    spec, status = mapping(scaler.get("spec")), mapping(scaler.get("status"))
    # managedFields has no time for a write to the scale subresource.
    ago = _ago(status.get("lastScaleTime"), now)
    last = f" (last {ago})" if ago else ""
    return (
        f"HorizontalPodAutoscaler {name} scales it between {spec.get('minReplicas', 1)} and "
        f"{spec.get('maxReplicas')}, and will rewrite the field{last}"
    )


def _is_pruned(scaler: Mapping[str, Any], desired: Desired) -> bool:
    return mapping(scaler.get("metadata")).get("uid") in desired.pruned_autoscalers


def _former(scaler: Mapping[str, Any]) -> str:
    name = mapping(scaler.get("metadata")).get("name")
    return f"HorizontalPodAutoscaler {name} scales it, and is pruned once this object is applied"


def _notes(owners: Sequence[FieldOwner]) -> Sequence[str]:
    return list(dict.fromkeys(note for owner in owners if (note := _note(owner.manager))))


def _note(manager: str) -> str:
    if manager.startswith(MANAGERS):
        return "another applyprune set, which applies it in each of its runs"
    if is_by_hand(manager):
        return "written manually (kubectl); no controller will rewrite it"
    for name, words in _KNOWN:
        if name.fullmatch(manager):
            return f"{words}: it may rewrite the field"
    return ""


def _after(notes: Sequence[str]) -> str:
    return "".join(f"; {note}" for note in notes)


def _joined(names: Sequence[str]) -> str:
    return " and ".join(names)
