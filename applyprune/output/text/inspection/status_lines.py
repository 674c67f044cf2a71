"""The text of what explains a status: the tree of a set, warning events and logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from applyprune.model.identity import called
from applyprune.model.readiness_state import Status
from applyprune.model.text.display import age, age_of
from applyprune.output.terminal.table import table

if TYPE_CHECKING:
    from applyprune.model.events import ObjectStatus
    from applyprune.model.readiness_state import ContainerLog, TreeNode, WarningEvent

_MOST = 20
"""How many of the objects that one object owns are shown."""


def tree_table(objects: Sequence[ObjectStatus], namespace: str) -> str:
    """Return the objects by wave, each with what it owns, in the columns of kubectl."""
    rows: list[Sequence[str]] = []
    waves = sorted({status.wave for status in objects})
    for wave in waves:
        rows.append((f"wave {wave}", "", "", "", ""))
        members = [status for status in objects if status.wave == wave]
        for number, status in enumerate(members, 1):
            last = number == len(members)
            name = called(status.ref, namespace)
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
    return table(("NAME", "READY", "STATUS", "RESTARTS", "AGE"), rows)


def details(status: ObjectStatus, namespace: str, *, told: bool) -> Sequence[str]:
    """Return a heading, and the lines that say why an object is not ready; empty if none do.

    ``told`` says whether the message was shown.
    """
    message = "" if told or status.readiness.status is Status.CURRENT else status.readiness.message
    lines = [
        *map(_event_line, status.events),
        *filter(None, [status.not_read]),
        *(line for log in status.logs for line in _log_lines(log)),
    ]
    if not (lines or message):
        return ()
    heading = f"{called(status.ref, namespace)}{f': {message}' if message else ':'}"
    return (heading, *(f"  {line}" for line in lines))


def _owned_rows(node: TreeNode | None, indent: str, namespace: str) -> Iterator[Sequence[str]]:
    owned = node.owned if node is not None else ()
    for number, child in enumerate(owned[:_MOST], 1):
        last = number == len(owned)
        yield (
            f"{indent}{_branch(last=last)}{called(child.ref, namespace)}",
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


def _event_line(event: WarningEvent) -> str:
    when = f", {age_of(event.last)} ago" if event.last else ""
    times = f"×{event.count}, " if event.count > 1 else ""
    return f"{event.reason}: {event.message} ({times}{event.about}{when})"


def _log_lines(log: ContainerLog) -> Iterator[str]:
    instance = ", the instance that crashed" if log.previous else ""
    head = f"log of {log.pod.short}, container {log.container}{instance}"
    if log.problem:
        yield f"{head}: it cannot be read: {log.problem}"
    elif not log.lines:
        yield f"{head}: it is empty"
    else:
        yield f"{head}:"
        yield from (f"  {line}" for line in log.lines)
