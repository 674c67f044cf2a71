"""A run that is killed, interrupted, or not alone: the next one goes on from what it left."""

from __future__ import annotations

import json
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from applyprune.model.options import Mode
from tests.e2e.command import applyprune, start
from tests.engine.stage import Stage, config_map
from tests.fault_proxy import Exchange, FaultProxy

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.conftest import Api

NAMES = ("a", "b", "c")
MOMENTS = ("before", "after")


def _write(folder: Path, *names: str) -> Path:
    """Write ConfigMaps of these names into one file."""
    items = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}}
        for name in names
    ]
    path = folder / f"{'-'.join(names)}.json"
    path.write_text("\n".join(json.dumps(item) for item in items))
    return path


def _there(api: Api, namespace: str) -> set[str]:
    items = api.get(f"/api/v1/namespaces/{namespace}/configmaps")["items"]
    return {item["metadata"]["name"] for item in items} - {"kube-root-ca.crt"}


def _kill_at(
    proxy: FaultProxy, number: int, moment: str, arguments: list[str | Path], kubeconfig: Path
) -> bool:
    """Run and SIGKILL at the request of that number; return whether it got so far."""
    process: list[subprocess.Popen[str]] = []
    ready = threading.Event()
    reached: list[int] = []
    seen = len(proxy.exchanges)

    def hook(exchange: Exchange) -> None:
        if exchange.number - seen == number:
            reached.append(number)
            ready.wait(60)
            process[0].send_signal(signal.SIGKILL)
            process[0].wait(60)

    setattr(proxy, "before_forward" if moment == "before" else "before_reply", hook)
    with start(*arguments, kubeconfig=kubeconfig) as running:
        process.append(running)
        ready.set()
        running.communicate("", timeout=300)
    proxy.before_forward = proxy.before_reply = lambda _: None
    return bool(reached)


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_every_request_of_a_create(
    plane: Plane, api: Api, namespace: str, tmp_path: Path, moment: str
) -> None:
    """SIGKILL before and after each request; then a smaller input: exactly that, nothing leaked.

    The number of requests is asserted, so that a new one cannot go untested.
    """
    whole = _write(tmp_path, *NAMES)
    with FaultProxy(plane) as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path)
        number = 0
        while True:
            number += 1
            name = f"s{number}"
            target: list[str | Path] = ["apply", name, "-n", namespace, "-f"]
            if not _kill_at(proxy, number, moment, [*target, whole], kubeconfig):
                break
            next_run = Stage(plane.kubeconfig, namespace, name=name)
            assert next_run.run(config_map("a")).exit_code == 0, number
            assert _there(api, namespace) == {"a", f"applyprune-{name}"}, number
            assert next_run.run(mode=Mode.DELETE).exit_code == 0, number
            assert _there(api, namespace) == set(), number
        # Discovery 2, inventory, namespace, three reads, union, three applies, shrunk: 12.
        assert number - 1 == 12


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_what_is_in_flight_and_records_it(
    plane: Plane, api: Api, namespace: str, tmp_path: Path, number: signal.Signals
) -> None:
    """Exit code 128 plus the signal's number; nothing that was applied is missing in the record."""
    names = [f"c-{index}" for index in range(60)]
    source = _write(tmp_path, *names[:3]).with_name("many.json")
    source.write_text(_write(tmp_path, "x").read_text().replace('"x"', '"c-0"'))
    source.write_text("\n".join(source.read_text().replace('"c-0"', f'"{name}"') for name in names))
    with FaultProxy(plane) as proxy:
        process: list[subprocess.Popen[str]] = []

        def hook(exchange: Exchange) -> None:
            if exchange.method == "PATCH" and exchange.path.endswith("/c-20"):
                process[0].send_signal(number)

        proxy.before_reply = hook
        target: list[str | Path] = ["apply", "web", "-n", namespace, "-f", source]
        with start(*target, kubeconfig=proxy.kubeconfig(tmp_path)) as running:
            process.append(running)
            out, err = running.communicate("", timeout=300)
    assert running.returncode == 128 + number, err
    assert "interrupted" in err
    done = {line.split()[0].removeprefix("configmap/") for line in out.splitlines()}
    assert _there(api, namespace) - {"applyprune-web"} == done
    assert 0 < len(done) < 60
    assert applyprune(*target, kubeconfig=plane.kubeconfig).code == 0
    assert _there(api, namespace) == {*names, "applyprune-web"}


def test_two_runs_at_once_take_turns(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """The second waits for the first, and the end is exactly one of the inputs."""
    inputs = [_write(tmp_path, "a", "b"), _write(tmp_path, "b", "c")]
    running = [
        start("apply", "web", "-n", namespace, "-f", path, kubeconfig=plane.kubeconfig)
        for path in inputs * 2
    ]
    for process in running:
        with process:
            _, err = process.communicate("", timeout=300)
            assert process.returncode == 0, err
    assert _there(api, namespace) - {"applyprune-web"} in ({"a", "b"}, {"b", "c"})


def test_a_live_holder_is_named_and_not_pushed_aside(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """Exit code 8 when the wait is over, and who holds the set."""
    source = _write(tmp_path, *NAMES)
    holds, go_on = threading.Event(), threading.Event()
    with FaultProxy(plane) as proxy:

        def hook(exchange: Exchange) -> None:
            if exchange.method == "PATCH":
                holds.set()
                go_on.wait(300)

        proxy.before_forward = hook
        target: list[str | Path] = ["apply", "web", "-n", namespace, "-f", source]
        with start(*target, kubeconfig=proxy.kubeconfig(tmp_path)) as first:
            assert holds.wait(120)
            second = applyprune(*target, "--lock-timeout=2s", kubeconfig=plane.kubeconfig)
            go_on.set()
            _, err = first.communicate("", timeout=300)
    assert second.code == 8
    assert "is held by another run" in second.err
    assert first.returncode == 0, err


def test_a_signal_while_reading_ends_the_run_before_any_write(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """Nothing is planned on half of what was to be read."""
    source = _write(tmp_path, *NAMES)
    target: list[str | Path] = ["apply", "web", "-n", namespace, "-f", source]
    assert applyprune(*target, kubeconfig=plane.kubeconfig).code == 0
    with FaultProxy(plane) as proxy:
        process: list[subprocess.Popen[str]] = []

        def hook(exchange: Exchange) -> None:
            if exchange.method == "GET" and exchange.path == "/api/v1/configmaps":
                process[0].send_signal(signal.SIGTERM)

        proxy.before_reply = hook
        less: list[str | Path] = [*target[:-1], _write(tmp_path, "a")]
        with start(*less, kubeconfig=proxy.kubeconfig(tmp_path)) as running:
            process.append(running)
            _, err = running.communicate("", timeout=300)
    assert running.returncode == 128 + signal.SIGTERM, err
    assert "Traceback" not in err
    assert _there(api, namespace) == {*NAMES, "applyprune-web"}
