"""What kubectl takes, and a set must take too: it is read, applied, recorded and pruned."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun
from tests.support.api import Api
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage

RBAC = "rbac.authorization.k8s.io"


def _binding(name: str) -> dict[str, Any]:
    return of_kind(
        "RoleBinding",
        name,
        api=f"{RBAC}/v1",
        roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"},
        subjects=[{"kind": "Group", "name": "web team", "apiGroup": RBAC}],
    )


@pytest.mark.parametrize("name", ["web team", " Domain Users (EU)"])
def test_name_with_a_space_is_applied_and_pruned(stage: Stage, api: Api, name: str) -> None:
    """Groups of directories are called so, and RBAC takes any segment of a path."""
    path = f"/apis/{RBAC}/v1/namespaces/{stage.namespace}/rolebindings/{quote(name)}"
    assert stage.run(_binding(name), config_map("a")).exit_code == 0
    assert api.get(path)["metadata"]["name"] == name
    again = stage.run(_binding(name), config_map("a"), dry_run=DryRun.SERVER)
    assert again.outcomes[f"rolebinding.{RBAC}/{name}"] is Outcome.UNCHANGED
    assert stage.run(config_map("a")).exit_code == 0
    assert not api.exists(path)


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_null_removes_a_label_and_an_annotation(stage: Stage, api: Api, part: str) -> None:
    """Also one that would mean something to this program, if it had a value."""
    path = stage.path()
    live = {"b": "x", "applyprune.dev/prune": "disabled"}
    api("POST", path, {**config_map("c"), "metadata": {"name": "c", part: live}})
    wanted = {**config_map("c"), "metadata": {"name": "c", part: dict.fromkeys(live)}}
    assert stage.run(wanted, adopt="all", conflicts=Conflicts.FORCE).exit_code == 0
    left = api.get(f"{path}/c")["metadata"].get(part, {})
    assert left.keys().isdisjoint(live)
