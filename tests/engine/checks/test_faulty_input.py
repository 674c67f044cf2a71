"""An input with errors: one run reports all of them, and plans nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from applyprune.errors import ApplypruneError, problems_of
from applyprune.localplane import Plane
from applyprune.model.events import Event
from applyprune.model.options import DryRun, Mode
from applyprune.planning.desired import HOOK
from applyprune.planning.marks import READY_WHEN
from applyprune.planning.order import DEPENDS_ON
from applyprune.values import replace
from tests.support.command import applyprune
from tests.support.fault_proxy import FaultProxy
from tests.support.input_files import write_input
from tests.support.objects import config_map
from tests.support.stage import Stage

UNKNOWN: dict[str, Any] = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}}
FAULTY = [
    config_map("hook", annotations={HOOK: "pre-install"}),
    UNKNOWN,
    config_map("needy", annotations={DEPENDS_ON: "/Secret/nowhere"}),
    config_map("ruled", annotations={READY_WHEN: "self.("}),
    config_map("a", "new"),
]
LINES = {"1", "2", "3", "4"}


@pytest.mark.parametrize(
    "options",
    [{}, {"dry_run": DryRun.SERVER}, {"mode": Mode.PRUNE}, {"ready_when": (("cm", "self.("),)}],
)
def test_errors_are_reported_together_and_no_object_is_read(
    spoiled: Stage, proxy: FaultProxy, options: dict[str, Any]
) -> None:
    """An object with an error would look as if it had left the set."""
    spoiled.run(config_map("a"), config_map("b"), config_map("c"))
    before = len(proxy.exchanges)
    events: list[Event] = []
    with pytest.raises(ApplypruneError) as caught:
        replace(spoiled, seen=events.append).run(*FAULTY, **options)
    told = [str(problem) for problem in problems_of(caught.value)]
    lines = [line for line in LINES if any(f"set.yaml:{line}" in one for one in told)]
    wanted = LINES - {"4"} if options.get("mode") is Mode.PRUNE else LINES
    assert (caught.value.exit_code, set(lines)) == (2, wanted)
    assert any("ready-when" in one for one in told) is ("ready_when" in options)
    assert {type(event).__name__ for event in events} == {"Started"}
    sent = [one.path for one in proxy.exchanges[before:] if one.path not in {"/api", "/apis"}]
    # The unknown kind may be that of a CRD which the list of kinds does not have yet.
    assert [path.rpartition("/")[2] for path in sent] == [
        "applyprune-web",
        "customresourcedefinitions",
        "apiservices",
    ]
    assert spoiled.listed() == {"configmap/a", "configmap/b", "configmap/c"}


def test_command_line_has_the_place_of_each_error(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """In text and in JSON, with exit code 2."""
    source = write_input(tmp_path / "set.yaml", FAULTY)
    plan = tmp_path / "web.plan"
    rest = ("-f", source, "-n", namespace)
    ended = applyprune("plan", "web", "--out", plan, *rest, kubeconfig=plane.kubeconfig)
    assert ended.code == 2, ended.err
    assert all(f"error: {source}:{line}" in ended.err for line in LINES), ended.err
    assert not plan.exists()
    ended = applyprune("apply", "web", *rest, "-o", "json", kubeconfig=plane.kubeconfig)
    told = json.loads(ended.out)
    assert (ended.code, told["exitCode"], told["plan"], told["objects"]) == (2, 2, None, [])
    assert {str(one["origin"]["line"]) for one in told["errors"]} == LINES
