"""A process that loads modules once, and whose copies start with them."""

from __future__ import annotations

import sys
from multiprocessing import get_context

if sys.platform == "win32":
    from multiprocessing.connection import PipeConnection as Connection
    from multiprocessing.context import SpawnContext as ForkServer
    from multiprocessing.context import SpawnProcess as ForkedProcess

    def fork_server(module: str) -> ForkServer:
        """Return a context whose processes load everything again: Windows copies no process."""
        del module
        return get_context("spawn")

else:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerContext as ForkServer
    from multiprocessing.context import ForkServerProcess as ForkedProcess

    def fork_server(module: str) -> ForkServer:
        """Return the context of a process that has loaded a module and all that it imports."""
        context = get_context("forkserver")
        context.set_forkserver_preload([module])
        return context


__all__ = ["Connection", "ForkServer", "ForkedProcess", "fork_server"]
