"""A user's rule of readiness for a kind of their own: a CEL expression over the live object.

CEL (cel.dev) is what Kubernetes itself writes such rules in: ``self`` is the object, as in a CRD's
validation rules. The library is the CEL team's own, over their C++ implementation; it checks an
expression, names and types, before anything is applied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from applyprune.errors import InputError, UsageError
from applyprune.model.events import Readiness, current, failed, in_progress
from applyprune.model.json_access import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

_SELF = "self"
_QUOTED = 200
# What the library puts around an error: the code before it, the code again after it.
_CODE = "INVALID_ARGUMENT"
_ABSENT = ("Key not found", "Index error")


@dataclass(frozen=True, slots=True)
class Rule:
    """A compiled rule: ``text`` is the expression, ``where`` the place it was read from."""

    text: str
    where: str
    _expression: Any = field(repr=False, compare=False)

    def holds(self, value: Any) -> bool | None:
        """Return whether the rule holds of any value, None when it cannot be evaluated."""
        kind, result = self._evaluated(value)
        return bool(result) if kind == "BOOL" else None

    def judge(self, body: Mapping[str, Any]) -> Readiness:
        """Return Current for true, InProgress for false and for what cannot be evaluated yet.

        A field that is not there yet is no failure: the controller will write it. A result that is
        not a bool is: no later state of the object mends the rule.
        """
        kind, value = self._evaluated(body)
        if kind == "BOOL":
            if value:
                return current(f"the rule {self._quoted} holds")
            return in_progress(f"the rule {self._quoted} does not hold yet")
        if kind != "ERROR":
            return failed(f"the rule {self._quoted} yields {_article(kind)}, not a bool")
        return in_progress(f"the rule {self._quoted} cannot be evaluated yet{_why(value, body)}")

    def _evaluated(self, value: Any) -> tuple[str, Any]:
        """Return the type of the result, and the result; of an ERROR what is wrong."""
        try:
            result = self._expression.eval(data={_SELF: value})
            return result.type().name(), result.value()
        except (RuntimeError, TypeError, ValueError):
            # What C++ cannot take at all, as a lone surrogate; the error would show the object.
            return "ERROR", "the object has a value that CEL has no type for"

    @property
    def _quoted(self) -> str:
        return _quote(self.text)


def compile_rule(text: str, *, where: str) -> Rule:
    """Return the rule that a CEL expression is; raise InputError for one that can yield no bool."""
    try:
        # Imported here: most runs have no rule, and the library is 50 MB of C++.
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_optional, ext_strings
    except ImportError as error:
        raise UsageError(
            "rules of readiness cannot be used here",
            location=where,
            reason=f"the package cel-expr-python is not installed ({error})",
            hint="pip install 'applyprune[cel]'; there are wheels for Linux with glibc, macOS and "
            "Windows on x86_64 and arm64.",
        ) from error
    # The two extensions that Kubernetes' own rules have too: `self.?status.?phase.orValue('')`.
    extensions = [ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    environment = cel.NewEnv(variables={_SELF: cel.Type.DYN}, extensions=extensions)
    try:
        expression = environment.compile(text)
    except TypeError as error:
        raise _refused(text, where, "it has characters that are no text") from error
    except RuntimeError as error:
        raise _refused(text, where, _reason(str(error))) from error
    kind = expression.return_type().name()
    if kind not in {"BOOL", "DYN"}:
        raise _refused(text, where, f"it yields {_article(kind)}, not a bool")
    return Rule(text, where, expression)


def _refused(text: str, where: str, why: str) -> InputError:
    return InputError(
        f"the rule {_quote(text)} is not a CEL expression that yields a bool",
        location=where,
        reason=why,
        hint="The live object is self: self.status.phase == 'Ready'. See cel.dev.",
    )


def _reason(error: str) -> str:
    """Return the library's message without the codes around it and the picture of the place."""
    first = error.removeprefix(f"{_CODE}: ").partition("\n")[0]
    return one_line(
        first.removeprefix("ERROR: ")
        .removeprefix("<input>:")
        .removesuffix(f"[{_CODE}]")
        .removesuffix(" (in container '')")
    )


def _why(error: object, body: Mapping[str, Any]) -> str:
    # An error may quote what an expression has computed, of a Secret its values.
    if body.get("kind") == "Secret":
        return ""
    code, _, told = one_line(str(error)).partition(": ")
    if any(told.startswith(words) for words in _ABSENT):
        return f": {told.replace(' : ', ': ')}"
    return f": {told or code}"


def _article(kind: str) -> str:
    name = kind.lower()
    return f"an {name}" if name.startswith(("i", "e", "a", "o", "u")) else f"a {name}"


def _quote(text: str) -> str:
    line = one_line(text)
    return f"“{line[:_QUOTED]}…”" if len(line) > _QUOTED else f"“{line}”"
