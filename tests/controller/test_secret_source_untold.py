"""Whatever goes wrong with what a Secret source contains: its values are told nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.planning.normalize import digest
from tests.support.canaries import (
    OTHER,
    TOKEN,
    annotated,
    encoded,
    forged_refusal,
    secret,
    untold,
)
from tests.support.controller import served, told
from tests.support.objects import config_map, text
from tests.support.waiting import eventually
from tests.support.webhook import Webhook

if TYPE_CHECKING:
    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.controller import Controller, Tenant

HIDDEN = "details are not shown, because the source is a Secret"


def put_source(tenant: Tenant, name: str, content: str) -> str:
    """Store a Secret with manifests; return its resourceVersion."""
    meta = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
    stored = tenant.put("secrets", {**meta, "data": {"one": encoded(content)}})
    return str(stored["metadata"]["resourceVersion"])


def _quoting(request: dict[str, Any]) -> dict[str, Any] | None:
    """Refuse a deletion, and quote the object whole and in part."""
    if (request["operation"], request["name"]) != ("DELETE", "kept"):
        return None
    value = request["oldObject"]["data"]["key"]
    said = f"never {json.dumps(request['oldObject'])}, nor {value[:12]}, nor {value[::-1]}"
    return {"code": 422, "message": said}


def _warning(request: dict[str, Any]) -> list[str]:
    """Warn with the whole object."""
    return [f"look at {json.dumps(request['object'] or request['oldObject'])}"]


def test_warning_and_denied_removal_of_a_secret_source_are_untold(
    tenant: Tenant, running: Controller, site: Plane, site_api: Api
) -> None:
    """A webhook quotes what it warns about, and what it refuses to delete."""
    put_source(tenant, "src", text(config_map("kept", TOKEN)))
    place = (site, site_api, tenant.namespace, ("CREATE", "DELETE"))
    with Webhook(*place, _quoting, warns=_warning, resources=("configmaps",)) as webhook:
        tenant.bundle("web", source={"secretRefs": [{"name": "src"}]})
        tenant.ready("web")
        eventually(lambda: any(one[1] == "ServerWarning" for one in tenant.events("web")))
        warnings = [one[2] for one in tenant.events("web") if one[1] == "ServerWarning"]
        assert f"the API server warns about it; {HIDDEN}" in warnings[0]
        tenant.delete("web")
        eventually(lambda: any(one[1] == "RemovalFailed" for one in tenant.events("web")))
        untold(told(tenant, running))
        assert "DELETE kept" in webhook.refused
    tenant.gone("web")


CODES = (400, 401, 403, 409, 410, 422, 500)
"""What a webhook may answer with."""
RULES = ["configmap=int(self.data.key) > 0", "secret=self.data[self.data.encoded] == 'a'"]
Then = Callable[["Tenant", str], None]


def _forging(request: dict[str, Any]) -> dict[str, Any] | None:
    """Refuse an object with the code in its name; put values wherever an answer has a place."""
    name, _, code = str(request["name"]).rpartition("-")
    return forged_refusal(int(code)) if name == "code" else None


def _rewriting(request: dict[str, Any]) -> list[dict[str, Any]]:
    """Change the value of one object, and add another one whose key is a value."""
    if request["name"] != "rewritten" or request["operation"] != "CREATE":
        return []
    return [
        {"op": "replace", "path": "/data/key", "value": OTHER},
        {"op": "add", "path": f"/data/{OTHER}", "value": OTHER},
    ]


def _source(*bodies: dict[str, Any]) -> Then:
    """Return what changes the source of a Bundle."""

    def change(tenant: Tenant, name: str) -> None:
        put_source(tenant, f"from-{name}", text(*bodies))

    return change


def _changed(tenant: Tenant, name: str) -> None:
    """Change a value, and add one whose key is a value."""
    change = {"data": {"key": OTHER, OTHER: OTHER}}
    tenant.api.patch(tenant.path("configmaps", name), change)


def _fought(tenant: Tenant, name: str) -> None:
    """Change a value, and again when it was reverted."""
    for _ in range(2):
        _changed(tenant, name)
        eventually(lambda: tenant.get_map(name)["data"]["key"] == TOKEN or _contended(tenant, name))


def _contended(tenant: Tenant, name: str) -> bool:
    return tenant.condition(name, "Drifted")[1] == "Contended"


def _lost(tenant: Tenant, name: str) -> None:
    """Delete the inventory."""
    tenant.drop(f"applyprune-{name}")


def _deleted(tenant: Tenant, name: str) -> None:
    tenant.drop(name)


FIXED = {"immutable": True}
REPORT = {"drift": {"policy": "Report"}}
RECREATES = {"recreate": True, "prune": {"maxPrune": "100%"}}
OTHER_DATA = {"data": {"a": encoded(OTHER)}}


def _map(name: str, value: str = TOKEN, **more: Any) -> dict[str, Any]:
    return {**config_map(name, value), **more}


STORIES: dict[str, tuple[tuple[dict[str, Any], ...], dict[str, Any], Then | None, str]] = {
    "changed": ((_map("changed"), secret("changed-too")), {},
        _source(_map("changed", OTHER), secret("changed-too", **OTHER_DATA)), "Applied"),
    "immutable": ((_map("immutable", TOKEN, **FIXED),), {},
        _source(_map("immutable", OTHER, **FIXED)), "ApplyFailed"),
    "recreated": ((_map("recreated", TOKEN, **FIXED),), RECREATES,
        _source(_map("recreated", OTHER, **FIXED)), "Applied"),
    "retyped": ((secret("retyped"),), {},
        _source(secret("retyped", type="example.com/x", **OTHER_DATA)), "ApplyFailed"),
    "of-another": ((_map("of-another"),), {},
        _source(_map("of-another"), _map("changed", OTHER)), "ApplyFailed"),
    "of-others": ((_map("of-others"), _map("theirs")), {}, None, "Conflicts"),
    "adopted": ((secret("adopted", stringData={"plain": OTHER}),), {"conflicts": "force"}, None,
        "Applied"),
    "lost": ((_map("lost"),), {}, _lost, ""),
    "drifted": ((_map("drifted"),), REPORT, _changed, "Applied"),
    "deleted": ((_map("deleted"),), REPORT, _deleted, "Applied"),
    "contended": ((_map("contended"),), {"drift": {"reverts": 1}, "interval": "1s"}, _fought, ""),
    "rewritten": ((_map("rewritten"),), {}, None, "Applied"),
    "pending": ((_map("pending"),), {"approval": "Always"}, None, "PendingApproval"),
    "refused": ((_map("refused"),), {"prune": {"maxPrune": 0}}, _source(_map("refused-now")),
        "PruneRefused"),
    "ruled": ((_map("ruled"), secret("ruled-too")),
        {"readyWhen": RULES, "wait": True, "timeout": "1s"}, None, "NotReady"),
    **{f"code-{code}": ((_map(f"code-{code}"),), {}, None, "") for code in CODES},
}  # fmt: skip
"""What is applied, the spec, what happens then, and why the Bundle is or is not ready after it."""


def test_whole_story_of_a_secret_source_is_untold(
    tenant: Tenant,
    new_tenant: Callable[[], Tenant],
    running: Controller,
    site: Plane,
    site_api: Api,
) -> None:
    """Every fact is told by names: what has changed, who has changed it, what is refused.

    Slow: a fight goes on until its Bundle gives way.
    """
    tenant.put("configmaps", config_map("theirs", OTHER))
    existing = annotated("adopted")
    existing["data"] = {"encoded": encoded(OTHER)}
    tenant.api.create(tenant.path("secrets"), existing, by="kubectl-client-side-apply")
    place = (site, site_api, tenant.namespace, ("CREATE", "UPDATE"))
    maps = ("configmaps",)
    with Webhook(*place, change=_rewriting, resources=maps):
        _begin(tenant, "rewritten")
        tenant.ready("rewritten")
    with Webhook(*place, _forging, resources=maps) as webhook:
        for name in STORIES.keys() - {"rewritten"}:
            _begin(tenant, name)
        eventually(lambda: not _untried(tenant), lambda: "every Bundle is tried")
        later = {name: then for name, (_, _, then, _) in STORIES.items() if then is not None}
        for name, then in later.items():
            then(tenant, name)
        eventually(lambda: _contended(tenant, "contended"), lambda: "a fight that was given up")
        for name in later.keys() - {"contended"}:
            tenant.annotate(name, reconcile_now="again")
        for name in later.keys() - {"contended"}:
            eventually(partial(_handled, tenant, name), partial("{} is tried again".format, name))
        tenant.failed("ruled", "NotReady")  # a wait goes on after the first reconcile
        untold(told(tenant, running))
        served(new_tenant(), running, "beside")
        reasons = {name: tenant.condition(name)[1] for name in STORIES}
        wanted = {name: reason for name, (*_, reason) in STORIES.items() if reason}
        assert {name: reasons[name] for name in wanted} == wanted
        for name, word in (
            ("drifted", "configmap/drifted /data ("),
            ("deleted", "configmap/deleted was deleted"),
            ("contended", "configmap/contended /data: "),
            ("rewritten", "configmap/rewritten .data"),
        ):
            assert word in tenant.condition(name, "Drifted")[2], name
        assert {f"CREATE code-{code}" for code in CODES} <= set(webhook.refused)


def _begin(tenant: Tenant, name: str) -> None:
    """Create the Bundle of a story, and its source."""
    bodies, spec, _, _ = STORIES[name]
    put_source(tenant, f"from-{name}", text(*bodies))
    source = {"secretRefs": [{"name": f"from-{name}"}]}
    tenant.bundle(name, source=source, retryInterval="1h", **spec)


def _handled(tenant: Tenant, name: str) -> bool:
    """Return whether a request to reconcile was handled."""
    return bool(tenant.get(name)["status"].get("lastHandledReconcileAt") == "again")


def _untried(tenant: Tenant) -> list[str]:
    """Return the Bundles whose last change was not tried yet."""
    return [
        bundle["metadata"]["name"]
        for bundle in tenant.api.get(tenant.bundle_path())["items"]
        if bundle["status"]["observedGeneration"] != bundle["metadata"]["generation"]
    ]


@pytest.mark.holds("secret-revision")
def test_revision_has_no_value(tenant: Tenant) -> None:
    """Not even as part of a digest: a short value could be found by trying all."""
    version = put_source(tenant, "src", text(config_map("a", TOKEN)))
    tenant.bundle("web", source={"secretRefs": [{"name": "src"}]})
    revision = tenant.ready("web")["lastAppliedRevision"]
    assert revision == f"sha256:{digest([['src', version]])}"
