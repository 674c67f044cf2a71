"""The runs of a set: who has changed what, and which run deleted an object."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.support.command import applyprune, start
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.kill import Moment, kill_at_first
from tests.support.objects import config_map, text
from tests.support.settings import settings
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import AuditTrail

_JOB = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_ACTOR": "mona\x1b[2J",
    "GITHUB_SHA": "0123456789abcdef0123456789abcdef01234567",
    "GITHUB_SERVER_URL": "https://github.example",
    "GITHUB_REPOSITORY": "shop/web",
    "GITHUB_RUN_ID": "42",
}


COLUMNS = ["RUN", "WHEN", "WHO", "SOURCE", "DID"]


def _run(plane: Plane, *arguments: str | Path, **variables: str) -> tuple[int, str]:
    """Run a verb in a job with these variables; return the exit code and both outputs."""
    job = ["env", *(f"{name}={value}" for name, value in variables.items())]
    with start(*arguments, kubeconfig=plane.kubeconfig, within=job) as process:
        out, err = process.communicate("", timeout=HANG)
    return process.returncode, out + err


def _history(plane: Plane, namespace: str) -> list[dict[str, Any]]:
    verb = ("history", "web", "-n", namespace, "-o", "json")
    ended = applyprune(*verb, kubeconfig=plane.kubeconfig)
    assert ended.code == 0, ended.err
    runs: list[dict[str, Any]] = json.loads(ended.out)["runs"]
    return runs


def test_audit_log_and_history_say_which_run_deleted_an_object(
    plane: Plane, namespace: str, audit: AuditTrail, tmp_path: Path
) -> None:
    """By the ID in the User-Agent, which is in each request of a run and in no other's."""
    source = tmp_path / "set.json"
    call = ("apply", "web", "-n", namespace, "-f", source)
    source.write_text(text(*map(config_map, "abcd")))
    assert _run(plane, *call, *settings(tmp_path, actor="by hand"))[0] == 0
    source.write_text(text(*map(config_map, "abc")))
    assert _run(plane, *call, **_JOB)[0] == 0
    assert _run(plane, *call, **_JOB)[0] == 0  # without a change
    source.write_text(text(config_map("a", "new"), config_map("b"), config_map("c")))
    assert _run(plane, *call)[0] == 0
    ours = [event for event in audit.events() if event["userAgent"].startswith("applyprune/")]
    (deletion,) = [
        event
        for event in ours
        if event["verb"] == "delete" and f"/{namespace}/configmaps/d?" in event["requestURI"]
    ]
    agents = {event["userAgent"] for event in ours}
    form = re.compile(r"applyprune/[\w.+-]+ \([\w]+/[\w]+\) run/([0-9a-f]{12})")
    assert all(form.fullmatch(agent) for agent in agents), agents
    assert len(agents) >= 4
    writers = {event["userAgent"] for event in ours if event["verb"] in {"update", "patch"}}
    assert len(writers) == 3
    newest, second, first = _history(plane, namespace)
    found = form.fullmatch(deletion["userAgent"])
    assert found is not None
    assert found[1] == second["run"]
    assert second["actor"] == "mona\\u001b[2J".replace("\\u001b", "\\x1b")
    assert second["source"]["commit"] == _JOB["GITHUB_SHA"]
    of_d = {"group": "", "kind": "ConfigMap", "namespace": namespace, "name": "d"}
    assert second["objects"] == {"pruned": {"count": 1, "refs": [of_d]}}
    assert [one["number"] for one in (newest, second, first)] == [3, 2, 1]
    assert second["url"] == "https://github.example/shop/web/actions/runs/42"
    assert [second[key] for key in ("created", "changed", "pruned", "exitCode")] == [0, 0, 1, 0]
    assert (first["actor"], first["created"]) == ("by hand", 4)
    assert (newest["actor"], newest["changed"]) == ("", 1)
    ended = applyprune("history", "web", "-n", namespace, "-o", "wide", kubeconfig=plane.kubeconfig)
    assert ended.out.splitlines()[0].split() == [*COLUMNS, "COMMAND", "ID", "JOB"]
    assert "https://github.example/shop/web/actions/runs/42" in ended.out
    assert "\x1b" not in ended.out


def test_killed_run_shows_no_older_exit_code(plane: Plane, namespace: str, tmp_path: Path) -> None:
    """It is unfinished, in every verb, and stays in the history: it may have changed something."""
    source = tmp_path / "set.json"
    source.write_text(text(config_map("a"), config_map("b")))
    call = ("apply", "web", "-n", namespace, "-f", source)
    assert applyprune(*call, kubeconfig=plane.kubeconfig).code == 0
    source.write_text(text(config_map("a", "new"), config_map("b", "new")))

    def is_meant(exchange: Exchange) -> bool:
        is_write = exchange.method == "PATCH" and "dryRun" not in exchange.query
        return is_write and "/configmaps/" in exchange.path

    with FaultProxy(plane) as proxy:
        kill_at_first(proxy, is_meant, Moment.AFTER, call, proxy.kubeconfig(tmp_path))
    listed = applyprune("list", "-n", namespace, kubeconfig=plane.kubeconfig)
    assert re.search(r"apply, \d+s \(unfinished\)", listed.out), listed.out
    shown = applyprune("status", "web", "-n", namespace, kubeconfig=plane.kubeconfig)
    assert "set.json, unfinished" in shown.out
    assert "exit code 0" not in shown.out
    killed, first = _history(plane, namespace)
    assert (killed["exitCode"], first["exitCode"]) == (None, 0)
    assert applyprune(*call, kubeconfig=plane.kubeconfig).code == 0
    last, again, _ = _history(plane, namespace)
    assert (last["exitCode"], again) == (0, killed)
