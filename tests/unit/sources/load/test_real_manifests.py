"""Real sets read the same by an independent reader: PyYAML, which comes with ``kubernetes``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from applyprune.sources import read

ROOT = Path(__file__).parents[4]
OWN = ("shop", "demo/store")
SHARED = ROOT.parent / "shared" / "manifests"
PUBLISHED = (
    "kube-prometheus",
    "online-boutique/kubernetes-manifests.yaml",
    "ingress-nginx/deploy.yaml",
)
# A fresh clone and a developer run the same tests: those of data beside the project are a sweep.
SETS = [
    *(pytest.param(ROOT / "fixtures" / name, id=name) for name in OWN),
    *(
        pytest.param(SHARED / name, id=name, marks=pytest.mark.sweep)
        for name in PUBLISHED
        if SHARED.is_dir()
    ),
]


class Independent(yaml.CSafeLoader):  # type: ignore[misc]
    """PyYAML's safe loader, which by itself stumbles over an ``=`` in the Prometheus CRDs."""


Independent.add_constructor("tag:yaml.org,2002:value", lambda _loader, node: node.value)


def independent(path: Path) -> list[str]:
    """Return the objects of a file or a folder as canonical JSON, lists expanded."""
    files = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
    found: list[Any] = []
    for file in files:
        found += yaml.load_all(file.read_text(), Loader=Independent)
    bodies: list[Any] = []
    for body in found:
        bodies += body["items"] if body and body["kind"].endswith("List") else [body]
    return [canonical(body) for body in bodies if body]


def canonical(body: Any) -> str:
    return json.dumps(body, sort_keys=True)


@pytest.mark.parametrize("path", SETS)
def test_real_manifests_read_as_by_another_reader(path: Path) -> None:
    found = [canonical(manifest.body) for manifest in read([str(path)])]
    assert found == independent(path) != []


@pytest.mark.parametrize("path", SETS)
def test_manifest_begins_in_its_line(path: Path) -> None:
    for manifest in read([str(path)]):
        lines = Path(manifest.origin.path).read_text().split("\n")
        first = lines[manifest.origin.line - 1].lstrip("- ")
        assert first.partition(":")[0] in manifest.body
