"""``apply --plan`` where somebody watches, and where two call it at once."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.api import writes
from tests.support.command import start
from tests.support.desk import NAMES
from tests.support.pseudo_terminal import ANSWER, on_terminal
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.api import AuditTrail
    from tests.support.desk import Desk

FEWER = {**dict.fromkeys(NAMES[:-1], "1"), "a0": "2"}
"""One is changed, one is pruned."""
MORE = {**dict.fromkeys(NAMES, "1"), "new": "1"}


def _planned(desk: Desk, **values: str) -> Path:
    path = desk.folder / "web.plan"
    assert desk.call("plan", "--out", path, **values).code == 0
    return path


def test_plan_file_is_shown_and_asked_about(desk: Desk, audit: AuditTrail) -> None:
    """As any apply; nothing is written before the answer, nor if the terminal closes."""
    path = _planned(desk, **FEWER)
    call = desk.line("apply", "--plan", path, **FEWER)
    audit.restart()
    with on_terminal(*call, kubeconfig=desk.plane.kubeconfig) as terminal:
        terminal.read_until(ANSWER)
        terminal.hang_up()
        assert terminal.ended() == -signal.SIGHUP
    assert writes(audit) == []
    with on_terminal(*call, kubeconfig=desk.plane.kubeconfig) as terminal:
        asked = terminal.read_until(ANSWER)
        assert writes(audit) == []
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert asked.startswith(f"web in namespace {desk.namespace}, context {desk.plane.name} (")
    assert "configmap/a0   would be updated\n" in asked
    assert "configmap/a8   would be pruned\n" in asked
    assert desk.there() == FEWER
    assert [event for event in audit.events() if "dryRun" in event["requestURI"]] == []


@pytest.mark.parametrize(("verb", "code"), [("plan", 0), ("diff", 1)])
def test_looking_names_the_set_and_the_cluster_first(desk: Desk, verb: str, code: int) -> None:
    """As an apply does, and only on a terminal."""
    with on_terminal(*desk.line(verb, **FEWER), kubeconfig=desk.plane.kubeconfig) as terminal:
        assert terminal.ended() == code
    first = f"web in namespace {desk.namespace}, context {desk.plane.name} ("
    assert terminal.shown.startswith(first)
    assert "→ " not in "".join(desk.call(verb, **FEWER).err)


def test_plan_file_without_deletions_is_not_asked_about(desk: Desk) -> None:
    """The table is shown; of a plan that is done, nothing is left."""
    call = desk.line("apply", "--plan", _planned(desk, **MORE), **MORE)
    with on_terminal(*call, kubeconfig=desk.plane.kubeconfig) as terminal:
        assert terminal.ended() == 0
    assert "configmap/new   would be created\n" in terminal.shown
    assert ANSWER not in terminal.shown
    with on_terminal(*call, kubeconfig=desk.plane.kubeconfig) as terminal:
        assert terminal.ended() == 0
    assert "would be" not in terminal.shown
    assert "unchanged" in terminal.shown


@pytest.mark.parametrize("values", [FEWER, MORE], ids=["prune", "no prune"])
def test_two_applies_of_one_plan_file_are_one(
    desk: Desk, audit: AuditTrail, values: dict[str, str]
) -> None:
    """One applies it; the other waits, and finds nothing to do. Both end with 0."""
    call = desk.line("apply", "--plan", _planned(desk, **values), **values)
    audit.restart()
    running = [start(*call, kubeconfig=desk.plane.kubeconfig) for _ in range(2)]
    ends = [one.communicate("", timeout=HANG) for one in running]
    assert [one.returncode for one in running] == [0, 0], ends
    did = [" pruned" in out or " created" in out for out, _ in ends]
    assert sorted(did) == [False, True], ends
    assert desk.there() == values
    changed = [one for one in writes(audit) if "/configmaps/applyprune-web" not in one]
    assert len(changed) == (2 if values is FEWER else 1), changed
