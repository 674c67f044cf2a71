"""``-o``: every format of real runs, those that fail, are interrupted or killed as well."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command import applyprune, start
from tests.support.objects import DEPLOYMENT
from tests.support.output.parsers import JUNIT, commands
from tests.support.output.schemas import complaints
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

SECRET_VALUE = "hunter2-is-no-secret"
MANIFESTS = f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: a}}
---
apiVersion: v1
kind: Secret
metadata: {{name: s}}
stringData: {{password: {SECRET_VALUE}}}
"""
WRONG = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: b}
data: {"not a key": ""}
"""
NEVER_READY = """\
apiVersion: v1
kind: Service
metadata: {name: never}
spec: {type: LoadBalancer, ports: [{port: 80}]}
"""
FILES = ("json", "jsonl", "junit", "github", "gitlab", "markdown", "name")


def _to_files(folder: Path) -> list[str]:
    """Return the options that write every format to a file of its own."""
    return [part for form in FILES for part in ("-o", f"{form}={folder / form}")]


def _read(folder: Path) -> dict[str, Any]:
    """Return what the files hold, each by its own parser and its own schema."""
    texts = {form: (folder / form).read_text(encoding="utf-8") for form in FILES}
    document = json.loads(texts["json"])
    assert complaints("document", document) == []
    events = [json.loads(line) for line in texts["jsonl"].splitlines()]
    assert [found for one in events for found in complaints("events", one)] == []
    assert [str(one) for one in JUNIT.iter_errors(texts["junit"])] == []
    assert not any(SECRET_VALUE in text for text in texts.values())
    return {
        "json": document,
        "jsonl": events,
        "junit": JUNIT.to_dict(texts["junit"]),
        "github": commands(texts["github"]),
        "gitlab": json.loads(texts["gitlab"]),
        "markdown": texts["markdown"],
        "name": texts["name"].splitlines(),
    }


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder with manifests, as a pipeline checks it out."""
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "good.yaml").write_text(MANIFESTS)
    (tmp_path / "deploy" / "wrong.yaml").write_text(WRONG)
    return tmp_path


def test_run_is_printed_in_every_format(
    plane: Plane, namespace: str, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They agree, tell file and line from the root of the checkout, and hold no Secret."""
    summary = repository / "summary.md"
    monkeypatch.setenv("GITHUB_WORKSPACE", str(repository))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    ended = applyprune(
        "apply", namespace, "-f", ".", "-n", namespace, "--no-check", *_to_files(repository),
        kubeconfig=plane.kubeconfig, cwd=repository / "deploy",
    )  # fmt: skip
    assert ended.code == 3
    told = _read(repository)
    document = told["json"]
    assert (document["exitCode"], document["finished"]) == (3, True)
    assert document["set"] == {"name": namespace, "namespace": namespace}
    outcomes = {one["ref"]["name"]: one["outcome"] for one in document["objects"]}
    assert outcomes == {"a": "created", "s": "created", "b": "failed"}
    done = [one for one in told["jsonl"] if one["event"] == "object"]
    assert {one["ref"]["name"]: one["outcome"] for one in done} == outcomes
    assert sorted(told["name"]) == ["configmap/a", "secret/s"]
    (suite,) = told["junit"]["testsuite"]
    assert (suite["@tests"], suite["@failures"], suite["@errors"]) == ("3", "1", "0")
    ((level, properties, message),) = told["github"]
    assert (level, properties["file"], properties["line"]) == ("error", "deploy/wrong.yaml", "4")
    assert "not a key" in message
    (remark,) = told["gitlab"]
    assert remark["location"] == {"path": "deploy/wrong.yaml", "lines": {"begin": 4}}
    page = summary.read_text()
    assert "not a key" in page
    assert "`configmap/a`" in page
    assert SECRET_VALUE not in page


# What ends a call before its first event: the call, its code, and its kind of error.
ENDS = {
    "input": (("apply", "web", "-f", "deploy"), 2, "InputError"),
    "server": (("apply", "web", "-f", "deploy/good.yaml"), 7, "AccessError"),
}


@pytest.mark.parametrize("name", ENDS)
def test_error_before_anything_is_in_each_format(repository: Path, name: str) -> None:
    """Once, with file and line if it has one; and on standard error for who sees no file."""
    (repository / "deploy" / "wrong.yaml").write_text("apiVersion: v1\nkind: ConfigMap\n")
    line, code, kind = ENDS[name]
    ended = applyprune(*line, *_to_files(repository), kubeconfig="none", cwd=repository)
    told = _read(repository)
    assert ended.code == told["json"]["exitCode"] == code
    (error,) = told["json"]["errors"]
    assert (error["kind"], error["message"] in ended.err) == (kind, True), error
    assert told["jsonl"][-1]["event"] == "finished"
    assert told["junit"]["testsuite"][0]["@errors"] == "1"
    assert told["name"] == []
    ((_, properties, _),) = told["github"]
    (remark,) = told["gitlab"]
    if name == "input":
        places = (error["origin"], properties, remark["location"])
        assert [one.get("path", one.get("file")) for one in places] == ["deploy/wrong.yaml"] * 3


def test_read_and_repair_verbs_have_formats(plane: Plane, namespace: str, repository: Path) -> None:
    """All of them speak JSON, by the schema."""
    good = repository / "deploy" / "good.yaml"

    def said(*arguments: str) -> tuple[dict[str, Any], int]:
        ended = applyprune(
            *arguments, "-n", namespace, "-o", "json", kubeconfig=plane.kubeconfig, cwd=repository
        )
        return json.loads(ended.out), ended.code

    def document(*arguments: str) -> dict[str, Any]:
        found, code = said(*arguments)
        assert complaints("document", found) == []
        assert (found["exitCode"], found["finished"]) == (code, True)
        return found

    assert document("apply", "web", "-f", str(good))["counts"]["created"] == 2
    shown = document("inventory", "show", "web")
    assert shown["set"] == {"name": "web", "namespace": namespace}
    assert {one["inventoryEntry"]["ownership"] for one in shown["objects"]} == {"owned"}
    assert [one["name"] for one in document("list")["applySets"]] == ["web"]
    status = document("status", "web")
    assert (status["set"], status["applySets"][0]["ready"]) == (shown["set"], 2)
    assert {one["objectStatus"]["drifted"] for one in status["objects"]} == {False}
    version, _ = said("version")
    assert complaints("version", version) == []
    assert version["server"].startswith("v1.")
    assert document("inventory", "check", "web")["mismatches"] == []
    assert document("inventory", "orphan", "web", "configmap/a")["counts"]["orphaned"] == 1
    assert document("inventory", "check", "gone")["exitCode"] == 2
    assert document("delete", "web", "--yes")["exitCode"] == 0


def test_closed_reader_is_no_failure(
    plane: Plane, api: Api, namespace: str, repository: Path
) -> None:
    """``| grep -q``: the run goes on, its report is whole, and nothing is left half applied."""
    report = repository / "junit"
    with start(
        "apply", "web", "-f", repository / "deploy", "-n", namespace, "--no-check", "-o", "jsonl",
        "-o", f"junit={report}", kubeconfig=plane.kubeconfig,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        said = process.stderr.read()
        assert process.wait(timeout=HANG) == 3
    assert "Broken pipe" not in said
    assert [str(one) for one in JUNIT.iter_errors(report.read_text())] == []
    assert "did not finish" not in report.read_text()
    assert api.exists(f"/api/v1/namespaces/{namespace}/secrets/s")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_run_ends_its_document(
    plane: Plane, namespace: str, repository: Path, number: signal.Signals
) -> None:
    """Whether it could say so or not: each file is valid and says what is true."""
    manifest = repository / "never.yaml"
    manifest.write_text(NEVER_READY)
    with start(
        "apply", namespace, "-f", manifest, "-n", namespace, "--wait", *_to_files(repository),
        kubeconfig=plane.kubeconfig,
    ) as process:  # fmt: skip
        lines = repository / "jsonl"
        eventually(lambda: lines.exists() and '"applied"' in lines.read_text())
        process.send_signal(number)
        process.communicate(timeout=HANG)
    told = _read(repository)
    interrupted = number is signal.SIGINT
    assert told["json"]["finished"] is interrupted
    assert told["json"]["exitCode"] == (130 if interrupted else None)
    assert (told["jsonl"][-1]["event"] == "finished") is interrupted
    cases = told["junit"]["testsuite"][0]["testcase"]
    (error,) = (one["error"][0] for one in cases if "error" in one)
    assert error["@type"] == ("Interrupted" if interrupted else "NotFinished")
    assert {one["severity"] for one in told["gitlab"]} == {"blocker"}


# What the API server warns about.

QUOTED = f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: quoted}}
data: {{password: {SECRET_VALUE}}}
---
"""
SECRET = MANIFESTS.partition("---\n")[2]
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICY, BINDING = "validatingadmissionpolicies", "validatingadmissionpolicybindings"


@pytest.fixture
def policy(api: Api, namespace: str) -> Iterator[str]:
    """A policy of this namespace that warns about each ConfigMap and Secret with its value."""
    name = f"{namespace}.example.com"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["configmaps", "secrets"],
    }
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    quotes = {
        "expression": "!has(object.data) || !('password' in object.data)",
        "messageExpression": "'the value is ' + string(object.data.password)",
    }
    spec = {"matchConstraints": {**here, "resourceRules": [rule]}, "validations": [quotes]}
    bound = {"policyName": name, "validationActions": ["Warn"], "matchResources": here}
    for plural, kind, body in ((POLICY, "", spec), (BINDING, "Binding", bound)):
        head: dict[str, Any] = {"metadata": {"name": name}}
        head["apiVersion"] = "admissionregistration.k8s.io/v1"
        head["kind"] = f"ValidatingAdmissionPolicy{kind}"
        api.create(f"{ADMISSION}/{plural}", {**head, "spec": body})
    yield name
    for plural in (BINDING, POLICY):
        api("DELETE", f"{ADMISSION}/{plural}/{name}")


@pytest.mark.holds("secret-in-a-warning")
def test_server_warning_is_in_every_format_once_with_file_and_line(
    plane: Plane, api: Api, namespace: str, policy: str, tmp_path: Path
) -> None:
    """The dry run and the apply give it, and two objects the same; a Secret's value is in none.

    Nor is it in a refusal, in a dry run and in the apply. Slow: the server takes policies into use
    after seconds.
    """
    restricted = {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}}
    api.patch(f"/api/v1/namespaces/{namespace}", restricted)
    pods = [{**DEPLOYMENT, "metadata": {"name": name}} for name in ("first", "second")]
    every = "---\n".join(f"{json.dumps(one)}\n" for one in pods) + f"---\n{QUOTED}{SECRET}"

    def run(verb: str, given: str, *options: str) -> str:
        (tmp_path / "set.yaml").write_text(given)
        where = (verb, namespace, "-f", "set.yaml", "-n", namespace, "-o", "text")
        ended = applyprune(
            *where, *_to_files(tmp_path), *options, kubeconfig=plane.kubeconfig, cwd=tmp_path
        )
        return ended.out + ended.err

    def untold(*line: str) -> tuple[str, dict[str, Any]]:
        text = run(*line)
        assert SECRET_VALUE not in text, line
        return text, _read(tmp_path)

    # A diff shows the ConfigMap.
    eventually(lambda: policy in run("diff", every), lambda: "an effect of the policy")
    text, told = untold("apply", every, "--check")
    warnings = [one["problem"] for one in told["jsonl"] if one["event"] == "warning"]
    warnings = [one for one in warnings if one["kind"] == "ServerWarning"]
    secret, quoted, pods = sorted(warnings, key=lambda one: -one["origin"]["line"])
    assert pods["message"].startswith('deployment.apps/first: would violate PodSecurity "restr')
    assert (pods["origin"]["line"], pods["reason"]) == (1, "also for deployment.apps/second")
    assert quoted["message"].endswith("the value is (secret)")
    named = f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}'"
    assert secret["message"] == f"secret/s: Validation failed for {named}"
    assert [one["kind"] for one in told["json"]["warnings"]] == ["ServerWarning"] * 3
    ((level, properties, message),) = (one for one in told["github"] if "PodSecurity" in one[2])
    assert (level, properties["file"], properties["line"]) == ("warning", "set.yaml", "1")
    assert "deployment.apps/first" in message
    (remark,) = (one for one in told["gitlab"] if "PodSec" in one["description"])
    assert remark["location"] == {"path": "set.yaml", "lines": {"begin": 1}}
    for form in (str(told["junit"]), told["markdown"], text):
        assert "would violate PodSecurity" in form
    assert (text.count("would violate PodSecurity"), "set.yaml:1" in text) == (1, True)
    api.patch(f"{ADMISSION}/{BINDING}/{policy}", {"spec": {"validationActions": ["Deny"]}})
    denied = "denied request: the value is (secret)"
    change = QUOTED.replace("quoted}", "quoted, labels: {a: b}}") + SECRET
    eventually(lambda: denied in run("diff", change, "--no-prune"), lambda: "the refusal")
    for verb in ("diff", "apply"):
        assert denied in untold(verb, change, "--no-prune")[0]
