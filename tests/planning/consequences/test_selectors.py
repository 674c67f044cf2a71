"""Services whose selector matches no Pod."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.live import LiveObject
from applyprune.planning.consequences import Change, LabelIndex
from tests.support.consequences import change, found, live, told

Body = dict[str, Any]

NONE = "no-pods: its selector app=web matches no Pod template of the set and no Pod in the cluster"


def _service(fate: Fate = Fate.CREATE, **spec: Any) -> Change:
    return change("Service", fate=fate, manifest={"spec": {"selector": {"app": "web"}, **spec}})


def _workload(labels: Body, image: str = "m:1", **more: Any) -> Body:
    containers = [{"name": "m", "image": image}]
    return {
        "spec": {
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            **more,
        }
    }


def _pod(name: str, *owners: str, **labels: str) -> LiveObject:
    return live("Pod", name, *owners, metadata={"labels": labels})


WEB = {"app": "web"}
CASES: dict[str, tuple[list[Change], list[LiveObject], list[str]]] = {
    "no Pods": ([_service()], [], [NONE]),
    "a Pod template of the set": (
        [
            _service(),
            change("Deployment", fate=Fate.CREATE, manifest=_workload({"app": "web", "b": "c"})),
        ],
        [],
        [],
    ),
    "a template with another label": (
        [_service(), change("Deployment", fate=Fate.CREATE, manifest=_workload({"app": "wob"}))],
        [],
        [NONE],
    ),
    "the template of a custom resource": (
        [_service(), change("Database", fate=Fate.CREATE, manifest=_workload(WEB))],
        [],
        [],
    ),
    "a Pod in the cluster": ([_service()], [_pod("p", app="web", b="c")], []),
    "a Pod with another label": ([_service()], [_pod("p", app="wob")], [NONE]),
    "a Pod in another namespace": (
        [_service()],
        [live("Pod", "p", namespace="away", metadata={"labels": WEB})],
        [NONE],
    ),
    "a Pod that is being deleted": (
        [_service()],
        [live("Pod", "p", metadata={"labels": WEB, "deletionTimestamp": "now"})],
        [NONE],
    ),
    "no selector": ([_service(selector=None)], [], []),
    "an empty selector": ([_service(selector={})], [], []),
    "a name outside": ([_service(type="ExternalName")], [], []),
    "a refused Service": ([_service(Fate.REFUSE)], [], []),
    "a Service that does not change": ([_service(Fate.LEAVE)], [], []),
    "its Deployment is pruned": (
        [_service(Fate.LEAVE), change("Deployment", "old", Fate.PRUNE)],
        [live("ReplicaSet", "rs", "old"), _pod("p", "rs", app="web")],
        [NONE],
    ),
    "one of its Deployments is pruned": (
        [_service(Fate.LEAVE), change("Deployment", "old", Fate.PRUNE)],
        [live("ReplicaSet", "rs", "old"), _pod("p", "rs", app="web"), _pod("q", app="web")],
        [],
    ),
    "another Deployment is pruned": (
        [
            _service(Fate.LEAVE),
            change("Deployment", "old", Fate.PRUNE, before=_workload({"app": "old"})),
        ],
        [],
        [],
    ),
    "its Deployment gets other labels": (
        [
            _service(Fate.LEAVE),
            change(
                "Deployment", before=_workload(WEB, replicas=0), after=_workload({"app": "new"})
            ),
        ],
        [live("ReplicaSet", "rs", "web"), _pod("p", "rs", app="web")],
        [NONE],
    ),
}


SWITCH = "no-pods: its new selector matches no ready Pod until {} ready"


def _switched(before: Body, after: Body, **more: Any) -> Change:
    return change(
        "Service",
        before={"spec": {"selector": before}},
        manifest={"spec": {"selector": after}},
        after={"spec": {"selector": after}},
        **more,
    )


def _green(name: str = "green", fate: Fate = Fate.CREATE, **labels: str) -> Change:
    return change("Deployment", name, fate, manifest=_workload({"app": "web", **labels}))


BLUE, GREEN = {"app": "web", "colour": "blue"}, {"app": "web", "colour": "green"}
SWITCHES: dict[str, tuple[list[Change], list[str]]] = {
    "to a new Deployment": (
        [_switched(BLUE, GREEN), _green(colour="green")],
        [SWITCH.format("deployment.apps/green is")],
    ),
    "to two new ones": (
        [_switched(BLUE, WEB), _green("one"), _green("two")],
        [SWITCH.format("deployment.apps/one, deployment.apps/two are")],
    ),
    "to an old one and a new one": (
        [_switched(BLUE, WEB), _green("one"), _green("two", Fate.LEAVE)], [],
    ),
    "to an old one": ([_switched(BLUE, GREEN), _green(fate=Fate.LEAVE, colour="green")], []),
    "of another field": ([_switched(GREEN, GREEN), _green(colour="green")], []),
    "to nothing of the set": ([_switched(BLUE, {"app": "theirs"}), _green()], []),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), SWITCHES.values(), ids=SWITCHES)
def test_switch_to_pods_that_do_not_exist_has_a_line(
    changes: list[Change], expected: list[str]
) -> None:
    """The Service is changed before the new workload is created."""
    caused = [each for each in found(*changes) if each.kind == "no-pods"]
    assert told(caused) == expected


@pytest.mark.parametrize(("changes", "read", "expected"), CASES.values(), ids=CASES)
def test_service_without_pods_is_found(
    changes: list[Change], read: list[LiveObject], expected: list[str]
) -> None:
    """Only Pods count that are there after the run."""
    caused = [each for each in found(*changes, read=read) if each.kind == "no-pods"]
    assert told(caused) == expected
    assert all(each.certain and each.count == 0 for each in caused)


def test_pods_that_cannot_be_listed_leave_a_doubt() -> None:
    """Without any list nothing is said."""
    assert found(_service()) == []
    (caused,) = found(_service(), read=[], failed={"Pod": "no right to list pods"})
    assert caused.message == (
        "its selector app=web matches no Pod template of the set; no right to list pods"
    )
    assert (caused.certain, caused.count) == (False, None)


@pytest.mark.parametrize("value", [["web"], {"a": "web"}, None, 3, True])
def test_label_that_is_not_a_text_selects_nothing(value: Any) -> None:
    """The server refuses it, with its field; until then it is no reason to fail."""
    labels: dict[str, Any] = {"app": "web", "tier": value}
    index = LabelIndex([("home", labels), ("home", {"app": value})])
    assert index.matches("home", {"app": "web"})
    assert not index.matches("home", {"app": "web", "tier": "web"})
