"""``applyprune diff`` as a person or a pipeline calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.command import applyprune
from tests.support.input_files import write_input
from tests.support.objects import of_kind

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from applyprune.localplane import Plane
    from tests.support.command import Ended

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
