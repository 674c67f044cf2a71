"""A gateway that drops the body of a DELETE: its query alone must say what may be deleted.

HTTP allows that (RFC 9110, section 9.3.5); kube-apiserver then reads the options in the query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from applyprune.cluster.client import KubernetesClient
from applyprune.errors import Conflict
from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.live import CONFIG_MAPS, Resource
from applyprune.model.options import DryRun, Mode, Propagation
from applyprune.model.plan import DeleteRequest, Precondition
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.objects import config_map, crd, custom_resource
from tests.support.stage import Stage

KIND = "Bodiless"
CUSTOM = Resource("x.example.com", "v1", KIND, "bodilesss", namespaced=True)
OTHER_UID = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def gateway(running: Plane) -> Iterator[FaultProxy]:
    """A proxy that passes on each DELETE without its body."""

    def drop(seen: Exchange) -> None:
        if seen.method == "DELETE":
            seen.body = b""

    with FaultProxy(running) as proxy:
        proxy.before_forward = drop
        yield proxy


@pytest.fixture
def behind(gateway: FaultProxy, crd_stage: Stage, tmp_path: Path) -> Stage:
    """The set ``web``, whose requests pass that gateway."""
    crd_stage.run(config_map("a"), config_map("gone"))
    return Stage(gateway.kubeconfig(tmp_path), crd_stage.namespace)


@dataclass(frozen=True, slots=True)
class Victim:
    """An object, and a client that reaches it through the gateway."""

    client: KubernetesClient
    resource: Resource
    live: dict[str, Any]

    def delete(self, uid: str = "", version: str = "") -> bool:
        metadata = self.live["metadata"]
        state = Precondition(uid or metadata["uid"], version or metadata["resourceVersion"])
        ref = Ref(self.resource.group, self.resource.kind, metadata["namespace"], "victim")
        request = DeleteRequest(self.resource, ref, state, Propagation.ORPHAN)
        return self.client.delete(request)


@pytest.fixture(params=[CONFIG_MAPS, CUSTOM], ids=lambda one: str(one.kind))
def victim(
    behind: Stage, running: Plane, crd_stage: Stage, crds: Api, request: pytest.FixtureRequest
) -> Iterator[Victim]:
    """An object of a kind in the server itself, and one of a custom resource."""
    resource: Resource = request.param
    is_custom = resource is CUSTOM
    if is_custom:
        Stage(running.kubeconfig, "default", "bodiless").run(crd(KIND))
    body = custom_resource("victim", KIND) if is_custom else config_map("victim")
    Stage(crd_stage.kubeconfig, crd_stage.namespace, "victims").run(body)
    live = crds.get(path_of(resource, crd_stage.namespace))
    transport = behind.transport()
    yield Victim(KubernetesClient(transport, "test"), resource, live)
    transport.close()


def path_of(resource: Resource, namespace: str, name: str = "victim") -> str:
    root = f"/apis/{resource.group}" if resource.group else "/api"
    return f"{root}/{resource.version}/namespaces/{namespace}/{resource.plural}/{name}"


def is_there(victim: Victim, api: Api) -> bool:
    """Return whether the very object is there, and not being deleted."""
    metadata = victim.live["metadata"]
    status, now = api("GET", path_of(victim.resource, metadata["namespace"]))
    return status == 200 and now["metadata"] == metadata


@pytest.mark.holds("query-uid", row="ConfigMap")
def test_other_object_of_the_name_survives(victim: Victim, crds: Api) -> None:
    """The query says the UID."""
    with pytest.raises(Conflict):
        victim.delete(uid=OTHER_UID)
    assert is_there(victim, crds)


@pytest.mark.holds("query-version", row="ConfigMap")
def test_object_that_has_changed_survives(victim: Victim, crds: Api) -> None:
    """The query says the resourceVersion."""
    with pytest.raises(Conflict):
        victim.delete(version="1")
    assert is_there(victim, crds)


@pytest.mark.holds("query-propagation", row="ConfigMap")
def test_dependents_are_treated_as_asked(victim: Victim, gateway: FaultProxy) -> None:
    """The query says the propagation: by default the server would delete the dependents."""
    victim.delete()
    (reply,) = (json.loads(seen.reply) for seen in gateway.exchanges if seen.method == "DELETE")
    assert reply["metadata"].get("finalizers") == ["orphan"]


@pytest.mark.parametrize("mode", [Mode.PRUNE, Mode.DELETE])
def test_dry_run_of_a_set_deletes_nothing(
    behind: Stage, gateway: FaultProxy, crds: Api, mode: Mode
) -> None:
    """`applyprune diff` and `plan` send nothing that could delete it."""
    kept = () if mode is Mode.DELETE else (config_map("a"),)
    story = behind.run(*kept, mode=mode, dry_run=DryRun.SERVER)
    assert story.outcomes["configmap/gone"] in {Outcome.PRUNED, Outcome.DELETED}
    assert [seen.path for seen in gateway.exchanges if seen.method in {"DELETE", "PUT"}] == []
    for name in ("a", "gone"):
        metadata = crds.get(path_of(CONFIG_MAPS, behind.namespace, name))["metadata"]
        assert "deletionTimestamp" not in metadata


def test_prune_deletes_what_it_should(behind: Stage, crds: Api) -> None:
    """The query is understood as the body is."""
    story = behind.run(config_map("a"))
    assert (story.exit_code, story.outcomes["configmap/gone"]) == (0, Outcome.PRUNED)
    assert not crds.exists(path_of(CONFIG_MAPS, behind.namespace, "gone"))
