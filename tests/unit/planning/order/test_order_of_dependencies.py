"""The order of a set: by wave, kind and dependency, whatever order it was read in."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from applyprune.errors import InputError, InputErrors, raise_all
from applyprune.model.plan import Desired
from applyprune.model.problem import Origin
from applyprune.planning.marks import WAVE
from applyprune.planning.order import DEPENDS_ON, in_order
from tests.support.planning import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    body,
    desired,
)

Place = dict[str, str]


def _one(kind: str, name: str, marks: Place | None = None, **parts: Any) -> Desired:
    resource = {
        "ConfigMap": CONFIG_MAPS,
        "ClusterRole": CLUSTER_ROLES,
        "Deployment": DEPLOYMENTS,
        "Namespace": NAMESPACES,
    }[kind]
    return desired(body(kind, name, metadata={"annotations": marks or {}}, **parts), resource)


def _ordered(*ones: Desired) -> list[str]:
    found, errors = in_order({one.ref: one for one in ones})
    raise_all(errors)
    return [one.ref.name for one in found]


def _after(*names: str) -> Place:
    return {DEPENDS_ON: ", ".join(f"/namespaces/home/ConfigMap/{name}" for name in names)}


def _pod(**spec: Any) -> dict[str, Any]:
    return {"template": {"spec": spec}}


CASES: dict[str, tuple[list[Desired], list[str]]] = {
    "by kind": (
        [_one("Deployment", "a"), _one("ConfigMap", "b"), _one("Namespace", "c")],
        ["c", "b", "a"],
    ),
    "by name within a kind": ([_one("ConfigMap", "b"), _one("ConfigMap", "a")], ["a", "b"]),
    "by depends-on": ([_one("ConfigMap", "a", _after("b")), _one("ConfigMap", "b")], ["b", "a"]),
    "by a chain": (
        [
            _one("ConfigMap", "a", _after("b")),
            _one("ConfigMap", "b", _after("c")),
            _one("ConfigMap", "c"),
        ],
        ["c", "b", "a"],
    ),
    "against the rank of the kinds": (
        [
            _one("ConfigMap", "a", {DEPENDS_ON: "apps/namespaces/home/Deployment/b"}),
            _one("Deployment", "b"),
        ],
        ["b", "a"],
    ),
    "of cluster scope": (
        [
            _one("ConfigMap", "a", {DEPENDS_ON: "rbac.authorization.k8s.io/ClusterRole/z"}),
            _one("ClusterRole", "z"),
        ],
        ["z", "a"],
    ),
    "by wave before kind": (
        [_one("ConfigMap", "a", {WAVE: "1"}), _one("Deployment", "b")],
        ["b", "a"],
    ),
    "by negative wave": (
        [_one("ConfigMap", "a"), _one("Deployment", "b", {WAVE: "-1"})],
        ["b", "a"],
    ),
    "a namespace before what is in it, whatever wave it is in": (
        [_one("ConfigMap", "a", {WAVE: "-5"}), _one("Namespace", "home", {WAVE: "3"})],
        ["home", "a"],
    ),
    "what is mounted in a later wave": (
        [
            _one("Deployment", "a", spec=_pod(volumes=[{"name": "v", "configMap": {"name": "z"}}])),
            _one("ConfigMap", "z", {WAVE: "2"}),
        ],
        ["z", "a"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_objects_are_sorted(name: str) -> None:
    """The same for every order of the input."""
    ones, expected = CASES[name]
    for shuffled in permutations(ones):
        assert _ordered(*shuffled) == expected


NEEDS: dict[str, dict[str, Any]] = {
    "a volume": {"volumes": [{"name": "v", "configMap": {"name": "z"}}]},
    "a projected volume": {
        "volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "z"}}]}}]
    },
    "a variable": {
        "containers": [
            {"env": [{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "z", "key": "k"}}}]}
        ]
    },
    "all variables of an init container": {
        "initContainers": [{"envFrom": [{"configMapRef": {"name": "z"}}]}]
    },
}


@pytest.mark.parametrize("name", NEEDS)
def test_references_of_a_pod_template_come_first(name: str) -> None:
    """Only what is in the set; it is not waited for, as what depends-on names is."""
    one = _one("Deployment", "a", spec=_pod(**NEEDS[name]))
    other = _one("ConfigMap", "z")
    (*_, found), _ = in_order({item.ref: item for item in (one, other)})
    assert (found.needs, found.depends_on) == (frozenset({other.ref}), ())
    (alone,), _ = in_order({one.ref: one})
    assert alone.needs == frozenset()


ERRORS: dict[str, tuple[Place, str]] = {
    "a dependency that is not in the set": (
        _after("nowhere"),
        "outside the set: configmap/nowhere",
    ),
    "no object": ({DEPENDS_ON: "ConfigMap/b"}, "invalid"),
    "an empty name": ({DEPENDS_ON: "/namespaces/home/ConfigMap/"}, "invalid"),
    "a trailing comma": ({DEPENDS_ON: "/namespaces/home/ConfigMap/b,"}, "invalid"),
    "no number": ({WAVE: "first"}, "invalid applyprune.dev/wave"),
    "a fraction": ({WAVE: "1.5"}, "invalid applyprune.dev/wave"),
    "too far": ({WAVE: "1001"}, "invalid applyprune.dev/wave"),
    "digits of another script": ({WAVE: "٣"}, "invalid applyprune.dev/wave"),
    "itself": (_after("a"), "in a cycle"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_invalid_order_is_refused(name: str) -> None:
    """With its place, before anything is written."""
    marks, expected = ERRORS[name]
    with pytest.raises(InputError, match=expected) as caught:
        _ordered(_one("ConfigMap", "a", marks), _one("ConfigMap", "b"))
    assert caught.value.location == str(Origin("set.yaml", 1, 1))


def test_cycle_names_every_line() -> None:
    """And in the order in which one waits for the next."""
    ones = [_one("ConfigMap", name, _after(other)) for name, other in ("ab", "bc", "ca")]
    with pytest.raises(InputError) as caught:
        _ordered(*ones)
    assert all(f"configmap/{name} (set.yaml:1)" in caught.value.reason for name in "abc")


def test_all_errors_are_reported_at_once() -> None:
    """Not the first, then the next, run after run."""
    with pytest.raises(InputErrors) as caught:
        _ordered(_one("ConfigMap", "a", {WAVE: "x"}), _one("ConfigMap", "b", _after("nowhere")))
    assert len(caught.value.errors) == 2


def test_ten_thousand_chained_objects_are_sorted() -> None:
    """Deep chains and wide sets cost no recursion."""
    ones = []
    for number in range(5_000):
        before = number % 500
        marks = _after(f"c-{number - 1:04}") if before else None
        ones.append(_one("ConfigMap", f"c-{number:04}", marks))
    names = _ordered(*ones)
    assert names.index("c-0499") > names.index("c-0498") > names.index("c-0000")
