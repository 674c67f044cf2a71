"""Runs a command and writes what it cost: ``launcher.py RESULT TERMINAL LIMIT COMMAND…``.

The kernel counts the pages of the process that starts a command to the peak of the command. So a
process with next to no imports starts it, not the benchmark itself.
"""

import os
import signal
import sys
import time


def launch(result: int, *, terminal: bool, limit: int, command: list[str]) -> None:
    """Write ``CODE SECONDS CPU PEAK`` to ``result``; CPU and peak are of the whole tree.

    After so many seconds the command is killed.
    """
    began = time.perf_counter()
    pid = os.fork()
    if not pid:
        os.close(result)
        if terminal:
            _take_terminal()
        try:
            os.execvp(command[0], command)  # noqa: S606 - no shell is wanted
        except OSError:
            os._exit(127)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(pid, signal.SIGKILL))
    signal.alarm(limit)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - began
    code = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    os.write(result, f"{code} {seconds!r} {cpu!r} {usage.ru_maxrss}".encode())


def _take_terminal() -> None:
    """Make standard error the controlling terminal, as in a user's window."""
    import fcntl  # noqa: PLC0415 - only the child pays for it
    import termios  # noqa: PLC0415

    os.setsid()
    fcntl.ioctl(2, termios.TIOCSCTTY, 0)


if __name__ == "__main__":
    launch(
        int(sys.argv[1]),
        terminal=sys.argv[2] == "terminal",
        limit=int(sys.argv[3]),
        command=sys.argv[4:],
    )
