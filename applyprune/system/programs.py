"""Find the file that a command starts.

Windows starts ``NAME.exe`` and ``NAME.cmd`` for NAME. It would also look in the folder that the
user is in; nobody else does, because anybody may have put a program there.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from errno import ENOENT
from os import strerror
from pathlib import Path, PureWindowsPath

_EXTENSIONS = ".com;.exe;.bat;.cmd"
_BATCH = frozenset({".bat", ".cmd"})
# What cmd.exe, which runs a batch file, does not take for text, whether it is quoted or not.
_INTERPRETED = frozenset('"%!^&|<>()\r\n')


class UnsafeArguments(Exception):
    """The program would get other arguments than these."""


def windows_files(command: str, folder: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the files that a command may mean on Windows, in order.

    One with a path is relative to ``folder``; any other is looked for in ``PATH``.
    """
    extensions = [one for one in environ.get("PATHEXT", _EXTENSIONS).lower().split(";") if one]
    path = PureWindowsPath(command)
    has_path = path.name != command
    places = [folder] if has_path else environ.get("PATH", "").split(";")
    names = [command] if path.suffix.lower() in extensions else []
    names += [f"{command}{extension}" for extension in extensions]
    for place in places:
        # A relative entry of PATH is some folder of the folder that the user is in.
        if (within := PureWindowsPath(place.strip('"'))).is_absolute() or has_path:
            yield from (str(within / name) for name in names)


def fault_for_batch_file(program: str, arguments: Sequence[str]) -> str:
    """Return why a program of Windows cannot get its arguments as they are; empty if it can."""
    if PureWindowsPath(program).suffix.lower() not in _BATCH:
        return ""
    for number, argument in enumerate(arguments, 1):
        if found := sorted(_INTERPRETED & set(argument)):
            return f"it is a batch file, and Windows interprets {found[0]!r} in argument {number}"
    return ""


if sys.platform == "win32":

    def command_line(
        command: Sequence[str], folder: Path, environ: Mapping[str, str]
    ) -> Sequence[str]:
        """Return a command with the file that it starts in a folder.

        Raises FileNotFoundError, and UnsafeArguments for some arguments of a batch file.
        """
        program, *arguments = command
        for file in windows_files(program, str(folder.absolute()), environ):
            if Path(file).is_file():
                if fault := fault_for_batch_file(file, arguments):
                    raise UnsafeArguments(fault)
                return (file, *arguments)
        raise FileNotFoundError(ENOENT, strerror(ENOENT), program)

    def find_program(name: str, environ: Mapping[str, str]) -> str | None:
        """Return the file of a program in ``PATH``, or None."""
        files = windows_files(name, "", environ)
        return next((file for file in files if Path(file).is_file()), None)

else:

    def command_line(
        command: Sequence[str], folder: Path, environ: Mapping[str, str]
    ) -> Sequence[str]:
        """Return the command as it is: the system finds its file, and all arguments are text."""
        del folder, environ
        return command

    def find_program(name: str, environ: Mapping[str, str]) -> str | None:
        """Return the file of a program in ``PATH``, or None."""
        return shutil.which(name, path=environ.get("PATH"))
