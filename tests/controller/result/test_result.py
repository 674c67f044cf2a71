"""The reason for an error that ended a run."""

from __future__ import annotations

import pytest

from applyprune.controller.reasons import Reason
from applyprune.controller.result import (
    FailedObject,
    RunResult,
    count_elsewhere,
    problem_message,
    reason_of,
)
from applyprune.errors import ApplypruneError, Forbidden, InputError, InputErrors, UsageError
from applyprune.model.identity import Ref
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.desired import KindNotServed
from applyprune.values import replace

KIND = KindNotServed("no matches for kind Foo")
FAULT = InputError("invalid manifest")
RIGHT = Forbidden("no", code=403)

ERRORS: dict[str, tuple[ApplypruneError, Reason]] = {
    "a kind": (KIND, Reason.KIND_NOT_FOUND),
    "two kinds": (InputErrors([KIND, KIND]), Reason.KIND_NOT_FOUND),
    "a kind, and a right": (InputErrors([KIND, RIGHT]), Reason.KIND_NOT_FOUND),
    "a kind, and a fault": (InputErrors([KIND, FAULT]), Reason.INVALID_SOURCE),
    "a fault": (FAULT, Reason.INVALID_SOURCE),
    "a right": (RIGHT, Reason.FORBIDDEN),
    "an option": (UsageError("wrong"), Reason.INVALID_SPEC),
}


@pytest.mark.parametrize("name", ERRORS)
def test_reason_tells_what_comes_by_itself_from_faults(name: str) -> None:
    """A kind that is missing is no fault of the source, unless the source has one too."""
    error, reason = ERRORS[name]
    assert reason_of(error) is reason


ELSEWHERE = {
    "in its namespace": (Ref("", "ConfigMap", "shop", "a"), "shop", 0),
    "in another namespace": (Ref("", "ConfigMap", "other", "a"), "shop", 1),
    "of the cluster": (Ref("rbac.authorization.k8s.io", "ClusterRole", "", "a"), "shop", 1),
    "its own namespace": (Ref("", "Namespace", "", "shop"), "shop", 0),
    "another namespace": (Ref("", "Namespace", "", "other"), "shop", 1),
    "in another cluster": (Ref("", "ConfigMap", "shop", "a"), "", 1),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_objects_that_outlive_a_namespace_are_counted(name: str) -> None:
    """Whatever the deletion of the Bundle's namespace does not delete."""
    ref, namespace, wanted = ELSEWHERE[name]
    assert count_elsewhere([ref], namespace) == wanted


def test_message_of_a_conflict_ends_with_what_resolves_it() -> None:
    """By a field of the Bundle, however long the message is; never with a text of a Secret."""
    remedy = "To overwrite it: spec.conflicts: force."
    conflict = Problem(ProblemKind.CONFLICT, "a was not applied", hint="--option", remedy=remedy)
    assert problem_message(conflict) == f"a was not applied. {remedy}"
    long = problem_message(replace(conflict, reason="x" * 1000))
    assert len(long) == 400
    assert long.endswith(f"x… {remedy}")
    assert remedy not in problem_message(conflict, secret=True)


def failed(*names: str) -> dict[Ref, FailedObject]:
    """Return what has failed of a run."""
    refs = [Ref("", "ConfigMap", "shop", name) for name in names]
    return {ref: FailedObject(ref, "no", ProblemKind.INVALID) for ref in refs}


SUMMARIES = {
    "one of one": (("a",), 1, "1 object failed: configmap/a"),
    "one of two": (("a",), 2, "1 of 2 objects failed: configmap/a"),
    "both": (("a", "b"), 2, "2 of 2 objects failed: configmap/a, configmap/b"),
    "one of nobody knows how many": (("a",), 0, "1 object failed: configmap/a"),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_summary_names_what_has_failed(name: str) -> None:
    names, size, wanted = SUMMARIES[name]
    assert RunResult(failing=failed(*names), set_size=size).summary == wanted
