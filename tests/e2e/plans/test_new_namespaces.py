"""A plan of a set whose namespace does not exist yet, and is created before everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api import writes
from tests.support.command import applyprune
from tests.support.fault_proxy import FaultProxy
from tests.support.input_files import write_input
from tests.support.kill import Moment, kill_at_first
from tests.support.objects import config_map

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api, AuditTrail
    from tests.support.fault_proxy import Exchange


_NAMESPACES = "/api/v1/namespaces"
_STEPS = 4
"""The steps of the path of one Namespace."""


def _body(name: str, **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _is_creation(exchange: Exchange) -> bool:
    """Return whether a request creates a Namespace: of the set, or for its inventory only."""
    is_trial = "dryRun" in exchange.query
    of_set = exchange.method == "PATCH" and exchange.path.count("/") == _STEPS and not is_trial
    is_bare = exchange.method == "POST" and exchange.path == _NAMESPACES
    return is_bare or (of_set and exchange.path.startswith(_NAMESPACES))


@pytest.mark.parametrize("contains_it", [True, False], ids=["with its Namespace", "without"])
def test_plan_killed_after_its_namespace_was_created_goes_on(
    plane: Plane, api: Api, namespace: str, tmp_path: Path, audit: AuditTrail, contains_it: bool
) -> None:
    """The file still fits: that Namespace is this apply's own. Another manifest does not."""
    new, file = f"{namespace}-new", tmp_path / "web.plan"
    bodies = [_body(new, tier="a"), config_map("a")] if contains_it else [config_map("a")]
    given = write_input(tmp_path / "set.json", bodies)
    creates = () if contains_it else ("--create-namespace",)
    where = ("web", "-n", new, *creates, "-f", given)
    call = ("apply", *where, "--plan", file)
    assert applyprune("plan", *where, "--out", file, kubeconfig=plane.kubeconfig).code == 0
    with FaultProxy(plane) as proxy:
        kill_at_first(proxy, _is_creation, Moment.AFTER, call, proxy.kubeconfig(tmp_path))
    audit.restart()
    write_input(given, [_body(new, tier="b"), config_map("a")])
    other = applyprune(*call, kubeconfig=plane.kubeconfig)
    expected = "its manifest has changed" if contains_it else "the input has it, and the plan"
    assert (other.code, writes(audit)) == (8, [])
    assert f"namespace/{new} no longer fits the plan: {expected}" in other.err
    write_input(given, bodies)
    done = applyprune(*call, kubeconfig=plane.kubeconfig)
    assert done.code == 0, done.err
    labels = api.get(f"/api/v1/namespaces/{new}")["metadata"]["labels"]
    assert labels.get("tier") == ("a" if contains_it else None)
    audit.restart()
    again = applyprune(*call, kubeconfig=plane.kubeconfig)
    assert (again.code, writes(audit)) == (0, []), again.err
    api("DELETE", f"/api/v1/namespaces/{new}")


@pytest.mark.parametrize("creates", [True, False], ids=["create-namespace", "without"])
def test_namespace_of_somebody_else_is_refused(
    plane: Plane, api: Api, namespace: str, tmp_path: Path, audit: AuditTrail, creates: bool
) -> None:
    """The plan was to create it; nobody has reviewed its adoption."""
    new, file = f"{namespace}-new", tmp_path / "web.plan"
    given = write_input(tmp_path / "set.json", [_body(new), config_map("a", namespace=new)])
    here = ("-n", new, "--create-namespace") if creates else ("-n", namespace)
    where = ("web", *here, "-f", given)
    assert applyprune("plan", *where, "--out", file, kubeconfig=plane.kubeconfig).code == 0
    assert api("POST", "/api/v1/namespaces", _body(new))[0] == 201
    audit.restart()
    refused = applyprune("apply", *where, "--plan", file, kubeconfig=plane.kubeconfig)
    assert (refused.code, writes(audit)) == (8, [])
    assert f"namespace/{new} no longer fits the plan: it was created meanwhile\n" in refused.err
    api("DELETE", f"/api/v1/namespaces/{new}")
