"""The images of a node: a static program each, the bases of the product's, and the product's own.

The product's image is built by its own Dockerfile. Its bases are made of Debian's packages and of
the Go that builds the programs, so no image registry is needed. What is built stays in the cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from applyprune import __version__
from applyprune.localplane.build import find_go
from applyprune.localplane.cache import holding_lock, make_once, user_cache_folder
from tests.node.programs import NODE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from applyprune.localplane.cache import Progress
    from tests.node.programs import NodePrograms

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy/Dockerfile"
PAUSE = "localhost/pause:node"
WORKLOAD = "localhost/workload:node"
PRODUCT = f"localhost/applyprune:{__version__}"
WITH_GPG = f"{PRODUCT}-gpg"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
SLIM = """\
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/locale/*
"""
"""How dpkg leaves out documentation in the official slim images."""


def ensure_images(programs: NodePrograms, folder: Path, progress: Progress) -> Mapping[str, Path]:
    """Write the archive of each image into the folder, for ``ctr images import``.

    What is not cached is built. Another run may do the same: it waits.
    """
    with _store(progress) as store:
        archives = {
            PAUSE: store.exported(store.program(PAUSE, programs.pause)),
            WORKLOAD: store.exported(store.program(WORKLOAD, programs.workload)),
            PRODUCT: store.exported(store.product(PRODUCT)),
            WITH_GPG: store.exported(store.product(WITH_GPG, "GPG=yes")),
        }
        store.forget_others(archives.values())
        return {name: _linked(name, archive, folder) for name, archive in archives.items()}


def ensure_product(name: str, folder: Path, progress: Progress) -> Path:
    """Write the archive of the product's image into the folder; return its path."""
    with _store(progress) as store:
        return _linked(name, store.exported(store.product(name)), folder)


@contextmanager
def _store(progress: Progress) -> Iterator[Store]:
    """Hold the cache: another run that builds images waits."""
    cache = user_cache_folder() / "node"
    cache.mkdir(parents=True, exist_ok=True)
    with holding_lock(cache / "images.lock", lambda _: progress.tick("another run builds images")):
        yield Store(cache, progress)


def archive_of(name: str, folder: Path) -> Path:
    """Return where the archive of an image is in the folder of a run."""
    return folder / f"{_file_name(name)}.tar"


def _file_name(name: str) -> str:
    return name.removeprefix("localhost/").replace(":", "-")


def _linked(name: str, archive: Path, folder: Path) -> Path:
    """Give an archive a second name, so that it stays when another run removes it."""
    link = archive_of(name, folder)
    link.hardlink_to(archive)
    return link


class Base(Struct, frozen=True):
    """An official image, as the Dockerfile names it, and what it is made of here."""

    image: str
    suite: str
    """The release of Debian."""
    packages: tuple[str, ...]
    script: str
    """What runs in its root afterwards."""
    has_go: bool = False


PYTHON = Base(
    "python:3.13-slim",
    "trixie",
    ("ca-certificates", "python3", "python3-pip", "python3-venv"),
    "ln -s /usr/bin/python3 usr/local/bin/python && rm -f usr/lib/python3*/EXTERNALLY-MANAGED"
    f" && printf '[global]\\ncert = {AUTHORITIES}\\n' >etc/pip.conf",
)
GO = Base("golang:1.26", "bookworm", ("ca-certificates",), "mkdir -p go", has_go=True)


class Store:
    """The images of buildah, in a folder of the cache."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        self._folder = folder
        self._progress = progress
        (self._folder / "images").mkdir(parents=True, exist_ok=True)
        # A build that was killed has left its container.
        self._buildah("rm", "--all")

    def program(self, name: str, program: Path) -> str:
        """Return the name of an image that has one static program, and runs it."""
        digest = hashlib.sha256(program.read_bytes()).hexdigest()[:20]
        return self._image(
            name,
            digest,
            (("copy", program, f"/{program.name}"),),
            ("--entrypoint", f'["/{program.name}"]'),
        )

    def base(self, base: Base) -> str:
        """Return the name of a base; make it of Debian's packages if it is not there."""
        go = find_go(NODE, self._progress) if base.has_go else None
        digest = hashlib.sha256(f"{base} {SLIM} {go and go.version}".encode()).hexdigest()[:20]
        root = self._folder / "bases" / digest
        make_once(root, lambda making: self._debian(base, making), "making a base", self._progress)
        copies: list[tuple[str, str | Path, str]] = [("add", root, "/")]
        settings = ["--cmd", "python3"]
        if go is not None:
            goroot, proxy = self._run([go.go, "env", "GOROOT", "GOPROXY"]).splitlines()
            copies.append(("add", goroot, "/usr/local/go"))
            path = "PATH=/go/bin:/usr/local/go/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
            settings = ["--env", "GOPATH=/go", "--env", path, "--env", f"GOPROXY={proxy}"]
        return self._image(f"localhost/{base.image}", digest, copies, settings)

    def _debian(self, base: Base, root: Path) -> None:
        self._progress.step(f"making {base.image} of packages of Debian {base.suite}")
        # The mirror of this machine, and debootstrap's own where it names none.
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(base.packages)}"]
        self._run([*command, base.suite, root, *_mirror()])
        for left in ("usr/share/man", "usr/share/locale", "var/lib/apt/lists"):
            shutil.rmtree(root / left)
            (root / left).mkdir()
        for package in (root / "var/cache/apt/archives").glob("*.deb"):
            package.unlink()
        (root / "etc/dpkg/dpkg.cfg.d/slim").write_text(SLIM)
        # The way of this machine to packages: what it trusts, and how apt reaches its mirror.
        shutil.copy(AUTHORITIES, root / "etc/ssl/certs")
        shutil.copytree("/etc/apt/apt.conf.d", root / "etc/apt/apt.conf.d", dirs_exist_ok=True)
        self._run(["sh", "-c", base.script], cwd=root)

    def product(self, name: str, *arguments: str) -> str:
        """Return the name of the product's image, built by its Dockerfile from this checkout."""
        self._progress.step(f"building {name} by deploy/Dockerfile")
        for base in (PYTHON, GO):
            self.base(base)
        # A stage that has a name is not removed, and so is not built again.
        for stage in re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE.read_text(), re.MULTILINE):
            self._build(f"localhost/applyprune-{stage}:node", f"--target={stage}")
        self._build(name, *(f"--build-arg={argument}" for argument in arguments))
        return name

    def _build(self, name: str, *options: str) -> None:
        always = ("--pull-never", "--layers", "--network=host", f"--file={DOCKERFILE}")
        self._buildah("bud", *always, f"--tag={name}", *options, ROOT)

    def exported(self, name: str) -> Path:
        """Return the archive of an image; write it if it is not there."""
        archive = self._folder / "images" / f"{_file_name(name)}-{self._id(name)[:20]}.tar"
        if not archive.exists():
            making = archive.with_suffix(".making")
            making.unlink(missing_ok=True)
            self._buildah("push", name, f"docker-archive:{making}:{name}")
            making.rename(archive)
        return archive

    def forget_others(self, kept: Collection[Path]) -> None:
        """Remove the archives of older images, and the images that have lost their name."""
        self._buildah("rmi", "--prune")
        for archive in (self._folder / "images").iterdir():
            if archive not in kept:
                archive.unlink()

    def _image(
        self,
        name: str,
        digest: str,
        copies: Sequence[tuple[str, str | Path, str]],
        settings: Sequence[str],
    ) -> str:
        """Return the name of an image of these files; ``digest`` says whether it is current."""
        marked = f"{name.partition(':')[0]}:{digest}"
        if not self._id(marked):
            container = self._buildah("from", "scratch").strip()
            for verb, source, target in copies:
                self._buildah(verb, "--quiet", container, source, target)
            self._buildah("config", *settings, container)
            self._buildah("commit", "--quiet", "--rm", container, marked)
        self._buildah("tag", marked, name)
        return name

    def _id(self, name: str) -> str:
        """Return the ID of an image; empty if there is none."""
        found = self._buildah("images", "--quiet", "--no-trunc", "--filter", f"reference={name}")
        return found.strip().partition("\n")[0].removeprefix("sha256:")

    def _buildah(self, *arguments: str | Path) -> str:
        where = ("--root", self._folder / "storage", "--runroot", "/run/buildah")
        return self._run(["buildah", *where, "--storage-driver=overlay", *arguments])

    def _run(self, command: Sequence[str | Path], cwd: Path | None = None) -> str:
        """Return what a program has printed; raise RuntimeError with all of it if it fails."""
        reply = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, "BUILDAH_ISOLATION": "chroot", "DEBIAN_FRONTEND": "noninteractive"},
            capture_output=True,
            text=True,
            check=False,
        )
        if reply.returncode != 0:
            told = f"{reply.stdout[-4000:]}{reply.stderr[-4000:]}"
            raise RuntimeError(
                f"{' '.join(map(str, command))}: exit code {reply.returncode}\n{told}"
            )
        return reply.stdout


def _mirror() -> Iterator[str]:
    """Yield the first mirror that apt of this machine uses for Debian's packages."""
    for path in (*Path("/etc/apt/sources.list.d").glob("debian*"), Path("/etc/apt/sources.list")):
        if not path.exists():
            continue
        for line in path.read_text().splitlines():
            words = line.split()
            if words[:1] in (["URIs:"], ["deb"]):
                yield words[1]
                return
