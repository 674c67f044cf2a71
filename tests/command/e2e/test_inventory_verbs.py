"""``applyprune inventory`` and ``list``: what is said, and how each ends."""

from __future__ import annotations

import getpass
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from applyprune.planning.applyset import PART_OF
from tests.support.command import Ended, applyprune
from tests.support.objects import SERVICE, config_map
from tests.support.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

UNLABELLED = {"metadata": {"labels": {PART_OF: None}}}


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

    def says(self, *line: str) -> list[str]:
        """Return the lines of a call that ends well, without how long it took."""
        ended = self(*line)
        assert ended.code == 0, ended
        return [re.sub(r" in \d+\.\d s$", "", one) for one in ended.out.splitlines()]

    def set(self, name: str = "web") -> Stage:
        """Return a set of the namespace."""
        return Stage(self.kubeconfig, self.namespace, name=name)


@pytest.fixture
def desk(plane: Plane, namespace: str) -> Desk:
    """A namespace with the set ``web``: two ConfigMaps and a Service."""
    made = Desk(plane.kubeconfig, namespace)
    made.set().run(config_map("a"), config_map("b"), SERVICE)
    return made


def test_check_and_repair_find_and_mend(desk: Desk, api: Api) -> None:
    """Exit code 1 tells of a difference; a repair needs a yes, and a dry run does not."""
    assert desk.says("check", "web") == ["web: no mismatches"]
    api.patch(desk.set().path("b"), UNLABELLED)
    told = (
        f"listed but not labelled: configmap/b: somebody has removed "
        f"its label {PART_OF} → restore the set's label"
    )
    wrong = desk("check", "web")
    assert (wrong.code, wrong.err) == (1, "")
    assert wrong.out.startswith(f"{told}\nweb: 1 mismatch")
    assert desk.says("repair", "web", "--dry-run") == [told, "web: 1 mismatch (server dry run)"]
    assert desk.says("repair", "web", "--yes") == [
        told,
        "configmap/b repaired (restore the set's label)",
        "web: 1 repaired",
    ]
    assert desk("check", "web").code == 0


def _rows(lines: list[str]) -> list[list[str]]:
    return [re.split(r" {3,}", line) for line in lines]


def test_list_and_show_print_inventories(desk: Desk) -> None:
    """Tables, with the sets of one namespace or of all."""
    desk.set("shop").run(config_map("s"))
    rows = _rows(desk.says("list"))
    assert rows[0] == ["NAMESPACE", "NAME", "OBJECTS", "LAST CHANGE", "BY", "HELD BY"]
    who = getpass.getuser()
    assert [[*row[:3], *row[4:]] for row in rows[1:]] == [
        [desk.namespace, "shop", "1", who, "-"],
        [desk.namespace, "web", "3", who, "-"],
    ]
    assert all(re.fullmatch(r"apply, \d+s", row[3]) for row in rows[1:])
    everywhere = [row[:3] for row in _rows(desk.says("list", "-A"))]
    assert all(row[:3] in everywhere for row in rows)
    (uid,) = (entry.uid for entry in desk.set("shop").inventory().entries.values())
    assert desk.says("show", "shop")[1].split() == [desk.namespace, "configmap/s", "owned"]
    assert [line.split() for line in desk.says("show", "shop", "-o", "wide")] == [
        ["NAMESPACE", "OBJECT", "OWNERSHIP", "UID"],
        [desk.namespace, "configmap/s", "owned", uid],
    ]
