"""Control planes for sets: a new one before too many objects of earlier rounds are on it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from tests.benchmarks.measuring.site import site_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Binaries
    from tests.benchmarks.measuring.site import Site

_MOST = 12_000
"""Objects on one plane: what a program lists should be about its own."""


@dataclass(slots=True)
class Planes:
    """One plane at a time, each warmed up before it is measured."""

    binaries: Binaries
    folder: Path
    warm_up: Callable[[Site], None]
    """Runs each program once: discovery caches, the page cache, the server's own warming up."""
    _site: Site | None = None
    _objects: int = 0
    _started: int = 0
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        """Start nothing yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the plane."""
        self._stack.close()

    def site_for(self, objects: int) -> Site:
        """Return a plane with room for so many more objects."""
        if self._site is None or self._objects + objects > _MOST:
            self._stack.close()
            self._objects = 0
            self._started += 1
            folder = self.folder / f"plane-{self._started}"
            folder.mkdir(parents=True)
            caches = self.folder / "caches"
            self._site = self._stack.enter_context(site_in(folder, self.binaries, caches))
            self.warm_up(self._site)
        self._objects += objects
        return self._site
