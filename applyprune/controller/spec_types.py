"""The types of the fields of a Bundle's spec, with the checks that its CRD cannot make."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, ConfigDict, WithJsonSchema
from pydantic.alias_generators import to_camel

from applyprune.errors import ApplypruneError
from applyprune.model.options import PruneLimit, rule_of_kind, seconds_of
from applyprune.model.text.names import is_dns_label, is_dns_subdomain
from applyprune.planning.fields.ignore_rule import IgnoreRule, split_pointers
from applyprune.planning.readiness.cel import compile_rule

_LONGEST = 30 * 24 * 3600.0
CAMEL = ConfigDict(alias_generator=to_camel, hide_input_in_errors=True)
"""The configuration of each part of a spec."""


def _seconds(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError("must be text such as 90s or 5m")  # noqa: TRY004 - pydantic collects it
    try:
        seconds = seconds_of(value)
    except ValueError as error:
        raise ValueError(f"{value!r} {error}") from None
    if not 1.0 <= seconds <= _LONGEST:
        raise ValueError(f"{value!r} is not between 1s and 720h")
    return seconds


def _max_prune(value: object) -> PruneLimit:
    try:
        return PruneLimit.parse(str(value))
    except ValueError as error:
        raise ValueError(f"{value!r} {error}") from None


def _label(text: str) -> str:
    if not is_dns_label(text):  # guard: name-of-one-namespace
        raise ValueError(f"{text!r} is not a DNS label")
    return text


def _name(text: str) -> str:
    # It becomes part of a URL path, and of the name of a user.
    if not is_dns_subdomain(text):  # guard: name-of-one-object
        raise ValueError(f"{text!r} is not a valid name")
    return text


def _pointer(text: str) -> str:
    if split_pointers(text) != (text,):
        raise ValueError(f"{text!r} is not a single JSON pointer")
    try:
        IgnoreRule(text)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    return text


def _expression(text: str) -> str:
    if text:
        try:
            compile_rule(text, where="")
        except ApplypruneError as error:
            raise ValueError(f"{error.message}: {error.reason}") from None
    return text


def _kind_rule(text: str) -> str:
    try:
        _, expression = rule_of_kind(text)
    except ValueError as error:
        raise ValueError(f"{text!r} {error}") from None
    _expression(expression)
    return text


Seconds = Annotated[float, BeforeValidator(_seconds), WithJsonSchema({"type": "string"})]
MaxPrune = Annotated[
    PruneLimit | None,
    BeforeValidator(_max_prune),
    WithJsonSchema({"x-kubernetes-int-or-string": True}),
]
Label = Annotated[str, AfterValidator(_label)]
Name = Annotated[str, AfterValidator(_name)]
Pointer = Annotated[str, AfterValidator(_pointer)]
Expression = Annotated[str, AfterValidator(_expression)]
"""A CEL expression that returns a bool, or nothing."""
KindRule = Annotated[str, AfterValidator(_kind_rule)]
"""``KIND.GROUP=EXPRESSION``."""
