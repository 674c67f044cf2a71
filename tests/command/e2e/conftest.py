"""A set that exists already, for calls of the installed command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.desk import NAMES, Desk
from tests.support.objects import config_map
from tests.support.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api


@pytest.fixture
def desk(plane: Plane, api: Api, namespace: str, tmp_path: Path) -> Desk:
    """A set of nine ConfigMaps that all have the value 1."""
    Stage(plane.kubeconfig, namespace).run(*(config_map(name, "1") for name in NAMES))
    return Desk(plane, api, namespace, tmp_path)
