"""Two API servers behind one address, one of which ends: a run goes on with the other one."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import urllib3

from applyprune.localplane import API_SERVER_ONLY
from applyprune.localplane.plane import Layout, api_server
from applyprune.values import replace
from tests.support.api import Api
from tests.support.command import applyprune, start
from tests.support.input_files import write_input
from tests.support.live import config_maps
from tests.support.objects import config_map
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Binaries, Plane
    from tests.support.plane import FreshPlane


def server_of_a_connection(plane: Plane) -> str:
    """Return which server takes a new connection, once it is ready; else nothing."""
    headers = {"Authorization": f"Bearer {plane.token}"}
    with urllib3.PoolManager(ca_certs=str(plane.ca_file), headers=headers, retries=False) as pool:
        if pool.request("GET", f"{plane.server}/readyz").status != 200:
            return ""
        facts = pool.request("GET", f"{plane.server}/metrics").data.decode()
    (found,) = (line for line in facts.splitlines() if line.startswith("process_start_time"))
    return found


@contextmanager
def second_server(plane: Plane, binaries: Binaries, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start another API server on the plane's port: the kernel deals out new connections."""
    layout = Layout(plane.folder)
    port = urlsplit(plane.server).port
    assert port is not None
    arguments = [
        one for one in api_server(layout, port, audit=True).arguments if "-log-path" not in one
    ]
    command = [str(binaries.program), "kube-apiserver", *arguments, f"--audit-log-path={log}"]
    with (log.parent / "server.log").open("wb") as output:
        process = subprocess.Popen(command, cwd=plane.folder, stdout=output, stderr=output)
    seen: set[str] = set()

    def both() -> bool:
        seen.add(server_of_a_connection(plane))
        return len(seen - {""}) == 2

    try:
        eventually(both, lambda: (log.parent / "server.log").read_text()[-2000:])
        yield process
    finally:
        process.kill()
        process.wait()


def creations(*logs: Path) -> Counter[str]:
    """Return how often each object was created, by the audit logs of both servers."""
    # What follows the last line break is still being written.
    lines = (line for log in logs for line in log.read_text().split("\n")[:-1])
    events = map(json.loads, lines)
    return Counter(
        event["objectRef"]["name"]
        for event in events
        if event["stage"] == "ResponseComplete"
        and event["verb"] == "patch"
        and "dryRun" not in event["requestURI"]
        and event["responseStatus"]["code"] == 201
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_run_goes_on_with_the_other_server(
    number: signal.Signals, fresh_plane: FreshPlane, binaries: Binaries, tmp_path: Path
) -> None:
    """What the ended one has executed is not executed again, and nothing is missing."""
    plane = fresh_plane(replace(API_SERVER_ONLY, audit=True))
    log = tmp_path / "audit.log"
    with second_server(plane, binaries, log) as server:
        for attempt in itertools.count():
            names = [f"c-{attempt}-{number}" for number in range(300)]
            source = write_input(tmp_path / f"{attempt}.json", map(config_map, names))
            target = ("apply", f"web-{attempt}", "-n", "default", "-f", source)
            running = start(*target, kubeconfig=plane.kubeconfig)
            eventually(lambda: creations(log) or running.poll() is not None)  # noqa: B023
            if creations(log):
                break
            # By chance, none of its connections was taken by the other server.
            assert running.communicate()[1] == ""
        server.send_signal(number)
        out, err = running.communicate("", timeout=HANG)
    assert running.returncode == 0, err
    assert out.splitlines()[-1].startswith(f"web-{attempt}: {len(names)} created in ")
    api = Api(plane)
    assert config_maps(api, "default").keys() >= {*names}
    api.close()
    assert plane.audit_log is not None
    created = creations(log, plane.audit_log)
    assert {name: times for name, times in created.items() if times > 1} == {}
    again = applyprune(*target, kubeconfig=plane.kubeconfig)
    assert (again.code, again.summary.partition(" in ")[0]) == (
        0,
        f"web-{attempt}: {len(names)} unchanged",
    )
