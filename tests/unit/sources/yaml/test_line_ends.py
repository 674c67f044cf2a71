"""Files of Windows: CR LF gives the same objects, places and messages as LF."""

from __future__ import annotations

from pathlib import Path

import pytest

from applyprune.errors import InputError, problems_of
from applyprune.model.problem import Problem
from applyprune.sources import read

FIXTURES = Path(__file__).parents[4] / "fixtures"
GOOD = sorted(
    path
    for folder in ("demo", "shop", "screens", "corpus")
    for path in (FIXTURES / folder).rglob("*.yaml")
    if "kustomization" not in path.name and b"\r" not in path.read_bytes()
)
BROKEN = sorted(
    path
    for path in (FIXTURES / "broken").rglob("*.*")
    if path.suffix in {".yaml", ".yml", ".json"}
    and "kustomization" not in path.name
    and b"\r" not in path.read_bytes()
)
WITH_BLOCKS = (
    "# a comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  script: |\n"
    "    line 1\n\n    line 2\n  folded: >-\n    one\n    two\n  quoted: 'a\n    b'\n---\n"
    "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n"
    "  metadata: {name: b}\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: c}"
)


def found(path: Path, data: bytes) -> tuple[list[object], list[Problem]]:
    """Return the objects with their places, and the problems, of a file with that content."""
    path.write_bytes(data)
    try:
        objects = [(one.origin, one.body) for one in read([str(path)])]
    except InputError as error:
        return [], list(problems_of(error))
    return list(objects), []


def is_same(folder: Path, name: str, data: bytes) -> tuple[list[object], list[Problem]]:
    """Assert that CR LF changes nothing; return what was found."""
    path = folder / name
    with_lf = found(path, data)
    with_crlf = found(path, data.replace(b"\n", b"\r\n"))
    assert with_crlf == with_lf
    return with_lf


@pytest.mark.parametrize("source", GOOD, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_objects_and_their_places_are_the_same(tmp_path: Path, source: Path) -> None:
    """Every file of the demo, the shop and the screens."""
    is_same(tmp_path, source.name, source.read_bytes())


@pytest.mark.parametrize("source", BROKEN, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_problems_and_their_places_are_the_same(tmp_path: Path, source: Path) -> None:
    """Line, column, excerpt and advice of every broken file."""
    is_same(tmp_path, source.name, source.read_bytes())


def test_texts_of_several_lines_are_the_same(tmp_path: Path) -> None:
    """Kubernetes gets LF, as from kubectl; and the last line may have no end."""
    objects, problems = is_same(tmp_path, "a.yaml", WITH_BLOCKS.encode())
    assert (len(objects), problems) == (3, [])
    assert "line 1\\n\\nline 2\\n" in str(objects)
