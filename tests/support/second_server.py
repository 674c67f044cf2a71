"""A second, real API server beside a plane's own one: the same storage, certificates and users."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from typing import TYPE_CHECKING, Self

from urllib3.exceptions import HTTPError

from applyprune.localplane.plane import Layout, api_server
from applyprune.localplane.plane import kubeconfig as write_kubeconfig
from applyprune.localplane.supervisor import ServerProbe
from applyprune.values import replace
from tests.support.api import Api
from tests.support.processes import suspend
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from types import TracebackType

    from applyprune.localplane import Binaries, Plane


class SecondServer:
    """An API server on a port of its own; ``arguments`` come after those of the plane's server.

    With ``--etcd-prefix`` it has objects of its own: then it can serve an aggregated API.
    """

    def __init__(self, plane: Plane, binaries: Binaries, *arguments: str) -> None:
        """Reserve the port; nothing is started."""
        self._program = str(binaries.program)
        self._arguments = arguments
        self._folder = plane.folder
        self._process: subprocess.Popen[bytes] | None = None
        self._has_answered = False
        # Bound but not listening, as the supervisor does it: a restart finds its port free.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port: int = self._reserved.getsockname()[1]
        kubeconfig = self._folder / f"kubeconfig-{self.port}"
        self.plane = replace(
            plane, server=f"https://127.0.0.1:{self.port}", kubeconfig=kubeconfig, audit_log=None
        )
        admins = {"second": {"token": plane.token}}
        kubeconfig.write_text(
            write_kubeconfig("second", self.plane.server, Layout(self._folder), admins)
        )

    def __enter__(self) -> Self:
        """Start the server and wait until it is ready."""
        self.start()
        self._await_ready()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Stop the server."""
        self.stop()
        self._reserved.close()

    def start(self) -> None:
        """Start the process; it accepts connections after a second or two."""
        layout = Layout(self._folder)
        inherited = {key: os.environ[key] for key in ("PATH", "TMPDIR") if key in os.environ}
        with (self._folder / f"kube-apiserver-{self.port}.log").open("ab") as output:
            self._process = subprocess.Popen(
                [
                    self._program,
                    "kube-apiserver",
                    *api_server(layout, self.port, audit=False).arguments,
                    *self._arguments,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # The path of etcd's socket is relative.
                cwd=self._folder,
                # As the plane's own: a third less CPU time until it is ready.
                env={**inherited, "HOME": str(self._folder), "GOGC": "200"},
            )

    def stop(self, number: int = signal.SIGKILL) -> None:
        """End the process by a signal, and wait for its end."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()

    def restart(self) -> None:
        """Kill the server and start it; for some moments it does not answer."""
        self.stop()
        self._has_answered = False
        self.start()

    def replace(self, *arguments: str) -> None:
        """Have a server with these arguments at the same port, and wait until it is ready."""
        is_running = self._process is not None and self._process.poll() is None
        if not is_running or arguments != self._arguments:
            self.stop()
            self._arguments = arguments
            self.start()
        self._await_ready()

    def pause(self) -> None:
        """Stop the process: it accepts connections, and answers nothing."""
        assert self._process is not None
        suspend(self._process.pid)

    def resume(self) -> None:
        """Continue it."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _await_ready(self) -> None:
        probe = ServerProbe(self.plane.server, self.plane.ca_file, self.plane.token)
        eventually(probe.is_ready, lambda: "the readiness of the second API server")

    def await_answer(self, _exchange: object = None) -> None:
        """Wait until the server answers discovery; then its list of kinds is not complete yet."""
        if not self._has_answered:
            eventually(self._answers, lambda: "an answer of the second API server")
            self._has_answered = True

    def groups(self) -> set[str]:
        """Return the API groups that it lists now; raise HTTPError if it does not answer."""
        api = Api(self.plane)
        try:
            status, reply = api("GET", "/apis")
            assert status == 200, reply
            return {group["name"] for group in reply["groups"]}
        finally:
            api.close()

    def _answers(self) -> bool:
        try:
            return bool(self.groups())
        except (AssertionError, HTTPError):
            return False
