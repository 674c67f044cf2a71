"""What ``inventory repair`` finds: where inventory and cluster differ, and what it would do."""

from __future__ import annotations

from applyprune.model.inventory import MismatchType, Ownership, Repair
from applyprune.planning.applyset import OWNED_BY
from tests.decisions.rows import Row, rows
from tests.decisions.world import (
    SET,
    Change,
    annotated,
    applied_by,
    created,
    deleted,
    forgotten,
    recorded,
    relabelled,
)
from tests.support.objects import config_map

A, B = config_map("a"), config_map("b")
AGAIN = (deleted("configmap/b"), created(config_map("b", "theirs")))


def _b(*others: Change, finds: tuple[MismatchType, Repair] | None, adopted: bool = False) -> Row:
    return Row(
        [A, B],
        others,
        before=[B] if adopted else [],
        finds={} if finds is None else {"configmap/b": finds},
    )


FOUND = {
    "nothing": _b(finds=None),
    "an object that is not listed": _b(
        forgotten("configmap/b"), finds=(MismatchType.UNLISTED, Repair.LIST)
    ),
    "an object that has only the label": Row(
        [A], [created(B), relabelled("configmap/b", SET.id)], finds={}
    ),
    "an object without the label": _b(
        relabelled("configmap/b", None), finds=(MismatchType.UNLABELLED, Repair.MARK)
    ),
    "somebody's object of its name": _b(*AGAIN, finds=(MismatchType.OTHER_UID, Repair.UNLIST)),
    "an object that was recreated with the label": _b(
        *AGAIN, relabelled("configmap/b", SET.id), finds=(MismatchType.OTHER_UID, Repair.LIST)
    ),
    "an object that is gone": _b(
        deleted("configmap/b"), finds=(MismatchType.GONE, Repair.NONE)
    ),
    "an object with the label of another set": _b(
        relabelled("configmap/b", "applyset-x-v1"), finds=(MismatchType.TWO_OWNERS, Repair.MARK)
    ),
    "fields of another set's manager": _b(
        applied_by("applyprune/home/other", {**B, "data": {"theirs": "1"}}),
        finds=(MismatchType.TWO_OWNERS, Repair.NONE),
    ),
    "an adopted object that is listed as owned": _b(
        recorded("configmap/b", ownership=Ownership.OWNED), adopted=True,
        finds=(MismatchType.NO_WITNESS, Repair.ADOPT),
    ),
    "an object without its annotation": _b(
        annotated("configmap/b", {OWNED_BY: None}), finds=(MismatchType.NO_WITNESS, Repair.ADOPT)
    ),
}  # fmt: skip


@rows(FOUND)
def test_mismatch_is_found_with_its_repair(row: Row) -> None:
    """Each alone; one that nothing safe repairs is only told."""
    row.holds()
