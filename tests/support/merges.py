"""A change on a branch, and the ways in which GitHub and GitLab bring it to main."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

MERGES = ("merge", "squash", "rebase")


@dataclass(frozen=True)
class Merge:
    """A checkout on the branch of a change; main gets another commit meanwhile."""

    folder: Path

    def __post_init__(self) -> None:
        """Commit what is there to main, and go to the branch."""
        self._git("init", "--initial-branch=main")
        self.commit("base")
        self._git("checkout", "-b", "change")

    def commit(self, message: str) -> None:
        """Commit all files."""
        self._git("add", ".")
        self._git("commit", f"--message={message}")

    def to_main(self) -> None:
        """Go to main, as it is without the change."""
        self._git("checkout", "main")

    def merge(self, way: str) -> None:
        """Bring the change to main, after other work there."""
        (self.folder / "README.md").write_text("other work")
        self.commit("other work")
        if way == "rebase":
            self._git("rebase", "main", "change")
            self._git("checkout", "main")
            self._git("merge", "--ff-only", "change")
        elif way == "squash":
            self._git("merge", "--squash", "change")
            self._git("commit", "--message=squashed")
        else:
            self._git("merge", "--no-ff", "--message=merged", "change")

    def _git(self, *arguments: str) -> None:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        subprocess.run(["git", *who, *arguments], cwd=self.folder, check=True, capture_output=True)
