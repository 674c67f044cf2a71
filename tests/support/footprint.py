"""What a running controller holds: processes, open files and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.namespaces import all_inside
from tests.support.processes import open_files, proportional_size

if TYPE_CHECKING:
    from tests.support.controller import Controller

_MORE_FILES = 32 * 3
"""Connections that one of two equal controllers may have kept, each with two files of libcurl."""
_MORE_BYTES = 128 * 2**20
"""A worker holds about 20 MB more after its first few Bundles; a new controller has had none."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """What all processes of a controller hold."""

    processes: int
    files: int
    size: int
    """In bytes; what they share counts once."""

    def is_more_than(self, other: Footprint) -> bool:
        """Return whether it holds more than another controller with the same work."""
        return (
            self.processes > other.processes
            or self.files > other.files + _MORE_FILES
            or self.size > other.size + _MORE_BYTES
        )


def footprint(running: Controller) -> Footprint:
    """Return what a controller holds now."""
    found = all_inside(running.process)
    return Footprint(len(found), sum(map(open_files, found)), sum(map(proportional_size, found)))
