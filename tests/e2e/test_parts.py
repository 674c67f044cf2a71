"""A part of a set on the command line: what is deleted, what is said, what excludes what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.command import applyprune
from tests.support.objects import config_map, text

if TYPE_CHECKING:
    from applyprune.localplane import Plane
    from tests.support.command import Ended
    from tests.support.plane import Kubectl


def test_part_of_a_set_is_applied_and_deleted(
    plane: Plane, kubectl: Kubectl, namespace: str
) -> None:
    """By the names and labels that kubectl takes; a plan file is for the same part only."""

    def run(*arguments: str, stdin: str = "") -> Ended:
        return applyprune(*arguments, "-n", namespace, kubeconfig=plane.kubeconfig, stdin=stdin)

    def left() -> set[str]:
        names = kubectl("get", "configmap", "-n", namespace, "-o", "name").split()
        return {name.removeprefix("configmap/") for name in names} & {"a", "b", "c"}

    given = text(*(config_map(name, labels={"app": name}) for name in "abc"))
    done = run("apply", "web", "-f", "-", "--only", "cm/a", stdin=given)
    assert done.code == 0, done.err
    assert "--only configmap/a selects only a part of the set" in done.err
    assert left() == {"a"}
    assert run("diff", "web", "-f", "-", "--only", "cm/a", stdin=given).code == 0
    assert run("diff", "web", "-f", "-", "--only", "cm/b", stdin=given).code == 1
    assert run("apply", "web", "-f", "-", stdin=given).code == 0

    done = run("delete", "web", "-l", "app in (a,c)", "--yes")
    assert done.code == 0, done.err
    assert "the inventory stays: -l app in (a,c) selects only a part of the set" in done.err
    assert left() == {"b"}
    assert "b" in run("inventory", "show", "web").out
    assert run("delete", "web", "--only", "cm/a", "--yes").code == 2
    assert run("delete", "web", "--only", "cm/b", "--yes").code == 0
    assert left() == set()
