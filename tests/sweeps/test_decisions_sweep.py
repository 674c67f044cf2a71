"""Every row of a decision that a server can show, on a server: its world is what runs read."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import tests.decisions
from applyprune.localplane import Plane
from tests.decisions.rows import Row, holds_on
from tests.support.api import Api
from tests.support.stage import Stage

pytestmark = pytest.mark.sweep


def _rows() -> Iterator[tuple[str, Row]]:
    for file in sorted(Path(tests.decisions.__path__[0]).glob("test_*.py")):
        module = import_module(f"tests.decisions.{file.stem}")
        for table, rows in vars(module).items():
            if isinstance(rows, dict):
                named = ((f"{file.stem}-{table}-{name}", row) for name, row in rows.items())
                yield from ((name, row) for name, row in named if isinstance(row, Row))


ROWS = dict(_rows())


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if not row.never])
def test_server_shows_the_world_of_a_row(name: str, plane: Plane, namespace: str, api: Api) -> None:
    """A run decides there as the row says."""
    holds_on(ROWS[name], api, Stage(plane.kubeconfig, namespace))
