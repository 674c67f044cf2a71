"""What ``-o FORMAT=FILE`` writes to, and what a pipeline's environment says of files."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.errors import UsageError
from applyprune.output.printers import OutputTarget, Places, nowhere
from applyprune.output.terminal.style import rendered

if TYPE_CHECKING:
    from collections.abc import Mapping


class ReportFile:
    """A file that a report goes to, a text at a time; each is there as soon as it is written.

    A disk that is full is no reason to stop a run half-way: ``lost`` is why not all of it is there.
    """

    def __init__(self, path: str) -> None:
        """Empty the file, or make it; raise UsageError when that cannot be."""
        self.path = path
        self.lost: OSError | None = None
        self._drafted = False
        try:
            # Kept open until the last event has been written: the caller closes it.
            self._file = Path(path).open("w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"{path} cannot be written", why=why or "") from error
        self._regular = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)

    def write(self, text: str) -> None:
        """Add lines, in the place of a draft where there is one."""
        self._write(text, anew=self._drafted)
        self._drafted = False

    def draft(self, text: str) -> None:
        """Write what is to be there until ``write``; nothing where it could not be taken back."""
        if self._regular:
            self._write(text, anew=True)
            self._drafted = True

    def close(self) -> None:
        """Close the file."""
        try:
            self._file.close()
        except OSError as error:
            self.lost = self.lost or error

    def screen(self, places: Places, *, talk: bool) -> OutputTarget:
        """Return the file as a place for data, and for talk where that is part of the report."""
        err = self.write if talk else nowhere
        return OutputTarget(out=self.write, err=err, draft=self.draft, places=places)

    def _write(self, text: str, *, anew: bool) -> None:
        if self.lost is not None:
            return
        try:
            if anew:
                self._file.seek(0)
            self._file.write(f"{rendered(text, colour=False)}\n")
            self._file.flush()
            if anew:
                self._file.truncate()
        except OSError as error:
            self.lost = error


def places(environ: Mapping[str, str]) -> Places:
    """Return from where paths are told: the checkout of GitHub Actions or GitLab CI, or here."""
    try:
        here = str(Path.cwd())
    except OSError:
        return Places()
    root = environ.get("GITHUB_WORKSPACE") or environ.get("CI_PROJECT_DIR") or here
    return Places(here, os.path.realpath(root))


def step_summary(environ: Mapping[str, str]) -> Path | None:
    """Return the file of GitHub Actions to which a step appends its summary."""
    path = environ.get("GITHUB_STEP_SUMMARY")
    return Path(path) if path else None
