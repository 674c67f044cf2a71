"""Each opponent, and each way in which a Bundle tries again: while it fights on, and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.fights import DRIFT, contended, quiet, written
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
    """Who fights on is written against as often again; who does not is overcome by one write."""
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
