"""What an error of the cluster adds for whom types: the name that is meant, and missing rights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support.accounts import kubeconfig_as, rule
from tests.support.command import applyprune
from tests.support.objects import config_map, of_kind, text

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api


def test_namespace_that_does_not_exist_names_a_similar_one(plane: Plane, namespace: str) -> None:
    line = ("apply", "web", "-n", f"{namespace}x", "-f", "-")
    missing = applyprune(*line, kubeconfig=plane.kubeconfig, stdin=text(config_map("a")))
    assert missing.code == 2
    assert f"the namespace {namespace}x does not exist" in missing.err
    assert f"  Did you mean the namespace {namespace}?\n" in missing.err


def test_missing_right_names_the_command_that_prints_the_roles(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """For the account that was used; at the first request, and once for all objects."""
    config = json.loads(plane.kubeconfig.read_text())
    for user in config["users"]:
        user["user"]["as"] = f"system:serviceaccount:{namespace}:applyprune"
    account = tmp_path / "kubeconfig"
    account.write_text(json.dumps(config))
    command = f"applyprune rbac web -n {namespace} -f PATH --account {namespace}/applyprune\n"
    for line in (("status", "web"), ("apply", "web", "-f", "-")):
        given = text(config_map("a"))
        refused = applyprune(*line, "-n", namespace, kubeconfig=account, stdin=given)
        assert refused.code == 7
        assert refused.err.count(command) == 1, refused.err
    for scope, offers in (("-A",), True), ((), False):
        refused = applyprune("list", *scope, kubeconfig=account)
        offered = "For one namespace: applyprune list -n NS" in refused.err
        assert (refused.code, offered) == (7, offers)


def test_missing_right_for_objects_names_the_command_once(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """Not for each object; who may not grant what a role says is told why."""
    rbac = "rbac.authorization.k8s.io"
    rules = (
        rule("", ["configmaps"], ["*"]),
        rule(rbac, ["roles"], ["get", "list", "watch", "create", "patch"]),
    )
    account = kubeconfig_as("eve", plane, api, namespace, tmp_path, *rules)
    role = of_kind("Role", "more", api=f"{rbac}/v1", rules=[rule("", ["secrets"], ["get"])])
    services = (of_kind("Service", name, spec={"ports": [{"port": 80}]}) for name in "ab")
    line = ("apply", "web", "-n", namespace, "-f", "-")
    given = text(config_map("a"), role, *services)
    refused = applyprune(*line, kubeconfig=account, stdin=given)
    assert refused.code != 0
    assert refused.err.count("applyprune rbac web") == 1, refused.err
    assert "Nobody may grant rights that they do not have" in refused.err
