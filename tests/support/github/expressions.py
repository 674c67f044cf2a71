"""The expressions of workflows, in the forms that the recipes and the action use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_TOKEN = re.compile(r"\s*(?:('(?:[^']|'')*')|([A-Za-z_][\w.-]*)|(\|\||&&|==|!=|[!()]))")
_EMBEDDED = re.compile(r"\${{(.*?)}}", re.DOTALL)

Value = str | bool | None


@dataclass
class Expressions:
    """Evaluates expressions; what a context lacks is null, as on GitHub."""

    contexts: Mapping[str, object]
    functions: Mapping[str, Callable[[], bool]]

    def text(self, text: str) -> str:
        """Return a text with its expressions replaced."""
        return _EMBEDDED.sub(lambda found: as_text(self.value(found[1])), text)

    def condition(self, text: str) -> bool:
        """Return whether a step or a job is due; without a status function only after success."""
        whole = text.strip()
        embedded = _EMBEDDED.fullmatch(whole)
        whole = embedded[1] if embedded else whole
        has_status = any(re.search(rf"\b{name}\(\)", whole) for name in self.functions)
        is_due = bool(self.value(whole)) if whole else True
        return is_due if has_status else is_due and self.functions["success"]()

    def value(self, text: str) -> Value:
        """Return the value of an expression."""
        tokens = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            assert found, f"not understood: {text[at:]!r}"
            tokens.append(found[0].strip())
            at = found.end()
        parser = _Parser(self, tokens)
        value = parser.either()
        assert not parser.tokens, f"not understood: {text!r}"
        return value

    def looked_up(self, name: str) -> Value:
        """Return what a context has under a name."""
        found: object = self.contexts
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        assert found is None or isinstance(found, str | bool | int), name
        return str(found) if isinstance(found, int) and not isinstance(found, bool) else found


@dataclass
class _Parser:
    """Reads ``!`` before ``==`` before ``&&`` before ``||``."""

    expressions: Expressions
    tokens: list[str]

    def either(self) -> Value:
        value = self.both()
        while self._took("||"):
            other = self.both()
            value = value or other
        return value

    def both(self) -> Value:
        value = self.compared()
        while self._took("&&"):
            other = self.compared()
            value = value and other
        return value

    def compared(self) -> Value:
        value = self.single()
        for sign in ("==", "!="):
            if self._took(sign):
                # Null equals the empty text, and case does not count.
                same = as_text(value).lower() == as_text(self.single()).lower()
                return same is (sign == "==")
        return value

    def single(self) -> Value:
        token = self.tokens.pop(0)
        if token == "!":
            return not self.single()
        if token == "(":
            value = self.either()
            assert self._took(")")
            return value
        if token.startswith("'"):
            return token[1:-1].replace("''", "'")
        if self._took("("):
            assert self._took(")"), f"{token} takes no arguments here"
            return self.expressions.functions[token]()
        return self.expressions.looked_up(token)

    def _took(self, token: str) -> bool:
        took = bool(self.tokens) and self.tokens[0] == token
        if took:
            self.tokens.pop(0)
        return took


def as_text(value: Value) -> str:
    """Return a value as it appears in a text."""
    if isinstance(value, bool):
        return str(value).lower()
    return value or ""
