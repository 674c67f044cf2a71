"""The table of other tools' marks: what each value means, and what nobody understands."""

from __future__ import annotations

import pytest

from applyprune.model.fieldset import NO_FIELDS, FieldSet
from applyprune.model.plan import ApplyRule
from applyprune.planning.marks import (
    OWNER_MARKS,
    PEER_MARKS,
    RECREATE,
    WAIT,
    WAVE,
    Meaning,
    apply_rule,
    found_marks,
    is_created_once,
    leave_mark,
    owner_named,
    unknown_values,
    unread_marks,
)
from tests.support.objects import config_map, manifest

NOT_READ = {Meaning.HOOK, Meaning.ORDER, Meaning.RECREATE, Meaning.WAIT}
APPLY = "applyprune.dev/apply"
SSA = "kustomize.toolkit.fluxcd.io/ssa"
HOOK = "argocd.argoproj.io/hook"
RULES: list[tuple[dict[str, str], ApplyRule, str]] = [
    ({}, ApplyRule.ALWAYS, ""),
    ({"kapp.k14s.io/noop": ""}, ApplyRule.DISABLED, "kapp.k14s.io/noop"),
    ({"kapp.k14s.io/noop": "no"}, ApplyRule.ALWAYS, ""),
    ({"kapp.k14s.io/exists": ""}, ApplyRule.EXISTS, "kapp.k14s.io/exists"),
    ({"kluctl.io/ignore": "T"}, ApplyRule.DISABLED, "kluctl.io/ignore: true"),
    ({"kluctl.io/ignore": "f"}, ApplyRule.ALWAYS, ""),
    ({SSA: "ignore"}, ApplyRule.DISABLED, f"{SSA}: Ignore"),
    ({SSA: "IFNOTPRESENT"}, ApplyRule.ONCE, f"{SSA}: IfNotPresent"),
    ({SSA: "Override"}, ApplyRule.ALWAYS, ""),
    ({HOOK: "Skip"}, ApplyRule.DISABLED, f"{HOOK}: Skip"),
    ({HOOK: "SyncFail, PostDelete"}, ApplyRule.DISABLED, f"{HOOK}: PostDelete"),
    ({HOOK: "Sync,SyncFail"}, ApplyRule.ALWAYS, ""),
    ({HOOK: ""}, ApplyRule.ALWAYS, ""),
    ({SSA: "IfNotPresent", "kapp.k14s.io/exists": ""}, ApplyRule.EXISTS, "kapp.k14s.io/exists"),
    ({SSA: "IfNotPresent", "kapp.k14s.io/noop": ""}, ApplyRule.DISABLED, "kapp.k14s.io/noop"),
    (
        {"applyprune.dev/apply": "once", "kapp.k14s.io/noop": ""},
        ApplyRule.ONCE,
        "applyprune.dev/apply: once",
    ),
]


@pytest.mark.parametrize(("marks", "rule", "text"), RULES, ids=str)
def test_rule_of_a_manifest(marks: dict[str, str], rule: ApplyRule, text: str) -> None:
    """Our own annotation decides; of others, the one that does least."""
    assert apply_rule({"annotations": marks}) == (rule, text)


@pytest.mark.parametrize(
    ("live", "ours", "expected"),
    [
        ({}, {}, ""),
        ({"annotations": {APPLY: "disabled"}}, {}, "applyprune.dev/apply: disabled"),
        ({"annotations": {APPLY: "Disabled "}}, {}, "applyprune.dev/apply: disabled"),
        ({"annotations": {APPLY: "secret"}}, {}, "applyprune.dev/apply"),
        ({"annotations": {APPLY: "once"}}, {}, ""),
        ({"labels": {SSA: "Ignore"}}, {}, f"{SSA}: Ignore"),
        ({"labels": {SSA: "Skip"}}, {}, SSA),
        ({"annotations": {SSA: "IfNotPresent"}}, {}, ""),
        ({"annotations": {"kluctl.io/ignore": "maybe"}}, {}, "kluctl.io/ignore"),
        (
            {"annotations": {"kluctl.io/ignore": "true"}},
            {"f:metadata": {"f:annotations": {"f:kluctl.io/ignore": {}}}},
            "",
        ),
    ],
    ids=str,
)
def test_mark_on_a_live_object(
    live: dict[str, object], ours: dict[str, object], expected: str
) -> None:
    """It counts if it makes a run do less, and no text of the object is shown."""
    assert leave_mark(live, FieldSet(ours)) == expected


def test_created_once_counts_only_by_our_own_apply() -> None:
    """Anybody may write an annotation, and hide a drift."""
    live = {"annotations": {APPLY: "once"}}
    assert is_created_once(live, FieldSet.of(("metadata", "annotations", APPLY)))
    assert not is_created_once(live, NO_FIELDS)


@pytest.mark.parametrize(
    ("marks", "named"),
    [
        ({"argocd.argoproj.io/sync-wave": "-5"}, "argocd.argoproj.io/sync-wave"),
        ({"argocd.argoproj.io/sync-wave": "+0"}, ""),
        ({"helm.sh/hook-weight": "0"}, ""),
        ({"argocd.argoproj.io/sync-options": "Validate=false, Replace=true"}, "Replace=true"),
        ({"kapp.k14s.io/disable-wait": ""}, "kapp.k14s.io/disable-wait"),
        ({"kapp.k14s.io/update-strategy": "skip"}, ""),
    ],
    ids=str,
)
def test_mark_that_is_not_read_is_named(marks: dict[str, str], named: str) -> None:
    """Unless its value is the default."""
    found = [one.text for one in found_marks({"annotations": marks}, *NOT_READ)]
    assert len(found) == bool(named)
    assert all(text.endswith(named) for text in found)


def test_documented_values_are_understood() -> None:
    """Each has its own meaning, and is no unknown value."""
    for mark in PEER_MARKS:
        for value in mark.documented:
            assert mark.read(value) == value
            assert [*unknown_values({"annotations": {mark.key: value}}, *Meaning)] == []


@pytest.mark.parametrize(
    ("mark", "hint"),
    [
        ({"kapp.k14s.io/update-strategy": "always-replace"}, "nothing that replaces it at each"),
        ({"kapp.k14s.io/update-strategy": "fallback-on-replace"}, f"Use {RECREATE}: allowed"),
        ({"argocd.argoproj.io/sync-options": "Replace=true"}, "needs no replacement"),
        ({"argocd.argoproj.io/sync-options": "Force=true"}, f"Use {RECREATE}: allowed"),
        ({"argocd.argoproj.io/hook": "PreSync"}, "A Job runs once"),
        ({"kluctl.io/hook": "pre-deploy"}, "A Job runs once"),
        ({"argocd.argoproj.io/sync-wave": "1"}, f"Use {WAVE} instead."),
        ({"kapp.k14s.io/disable-wait": ""}, f"Use {WAIT}: skip"),
    ],
    ids=str,
)
def test_hint_says_what_does_the_same(mark: dict[str, str], hint: str) -> None:
    """And names no annotation that does something else."""
    (warning,) = unread_marks([manifest(config_map("a", annotations=mark))])
    assert hint in warning.hint


def test_argo_options_are_named_one_by_one() -> None:
    """Each means something else."""
    both = {"argocd.argoproj.io/sync-options": "Replace=true,Force=true"}
    found = [*unread_marks([manifest(config_map("a", annotations=both))])]
    assert [one.hint.partition(" ")[0] for one in found] == ["Use", "A"]


def test_named_marks_have_a_replacement() -> None:
    """And only these."""
    for mark in PEER_MARKS:
        assert bool(mark.instead) is (mark.meaning in NOT_READ), mark


def test_owner_has_its_namespace() -> None:
    """If the tool writes it."""
    helm = next(mark for mark in OWNER_MARKS if mark.tool == "Helm")
    there = {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop"}
    assert owner_named(helm, "web", {}, there) == "the Helm release web in namespace shop"
    assert owner_named(helm, "web", {}, {}) == "the Helm release web"
