"""What the wheel ``applyprune-plane`` holds: the programs, and the facts by which they are checked.

``tests/packaging/plane_wheel`` writes it. The facts name the Go module and the platform that the
programs were built from and for, and the digest of each program, so that programs that are others,
or incomplete, are never started.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from typing import TYPE_CHECKING, Any

from applyprune.values import dataclass, pattern

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DISTRIBUTION = "applyprune-plane"
PACKAGE = "applyprune_plane"
FACTS = "plane.json"
"""The file of the facts, in the package beside the programs."""
INDEX = "applyprune-plane.json"
"""The file of a mirror that names its wheels and their digests."""
CONTROL_PLANE = "controlplane"
KUBECTL = "kubectl"
PROGRAMS = (CONTROL_PLANE, KUBECTL)
REVISION = 2
"""To be raised for every wheel that is built from another Go module for the same Kubernetes."""

_SHA256 = pattern(r"[0-9a-f]{64}")
_LONGEST = 200


class Unfit(Exception):
    """The programs are not those that this applyprune would build; the text says why."""


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
        """Return the content of the file of the facts."""
        facts = {
            "module": self.module,
            "platform": self.platform,
            "kubernetes": self.kubernetes,
            "go": self.go,
            "programs": dict(sorted(self.programs.items())),
        }
        return f"{json.dumps(facts, indent=2)}\n".encode()


def this_platform() -> str:
    """Return the platform of this machine, as it enters the digest of a Go module."""
    return f"{platform.system()}/{platform.machine()}"


def wheel_version(kubernetes: str) -> str:
    """Return the version of the wheel for a version of Kubernetes."""
    return f"{kubernetes.removeprefix('v')}.{REVISION}"


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
    """Return whether the text is a SHA-256 in lower-case hex."""
    return _SHA256.fullmatch(text) is not None


def _text(value: object) -> str:
    # They are printed: from a wheel that somebody else has made.
    if not isinstance(value, str) or not value.isprintable() or len(value) > _LONGEST:
        raise ValueError(value)
    return value
