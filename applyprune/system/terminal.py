"""The terminal of this process, whatever its standard input is, and the name of its user."""

from __future__ import annotations

import getpass
import io
import os
import sys
from contextlib import suppress

if sys.platform == "win32":
    import msvcrt

    def open_terminal() -> io.RawIOBase:
        """Open it to read lines of UTF-8; raises OSError if there is none."""
        # The console itself: what is typed is decoded there, and Ctrl-C ends a read.
        return open("CONIN$", "rb", buffering=0)  # noqa: PTH123 -- a device, not a path

    def open_standard_input() -> io.RawIOBase:
        """Open standard input, which is a terminal; raises OSError."""
        return open_terminal()

    def drop_typed(terminal: io.RawIOBase) -> None:
        """Drop what was typed and not read."""
        del terminal
        while msvcrt.kbhit():
            msvcrt.getwch()

else:
    import termios

    def open_terminal() -> io.RawIOBase:
        """Open it to read lines of UTF-8; raises OSError if there is none."""
        return io.FileIO(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))

    def open_standard_input() -> io.RawIOBase:
        """Open standard input, which is a terminal; raises OSError."""
        return io.FileIO(sys.stdin.fileno(), closefd=False)

    def drop_typed(terminal: io.RawIOBase) -> None:
        """Drop what was typed and not read."""
        with suppress(termios.error):
            termios.tcflush(terminal.fileno(), termios.TCIFLUSH)


def has_terminal() -> bool:
    """Return whether there is one."""
    try:
        open_terminal().close()
    except OSError:
        return False
    return True


def user_name() -> str:
    """Return it; where the system knows none, the user's number, or a question mark."""
    try:
        return getpass.getuser()
    # A container's user without a name; and Windows without USERNAME has no database to look in.
    except (ImportError, KeyError, OSError):
        return _number()


if sys.platform == "win32":

    def _number() -> str:
        return "?"

else:

    def _number() -> str:
        return str(os.getuid())
