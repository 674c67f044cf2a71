"""``python -m tests.node.image FOLDER``: build the image, with what is in it and what it weighs.

It writes the archive, a bill of materials (CycloneDX 1.6) beside it, and docs/image.json, from
which the table in deploy/README.md is made.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections import Counter
from email import message_from_string
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from applyprune import __version__
from applyprune.localplane import progress_on
from applyprune.localplane.build import find_go
from applyprune.localplane.cache import Silence
from tests.node.images import PRODUCT, ROOT, ensure_product
from tests.node.isolation import isolated, remove_left
from tests.node.programs import NODE, missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FIGURES = ROOT / "docs/image.json"
SITE = re.compile(r"opt/applyprune/lib/python[^/]+/site-packages/([^/]+)")
PROGRAMS = ("kustomize", "sops")
LAYERS = {
    "COPY dir:[0-9a-f]+ in / ": "git, and its helper for HTTPS",
    "apt-get satisfy": "ssh, and the libraries of git",
    "in /usr/local/bin": "kustomize and sops",
    "in /opt/applyprune": "applyprune, and what it needs",
    "/etc/passwd": "the user",
}
"""What each layer adds, by a part of the command that has made it."""
PARTS = {
    "kubernetes, the official client": ("kubernetes",),
    "CEL": ("cel_expr_python",),
    "cryptography": ("cryptography",),
    "pydantic": ("pydantic", "pydantic_core"),
    "libcurl": ("pycurl.libs",),
}
"""The largest folders of Python packages."""


class Layer(Struct, frozen=True):
    command: str
    """What has made it."""
    files: Mapping[str, int]
    """The size of each regular file in bytes, by its path."""

    @property
    def size(self) -> int:
        return sum(self.files.values())


class Image:
    """An archive of an image: layers of files, each a tar."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        (manifest,) = json.loads(self._read("manifest.json"))
        self._tars = manifest["Layers"]
        history = json.loads(self._read(manifest["Config"]))["history"]
        self._commands = [one["created_by"] for one in history if not one.get("empty_layer")]

    def layers(self) -> list[Layer]:
        found = []
        for name, command in zip(self._tars, self._commands, strict=True):
            with self._layer(name) as tar:
                found.append(Layer(command, {one.name: one.size for one in tar if one.isfile()}))
        return found

    def contents(self, pattern: str) -> Iterator[tuple[str, bytes]]:
        """Yield each file whose path matches, with its content; the last layer that has it wins."""
        found: dict[str, bytes] = {}
        for name in self._tars:
            with self._layer(name) as tar:
                for one in tar:
                    if one.isfile() and re.fullmatch(pattern, one.name):
                        opened = tar.extractfile(one)
                        assert opened is not None
                        found[one.name] = opened.read()
        yield from sorted(found.items())

    def _layer(self, name: str) -> tarfile.TarFile:
        opened = self._archive.extractfile(name)
        assert opened is not None
        return tarfile.open(fileobj=opened)

    def _read(self, name: str) -> bytes:
        opened = self._archive.extractfile(name)
        assert opened is not None
        return opened.read()


# What it weighs.


def figures(image: Image) -> Mapping[str, Any]:
    """Return the sizes of the layers and of the largest parts, in bytes."""
    layers = image.layers()
    largest: Counter[str] = Counter()
    programs: Counter[str] = Counter()
    for layer in layers:
        for path, size in layer.files.items():
            if found := SITE.match(path):
                largest[found[1]] += size
            if path.startswith("usr/local/bin/") and Path(path).name in PROGRAMS:
                programs[Path(path).name] += size
    named = [["the base, python:3.13-slim", layers[0].size]]
    for layer in layers[1:]:
        (what,) = (told for part, told in LAYERS.items() if re.search(part, layer.command))
        named.append([what, layer.size])
    parts = {name: sum(largest[one] for one in folders) for name, folders in PARTS.items()}
    return {"version": __version__, "layers": named, "parts": {**programs, **parts}}


def table() -> str:
    """Return the table of deploy/README.md, in megabytes."""
    found = json.loads(FIGURES.read_text(encoding="utf-8"))
    whole = sum(size for _, size in found["layers"])
    parts = found["parts"]
    lines = ["| layer | MB |", "|---|---|"]
    for name, size in found["layers"]:
        lines.append(f"| {name} | {_megabytes(size)} |")
        inside = PROGRAMS if "kustomize" in name else PARTS if "applyprune" in name else ()
        lines += [f"| … of which {one} | {_megabytes(parts[one])} |" for one in inside]
    client = "kubernetes, the official client"
    lines.append(f"| **the image** | **{_megabytes(whole)}** |")
    lines.append(f"| without kustomize and sops | {_megabytes(whole - _sum(parts, PROGRAMS))} |")
    lines.append(f"| without {client} | {_megabytes(whole - parts[client])} |")
    return "\n".join(lines)


def _sum(parts: Mapping[str, int], names: Sequence[str]) -> int:
    return sum(parts[name] for name in names)


def _megabytes(size: int) -> str:
    return f"{size / 10**6:.1f}" if size < 10**7 else f"{size / 10**6:.0f}"


# What is in it.


def bill(image: Image) -> Mapping[str, Any]:
    """Return the bill of materials: packages of Debian and of Python, and modules of Go.

    It has no time and no serial number: two builds of the same are the same bytes.
    """
    components = [*_debian(image), *_python(image), *_go(image)]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "bom-ref": "image",
                "name": "applyprune",
                "version": __version__,
            }
        },
        "components": components,
        "dependencies": [{"ref": "image", "dependsOn": [one["bom-ref"] for one in components]}],
    }


def _component(kind: str, name: str, version: str, purl: str) -> Mapping[str, str]:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _debian(image: Image) -> Iterator[Mapping[str, str]]:
    found = {}
    for _, content in image.contents(r"var/lib/dpkg/status(?:\.d/[^/]+)?"):
        for text in content.decode().split("\n\n"):
            package = message_from_string(text)
            name, version = package["Package"], package["Version"]
            if name and "installed" in str(package["Status"]).split():
                purl = f"pkg:deb/debian/{name}@{version}?arch={package['Architecture']}"
                found[name] = _component("library", name, version, purl)
    yield from (found[name] for name in sorted(found))


def _python(image: Image) -> Iterator[Mapping[str, str]]:
    for _, content in image.contents(rf"{SITE.pattern}/METADATA"):
        package = message_from_string(content.decode())
        name, version = package["Name"], package["Version"]
        yield _component("library", name, version, f"pkg:pypi/{name.lower()}@{version}")


_MODULE = re.compile(r"^\t(mod|dep|=>)\t(\S+)\t(\S+)", re.MULTILINE)


def _go(image: Image) -> Iterator[Mapping[str, str]]:
    modules, go = {}, find_go(NODE, Silence()).go
    for path, content in image.contents(r"usr/local/bin/(?:kustomize|sops)"):
        with TemporaryDirectory() as folder:
            program = Path(folder) / Path(path).name
            program.write_bytes(content)
            lines = subprocess.check_output([go, "version", "-m", program], text=True)
        for kind, name, version in _MODULE.findall(lines):
            purl = f"pkg:golang/{name}@{version}"
            told = "application" if kind == "mod" else "library"
            modules[purl] = _component(told, name, version, purl)
    yield from (modules[purl] for purl in sorted(modules))


def main(arguments: Sequence[str]) -> int:
    """Build and write; return the exit code."""
    if arguments[:1] == ["inside"]:
        archive = ensure_product(PRODUCT, Path(arguments[-1]), progress_on(sys.stderr))
        shutil.copy(archive, arguments[1])
        return 0
    if why := missing():
        sys.stderr.write(f"make image cannot run here. {why}\n")
        return 2
    folder = Path(arguments[0]).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"applyprune-{__version__}.tar"
    remove_left()
    code = isolated((sys.executable, "-m", "tests.node.image", "inside", str(archive)))
    if code != 0:
        return code
    with tarfile.open(archive) as opened:
        image = Image(opened)
        FIGURES.write_text(f"{json.dumps(figures(image), indent=1)}\n", encoding="utf-8")
        materials = folder / f"applyprune-{__version__}-image.cdx.json"
        materials.write_text(f"{json.dumps(bill(image), indent=1)}\n", encoding="utf-8")
    sys.stdout.write(f"{archive}\n{materials}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
