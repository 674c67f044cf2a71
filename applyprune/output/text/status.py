"""What verbs that only look have seen, as a person reads it: tables, once all of it is there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from applyprune.model.display import age, age_of
from applyprune.model.events import ApplySetListed, Explanation, ObjectStatus, Status, VersionReport
from applyprune.output.terminal.table import table
from applyprune.output.text.problem_text import problem_text
from applyprune.output.text.version import version_line as versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.model.identity import Ref
    from applyprune.model.inventory import LastRun
    from applyprune.output.printers import OutputTarget

Seen: TypeAlias = ObjectStatus | ApplySetListed | Explanation | VersionReport

_DRIFTED = {True: "yes", False: "no", None: "-"}


@dataclass(slots=True)
class Overview:
    """Collects events and writes them to ``screen.out``; ``began`` says whether there were any.

    The objects of a set come before the set itself, which ends the picture. What comes after that
    are changes: a terminal gets the whole picture again, anything else a line for each.
    """

    screen: OutputTarget
    began: bool = False
    _objects: dict[Ref, ObjectStatus] = field(default_factory=dict)
    _sets: list[ApplySetListed] = field(default_factory=list)
    _drawn: bool = False

    def take(self, event: Seen) -> None:
        """Take one event; write what is complete by it."""
        self.began = True
        match event:
            case VersionReport(client, python, platform, server):
                said = (_line(one) for one in (client, python, platform, server))
                self.screen.out(versions(*said))
            case Explanation():
                self._explained(event)
            case ObjectStatus():
                self._objects[event.ref] = event
                if self._drawn and self.screen.again is None:
                    self.screen.out(_change(event))
            case ApplySetListed() if self._objects:
                self._picture(event)
            case ApplySetListed():
                self._sets.append(event)

    def close(self) -> None:
        """Write what was not complete before."""
        if self._sets:
            self.screen.out(_list(self._sets))
            for one in self._sets:
                if one.problem is not None:
                    self.screen.err(problem_text("warning", one.problem))
            self._sets.clear()
        elif self._objects and not self._drawn:
            self.screen.out(_objects(list(self._objects.values()), self._width))

    @property
    def _width(self) -> int | None:
        """Return the columns of the terminal that shows it, None where none does."""
        return None if self.screen.again is None else self.screen.width

    def _picture(self, whole: ApplySetListed) -> None:
        again = self.screen.again
        if self._drawn and again is None:
            return
        objects = list(self._objects.values())
        lines = [_objects(objects, self._width), *_drifts(objects), *_about(whole, objects)]
        write = again if self._drawn and again is not None else self.screen.out
        write("\n".join(lines))
        self._drawn = True

    def _explained(self, event: Explanation) -> None:
        place = f" ({event.origin})" if event.origin else ""
        self.screen.out(_line(f"{event.ref}{place}"))
        for reason in event.reasons:
            head, *rest = reason.splitlines() or [""]
            self.screen.out("\n".join((f"  - {head}", *(f"    {line.strip()}" for line in rest))))
        self.screen.out(f"→ {_line(event.verdict)}")


def _list(sets: list[ApplySetListed]) -> str:
    ready = any(one.ready is not None for one in sets)
    head = ["NAMESPACE", "NAME", "OBJECTS", "LAST RUN", "BY", "HELD BY"]
    if ready:
        head.insert(3, "READY")
    rows = []
    for one in sets:
        objects = "?" if one.objects is None else str(one.objects)
        last = f"{one.last.mode}, {age_of(one.last.at)}{_ended(one.last)}" if one.last else "-"
        by = one.owner or (one.last.who if one.last else "-")
        row = [one.namespace, one.name, objects, last, by, one.holder or "-"]
        if ready:
            row.insert(3, "?" if one.ready is None else f"{one.ready}/{objects}")
        rows.append(row)
    return table(head, rows)


def _ended(last: LastRun) -> str:
    return f" (exit code {last.exit_code})" if last.exit_code else ""


def _objects(objects: list[ObjectStatus], width: int | None) -> str:
    rows = [
        (
            one.ref.namespace or "-",
            one.ref.short,
            one.readiness.status.text,
            _DRIFTED[one.drifted],
            age(one.age),
            _message(one),
        )
        for one in objects
    ]
    return table(("NAMESPACE", "OBJECT", "STATUS", "DRIFTED", "AGE", "MESSAGE"), rows, width)


def _message(one: ObjectStatus) -> str:
    """Return why an object is not ready; of a ready one there is nothing to say."""
    if one.readiness.status is Status.CURRENT:
        return ""
    return " ".join(one.readiness.message.split())


def _drifts(objects: list[ObjectStatus]) -> Iterator[str]:
    for one in objects:
        if not one.drift:
            continue
        home = f" -n {one.ref.namespace}" if one.ref.namespace else ""
        yield _line(f"{one.ref.short}{home} has drifted:")
        for drift in one.drift:
            who = " ".join(part for part in (drift.manager, drift.operation, drift.time) if part)
            wanted = f" (the set's: {drift.wanted})" if drift.wanted else ""
            yield _line(f"  {drift.path}: {drift.found}{wanted}{f', by {who}' if who else ''}")


def _about(whole: ApplySetListed, objects: list[ObjectStatus]) -> Iterator[str]:
    drifted = sum(one.drifted is True for one in objects)
    parts = [f"{len(objects)} object{'' if len(objects) == 1 else 's'}", f"{whole.ready} ready"]
    if drifted:
        parts.append(f"{drifted} drifted")
    yield _line(f"{whole.name}: {', '.join(parts)}")
    if (last := whole.last) is not None:
        ended = f"exit code {last.exit_code}"
        yield _line(f"last change: {last.mode} by {last.who}, {age_of(last.at)} ago, {ended}")
    if whole.owner:
        yield _line(f"owned by {whole.owner}")
    if whole.holder:
        yield _line(f"held by {whole.holder}")


def _line(text: str) -> str:
    """Return one line, whatever the texts of others in it hold."""
    return text.replace("\n", "\\n")


def _change(one: ObjectStatus) -> str:
    home = f" -n {one.ref.namespace}" if one.ref.namespace else ""
    words = [one.readiness.status.text, *(["drifted"] if one.drifted else [])]
    message = _message(one)
    return _line(f"{one.ref.short}{home} {', '.join(words)}{f': {message}' if message else ''}")
