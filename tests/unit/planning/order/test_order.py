"""Waves: what must be there first, goes first, and goes last when it is deleted."""

from __future__ import annotations

import pytest

from applyprune.model.identity import GroupKind
from applyprune.model.live import API_SERVICES, Resource
from applyprune.planning.order import in_order, wave_of
from applyprune.values import replace
from tests.support.planning import desired

RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
FOOS = Resource("x.io", "v1", "Foo", "foos", namespaced=True)


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (GroupKind("", "Namespace"), GroupKind("", "ConfigMap")),
        (GroupKind("", "Namespace"), GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")),
        (GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"), GroupKind("x.io", "Foo")),
        (GroupKind("", "ServiceAccount"), GroupKind("apps", "Deployment")),
        (GroupKind("", "Secret"), GroupKind("batch", "Job")),
        (GroupKind(RBAC, "Role"), GroupKind(RBAC, "RoleBinding")),
        (GroupKind("", "Service"), GroupKind("apps", "StatefulSet")),
        (GroupKind("apps", "Deployment"), GroupKind("monitoring.coreos.com", "Prometheus")),
        (GroupKind("apps", "Deployment"), GroupKind(ADMISSION, "ValidatingWebhookConfiguration")),
        (GroupKind("", "Service"), GroupKind("apiregistration.k8s.io", "APIService")),
    ],
)
def test_kinds_come_before_their_users(first: GroupKind, then: GroupKind) -> None:
    """The one is applied before the other, and so deleted after it."""
    assert wave_of(first) < wave_of(then)


def test_foreign_group_does_not_take_a_built_in_place() -> None:
    """``Service`` of serving.knative.dev is a custom resource."""
    assert wave_of(GroupKind("serving.knative.dev", "Service")) == wave_of(GroupKind("x.io", "Foo"))


@pytest.mark.holds("api-service-order")
def test_objects_of_an_aggregated_api_come_after_its_api_service() -> None:
    """So they are deleted before it; objects of another version do not need it."""
    kinds = {
        "APIService": ("apiregistration.k8s.io/v1", "v1.x.io", API_SERVICES),
        "Foo": ("x.io/v1", "f", FOOS),
        "Bar": ("x.io/v2", "b", replace(FOOS, version="v2")),
    }
    members = [
        desired({"apiVersion": version, "kind": kind, "metadata": {"name": name}}, resource)
        for kind, (version, name, resource) in kinds.items()
    ]
    ordered, errors = in_order({one.ref: one for one in members})
    assert not errors
    assert [one.ref.name for one in ordered] == ["b", "v1.x.io", "f"]
