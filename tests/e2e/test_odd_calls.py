"""Inventories that cannot be read, sets that are not there, and limits that are no numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune.planning.applyset import SET_ID
from tests.support.command import applyprune
from tests.support.input_files import write_input
from tests.support.objects import config_map
from tests.support.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

RUBBISH = ("applyprune-a.b", "applyprune-no-set-at-all", f"applyprune-{'x' * 80}", "applyprune")


def test_unreadable_inventory_hides_no_other_set(plane: Plane, api: Api, namespace: str) -> None:
    """It has its own line and a warning; what only looks like an inventory has neither."""
    for name in ("shop", "web", "zoo"):
        Stage(plane.kubeconfig, namespace, name=name).run(config_map(name))
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    body = api.get(f"{path}/applyprune-shop")
    body["data"]["header"] = "[]"
    assert api("PUT", f"{path}/applyprune-shop", body)[0] == 200
    for name in RUBBISH:
        labels = {SET_ID: "applyset-nobody-v1"}
        status, reply = api("POST", path, config_map(name, labels=labels))
        assert status == 201, reply
    for scope in (("-n", namespace), ("-A",)):
        ended = applyprune("list", *scope, kubeconfig=plane.kubeconfig)
        assert ended.code == 0, ended.err
        rows = [line.split() for line in ended.out.splitlines()]
        assert [row[:3] for row in rows if row[0] == namespace] == [
            [namespace, "shop", "?"],
            [namespace, "web", "1"],
            [namespace, "zoo", "1"],
        ]
        (warning,) = [line for line in ended.err.splitlines() if namespace in line][:1]
        assert warning.startswith("warning: the inventory of shop in namespace")
        assert f"applyprune inventory check shop -n {namespace}" in ended.err
        assert not [name for name in RUBBISH if name in ended.out + ended.err and "-" in name]


@pytest.mark.parametrize(
    "verb",
    [
        ("inventory", "check", "web"),
        ("inventory", "repair", "web", "--yes"),
        ("inventory", "repair", "web", "--dry-run"),
        ("inventory", "orphan", "web", "--all"),
        ("inventory", "repair", "web", "--record-as", "owned", "configmap/a", "--yes"),
        ("inventory", "orphan", "web", "configmap/a"),
        ("inventory", "move", "web", "shop", "--all"),
        ("inventory", "show", "web"),
        ("prune", "web", "-f"),
        ("prune", "web", "--dry-run", "-f"),
    ],
    ids=" ".join,
)
def test_missing_set_is_reported(
    plane: Plane, api: Api, namespace: str, tmp_path: Path, verb: tuple[str, ...]
) -> None:
    """Exit code 2: a mistyped name must not pass for done; nothing is written."""
    source = [write_input(tmp_path / "a.json", [config_map("a")])] if verb[-1] == "-f" else []
    ended = applyprune(*verb, *source, "-n", namespace, kubeconfig=plane.kubeconfig)
    assert ended.code == 2, ended
    assert f"there is no set web in namespace {namespace}" in ended.err
    items = api.get(f"/api/v1/namespaces/{namespace}/configmaps")["items"]
    assert {one["metadata"]["name"] for one in items} <= {"kube-root-ca.crt"}


def test_deleting_a_missing_set_is_no_failure(plane: Plane, namespace: str) -> None:
    """A pipeline may do it twice; that there is none is said."""
    where = ("-n", namespace)
    ended = applyprune("delete", "web", "--yes", *where, kubeconfig=plane.kubeconfig)
    assert ended.code == 0, ended
    assert f"warning: there is no set web in namespace {namespace}" in ended.err


LIMITS = {
    "5000 digits": "9" * 5000,
    "5000 digits of a percentage": f"{'9' * 5000}%",
    "negative": "-1",
    "a negative percentage": "-1%",
    "digits of another script": "٣",
    "a superscript": "²",
    "a fraction": "5.5%",
    "more than all": "101%",
    "an exponent": "1e3",
    "underscores": "1_000",
    "a space": " 5",
    "a sign": "+5",
    "nothing": "",
    "a sign of percent": "%",
    "two of them": "5%%",
    "no number": "nan",
}


@pytest.mark.parametrize("name", LIMITS)
def test_invalid_limit_is_refused(tmp_path: Path, name: str) -> None:
    """Exit code 2 and no traceback, before any server is asked."""
    source = write_input(tmp_path / "a.json", [config_map("a")])
    limit = f"--max-prune={LIMITS[name]}"
    verb = "apply" if len(name) % 2 else "prune"
    ended = applyprune(verb, "web", "-f", source, limit, kubeconfig=tmp_path / "none")
    assert ended.code == 2, ended
    assert ended.err.startswith("error: invalid value for --max-prune")
