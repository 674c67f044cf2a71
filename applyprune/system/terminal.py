"""The terminal of this process, the name of its user, and terminals for programs that it runs."""

from __future__ import annotations

import fcntl
import getpass
import io
import os
import struct
import sys
import termios
from contextlib import suppress


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


def new_terminal(columns: int) -> tuple[io.FileIO, int]:
    """Open a terminal for another program: our end, and the file that is the program's."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    settings = termios.tcgetattr(theirs)
    # The terminal that shows its lines in the end moves to column 1 itself.
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    return io.FileIO(ours, "r+"), theirs


def has_terminal() -> bool:
    """Return whether there is one."""
    try:
        open_terminal().close()
    except OSError:
        return False
    return True


def user_name() -> str:
    """Return it; where the system knows none, the user's number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())
