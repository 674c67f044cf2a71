"""What a plan says is what the apply after it does: the same fates, and the same fields."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from applyprune.model.events import ObjectDiff
from applyprune.model.fate import Fate, Outcome
from applyprune.model.options import DryRun
from applyprune.model.plan import ApplyStep, RemoveStep
from applyprune.planning.comparison import without_bookkeeping
from applyprune.planning.plan import apply_forecast, removal_forecast
from applyprune.values import replace
from tests.support.actors import ALICE
from tests.support.api import Api
from tests.support.live import Body
from tests.support.objects import config_map, of_kind
from tests.support.options import options_of
from tests.support.stage import Stage
from tests.support.workloads import workload

_NUMBERS = itertools.count()
_PATHS = {
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Secret": "/api/v1/namespaces/{}/secrets",
    "Service": "/api/v1/namespaces/{}/services",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
}
_SEEN = {Fate.CREATE, Fate.CHANGE, Fate.LEAVE, Fate.RECREATE, Fate.ADOPT, Fate.PRUNE}
"""The fates that the examples must have, compared in full."""
_ALWAYS = {"applyprune.dev/recreate": "allowed"}


def _service(port: int, kind: str) -> Body:
    spec: Body = {"selector": {"app": "web"}, "ports": [{"name": "http", "port": port}]}
    address = {"clusterIP": "None"} if kind == "headless" else {}
    return of_kind("Service", "svc", {"annotations": _ALWAYS}, spec=spec | address)


def _deployment(image: str, replicas: int | None, cpu: str, selector: str) -> Body:
    container: Body = {"name": "main", "image": image}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    body = workload("Deployment", "web", spec={} if replicas is None else {"replicas": replicas})
    body["spec"]["selector"]["matchLabels"]["app"] = selector
    body["spec"]["template"]["metadata"]["labels"]["app"] = selector
    body["spec"]["template"]["spec"]["containers"] = [container]
    body["metadata"]["annotations"] = _ALWAYS
    return body


def _secret(values: Mapping[str, str]) -> Body:
    return of_kind("Secret", "s", stringData=values)


def _role(verbs: list[str]) -> Body:
    return of_kind("Role", "r", rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}])


def _fixed(value: str) -> Body:
    return {**config_map("fixed", value, annotations=_ALWAYS), "immutable": True}


VALUES = st.sampled_from(["one", "two", ""])
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "a": VALUES.map(lambda value: config_map("a", value)),
        "b": VALUES.map(lambda value: config_map("b", value)),
        "fixed": VALUES.map(_fixed),
        "s": st.dictionaries(st.sampled_from("kl"), VALUES, min_size=1).map(_secret),
        "svc": st.builds(_service, st.sampled_from([80, 81]), st.sampled_from(["", "headless"])),
        "web": st.builds(
            _deployment,
            st.sampled_from(["web:1", "web:2"]),
            st.sampled_from([None, 0, 1]),
            st.sampled_from(["", "100m", "0.1", "1"]),
            st.sampled_from(["web", "other"]),
        ),
        "r": st.sampled_from([["get"], ["get", "list"], ["list", "get"]]).map(_role),
    },
)
OUTSIDE = st.lists(
    st.tuples(st.sampled_from(["label", "data", "delete"]), st.sampled_from(["a", "b", "web"])),
    max_size=2,
)
"""What others do between two runs."""
_OLD = {"a": config_map("a"), "b": config_map("b"), "r": _role(["get"]), "fixed": _fixed("one")}
_NEW = {"a": config_map("a"), "s": _secret({"k": ""}), "r": _role(["list"]), "fixed": _fixed("two")}


def _kind(name: str) -> str:
    return "Deployment" if name == "web" else "ConfigMap"


def _interfere(api: Api, stage: Stage, what: str, name: str) -> None:
    path = f"{_PATHS[_kind(name)].format(stage.namespace)}/{name}"
    if what == "delete":
        api("DELETE", path)
        return
    patch: Body = {"metadata": {"labels": {"by": "hand"}}}
    if what == "data":
        patch = {"spec": {"replicas": 3}} if name == "web" else {"data": {"key": "theirs"}}
    path += f"?fieldManager={ALICE}"
    api("PATCH", path, patch, content_type="application/merge-patch+json")


def _comparable(body: Mapping[str, Any]) -> Body:
    """Return a state without what the server chooses, and what controllers add soon after."""
    one: Body = {key: value for key, value in without_bookkeeping(body).items() if key != "data"}
    if body["kind"] != "Secret":
        one["data"] = body.get("data")
    notes = dict(one["metadata"].get("annotations") or {})
    notes.pop("deployment.kubernetes.io/revision", None)
    one["metadata"] = {**one["metadata"], "annotations": notes}
    if body["kind"] == "Service":
        one["spec"] = {
            key: value
            for key, value in one["spec"].items()
            if key not in {"clusterIP", "clusterIPs"}
        }
    return one


@pytest.mark.parametrize("examples", [8, pytest.param(500, marks=pytest.mark.sweep)])
def test_apply_does_what_its_plan_says(stage: Stage, api: Api, examples: int) -> None:
    """Of generated changes: an old and a new input, and what others do in between.

    Slow: each example is three runs.
    """
    compared: list[frozenset[Fate]] = []

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(old=OBJECTS, new=OBJECTS, outside=OUTSIDE, adopts=st.booleans())
    # However few are generated, every fate is among these.
    @example(old=_OLD, new=_NEW, outside=[], adopts=False)
    @example(old={"a": _OLD["a"]}, new={"a": _OLD["a"]}, outside=[], adopts=True)
    def agrees(
        old: dict[str, Body], new: dict[str, Body], outside: list[tuple[str, str]], *, adopts: bool
    ) -> None:
        first = replace(stage, name=f"old-{next(_NUMBERS)}")
        options: dict[str, Any] = {
            "allow_empty": True,
            "max_prune": Stage.most(100),
            "recreate": True,
            "wait": False,
        }
        first.run(*old.values(), **options)
        for what, name in outside:
            _interfere(api, stage, what, name)
        then = first
        if adopts and old:
            first.orphan()
            then = replace(stage, name=f"new-{next(_NUMBERS)}")
        try:
            compared.append(_compare(api, then, list(new.values()), options))
        finally:
            for path in _PATHS.values():
                api("DELETE", f"{path.format(stage.namespace)}")

    agrees()
    assert len(compared) == examples + 2
    whole = [fates for fates in compared if Fate.REFUSE not in fates]
    assert len(whole) > len(compared) / 2
    assert frozenset[Fate]().union(*whole) >= _SEEN


def _compare(
    api: Api, stage: Stage, bodies: list[Body], options: dict[str, Any]
) -> frozenset[Fate]:
    """Compare a plan with the apply that follows, whole unless it refuses; return its fates."""
    planned = stage.run(*bodies, dry_run=DryRun.SERVER, diff=True, **options)
    plan = planned.plan
    # Some faults only the server knows: an apply that does not ask it stops at those it sees.
    done = stage.run(*bodies, check=bool(plan.faults), **options)
    steps: tuple[ApplyStep | RemoveStep, ...] = (*plan.applies, *plan.removals)
    fates = frozenset(step.fate for step in steps)
    if plan.faults:
        failed = {step.desired.ref.short for step in plan.faults}
        assert failed == {ref for ref, one in done.outcomes.items() if one is Outcome.FAILED}
        assert done.exit_code == planned.exit_code
        return fates | {Fate.REFUSE}
    expected = {step.desired.ref.short: apply_forecast(step).outcome for step in plan.applies}
    removals = (removal_forecast(step, options_of()) for step in plan.removals)
    expected |= {one.ref.short: one.outcome for one in removals}
    assert done.outcomes == expected
    diffs = {one.ref: one for one in planned.of(ObjectDiff)}
    for ref, diff in diffs.items():
        if diff.after is None or diff.fate is Fate.PRUNE:
            continue
        path = f"{_PATHS[ref.kind].format(stage.namespace)}/{ref.name}"
        assert _comparable(diff.after) == _comparable(api.get(path)), ref
    return fates
