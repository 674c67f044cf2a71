"""Steps of a set: each way in which a run writes, as small as it can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, AdoptFrom, Conflicts, Mode
from applyprune.values import replace
from tests.support.api import Api
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage

Step = Callable[[Stage, Api], object]

KUBECTL = "kubectl-client-side-apply"


def apply(*bodies: dict[str, Any], **options: Any) -> Step:
    """Return the step in which the set is applied."""
    return lambda stage, _: stage.run(*bodies, **options)


def make(body: dict[str, Any], manager: str = KUBECTL) -> Step:
    """Return the step in which somebody else creates an object."""

    def step(stage: Stage, api: Api) -> None:
        api.create(stage.path(""), body, by=manager)

    return step


def edit(patch: dict[str, Any]) -> Step:
    """Return the step in which somebody else changes an object."""

    def step(stage: Stage, api: Api) -> None:
        api.patch(stage.path("a"), patch, by="theirs")

    return step


def other_set(stage: Stage) -> Stage:
    """Return another set of the namespace."""
    return replace(stage, name="other")


def _cron_job(volume: dict[str, Any] | None = None, names: str = "c") -> dict[str, Any]:
    """Return an object with a volume or several containers; suspended, so nobody writes it."""
    containers = [{"name": name, "image": "web:1"} for name in names]
    pod = {"containers": containers, "restartPolicy": "Never"}
    if volume is not None:
        pod["volumes"] = [volume]
    return of_kind(
        "CronJob",
        "a",
        spec={
            "schedule": "0 0 1 1 *",
            "suspend": True,
            "jobTemplate": {"spec": {"template": {"spec": pod}}},
        },
    )


def _limit_second(stage: Stage, api: Api) -> None:
    """Let another manager apply a field in the second container."""
    limited = {"name": "d", "resources": {"limits": {"cpu": "1"}}}
    pod = {"spec": {"containers": [limited]}}
    body = of_kind("CronJob", "a", spec={"jobTemplate": {"spec": {"template": pod}}})
    path = stage.path("a", "cronjobs", "/apis/batch/v1")
    kind = "application/apply-patch+yaml"
    assert api("PATCH", f"{path}?fieldManager=theirs", body, content_type=kind)[0] == 200


A, B, NEW = config_map("a"), config_map("b"), config_map("a", "new")
IGNORING = config_map("a", annotations={"applyprune.dev/ignore-fields": "/data/key"})
KEPT = config_map("a", annotations={"applyprune.dev/prune": "disabled"})
LAST_APPLIED = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
DECLARED = {**config_map("a", annotations=LAST_APPLIED), "data": {"key": "v", "more": "x"}}
FORGET = edit({"metadata": {"managedFields": [{}]}})
FORCE, ONE = {"conflicts": Conflicts.FORCE}, {"max_prune": Stage.most(1)}
SCENARIOS: dict[str, tuple[Step, ...]] = {
    "create": (apply(A, B),),
    "change": (apply(A), apply(NEW)),
    "change-with-check": (apply(A), apply(NEW, check=True)),
    "adopt": (make(A), apply(NEW)),
    "adopt-declared": (make(DECLARED), apply(NEW)),
    "adopt-from-another-set": (
        lambda stage, _: other_set(stage).run(A),
        apply(NEW, adopt=Adopt.ALL, **FORCE),
    ),
    "adopt-what-another-set-gives": (
        lambda stage, _: other_set(stage).run(A),
        apply(NEW, adopt=AdoptFrom("other")),
    ),
    "release-an-item": (
        apply(_cron_job(names="cd")),
        _limit_second,
        apply(_cron_job(), **FORCE),
    ),
    "force": (apply(A), edit({"data": {"key": "x"}}), apply(NEW, **FORCE)),
    "revert": (apply(A), edit({"data": {"key": "x"}}), apply(A, conflicts=Conflicts.REVERT)),
    "take-over": (make(A, "ci"), apply(A), apply(NEW, take_over=frozenset({"ci"}))),
    "leave-a-field-to-others": (apply(A), apply(IGNORING)),
    "set-a-field-again": (apply(A), apply(IGNORING), apply(NEW)),
    "replace-a-default": (
        apply(_cron_job({"name": "v"})),
        apply(_cron_job({"name": "v", "configMap": {"name": "b"}})),
    ),
    "recreate": (apply({**A, "immutable": True}), apply({**NEW, "immutable": True}, recreate=True)),
    "apply-without-managers": (apply(A), FORGET, apply(NEW, **FORCE)),
    "prune": (apply(A, B), apply(B, **ONE)),
    "orphan": (apply(KEPT, B), apply(B, **ONE)),
    "delete": (apply(A, B), apply(mode=Mode.DELETE)),
    "orphan-the-set": (apply(A), apply(mode=Mode.ORPHAN)),
    "own": (make(A), apply(A), lambda stage, _: stage.own("configmap/a")),
    "repair": (apply(A), FORGET, lambda stage, _: stage.repair(ownership=Ownership.OWNED)),
}
"""Steps of a set; the writes of the last one are those of the golden file."""
