"""What the errors and warnings of the API server say: of which fields of a manifest, and of what.

A 422 names the fields as causes (``spec.containers[0].image``). A schema error of server-side apply
is a text with a path (``.spec.containers[name="c"].image: field not declared …``). Strict decoding
returns a text with quoted paths (``unknown field "spec.foo"``).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any

from applyprune.errors import (
    ApiError,
    ApplypruneError,
    DryRunUnsupported,
    Forbidden,
    Invalid,
    NotServed,
)
from applyprune.model.fieldset import bracketed, is_at
from applyprune.model.identity import Ref
from applyprune.model.kinds import SECRET
from applyprune.model.live import LiveObject, State, mapping, one_line
from applyprune.model.plan import Plan
from applyprune.model.problem import Field, Mark, Problem, ProblemKind
from applyprune.model.text import and_more
from applyprune.planning.normalize import may_be_secret
from applyprune.values import pattern

if TYPE_CHECKING:
    from applyprune.model.problem import Manifest


_STRICT = pattern(r'(?P<why>(?:unknown|duplicate) field) "(?P<path>[^"]+)"')
_DUPLICATE = "duplicate entries for key "
_QUOTED = pattern(r'Invalid value: "([^"]*)"')
_CONVERTING = pattern(r"^unable to convert unstructured object to [^:]*: ")
_INVALID = pattern(r'^[\w.]+ "[^"]*" is invalid: ')
_PATTERN = pattern(r",\s+regex used for validation is '[^']*'")
_UNCHECKED = pattern(r", <nil>: Invalid value: null: some validation rules were not [^,\]]*")
_GO = pattern(r"&value\.valueUnstructured\{Value:(.*?)\}|&\{(.*?)\}")
_DIFFERENCE = pattern(r"\s+(?:@@ -\d|[*&]?[a-z]\w*\.[A-Z]\w*\{).*", re.DOTALL)
# The server prints a value as JSON, an older one as a Go struct, and a difference as a patch.
_VALUE = pattern(r"Invalid value: (?=[\w.*&]*[{\[])")
_MORE = pattern(r"[\w.*]*[{\[]")


def error_fields(error: ApiError, body: Mapping[str, Any]) -> tuple[Mark, ...]:
    """Return the fields of a manifest that an error is about, each with the server's words.

    A field that the manifest lacks is represented by the nearest field around it.
    """
    marks: dict[Mark, None] = {}
    for field, reason in _named_fields(error):
        path, left = parse_path(_as_written(field, body), body)
        note = f"{field.removeprefix('.')}: {reason}" if left else reason
        for faulty in _duplicates(path, reason, body) or [
            (*path, *_quoted_entry(path, reason, body))
        ]:
            marks[Mark(faulty, clean_message(note))] = None
    if not marks:
        marks = dict.fromkeys(_by_value(error.message, body))
    return tuple(mark for mark in marks if mark.field)


# The wording of structured-merge-diff and apimachinery.
_STORED = "failed to create typed live object"
_TYPED = pattern(
    r"^failed to (?:create typed (?:patch|live) object|convert new object) \([^)]*\)"
    r"(?: to proper version)?: (?:errors: )?"
)
_SCHEMA = pattern(
    r"(?P<path>\.\S.*?): (?P<why>field not declared in schema"
    r"|expected [\w ()]+, got (?:&value\.valueUnstructured\{Value:.*?\}|&\{.*?\}|\w+)"
    r"|expected \w+"
    r"|duplicate entries for key \[.*?\])(?= \.|$)"
)


def _named_fields(error: ApiError) -> Iterator[tuple[str, str]]:
    for cause in error.causes:
        if cause.get("field"):
            yield cause["field"], cause.get("message", "")
    if not error.causes:
        bare = _TYPED.sub("", error.message)
        for found in (*_SCHEMA.finditer(bare), *_STRICT.finditer(bare)):
            yield found["path"], found["why"]


def is_about_stored(error: ApplypruneError) -> bool:
    """Return whether the server cannot read the stored object: the schema of its CRD has changed.

    The manifest has nothing to do with that, and no apply succeeds.
    """
    return isinstance(error, Invalid) and error.message.startswith(_STORED)


def stored_error(faults: Iterable[tuple[Field, str]]) -> Invalid:
    """Return the error that the server would give about stored values."""
    found = [(dotted(field), what) for field, what in faults]
    named = and_more([f"{path}: {what}" for path, what in found], _NAMED)
    causes = [{"reason": "", "field": path, "message": what} for path, what in found]
    return Invalid(f"{_STORED} (by the new schema): {named}", code=500, causes=causes)


def stored_fields(error: ApiError) -> tuple[str, ...]:
    """Return the paths of the stored values that an error is about."""
    return tuple(path.removeprefix(".") for path, _ in _named_fields(error))


def _as_written(field: str, body: Mapping[str, Any]) -> str:
    """Return a path with the public names where the server uses internal names."""
    if body.get("kind") == "CustomResourceDefinition" and field.startswith("spec.validation."):
        return field.replace("spec.validation.", "spec.versions[0].schema.", 1)
    return field


def _duplicates(path: Field, reason: str, body: object) -> list[Field]:
    """Return the items of a list with the same key, if the error is about a duplicate."""
    items = _at(path, body)
    if not reason.startswith(_DUPLICATE) or not isinstance(items, list):
        return []
    try:
        step, _ = bracketed(reason.removeprefix(_DUPLICATE))
    except ValueError:
        return []
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


# apimachinery, resource/quantity.go; and the fields that hold mappings of quantities.
_QUANTITY = pattern(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")
_OF_QUANTITIES = frozenset({"limits", "requests", "hard", "capacity", "overhead"})


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


def clean_message(message: str) -> str:
    """Return a server's message without internal details."""
    bare = message
    for noise in (_TYPED, _CONVERTING, _INVALID, _PATTERN, _UNCHECKED):
        bare = noise.sub("", bare)
    if bare.startswith("[") and bare.endswith("]"):
        bare = bare[1:-1]
    bare = _GO.sub(lambda found: found[1] or found[2] or "", bare)
    return _DIFFERENCE.sub("", _without_values(bare))


def _without_values(message: str) -> str:
    """Return a message without the JSON and the Go structs in it; they may be cut off."""
    while (found := _VALUE.search(message)) is not None:
        end = _end_of_value(message, found.end())
        message = message[: found.start()] + message[end:].removeprefix(": ")
    return message


def _end_of_value(text: str, start: int) -> int:
    """Return where a mapping or list ends, such as ``[]string{"a"}``; the length if it is cut."""
    depth, quoted, at = 0, False, start
    while at < len(text):
        letter = text[at]
        if letter == "\\" and quoted:
            at += 1
        elif letter == '"':
            quoted = not quoted
        elif not quoted and letter in "{[":
            depth += 1
        elif not quoted and letter in "}]":
            depth -= 1
            if depth == 0 and _MORE.match(text, at + 1) is None:
                return at + 1
        at += 1
    return len(text)


_ADVICE = (
    ("got null", "Give the field a value, or remove it."),
    ("empty item", "Fill in the item, or remove it."),
    ("expected string, got list", ""),
    ("expected string, got map", ""),
    ("expected string, got", "Quote it: without quotes, y, no, on, 1.0 and 0x10 are not strings."),
    (
        "without quotes, the key ",
        "Quote the key: without quotes, y, no, on, 1.0 and 0x10 are not strings.",
    ),
    ("expected integer, got string", "Write the number without quotes."),
    ("expected number, got string", "Write the number without quotes."),
    ("expected numeric", "Write the number without quotes."),
    ("expected boolean", "Write true or false, without quotes."),
    ("duplicate of item", "Remove the duplicate."),
    (_DUPLICATE, "Remove the duplicate."),
    ("quantities must match", "Quantities look like 100m, 1.5, 256Mi or 2G."),
    ("illegal base64", "Values in data must be base64; put plain text into stringData."),
    (
        "attempting to grant RBAC permissions not currently held",
        (
            "Nobody may grant rights that they do not have. Apply it as an account that has them, "
            "or allow this one the verb escalate on the role, or bind for a binding."
        ),
    ),
    (
        "missing from spec.versions",
        (
            "Keep the version in spec.versions with served: false, and apply. Write each custom "
            "resource again, then remove the version from status.storedVersions (kubectl patch "
            "--subresource status), and only then from the manifest."
        ),
    ),
    ("does not match template", "The template needs the labels of the selector."),
)


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
    while rest and (found := _step(rest, body)) is not None:
        step, rest, body = found
        path.append(step)
        rest = rest.removeprefix(".")
    return tuple(path), rest


def _step(text: str, body: Any) -> tuple[str | int, str, Any] | None:
    """Return the first step of a text in a body, what follows it, and the value there."""
    found: tuple[str | int, str] | None = None
    if isinstance(body, dict):
        found = _name(text, body)
    elif isinstance(body, list) and text.startswith("["):
        found = _index(text, body)
    return None if found is None else (*found, body[found[0]])


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


def dotted(path: Field) -> str:
    """Return a path as Kubernetes writes it: ``spec.containers[0].image``."""
    parts = (f"[{step}]" if isinstance(step, int) or "." in step else f".{step}" for step in path)
    return "".join(parts).removeprefix(".")


# The wording of apiserver's authorization filter, and of its admission plugin for webhooks.
_NO_RIGHT = pattern(r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource')
_SERVICE_ACCOUNT = "system:serviceaccount:"
_SIDE_EFFECTS = "does not support dry run"
_NO_NAMESPACE = 'namespaces "{}" not found'
# apimachinery, api/errors.NewNotFound, which RBAC passes on (it says "rolebindings" of a missing
# role), and the admission plugins ServiceAccount and RuntimeClass; and the plugin Priority.
_NOT_FOUND = pattern(r'(?P<resource>[\w-]+)(?:\.(?P<group>[\w.-]+))? "(?P<name>[^"]*)" not found')
_NO_PRIORITY = pattern(r"no (?P<resource>PriorityClass) with name (?P<name>\S+) was found")


def cannot_be_dry_run(error: ApplypruneError) -> str:
    """Return why a dry run says nothing about the real request; empty if it does say something."""
    if isinstance(error, Forbidden) and (found := _NO_RIGHT.search(error.message)):
        return f"not checked: this account may not {found['verb']} it"
    if isinstance(error, DryRunUnsupported):
        return f"not checked: {error.reason}"
    if _SIDE_EFFECTS in error.message:
        return "not checked: an admission webhook does not support dry runs"
    return ""


def denied_account(message: str) -> str:
    """Return who lacks a right by an error's words, as ``applyprune rbac`` takes it; or empty."""
    found = _NO_RIGHT.search(message)
    if found is None:
        return ""
    user = found["user"]
    if user.startswith(_SERVICE_ACCOUNT):
        return f"--account {quote(user.removeprefix(_SERVICE_ACCOUNT).replace(':', '/'))}"
    return f"--account {quote(f'user:{user}')}"


def undeclared_elsewhere(error: ApiError, body: Mapping[str, Any]) -> bool:
    """Return whether the server misses a field in a schema that the manifest does not have."""
    found = [path for path, why in _named_fields(error) if why.startswith("field not declared")]
    return bool(found) and not any(parse_path(path, body)[1] == "" for path in found)


def is_without_options(error: ApplypruneError) -> bool:
    """Return whether an apply was refused because the server got it without its query.

    apimachinery's ValidatePatchOptions demands a field manager.
    """
    return "PatchOptions.meta.k8s.io" in error.message


def is_without_namespace(error: ApplypruneError, ref: Ref) -> bool:
    """Return whether an error says that the namespace of an object does not exist."""
    return error.message == _NO_NAMESPACE.format(ref.namespace)


def without_namespace(name: str) -> NotServed:
    return NotServed(_NO_NAMESPACE.format(name), code=404)


def said_missing(error: ApplypruneError) -> Iterator[Mapping[str, str]]:
    """Yield the objects that do not exist by the words of an error: resource, group and name."""
    for words in (_NOT_FOUND, _NO_PRIORITY):
        yield from (found.groupdict(default="") for found in words.finditer(error.message))


def is_about(said: Mapping[str, str], ref: Ref) -> bool:
    """Return whether words mean an object; those with a group may have the kind of another one."""
    kind = ref.kind.lower()
    if said["name"] != ref.name:
        return False
    if said.get("group"):
        return said["group"] == ref.group
    return said["resource"].lower() in {kind, f"{kind}s", f"{kind}es"}


# The warnings of the API server as problems: with object, file and line, and no Secret.


MOST_WARNINGS = 100
"""How many warnings of the server one run reports."""
_NOT_SHOWN = (
    "the server warns about it; the text is not shown, because it may hold a value of the Secret"
)
_NAMED = 3


def warning_problems(found: Mapping[str, Sequence[Ref]], plan: Plan) -> Iterator[Problem]:
    """Yield a problem for each text, about the first of its objects; the others are named.

    An empty text is that of a Secret.
    """
    origins = {step.desired.ref: step.desired.origin for step in plan.applies}
    for text, refs in sorted(found.items(), key=lambda item: (min(item[1]), item[0])):
        first, *others = sorted(refs)
        shown = one_line(text) if text else _NOT_SHOWN
        named = and_more([ref.short for ref in others], _NAMED)
        origin = origins.get(first)
        yield Problem(
            ProblemKind.SERVER_WARNING,
            f"{first.short}: {shown}",
            location=str(origin or first),
            reason=f"also for {named}" if named else "",
            origin=origin,
        )


def more_warnings(count: int) -> Problem:
    return Problem(
        ProblemKind.SERVER_WARNING,
        f"the server has given {count} more warnings, which are not shown",
    )


def known_secrets(
    manifests: Iterable[Manifest], states: Iterable[State]
) -> Iterator[Mapping[str, Any]]:
    """Yield every Secret that a run has read: those of the input, selected or not, and live ones.

    The live Secrets of a set are always read in full, also those that leave it.
    """
    wanted = [manifest.body for manifest in manifests]  # guard: unselected-secret -> []
    yield from filter(may_be_secret, wanted)
    for state in states:
        # An item of a list has no kind.
        if isinstance(state, LiveObject) and state.ref.group_kind == SECRET:
            yield state.body or {}  # guard: live-secret
