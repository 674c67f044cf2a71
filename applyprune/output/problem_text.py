"""Problems as lines of text: one in full, and what holds for many objects once.

Problems of several objects have one reason if their texts differ only in the name of the object.
The first is shown in full, and the other objects by name: ten of them, and how many more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from applyprune.model.fate import Outcome
from applyprune.model.identity import kubectl_name
from applyprune.model.text import age_of, and_more, counted
from applyprune.output.terminal import Colour, fitted, styled
from applyprune.values import pattern

if TYPE_CHECKING:
    from applyprune.model.identity import Ref
    from applyprune.model.problem import Problem


_SEVERITY_COLOURS = {"error": Colour.RED, "warning": Colour.YELLOW}
_INDENT = "  "
# Not a time in a value.
_WRITTEN = pattern(r"(\((?:last|(?:Apply|Update)[^()\"]*,) )(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)\)")
# Options or a command at the end of a line: a user can copy them only from one line.
_TO_COPY = pattern(r"(?:: |^ *)(?:--|applyprune |kubectl )[^,]*(?<!\.)$")


def problem_text(label: str, problem: Problem, width: int | None = None) -> str:
    """Return ``error: location: message: reason``, or ``warning: …``, and below it the rest.

    The other lines are indented, so that no part of a message looks like a line of ours. Lines
    wider than ``width`` are wrapped at spaces, except lines of the input and commands. The times of
    the writes that a conflict is about become ages.
    """
    text = str(problem)
    if problem.conflicts:
        text = _WRITTEN.sub(lambda said: f"{said[1]}{age_of(said[2])} ago)", text)
    first, *below = text.splitlines() or [""]
    excerpt = {f"{_INDENT}{line}" for line in problem.excerpt.splitlines()}
    lines = fitted(f"{label}: {first}", width)
    for line in below:
        indented = line if line.startswith(_INDENT) else f"{_INDENT}{line}"
        keep_whole = line in excerpt or _TO_COPY.search(line)
        lines += [indented] if keep_whole else fitted(indented, width)
    lines[0] = lines[0].replace(f"{label}:", styled(f"{label}:", _SEVERITY_COLOURS[label]), 1)
    return "\n".join(lines)


# What holds for many objects.


NAMED = 10
"""How many objects of one reason are named."""
_OBJECT = "…"
"""What takes the place of an object's name in the texts that are compared."""


def reason_of(ref: Ref, problem: Problem) -> tuple[object, ...]:
    """Return what the problems of several objects have in common if they have one reason."""
    if problem.conflicts:
        # The values differ from object to object, and so does the time of a write.
        return (
            problem.kind,
            *(
                (one.manager, one.operation, tuple(field.field for field in one.fields))
                for one in problem.conflicts
            ),
        )
    reason = problem.lasting_reason or problem.reason
    return (problem.kind, *(without_name(ref, text) for text in (problem.message, reason)))


def without_name(ref: Ref, text: str, word: str = _OBJECT) -> str:
    """Return a text with a word in place of the name of the object that it is about."""
    # First with its namespace: objects without one may have the same reason.
    for name in (str(ref), ref.short, f'"{ref.name}"'):
        text = text.replace(name, word)
    return text


class Repeated:
    """Objects that failed for the reason of an earlier one; they wait to be named together."""

    def __init__(self) -> None:
        """Begin without any."""
        self._first: dict[object, Ref] = {}
        self._others: dict[tuple[object, ...], list[Ref]] = {}

    def take(self, ref: Ref, problem: Problem, outcome: Outcome | None) -> bool:
        """Return whether the reason is that of an earlier object; if so, keep the name.

        ``outcome`` is None for an object that has not become ready.
        """
        reason = reason_of(ref, problem)
        if self._first.setdefault((outcome, reason), ref) is ref:
            return False
        self._others.setdefault((outcome, reason), []).append(ref)
        return True

    def pop_all(self, namespace: str) -> Iterator[str]:
        """Yield a line for each reason that several objects have, and forget these objects."""
        others, self._others = self._others, {}
        for key, refs in others.items():
            outcome = key[0]
            one, several = _OTHERS.get(outcome, _FAILED)
            how = one if len(refs) == 1 else several
            first = kubectl_name(self._first[key], namespace)
            about = f"{counted(len(refs), 'more object')} {how} for the same reason as {first}"
            yield f"{about}: {some_names(refs, namespace, NAMED - 1)}"


_FAILED = ("failed", "failed")
_OTHERS: Mapping[object, tuple[str, str]] = {
    Outcome.SKIPPED: ("was skipped", "were skipped"),
    None: ("is not ready", "are not ready"),
}


def some_names(refs: Sequence[Ref], namespace: str, limit: int = NAMED) -> str:
    """Return the first objects by name, and how many more there are."""
    names = and_more([kubectl_name(ref, namespace) for ref in refs], limit)
    return f"{names} (-v lists all)" if len(refs) > limit else names
