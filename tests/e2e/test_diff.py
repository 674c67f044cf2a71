"""``applyprune diff`` as a person or a pipeline calls it."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.command import applyprune
from tests.support.objects import DEPLOYMENT, SERVICE, config_map, text
from tests.support.output.schemas import complaints

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from applyprune.localplane import Plane
    from tests.support.command import Ended
    from tests.support.plane import Kubectl

CONFIG = config_map("c")
TOKEN = "correct-horse-battery-staple"


def manifests(folder: Path, **objects: str) -> Path:
    """Write a Secret with the token and a ConfigMap for each of ``objects``."""
    folder.mkdir(exist_ok=True)
    bodies: list[object] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}}
        for name, value in objects.items()
    ]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    bodies.append({**secret, "stringData": {"pw": TOKEN}})
    for path in folder.iterdir():
        path.unlink()
    for number, body in enumerate(bodies):
        (folder / f"{number}.json").write_text(json.dumps(body))
    return folder


def call(verb: str, folder: Path, plane: Plane, namespace: str, *arguments: str) -> Ended:
    """Run a verb on the set ``web``."""
    where = ("web", "-f", folder, "-n", namespace)
    return applyprune(verb, *where, *arguments, kubeconfig=plane.kubeconfig)


def test_diff_exit_code_says_whether_anything_would_change(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """0, 1, and more for an error; a refused prune keeps its own."""
    folder = manifests(tmp_path / "m", a="1", b="1")
    first = call("diff", folder, plane, namespace)
    assert (first.code, first.summary) == (1, "web: 3 to create")
    assert call("apply", folder, plane, namespace).code == 0
    same = call("diff", folder, plane, namespace)
    digest = same.digests["plan"]
    assert (same.code, same.out, same.err) == (0, f"web: 3 unchanged\nplan: {digest}\n", "")
    listed = call("diff", folder, plane, namespace, "--show-unchanged")
    assert (listed.code, listed.lines["configmap/a"]) == (0, "would not change")
    manifests(folder, a="2")
    changed = call("diff", folder, plane, namespace)
    assert changed.code == 1
    assert changed.summary == "web: 1 to update, 1 to prune, 1 unchanged"
    assert "-  k: '1'\n+  k: '2'" in changed.out
    refused = call("diff", folder, plane, namespace, "--max-prune", "0")
    assert refused.code == 6
    assert "configmap/b would not be pruned (prune refused)" in refused.out
    assert "--max-prune 1" in refused.err
    assert call("diff", folder, plane, namespace, "--ignore", "nonsense").code == 2
    (folder / "bad.yaml").write_text("a: [")
    assert call("diff", folder, plane, namespace).code == 2


def test_diff_says_below_each_object_what_it_causes(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """In text, in the data, and in a dry run."""
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "set.json").write_text(text(DEPLOYMENT, SERVICE))
    assert call("apply", folder, plane, namespace).code == 0
    changed = copy.deepcopy(DEPLOYMENT)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "web:2"
    (folder / "set.json").write_text(text(changed, SERVICE))
    shown = call("diff", folder, plane, namespace)
    place = folder / "set.json"
    head = f"deployment.apps/web would be updated ({place}:1)"
    assert shown.out.startswith(f"{head}\n    → rollout, 1 Pod\n--- live/")
    document = json.loads(call("diff", folder, plane, namespace, "-o", "json").out)
    assert complaints("document", document) == []
    (caused,) = document["plan"]["consequences"]
    assert (caused["kind"], caused["count"], caused["certain"]) == ("rollout", 1, True)
    dry = call("apply", folder, plane, namespace, "--dry-run")
    assert "deployment.apps/web updated (server dry run)\n  → rollout, 1 Pod\n" in dry.out


def test_nightly_job_sees_drift_only(
    plane: Plane, namespace: str, tmp_path: Path, kubectl: Kubectl
) -> None:
    """A manifest of tomorrow is no drift; a field that somebody has taken is."""
    folder = manifests(tmp_path / "m", a="1", b="1")
    call("apply", folder, plane, namespace)
    manifests(folder, a="1", b="tomorrow")
    assert call("diff", folder, plane, namespace, "--fail-on-drift").code == 0
    kubectl("patch", "cm", "a", "-n", namespace, "-p", '{"data":{"k":"theirs"}}')
    assert call("diff", folder, plane, namespace).code == 4
    drifted = call("diff", folder, plane, namespace, "--fail-on-drift")
    assert drifted.code == 1
    assert '    drift: /data/k is "theirs", was "1", by kubectl-patch (Update, ' in drifted.out


def test_external_diff_program_shows_the_differences(
    plane: Plane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In files for nobody else, masked, and gone after it; its failure is an error."""
    folder = manifests(tmp_path / "m", a="1")
    program = tmp_path / "show"
    kept = tmp_path / "kept"
    program.write_text(
        f'#!/bin/sh\nstat -c "%a %n" "$2" "$3" "$3"/* > {kept}\ncat "$3"/*\n'
        'echo "$1"\nexit ${CODE:-1}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("KUBECTL_EXTERNAL_DIFF", f"{program} -u")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    ended = call("diff", folder, plane, namespace)
    assert ended.code == 1
    assert "pw: '***'" in ended.out
    assert ended.out.splitlines()[-3:-1] == ["-u", "web: 2 to create"]
    lines = (line.split(" ", 1) for line in kept.read_text().splitlines())
    names = {path.rpartition("/")[2]: mode for mode, path in lines}
    assert (
        names.pop(f"v1.ConfigMap.{namespace}.a") == names.pop(f"v1.Secret.{namespace}.s") == "600"
    )
    assert set(names.values()) == {"700"}
    assert {name.partition("-")[0] for name in names} == {"LIVE", "MERGED"}
    assert list((tmp_path / "tmp").iterdir()) == []
    monkeypatch.setenv("CODE", "2")
    failed = call("diff", folder, plane, namespace)
    assert (failed.code, "failed with exit code 2" in failed.err) == (3, True)
    assert call("diff", folder, plane, namespace, "--external-diff", "./nowhere").code == 2
    assert call("diff", folder, plane, namespace, "--external-diff", "diff ;rm").code == 2


def test_diff_shows_no_token(
    plane: Plane, namespace: str, tmp_path: Path, kubectl: Kubectl
) -> None:
    """Changed by somebody else, created, deleted, in conflict: no output holds the value."""
    folder = manifests(tmp_path / "m", a="1")
    said = [call("diff", folder, plane, namespace, "-v")]
    call("apply", folder, plane, namespace)
    kubectl("patch", "secret", "s", "-n", namespace, "-p", '{"stringData":{"pw":"other-token"}}')
    said += [
        call("diff", folder, plane, namespace, *more)
        for more in ((), ("--conflicts=force",), ("--fail-on-drift",))
    ]
    (folder / "1.json").unlink()
    said.append(call("diff", folder, plane, namespace))
    assert [one.code for one in said] == [1, 4, 1, 1, 1]
    for one in said:
        for token in (
            TOKEN,
            "other-token",
            TOKEN.encode().hex(),
            "Y29ycmVjdC1ob3JzZS",
            "b3RoZXItdG",
        ):
            assert token not in one.out + one.err


def test_closed_reader_is_no_failure(plane: Plane, namespace: str, tmp_path: Path) -> None:
    """``applyprune diff … | head -1``: no traceback."""
    folder = manifests(tmp_path / "m", **{f"a{number}": "1" for number in range(30)})
    command = f"{sys.executable} -m applyprune diff web -f {folder} -n {namespace} | head -1"
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
    reply = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, text=True, check=False
    )
    assert reply.stdout.startswith("configmap/a0 ")
    assert "Traceback" not in reply.stderr
