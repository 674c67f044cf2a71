"""Several files in ``KUBECONFIG``: merged as the real kubectl merges them."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cluster.access import cluster_access
from applyprune.cluster.credentials import candidate_files, load_kubeconfig
from applyprune.errors import AccessError

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Binaries

FILES = {
    "one": """
clusters:
- {name: a, cluster: {server: "https://one-a", certificate-authority: ca.crt}}
- {name: b, cluster: {server: "https://one-b"}}
users:
- {name: u, user: {token: one}}
""",
    "deep/two": """
current-context: second
clusters:
- {name: a, cluster: {server: "https://two-a", tls-server-name: x}}
- {name: c, cluster: {server: "https://two-c", certificate-authority: pki/ca.crt}}
contexts:
- {name: second, context: {cluster: c, user: u, namespace: ns}}
users:
- {name: u, user: {username: two}}
""",
    "three": """
current-context: third
contexts:
- {name: second, context: {cluster: b, user: nobody}}
- {name: third, context: {cluster: a, user: u}}
""",
    "empty": "",
    "twice": """
clusters:
- {name: a, cluster: {server: "https://first"}}
- {name: a, cluster: {server: "https://second"}}
""",
    "broken": "a: [",
    "wrong": "clusters: {}",
}
LISTS = (
    "one",
    "one:deep/two",
    "deep/two:one",
    "deep/two:three:one",
    "three:deep/two",
    "empty:one",
    ":missing:one::one:deep/two",
    "missing",
    ":",
    "folder:one",
    "one:twice",
    "one:broken",
    "broken:one",
    "wrong:one",
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files in the working directory, and a home with a kubeconfig that must not count."""
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    (tmp_path / "folder").mkdir()
    home = tmp_path / "home" / ".kube"
    home.mkdir(parents=True)
    (home / "config").write_text(FILES["one"].replace("one-", "home-"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kubectl_sees(binaries: Binaries, listed: str) -> dict[str, Any] | None:
    """Return the merged configuration by kubectl, None when it refuses."""
    command = (binaries.kubectl, "config", "view", "--raw", "-o", "json")
    environ = {**os.environ, "KUBECONFIG": listed}
    reply = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if reply.returncode:
        return None
    seen = json.loads(reply.stdout)
    merged: dict[str, Any] = {"current-context": seen["current-context"]}
    for section, kind in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
        merged[section] = {one["name"]: one[kind] for one in seen[section] or ()}
    return merged


def we_see(listed: str) -> dict[str, Any] | None:
    """Return the merged configuration by us, None when we refuse."""
    try:
        seen = load_kubeconfig(candidate_files("", {**os.environ, "KUBECONFIG": listed}))
    except AccessError:
        return None
    sections = {"clusters": seen.clusters, "users": seen.users, "contexts": seen.contexts}
    return {
        "current-context": seen.current_context,
        **{
            section: {name: dict(one.fields) for name, one in entries.items()}
            for section, entries in sections.items()
        },
    }


@pytest.mark.parametrize("listed", LISTS)
def test_kubeconfig_files_merge_as_in_kubectl(files: Path, binaries: Binaries, listed: str) -> None:
    """The same clusters, users, contexts and current context; refused by both or by none."""
    assert we_see(listed) == kubectl_sees(binaries, listed)


def test_paths_are_relative_to_the_file_with_them(files: Path) -> None:
    """Of each entry, whichever file has brought it."""
    (files / "deep/pki").mkdir()
    (files / "deep/pki/ca.crt").write_text("deep authority")
    (files / "ca.crt").write_text("authority")
    environ = {"KUBECONFIG": "one:deep/two:three"}
    assert cluster_access(environ=environ).trust.authorities == "deep authority"
    assert cluster_access(environ=environ, context="third").trust.authorities == "authority"


def test_duplicate_name_is_an_error(files: Path) -> None:
    """Nobody could tell which server is meant."""
    with pytest.raises(AccessError) as caught:
        cluster_access(environ={"KUBECONFIG": "twice"})
    assert "twice: the kubeconfig is malformed: clusters has 'a' twice" in str(caught.value)
