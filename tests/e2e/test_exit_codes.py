"""Each exit code of docs/reference/exit-codes.md, by a command that ends with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cli.crash import BUG
from applyprune.cli.main import exit_code_of
from tests.support.actors import ALICE
from tests.support.command import Ended, applyprune
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.input_files import write_input
from tests.support.interrupt import interrupt_at
from tests.support.listening import silent_port
from tests.support.objects import config_map

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "nowhere"},
    "spec": {
        "nodeSelector": {"example.com/there": "none"},
        "containers": [{"name": "a", "image": "a"}],
    },
}


class Shop:
    """One set in one namespace, and the commands that act on it."""

    def __init__(self, plane: Plane, api: Api, namespace: str, folder: Path) -> None:
        """Take where it is; nothing is applied yet."""
        self.plane, self.api, self.namespace, self.folder = plane, api, namespace, folder

    def __call__(self, *arguments: str | Path) -> Ended:
        """Run a verb in the set's namespace."""
        return applyprune(*arguments, "-n", self.namespace, kubeconfig=self.plane.kubeconfig)

    def input(self, *bodies: Mapping[str, Any]) -> Path:
        """Write the set's only file."""
        return write_input(self.folder / "set.json", map(dict, bodies))

    def apply(self, *bodies: Mapping[str, Any]) -> Ended:
        """Apply the set."""
        return self("apply", "web", "-f", self.input(*bodies))


@pytest.fixture
def shop(plane: Plane, api: Api, namespace: str, tmp_path: Path) -> Shop:
    """A set that has not been applied yet."""
    return Shop(plane, api, namespace, tmp_path)


def _done(shop: Shop) -> Ended:
    return shop.apply(config_map("a"))


def _differences(shop: Shop) -> Ended:
    assert shop.apply(config_map("a")).code == 0
    path = f"/api/v1/namespaces/{shop.namespace}/configmaps/a"
    assert shop.api("DELETE", path)[0] == 200
    return shop("inventory", "check", "web")


def _bad_call(shop: Shop) -> Ended:
    return shop("apply", "web")


def _bad_input(shop: Shop) -> Ended:
    return shop.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}})


def _failed(shop: Shop) -> Ended:
    return shop.apply(config_map("a"), config_map("Not_A_Name"))


def _conflict(shop: Shop) -> Ended:
    path = f"/api/v1/namespaces/{shop.namespace}/configmaps/a?fieldManager={ALICE}"
    content_type = "application/apply-patch+yaml"
    assert shop.api("PATCH", path, config_map("a", "x"), content_type=content_type)[0] == 201
    return shop.apply(config_map("a", "y"))


def _not_ready(shop: Shop) -> Ended:
    source = shop.input(POD)
    return shop("apply", "web", "-f", source, "--wait", "--timeout", "1s")


def _refused(shop: Shop) -> Ended:
    assert shop.apply(*(config_map(f"c-{number}") for number in range(8))).code == 0
    return shop.apply(config_map("c-0"))


def _no_access(shop: Shop) -> Ended:
    config = json.loads(shop.plane.kubeconfig.read_text())
    elsewhere = shop.folder / "kubeconfig"
    with silent_port() as port:
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        elsewhere.write_text(json.dumps(config))
        return shop("apply", "web", "-f", shop.input(config_map("a")), "--kubeconfig", elsewhere)


def _lost(shop: Shop) -> Ended:
    """While one run holds the set, a second one gives up waiting for it."""
    source = shop.input(config_map("a"), config_map("b"))
    arguments: list[str | Path] = ["apply", "web", "-n", shop.namespace, "-f", source]
    found: list[Ended] = []
    with FaultProxy(shop.plane) as proxy:

        def hook(exchange: Exchange) -> None:
            # The check before the first write does not hold the set yet.
            is_write = exchange.method == "PATCH" and "dryRun" not in exchange.query
            if is_write and exchange.path.endswith("/a") and not found:
                found.append(shop(*arguments[:2], "-f", source, "--lock-timeout", "100ms"))

        proxy.before_reply = hook
        first = applyprune(*arguments, kubeconfig=proxy.kubeconfig(shop.folder))
    assert first.code == 0, first.err
    return found[0]


CODES: dict[str, tuple[int, Callable[[Shop], Ended]]] = {
    "done": (0, _done),
    "differences": (1, _differences),
    "a bad call": (2, _bad_call),
    "bad input": (2, _bad_input),
    "an object that failed": (3, _failed),
    "a conflict": (4, _conflict),
    "not ready in time": (5, _not_ready),
    "a prune refused": (6, _refused),
    "no server": (7, _no_access),
    "locked by another run": (8, _lost),
}


@pytest.mark.parametrize("name", CODES)
def test_exit_code_tells_the_outcome(shop: Shop, name: str) -> None:
    """The code of the table, and where it is none of success, a word of why."""
    code, act = CODES[name]
    found = act(shop)
    assert found.code == code, found
    assert code < 2 or "error" in found.err.lower()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_has_its_exit_code(shop: Shop, number: signal.Signals) -> None:
    """128 plus the signal's number: the run was asked to stop, and did."""
    source = shop.input(*(config_map(f"c-{index}") for index in range(40)))
    target: list[str | Path] = ["apply", "web", "-n", shop.namespace, "-f", source]
    with FaultProxy(shop.plane) as proxy:

        def is_meant(exchange: Exchange) -> bool:
            is_write = exchange.method == "PATCH" and "dryRun" not in exchange.query
            return is_write and exchange.path.endswith("/c-10")

        ended = interrupt_at(proxy, is_meant, number, target, proxy.kubeconfig(shop.folder))
    assert ended.code == 128 + number, ended.err


def test_closed_reader_is_no_failure(shop: Shop) -> None:
    """The run goes to its end and ends with its own code; never 1, which means differences."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "applyprune", "apply", shop.namespace, "-n", shop.namespace]
    found = subprocess.run(
        [*command, "-f", shop.input(config_map("a"))],
        env={**os.environ, "KUBECONFIG": str(shop.plane.kubeconfig)},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (found.returncode, found.stderr) == (0, "")


def test_unwritable_report_stops_no_run(shop: Shop) -> None:
    """The objects are applied, the inventory is recorded; the code says that something is amiss."""
    found = shop("apply", "web", "-f", shop.input(config_map("a")), "-o", "text=/dev/full")
    assert found.code == 3
    assert "/dev/full is not complete: No space left on device" in found.err
    assert shop("inventory", "check", "web").code == 0
    assert shop.api.exists(f"/api/v1/namespaces/{shop.namespace}/configmaps/a")


def test_full_standard_output_is_an_error(shop: Shop) -> None:
    """Code 3 and the system's words, no traceback; what was done is recorded."""
    with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123
        found = subprocess.run(
            [sys.executable, "-m", "applyprune", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert found.returncode == 3
    assert found.stderr.startswith("error: No space left on device\n")
    assert "Traceback" not in found.stderr


def _because(error: Exception, cause: Exception) -> Exception:
    error.__context__ = cause
    return error


ACCIDENTS: dict[str, tuple[Exception, int, str]] = {
    "a mistake": (ValueError("hunter2"), BUG, "ValueError at "),
    "too deep": (RecursionError("hunter2"), BUG, "RecursionError at "),
    "no memory": (MemoryError(), 3, "out of memory"),
    "no memory for the system": (OSError(12, "Cannot allocate memory"), 3, "out of memory"),
    "no memory for a thread": (RuntimeError("can't start new thread"), 3, "out of memory"),
    "no memory for a module": (
        ImportError("x.so: failed to map segment from shared object"),
        3,
        "out of memory",
    ),
    "no memory before": (_because(SystemError("hunter2"), MemoryError()), 3, "out of memory"),
    "a full disk": (OSError(28, "No space left on device"), 3, "No space left on device"),
}


@pytest.mark.parametrize("name", ACCIDENTS)
def test_unforeseen_error_is_reported_as_a_bug(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The kind of error and its place, to be reported; never its words, they may be a secret."""
    error, code, words = ACCIDENTS[name]

    def work() -> int:
        raise error

    assert exit_code_of(work) == code
    said = capsys.readouterr().err
    assert words in said
    assert "hunter2" not in said
    assert "Traceback" not in said


def test_traceback_is_shown_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an environment variable that the message names."""
    monkeypatch.setenv("APPLYPRUNE_TRACEBACK", "1")
    error, _, _ = ACCIDENTS["a mistake"]

    def work() -> int:
        raise error

    assert exit_code_of(work) == BUG
    assert "Traceback (most recent call last)" in capsys.readouterr().err
