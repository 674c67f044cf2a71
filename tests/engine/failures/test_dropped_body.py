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
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.live import CONFIG_MAPS
from applyprune.model.options import Propagation
from applyprune.model.plan import DeleteRequest, Precondition
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.objects import config_map
from tests.support.stage import Stage

OTHER_UID = "00000000-0000-4000-8000-000000000000"


@dataclass(frozen=True, slots=True)
class Victim:
    """An object of another set, and a client that reaches it through the gateway."""

    client: KubernetesClient
    live: dict[str, Any]

    def delete(self, uid: str = "", version: str = "") -> bool:
        metadata = self.live["metadata"]
        state = Precondition(uid or metadata["uid"], version or metadata["resourceVersion"])
        ref = Ref("", "ConfigMap", metadata["namespace"], "victim")
        return self.client.delete(DeleteRequest(CONFIG_MAPS, ref, state, Propagation.ORPHAN))


@pytest.fixture
def behind(proxy: FaultProxy, stage: Stage, tmp_path: Path) -> Stage:
    """The set ``web`` behind a gateway that passes on each DELETE without its body."""

    def drop(seen: Exchange) -> None:
        if seen.method == "DELETE":
            seen.body = b""

    proxy.before_forward = drop
    stage.run(config_map("a"), config_map("gone"))
    return Stage(proxy.kubeconfig(tmp_path), stage.namespace)


@pytest.fixture
def victim(behind: Stage, stage: Stage, api: Api) -> Iterator[Victim]:
    """An object that a client of the gateway may delete."""
    api.create(stage.path(), config_map("victim"))
    transport = behind.transport()
    yield Victim(KubernetesClient(transport, "test"), api.get(stage.path("victim")))
    transport.close()


def is_there(victim: Victim, stage: Stage, api: Api) -> bool:
    """Return whether the very object is there, and not being deleted."""
    now = api.find(stage.path("victim"))
    return now is not None and now["metadata"] == victim.live["metadata"]


@pytest.mark.holds("query-uid")
def test_other_object_of_the_name_survives(victim: Victim, stage: Stage, api: Api) -> None:
    """The query says the UID."""
    with pytest.raises(Conflict):
        victim.delete(uid=OTHER_UID)
    assert is_there(victim, stage, api)


@pytest.mark.holds("query-version")
def test_object_that_has_changed_survives(victim: Victim, stage: Stage, api: Api) -> None:
    """The query says the resourceVersion."""
    with pytest.raises(Conflict):
        victim.delete(version="1")
    assert is_there(victim, stage, api)


@pytest.mark.holds("query-propagation")
def test_dependents_are_treated_as_asked(victim: Victim, proxy: FaultProxy) -> None:
    """The query says the propagation: by default the server would delete the dependents."""
    victim.delete()
    (reply,) = (json.loads(seen.reply) for seen in proxy.exchanges if seen.method == "DELETE")
    assert reply["metadata"].get("finalizers") == ["orphan"]


def test_prune_deletes_what_it_should(behind: Stage, api: Api) -> None:
    """The query is understood as the body is."""
    story = behind.run(config_map("a"))
    assert (story.exit_code, story.outcomes["configmap/gone"]) == (0, Outcome.PRUNED)
    assert not api.exists(behind.path("gone"))
