"""Inventories that cannot be read, and sets that are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.planning.applyset import SET_ID
from tests.support.api import writes
from tests.support.command import applyprune
from tests.support.objects import config_map, text
from tests.support.stage import Stage

if TYPE_CHECKING:
    from applyprune.localplane import Plane
    from tests.support.api import Api, AuditTrail

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
    for scope in (("-A",),):
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


MISSING: tuple[tuple[str, ...], ...] = (
    ("status", "web"),
    ("explain", "web", "configmap/a"),
    ("history", "web"),
    ("inventory", "repair", "web", "--yes"),
    ("inventory", "move", "web", "shop", "--all"),
    ("prune", "web", "-f", "-"),
)


def test_missing_set_is_reported(plane: Plane, namespace: str, audit: AuditTrail) -> None:
    """Exit code 2: a mistyped name must not pass for done; the set that may be meant is named."""
    Stage(plane.kubeconfig, namespace, name="wep").run(config_map("a"))
    audit.restart()
    given = text(config_map("a"))
    for line in MISSING:
        ended = applyprune(*line, "-n", namespace, kubeconfig=plane.kubeconfig, stdin=given)
        assert ended.code == 2, ended
        assert f"there is no set web in namespace {namespace}\n" in ended.err, line
        assert "move" in line or "\n  Did you mean wep" in ended.err, line
        assert "\n  To list all sets: applyprune list -A" in ended.err, line
    assert writes(audit) == []


def test_deleting_a_missing_set_is_no_failure(plane: Plane, namespace: str) -> None:
    """A pipeline may do it twice; that there is none is said."""
    where = ("-n", namespace)
    ended = applyprune("delete", "web", "--yes", *where, kubeconfig=plane.kubeconfig)
    assert ended.code == 0, ended
    assert f"warning: there is no set web in namespace {namespace}" in ended.err
