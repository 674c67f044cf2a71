"""What ``make release`` writes: it installs, runs, agrees with itself, and is what krew expects."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
from email import message_from_bytes
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from applyprune import __version__
from applyprune.cli.main import PLUGIN, PROGRAM
from applyprune.localplane.build import kubernetes_version
from applyprune.localplane.wheel import wheel_version
from tests.packaging.release.__main__ import CHECKSUMS, collect
from tests.packaging.release.krew import MANIFEST, PYTHONS, python_platform
from tests.packaging.release.materials import EXTRAS
from tests.support.installing import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.localplane import Binaries, Plane

ROOT = Path(__file__).parents[2]
NO_GO = "/usr/bin:/bin"
MANIFESTS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

pytestmark = pytest.mark.installs


def checked(folder: Path) -> set[str]:
    """Let the usual program check the checksums; return the files that it has checked."""
    told = run("sha256sum", "--check", "--strict", CHECKSUMS, cwd=folder).stdout
    return {line.removesuffix(": OK") for line in told.splitlines()}


def files(folder: Path) -> set[str]:
    """Return the files that need a checksum."""
    return {path.name for path in folder.iterdir()} - {CHECKSUMS}


def test_collected_files_get_checksums_and_a_manifest(tmp_path: Path) -> None:
    """The archives may come from several machines; only those that exist are offered."""
    archives = [f"{PLUGIN}_{__version__}_linux_{arch}.tar.gz" for arch in ("amd64", "arm64")]
    for name in (*archives, "applyprune.whl"):
        (tmp_path / name).write_text(name)
    collect(tmp_path, "https://host/v1")
    assert checked(tmp_path) == files(tmp_path) == {*archives, "applyprune.whl", MANIFEST}
    offered = yaml.safe_load((tmp_path / MANIFEST).read_text())["spec"]["platforms"]
    lines = [line.split() for line in (tmp_path / CHECKSUMS).read_text().splitlines()]
    sums = {name: digest for digest, name in lines}
    assert offered == [
        {
            "selector": {"matchLabels": {"os": "linux", "arch": arch}},
            "uri": f"https://host/v1/{name}",
            "sha256": sums[name],
            "bin": PLUGIN,
        }
        for name, arch in zip(archives, ("amd64", "arm64"), strict=True)
    ]


def test_manifest_needs_an_archive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no archive for krew"):
        collect(tmp_path, "https://host/v1")


def step(job: str, name: str) -> str:
    """Return the command of a step of the workflow; the runner runs it with bash."""
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())["jobs"]
    (found,) = (one["run"] for one in jobs[job]["steps"] if name in one.get("name", ""))
    return str(found)


def runs(command: str, folder: Path, tag: str) -> bool:
    """Run a step as the runner does for a tag; return whether it has worked."""
    bash = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command)
    environment = {**os.environ, "GITHUB_REF_NAME": tag}
    return subprocess.run(bash, cwd=folder, env=environment, check=False).returncode == 0


@pytest.fixture
def tagged(tmp_path: Path) -> Path:
    """A checkout of this version, whose changelog has a section of it."""
    (tmp_path / "applyprune").mkdir()
    shutil.copy(ROOT / "applyprune/_version.py", tmp_path / "applyprune")
    changes = ("# Changelog", "## [Unreleased]", "none", f"## [{__version__}] - 2026-12-01", "this")
    (tmp_path / "CHANGELOG.md").write_text("\n\n".join((*changes, "## [0.0.9] - 2026-01-01\n")))
    (tmp_path / "dist").mkdir()
    return tmp_path


def test_workflow_publishes_only_a_tag_of_this_version(tagged: Path) -> None:
    """It must be in the changelog. The rest of the workflow has never run."""
    check = step("build", "This version")
    assert runs(check, tagged, f"v{__version__}")
    assert not runs(check, tagged, __version__)
    assert not runs(check, tagged, f"v{__version__}.1")
    changelog = tagged / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace(f"[{__version__}]", "[next]"))
    assert not runs(check, tagged, f"v{__version__}")


def test_workflow_takes_the_notes_from_the_changelog(tagged: Path) -> None:
    assert runs(step("collect", "notes"), tagged, f"v{__version__}")
    assert (tagged / "dist/notes.md").read_text().split() == ["this"]


@pytest.fixture(scope="module")
def release(
    request: pytest.FixtureRequest, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of ``--release``, or what this checkout makes."""
    if given := request.config.getoption("--release"):
        return Path(given).absolute()
    assert binaries.program.exists()
    folder = tmp_path_factory.mktemp("release") / "files"
    run(sys.executable, "-m", "tests.packaging.release", folder, cwd=ROOT)
    return folder


def one(folder: Path, pattern: str) -> Path:
    """Return the one file of that name."""
    (found,) = folder.glob(pattern)
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Install files into an environment of their own, and return its programs."""

    def install(*wanted: Path) -> Path:
        folder = tmp_path_factory.mktemp("environment")
        venv.create(folder)
        pip = (sys.executable, "-m", "pip", "--python", folder, "install", "--quiet")
        run(*pip, "--no-compile", *wanted, cwd=folder)
        return folder / "bin"

    return install


@pytest.mark.sweep
def test_every_file_has_its_checksum(release: Path) -> None:
    assert checked(release) == files(release)
    assert len(files(release)) == 6


@pytest.mark.sweep
def test_version_is_the_same_in_every_file(release: Path) -> None:
    """The wheel of the control plane has a version of its own: that of the extra ``plane``."""
    bill = json.loads(one(release, "*.cdx.json").read_bytes())
    manifest = yaml.safe_load((release / MANIFEST).read_text())
    with tarfile.open(one(release, "applyprune-*.tar.gz")) as sdist:
        stated = sdist.extractfile(f"applyprune-{__version__}/PKG-INFO")
        assert stated is not None
        sdist_version = message_from_bytes(stated.read())["Version"]
    versions = {
        str(parse_wheel_filename(one(release, "applyprune-*.whl").name)[1]),
        sdist_version,
        bill["metadata"]["component"]["version"],
        manifest["spec"]["version"].removeprefix("v"),
    }
    assert versions == {__version__}
    plane = one(release, "applyprune_plane-*.whl")
    assert str(parse_wheel_filename(plane.name)[1]) == wheel_version(kubernetes_version())


@pytest.mark.sweep
@pytest.mark.parametrize("pattern", ["applyprune-*.whl", "applyprune-*.tar.gz"])
def test_package_installs_and_runs(
    pattern: str, release: Path, installed: Callable[..., Path], tmp_path: Path
) -> None:
    """In a fresh environment, with no part of this checkout."""
    program = installed(one(release, pattern)) / PROGRAM
    (tmp_path / "a.yaml").write_text(MANIFESTS)
    assert run(program, "--version", cwd=tmp_path).stdout == f"applyprune, version {__version__}\n"
    assert "1 object" in run(program, "check", "-f", "a.yaml", cwd=tmp_path).stdout


@pytest.mark.sweep
def test_demo_runs_by_the_wheels(
    release: Path, installed: Callable[..., Path], tmp_path: Path
) -> None:
    """The control plane comes from its wheel: nothing is built, and no Go is needed."""
    wheels = [one(release, "applyprune-*.whl"), one(release, "applyprune_plane-*.whl")]
    program = installed(*wheels) / PROGRAM
    own = {name: str(tmp_path / name) for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")}
    told = run(program, "demo", cwd=tmp_path, more={**own, "PATH": NO_GO})
    assert "Demo finished." in told.stdout
    assert "using the control plane of the package applyprune-plane" in told.stderr


@pytest.mark.sweep
def test_bill_names_each_dependency(release: Path, installed: Callable[..., Path]) -> None:
    """All that pip installs, with exactly that version, and what each of it depends on."""
    wheel = one(release, "applyprune-*.whl")
    bill = json.loads(one(release, "*.cdx.json").read_bytes())
    stated = {canonicalize_name(part["name"]): part["version"] for part in bill["components"]}
    programs = installed(Path(f"{wheel}[{','.join(EXTRAS)}]"))
    script = (
        "import json; from importlib.metadata import distributions\n"
        "print(json.dumps([[one.name, one.version] for one in distributions()]))"
    )
    reply = run(programs / "python", "-c", script, cwd=programs)
    found = {canonicalize_name(name): version for name, version in json.loads(reply.stdout)}
    assert found == stated | {canonicalize_name(PROGRAM): __version__}
    (direct,) = (
        entry["dependsOn"] for entry in bill["dependencies"] if entry["ref"] == "root-component"
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {canonicalize_name(Requirement(line).name) for line in project["dependencies"]}
    assert names - {canonicalize_name(ref.partition("==")[0]) for ref in direct} == set()
    (pycurl,) = (part for part in bill["components"] if part["name"] == "pycurl")
    bundled = {part["name"]: part["version"] for part in pycurl["components"]}
    assert bundled.keys() >= {"libcurl", "OpenSSL"}
    told = run(programs / "python", "-c", "import pycurl; print(pycurl.version)", cwd=programs)
    assert {f"{name}/{version}" for name, version in bundled.items()} < set(told.stdout.split())
    assert str(ROOT) not in json.dumps(bill)


@pytest.fixture(scope="module")
def linked(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive as krew installs it: unpacked into its store, its program linked."""
    folder = tmp_path_factory.mktemp("krew")
    store = folder / "store" / PROGRAM / f"v{__version__}"
    store.mkdir(parents=True)
    with tarfile.open(one(release, f"{PLUGIN}_*.tar.gz")) as archive:
        assert sorted(archive.getnames()) == ["LICENSE", PLUGIN]
        archive.extractall(store, filter="data")
    (folder / "bin").mkdir()
    (folder / "bin" / PLUGIN).symlink_to(store / PLUGIN)
    return folder


@pytest.mark.sweep
def test_program_of_krew_runs_by_kubectl(
    linked: Path, binaries: Binaries, plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """With nothing but a Python in the PATH, twice: the first call unpacks it."""
    (tmp_path / "a.yaml").write_text(MANIFESTS)
    python = Path(sys.base_prefix) / "bin"
    environment = {
        "PATH": f"{linked / 'bin'}:{python}:{NO_GO}",
        "HOME": str(tmp_path),
        "PEX_ROOT": str(tmp_path / "pex"),
        "KUBECONFIG": str(plane.kubeconfig),
    }

    def told(*arguments: str) -> str:
        return run(binaries.kubectl, PROGRAM, *arguments, cwd=tmp_path, more=environment).stdout

    assert told("--version") == f"applyprune, version {__version__}\n"
    assert told("apply", "--help").startswith("Usage: kubectl applyprune apply ")
    assert "configmap/a created" in told("apply", "web", "-n", namespace, "-f", "a.yaml")


@pytest.mark.sweep
@pytest.mark.parametrize("minor", PYTHONS)
def test_program_of_krew_has_all_that_it_needs(minor: int, linked: Path) -> None:
    """For Pythons that are not here: what each package requires there, and a wheel for it."""
    platform = python_platform(minor)
    program = linked / "store" / PROGRAM / f"v{__version__}" / PLUGIN
    packages = dict(_packages(program, set(platform["compatible_tags"])))
    wanted, seen = [Requirement(PROGRAM)], set[tuple[str, frozenset[str]]]()
    while wanted:
        one_wanted = wanted.pop()
        name, extras = canonicalize_name(one_wanted.name), frozenset(one_wanted.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        version, requires = packages[name]
        assert one_wanted.specifier.contains(version, prereleases=True), one_wanted
        for line in requires:
            requirement = Requirement(line)
            if requirement.marker is None or any(
                requirement.marker.evaluate({**platform["marker_environment"], "extra": extra})
                for extra in extras or {""}
            ):
                wanted.append(requirement)
    assert len(seen) > len(packages) // 2


def _packages(program: Path, tags: set[str]) -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """Yield the packages in a PEX that fit the tags, with their versions and requirements."""
    with ZipFile(program) as pex:
        names = pex.namelist()
        for wheel in json.loads(pex.read("PEX-INFO"))["distributions"]:
            name, version, _, wheel_tags = parse_wheel_filename(wheel)
            if tags.isdisjoint(map(str, wheel_tags)):
                continue
            stated = re.compile(rf"\.deps/{re.escape(wheel)}/[^/]+\.dist-info/METADATA")
            (path,) = filter(stated.fullmatch, names)
            metadata = message_from_bytes(pex.read(path))
            yield name, (str(version), metadata.get_all("Requires-Dist", []))
