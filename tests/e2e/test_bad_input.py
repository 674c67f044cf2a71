"""What users get wrong: one clear message each, nothing pruned, never a traceback."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.accounts import kubeconfig_as, rule
from tests.support.command import Ended, applyprune
from tests.support.listening import silent_port

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\ndata: {k: v}\n"
LABEL = "applyset.kubernetes.io/part-of"

# name: (the text of bad.yaml, exit code, what the message says)
INPUTS: dict[str, tuple[str, int, list[str]]] = {
    "broken YAML": ("a: [1\nb: 2\n", 2, ["bad.yaml:"]),
    "no kind": ("apiVersion: v1\nmetadata: {name: a}\n", 2, ["bad.yaml:1", "kind"]),
    "a bad name": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a/b}\n",
        2,
        ["bad.yaml:3", "metadata.name"],
    ),
    "a name that only the server refuses": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A_b}\n",
        3,
        ["bad.yaml:3:12", "A_b"],
    ),
    "generateName": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a-}\n",
        2,
        ["bad.yaml:", "generateName"],
    ),
    "a duplicate": (
        f"{GOOD}---\n{GOOD.replace('k: v', 'k: w')}",
        2,
        ["bad.yaml:8:12", "bad.yaml:3:12", "twice"],
    ),
    "an ApplySet label": (
        GOOD.replace("{name: good}", f"{{name: good, labels: {{{LABEL}: x}}}}"),
        2,
        ["bad.yaml:3:33", LABEL],
    ),
    "the inventory itself": (
        GOOD.replace("name: good", "name: applyprune-web"),
        2,
        ["bad.yaml:3:12", "inventory"],
    ),
    "an object that is being deleted": (
        GOOD.replace("{name: good}", '{name: good, deletionTimestamp: "2026-01-01T00:00:00Z"}'),
        2,
        ["bad.yaml:3:24", "only the server sets metadata.deletionTimestamp"],
    ),
    "a mistyped annotation": (
        GOOD.replace("{name: good}", "{name: good, annotations: {applyprune.dev/prun: disabled}}"),
        2,
        ["bad.yaml:3:38", "Did you mean applyprune.dev/prune?"],
    ),
    "an unknown kind": (
        "apiVersion: x.example.com/v1\nkind: Foo\nmetadata: {name: a}\n",
        2,
        ["bad.yaml:1:1", "Foo", "x.example.com/v1"],
    ),
    "an unknown field": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: good}\ndatum: {}\n",
        3,
        ["bad.yaml:4:1", "datum"],
    ),
    "nothing at all": ("# nothing\n---\n", 6, ["no object in the input", "--allow-empty"]),
}


def _run(plane: Plane, namespace: str, *arguments: str | Path, stdin: str = "") -> Ended:
    return applyprune(*arguments, "-n", namespace, kubeconfig=plane.kubeconfig, stdin=stdin)


@pytest.mark.parametrize("name", INPUTS)
def test_invalid_input_is_one_clear_message(
    plane: Plane, api: Api, namespace: str, tmp_path: Path, name: str
) -> None:
    """File and line, an exit code that is not 0, and the set as it was."""
    text, code, words = INPUTS[name]
    good = tmp_path / "good.yaml"
    good.write_text(GOOD.replace("good", "before"))
    assert _run(plane, namespace, "apply", "web", "-f", good).code == 0
    bad = tmp_path / "bad.yaml"
    bad.write_text(text)
    ended = _run(plane, namespace, "apply", "web", "-f", bad)
    assert ended.code == code, ended.err
    for word in words:
        assert word in ended.err
    assert "Traceback" not in ended.err
    assert api.exists(f"/api/v1/namespaces/{namespace}/configmaps/before")


def test_missing_file_is_an_error(plane: Plane, namespace: str) -> None:
    """Named; exit code 2."""
    ended = _run(plane, namespace, "apply", "web", "-f", "nowhere/")
    assert ended.code == 2
    assert "nowhere" in ended.err


def test_standard_input_is_read(plane: Plane, namespace: str) -> None:
    """``-f -`` reads it, errors call it <stdin>."""
    assert _run(plane, namespace, "apply", "web", "-f", "-", stdin=GOOD).code == 0
    ended = _run(plane, namespace, "apply", "web", "-f", "-", stdin="a: [\n")
    assert ended.code == 2
    assert "<stdin>:" in ended.err


def test_unreachable_server_is_one_clear_message(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """Exit code 7, with the server's address."""
    config = tmp_path / "config"
    manifests = tmp_path / "good.yaml"
    manifests.write_text(GOOD)
    with silent_port() as port:
        server = f"127.0.0.1:{port}"
        text = plane.kubeconfig.read_text().replace(plane.server, f"https://{server}")
        config.write_text(text)
        ended = applyprune("apply", "web", "-f", manifests, "-n", namespace, kubeconfig=config)
    assert ended.code == 7
    assert server in ended.err


def test_worthless_token_is_one_clear_message(plane: Plane, namespace: str, tmp_path: Path) -> None:
    """Expired, revoked or mistyped: 401, exit code 7, and what to do."""
    config = tmp_path / "config"
    config.write_text(plane.kubeconfig.read_text().replace(plane.token, "expired"))
    manifests = tmp_path / "good.yaml"
    manifests.write_text(GOOD)
    ended = applyprune("apply", "web", "-f", manifests, "-n", namespace, kubeconfig=config)
    assert ended.code == 7
    assert "expired" not in ended.err.replace("or expired", "").replace("has expired", "")


def test_denied_request_is_one_clear_message(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """Somebody who may do nothing but look at ConfigMaps: named object, exit code, nothing done."""
    look = rule("", ["configmaps"], ["get", "list"])
    config = kubeconfig_as("eve", plane, api, namespace, tmp_path, look)
    manifests = tmp_path / "good.yaml"
    manifests.write_text(GOOD)
    ended = applyprune("apply", "web", "-f", manifests, "-n", namespace, kubeconfig=config)
    assert ended.code == 3, ended.err
    assert "configmap/good: this account may not create or patch configmaps" in ended.err
    assert not api.exists(f"/api/v1/namespaces/{namespace}/configmaps/good")


@pytest.mark.parametrize("name", ["Web", "a.b", "-x-", "a" * 64])
def test_invalid_set_name_is_refused(plane: Plane, namespace: str, name: str) -> None:
    """Exit code 2, and what a name may be."""
    where = ("-n", namespace, "--")
    ended = applyprune("inventory", "show", *where, name, kubeconfig=plane.kubeconfig)
    assert ended.code == 2
    assert "DNS label" in ended.err


def test_delete_without_a_terminal_needs_yes(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """Exit code 2, and nothing is deleted."""
    manifests = tmp_path / "good.json"
    manifests.write_text(json.dumps({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "good"},
    }))  # fmt: skip
    assert _run(plane, namespace, "apply", "web", "-f", manifests).code == 0
    ended = _run(plane, namespace, "delete", "web")
    assert ended.code == 2
    assert "--yes" in ended.err
    assert api.exists(f"/api/v1/namespaces/{namespace}/configmaps/good")
    assert _run(plane, namespace, "delete", "web", "--yes").code == 0
    assert not api.exists(f"/api/v1/namespaces/{namespace}/configmaps/good")
