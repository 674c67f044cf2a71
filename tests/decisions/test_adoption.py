"""Which existing objects a set takes, as what, and which of them may become owned later."""

from __future__ import annotations

import pytest

from applyprune.model.fate import Fate
from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, Conflicts, Mode
from tests.decisions.rows import Row, rows
from tests.decisions.world import (
    Change,
    annotated,
    applied_by,
    changed,
    created,
    deleted,
    deleting,
    other_set,
    owned_by,
    relabelled,
)
from tests.support.objects import config_map

A, B, ROOT = config_map("a"), config_map("b"), config_map("kube-root-ca.crt")
ADOPTED, REFUSED = {"configmap/b": Fate.ADOPT}, {"configmap/b": Fate.REFUSE}
FORCE = {"conflicts": Conflicts.FORCE}


def _theirs(body: Change, fates: dict[str, Fate], because: str = "", **options: object) -> Row:
    told = {"configmap/b": because} if because else {}
    return Row([A], [body], [A, B], {**FORCE, **options}, fates, told)


# What --adopt and --record-as say.

PLAIN = created(config_map("b", "theirs"))
HELM = created(config_map("b", "theirs", annotations={"meta.helm.sh/release-name": "r"}))
FLUX = applied_by("kustomize-controller", B)
SET = other_set(B)
AS_OWNED = {"adopt_as": Ownership.OWNED}
OWNED = "adopted, as owned: a later prune deletes it"
ASKED = {
    "nobody's": _theirs(PLAIN, ADOPTED),
    "nobody's: none": _theirs(PLAIN, REFUSED, "--adopt=unowned", adopt=Adopt.NONE),
    "nobody's: as owned": _theirs(PLAIN, ADOPTED, OWNED, **AS_OWNED),
    "a release's": _theirs(HELM, REFUSED, "belongs to the Helm release r"),
    "a release's: as owned": _theirs(HELM, REFUSED, "to the Helm release r", **AS_OWNED),
    "a release's: all": _theirs(HELM, ADOPTED, "belonged to the Helm release", adopt=Adopt.ALL),
    "a release's: all, as owned": _theirs(
        HELM, ADOPTED, OWNED, adopt=Adopt.ALL, **AS_OWNED
    ),
    "an applier's": _theirs(FLUX, ADOPTED),
    "an applier's: as owned": _theirs(
        FLUX, ADOPTED, "adopted: it existed and belonged to no set", **AS_OWNED
    ),
    "kubectl's: as owned": _theirs(applied_by("kubectl", B), ADOPTED, OWNED, **AS_OWNED),
    "another set's": _theirs(SET, REFUSED, "it belongs to the set other in namespace home"),
    "another set's: as owned": _theirs(SET, REFUSED, "it belongs to the set other", **AS_OWNED),
    "another set's: all": _theirs(SET, ADOPTED, adopt=Adopt.ALL),
    "another set's: all, as owned": _theirs(SET, ADOPTED, OWNED, adopt=Adopt.ALL, **AS_OWNED),
    "one that is kept: as owned": _theirs(
        created(config_map("b", annotations={"applyprune.dev/prune": "disabled"})), ADOPTED,
        "orphans it: marked applyprune.dev/prune: disabled", **AS_OWNED,
    ),
}  # fmt: skip


@pytest.mark.holds("own-nothing-of-others", row="an applier's: as owned")
@rows(ASKED)
def test_existing_object_is_adopted_only_if_nobody_has_it(row: Row) -> None:
    """By default; --adopt=all says that it is meant, and --record-as owned that a prune deletes."""
    row.holds()


# The marks of other tools: a patch makes those of what is adopted the set's, and its apply removes
# them.

ALL = {"adopt": Adopt.ALL, "conflicts": Conflicts.FAIL}
PATCHED = {"configmap/b": "patch guarded by UID and version"}
SENT_AT_ONCE = {"configmap/b": "apply guarded by UID"}
INVENTORY = {"config.k8s.io/owning-inventory": "x"}


def _marked(
    annotations: dict[str, str], sends: dict[str, str], given: dict[str, str] | None = None
) -> Row:
    body = config_map("b", annotations=given) if given else B
    return Row(
        [A], [created(config_map("b", annotations=annotations))], [A, body], ALL, ADOPTED,
        sends=sends,
    )  # fmt: skip


MARKED = {
    "none": _marked({"note": "x"}, SENT_AT_ONCE),
    "one": _marked(INVENTORY, PATCHED),
    "one of nobody's": _marked({"kapp.k14s.io/original": "x"}, PATCHED),
    "a wish": _marked({"kapp.k14s.io/delete-strategy": "orphan"}, SENT_AT_ONCE),
    "one of the manifest": _marked(INVENTORY, SENT_AT_ONCE, given=INVENTORY),
    "one of the manifest, with another value": Row(
        [A], [created(config_map("b", annotations=INVENTORY))],
        [A, config_map("b", annotations={"config.k8s.io/owning-inventory": "y"})], ALL, REFUSED,
        {"configmap/b": 'theirs "x" → ours "y"'},
    ),
    "another set's": Row(
        [A], [other_set(B), annotated("configmap/b", INVENTORY)], [A, B], ALL, ADOPTED,
        sends=PATCHED,
    ),
    "one that an object of the set has got": Row(
        [A, B], [annotated("configmap/b", INVENTORY)], [A, B], ALL
    ),
}  # fmt: skip


@pytest.mark.holds("mark-of-the-manifest", row="one of the manifest")
@pytest.mark.holds("marks-of-the-adopted", row="one that an object of the set has got")
@rows(MARKED)
def test_marks_of_other_tools_go_with_an_adoption(row: Row) -> None:
    """A mark that the manifest sets is a field as any other."""
    row.holds()


# What may become owned later, by `inventory repair --record-as owned`.


def _later(*others: Change, words: str = "", mode: Mode = Mode.REPAIR) -> Row:
    return Row(
        [A, B], others, before=[B], options={"mode": mode}, owns={"configmap/b": words}
    )  # fmt: skip


LATER = {
    "an adopted one": _later(),
    "one of another set": Row(
        [A, B], [relabelled("configmap/b", "applyset-x-v1")], before=[B],
        options={"mode": Mode.REPAIR}, owns={"configmap/b": "has the label of another set"},
    ),
    "one without the label": _later(
        relabelled("configmap/b", None), words="it does not have this set's label"
    ),
    "one with an owner": _later(
        owned_by("configmap/b", "configmap/a"), words="it belongs to ConfigMap/a"
    ),
    "one with a mark of Helm": _later(
        annotated("configmap/b", {"meta.helm.sh/release-name": "web"}),
        words="it belongs to the Helm release web",
    ),
    "one that Flux applies": _later(FLUX, words="kustomize-controller applies it too"),
    "one that is being deleted": _later(
        changed("configmap/b", {"metadata": {"finalizers": ["example.com/hold"]}}),
        deleting("configmap/b"), words="it is being deleted",
    ),
    "one that was recreated": _later(
        deleted("configmap/b"), created(B), words="it is not the listed object"
    ),
    "one that is left alone": _later(
        annotated("configmap/b", {"applyprune.dev/apply": "disabled"}),
        words="it is marked applyprune.dev/apply: disabled",
    ),
    "one that is gone": _later(deleted("configmap/b"), words="it is gone"),
    "one of a controller": Row(
        [A, ROOT], before=[ROOT], options={"mode": Mode.REPAIR},
        owns={"configmap/kube-root-ca.crt": "a controller creates it in each Namespace"},
        never="a server has made it before the row does",
    ),
    "one that the set has created": Row(
        [A, B], options={"mode": Mode.REPAIR}, owns={"configmap/b": "it is owned already"}
    ),
}  # fmt: skip


@pytest.mark.holds("own-only-ours", row="one with a mark of Helm")
@pytest.mark.holds("own-nothing-left-alone", row="one that is left alone")
@pytest.mark.holds("own-no-defaults", row="one of a controller")
@rows(LATER)
def test_object_of_somebody_else_does_not_become_owned(row: Row) -> None:
    """A prune must never delete it."""
    row.holds()
