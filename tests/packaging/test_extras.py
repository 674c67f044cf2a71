"""What is said to install when an extra is missing: from where this applyprune is."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from applyprune._version import pip_install

ROOT = Path(__file__).parents[2]
EDITABLE = {"dir_info": {"editable": True}}


def installed(folder: Path, direct_url: str | None) -> None:
    """Write what pip writes of an installed applyprune; nothing if it came from an index."""
    info = folder / "applyprune-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: applyprune\nVersion: 0.1.0\n")
    if direct_url is not None:
        (info / "direct_url.json").write_text(direct_url)


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("src", {"dir_info": {}}, ["{}[controller]"]),
        ("src", EDITABLE, ["-e", "{}[controller]"]),
        ("my src", EDITABLE, ["-e", "{}[controller]"]),
        ("src/a.whl", {"archive_info": {}}, ["{}[controller]"]),
        ("gone", EDITABLE, ["applyprune[controller]"]),
    ],
)
def test_extra_comes_from_where_applyprune_came_from(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    more: dict[str, Any],
    words: list[str],
) -> None:
    """A folder or a file, as long as it is there."""
    place = tmp_path / name
    if name != "gone":
        place.parent.mkdir(exist_ok=True)
        place.touch()
    installed(tmp_path, json.dumps({"url": place.as_uri(), **more}))
    monkeypatch.syspath_prepend(tmp_path)
    expected = ["pip", "install", *(word.format(place) for word in words)]
    assert shlex.split(pip_install("controller")) == expected


@pytest.mark.parametrize(
    "direct_url", [None, "no JSON", '{"url": "https://example.com/a.whl", "archive_info": {}}']
)
def test_extra_comes_from_an_index_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct_url: str | None
) -> None:
    installed(tmp_path, direct_url)
    monkeypatch.syspath_prepend(tmp_path)
    assert pip_install("controller") == "pip install 'applyprune[controller]'"


def test_controller_without_its_extra_says_how_to_install_it(tmp_path: Path) -> None:
    """From the checkout that pip install . has installed."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Without:\n"
        "    def __init__(self, finder):\n"
        "        self.finder = finder\n"
        "    def find_spec(self, name, *place):\n"
        "        hidden = name == 'prometheus_client'\n"
        "        return None if hidden else self.finder.find_spec(name, *place)\n"
        "    def __getattr__(self, name):\n"
        "        return getattr(self.finder, name)\n"
        "sys.meta_path[:] = map(Without, sys.meta_path)\n"
    )
    installed(tmp_path, json.dumps({"url": ROOT.as_uri(), "dir_info": {}}))
    reply = subprocess.run(
        [sys.executable, "-m", "applyprune", "controller"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert reply.returncode == 2
    assert "prometheus_client is not installed" in reply.stderr
    assert f"pip install '{ROOT}[controller]'" in reply.stderr
