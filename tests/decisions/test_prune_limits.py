"""How much a prune may delete before somebody must say that it is meant."""

from __future__ import annotations

from typing import Any

from applyprune.errors import EmptyInput
from applyprune.model.fate import Fate
from applyprune.model.plan import Guard
from tests.decisions.rows import Row, rows
from tests.decisions.world import annotated
from tests.support.objects import CLAIM, config_map

A, B = config_map("a"), config_map("b")
HALF, MAX = Guard.MORE_THAN_HALF, Guard.MAX_PRUNE


def _set(size: int) -> list[dict[str, Any]]:
    return [config_map(f"c-{number}") for number in range(size)]


def _smaller(size: int, stay: int, *refused: Guard) -> Row:
    pruned = {f"configmap/c-{number}": Fate.PRUNE for number in range(stay, size)}
    whole = _set(size)
    fates = {} if refused else pruned
    return Row(whole, given=whole[:stay], fates=fates, refused=frozenset(refused))


SIZES = {
    f"{size} objects, {stay} stay": _smaller(size, stay, *refused)
    for size, stay, *refused in (
        (2, 1),
        (3, 2),
        (3, 1, HALF),
        (4, 2),
        (4, 1, HALF),
        (10, 5),
        (10, 4, HALF, MAX),
        (12, 7),
        (12, 6, MAX),
        (20, 14),
        (20, 13, MAX),
    )
}


@rows(SIZES)
def test_limit_depends_on_the_live_objects(row: Row) -> None:
    """5 or 30 %, the larger, and at most half."""
    row.holds()


OTHERS = {
    "an empty input for a new set": Row(error=EmptyInput),
    "an empty input": Row(
        [A, B], given=[], refused=frozenset({Guard.EMPTY_INPUT}), says=["--allow-empty"]
    ),
    "a claim": Row(
        [A, CLAIM], given=[A], refused=frozenset({Guard.GUARDED_KIND}), says=["--allow-kind"]
    ),
    "one, which somebody has annotated": Row(
        [A, B],
        others=[annotated("configmap/b", {"x": "y"})],
        given=[A],
        fates={"configmap/b": Fate.PRUNE},
        sends={"configmap/b": "delete guarded by UID and version"},
    ),
}


@rows(OTHERS)
def test_prune_needs_a_word_for_more_than_a_few_objects(row: Row) -> None:
    """A kind with data, or an input without objects; an annotation by hand is no reason."""
    row.holds()
