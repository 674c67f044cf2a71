"""Fights about an object: named, stopped after so many writes, and ended.

How they are counted is a table in test_contention.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api import WRITES
from tests.support.fights import DRIFT, changed, contended, quiet, written
from tests.support.objects import config_map, text
from tests.support.opponents import OPPONENTS, Opponent, Ring
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import AuditTrail
    from tests.support.controller import Tenant

REVERTS = DRIFT["reverts"]
WAYS: dict[str, Callable[[Tenant, Opponent, int], None]] = {
    "source": lambda tenant, opponent, number: sourced(tenant, opponent, f"new-{number}"),
    "spec": lambda tenant, _, number: tenant.patch("web", timeout=f"{number}m"),
    "reconcile-now": lambda tenant, _, number: tenant.annotate("web", reconcile_now=str(number)),
    "quiet": lambda tenant, *_: quiet(tenant),
}
FEW = {
    ("an autoscaler", "reconcile-now"),
    ("kubectl edit", "source"),
    ("another Bundle", "spec"),
}
FIGHTS = [
    (who, way) if (who, way) in FEW else pytest.param(who, way, marks=pytest.mark.sweep)
    for who in OPPONENTS
    for way in WAYS
]


def sourced(tenant: Tenant, opponent: Opponent, value: str) -> None:
    """Store the source: a change of it is none of the Bundle's spec."""
    data = {"web.yaml": text(opponent.manifest(), config_map("b", value))}
    tenant.put("configmaps", {**config_map("src"), "data": data})


@pytest.fixture
def opponent(who: str, tenant: Tenant, site: Plane, tmp_path: Path) -> Iterator[Opponent]:
    """One that fights no more at the end of the test."""
    one = OPPONENTS[who](Ring(tenant, site, tmp_path))
    yield one
    if isinstance(one, OPPONENTS["kubectl edit"]):
        one.end()


@pytest.mark.parametrize(("who", "way"), FIGHTS)
def test_fight_is_named_bounded_and_ended(
    way: str, opponent: Opponent, tenant: Tenant, site_audit: AuditTrail
) -> None:
    """Who fights on is written against as often again; who does not is overcome by one write.

    Slow: an opponent writes until its Bundle gives way, twice.
    """
    sourced(tenant, opponent, "v")
    # Nothing but the interval shows the controller that somebody was quiet.
    options = {"drift": DRIFT, "interval": "2s" if way == "quiet" else "1h", **opponent.spec}
    tenant.bundle("web", source={"configMapRefs": [{"name": "src"}]}, **options)
    tenant.ready("web")

    def writes() -> int:
        return written(site_audit, tenant, *opponent.where)

    site_audit.restart()
    opponent.begin()
    is_named(tenant, opponent)
    assert writes() == REVERTS
    for number in (1, 2):
        fights_on = number == 1
        if not fights_on:
            opponent.end()
        site_audit.restart()
        WAYS[way](tenant, opponent, number)
        if fights_on:
            eventually(lambda: writes() >= REVERTS, lambda: "the reverts of another try")
            is_named(tenant, opponent)
            assert writes() == REVERTS
    eventually(lambda: opponent.value() == opponent.ours, lambda: "the end of the contention")
    tenant.ready("web")
    assert tenant.condition("web", "Drifted")[:2] == ("False", "NoDrift")
    assert writes() == 1


def is_named(tenant: Tenant, opponent: Opponent) -> None:
    """Assert that the Bundle gives way, and says to whom, about what, and how that would end."""
    message = contended(tenant)
    assert f"{opponent.place}: {opponent.manager()} has changed it again" in message
    assert f"ours {opponent.ours}, theirs {opponent.theirs}" in message
    assert "ignoreFields" in message
    assert tenant.condition("web")[:2] == ("False", "Contended")
    assert opponent.value() == opponent.theirs
    (count,) = tenant.get("web")["status"]["contention"]
    assert (count["object"], count["manager"]) == (opponent.place.split()[0], opponent.manager())
    assert count["reverts"] == REVERTS


def fought(tenant: Tenant, **spec: Any) -> dict[str, Any]:
    """Change a value until the Bundle gives way; return its status then."""
    options = {"drift": DRIFT, "interval": "1h", **spec}
    tenant.bundle("web", config_map("a", "ours"), config_map("b"), **options)
    tenant.ready("web")

    def given_way() -> dict[str, Any] | None:
        if tenant.value("a") == "ours":
            changed(tenant, "theirs")
        status = dict(tenant.get("web")["status"])
        return status if _condition(status, "Drifted")["reason"] == "Contended" else None

    return dict(eventually(given_way, lambda: f"contended: {tenant.get('web').get('status')}"))


def _condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(one for one in status["conditions"] if one["type"] == kind)


def _counts(tenant: Tenant) -> list[dict[str, Any]]:
    return list(tenant.get("web")["status"]["contention"])


def test_contended_object_is_left_until_its_opponent_is_quiet(tenant: Tenant) -> None:
    """Named with both values and what resolves it; other objects are still corrected."""
    status = fought(tenant, interval="2s")
    message = _condition(status, "Drifted")["message"]
    assert "configmap/a /data/key: kubectl-patch" in message
    assert 'ours "ours", theirs "theirs"' in message
    assert "ignoreFields" in message
    assert "applyprune.dev/conflicts: skip" in message
    ready = _condition(status, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Contended")
    assert _condition(status, "Stalled")["status"] == "True"
    (count,) = status["contention"]
    assert (count["object"], count["manager"]) == ("configmap/a", "kubectl-patch")
    assert count["reverts"] == 2
    changed(tenant, "theirs", name="b")
    eventually(lambda: len(_counts(tenant)) == 2, lambda: "the revert of another object")
    assert (tenant.value("a"), tenant.value("b")) == ("theirs", "v")
    # No change of the Bundle begins the next reconcile: its interval does.
    quiet(tenant)
    eventually(lambda: tenant.value("a") == "ours", lambda: "the end of the contention")
    tenant.ready("web")
    assert tenant.condition("web", "Drifted")[:2] == ("False", "NoDrift")


@pytest.mark.holds("taken-objects")
def test_bundle_that_takes_an_object_causes_no_drift_of_the_other(
    tenant: Tenant, site_audit: AuditTrail
) -> None:
    """It says whose the object is now, at once, and writes nothing, however often it is asked."""
    tenant.bundle("web", config_map("a", "ours"), drift=DRIFT, interval="1h")
    tenant.ready("web")
    options = {"adopt": "all", "conflicts": "force", "interval": "1h"}
    tenant.bundle("other", config_map("a", "theirs"), **options)
    tenant.ready("other")
    site_audit.restart()
    eventually(lambda: tenant.condition("web")[0] == "False", lambda: "the loss")
    tenant.reconciled("web", "1")
    tenant.reconciled("web", "2")
    ready = tenant.condition("web")
    assert ready[0] == "False"
    assert ready[1] != "Contended"
    assert "belongs to" in tenant.failures("web")["configmap/a"]
    assert tenant.value("a") == "theirs"
    assert tenant.condition("web", "Drifted")[1] != "Contended"
    path = tenant.path("configmaps", "a")
    writes = [one for one in site_audit.events() if one["verb"] in WRITES]
    assert [one for one in writes if one["requestURI"].startswith(path)] == []
