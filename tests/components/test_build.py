"""The build of the components: once for all callers, and a message where it is impossible."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.components import COMPONENTS, COSIGN, PEERS, ensure_components
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane.build import GoModule
    from tests.components import Components

# A process that says what it has, or why it has nothing.
ENSURE = """
import sys
from applyprune.errors import ApplypruneError
from applyprune.localplane.cache import Lines
from tests.components import ensure_components
try:
    print(ensure_components(Lines(sys.stderr, every=1000)).registry)
except ApplypruneError as error:
    sys.exit(str(error))
"""


def start(cache: Path, path: str) -> subprocess.Popen[str]:
    """Start a process that ensures the components, with a cache of its own."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    return subprocess.Popen(
        [sys.executable, "-c", ENSURE],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=kept | {"XDG_CACHE_HOME": str(cache), "PATH": path, "PIP_NO_INDEX": "1"},
    )


def slow_go(folder: Path) -> str:
    """Make a `go` that writes its output when a file appears, and return the PATH to find it by."""
    folder.mkdir()
    go = folder / "go"
    go.write_text(
        "#!/bin/sh\n"
        'case "$1" in\n'
        "  version) echo go version go1.26.0 linux/amd64 ;;\n"
        f"  list) echo x >> {folder}/started; while [ ! -e {folder}/on ]; do sleep 0.02; done ;;\n"
        f"  build) for out; do case $out in */) touch $out/registry ;; esac; done ;;\n"
        "esac\n"
    )
    go.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def test_components_are_built_once_and_cached(components: Components) -> None:
    """Every program is there, and a second call returns at once, also without Go."""
    assert ensure_components() == components
    assert components.registry.parent.name == COMPONENTS.digest()
    for program in (components.sops, components.age_keygen):
        reply = subprocess.run([program, "--version"], capture_output=True, check=False)
        assert reply.returncode == 0, reply.stderr


def test_callers_at_the_same_time_build_once(tmp_path: Path) -> None:
    path = slow_go(tmp_path / "bin")
    first = start(tmp_path / "cache", path)
    eventually((tmp_path / "bin" / "started").exists, lambda: "the first build")
    second = start(tmp_path / "cache", path)
    assert second.stderr is not None
    assert "another process is building the components of tests" in second.stderr.readline()
    (tmp_path / "bin" / "on").touch()
    results = [process.communicate(timeout=HANG) for process in (first, second)]
    assert results[0][0] == results[1][0] != ""
    assert "built the components of tests" in results[0][1]
    assert (tmp_path / "bin" / "started").read_text() == "x\n"


def test_missing_go_is_one_message_without_advice_about_clusters(tmp_path: Path) -> None:
    process = start(tmp_path / "cache", str(tmp_path / "nothing"))
    _, said = process.communicate(timeout=HANG)
    assert process.returncode == 1
    assert "the components of tests cannot be built: it needs Go 1.26" in said
    assert "`go` is not on PATH" in said
    assert "Install Go 1.26 or newer so that `go` is on PATH." in said
    assert "KUBECONFIG" not in said
    assert "Traceback" not in said


MODULES = {"components": COMPONENTS, "cosign": COSIGN} | {
    name: peer.source for name, peer in PEERS.items()
}


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_versions_are_pinned(module: GoModule) -> None:
    """Both files are there, and Go is not newer than the wheel that may be downloaded."""
    assert (module.folder / "go.sum").is_file()
    assert module.pinned(r"go (\S+)").startswith("1.26")


@pytest.mark.parametrize("name", PEERS)
def test_peers_have_the_version_of_their_module(name: str) -> None:
    assert re.fullmatch(r"v\d+\.\d+\.\d+", PEERS[name].version)
