"""Programs that were built elsewhere: the wheel ``applyprune-plane``, and mirrors.

Programs that are others than this applyprune would build, or incomplete, are never started.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import platform
import re
import shutil
import time
import zipfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from applyprune.errors import AccessError, UsageError
from applyprune.localplane.cache import (
    make_once,
    minutes_and_seconds,
    not_written,
    user_cache_folder,
)
from applyprune.values import dataclass, pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from _typeshed import ReadableBuffer

    from applyprune.localplane.cache import Progress

DISTRIBUTION = "applyprune-plane"
PACKAGE = "applyprune_plane"


def installed(module: str, progress: Progress) -> Path | None:
    """Return the folder of the installed programs of this module; None if there are none that fit.

    They are used where they are, so they need no cache. Every digest is checked each time: nobody
    else has compared what an installer wrote.
    """
    folder = _package()
    if folder is None:
        return None
    progress.tick(f"checking the package {DISTRIBUTION}")
    start = time.monotonic()
    try:
        facts = fitting_facts(_facts(folder), module)
        check_programs(folder, facts)
    except Unfit as unfit:
        progress.step(
            f"the package {DISTRIBUTION} in {folder} is not used: {unfit}."
            " Install the one of this applyprune:"
            " pip install --force-reinstall --no-cache-dir 'applyprune[plane]'"
        )
        return None
    progress.step(
        f"using the control plane of the package {DISTRIBUTION} (Kubernetes {facts.kubernetes}),"
        f" checked in {time.monotonic() - start:.1f} s"
    )
    return folder


def _package() -> Path | None:
    """Return the folder of the package, which is found and not run."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent


def _facts(folder: Path) -> bytes:
    try:
        return (folder / FACTS).read_bytes()
    except OSError as error:
        raise Unfit(f"its {FACTS} cannot be read: {error.strerror}") from None


# What the wheel holds: the programs, and the facts by which they are checked.
#
# ``tests/packaging/plane_wheel`` writes it. The facts name the Go module and the platform that the
# programs were built from and for, and the digest of each program.


FACTS = "plane.json"
"""The file of the facts, in the package beside the programs."""
CONTROL_PLANE = "controlplane"
KUBECTL = "kubectl"
PROGRAMS = (CONTROL_PLANE, KUBECTL)
REVISION = 2
"""To be raised for every wheel that is built from another Go module for the same Kubernetes."""
_SHA256 = pattern(r"[0-9a-f]{64}")
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class WheelFacts:
    """What a wheel says about its programs."""

    module: str
    """The digest of the Go module and the platform: the cache key of a build."""
    platform: str
    """The platform, for messages: ``Linux/x86_64``."""
    kubernetes: str
    go: str
    programs: Mapping[str, str]
    """The SHA-256 of each program, in hex."""

    def written(self) -> bytes:
        facts = {
            "module": self.module,
            "platform": self.platform,
            "kubernetes": self.kubernetes,
            "go": self.go,
            "programs": dict(sorted(self.programs.items())),
        }
        return f"{json.dumps(facts, indent=2)}\n".encode()


class Unfit(Exception):
    """The programs are not those that this applyprune would build; the text says why."""


def fitting_facts(content: bytes, module: str) -> WheelFacts:
    """Return the facts if they are complete and of this module and platform; raise Unfit."""
    try:
        said: Any = json.loads(content)
        programs = said["programs"]
        facts = WheelFacts(
            module=_text(said["module"]),
            platform=_text(said["platform"]),
            kubernetes=_text(said["kubernetes"]),
            go=_text(said["go"]),
            programs={name: _text(programs[name]) for name in PROGRAMS},
        )
    except (ValueError, LookupError, TypeError):
        raise Unfit(f"its {FACTS} is invalid") from None
    if not all(_SHA256.fullmatch(digest) for digest in facts.programs.values()):
        raise Unfit(f"its {FACTS} is invalid")
    if facts.platform != this_platform():
        raise Unfit(f"it is for {facts.platform}, and this machine is {this_platform()}")
    if facts.module != module:  # guard: sources-of-a-wheel
        raise Unfit(
            f"it was built from other sources: {facts.kubernetes}, module {facts.module}, and"
            f" this applyprune wants module {module}"
        )
    return facts


def _text(value: object) -> str:
    # They are printed: from a wheel that somebody else has made.
    if not isinstance(value, str) or not value.isprintable() or len(value) > _LONGEST:
        raise ValueError(value)
    return value


def check_programs(folder: Path, facts: WheelFacts) -> None:
    """Raise Unfit unless each program in the folder is whole, the right one, and executable."""
    for name in PROGRAMS:
        path = folder / name
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise Unfit(f"its program {name} cannot be read: {error.strerror}") from None
        if digest != facts.programs[name]:  # guard: program-of-a-wheel
            raise Unfit(f"its program {name} is damaged: it has another digest")
        if not os.access(path, os.X_OK):
            raise Unfit(f"its program {name} is not executable")


def is_sha256(text: str) -> bool:
    return _SHA256.fullmatch(text) is not None


def this_platform() -> str:
    """Return the platform of this machine, as it enters the digest of a Go module."""
    return f"{platform.system()}/{platform.machine()}"


def wheel_version(kubernetes: str) -> str:
    return f"{kubernetes.removeprefix('v')}.{REVISION}"


# A mirror: a folder, or an HTTPS address and a digest, with wheels and an index of their digests.
#
# The programs run with the user's rights, so the server of a mirror must not choose them: the
# user's address pins the index, the index the wheel, and the wheel its programs. A folder is the
# user's own and needs no pin.


MIRROR_INDEX = "applyprune-plane.json"
"""The file of a mirror that names its wheels and their digests."""
_PIN = "#sha256="
_CHUNK = 2**20
_LARGEST_INDEX = 2**20
_WHEEL = pattern(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,200}\.whl")
_LARGEST_WHEEL = 2**30
_LARGEST_FACTS = 2**16


def fetched(origin: PlaneOrigin, module: str, progress: Progress) -> Path:
    """Return the folder of the programs of this module; fetch them unless they were fetched.

    Raises UsageError for an address that is not usable, and AccessError if the mirror does not
    hold these programs, complete and unchanged.
    """
    mirror = _opened(origin)
    folder = fetched_folder(module) / mirror.pin[:20]
    new = False

    def fill(making: Path) -> None:
        nonlocal new
        new = True
        _fetch(mirror, module, making, progress)

    make_once(folder, fill, "fetching the control plane", progress, programs=PROGRAMS)
    if not new:
        progress.step(f"using the control plane that was fetched from {mirror.shown}: {folder}")
    return folder


@dataclass(frozen=True, slots=True)
class PlaneOrigin:
    """The mirror that a user has named: ``--plane-from``, ``APPLYPRUNE_PLANE``."""

    named: str
    """A folder, or an HTTPS address with ``#sha256=`` and the digest of its index."""
    download: Download


class Download(Protocol):
    """How the content of an HTTPS address is read."""

    def __call__(self, url: str, file: IO[bytes], limit: int) -> None:
        """Write the whole content, at most ``limit`` bytes, to a file, or raise AccessError."""


def fetched_folder(module: str) -> Path:
    """Return the folder of the cache with a folder for each mirror that this module is from."""
    return user_cache_folder() / "fetched-planes" / module


@dataclass(frozen=True, slots=True)
class _Mirror:
    shown: str
    """Where it is, without credentials."""
    pin: str
    """The SHA-256 of its index."""
    read: Callable[[str, IO[bytes], int], None]
    """Write the file of this name, at most so many bytes, or raise AccessError."""


@dataclass(frozen=True, slots=True)
class _Wheel:
    """A line of the index."""

    name: str
    digest: str
    size: int


def _opened(origin: PlaneOrigin) -> _Mirror:
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", origin.named) is None:
        return _folder(Path(origin.named).expanduser())
    address, _, pin = origin.named.partition(_PIN)
    shown = _without_login(address)
    if not address.startswith("https://"):
        raise UsageError(
            f"the control plane cannot be taken from {shown}",
            reason="only a folder and an https:// address are supported",
            hint="Give the folder that `make plane-wheel` has written, or its HTTPS address.",
        )
    if not is_sha256(pin):
        raise UsageError(
            f"the address {shown} does not say which control plane is trusted",
            reason="its server would choose programs that run with your rights",
            hint=f"Append {_PIN} and the SHA-256 of its {MIRROR_INDEX}, which `make plane-wheel`"
            " prints.",
        )
    base = address.rstrip("/")

    def read(name: str, file: IO[bytes], limit: int) -> None:
        origin.download(f"{base}/{name}", file, limit)

    return _Mirror(shown, pin, read)


def _folder(folder: Path) -> _Mirror:
    def read(name: str, file: IO[bytes], limit: int) -> None:
        try:
            opened = (folder / name).open("rb")
        except OSError as error:
            raise AccessError(
                "the folder has no control plane",
                location=str(folder),
                reason=f"{name}: {error.strerror}",
                hint="`make plane-wheel` writes such a folder.",
            ) from None
        with opened:
            left = limit
            while chunk := opened.read(min(_CHUNK, left)):
                file.write(chunk)
                left -= len(chunk)

    index = io.BytesIO()
    read(MIRROR_INDEX, index, _LARGEST_INDEX)
    return _Mirror(str(folder), hashlib.sha256(index.getvalue()).hexdigest(), read)


def _fetch(mirror: _Mirror, module: str, making: Path, progress: Progress) -> None:
    start = time.monotonic()
    wheel = _wheel(mirror, module)
    progress.step(
        f"fetching the control plane from {mirror.shown}: {wheel.name}, {wheel.size / 1e6:.0f} MB"
    )
    path = making / wheel.name
    try:
        with _ShownDownload(path, wheel.size, progress) as file:
            mirror.read(wheel.name, file, wheel.size)
        _check(path, wheel)
        _unpack(path, making, module)
        path.unlink()
    except Unfit as unfit:
        raise _failure(mirror, str(unfit)) from None
    except OSError as error:
        raise not_written(making.parent, error) from None
    progress.step(f"fetched the control plane in {minutes_and_seconds(time.monotonic() - start)}")


class _ShownDownload(io.BufferedWriter):
    """A file that shows how much of it is written: a line may be slow."""

    def __init__(self, path: Path, size: int, progress: Progress) -> None:
        """Write to the path; ``size`` is that of the whole."""
        super().__init__(io.FileIO(path, "wb"))
        self._size = size
        self._progress = progress

    def write(self, buffer: ReadableBuffer, /) -> int:
        written = super().write(buffer)
        self._progress.tick(
            f"fetching the control plane: {self.tell() / 1e6:.0f} of {self._size / 1e6:.0f} MB"
        )
        return written


def _wheel(mirror: _Mirror, module: str) -> _Wheel:
    """Return the wheel of this module; the index is read only when it is the trusted one."""
    content = io.BytesIO()
    mirror.read(MIRROR_INDEX, content, _LARGEST_INDEX)
    digest = hashlib.sha256(content.getvalue()).hexdigest()
    if digest != mirror.pin:  # guard: index-of-a-mirror
        page = "is a web page: it " if content.getvalue().lstrip()[:1] == b"<" else ""
        raise _failure(
            mirror, f"its {MIRROR_INDEX} {page}has the digest {digest}, and not {mirror.pin}"
        )
    try:
        said: Any = json.loads(content.getvalue())
        line = said["planes"].get(module)
        if line is None:
            raise _failure(
                mirror,
                f"it has no control plane of this applyprune for {this_platform()}"
                f" (module {module})",
            )
        found = _Wheel(line["wheel"], line["sha256"], line["size"])
        is_valid = (
            _WHEEL.fullmatch(found.name) is not None
            and is_sha256(found.digest)
            and type(found.size) is int
            and 0 < found.size <= _LARGEST_WHEEL
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        is_valid = False
    if not is_valid:
        raise _failure(mirror, f"its {MIRROR_INDEX} is invalid")
    return found


def _check(path: Path, wheel: _Wheel) -> None:
    """Raise Unfit unless the file is the wheel that the index names."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest == wheel.digest:  # guard: wheel-of-a-mirror
        return
    size = path.stat().st_size
    part = f": it has {size} of {wheel.size} bytes" if size != wheel.size else ""
    raise Unfit(f"{wheel.name} has another digest than in the index{part}")


def _unpack(wheel: Path, folder: Path, module: str) -> None:
    """Write the programs of a wheel to the folder, and check them there; raises Unfit."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            with archive.open(f"{PACKAGE}/{FACTS}") as member:
                facts = fitting_facts(member.read(_LARGEST_FACTS), module)
            for name in PROGRAMS:
                with archive.open(f"{PACKAGE}/{name}") as member, (folder / name).open("wb") as out:
                    shutil.copyfileobj(member, out, _CHUNK)
                (folder / name).chmod(0o755)
    except (zipfile.BadZipFile, zlib.error, LookupError, EOFError, NotImplementedError):
        raise Unfit(f"{wheel.name} is not a wheel of the control plane") from None
    check_programs(folder, facts)


def _without_login(address: str) -> str:
    """Return an address that is safe to print."""
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path.partition('?')[0].partition('#')[0]}"


def _failure(mirror: _Mirror, reason: str) -> AccessError:
    return AccessError(
        "the control plane cannot be taken from this mirror",
        location=mirror.shown,
        reason=reason,
        hint="Ask who runs the mirror for its address and digest, or leave out --plane-from and"
        " APPLYPRUNE_PLANE.",
    )
