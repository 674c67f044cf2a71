"""Deletions that do not finish: the finalizer's owner is named, and no finalizer is removed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from applyprune.engine.ports import Cancellation
from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.options import Mode
from tests.support.api import Api
from tests.support.clocks import AGES
from tests.support.objects import DEPLOYMENT, config_map, crd, crd_name, custom_resource, of_kind
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually
from tests.support.workloads import out_of_time

HOLD = "example.com/hold"


def _finalize(api: Api, path: str, *finalizers: str, manager: str) -> None:
    """Set an object's finalizers as a controller does; an object that is gone has none."""
    status, reply = api(
        "PATCH",
        f"{path}?fieldManager={manager}",
        {"metadata": {"finalizers": list(finalizers)}},
        content_type="application/merge-patch+json",
    )
    assert status == 200 or (status == 404 and not finalizers), reply


def _controller(name: str) -> dict[str, Any]:
    body = copy.deepcopy(DEPLOYMENT)
    body["metadata"]["name"] = name
    return body


def _why(story: Story, name: str) -> Sequence[str]:
    """Return the clauses of a diagnosis."""
    (done,) = (one for one in story.of(ObjectDone) if one.ref.short == name)
    assert done.problem is not None
    assert done.problem.message.endswith("is deleted but not gone yet")
    return done.problem.reason.split("; ")


@pytest.fixture
def hold(stage: Stage, api: Api) -> Iterator[Callable[[str, str], None]]:
    """Adds a finalizer to a ConfigMap as a controller; removes it in the end."""
    paths = []

    def put_on(name: str, manager: str) -> None:
        paths.append(stage.path(name))
        _finalize(api, paths[-1], HOLD, manager=manager)

    yield put_on
    for path in paths:
        _finalize(api, path, manager="test")


def test_finalizer_is_attributed_to_who_has_set_it(
    stage: Stage, api: Api, hold: Callable[[str, str], None]
) -> None:
    """The object stays listed until it is really gone."""
    stage.run(config_map("a"), config_map("held"))
    hold("held", "holder")
    out_of_time(stage, "held by")
    story = stage.run(config_map("a"), timeout=3600.0)
    assert (story.exit_code, story.outcomes["configmap/held"]) == (5, Outcome.FAILED)
    assert _why(story, "configmap/held") == [f"finalizer {HOLD}, set by holder"]
    assert api.get(stage.path("held"))["metadata"]["finalizers"] == [HOLD]
    assert "configmap/held" in stage.listed()
    _finalize(api, stage.path("held"), manager="holder")
    story = stage.run(config_map("a"))
    assert (story.exit_code, stage.listed()) == (0, {"configmap/a"})


def _outcomes(story: Story, *names: str) -> list[Outcome]:
    return [story.outcomes[name] for name in names]


def test_later_turns_wait_for_an_object_that_is_not_gone(
    stage: Stage, hold: Callable[[str, str], None], api: Api
) -> None:
    """Within its turn, only what it needs; the next run continues."""

    def of_wave(name: str, wave: int) -> dict[str, Any]:
        return config_map(name, annotations={"applyprune.dev/wave": str(wave)})

    bodies = (of_wave("held", 1), of_wave("beside", 1), of_wave("below", 0), of_wave("above", 2))
    stage.run(*bodies)
    hold("held", "holder")
    out_of_time(stage, "held by")
    story = stage.run(mode=Mode.DELETE, timeout=3600.0)
    assert story.exit_code == 5
    assert story.outcomes == {
        "configmap/above": Outcome.DELETED,
        "configmap/held": Outcome.FAILED,
        "configmap/beside": Outcome.DELETED,
        "configmap/below": Outcome.SKIPPED,
    }
    assert "configmap/held is deleted first, and is not gone" in story.problem("configmap/below")
    assert stage.listed() == {"configmap/held", "configmap/below"}
    _finalize(api, stage.path("held"), manager="holder")
    stage.stop, stage.seen = Cancellation(), lambda _: None
    assert stage.run(mode=Mode.DELETE, timeout=AGES).exit_code == 0
    assert not stage.inventory().exists


def test_custom_resource_holds_its_crd_and_what_may_be_its_controller(
    crds: Api, crd_stage: Stage
) -> None:
    """Nobody could remove its finalizer any more."""
    name = crd_name("Kept")
    account = of_kind("ServiceAccount", "operator")
    stuck = custom_resource("stuck", "Kept")
    operator = _controller("operator")
    operator["spec"]["replicas"] = 0
    bodies = [crd("Kept"), stuck, operator, account]
    assert crd_stage.run(*bodies, wait=False).exit_code == 0
    path = f"/apis/x.example.com/v1/namespaces/{crd_stage.namespace}/kepts/stuck"
    _finalize(crds, path, HOLD, manager="operator")
    story = crd_stage.run(mode=Mode.DELETE, timeout=1.0)
    assert story.exit_code == 5
    kept = (name, "deployment.apps/operator", "serviceaccount/operator")
    assert _outcomes(story, *kept) == [Outcome.SKIPPED] * 3
    assert "its controller may need it" in story.problem("deployment.apps/operator")
    _finalize(crds, path, manager="operator")
    assert crd_stage.run(mode=Mode.DELETE, timeout=AGES).exit_code == 0


def test_namespace_names_what_blocks_it(crds: Api, crd_stage: Stage) -> None:
    """Somebody else's ConfigMap in it waits for its controller; nothing in it is touched.

    The namespace controller looks again after some seconds only.
    """
    shop = f"{crd_stage.namespace}-shop"
    path = f"/api/v1/namespaces/{shop}/configmaps/theirs"
    home: dict[str, Any] = of_kind("Namespace", shop)
    crd_stage.run(home)
    crds.create(path.rpartition("/")[0], config_map("theirs"))
    _finalize(crds, path, HOLD, manager="holder")
    cascade = frozenset({f"namespace/{shop}"})
    crd_stage.run(mode=Mode.DELETE, timeout=1.0, allow_cascade=cascade)

    def is_held() -> bool:
        conditions = crds.get(f"/api/v1/namespaces/{shop}")["status"].get("conditions", ())
        return any(
            one["type"] == "NamespaceFinalizersRemaining" and one["status"] == "True"
            for one in conditions
        )

    eventually(is_held, lambda: "the condition")
    story = crd_stage.run(mode=Mode.DELETE, timeout=1.0, allow_cascade=cascade)
    assert (story.exit_code, story.outcomes) == (5, {f"namespace/{shop}": Outcome.FAILED})
    assert _why(story, f"namespace/{shop}") == [
        "finalizer kubernetes: the namespace controller removes it once nothing is left",
        "Some resources are remaining: configmaps. has 1 resource instances",
        f"Some content in the namespace has finalizers remaining: {HOLD} in 1 resource instances",
        f"it still contains configmap/theirs (finalizer {HOLD})",
        f"finalizer {HOLD}, set by holder",
    ]
    assert crds.get(path)["metadata"]["finalizers"] == [HOLD]
    assert crd_stage.listed() == {f"namespace/{shop}"}

    _finalize(crds, path, manager="holder")
    story = crd_stage.run(mode=Mode.DELETE, timeout=AGES, allow_cascade=cascade)
    assert (story.exit_code, crd_stage.inventory().exists) == (0, False)


def test_crd_names_the_custom_resource_that_blocks_it(crds: Api, crd_stage: Stage) -> None:
    """The API server waits for it, and it for its controller."""
    blocked = crd_name("Blocked")
    crd_stage.run(crd("Blocked"))
    path = "/apis/x.example.com/v1/namespaces/kube-public/blockeds/f"
    eventually(lambda: crds.exists(path.rpartition("/")[0]), lambda: "the kind is served")
    crds.create(path.rpartition("/")[0], custom_resource("f", "Blocked"))
    _finalize(crds, path, HOLD, manager="foo-operator")
    story = crd_stage.run(mode=Mode.DELETE, timeout=2.0, allow_cascade=frozenset({blocked}))
    assert (story.exit_code, story.outcomes) == (5, {blocked: Outcome.FAILED})
    first, *others = _why(story, blocked)
    assert first.startswith(
        "finalizer customresourcecleanup.apiextensions.k8s.io: the API server removes it once "
    )
    assert others == [
        f"it still contains blocked.x.example.com/f in namespace kube-public (finalizer {HOLD})",
        f"finalizer {HOLD}, set by foo-operator",
    ]
    assert crds.get(path)["metadata"]["finalizers"] == [HOLD]
    _finalize(crds, path, manager="foo-operator")
