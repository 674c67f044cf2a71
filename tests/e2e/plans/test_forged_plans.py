"""A plan file with a right checksum that no plan has written: it restricts, and allows nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from applyprune import ApplyOptions, ApplySet, connect, load
from applyprune.errors import ApplypruneError
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.options import Mode, Options
from applyprune.planning.digests import plan_digest
from applyprune.sources.plan_files import read_plan
from tests.support.api import writes
from tests.support.command import applyprune
from tests.support.desk import NAMES
from tests.support.input_files import write_input
from tests.support.objects import config_map
from tests.support.plan_files import forge

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api, AuditTrail
    from tests.support.desk import Desk

ESCAPES = "\x1b[31m\x9b2J\u202e\r\n"


def test_plan_file_of_another_place_or_time_is_refused(desk: Desk, audit: AuditTrail) -> None:
    """Each has a sentence of its own."""
    values = {**dict.fromkeys(NAMES, "1"), "a0": "2"}
    path = desk.folder / "web.plan"
    assert desk.call("plan", "--out", path, **values).code == 0
    true = read_plan(path)
    more = (*true.objects, replace(true.objects[0], ref=Ref("", "ConfigMap", "x", "y")))
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({"name": "other"}, 2, "the plan file is for the set other in namespace "),
        ({"namespace": "other"}, 2, "the plan file is for the set web in namespace other"),
        ({"expires": datetime.now(UTC)}, 8, "the plan expired at "),
        ({"cluster": {"kube-system": "other"}}, 2, "the plan file is for another cluster"),
        ({"cluster": {desk.namespace: "other"}}, 2, f"the Namespace {desk.namespace} has another"),
        ({"cluster": {}, "inventory_uid": ""}, 2, "it is unknown whether the plan file is for "),
        ({"options": {**true.options, "new": "x"}}, 2, "--new=x then, no --new now"),
        ({"inventory_uid": "other"}, 8, "the inventory of the set was deleted and created again"),
        ({"objects": more}, 8, "1 object no longer fits the plan: nothing was written"),
        ({"objects": true.objects[1:]}, 8, "1 object no longer fits the plan: nothing was written"),
    ]
    audit.restart()
    found = []
    with connect(kubeconfig=desk.plane.kubeconfig) as cluster:
        web, given = (
            ApplySet("web", desk.namespace, cluster=cluster),
            load(desk.folder / "set.json"),
        )
        for changes, _, text in cases:
            try:
                report = web.apply_plan(given, replace(true, **changes))
                report.raise_for_failures()
            except ApplypruneError as error:
                found.append((error.exit_code, text if text in str(error) else str(error)))
    assert found == [(code, text) for _, code, text in cases]
    assert writes(audit) == []


def test_names_in_a_plan_file_never_reach_the_terminal_as_they_are(
    desk: Desk, audit: AuditTrail
) -> None:
    """In the errors of the run, and of each object."""
    values = {**dict.fromkeys(NAMES, "1"), "a0": "2"}
    path = desk.folder / "web.plan"
    assert desk.call("plan", "--out", path, **values).code == 0
    true = read_plan(path)
    audit.restart()
    odd = replace(true.objects[0], ref=Ref(ESCAPES, ESCAPES, ESCAPES, ESCAPES))
    for changes, code in (
        ({"name": ESCAPES, "namespace": ESCAPES}, 2),
        ({"options": {**true.options, ESCAPES: ESCAPES}}, 2),
        ({"objects": (odd, *true.objects)}, 8),
    ):
        path.unlink()
        forge(path, true, **changes)
        refused = desk.call("apply", "--plan", path, **values)
        assert refused.code == code
        shown = (refused.out + refused.err).replace("\n", "")
        assert shown.isprintable()
        assert "\\x1b[31m\\x9b2J\\u202e" in shown.replace("\\u009b", "\\x9b")
    assert writes(audit) == []


def test_forged_recreation_deletes_nothing(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """--recreate is an option of the call, and not of the file."""
    fixed = {**config_map("fixed"), "immutable": True}
    given, file = write_input(tmp_path / "set.json", [fixed]), tmp_path / "web.plan"
    where = ("web", "-n", namespace, "-f", given)
    assert applyprune("apply", *where, kubeconfig=plane.kubeconfig).code == 0
    place = f"/api/v1/namespaces/{namespace}/configmaps/fixed"
    before = api.get(place)
    write_input(given, [{**fixed, "data": {"key": "other"}}])
    allowed = ApplyOptions(recreate=True)
    with connect(kubeconfig=plane.kubeconfig) as cluster:
        web = ApplySet("web", namespace, cluster=cluster)
        plan = web.plan(load(given), options=allowed).plan
        assert plan is not None
        true = web.plan_file(plan, options=allowed)
        assert [one.fate for one in true.objects] == [Fate.RECREATE]
        digest = plan_digest(plan, web.identity, Options(Mode.APPLY))
    forge(file, true, options={**true.options, "recreate": False}, digest=digest)
    refused = applyprune("apply", *where, "--plan", file, kubeconfig=plane.kubeconfig)
    assert refused.code == 3, refused.err
    assert "configmap/fixed in namespace" in refused.err
    assert api.get(place) == before
