"""What sets of one command have to do with each other, by their manifests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.identity import Ref, SetKey
from applyprune.model.options import ApplyOptions, HelmHooks, Options
from applyprune.planning.applyset import applyset_identity
from applyprune.planning.between_sets import BetweenSets, SetInput, between_sets, start_order
from applyprune.planning.set_order import SetNeeds, set_order
from tests.support.objects import annotation_texts, config_map, manifest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

A, B, C = (SetKey("shop", name) for name in "abc")
HERE = Ref("", "ConfigMap", "shop", "x")
EXISTS = annotation_texts(applyprune_dev__apply="exists")
DISABLED = annotation_texts(applyprune_dev__apply="disabled")
HOOK = annotation_texts(helm_sh__hook="pre-install")
TEST_HOOK = annotation_texts(helm_sh__hook="test")


def body(api_version: str, kind: str, name: str = "x", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **metadata}}


def definition(kind: str = "Widget", group: str = "example.com") -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    raw = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{group}")
    version = {"name": "v1", "served": True, "storage": True, "schema": {}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower()}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {**raw, "spec": spec}


X = config_map("x")
NAMESPACE = body("v1", "Namespace", "team")
WIDGET = body("example.com/v1", "Widget")


def between(
    inputs: Mapping[SetKey, Sequence[dict[str, Any]]], options: Options | None = None
) -> BetweenSets:
    return between_sets(
        SetInput(
            key, [manifest(raw, line) for line, raw in enumerate(bodies, 1)], options or Options()
        )
        for key, bodies in inputs.items()
    )


def hooks(decision: HelmHooks) -> Options:
    return Options(apply=ApplyOptions(helm_hooks=decision))


def elsewhere(namespace: str) -> Options:
    return Options(apply=ApplyOptions(namespace_override=namespace))


CLAIMED: dict[str, tuple[list[dict[str, Any]], Options | None, set[Ref]]] = {
    "an object without a namespace": ([X], None, {HERE}),
    "an object with one": (
        [config_map("x", namespace="pay")], None, {Ref("", "ConfigMap", "pay", "x")}
    ),
    "an object whose namespace is replaced": (
        [config_map("x", namespace="pay")], elsewhere("other"), {Ref("", "ConfigMap", "other", "x")}
    ),
    "an object of the cluster": (
        [NAMESPACE], elsewhere("other"), {Ref("", "Namespace", "", "team")}
    ),
    # Only a server knows whether it has a namespace.
    "a custom object": (
        [WIDGET], None, {Ref("example.com", "Widget", place, "x") for place in ("shop", "")}
    ),
    "another version": (
        [body("batch/v1beta1", "CronJob")], None, {Ref("batch", "CronJob", "shop", "x")}
    ),
    "an object that must exist": ([config_map("x", annotations=EXISTS)], None, set()),
    "an object that is not applied": ([config_map("x", annotations=DISABLED)], None, set()),
    "a hook that is left out": (
        [config_map("x", annotations=HOOK)], hooks(HelmHooks.SKIP), set()
    ),
    "a hook that is applied": (
        [config_map("x", annotations=HOOK)], hooks(HelmHooks.APPLY), {HERE}
    ),
    "a test of a chart": ([config_map("x", annotations=TEST_HOOK)], None, set()),
    "an object twice": ([X, X], None, {HERE}),
}  # fmt: skip


@pytest.mark.holds("needed-only", row="an object that must exist")
@pytest.mark.parametrize(("bodies", "options", "refs"), CLAIMED.values(), ids=[*CLAIMED])
def test_claims_are_of_objects_that_the_set_will_have(
    bodies: list[dict[str, Any]], options: Options | None, refs: set[Ref]
) -> None:
    found = between({A: bodies}, options)
    assert found.claims == dict.fromkeys(refs, (A,))
    assert not found.errors


@pytest.mark.holds("claimed-twice")
def test_object_of_two_sets_is_an_error_of_both() -> None:
    found = between({A: [config_map("y"), X], B: [X], C: [config_map("z")]})
    assert {key: str(error) for key, (error,) in found.errors.items()} == {
        A: "set.yaml:2: configmap/x in namespace shop is in the input of the set shop/b, too: "
        "set.yaml:1 has it\n  Leave it to one of shop/a and shop/b. If this set only needs it, "
        "annotate it: applyprune.dev/apply: exists.",
        B: "set.yaml:1: configmap/x in namespace shop is in the input of the set shop/a, too: "
        "set.yaml:2 has it\n  Leave it to one of shop/b and shop/a. If this set only needs it, "
        "annotate it: applyprune.dev/apply: exists.",
    }


def test_objects_of_two_sets_differ_by_namespace_and_kind() -> None:
    """Of a custom kind, two namespaces may be two objects."""
    pay = SetKey("pay", "a")
    found = between({A: [X, WIDGET], pay: [X, WIDGET, body("v1", "Secret")]})
    assert not found.errors
    everywhere = Ref("example.com", "Widget", "", "x")
    assert found.claims[everywhere] == (A, pay)


def test_sets_use_namespaces_and_kinds_that_others_bring() -> None:
    team, new = SetKey("team", "b"), SetKey("other", "c")
    found = between({A: [NAMESPACE, definition()], team: [X], new: [WIDGET], B: [X]})
    assert found.uses == {team: (A,), new: (A,)}
    assert [one.name for one in found.brings[A]] == ["team", "widgets.example.com"]
    alone = between({A: [NAMESPACE, definition(), WIDGET, config_map("x", namespace="team")]})
    assert (alone.uses, alone.brings) == ({}, {})


def test_run_knows_what_others_have_and_give() -> None:
    gone = SetKey("shop", "gone")
    found = between({A: [NAMESPACE, X], B: [config_map("y")]})
    seen = found.seen_by(B, [gone], before=[A])
    given = frozenset(applyset_identity(name, "shop").id for name in ("a", "gone"))
    assert (seen.own, seen.givers) == (B, given)
    assert [one.name for one in found.seen_by(B, before=[A]).coming] == []
    used = between({A: [NAMESPACE], B: [config_map("y", namespace="team")]})
    assert [one.name for one in used.seen_by(B, before=[A]).coming] == ["team"]
    assert used.seen_by(B).coming == ()


@pytest.mark.holds("claimed-by-giver")
def test_set_gives_only_what_its_own_input_does_not_have() -> None:
    """A custom object may be the same for both, as far as the manifests say."""
    pay = SetKey("pay", "a")
    label = applyset_identity("a", "pay").id
    seen = between({A: [X, WIDGET], pay: [WIDGET]}).seen_by(A)
    assert seen.gives(label, HERE)
    assert not seen.gives(label, Ref("example.com", "Widget", "", "x"))
    assert seen.others_with(Ref("example.com", "Widget", "", "x")) == (pay,)
    assert not seen.gives(label, Ref("", "ConfigMap", "shop", "unknown"))
    assert not seen.gives("another", HERE)
    assert not seen.gives(applyset_identity("a", "shop").id, HERE)


def test_sets_start_after_those_that_they_use_unless_that_makes_a_cycle() -> None:
    order, errors = set_order([SetNeeds(A, ("b",)), SetNeeds(B), SetNeeds(C)], "below deploy")
    assert not errors
    found = start_order(order, {B: [C], C: [A], SetKey("no", "set"): [A]})
    assert found.needs == {C: (), B: (C,), A: (B,)}
    assert order.needs == {B: (), C: (), A: (B,)}
