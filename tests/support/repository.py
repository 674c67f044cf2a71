"""A Git repository on this machine."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Repository:
    """A repository with a work tree, and what people do in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=ana", "-c", "user.email=ana@example.com")
        settings = (*identity, "-c", "protocol.file.allow=always")
        done = subprocess.run(
            ["git", "-C", str(self.root), *settings, *words],
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, newline="")
            os.utime(path, (1, 1))

    def commit(self, **files: str) -> str:
        self.write(**files)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "change")
        return self.git("rev-parse", "HEAD")
