"""Which options a plan file binds, and how they are named."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.inventory import Ownership
from applyprune.model.options import (
    Adopt,
    ApplyOptions,
    Conflicts,
    HelmHooks,
    Options,
    Propagation,
    PruneAlso,
    PruneOptions,
)
from applyprune.model.text import parse_selector
from applyprune.planning.digests import changed_options, shaping_options
from applyprune.values import replace

LIFT_A_GUARD = {
    "max_prune",
    "allow_empty",
    "allow_kinds",
    "allow_cascade",
    "apply_anyway",
    "approved",
    "only_approved",
}
"""They allow a plan, and do not change what it does."""
OTHERS: dict[str, tuple[Any, str, str]] = {
    "adopt": (Adopt.ALL, "--adopt=unowned", "--adopt=all"),
    "conflicts": (Conflicts.REVERT, "--conflicts=fail", "--conflicts=revert"),
    "keep_drift": (True, "no keep-drift", "keep-drift: true"),
    "adopt_as": (Ownership.OWNED, "--record-as=adopted", "--record-as=owned"),
    "take_over": (frozenset({"b", "a"}), "no --take-over", "--take-over=a --take-over=b"),
    "ignore": (("*:/spec/a",), "no ignore", "ignore: *:/spec/a"),
    "no_default_ignore": (
        frozenset({"ca-bundle", "aggregated-rules"}),
        "no no-default-ignore",
        "no-default-ignore: aggregated-rules, ca-bundle",
    ),
    "reapply_all": (True, "no --reapply-all", "--reapply-all"),
    "recreate": (True, "no --recreate", "--recreate"),
    "create_namespace": (True, "no --create-namespace", "--create-namespace"),
    "helm_hooks": (HelmHooks.APPLY, "helm-hooks: refuse", "helm-hooks: apply"),
    "namespace_override": ("x", "no namespace-override", "namespace-override: x"),
    "selector": (parse_selector("app=web"), "no --selector", "--selector=app=web"),
    "only": (frozenset({"configmap/a"}), "no --only", "--only=configmap/a"),
    "enabled": (False, "--prune", "--no-prune"),
    "orphan": (frozenset({"configmap/a"}), "no --orphan", "--orphan=configmap/a"),
    "also": (frozenset(PruneAlso), "no --prune-also", "--prune-also=adopted,shared"),
    "propagation": (Propagation.FOREGROUND, "propagation: background", "propagation: foreground"),
}


def _with(name: str, value: object) -> Options:
    options, changed = Options(), {name: value}
    if name in ApplyOptions.__struct_fields__:
        return replace(options, apply=replace(options.apply, **changed))  # type: ignore[arg-type]
    return replace(options, prune=replace(options.prune, **changed))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", OTHERS)
def test_changed_option_is_named_as_it_is_written(name: str) -> None:
    """Both ways, so that the user knows what to give."""
    value, before, now = OTHERS[name]
    default, changed = shaping_options(Options()), shaping_options(_with(name, value))
    assert changed_options(default, changed) == [(before, now)]
    assert changed_options(changed, default) == [(now, before)]
    assert changed_options(changed, changed) == []


def test_each_option_of_a_plan_is_bound_or_lifts_a_guard() -> None:
    """A new option belongs to one or the other."""
    known = {*ApplyOptions.__struct_fields__, *PruneOptions.__struct_fields__}
    assert known == OTHERS.keys() | LIFT_A_GUARD
