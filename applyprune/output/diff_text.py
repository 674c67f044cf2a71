"""The text of what would change: diffs of objects as YAML, the lines of a plan, and roles.

Each printer writes what it gets at once, so a large diff needs no memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from io import StringIO
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML
from ruamel.yaml.representer import SafeRepresenter

from applyprune.model.events import (
    ErrorRaised,
    Event,
    Finished,
    ObjectDiff,
    ObjectDone,
    Planned,
    Started,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref, kubectl_name
from applyprune.model.options import Mode
from applyprune.model.plan import ApplyStep, Plan, RemoveStep
from applyprune.output.plan_text import (
    ConsequenceLines,
    Row,
    lifted_text,
    plan_counts,
    plan_notes,
    plan_row,
    plan_table,
    row_lines,
    shared_notes,
    target_line,
)
from applyprune.output.printers import OutputTarget, discard
from applyprune.output.problem_text import escaped_line, wrapped_line
from applyprune.output.terminal import Colour, styled
from applyprune.output.text import TextPrinter
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from applyprune.planning.rights import RoleText


class SummaryPrinter:
    """Writes problems, consequences and the summary; an external program shows the diffs.

    Each object has the same lines as in the table of a plan.
    """

    def __init__(self, target: OutputTarget) -> None:
        """Take the output; write nothing yet."""
        self._out = target.out
        self._note = discard if target.quiet else target.err
        self._text = TextPrinter(target, forecasts=True)
        self._target = target
        self._name = ""
        self._namespace = ""
        self._plan = Plan((), ())
        self._errors: list[ErrorRaised] = []
        self._shown: set[object] = set()
        self._consequences = ConsequenceLines()
        self._steps: Mapping[Ref, ApplyStep | RemoveStep] = {}
        self._notes: Mapping[str, str] = {}

    def show(self, event: Event) -> None:
        """Write one event."""
        match event:
            case ObjectDiff():
                self._shown.add(event.ref)
                self._diff(event)
            case Planned(plan=plan):
                self._plan = plan
                self._consequences.take_plan(plan)
                self._steps = {step.entry.ref: step for step in plan.steps}
                self._notes = shared_notes(plan, self._namespace)
                for text in lifted_text(plan, self._target.error_width):
                    self._note(text)
            case ObjectDone() if event.ref in self._shown:
                pass
            case ObjectDone(problem=None, outcome=outcome) if outcome is not Outcome.NOT_PRUNED:
                self._unchanged(event)
            case ErrorRaised():
                # Below what was planned, where it is seen.
                self._errors.append(event)
            case Finished():
                self._finished(event)
            case _:
                if isinstance(event, Started):
                    self._name, self._namespace = event.name, event.namespace
                    if self._target.is_watched:
                        self._note(target_line(event))
                self._text.show(event)

    def close(self) -> None:
        """Write the errors that ended the run, and close the text printer."""
        for error in self._errors:
            self._text.show(error)
        self._text.close()

    def _diff(self, diff: ObjectDiff) -> None:
        """Do nothing: the external program shows the diff."""

    def _unchanged(self, event: ObjectDone) -> None:
        """Write the lines of an object without a diff; of an unchanged one only if requested."""
        if event.outcome is Outcome.UNCHANGED and not self._target.show_unchanged:
            return
        step = self._steps.get(event.ref)
        if step is None:
            row = Row(Fate.LEAVE, event.ref, tuple(self._consequences.pop(event.ref)))
        else:
            row = plan_row(step, self._consequences, self._notes)
        if event.reason and (step is None or event.reason not in {step.reason, step.not_checked}):
            row = replace(row, details=(event.reason, *row.details))
        if event.outcome is Outcome.UNCHANGED:
            row = replace(row, fate=Fate.LEAVE)
        words = row.fate.forecast if row.fate is Fate.ADOPT else event.outcome.forecast
        row = replace(row, words=row.words or words)
        self._out("\n".join(row_lines(row, self._namespace, self._target.out_width)))

    def _finished(self, event: Finished) -> None:
        self._text.name_others()
        if self._errors and not event.counts:
            return
        for text in self._below():
            self._out(text)
        found = plan_counts(event.counts, self._plan)
        counts = [f"{count} {words}" for words, count in found.items()]
        result = f"{self._name}: {', '.join(counts) or 'nothing to compare'}"
        self._out("\n".join(wrapped_line(result, self._target.out_width)))
        # A person who looks at the plan in a terminal needs them only to hand it on.
        if self._target.verbose or self._target.digests or self._target.redraw is None:
            if self._plan.deletions:
                self._out(f"deletions: {self._plan.deletions}")
            if self._plan.digest:
                self._out(f"plan: {self._plan.digest}")
        if event.problem is not None:
            self._text.show(ErrorRaised(event.problem))

    def _below(self) -> Iterator[str]:
        """Yield what stands below all objects: consequences for others, and shared notes."""
        for ref, lines in self._consequences.pop_all():
            yield "\n".join((kubectl_name(ref, self._namespace), *(f"  {line}" for line in lines)))
        for line in (*self._notes.values(), *plan_notes(self._plan, self._namespace)):
            yield "\n".join(escaped_line(line, self._target.out_width))


_COLOURS = {"+": Colour.GREEN, "-": Colour.RED, "@": Colour.CYAN}


class DiffPrinter(SummaryPrinter):
    """Also writes the diff of each object, as soon as it is known."""

    def _diff(self, diff: ObjectDiff) -> None:
        step, known = self._steps.get(diff.ref), [*_drift(diff)]
        if diff.not_checked and diff.not_checked not in self._notes:
            known.insert(0, diff.not_checked)
        if step is not None:
            row = plan_row(step, self._consequences, self._notes)
        else:
            row = Row(diff.fate, diff.ref, tuple(self._consequences.pop(diff.ref)))
        row = replace(row, details=tuple(dict.fromkeys((*row.details, *known))))
        place = str(diff.origin) if diff.origin else ""
        self._out("\n".join(row_lines(row, self._namespace, self._target.out_width, place)))
        for line in unified(diff):
            self._out(styled(line, _COLOURS.get(line[:1])))
        self._out("")


def _drift(diff: ObjectDiff) -> Iterator[str]:
    if diff.drifted and not diff.drift:
        what = "removed" if diff.before is None else "changed"
        yield f"drift: {what} since the last apply of this manifest"
    for drift in diff.drift:
        # The masks of two different values of a Secret are equal.
        is_masked = drift.found == drift.wanted
        values = "has changed" if is_masked else f"is {drift.found}, was {drift.wanted}"
        details = ", ".join(part for part in (drift.operation, drift.time) if part)
        author = f", by {drift.manager} ({details})" if drift.manager else ""
        yield f"drift: {drift.path} {values}{author}"


class PlanPrinter(SummaryPrinter):
    """Writes the table of the plan, with what stays for a reason."""

    def show(self, event: Event) -> None:
        """Write one event."""
        if isinstance(event, ObjectDiff):
            return  # it is for a page of Markdown
        if isinstance(event, ObjectDone) and event.problem is None:
            return  # its fate is in the plan
        super().show(event)

    def _below(self) -> Iterator[str]:
        text = plan_table(
            self._plan,
            Mode.APPLY,
            ApplySetIdentity(self._name, self._namespace),
            self._target.out_width,
            full=True,
            unchanged=self._target.show_unchanged,
        )
        if text:
            yield text


def rbac_text(found: Sequence[RoleText]) -> str:
    """Return the documents, with the comments of each above it."""
    documents = []
    for role, lines in zip(found, as_yaml(*(role.body for role in found)), strict=True):
        documents.append("\n".join((*(f"# {comment}" for comment in role.comments), *lines)))
    return "\n---\n".join(documents)


_CONTEXT = 3
_NOWHERE = "/dev/null"


def unified(diff: ObjectDiff) -> Iterator[str]:
    """Yield the lines of the unified diff of one object."""
    before, after = as_yaml(diff.before, diff.after)
    name = f"{diff.ref.namespace}/{diff.ref.short}".lstrip("/")
    old, new = (f"live/{name}" if before else _NOWHERE, f"merged/{name}" if after else _NOWHERE)
    if not (before and after):
        # The whole object is created or deleted.
        sign, lines = ("+", after) if after else ("-", before)
        yield f"--- {old}"
        yield f"+++ {new}"
        yield f"@@ -{0 if after else 1},{len(before)} +{1 if after else 0},{len(after)} @@"
        yield from (sign + line for line in lines)
    elif before == after:
        yield "  (no field changes, only field ownership)"
    else:
        yield from unified_diff(before, after, old, new, n=_CONTEXT, lineterm="")


# Objects as YAML. Keys are in a fixed order, so that the texts of two states of an object differ
# only where the states differ.


# libyaml writes a text of several lines in quotes on one line if it contains any of these.
_ONLY_PURE = pattern("[\t\U00010000-\U0010ffff]| \n")


def as_yaml(*bodies: Mapping[str, Any] | None) -> Sequence[list[str]]:
    """Return the lines of each body, all in the same style; None has no lines."""
    # libyaml is three times as fast, but it cannot write all texts as blocks.
    pure = any(_ONLY_PURE.search(text) for body in bodies for text in _blocks(body))
    yaml = YAML(typ="safe", pure=pure)
    yaml.Representer = _Representer
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.allow_unicode = True
    yaml.width = 1_000_000_000
    return [[] if body is None else _lines(yaml, body) for body in bodies]


_FIRST = {"apiVersion": 0, "kind": 1, "metadata": 2}
_FIRST_OF_METADATA = {"name": 0, "namespace": 1}


def _lines(yaml: YAML, body: Mapping[str, Any]) -> list[str]:
    stream = StringIO()
    ordered = _ordered(body, _FIRST)
    if isinstance(ordered.get("metadata"), dict):
        ordered["metadata"] = _ordered(body["metadata"], _FIRST_OF_METADATA)
    yaml.dump(ordered, stream)
    # Not splitlines(): it also splits at characters that do not end a line of YAML.
    return stream.getvalue().removesuffix("\n").split("\n")


def _ordered(value: Any, first: Mapping[str, int]) -> Any:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: (first.get(name, len(first)), name))
        return {name: _ordered(value[name], {}) for name in names}
    if isinstance(value, list):
        return [_ordered(item, {}) for item in value]
    return value


def _blocks(value: Any) -> Iterator[str]:
    """Yield every text of several lines."""
    if isinstance(value, dict):
        for item in value.values():
            yield from _blocks(item)
    elif isinstance(value, list):
        for item in value:
            yield from _blocks(item)
    elif isinstance(value, str) and "\n" in value:
        yield value


# Texts that YAML 1.1, which Kubernetes reads, takes for another type.
_NO_TEXT = pattern(r"y|n|yes|no|on|off|[-+]?\d[\d_]*(:[0-5]?\d)+(\.\d*)?", re.IGNORECASE)
# A text with one of these is written in quotes, with escapes: a block would lose or hide it.
_UNSAFE = pattern("[^\t\n -~\u00a0-\u1fff\u2030-\u205e\u2070-\ud7ff\ue000-\U0010ffff]")


class _Representer(SafeRepresenter):
    """Texts of several lines as blocks, and no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - ruamel's signature
        """Write every value in full, without anchors."""
        return True

    def represent_text(self, data: str) -> Any:
        """Write a text so that YAML reads it as a text."""
        style = None
        if _UNSAFE.search(data):
            style = '"'
        elif "\n" in data:
            style = "|"
        elif _NO_TEXT.fullmatch(data):
            style = "'"
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Representer.add_representer(str, _Representer.represent_text)
