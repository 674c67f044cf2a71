"""``apply --plan`` that ends in the middle: the same command continues what was reviewed."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.api import writes
from tests.support.desk import NAMES
from tests.support.fault_proxy import FaultProxy, faults, rules
from tests.support.interrupt import interrupt_at
from tests.support.kill import Moment, kill_at_first
from tests.support.live import config_maps
from tests.support.waiting import next_second

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import AuditTrail
    from tests.support.desk import Desk
    from tests.support.fault_proxy import Exchange

NEXT = {**dict.fromkeys(NAMES[:6], "1"), "a0": "2", "new": "1"}
"""One is changed, one is created, three are pruned."""
CHANGED = "it has been changed meanwhile"


@pytest.fixture
def file(desk: Desk) -> Path:
    """The file of the plan of NEXT, a second after the apply of what was before.

    managedFields count in seconds: an apply within the second of the one before its plan cannot be
    told from it, and is refused.
    """
    path = desk.folder / "web.plan"
    desk.call("plan", "--out", path, **NEXT)
    next_second()
    return path


@pytest.fixture
def proxy(plane: Plane) -> Iterator[FaultProxy]:
    """A proxy before the plane."""
    with FaultProxy(plane) as running:
        yield running


def _is(method: str, name: str = "") -> Callable[[Exchange], bool]:
    """Return a test for a request about a ConfigMap, by default any."""

    def is_meant(exchange: Exchange) -> bool:
        return exchange.method == method and exchange.path.endswith(f"/{name}" if name else "")

    return is_meant


def _kill(
    desk: Desk, proxy: FaultProxy, file: Path, at: Callable[[Exchange], bool], moment: Moment
) -> None:
    kubeconfig = proxy.kubeconfig(desk.folder)
    kill_at_first(proxy, at, moment, desk.line("apply", "--plan", file, **NEXT), kubeconfig)


def _edit(desk: Desk, name: str, **data: str | None) -> None:
    """Change a ConfigMap, as ``kubectl edit`` does."""
    path = f"/api/v1/namespaces/{desk.namespace}/configmaps/{name}?fieldManager=kubectl-edit"
    patch = "application/merge-patch+json"
    assert desk.api("PATCH", path, {"data": data}, content_type=patch)[0] == 200


def _delete(desk: Desk, name: str) -> None:
    path = f"/api/v1/namespaces/{desk.namespace}/configmaps/{name}"
    assert desk.api("DELETE", path)[0] == 200


BEFORE, AFTER = Moment
EDITS: dict[str, tuple[Callable[[Exchange], bool], Moment, str, str | None]] = {
    "not applied yet": (_is("PATCH"), BEFORE, "a0", "3"),
    "not applied yet, and emptied": (_is("PATCH"), BEFORE, "a0", None),
    "applied, and not recorded": (_is("PATCH", "a0"), AFTER, "a0", "3"),
    "applied, not recorded, and emptied": (_is("PATCH", "a0"), AFTER, "a0", None),
    "created, and not recorded": (_is("PATCH", "new"), AFTER, "new", "3"),
    "applied, and recorded": (_is("DELETE"), BEFORE, "a0", "3"),
    "left as it is": (_is("PATCH"), BEFORE, "a4", "3"),
    "to prune": (_is("PATCH"), BEFORE, "a7", "3"),
    "to prune, and recorded as such": (_is("DELETE"), BEFORE, "a7", "3"),
}


@pytest.mark.parametrize("name", EDITS)
def test_object_that_others_changed_after_a_kill_is_refused(
    desk: Desk, proxy: FaultProxy, file: Path, audit: AuditTrail, name: str
) -> None:
    """What was reviewed is no longer so, and nothing is written, to no object."""
    at, moment, edited, value = EDITS[name]
    _kill(desk, proxy, file, at, moment)
    _edit(desk, edited, key=value)
    before = config_maps(desk.api, desk.namespace)
    audit.restart()
    refused = desk.call("apply", "--plan", file, **NEXT)
    assert refused.code == 8, refused.err
    ref = f"configmap/{edited} in namespace {desk.namespace}"
    assert f"{ref} no longer fits the plan: " in refused.err
    assert "1 object no longer fits the plan: nothing was written" in refused.err
    assert writes(audit) == []
    assert config_maps(desk.api, desk.namespace) == before


def test_field_of_others_in_an_applied_object_hinders_nothing(
    desk: Desk, proxy: FaultProxy, file: Path
) -> None:
    """A controller may add it as soon as the object exists; no field of the manifest differs."""
    _kill(desk, proxy, file, _is("PATCH", "new"), AFTER)
    _edit(desk, "new", theirs="1")
    done = desk.call("apply", "--plan", file, **NEXT)
    assert done.code == 0, done.err
    assert desk.there() == NEXT


def test_object_to_prune_that_others_deleted_after_a_kill_hinders_nothing(
    desk: Desk, proxy: FaultProxy, file: Path
) -> None:
    """Less is to be done than was reviewed."""
    _kill(desk, proxy, file, _is("PATCH"), BEFORE)
    _delete(desk, "a7")
    assert _is_done(desk, file)


def _is_done(desk: Desk, file: Path) -> bool:
    """Continue with the same command, and once more."""
    done = desk.call("apply", "--plan", file, **NEXT)
    assert done.code == 0, done.err
    assert desk.there() == NEXT
    again = desk.call("apply", "--plan", file, **NEXT)
    return again.code == 0 and f"{len(NEXT)} unchanged" in again.out


def test_plan_that_failed_in_part_is_continued(desk: Desk, proxy: FaultProxy, file: Path) -> None:
    """An admission refuses one object: nothing is pruned; later it allows it."""
    refusal = faults.status(403, "Forbidden", 'admission webhook "policy" denied the request: no')
    proxy.rule = rules.always(refusal, where=_is("PATCH", "new"))
    kubeconfig = proxy.kubeconfig(desk.folder)
    failed = desk.call_on(kubeconfig, "apply", "--plan", file, **NEXT)
    assert failed.code in {3, 4}, failed.err
    assert desk.there() == {**dict.fromkeys(NAMES, "1"), "a0": "2"}
    assert _is_done(desk, file)


def test_conflict_during_an_apply_of_a_plan_outdates_it(
    desk: Desk, proxy: FaultProxy, file: Path, audit: AuditTrail
) -> None:
    """Somebody has changed a reviewed object: the rest needs another review."""

    def edit(exchange: Exchange) -> None:
        if _is("PATCH", "a0")(exchange):
            _edit(desk, "a0", key="3")

    proxy.before_forward = edit
    failed = desk.call_on(proxy.kubeconfig(desk.folder), "apply", "--plan", file, **NEXT)
    assert failed.code in {3, 4}, failed.err
    audit.restart()
    refused = desk.call("apply", "--plan", file, **NEXT)
    assert refused.code == 8
    assert f"configmap/a0 in namespace {desk.namespace} no longer fits" in refused.err
    assert CHANGED in refused.err
    assert writes(audit) == []


def test_interrupted_plan_is_continued(desk: Desk, proxy: FaultProxy, file: Path) -> None:
    """Ctrl-C: what was sent is recorded, and nothing is pruned."""
    line = desk.line("apply", "--plan", file, **NEXT)
    kubeconfig = proxy.kubeconfig(desk.folder)
    ended = interrupt_at(proxy, _is("PATCH", "a0"), signal.SIGINT, line, kubeconfig)
    assert ended.code == 130, ended.err
    assert set(NAMES) <= desk.there().keys()
    assert _is_done(desk, file)
