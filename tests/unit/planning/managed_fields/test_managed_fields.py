"""The patches by which an object changes hands, each applied to the metadata it was made for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jsonpatch
import pytest

from applyprune.model.identity import Ref
from applyprune.model.inventory import Ownership
from applyprune.model.live import LiveObject
from applyprune.model.plan import Migration, PatchRequest
from applyprune.planning.applyset import OWNED_BY, PART_OF, applyset_identity
from applyprune.planning.decide import entry_before_apply
from applyprune.planning.managed_fields import manager_by_label
from applyprune.planning.ownership import has_witness
from applyprune.planning.requests import (
    mark_request,
    migrate_request,
    orphan_request,
    remove_manager_request,
    settle_request,
    transfer_request,
    unlabel_request,
)
from applyprune.values import packed
from tests.support.planning import CONFIG_MAPS, TARGET, desired, live, managed, recorded

Operations = Sequence[Mapping[str, Any]]
Metadata = dict[str, Any]

REF = Ref("", "ConfigMap", "home", "a")
OURS = TARGET.manager
SHOP = applyset_identity("shop", "home")
LONG = applyset_identity("n" * 63, "s" * 63)
OTHERS = {"team": "x", "a~b/c~1": "y"}
"""Labels of somebody else's, one with all that a JSON pointer has to escape."""
KUBECTL = managed("kubectl", operation="Update")
STATUS = managed("kube-controller-manager", operation="Update", subresource="status")
WITNESS: Metadata = {"f:metadata": {"f:annotations": {f"f:{OWNED_BY}": {}}}}
MARKS: Metadata = {
    "f:metadata": {"f:annotations": {f"f:{OWNED_BY}": {}}, "f:labels": {f"f:{PART_OF}": {}}}
}
LABEL_ONLY: Metadata = {"f:metadata": {"f:labels": {f"f:{PART_OF}": {}}}}


def patched(before: LiveObject, operations: Operations) -> Metadata:
    """Return the metadata as it is after a patch; the server leaves out what is empty."""
    body = {"metadata": {key: value for key, value in before.whole_metadata.items() if value}}
    return dict(jsonpatch.apply_patch(body, list(operations))["metadata"])


def settled(before: LiveObject) -> Operations:
    """Return the second patch of a hand-over, on what the server makes of the first."""
    second = settle_request(_transfer(before), _handed_over(before))
    assert second is not None
    return second.operations


def _transfer(one: LiveObject) -> PatchRequest:
    return transfer_request(CONFIG_MAPS, one, old=OURS, applyset=SHOP)


def _handed_over(before: LiveObject) -> LiveObject:
    """Return an object as the server leaves it: the label is the field of whoever patched it."""
    after = patched(before, PATCHES["hand over"](before))
    stray = managed("applyprune", operation="Update", fieldsV1=LABEL_ONLY)
    return _read({**after, "managedFields": [*after.get("managedFields", []), stray]})


def _read(metadata: Metadata) -> LiveObject:
    """Return what is read of an object after its first patch."""
    changed = {**metadata, "resourceVersion": "6"}
    return LiveObject.of(REF, "u1", "6", changed)


PATCHES: dict[str, Callable[[LiveObject], Operations]] = {
    "orphan": lambda one: orphan_request(CONFIG_MAPS, one, TARGET).operations,
    "leave": lambda one: remove_manager_request(CONFIG_MAPS, one, TARGET.yielded).operations,
    "release": lambda one: unlabel_request(CONFIG_MAPS, one).operations,
    "hand over": lambda one: _transfer(one).operations,
    "mark": lambda one: mark_request(CONFIG_MAPS, one, TARGET, owned=False).operations,
    "settle": settled,
}
LIVES: dict[str, LiveObject] = {
    "ours": live(REF),
    "ours and others'": live(
        REF,
        entries=[KUBECTL, managed(), STATUS],
        labels={PART_OF: TARGET.id, **OTHERS},
        annotations={"note": "z"},
        finalizers=["example.com/hold"],
    ),
    "ours, and what we have yielded": live(REF, entries=[managed(TARGET.yielded), managed()]),
    "ours twice": live(REF, entries=[managed(), managed(OURS, subresource="status"), KUBECTL]),
    "another set's": live(REF, label=SHOP.id, entries=[managed(SHOP.manager), KUBECTL]),
    "nobody's": live(REF, label="", entries=[KUBECTL]),
    "without a label": live(REF, label=""),
    "without managers": live(REF, entries=[]),
    "bare": live(REF, label="", entries=[]),
}
GUARDED: dict[str, Callable[[LiveObject], Operations]] = {
    **PATCHES,
    "migrate": lambda one: (
        migrate_request(
            CONFIG_MAPS, one, Migration(whole=frozenset({("kubectl", "Update")})), packed({}), OURS
        ).operations
    ),
}
"""The one that touches an annotation as well: tests/stories/steps/test_field_transfer.py."""
each_patch = pytest.mark.parametrize("patch", PATCHES)
each_guarded = pytest.mark.parametrize("patch", GUARDED)
each_live = pytest.mark.parametrize("name", LIVES)


@each_guarded
@each_live
def test_patch_tests_uid_and_resource_version(patch: str, name: str) -> None:
    """The first two operations test UID and resourceVersion; nothing is tested after a change."""
    operations = GUARDED[patch](LIVES[name])
    # What is to be settled is the object as the first patch left it.
    version = "6" if patch == "settle" else "5"
    assert list(operations[:2]) == [
        {"op": "test", "path": "/metadata/uid", "value": "u1"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
    ]
    assert "test" not in {one["op"] for one in operations[2:]}


@pytest.mark.parametrize("changed", ["uid", "resourceVersion"])
@each_guarded
def test_patch_of_a_changed_object_does_nothing(patch: str, changed: str) -> None:
    """It fails as a whole, before its first change."""
    one = LIVES["ours"]
    read = _handed_over(one) if patch == "settle" else one
    now = LiveObject.of(
        REF, read.uid, read.resource_version, {**read.whole_metadata, changed: "another"}
    )
    with pytest.raises(jsonpatch.JsonPatchTestFailed):
        patched(now, GUARDED[patch](one))


@each_patch
@each_live
def test_patch_touches_only_labels_and_managed_fields(patch: str, name: str) -> None:
    """And the annotation of ownership; neither as the target of an operation nor as its source."""
    operations = PATCHES[patch](LIVES[name])
    paths = {one[end] for one in operations[2:] for end in ("path", "from") if end in one}
    touched = ("/metadata/labels", "/metadata/managedFields")
    if LIVES[name].annotations.get(OWNED_BY):
        witness = f"/metadata/annotations/{OWNED_BY.replace('/', '~1')}"
        paths -= {witness, "/metadata/annotations"}  # without its last one, all of them go
    assert all(path.startswith(touched) for path in paths)
    before = _handed_over(LIVES[name]) if patch == "settle" else LIVES[name]
    after = patched(before, operations)
    marks = {"labels", "managedFields"}

    def rest(metadata: Mapping[str, Any]) -> Metadata:
        noted = metadata.get("annotations") or {}
        kept = {key: text for key, text in noted.items() if key != OWNED_BY}
        left = {key: value for key, value in metadata.items() if key not in marks and value}
        return {**left, "annotations": kept}

    assert rest(after) == rest(before.whole_metadata)


@each_patch
@each_live
def test_foreign_labels_and_managers_are_unchanged(patch: str, name: str) -> None:
    """Values, entries and their order."""

    def others(metadata: Mapping[str, Any]) -> tuple[Mapping[str, str], list[Any]]:
        labels = {key: value for key, value in metadata.get("labels", {}).items() if key in OTHERS}
        return labels, [
            entry for entry in metadata.get("managedFields", []) if entry in (KUBECTL, STATUS)
        ]

    before = _handed_over(LIVES[name]) if patch == "settle" else LIVES[name]
    assert others(patched(before, PATCHES[patch](LIVES[name]))) == others(before.whole_metadata)


# The managers before and after; None: the list is not there, before as after.
PARTING = {
    "manager": "applyprune-orphaned",
    "operation": "Update",
    "apiVersion": "v1",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:metadata": {"f:annotations": {"f:applyprune.dev/orphaned": {}}}},
}
ORPHANED: dict[str, tuple[list[Metadata], list[Metadata] | None]] = {
    "ours among others'": ([KUBECTL, managed(), STATUS], [KUBECTL, STATUS]),
    "ours twice": ([managed(), managed(OURS, operation="Update"), STATUS], [STATUS]),
    "ours of a subresource": ([managed(OURS, subresource="status"), KUBECTL], [KUBECTL]),
    "others' alone": ([KUBECTL], [KUBECTL]),
    "another set's": ([managed(SHOP.manager), managed()], [managed(SHOP.manager)]),
    "what we have yielded": ([managed(), managed(TARGET.yielded), KUBECTL], [KUBECTL]),
    # The server books the fields of an object without a manager to before-first-apply.
    "the last one": ([managed()], [PARTING]),
    "none": ([], [PARTING]),
}


@pytest.mark.parametrize("name", ORPHANED)
def test_orphaning_removes_our_manager_and_our_label(name: str) -> None:
    """And leaves an entry with a path that nobody sets when there was no other manager."""
    before, left = ORPHANED[name]
    one = live(REF, entries=before, labels={PART_OF: TARGET.id, **OTHERS})
    after = patched(one, PATCHES["orphan"](one))
    assert after["labels"] == OTHERS
    assert after.get("managedFields") == left


@pytest.mark.parametrize("patch", ["orphan", "release"])
def test_last_label_is_removed_with_the_whole_map(patch: str) -> None:
    """As the server keeps no empty one."""
    assert "labels" not in patched(LIVES["ours"], PATCHES[patch](LIVES["ours"]))


def test_leaving_removes_one_manager_only() -> None:
    """Label and all other managers stay; the last one leaves an empty entry here, too."""
    one = live(REF, entries=[managed(TARGET.yielded), KUBECTL, managed()])
    after = patched(one, PATCHES["leave"](one))
    assert after["labels"] == {PART_OF: TARGET.id}
    assert after["managedFields"] == [KUBECTL, managed()]
    alone = live(REF, entries=[managed(TARGET.yielded)])
    assert patched(alone, PATCHES["leave"](alone))["managedFields"] == [{}]


def test_releasing_removes_the_label_only() -> None:
    """Whoever's it is: its owner is no set that we know."""
    entries = [KUBECTL, managed("another-tool")]
    one = live(REF, entries=entries, labels={PART_OF: "applyset-theirs-v1", **OTHERS})
    after = patched(one, PATCHES["release"](one))
    assert (after["labels"], after["managedFields"]) == (OTHERS, entries)


# The managers before and after a hand-over from ours to the shop's.
HANDED_OVER: dict[str, tuple[list[Metadata], list[Metadata] | None]] = {
    "ours among others'": ([KUBECTL, managed(), STATUS], [KUBECTL, managed(SHOP.manager), STATUS]),
    "ours of a subresource as well": (
        [managed(), managed(OURS, subresource="status")],
        [managed(SHOP.manager), managed(SHOP.manager, subresource="status")],
    ),
    # Two Apply entries of one manager and version are more than the server takes.
    "the new one's already": (
        [managed(SHOP.manager, fields="f:old"), managed(OURS, fields="f:new")],
        [managed(SHOP.manager, fields="f:new")],
    ),
    "what we have yielded": (
        [managed(TARGET.yielded, fields="f:y"), managed(), managed(SHOP.yielded)],
        [managed(SHOP.yielded, fields="f:y"), managed(SHOP.manager)],
    ),
    "a third set's": (
        [managed(LONG.manager), managed()],
        [managed(LONG.manager), managed(SHOP.manager)],
    ),
    "not ours": ([KUBECTL], [KUBECTL]),
    "none": ([], None),
}


@pytest.mark.parametrize("name", HANDED_OVER)
@pytest.mark.parametrize("label", [TARGET.id, ""])
def test_transfer_sets_the_label_and_renames_the_manager(name: str, label: str) -> None:
    """What the entry says of fields, version and time stays, so that what we owned is its own."""
    before, left = HANDED_OVER[name]
    one = live(REF, label=label, entries=before)
    after = patched(one, PATCHES["hand over"](one))
    assert after["labels"] == {PART_OF: SHOP.id}
    assert after.get("managedFields") == left


@pytest.mark.parametrize("name", HANDED_OVER)
def test_settling_restores_what_the_server_attributed_to_the_patch(name: str) -> None:
    """The manager of the patch goes, and the label is the new set's; where it was ours."""
    before, left = HANDED_OVER[name]
    one = live(REF, entries=before)
    now = _handed_over(one)
    after = patched(now, settled(one))
    assert after["labels"] == {PART_OF: SHOP.id}
    assert after.get("managedFields") == left


def test_transfer_there_and_back_restores_the_object() -> None:
    """Nothing is lost on the way."""
    one = LIVES["ours and others'"]
    there = _read(patched(one, PATCHES["hand over"](one)))
    back = transfer_request(CONFIG_MAPS, there, old=SHOP.manager, applyset=TARGET)
    assert patched(there, back.operations) == {**one.whole_metadata, "resourceVersion": "6"}


APPLY = {
    "manager": OURS,
    "operation": "Apply",
    "apiVersion": "v1",
    "fieldsType": "FieldsV1",
    "fieldsV1": LABEL_ONLY,
}
# The managers before, and those after a mark.
MARKED: dict[str, tuple[list[Metadata], list[Metadata]]] = {
    "marked already": ([KUBECTL, managed()], [KUBECTL, managed()]),
    "nobody's": ([KUBECTL], [KUBECTL, APPLY]),
    "no managers": ([], [APPLY]),
    "ours, but not by an apply": (
        [managed(operation="Update")],
        [managed(operation="Update"), APPLY],
    ),
    "ours, but of a subresource": (
        [managed(subresource="status")],
        [managed(subresource="status"), APPLY],
    ),
    "another set's": ([managed(SHOP.manager)], [managed(SHOP.manager), APPLY]),
}


@pytest.mark.parametrize("name", MARKED)
@pytest.mark.parametrize("label", [TARGET.id, SHOP.id, ""])
def test_marking_restores_missing_label_and_manager(name: str, label: str) -> None:
    """The label, and an Apply entry that owns it; one that is there is left as it is."""
    before, left = MARKED[name]
    one = live(REF, label=label, entries=before)
    after = patched(one, PATCHES["mark"](one))
    assert after["labels"] == {PART_OF: TARGET.id}
    assert after["managedFields"] == left


@pytest.mark.parametrize("entries", [[managed(fieldsV1=LABEL_ONLY)], [KUBECTL], []])
def test_marking_as_owned_writes_the_annotation(entries: list[Metadata]) -> None:
    """The set's Apply entry owns it: without that, it proves nothing."""
    before = live(REF, entries=entries, annotations={"note": "z"})
    after = patched(before, mark_request(CONFIG_MAPS, before, TARGET, owned=True).operations)
    assert after["annotations"] == {"note": "z", OWNED_BY: TARGET.id}
    assert not has_witness(before, TARGET)
    assert has_witness(_read(after), TARGET)


def test_annotation_of_ownership_follows_the_label_of_what_is_owned() -> None:
    """A set that only adopts what it takes has no annotation."""
    one = LIVES["ours"]
    assert has_witness(one, TARGET)
    after = patched(one, _transfer(one).operations)
    assert OWNED_BY not in after.get("annotations", {})
    owned = transfer_request(CONFIG_MAPS, one, old=OURS, applyset=SHOP, owned=True)
    assert patched(one, owned.operations)["annotations"][OWNED_BY] == SHOP.id


@pytest.mark.holds("witness-of-a-patch", row="by hand")
@pytest.mark.parametrize("by", ["applyprune", "kubectl"], ids=["after the first patch", "by hand"])
def test_annotation_proves_ownership_at_each_step_of_a_transfer(by: str) -> None:
    """Between the two patches the server books it to the program; anybody else proves nothing."""
    one = live(REF, entries=[managed(), KUBECTL])
    first = transfer_request(CONFIG_MAPS, one, old=OURS, applyset=SHOP, owned=True)
    handed = patched(one, first.operations)
    # The server takes from the Apply entry what another writer has changed.
    ours, *others = handed["managedFields"]
    left = {**ours, "fieldsV1": {"f": {}}}
    stray = managed(by, operation="Update", fieldsV1=MARKS)
    between = _read({**handed, "managedFields": [left, *others, stray]})
    assert has_witness(between, SHOP) == (by == "applyprune")
    assert not has_witness(_read({**handed, "managedFields": [*others, stray]}), SHOP)
    second = settle_request(first, between)
    assert second is not None
    after = _read(patched(between, second.operations))
    assert has_witness(after, SHOP)
    # Whoever takes it back after such an interruption leaves nothing of the first patch.
    back = transfer_request(CONFIG_MAPS, between, old=SHOP.manager, applyset=TARGET, owned=True)
    settled_back = settle_request(back, _read(patched(between, back.operations)))
    assert settled_back is not None
    home = _read(patched(_read(patched(between, back.operations)), settled_back.operations))
    assert has_witness(home, TARGET)
    assert [one.manager for one in home.writers if one.manager == "applyprune"] == []


@pytest.mark.parametrize(
    ("entry", "is_there", "expected"),
    [
        ({}, True, Ownership.OWNED),
        ({}, False, Ownership.OWNED),
        ({"uid": "", "uid_before_apply": "u1"}, True, Ownership.OWNED),
        ({"uid": "", "uid_before_apply": "u1"}, False, Ownership.ADOPTED),
        (
            {"uid": "", "uid_before_apply": "u1", "ownership": Ownership.ADOPTED},
            True,
            Ownership.ADOPTED,
        ),
    ],
    ids=["confirmed", "without it", "interrupted", "interrupted before", "adopted"],
)
@pytest.mark.holds("interrupted-takeover", row="interrupted")
def test_interrupted_takeover_is_owned_if_record_and_object_say_so(
    entry: Metadata, is_there: bool, expected: Ownership
) -> None:
    one = desired()
    state = live(one.ref, annotations={OWNED_BY: TARGET.id} if is_there else {})
    found = entry_before_apply(one, state, recorded(one, state, **entry), TARGET)
    assert found.ownership is expected


NO_WITNESS: dict[str, LiveObject] = {
    "another value": live(REF, annotations={OWNED_BY: SHOP.id}),
    "no annotation": live(REF, annotations={}),
    "no entry": live(REF, entries=[]),
    "in an entry of another manager": live(REF, entries=[managed("kubectl", fieldsV1=WITNESS)]),
    "in an Update": live(REF, entries=[managed(operation="Update", fieldsV1=WITNESS)]),
    "not in our entry": live(REF, entries=[managed(fieldsV1=LABEL_ONLY)]),
}


@pytest.mark.parametrize("name", NO_WITNESS)
def test_annotation_that_we_did_not_apply_proves_nothing(name: str) -> None:
    """Controllers copy annotations, and anybody may write one."""
    assert not has_witness(NO_WITNESS[name], TARGET)


def test_marked_object_is_only_tested() -> None:
    """A patch of nothing."""
    assert len(PATCHES["mark"](LIVES["ours"])) == 2


MANAGERS: dict[str, tuple[str, list[Metadata], str]] = {
    "ours": (TARGET.id, [KUBECTL, managed()], OURS),
    "another set's": (SHOP.id, [managed(), managed(SHOP.manager)], SHOP.manager),
    "one whose name is too long for a manager": (LONG.id, [managed(LONG.manager)], LONG.manager),
    "a set that has not applied it": (SHOP.id, [managed(), KUBECTL], ""),
    "another tool's": ("applyset-theirs-v1", [managed("kubectl-applyset")], ""),
    "what a set has yielded": (TARGET.id, [managed(TARGET.yielded)], ""),
    "no label": ("", [KUBECTL, managed()], ""),
    "no label, a manager without a name": ("", [{}], ""),
    "no managers": (TARGET.id, [], ""),
}


@pytest.mark.parametrize("name", MANAGERS)
def test_set_manager_is_found_by_the_label(name: str) -> None:
    """The label says whose the object is, and the manager's name which set that is."""
    label, entries, manager = MANAGERS[name]
    assert manager_by_label(live(REF, label=label, entries=entries)) == manager
