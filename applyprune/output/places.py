"""Where an error stands, as the page of a commit or a merge request wants it: from the root."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from applyprune.model.manifest import Origin


@dataclass(frozen=True, slots=True)
class Places:
    """The working directory and the root of the repository, both absolute; empty if not known."""

    here: str = ""
    root: str = ""

    def path(self, origin: Origin | None) -> str:
        """Return a file's path from the root, as it was given where it does not lie below it.

        Empty for what is no file: standard input, a URL.
        """
        if origin is None or origin.path.startswith("<") or "://" in origin.path:
            return ""
        if not self.here:
            return PurePath(origin.path).as_posix()
        # A link keeps its own name: it is that which the repository has.
        whole = PurePath(os.path.normpath(PurePath(self.here, origin.path)))
        root = self.root or self.here
        inside = whole.is_relative_to(root)
        return (whole.relative_to(root) if inside else PurePath(origin.path)).as_posix()
