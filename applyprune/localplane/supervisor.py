"""Run the process that owns a plane: ``python -m …localplane.supervisor FOLDER CHANNEL LOCK``.

CHANNEL and LOCK are inherited descriptors; CHANNEL is a socket. First the starter sends the
configuration as a JSON line. The supervisor replies with lines of progress, and then with ``ready``
or ``failed``. Until the starter sends ``detach``, the channel is a lifeline: when it ends, the
plane stops.
"""

from __future__ import annotations

import json
import os
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import urllib3
from msgspec import Struct

from applyprune.localplane.cache import try_lock
from applyprune.localplane.plane import (
    ETCD_SOCKET,
    Component,
    Layout,
    PlanePhase,
    PlaneSpec,
    PlaneState,
    api_server,
    audit_policy,
    certificate_user,
    controllers,
    etcd,
    kubeconfig,
    node,
    write_state,
)
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LIFELINE = "APPLYPRUNE_LIFELINE_FD"
# Seconds. A start takes 3 to 5 seconds on an idle machine; this limit is for a busy machine.
START_TIMEOUT = 180.0
# Seconds between SIGTERM and SIGKILL. The data that SIGKILL loses is disposable.
GRACE_PERIOD = 1.0


def main(arguments: list[str]) -> int:
    """Run the plane that the channel configures; return the exit code."""
    os.umask(0o077)
    layout = Layout(Path(arguments[0]))
    channel = socket.socket(fileno=int(arguments[1]))
    lock = int(arguments[2])
    for descriptor in (channel.fileno(), lock):
        # Components get the lock explicitly; other processes that this process starts get neither.
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - the function has no other form
    with channel.makefile("r") as commands:
        line = commands.readline()
    if not line:
        # The starter died before it sent the configuration.
        shutil.rmtree(layout.folder, ignore_errors=True)
        return 1
    layout.pki.mkdir()
    # Components, and so the plane's lock, outlive a killed supervisor by a moment. Only the
    # supervisor holds this second lock, which proves that its pid in the state file is valid.
    try_lock(layout.supervisor_lock)
    supervisor = Supervisor(layout, Config.from_json(line), channel, lock)
    supervisor.listen()
    return supervisor.run()


class Config(Struct, frozen=True):
    name: str
    program: str
    """The path of the control plane's program."""
    kubectl: str
    """The path of kubectl."""
    spec: PlaneSpec

    @classmethod
    def from_json(cls, line: str) -> Config:
        facts = json.loads(line)
        return cls(**facts | {"spec": PlaneSpec(**facts["spec"])})


class Supervisor:
    def __init__(self, layout: Layout, config: Config, channel: socket.socket, lock: int) -> None:
        """Use the folder, which is empty except for the locked file ``lock``."""
        self._layout = layout
        self._config = config
        self._channel = channel
        self._lock = lock
        self._selector = selectors.DefaultSelector()
        self._asked_to_stop = False
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # Only this process has the write end: when it dies, all processes that it started die.
        self._lifeline, self._lifeline_held = os.pipe()
        self._state = PlaneState(
            name=config.name,
            phase=PlanePhase.STARTING,
            pid=os.getpid(),
            started=time.time(),
            program=config.program,
            kubectl=config.kubectl,
            nodes=config.spec.nodes if config.spec.kwok else 0,
            audit=config.spec.audit,
        )

    def run(self) -> int:
        self._record(PlanePhase.STARTING)
        end = _End("the supervisor failed", log=self._layout.log("supervisor"))
        try:
            self._start()
            self._record(PlanePhase.READY)
            self._send(ready=True)
            # If a user removes the folder manually, no command can find the processes any more: so
            # stop them.
            while self._layout.lock.exists():
                self._pause(2.0)
            end = _End(remove=True)
        except _End as ended:
            end = ended
        finally:
            self._record(PlanePhase.STOPPING)
            # Data that will be removed needs no clean shutdown.
            self._stop_processes(0.0 if end.remove else GRACE_PERIOD)
            self._record(PlanePhase.FAILED if end.reason else PlanePhase.STOPPED, reason=end.reason)
            if end.reason:
                self._send(failed=end.reason, log=str(end.log or ""))
            if end.remove:
                shutil.rmtree(self._layout.folder, ignore_errors=True)
        return 1 if end.reason else 0

    def listen(self) -> None:
        """Let signals, the end of a child process, and the channel wake ``_pause``.

        This uses a single thread: an interpreter can hang if it ends while threads still wait.
        """
        woken, waker = socket.socketpair()
        for end in (woken, waker):
            end.setblocking(False)  # noqa: FBT003 - the function has no other form
        signal.set_wakeup_fd(waker.detach(), warn_on_full_buffer=False)
        self._selector.register(woken, selectors.EVENT_READ)
        self._selector.register(self._channel, selectors.EVENT_READ)

        def ask_to_stop(*_: object) -> None:
            self._asked_to_stop = True

        signal.signal(signal.SIGTERM, ask_to_stop)
        signal.signal(signal.SIGINT, ask_to_stop)
        # Without a handler the signal wakes nothing; ``_pause`` does the work.
        signal.signal(signal.SIGCHLD, lambda *_: None)

    # -- starting

    def _start(self) -> None:
        layout, spec = self._layout, self._config.spec
        deadline = time.monotonic() + START_TIMEOUT
        self._run("pki", str(layout.pki))
        token = secrets.token_urlsafe(32)
        layout.tokens.write_text(f'{token},admin,admin,"system:masters"\n')
        layout.audit_policy.write_text(audit_policy())
        # Bound but not listening: this reserves the port until the API server shares it, so that
        # no other process can get it in between.
        with socket.socket() as reserved:
            reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
            server = f"https://127.0.0.1:{port}"
            self._state = replace(self._state, server=server)
            self._write_kubeconfigs(server, token)
            self._launch(etcd(layout))
            # If etcd is not ready, the API server loses a second or more in its retries.
            self._await((layout.folder / ETCD_SOCKET).exists, deadline, "etcd")
            self._launch(api_server(layout, port, audit=spec.audit))
            probe = ServerProbe(server, layout.certificate("ca"), token)
            self._await(probe.is_ready, deadline, "the API server")
        for component in controllers(layout, spec):
            self._launch(component)
        nodes = spec.nodes if spec.kwok else 0
        for number in range(nodes):
            create = partial(probe.create, "/api/v1/nodes", node(number))
            self._await(create, deadline, f"node {number}")
        self._await(probe.has_default_namespace, deadline, "the default namespace")
        if spec.controller_manager:
            self._await(probe.has_default_account, deadline, "the controller manager")
        self._await(
            lambda: probe.ready_nodes(untainted=spec.controller_manager) >= nodes,
            deadline,
            f"{nodes} ready nodes",
        )

    def _write_kubeconfigs(self, server: str, token: str) -> None:
        layout, name = self._layout, self._config.name
        admins = {name: {"token": token}, f"{name}-cert": certificate_user(layout, "admin")}
        layout.kubeconfig.write_text(kubeconfig(name, server, layout, admins))
        for component in controllers(layout, self._config.spec):
            user = {component.name: certificate_user(layout, component.name)}
            path = layout.component_kubeconfig(component.name)
            path.write_text(kubeconfig(name, server, layout, user))
        if self._config.spec.kwok:
            layout.stages.write_text(self._run("kwok-stages"))

    def _await(self, condition: Callable[[], bool], deadline: float, what: str) -> None:
        self._send(waiting_for=what)
        while not condition():
            if time.monotonic() > deadline:
                raise _End(
                    f"{what} did not become ready in {START_TIMEOUT:.0f} seconds",
                    log=self._layout.log("kube-apiserver"),
                )
            self._pause(0.05)

    # -- processes

    def _run(self, *arguments: str) -> str:
        reply = subprocess.run(
            [self._config.program, *arguments], capture_output=True, text=True, check=False
        )
        if reply.returncode != 0:
            raise _End(f"controlplane {arguments[0]} failed: {reply.stderr.strip()}")
        return reply.stdout

    def _launch(self, component: Component) -> None:
        log = self._layout.log(component.name)
        with log.open("ab") as output:
            process = subprocess.Popen(
                [self._config.program, component.name, *component.arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._layout.folder,
                env=self._environment(),
                # Also pass the lock: it is free only when all processes of the plane have ended.
                pass_fds=(self._lifeline, self._lock),
            )
        self._processes[component.name] = process

    def _environment(self) -> dict[str, str]:
        """Return the environment of a component; it must not contain a user's proxy settings."""
        inherited = {key: os.environ[key] for key in ("PATH", "TMPDIR", "TZ") if key in os.environ}
        folder = str(self._layout.folder)
        return inherited | {
            "HOME": folder,
            "KWOK_WORKDIR": folder,
            # Saves a third of the CPU time until the API server is ready, and costs 50 MB.
            "GOGC": "200",
            LIFELINE: str(self._lifeline),
        }

    def _stop_processes(self, grace: float) -> None:
        """Stop in the reverse order of starting, so that no process logs a lost dependency."""
        stages = [{"etcd"}, {"kube-apiserver"}]
        stages.append(self._processes.keys() - {"etcd", "kube-apiserver"})
        for names in reversed(stages):
            processes = [self._processes[name] for name in names if name in self._processes]
            for process in processes:
                process.terminate()
            deadline = time.monotonic() + grace
            for process in processes:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
                process.kill()
                process.wait()

    # -- events

    def _pause(self, seconds: float) -> None:
        """Wait for at most ``seconds``; raise if an event ends the plane."""
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._channel:
                self._read_channel()
            elif isinstance(key.fileobj, socket.socket):
                key.fileobj.recv(4096)
        if self._asked_to_stop:
            raise _End
        # In the order of starting: if etcd dies, report it, and not the API server's end.
        for name, process in self._processes.items():
            code = process.poll()
            if code is not None:
                how = f"exit code {code}" if code >= 0 else f"signal {-code}"
                raise _End(f"{name} exited with {how}", log=self._layout.log(name))

    def _read_channel(self) -> None:
        """Distinguish a starter that detaches from a starter that died."""
        try:
            data = self._channel.recv(4096)
        except ConnectionError:
            data = b""
        if not data:
            # No process is left to read the logs, or to remove them.
            raise _End(remove=True)
        self._selector.unregister(self._channel)

    def _record(self, phase: PlanePhase, reason: str = "") -> None:
        self._state = replace(self._state, phase=phase, reason=reason)
        with suppress(FileNotFoundError):
            write_state(self._layout.state, self._state)

    def _send(self, **message: object) -> None:
        # ``_read_channel`` handles a starter that is gone.
        with suppress(OSError):
            self._channel.sendall(f"{json.dumps(message)}\n".encode())


class _End(Exception):
    """The plane must stop; ``reason`` is empty if this was requested."""

    def __init__(self, reason: str = "", *, log: Path | None = None, remove: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.log = log
        self.remove = remove


class ServerProbe:
    """Send requests to one API server as admin; no response counts as not ready."""

    def __init__(self, server: str, ca_file: Path, token: str) -> None:
        self._server = server
        self._pool = urllib3.PoolManager(
            ca_certs=str(ca_file),
            cert_reqs="CERT_REQUIRED",
            headers={
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/json",
                # Tests read audit logs and filter out these requests.
                "User-Agent": "applyprune-localplane",
            },
            retries=False,
            # Short: no signal is handled during a request.
            timeout=urllib3.Timeout(connect=1.0, read=3.0),
        )

    def is_ready(self) -> bool:
        return self._get("/readyz") is not None

    def has_default_namespace(self) -> bool:
        return self._get("/api/v1/namespaces/default") is not None

    def has_default_account(self) -> bool:
        """Return whether the controller manager works: it creates this account first."""
        return self._get("/api/v1/namespaces/default/serviceaccounts/default") is not None

    def ready_nodes(self, *, untainted: bool) -> int:
        """Return how many nodes are Ready; with ``untainted`` only those that accept pods.

        The controller manager removes the taint of a new node; without it, the taint stays.
        """
        nodes = (self._get("/api/v1/nodes") or {}).get("items", [])
        return sum(
            any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in node["status"].get("conditions", ())
            )
            and not (untainted and node["spec"].get("taints"))
            for node in nodes
        )

    def create(self, path: str, body: Mapping[str, object]) -> bool:
        """POST an object; return whether it exists now. Safe to repeat."""
        return self._request("POST", path, json.dumps(body).encode(), fine=409) is not None

    def _get(self, path: str) -> dict[str, Any] | None:
        return self._request("GET", path, None)

    def _request(
        self, method: str, path: str, body: bytes | None, fine: int = 200
    ) -> dict[str, Any] | None:
        try:
            reply = self._pool.request(method, f"{self._server}{path}", body=body)
            if not (200 <= reply.status < 300 or reply.status == fine):
                return None
            content = reply.json() if "json" in reply.headers.get("Content-Type", "") else {}
        except (urllib3.exceptions.HTTPError, ValueError):
            return None
        return content if isinstance(content, dict) else {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
