"""Two API servers behind a balancer, one of which ends: a run goes on with the other one."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import socket
from collections import Counter
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from applyprune.localplane import API_SERVER_ONLY
from applyprune.localplane.plane import Layout, kubeconfig
from applyprune.values import replace
from tests.support.api import Api
from tests.support.command import applyprune, start
from tests.support.input_files import write_input
from tests.support.listening import listening, pass_on
from tests.support.live import config_maps
from tests.support.objects import config_map
from tests.support.second_server import SecondServer
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Binaries
    from tests.support.plane import FreshPlane

NAMES = [f"c-{number}" for number in range(150)]


def balancer(*ports: int) -> Callable[[socket.socket], None]:
    """Return what gives connections to the ports by turns; to one that has ended, too."""
    turns = itertools.cycle(ports)

    def serve(connection: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", next(turns))) as server:
            pass_on(connection, server)

    return serve


def creations(*logs: Path) -> Counter[str]:
    """Return how often each object was created, by the audit logs of both servers."""
    # What follows the last line break is still being written.
    lines = (line for log in logs for line in log.read_text().split("\n")[:-1])
    return Counter(
        event["objectRef"]["name"]
        for event in map(json.loads, lines)
        if event["stage"] == "ResponseComplete"
        and event["verb"] == "patch"
        and "dryRun" not in event["requestURI"]
        and event["responseStatus"]["code"] == 201
    )


def test_run_goes_on_with_the_other_server(
    fresh_plane: FreshPlane, binaries: Binaries, tmp_path: Path
) -> None:
    """What the killed one has executed is not executed again, and nothing is missing.

    Slow: it starts a control plane and a second API server.
    """
    plane = fresh_plane(replace(API_SERVER_ONLY, audit=True))
    assert plane.audit_log is not None
    layout, log, config = Layout(plane.folder), tmp_path / "audit.log", tmp_path / "kubeconfig"
    audited = (f"--audit-policy-file={layout.audit_policy}", "--audit-log-mode=blocking")
    source = write_input(tmp_path / "many.json", map(config_map, NAMES))
    target = ("apply", "web", "-n", "default", "-f", source)
    port = urlsplit(plane.server).port
    assert port is not None
    with (
        SecondServer(plane, binaries, *audited, f"--audit-log-path={log}") as second,
        listening(balancer(port, second.port)) as balanced,
    ):
        admins = {"balanced": {"token": plane.token}}
        config.write_text(kubeconfig("balanced", f"https://127.0.0.1:{balanced}", layout, admins))
        with start(*target, kubeconfig=config) as running:
            eventually(lambda: creations(log), lambda: "its first object")
            second.stop(signal.SIGKILL)
            out, err = running.communicate("", timeout=HANG)
        assert running.returncode == 0, err
        assert out.splitlines()[-1].startswith(f"web: {len(NAMES)} created in ")
        again = applyprune(*target, kubeconfig=config)
    assert again.summary.startswith(f"web: {len(NAMES)} unchanged in ")
    with contextlib.closing(Api(plane)) as api:
        assert config_maps(api, "default").keys() >= {*NAMES}
    created = creations(log, plane.audit_log)
    assert {name: times for name, times in created.items() if times > 1} == {}
