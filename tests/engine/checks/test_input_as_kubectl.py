"""What kubectl takes, and a set must take too: it is read, applied, recorded and pruned."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun
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
