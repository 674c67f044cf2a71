"""Find the fields of a manifest that a server error is about, and handle immutable fields.

A 422 names them as causes (``spec.containers[0].image``). A schema error of server-side apply is a
text with a path (``.spec.containers[name="c"].image: field not declared …``). Strict decoding
returns a text with quoted paths (``unknown field "spec.foo"``).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from applyprune.errors import (
    ApiError,
    ApplypruneError,
    Forbidden,
    Invalid,
    RunFailed,
    as_problem,
)
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import InventoryEntry, Ownership
from applyprune.model.json_access import mapping
from applyprune.model.options import Options
from applyprune.model.plan import Desired
from applyprune.model.problem import Field, Mark, Problem
from applyprune.model.resources import CRD, NAMESPACE
from applyprune.planning.annotations import RECREATE, not_understood, orphan_mark
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.fields.path import bracketed, is_at
from applyprune.planning.marks.apply_mark import left_alone
from applyprune.planning.ownership.other_owner import other_owner
from applyprune.planning.ownership.owner import (
    Owner,
    foreign_owner,
    is_marked,
    owner_of,
    ownership_of,
)

if TYPE_CHECKING:
    from applyprune.model.live import LiveObject

# The wording of structured-merge-diff and apimachinery.
_TYPED = re.compile(
    r"^failed to (?:create typed patch object|convert new object) \([^)]*\)"
    r"(?: to proper version)?: (?:errors: )?"
)
_CONVERTING = re.compile(r"^unable to convert unstructured object to [^:]*: ")
_INVALID = re.compile(r'^[\w.]+ "[^"]*" is invalid: ')
_PATTERN = re.compile(r",\s+regex used for validation is '[^']*'")
_UNCHECKED = re.compile(r", <nil>: Invalid value: null: some validation rules were not [^,\]]*")
_QUOTED = re.compile(r'Invalid value: "([^"]*)"')
_SCHEMA = re.compile(
    r"(?P<path>\.\S.*?): (?P<why>field not declared in schema"
    r"|expected [\w ()]+, got (?:&value\.valueUnstructured\{Value:.*?\}|&\{.*?\}|\w+)"
    r"|expected \w+"
    r"|duplicate entries for key \[.*?\])(?= \.|$)"
)
_STRICT = re.compile(r'(?P<why>(?:unknown|duplicate) field) "(?P<path>[^"]+)"')
_GO = re.compile(r"&value\.valueUnstructured\{Value:(.*?)\}|&\{(.*?)\}")
_DUPLICATE = "duplicate entries for key "
# apimachinery, resource/quantity.go; and the fields that hold mappings of quantities.
_QUANTITY = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_OF_QUANTITIES = frozenset({"limits", "requests", "hard", "capacity", "overhead"})
_ADVICE = (
    ("got null", "Give the field a value, or remove it."),
    ("empty item", "Fill in the item, or remove it."),
    ("expected string, got list", ""),
    ("expected string, got map", ""),
    ("expected string, got", "Quote it: without quotes, y, no, on, 1.0 and 0x10 are not strings."),
    ("expected integer, got string", "Write the number without quotes."),
    ("expected number, got string", "Write the number without quotes."),
    ("expected numeric", "Write the number without quotes."),
    ("expected boolean", "Write true or false, without quotes."),
    ("duplicate of item", "Remove the duplicate."),
    (_DUPLICATE, "Remove the duplicate."),
    ("quantities must match", "Quantities look like 100m, 1.5, 256Mi or 2G."),
    ("illegal base64", "Values in data must be base64; put plain text into stringData."),
    ("does not match template", "The template needs the labels of the selector."),
)
_LONGEST = 100


def clean_message(message: str) -> str:
    """Return a server's message without internal details."""
    bare = message
    for noise in (_TYPED, _CONVERTING, _INVALID, _PATTERN, _UNCHECKED):
        bare = noise.sub("", bare)
    if bare.startswith("[") and bare.endswith("]"):
        bare = bare[1:-1]
    return _GO.sub(lambda found: found[1] or found[2] or "", bare)


def error_fields(error: ApiError, body: Mapping[str, Any]) -> tuple[Mark, ...]:
    """Return the fields of a manifest that an error is about, each with the server's words.

    A field that the manifest lacks is represented by the nearest field around it.
    """
    marks: dict[Mark, None] = {}
    for field, reason in _said(error):
        path, left = parse_path(_as_written(field, body), body)
        note = f"{field.removeprefix('.')}: {reason}" if left else reason
        for faulty in _twins(path, reason, body) or [(*path, *_quoted_entry(path, reason, body))]:
            marks[Mark(faulty, _short(note))] = None
    if not marks:
        marks = dict.fromkeys(_by_value(error.message, body))
    return tuple(mark for mark in marks if mark.field)


def advice_on(message: str) -> str:
    """Return what to do about an error; empty where its text gives no clue.

    It never contains a value, which may belong to a Secret.
    """
    return next((hint for words, hint in _ADVICE if words in message), "")


def parse_path(text: str, body: object) -> tuple[Field, str]:
    """Return the path in a body that a server's text means, and the rest that the body lacks.

    Names are not quoted, and may contain dots (``.metadata.labels.app.kubernetes.io/name``): only
    the names in the body show where each name ends.
    """
    rest = text.removeprefix(".")
    path: list[str | int] = []
    while rest:
        if isinstance(body, dict):
            name = _name(rest, body)
            if name is None:
                break
            key, rest = name
            path.append(key)
            body = body[key]
        elif isinstance(body, list) and rest.startswith("["):
            found = _index(rest, body)
            if found is None:
                break
            index, rest = found
            path.append(index)
            body = body[index]
        else:
            break
        rest = rest.removeprefix(".")
    return tuple(path), rest


def dotted(path: Field) -> str:
    """Return a path as Kubernetes writes it: ``spec.containers[0].image``."""
    parts = (f"[{step}]" if isinstance(step, int) or "." in step else f".{step}" for step in path)
    return "".join(parts).removeprefix(".")


def _said(error: ApiError) -> Iterator[tuple[str, str]]:
    for cause in error.causes:
        if cause.get("field"):
            yield cause["field"], cause.get("message", "")
    if not error.causes:
        bare = _TYPED.sub("", error.message)
        for found in (*_SCHEMA.finditer(bare), *_STRICT.finditer(bare)):
            yield found["path"], found["why"]


def _twins(path: Field, reason: str, body: object) -> list[Field]:
    """Return the items of a list with the same key, if the error is about a duplicate."""
    if not reason.startswith(_DUPLICATE):
        return []
    try:
        step, _ = bracketed(reason.removeprefix(_DUPLICATE))
    except ValueError:
        return []
    found = _at(path, body)
    items = found if isinstance(found, list) else []
    return [(*path, at) for at, item in enumerate(items) if is_at(item, step)]


def _quoted_entry(path: Field, reason: str, body: object) -> Field:
    """Return the entry whose key or value is quoted, if the error names only the mapping.

    For example, a label when the error is about ``metadata.labels``.
    """
    found = _at(path, body)
    quoted = _QUOTED.match(reason)
    if quoted is None or not isinstance(found, dict):
        return ()
    return next(((key,) for key, value in found.items() if quoted[1] in (key, value)), ())


def _at(path: Field, body: Any) -> object:
    for step in path:
        body = body[step]
    return body


def _by_value(message: str, body: Mapping[str, Any]) -> Iterator[Mark]:
    """Yield the fields that an error must be about by their values, if it names no field."""
    if "quantities must match" in message:
        yield from (Mark(path, "not a quantity") for path in _no_quantities(body, (), within=False))
    elif "illegal base64" in message:
        for key, value in mapping(body.get("data")).items():
            try:
                base64.b64decode(str(value), validate=True)
            except ValueError:
                yield Mark(("data", key), "not base64")


def _no_quantities(value: object, path: Field, *, within: bool) -> Iterator[Field]:
    if isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _no_quantities(inner, (*path, at), within=within)
    elif isinstance(value, dict):
        for key, inner in value.items():
            deeper = within or key in _OF_QUANTITIES
            yield from _no_quantities(inner, (*path, key), within=deeper)
    elif within and isinstance(value, str) and _QUANTITY.fullmatch(value) is None:
        yield path


def _as_written(field: str, body: Mapping[str, Any]) -> str:
    """Return a path with the public names where the server uses internal names."""
    if body.get("kind") == "CustomResourceDefinition" and field.startswith("spec.validation."):
        return field.replace("spec.validation.", "spec.versions[0].schema.", 1)
    return field


def _name(text: str, body: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the longest key of a mapping that is a prefix of a text, and what follows it."""
    for key in sorted(body, key=len, reverse=True):
        for written in (key, f"[{key}]"):
            rest = text[len(written) :]
            if text.startswith(written) and (not rest or rest[0] in ".["):
                return key, rest
    # A list that the server derives from a single value: clusterIPs.
    head = re.match(r"(\w+)s\[0\]", text)
    return (head[1], text[head.end() :]) if head and head[1] in body else None


def _index(text: str, body: list[Any]) -> tuple[int, str] | None:
    if found := re.match(r"\[(\d+)\]", text):
        index = int(found[1])
        return (index, text[found.end() :]) if index < len(body) else None
    try:
        step, rest = bracketed(text)
    except ValueError:
        return None
    index = next((at for at, item in enumerate(body) if is_at(item, step)), -1)
    return (index, rest) if index >= 0 else None


def _short(reason: str) -> str:
    bare = clean_message(reason)
    return bare if len(bare) <= _LONGEST else f"{bare[:_LONGEST]}…"


# The wording of apiserver's authorization filter, and of its admission plugin for webhooks.
_NO_RIGHT = re.compile(r'User "[^"]*" cannot (?P<verb>\w+) resource')
_SIDE_EFFECTS = "does not support dry run"
_NO_NAMESPACE = 'namespaces "{}" not found'
# apimachinery, api/errors.NewNotFound, which RBAC passes on (it says "rolebindings" of a missing
# role), and the admission plugins ServiceAccount and RuntimeClass; and the plugin Priority.
_NOT_FOUND = re.compile(
    r'(?P<resource>[\w-]+)(?:\.(?P<group>[\w.-]+))? "(?P<name>[^"]*)" not found'
)
_NO_PRIORITY = re.compile(r"no (?P<resource>PriorityClass) with name (?P<name>\S+) was found")


def cannot_be_dry_run(error: ApplypruneError) -> str:
    """Return why a dry run says nothing about the real request; empty if it does say something."""
    if isinstance(error, Forbidden) and (found := _NO_RIGHT.search(error.message)):
        return f"not checked: this account may not {found['verb']} it"
    if _SIDE_EFFECTS in error.message:
        return "not checked: an admission webhook does not support dry runs"
    return ""


def is_without_namespace(error: ApplypruneError, ref: Ref) -> bool:
    """Return whether an error says that the namespace of an object does not exist."""
    return error.message == _NO_NAMESPACE.format(ref.namespace)


def missing_object(error: ApplypruneError, named: Iterable[Ref]) -> Ref | None:
    """Return which of the objects in ``named`` does not exist by the words of an error."""
    missing = [
        found for said in (_NOT_FOUND, _NO_PRIORITY) for found in said.finditer(error.message)
    ]
    told = (ref for ref in named if any(_is_about(found, ref) for found in missing))
    return next(told, None)


def _is_about(found: re.Match[str], ref: Ref) -> bool:
    """Return whether words mean an object; those with a group may have the kind of another one."""
    said, kind = found.groupdict(), ref.kind.lower()
    if said["name"] != ref.name:
        return False
    if said.get("group"):
        return said["group"] == ref.group
    return said["resource"].lower() in {kind, f"{kind}s", f"{kind}es"}


_UNPROCESSABLE = 422
_NEVER = frozenset(
    {
        NAMESPACE,
        CRD,
        GroupKind("", "PersistentVolume"),
        GroupKind("", "PersistentVolumeClaim"),
    }
)


def is_worth_a_trial(error: ApplypruneError) -> bool:
    """Return whether a rejected update may be about an immutable field.

    Neither the code nor the text proves it, so a trial is needed: a server dry run of a create. An
    error about metadata never needs a trial.
    """
    if not isinstance(error, Invalid) or error.code != _UNPROCESSABLE:
        return False
    fields = [cause.get("field", "") for cause in error.causes]
    return not any(field.split(".")[0] == "metadata" for field in fields)


def why_not(
    desired: Desired,
    entry: InventoryEntry,
    live: LiveObject,
    applyset: ApplySetIdentity,
    options: Options,
) -> str:
    """Return why an object may not be recreated; empty if it may."""
    kind = desired.ref.group_kind
    if kind in _NEVER:
        return f"a {kind.kind} is never recreated"
    if marked := _mark_against(desired, live):
        return marked
    adopted = ownership_of(entry, live, applyset) is Ownership.ADOPTED  # guard: witness-recreate
    if adopted and not options.prune.prune_adopted:
        return "it was adopted, not created, by this set (--prune-adopted)"
    if owner_of(live, entry, applyset) is not Owner.RECORDED or not is_marked(live, applyset):
        return "it does not have this set's label and field manager any more"
    if owner := foreign_owner(live, applyset.manager):
        return f"it belongs to {owner}, by its ownerReferences"
    other = other_owner(entry, live, applyset)  # guard: other-owner-recreate
    if other and not options.prune.prune_shared:
        return f"{other} (--prune-shared)"
    if not (options.apply.recreate or desired.recreate):
        return "that is not allowed"
    return ""


def _mark_against(desired: Desired, live: LiveObject) -> str:
    """Return which annotation forbids to delete an object, or may forbid it; empty if none does."""
    if rule := orphan_mark(live.metadata) or desired.orphan_reason:
        return f"it is marked {rule}"
    if rule := left_alone(live.metadata, {}):  # guard: left-alone-recreate
        return f"it is marked {rule}"
    unknown = not_understood(live.metadata)  # guard: mark-before-recreation
    return f"{unknown} is not understood" if unknown else ""


def not_recreated(desired: Desired, obstacle: str) -> Problem:
    """Return the problem of an object whose manifest asks to recreate it, which is not allowed."""
    return as_problem(
        RunFailed(
            f"{desired.ref} was not recreated",
            reason=obstacle,
            hint=f"To change it in place, remove the annotation {RECREATE}.",
        ),
        where=desired.origin,
    )


def explained(desired: Desired, error: Invalid, obstacle: str) -> RunFailed:
    """Return the failure for a rejected change of immutable fields; it names the fields."""
    fields = sorted({cause["field"] for cause in error.causes if cause.get("field")})
    reason = clean_message(error.message)
    named = f": {', '.join(fields)}" if fields and not reason.startswith(fields[0]) else ""
    hint = (
        f"To delete and recreate it: --recreate, or the annotation {RECREATE}: allowed."
        if obstacle == "that is not allowed"
        else f"It cannot be recreated: {obstacle}."
    )
    return RunFailed(
        f"{desired.ref} cannot be changed in place{named}",
        location=desired.origin,
        reason=reason,
        hint=hint,
        marks=error_fields(error, desired.body),
    )
