"""The wheel ``applyprune-plane``: what it carries, and that the demo runs from it without Go."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

from applyprune.localplane.build import MODULE, kubernetes_version
from applyprune.localplane.cache import Silence
from applyprune.localplane.wheel import PROGRAMS, REVISION, wheel_version
from tests.packaging.plane_wheel.linked import spdx_of
from tests.packaging.plane_wheel.wheel import write_wheel

if TYPE_CHECKING:
    from applyprune.localplane import Binaries

ROOT = Path(__file__).parents[2]
RETAIN = "* Redistributions of source code must retain\n  the above copyright"
NO_GO = "/usr/bin:/bin"
SOURCES = "6ef1fbc7f197d7b9ddd26314960268697bf26f966cda007da05491dcc9bec433"
"""The digest of the Go module that has this REVISION of the wheel."""


def test_extra_names_the_wheel_of_this_module() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (line,) = project["optional-dependencies"]["plane"]
    wanted = Requirement(line)
    assert (wanted.name, str(wanted.specifier)) == (
        "applyprune-plane",
        f"=={wheel_version(kubernetes_version())}",
    )


def test_revision_is_raised_with_the_module() -> None:
    """A published wheel of other sources would have the same name, and no applyprune would use it.

    After a change of the Go module: raise REVISION, the extra in pyproject.toml, and this digest.
    """
    files = sorted(path for path in MODULE.rglob("*") if path.suffix in {".go", ".mod", ".sum"})
    content = b"".join(
        f"{path.relative_to(MODULE).as_posix()} {len(path.read_bytes())}\n".encode()
        + path.read_bytes()
        for path in files
    )
    assert (REVISION, hashlib.sha256(content).hexdigest()) == (2, SOURCES)


@pytest.mark.parametrize(
    ("text", "licenses"),
    [
        ("Apache License\n   Version 2.0, January 2004", ["Apache-2.0"]),
        (
            "Permission is hereby granted, free of charge, to any person\nobtaining a copy",
            ["MIT"],
        ),
        (RETAIN, ["BSD-2-Clause"]),
        (f"{RETAIN} … to endorse or promote products derived", ["BSD-3-Clause"]),
        ("All rights reserved.", []),
    ],
)
def test_license_is_known_by_its_words(text: str, licenses: list[str]) -> None:
    assert list(spdx_of(text.encode())) == licenses


@pytest.fixture(scope="module")
def wheel(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this platform."""
    return write_wheel(binaries.program.parent, tmp_path_factory.mktemp("plane"), Silence())


@pytest.mark.sweep
def test_wheel_is_the_same_bytes_twice(wheel: Path, binaries: Binaries, tmp_path: Path) -> None:
    again = write_wheel(binaries.program.parent, tmp_path, Silence())
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


@pytest.mark.sweep
def test_wheel_is_one_file_of_the_index_for_this_machine(wheel: Path) -> None:
    """100 MB is the limit; a larger one would have to be split."""
    assert wheel.stat().st_size < 100 * 10**6
    name, version, _, tags = parse_wheel_filename(wheel.name)
    assert (name, str(version)) == ("applyprune-plane", wheel_version(kubernetes_version()))
    assert tags & set(sys_tags())


@pytest.mark.sweep
def test_wheel_carries_licenses_and_a_bill_of_materials(wheel: Path, binaries: Binaries) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        info = next(name.partition("/")[0] for name in names if ".dist-info/" in name)
        metadata = Metadata.from_email(archive.read(f"{info}/METADATA"), validate=True)
        bill = json.loads(archive.read(f"{info}/sboms/applyprune-plane.cdx.json"))
    licensed = {name for name in names if name.startswith(f"{info}/licenses/")}
    assert {f"{info}/licenses/{name}" for name in metadata.license_files or ()} == licensed
    assert f"{info}/licenses/go/k8s.io/kubernetes@{kubernetes_version()}/LICENSE" in licensed
    libraries = {one["purl"]: one for one in bill["components"] if one["type"] == "library"}
    for module in libraries.values():
        place = f"{info}/licenses/go/{module['name']}@{module['version']}/"
        assert any(name.startswith(place) for name in licensed), module
        for one in module["licenses"]:
            assert one["license"]["id"] in (metadata.license_expression or "")
    for program in (binaries.program, binaries.kubectl):
        (stated,) = (one for one in bill["components"] if one["name"] == program.name)
        assert stated["hashes"][0]["content"] == hashlib.sha256(program.read_bytes()).hexdigest()
        lines = subprocess.check_output(["go", "version", "-m", program], text=True)
        linked = set(re.findall(r"\t(?:dep|=>)\t(\S+)\t(\S+)\th1:", lines))
        stated_modules = {(one["name"], one["version"]) for one in libraries.values()}
        assert linked - stated_modules == set()


@pytest.mark.sweep
def test_demo_runs_without_go(wheel: Path, tmp_path: Path) -> None:
    """In a fresh environment with a cache of its own: from the installed wheel."""
    assert shutil.which("go", path=NO_GO) is None
    built = (sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path / "dist", ROOT)
    _run(*built, cwd=tmp_path)
    environment = tmp_path / "environment"
    venv.create(environment)
    pip = (sys.executable, "-m", "pip", "--python", environment, "install", "--no-compile")
    _run(*pip, *(tmp_path / "dist").glob("*.whl"), wheel, cwd=tmp_path)
    own = {
        "PATH": NO_GO,
        "HOME": str(tmp_path / "home"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    shown = _run(environment / "bin" / "applyprune", "demo", cwd=tmp_path, env=own)
    assert "Demo finished." in shown.stdout
    assert "using the control plane of the package applyprune-plane" in shown.stderr
    assert "building" not in shown.stderr
    cached = (tmp_path / "cache").rglob("*")
    assert not {path.name for path in cached} & set(PROGRAMS)


def _run(
    *command: str | Path, cwd: Path, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    reply = subprocess.run(
        command,
        cwd=cwd,
        env=inherited if env is None else env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert reply.returncode == 0, f"{reply.stdout}\n{reply.stderr}"
    return reply
