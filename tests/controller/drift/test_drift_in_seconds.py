"""Drift is seen by a watch, and reverted by requests about the drifted objects only."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.api import events_written
from tests.support.fights import changed
from tests.support.objects import config_map
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.api import AuditTrail
    from tests.support.controller import Controller, Tenant

SIZE = 100
HANDFUL = 15
"""Requests for one drifted object: the Bundle, its account, the inventory, the object, an Event."""
REVERTED = 'applyprune_bundle_reverted_fields_total{{bundle="web",namespace="{}"}}'


def ours(audit: AuditTrail, namespace: str) -> list[dict[str, Any]]:
    """Return the controller's requests for one namespace, or for none, but for its watches."""
    return [
        event
        for event in audit.events()
        if event["userAgent"].startswith("applyprune/")
        and event.setdefault("objectRef", {}).get("namespace", namespace) == namespace
        and event["verb"] != "watch"
    ]


def hundred(tenant: Tenant) -> list[str]:
    """Apply a Bundle of a hundred objects; return their names."""
    names = [f"n{number:03}" for number in range(SIZE)]
    tenant.bundle("web", *map(config_map, names), interval="1h", retryInterval="1h")
    tenant.ready("web")
    return names


def test_one_object_of_a_hundred_costs_a_handful_of_requests(
    tenant: Tenant, running: Controller, site_audit: AuditTrail
) -> None:
    """Nothing is listed, the rest of the status stays, and the metrics count the fields."""
    names = hundred(tenant)
    before = tenant.get("web")["status"]
    for name, times in (("n007", 1), ("n008", 2)):
        site_audit.restart()
        changed(tenant, "theirs", name=name)
        eventually(partial(_is_set_back, tenant, name), lambda: "the revert")
        is_counted = partial(_is_counted, running, tenant.namespace, times)
        eventually(is_counted, lambda: "the count")
        found = ours(site_audit, tenant.namespace)
        verbs = [(one["verb"], one["objectRef"].get("resource", "kinds")) for one in found]
        assert len(verbs) <= HANDFUL, verbs
        assert [one for one in verbs if one[0] == "list"] == []
        about = {one["objectRef"].get("name") for one in found if one["verb"] in {"get", "patch"}}
        assert about & {*names} == {name}
    status = tenant.get("web")["status"]
    kept = ("objects", "observedGeneration", "inventory", "lastAppliedRevision")
    assert {key: status[key] for key in kept} == {key: before[key] for key in kept}
    assert tenant.condition("web") == ("True", "Applied", f"{SIZE} objects applied")
    assert tenant.condition("web", "Drifted")[:2] == ("False", "NoDrift")
    assert status["lastChange"]["updated"] == 1
    told = [message for _, _, message in tenant.events("web") if "reverted" in message]
    assert any("1 field that kubectl-patch had changed" in message for message in told)


def _is_set_back(tenant: Tenant, name: str) -> bool:
    return tenant.value(name) == "v"


def _is_counted(running: Controller, namespace: str, times: int) -> bool:
    return running.metric(REVERTED.format(namespace)) == times


def test_hundred_deleted_objects_are_created_by_a_few_runs(
    tenant: Tenant, running: Controller, site_audit: AuditTrail
) -> None:
    """However many hints they give at once; each is created once."""
    names = hundred(tenant)
    inventory = tenant.get("web")["status"]["inventory"]
    site_audit.restart()
    # It sees none of it before all of them are gone: a slow deletion may last as long as many runs.
    selector = f"labelSelector=applyset.kubernetes.io/part-of%3D{inventory['set']}"
    with running.paused():
        assert tenant.api("DELETE", f"{tenant.path('configmaps')}?{selector}")[0] == 200

    def created() -> list[str]:
        return [
            one["objectRef"]["name"]
            for one in ours(site_audit, tenant.namespace)
            if one["verb"] == "patch" and one["responseStatus"]["code"] == 201
            if "dryRun=All" not in one["requestURI"]
        ]

    eventually(lambda: len(created()) >= SIZE, lambda: "the creations")
    assert sorted(created()) == names
    # By their names: a long run renews its lock, and that is no other run.
    runs = {
        one["userAgent"].rpartition(" run/")[2]
        for one in ours(site_audit, tenant.namespace)
        if one["verb"] == "update" and one["objectRef"].get("name") == inventory["name"]
    }
    assert 1 <= len(runs) <= 4


def test_change_right_after_the_apply_is_seen(tenant: Tenant) -> None:
    """Whether the watch was open yet or not; also of the first Bundle of its namespace."""
    for number in range(2):
        name = f"o{number}"
        tenant.bundle(name, config_map(f"{name}-a"), config_map(f"{name}-b"), interval="1h")
        path = tenant.path("configmaps", f"{name}-b")
        eventually(partial(tenant.api.exists, path), lambda: "the creation")
        eventually(partial(tenant.api.exists, tenant.path("configmaps", f"{name}-a")))
        changed(tenant, "theirs", name=f"{name}-a")
        assert tenant.api("DELETE", path)[0] == 200
        eventually(partial(_is_whole, tenant, name), lambda: "the reverts")
        tenant.ready(name)


def _is_whole(tenant: Tenant, name: str) -> bool:
    there = all(tenant.exists(f"{name}-a", f"{name}-b"))
    return there and tenant.value(f"{name}-a") == "v"


def test_foreign_changes_are_looked_at_and_write_nothing(
    tenant: Tenant, site_audit: AuditTrail
) -> None:
    """A kind without generations shows no more; nothing is stored, and the interval stays."""
    tenant.bundle("web", config_map("a"), interval="1h")
    tenant.ready("web")
    eventually(lambda: events_written(site_audit, tenant.namespace), lambda: "the Event")
    site_audit.restart()
    version = tenant.get("web")["metadata"]["resourceVersion"]
    patch = {"metadata": {"annotations": {"somebody": "else"}}}
    tenant.api.patch(tenant.path("configmaps", "a"), patch, by="other")

    def looked() -> list[str]:
        found = ours(site_audit, tenant.namespace)
        return [one["verb"] for one in found if one["objectRef"].get("name") == "a"]

    eventually(looked, lambda: "the look")
    verbs = {one["verb"] for one in ours(site_audit, tenant.namespace)}
    assert verbs == {"get"}
    assert tenant.get("web")["metadata"]["resourceVersion"] == version


def test_other_changes_are_decided_by_the_whole_set(tenant: Tenant) -> None:
    """An object that somebody has replaced is another one; a lost inventory is written again."""
    tenant.bundle("web", config_map("a", "ours"), config_map("b"), interval="1h")
    tenant.ready("web")
    inventory = tenant.path("configmaps", tenant.get("web")["status"]["inventory"]["name"])
    assert tenant.api("DELETE", inventory)[0] == 200
    tenant.drop("b")
    eventually(partial(tenant.api.exists, inventory), lambda: "the inventory")
    eventually(lambda: tenant.exists("a", "b") == [True, True], lambda: "the creation")
    tenant.bundle("other", config_map("c", "ours"), interval="1h", retryInterval="1h")
    tenant.ready("other")
    tenant.drop("c")
    tenant.api.create(tenant.path("configmaps"), config_map("c", "theirs"))
    tenant.failed("other", "Conflicts")
    assert "data.key" in tenant.failures("other")["configmap/c"]
    assert tenant.value("c") == "theirs"


@pytest.mark.holds("correction-of-settled")
def test_bundle_that_is_not_settled_is_planned_as_a_whole(tenant: Tenant) -> None:
    """Under Report, drift of one object says nothing new of the others: all of it is shown."""
    options = {"drift": {"policy": "Report"}, "interval": "1h"}
    tenant.bundle("web", config_map("a"), config_map("b"), **options)
    tenant.ready("web")
    for name in "ab":
        changed(tenant, "theirs", name=name)
        told = f"configmap/{name} /data/key"
        eventually(partial(_is_told, tenant, told), lambda: "the drift")
    assert _is_told(tenant, "configmap/a /data/key")
    assert [tenant.value(name) for name in "ab"] == ["theirs", "theirs"]


def _is_told(tenant: Tenant, words: str) -> bool:
    return words in tenant.condition("web", "Drifted")[2]
