"""The Dockerfile's install commands, run in an empty environment, and what they leave."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from zipfile import ZipFile

import pytest

from applyprune import __version__
from applyprune.model.events import Status
from tests.support.git_servers import git_site, ssh_site
from tests.support.namespaces import own_namespaces
from tests.support.signers import SshSigner

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8")
CONTEXT = (ROOT / "deploy/Dockerfile.dockerignore").read_text(encoding="utf-8").split()
COMPONENTS = (ROOT / "tests/components/gomodule/go.mod").read_text(encoding="utf-8")
OFFLINE = re.compile(r"NewConnectionError|NameResolutionError|Network is unreachable|ProxyError")
BIGGEST = 200 * 2**20
"""Bytes that may be added to Python's own image."""

pytestmark = pytest.mark.installs


def stages() -> dict[str, str]:
    """Return the instructions of each stage, each on one line, by its name; the last has none."""
    joined = DOCKERFILE.replace("\\\n", " ")
    parts = re.split(r"^FROM (?:\S+?)(?: AS (\S+))?$", joined, flags=re.MULTILINE)[1:]
    return {name or "": text for name, text in zip(parts[::2], parts[1::2], strict=True)}


def instructions(word: str, stage: str) -> list[str]:
    """Return what stands after each instruction of one kind in a stage, in order."""
    return re.findall(rf"^{word} (.*)$", stages()[stage], re.MULTILINE)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the RUN commands, in a copy of the build context, have installed applyprune."""
    context = tmp_path_factory.mktemp("src")
    for kept in (line[1:] for line in CONTEXT if line.startswith("!")):
        if (ROOT / kept).is_dir():
            shutil.copytree(
                ROOT / kept, context / kept, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / kept, context / kept)
    folder = tmp_path_factory.mktemp("opt") / "applyprune"
    # What the base image has, and nothing of ours: its python, a path, an index to install from.
    programs = tmp_path_factory.mktemp("bin")
    (programs / "python").symlink_to(sys.base_prefix + "/bin/python3")
    # A package of the name from elsewhere, as an index may have one.
    others = tmp_path_factory.mktemp("others")
    with ZipFile(others / "applyprune-99.0-py3-none-any.whl", "w") as wheel:
        info = "applyprune-99.0.dist-info"
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: applyprune\nVersion: 99.0\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    environment = {
        "PATH": f"{programs}:/usr/bin:/bin",
        "PREFIX": str(folder),
        **{key: value for key, value in os.environ.items() if fnmatch(key.upper(), "PIP_*")},
        **{key: value for key, value in os.environ.items() if fnmatch(key.upper(), "*_PROXY")},
        "PIP_FIND_LINKS": f"{others} {os.environ.get('PIP_FIND_LINKS', '')}".strip(),
    }
    for command in instructions("RUN", "build"):
        reply = subprocess.run(
            ["/bin/sh", "-c", command],
            cwd=context,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if reply.returncode != 0 and OFFLINE.search(reply.stderr):
            pytest.skip("the package index cannot be reached")
        assert reply.returncode == 0, f"{command}\n{reply.stdout}\n{reply.stderr}"
    return folder


def test_image_runs_without_a_home(prefix: Path, tmp_path: Path) -> None:
    """By the entry point, with the image's own variables, in a folder that cannot be written."""
    (entry,) = instructions("ENTRYPOINT", "")
    assert entry == '["applyprune"]'
    tmp_path.chmod(0o555)
    for arguments, expected in (
        (["--version"], f"applyprune, version {__version__}\n"),
        (["apply", "--help"], "Make the cluster match"),
        (["apply", "web", "-f", "none.yaml"], "none.yaml: cannot be read"),
    ):
        reply = subprocess.run(
            [prefix / "bin/applyprune", *arguments],
            cwd=tmp_path,
            env={"XDG_CACHE_HOME": "/dev/null/none"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert expected in reply.stdout + reply.stderr, reply
        assert "Traceback" not in reply.stderr


def test_image_supports_ready_rules_and_the_controller(prefix: Path) -> None:
    """CEL and metrics are extras of the package and a part of the image."""
    script = (
        "import prometheus_client, kubernetes.config, deepdiff, jsonpatch\n"
        "from applyprune.planning.cel import compile_rule\n"
        "print(compile_rule('self.a == 1', where='here').judge({'a': 1}).status)"
    )
    python = prefix / "bin/python"
    reply = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    assert reply.stdout == f"{Status.CURRENT}\n"


def test_image_is_small(prefix: Path) -> None:
    """No compiler, no package index, no tests: what is added stays below a limit."""
    size = sum(path.stat().st_size for path in prefix.rglob("*") if path.is_file())
    assert size < BIGGEST, f"{size / 2**20:.0f} MiB"


def test_image_runs_as_nobody() -> None:
    """By number, so that Kubernetes can tell that it is not root."""
    (user,) = instructions("USER", "")
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)


def test_user_of_the_image_may_use_ssh(tmp_path: Path) -> None:
    """By its entry in /etc/passwd, without which ssh and ssh-keygen end at once."""
    for name in ("passwd", "group"):
        (tmp_path / name).write_text("root:x:0:\n")
    entries = next(one for one in instructions("RUN", "") if "/etc/passwd" in one)
    subprocess.run(["/bin/sh", "-c", entries.replace("/etc/", f"{tmp_path}/")], check=True)
    (user,) = instructions("USER", "")
    (_, entry), (_, group) = (
        (tmp_path / name).read_text().splitlines() for name in ("passwd", "group")
    )
    name, _, uid, gid, _, home, _ = entry.split(":")
    assert (f"{uid}:{gid}", home) == (user, "/nonexistent")
    assert group == f"{name}:x:{gid}:"
    said = []
    for passwd in ("/etc/passwd", str(tmp_path / "passwd")):
        inside = (
            f"mount --bind {passwd} /etc/passwd && "
            f"exec unshare --user --map-user={uid} ssh -F none no-host.invalid"
        )
        reply = subprocess.run(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", inside],
            capture_output=True,
            text=True,
            check=False,
        )
        if "unshare:" in reply.stderr or "mount:" in reply.stderr:
            pytest.skip("it takes user namespaces")
        said.append(reply.stderr)
    assert f"No user exists for uid {uid}" in said[0]
    assert "Could not resolve hostname" in said[1]


def test_image_builds_its_programs_with_its_go(tmp_path: Path) -> None:
    """None of them requires a newer Go than the one that builds it."""
    (go,) = re.findall(r"^ARG GO=(\d+)\.(\d+)$", DOCKERFILE, re.MULTILINE)
    for command in instructions("RUN", "programs"):
        module = re.sub(r"/cmd/\w+@", "@", command.split()[-1])
        reply = subprocess.run(
            ["go", "list", "-m", "-f", "{{.GoVersion}}", module],
            cwd=tmp_path,
            env={**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off", "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            check=False,
        )
        if reply.returncode != 0 and "dial tcp" in reply.stderr:
            pytest.skip("the module proxy cannot be reached")
        needed = re.fullmatch(r"(\d+)\.(\d+).*\n", reply.stdout)
        assert needed is not None, f"{module}: {reply.stderr}"
        assert tuple(map(int, needed.groups())) <= tuple(map(int, go)), module


def test_image_has_the_programs_that_read_sources() -> None:
    """Two in Go, of pinned versions: the tests have the same sops."""
    built = [command.split()[-1] for command in instructions("RUN", "programs")]
    names = [module.partition("@")[0].removesuffix("/v5").rpartition("/")[2] for module in built]
    assert names == ["kustomize", "sops"]
    assert all(re.search(r"@v\d+\.\d+\.\d+$", module) for module in built)
    (version,) = re.findall(r"github.com/getsops/sops/v3 (v\S+)", COMPONENTS)
    assert built[1].endswith(f"@{version}")
    assert "COPY --from=programs /programs /usr/local/bin" in stages()[""]


SLIM = """
import sys
from pathlib import Path
from applyprune.sources.address import GitRef, GitSource
from applyprune.sources.git_server import find_ref
from applyprune.sources.git_signatures import GitVerification, SignatureMode, verify
from applyprune.sources.git_store import GitStore
from applyprune.sources.tree import Deadline, SourceCredentials
url, folder = sys.argv[1], Path(sys.argv[2])
given = {name: (folder / name).read_bytes() for name in ("identity", "known_hosts", "ca")}
source = GitSource(url, GitRef(branch="main"), SourceCredentials(**given))
store, found = GitStore(folder / "store"), find_ref(source)
store.fetch(source, found)
keys = {"me.sshpub": (folder / "me.sshpub").read_bytes()}
verify(store, found, GitVerification(SignatureMode.HEAD, keys), url, Deadline(60))
print(found.commit)
"""


@pytest.fixture(scope="module")
def slim_git(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image has of git: copied from this machine's Debian as from the image's."""
    if not Path("/var/lib/dpkg/status").exists() or shutil.which("git") != "/usr/bin/git":
        pytest.skip("it takes Debian's git")
    folder = tmp_path_factory.mktemp("git")
    _, copy = instructions("RUN", "git")
    command = re.sub(r"(?<= )/git(?=[/ ])", str(folder), copy.replace(">/git/", f">{folder}/"))
    subprocess.run(["/bin/sh", "-ec", command], check=True)
    return folder


@pytest.mark.parametrize("scheme", ["https", "ssh"])
def test_image_reads_git_without_the_rest_of_it(
    slim_git: Path, tmp_path: Path, scheme: str
) -> None:
    """Without perl too: a source is looked at, fetched and verified."""
    with git_site(tmp_path / "site") as site, ssh_site(tmp_path / "ssh") as ssh:
        one = site if scheme == "https" else ssh
        repository, signer = one.repository(), SshSigner(tmp_path / "key")
        commit = repository.sign(signer.settings, repository.commit({"a.yaml": "x"}))
        given = {
            "identity": ssh.identity(),
            "known_hosts": ssh.known_hosts(),
            "ca": site.ca,
            "me.sshpub": signer.public(),
        }
        for name, data in given.items():
            (tmp_path / name).write_bytes(data)
        hidden = {
            "/usr/lib/git-core": slim_git / "usr/lib/git-core",
            "/usr/bin/git": slim_git / "usr/bin/git",
            "/usr/bin/perl": Path("/dev/null"),
        }
        mounts = [f"mount --bind {new} {old}" for old, new in hidden.items() if Path(old).exists()]
        inside = own_namespaces("--user", "--map-root-user", "--mount", proof=False, mounts=mounts)
        reply = subprocess.run(
            [*inside, sys.executable, "-c", SLIM, one.url("web"), str(tmp_path)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (reply.stdout, reply.stderr) == (f"{commit}\n", "")


@pytest.mark.parametrize("gpg", ["", "yes"])
def test_image_has_the_packages_that_git_needs(slim_git: Path, gpg: str) -> None:
    """As Debian says it, without perl; gpg only when asked. Scanners see the version of git."""
    status = slim_git / "var/lib/dpkg/status.d/git"
    assert re.search(r"^Package: git$", status.read_text(), re.MULTILINE)
    command, _, cleaning = instructions("RUN", "")[0].rpartition("&&")
    assert cleaning.strip() == "rm -rf /var/lib/apt/lists/*"
    shown = re.sub("apt-get (?=satisfy)", "echo ", command).replace("apt-get update", "true")
    reply = subprocess.run(
        ["/bin/sh", "-c", shown.replace("/var/lib/dpkg/status.d/git", str(status))],
        env={"PATH": os.defpath, "GPG": gpg},
        capture_output=True,
        text=True,
        check=True,
    )
    options = "satisfy --yes --no-install-recommends "
    assert reply.stdout.startswith(options)
    names = [one.split()[0] for one in reply.stdout.removeprefix(options).split(",")]
    assert {"openssh-client", "zlib1g"} <= set(names)
    assert any(one.startswith("libcurl") for one in names)
    assert ("gpg" in names) == bool(gpg)
    assert not {"perl", "liberror-perl", "git-man", "git"} & set(names)


def test_image_says_what_it_is() -> None:
    """By the labels of OCI, with what pyproject.toml says of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (text,) = instructions("LABEL", "")
    labels = {
        key: value.strip('"') for key, _, value in (one.partition("=") for one in shlex.split(text))
    }
    (arguments,) = (one for one in instructions("ARG", "") if "VERSION" in one)
    defaults = dict(one.split("=") for one in arguments.split())
    assert defaults == {"VERSION": __version__, "REVISION": "", "CREATED": ""}
    assert labels == {
        f"org.opencontainers.image.{key}": value
        for key, value in {
            "title": project["name"],
            "description": project["description"],
            "url": project["urls"]["Homepage"],
            "licenses": project["license"],
            "version": "$VERSION",
            "revision": "$REVISION",
            "created": "$CREATED",
        }.items()
    }
