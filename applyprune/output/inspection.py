"""The text of the verbs that only read: sets, statuses, inventories, runs; a Bundle's plan.

Tables are written when they are complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

from applyprune.model.events import (
    ApplySetListed,
    Explanation,
    ObjectBelongs,
    ObjectStatus,
    RunListed,
    Status,
)
from applyprune.model.identity import Ref, kubectl_name
from applyprune.model.inventory import RunRecord
from applyprune.model.options import Mode
from applyprune.model.reports import ImportEnded, OwnerFound, VersionReport
from applyprune.model.text import age, age_of, and_more, counted
from applyprune.output.printers import OutputTarget, version_line
from applyprune.output.problem_text import problem_text
from applyprune.output.terminal import fitted, one_line, table
from applyprune.planning.applyset import ApplySetIdentity

if TYPE_CHECKING:
    from applyprune.model.events import ContainerLog, TreeNode, WarningEvent
    from applyprune.model.reports import BundlePlan, BundleStatus


InspectionEvent: TypeAlias = ObjectStatus | ApplySetListed | Explanation | VersionReport


class InspectionPrinter(Struct):
    """Collects events and writes them to ``target.out``; ``began`` says whether there were any.

    With ``shows_drift``, all drifted fields are listed below the table, not only the first in it.

    The event of a set follows those of its objects, and completes the tables. Later events of the
    same set are changes: a terminal redraws the tables, any other stream gets a line for each
    change. Those of another set begin its own tables.
    """

    target: OutputTarget
    began: bool = False
    shows_drift: bool = False
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
                self.target.out(version_line(*map(one_line, (client, python, platform, server))))
            case Explanation():
                self._explained(event)
            case ObjectStatus():
                self._begin(event)
                self._objects[event.ref] = event
                if self._drawn and self.target.redraw is None:
                    self.target.out(_change(event))
                    _, *lines = details(event, self._namespace, is_shown=True) or ("",)
                    for line in lines:
                        self.target.out(one_line(line))
            # The objects of a stream without a run name no set.
            case ApplySetListed() if self._objects and self._set in {
                (event.namespace, event.name),
                ("", ""),
            }:
                self._tables(event)
            case ApplySetListed():
                self._sets.append(event)

    def close(self) -> None:
        """Write the tables that no event has completed."""
        if self._sets:
            self.target.out(_list(self._sets, self.target))
            for applyset in self._sets:
                if applyset.problem is not None:
                    self.target.err(problem_text("warning", applyset.problem))
            self._sets.clear()
        elif self._objects and not self._drawn:
            self.target.out(_objects(list(self._objects.values()), self.target.table_width))

    def _begin(self, event: ObjectStatus) -> None:
        """Begin the tables of another set."""
        named = (event.namespace, event.name)
        if self._objects and named != self._set:
            if self._drawn:
                self.target.out("")
            self._objects, self._drawn = {}, False
        self._set = named

    def _tables(self, applyset: ApplySetListed) -> None:
        redraw, self._namespace = self.target.redraw, applyset.namespace
        if self._drawn and redraw is None:
            return
        objects = list(self._objects.values())
        with_tree = any(status.tree is not None for status in objects)
        width = self.target.table_width
        first = (
            tree_table(objects, applyset.namespace, width)
            if with_tree
            else _objects(objects, width)
        )
        explained = (
            line
            for status in objects
            for line in details(status, applyset.namespace, is_shown=not with_tree)
        )
        drifts = _drifts(objects) if self.shows_drift else ()
        texts = [*explained, *drifts, *_about(applyset, objects)]
        lines = [first, *(line for text in texts for line in fitted(text, self.target.out_width))]
        write = redraw if self._drawn and redraw is not None else self.target.out
        write("\n".join(lines))
        self._drawn = True

    def _explained(self, event: Explanation) -> None:
        place = f" ({event.origin})" if event.origin else ""
        lines = [f"{event.ref}{place}", f"→ {event.verdict}"]
        for reason in (*event.reasons, *(event.passed if self.target.verbose else ())):
            head, *rest = reason.splitlines() or [""]
            lines += [f"  - {head}", *(f"    {line.strip()}" for line in rest)]
        width = self.target.out_width
        self.target.out("\n".join(part for line in lines for part in fitted(line, width)))


_DRIFTED = {True: "yes", False: "no", None: "unknown"}


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


def _change(status: ObjectStatus) -> str:
    words = [status.readiness.status.text, *(["drifted"] if status.drifted else [])]
    message = _message(status)
    return one_line(f"{_name(status)} {', '.join(words)}{f': {message}' if message else ''}")


def _message(status: ObjectStatus) -> str:
    """Return why an object is not ready, or the warning about a ready one; and its first drift."""
    is_ready = status.readiness.status is Status.CURRENT
    why = status.readiness.warning if is_ready else status.readiness.message
    return "; ".join(" ".join(part.split()) for part in (why, _first_drift(status)) if part)


def _first_drift(status: ObjectStatus) -> str:
    """Return the first field that has drifted of each manager, and how many more there are."""
    by: dict[tuple[str, bool], list[str]] = {}
    for drift in status.drift:
        removed = drift.found is None and not drift.manager
        by.setdefault((drift.manager, removed), []).append(drift.path)
    parts = []
    for (manager, removed), (first, *others) in by.items():
        by_nobody = f"{first} {'was removed' if removed else 'has changed'}"
        what = f"{manager} changed {first}" if manager else by_nobody
        parts.append(f"{what} and {counted(len(others), 'more field')}" if others else what)
    return and_more(parts, _MANAGERS)


_MANAGERS = 3
"""How many managers are named that have changed an object."""


def _list(sets: list[ApplySetListed], target: OutputTarget) -> str:
    has_ready = any(applyset.ready is not None for applyset in sets)
    head = ["NAMESPACE", "NAME", "OBJECTS", "LAST CHANGE", "BY", "HELD BY"]
    if has_ready:
        head.insert(3, "READY")
    rows = []
    for applyset in sets:
        objects = "?" if applyset.objects is None else str(applyset.objects)
        last = applyset.last
        run = "-"
        if last:
            failed = "" if last.exit_code == 0 else f" ({_run_end(last)})"
            run = f"{last.mode}, {age_of(last.at)}{failed}"
        who = applyset.owner or (_run_by(last) if last else "-")
        row = [applyset.namespace, applyset.name, objects, run, who, applyset.holder or "-"]
        if has_ready:
            row.insert(3, "?" if applyset.ready is None else f"{applyset.ready}/{objects}")
        if target.wide:
            row.append(ApplySetIdentity(applyset.name, applyset.namespace).id)
        rows.append(row)
    return table([*head, *(["LABEL VALUE"] if target.wide else [])], rows, target.table_width)


def _drifts(objects: list[ObjectStatus]) -> Iterator[str]:
    for status in objects:
        if not status.drift:
            continue
        yield f"{_name(status)} has drifted:"
        for drift in status.drift:
            who = " ".join(part for part in (drift.manager, drift.operation, drift.time) if part)
            wanted = f" (the set's: {drift.wanted})" if drift.wanted else ""
            found = "removed" if drift.found is None else drift.found
            yield f"  {drift.path}: {found}{wanted}{f', by {who}' if who else ''}"


def _name(status: ObjectStatus) -> str:
    ref = status.ref
    return f"{ref.short} -n {ref.namespace}" if ref.namespace else ref.short


def _about(applyset: ApplySetListed, objects: list[ObjectStatus]) -> Iterator[str]:
    drifted = sum(status.drifted is True for status in objects)
    unknown = sum(status.drifted is None for status in objects)
    parts = [f"{len(objects)} object{'' if len(objects) == 1 else 's'}", f"{applyset.ready} ready"]
    if drifted:
        parts.append(f"{drifted} drifted")
    if unknown:
        parts.append(f"{unknown} with unknown drift")
    yield f"{applyset.name} -n {applyset.namespace}: {', '.join(parts)}"
    if (last := applyset.last) is not None:
        source = f" from {last.source.text}" if last.source.text else ""
        change = f"{last.mode} by {_run_by(last)}, {age_of(last.at)} ago{source}"
        yield f"last change: {change}, {_run_end(last)}"
    if applyset.owner:
        yield f"owned by {applyset.owner}"
    if applyset.holder:
        yield f"held by {applyset.holder}"


# What explains a status: the tree of a set, warning events and logs.


def tree_table(objects: Sequence[ObjectStatus], namespace: str, width: int | None = None) -> str:
    """Return the objects by wave, each with what it owns, in the columns of kubectl."""
    rows: list[Sequence[str]] = []
    waves = sorted({status.wave for status in objects})
    for wave in waves:
        rows.append((f"wave {wave}", "", "", "", ""))
        members = [status for status in objects if status.wave == wave]
        for number, status in enumerate(members, 1):
            last = number == len(members)
            name = kubectl_name(status.ref, namespace)
            node = status.tree
            rows.append(
                (
                    f"{_branch(last=last)}{name}",
                    node.ready if node and node.ready else "-",
                    status.readiness.status.text,
                    _number(node.restarts if node else None),
                    age(status.age),
                )
            )
            rows += _owned_rows(node, "   " if last else "│  ", namespace)
    return table(("NAME", "READY", "STATUS", "RESTARTS", "AGE"), rows, width)


_MOST = 20
"""How many of the objects that one object owns are shown."""


def _owned_rows(node: TreeNode | None, indent: str, namespace: str) -> Iterator[Sequence[str]]:
    owned = node.owned if node is not None else ()
    for number, child in enumerate(owned[:_MOST], 1):
        last = number == len(owned)
        yield (
            f"{indent}{_branch(last=last)}{kubectl_name(child.ref, namespace)}",
            child.ready or "-",
            child.state,
            _number(child.restarts),
            age(child.age),
        )
        yield from _owned_rows(child, f"{indent}{'   ' if last else '│  '}", namespace)
    if len(owned) > _MOST:
        yield (f"{indent}{_branch(last=True)}and {len(owned) - _MOST} more", "", "", "", "")


def _branch(*, last: bool) -> str:
    return "└─ " if last else "├─ "


def _number(restarts: int | None) -> str:
    return "-" if restarts is None else str(restarts)


def details(status: ObjectStatus, namespace: str, *, is_shown: bool) -> Sequence[str]:
    """Return a heading, and the lines that say why an object is not ready; empty if none do.

    ``is_shown`` says whether the message was shown.
    """
    message = (
        "" if is_shown or status.readiness.status is Status.CURRENT else status.readiness.message
    )
    lines = [
        *map(_event_line, status.events),
        *filter(None, [status.not_read]),
        *(line for log in status.logs for line in _log_lines(log)),
    ]
    if not (lines or message):
        return ()
    heading = f"{kubectl_name(status.ref, namespace)}{f': {message}' if message else ':'}"
    return (heading, *(f"  {line}" for line in lines))


def _event_line(event: WarningEvent) -> str:
    when = f", {age_of(event.last)} ago" if event.last else ""
    times = f"×{event.count}, " if event.count > 1 else ""
    return f"{event.reason}: {event.message} ({times}{event.about}{when})"


def _log_lines(log: ContainerLog) -> Iterator[str]:
    instance = ", the instance that crashed" if log.previous else ""
    head = f"log of {log.pod.short}, container {log.container}{instance}"
    if log.problem:
        yield f"{head}: {log.problem}"
    elif not log.lines:
        yield f"{head}: it is empty"
    else:
        yield f"{head}:"
        yield from (f"  {line}" for line in log.lines)


# What an object belongs to.


def belongs_lines(event: ObjectBelongs) -> Iterator[str]:
    """Yield the lines about one object: what it belongs to, and who sets which fields."""
    name = event.ref.short
    if not event.owners:
        yield f"{name} belongs to no set, and to no tool by its marks"
    elif len(event.owners) == 1:
        when = f"applied {age_of(event.applied)} ago" if event.applied else ""
        since = " from ".join(filter(None, (when, event.source if when else "")))
        yield f"{name} belongs to {', '.join(filter(None, (event.owners[0], since)))}"
    else:
        yield f"{name} is claimed by {len(event.owners)}:"
        yield from (f"  {owner}" for owner in event.owners)
    parts: list[str] = []
    for one in event.managers:
        fields = [*one.fields, *([counted(one.more, "more field")] if one.more else [])]
        what = f"{', '.join(fields[:-1])} and {fields[-1]}" if len(fields) > 1 else fields[0]
        verb = (" are set" if len(fields) > 1 else " is set") if not parts else ""
        when = f" ({age_of(one.time)} ago)" if one.time else ""
        parts.append(f"{what}{verb} by {one.who}{when}")
    if event.more:
        parts.append(f"others by {counted(event.more, 'more manager')}")
    if parts:
        yield f"  {'; '.join(parts)}"


# The runs that an inventory records.


def run_table(events: Sequence[RunListed], target: OutputTarget) -> str:
    """Return the table of the last runs that changed an object.

    With ``-o wide`` it also has their commands, IDs and jobs.
    """
    head = ["RUN", "WHEN", "WHO", "SOURCE", "DID"]
    rows = [
        [
            str(run.number or "-"),
            f"{age_of(run.at)} ago",
            _run_by(run),
            run.source.text or "-",
            _did(run),
        ]
        for run in (event.run for event in events)
    ]
    if target.wide:
        head += ["COMMAND", "ID", "JOB"]
        for row, event in zip(rows, events, strict=True):
            row += [event.run.mode, event.run.run, event.run.url or "-"]
    return table(head, rows, target.table_width, full_head=True)


def _did(run: RunRecord) -> str:
    """Return what a run has done: ``33 created``; and its end, if it has failed."""
    counts = {"created": run.created, "changed": run.changed, "pruned": run.pruned}
    done = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    verb = "" if run.mode == Mode.APPLY else run.mode
    return "; ".join(filter(None, (verb, done, "" if run.exit_code == 0 else _run_end(run))))


def run_lines(event: RunListed) -> Iterator[str]:
    """Yield the lines about one run: who, what, and its objects by outcome."""
    run = event.run
    yield f"run {run.number} of the set {event.name} in namespace {event.namespace}"
    facts = {
        "when": f"{run.at} ({age_of(run.at)} ago)",
        "who": ", ".join(filter(None, (run.actor, run.who))),
        "job": run.url,
        "source": run.source.shown,
        "commit": run.source.commit + " with other changes" * run.source.differs,
        "command": run.mode,
        "ended": _run_end(run),
        "ID": run.run,
    }
    yield from (f"{word + ':':<9}{text}" for word, text in facts.items() if text)
    yield ""
    if event.objects is None:
        yield "Its objects are not recorded any more."
    for outcome, found in (event.objects or {}).items():
        for ref in found.refs:
            yield f"{kubectl_name(ref, event.namespace)} {outcome.text}"
        if more := found.count - len(found.refs):
            yield f"and {more} more {outcome.text}"


def _run_end(run: RunRecord) -> str:
    """Return how a run ended; the end of a run that works or was killed is not recorded."""
    return "unfinished" if run.exit_code is None else f"exit code {run.exit_code}"


def _run_by(run: RunRecord) -> str:
    """Return who ran it, without the host, and the job of a pipeline."""
    who = run.actor or run.who.rpartition("@")[0] or run.who
    job = run.url.rstrip("/").rpartition("/")[2]
    return f"{who} job {job}" if job.isdecimal() else who


# What an import has found and written.


def owner_table(events: Sequence[OwnerFound], target: OutputTarget) -> str:
    """Return the table of what lives in the cluster, and under whom."""
    rows = [
        [
            one.namespace or "-",
            one.owner or "nobody",
            str(one.count),
            _kinds(one.kinds, 0 if target.wide else _KINDS_SHOWN),
            one.source or "-",
        ]
        for one in events
    ]
    head = ["NAMESPACE", "UNDER", "OBJECTS", "KINDS", "FROM"]
    return table(head, rows, target.table_width, full_head=True)


_KINDS_SHOWN = 3


def _kinds(kinds: Mapping[str, int], most: int = 0) -> str:
    """Return ``2 Deployments, 1 Service``, the most frequent first."""
    ordered = sorted(kinds.items(), key=lambda one: (-one[1], one[0]))
    named = [counted(count, kind) for kind, count in ordered]
    return and_more(named, most or len(named))


def imported_lines(event: ImportEnded) -> Iterator[str]:
    """Yield the lines that end an import."""
    count = sum(event.kinds.values())
    if event.path:
        what = f"written to {event.path}: {_kinds(event.kinds)}" if count else "to write"
        yield f"{counted(count, 'manifest')} {what}"
    if event.left_out:
        counts = (f"{why} ({number})" for why, number in event.left_out.items())
        yield f"left out: {', '.join(counts)}"
    if event.next:
        yield f"Next: {event.next}"


# The plan of a Bundle that waits for an approval.


_CASCADED = "cascaded"
"""The count of the deletions that follow from others; it is not the count of a fate."""


def plan_lines(bundle: BundleStatus, plan: BundlePlan) -> list[str]:
    """Return the plan that waits for an approval: its objects, its digest, and what approves it."""
    counts = ", ".join(
        f"{count} cascaded" if fate == _CASCADED else f"{count} to {_spaced(fate)}"
        for fate, count in plan.counts.items()
    )
    since = f", since {age_of(plan.since)}" if plan.since else ""
    covers = "the whole plan" if plan.scope == "Plan" else "its deletions"
    lines = [f"waiting for an approval of {covers}{since}: {counts or 'nothing that is counted'}"]
    for one in plan.objects:
        place = f" -n {one.namespace}" if one.namespace not in {"", bundle.namespace} else ""
        lines.append(f"  {one.name}{place}: {_spaced(one.fate)}")
        lines += [f"    would {one.cascade}"] if one.cascade else []
    shown = sum(plan.counts.values()) - plan.counts.get(_CASCADED, 0)
    if shown > len(plan.objects):
        lines.append(f"  and {shown - len(plan.objects)} more")
    lines.append(f"  digest: {plan.digest}")
    if plan.approved:
        lines.append("  approved; the controller has not applied it yet")
    else:
        lines.append(f"  approve it: applyprune bundle approve {bundle.name} -n {bundle.namespace}")
    return lines


def _spaced(fate: str) -> str:
    """Return ``remove from inventory`` for ``removeFromInventory`` or ``remove-from-inventory``."""
    words = "".join(f" {char.lower()}" if char.isupper() else char for char in fate)
    return words.replace("-", " ")
