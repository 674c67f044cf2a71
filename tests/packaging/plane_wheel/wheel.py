"""Write the wheel, by the same bytes each time."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.localplane.build import kubernetes_version, module_digest
from applyprune.localplane.wheel import (
    DISTRIBUTION,
    FACTS,
    PACKAGE,
    PROGRAMS,
    WheelFacts,
    this_platform,
    wheel_version,
)
from tests.packaging.plane_wheel.linked import go_version_of, linked_modules
from tests.packaging.plane_wheel.sbom import bill_of_materials

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune.localplane import Progress
    from tests.packaging.plane_wheel.linked import LinkedModule

ROOT = Path(__file__).parents[3]
TAGS: Mapping[str, str] = {
    # The programs are static: any libc will do, and the oldest kernel that Go supports.
    "Linux/x86_64": "manylinux_2_17_x86_64.musllinux_1_1_x86_64",
    "Linux/aarch64": "manylinux_2_17_aarch64.musllinux_1_1_aarch64",
    "Darwin/x86_64": "macosx_12_0_x86_64",
    "Darwin/arm64": "macosx_12_0_arm64",
}
_EARLIEST = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_LEVEL = 6
"""Level 9 takes three times as long, for one percent."""


def write_wheel(programs: Path, folder: Path, progress: Progress) -> Path:
    """Write the wheel of these programs to the folder, and return its path."""
    version = wheel_version(kubernetes_version())
    paths = [programs / name for name in PROGRAMS]
    facts = WheelFacts(
        module=module_digest(),
        platform=this_platform(),
        kubernetes=kubernetes_version(),
        go=go_version_of(paths[0]),
        programs={path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths},
    )
    progress.step("reading the licenses of the Go modules")
    modules = linked_modules(paths)
    tag = f"py3-none-{TAGS[facts.platform]}"
    wheel = folder / f"{PACKAGE}-{version}-{tag}.whl"
    progress.step(f"writing {wheel.name}: {len(modules)} Go modules")
    info = f"{PACKAGE}-{version}.dist-info"
    licenses = dict(_licenses(modules))
    files = {
        f"{PACKAGE}/__init__.py": _init(facts),
        f"{PACKAGE}/{FACTS}": facts.written(),
        **{f"{PACKAGE}/{path.name}": path.read_bytes() for path in paths},
        **{f"{info}/licenses/{name}": content for name, content in licenses.items()},
        f"{info}/sboms/{DISTRIBUTION}.cdx.json": bill_of_materials(facts, version, modules),
        f"{info}/METADATA": _metadata(version, facts, modules, sorted(licenses)),
        f"{info}/WHEEL": _wheel(tag),
    }
    _write(wheel, files, f"{info}/RECORD")
    return wheel


def _licenses(modules: Sequence[LinkedModule]) -> Iterator[tuple[str, bytes]]:
    yield "LICENSE", (ROOT / "LICENSE").read_bytes()
    for module in modules:
        for name, content in module.files:
            yield f"go/{module.path}@{module.version}/{name}", content


def _init(facts: WheelFacts) -> bytes:
    return f'"""The control plane of applyprune: Kubernetes {facts.kubernetes}."""\n'.encode()


def _metadata(
    version: str, facts: WheelFacts, modules: Sequence[LinkedModule], licenses: Sequence[str]
) -> bytes:
    expression = " AND ".join(
        sorted({"Apache-2.0", *(one for module in modules for one in module.licenses)})
    )
    lines = (
        "Metadata-Version: 2.4",
        f"Name: {DISTRIBUTION}",
        f"Version: {version}",
        f"Summary: The embedded control plane of applyprune: Kubernetes {facts.kubernetes}",
        f"License-Expression: {expression}",
        *(f"License-File: {name}" for name in licenses),
        "Requires-Python: >=3.11",
        "Project-URL: Homepage, https://applyprune.dev",
        "Description-Content-Type: text/plain",
        "",
        f"Two programs for {facts.platform}, built with Go {facts.go} from the Go module in",
        f"applyprune: {' and '.join(PROGRAMS)}. The bill of materials in this wheel names each Go",
        "module in them; its sources are at https://proxy.golang.org/MODULE/@v/VERSION.zip.",
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _wheel(tag: str) -> bytes:
    python, abi, platforms = tag.split("-")
    lines = ["Wheel-Version: 1.0", "Generator: applyprune", "Root-Is-Purelib: false"]
    lines += [f"Tag: {python}-{abi}-{one}" for one in platforms.split(".")]
    return "".join(f"{line}\n" for line in lines).encode()


def _write(wheel: Path, files: Mapping[str, bytes], record: str) -> None:
    """Write a zip that depends on nothing but the content of its files."""
    lines = [
        f"{name},sha256={_record_digest(content)},{len(content)}" for name, content in files.items()
    ]
    whole = {**files, record: "".join(f"{line}\n" for line in (*lines, f"{record},,")).encode()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in whole.items():
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.create_system = _UNIX
            is_program = name in {f"{PACKAGE}/{one}" for one in PROGRAMS}
            entry.external_attr = (0o100755 if is_program else 0o100644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, _LEVEL)


def _record_digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
