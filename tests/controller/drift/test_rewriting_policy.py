"""A policy that rewrites what a Bundle applies: named, and written against once for each reason."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.support.fights import DRIFT, written
from tests.support.objects import config_map, text
from tests.support.rewriting import RewritingPolicy
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.api import Api, AuditTrail
    from tests.support.controller import Tenant

pytestmark = pytest.mark.since_kubernetes("v1.36", "the server has MutatingAdmissionPolicy in v1")
REWRITTEN = ("True", "ChangedByAdmission")


@pytest.fixture
def policy(tenant: Tenant, site_api: Api) -> Iterator[RewritingPolicy]:
    """A policy that rewrites the ConfigMap ``a``."""
    one = RewritingPolicy(site_api, tenant)
    one.create()
    yield one
    one.delete()


def sourced(tenant: Tenant, value: str) -> None:
    """Store the source: a change of it is none of the Bundle's spec."""
    data = {"web.yaml": text(config_map("a", "ours"), config_map("b", value))}
    tenant.put("configmaps", {**config_map("src"), "data": data})


def applied(tenant: Tenant, **spec: object) -> None:
    """Apply two ConfigMaps, one of which is rewritten."""
    sourced(tenant, "v")
    source = {"configMapRefs": [{"name": "src"}]}
    tenant.bundle("web", source=source, drift=DRIFT, **{"interval": "1h", **spec})
    tenant.ready("web")
    eventually(lambda: tenant.condition("web", "Drifted")[:2] == REWRITTEN, lambda: "the condition")


def asks_by_source(tenant: Tenant, number: int) -> None:
    """Change another object of the source."""
    sourced(tenant, f"new-{number}")
    eventually(lambda: tenant.value("b") == f"new-{number}", lambda: "the new source")


def asks_by_spec(tenant: Tenant, number: int) -> None:
    """Change an option."""
    tenant.patch("web", timeout=f"{number}m")
    tenant.ready("web")


def asks_by_request(tenant: Tenant, number: int) -> None:
    """Ask for a reconcile."""
    tenant.reconciled("web", str(number))


WAYS: tuple[Callable[[Tenant, int], None], ...] = (asks_by_source, asks_by_spec, asks_by_request)


@pytest.mark.holds("tried-again")
def test_rewritten_object_is_sent_once_for_each_reason_to_try_again(
    tenant: Tenant, policy: RewritingPolicy, site_audit: AuditTrail
) -> None:
    """While the policy is there nothing changes; without it, the manifest's value is stored."""
    applied(tenant)
    for number, asks in enumerate(WAYS, 1):
        site_audit.restart()
        asks(tenant, number)
        eventually(lambda: written(site_audit, tenant, "a") == 1, lambda: "the write")
        assert tenant.condition("web", "Drifted")[:2] == REWRITTEN
        assert tenant.value("a") == "rewritten"
    policy.delete()
    site_audit.restart()
    asks_by_request(tenant, 4)
    eventually(lambda: tenant.value("a") == "ours", lambda: "the value of the manifest")
    eventually(
        lambda: tenant.condition("web", "Drifted")[:2] == ("False", "NoDrift"), lambda: "the end"
    )
    assert "rewritten" not in tenant.get("web")["status"]
    assert written(site_audit, tenant, "a") == 1


def test_field_that_admission_rewrites_is_named_and_stays_so_by_itself(
    tenant: Tenant, policy: RewritingPolicy, site_audit: AuditTrail
) -> None:
    """Nothing is sent after writes of others, at the interval, or when the policy is gone."""
    applied(tenant, interval="1s")
    assert tenant.condition("web")[0] == "True"
    assert "configmap/a .data.key" in tenant.condition("web", "Drifted")[2]
    stored = [{"object": "configmap/a", "namespace": tenant.namespace, "fields": [".data.key"]}]
    assert tenant.get("web")["status"]["rewritten"] == stored
    path = tenant.path("configmaps", "a")
    site_audit.restart()
    for number in range(3):
        if number == 2:
            policy.delete()
        foreign = {"metadata": {"annotations": {"foreign": str(number)}}}
        tenant.api.patch(path, foreign, by="other")
        wanted = len(_looks(site_audit, tenant)) + 2
        eventually(partial(_has_looked, site_audit, tenant, wanted), lambda: "two looks")
    assert written(site_audit, tenant, "a") == 0
    assert tenant.value("a") == "rewritten"
    assert tenant.condition("web", "Drifted")[:2] == REWRITTEN
    assert tenant.get("web")["status"]["rewritten"] == stored


def _has_looked(audit: AuditTrail, tenant: Tenant, times: int) -> bool:
    return len(_looks(audit, tenant)) >= times


def _looks(audit: AuditTrail, tenant: Tenant) -> list[str]:
    """Return when the controller has read the set's inventory."""
    path = tenant.path("configmaps", "applyprune-web")
    return [
        event["requestReceivedTimestamp"]
        for event in audit.events()
        if event["userAgent"].startswith("applyprune/")
        and event["verb"] == "get"
        and event["requestURI"].partition("?")[0] == path
    ]


def test_each_rewritten_object_is_tried_again_although_ten_are_named(
    tenant: Tenant, policy: RewritingPolicy
) -> None:
    """The status has only the first ten; the inventory knows of all."""
    bodies = [config_map(f"a{number}", "ours") for number in range(12)]
    tenant.bundle("web", *bodies, interval="1h")
    tenant.ready("web")
    assert len(tenant.get("web")["status"]["rewritten"]) == 10
    policy.delete()
    tenant.reconciled("web", "1")
    assert {tenant.value(f"a{number}") for number in range(12)} == {"ours"}
    assert tenant.condition("web", "Drifted")[:2] == ("False", "NoDrift")
