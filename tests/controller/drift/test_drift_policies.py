"""Each kind of drift under each policy: reverted by one write, or left, whatever else fails."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api import WRITES
from tests.support.kinds_of_drift import KINDS, Opponent, manifests
from tests.support.objects import config_map, text
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.localplane import Plane
    from tests.support.api import AuditTrail
    from tests.support.controller import Tenant
    from tests.support.plane import Kubectl

BROKEN = {**config_map("broken"), "data": {"not a key!": "v"}}
"""The server refuses it at the apply, and nothing does before."""
REPORT: dict[str, Any] = {
    "drift": {"policy": "Report"}, "retryInterval": "1h", "interval": "1h"
}  # fmt: skip
TWO_WRITES = frozenset({"managedFields cleared"})
"""Before the apply the set's own entry is restored, by a guarded patch of managedFields."""


@pytest.fixture
def opponent(tenant: Tenant, site: Plane, kubectl: Kubectl) -> Opponent:
    """Who changes the objects of the tenant."""
    return Opponent(tenant.api, partial(kubectl, plane=site), tenant.namespace)


def written(audit: AuditTrail, namespace: str) -> Counter[str]:
    """Return how often the controller has written each object of the namespace, by its name."""
    found: Counter[str] = Counter()
    for event in audit.events():
        about = event.get("objectRef") or {}
        is_ours = event["userAgent"].startswith("applyprune/") and event["verb"] in WRITES
        is_ours = is_ours and "dryRun=" not in event["requestURI"]
        is_member = about.get("namespace") == namespace and about.get("name", "").startswith("d")
        if is_ours and is_member and event["responseStatus"]["code"] < 300:
            found[about["name"]] += 1
    return found


def change_all(opponent: Opponent, bodies: Mapping[str, dict[str, Any]]) -> None:
    """Change every object in its own way."""
    for kind, (_, change) in KINDS.items():
        change(opponent, bodies[kind])


def drifted(opponent: Opponent, bodies: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Change every object, and return each as it is then."""
    before = {kind: opponent.said(body) for kind, body in bodies.items()}
    change_all(opponent, bodies)
    after = {kind: opponent.said(body) for kind, body in bodies.items()}
    assert [kind for kind in KINDS if before[kind] == after[kind]] == [], "these took no effect"
    return after


def wait_until_seen(tenant: Tenant) -> None:
    """Wait until the condition says that something has drifted; nobody asks for a reconcile."""
    seen = ("True", "DriftDetected")
    eventually(lambda: tenant.condition("web", "Drifted")[:2] == seen)


def assert_left(
    opponent: Opponent,
    bodies: dict[str, dict[str, Any]],
    after: dict[str, Any],
    audit: AuditTrail,
) -> None:
    """Check that every object is as its opponent has left it, and that nothing was written."""
    found = {kind: opponent.said(body) for kind, body in bodies.items()}
    assert [kind for kind in KINDS if found[kind] != after[kind]] == []
    assert written(audit, opponent.namespace) == {}


def test_correct_sets_back_every_kind_of_drift_in_seconds(
    tenant: Tenant, opponent: Opponent, site_audit: AuditTrail
) -> None:
    """By one write for each object, which only a watch explains; also while the Bundle fails."""
    bodies = dict(manifests())
    names = {kind: body["metadata"]["name"] for kind, body in bodies.items()}
    most = {kind: 2 if kind in TWO_WRITES else 1 for kind in KINDS}
    tenant.bundle("web", *bodies.values(), retryInterval="1h", interval="1h")
    tenant.ready("web")
    assert tenant.condition("web", "Drifted")[:2] == ("False", "NoDrift")
    applied = {kind: opponent.said(body) for kind, body in bodies.items()}

    def other() -> list[str]:
        """Return what is not as it was applied."""
        return [kind for kind, body in bodies.items() if opponent.said(body) != applied[kind]]

    for ready in (True, False):
        site_audit.restart()
        change_all(opponent, bodies)
        eventually(lambda: not other(), lambda: "the reverts")
        eventually(lambda: written(site_audit, tenant.namespace).keys() == {*names.values()})
        counts = written(site_audit, tenant.namespace)
        assert {kind: counts[name] for kind, name in names.items()} == most
        assert (tenant.condition("web")[0] == "True") is ready
        assert tenant.condition("web", "Drifted")[:2] == ("False", "NoDrift")
        assert tenant.get("web")["status"]["objects"]["total"] == len(KINDS)
        if ready:
            tenant.patch("web", source={"inline": text(*bodies.values(), BROKEN)})
            tenant.failed("web", "ApplyFailed")
    # Nothing is left to do.
    site_audit.restart()
    tenant.reconciled("web", "idle")
    assert written(site_audit, tenant.namespace) == {}
    assert other() == []
    told = [message for _, _, message in tenant.events("web") if "reverted" in message]
    assert any("opponent" in message for message in told)


def test_report_leaves_every_kind_of_drift(
    tenant: Tenant, opponent: Opponent, site_audit: AuditTrail
) -> None:
    """Until a manifest changes; it says what has drifted, who changed it, and when."""
    bodies = dict(manifests())
    tenant.bundle("web", *bodies.values(), **REPORT)
    tenant.ready("web")
    after = drifted(opponent, bodies)
    site_audit.restart()
    wait_until_seen(tenant)
    tenant.reconciled("web", "1")
    assert tenant.condition("web")[0] == "True"
    assert_left(opponent, bodies, after, site_audit)
    message = tenant.condition("web", "Drifted")[2]
    assert message.count(";") == 9
    assert "more" in message
    assert "configmap/d1 /data/key (opponent 20" in message
    first = tenant.get("web")
    tenant.reconciled("web", "2")
    second = tenant.get("web")
    assert second["status"]["conditions"] == first["status"]["conditions"]
    # In a reconcile that fails, and in one after it.
    tenant.patch("web", source={"inline": text(*bodies.values(), BROKEN)})
    tenant.failed("web", "ApplyFailed")
    tenant.reconciled("web", "3")
    assert_left(opponent, bodies, after, site_audit)
    # Whose manifest changes is applied as a whole; the others stay.
    changed = {**bodies["merge patch"], "data": {"key": "mine", "other": "new"}}
    again = {**bodies, "merge patch": changed}
    tenant.patch("web", source={"inline": text(*again.values())})
    tenant.ready("web")
    live = opponent.live(changed)
    assert live is not None
    assert live["data"] == changed["data"]
    assert set(written(site_audit, tenant.namespace)) == {changed["metadata"]["name"]}


def test_ignore_leaves_drift_and_says_nothing_of_it(tenant: Tenant, site_audit: AuditTrail) -> None:
    """Not even whether there is any."""
    tenant.bundle("web", config_map("d"), drift={"policy": "Ignore"}, interval="1h")
    tenant.ready("web")
    site_audit.restart()
    tenant.api.patch(tenant.path("configmaps", "d"), {"data": {"key": "theirs"}}, by="opponent")
    tenant.reconciled("web", "1")
    assert tenant.condition("web", "Drifted")[:2] == ("Unknown", "DriftIgnored")
    assert (tenant.value("d"), written(site_audit, tenant.namespace)) == ("theirs", {})


def test_drift_that_begins_after_a_failure_is_reported(tenant: Tenant) -> None:
    """Report says it although the Bundle fails, and nobody asks for a reconcile first."""
    tenant.bundle("web", config_map("a"), **REPORT)
    tenant.ready("web")
    tenant.patch("web", source={"inline": text(config_map("a"), BROKEN)})
    tenant.failed("web", "ApplyFailed")
    tenant.api.patch(tenant.path("configmaps", "a"), {"data": {"key": "theirs"}}, by="opponent")
    wait_until_seen(tenant)
    assert "configmap/a /data/key (opponent 20" in tenant.condition("web", "Drifted")[2]
    tenant.reconciled("web", "1")
    assert tenant.condition("web")[:2] == ("False", "ApplyFailed")
    assert tenant.value("a") == "theirs"
