"""What else a deletion deletes is counted before the first write: contents, and owned objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import Outcome
from tests.support.objects import SERVICE, config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.api import Api
    from tests.support.stage import Stage

Body = dict[str, Any]
NAMESPACE = frozenset({"namespace"})
MERGE = "application/merge-patch+json"


@pytest.fixture
def home(stage: Stage, api: Api) -> Iterator[str]:
    """The name of a Namespace that the set is to make, and that is gone after the test."""
    name = f"{stage.namespace}-home"
    yield name
    api("DELETE", f"/api/v1/namespaces/{name}")


def _namespace(name: str) -> Body:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


SLICE: Body = {
    "apiVersion": "discovery.k8s.io/v1",
    "kind": "EndpointSlice",
    "metadata": {"name": "by-hand", "labels": {"kubernetes.io/service-name": "web"}},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.1.2.3"]}],
}
LEASE: Body = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "leader"},
    "spec": {"holderIdentity": "pod-1"},
}
ACCOUNT = {"imagePullSecrets": [{"name": "registry"}]}
CONTENTS: dict[str, tuple[str, str, Body]] = {
    "serviceaccount/default": ("PATCH", "/api/v1/{}/serviceaccounts/default", ACCOUNT),
    "lease.coordination.k8s.io/leader": ("POST", "/apis/coordination.k8s.io/v1/{}/leases", LEASE),
    "endpointslice.discovery.k8s.io/by-hand": (
        "POST",
        "/apis/discovery.k8s.io/v1/{}/endpointslices",
        SLICE,
    ),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_contents_made_by_hand_save_a_namespace(
    stage: Stage, api: Api, home: str, name: str
) -> None:
    """Each alone, in kinds of which the control plane makes objects itself."""
    bodies = (config_map("a"), config_map("b"))
    assert stage.run(_namespace(home), *bodies).exit_code == 0
    method, path, body = CONTENTS[name]
    path = path.format(f"namespaces/{home}")
    if method == "PATCH":
        eventually(lambda: api.exists(path), "the default ServiceAccount")
    status, reply = api(
        method, path, body, content_type=MERGE if method == "PATCH" else "application/json"
    )
    assert status in {200, 201}, reply
    story = stage.run(*bodies, allow_kinds=NAMESPACE)
    assert story.exit_code == 6, story.events
    told = story.problem(f"namespace/{home}")
    assert f"cascade-delete 1 object, 1 of which does not belong to this set: {home}/{name}" in told


def test_contents_made_by_the_control_plane_save_nothing(stage: Stage, api: Api, home: str) -> None:
    """The ServiceAccount of every namespace, and the EndpointSlice of a Service of the set."""
    bodies = (config_map("a"), config_map("b"))
    service = {**SERVICE, "metadata": {"name": "web", "namespace": home}}
    assert stage.run(_namespace(home), service, *bodies).exit_code == 0
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{home}/endpointslices"
    eventually(lambda: bool(api.get(slices)["items"]), "the slice of the Service")
    eventually(
        lambda: api.exists(f"/api/v1/namespaces/{home}/serviceaccounts/default"), "the account"
    )
    story = stage.run(*bodies, allow_kinds=NAMESPACE, timeout=60.0)
    assert story.exit_code == 0, story.events
    assert story.outcomes[f"namespace/{home}"] is Outcome.PRUNED
