"""What the API server warns about is reported in every format, once, at file and line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command import applyprune
from tests.support.output.parsers import JUNIT, commands
from tests.support.output.schemas import complaints
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

VALUE = "hunter2-in-a-warning"
FORMATS = ("json", "jsonl", "junit", "github", "gitlab", "markdown")
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
MANIFESTS = f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: first}}
spec:
  replicas: 0
  selector: {{matchLabels: {{app: a}}}}
  template:
    metadata: {{labels: {{app: a}}}}
    spec: {{containers: [{{name: c, image: c}}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: second}}
spec:
  replicas: 0
  selector: {{matchLabels: {{app: b}}}}
  template:
    metadata: {{labels: {{app: b}}}}
    spec: {{containers: [{{name: c, image: c}}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: quoted}}
data: {{key: {VALUE}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: s}}
stringData: {{key: {VALUE}}}
"""


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
    spec = {
        "matchConstraints": {**here, "resourceRules": [rule]},
        "validations": [
            {
                "expression": "!has(object.data) || !('key' in object.data)",
                "messageExpression": "'the value is ' + string(object.data.key)",
            }
        ],
    }
    binding = {"policyName": name, "validationActions": ["Warn"], "matchResources": here}
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    kind, plural = "ValidatingAdmissionPolicy", "validatingadmissionpolicies"
    api.create(f"{ADMISSION}/{plural}", {**head, "kind": kind, "spec": spec})
    bound = {**head, "kind": f"{kind}Binding", "spec": binding}
    api.create(f"{ADMISSION}/validatingadmissionpolicybindings", bound)
    yield name
    for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        api("DELETE", f"{ADMISSION}/{plural}/{name}")


def test_refusal_shows_no_value_in_any_format(
    plane: Plane, api: Api, namespace: str, policy: str, tmp_path: Path
) -> None:
    """Of another object than the Secret, plain or encoded, in a dry run and in the apply."""
    binding = f"{ADMISSION}/validatingadmissionpolicybindings/{policy}"
    api.patch(binding, {"spec": {"validationActions": ["Deny"]}})
    (tmp_path / "set.yaml").write_text(MANIFESTS.partition("---\n")[2].partition("---\n")[2])
    outputs = [part for form in FORMATS for part in ("-o", f"{form}={tmp_path / form}")]

    def run(*verb: str) -> str:
        ended = applyprune(
            *verb, "-f", "set.yaml", "-n", namespace, *outputs, "-o", "text",
            kubeconfig=plane.kubeconfig, cwd=tmp_path,
        )  # fmt: skip
        return ended.out + ended.err

    eventually(lambda: policy in run("diff", "web"), lambda: "an effect of the policy")
    for verb in ("diff", "apply"):
        text = run(verb, "web")
        assert "denied request: the value is (secret)" in text
        texts = [(tmp_path / form).read_text(encoding="utf-8") for form in FORMATS]
        assert not any(VALUE in told for told in (text, *texts)), verb


def _warnings(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    problems = [one["problem"] for one in events if one["event"] == "warning"]
    return [problem for problem in problems if problem["kind"] == "ServerWarning"]


@pytest.mark.holds("secret-in-a-warning")
def test_server_warning_is_in_every_format_once_with_file_and_line(
    plane: Plane, api: Api, namespace: str, policy: str, tmp_path: Path
) -> None:
    """The dry run and the apply give it, and two objects the same; a Secret's value is in none."""
    restricted = {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}}
    api.patch(f"/api/v1/namespaces/{namespace}", restricted)
    (tmp_path / "set.yaml").write_text(MANIFESTS)

    def run(verb: str, *options: str) -> str:
        outputs = [part for form in FORMATS for part in ("-o", f"{form}={tmp_path / form}")]
        ended = applyprune(
            verb, namespace, "-f", "set.yaml", "-n", namespace, *outputs, "-o", "text", *options,
            kubeconfig=plane.kubeconfig, cwd=tmp_path,
        )  # fmt: skip
        assert ended.code == (1 if verb == "diff" else 0), ended.err
        return ended.out + ended.err

    eventually(lambda: policy in run("diff"), lambda: "an effect of the policy")
    text = run("apply", "--check")
    texts = {form: (tmp_path / form).read_text(encoding="utf-8") for form in FORMATS}
    assert not any(VALUE in told for told in (text, *texts.values()))
    events = [json.loads(line) for line in texts["jsonl"].splitlines()]
    assert [found for one in events for found in complaints("events", one)] == []
    told = sorted(_warnings(events), key=lambda one: -one["origin"]["line"])
    assert len(told) == 3
    secret, quoted, pods = told
    assert pods["message"].startswith('deployment.apps/first: would violate PodSecurity "restr')
    assert pods["origin"]["line"] == 1
    assert pods["reason"] == "also for deployment.apps/second"
    assert quoted["message"].endswith("the value is (secret)")
    named = f"ValidatingAdmissionPolicy '{policy}' with binding '{policy}'"
    assert secret["message"] == f"secret/s: Validation failed for {named}"
    document = json.loads(texts["json"])
    assert complaints("document", document) == []
    assert [one["kind"] for one in document["warnings"]] == ["ServerWarning"] * 3
    assert "would violate PodSecurity" in texts["junit"]
    assert [str(one) for one in JUNIT.iter_errors(texts["junit"])] == []
    level, properties, message = next(
        one for one in commands(texts["github"]) if "PodSecurity" in one[2]
    )
    assert (level, properties["file"], properties["line"]) == ("warning", "set.yaml", "1")
    assert "deployment.apps/first" in message
    remark = next(one for one in json.loads(texts["gitlab"]) if "PodSec" in one["description"])
    assert remark["location"] == {"path": "set.yaml", "lines": {"begin": 1}}
    assert "would violate PodSecurity" in texts["markdown"]
    assert text.count("would violate PodSecurity") == 1
    assert "set.yaml:1" in text
    for left, options in (
        (MANIFESTS, ("--only", "configmap/quoted")),
        (MANIFESTS.rpartition("---")[0], ("--max-prune", "1")),
    ):
        (tmp_path / "set.yaml").write_text(left)
        text = run("apply", "--reapply-all", *options)
        texts = {form: (tmp_path / form).read_text(encoding="utf-8") for form in FORMATS}
        assert not any(VALUE in told for told in (text, *texts.values())), options
        assert "the value is (secret)" in text
