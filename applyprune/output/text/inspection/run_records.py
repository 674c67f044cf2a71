"""The text of the runs that an inventory records."""

from __future__ import annotations

from collections.abc import Sequence

from applyprune.model.events import RunListed
from applyprune.model.inventory import RunRecord
from applyprune.model.text.display import age_of
from applyprune.output.terminal.table import table

_HEAD = ("RUN", "AGE", "COMMAND", "ENDED", "CREATED", "CHANGED", "PRUNED", "BY")
_OF_PIPELINES = ("COMMIT", "JOB")
_SHORT_COMMIT = 12


def run_table(events: Sequence[RunListed]) -> str:
    """Return the table of the last runs that changed an object.

    The columns of pipelines are there if one of the runs has a commit or a job.
    """
    pipelines = any(event.run.commit or event.run.url for event in events)
    rows = [
        (
            run.run,
            age_of(run.at),
            run.mode,
            ended(run),
            *(str(count) if run.exit_code is not None else "?" for count in _counts(run)),
            by(run),
            *((run.commit[:_SHORT_COMMIT] or "-", run.url or "-") if pipelines else ()),
        )
        for run in (event.run for event in events)
    ]
    return table((*_HEAD, *(_OF_PIPELINES if pipelines else ())), rows)


def ended(run: RunRecord) -> str:
    """Return how a run ended; the end of a run that works or was killed is not recorded."""
    return "unfinished" if run.exit_code is None else f"exit code {run.exit_code}"


def by(run: RunRecord) -> str:
    """Return who ran it, and for whom."""
    return f"{run.actor} ({run.who})" if run.actor else run.who


def _counts(run: RunRecord) -> tuple[int, int, int]:
    return run.created, run.changed, run.pruned
