"""Which plans wait for an approval, and which one an approval lets run."""

from __future__ import annotations

from applyprune.model.fate import Fate
from applyprune.model.options import Approval
from applyprune.model.plan import Guard
from tests.decisions.rows import Row, rows
from tests.decisions.world import deleted
from tests.support.objects import config_map

A, B, C, NEW, NEWER = *map(config_map, "abc"), config_map("a", "new"), config_map("a", "newer")
STAY = [config_map("x"), config_map("y")]
SET = [A, B, C, *STAY]
PRUNE, ALWAYS = ({"approval": one} for one in (Approval.PRUNE, Approval.ALWAYS))
CHANGED, PRUNED = {"configmap/a": Fate.CHANGE}, {"configmap/b": Fate.PRUNE}
ALL = {**CHANGED, **PRUNED}
HALF = frozenset({Guard.MORE_THAN_HALF})
ROWS = {
    # Of the deletions alone: the rest is applied, and no part of what is approved.
    "Prune: none": Row(SET, given=[NEW, C, *STAY], options=PRUNE, fates=CHANGED, waits=True),
    "Prune: nothing is deleted": Row(SET, given=[NEW, *SET[1:]], options=PRUNE, fates=CHANGED),
    "Prune: this one": Row(
        SET, given=[NEW, C, *STAY], options=PRUNE, approved=[NEW, C, *STAY], fates=ALL
    ),
    "Prune: this one, before a hotfix": Row(
        SET, given=[NEWER, C, *STAY], options=PRUNE, approved=[NEW, C, *STAY], fates=ALL
    ),
    "Prune: more deletions": Row(
        SET, given=[NEW, C, *STAY], options=PRUNE, approved=[NEW, *STAY], fates=CHANGED, waits=True
    ),
    "Prune: fewer deletions": Row(
        SET, given=[NEW, *STAY], options=PRUNE, approved=[NEW, C, *STAY], fates=CHANGED, waits=True
    ),
    # Of the whole plan.
    "Always: none": Row(SET, given=[NEW, C, *STAY], options=ALWAYS, fates=CHANGED, waits=True),
    "Always: nothing is changed": Row(SET, options=ALWAYS),
    "Always: this one": Row(
        SET, given=[NEW, C, *STAY], options=ALWAYS, approved=[NEW, C, *STAY], fates=ALL
    ),
    "Always: before a hotfix": Row(
        SET, given=[NEWER, C, *STAY], options=ALWAYS, approved=[NEW, C, *STAY], fates=CHANGED,
        waits=True,
    ),
    "Always: what somebody has deleted": Row(
        SET, [deleted("configmap/a")], options=ALWAYS, fates={"configmap/a": Fate.CREATE},
        waits=True,
    ),
    "Always: a refused prune": Row(
        [A, B, C], given=[NEW], options=ALWAYS, fates=CHANGED, waits=True
    ),
    "Always: a refused prune, this one": Row(
        [A, B, C], given=[NEW], options=ALWAYS, approved=[NEW],
        fates={**ALL, "configmap/c": Fate.PRUNE},
    ),
    # A guard asks for the same approval of the deletions.
    "Automatic: a refused prune, this one": Row(
        [A, B, C], given=[NEW], approved=[NEWER], fates={**ALL, "configmap/c": Fate.PRUNE}
    ),
    "Automatic: a refused prune, another one": Row(
        [A, B, C], given=[NEW], approved=[NEW, B], fates=CHANGED, refused=HALF
    ),
}  # fmt: skip


@rows(ROWS)
def test_approval_is_of_exactly_one_plan_or_of_its_deletions(row: Row) -> None:
    """As the annotation of a Bundle gives it: one digest, whatever ``spec.approval`` says."""
    row.holds()
