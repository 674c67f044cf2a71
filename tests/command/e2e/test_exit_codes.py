"""Each exit code of docs/reference/exit-codes.md, by a process that ends with it.

That of an interruption, and of a lost lock: ``tests/command/e2e/test_killed.py``; of a plan that
does not fit: ``tests/command/e2e/test_plan_files.py``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.actors import ALICE
from tests.support.desk import NAMES
from tests.support.input_files import write_input
from tests.support.listening import silent_port
from tests.support.objects import config_map

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.command import Ended
    from tests.support.desk import Desk

ALL = dict.fromkeys(NAMES, "1")


def _differences(desk: Desk) -> Ended:
    desk.api("DELETE", f"/api/v1/namespaces/{desk.namespace}/configmaps/a0")
    return desk.call_with("inventory", "check")


def _bad_input(desk: Desk) -> Ended:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}
    return desk.call_with("apply", "-f", write_input(desk.folder / "bad.json", [body]))


def _conflict(desk: Desk) -> Ended:
    path = f"/api/v1/namespaces/{desk.namespace}/configmaps/a0"
    desk.api.apply(path, config_map("a0", "x"), by=ALICE, force=True)
    return desk.call("apply", **{**ALL, "a0": "y"})


def _not_ready(desk: Desk) -> Ended:
    never = config_map("never", annotations={"applyprune.dev/ready-when": "false"})
    given = write_input(desk.folder / "never.json", [never])
    return desk.call_with("apply", "-f", given, "--no-prune", "--wait", "--timeout", "1s")


def _no_access(desk: Desk) -> Ended:
    config = json.loads(desk.plane.kubeconfig.read_text())
    elsewhere = desk.folder / "kubeconfig"
    with silent_port() as port:
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        elsewhere.write_text(json.dumps(config))
        ended = desk.call_on(elsewhere, "apply", **ALL)
    assert f"127.0.0.1:{port}" in ended.err
    return ended


CODES: dict[str, tuple[int, Callable[[Desk], Ended]]] = {
    "done": (0, lambda desk: desk.call("apply", **ALL)),
    "differences": (1, _differences),
    "a bad call": (2, lambda desk: desk.call_with("apply")),
    "bad input": (2, _bad_input),
    "an object that failed": (3, lambda desk: desk.call("apply", **ALL, Not_A_Name="1")),
    "a conflict": (4, _conflict),
    "not ready in time": (5, _not_ready),
    "a prune refused": (6, lambda desk: desk.call("apply", a0="1")),
    "no server": (7, _no_access),
}


@pytest.mark.parametrize("name", CODES)
def test_exit_code_tells_the_outcome(desk: Desk, name: str) -> None:
    """The code of the table, and where it is none of success, a word of why."""
    code, act = CODES[name]
    found = act(desk)
    assert found.code == code, found
    assert code < 2 or "error" in found.err.lower()


def test_unwritable_report_stops_no_run(desk: Desk) -> None:
    """The objects are applied, the inventory is recorded; the code says that something is amiss."""
    found = desk.call("apply", "-o", "text=/dev/full", **ALL, new="1")
    assert found.code == 3
    assert found.err.count("/dev/full is not complete: No space left on device") == 1
    assert desk.call_with("inventory", "check").code == 0
    assert desk.there() == {**ALL, "new": "1"}


def test_full_standard_output_is_an_error(desk: Desk) -> None:
    """Code 3 and the system's words, no traceback; a run goes to its end."""
    command = [sys.executable, "-m", "applyprune"]
    line = ("--kubeconfig", desk.plane.kubeconfig, *desk.line("apply", **ALL, new="1")[1:])
    for arguments, told in ((("apply", *line), "standard output is not complete: "), (("-h",), "")):
        with open("/dev/full", "w", encoding="utf-8") as full:  # noqa: PTH123
            found = subprocess.run(
                [*command, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        assert found.returncode == 3
        assert found.stderr.startswith(f"error: {told}No space left on device\n")
    assert desk.there() == {**ALL, "new": "1"}
