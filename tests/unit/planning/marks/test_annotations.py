"""The marks that keep an object: our own and the peers', and those that nobody understands."""

from __future__ import annotations

import pytest

from applyprune.model.live import BUNDLES
from applyprune.model.problem import Origin
from applyprune.planning.marks import annotation_errors, orphan_mark, unknown_mark

KEPT = [
    {"applyprune.dev/prune": "disabled"},
    {"applyprune.dev/prune": " Disabled\n"},
    {"helm.sh/resource-policy": "keep"},
    {"helm.sh/resource-policy": " Keep "},
    {"helm.sh/resource-policy": " keep "},
    {"helm.sh/resource-policy": "kept"},
    {"helm.sh/resource-policy": ""},
    {"client.lifecycle.config.k8s.io/deletion": "detach"},
    {"cli-utils.sigs.k8s.io/on-remove": "keep"},
    {"kustomize.toolkit.fluxcd.io/prune": "disabled"},
    {"kustomize.toolkit.fluxcd.io/prune": "Disabled"},
    {"kustomize.toolkit.fluxcd.io/reconcile": "disabled"},
    {"kustomize.toolkit.fluxcd.io/reconcile": "Disabled"},
    {"argocd.argoproj.io/sync-options": "ServerSideApply=true, Prune=false"},
    {"argocd.argoproj.io/sync-options": "delete=Confirm"},
    {"kapp.k14s.io/delete-strategy": "orphan"},
    {"kapp.k14s.io/delete-strategy": "orphaned"},
    {"kluctl.io/skip-delete": "true"},
    {"kluctl.io/skip-delete": "T"},
    {"kluctl.io/skip-delete": "1"},
]


@pytest.mark.parametrize("marks", KEPT, ids=str)
def test_annotation_orphans_the_object(marks: dict[str, str]) -> None:
    """It is found in annotations and, as Flux has it, in labels; the rule names the mark."""
    for part in ("annotations", "labels"):
        assert orphan_mark({part: marks}).startswith(next(iter(marks)))


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"annotations": None},
        {"annotations": {"applyprune.dev/prune": "enabled"}},
        {"annotations": {"argocd.argoproj.io/sync-options": "PruneLast=true"}},
        {"annotations": {"kluctl.io/skip-delete": "false"}},
        {"annotations": {"kapp.k14s.io/delete-strategy": ""}},
        {"annotations": {"kustomize.toolkit.fluxcd.io/prune": "enabled"}},
    ],
)
def test_other_annotation_values_do_not_orphan(metadata: dict[str, object]) -> None:
    """Only the value that means it."""
    assert orphan_mark(metadata) == ""


def test_mark_shows_no_value_of_the_object() -> None:
    """It goes into inventories and messages, also for a Secret."""
    assert orphan_mark({"annotations": {"helm.sh/resource-policy": "hunter2"}}) == (
        "helm.sh/resource-policy"
    )


SET_ID = "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1"
LIVE: dict[str, tuple[dict[str, dict[str, str]], str]] = {
    "another tool's": ({"annotations": {"example.com/prune": "no"}}, ""),
    "every key that is known": (
        {
            "annotations": {
                "applyprune.dev/approve": "sha256:1",
                "applyprune.dev/conflicts": "skip",
                "applyprune.dev/ignore-fields": "/spec/replicas",
                "applyprune.dev/owned-by": SET_ID,
                "applyprune.dev/prune": " Disabled ",
                "applyprune.dev/ready-when": "self.data.a == 'b'",
                "applyprune.dev/reconcile-now": "now",
                "applyprune.dev/recreate": "allowed",
                "applyprune.dev/wait": "skip",
                "applyprune.dev/wanted": "12",
                "applyprune.dev/wave": "-3",
            },
            "labels": {"applyprune.dev/inventory": "web", "applyprune.dev/prune": "disabled"},
        },
        "",
    ),
    "marks of an earlier version": (
        {
            "annotations": {
                "applyprune.dev/recreate": "on-change",
                "applyprune.dev/manifest-digest": "0",
            }
        },
        "",
    ),
    "a mistyped key": (
        {"annotations": {"applyprune.dev/prun": "disabled"}},
        "the annotation applyprune.dev/prun",
    ),
    "a mark of Bundles": (
        {"annotations": {"applyprune.dev/orphan": "true"}},
        "the annotation applyprune.dev/orphan",
    ),
    "a key with capitals": (
        {"annotations": {"Applyprune.dev/prune": "disabled"}},
        "the annotation Applyprune.dev/prune",
    ),
    "a label": ({"labels": {"applyprune.dev/keep": "yes"}}, "the label applyprune.dev/keep"),
    "an annotation as a label": (
        {"labels": {"applyprune.dev/wave": "1"}},
        "the label applyprune.dev/wave",
    ),
    **{
        f"{key}: {value}": (
            {"annotations": {f"applyprune.dev/{key}": value}},
            f"the value of the annotation applyprune.dev/{key}",
        )
        for key, value in (
            ("prune", "false"),
            ("prune", "disable"),
            ("prune", "keep"),
            ("prune", ""),
            ("conflicts", "maybe"),
            ("recreate", "yes"),
            ("wait", "Skip"),
            ("wave", "first"),
            ("wave", "1001"),
            ("owned-by", "me"),
        )
    },
}


@pytest.mark.holds("orphan-of-a-bundle", row="a mark of Bundles")
@pytest.mark.parametrize("name", LIVE)
def test_mark_of_ours_that_is_not_understood_is_named(name: str) -> None:
    """Its key, never its value."""
    metadata, expected = LIVE[name]
    assert unknown_mark(metadata) == expected


@pytest.mark.parametrize(("value", "is_known"), [("true", True), ("yes", False)])
def test_mark_of_bundles_is_understood_on_a_bundle(value: str, is_known: bool) -> None:
    """With its only value; on any other object it would promise what nobody does."""
    metadata = {"annotations": {"applyprune.dev/orphan": value}}
    kind = BUNDLES.group_kind
    assert (unknown_mark(metadata, kind) == "") is is_known
    assert (list(annotation_errors(metadata, Origin("b.yaml", 1, 1), kind)) == []) is is_known


WORDS = 'Use "disabled", or remove the annotation.'
RESERVED = "The prefix applyprune.dev/ is reserved. Remove the annotation, or check its spelling."
IN_MANIFESTS: dict[str, tuple[dict[str, dict[str, str]], list[tuple[str, str]]]] = {
    "a mistyped key": (
        {"annotations": {"applyprune.dev/ignore-field": "/data"}},
        [
            (
                "unknown annotation applyprune.dev/ignore-field",
                "Did you mean applyprune.dev/ignore-fields?",
            )
        ],
    ),
    "several, and one that is right": (
        {
            "annotations": {
                "applyprune.dev/prune": "keep",
                "applyprune.dev/wait": "skip",
                "applyprune.dev/zzz": "",
            },
            "labels": {"applyprune.dev/inventory": "web"},
        },
        [
            ("invalid applyprune.dev/prune: 'keep'", WORDS),
            ("unknown annotation applyprune.dev/zzz", RESERVED),
            (
                "only applyprune sets the label applyprune.dev/inventory",
                "Remove it from the manifest.",
            ),
        ],
    ),
    "a mark of Bundles": (
        {"annotations": {"applyprune.dev/orphan": "true"}},
        [
            (
                "only a Bundle may have the annotation applyprune.dev/orphan",
                (
                    "To keep this object when it is no longer in the input: "
                    "applyprune.dev/prune: disabled"
                ),
            )
        ],
    ),
    "a word of an earlier version": (
        {"annotations": {"applyprune.dev/recreate": "on-change"}},
        [
            (
                "invalid applyprune.dev/recreate: 'on-change'",
                'Use "allowed", or remove the annotation.',
            )
        ],
    ),
    # A copy of a live object has it.
    "the owner, whatever it is": ({"annotations": {"applyprune.dev/owned-by": "x"}}, []),
    # The order of the set says what is wrong with it.
    "a wave that is none": ({"annotations": {"applyprune.dev/wave": "x"}}, []),
    "nothing": ({}, []),
}


@pytest.mark.parametrize("name", IN_MANIFESTS)
def test_unknown_marks_of_a_manifest_are_errors(name: str) -> None:
    """All of them, each with its place and with what was meant."""
    metadata, expected = IN_MANIFESTS[name]
    found = list(annotation_errors(metadata, Origin("set.yaml", 1, 7)))
    assert [(error.message, error.hint) for error in found] == expected
    assert all(error.location == "set.yaml:7" for error in found)
