"""The verbs that look: what is said of sets, of none, of what cannot be read, and how it ends."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
from pathlib import Path

import pytest

from applyprune import __version__
from applyprune.localplane import Plane
from applyprune.model.events import Event, Finished, Waiting
from applyprune.planning.applyset import SET_ID
from tests.support.accounts import kubeconfig_as, rule
from tests.support.api import Api, AuditTrail, writes
from tests.support.command import Ended, applyprune, start
from tests.support.input_files import write_input
from tests.support.listening import silent_port
from tests.support.objects import DEPLOYMENT, config_map, of_kind, text
from tests.support.processes import is_connected
from tests.support.stage import Stage
from tests.support.waiting import HANG, eventually


def test_status_prints_health_and_drift(plane: Plane, namespace: str, api: Api) -> None:
    """A table, then the sum and the last run; the exit code tells whether all is well."""
    Stage(plane.kubeconfig, namespace).run(config_map("a"), config_map("b"))
    where = ("-n", namespace)
    ended = applyprune("status", "web", *where, kubeconfig=plane.kubeconfig)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    cells = [re.split(r" {3,}", line) for line in lines[:3]]
    assert cells[0] == ["NAMESPACE", "OBJECT", "STATUS", "DRIFTED", "AGE", "MESSAGE"]
    assert cells[1][:4] == [namespace, "configmap/a", "Ready", "no"]
    assert re.fullmatch(r"\d+s", cells[1][4])
    assert lines[3] == f"web -n {namespace}: 2 objects, 2 ready"
    assert re.fullmatch(r"last change: apply by \S+, \d+s ago, exit code 0", lines[4])

    path = f"/api/v1/namespaces/{namespace}/configmaps"
    api.patch(f"{path}/a", {"data": {"key": "\x1b[31m"}}, by="kubectl-patch")
    brief = applyprune("status", "web", *where, kubeconfig=plane.kubeconfig)
    assert "kubectl-patch changed /data/key\n" in brief.out
    assert "has drifted:" not in brief.out
    asked = ("status", "web", *where, "--drift", "--exit-code")
    drifted = applyprune(*asked, kubeconfig=plane.kubeconfig)
    assert (drifted.code, drifted.err) == (1, "")
    assert f"configmap/a -n {namespace} has drifted:\n  /data/key: " in drifted.out
    assert ", by kubectl-patch Update 20" in drifted.out
    assert "\x1b" not in drifted.out
    api("DELETE", f"{path}/b")
    gone = applyprune(*asked, kubeconfig=plane.kubeconfig)
    assert gone.code == 5
    assert "error: 1 of the set's 2 objects is not ready: configmap/b" in gone.err
    nothing = applyprune("status", "shop", *where, kubeconfig=plane.kubeconfig)
    assert (nothing.code, nothing.out) == (2, "")
    assert f"there is no set shop in namespace {namespace}" in nothing.err


def test_status_watch_prints_changes_to_a_pipe(plane: Plane, namespace: str, api: Api) -> None:
    """The table, then a line for each change; SIGINT ends it without an error."""
    Stage(plane.kubeconfig, namespace).run(config_map("a"))
    process = start("status", "web", "-w", "-n", namespace, kubeconfig=plane.kubeconfig)
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        head = [process.stdout.readline() for _ in range(4)]
        assert head[2] == f"web -n {namespace}: 1 object, 1 ready\n"
        path = f"/api/v1/namespaces/{namespace}/configmaps/a"
        api.patch(path, {"data": {"key": "w"}}, by="kubectl-patch")
        told = f"configmap/a -n {namespace} Ready, drifted: kubectl-patch changed /data/key\n"
        assert process.stdout.readline() == told
        process.send_signal(signal.SIGINT)
        assert (process.wait(HANG), process.stderr.read()) == (130, "")


def test_explain_prints_the_decision(plane: Plane, namespace: str, tmp_path: Path) -> None:
    """The object and its place, the verdict, the reasons in order; a wrong input is none."""
    source = write_input(tmp_path / "set.json", [config_map("a")])
    Stage(plane.kubeconfig, namespace).run(config_map("a"), config_map("b"))

    def explained(*words: str | Path, cwd: Path | None = None) -> Ended:
        return applyprune("explain", "web", *words, kubeconfig=plane.kubeconfig, cwd=cwd)

    here = ("-n", namespace)
    given = explained("configmap/a", *here, "-f", source)
    assert (given.code, given.err) == (0, "")
    lines = given.out.splitlines()
    assert lines[0] == f"configmap/a in namespace {namespace} ({source}:1)"
    assert lines[1].startswith("→ Nothing would be sent")
    assert all(line.startswith("  - ") for line in lines[2:])
    # The set's file is that of any run.
    head = f"apiVersion: applyprune.dev/v1alpha1\nkind: Config\nname: web\nnamespace: {namespace}\n"
    (tmp_path / "applyprune.yaml").write_text(f"{head}filename: set.json\nprune: false\n")
    assert "it is in the input: set.json:1" in explained("configmap/a", cwd=tmp_path).out
    assert "--no-prune" in explained("configmap/b", cwd=tmp_path).out
    unknown = explained("deploymnt/x", *here)
    assert (unknown.code, unknown.out) == (2, "")
    assert "Did you mean deployment? Write KIND/NAME" in unknown.err
    source.write_text("{")
    wrong = explained("configmap/a", *here, "-f", source)
    assert (wrong.code, wrong.out) == (2, "")


def test_version_prints_all_versions(plane: Plane, tmp_path: Path) -> None:
    """Our own is told whether or not a server answers; only then the exit code is 0."""
    own = (
        f"applyprune {__version__} (Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()})\n"
    )
    ended = applyprune("version", kubeconfig=plane.kubeconfig)
    assert (ended.code, ended.err) == (0, "")
    assert re.fullmatch(re.escape(own) + r"Kubernetes v1\.\d+\.\d+\S*\n", ended.out)
    client = applyprune("--version", kubeconfig=os.devnull)
    assert (client.code, client.out, client.err) == (0, f"applyprune, version {__version__}\n", "")
    config = tmp_path / "config"
    with silent_port() as port:
        config.write_text(
            f"clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{port}'}}}}]\n"
            "contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
        )
        refused = applyprune("version", kubeconfig=config)
    assert (refused.code, refused.out) == (7, own)
    assert refused.err.startswith("error: ")


@pytest.fixture
def stage(plane: Plane, namespace: str) -> Stage:
    """The sets ``web`` and ``shop`` of one namespace, with an object each."""
    Stage(plane.kubeconfig, namespace, name="shop").run(config_map("s"))
    made = Stage(plane.kubeconfig, namespace)
    made.run(config_map("w"))
    return made


def _call(stage: Stage, *arguments: str) -> Ended:
    return applyprune(*arguments, "-n", stage.namespace, kubeconfig=stage.kubeconfig)


def test_status_shows_several_sets(stage: Stage, api: Api) -> None:
    """Each with its own table; one that cannot be read hides no other, and all count."""
    both = _call(stage, "status", "web", "shop")
    assert (both.code, both.err) == (0, "")
    first, second = both.out.split("\n\n")
    assert "configmap/w" in first
    assert f"web -n {stage.namespace}: 1 object, 1 ready" in first
    assert f"shop -n {stage.namespace}: 1 object, 1 ready" in second
    every = _call(stage, "status", "-A", "-o", "json")
    told = json.loads(every.out)
    mine = [one for one in told["objects"] if one["ref"]["namespace"] == stage.namespace]
    assert {
        (one["ref"]["name"], one["objectStatus"]["name"], one["objectStatus"]["namespace"])
        for one in mine
    } == {("s", "shop", stage.namespace), ("w", "web", stage.namespace)}
    api("DELETE", stage.path("w"))
    late = _call(stage, "status", "web", "shop")
    assert late.code == 5
    assert f"1 of the 2 sets failed: web -n {stage.namespace}" in late.err
    wrong = _call(stage, "status", "nothing", "shop")
    assert wrong.code == 3
    assert "configmap/s" in wrong.out
    assert "there is no set nothing" in wrong.err
    api.patch(stage.path("s"), {"data": {"key": "x"}})
    assert _call(stage, "status", "shop", "shop", "--exit-code").code == 1
    stage.run(config_map("w"))
    assert _call(stage, "status", "web", "shop", "--exit-code").code == 1


def test_wait_for_the_end_of_a_set(stage: Stage, api: Api) -> None:
    """Until the last object is gone, whoever deletes it; what was orphaned does not count."""
    held = config_map("held", finalizers=["example.com/hold"])
    api.create(stage.path(), config_map("adopted"))
    stage.run(config_map("w"), held, config_map("adopted"))
    late = _call(stage, "status", "web", "--wait=deleted", "--timeout", "1s")
    assert late.code == 5
    assert "the set web is not gone" in late.err
    waits = start(
        *("status", "web", "--wait=deleted", "--timeout", "1h", "-n", stage.namespace),
        kubeconfig=stage.kubeconfig,
    )
    with waits:
        # It has begun when it is connected; the deletion takes a second at least.
        eventually(lambda: is_connected(waits.pid), lambda: "the connection")
        assert _call(stage, "delete", "web", "--yes", "--timeout", "1s").code == 5
        assert waits.poll() is None
        api.patch(stage.path("held"), {"metadata": {"finalizers": None}})
        assert _call(stage, "delete", "web", "--yes").code == 0
        out, err = waits.communicate(timeout=HANG)
    assert (waits.returncode, out) == (0, "")
    # On a pipe, a long wait says now and then what it waits for.
    assert all(line.startswith("waiting until ") for line in err.splitlines()), err
    assert api.exists(f"/api/v1/namespaces/{stage.namespace}/configmaps/adopted")
    again = _call(stage, "status", "web", "--wait=deleted")
    assert again.code == 0
    assert "there is no set web" in again.err


@pytest.mark.holds("unknown-is-not-gone")
def test_end_of_a_set_that_cannot_be_read_is_unknown(
    stage: Stage, plane: Plane, api: Api, tmp_path: Path
) -> None:
    """Whoever may not read an object does not know that it is gone."""
    stage.run(config_map("w"), DEPLOYMENT)
    config = kubeconfig_as(
        "poor", plane, api, stage.namespace, tmp_path, rule("", ["configmaps"], ["get", "list"])
    )
    removed: list[Event] = []

    def remove(event: Event) -> None:
        if isinstance(event, Waiting) and not removed:
            removed.append(event)
            for name in ("applyprune-web", "w"):
                api("DELETE", stage.path(name))

    story = Stage(config, stage.namespace, seen=remove).status(deleted=True, timeout=3600.0)
    (end,) = (one for one in story.events if isinstance(one, Finished))
    assert end.exit_code == 3
    assert "it is unknown whether deployment.apps/web still exists" in str(end.problem)


RUBBISH = ("applyprune-a.b", "applyprune-no-set-at-all", f"applyprune-{'x' * 80}", "applyprune")


def test_unreadable_inventory_hides_no_other_set(plane: Plane, api: Api, namespace: str) -> None:
    """It has its own line and a warning; what only looks like an inventory has neither."""
    for name in ("shop", "web", "zoo"):
        Stage(plane.kubeconfig, namespace, name=name).run(config_map(name))
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    body = api.get(f"{path}/applyprune-shop")
    body["data"]["header"] = "[]"
    assert api("PUT", f"{path}/applyprune-shop", body)[0] == 200
    for name in RUBBISH:
        labels = {SET_ID: "applyset-nobody-v1"}
        status, reply = api("POST", path, config_map(name, labels=labels))
        assert status == 201, reply
    for scope in (("-A",),):
        ended = applyprune("list", *scope, kubeconfig=plane.kubeconfig)
        assert ended.code == 0, ended.err
        rows = [line.split() for line in ended.out.splitlines()]
        assert [row[:3] for row in rows if row[0] == namespace] == [
            [namespace, "shop", "?"],
            [namespace, "web", "1"],
            [namespace, "zoo", "1"],
        ]
        (warning,) = [line for line in ended.err.splitlines() if namespace in line][:1]
        assert warning.startswith("warning: the inventory of shop in namespace")
        assert f"applyprune inventory check shop -n {namespace}" in ended.err
        assert not [name for name in RUBBISH if name in ended.out + ended.err and "-" in name]


MISSING: tuple[tuple[str, ...], ...] = (
    ("status", "web"),
    ("explain", "web", "configmap/a"),
    ("history", "web"),
    ("inventory", "repair", "web", "--yes"),
    ("prune", "web", "-f", "-"),
)


def test_missing_set_is_reported(plane: Plane, namespace: str, audit: AuditTrail) -> None:
    """Exit code 2: a mistyped name must not pass for done; the set that may be meant is named."""
    Stage(plane.kubeconfig, namespace, name="wep").run(config_map("a"))
    audit.restart()
    given = text(config_map("a"))
    for line in MISSING:
        ended = applyprune(*line, "-n", namespace, kubeconfig=plane.kubeconfig, stdin=given)
        assert ended.code == 2, ended
        assert f"there is no set web in namespace {namespace}\n" in ended.err, line
        assert "\n  Did you mean wep" in ended.err, line
        assert "\n  To list all sets: applyprune list -A" in ended.err, line
    assert writes(audit) == []


def test_deleting_a_missing_set_is_no_failure(plane: Plane, namespace: str) -> None:
    """A pipeline may do it twice; that there is none is said."""
    where = ("-n", namespace)
    ended = applyprune("delete", "web", "--yes", *where, kubeconfig=plane.kubeconfig)
    assert ended.code == 0, ended
    assert f"warning: there is no set web in namespace {namespace}" in ended.err


def test_namespace_that_does_not_exist_names_a_similar_one(plane: Plane, namespace: str) -> None:
    line = ("apply", "web", "-n", f"{namespace}x", "-f", "-")
    missing = applyprune(*line, kubeconfig=plane.kubeconfig, stdin=text(config_map("a")))
    assert missing.code == 2
    assert f"the namespace {namespace}x does not exist" in missing.err
    assert f"  Did you mean the namespace {namespace}?\n" in missing.err


def test_missing_right_names_the_command_that_prints_the_roles(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """For the account that was used; at the first request, and once for all objects."""
    config = json.loads(plane.kubeconfig.read_text())
    for user in config["users"]:
        user["user"]["as"] = f"system:serviceaccount:{namespace}:applyprune"
    account = tmp_path / "kubeconfig"
    account.write_text(json.dumps(config))
    command = f"applyprune rbac web -n {namespace} -f PATH --account {namespace}/applyprune\n"
    for line in (("status", "web"), ("apply", "web", "-f", "-")):
        given = text(config_map("a"))
        refused = applyprune(*line, "-n", namespace, kubeconfig=account, stdin=given)
        assert refused.code == 7
        assert refused.err.count(command) == 1, refused.err
    for scope, offers in (("-A",), True), ((), False):
        refused = applyprune("list", *scope, kubeconfig=account)
        offered = "For one namespace: applyprune list -n NS" in refused.err
        assert (refused.code, offered) == (7, offers)


def test_missing_right_for_objects_names_the_command_once(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """Not for each object; who may not grant what a role says is told why."""
    rbac = "rbac.authorization.k8s.io"
    rules = (
        rule("", ["configmaps"], ["*"]),
        rule(rbac, ["roles"], ["get", "list", "watch", "create", "patch"]),
    )
    account = kubeconfig_as("eve", plane, api, namespace, tmp_path, *rules)
    role = of_kind("Role", "more", api=f"{rbac}/v1", rules=[rule("", ["secrets"], ["get"])])
    services = (of_kind("Service", name, spec={"ports": [{"port": 80}]}) for name in "ab")
    line = ("apply", "web", "-n", namespace, "-f", "-")
    given = text(config_map("a"), role, *services)
    refused = applyprune(*line, kubeconfig=account, stdin=given)
    assert refused.code != 0
    assert refused.err.count("applyprune rbac web") == 1, refused.err
    assert "Nobody may grant rights that they do not have" in refused.err
