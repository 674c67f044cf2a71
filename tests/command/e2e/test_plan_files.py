"""``plan``, ``diff`` and ``apply --plan``, as a reviewer and a pipeline call them."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from applyprune.localplane import Plane
from tests.support.accounts import kubeconfig_as, rule
from tests.support.api import AuditTrail, writes
from tests.support.command import Ended, applyprune
from tests.support.desk import NAMES, Desk
from tests.support.input_files import write_input
from tests.support.objects import of_kind
from tests.support.waiting import next_second

ALL = dict.fromkeys(NAMES, "1")
NEXT = {**dict.fromkeys(NAMES[:6], "1"), "a0": "2", "new": "1"}
"""One is changed, one is created, three are pruned."""


@pytest.fixture
def file(desk: Desk) -> Path:
    """The file of the plan of NEXT, a second after the apply of what was before.

    managedFields count in seconds: an apply within the second of the one before its plan cannot be
    told from it, and is refused.
    """
    path = desk.folder / "web.plan"
    assert desk.call("plan", "--out", path, **NEXT).code == 0
    next_second()
    return path


def test_reviewed_plan_is_carried_out(desk: Desk, audit: AuditTrail) -> None:
    """Deletions first, then the rest, the counts and the digests; the file needs no other word."""
    file = desk.folder / "web.plan"
    assert desk.call("plan", "--exit-code", **ALL).code == 0
    assert desk.call("plan", "--exit-code", **NEXT).code == 1
    planned = desk.call("plan", "--out", file, **NEXT)
    assert planned.code == 0
    assert planned.err.startswith(f"{file} was written: the plan is valid until ")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = planned.out.splitlines()
    assert lines[:6] == [
        "OBJECT          PLAN",
        *(f"configmap/a{number}    would be pruned" for number in (6, 7, 8)),
        "configmap/new   would be created",
        "configmap/a0    would be updated",
    ]
    assert lines[6] == "web: 1 to create, 1 to update, 3 to prune, 5 unchanged"
    assert lines[7:] == [f"{name}: {digest}" for name, digest in planned.digests.items()]
    document = json.loads(desk.call("plan", "--out", file, "-q", "-o", "json", **NEXT).out)
    assert planned.digests == {
        "deletions": document["plan"]["deletions"],
        "plan": document["plan"]["digest"],
    }
    assert desk.call("diff", **NEXT).digests == planned.digests
    assert writes(audit) == []
    audit.restart()
    done = applyprune("apply", "--plan", file, kubeconfig=desk.plane.kubeconfig)
    assert (done.code, desk.there()) == (0, NEXT), done
    assert [event for event in audit.events() if "dryRun" in event["requestURI"]] == []
    audit.restart()
    again = applyprune("apply", "--plan", file, kubeconfig=desk.plane.kubeconfig)
    assert (again.code, f"{len(NEXT)} unchanged" in again.out, writes(audit)) == (0, True, [])


def test_plan_that_does_not_fit_writes_nothing(desk: Desk, file: Path, audit: AuditTrail) -> None:
    """Another input has a code of its own; other options, and a bad file, are a wrong call."""
    changed = {**NEXT, "a3": "2"}
    refused = desk.call("apply", "--plan", file, "-o", "json", **changed)
    document = json.loads(refused.out)
    kinds = [one["problem"]["kind"] for one in document["objects"]]
    assert (kinds, document["exitCode"], refused.code) == (["PlanOutdated"], 8, 8)
    assert f"configmap/a3 in namespace {desk.namespace} no longer fits the plan" in refused.err
    assert "1 object no longer fits the plan: nothing was written" in refused.err
    other = desk.call("apply", "--plan", file, "--no-prune", **NEXT)
    assert (other.code, "the plan was made with other options" in other.err) == (2, True)
    earlier = file.read_bytes()
    faulty = desk.call("plan", "--out", file, **{**NEXT, "not a name": "1"})
    assert (faulty.code, file.read_bytes()) == (3, earlier)
    taken = desk.call("plan", "--out", desk.folder / "set.json", "-o", "json", **NEXT)
    document = json.loads(taken.out)
    assert (taken.code, document["plan"], document["errors"][0]["kind"]) == (2, None, "UsageError")
    file.write_bytes(earlier[:-50])
    cut = desk.call("apply", "--plan", file, **NEXT)
    assert (cut.code, cut.out) == (2, "")
    assert cut.err.startswith(f"error: {file}: ")
    assert writes(audit) == []


def test_approved_digest_allows_exactly_these_deletions(
    desk: Desk, audit: AuditTrail, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a pipeline's protected step gives it, in a variable; an empty one is none."""
    monkeypatch.setenv("APPLYPRUNE_APPROVE", "")
    shown = desk.call("plan", a0="1", a1="1")
    assert shown.code == 6
    assert "7 objects would not be pruned (prune refused): configmap/a2, " in shown.out
    digest = shown.digests["deletions"]
    allowed = desk.call("plan", "--approve", digest, a0="1", a1="1")
    assert (allowed.code, allowed.digests) == (0, shown.digests)
    audit.restart()
    other = desk.call("apply", "--approve", digest, a0="1")
    assert (other.code, writes(audit)) == (6, [])
    assert f"the approval is for {digest}, and the digest of these deletions is " in other.err
    monkeypatch.setenv("APPLYPRUNE_APPROVE", f" {digest}\n")
    done = desk.call("apply", a0="2", a1="1")
    assert (done.code, desk.there()) == (0, {"a0": "2", "a1": "1"}), done


def test_plan_without_check_needs_only_the_right_to_read(desk: Desk, audit: AuditTrail) -> None:
    """With a check, the missing rights are findings, and no plan is written."""
    look = [
        rule("", ["configmaps"], ["get", "list", "watch"]),
        # What may name a deleted object as its owner.
        rule("", ["persistentvolumeclaims"], ["list"]),
        rule("apps", ["statefulsets"], ["list"]),
    ]
    reader = kubeconfig_as("reader", desk.plane, desk.api, desk.namespace, desk.folder, *look)
    out = desk.folder / "reader.plan"
    refused = desk.call_on(reader, "plan", "--out", out, **NEXT)
    assert (refused.code, out.exists()) == (3, False)
    for need in ("delete", "create or patch", "patch", "update"):
        assert f"this account may not {need} configmaps" in refused.err
    audit.restart()
    for verb, more, code in (("plan", ("--out", out), 0), ("diff", (), 1)):
        shown = desk.call_on(reader, verb, "--no-check", *more, **NEXT)
        assert (shown.code, shown.out.count("not checked by the server")) == (code, 1)
    assert {event["verb"] for event in audit.ours()} <= {"get", "list"}
    assert desk.call("apply", "--plan", out, **NEXT).code == 0


TOKEN = "correct-horse-battery-staple"


def manifests(folder: Path, **objects: str) -> Path:
    """Write a Secret with the token and a ConfigMap for each of ``objects``."""
    folder.mkdir(exist_ok=True)
    secret = of_kind("Secret", "s", stringData={"pw": TOKEN})
    bodies = [of_kind("ConfigMap", name, data={"k": value}) for name, value in objects.items()]
    write_input(folder / "set.json", [*bodies, secret])
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
    listed = call("diff", folder, plane, namespace, "-v")
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
    (folder / "bad.yaml").write_text("a: [")
    assert call("diff", folder, plane, namespace).code == 2


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
    monkeypatch.setenv("KUBECTL_EXTERNAL_DIFF", "./nowhere")
    assert call("diff", folder, plane, namespace).code == 2
    monkeypatch.setenv("KUBECTL_EXTERNAL_DIFF", "diff ;rm")
    odd = call("diff", folder, plane, namespace)
    assert (odd.code, "invalid argument ';rm' for the diff program" in odd.err) == (2, True)
