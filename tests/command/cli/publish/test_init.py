"""``init``: the file, the schema of the repository, and what it never overwrites."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft7Validator
from ruamel.yaml import YAML

from applyprune.cli.publish import SCHEMA_FILE
from applyprune.sources import read
from applyprune.sources.folders import read_configuration
from tests.support.command import Ended, applyprune
from tests.support.source_text import config_map, write

if TYPE_CHECKING:
    from applyprune.localplane import Plane

HEAD = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\n"


def _init(folder: Path, *arguments: str) -> Ended:
    return applyprune("init", *arguments, kubeconfig="/nonexistent", cwd=folder)


def _errors(folder: Path, text: str) -> list[str]:
    """Return what an editor reports, by the schema beside the file."""
    schema = json.loads((folder / SCHEMA_FILE).read_text())
    value: Any = YAML(typ="safe").load(text)
    return [error.message for error in Draft7Validator(schema).iter_errors(value)]


def test_init_writes_a_file_that_editors_and_applyprune_read(tmp_path: Path) -> None:
    """The first line names the schema: no network is needed."""
    ended = _init(tmp_path, "web", "-f", "manifests/", "-f", "a 'b\"", "-n", "shop", "--schema")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"applyprune.yaml and {SCHEMA_FILE} written\n")
    text = (tmp_path / "applyprune.yaml").read_text()
    assert text.startswith(f"# yaml-language-server: $schema={SCHEMA_FILE}\n")
    assert read_configuration(str(tmp_path / "applyprune.yaml")).settings == {
        "name": "web",
        "namespace": "shop",
        "filename": ["manifests/", "a 'b\""],
    }
    assert _errors(tmp_path, text) == []


def test_schema_is_that_of_the_repository(tmp_path: Path) -> None:
    """Each file names the nearest one at or above it, wherever the call is made."""
    (tmp_path / "sets/web").mkdir(parents=True)
    (tmp_path / "sets/api").mkdir()
    ended = _init(tmp_path, "--schema")
    assert (ended.code, ended.out, ended.err) == (0, f"{SCHEMA_FILE} written\n", "")
    assert [one.name for one in tmp_path.iterdir() if one.is_file()] == [SCHEMA_FILE]
    assert _init(tmp_path, "web", "-f", "m", "--config", "sets/web/applyprune.yaml").code == 0
    assert _init(tmp_path / "sets/api", "api", "-f", "m").code == 0
    for name in ("web", "api"):
        first = (tmp_path / f"sets/{name}/applyprune.yaml").read_text().splitlines()[0]
        assert first == f"# yaml-language-server: $schema=../../{SCHEMA_FILE}"
        assert [one.name for one in (tmp_path / "sets" / name).iterdir()] == ["applyprune.yaml"]


def test_init_says_what_is_next_and_that_there_is_no_input(tmp_path: Path) -> None:
    """A file without input is no mistake, but easily made."""
    ended = _init(tmp_path, "web", "-k", "prod")
    assert (ended.out.splitlines()[-1], ended.err) == ("Next: applyprune plan", "")
    ended = _init(tmp_path, "web", "--config", "x.yaml")
    assert ended.out.splitlines()[-1] == "Next: applyprune plan --config x.yaml"
    assert ended.err.startswith("warning: no input given\n  Add filename or kustomize to x.yaml")
    assert _init(tmp_path, "web", "--config", "y.yaml", "-q").err == ""


@pytest.mark.parametrize(
    ("arguments", "environment", "context", "told"),
    [
        ((), {}, "dev", "It is for the context dev: in another one, applyprune refuses to run."),
        ((), {"APPLYPRUNE_CONTEXT": "test"}, "test", "It is for the context test"),
        (("--context", "prod"), {"APPLYPRUNE_CONTEXT": "test"}, "prod", "for the context prod"),
        ((), {"KUBECONFIG": "none"}, None, "It is for every context, because none is in use"),
    ],
)
def test_init_writes_the_context_that_it_was_run_in(
    tmp_path: Path,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    context: str | None,
    told: str,
) -> None:
    """And says so; else the first run could be in any cluster."""
    path = tmp_path / "kubeconfig"
    path.write_text("apiVersion: v1\nkind: Config\ncurrent-context: dev\n")
    call = ("init", "web", "-f", "m", *arguments)
    ended = applyprune(*call, kubeconfig=path, cwd=tmp_path, more=environment)
    assert ended.code == 0, ended
    written = read_configuration(str(tmp_path / "applyprune.yaml")).settings
    assert written.get("context") == context
    assert told in ended.out.splitlines()[1]


def test_init_takes_paths_as_seen_from_here(tmp_path: Path) -> None:
    """In a file elsewhere they are relative to that file, so that a run reads the same."""
    (tmp_path / "deploy").mkdir()
    paths = ("-f", "k8s/", "-f", "/abs", "-f", "https://x.example/a.yaml", "-k", "deploy/prod")
    assert _init(tmp_path, "web", *paths, "--config", "deploy/applyprune.yaml").code == 0
    written = read_configuration(str(tmp_path / "deploy/applyprune.yaml")).settings
    assert written["filename"] == ["../k8s/", "/abs", "https://x.example/a.yaml"]
    assert written["kustomize"] == ["prod"]


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    """Neither file, and never one of two."""
    (tmp_path / SCHEMA_FILE).write_text("mine")
    assert _init(tmp_path, "--schema").code == 2
    refused = _init(tmp_path, "web", "--schema")
    assert refused.code == 2
    assert f"{SCHEMA_FILE} exists already" in refused.err
    assert not (tmp_path / "applyprune.yaml").exists()
    (tmp_path / SCHEMA_FILE).unlink()
    assert _init(tmp_path, "web").code == 0
    (tmp_path / "applyprune.yaml").write_text("mine")
    assert _init(tmp_path, "web").code == 2
    assert (tmp_path / "applyprune.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--schema", "-f", "m"),
        ("Web",),
        ("web", "-f", "-"),
        ("web", "-n", ""),
    ],
)
def test_init_refuses_what_a_run_would_refuse(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Then it writes nothing."""
    assert _init(tmp_path, *arguments).code == 2
    assert list(tmp_path.iterdir()) == []


def test_schema_knows_the_keys_and_their_values(tmp_path: Path) -> None:
    """As applyprune does: no guard is a key, and no unknown one."""
    assert _init(tmp_path, "--schema").code == 0
    good = f"{HEAD}name: web\ncontext: {{name: prod, use: true}}\nprune: false\norphan: [svc/a]\n"
    assert _errors(tmp_path, good) == []
    for wrong in ("max-prune: 5", "wait: false", "adopt: all", "context: {use: true}", "x: 1"):
        assert _errors(tmp_path, f"{HEAD}name: web\n{wrong}\n"), wrong
    assert _errors(tmp_path, f"{HEAD}ignore: ['deployment:/spec/replicas']\n") == []
    assert _errors(tmp_path, "name: web\n")


def test_schema_in_a_folder_of_manifests_is_no_manifest(tmp_path: Path) -> None:
    """Like the file beside it; a manifest with its name is one."""
    assert _init(tmp_path, "web", "-f", ".", "--schema").code == 0
    write(tmp_path, {"a.yaml": config_map("a")})
    assert [one.name for one in read([str(tmp_path)])] == ["a"]
    write(tmp_path, {SCHEMA_FILE: config_map("b")})
    assert [one.name for one in read([str(tmp_path)])] == ["a", "b"]


def test_context_of_the_file_is_a_condition_or_a_selection(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """With ``use: true``, another current context does not matter; otherwise nothing is sent."""
    kubeconfig: Any = YAML(typ="safe").load(plane.kubeconfig.read_text())
    current = kubeconfig["current-context"]
    context = next(one for one in kubeconfig["contexts"] if one["name"] == current)
    unreachable = {"name": "far", "cluster": {"server": "https://127.0.0.1:1"}}
    other = {"name": "dev", "context": {**context["context"], "cluster": "far"}}
    kubeconfig["clusters"].append(unreachable)
    kubeconfig["contexts"].append(other)
    kubeconfig["current-context"] = "dev"
    path = tmp_path / "config.json"
    path.write_text(json.dumps(kubeconfig))
    (tmp_path / "m").mkdir()
    write(tmp_path / "m", {"a.yaml": config_map("a")})
    arguments = ("web", "-n", namespace, "-f", "m", "--context", context["name"])
    assert _init(tmp_path, *arguments).code == 0
    refused = applyprune("apply", "-v", kubeconfig=path, cwd=tmp_path)
    assert refused.code == 2
    assert "GET" not in refused.err
    file = tmp_path / "applyprune.yaml"
    selected = f"context: {json.dumps({'name': context['name'], 'use': True})}"
    file.write_text(re.sub(r"^context: .*$", selected, file.read_text(), flags=re.MULTILINE))
    applied = applyprune("apply", kubeconfig=path, cwd=tmp_path)
    assert (applied.code, list(applied.lines)) == (0, ["configmap/a"]), applied
    given = applyprune("apply", "--context", "dev", kubeconfig=path, cwd=tmp_path)
    assert given.code == 7, given.err
