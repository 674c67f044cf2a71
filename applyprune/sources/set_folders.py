"""The folders at and below another one in which a set may be: those with a file of its name.

The rules are those of an input: what ``.sourceignore`` leaves out does not count, ``.git`` is
skipped, and what cannot be read never counts as empty. A link to a folder is not followed: one that
leads to a place below is found there, and one that leads elsewhere is an error.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct

from applyprune.errors import InputError
from applyprune.model.problem import Origin
from applyprune.sources.folders import FoundIgnored, unreadable
from applyprune.sources.inputs import LocalFolders
from applyprune.sources.moment import Moment
from applyprune.sources.source_ignore import FILE as IGNORE_FILE
from applyprune.sources.source_ignore import IgnoreRulesInvalid
from applyprune.sources.tree import shown_path

_GIT = ".git"


class SetFolders(Struct, frozen=True):
    """What was found, in the order of the names in each folder, a folder before those in it."""

    folders: tuple[str, ...]
    """Each as seen from the current folder, with a slash at its end; empty for that itself."""
    ignored: tuple[FoundIgnored[Path], ...]
    """The files that rules leave out."""
    errors: tuple[InputError, ...]
    looked_at: int
    """How many folders were read."""


def set_folders(top: str, names: Collection[str]) -> SetFolders:
    """Return the folders at and below ``top`` that have a file with one of these names."""
    walk = _Walk(top, frozenset(names))
    folders: list[str] = []
    ignored: list[FoundIgnored[Path]] = []
    errors: list[InputError] = []
    try:
        for found in walk.found():
            if isinstance(found, InputError):
                errors.append(found)
            elif isinstance(found, FoundIgnored):
                ignored.append(found)
            else:
                folders.append(found)
    except IgnoreRulesInvalid as error:
        errors.append(error)
    errors += walk.moment.changes()
    return SetFolders(tuple(folders), tuple(ignored), tuple(errors), walk.looked_at)


class _Walk:
    def __init__(self, top: str, names: frozenset[str]) -> None:
        self.moment = Moment()
        self.looked_at = 0
        self._names = names
        self._top = "" if top == os.curdir else os.path.join(top, "")  # noqa: PTH118 -- as given
        self._real = os.path.join(os.path.realpath(top), "")  # noqa: PTH118
        self._rules = LocalFolders(self.moment, ())
        self._rules.enter(Path(top))

    def found(self) -> Iterator[str | FoundIgnored[Path] | InputError]:
        waiting = [self._top]
        while waiting:
            folder = waiting.pop()
            # Without the slash at its end, as errors name it.
            place = (folder.rstrip(os.sep) or os.sep) if folder else os.curdir
            try:
                names = self.moment.names(place)
            except OSError as error:
                yield unreadable(shown_path(place), error)
                continue
            except InputError as error:
                yield error
                continue
            self.looked_at += 1
            if name := next((name for name in names if name in self._names), ""):
                rule = self._rules.rule_for(Path(folder, name))
                yield FoundIgnored(Path(folder, name), rule) if rule else folder
            below: list[str] = []
            for name in names:
                if name != _GIT:
                    yield from self._enter(f"{folder}{name}", below)
            waiting += reversed(below)

    def _enter(self, path: str, below: list[str]) -> Iterator[InputError]:
        """Add a folder to those that are read next; yield what is wrong with a link."""
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISDIR(mode):
                below.append(f"{path}{os.sep}")
            if not stat.S_ISLNK(mode) or not stat.S_ISDIR(os.stat(path).st_mode):  # noqa: PTH116
                return
        except OSError as error:
            # A broken link may have led to a folder of sets.
            if not self._rules.rule_for(Path(path)):
                yield unreadable(shown_path(path), error)
            return
        is_within = f"{os.path.realpath(path)}{os.sep}".startswith(self._real)
        # guard: link-out-of-the-sets never
        if not (is_within or self._rules.rule_for(Path(path))):
            yield self._leads_out(path)

    def _leads_out(self, link: str) -> InputError:
        top = shown_path(self._top.rstrip(os.sep)) or "the current folder"
        return InputError(
            f"this link leads out of {top}",
            location=Origin(shown_path(link)),
            reason=f"to {shown_path(str(Path(link).readlink()))}, where no set is looked for",
            hint=f"Name a folder that has both, or leave the link out in {IGNORE_FILE}.",
        )
