"""Run the command line in a process that looks like one on Windows.

``python -m tests.support.as_windows apply …`` runs a command, ``… import MODULE…`` imports modules,
and ``… each CALLS`` runs commands one after the other and prints how each has ended: all in JSON.
Modules and names that Windows lacks cannot be imported or used. Libraries and paths stay those of
this system: what it proves is that our own code needs nothing that Windows does not have.
"""

from __future__ import annotations

import ctypes
import json
import multiprocessing.connection
import multiprocessing.context
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from io import BytesIO, TextIOWrapper
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, NoReturn, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_MODULES = (
    *("_posixsubprocess", "crypt", "fcntl", "grp", "nis", "posix", "pty", "pwd", "readline"),
    *("resource", "spwd", "syslog", "termios", "tty"),
)
"""Modules of the standard library that Windows lacks."""
NO_NAMES = {
    os: (
        *("fork", "forkpty", "getegid", "geteuid", "getgid", "getgroups", "getloadavg", "getpgid"),
        *("getpgrp", "getsid", "getuid", "killpg", "major", "makedev", "memfd_create", "minor"),
        *(
            "mkfifo",
            "nice",
            "openpty",
            "pidfd_open",
            "sched_getaffinity",
            "set_blocking",
            "setpgid",
        ),
        *("setsid", "setuid", "statvfs", "sysconf", "uname", "O_CLOEXEC", "O_DIRECTORY"),
        *("O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "POSIX_SPAWN_DUP2", "posix_spawn"),
    ),
    signal: (
        *("SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGSTOP"),
        *("SIGTSTP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGXCPU", "SIGXFSZ", "pthread_kill"),
    ),
    socket: ("AF_UNIX", "SO_REUSEPORT", "recv_fds", "send_fds"),
    time: ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC", "clock_gettime"),
    multiprocessing.context: ("ForkServerContext", "ForkServerProcess"),
}
"""Names that a module lacks there."""
# What other people have made is loaded as on this system.
LIBRARIES = (
    *("asyncio", "click", "concurrent.futures.thread", "deepdiff", "getpass", "jsonpatch"),
    *("kubernetes.client", "kubernetes.config", "multiprocessing.forkserver"),
    *("platformdirs", "prometheus_client", "pydantic", "ruamel.yaml", "selectors", "ssl"),
    *("tempfile", "urllib3", "webbrowser"),
)


def enter() -> None:
    """Make this process look like one on Windows."""
    for name in LIBRARIES:
        import_module(name)
    for name in NO_MODULES:
        # An import of it fails then.
        cast("dict[str, object]", sys.modules)[name] = None
    for module, names in NO_NAMES.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    console = ModuleType("msvcrt")
    added: Sequence[tuple[object, str, object]] = (
        (console, "kbhit", lambda: False),
        (console, "getwch", lambda: ""),
        (ctypes, "windll", SimpleNamespace(kernel32=SimpleNamespace(GetTickCount64=_ticks))),
        (signal, "SIGBREAK", 21),
        (subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # anything else is refused here
        (multiprocessing.connection, "PipeConnection", multiprocessing.connection.Connection),
    )
    for where, name, value in added:
        setattr(where, name, value)
    sys.modules["msvcrt"] = console
    sys.platform = "win32"
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="cp1252", errors="strict")


def _ticks() -> int:
    return time.monotonic_ns() // 1_000_000


def _ended(call: Sequence[str]) -> tuple[object, str, str]:
    """Run a command; return its exit code and what it has written."""
    out, err = BytesIO(), BytesIO()
    streams = [TextIOWrapper(one, "cp1252", write_through=True) for one in (out, err)]
    code: object = None
    sys.argv[1:] = call
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        try:
            import_module("applyprune.cli.main").main()
        except SystemExit as end:
            code = end.code
    return code, out.getvalue().decode(), err.getvalue().decode()


def main(arguments: Sequence[str]) -> NoReturn:
    """Import modules and print those that cannot be imported, or run a command."""
    loaded = {name for name in sys.modules if name.partition(".")[0] == "applyprune"}
    assert not loaded, "it was imported before"
    enter()
    if arguments[:1] == ["each"]:
        print(json.dumps([_ended(call) for call in json.loads(arguments[1])]))  # noqa: T201
        sys.exit(0)
    if arguments[:1] != ["import"]:
        sys.argv[1:] = arguments
        import_module("applyprune.cli.main").main()
    for name in arguments[1:]:
        try:
            import_module(name)
        except Exception:  # noqa: BLE001 -- any of them
            print(name)  # noqa: T201 -- for the test
            traceback.print_exc()
    sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
