"""What an empty value of a manifest leaves to others, and which versions are dead."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fieldset import NO_FIELDS, FieldSet
from applyprune.model.identity import Ref
from applyprune.model.live import Resource
from applyprune.planning.conflicts import filled_by_others
from applyprune.planning.managed_fields import dead_versions
from applyprune.planning.normalize import DefaultRule, without_defaults
from applyprune.planning.requests import version_request
from applyprune.values import packed
from tests.support.planning import TARGET, body, live, managed

ROLE = Ref("rbac.authorization.k8s.io", "Role", "home", "r")
WHOLE: dict[str, Any] = {"f:rules": {}}
KEYS: dict[str, Any] = {"f:rules": {".": {}, "f:a": {}}}
FOO = Ref("x.example.com", "Foo", "home", "f")
FOOS = Resource("x.example.com", "v1", "Foo", "foos", namespaced=True)
ITEM = 'k:{"name":"c"}'


def _entry(manager: str, fields: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {**managed(manager, **parts), "fieldsV1": fields}


@pytest.mark.parametrize(
    ("entries", "left"),
    [
        ([], False),
        pytest.param(
            [_entry("role-controller", WHOLE)], True, marks=pytest.mark.holds("emptied-by-the-set")
        ),
        ([_entry("role-controller", KEYS)], True),
        ([_entry("role-controller", {"f:other": {}})], False),
        pytest.param(
            [_entry("kubectl-edit", WHOLE)], False, marks=pytest.mark.holds("edited-empty-value")
        ),
        ([_entry("kubectl-edit", KEYS)], True),
        ([_entry("role-controller", WHOLE), _entry("kubectl-edit", WHOLE)], False),
        ([_entry("applyprune/home/other", WHOLE)], False),
        ([_entry("leaving", WHOLE)], False),
        pytest.param(
            [_entry(TARGET.manager, WHOLE), _entry("role-controller", WHOLE)],
            False,
            marks=pytest.mark.holds("own-empty-value"),
        ),
        ([_entry(TARGET.manager, KEYS), _entry("role-controller", KEYS)], False),
        ([_entry(TARGET.manager, {"f:other": {}}), _entry("role-controller", WHOLE)], True),
    ],
)
def test_empty_value_is_left_to_whoever_has_filled_it(
    entries: list[dict[str, Any]], left: bool
) -> None:
    """But for people, other sets, and what the set owns itself."""
    state = live(ROLE, entries=entries)
    empties: tuple[Any, ...] = ({}, [], None)
    for empty in empties:
        found = filled_by_others(
            packed({"rules": empty}), state, TARGET.manager, {"leaving"}, owned=NO_FIELDS
        )
        assert [pointer for pointer, _ in found] == (["/rules"] if left else [])
        # What the set's last apply owned is drift, or a conflict.
        for owned in (WHOLE, KEYS):
            assert not filled_by_others(
                packed({"rules": empty}), state, TARGET.manager, owned=FieldSet(owned)
            )
    assert filled_by_others(packed({"rules": [1]}), state, TARGET.manager, owned=NO_FIELDS) == ()


def test_empty_value_in_an_item_of_a_list_is_found_by_its_name() -> None:
    """The resources of a container, which an autoscaler of Pods sets."""
    fields: dict[str, Any] = {"f:spec": {"f:containers": {ITEM: {"f:resources": {"f:limits": {}}}}}}
    state = live(ROLE, entries=[_entry("vpa-updater", fields)])
    spec = {"containers": [{"name": "c", "resources": {}}, {"name": "d", "resources": {}}]}
    found = filled_by_others(packed({"spec": spec}), state, TARGET.manager, owned=NO_FIELDS)
    assert found == (('/spec/containers[name="c"]/resources', "vpa-updater"),)


@pytest.mark.holds("served-version")
def test_only_versions_that_are_not_served_are_dead() -> None:
    """Of the object's own group; unknown versions kill nothing."""
    entries = [
        _entry("a", WHOLE, apiVersion="x.example.com/v1alpha1"),
        _entry("b", WHOLE, apiVersion="x.example.com/v1beta1"),
        _entry("c", WHOLE, apiVersion="v1"),
    ]
    state = live(FOO, entries=entries)
    served = {"x.example.com/v1", "x.example.com/v1beta1"}
    assert dead_versions(state, served) == {"x.example.com/v1alpha1"}
    assert dead_versions(state, ()) == set()
    operations = version_request(FOOS, state, {"x.example.com/v1alpha1"}).operations
    assert [one["op"] for one in operations] == ["test", "test", "replace"]
    (change,) = operations[2:]
    assert change["path"] == "/metadata/managedFields/0/apiVersion"
    assert change["value"] == "x.example.com/v1"


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"aggregationRule": {"clusterRoleSelectors": []}, "rules": []}, True),
        ({"aggregationRule": {"clusterRoleSelectors": []}, "rules": [1]}, True),
        ({"aggregationRule": {"clusterRoleSelectors": []}}, False),
        ({"aggregationRule": {}, "rules": []}, False),
        ({"rules": []}, False),
    ],
)
def test_rules_of_an_aggregated_role_are_left_out(given: dict[str, Any], left: bool) -> None:
    """Only with an aggregationRule, and unless the rule is off."""
    role = body("ClusterRole", **given)
    kind = Ref("rbac.authorization.k8s.io", "ClusterRole", "", "a").group_kind
    after, told = without_defaults(role, kind, ())
    assert bool(told) is left
    assert ("rules" in after) is ("rules" in given and not left)
    assert without_defaults(role, kind, {DefaultRule.AGGREGATED_RULES}) == (role, ())
