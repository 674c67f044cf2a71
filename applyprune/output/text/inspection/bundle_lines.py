"""Bundles as text: the table of a list, the details of one, and lines of the controller's log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from applyprune.model.text.display import age, age_of
from applyprune.output.terminal.style import Colour, styled
from applyprune.output.terminal.table import table
from applyprune.output.text.problem_text import wrapped_line

if TYPE_CHECKING:
    from applyprune.model.reports.bundle import BundleCondition, BundlePlan, BundleStatus, LogLine

_HEAD = ("NAMESPACE", "NAME", "READY", "STATUS", "REVISION", "DRIFT", "OBJECTS", "AGE")
_CONDITIONS = ("CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE")
_DIGITS = 12
_CASCADED = "cascaded"
"""The count of the deletions that follow from others; it is not the count of a fate."""
_COLOURS = {"True": Colour.GREEN, "False": Colour.RED}
_LEVELS = {"warning": Colour.YELLOW, "error": Colour.RED}


def bundle_table(bundles: Sequence[BundleStatus]) -> str:
    """Return the table of Bundles, with the columns of ``kubectl get bundles``."""
    rows = [
        (
            bundle.namespace,
            bundle.name,
            bundle.ready,
            _word(bundle) or "-",
            _short(bundle.revision) or "-",
            bundle.drifted or "-",
            "-" if bundle.objects is None else str(bundle.objects),
            age(bundle.age),
        )
        for bundle in bundles
    ]
    return table(_HEAD, rows)


def bundle_details(bundle: BundleStatus, width: int | None) -> str:
    """Return everything about one Bundle; a terminal of ``width`` columns wraps the messages."""
    lines = [f"{bundle.name} -n {bundle.namespace}: {_state(bundle)}"]
    if bundle.message:
        lines += wrapped_line(f"  {bundle.message}", width)
    lines += _fields(bundle)
    for failing in bundle.failing:
        place = f" -n {failing.namespace}" if failing.namespace else ""
        lines += wrapped_line(f"failing: {failing.name}{place}: {failing.message}", width)
    if bundle.failing_count > len(bundle.failing):
        lines.append(f"and {bundle.failing_count - len(bundle.failing)} more")
    if bundle.pending is not None:
        lines += plan_lines(bundle, bundle.pending)
    lines.append(table(_CONDITIONS, [_condition(one, bundle) for one in bundle.conditions], width))
    return "\n".join(lines)


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
    shown = sum(plan.counts.values()) - plan.counts.get(_CASCADED, 0)
    if shown > len(plan.objects):
        lines.append(f"  and {shown - len(plan.objects)} more")
    lines.append(f"  digest: {plan.digest}")
    if plan.approved:
        lines.append("  approved; the controller has not applied it yet")
    else:
        lines.append(f"  approve it: applyprune bundle approve {bundle.name} -n {bundle.namespace}")
    return lines


def log_text(line: LogLine) -> str:
    """Return a line of the log: time, level, message, and its fields as ``key=value``."""
    level = styled(line.level, _LEVELS.get(line.level))
    parts = [f"{key}={_value(value)}" for key, value in line.fields.items()]
    return " ".join([line.time, level, line.message, *parts]).replace("\n", "\\n")


def _condition(condition: BundleCondition, bundle: BundleStatus) -> tuple[str, ...]:
    """Return the row of a condition; what the first lines say is not said again."""
    message = " ".join(condition.message.split())
    return (
        condition.type,
        condition.status,
        age_of(condition.since) if condition.since else "-",
        condition.reason or "-",
        "" if message == " ".join(bundle.message.split()) else message,
    )


def _fields(bundle: BundleStatus) -> Iterator[str]:
    yield f"source: {', '.join(bundle.source) or '-'}"
    applied, attempted = bundle.revision, bundle.attempted_revision
    yield f"revision: {applied or 'none was applied completely'}"
    if attempted not in {"", applied}:
        yield f"attempted revision: {attempted}"
    yield f"account: serviceaccount/{bundle.account}"
    if bundle.kubeconfig is not None:
        yield f"cluster: that of {bundle.kubeconfig.short}"
    inventory = bundle.inventory
    yield f"inventory: {inventory.short if inventory is not None else '-'}, set {bundle.applyset}"
    if bundle.objects is not None:
        failing = f", {bundle.failing_count} failing" if bundle.failing_count else ""
        yield f"objects: {bundle.objects}{failing}"
    if (change := bundle.last_change) is not None:
        counts = {
            "created": change.created,
            "configured": change.configured,
            "removed": change.removed,
        }
        told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        yield f"last change: {age_of(change.time)} ago, {told} in {change.seconds:.1f} s"


def _state(bundle: BundleStatus) -> str:
    ready = {"True": "ready", "False": "not ready"}.get(bundle.ready, "readiness unknown")
    words = [styled(ready, _COLOURS.get(bundle.ready))]
    if bundle.reason:
        words.append(bundle.reason)
    if bundle.observed_generation != bundle.generation:
        words.append(f"generation {bundle.generation} not handled yet")
    words += ["drifted"] if bundle.drifted == "True" else []
    words += ["suspended"] if bundle.suspended else []
    words += ["being deleted"] if bundle.deleting else []
    return ", ".join(words)


def _word(bundle: BundleStatus) -> str:
    """Return the reason of its readiness, or what keeps the controller from it."""
    if bundle.deleting:
        return "Terminating"
    return "Suspended" if bundle.suspended else bundle.reason


def _short(revision: str) -> str:
    """Return the first digits of a digest, as Git shows a commit."""
    return revision.rpartition(":")[2][:_DIGITS]


def _spaced(fate: str) -> str:
    """Return ``remove from inventory`` for ``removeFromInventory`` or ``remove-from-inventory``."""
    words = "".join(f" {char.lower()}" if char.isupper() else char for char in fate)
    return words.replace("-", " ")


def _value(value: object) -> str:
    """Return a value of a log line; a text with spaces is quoted."""
    if isinstance(value, str) and value and not any(char.isspace() for char in value):
        return value
    return json.dumps(value, ensure_ascii=False)
