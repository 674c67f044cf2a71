"""What a manifest leaves to others: its annotations, and who has to own a field before it goes."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.errors import InputError, raise_all
from applyprune.model.fate import Fate
from applyprune.model.fieldset import to_pointer
from applyprune.model.options import Options
from applyprune.model.plan import ApplyRequest, ApplyStep, OnConflict, PatchRequest, Precondition
from applyprune.planning.applyset import applyset_identity, set_of, yielded_manager
from applyprune.planning.desired import resolve
from applyprune.planning.managed_fields import split_fields, split_problem, yield_steps
from applyprune.planning.normalize import body_to_send, manifest_digest
from applyprune.planning.ownership import unchanged
from applyprune.planning.requests import (
    apply_request,
    orphan_request,
    remove_manager_request,
    transfer_request,
)
from applyprune.values import replace
from tests.support.objects import manifest
from tests.support.planning import (
    CATALOGUE,
    CONFIG_MAPS,
    DEPLOYMENTS,
    SECRETS,
    TARGET,
    body,
    desired,
    live,
    managed,
    recorded,
)

SHOP = applyset_identity("shop", "home")
SPEC = {"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "image": "web:1"}]}}}
IGNORED = "applyprune.dev/ignore-fields"
REPLICAS: dict[str, Any] = {"f:spec": {"f:replicas": {}}}
PAUSED: dict[str, Any] = {"f:spec": {"f:paused": {}}}
BOTH: dict[str, Any] = {"f:spec": {"f:replicas": {}, "f:paused": {}}}
LABELLED: dict[str, Any] = {"f:metadata": {"f:labels": {"f:app": {}}}}
ATOMIC: dict[str, Any] = {"f:spec": {"f:selector": {}}}


def _resolved(annotations: dict[str, str], **parts: Any) -> Any:
    raw = body("Deployment", metadata={"annotations": annotations}, **{"spec": SPEC, **parts})
    found = resolve([manifest(raw, 7)], CATALOGUE, TARGET, namespace="home")
    raise_all(found.errors)
    return found.desired[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        (" \n", ()),
        ("/spec/replicas", ("/spec/replicas",)),
        ("/spec/replicas,/spec/paused", ("/spec/replicas", "/spec/paused")),
        (" /spec/replicas ,\n /spec/paused\n", ("/spec/replicas", "/spec/paused")),
        (
            '/spec/ports[port=80,protocol="TCP"]/name /spec/a[n="x, y]"]',
            ('/spec/ports[port=80,protocol="TCP"]/name', '/spec/a[n="x, y]"]'),
        ),
    ],
)
def test_pointers_are_separated_by_commas_or_spaces(text: str, expected: tuple[str, ...]) -> None:
    """A comma in brackets is a part of the key."""
    assert _resolved({IGNORED: text}).ignored == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("spec/replicas", "must begin with /"),
        (".spec.replicas", "must begin with /"),
        ("/spec/replicas,/spec//x", "empty"),
        ("/spec/template/spec/containers/0/image", 'containers[name="x"]'),
        ("/spec/template/spec/containers/-", 'containers[name="x"]'),
        ("/spec/template/spec/containers[0]/image", "by its key"),
        ("/spec[", "by its key"),
        ("]", "must begin with /"),
        ("/kind", "/kind cannot be ignored"),
        ("/apiVersion", "cannot be ignored"),
        ("/metadata", "cannot be ignored"),
        ("/metadata/name", "cannot be ignored"),
        ("/metadata/labels", "cannot be ignored"),
        ("/metadata/labels/applyset.kubernetes.io~1part-of", "cannot be ignored"),
    ],
)
def test_invalid_pointer_is_refused_with_its_place(text: str, why: str) -> None:
    """What names the object, and the set's label, are no one else's; a place in a list is none."""
    with pytest.raises(InputError) as caught:
        _resolved({IGNORED: text})
    assert "set.yaml:7: invalid applyprune.dev/ignore-fields" in str(caught.value)
    assert why in str(caught.value)


@pytest.mark.parametrize("rule", ["fail", "revert", "force", "skip"])
def test_conflict_annotation_is_read(rule: str) -> None:
    """The words of the option, and one more; without any, the options decide."""
    assert _resolved({"applyprune.dev/conflicts": rule}).conflicts == rule
    assert _resolved({}).conflicts is OnConflict.UNSET


@pytest.mark.parametrize("rule", ["", "Fail", "Force", "true", "force,skip"])
def test_unknown_annotation_value_is_refused_with_its_place(rule: str) -> None:
    """A typing error must not turn into a default."""
    with pytest.raises(InputError, match=r"set\.yaml:7: .*invalid applyprune\.dev/conflicts"):
        _resolved({"applyprune.dev/conflicts": rule})


def test_ignored_fields_are_sent_at_creation_only_and_count_in_the_digest() -> None:
    """The digest is that of the manifest, whatever is live."""
    one = _resolved({IGNORED: '/spec/replicas,/spec/template/spec/containers[name="c"]/image'})
    assert one.body["spec"] == SPEC
    assert one.digest == manifest_digest(one.body)
    assert body_to_send(one)["spec"] == {"template": {"spec": {"containers": [{"name": "c"}]}}}
    plain = _resolved({})
    assert body_to_send(plain) is plain.body


def _ours(fields: dict[str, Any]) -> dict[str, Any]:
    return managed(fieldsV1=fields)


def _second(fields: dict[str, Any]) -> dict[str, Any]:
    return managed(TARGET.yielded, fieldsV1=fields)


def _theirs(fields: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return managed("hpa", fieldsV1=fields, operation="Update", **parts)


YIELDS: dict[str, tuple[list[dict[str, Any]], list[str], bool, list[str]]] = {
    "nothing is ours": ([_theirs(REPLICAS)], ["/spec/replicas"], False, []),
    "nobody's": ([_ours(PAUSED)], ["/spec/replicas"], False, []),
    "ours alone": ([_ours(BOTH)], ["/spec/replicas"], False, ["/spec/replicas"]),
    "a part of what is ignored": (
        [_ours(BOTH)],
        ["/spec"],
        False,
        ["/spec/paused", "/spec/replicas"],
    ),
    "ours and theirs": ([_ours(BOTH), _theirs(REPLICAS)], ["/spec/replicas"], False, []),
    "ours, in a map that is theirs as such": (
        [_ours(LABELLED), _theirs({"f:metadata": {"f:labels": {}}})],
        ["/metadata/labels/app"],
        False,
        ["/metadata/labels/app"],
    ),
    "ours and theirs by a subresource": (
        [_ours(BOTH), _theirs(REPLICAS, subresource="scale")],
        ["/spec/replicas"],
        False,
        [],
    ),
    "yielded, and left out": ([_ours(PAUSED), _second(REPLICAS)], ["/spec/replicas"], False, []),
    "yielded, and not left out yet": (
        [_ours(BOTH), _second(REPLICAS)],
        ["/spec/replicas"],
        False,
        [],
    ),
    "one yielded, another to come": (
        [_ours(PAUSED), _second(REPLICAS)],
        ["/spec/replicas", "/spec/paused"],
        True,
        ["/spec/paused"],
    ),
    "both still ours, one yielded": (
        [_ours(BOTH), _second(REPLICAS)],
        ["/spec/replicas", "/spec/paused"],
        True,
        ["/spec/paused", "/spec/replicas"],
    ),
    "wanted back": ([_ours(PAUSED), _second(REPLICAS)], [], True, []),
    "another manager has it by now": (
        [_ours(PAUSED), _second(REPLICAS), _theirs(REPLICAS)],
        ["/spec/replicas"],
        True,
        [],
    ),
    "the second manager alone": ([_second(REPLICAS)], ["/spec/replicas"], False, []),
    "our entry of a subresource": (
        [managed(fieldsV1=REPLICAS, subresource="scale")],
        ["/spec/replicas"],
        False,
        [],
    ),
}


@pytest.mark.parametrize("name", YIELDS)
def test_ignored_fields_are_decided(name: str) -> None:
    """Co-owned is what we alone own; released is what others own, or what is wanted back."""
    entries, ignored, release, fields = YIELDS[name]
    one = replace(desired(body("Deployment", spec=SPEC), DEPLOYMENTS), ignored=tuple(ignored))
    found = yield_steps(one, live(one.ref, entries=entries), TARGET)
    assert (found.release, sorted(map(to_pointer, found.fields))) == (release, fields)


def test_co_owned_part_is_the_field_with_its_live_value_only() -> None:
    """Under both guards, for the values are of that very state."""
    one = replace(desired(body("Deployment", spec=SPEC), DEPLOYMENTS), ignored=("/spec/replicas",))
    full = {**one.body, "spec": {**SPEC, "replicas": 5}}
    there = live(one.ref, entries=[_ours(BOTH)], full=full)
    step = ApplyStep(one, Fate.CHANGE, recorded(one, there), there)
    before = apply_request(step, TARGET, Options()).before
    assert isinstance(before, ApplyRequest)
    assert before.body == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", "namespace": "home"},
        "spec": {"replicas": 5},
    }
    assert before.precondition == Precondition(there.uid, there.resource_version)
    assert before.manager == TARGET.yielded


@pytest.mark.parametrize(
    ("entries", "value", "refused"),
    [
        ([_ours(ATOMIC)], {"app": "a"}, True),
        ([_theirs(ATOMIC)], {"app": "a"}, True),
        ([_ours(ATOMIC)], {}, False),
        ([_ours(ATOMIC), _theirs({"f:spec": {"f:selector": {"f:app": {}}}})], {"app": "a"}, False),
        ([_ours(REPLICAS)], {"app": "a"}, False),
    ],
)
def test_part_of_an_atomic_field_cannot_be_ignored(
    entries: list[dict[str, Any]], value: dict[str, str], refused: bool
) -> None:
    """To leave it out would change the whole; an empty mapping looks the same and is none."""
    one = desired(body("Deployment", spec={"selector": value}), DEPLOYMENTS)
    one = replace(one, ignored=("/spec/selector/app",))
    there = live(one.ref, entries=entries, full=dict(one.body))
    problem = split_problem(one, there)
    assert bool(problem) == refused
    if problem is not None:
        assert split_fields(one, there)
        assert problem.hint == "Ignore the whole value: /spec/selector"


def test_drifted_ignored_field_does_not_change_the_fingerprint() -> None:
    """Of a Secret the values are compared: not those of what others fill in."""
    raw = body("Secret", data={"k": "eA==", "filled": ""})
    one = replace(desired(raw, SECRETS), ignored=("/data/filled",))
    there = {**one.body, "data": {"k": "eA==", "filled": "eQ=="}}
    now = live(one.ref, full=there)
    entry = recorded(one, now)
    assert unchanged(one, entry, now, manager=TARGET.manager, schema=None)
    plain = replace(one, ignored=())
    assert not unchanged(plain, entry, now, manager=TARGET.manager, schema=None)
    drifted = live(one.ref, full={**there, "data": {"k": "eg==", "filled": "eQ=="}})
    assert not unchanged(one, entry, drifted, manager=TARGET.manager, schema=None)


def _after(request: PatchRequest) -> list[str]:
    import jsonpatch  # noqa: PLC0415

    before = live(ENTRIES_REF, entries=[_ours(PAUSED), _second(REPLICAS), _theirs(REPLICAS)])
    patched = jsonpatch.apply_patch(
        {"metadata": dict(before.whole_metadata)}, list(request.operations)
    )
    return [entry["manager"] for entry in patched["metadata"]["managedFields"]]


ENTRIES_REF = desired(body(), CONFIG_MAPS).ref


def test_both_managers_of_a_set_are_removed_and_moved_together() -> None:
    """Abandoned, neither is left; handed over, both are the other set's."""
    one = live(ENTRIES_REF, entries=[_ours(PAUSED), _second(REPLICAS), _theirs(REPLICAS)])
    assert _after(orphan_request(CONFIG_MAPS, one, TARGET)) == ["hpa"]
    handed = transfer_request(CONFIG_MAPS, one, old=TARGET.manager, applyset=SHOP)
    assert _after(handed) == [SHOP.manager, SHOP.yielded, "hpa"]
    assert _after(remove_manager_request(CONFIG_MAPS, one, TARGET.yielded)) == [
        TARGET.manager,
        "hpa",
    ]


def test_second_manager_is_not_a_sets_first() -> None:
    """It fits the server's 128 bytes, and no set may have a name that would make it its own."""
    for target in (
        applyset_identity("web", "shop"),
        applyset_identity("n" * 63, "s" * 63),
        applyset_identity("n" * 55, "s" * 54),
    ):
        assert target.yielded == yielded_manager(target.manager)
        assert len(target.yielded) <= 128
        assert set_of(target.yielded) != target.id
    with pytest.raises(InputError.__bases__[0], match="same field manager"):
        applyset_identity("web-yielded", "shop")
