"""What an input keeps: manifests without a tree of dicts, and texts that are compressed."""

from __future__ import annotations

import gc
import io
from typing import TYPE_CHECKING

import pytest

from applyprune.model.problem import Problem, ProblemKind
from applyprune.sources.load import KeptTexts, read
from tests.benchmarks.workload import write_manifests

if TYPE_CHECKING:
    from pathlib import Path

OBJECTS = 200


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """Return a folder with manifests of eight kinds."""
    write_manifests(tmp_path / "set", OBJECTS, "memory", 2)
    return tmp_path / "set"


def _everything(found: object) -> list[object]:
    """Return all that a value holds, directly or not; no classes and no modules."""
    seen: dict[int, object] = {}
    left: list[object] = [found]
    while left:
        one = left.pop()
        if id(one) not in seen and not isinstance(one, type):
            seen[id(one)] = one
            left += gc.get_referents(one)
    return list(seen.values())


def test_input_holds_no_tree(manifests: Path) -> None:
    """Each body is one text: the dicts are those of the input itself."""
    found = read([str(manifests)])
    held = _everything((found.manifests, found.texts, found.ignored))
    assert len(found) == OBJECTS
    assert sum(isinstance(one, bytes) for one in held) == OBJECTS + 2
    assert sum(isinstance(one, dict | list) for one in held) <= 2


def test_input_keeps_less_than_its_texts(manifests: Path) -> None:
    """The text of each source is compressed: all of them are a tenth of what they were."""
    size = sum(path.stat().st_size for path in manifests.iterdir())
    kept = [one for one in _everything(read([str(manifests)]).texts) if isinstance(one, bytes)]
    assert sum(map(len, kept)) < size / 8


def test_message_quotes_standard_input(manifests: Path) -> None:
    """It cannot be read again."""
    data = b"---\n".join(path.read_bytes() for path in sorted(manifests.iterdir()))
    found = read(["-"], stdin=io.BytesIO(data))
    origin = found[100].origin
    problem = Problem(ProblemKind.INPUT_ERROR, "wrong", origin=origin, field=("metadata", "name"))
    assert f"{found[100].name}" in found.pointed(problem).excerpt


@pytest.mark.parametrize("text", ["", "a: b\n", "é😀\u2028: \ufffd\n" * 2000])
def test_text_is_the_same(text: str) -> None:
    """A short text is kept as it is."""
    texts = KeptTexts()
    texts.keep("web.yaml", text)
    assert texts == {"web.yaml": text}
    assert len(texts) == 1
    with pytest.raises(KeyError):
        texts["other.yaml"]
