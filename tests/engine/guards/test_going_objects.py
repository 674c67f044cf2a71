"""What somebody has deleted already needs no guard: this run deletes nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from applyprune.model.options import DryRun
from tests.support.api import Api
from tests.support.objects import CLAIM, config_map, of_kind
from tests.support.stage import Stage
from tests.support.workloads import out_of_time

MERGE = "application/merge-patch+json"
HOLD = "example.com/hold"
HELD: dict[str, Any] = {"finalizers": [HOLD]}
AB = (config_map("a"), config_map("b"))
NEW = (config_map("a", "new"), config_map("b"))


def _maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def _delete(api: Api, path: str) -> None:
    assert api("DELETE", path)[0] in {200, 202}
    assert "deletionTimestamp" in api.get(path)["metadata"]


def _free(api: Api, path: str) -> None:
    api("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)


@pytest.fixture
def home(stage: Stage, api: Api) -> Iterator[str]:
    """The name of a Namespace of the set, in which an object holds it."""
    name = f"{stage.namespace}-home"
    yield name
    _free(api, f"{_maps(name)}/held")


def _applied(stage: Stage, api: Api) -> dict[str, Any]:
    return dict(api.get(f"{_maps(stage.namespace)}/a")["data"])


def test_deleted_claim_holds_no_apply(stage: Stage, api: Api) -> None:
    """A guarded kind, and its finalizer: the apply goes on, and waits for nothing else."""
    claim = {**CLAIM, "metadata": {"name": "data", **HELD}}
    assert stage.run(claim, *AB).exit_code == 0
    path = f"/api/v1/namespaces/{stage.namespace}/persistentvolumeclaims/data"
    _delete(api, path)
    out_of_time(stage, "held by")
    try:
        planned = stage.run(*NEW, dry_run=DryRun.SERVER)
        assert planned.exit_code == 0, planned.events
        assert planned.deletions == ""
        story = stage.run(*NEW)
        assert not story.refusal
        assert _applied(stage, api) == {"key": "new"}
        assert "is deleted but not gone yet" in story.problem("persistentvolumeclaim/data")
    finally:
        _free(api, path)


def test_deleted_namespace_holds_no_apply(stage: Stage, api: Api, home: str) -> None:
    """Neither its kind nor its contents are left to guard, of the set and of others."""
    namespace = of_kind("Namespace", home)
    held = config_map("held", namespace=home, **HELD)
    assert stage.run(namespace, held, *AB).exit_code == 0
    api.create(_maps(home), config_map("theirs", **HELD))
    _delete(api, f"/api/v1/namespaces/{home}")
    out_of_time(stage)
    try:
        story = stage.run(*NEW)
        assert not story.refusal
        told = story.problem(f"namespace/{home}") + story.problem("configmap/held")
        assert "is deleted but not gone yet" in told
        assert stage.listed() >= {f"namespace/{home}", "configmap/held"}
    finally:
        _free(api, f"{_maps(home)}/theirs")
    assert _applied(stage, api) == {"key": "new"}
