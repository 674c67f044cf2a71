"""The table of kinds: what a row may say, and what no row may leave out."""

from __future__ import annotations

import pytest

from applyprune.model.identity import GroupKind
from applyprune.model.kinds import (
    BUNDLE,
    CRON_JOB,
    GUARDED_KINDS,
    HOLDERS,
    IN_EACH_NAMESPACE,
    KINDS,
    REPLICATION_CONTROLLER,
    Trait,
    kinds_with,
    row_of,
)
from applyprune.planning import readiness
from applyprune.planning.order import is_built_in

RULES = {*readiness._WITH_PATIENCE, *readiness._RULES}


def test_rule_of_readiness_is_one_of_planning() -> None:
    """And each rule has a kind."""
    assert {row.ready for row in KINDS.values()} - {""} == RULES


@pytest.mark.parametrize("trait", Trait)
def test_trait_has_a_kind(trait: Trait) -> None:
    """Otherwise nobody needs the word."""
    assert kinds_with(trait)


def test_kind_in_another_group_is_unknown() -> None:
    """A CRD may have any name."""
    assert row_of(GroupKind("example.com", "Namespace")) == row_of(GroupKind("", "Widget"))
    assert not row_of(GroupKind("example.com", "Namespace")).traits


def test_traits_of_custom_kinds_are_only_their_scope() -> None:
    """Others know what their own kinds are."""
    others = KINDS.keys() - {BUNDLE}
    custom = {kind: KINDS[kind] for kind in others if not is_built_in(kind.group)}
    assert {trait for row in custom.values() for trait in row.traits} == {Trait.CLUSTER_SCOPED}


def test_guarded_kinds_are_named_by_group() -> None:
    """What holds data, or what others are in; by the words of the option."""
    assert list(GUARDED_KINDS.values()) == [
        "namespace",
        "persistentvolume",
        "persistentvolumeclaim",
        "customresourcedefinition",
        "statefulset",
    ]
    assert set(GUARDED_KINDS) > HOLDERS
    assert set(GUARDED_KINDS) > kinds_with(Trait.NEVER_RECREATED) - {BUNDLE} >= HOLDERS


def test_objects_of_each_namespace_have_their_names() -> None:
    """As the controllers of Kubernetes create them."""
    assert {name for _, name in IN_EACH_NAMESPACE} == {"default", "kube-root-ca.crt"}


def test_kinds_with_pods_know_how_they_replace_them() -> None:
    """And where their template is."""
    without = {kind.kind for kind in kinds_with(Trait.KEEPS_PODS) if not row_of(kind).strategy}
    assert without == {REPLICATION_CONTROLLER.kind, "ReplicaSet"}
    assert row_of(CRON_JOB).template == ("spec", "jobTemplate", "spec", "template")
