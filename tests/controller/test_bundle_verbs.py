"""``applyprune bundle``: each verb beside a running controller."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from applyprune import Bundle, connect, list_bundles
from tests.support.accounts import kubeconfig_as, rule
from tests.support.command import Ended, applyprune, start
from tests.support.completion import offered
from tests.support.controller import SYSTEM_NAMESPACE
from tests.support.kubelet import Kubelet
from tests.support.objects import config_map
from tests.support.output.schemas import complaints
from tests.support.pseudo_terminal import ANSWER, on_terminal
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.controller import Controller, Tenant
    from tests.support.plane import Kubectl

SECRET_VALUE = "hunter2-in-the-source"
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "s"},
    "stringData": {"password": SECRET_VALUE},
}
LABELS = {"app.kubernetes.io/name": "applyprune", "app.kubernetes.io/component": "controller"}


@pytest.fixture
def verb(site: Plane, tenant: Tenant) -> Callable[..., Ended]:
    """Call a verb about a Bundle of the tenant."""

    def call(name: str, *arguments: str, kubeconfig: Path | None = None) -> Ended:
        where = ("-n", tenant.namespace)
        config = kubeconfig or site.kubeconfig
        return applyprune("bundle", name, *arguments, *where, kubeconfig=config)

    return call


def document(ended: Ended) -> dict[str, Any]:
    """Return the document of ``-o json``."""
    found: dict[str, Any] = json.loads(ended.out)
    assert complaints("document", found) == []
    return found


def test_list_and_show_tell_what_the_controller_reports(
    site: Plane, tenant: Tenant, verb: Callable[..., Ended], kubectl: Kubectl
) -> None:
    """In columns, in detail, as JSON and as names; never the text of the source."""
    none = verb("list")
    assert (none.code, none.out) == (0, "")
    assert f"no Bundles in {tenant.namespace}" in none.err
    tenant.put("configmaps", {**config_map("src"), "data": {"a.yaml": json.dumps(config_map("a"))}})
    tenant.bundle("good", source={"configMapRefs": [{"name": "src", "keys": ["a.yaml"]}]})
    tenant.bundle("secret", SECRET, config_map("b"))
    tenant.bundle("waits", source={"configMapRefs": [{"name": "missing"}]})
    for name in ("good", "secret"):
        tenant.ready(name)
    tenant.failed("waits", "SourceNotFound")
    rows = [line.split() for line in verb("list").out.splitlines()]
    revision = tenant.get("good")["status"]["lastAppliedRevision"].removeprefix("sha256:")[:12]
    assert rows[0][:5] == ["NAMESPACE", "NAME", "READY", "STATUS", "REVISION"]
    assert rows[1][1:5] == ["good", "True", "Applied", revision]
    assert rows[1][6] == "1"
    assert rows[3][1:5] == ["waits", "False", "SourceNotFound", "-"]
    assert verb("list", "-o", "name").out.split() == [
        f"bundle.applyprune.dev/{name}" for name in ("good", "secret", "waits")
    ]
    everywhere = applyprune("bundle", "list", "-A", "-o", "json", kubeconfig=site.kubeconfig)
    named = [(one["namespace"], one["name"]) for one in document(everywhere)["bundles"]]
    assert (tenant.namespace, "good") in named
    assert named == sorted(named)
    shown = verb("show", "good")
    assert shown.out.splitlines()[0] == f"good -n {tenant.namespace}: ready, Applied"
    assert "source: configmap/src (a.yaml)\n" in shown.out
    assert "inventory: configmap/applyprune-good, set good\nobjects: 1\n" in shown.out
    assert "last change: " in shown.out
    assert re.search(r"^Ready +True +\d+s +Applied$", shown.out, re.MULTILINE)
    (told,) = document(verb("show", "secret", "-o", "json"))["bundles"]
    assert told["source"] == ["spec.source.inline"]
    assert (told["objects"], told["lastChange"]["created"]) == (2, 2)
    for ended in (verb("show", "secret"), verb("show", "secret", "-o", "jsonl"), everywhere):
        assert SECRET_VALUE not in ended.out + ended.err
    assert "the source is incomplete" in verb("show", "waits").out
    missing = verb("show", "nobody")
    assert (missing.code, missing.out) == (2, "")
    assert f"there is no Bundle nobody in namespace {tenant.namespace}" in missing.err
    # The same columns in kubectl, by each of its names.
    heads = {
        kubectl("get", word, "-n", tenant.namespace, plane=site).splitlines()[0]
        for word in ("bundles", "bdl", "applyprune")
    }
    (head,) = heads
    assert head.split() == ["NAME", "READY", "STATUS", "DRIFT", "AGE", "REVISION"]
    wide = kubectl("get", "bdl", "-o", "wide", "-n", tenant.namespace, plane=site).splitlines()[0]
    assert {"OBJECTS", "SUSPENDED", "APPROVE", "MESSAGE"} <= set(wide.split())
    config, here = site.kubeconfig, f"-n {tenant.namespace}"
    # On a busy machine the cluster may answer too late for one press of the key.
    press = partial(offered, f"applyprune bundle show {here} ", config)
    assert eventually(press, lambda: "completions") == ["good", "secret", "waits"]
    press = partial(offered, f"applyprune bundle reconcile {here} g", config)
    assert eventually(press, lambda: "completions") == ["good"]
    assert "suspend" in offered("applyprune bundle s", "/nowhere")


def test_suspended_bundle_is_left_alone_until_it_is_resumed(
    site: Plane,
    tenant: Tenant,
    verb: Callable[..., Ended],
    kubectl: Kubectl,
    tmp_path: Path,
) -> None:
    """And a later `kubectl apply` of the Bundle does not stumble over either."""
    tenant.bundle("web", config_map("a", "one"))
    tenant.ready("web")
    first = verb("suspend", "web")
    assert first.out == (f"bundle.applyprune.dev/web -n {tenant.namespace} updated (suspended)\n")
    assert verb("suspend", "web", "-o", "name").out == "bundle.applyprune.dev/web\n"
    assert tenant.get("web")["spec"]["suspend"] is True
    tenant.bundle("web", config_map("a", "two"))
    eventually(
        lambda: tenant.condition("web", "Reconciling")[1] == "Suspended", lambda: "it is seen"
    )
    assert tenant.value("a") == "one"
    assert verb("list").out.splitlines()[1].split()[3] == "Suspended"
    assert ", suspended" in verb("show", "web").out.splitlines()[0]
    refused = verb("reconcile", "web", "--wait")
    assert refused.code == 2
    assert "the Bundle web is suspended" in refused.err
    assert verb("resume", "web").code == 0
    eventually(lambda: tenant.value("a") == "two", lambda: "the new source")
    again = verb("resume", "web", "-o", "json")
    assert [one["outcome"] for one in document(again)["objects"]] == ["unchanged"]
    # By server-side apply of the same file, with and without the field; and client-side.
    spec = {"source": {"inline": json.dumps(config_map("a", "three"))}}
    body = {
        "apiVersion": "applyprune.dev/v1alpha1",
        "kind": "Bundle",
        "metadata": {"name": "web"},
        "spec": spec,
    }
    file = tmp_path / "bundle.json"
    for fields, how in (({}, True), ({"suspend": False}, True), ({"suspend": False}, False)):
        file.write_text(json.dumps({**body, "spec": {**spec, **fields}}))
        options = ("--server-side", "--force-conflicts=false", "--field-manager=tenant")
        arguments = ("apply", "-n", tenant.namespace, "-f", file, *(options if how else ()))
        kubectl(*arguments, plane=site)
        assert verb("suspend", "web").code == 0
        assert verb("resume", "web").code == 0
    eventually(lambda: tenant.value("a") == "three", lambda: "what was applied")


def test_reconcile_waits_for_the_controller(tenant: Tenant, verb: Callable[..., Ended]) -> None:
    """It is done, and all is ready; or it says why not, with the exit code of `apply`."""
    tenant.bundle("web", config_map("a"))
    tenant.ready("web")
    tenant.api("DELETE", tenant.path("configmaps", "a"))
    asked = verb("reconcile", "web", "--wait", "-o", "jsonl")
    assert asked.code == 0, asked
    events = [json.loads(line) for line in asked.out.splitlines()]
    assert [found for one in events for found in complaints("events", one)] == []
    assert [one["event"] for one in events if one["event"] != "waiting"] == [
        "output",
        "object",
        "readiness",
        "finished",
    ]
    assert tenant.exists("a") == [True]
    found = tenant.get("web")
    stamp = found["metadata"]["annotations"]["applyprune.dev/reconcile-now"]
    assert found["status"]["lastHandledReconcileAt"] == stamp
    at_once = verb("reconcile", "web")
    assert (at_once.code, at_once.out.split()[3:]) == (
        0,
        ["updated", "(a", "reconcile", "was", "requested)"],
    )


@pytest.mark.parametrize(
    ("name", "code", "words", "options"),
    [
        ("missing", 5, "SourceNotFound: ", ("--timeout", "6s")),
        ("missing", 5, "SourceNotFound: ", ("--fail-fast", "--timeout", "1h")),
        ("invalid", 2, "InvalidSource: ", ("--timeout", "1h")),
        ("conflict", 4, "Conflicts: ", ("--fail-fast", "--timeout", "1h")),
        ("pending", 6, "PendingApproval: ", ("--timeout", "1h")),
    ],
)
def test_reconcile_that_fails_says_why(
    tenant: Tenant,
    verb: Callable[..., Ended],
    name: str,
    code: int,
    words: str,
    options: tuple[str, ...],
) -> None:
    """What a retry may repair is waited for; what needs somebody ends the wait."""
    if name == "missing":
        tenant.bundle(name, source={"configMapRefs": [{"name": "nowhere"}]})
        tenant.failed(name, "SourceNotFound")
    elif name == "invalid":
        tenant.bundle(name, source={"inline": "a: [unfinished"})
    elif name == "conflict":
        tenant.put("configmaps", config_map("taken", "theirs"))
        tenant.bundle(name, config_map("taken", "ours"), adopt="all")
    else:
        tenant.bundle(name, config_map("a"), approval="Always")
    ended = verb("reconcile", name, "--wait", *options)
    assert ended.code == code, ended
    assert f"the Bundle {name} in namespace {tenant.namespace} is not ready" in ended.err
    assert words in ended.err
    assert f"applyprune bundle show {name} -n {tenant.namespace}" in ended.err


@pytest.mark.holds("approve-shown-digest")
def test_approval_is_for_exactly_what_was_shown(
    site: Plane, tenant: Tenant, verb: Callable[..., Ended]
) -> None:
    """On a terminal after a question; in a script by the digest that was reviewed."""
    tenant.bundle("web", config_map("a"), config_map("b"), approval="Prune")
    tenant.ready("web")
    nothing = verb("approve", "web", "--yes")
    assert nothing.code == 2
    assert "nothing of the Bundle web waits for an approval" in nothing.err
    tenant.bundle("web", config_map("a"), approval="Prune")
    tenant.failed("web", "PendingApproval")
    digest = tenant.get("web")["status"]["pendingPlan"]["digest"]
    script = verb("approve", "web")
    assert script.code == 2
    assert f"Add --digest {digest}" in script.err
    other = verb("approve", "web", "--digest", f"sha256:{'0' * 64}")
    assert other.code == 8
    assert f"the digest of its pending plan is {digest}" in other.err
    assert verb("approve", "web", "--digest", "sha256:1").code == 2
    shown = verb("show", "web").out
    assert f"  configmap/b: prune\n  digest: {digest}\n" in shown
    assert f"approve it: applyprune bundle approve web -n {tenant.namespace}" in shown
    arguments = ("bundle", "approve", "web", "-n", tenant.namespace)
    with on_terminal(*arguments, kubeconfig=site.kubeconfig) as terminal:
        asked = terminal.read_until(ANSWER)
        assert "configmap/b: prune" in asked
        assert digest in asked
        terminal.type("n\n")
        assert terminal.ended() == 1
    assert "annotations" not in tenant.get("web")["metadata"]
    assert tenant.exists("b") == [True]
    with on_terminal(*arguments, kubeconfig=site.kubeconfig) as terminal:
        terminal.read_until(ANSWER)
        # Another plan comes while the user reads: it is not approved.
        tenant.bundle("web", config_map("c"), approval="Prune", prune={"maxPrune": "100%"})
        eventually(
            lambda: tenant.get("web")["status"].get("pendingPlan", {}).get("digest") != digest,
            lambda: "another plan",
        )
        terminal.type("y\n")
        assert terminal.ended() == 8
        assert "waits for the approval of another plan" in terminal.shown
    assert tenant.exists("a", "b") == [True, True]
    with on_terminal(*arguments, kubeconfig=site.kubeconfig) as terminal:
        terminal.read_until(ANSWER)
        terminal.type("y\n")
        assert terminal.ended() == 0
    tenant.ready("web")
    assert tenant.exists("a", "b", "c") == [False, False, True]
    tenant.bundle("web", config_map("d"), approval="Prune", prune={"maxPrune": "100%"})
    tenant.failed("web", "PendingApproval")
    assert verb("approve", "web", "--yes").code == 0
    tenant.ready("web")


def test_tree_shows_bundles_in_bundles(tenant: Tenant, verb: Callable[..., Ended]) -> None:
    """Also of a Bundle that lists itself, once; and what cannot be read is said."""
    inner = {
        "apiVersion": "applyprune.dev/v1alpha1",
        "kind": "Bundle",
        "metadata": {"name": "inner"},
        "spec": {"source": {"inline": json.dumps(config_map("deep"))}},
    }
    broken = {**inner, "metadata": {"name": "broken"}, "spec": {"source": {"inline": "a: [b"}}}
    tenant.bundle("outer", inner, broken, config_map("flat"))
    tenant.ready("outer")
    tenant.ready("inner")
    tenant.failed("broken", "InvalidSource")
    told = verb("tree", "outer")
    assert told.code == 5  # an object of it is not ready
    lines = [" ".join(line.split()[:-1]) for line in told.out.splitlines()]
    assert "│ └─ configmap/deep - Ready -" in lines or "└─ configmap/deep - Ready -" in lines
    assert any("bundle.applyprune.dev/inner" in line for line in lines)
    assert "its objects cannot be read: there is no set broken" in told.out
    trees = {
        one["ref"]["name"]: one["objectStatus"]["tree"]
        for one in document(verb("tree", "outer", "-o", "json"))["objects"]
    }
    assert [one["ref"]["name"] for one in trees["inner"]["owned"]] == ["deep"]
    assert trees["flat"]["owned"] == []


@pytest.fixture
def pods(
    site: Plane, site_api: Api, running: Controller, tmp_path: Path
) -> Iterator[dict[str, Path]]:
    """The log of each Pod of a Deployment: the real log of the controller, and that of another."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}
    assert site_api("POST", "/api/v1/namespaces", body)[0] in {201, 409}
    account = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/serviceaccounts/default"
    eventually(lambda: site_api.exists(account), lambda: "its account")
    files = {"first": running.log, "second": tmp_path / "second"}
    files["second"].write_text("")
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods"
    with Kubelet(site, site_api, "node", {}, files=files, has_kwok=False):
        for name in files:
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "labels": LABELS},
                "spec": {
                    "nodeName": "node",
                    "containers": [{"name": "controller", "image": "applyprune:1"}],
                },
            }
            assert site_api("POST", path, pod)[0] == 201
        yield files
        for name in files:
            site_api("DELETE", f"{path}/{name}?gracePeriodSeconds=0")


def line(tenant: Tenant, message: str, at: str = "2020-01-01T00:00:00.000+00:00") -> str:
    """Return a line that another replica has logged about the tenant's Bundle."""
    told = {"time": at, "level": "info", "message": message}
    return json.dumps({**told, "namespace": tenant.namespace, "bundle": "web"}) + "\n"


def test_logs_are_those_of_all_replicas(
    site: Plane,
    tenant: Tenant,
    verb: Callable[..., Ended],
    pods: dict[str, Path],
    tmp_path: Path,
) -> None:
    """Only about this Bundle and its set, by time; followed until Ctrl-C, each line once."""
    tenant.bundle("other", config_map("b"))
    tenant.bundle("web", config_map("a"), inventoryName="shop")
    tenant.ready("web")
    tenant.ready("other")
    pods["second"].write_text(line(tenant, "an old line") + "not JSON\n[]\n")
    told = verb("logs", "web")
    assert told.code == 0, told
    lines = told.out.splitlines()
    assert lines[0].startswith("2020-01-01T00:00:00.000+00:00 info an old line")
    assert f"set={tenant.namespace}/shop" in told.out
    assert "object=configmap/a" in told.out
    assert "other" not in told.out
    assert [one.split()[0] for one in lines] == sorted(one.split()[0] for one in lines)
    recent = document(verb("logs", "web", "--since", "1h", "-o", "json"))["logs"]
    assert {one["pod"]["name"] for one in recent} == {"first"}
    assert recent[-1]["message"] == "bundle reconciled"
    out = tmp_path / "out"
    arguments = ("bundle", "logs", "web", "-n", tenant.namespace, "--follow", "-o", f"jsonl={out}")
    with start(*arguments, kubeconfig=site.kubeconfig) as following:

        def seen(message: str, count: int) -> bool:
            text = out.read_text() if out.exists() else ""
            return text.count(f'"message":"{message}"') == count

        eventually(partial(seen, "an old line", 1), lambda: "what was there")
        with pods["second"].open("a") as file:
            file.write(line(tenant, "a new line", "2030-01-01T00:00:00.000+00:00"))
        eventually(partial(seen, "a new line", 1), lambda: "what comes")
        tenant.annotate("web", reconcile_now="again")
        before = out.read_text().count('"message":"bundle reconciled"')
        tenant.bundle("web", config_map("a", "new"), inventoryName="shop")
        eventually(
            lambda: out.read_text().count('"message":"bundle reconciled"') > before, lambda: "more"
        )
        following.send_signal(2)
        assert following.wait(HANG) == 130
    assert seen("a new line", 1)
    elsewhere = verb("logs", "web", "--controller-namespace", tenant.namespace)
    assert elsewhere.code == 2
    assert f"no controller runs in the namespace {tenant.namespace}" in elsewhere.err


def test_logs_name_the_missing_right(
    site: Plane, site_api: Api, tenant: Tenant, verb: Callable[..., Ended], tmp_path: Path
) -> None:
    """Who may edit a namespace need not be allowed to read the controller's Pods."""
    rules = (rule("", ["configmaps"], ["list"]), rule("applyprune.dev", ["bundles"], ["get"]))
    name = f"ann-{tenant.namespace}"
    config = kubeconfig_as(name, site, site_api, tenant.namespace, tmp_path, *rules)
    tenant.bundle("web", config_map("a"), suspend=True)
    ended = verb("logs", "web", kubeconfig=config)
    assert ended.code == 7
    assert f'cannot list resource "pods" in API group "" in the namespace "{SYSTEM_NAMESPACE}"' in (
        ended.err
    )
    assert "needs the rights to list pods and to get pods/log" in " ".join(ended.err.split())
    refused = verb("suspend", "web", "-q", kubeconfig=config)
    assert refused.code == 0  # it is suspended already
    refused = verb("resume", "web", kubeconfig=config)
    assert refused.code == 7
    assert 'cannot patch resource "bundles"' in refused.err


def test_python_has_the_same_calls(site: Plane, tenant: Tenant) -> None:
    """With values instead of text."""
    tenant.bundle("web", config_map("a"))
    tenant.ready("web")
    with connect(kubeconfig=site.kubeconfig, namespace=tenant.namespace) as cluster:
        web = Bundle("web", cluster=cluster)
        (listed,) = list_bundles(cluster)
        assert (listed.name, listed.ready, listed.objects) == ("web", "True", 1)
        assert [web.suspend(), web.suspend(), web.resume(), web.resume()] == [
            True,
            False,
            True,
            False,
        ]
        report = web.reconcile(wait=True, timeout=HANG)
        assert report.exit_code == 0
        assert [one.readiness.message for one in report.objects if one.readiness] == [
            "1 object applied"
        ]
        assert [one.ref.name for one in web.tree().objects] == ["a"]
        # A Bundle that was replaced meanwhile is another one.
        before = web.status()
        tenant.delete("web")
        tenant.gone("web")
        tenant.bundle("web", config_map("a"))
        assert web.status().uid != before.uid
