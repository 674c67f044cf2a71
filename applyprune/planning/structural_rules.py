"""The CEL rules of a CRD's schema (``x-kubernetes-validations``), where no server judges them yet.

Only a violation that is certain counts. A rule that cannot be evaluated here, for what Kubernetes
adds to CEL or for the lack of the library, is named as one that was not checked; a rule about the
transition from an earlier state does not concern an object that is new.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from applyprune.errors import InputError, UsageError
from applyprune.model.json_access import mapping, one_line
from applyprune.planning.ready_rules import compile_rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune.planning.ready_rules import Rule

    Place = tuple[str | int, ...]

_RULES = "x-kubernetes-validations"
_NO_LIBRARY = "CEL rules, for which the package cel-expr-python is needed"
_UNKNOWN = "one of its CEL rules: "


def broken_rules(
    schema: Mapping[str, Any], body: Mapping[str, Any]
) -> tuple[Sequence[tuple[Place, str]], Sequence[str]]:
    """Return what breaks a rule, with its place, and the words for what could not be judged."""
    broken, unjudged = [], []
    for place, one, value in _rules(schema, body, ()):
        text = str(one.get("rule", ""))
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
            message = one.get("message")
            broken.append((place, one_line(str(message)) if message else f"breaks the rule {text}"))
    return broken, unjudged


def _rules(
    schema: Mapping[str, Any], value: Any, place: Place
) -> Iterator[tuple[Place, Mapping[str, Any], Any]]:
    """Yield each rule with the value that is its ``self``."""
    for one in schema.get(_RULES) or ():
        yield place, mapping(one), value
    if isinstance(value, dict):
        known, extra = mapping(schema.get("properties")), schema.get("additionalProperties")
        for name, inner in value.items():
            yield from _rules(mapping(known.get(name)) or mapping(extra), inner, (*place, name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _rules(mapping(schema.get("items")), inner, (*place, at))


@cache
def _compiled(text: str) -> Rule:
    return compile_rule(text, where="")
