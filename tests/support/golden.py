"""Golden files: ``pytest --snapshot-update`` writes them; review the difference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from syrupy.data import SnapshotCollections
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

if TYPE_CHECKING:
    from syrupy.location import PyTestLocation
    from syrupy.types import SnapshotIndex

FIXTURES = Path(__file__).parents[2] / "fixtures"


class GoldenFile(SingleFileSnapshotExtension):
    """The text file below ``fixtures`` that ``golden(name=PATH)`` names; README shows some."""

    _write_mode = WriteMode.TEXT

    @classmethod
    def get_location(cls, *, test_location: PyTestLocation, index: SnapshotIndex) -> str:
        """Return the path, which does not depend on the name of the test."""
        return str(FIXTURES / str(index))

    @classmethod
    def matches_test_location(
        cls, *, test_location: PyTestLocation, snapshot_location: str
    ) -> bool:
        """Return True: syrupy would look for the test's name in the path."""
        return True

    def discover_snapshots(
        self, *, test_location: PyTestLocation, ignore_extensions: list[str] | None = None
    ) -> SnapshotCollections:
        """Return nothing: other files beside the golden ones are not unused snapshots."""
        return SnapshotCollections()
