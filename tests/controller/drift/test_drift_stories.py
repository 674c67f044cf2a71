"""Drift that a watch sees: reverted by requests about its objects, or left, as the policy says."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.accounts import WRITE, rule
from tests.support.api import WRITES
from tests.support.fights import DRIFT, changed, written
from tests.support.kinds_of_drift import KINDS, Opponent, manifests
from tests.support.objects import config_map, text
from tests.support.rewriting import RewritingPolicy
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from applyprune.localplane import Plane
    from tests.support.api import Api, AuditTrail
    from tests.support.controller import Controller, Tenant
    from tests.support.plane import Kubectl

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


def writes_of(audit: AuditTrail, namespace: str) -> Counter[str]:
    """Return how often the controller has writes_of each object of the namespace, by its name."""
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
    """Check that every object is as its opponent has left it, and that nothing was writes_of."""
    found = {kind: opponent.said(body) for kind, body in bodies.items()}
    assert [kind for kind in KINDS if found[kind] != after[kind]] == []
    assert writes_of(audit, opponent.namespace) == {}


def test_correct_sets_back_every_kind_of_drift_in_seconds(
    tenant: Tenant, opponent: Opponent, site_audit: AuditTrail
) -> None:
    """By one write for each object, which only a watch explains; also while the Bundle fails.

    Slow: each kind of drift is made twice, by kubectl.
    """
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
        eventually(lambda: writes_of(site_audit, tenant.namespace).keys() == {*names.values()})
        counts = writes_of(site_audit, tenant.namespace)
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
    assert writes_of(site_audit, tenant.namespace) == {}
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
    assert set(writes_of(site_audit, tenant.namespace)) == {changed["metadata"]["name"]}


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


@pytest.mark.since_kubernetes("v1.36", "the server has MutatingAdmissionPolicy in v1")
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


LONG = {"interval": "1h", "retryInterval": "1h"}


def test_account_that_may_not_watch_says_so_until_it_may(
    tenant: Tenant, running: Controller
) -> None:
    """Not that nothing has drifted; drift that a run has found is told all the same."""
    maps = rule("", ["configmaps"], [verb for verb in WRITE if verb not in {"list", "watch"}])
    tenant.account("blind", maps)
    spec = {"serviceAccountName": "blind", **LONG}
    tenant.bundle("web", config_map("a"), **spec)
    tenant.ready("web")

    def says(status: str, reason: str) -> bool:
        return tenant.condition("web", "Drifted")[:2] == (status, reason)

    eventually(lambda: says("Unknown", "NotWatched"), lambda: "the condition")
    message = tenant.condition("web", "Drifted")[2]
    assert message == (
        "nothing had drifted at the last reconcile, and only the next one looks again: its account "
        "cannot list and watch some of its objects"
    )
    assert tenant.condition("web")[:2] == ("True", "Applied")
    # A reconcile that has nothing new to say writes nothing.
    version = tenant.get("web")["metadata"]["resourceVersion"]
    tenant.bundle("other", config_map("b"), **LONG)
    tenant.ready("other")
    eventually(lambda: tenant.condition("other", "Drifted")[:2] == ("False", "NoDrift"))
    assert tenant.get("web")["metadata"]["resourceVersion"] == version
    assert running.metric("applyprune_watches_limit") == 500
    assert running.metric("applyprune_watches") >= 1
    assert running.metric("applyprune_waiting_watches") == 0
