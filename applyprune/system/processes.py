"""End processes: one, or one with all that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

_STEP = 0.2


def wait_in_steps(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for the end of a process, so that Python can handle Ctrl-C in between.

    Raises subprocess.TimeoutExpired. Windows ends no wait early for a signal.
    """
    ends = time.monotonic() + seconds
    while True:
        left = ends - time.monotonic()
        try:
            process.wait(min(_STEP, max(left, 0.0)))
        except subprocess.TimeoutExpired:
            if left <= _STEP:
                raise
        else:
            return


if sys.platform == "win32":
    GROUP_FLAGS = subprocess.CREATE_NEW_PROCESS_GROUP
    """For ``creationflags``: Ctrl-C does not reach such a process, only ours."""

    def kill(process: int) -> None:
        """End a process at once; raises OSError."""
        # Whatever the signal, unless it is one of the console's.
        os.kill(process, signal.SIGTERM)

    def kill_group(process: int) -> None:
        """End a process and all that it has started, at once; nothing if it has ended."""
        # There are no groups as POSIX has them; this follows the children.
        # By its path: Windows would look in the folder that the user is in first.
        system = os.environ.get("SYSTEMROOT", r"C:\Windows")
        command = (rf"{system}\System32\taskkill.exe", "/F", "/T", "/PID", str(process))
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)

    def wait_for(process: subprocess.Popen[bytes], seconds: float) -> None:
        """Wait for the end of a process; raises subprocess.TimeoutExpired."""
        wait_in_steps(process, seconds)

else:
    GROUP_FLAGS = 0
    """For ``creationflags``: none; ``start_new_session`` is what keeps Ctrl-C from a process."""

    def kill(process: int) -> None:
        """End a process at once; raises OSError."""
        os.kill(process, signal.SIGKILL)

    def kill_group(process: int) -> None:
        """End the group of processes that a process leads, at once; raises OSError."""
        os.killpg(process, signal.SIGKILL)

    def wait_for(process: subprocess.Popen[bytes], seconds: float) -> None:
        """Wait for the end of a process; raises subprocess.TimeoutExpired."""
        process.wait(seconds)
