"""The manifests of three public projects, each in one command on an empty plane."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api import Api, AuditTrail, writes
from tests.support.command import applyprune
from tests.support.everything import everything, lasting

if TYPE_CHECKING:
    from tests.support.plane import FreshPlane

SETS = Path(__file__).parents[2].parent / "shared" / "manifests"

CASES = {
    "monitoring": (SETS / "kube-prometheus", 131),
    "boutique": (SETS / "online-boutique" / "kubernetes-manifests.yaml", 35),
    "ingress": (SETS / "ingress-nginx" / "deploy.yaml", 19),
}


# The sets lie beside the project only. Smaller tests have each guard that they meet.
__test__ = SETS.is_dir()


@pytest.mark.sweep
@pytest.mark.parametrize("name", CASES)
def test_real_set_is_applied_again_shrunk_and_deleted(
    fresh_plane: FreshPlane, tmp_path: Path, name: str
) -> None:
    """All of it in one command; again, nothing is written; deleted, nothing of it is left."""
    source, count = CASES[name]
    plane = fresh_plane()
    api = Api(plane)
    audit = AuditTrail(plane, api)
    _bystander(api)
    before = lasting(everything(api))

    # Before any of its namespaces and kinds is there, too.
    foretold = applyprune("diff", name, "-f", source, kubeconfig=plane.kubeconfig)
    # A Secret that a Job of the set creates is missing so far: that is a warning.
    assert (foretold.code, "error" in foretold.err) == (1, False), foretold.err
    assert foretold.summary == f"{name}: {count} to create"

    first = applyprune("apply", name, "-f", source, kubeconfig=plane.kubeconfig)
    assert first.code == 0, first.err
    assert "other values" not in foretold.err + first.err
    assert [word for _, word in first.objects] == ["created"] * count

    audit.restart()
    again = applyprune("apply", name, "-f", source, kubeconfig=plane.kubeconfig)
    assert again.code == 0, again.err
    assert f"{name}: {count} unchanged in " in again.out
    assert writes(audit, dry_runs=True) == []

    if name == "monitoring":
        _without_grafana(api, source, tmp_path / "smaller", plane.kubeconfig)

    gone = applyprune("delete", name, "--yes", kubeconfig=plane.kubeconfig)
    assert gone.code == 0, gone.err
    assert lasting(everything(api)) == before
    api.close()


def _bystander(api: Api) -> None:
    """Make a few objects that belong to no set, of the kinds that a prune likes to take."""
    metadata: dict[str, Any] = {
        "name": "bystander",
        "labels": {"app.kubernetes.io/name": "grafana"},
    }
    for path, kind in (("configmaps", "ConfigMap"), ("serviceaccounts", "ServiceAccount")):
        body = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
        status, reply = api("POST", f"/api/v1/namespaces/default/{path}", body)
        assert status == 201, reply


def _without_grafana(api: Api, source: Path, smaller: Path, kubeconfig: Path) -> None:
    """Take the grafana files away: exactly those objects go, and nothing else is touched."""
    shutil.copytree(source, smaller, ignore=shutil.ignore_patterns("grafana-*"))
    smaller.chmod(0o700)
    before = lasting(everything(api))
    target = ("apply", "monitoring", "-f", smaller)
    # 42 of 131 is more than the 30 % that go without a word.
    refused = applyprune(*target, kubeconfig=kubeconfig)
    assert refused.code == 6
    assert "To allow this: --max-prune 42\n" in refused.err
    told = applyprune(*target, "--max-prune=42", "--dry-run=client", kubeconfig=kubeconfig)
    # No operator runs here, so its custom resources are never ready.
    ended = applyprune(*target, "--max-prune=42", "--no-wait", kubeconfig=kubeconfig)
    assert ended.code == 0, ended.err
    pruned = {name for name, word in ended.lines.items() if word == "pruned"}
    assert pruned == {name for name, word in told.lines.items() if word.startswith("pruned")}
    assert len(pruned) == 42
    assert all("grafana" in name for name in pruned)
    assert set(ended.lines.values()) == {"pruned"}
    assert "monitoring: 89 unchanged, 42 pruned in " in ended.out
    after = lasting(everything(api))
    assert after.items() <= before.items()
    assert {key for key in before.keys() - after.keys() if "grafana" not in key} == set()
