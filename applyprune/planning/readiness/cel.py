"""Evaluate a user's readiness rule for a custom kind: a CEL expression over the live object.

Kubernetes itself uses CEL (cel.dev) for such rules: ``self`` is the object, as in a CRD's
validation rules. The library is the CEL team's own, over their C++ implementation. It checks the
names and types of an expression before anything is applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from applyprune.errors import InputError, UsageError
from applyprune.model.events import Readiness, current, failed, in_progress
from applyprune.model.live import one_line
from applyprune.planning.readiness.cel_cost import MOST_COST, cost_of, unknown_in
from applyprune.planning.readiness.cel_syntax import Node, syntax_tree
from applyprune.values import dataclass, field

_SELF = "self"
_QUOTED = 200
_LONGEST = 10_000
_LONGEST_ERROR = 300
# The library puts this code before and after an error.
_CODE = "INVALID_ARGUMENT"
_TOO_COSTLY = "LIMIT: it would cost too much memory or time on an object of this size"
_ABSENT = ("Key not found", "Index error")


@dataclass(frozen=True, slots=True)
class Rule:
    """A compiled rule."""

    text: str
    """The CEL expression."""
    where: str
    """The place that it was read from."""
    _expression: Any = field(repr=False, compare=False)
    _tree: Node = field(repr=False, compare=False)

    def holds(self, value: Any) -> bool | None:
        """Return whether the rule holds for a value; None if it cannot be evaluated."""
        kind, result = self._evaluated(value)
        return bool(result) if kind == "BOOL" else None

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
        if cost_of(self._tree, value) > MOST_COST:  # guard: rule-cost
            return "ERROR", _TOO_COSTLY
        try:
            result = self._expression.eval(data={_SELF: value})
            kind = result.type().name()
            # Another value may share its parts a million times: it is never written out.
            return kind, result.value() if kind in {"BOOL", "ERROR"} else None
        except (RuntimeError, TypeError, ValueError):
            # C++ cannot represent the value, such as a lone surrogate; the error would show it.
            return "ERROR", "the object has a value that CEL cannot represent"

    @property
    def _quoted(self) -> str:
        return _quote(self.text)


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
            hint="Run: pip install 'applyprune[cel]'. There are wheels for Linux with glibc, macOS "
            "and Windows on x86_64 and arm64.",
        ) from error
    # Kubernetes' own rules have these two extensions too: `self.?status.?phase.orValue('')`.
    extensions = [ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    environment = cel.NewEnv(variables={_SELF: cel.Type.DYN}, extensions=extensions)
    if len(text) > _LONGEST:  # guard: longest-rule
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
    try:
        tree = syntax_tree(expression.serialize())
    except (RuntimeError, ValueError) as error:
        raise _refused(text, where, str(error)) from error
    if unknown := unknown_in(tree):
        raise _refused(text, where, f"applyprune does not know what {unknown} costs")
    return Rule(text, where, expression, tree)


def _refused(text: str, where: str, reason: str) -> InputError:
    return InputError(
        f"the rule {_quote(text)} is not a CEL expression that returns a bool",
        location=where,
        reason=reason,
        hint="The live object is self: self.status.phase == 'Ready'. See cel.dev.",
    )


def _reason(error: str) -> str:
    """Return the library's message without its codes and its drawing of the place."""
    first = error.removeprefix(f"{_CODE}: ").partition("\n")[0]
    return one_line(
        first.removeprefix("ERROR: ")
        .removeprefix("<input>:")
        .removesuffix(f"[{_CODE}]")
        .removesuffix(" (in container '')")
    )


def _why(error: object, body: Mapping[str, Any]) -> str:
    # An error may quote computed values, which may be values of a Secret.
    if body.get("kind") == "Secret":
        return ""
    code, _, message = one_line(str(error)[:_LONGEST_ERROR]).partition(": ")
    if any(message.startswith(words) for words in _ABSENT):
        return f": {message.replace(' : ', ': ')}"
    return f": {message or code}"


def _article(kind: str) -> str:
    name = kind.lower()
    return f"an {name}" if name.startswith(("i", "e", "a", "o", "u")) else f"a {name}"


def _quote(text: str) -> str:
    line = one_line(text)
    return f"“{line[:_QUOTED]}…”" if len(line) > _QUOTED else f"“{line}”"
