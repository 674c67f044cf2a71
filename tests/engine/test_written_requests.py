"""What each kind of step writes: method, path, query and body, as golden files.

``pytest --snapshot-update`` writes them; look at the difference before you commit it. Writes of one
object stand in their order, and the objects in the order of their paths: threads send them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, Conflicts, Mode
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.golden import FIXTURES
from tests.support.objects import config_map, of_kind
from tests.support.renewals import without_renewals
from tests.support.stage import Stage

Step = Callable[[Stage, Api], object]

KUBECTL = "kubectl-client-side-apply"


def apply(*bodies: dict[str, Any], **options: Any) -> Step:
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


def _other(stage: Stage) -> Stage:
    return replace(stage, name="other")


def _cron_job(volume: dict[str, Any]) -> dict[str, Any]:
    """Return an object with a volume; no controller writes one that is suspended."""
    container = {"name": "c", "image": "web:1"}
    pod = {"containers": [container], "restartPolicy": "Never", "volumes": [volume]}
    return of_kind(
        "CronJob",
        "a",
        spec={
            "schedule": "0 0 1 1 *",
            "suspend": True,
            "jobTemplate": {"spec": {"template": {"spec": pod}}},
        },
    )


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
        lambda stage, _: _other(stage).run(A),
        apply(NEW, adopt=Adopt.ALL, **FORCE),
    ),
    "force": (apply(A), edit({"data": {"key": "x"}}), apply(NEW, **FORCE)),
    "revert": (apply(A), edit({"data": {"key": "x"}}), apply(A, conflicts=Conflicts.REVERT)),
    "take-over": (make(A, "ci"), apply(A), apply(NEW, take_over=frozenset({"ci"}))),
    "leave-a-field-to-others": (apply(A), apply(IGNORING)),
    "set-a-field-again": (apply(A), apply(IGNORING), apply(NEW)),
    "remove-a-label": (
        apply(A),
        edit({"metadata": {"labels": {"team": "x"}}}),
        apply(config_map("a", labels={"team": None}), **FORCE),
    ),
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
    "move": (apply(A, B), lambda stage, _: stage.move(_other(stage))),
    "own": (make(A), apply(A), lambda stage, _: stage.own("configmap/a")),
    "repair": (apply(A), FORGET, lambda stage, _: stage.repair(ownership=Ownership.OWNED)),
}
"""Steps of a set; the writes of the last one are those of the golden file."""
_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CHANGING = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"resourceVersion=\d+"), "resourceVersion=VERSION"),
    (re.compile(r"\ba-[0-9a-f]{8}\b"), "a-TRIAL"),
)


def _written(exchanges: Sequence[Exchange], stage: Stage) -> str:
    """Return the writes of a run, without what differs between two runs."""
    numbers, uids = count(1), dict[str, str]()

    def named(text: str) -> str:
        text = text.replace(stage.namespace, "home")
        for set_ in (stage, _other(stage)):
            text = text.replace(set_.target.id, f"ID-OF-{set_.name}")
        for uid in _UID.findall(text):
            uids.setdefault(uid, f"UID-{next(numbers)}")
            text = text.replace(uid, uids[uid])
        for pattern, word in _CHANGING:
            text = pattern.sub(word, text)
        return text

    def lines(one: Exchange) -> Iterator[str]:
        yield f"{one.method} {named(one.target)}"
        if "/configmaps/applyprune-" in one.target or b'"name":"applyprune-' in one.body:
            yield "  (an inventory)"
        elif one.body:
            body = _without_versions(json.loads(one.body))
            yield from (f"  {line}" for line in named(json.dumps(body, indent=1)).splitlines())

    sent = [one for one in without_renewals(exchanges) if one.method != "GET"]
    ordered = sorted(sent, key=lambda one: (one.path, one.number))
    return "".join(f"{line}\n" for one in ordered for line in lines(one))


def _without_versions(body: Any) -> Any:
    """Return a body whose resourceVersions say only that there is one."""
    if isinstance(body, list):
        return [_without_versions(one) for one in body]
    if not isinstance(body, dict):
        return body
    found = {key: _without_versions(value) for key, value in sorted(body.items())}
    if found.get("path") == "/metadata/resourceVersion":
        found["value"] = "VERSION"
    return {key: "VERSION" if key == "resourceVersion" else value for key, value in found.items()}


@pytest.mark.parametrize("name", SCENARIOS)
def test_written_requests_match_their_golden_file(
    spoiled: Stage, api: Api, proxy: FaultProxy, golden: SnapshotAssertion, name: str
) -> None:
    """A step writes exactly this."""
    *before, last = SCENARIOS[name]
    for step in before:
        step(spoiled, api)
    start = len(proxy.exchanges)
    last(spoiled, api)
    written = _written(proxy.exchanges[start:], spoiled)
    assert written
    assert written == golden(name=f"requests/{name}.txt")


def test_no_golden_file_is_left_over() -> None:
    """A golden file that no test writes would never change."""
    assert {path.stem for path in (FIXTURES / "requests").iterdir()} == set(SCENARIOS)
