"""Validate a custom resource against its CRD's schema, before a server knows the CRD.

A structural schema is close to JSON Schema draft 4. The differences are translated, and rules that
cannot be checked here are reported as unchecked. The rules are those of apiextensions-apiserver:
defaults are filled in first, values must match the openAPIV3Schema, and unknown fields are errors,
as in strict field validation.

Of the CEL rules (``x-kubernetes-validations``), only a certain violation counts. A rule that cannot
be evaluated here (it uses Kubernetes' own CEL functions, or the library is not installed) is
reported as unchecked. A rule about the transition from an earlier state does not apply to a new
object.
"""

from __future__ import annotations

import re
import warnings
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from applyprune.errors import InputError, UsageError
from applyprune.model.live import mapping, one_line
from applyprune.model.text import and_more
from applyprune.planning.readiness.cel import compile_rule
from applyprune.values import dataclass, field, pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune.planning.readiness.cel import Rule

if TYPE_CHECKING:
    Schema = Mapping[str, Any]
    Place = tuple[str | int, ...]

# Keywords with the same meaning in draft 4 and in a CRD.
_SAME = frozenset(
    {
        "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "maxItems", "maxLength",
        "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum",
        "multipleOf", "required", "type", "uniqueItems",
        "x-kubernetes-list-map-keys", "x-kubernetes-list-type",
    }
)  # fmt: skip
_PRESERVES = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_FORMATS = frozenset({"date", "date-time", "email", "int32", "int64", "ipv4", "ipv6", "uuid"})
_LOOSE = frozenset({"double", "float", "password"})
_UNCHECKED = "x-unchecked"
_IDENTITY: Schema = {"apiVersion": {}, "kind": {}, "metadata": {}}
_BITS = {"int32": 31, "int64": 63}
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation of the schema."""

    place: Place
    """The path from the object's root."""
    what: str
    """The message."""

    def __str__(self) -> str:
        """Return ``spec.ports[0].port: 0 is less than the minimum of 1``."""
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.place)
        return f"{steps.removeprefix('.')}: {self.what}" if steps else self.what


@dataclass(frozen=True, slots=True)
class SchemaReport:
    """The result of a validation."""

    body: Mapping[str, Any] = field(repr=False)
    """The object with its defaults."""
    violations: tuple[Violation, ...]
    unchecked: tuple[str, ...]
    """The rules that could not be checked, in words."""

    @property
    def told(self) -> str:
        """Return the violations, each on its own line; only the first if there are many."""
        return and_more(self.violations, _SHOWN, "\n    ")


def validate(schema: Schema, body: Mapping[str, Any]) -> SchemaReport:
    """Validate an object against the openAPIV3Schema of its version."""
    unchecked: dict[str, None] = {}
    whole = {**schema, "properties": {**mapping(schema.get("properties")), **_IDENTITY}}
    filled = _with_defaults(body, whole)
    validator = _validator_class()(
        _translated(whole, closed=True), format_checker=_format_checker()
    )
    found: list[Violation] = []
    for error in validator.iter_errors(filled):
        if error.validator == _UNCHECKED:
            unchecked[error.message] = None
        else:
            found.extend(_violations(error))
    broken, not_judged = broken_rules(whole, filled)
    found += [Violation(place, what) for place, what in broken]
    unchecked.update(dict.fromkeys(not_judged))
    unique = {(tuple(map(str, violation.place)), violation.what): violation for violation in found}
    return SchemaReport(
        filled, tuple(unique[key] for key in sorted(unique)), tuple(sorted(unchecked))
    )


def _translated(schema: Schema, *, closed: bool) -> dict[str, Any]:
    """Return the schema for draft 4; ``closed`` is false inside logical junctors.

    Junctors only restrict. A keyword of our own marks what cannot be translated; a junctor must not
    fail because of it.
    """
    new = {key: value for key, value in schema.items() if key in _SAME}
    if schema.get(_INT_OR_STRING) is True:
        new["type"] = ["integer", "string"]
    if schema.get("nullable") is True:
        new |= _or_null(new)
    if "pattern" in schema:
        if _is_pattern(schema["pattern"]):
            new["pattern"] = schema["pattern"]
        elif closed:
            new[_UNCHECKED] = f"the pattern {one_line(str(schema['pattern']))}"
    form = schema.get("format")
    if closed and isinstance(form, str) and form not in _FORMATS | _LOOSE:
        new[_UNCHECKED] = f"the format {one_line(form)}"
    if isinstance(schema.get("items"), dict):
        new["items"] = _translated(schema["items"], closed=closed)
    return new | _junctors(schema) | _members(schema, closed=closed)


def _junctors(schema: Schema) -> dict[str, Any]:
    new: dict[str, Any] = {
        key: [_translated(mapping(inner), closed=False) for inner in schema[key]]
        for key in ("allOf", "anyOf", "oneOf")
        if key in schema
    }
    if "not" in schema:
        new["not"] = _translated(mapping(schema["not"]), closed=False)
    return new


def _or_null(new: Schema) -> dict[str, Any]:
    """Return the type and the enumeration, extended by null."""
    kinds = new.get("type", [])
    wider: dict[str, Any] = {"type": [*([kinds] if isinstance(kinds, str) else kinds), "null"]}
    if "enum" in new:
        wider["enum"] = [*new["enum"], None]
    return wider if kinds else {key: inner for key, inner in wider.items() if key != "type"}


def _members(schema: Schema, *, closed: bool) -> dict[str, Any]:
    properties = dict(mapping(schema.get("properties")))
    if schema.get(_EMBEDDED) is True:
        properties |= _IDENTITY
    new: dict[str, Any] = {
        "properties": {
            name: _translated(mapping(inner), closed=closed) for name, inner in properties.items()
        }
    }
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        new["additionalProperties"] = _translated(extra, closed=closed)
    elif (
        closed
        and extra is not True
        and schema.get(_PRESERVES) is not True
        and (schema.get("type") == "object" or properties)
    ):
        new["additionalProperties"] = False
    return new


def _is_pattern(text: object) -> bool:
    # The server's patterns are Go's; almost all of them have the same meaning here.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            re.compile(str(text))
    except (re.error, Warning):
        return False
    return True


def _with_defaults(value: Any, schema: Schema) -> Any:
    """Return a value with the defaults of its schema at every depth, as the server fills them in.

    A null that the schema does not allow counts as absent if there is a default.
    """
    if isinstance(value, dict):
        known = mapping(schema.get("properties"))
        filled = {
            name: inner
            for name, inner in value.items()
            if not (inner is None and "default" in (own := mapping(known.get(name)))
                    and own.get("nullable") is not True)
        }  # fmt: skip
        for name, inner in known.items():
            if name not in filled and "default" in mapping(inner):
                filled[name] = inner["default"]
        extra = mapping(schema.get("additionalProperties"))
        return {
            name: _with_defaults(inner, mapping(known.get(name)) or extra)
            for name, inner in filled.items()
        }
    if isinstance(value, list):
        return [_with_defaults(inner, mapping(schema.get("items"))) for inner in value]
    return value


def _violations(error: Any) -> Iterator[Violation]:
    place = tuple(error.absolute_path)
    if error.validator == "additionalProperties" and error.validator_value is False:
        known = error.schema.get("properties", {})
        for name in sorted(set(error.instance) - set(known)):
            yield Violation((*place, name), "unknown field")
    elif error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        for name in missing:
            yield Violation((*place, name), "required field is missing")
    else:
        yield Violation(place, one_line(error.message))


@cache
def _validator_class() -> Any:
    # Imported here: only a dry run of a custom resource whose CRD is not installed needs it.
    from jsonschema import Draft4Validator
    from jsonschema.validators import extend

    ours = {"x-kubernetes-list-type": _list_type, _UNCHECKED: _cannot_check}
    return extend(Draft4Validator, ours)  # type: ignore[no-untyped-call]


@cache
def _format_checker() -> Any:
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=("date", "email", "ipv4", "ipv6", "uuid"))
    for name, bits in _BITS.items():
        checker.checks(name)(_fits(bits))
    checker.checks("date-time")(_is_time)
    return checker


def _fits(bits: int) -> Any:
    return lambda value: not isinstance(value, int) or -(2**bits) <= value < 2**bits


_TIME = pattern(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _is_time(value: object) -> bool:
    return not isinstance(value, str) or _TIME.fullmatch(value) is not None


def _list_type(_validator: Any, kind: str, value: Any, schema: Any) -> Iterator[Any]:
    """Yield an error for duplicates in a set or, by the keys, in a map."""
    from jsonschema import ValidationError

    if not isinstance(value, list) or kind not in {"map", "set"}:
        return
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    seen: list[object] = []
    for place, inner in enumerate(value):
        name = [inner.get(key) for key in keys] if keys and isinstance(inner, dict) else inner
        if name in seen:
            yield ValidationError(f"duplicate item: {name!r}", path=(place,))
        seen.append(name)


def _cannot_check(_validator: Any, what: str, _value: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    yield ValidationError(what)


_RULES = "x-kubernetes-validations"
_NO_LIBRARY = "CEL rules: the package cel-expr-python is not installed"
_UNKNOWN = "the CEL rule "


def broken_rules(
    schema: Mapping[str, Any], body: Mapping[str, Any]
) -> tuple[Sequence[tuple[Place, str]], Sequence[str]]:
    """Return the places and messages of broken rules, and the rules that could not be evaluated."""
    broken, unjudged = [], []
    for place, rule, value in _rules(schema, body, ()):
        text = str(rule.get("rule", ""))
        if "oldSelf" in text:
            continue
        try:
            holds = _compiled(text).holds(value)
        except InputError:
            holds = None
        except UsageError:
            unjudged.append(_NO_LIBRARY)
            continue
        if holds is None:
            unjudged.append(_UNKNOWN + one_line(text))
        elif not holds:
            message = rule.get("message")
            broken.append((place, one_line(str(message)) if message else f"breaks the rule {text}"))
    return broken, unjudged


def _rules(
    schema: Mapping[str, Any], value: Any, place: Place
) -> Iterator[tuple[Place, Mapping[str, Any], Any]]:
    """Yield each rule with the value of its ``self``."""
    for rule in schema.get(_RULES) or ():
        yield place, mapping(rule), value
    if isinstance(value, dict):
        known, extra = mapping(schema.get("properties")), schema.get("additionalProperties")
        for name, inner in value.items():
            yield from _rules(mapping(known.get(name)) or mapping(extra), inner, (*place, name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _rules(mapping(schema.get("items")), inner, (*place, at))


@lru_cache(maxsize=256)
def _compiled(text: str) -> Rule:
    return compile_rule(text, where="")
