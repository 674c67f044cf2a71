"""The threat model names a test for each attack, and the test exists."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT, page
from tests.support.attacks.clusters import CLUSTERS
from tests.support.attacks.identity import IDENTITY
from tests.support.attacks.places import ELSEWHERE
from tests.support.attacks.records import RECORDS
from tests.support.attacks.source_content import CONTENT
from tests.support.attacks.source_spec import SPECS
from tests.support.attacks.sources import SOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping

SECTION = "The attacks and their tests"
_TEST = re.compile(r"`([a-z0-9_/]+\.py)::(test_[a-z0-9_]+)`")
_KIND = re.compile(r"`([a-z]+):`")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in page("docs/concepts/threat-model.md").section(SECTION).splitlines()
    if line.startswith("| ") and not line.startswith("| attack")
]
TABLES: Mapping[str, tuple[Mapping[str, object], ...]] = {
    "controller/test_tenants_cannot_escape.py": (IDENTITY, CLUSTERS, ELSEWHERE, SOURCES, RECORDS),
    "controller/fetching/test_source_attacks.py": (CONTENT, SPECS),
}
"""The tables of attacks of a test, by its file."""


def test_attacks_are_many() -> None:
    assert len(ROWS) > 20
    assert {len(row) for row in ROWS} == {3}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_attack_has_a_test_that_exists(row: list[str]) -> None:
    """In a file of tests/, as a function of its module."""
    named = _TEST.findall(row[2])
    assert named
    assert _TEST.sub("", row[2]).strip(", ") == ""
    for path, test in named:
        tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
        assert test in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}, path


@pytest.mark.parametrize("path", TABLES)
def test_kinds_of_attacks_are_those_of_the_tables(path: str) -> None:
    """One of a new kind is found here too."""
    kinds = {re.split("[: ]", attack)[0] for table in TABLES[path] for attack in table}
    told = [kind for row in ROWS if f"`{path}::" in row[2] for kind in _KIND.findall(row[0])]
    assert sorted(told) == sorted(kinds)
