"""What of a live object counts as its state, and what of a plan as its deletions."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

import applyprune
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.plan import ApplyStep, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.digests import is_read, planned_object, state_mark
from applyprune.planning.normalize import manifest_digest
from applyprune.values import replace
from tests.support.planning import DEPLOYMENTS, SECRETS, body, desired, live, managed, recorded

WEB = desired(body("Deployment", "web"), DEPLOYMENTS)
STATUS = managed(
    "kube-controller-manager", "f:status", operation="Update", subresource="status", time="t1"
)
SCALE = managed("hpa", "f:replicas", operation="Update", subresource="scale")
FACTS: dict[str, Any] = {"generation": 3, "annotations": {"a": "1"}, "entries": [managed(), STATUS]}
BEFORE = live(WEB.ref, **FACTS)


@pytest.mark.parametrize(
    "change",
    [
        {"annotations": {"a": "2"}},
        {"finalizers": ["x.io/wait"]},
        {"ownerReferences": [{"uid": "u9"}]},
        {"deletionTimestamp": "2026-11-21T10:00:00Z"},
        {"entries": [managed(), managed("kubectl", operation="Update"), STATUS]},
        {"entries": [managed(time="2026-11-21T10:00:01Z"), STATUS]},
        {"entries": [managed(fields="g"), STATUS, SCALE]},
    ],
    ids=str,
)
def test_state_mark_changes_with_spec_and_metadata(change: dict[str, Any]) -> None:
    """Whoever changes them, also as the same field manager."""
    assert state_mark(live(WEB.ref, **{**FACTS, **change})) != state_mark(BEFORE)


def test_state_mark_ignores_the_status() -> None:
    """Neither its time, nor an annotation that its writer owns there, nor the version."""
    fields: dict[str, Any] = {"f:status": {}, "f:metadata": {"f:annotations": {"f:revision": {}}}}
    later = {**STATUS, "time": "t2", "fieldsV1": fields}
    annotations = {"a": "1", "revision": "2"}
    after = {**FACTS, "version": "6", "annotations": annotations, "entries": [managed(), later]}
    assert state_mark(live(WEB.ref, **after)) == state_mark(BEFORE)


def test_state_mark_ignores_an_autoscaler() -> None:
    """It moves the generation; if it takes a field of ours, our own entry shows that."""
    after = {**FACTS, "generation": 4, "version": "6", "entries": [managed(), STATUS, SCALE]}
    assert state_mark(live(WEB.ref, **after)) == state_mark(BEFORE)


def test_state_mark_has_the_version_where_nothing_else_tells() -> None:
    """Every write of a ConfigMap or a Secret counts; after a restore, versions come again."""
    told: list[tuple[Ref, dict[str, Any]]] = [
        (desired().ref, {}),
        (desired(body("Secret", "s"), SECRETS).ref, {}),
        (WEB.ref, {"generation": 3, "entries": []}),
    ]
    for ref, facts in told:
        before = state_mark(live(ref, version="7", **facts))
        assert state_mark(live(ref, version="7", **facts)) == before
        assert state_mark(live(ref, version="8", **facts)) != before
        assert state_mark(live(ref, version="7", **facts, annotations={"a": "1"})) != before
    for ref, _ in told[:2]:
        first, again = (
            state_mark(live(ref, version="7", entries=[managed(time=time)]))
            for time in ("2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z")
        )
        assert first != again


NOTED = desired(body("Deployment", "web", metadata={"annotations": {"mine": "1"}}), DEPLOYMENTS)


def noted(
    keys: dict[str, str], *, operation: str = "Update", also: dict[str, Any] | None = None
) -> ApplyStep:
    """Return a change of an object with these annotations, which a stranger has written."""
    fields = {"f:metadata": {"f:annotations": {f"f:{key}": {} for key in keys}}, **(also or {})}
    stranger = {**managed("kubectl", operation=operation), "fieldsV1": fields}
    there = live(WEB.ref, generation=3, annotations=keys, entries=[managed(), stranger])
    return ApplyStep(NOTED, Fate.CHANGE, recorded(NOTED, there), there)


BARE = live(WEB.ref, generation=3, annotations={}, entries=[managed()])
UNNOTED = ApplyStep(NOTED, Fate.CHANGE, recorded(NOTED, BARE), BARE)
STRANGE = noted({"foo": "1", "x.io/y": "2"})


@pytest.mark.parametrize(
    ("step", "is_same"),
    [
        (STRANGE, True),
        (noted({"foo": "2"}), True),
        (noted({"mine": "2"}), False),
        pytest.param(
            noted({"applyprune.dev/apply": "disabled"}),
            False,
            marks=pytest.mark.holds("annotation-that-is-read"),
        ),
        (noted({"kapp.k14s.io/noop": ""}), False),
        (noted({"foo": "1"}, operation="Apply"), False),
        # The time of its entry may be that of the other field.
        (noted({"foo": "1"}, also={"f:spec": {"f:paused": {}}}), False),
        pytest.param(
            replace(STRANGE, fate=Fate.RECREATE),
            False,
            marks=pytest.mark.holds("annotation-that-is-lost"),
        ),
        (replace(STRANGE, fate=Fate.ADOPT), False),
        (replace(STRANGE, takes_over=True), False),
        (replace(STRANGE, taken_from=("kubectl",)), False),
    ],
)
def test_strange_annotation_does_not_void_what_leaves_it_alone(
    step: ApplyStep, is_same: bool
) -> None:
    """It is in no manifest, no run reads it, and nothing of the plan removes it."""
    assert (planned_object(step).state == planned_object(UNNOTED).state) is is_same


def test_strange_annotation_of_what_leaves_the_set_counts() -> None:
    """Its deletion would lose it."""
    noted_by = STRANGE.live
    assert noted_by is not None
    before, after = (
        RemoveStep(recorded(WEB, one), DEPLOYMENTS, Fate.PRUNE, one) for one in (BARE, noted_by)
    )
    assert planned_object(before).state != planned_object(after).state


_KEY = re.compile(r"(?:[a-z0-9-]+\.)+[a-z]{2,}/[A-Za-z][\w.-]*")


def test_annotation_that_the_program_names_is_never_strange() -> None:
    named = {
        node.value
        for path in sorted(Path(applyprune.__file__).parent.glob("[mpe]*/*.py"))
        if path.stem != "import_content"  # no run reads what it reads
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if _KEY.fullmatch(node.value)
    }
    assert len(named) > 50
    assert {key for key in named if not is_read(key)} == set()


def test_secret_is_bound_by_its_keys() -> None:
    """Two values of one key give the same digest; another key does not."""

    def digest(**data: str) -> str:
        return manifest_digest({"apiVersion": "v1", "kind": "Secret", "data": data})

    assert digest(password="b25l") == digest(password="dHdv") != digest(other="b25l")


def test_refused_deletion_counts_as_deletion() -> None:
    """An approval may allow it, and then the plan must be the same."""
    entry = recorded(WEB, BEFORE)
    step = RemoveStep(entry, DEPLOYMENTS, Fate.PRUNE, BEFORE)
    guarded = Problem(ProblemKind.PRUNE_REFUSED, "no")
    refused = replace(step, fate=Fate.REFUSE, problem=guarded)
    assert planned_object(refused) == planned_object(step)
    unread = replace(step, fate=Fate.REFUSE, problem=replace(guarded, kind=ProblemKind.FORBIDDEN))
    assert planned_object(unread).fate is Fate.REFUSE
