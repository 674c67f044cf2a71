"""The names of kinds and objects in options: kubectl's, and each means one kind."""

from __future__ import annotations

import pytest

from applyprune.errors import UsageError
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import DEPLOYMENT, SERVICE, config_map, of_kind
from tests.support.stage import Stage


def test_short_names_and_plurals_name_objects(stage: Stage, api: Api) -> None:
    """In --orphan, `inventory orphan`, `inventory move` and `explain`."""
    stage.run(*map(config_map, "abcde"), SERVICE, DEPLOYMENT)
    story = stage.run(*map(config_map, "abcde"), orphan=frozenset({"svc/web", "deploy.apps/web"}))
    assert story.outcomes["service/web"] == "orphaned"
    assert story.outcomes["deployment.apps/web"] == "orphaned"
    assert stage.orphan("cm/a", "configmaps/b").exit_code == 0
    shop = Stage(stage.kubeconfig, stage.namespace, name="shop")
    shop.run(config_map("other"))
    assert stage.move(shop, "cm/c", f"{stage.namespace}/CM/d").exit_code == 0
    assert shop.listed() == {"configmap/c", "configmap/d", "configmap/other"}
    assert stage.listed() == {"configmap/e"}
    assert "deleted" in stage.explain("cm/e", given=False).explanation.verdict
    assert stage.explain("deploy.v1.apps/web", DEPLOYMENT).explanation.ref.kind == "Deployment"
    assert api.exists(stage.path("a"))


def test_short_name_allows_a_guarded_kind(stage: Stage, audit: AuditTrail) -> None:
    """A typing error allows nothing, and nothing is written."""
    claim = of_kind(
        "PersistentVolumeClaim",
        "data",
        spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    )
    bodies = [config_map(name) for name in "abc"]
    stage.run(*bodies, claim)
    audit.restart()
    for wrong in ("pvcs", "data"):
        with pytest.raises(UsageError, match="unknown kind"):
            stage.run(*bodies, allow_kinds=frozenset({wrong}))
    with pytest.raises(UsageError, match="needs no permission"):
        stage.run(*bodies, allow_kinds=frozenset({"cm"}))
    assert writes(audit) == []
    assert stage.run(*bodies).exit_code == 6
    assert stage.run(*bodies, allow_kinds=frozenset({"pvc"})).exit_code == 0
