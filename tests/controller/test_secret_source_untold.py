"""Whatever goes wrong with what a Secret source contains: its values are told nowhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from applyprune.planning.fields.normalize import digest
from tests.support.canaries import (
    BROKEN_OBJECTS,
    BROKEN_TEXTS,
    NUMBER,
    OTHER,
    REFUSED,
    TOKEN,
    encoded,
    untold,
)
from tests.support.objects import CRON_JOB, DEPLOYMENT, SERVICE, config_map, text
from tests.support.waiting import eventually
from tests.support.webhook import Webhook

if TYPE_CHECKING:
    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.controller import Controller, Tenant

HIDDEN = "details are not shown, because the source is a Secret"
POD = {
    "containers": [{"name": "a", "image": TOKEN, "envFrom": [{"configMapRef": {"name": TOKEN}}]}]
}
LABELS = {"app": TOKEN}


def like(body: dict[str, Any], **top: Any) -> str:
    """Return a body with other fields at its top."""
    return json.dumps({**body, **top})


def noted(**annotations: str) -> str:
    """Return a ConfigMap with a value, and annotations that a run reads."""
    found = {key.replace("__", "/").replace("_", "-"): told for key, told in annotations.items()}
    return json.dumps(config_map("key", TOKEN, annotations=found))


OF_OTHER_KINDS: dict[str, str] = {
    "nothing is wrong": json.dumps(config_map("key", TOKEN)),
    "an address": like(SERVICE, spec={**SERVICE["spec"], "clusterIP": TOKEN}),
    "a port": like(SERVICE, spec={"ports": [{"port": NUMBER}]}),
    "a selector that another label contradicts": like(
        DEPLOYMENT,
        spec={
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": {"app": OTHER}}, "spec": POD},
        },
    ),
    "a Pod that never runs": json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "key"}, "spec": POD}
    ),
    "a label": json.dumps(config_map("key", labels={"a": f"{TOKEN} b"})),
    "a schedule": like(CRON_JOB, spec={**CRON_JOB["spec"], "schedule": TOKEN}),
    "a wave": noted(applyprune_dev__wave=TOKEN),
    "a rule": noted(applyprune_dev__ready_when=f"self.data.{TOKEN}("),
    "a rule that fails": noted(applyprune_dev__ready_when="int(self.data.key) > 0"),
    "a dependency": noted(config_kubernetes_io__depends_on=TOKEN),
    "a mark for conflicts": noted(applyprune_dev__conflicts=TOKEN),
    "a mark for prunes": noted(applyprune_dev__prune=TOKEN),
    "fields to ignore": noted(applyprune_dev__ignore_fields=TOKEN),
    "an annotation of ours that is unknown": noted(**{f"applyprune_dev__{TOKEN}": TOKEN}),
    "a hook": noted(helm_sh__hook=TOKEN),
    "a name that is none": json.dumps(config_map(f"{TOKEN} X")),
    "a namespace that is none": json.dumps(config_map("key", namespace=f"{TOKEN}_x")),
    "a kind that is none": like(config_map("key", TOKEN), kind=f"Tk{TOKEN}"),
    "a version that is none": like(config_map("key", TOKEN), apiVersion=f"{TOKEN}.io/v1"),
    "a field that is none": like(SERVICE, spec={**SERVICE["spec"], TOKEN: TOKEN}),
    "a key that is none": like(config_map("key"), data={f"{TOKEN} x": TOKEN}),
    "a value of another type": like(config_map("key"), data={TOKEN: NUMBER}),
    "twice the same object": text(config_map("key", TOKEN), config_map("key", OTHER)),
}


def _cases() -> dict[str, str]:
    """Return the texts of sources; those about a Secret are about a ConfigMap here."""
    found = {
        name: body.replace("kind: Secret", "kind: ConfigMap") for name, body in BROKEN_TEXTS.items()
    }
    objects = {**BROKEN_OBJECTS, **REFUSED}
    del objects["too large"]  # for a source, too
    for name, body in objects.items():
        found[name] = json.dumps({**body, "kind": "ConfigMap"})
    found |= OF_OTHER_KINDS
    return found


def put_source(tenant: Tenant, name: str, content: str) -> str:
    """Store a Secret with manifests; return its resourceVersion."""
    meta = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
    stored = tenant.put("secrets", {**meta, "data": {"one": encoded(content)}})
    return str(stored["metadata"]["resourceVersion"])


def told(tenant: Tenant, running: Controller) -> str:
    """Return everything that the controller says anywhere."""
    bundles = tenant.api.get(tenant.bundle_path())["items"]
    events = [
        one
        for one in tenant.api.get(tenant.path("events"))["items"]
        if one["involvedObject"]["kind"] == "Bundle"
    ]
    statuses = [bundle.get("status") for bundle in bundles]
    return "\n".join(
        [json.dumps([statuses, events]), running.log.read_text(), running.ask("/metrics")[1]]
    )


def test_content_of_a_secret_source_is_untold(tenant: Tenant, running: Controller) -> None:
    """In every field, of every kind, readable or not: in status, Events, log and metrics."""
    cases = _cases()
    assert len(cases) >= 51
    names = {name: f"b-{number}" for number, name in enumerate(cases)}
    for name, content in cases.items():
        bundle = names[name]
        own = content.replace('"name": "key"', f'"name": "key-{bundle}"')
        put_source(tenant, bundle, own)
        tenant.bundle(
            bundle,
            source={"secretRefs": [{"name": bundle}]},
            wait=True,
            timeout="1s",
            retryInterval="10m",
        )

    def pending() -> list[str]:
        bundles = tenant.api.get(tenant.bundle_path())["items"]
        return [
            bundle["metadata"]["name"]
            for bundle in bundles
            if bundle["status"]["observedGeneration"] != bundle["metadata"]["generation"]
        ]

    eventually(lambda: not pending(), "every Bundle is tried", within=60)
    untold(told(tenant, running))
    # Where it is wrong is told nevertheless.
    for name in BROKEN_TEXTS:
        status, reason, message = tenant.condition(names[name])
        assert (status, reason) == ("False", "InvalidSource"), name
        assert f"secret/{names[name]}[one]" in message
        assert HIDDEN in message
    failures = tenant.failures(names["a schedule"])["cronjob.batch/c"]
    assert "at spec.schedule" in failures
    assert tenant.condition(names["nothing is wrong"])[0] == "True"


def _quoting(request: dict[str, Any]) -> dict[str, Any] | None:
    """Refuse two objects, and quote them whole and in part."""
    if (request["operation"], request["name"]) not in {("CREATE", "denied"), ("DELETE", "kept")}:
        return None
    body = request["object"] or request["oldObject"]
    value = body["data"]["key"]
    return {
        "code": 422,
        "message": f"never {json.dumps(body)}, nor {value[:12]}, nor {value[::-1]}",
    }


def _warning(request: dict[str, Any]) -> list[str]:
    """Warn with the whole object."""
    return [f"look at {json.dumps(request['object'] or request['oldObject'])}"]


def test_refusals_and_conflicts_of_a_secret_source_are_untold(
    tenant: Tenant, running: Controller, site: Plane, site_api: Api
) -> None:
    """A webhook quotes what it refuses, and a conflict has a value on each side."""
    tenant.put("configmaps", config_map("theirs", OTHER))
    put_source(tenant, "src", text(config_map("kept", TOKEN)))
    source = {"secretRefs": [{"name": "src"}]}
    operations = ("CREATE", "DELETE")
    with Webhook(
        site, site_api, tenant.namespace, operations, _quoting, warns=_warning,
        resources=("configmaps",),
    ) as webhook:  # fmt: skip
        tenant.bundle("web", source=source)
        tenant.ready("web")
        eventually(lambda: any(one[1] == "ServerWarning" for one in tenant.events("web")))
        warnings = [one[2] for one in tenant.events("web") if one[1] == "ServerWarning"]
        assert f"the API server warns about it; {HIDDEN}" in warnings[0]
        bodies = [config_map(name, TOKEN) for name in ("kept", "denied")]
        put_source(tenant, "src", text(*bodies))
        tenant.failed("web", "ApplyFailed")
        assert (
            'admission webhook "missing.example.com" denied the request'
            in (tenant.failures("web")["configmap/denied"])
        )
        put_source(tenant, "src", text(config_map("kept", TOKEN), config_map("theirs", TOKEN)))
        tenant.failed("web", "Conflicts")
        conflict = tenant.failures("web")["configmap/theirs"]
        assert conflict.endswith("tenant (Apply) owns .data"), conflict
        put_source(tenant, "src", text(config_map("kept", TOKEN)))
        tenant.ready("web")
        tenant.delete("web")
        eventually(lambda: tenant.condition("web")[1] == "RemovalFailed")
        eventually(lambda: any(one[1] == "RemovalFailed" for one in tenant.events("web")))
        untold(told(tenant, running))
        assert {"CREATE denied", "DELETE kept"} <= set(webhook.refused)
    tenant.gone("web", within=30)


def test_revision_has_no_value(tenant: Tenant) -> None:
    """Not even as part of a digest: a short value could be found by trying all."""
    version = put_source(tenant, "src", text(config_map("a", TOKEN)))
    tenant.bundle("web", source={"secretRefs": [{"name": "src"}]})
    revision = tenant.ready("web")["lastAppliedRevision"]
    assert revision == f"sha256:{digest([['src', version]])}"
