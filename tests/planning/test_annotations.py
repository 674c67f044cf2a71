"""The marks that keep an object: our own and the peers'."""

from __future__ import annotations

import pytest

from applyprune.planning.annotations import orphan_mark

KEPT = [
    {"applyprune.dev/prune": "disabled"},
    {"helm.sh/resource-policy": "keep"},
    {"client.lifecycle.config.k8s.io/deletion": "detach"},
    {"cli-utils.sigs.k8s.io/on-remove": "keep"},
    {"kustomize.toolkit.fluxcd.io/prune": "disabled"},
    {"kustomize.toolkit.fluxcd.io/prune": "Disabled"},
    {"argocd.argoproj.io/sync-options": "ServerSideApply=true, Prune=false"},
    {"kapp.k14s.io/delete-strategy": "orphan"},
    {"kluctl.io/skip-delete": "true"},
]


@pytest.mark.parametrize("marks", KEPT, ids=lambda marks: next(iter(marks)))
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
    ],
)
def test_other_annotation_values_do_not_orphan(metadata: dict[str, object]) -> None:
    """Only the value that means it."""
    assert orphan_mark(metadata) == ""
