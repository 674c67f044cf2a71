"""Runs a command and writes what it cost: ``launcher.py RESULT COMMAND…``.

The kernel counts the pages of the process that starts a command to the peak of the command. So a
process with next to no imports starts it, not the benchmark itself.
"""

import os
import sys
import time

if __name__ == "__main__":
    began = time.perf_counter()
    pid = os.fork()
    if not pid:
        try:
            os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - no shell is wanted
        except OSError:
            os._exit(127)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - began
    cpu = usage.ru_utime + usage.ru_stime
    with open(sys.argv[1], "w", encoding="ascii") as file:  # noqa: PTH123 - an import more
        file.write(f"{os.waitstatus_to_exitcode(status)} {seconds!r} {cpu!r} {usage.ru_maxrss}")
