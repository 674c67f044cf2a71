"""Whatever goes wrong with a Secret, in whatever format it is told: its values are not in it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.actors import ALICE
from tests.support.canaries import (
    BROKEN_OBJECTS,
    BROKEN_TEXTS,
    NUMBER,
    OTHER,
    REFUSED,
    TOKEN,
    TRACES,
    annotated,
    encoded,
    forged_refusal,
    secret,
    untold,
)
from tests.support.command import applyprune
from tests.support.stage import Stage
from tests.support.waiting import HANG, eventually
from tests.support.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

FORMATS = ("json", "jsonl", "junit", "github", "gitlab", "markdown", "name")


@dataclass
class Teller:
    """Runs a command in every format at once, as loudly as it can, and collects all of it."""

    plane: Plane
    namespace: str
    folder: Path
    runs: int = 0

    def tell(
        self, verb: str, *arguments: str | Path, code: set[int], cwd: Path | None = None
    ) -> str:
        """Return everything that one command has written, to files that nobody asked for, too."""
        self.runs += 1
        files = {form: self.folder / f"{self.runs}.{form}" for form in FORMATS}
        outputs = [f"-o{form}={path}" for form, path in files.items()]
        ended = applyprune(
            *verb.split(),
            *arguments,
            "-v",
            *outputs,
            *("-n", self.namespace),
            kubeconfig=self.plane.kubeconfig,
            cwd=cwd,
        )
        assert ended.code in code, ended
        written = [path.read_text() for path in files.values()]
        assert all(written[:3]), "each of the complete formats has something to say"
        found = [path for path in (self.folder / "own").rglob("*") if path.is_file()]
        assert found, "the cache is in there at least"
        return "\n".join([ended.out, ended.err, *written, *(path.read_text() for path in found)])


@pytest.fixture
def teller(plane: Plane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Teller:
    """A teller in a new namespace; caches, temporary files and summaries go into its folder."""
    folder = tmp_path / "told"
    (folder / "own/tmp").mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "own/cache"))
    monkeypatch.setenv("TMPDIR", str(folder / "own/tmp"))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "own/summary.md"))
    monkeypatch.delenv("APPLYPRUNE_TRACEBACK", raising=False)
    return Teller(plane, namespace, folder)


def test_traces_of_a_secret_would_be_found() -> None:
    """Else the tests below would prove nothing."""
    for shift in range(6):
        around = "s" * shift
        assert any(one in encoded(f"{around}{TOKEN}{around}") for one in TRACES)
    with pytest.raises(AssertionError):
        untold(f"error: {TOKEN}")


def test_secret_cases_are_forty() -> None:
    """Ways in which something may be said about a Secret."""
    assert len(BROKEN_TEXTS) + len(BROKEN_OBJECTS) + len(REFUSED) + len(STORIES) >= 40


def test_unreadable_input_shows_no_secret(teller: Teller, tmp_path: Path) -> None:
    """Broken in every way at once: the place of each is told, its line is not."""
    for number, text in enumerate(BROKEN_TEXTS.values()):
        (tmp_path / f"text-{number:02}.yaml").write_text(text)
    for number, body in enumerate(BROKEN_OBJECTS.values()):
        (tmp_path / f"body-{number:02}.json").write_text(json.dumps(body, indent=2))
    for verb in ("apply web", "explain web secret/key"):
        told = teller.tell(verb, "-f", tmp_path, code={2})
        for number in range(len(BROKEN_TEXTS)):
            assert f"text-{number:02}.yaml" in told
        untold(told)


@pytest.mark.parametrize("verb", ["apply web", "diff web", "apply web --dry-run"])
def test_rejected_objects_show_no_secret(teller: Teller, tmp_path: Path, verb: str) -> None:
    """Each as an object of its own; those that differ by their name only go in one run."""
    for number, body in enumerate(REFUSED.values()):
        named = {**body, "metadata": {**body["metadata"], "name": f"key-{number}"}}
        (tmp_path / f"refused-{number}.json").write_text(json.dumps(named, indent=2))
    told = teller.tell(verb, "-f", tmp_path, code={2, 3})
    untold(told)


def _with(folder: Path, *bodies: dict[str, Any]) -> Path:
    path = folder / "set.json"
    path.write_text("\n---\n".join(json.dumps(body, indent=2) for body in bodies))
    return path


def _created(teller: Teller, api: Api, folder: Path) -> str:
    source = _with(folder, secret(), annotated("other"))
    return teller.tell("diff web", "-f", source, code={1}) + teller.tell(
        "apply web", "-f", source, code={0}
    )


def _made(teller: Teller) -> None:
    """Make the same set in silence."""
    Stage(teller.plane.kubeconfig, teller.namespace).run(secret(), annotated("other"))


def _changed(teller: Teller, api: Api, folder: Path) -> str:
    _made(teller)
    source = _with(folder, secret(stringData={"plain": OTHER, "new": OTHER}), annotated("other"))
    told = teller.tell("diff web", "-f", source, code={1})
    told += teller.tell("apply web --dry-run", "-f", source, code={0})
    return told + teller.tell("apply web", "-f", source, code={0})


def _deleted(teller: Teller, api: Api, folder: Path) -> str:
    _made(teller)
    source = _with(folder, secret())
    told = teller.tell("diff web", "-f", source, code={1})
    told += teller.tell("prune web", "-f", source, code={0})
    return told + teller.tell("delete web --yes", code={0})


def _drifted(teller: Teller, api: Api, folder: Path) -> str:
    _made(teller)
    path = f"/api/v1/namespaces/{teller.namespace}/secrets/key"
    body = api.get(path)
    body["data"]["encoded"] = encoded(OTHER)
    body["data"]["foreign"] = encoded(OTHER)
    assert api("PUT", path, body)[0] == 200
    source = _with(folder, secret(), annotated("other"))
    told = teller.tell("status web --drift", code={0, 1})
    told += teller.tell("list --count-ready", code={0, 1})
    told += teller.tell("explain web secret/key", "-f", source, code={0})
    told += teller.tell("explain web secret/key", code={0})
    told += teller.tell("inventory check web", code={0, 1})
    return told + teller.tell("diff web", "-f", source, code={1, 4})


def _contended(teller: Teller, api: Api, folder: Path) -> str:
    _made(teller)
    path = f"/api/v1/namespaces/{teller.namespace}/secrets/key"
    body = secret(data={"encoded": encoded(OTHER), "plain": encoded(OTHER)})
    status, reply = api(
        "PATCH",
        f"{path}?fieldManager={ALICE}&force=true",
        body,
        content_type="application/apply-patch+yaml",
    )
    assert status == 200, reply
    source = _with(folder, secret(), annotated("other"))
    told = teller.tell("diff web", "-f", source, code={4})
    return told + teller.tell("apply web", "-f", source, code={4})


def _immutable(teller: Teller, api: Api, folder: Path) -> str:
    source = _with(folder, {**secret(), "immutable": True})
    told = teller.tell("apply web", "-f", source, code={0})
    source = _with(folder, {**secret(stringData={"plain": OTHER}), "immutable": True})
    told += teller.tell("diff web", "-f", source, code={3})
    told += teller.tell("apply web", "-f", source, code={3})
    return told + teller.tell("apply web --recreate", "-f", source, code={0})


def _another_type(teller: Teller, api: Api, folder: Path) -> str:
    _made(teller)
    source = _with(folder, {**secret(stringData={"plain": OTHER}), "type": "example.com/other"})
    told = teller.tell("diff web --max-prune 5", "-f", source, code={3})
    return told + teller.tell("apply web", "-f", source, code={3})


def _owned_by_another(teller: Teller, api: Api, folder: Path) -> str:
    _made(teller)
    source = _with(folder, secret(stringData={"plain": OTHER}))
    told = teller.tell("diff shop", "-f", source, code={3})
    told += teller.tell("apply shop", "-f", source, code={3})
    told += teller.tell("explain shop secret/key", "-f", source, code={0})
    return told + teller.tell("inventory move web shop secret/key", code={0, 2})


def _without_a_record(teller: Teller, api: Api, folder: Path) -> str:
    _made(teller)
    path = f"/api/v1/namespaces/{teller.namespace}/configmaps/applyprune-web"
    kept = json.dumps(api.get(path))
    assert api("DELETE", path)[0] == 200
    told = teller.tell("inventory check web", code={0, 1})
    told += teller.tell("inventory repair web --yes", code={0})
    return told + teller.tell("inventory show web", code={0}) + kept


def _twice(teller: Teller, api: Api, folder: Path) -> str:
    labelled = {**secret(), "metadata": {"name": "key", "labels": {"a": "b"}}}
    differing = teller.tell("apply web", "-f", _with(folder, secret(), labelled), code={2})
    return differing + teller.tell("apply web", "-f", _with(folder, secret(), secret()), code={0})


def _adopted(teller: Teller, api: Api, folder: Path) -> str:
    """What kubectl has put into its annotation is a copy of all values."""
    path = f"/api/v1/namespaces/{teller.namespace}/secrets"
    body = annotated()
    body["metadata"]["annotations"]["note"] = f"it was {TOKEN} once"
    assert api("POST", f"{path}?fieldManager=kubectl-client-side-apply", body)[0] == 201
    other = secret(stringData={"plain": OTHER})
    other["metadata"]["annotations"] = {"note": f"it is {OTHER} now"}
    source = _with(folder, other)
    told = teller.tell("diff web --ignore secret:/data", "-f", source, code={1, 4})
    told += teller.tell("apply web --conflicts force", "-f", source, code={0})
    return told + teller.tell("diff web", "-f", _with(folder, annotated()), code={1, 4})


def _kustomized(teller: Teller, api: Api, folder: Path) -> str:
    environment = folder / "secret.env"
    (folder / "kustomization.yaml").write_text(
        f"secretGenerator:\n- name: key\n  envs: [{environment.name}]\n"
    )
    environment.write_text(f"plain={TOKEN}\n")
    told = teller.tell("diff web", "-k", folder, code={1})
    told += teller.tell("apply web", "-k", folder, code={0})
    environment.write_text(f"plain={OTHER}\nplain={TOKEN}\n")
    told += teller.tell("apply web", "-k", folder, code={2})
    environment.write_bytes(f"plain={OTHER}".encode() + b"\xff")
    return told + teller.tell("diff web", "-k", folder, code={2})


def _ruled(teller: Teller, api: Api, folder: Path) -> str:
    """Rules that fail over the values of the object that they are for."""
    bodies = []
    for number, rule in enumerate(
        ("int(self.data.plain) > 0", "self.data[self.data.plain] == 'a'", "self.data.plain")
    ):
        body = secret(f"key-{number}")
        body["metadata"]["annotations"] = {"applyprune.dev/ready-when": rule}
        bodies.append(body)
    told = teller.tell("apply web --wait --timeout 1s", "-f", _with(folder, *bodies), code={5})
    return told + teller.tell("status web", code={5})


def _against_a_policy(teller: Teller, api: Api, folder: Path) -> str:
    """A policy of somebody's quotes the value in its refusal, and in a warning."""
    name = f"quotes-{teller.namespace}"
    group = "/apis/admissionregistration.k8s.io/v1"
    home = {"matchLabels": {"kubernetes.io/metadata.name": teller.namespace}}
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": ["secrets"],
    }
    spec = {
        "matchConstraints": {"namespaceSelector": home, "resourceRules": [rule]},
        "validations": [
            {"expression": "false", "messageExpression": "'never ' + string(object.data.more)"}
        ],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    policies = {
        f"{group}/validatingadmissionpolicies": {
            **head,
            "kind": "ValidatingAdmissionPolicy",
            "spec": spec,
        },
        f"{group}/validatingadmissionpolicybindings": {
            **head,
            "kind": "ValidatingAdmissionPolicyBinding",
            "spec": binding,
        },
    }
    secrets_path = f"/api/v1/namespaces/{teller.namespace}/secrets?dryRun=All"
    try:
        for path, body in policies.items():
            assert api("POST", path, body)[0] == 201
        eventually(lambda: "never" in str(api("POST", secrets_path, secret("probe"))[1]))
        source = _with(folder, secret())
        told = teller.tell("diff web", "-f", source, code={3})
        told += teller.tell("apply web", "-f", source, code={3})
        assert "failed" in told
        return told
    finally:
        for path in policies:
            api("DELETE", f"{path}/{name}")


def _against_a_webhook(teller: Teller, api: Api, folder: Path) -> str:
    """It puts the values wherever a refusal has a place for them, with each of these codes."""
    _made(teller)
    codes = [400, 401, 403, 409, 410, 422, 500]

    def forged(request: dict[str, Any]) -> dict[str, Any] | None:
        return forged_refusal(codes[0]) if request["name"] == "key" else None

    told = ""
    source = _with(folder, secret(stringData={"plain": OTHER}), annotated("other"))
    with Webhook(teller.plane, api, teller.namespace, ("UPDATE", "DELETE"), forged) as webhook:
        while codes:
            told += teller.tell("diff web", "-f", source, code={3, 7})
            told += teller.tell("apply web", "-f", source, code={3, 7})
            told += teller.tell("apply web --no-check", "-f", source, code={3})
            told += teller.tell("delete web --yes --orphan secret/other", code={3})
            assert {"UPDATE key", "DELETE key"} <= set(webhook.refused)
            webhook.refused.clear()
            del codes[0]
    return told


def _of_a_mistyped_kind(teller: Teller, api: Api, folder: Path) -> str:
    """A ConfigMap has no `stringData`: somebody means a Secret."""
    wrong = {**annotated(), "kind": "ConfigMap", "stringData": {"a": TOKEN}}
    bodies: list[Any] = [
        wrong,
        {**wrong, "data": {"a": NUMBER}, "stringData": {"b": NUMBER}},
        {**wrong, "data": TOKEN},
        {**wrong, "kind": "ConfigMapp"},
        {**wrong, "metadata": {"name": "key", "annotations": {"a": NUMBER}}},
    ]
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: key}\n"
    texts = [
        json.dumps(bodies.pop(), indent=2),
        f'{head}stringData:\n  a: "{TOKEN}\n',
        f"{head}stringData: {{a: {TOKEN}\n",
        f"{head}stringData: {{a: {TOKEN}, a: {TOKEN}}}\n",
        f"{head}stringData:\n  a: @{TOKEN}\n",
    ]
    told = ""
    for name in ("readable", "broken"):
        (folder / name).mkdir()
    for number, body in enumerate(bodies):
        named = {**body, "metadata": {**body["metadata"], "name": f"key-{number}"}}
        (folder / f"readable/{number}.json").write_text(json.dumps(named, indent=2))
    for number, text in enumerate(texts):
        (folder / f"broken/{number}.yaml").write_text(text)
    for verb in ("apply web", "diff web", "explain web configmap/key-0"):
        told += teller.tell(verb, "-f", folder / "readable", code={0, 2})
        told += teller.tell(verb, "-f", folder / "broken", code={2})
    return told


def _shown_by_a_program(teller: Teller, api: Api, folder: Path) -> str:
    """What it is given, and what it leaves."""
    _made(teller)
    script = folder / "show"
    script.write_text('#!/bin/sh\ncat "$1"/* "$2"/*\nls -lR "$1" "$2"\n')
    script.chmod(0o755)
    source = _with(folder, secret(stringData={"plain": OTHER, "new": OTHER}), annotated("other"))
    told = teller.tell(f"diff web --external-diff {script}", "-f", source, code={1})
    assert "-rw-------" in told
    assert list((teller.folder / "own/tmp").iterdir()) == []
    return told


def _configured(teller: Teller, api: Api, folder: Path) -> str:
    """A Secret where the configuration of a set belongs."""
    head = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\nname: web\n"
    told = ""
    for text in (
        json.dumps(secret()),
        f"{head}data: {{a: {TOKEN}}}\n",
        f"{head}stringData: {TOKEN}\n",
        f"{head}---\n{json.dumps(secret())}\n",
        f'{head}filename: "{TOKEN}\n',
    ):
        (folder / "applyprune.yaml").write_text(text)
        ended = applyprune(*("apply", "-v"), kubeconfig=teller.plane.kubeconfig, cwd=folder)
        assert ended.code == 2, ended
        told += ended.out + ended.err
    (folder / "applyprune.yaml").write_text(f"{head}---\n{json.dumps(secret())}\n")
    return told + teller.tell("apply web", "-f", folder, code={2})


def _on_a_terminal(teller: Teller, api: Api, folder: Path) -> str:
    """With the live display, from which everything may be read back."""
    _made(teller)
    source = _with(folder, secret(stringData={"plain": OTHER}), annotated("other"))
    told = b""
    for verb in ("diff", "apply"):
        master, terminal = pty.openpty()
        command = [sys.executable, "-m", "applyprune", verb, "web", "-v"]
        process = subprocess.Popen(
            [*command, "-f", str(source), "-n", teller.namespace],
            env={**os.environ, "KUBECONFIG": str(teller.plane.kubeconfig), "TERM": "xterm"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
        os.close(terminal)
        with contextlib.suppress(OSError):  # the terminal's end
            while more := os.read(master, 65536):
                told += more
        os.close(master)
        assert process.wait(HANG) == (1 if verb == "diff" else 0)
    assert b"\x1b[" in told
    return told.decode()


STORIES: dict[str, Callable[[Teller, Api, Path], str]] = {
    "created": _created,
    "changed": _changed,
    "deleted": _deleted,
    "drifted": _drifted,
    "contended": _contended,
    "immutable": _immutable,
    "another type": _another_type,
    "owned by another": _owned_by_another,
    "without a record": _without_a_record,
    "twice": _twice,
    "adopted": _adopted,
    "kustomized": _kustomized,
    "ruled": _ruled,
    "against a policy": _against_a_policy,
    "against a webhook": _against_a_webhook,
    "of a mistyped kind": _of_a_mistyped_kind,
    "shown by a program": _shown_by_a_program,
    "configured": _configured,
    "on a terminal": _on_a_terminal,
}


@pytest.mark.parametrize("story", STORIES)
def test_whole_story_shows_no_secret(teller: Teller, api: Api, tmp_path: Path, story: str) -> None:
    """What happens is told, and the keys; no value, whichever side it is on."""
    untold(STORIES[story](teller, api, tmp_path))
