"""The roles for a set: what each kind of member adds to them, and what is said above them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from applyprune.model.options import Options
from applyprune.planning.applyset import applyset_identity
from applyprune.planning.built_in_kinds import built_in_kinds
from applyprune.planning.desired import resolve
from applyprune.planning.rights import Member, RoleText, bindings, roles
from applyprune.sources import read_objects
from tests.support.objects import DEPLOYMENT, config_map

TARGET = applyset_identity("web", "home")
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "sample"},
    "rules": [],
}
SCALERS = {
    "apiGroups": ["autoscaling"],
    "resources": ["horizontalpodautoscalers"],
    "verbs": ["list"],
}


def _roles(*bodies: Mapping[str, Any]) -> list[RoleText]:
    kinds = built_in_kinds()
    desired = resolve(
        read_objects(list(bodies)), kinds, TARGET, namespace="home", options=Options()
    ).desired
    members = (Member(one.resource, one.ref) for one in desired)
    return list(roles(members, desired, TARGET, kinds, name="applyprune"))


def _rules(role: RoleText) -> Iterator[Mapping[str, Any]]:
    rules: list[Mapping[str, Any]] = role.body["rules"]
    yield from rules


def test_roles_are_bound_to_all_subjects() -> None:
    """One role for the namespace of the inventory, and one for what has no namespace."""
    found = _roles(config_map("a"), ROLE)
    assert [one.body["metadata"] for one in found] == [
        {"name": "applyprune", "namespace": "home"},
        {"name": "applyprune"},
    ]
    assert found[1].comments[0].startswith("The set has roles or bindings. ")
    assert found[0].comments == ()
    subjects = [{"kind": "User", "name": "ci"}, {"kind": "Group", "name": "ops"}]
    bound = [one.body for one in bindings(found, subjects)]
    assert [one["kind"] for one in bound] == ["RoleBinding", "ClusterRoleBinding"]
    assert [one["subjects"] for one in bound] == [subjects] * 2
    assert list(bindings(found, [])) == []


def test_objects_with_pods_need_the_list_of_autoscalers() -> None:
    """Of whatever kind, and also without replicas: these may have left the manifest."""
    spec = {"selector": {"app": "web"}, "template": DEPLOYMENT["spec"]["template"]}
    head = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web"}}
    controller = {**head, "spec": spec}
    scaled = {**head, "spec": {**spec, "replicas": 1}}
    for body, expected in ((scaled, True), (controller, True), (config_map("a"), False)):
        assert (SCALERS in _rules(_roles(body)[0])) is expected


def test_namespace_in_the_set_is_explained() -> None:
    """Its Role needs it first; its deletion counts everything in it, and nowhere else."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "there"}}
    found = _roles(body, config_map("a", namespace="there"))
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list"]}
    assert [one.namespace for one in found] == ["home", "there", ""]
    (place,) = (one for one in found if everything in _rules(one))
    assert place.namespace == "there"
    assert place.comments[0].startswith(
        "The namespace there is in the set. Create it before this Role"
    )
    assert {
        "apiGroups": [""],
        "resources": ["namespaces"],
        "verbs": ["get", "create", "patch", "delete"],
        "resourceNames": ["there"],
    } in _rules(found[2])
