"""A field conflict in words: which field, what both sides want, whose it is, and what to do."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from applyprune.errors import Conflict
from applyprune.model.display import age, and_more, seconds_since
from applyprune.model.json_access import mapping
from applyprune.model.options import Adopt
from applyprune.model.plan import OnConflict
from applyprune.model.problem import ContestedField, ManagerConflict
from applyprune.planning.applyset import MANAGERS, PART_OF
from applyprune.planning.fields.normalize import is_secret
from applyprune.planning.fields.path import from_server, to_pointer, value_at
from applyprune.planning.fields.redact import shown
from applyprune.planning.ownership.ignored_fields import CONFLICTS, IGNORED
from applyprune.planning.ownership.managed_fields import set_manager

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from applyprune.errors import ApplypruneError
    from applyprune.model.identity import Ref
    from applyprune.model.live import LiveObject
    from applyprune.model.options import Options
    from applyprune.model.plan import ApplyStep, Desired
    from applyprune.planning.applyset import ApplySetIdentity

# As apimachinery's managedfields/internal/conflict.go words it; an Update says its version.
_CAUSE = re.compile(
    r'conflict with "(?P<manager>(?:[^"\\]|\\.)*)"'
    r'(?: with subresource "(?P<subresource>[^"]*)")?'
    r"(?P<update> using \S+)?(?: at (?P<time>\S+))?"
)
_REPLICAS = ".spec.replicas"
_LINE = "\n    "
_LINES = 20
_KNOWN: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"kube-controller-manager|kube-scheduler|cloud-controller-manager|kubelet", "Kubernetes"),
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
_BY_HAND = re.compile(r"kubectl.*|k9s|Lens|helm|before-first-apply|Mozilla|node-fetch")


@dataclass(frozen=True, slots=True)
class FieldOwner:
    """Another manager of a field, as the server's refusal tells of it."""

    manager: str
    operation: str
    subresource: str
    time: str


def contenders(error: Conflict) -> Mapping[str, tuple[FieldOwner, ...]]:
    """Return the other managers of each field that is contended, by the server's word for it."""
    found: defaultdict[str, dict[FieldOwner, None]] = defaultdict(dict)
    for cause in error.causes:
        match = _CAUSE.match(cause.get("message", ""))
        one = (
            FieldOwner(
                match["manager"],
                "Update" if match["update"] else "Apply",
                match["subresource"] or "",
                match["time"] or "",
            )
            if match
            else FieldOwner("another manager", "", "", "")
        )
        found[cause.get("field", "")][one] = None
    return {name: tuple(ones) for name, ones in sorted(found.items())}


def managers(error: Conflict) -> frozenset[str]:
    """Return the managers that a conflict is with."""
    return frozenset(one.manager for ones in contenders(error).values() for one in ones)


def forces(
    one: Desired, live: LiveObject | None, options: Options, target: ApplySetIdentity
) -> bool:
    """Return whether an object may be sent by force: what its manifest asks for goes first.

    One that another set has applied and nobody has labelled may still be listed there.
    """
    if one.conflicts is OnConflict.SKIP:
        return False
    if not (options.apply.force_conflicts or one.conflicts is OnConflict.FORCE):
        return False
    if live is None or options.apply.adopt is Adopt.ALL or PART_OF in live.labels:
        return True
    ours = {target.manager, target.yielded}
    appliers = {entry.get("manager") for entry in live.managed_fields} - ours
    return not any(str(manager).startswith(MANAGERS) for manager in appliers)  # guard: other-set


def settled_first(step: ApplyStep, target: ApplySetIdentity) -> frozenset[str]:
    """Return the managers with whom an apply comes into no conflict: it deals with them before."""
    live = step.live
    taken = live is not None and live.labels.get(PART_OF, target.id) != target.id
    old = {set_manager(live)} if live is not None and taken else set()
    return frozenset({target.yielded, *step.migrate, *old})


def skips(one: Desired, error: ApplypruneError) -> str:
    """Return why an object is passed over, as its manifest asks; empty when it has failed."""
    if one.conflicts is not OnConflict.SKIP or not isinstance(error, Conflict) or not error.causes:
        return ""
    return f"{CONFLICTS}: skip, and {contended(error)}"


def is_about_scale(error: Conflict) -> bool:
    """Return whether an autoscaler may be behind a conflict."""
    return any(_is_scale(name, ones) for name, ones in contenders(error).items())


def contended(error: Conflict) -> str:
    """Return the fields and their managers in a few words."""
    fields = [
        f"{name} is {_joined([one.manager for one in ones])}'s"
        for name, ones in contenders(error).items()
    ]
    return and_more(fields, _LINES)


def explain(
    error: Conflict,
    one: Desired,
    live: LiveObject | None,
    autoscalers: Sequence[Mapping[str, Any]],
    now: datetime,
) -> Conflict:
    """Return the conflict worded for the person who must decide.

    ``live`` is the object in full and ``autoscalers`` are the HorizontalPodAutoscalers of its
    namespace, as far as either could be read.
    """
    fields = contenders(error)
    scalers = [_described(scaler, now) for scaler in autoscalers if _targets(scaler, one.ref)]
    lines, pointers = [], []
    for name, ones in fields.items():
        field = _contested(name, one, live)
        if field.path is not None:
            pointers.append(field.path)
        values = [] if field.ours is None else [f"ours {field.ours}"]
        values += [] if field.theirs is None else [f"theirs {field.theirs}"]
        who = _joined([_who(other, live, now) for other in ones])
        notes = scalers if scalers and _is_scale(name, ones) else _notes(ones)
        lines.append(f"{name}: {', '.join([*values, f'owned by {who}'])}{_after(notes)}")
    count = "one of its fields is" if len(fields) == 1 else f"{len(fields)} of its fields are"
    return Conflict(
        f"{one.ref} is in conflict with another field manager",
        code=error.code,
        status_reason=error.status_reason,
        causes=error.causes,
        location=one.origin,
        reason=f"{count} not ours to set{_LINE}{and_more(lines, _LINES, _LINE)}",
        hint=_hint(pointers[:_LINES], managers(error)),
    )


def conflicts_of(
    error: Conflict, one: Desired, live: LiveObject | None
) -> tuple[ManagerConflict, ...]:
    """Return the conflict as data: each other manager and the fields that it owns.

    ``live`` is the object in full, None where it could not be read.
    """
    owned: defaultdict[FieldOwner, list[ContestedField]] = defaultdict(list)
    for name, ones in contenders(error).items():
        field = _contested(name, one, live)
        for other in ones:
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


def _contested(name: str, one: Desired, live: LiveObject | None) -> ContestedField:
    """Return one field in conflict, with the values of both sides where they are known."""
    path = from_server(name, one.body)
    if path is None:
        return ContestedField(name, None, None, None)
    secret = is_secret(one.body)
    body = live.body if live else None
    theirs = shown(value_at(body, path), secret=secret) if body else None
    ours = shown(value_at(one.body, path), secret=secret)
    return ContestedField(name, to_pointer(path), ours, theirs)


def _hint(pointers: Sequence[str], others: Collection[str]) -> str:
    fields = ",".join(dict.fromkeys(pointers))
    yielding = f", or annotate the object:\n    {IGNORED}: {fields}" if fields else "."
    is_sets = any(one.startswith(MANAGERS) for one in others)
    adopting = "\n  What is another set's is taken with --adopt=all only." if is_sets else ""
    return (
        f"To leave it to its owner, take it out of the manifest{yielding}\n"
        f"  To leave the object alone for as long as it is contended: {CONFLICTS}: skip.\n"
        f"  To take it: --force-conflicts, or for this object alone {CONFLICTS}: force.{adopting}"
    )


def _who(one: FieldOwner, live: LiveObject | None, now: datetime) -> str:
    how = one.operation
    if one.subresource:
        how += f" of {one.subresource}"
    ago = _ago(one.time or _time(one, live), now)
    told = ", ".join(part for part in (how, ago) if part)
    return f"{one.manager} ({told})" if told else one.manager


def _time(one: FieldOwner, live: LiveObject | None) -> str:
    for entry in live.managed_fields if live else ():
        if (
            entry.get("manager") == one.manager
            and entry.get("operation") == one.operation
            and (entry.get("subresource") or "") == one.subresource
        ):
            return str(entry.get("time", ""))
    return ""


def _ago(time: object, now: datetime) -> str:
    seconds = seconds_since(time, now)
    return "" if seconds is None else f"{age(seconds)} ago"


def _is_scale(name: str, ones: Sequence[FieldOwner]) -> bool:
    return name == _REPLICAS or any(
        (one.manager, one.subresource) == ("kube-controller-manager", "scale") for one in ones
    )


def _targets(scaler: Mapping[str, Any], ref: Ref) -> bool:
    target = mapping(mapping(scaler.get("spec")).get("scaleTargetRef"))
    group = str(target.get("apiVersion", "")).rpartition("/")[0]
    return (group, target.get("kind"), target.get("name")) == (ref.group, ref.kind, ref.name)


def _described(scaler: Mapping[str, Any], now: datetime) -> str:
    name = mapping(scaler.get("metadata")).get("name")
    spec, status = mapping(scaler.get("spec")), mapping(scaler.get("status"))
    # managedFields has no time of a write to the scale subresource.
    ago = _ago(status.get("lastScaleTime"), now)
    last = f" (last {ago})" if ago else ""
    return (
        f"HorizontalPodAutoscaler {name} scales it between {spec.get('minReplicas', 1)} and "
        f"{spec.get('maxReplicas')}, and will write it again{last}"
    )


def _notes(ones: Sequence[FieldOwner]) -> Sequence[str]:
    return list(dict.fromkeys(note for one in ones if (note := _note(one.manager))))


def _note(manager: str) -> str:
    if manager.startswith(MANAGERS):
        return "another set of applyprune, which sends it with each of its runs"
    if _BY_HAND.fullmatch(manager):
        return "by hand or by a script: nothing writes it again by itself"
    for pattern, words in _KNOWN:
        if pattern.fullmatch(manager):
            return f"{words}: it may write it again"
    return ""


def _after(notes: Sequence[str]) -> str:
    return "".join(f"; {note}" for note in notes)


def _joined(names: Sequence[str]) -> str:
    return " and ".join(names)
