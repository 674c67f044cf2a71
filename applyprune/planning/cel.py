"""Evaluate a user's readiness rule for a custom kind: CEL (cel.dev).

``self`` is the object, as in a CRD's validation rules. The library is the CEL team's own, over
their C++ implementation; it checks names and types before anything is applied. It bounds the
iterations, but not the memory: a rule is short, and a reconcile is a process with limits of its own
(`controller.worker`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from applyprune._version import pip_install
from applyprune.errors import InputError, UsageError
from applyprune.model.events import Readiness, current, failed, in_progress
from applyprune.model.live import one_line
from applyprune.values import hiding

_SELF = "self"
_QUOTED = 200
_LONGEST = 1_000
_LONGEST_ERROR = 300
# The library puts this code before and after an error.
_CODE = "INVALID_ARGUMENT"
_TOO_MANY = "LIMIT: its loops would take more than 10,000 steps on an object of this size"
_ITERATED = "Iteration budget exceeded"
_ABSENT = ("Key not found", "Index error")


class Rule(Struct, frozen=True):
    """A compiled rule."""

    text: str
    """The CEL expression."""
    where: str
    """The place that it was read from."""
    _expression: Any

    __repr__ = hiding("_expression")

    def judge(self, body: Mapping[str, Any]) -> Readiness:
        """Return Current for true, InProgress for false or for a rule that cannot be evaluated yet.

        A missing field is not a failure: the controller will write it. A result that is not a bool
        is a failure: no later state of the object changes that.
        """
        kind, value = self._evaluated(body)
        if kind == "BOOL":
            if value:
                return current(f"the rule {self._quoted} holds")
            return in_progress(f"the rule {self._quoted} does not hold yet")
        if kind != "ERROR":
            return failed(f"the rule {self._quoted} returns {_article(kind)}, not a bool")
        return in_progress(f"the rule {self._quoted} cannot be evaluated yet{_why(value, body)}")

    def _evaluated(self, value: Any) -> tuple[str, Any]:
        """Return the type of the result, and the result if it is a bool; for ERROR, its text."""
        try:
            result = self._expression.eval(data={_SELF: value})
            kind = result.type().name()
            # Another value may share its parts a million times: it is never written out.
            return kind, result.value() if kind in {"BOOL", "ERROR"} else None
        except (RuntimeError, TypeError, ValueError) as error:
            if _ITERATED in str(error):
                return "ERROR", _TOO_MANY
            # C++ cannot represent the value, such as a lone surrogate; the error would show it.
            return "ERROR", "the object has a value that CEL cannot represent"

    @property
    def _quoted(self) -> str:
        return _quote(self.text)


def _why(error: object, body: Mapping[str, Any]) -> str:
    # An error may quote computed values, which may be values of a Secret.
    if body.get("kind") == "Secret":
        return ""
    code, _, message = one_line(str(error)[:_LONGEST_ERROR]).partition(": ")
    if any(message.startswith(words) for words in _ABSENT):
        return f": {message.replace(' : ', ': ')}"
    return f": {message or code}"


def compile_rule(text: str, *, where: str) -> Rule:
    """Compile a CEL expression; raise InputError if it is invalid or cannot return a bool."""
    try:
        # Imported here: most runs have no rule, and the library has 50 MB of C++.
        from cel_expr_python import cel
        from cel_expr_python.ext import ext_optional, ext_strings
    except ImportError as error:
        raise UsageError(
            "ready-when rules are not available",
            location=where,
            reason=f"the package cel-expr-python is not installed ({error})",
            hint=f"Run: {pip_install('cel')}. There are wheels for Linux with glibc and macOS on "
            "x86_64 and arm64.",
        ) from error
    # Kubernetes' own rules have these two extensions too: `self.?status.?phase.orValue('')`.
    extensions = [ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    environment = cel.NewEnv(variables={_SELF: cel.Type.DYN}, extensions=extensions)
    if len(text) > _LONGEST:  # guard: longest-rule never
        raise _refused(text, where, f"it is longer than {_LONGEST} characters")
    try:
        expression = environment.compile(text)
    except TypeError as error:
        raise _refused(text, where, "it contains invalid characters") from error
    except RuntimeError as error:
        raise _refused(text, where, _reason(str(error))) from error
    kind = expression.return_type().name()
    if kind not in {"BOOL", "DYN"}:
        raise _refused(text, where, f"it returns {_article(kind)}, not a bool")
    return Rule(text, where, expression)


def _refused(text: str, where: str, reason: str) -> InputError:
    return InputError(
        f"the rule {_quote(text)} is not a CEL expression that returns a bool",
        location=where,
        reason=reason,
        hint="The live object is self: self.status.phase == 'Ready'. See cel.dev.",
    )


def _quote(text: str) -> str:
    line = one_line(text)
    return f"“{line[:_QUOTED]}…”" if len(line) > _QUOTED else f"“{line}”"


def _reason(error: str) -> str:
    """Return the library's message without its codes and its drawing of the place."""
    first = error.removeprefix(f"{_CODE}: ").partition("\n")[0]
    return one_line(
        first.removeprefix("ERROR: ")
        .removeprefix("<input>:")
        .removesuffix(f"[{_CODE}]")
        .removesuffix(" (in container '')")
    )


def _article(kind: str) -> str:
    name = kind.lower()
    return f"an {name}" if name.startswith(("i", "e", "a", "o", "u")) else f"a {name}"
