"""Whose an object is: one of the set is pruned, an adopted one orphaned, another's left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from applyprune.errors import InputError
from applyprune.model.fate import Fate
from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, Mode, PruneAlso
from applyprune.planning.applyset import OWNED_BY
from applyprune.planning.marks import OWNER_MARKS
from applyprune.planning.removals import NO_WITNESS
from tests.decisions.rows import Row, rows
from tests.decisions.world import (
    SET,
    Change,
    annotated,
    applied_by,
    changed,
    created,
    deleted,
    other_set,
    owned_by,
    recorded,
    relabelled,
)
from tests.support.objects import DEPLOYMENT, config_map, of_kind

A, B, C = map(config_map, "abc")
ALSO: dict[PruneAlso, dict[str, Any]] = {one: {"also": frozenset({one})} for one in PruneAlso}
PRUNED, ORPHANED = {"configmap/b": Fate.PRUNE}, {"configmap/b": Fate.ORPHAN}
REFUSED = {"configmap/b": Fate.REFUSE}
REST = {"configmap/a": Fate.PRUNE, "configmap/c": Fate.PRUNE}


def _left(*others: Change, **parts: Any) -> Row:
    """Return a set of three of which one has left the input."""
    return Row([A, B, C], others, [A, C], **parts)


def _deleted(*others: Change, fate: Fate, **parts: Any) -> Row:
    """Return the deletion of a set of three."""
    fates = {**REST, "configmap/b": fate}
    return Row([A, B, C], others, options={"mode": Mode.DELETE}, fates=fates, **parts)


# Other tools and appliers.

RELEASE = {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "x"}
HELM = changed("configmap/b", {"metadata": {"annotations": RELEASE}}, by="helm")
FLUX = applied_by(
    "kustomize-controller",
    config_map("b", labels={"kustomize.toolkit.fluxcd.io/name": "web"}),
    force=True,
)
KAPP = changed("configmap/b", {"metadata": {"labels": {"kapp.k14s.io/app": "1"}}}, by="kapp")
APPLIER = applied_by("some-applier", B)
PART = applied_by("other-team", {**B, "data": {"theirs": "1"}})
GUARDED_PATCH = {"configmap/b": "patch guarded by UID and version"}
HOOK = {
    "name": "home.example.com",
    "clientConfig": {"url": "https://127.0.0.1:1/x"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "namespaceSelector": {"matchLabels": {"no": "namespace"}},
}
WEBHOOK = of_kind(
    "ValidatingWebhookConfiguration", "home.example.com",
    api="admissionregistration.k8s.io/v1", webhooks=[HOOK],
)  # fmt: skip
THEIR_HOOK = {**WEBHOOK, "webhooks": [{**HOOK, "name": "other.home.example.com"}]}
WEBHOOK_NAME = "validatingwebhookconfiguration.admissionregistration.k8s.io/home.example.com"
TOOLS = {
    **{
        f"{tool}: {verb}": row(change, because={"configmap/b": words}, **parts)
        for tool, change, words in (
            ("Helm", HELM, "it now carries Helm's mark"),
            ("Flux", FLUX, "it now carries Flux's mark"),
            ("kapp", KAPP, "it now carries kapp's mark"),
            ("a full applier", APPLIER, "some-applier applies it too (.data.key)"),
            ("an applier of a part", PART, "other-team applies a part of it (.data.theirs)"),
        )
        for verb, row, parts in (
            ("apply", _left, {"fates": ORPHANED, "sends": GUARDED_PATCH}),
            ("delete", _deleted, {"fate": Fate.ORPHAN}),
        )
    },
    **{
        f"the mark {mark.key}": _left(
            changed("configmap/b", {"metadata": {mark.part: {mark.key: "x"}}},
                by=min(mark.managers, default="their-tool")),
            fates=ORPHANED, because={"configmap/b": f"it now carries {mark.tool}'s mark"},
        )
        for mark in OWNER_MARKS
    },
    "Helm: --prune-also shared": _left(HELM, options=ALSO[PruneAlso.SHARED], fates=PRUNED),
    "a part: --prune-also shared": _left(PART, options=ALSO[PruneAlso.SHARED], fates=PRUNED),
    "a part of what needs its backend": Row(
        [A, WEBHOOK], [applied_by("other-team", THEIR_HOOK)], [A],
        fates={WEBHOOK_NAME: Fate.REFUSE},
        because={WEBHOOK_NAME: f"--prune-also shared. To orphan it: --orphan {WEBHOOK_NAME}"},
    ),
    "a part of what needs its backend: --orphan": Row(
        [A, WEBHOOK], [applied_by("other-team", THEIR_HOOK)], [A],
        options={"orphan": {WEBHOOK_NAME}}, fates={WEBHOOK_NAME: Fate.ORPHAN},
    ),
    "labels by an apply": _left(
        applied_by("labeller", of_kind("ConfigMap", "b", {"labels": {"team": "x"}})),
        fates=PRUNED,
    ),
    "a key by an update": _left(
        changed("configmap/b", {"data": {"theirs": "1"}}, by="writer"), fates=PRUNED
    ),
    "an annotation": _left(annotated("configmap/b", {"note": "x"}), fates=PRUNED),
    "replicas by hand": Row(
        [A, B, DEPLOYMENT],
        [changed("deployment.apps/web", {"spec": {"replicas": 2}}, by="kubectl")], [A, B],
        fates={"deployment.apps/web": Fate.PRUNE},
    ),
}  # fmt: skip


@pytest.mark.holds("other-owner", row="Helm: apply")
@pytest.mark.holds("applier-of-other-fields", row="an applier of a part: apply")
@pytest.mark.holds("applier-needs-backend", row="a part of what needs its backend")
@rows(TOOLS)
def test_object_that_another_tool_runs_is_orphaned(row: Row) -> None:
    """A decoration makes nobody an owner, and --prune-also shared is the user's word."""
    row.holds()


# Adopted objects, objects of other sets, and objects that are not the set's any more.

THEIRS = config_map("b", "theirs")
AGAIN = (deleted("configmap/b"), created(THEIRS))
OWN_LABEL = relabelled("configmap/b", SET.id)
OURS = {
    "an adopted one": _left(before=[B], fates=ORPHANED),
    "an adopted one: delete": _deleted(before=[B], fate=Fate.ORPHAN),
    "an adopted one: --prune-also adopted": _left(
        before=[B], options=ALSO[PruneAlso.ADOPTED], fates=PRUNED
    ),
    "--adopt=none": Row(
        [A, C], given=[A, B], before=[B], options={"adopt": Adopt.NONE},
        fates={"configmap/b": Fate.REFUSE, "configmap/c": Fate.PRUNE},
        because={"configmap/b": "--adopt=unowned"},
    ),
    "another set's": Row(
        [A], [other_set(B)], [A, B], fates=REFUSED,
        because={"configmap/b": "it belongs to the set other in namespace home"},
    ),
    "recreated by another": _left(*AGAIN, fates={"configmap/b": Fate.REMOVE_FROM_INVENTORY}),
    "recreated, with our label": _left(*AGAIN, OWN_LABEL, fates=REFUSED),
    "without our label": _left(
        relabelled("configmap/b", None), fates=REFUSED,
        because={"configmap/b": "kubectl label"},
    ),
    "deleted by hand": _left(
        deleted("configmap/b"), fates={"configmap/b": Fate.REMOVE_FROM_INVENTORY}
    ),
    "our own": _left(fates=PRUNED, sends={"configmap/b": "delete guarded by UID and version"}),
}  # fmt: skip


@rows(OURS)
def test_only_what_the_set_has_created_is_deleted(row: Row) -> None:
    """By the record, the label, the UID and the field manager together."""
    row.holds()


# The second witness of a creation: an annotation that only the create writes.

FORGED = recorded("configmap/b", ownership=Ownership.OWNED)
WITNESS = {
    "an inventory that was edited": _left(FORGED, before=[B], fates=ORPHANED),
    "an inventory that was edited: delete": _deleted(FORGED, before=[B], fate=Fate.ORPHAN),
    **{
        f"the annotation {what}": _left(
            annotated("configmap/b", {OWNED_BY: value}), fates=ORPHANED,
            because={"configmap/b": NO_WITNESS},
        )
        for what, value in (("is removed", None), ("names another set", "applyset-somebodys-v1"))
    },
    "the annotation is removed: --prune-also adopted": _left(
        annotated("configmap/b", {OWNED_BY: None}), options=ALSO[PruneAlso.ADOPTED], fates=PRUNED
    ),
    "the annotation in a manifest": Row(
        [A], given=[A, config_map("b", annotations={OWNED_BY: "applyset-theirs-v1"})],
        fates={"configmap/b": Fate.CREATE}, warns=[OWNED_BY],
    ),
}  # fmt: skip


@pytest.mark.holds("witness", row="an inventory that was edited")
@rows(WITNESS)
def test_object_without_its_second_witness_counts_as_adopted(row: Row) -> None:
    """Whoever may edit the inventory's ConfigMap cannot make the set own an object."""
    row.holds()


# What an edited inventory says of an object that the set has applied.

EDITED: dict[str, dict[str, Any]] = {
    "to be orphaned": {"orphaning": True},
    "never confirmed": {"uid": ""},
    "adopted, and never confirmed": {
        "uid": "",
        "uid_before_apply": "x",
        "ownership": Ownership.ADOPTED,
    },
    "another UID": {"uid": "x"},
    "another UID, and being deleted": {"uid": "x", "deleting": True},
}
ESCAPES = {
    f"{edit}: {label}": _left(
        recorded("configmap/b", **facts), *others,
        fates=PRUNED if not others and "UID" not in edit and "adopted" not in edit else REFUSED,
    )
    for edit, facts in EDITED.items()
    for label, others in (
        ("labelled", ()), ("without the label", [relabelled("configmap/b", None)]),
    )
}  # fmt: skip


@pytest.mark.holds("applied-stays-listed", row="never confirmed: without the label")
@pytest.mark.holds("orphaned-without-record", row="to be orphaned: without the label")
@rows(ESCAPES)
def test_edited_entry_does_not_let_an_object_escape(row: Row) -> None:
    """Our manager's Apply entry says whose it is; only label and UID together let a prune go on."""
    row.holds()


# Annotations that keep an object.

KEEPS = ({"applyprune.dev/prune": "disabled"}, {"helm.sh/resource-policy": "keep"})
ODD = (
    ("applyprune.dev/prune", "false", "the value of the annotation applyprune.dev/prune"),
    ("applyprune.dev/prune", "disable", "the value of the annotation applyprune.dev/prune"),
    ("applyprune.dev/prune", "keep", "the value of the annotation applyprune.dev/prune"),
    ("applyprune.dev/prun", "disabled", "the annotation applyprune.dev/prun"),
)
KEPT = {
    **{
        f"{key}: {value}: {where}": Row(
            [A, config_map("b", annotations=applied), C], others, [A, C], fates=ORPHANED
        )
        for marks in KEEPS
        for key, value in marks.items()
        for where, applied, others in (
            ("manifest", marks, ()), ("by hand", {}, (annotated("configmap/b", marks),)),
        )
    },
    **{
        f"{key}={value}: {verb}": row(
            annotated("configmap/b", {key: value}), **parts,
            because={"configmap/b": f"{told} is not understood"},
        )
        for key, value, told in ODD
        for verb, row, parts in (
            ("apply", _left, {"fates": REFUSED}), ("delete", _deleted, {"fate": Fate.REFUSE}),
        )
    },
    **{
        f"{key}={value}: manifest": Row(
            [A], given=[A, config_map("b", annotations={key: value})], error=InputError, says=[key]
        )
        for key, value, _ in ODD
    },
    "not understood, --orphan": _left(
        annotated("configmap/b", {"applyprune.dev/keep": "yes"}),
        options={"orphan": {"configmap/b"}}, fates=ORPHANED,
    ),
}  # fmt: skip


@pytest.mark.holds("unknown-annotation", row="applyprune.dev/prune=false: apply")
@pytest.mark.holds("mark-before-delete", row="applyprune.dev/prun=disabled: apply")
@rows(KEPT)
def test_annotation_keeps_an_object(row: Row) -> None:
    """One that is not understood stops the prune of its object until somebody decides."""
    row.holds()


# An owner of the same set: both go, or the object is in use.

OWNER = owned_by("configmap/c", "configmap/b")
BOTH = {"configmap/b": Fate.PRUNE, "configmap/c": Fate.PRUNE}


def _owned(given: Sequence[dict[str, Any]] | None, **parts: Any) -> Row:
    return Row([A, config_map("z"), B, C], [OWNER], given, **parts)


IN_SET = {
    "both leave": _owned([A, config_map("z")], fates=BOTH),
    "the set is deleted": _owned(
        None, options={"mode": Mode.DELETE},
        fates={**BOTH, "configmap/a": Fate.PRUNE, "configmap/z": Fate.PRUNE},
    ),
    "the owner stays": _owned(
        [A, config_map("z"), B], fates={"configmap/c": Fate.ORPHAN}
    ),
    "the owner stays: --prune-also shared": _owned(
        [A, config_map("z"), B], options=ALSO[PruneAlso.SHARED], fates={"configmap/c": Fate.PRUNE}
    ),
}  # fmt: skip


@rows(IN_SET)
def test_owner_in_the_set_is_no_stranger(row: Row) -> None:
    """An operator makes one object of the set the owner of another one."""
    row.holds()
