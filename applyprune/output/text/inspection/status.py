"""The text of verbs that only read: tables, written when they are complete."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from applyprune.model.events import ApplySetListed, Explanation, ObjectStatus
from applyprune.model.identity import Ref
from applyprune.model.inventory import RunRecord
from applyprune.model.readiness_state import Status
from applyprune.model.reports.version import VersionReport
from applyprune.model.text.display import age, age_of
from applyprune.output.printers import OutputTarget
from applyprune.output.terminal.table import table
from applyprune.output.text.inspection.run_records import by, ended
from applyprune.output.text.inspection.status_lines import details, tree_table
from applyprune.output.text.inspection.version import version_line
from applyprune.output.text.problem_text import problem_text, wrapped_line
from applyprune.values import dataclass, field

InspectionEvent: TypeAlias = ObjectStatus | ApplySetListed | Explanation | VersionReport

_DRIFTED = {True: "yes", False: "no", None: "unknown"}


@dataclass(slots=True)
class InspectionPrinter:
    """Collects events and writes them to ``target.out``; ``began`` says whether there were any.

    The event of a set follows those of its objects, and completes the tables. Later events of the
    same set are changes: a terminal redraws the tables, any other stream gets a line for each
    change. Those of another set begin its own tables.
    """

    target: OutputTarget
    began: bool = False
    _objects: dict[Ref, ObjectStatus] = field(default_factory=dict)
    _sets: list[ApplySetListed] = field(default_factory=list)
    _drawn: bool = False
    _set: tuple[str, str] = ("", "")
    _namespace: str = ""

    def show(self, event: InspectionEvent) -> None:
        """Take one event; write what it completes."""
        self.began = True
        match event:
            case VersionReport(client, python, platform, server):
                self.target.out(version_line(*map(_line, (client, python, platform, server))))
            case Explanation():
                self._explained(event)
            case ObjectStatus():
                self._begin(event)
                self._objects[event.ref] = event
                if self._drawn and self.target.redraw is None:
                    self.target.out(_change(event))
                    _, *lines = details(event, self._namespace, told=True) or ("",)
                    for line in lines:
                        self.target.out(_line(line))
            case ApplySetListed() if self._objects and self._set in _names(event):
                self._tables(event)
            case ApplySetListed():
                self._sets.append(event)

    def close(self) -> None:
        """Write the tables that no event has completed."""
        if self._sets:
            self.target.out(_list(self._sets))
            for applyset in self._sets:
                if applyset.problem is not None:
                    self.target.err(problem_text("warning", applyset.problem))
            self._sets.clear()
        elif self._objects and not self._drawn:
            self.target.out(_objects(list(self._objects.values()), self._width))

    def _begin(self, event: ObjectStatus) -> None:
        """Begin the tables of another set."""
        named = (event.namespace, event.name)
        if self._objects and named != self._set:
            if self._drawn:
                self.target.out("")
            self._objects, self._drawn = {}, False
        self._set = named

    @property
    def _width(self) -> int | None:
        """Return the columns of the terminal, None if the output is not a terminal."""
        return None if self.target.redraw is None else self.target.width

    def _tables(self, applyset: ApplySetListed) -> None:
        redraw, self._namespace = self.target.redraw, applyset.namespace
        if self._drawn and redraw is None:
            return
        objects = list(self._objects.values())
        with_tree = any(status.tree is not None for status in objects)
        first = (
            tree_table(objects, applyset.namespace) if with_tree else _objects(objects, self._width)
        )
        explained = (
            line
            for status in objects
            for line in details(status, applyset.namespace, told=not with_tree)
        )
        texts = [*explained, *_drifts(objects), *_about(applyset, objects)]
        lines = [first, *(line for text in texts for line in self._fitted(text))]
        write = redraw if self._drawn and redraw is not None else self.target.out
        write("\n".join(lines))
        self._drawn = True

    def _explained(self, event: Explanation) -> None:
        place = f" ({event.origin})" if event.origin else ""
        lines = [f"{event.ref}{place}"]
        for reason in event.reasons:
            head, *rest = reason.splitlines() or [""]
            lines += [f"  - {head}", *(f"    {line.strip()}" for line in rest)]
        lines.append(f"→ {event.verdict}")
        self.target.out("\n".join(fitted for line in lines for fitted in self._fitted(line)))

    def _fitted(self, text: str) -> list[str]:
        """Return a line of text, wrapped on a terminal."""
        return wrapped_line(_line(text), self._width)


def _names(applyset: ApplySetListed) -> tuple[tuple[str, str], ...]:
    """Return the names by which the objects of a set may name it: a stream may have none."""
    return (applyset.namespace, applyset.name), ("", "")


def _list(sets: list[ApplySetListed]) -> str:
    has_ready = any(applyset.ready is not None for applyset in sets)
    head = ["NAMESPACE", "NAME", "OBJECTS", "LAST CHANGE", "BY", "HELD BY"]
    if has_ready:
        head.insert(3, "READY")
    rows = []
    for applyset in sets:
        objects = "?" if applyset.objects is None else str(applyset.objects)
        last = applyset.last
        run = f"{last.mode}, {age_of(last.at)}{_ended(last)}" if last else "-"
        who = applyset.owner or (by(last) if last else "-")
        row = [applyset.namespace, applyset.name, objects, run, who, applyset.holder or "-"]
        if has_ready:
            row.insert(3, "?" if applyset.ready is None else f"{applyset.ready}/{objects}")
        rows.append(row)
    return table(head, rows)


def _ended(last: RunRecord) -> str:
    return "" if last.exit_code == 0 else f" ({ended(last)})"


def _objects(objects: list[ObjectStatus], width: int | None) -> str:
    rows = [
        (
            status.ref.namespace or "-",
            status.ref.short,
            status.readiness.status.text,
            _DRIFTED[status.drifted],
            age(status.age),
            _message(status),
        )
        for status in objects
    ]
    return table(("NAMESPACE", "OBJECT", "STATUS", "DRIFTED", "AGE", "MESSAGE"), rows, width)


def _message(status: ObjectStatus) -> str:
    """Return why an object is not ready, or the warning about a ready one."""
    if status.readiness.status is Status.CURRENT:
        return " ".join(status.readiness.warning.split())
    return " ".join(status.readiness.message.split())


def _drifts(objects: list[ObjectStatus]) -> Iterator[str]:
    for status in objects:
        if not status.drift:
            continue
        yield _line(f"{_name(status)} has drifted:")
        for drift in status.drift:
            who = " ".join(part for part in (drift.manager, drift.operation, drift.time) if part)
            wanted = f" (the set's: {drift.wanted})" if drift.wanted else ""
            yield _line(f"  {drift.path}: {drift.found}{wanted}{f', by {who}' if who else ''}")


def _about(applyset: ApplySetListed, objects: list[ObjectStatus]) -> Iterator[str]:
    drifted = sum(status.drifted is True for status in objects)
    unknown = sum(status.drifted is None for status in objects)
    parts = [f"{len(objects)} object{'' if len(objects) == 1 else 's'}", f"{applyset.ready} ready"]
    if drifted:
        parts.append(f"{drifted} drifted")
    if unknown:
        parts.append(f"{unknown} with unknown drift")
    yield _line(f"{applyset.name} -n {applyset.namespace}: {', '.join(parts)}")
    if (last := applyset.last) is not None:
        yield _line(f"last change: {last.mode} by {by(last)}, {age_of(last.at)} ago, {ended(last)}")
    if applyset.owner:
        yield _line(f"owned by {applyset.owner}")
    if applyset.holder:
        yield _line(f"held by {applyset.holder}")


def _line(text: str) -> str:
    """Return the text on one line, with its line ends escaped."""
    return text.replace("\n", "\\n")


def _change(status: ObjectStatus) -> str:
    words = [status.readiness.status.text, *(["drifted"] if status.drifted else [])]
    message = _message(status)
    return _line(f"{_name(status)} {', '.join(words)}{f': {message}' if message else ''}")


def _name(status: ObjectStatus) -> str:
    ref = status.ref
    return f"{ref.short} -n {ref.namespace}" if ref.namespace else ref.short
