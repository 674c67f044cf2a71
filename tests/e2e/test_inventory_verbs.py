"""``applyprune inventory``: what a user types, what is said, and how it ends."""

from __future__ import annotations

import getpass
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from applyprune.model.inventory import Ownership
from applyprune.model.options import Conflicts
from applyprune.planning.applyset import PART_OF
from tests.support.command import Ended, applyprune
from tests.support.objects import SERVICE, config_map
from tests.support.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.plane import Kubectl


@dataclass(frozen=True, slots=True)
class Desk:
    """Where the verbs are typed: one kubeconfig and one namespace."""

    kubeconfig: Path
    namespace: str

    def __call__(self, verb: str, *arguments: str) -> Ended:
        """Run ``applyprune inventory VERB ARGUMENTS`` or ``applyprune list`` without a terminal."""
        call = (verb,) if verb == "list" else ("inventory", verb)
        where = ("-n", self.namespace)
        return applyprune(*call, *arguments, *where, kubeconfig=self.kubeconfig)

    def set(self, name: str = "web") -> Stage:
        """Return a set of the namespace."""
        return Stage(self.kubeconfig, self.namespace, name=name)


@pytest.fixture
def desk(plane: Plane, namespace: str) -> Desk:
    """A namespace with the set ``web``: two ConfigMaps and a Service."""
    made = Desk(plane.kubeconfig, namespace)
    made.set().run(config_map("a"), config_map("b"), SERVICE)
    return made


def _said(text: str) -> list[str]:
    """Return the lines of a reply, without how long it took."""
    return [re.sub(r" in \d+\.\d s$", "", line) for line in text.splitlines()]


def test_move_changes_the_set(desk: Desk) -> None:
    """A line for each object, then the sum; done already is no error, ``--all`` ends the set."""
    ended = desk("move", "web", "shop", "configmap/b", "--dry-run")
    assert (ended.code, _said(ended.out)) == (
        0,
        [
            "configmap/b moved (server dry run) (to the set shop)",
            "web: 1 moved (server dry run)",
        ],
    )
    assert desk.set().listed() == {"configmap/a", "configmap/b", "service/web"}
    ended = desk("move", "web", "shop", "configmap/b")
    assert (ended.code, _said(ended.err)) == (
        0,
        [
            "warning: the next apply of the set shop prunes configmap/b, unless its input has it",
            "  Move its manifest from the input of web to that of shop.",
        ],
    )
    assert _said(ended.out) == ["configmap/b moved (to the set shop)", "web: 1 moved"]
    again = desk("move", "web", "shop", "configmap/b")
    assert (again.code, _said(again.out)) == (0, ["web: nothing to do"])
    rest = desk("move", "web", "shop", "--all")
    assert rest.code == 0
    assert sorted(_said(rest.out)) == [
        "configmap/a moved (to the set shop)",
        "service/web moved (to the set shop)",
        "web: 2 moved",
    ]
    assert not desk.set().inventory().exists
    assert desk.set("shop").listed() == {"configmap/a", "configmap/b", "service/web"}


def test_move_reaches_another_namespace(desk: Desk, api: Api) -> None:
    """``--to-namespace`` is where the inventory of TO is; one that is not there is named."""
    ended = desk("move", "web", "shop", "--all", "--to-namespace", f"{desk.namespace}-none")
    assert ended.code == 2
    assert f"the namespace {desk.namespace}-none does not exist" in ended.err
    assert "--to-namespace" in ended.err
    name = f"shop-of-{desk.namespace}"
    ended = desk("move", "web", name, "configmap/b", "--to-namespace", "default")
    assert ended.code == 0, ended.err
    there = Stage(desk.kubeconfig, "default", name=name)
    assert there.listed() == {"configmap/b"}
    assert there.orphan().exit_code == 0


def test_unmovable_object_is_reported(desk: Desk, kubectl: Kubectl) -> None:
    """Exit code 3; its line says where it is, and the error why and what to look at."""
    kubectl("label", "configmap/b", "-n", desk.namespace, f"{PART_OF}-")
    ended = desk("move", "web", "shop", "configmap/a", "configmap/b")
    assert ended.code == 3
    assert sorted(_said(ended.out)) == [
        "configmap/a moved (to the set shop)",
        "configmap/b failed",
        "web: 1 moved, 1 failed",
    ]
    assert f"error: configmap/b in namespace {desk.namespace} was not moved: " in ended.err
    assert "applyprune inventory check web" in ended.err
    assert "error: 1 object failed" in ended.err


def test_repair_of_named_objects_changes_no_other(desk: Desk, api: Api, kubectl: Kubectl) -> None:
    """What a whole repair would restore stays as it is; a refusal names the tool and the way."""
    where = ("-n", desk.namespace)
    for name in ("theirs", "found"):
        kubectl("create", "configmap", name, *where)
    names = ("a", "b", "theirs", "found")
    desk.set().run(*map(config_map, names), SERVICE, conflicts=Conflicts.FORCE)
    kubectl("annotate", "configmap/theirs", *where, "meta.helm.sh/release-name=web")
    kubectl("label", "configmap/b", *where, f"{PART_OF}-")
    named = ("configmap/found", "configmap/theirs", "configmap/a")
    ended = desk("repair", "web", "--record-as", "owned", *named, "--yes")
    assert ended.code == 3
    assert sorted(_said(ended.out)) == [
        "configmap/a unchanged (it is owned already)",
        "configmap/found updated (as owned: a later prune or delete deletes it)",
        "configmap/theirs failed",
        "web: 1 updated, 1 unchanged, 1 failed",
    ]
    assert "it belongs to the Helm release web" in ended.err
    assert "remove its mark, or its entry in managedFields" in " ".join(ended.err.split())
    owned = {one.ref.name: one.ownership for one in desk.set().inventory().entries.values()}
    assert (owned["found"], owned["theirs"]) == (Ownership.OWNED, Ownership.ADOPTED)
    assert PART_OF not in (api.get(desk.set().path("b"))["metadata"].get("labels") or {})


def test_orphan_releases_objects(desk: Desk, api: Api) -> None:
    """By name, then the rest; the objects stay."""
    wrong = desk("orphan", "web", "configmap/a", "configmap/x")
    assert wrong.code == 2
    assert "the set web does not list configmap/x" in wrong.err
    dry = desk("orphan", "web", "configmap/b", "--dry-run=client")
    assert (dry.code, _said(dry.out)) == (
        0,
        ["configmap/b orphaned (dry run)", "web: 1 orphaned (dry run)"],
    )
    ended = desk("orphan", "web", "configmap/b")
    assert (ended.code, ended.err) == (0, "")
    assert _said(ended.out) == ["configmap/b orphaned", "web: 1 orphaned"]
    assert desk.set().listed() == {"configmap/a", "service/web"}
    rest = desk("orphan", "web", "--all")
    assert (rest.code, _said(rest.out)[-1]) == (0, "web: 2 orphaned")
    assert not desk.set().inventory().exists
    for path in ("configmaps/a", "configmaps/b", "services/web"):
        assert api.exists(f"/api/v1/namespaces/{desk.namespace}/{path}")


def test_check_and_repair_find_and_mend(desk: Desk, kubectl: Kubectl) -> None:
    """Exit code 1 tells of a difference; a repair needs a yes, and a dry run does not."""
    well = desk("check", "web")
    assert (well.code, well.err) == (0, "")
    assert well.out.startswith("web: no mismatches in ")
    kubectl("label", "configmap/b", "-n", desk.namespace, f"{PART_OF}-")
    told = (
        f"listed but not labelled: configmap/b: somebody has removed "
        f"its label {PART_OF} → restore the set's label"
    )
    wrong = desk("check", "web")
    assert (wrong.code, wrong.err) == (1, "")
    assert wrong.out.startswith(f"{told}\nweb: 1 mismatch")

    refused = desk("repair", "web")
    assert (refused.code, refused.out) == (2, "")
    assert "repairing the inventory of the set web needs confirmation" in refused.err
    assert "Add --yes, or try --dry-run first." in refused.err
    dry = desk("repair", "web", "--dry-run")
    assert (dry.code, _said(dry.out)) == (0, [told, "web: 1 mismatch (server dry run)"])
    assert desk("check", "web").code == 1

    ended = desk("repair", "web", "--yes")
    assert (ended.code, ended.err) == (0, "")
    assert _said(ended.out) == [
        told,
        "configmap/b repaired (restore the set's label)",
        "web: 1 repaired",
    ]
    assert desk("check", "web").code == 0


def test_list_counts_ready_objects(desk: Desk, kubectl: Kubectl) -> None:
    """With ``--ready``; a set that cannot be read hides none, and an empty place is said to be."""
    desk.set("shop").run(config_map("s"))
    here = ("-n", desk.namespace)
    kubectl("delete", "configmap/a", *here)
    kubectl("patch", "configmap/applyprune-shop", *here, "-p", '{"data":{"header":"{}"}}')
    ended = desk("list", "--count-ready")
    assert ended.code == 0
    rows = [re.split(r" {3,}", line) for line in ended.out.splitlines()]
    assert rows[0][:4] == ["NAMESPACE", "NAME", "OBJECTS", "READY"]
    assert [row[1:4] for row in rows[1:]] == [["shop", "?", "?"], ["web", "3", "2/3"]]
    assert f"warning: the inventory of shop in namespace {desk.namespace} cannot be" in ended.err
    nothing = Desk(desk.kubeconfig, "kube-public")("list")
    assert (nothing.code, nothing.out) == (0, "")
    assert "no sets in kube-public" in nothing.err


def test_list_and_show_print_inventories(desk: Desk) -> None:
    """Tables, with the sets of one namespace or of all."""
    desk.set("shop").run(config_map("s"))
    rows = [re.split(r" {3,}", line) for line in desk("list").out.splitlines()]
    assert rows[0] == ["NAMESPACE", "NAME", "OBJECTS", "LAST CHANGE", "BY", "HELD BY"]
    who = f"{getpass.getuser()}@{os.uname().nodename}"
    assert [[*row[:3], *row[4:]] for row in rows[1:]] == [
        [desk.namespace, "shop", "1", who, "-"],
        [desk.namespace, "web", "3", who, "-"],
    ]
    assert all(re.fullmatch(r"apply, \d+s", row[3]) for row in rows[1:])
    everywhere = [re.split(r" {3,}", line)[:3] for line in desk("list", "-A").out.splitlines()]
    assert all(row[:3] in everywhere for row in rows)
    (uid,) = (entry.uid for entry in desk.set("shop").inventory().entries.values())
    narrow = [line.split() for line in desk("show", "shop").out.splitlines()]
    assert narrow[1] == [desk.namespace, "configmap/s", "owned"]
    shown = [line.split() for line in desk("show", "shop", "-o", "wide").out.splitlines()]
    assert shown == [
        ["NAMESPACE", "OBJECT", "OWNERSHIP", "UID"],
        [desk.namespace, "configmap/s", "owned", uid],
    ]
    missing = desk("show", "nothing")
    assert (missing.code, missing.out) == (2, "")
    assert f"there is no set nothing in namespace {desk.namespace}" in missing.err
