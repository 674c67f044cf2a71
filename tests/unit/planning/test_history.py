"""The history of a set: what is stored of its runs, and which of them can be repeated."""

from __future__ import annotations

import base64
import gzip
import random
from typing import Any

import pytest

from applyprune.errors import UsageError
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import (
    Inventory,
    InventoryEntry,
    ObjectsOfOutcome,
    RunRecord,
    RunSource,
)
from applyprune.model.live import CLAIMS, Resource
from applyprune.model.plan import ApplyStep, Plan
from applyprune.planning.history import (
    MOST_BYTES,
    MOST_REFS,
    not_brought_back,
    objects_of,
    refuse_rollback_to,
    run_before,
    run_of,
    run_that_applied,
    unreadable_history,
    with_objects,
)
from applyprune.values import encode, replace
from tests.support.planning import body, desired

SERVICES = Resource("", "v1", "Service", "services", namespaced=True)
REFS = tuple(Ref("apps", "Deployment", "shop", f"web-{number:04}") for number in range(MOST_REFS))
MANY = {
    Outcome.CREATED: ObjectsOfOutcome(1000, REFS),
    Outcome.PRUNED: ObjectsOfOutcome(1, (Ref("", "Namespace", "", "old"),)),
}


def test_objects_of_a_run_are_read_again() -> None:
    """By outcome, the number of all and the first of them."""
    assert objects_of(with_objects("", "r1", MANY, ()), "r1") == MANY
    assert objects_of(with_objects("", "r1", MANY, ()), "r2") is None


def test_ten_runs_of_a_thousand_objects_are_small() -> None:
    """With every outcome that a run may have: 40 kB for all of the history."""
    every = dict.fromkeys(Outcome, MANY[Outcome.CREATED])
    stored, runs = "", [f"r{number}" for number in range(12)]
    for number, run in enumerate(runs):
        stored = with_objects(stored, run, every, reversed(runs[:number]))
    assert [objects_of(stored, run) is not None for run in runs] == [False] * 2 + [True] * 10
    assert len(stored) < MOST_BYTES


def test_oldest_run_makes_room() -> None:
    """Names that do not compress: the newest run stays."""
    chance = random.Random(57)  # noqa: S311 - names, no secret

    def names() -> dict[Outcome, ObjectsOfOutcome]:
        refs = [Ref("", "Secret", "shop", f"{chance.getrandbits(800):x}") for _ in range(MOST_REFS)]
        return {Outcome.CREATED: ObjectsOfOutcome(MOST_REFS, tuple(refs))}

    stored, runs = "", [names() for _ in range(9)]
    for number, objects in enumerate(runs):
        stored = with_objects(stored, f"r{number}", objects, (f"r{n}" for n in range(number)[::-1]))
    assert objects_of(stored, "r8") == runs[8]
    assert objects_of(stored, "r0") is None
    assert len(stored) <= MOST_BYTES


def stored_text(value: Any) -> str:
    return base64.b64encode(gzip.compress(encode(value), mtime=0)).decode()


EDITED = {
    "no base64": ("no base64", "it cannot be unpacked"),
    "no stream": (base64.b64encode(b"no stream").decode(), "it cannot be unpacked"),
    "cut off": (stored_text({"version": 1})[:8], "it is cut off, or too large"),
    "no object": (stored_text([]), "it is cut off, or too large"),
    "too large": (
        stored_text({"version": 1, "runs": {"r": "x" * 2**21}}),
        "it is cut off, or too large",
    ),
    "newer": (stored_text({"version": 2, "runs": {}}), "it has format 2, and this applyprune"),
}


@pytest.mark.parametrize("name", EDITED)
def test_history_that_somebody_has_edited_is_reported(name: str) -> None:
    """It has no objects, and the next run writes it again; nothing else depends on it."""
    text, says = EDITED[name]
    inventory = Inventory("web", "shop", objects_of_runs=text)
    error = unreadable_history(inventory)
    assert error is not None
    assert says in str(error)
    assert objects_of(text, "r") is None
    assert objects_of(with_objects(text, "r1", MANY, ("r",)), "r1") == MANY


@pytest.mark.parametrize(
    "runs",
    [[], {"r": 1}, {"r": {"created": ["x"]}}, {"r": {"x": [1]}}, {"r": {"created": [1, "a"]}}],
)
def test_run_that_somebody_has_edited_has_no_objects(runs: Any) -> None:
    """The others stay readable."""
    text = stored_text({"version": 1, "runs": runs})
    assert objects_of(text, "r") is None
    assert unreadable_history(Inventory("web", "shop", objects_of_runs=text)) is None


COMMIT = "3f2a91c0" * 5
RUN = RunRecord(
    "r2",
    "apply",
    "ana@laptop",
    "2026-11-29T12:00:00Z",
    0,
    source=RunSource("deploy/prod", COMMIT, paths={"filename": ("deploy/prod",)}),
    number=2,
    is_whole=True,
    changed=1,
)
LAST = replace(RUN, run="r3", number=3, at="2026-11-30T12:00:00Z")
FIRST = replace(RUN, run="r1", number=1, at="2026-11-28T12:00:00Z")


def inventory(*history: RunRecord) -> Inventory:
    return Inventory("web", "shop", uid="u", last=history[0], earlier=history[1:])


def test_rollback_goes_to_the_run_before_the_last_change() -> None:
    """Or to one that is named."""
    found = inventory(LAST, RUN, FIRST)
    assert run_before(found) == RUN
    assert run_of(found, 1) == FIRST
    refuse_rollback_to(RUN, found)
    with pytest.raises(UsageError, match=r"has no run 7: it records the runs 3, 2, 1"):
        run_of(found, 7)
    with pytest.raises(UsageError, match="nothing to go back to: it records one run"):
        run_before(inventory(LAST))


SOURCE = RUN.source


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"exit_code": None}, "it was not finished"),
        ({"exit_code": 3}, "it failed, with exit code 3"),
        ({"mode": "prune"}, "it was not an apply, but: prune"),
        ({"is_whole": False}, "it applied a part of its input, or did not prune"),
        ({"source": RunSource("standard input")}, "its input has no commit: standard input"),
        (
            {"source": replace(SOURCE, differs=True)},
            "not those of the commit: deploy/prod @ 3f2a91c+",
        ),
        ({"source": replace(SOURCE, paths={})}, "its input is not read from a work tree"),
        pytest.param(
            {"source": replace(SOURCE, commit="--help")},
            "its record names no commit: --help",
            marks=pytest.mark.holds("rollback-commit"),
        ),
        pytest.param(
            {"source": replace(SOURCE, paths={"filename": ("../../etc",)})},
            "its record names what is not in a work tree: ../../etc",
            marks=pytest.mark.holds("rollback-inside"),
        ),
        ({"source": replace(SOURCE, paths={"filename": ("/etc",)})}, "not in a work tree: /etc"),
        ({"source": replace(SOURCE, paths={"yes": ("a",)})}, "its record names what is not in"),
    ],
)
def test_run_that_cannot_be_repeated_is_refused(changed: dict[str, Any], says: str) -> None:
    """With the reason, and the nearest run that can be."""
    run = replace(RUN, **changed)
    with pytest.raises(UsageError) as caught:
        refuse_rollback_to(run, inventory(LAST, run, FIRST))
    assert says in str(caught.value)
    assert "Run 1 can be repeated: applyprune rollback web 1" in caught.value.hint


def test_run_that_applied_an_object_is_the_first_that_ended_later() -> None:
    """A run that was not finished by then has not applied it."""
    found = inventory(LAST, RUN, FIRST)
    assert run_that_applied(found, REFS[0], "2026-11-29T11:59:59Z") == RUN
    assert run_that_applied(found, REFS[0], "2026-11-30T12:00:01Z") is None


def test_run_that_applied_an_object_is_the_last_that_changed_it_in_a_second() -> None:
    """Two runs may end in one; what others have changed does not count."""
    later = replace(LAST, at=RUN.at)
    found = inventory(later, RUN, FIRST)
    stored = with_objects("", RUN.run, {Outcome.CREATED: ObjectsOfOutcome(2, REFS[:2])}, ())
    kept = (RUN.run,)
    both = with_objects(stored, later.run, {Outcome.UPDATED: ObjectsOfOutcome(1, REFS[:1])}, kept)
    found = replace(found, objects_of_runs=both)
    assert run_that_applied(found, REFS[0], RUN.at) == later
    assert run_that_applied(found, REFS[1], RUN.at) == RUN


def test_rollback_names_what_it_does_not_bring_back() -> None:
    """Data of volumes and addresses, of objects that are created new."""
    steps = []
    for kind, fate in [(CLAIMS, Fate.CREATE), (SERVICES, Fate.RECREATE), (SERVICES, Fate.CHANGE)]:
        wanted = desired(body(kind.kind, f"{fate}"), kind)
        entry = InventoryEntry(wanted.ref, kind.plural, "v1", None)
        steps.append(ApplyStep(wanted, fate, entry))
    plan = Plan(tuple(steps), ())
    assert [one.message for one in not_brought_back(plan)] == [
        "a rollback does not bring back its data: persistentvolumeclaim/create",
        "a rollback does not bring back its address: service/recreate",
    ]
