"""Runs that are bound to a plan file: what they may do as other runs do, and what they may not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from applyprune import ApplyOptions, ApplySet, PlanFile, RunReport, connect, load
from applyprune.errors import PlanOutdated, UsageError
from applyprune.localplane import Plane
from applyprune.model.events import ObjectDone
from applyprune.model.fate import Fate, Outcome
from applyprune.model.options import Adopt, Conflicts, DryRun, Mode, Options
from applyprune.model.text import parse_selector
from applyprune.planning.approval import decode_plan_file, encode_plan_file
from tests.support.api import Api, AuditTrail, writes
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.objects import SECRET, config_map, crd, custom_resource
from tests.support.stage import Stage
from tests.support.waiting import eventually

DEFAULTS = ApplyOptions()
SCHEMA_OF_CRD = "/spec/versions/0/schema/openAPIV3Schema"


@dataclass(frozen=True, slots=True)
class Bound:
    """A set whose plans go through the text of a plan file."""

    web: ApplySet

    def plan(
        self, *bodies: dict[str, Any], options: ApplyOptions = DEFAULTS, check: bool = True
    ) -> PlanFile:
        plan = self.web.plan(load(objects=bodies), options=options, check=check).plan
        assert plan is not None
        return decode_plan_file(
            encode_plan_file(self.web.plan_file(plan, options=options)), source="web.plan"
        )

    def apply(
        self, file: PlanFile, *bodies: dict[str, Any], options: ApplyOptions = DEFAULTS
    ) -> RunReport:
        return self.web.apply_plan(load(objects=bodies), file, options=options)


@pytest.fixture
def bound(stage: Stage) -> Iterator[Bound]:
    """The set of the stage."""
    with stage.connection() as cluster:
        yield Bound(stage.applyset(cluster))


def _outcomes(report: RunReport) -> dict[str, Outcome | None]:
    return {one.ref.short: one.outcome for one in report.objects}


def _reasons(report: RunReport) -> list[str]:
    return [one.problem.reason for one in report.objects if one.problem is not None]


def _immutable(value: str) -> dict[str, Any]:
    return {**config_map("fixed", value), "immutable": True}


def _uid(api: Api, stage: Stage, name: str) -> str:
    found = api.get(stage.path(name))
    return str(found["metadata"]["uid"])


def test_planned_recreation_is_done(stage: Stage, bound: Bound, api: Api) -> None:
    """Exactly that object is replaced, once."""
    stage.run(_immutable("old"), config_map("a"))
    old, other = _uid(api, stage, "fixed"), _uid(api, stage, "a")
    options, bodies = ApplyOptions(recreate=True), (_immutable("new"), config_map("a"))
    file = bound.plan(*bodies, options=options)
    assert {one.ref.name: one.fate for one in file.objects} == {
        "fixed": Fate.RECREATE,
        "a": Fate.LEAVE,
    }
    report = bound.apply(file, *bodies, options=options)
    assert _outcomes(report)["configmap/fixed"] is Outcome.RECREATED, report.problems
    new = _uid(api, stage, "fixed")
    assert (new != old, _uid(api, stage, "a")) == (True, other)
    again = bound.apply(file, *bodies, options=options)
    assert (again.exit_code, _uid(api, stage, "fixed")) == (0, new)


def test_recreation_that_no_check_has_found_deletes_nothing(
    stage: Stage, bound: Bound, api: Api
) -> None:
    """Only that object fails, although the options allow its recreation."""
    stage.run(_immutable("old"), config_map("a", "old"))
    old, options = _uid(api, stage, "fixed"), ApplyOptions(recreate=True)
    bodies = (_immutable("new"), config_map("a", "new"))
    file = bound.plan(*bodies, options=options, check=False)
    dry = Options(Mode.APPLY, DryRun.SERVER, apply=options)
    events = list(bound.web.iter_run(load(objects=bodies), dry, plan=file))
    told = [one.problem.reason for one in events if isinstance(one, ObjectDone) and one.problem]
    assert told == ["the plan was to apply it; now an apply would recreate it"]
    report = bound.apply(file, *bodies, options=options)
    assert _outcomes(report) == {"configmap/a": Outcome.UPDATED, "configmap/fixed": Outcome.FAILED}
    assert (report.exit_code, _uid(api, stage, "fixed")) == (3, old)


@pytest.mark.holds("reviewed-secret")
def test_new_value_of_a_secret_that_was_to_be_left_does_not_fit(
    stage: Stage, bound: Bound, audit: AuditTrail
) -> None:
    """No digest of it is in the file; if every object is sent, the server is asked about it."""
    old, new = ({**SECRET, "stringData": {"password": one}} for one in ("old", "new"))
    stage.run(old)
    options = ApplyOptions(reapply_all=True)
    file = bound.plan(old, options=options)
    assert [(one.fate, one.is_checked) for one in file.objects] == [(Fate.LEAVE, True)]
    audit.restart()
    refused = bound.apply(file, new, options=options)
    assert (refused.exit_code, _reasons(refused)) == (8, ["its manifest has other values now"])
    assert writes(audit) == []
    report = bound.apply(file, old, options=options)
    assert (report.exit_code, set(_outcomes(report).values())) == (0, {Outcome.UNCHANGED})


TAKEN: dict[str, ApplyOptions] = {
    "adopt": ApplyOptions(adopt=Adopt.ALL),
    "take over": ApplyOptions(take_over=frozenset({"theirs"})),
    "force": ApplyOptions(conflicts=Conflicts.FORCE),
}


@pytest.mark.parametrize("name", TAKEN)
def test_planned_adoption_is_done(
    stage: Stage, bound: Bound, api: Api, audit: AuditTrail, name: str
) -> None:
    """By the options that the plan had, and by no others."""
    options = TAKEN[name]
    if name == "adopt":
        Stage(stage.kubeconfig, stage.namespace, name="other").run(config_map("a", "old"))
    else:
        api.apply(stage.path("a"), config_map("a", "old"), by="theirs")
    file = bound.plan(config_map("a", "new"), options=options)
    assert [one.fate for one in file.objects] == [Fate.ADOPT]
    audit.restart()
    with pytest.raises(UsageError, match="the plan was made with other options"):
        bound.apply(file, config_map("a", "new"))
    assert writes(audit) == []
    report = bound.apply(file, config_map("a", "new"), options=options)
    assert report.exit_code == 0, report.problems
    found = api.get(stage.path("a"))
    assert found["data"] == {"key": "new"}


def test_object_to_skip_on_a_conflict_is_tried(stage: Stage, bound: Bound, api: Api) -> None:
    """As in any run: whether the check has found the conflict, or there was no check."""
    annotated = {"annotations": {"applyprune.dev/conflicts": "skip"}}
    bodies = [config_map(name, "ours", **annotated) for name in ("a", "b")]
    stage.run(*bodies)
    api.patch(stage.path("a"), {"data": {"key": "theirs"}}, by="theirs")
    for check in (True, False):
        again = ApplyOptions(reapply_all=True)
        file = bound.plan(*bodies, options=again, check=check)
        report = bound.apply(file, *bodies, options=again)
        assert _outcomes(report) == {
            "configmap/a": Outcome.SKIPPED,
            "configmap/b": Outcome.UNCHANGED,
        }, check
    found = api.get(stage.path("a"))
    assert found["data"] == {"key": "theirs"}


def test_plan_of_a_selection_applies_only_that(stage: Stage, bound: Bound) -> None:
    """The selector is a part of the plan; nothing is pruned."""
    old = [config_map(name, "old", labels={"app": name}) for name in ("a", "b", "gone")]
    new = [config_map(name, "new", labels={"app": name}) for name in ("a", "b")]
    stage.run(*old)
    options = ApplyOptions(selector=parse_selector("app=a"))
    file = bound.plan(*new, options=options)
    with pytest.raises(UsageError, match="--selector=app=a then, no --selector now"):
        bound.apply(file, *new)
    assert _outcomes(bound.apply(file, *new, options=options)) == {"configmap/a": Outcome.UPDATED}
    assert stage.listed() == {"configmap/a", "configmap/b", "configmap/gone"}


def test_set_that_a_bundle_owns_now_is_left_to_it(
    stage: Stage, bound: Bound, audit: AuditTrail
) -> None:
    """A plan file is no way around its controller."""
    stage.run(config_map("a"))
    file = bound.plan(config_map("a", "new"))
    Stage(stage.kubeconfig, stage.namespace, owner="Bundle shop/web", takes_over=True).run(
        config_map("a")
    )
    audit.restart()
    with pytest.raises(UsageError, match="Bundle shop/web"):
        bound.apply(file, config_map("a", "new"))
    assert writes(audit) == []


def test_inventory_from_a_backup_does_not_fit(
    stage: Stage, bound: Bound, api: Api, audit: AuditTrail
) -> None:
    """Even if it says what it said when the plan was made."""
    stage.run(config_map("a"), config_map("b"))
    file = bound.plan(config_map("a"))
    place = stage.path()
    backup = api.get(f"{place}/applyprune-web")
    assert api("DELETE", f"{place}/applyprune-web")[0] == 200
    for key in ("uid", "resourceVersion", "creationTimestamp"):
        del backup["metadata"][key]
    api.create(place, backup)
    audit.restart()
    with pytest.raises(PlanOutdated, match="was deleted and created again"):
        bound.apply(file, config_map("a"))
    assert writes(audit) == []
    # A plan of the backup as it is now prunes nothing either.
    file = bound.plan(config_map("a"))
    assert bound.apply(file, config_map("a")).exit_code == 6
    assert api.exists(f"{place}/b")


@pytest.mark.parametrize("same", [True, False], ids=["the same plan", "another input"])
def test_run_that_another_overtakes_plans_again(
    stage: Stage, spoiled: Stage, bound: Bound, proxy: FaultProxy, *, same: bool
) -> None:
    """The first one ends between this run's read of the inventory and that of the objects."""
    stage.run(config_map("a"), config_map("b"), config_map("c"))
    bodies = (config_map("a", "new"), config_map("b"))
    file = bound.plan(*bodies)
    read: list[str] = []
    ends: list[int] = []

    def before(seen: Exchange) -> None:
        if read == ["applyprune-web"] and not ends and "/configmaps" in seen.path:
            first = (
                bound.apply(file, *bodies) if same else stage.run(config_map("a", "x"), bodies[1])
            )
            ends.append(first.exit_code)
        if seen.path.endswith("/applyprune-web"):
            read.append("applyprune-web")

    proxy.before_forward = before
    with spoiled.connection() as cluster:
        report = Bound(spoiled.applyset(cluster)).apply(file, *bodies)
    assert ends == [0]
    assert (report.exit_code, _outcomes(report).get("configmap/a")) == (
        (0, Outcome.UNCHANGED) if same else (8, Outcome.FAILED)
    )


def test_definition_created_in_between_is_refused(
    running: Plane, crd_stage: Stage, crds: Api
) -> None:
    """The plan was to create it; its custom resource is not created either."""
    definition, foo = crd("Bound"), custom_resource("a", "Bound")
    with connect(kubeconfig=crd_stage.kubeconfig, cache=False) as cluster:
        bound = Bound(crd_stage.applyset(cluster))
        file = bound.plan(definition, foo)
        place = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        crds.create(place, definition)
        audit = AuditTrail(running, crds)
        refused = bound.apply(file, definition, foo)
        assert (refused.exit_code, _reasons(refused)) == (8, ["it was created meanwhile"])
        assert writes(audit) == []
        assert not crd_stage.inventory().exists
        assert crds("DELETE", f"{place}/{definition['metadata']['name']}")[0] == 200


def test_field_that_a_definition_has_lost_in_between_is_refused(
    running: Plane, crd_stage: Stage, crds: Api
) -> None:
    """Of a CRD outside the set: the apply checks the fields again, though it dry-runs nothing."""
    definition = crd("Narrowed")
    place = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    named = f"{place}/{definition['metadata']['name']}"
    crds.create(place, definition)

    def has_note() -> bool | None:
        status, document = crds("GET", "/openapi/v3/apis/x.example.com/v1")
        is_there = status == 200 and isinstance(document, dict)
        known = document["components"]["schemas"] if is_there else {}
        schema = known.get("com.example.x.v1.Narrowed")
        return None if schema is None else "note" in schema["properties"]

    eventually(has_note, lambda: "the schema")
    bodies = {**custom_resource("a", "Narrowed"), "note": "x"}, config_map("b")
    with connect(kubeconfig=crd_stage.kubeconfig, cache=False) as cluster:
        bound = Bound(crd_stage.applyset(cluster))
        file = bound.plan(*bodies)
        gone = {"op": "remove", "path": f"{SCHEMA_OF_CRD}/properties/note"}
        crds.patch(named, [gone])
        eventually(lambda: has_note() is False, lambda: "the new schema")
        audit = AuditTrail(running, crds)
        refused = bound.apply(file, *bodies)
        assert (refused.exit_code, writes(audit)) == (8, [])
        assert _outcomes(refused) == {"narrowed.x.example.com/a": Outcome.FAILED}
        assert _reasons(refused) == ["note: unknown field"]
    assert crds("DELETE", named)[0] == 200


def test_plan_file_says_nothing_about_the_values_of_a_secret(bound: Bound, stage: Stage) -> None:
    """Two inputs that differ only in them have files that differ only in the times, if at all."""
    made = []
    for _ in range(2):
        for value in ("geheim-4711", "other"):
            file = bound.plan({**SECRET, "stringData": {"password": value}})
            assert b"geheim" not in encode_plan_file(file)
            made.append(encode_plan_file(file).partition(b'"set":')[2])
        assert made[-1] == made[-2]
        stage.run({**SECRET, "stringData": {"password": "live"}})
    assert made[0] != made[2]
