"""Fixtures of the stories about plans: a set that exists already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.desk import NAMES, Desk

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api


@pytest.fixture
def desk(plane: Plane, api: Api, namespace: str, tmp_path: Path) -> Desk:
    """A set of nine ConfigMaps that all have the value 1."""
    desk = Desk(plane, api, namespace, tmp_path)
    assert desk.call("apply", **dict.fromkeys(NAMES, "1")).code == 0
    return desk
