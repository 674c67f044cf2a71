"""What is shown of a problem when the source is a Secret: no text that may quote a value."""

from __future__ import annotations

import pytest

from applyprune.controller.result import error_message, problem_message, shown_field, shown_parts
from applyprune.model.problem import (
    ContestedField,
    ManagerConflict,
    Mark,
    Origin,
    Problem,
    ProblemKind,
)

HIDDEN = "details are not shown, because the source is a Secret"
VALUE = "hunter2"
WHERE = Origin("secret/src[one]", 1, 3)
WHOLE = {
    ProblemKind.ACCOUNT_MISSING,
    ProblemKind.EMPTY_INPUT,
    ProblemKind.INTERRUPTED,
    ProblemKind.INVALID_SPEC,
    ProblemKind.INVENTORY_LOCKED,
    ProblemKind.OWNED_BY_BUNDLE,
    ProblemKind.SOURCE_MISSING,
    ProblemKind.UNREACHABLE,
    ProblemKind.FETCH_FAILED,
    ProblemKind.AUTHENTICATION_FAILED,
    ProblemKind.VERIFICATION_FAILED,
    ProblemKind.PATH_NOT_FOUND,
    ProblemKind.SOURCE_TOO_LARGE,
    ProblemKind.DECRYPTION_FAILED,
}
"""None of these is about an object."""
OURS = {
    ProblemKind.ACCESS_ERROR,
    ProblemKind.INVENTORY_ERROR,
    ProblemKind.INVENTORY_INCOMPLETE,
    ProblemKind.INVENTORY_TOO_NEW,
    ProblemKind.NOT_APPROVED,
    ProblemKind.NOT_READY,
    ProblemKind.PRUNE_REFUSED,
}
"""Their message, but not their reason, is made of names and counts."""


@pytest.mark.holds("secret-source", row="Error")
@pytest.mark.parametrize("kind", ProblemKind)
def test_problem_shows_no_value(kind: ProblemKind) -> None:
    """Neither in its place, message, reason, hint, excerpt, field nor note; a new kind included."""
    value = "" if kind in WHOLE else VALUE
    problem = Problem(
        kind,
        f"ConfigMap shop/a: {'' if kind in OURS else value}",
        location=f"file-{value}",
        reason=f"for {value}",
        lasting_reason=f"for {value}",
        hint=VALUE,
        excerpt=VALUE,
        origin=WHERE,
        field=("data", "key"),
        marks=(Mark(("data", "key"), VALUE), Mark(("data", "more"), VALUE)),
    )
    shown = problem_message(problem, secret=True)
    assert VALUE not in shown
    assert (HIDDEN in shown) is (kind not in WHOLE)
    assert kind in WHOLE or shown.startswith("secret/src[one]:3: ")
    assert value in problem_message(problem)
    assert VALUE not in error_message([problem, problem], secret=True)


TEXTS = {
    'ConfigMap shop/a: configmaps "a" is forbidden: User "u" cannot patch resource "configmaps" in '
    'API group "" in the namespace "shop"': 'configmaps "a" is forbidden: User "u" cannot patch '
    'resource "configmaps" in API group "" in the namespace "shop"',
    'ConfigMap shop/a: configmaps "a" is forbidden: exceeded quota: q, requested: pods=1, '
    "used: pods=1, limited: pods=1": 'configmaps "a" is forbidden: exceeded quota: q, '
    "requested: pods=1, used: pods=1, limited: pods=1",
    f'ConfigMap shop/a: admission webhook "x.example.com" denied the request: {VALUE}': (
        'admission webhook "x.example.com" denied the request'
    ),
    'namespaces "shop" not found': 'namespaces "shop" not found',
    f'ConfigMap "a" is invalid: data[{VALUE}]: Invalid value: "{VALUE}": no': (
        f"the API server refuses it (Invalid); {HIDDEN}"
    ),
    f"ConfigMap shop/a: {VALUE}": f"the API server refuses it (Invalid); {HIDDEN}",
}


@pytest.mark.parametrize("text", TEXTS)
def test_server_text_is_shown_as_for_a_secret(text: str) -> None:
    """Only what is known to hold no value."""
    assert shown_parts(Problem(ProblemKind.INVALID, text)) == ("", TEXTS[text])


def test_conflict_is_shown_without_values() -> None:
    """The fields and their managers help as much."""
    names = ("spec.replicas", f"data.{VALUE}", "spec.paused", "spec.suspend", "data.more")
    fields = tuple(ContestedField(f".{name}", None, VALUE, VALUE) for name in names)
    found = (
        ManagerConflict("kubectl-edit", "Update", "", "2026", fields),
        ManagerConflict("kube-controller-manager", "Update", "scale", "2026", fields[:1]),
        ManagerConflict("another manager", "", "", "", fields[1:2]),
    )
    problem = Problem(
        ProblemKind.CONFLICT, f"{VALUE} was not applied", reason=VALUE, conflicts=found
    )
    assert problem_message(problem, secret=True) == (
        "another field manager owns some of its fields: "
        "kubectl-edit (Update) owns .spec.replicas, .data, .spec.paused and 1 more; "
        "kube-controller-manager (Update of scale) owns .spec.replicas; "
        "another manager owns .data"
    )


PATHS: dict[tuple[str | int, ...], str] = {
    ("spec", "containers", 0, "image"): " at spec.containers[0].image",
    ("metadata", "labels", VALUE): " at metadata.labels",
    ("data", "password"): " at data",
    ("spec", f"{VALUE}", "x"): " at spec",
    (VALUE,): "",
    (): "",
}


@pytest.mark.parametrize("path", PATHS)
def test_path_is_shown_as_far_as_it_is_of_the_schema(path: tuple[str | int, ...]) -> None:
    """A key of a map may be confidential, and a value with a wrong indent becomes a key."""
    problem = Problem(ProblemKind.INVALID, VALUE, field=path)
    shown = shown_parts(problem)[1]
    assert shown == f"the API server refuses it (Invalid){PATHS[path]}; {HIDDEN}"


SHOWN = {
    "": "",
    "/data/key": "/data",
    ".data.key": ".data",
    "/spec/replicas": "/spec/replicas",
    ".spec.template.spec.containers[0].image": ".spec.template.spec.containers",
    f"/spec/containers[name={VALUE}]/image": "/spec/containers",
    f"/metadata/annotations/{VALUE}.io~1a.b": "/metadata/annotations",
    f"/spec/{VALUE}/x": "/spec",
    f"/{VALUE}": "/",
}


@pytest.mark.parametrize("path", SHOWN)
def test_field_is_shown_as_far_as_it_is_of_the_schema(path: str) -> None:
    """The pointer of a drifted field as the path of a rewritten one."""
    assert shown_field(path) == SHOWN[path]
