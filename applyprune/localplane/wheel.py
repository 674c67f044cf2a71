"""The installed wheel ``applyprune-plane``: programs that were built elsewhere.

Programs that are others than this applyprune would build, or incomplete, are never started.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from applyprune.values import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

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


class WheelFacts(Struct, frozen=True):
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
    if facts.module != module:  # guard: sources-of-a-wheel never
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
        if digest != facts.programs[name]:  # guard: program-of-a-wheel never
            raise Unfit(f"its program {name} is damaged: it has another digest")
        if not os.access(path, os.X_OK):
            raise Unfit(f"its program {name} is not executable")


def this_platform() -> str:
    """Return the platform of this machine, as it enters the digest of a Go module."""
    return f"{platform.system()}/{platform.machine()}"


def wheel_version(kubernetes: str) -> str:
    return f"{kubernetes.removeprefix('v')}.{REVISION}"
