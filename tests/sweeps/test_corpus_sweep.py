"""Published manifests behave: applied, left to the controllers, shrunk, deleted.

``CORPUS`` names files and folders, separated by colons: each is one set, beside the project's own.
``CORPUS_SETTLE`` is how many seconds the controllers get.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sweeps.corpus import CorpusRun, table

if TYPE_CHECKING:
    from tests.support.plane import FreshPlane

OWN = Path(__file__).parents[2] / "fixtures" / "corpus"
NAMED = [Path(path) for path in os.environ.get("CORPUS", "").split(":") if path]
SETS = {path.name: path.resolve() for path in (*sorted(OWN.iterdir()), *NAMED)}
SETTLE = float(os.environ.get("CORPUS_SETTLE", "60"))


@pytest.mark.sweep
@pytest.mark.parametrize("name", SETS)
def test_set_behaves(fresh_plane: FreshPlane, tmp_path: Path, name: str) -> None:
    """Each difference is a finding."""
    found = CorpusRun(fresh_plane(), SETS[name], tmp_path, SETTLE).run()
    assert not found, f"{name}:\n{table(found)}"
