"""What a Namespace that would be deleted takes with it, and what that refuses."""

from __future__ import annotations

from applyprune.model.fate import Fate
from applyprune.model.options import Adopt, Mode
from applyprune.model.plan import Guard
from tests.decisions.rows import Row, rows
from tests.decisions.world import created
from tests.support.objects import config_map, of_kind

HOUSE = "home-x"
SPACE, OURS = of_kind("Namespace", HOUSE), config_map("ours", namespace=HOUSE)
KEPT = config_map("kept", namespace=HOUSE, annotations={"applyprune.dev/prune": "disabled"})
A, *MORE = map(config_map, "abcdefg")
FOREIGN = created(config_map("theirs", namespace=HOUSE))
DELETE = {"mode": Mode.DELETE}
NAME = f"namespace/{HOUSE}"
CASCADE = frozenset({Guard.CASCADE})
CONTENTS = {
    "the set's own": Row(
        [A, SPACE, OURS], options=DELETE,
        fates=dict.fromkeys((NAME, "configmap/a", "configmap/ours"), Fate.PRUNE),
    ),
    "somebody else's": Row(
        [A, SPACE, OURS], [FOREIGN], options=DELETE, refused=CASCADE,
        because={NAME: "it would cascade-delete 1 object that must stay"},
    ),
    "somebody else's, which may go": Row(
        [A, SPACE, OURS], [FOREIGN], options={**DELETE, "allow_cascade": frozenset({NAME})},
        fates=dict.fromkeys((NAME, "configmap/a", "configmap/ours"), Fate.PRUNE),
    ),
    "somebody else's, in one that stays": Row(
        [A, SPACE, OURS], [FOREIGN], options={**DELETE, "orphan": frozenset({NAME})},
        fates={NAME: Fate.ORPHAN, "configmap/a": Fate.PRUNE, "configmap/ours": Fate.PRUNE},
    ),
    "an object that is marked": Row(
        [A, SPACE, KEPT], options=DELETE, fates={"configmap/kept": Fate.ORPHAN}, refused=CASCADE,
        because={NAME: f"{HOUSE}/configmap/kept: marked applyprune.dev/prune: disabled"},
    ),
    "an object that is orphaned": Row(
        [A, SPACE, OURS], options={**DELETE, "orphan": frozenset({"configmap/ours"})},
        fates={"configmap/ours": Fate.ORPHAN}, refused=CASCADE,
        because={NAME: f"{HOUSE}/configmap/ours"},
    ),
    "an object that is still wanted": Row(
        [*MORE, SPACE, OURS], given=[*MORE, OURS], refused=frozenset({Guard.INPUT_INSIDE}),
        because={NAME: f"objects of the input: {HOUSE}/configmap/ours"},
    ),
    "an adopted object, in an adopted one": Row(
        [A, SPACE, OURS], before=[SPACE, OURS], options={**DELETE, "adopt": Adopt.ALL},
        fates={NAME: Fate.ORPHAN, "configmap/ours": Fate.ORPHAN, "configmap/a": Fate.PRUNE},
    ),
}  # fmt: skip


@rows(CONTENTS)
def test_namespace_takes_nothing_with_it_that_must_stay(row: Row) -> None:
    row.holds()


# What a controller makes in a new Namespace.

ROOT = config_map("kube-root-ca.crt", namespace=HOUSE)
ACCOUNT = of_kind("ServiceAccount", "default", {"namespace": HOUSE})
GIVEN = [SPACE, ACCOUNT, ROOT, config_map("b", namespace=HOUSE)]
MADE = ("serviceaccount/default", "configmap/kube-root-ca.crt")
NEW = {NAME: Fate.CREATE, "configmap/b": Fate.CREATE}
DEFAULTS = {
    "by default": Row(
        given=GIVEN, fates={**NEW, **dict.fromkeys(MADE, Fate.ADOPT)},
        because=dict.fromkeys(MADE, "adopted: a controller creates it in a new Namespace"),
    ),
    "none": Row(
        given=GIVEN, options={"adopt": Adopt.NONE},
        fates={**NEW, **dict.fromkeys(MADE, Fate.REFUSE)},
        because=dict.fromkeys(MADE, "--adopt=unowned"),
    ),
}  # fmt: skip


@rows(DEFAULTS)
def test_object_that_a_controller_makes_in_a_new_namespace_is_adopted(row: Row) -> None:
    """It would exist without the set too."""
    row.holds()


# A namespace that a manifest gives to an object in cluster scope.

ROLE = of_kind("ClusterRole", "home-reader", rules=[])
SCOPES = {
    "it is added": Row([A, ROLE], given=[A, {**ROLE, "metadata": {"name": "home-reader",
        "namespace": HOUSE}}]),
    "it is removed": Row([A, {**ROLE, "metadata": {"name": "home-reader", "namespace": HOUSE}}],
        given=[A, ROLE]),
}  # fmt: skip


@rows(SCOPES)
def test_object_in_cluster_scope_is_one_object_in_each_namespace(row: Row) -> None:
    """It is not pruned, then or later."""
    row.holds()
