"""Runs bound to a plan file: what they do, what still fits after others, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from applyprune import ApplyOptions, ApplySet, PlanFile, PruneOptions, RunReport, connect, load
from applyprune.errors import PlanOutdated, UsageError
from applyprune.localplane import Plane
from applyprune.model.fate import Fate, Outcome
from applyprune.model.options import Adopt, Conflicts, DryRun, Mode, Options
from applyprune.model.text import parse_selector
from applyprune.output.report import report_of
from applyprune.planning.approval import decode_plan_file, encode_plan_file, sealed
from applyprune.planning.digests import plan_digest
from applyprune.values import replace
from tests.support.api import Api, AuditTrail, writes
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.live import config_maps
from tests.support.objects import DEPLOYMENT, config_map, crd, custom_resource
from tests.support.stage import Stage
from tests.support.waiting import eventually

NAMES = [f"a{number}" for number in range(9)]
BEFORE = [config_map(name) for name in NAMES]
NEXT = [config_map("a0", "2"), config_map("new"), *map(config_map, NAMES[1:6])]
"""One is changed, one is created, three are pruned."""
DEFAULTS, ALL_OF_IT = ApplyOptions(), PruneOptions()


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A set whose plans go through the text of a plan file."""

    web: ApplySet

    def plan(
        self, *bodies: dict[str, Any], options: ApplyOptions = DEFAULTS, check: bool = True
    ) -> PlanFile:
        plan = self.web.plan(load(objects=bodies), options=options, check=check).plan
        assert plan is not None
        file = encode_plan_file(self.web.plan_file(plan, options=options))
        return decode_plan_file(file, source="web.plan")

    def apply(
        self,
        file: PlanFile,
        *bodies: dict[str, Any],
        options: ApplyOptions = DEFAULTS,
        prune: PruneOptions = ALL_OF_IT,
    ) -> RunReport:
        return self.web.apply_plan(load(objects=bodies), file, options=options, prune=prune)


@pytest.fixture
def reviewed(stage: Stage) -> Iterator[Reviewed]:
    """The set of the stage."""
    with stage.connection() as cluster:
        yield Reviewed(stage.applyset(cluster))


def _outcomes(report: RunReport) -> dict[str, Outcome | None]:
    return {one.ref.name: one.outcome for one in report.objects}


def _reasons(report: RunReport) -> dict[str, str]:
    return {one.ref.name: one.problem.reason for one in report.objects if one.problem}


def _is_patch(name: str) -> Callable[[Exchange], bool]:
    return lambda seen: seen.method == "PATCH" and seen.path.endswith(f"/{name}")


def _scaled(api: Api, stage: Stage, name: str) -> None:
    path = f"{stage.path(name, 'deployments', '/apis/apps/v1')}/scale"
    api.patch(path, {"spec": {"replicas": 4}})


def _replaced(api: Api, stage: Stage, name: str) -> None:
    api("DELETE", stage.path(name))
    api.create(stage.path(), config_map(name))


def _deployment(name: str, **spec: Any) -> dict[str, Any]:
    fixed = {key: value for key, value in DEPLOYMENT["spec"].items() if key != "replicas"}
    return {**DEPLOYMENT, "metadata": {"name": name}, "spec": {**fixed, **spec}}


@pytest.mark.holds("plan-fits")
def test_changed_cluster_is_refused(
    stage: Stage, reviewed: Reviewed, api: Api, audit: AuditTrail
) -> None:
    """A dry run says so too, and asks the server while the plan fits."""
    scaled = _deployment("scaled", replicas=2)
    stage.run(*BEFORE, scaled)
    file = reviewed.plan(*NEXT, scaled)
    dry, given = Options(Mode.APPLY, DryRun.SERVER), load(objects=[*NEXT, scaled])
    audit.restart()
    assert report_of(reviewed.web.iter_run(given, dry, plan=file)).exit_code == 0
    assert len([one for one in audit.ours() if "dryRun=All" in one["requestURI"]]) >= 2
    for name in ("a0", "a4", "a7"):
        api.patch(stage.path(name), {"data": {"key": "3"}}, by="kubectl-edit")
    api.create(stage.path(), config_map("new"))
    api("DELETE", stage.path("a1"))
    _replaced(api, stage, "a2")
    _scaled(api, stage, "scaled")
    before = config_maps(api, stage.namespace)
    audit.restart()
    edited = "by kubectl-edit (.data.key); changing it back is not enough"
    expected = {
        **dict.fromkeys(("a0", "a4", "a7"), f"it has been changed meanwhile, {edited}"),
        "new": "it was created meanwhile",
        "a1": "it was deleted meanwhile",
        "a2": "it was deleted and created again meanwhile",
    }
    for refused in (
        reviewed.apply(file, *NEXT, scaled),
        report_of(reviewed.web.iter_run(given, dry, plan=file)),
    ):
        assert refused.exit_code == 8
        reasons = _reasons(refused)
        assert reasons.pop("scaled").startswith("it has been changed meanwhile")
        assert reasons == expected
    assert writes(audit) == []
    assert config_maps(api, stage.namespace) == before


def test_work_of_others_beside_the_plan_hinders_nothing(
    stage: Stage, reviewed: Reviewed, api: Api
) -> None:
    """An autoscaler, a run that leaves every object as it was, and deletions of what leaves.

    A plan that the server has not checked binds as well.
    """
    scaled = _deployment("scaled")
    stage.run(*BEFORE, scaled)
    file = reviewed.plan(*NEXT, scaled, check=False)
    _scaled(api, stage, "scaled")
    for bodies in ((*BEFORE, scaled, config_map("extra")), (*BEFORE, scaled)):
        assert stage.run(*bodies).exit_code == 0
    api("DELETE", stage.path("a7"))
    _replaced(api, stage, "a8")
    done = reviewed.apply(file, *NEXT, scaled)
    assert done.exit_code == 0, done.problems
    there = config_maps(api, stage.namespace)
    assert {name for name in there if name in NAMES} == {*NAMES[:6], "a8"}


def test_plan_that_failed_in_part_is_continued(
    stage: Stage, spoiled: Stage, reviewed: Reviewed, proxy: FaultProxy, api: Api
) -> None:
    """An admission refuses one object: nothing is pruned; later it allows it."""
    stage.run(*BEFORE)
    file = reviewed.plan(*NEXT)
    refusal = faults.status(403, "Forbidden", 'admission webhook "policy" denied the request: no')
    proxy.rule = always(refusal, where=_is_patch("new"))
    with spoiled.connection() as cluster:
        failed = Reviewed(spoiled.applyset(cluster)).apply(file, *NEXT)
    assert (failed.exit_code, _outcomes(failed)["a0"]) == (3, Outcome.UPDATED)
    assert stage.listed() >= {f"configmap/{name}" for name in NAMES}
    api.patch(stage.path("a0"), {"data": {"theirs": "1"}}, by="controller")
    api("DELETE", stage.path("a7"))
    done = reviewed.apply(file, *NEXT)
    assert done.exit_code == 0, done.problems
    assert stage.listed() == {f"configmap/{name}" for name in ("new", *NAMES[:6])}
    again = reviewed.apply(file, *NEXT)
    assert (again.exit_code, {*_outcomes(again).values()}) == (0, {Outcome.UNCHANGED})


def test_plan_file_lifts_no_guard(stage: Stage, reviewed: Reviewed, audit: AuditTrail) -> None:
    """The plan of a refused prune can be written; its apply needs the approval as well."""
    stage.run(*BEFORE)
    file = reviewed.plan(config_map("a0"))
    audit.restart()
    assert reviewed.apply(file, config_map("a0")).exit_code == 6
    assert writes(audit) == []
    done = reviewed.apply(file, config_map("a0"), prune=PruneOptions(approved=file.deletions))
    assert done.exit_code == 0, done.problems
    assert stage.listed() == {"configmap/a0"}


def test_approval_covers_what_is_recreated(
    stage: Stage, reviewed: Reviewed, api: Api, audit: AuditTrail
) -> None:
    """Only a check finds it, so an approved apply checks; the prunes alone are not the plan."""
    fixed = {**config_map("fixed"), "immutable": True}
    stage.run(*BEFORE, fixed)
    uid = api.get(stage.path("fixed"))["metadata"]["uid"]
    bodies = {**fixed, "data": {"key": "new"}}, config_map("a0")
    options = ApplyOptions(recreate=True)
    both = reviewed.plan(*bodies, options=options).deletions
    prunes = reviewed.plan(*bodies, options=options, check=False).deletions
    assert both != prunes

    def run(approved: str, check: bool = True) -> RunReport:
        prune = PruneOptions(approved=approved)
        decided = Options(Mode.APPLY, check=check, apply=options, prune=prune)
        return report_of(reviewed.web.iter_run(load(objects=bodies), decided))

    audit.restart()
    assert [run(prunes).exit_code, run(both, check=False).exit_code] == [6, 6]
    assert writes(audit) == []
    assert run(both).exit_code == 0
    assert api.get(stage.path("fixed"))["metadata"]["uid"] != uid
    assert stage.listed() == {"configmap/fixed", "configmap/a0"}


def test_forged_recreation_deletes_nothing(stage: Stage, reviewed: Reviewed, api: Api) -> None:
    """To recreate is an option of the call, and not of the file."""
    fixed = {**config_map("fixed"), "immutable": True}
    stage.run(fixed)
    before = api.get(stage.path("fixed"))
    body, allowed = {**fixed, "data": {"key": "other"}}, ApplyOptions(recreate=True)
    plan = reviewed.web.plan(load(objects=[body]), options=allowed).plan
    assert plan is not None
    true = reviewed.web.plan_file(plan, options=allowed)
    assert [one.fate for one in true.objects] == [Fate.RECREATE]
    digest = plan_digest(plan, stage.target, Options(Mode.APPLY))
    forged = sealed(replace(true, options={**true.options, "recreate": False}, digest=digest))
    refused = reviewed.apply(forged, body)
    assert (refused.exit_code, {*_reasons(refused)}) == (3, {"fixed"})
    assert api.get(stage.path("fixed")) == before


def test_marks_of_another_tool_go_only_as_reviewed(
    stage: Stage, reviewed: Reviewed, api: Api
) -> None:
    """A mark that has changed since is of another owner, so the plan no longer fits."""
    names = ("first", "second")
    for name in names:
        marked = config_map(name, annotations={"config.k8s.io/owning-inventory": name})
        api.create(stage.path(), marked, by="kapply")
    options, given = ApplyOptions(adopt=Adopt.ALL), [*map(config_map, names)]
    file = reviewed.plan(*given, options=options)
    change = {"metadata": {"annotations": {"config.k8s.io/owning-inventory": "new"}}}
    api.patch(stage.path("second"), change, by="kapply")
    refused = reviewed.apply(file, *given, options=options)
    assert (refused.exit_code, {*_reasons(refused)}) == (8, {"second"})
    file = reviewed.plan(*given, options=options)
    assert reviewed.apply(file, *given, options=options).exit_code == 0
    assert not any("annotations" in api.get(stage.path(name))["metadata"] for name in names)


FIXED, OTHER = ({**config_map("fixed", value), "immutable": True} for value in ("old", "new"))
RECREATE = ApplyOptions(recreate=True)


def _uid(api: Api, stage: Stage) -> str:
    return str(api.get(stage.path("fixed"))["metadata"]["uid"])


@pytest.mark.parametrize("check", [True, False])
def test_recreation_is_done_only_as_planned(
    stage: Stage, reviewed: Reviewed, api: Api, check: bool
) -> None:
    """Exactly that object is replaced, once; what no check has found deletes nothing."""
    stage.run(FIXED, config_map("a", "old"))
    old, bodies = _uid(api, stage), (OTHER, config_map("a", "new"))
    file = reviewed.plan(*bodies, options=RECREATE, check=check)
    fates = {one.ref.name: one.fate for one in file.objects}
    assert fates == {"fixed": Fate.RECREATE if check else Fate.CHANGE, "a": Fate.CHANGE}
    dry = Options(Mode.APPLY, DryRun.SERVER, apply=RECREATE)
    shown = report_of(reviewed.web.iter_run(load(objects=bodies), dry, plan=file))
    refusal = {"fixed": "the plan was to apply it; now an apply would recreate it"}
    assert _reasons(shown) == ({} if check else refusal)
    report = reviewed.apply(file, *bodies, options=RECREATE)
    assert _outcomes(report)["a"] is Outcome.UPDATED
    assert (report.exit_code, _uid(api, stage) == old) == ((0, False) if check else (3, True))
    again = reviewed.apply(file, *bodies, options=RECREATE)
    assert {one for name, one in _outcomes(again).items() if name == "a"} == {Outcome.UNCHANGED}


def test_options_of_the_plan_bind(stage: Stage, reviewed: Reviewed, audit: AuditTrail) -> None:
    """What it takes from others, and what it selects; a set of a Bundle is left to that."""
    old = [config_map(name, "old", labels={"app": name}) for name in ("a", "b", "gone")]
    new = [config_map(name, "new", labels={"app": name}) for name in ("a", "b")]
    stage.run(*old)
    forced = ApplyOptions(conflicts=Conflicts.FORCE)
    file = reviewed.plan(*new, options=forced)
    with pytest.raises(UsageError, match="the plan was made with other options"):
        reviewed.apply(file, *new)
    options = ApplyOptions(selector=parse_selector("app=a"))
    file = reviewed.plan(*new, options=options)
    with pytest.raises(UsageError, match="--selector=app=a then, no --selector now"):
        reviewed.apply(file, *new)
    assert _outcomes(reviewed.apply(file, *new, options=options)) == {"a": Outcome.UPDATED}
    assert stage.listed() == {"configmap/a", "configmap/b", "configmap/gone"}
    file = reviewed.plan(*old)
    bundle = Stage(stage.kubeconfig, stage.namespace, owner="Bundle shop/web", takes_over=True)
    bundle.run(*old)
    audit.restart()
    with pytest.raises(UsageError, match="Bundle shop/web"):
        reviewed.apply(file, *old)
    assert writes(audit) == []


def test_inventory_from_a_backup_does_not_fit(
    stage: Stage, reviewed: Reviewed, api: Api, audit: AuditTrail
) -> None:
    """Even if it says what it said when the plan was made."""
    stage.run(config_map("a"), config_map("b"))
    file = reviewed.plan(config_map("a"))
    path = stage.path("applyprune-web")
    backup = api.get(path)
    assert api("DELETE", path)[0] == 200
    for key in ("uid", "resourceVersion", "creationTimestamp"):
        del backup["metadata"][key]
    api.create(stage.path(), backup)
    audit.restart()
    with pytest.raises(PlanOutdated, match="was deleted and created again"):
        reviewed.apply(file, config_map("a"))
    assert writes(audit) == []
    # A plan of the backup as it is now prunes nothing either.
    file = reviewed.plan(config_map("a"))
    assert reviewed.apply(file, config_map("a")).exit_code == 6
    assert api.exists(stage.path("b"))


@pytest.mark.parametrize("same", [True, False], ids=["the same plan", "another input"])
def test_run_that_another_overtakes_plans_again(
    stage: Stage, spoiled: Stage, reviewed: Reviewed, proxy: FaultProxy, *, same: bool
) -> None:
    """The first one ends between this run's read of the inventory and that of the objects."""
    stage.run(config_map("a"), config_map("b"), config_map("c"))
    bodies = (config_map("a", "new"), config_map("b"))
    file = reviewed.plan(*bodies)
    read: list[str] = []

    def is_next(seen: Exchange) -> bool:
        is_inventory = seen.path.endswith("/applyprune-web")
        read.extend([seen.path] * is_inventory)
        return len(read) == 1 and not is_inventory and "/configmaps" in seen.path

    def overtake() -> None:
        other = (config_map("a", "x"), bodies[1])
        first = reviewed.apply(file, *bodies) if same else stage.run(*other)
        assert first.exit_code == 0

    done = proxy.before_first(is_next, overtake)
    with spoiled.connection() as cluster:
        report = Reviewed(spoiled.applyset(cluster)).apply(file, *bodies)
    assert done
    assert (report.exit_code, _outcomes(report).get("a")) == (
        (0, Outcome.UNCHANGED) if same else (8, Outcome.FAILED)
    )


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
        reviewed = Reviewed(crd_stage.applyset(cluster))
        file = reviewed.plan(*bodies)
        note = "/spec/versions/0/schema/openAPIV3Schema/properties/note"
        crds.patch(named, [{"op": "remove", "path": note}])
        eventually(lambda: has_note() is False, lambda: "the new schema")
        audit = AuditTrail(running, crds)
        refused = reviewed.apply(file, *bodies)
        assert (refused.exit_code, writes(audit)) == (8, [])
        assert _reasons(refused) == {"a": "note: unknown field"}
    assert crds("DELETE", named)[0] == 200
