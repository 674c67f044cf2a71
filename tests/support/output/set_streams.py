"""Streams of commands over many sets, whose events are mixed."""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from applyprune.model.events import (
    ErrorRaised,
    Finished,
    ObjectDiff,
    ObjectDone,
    Planned,
    PruneBlocked,
    SetEvent,
    Started,
    WarningRaised,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref, SetKey
from applyprune.model.inventory import InventoryEntry
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import Guard, GuardResult, GuardVerdict, Plan, Removals, RemoveStep
from applyprune.model.problem import Origin, Problem, ProblemKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from applyprune.model.events import Event

WEB, API = SetKey("shop", "web"), SetKey("shop", "api")
PAY, DOCS = SetKey("pay", "payments"), SetKey("shop", "docs")
_SERVER = "https://prod.example.com"


def of_set(key: SetKey, *events: Event) -> list[Event]:
    """Return the events of one of many sets, whose folder has its name."""
    return [SetEvent(key, f"deploy/prod/{key.name}", event) for event in events]


def mixed(*streams: Iterable[Event]) -> Iterator[Event]:
    """Yield the events of streams by turns, as of sets that run side by side."""
    turns = zip_longest(*streams)
    return (event for event in chain.from_iterable(turns) if event is not None)


def started(key: SetKey, dry_run: DryRun = DryRun.OFF) -> Started:
    """Return the beginning of the run of a set."""
    return Started(f"run-{key.name}", Mode.APPLY, key.name, key.namespace, dry_run, "prod", _SERVER)


def ref(key: SetKey, name: str) -> Ref:
    """Return a ConfigMap of a set."""
    return Ref("", "ConfigMap", key.namespace, f"{key.name}-{name}")


def gone(key: SetKey, name: str) -> RemoveStep:
    """Return the step that prunes an object of a set."""
    entry = InventoryEntry(ref(key, name), "configmaps", "v1", None, "uid")
    return RemoveStep(entry, None, Fate.PRUNE)


REFUSAL = Problem(
    ProblemKind.PRUNE_REFUSED,
    "the prune was refused: it would delete 4 objects",
    reason="4 deletions are more than half of the set's 6 live objects",
    hint="--max-prune 4",
    exit_code=6,
)
_HALF = GuardResult(Guard.MORE_THAN_HALF, GuardVerdict.REFUSED, REFUSAL.reason, option=REFUSAL.hint)
_DOOMED = tuple(gone(API, name) for name in "abcd")
REFUSED = Plan(
    (),
    _DOOMED,
    refusal=REFUSAL,
    guards=(_HALF,),
    if_approved=Removals(_DOOMED),
    digest=f"sha256:{'a' * 64}",
    deletions=f"sha256:{'b' * 64}",
)
CONCERNED = WarningRaised(
    Problem(ProblemKind.USAGE_ERROR, "37 sets are not concerned by this change")
)
SERVER = DryRun.SERVER


def _changed(key: SetKey, name: str, value: str) -> Iterator[Event]:
    """Yield how one key of a ConfigMap would change."""
    before, after = {"data": {"colour": "red"}}, {"data": {"colour": value}}
    origin = Origin(f"deploy/prod/{key.name}/set.yaml", 1, 1)
    yield ObjectDiff(ref(key, name), Fate.CHANGE, before, after, origin)
    yield ObjectDone(ref(key, name), Outcome.UPDATED, origin)


PLANNED: Sequence[Event] = (
    *mixed(
        of_set(
            WEB,
            started(WEB, SERVER),
            Planned(Plan((), (gone(WEB, "old"),), digest="sha256:w", deletions="sha256:x")),
            *_changed(WEB, "a", "blue"),
            *_changed(WEB, "b", "green"),
            ObjectDone(ref(WEB, "c"), Outcome.UNCHANGED),
            ObjectDone(ref(WEB, "old"), Outcome.PRUNED),
            Finished({Outcome.UPDATED: 2, Outcome.UNCHANGED: 1, Outcome.PRUNED: 1}, 0, 0.4),
        ),
        of_set(
            API,
            started(API, SERVER),
            Planned(REFUSED),
            *(ObjectDone(step.entry.ref, Outcome.NOT_PRUNED) for step in _DOOMED),
            PruneBlocked(REFUSAL),
            Finished({Outcome.UNCHANGED: 2, Outcome.NOT_PRUNED: 4}, 6, 0.3, REFUSAL),
        ),
        of_set(
            DOCS,
            started(DOCS, SERVER),
            Planned(Plan((), (), digest="sha256:y")),
            ObjectDone(ref(DOCS, "a"), Outcome.UNCHANGED),
            Finished({Outcome.UNCHANGED: 1}, 0, 0.1),
        ),
        of_set(
            PAY,
            started(PAY, SERVER),
            Planned(Plan((), (), digest="sha256:z")),
            ObjectDone(ref(PAY, "new"), Outcome.CREATED),
            Finished({Outcome.CREATED: 1}, 0, 0.2),
        ),
    ),
    CONCERNED,
    Finished(
        {
            Outcome.CREATED: 1,
            Outcome.UPDATED: 2,
            Outcome.UNCHANGED: 4,
            Outcome.PRUNED: 1,
            Outcome.NOT_PRUNED: 4,
        },
        6,
        0.5,
        Problem(ProblemKind.RUN_FAILED, "1 of the 4 sets failed: shop/api", exit_code=6),
    ),
)
"""A plan of four sets: one changes, one is refused, one is new, and one does not change."""

INVALID = Problem(
    ProblemKind.INPUT_ERROR,
    "no kind",
    "deploy/prod/docs/set.yaml:3:1",
    origin=Origin("deploy/prod/docs/set.yaml", 1, 3, 1),
    exit_code=2,
)
NOT_RUN = Problem(
    ProblemKind.RUN_FAILED,
    "the set pay/payments was not run",
    reason="it depends on shop/api, which has failed",
    hint="Run the same command again when that is mended.",
)
DENIED = Problem(
    ProblemKind.FORBIDDEN, f"{ref(API, 'a')} cannot be patched", reason="no rights", exit_code=3
)

APPLIED: Sequence[Event] = (
    *mixed(
        of_set(
            WEB,
            started(WEB),
            ObjectDone(ref(WEB, "a"), Outcome.UPDATED),
            Finished({Outcome.UPDATED: 1}, 0, 0.4),
        ),
        of_set(
            API,
            started(API),
            WarningRaised(Problem(ProblemKind.SERVER_WARNING, "v1beta1 is deprecated")),
            ObjectDone(ref(API, "b"), Outcome.CREATED),
            ObjectDone(
                ref(API, "a"), Outcome.FAILED, Origin("deploy/base/a.yaml", 1, 7), problem=DENIED
            ),
            Finished(
                {Outcome.CREATED: 1, Outcome.FAILED: 1},
                3,
                0.3,
                Problem(ProblemKind.RUN_FAILED, "1 object failed"),
            ),
        ),
        of_set(DOCS, ErrorRaised(INVALID), Finished({}, 2, 0.1)),
    ),
    *of_set(PAY, ErrorRaised(NOT_RUN), Finished({}, 3, 0.0)),
    Finished(
        {Outcome.CREATED: 1, Outcome.UPDATED: 1, Outcome.FAILED: 1},
        3,
        0.5,
        Problem(ProblemKind.RUN_FAILED, "3 of the 4 sets failed: shop/api, shop/docs, …"),
    ),
)
"""An apply of four sets: one is applied, one fails, one has an invalid input, one is not run."""
