"""Chart hooks: which events are known, what is left out, and what needs a decision."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.errors import InputError, InputErrors, raise_all
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.live import Absent, State, Unknown
from applyprune.model.options import HelmHooks
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import parse_selector
from applyprune.planning.desired import HOOK, Resolved, find_hooks, resolve
from applyprune.planning.plan import make_plan
from tests.support.objects import manifest
from tests.support.options import options_of
from tests.support.planning import (
    CATALOGUE,
    TARGET,
    body,
    cluster,
    desired,
    inventory,
    live,
    recorded,
    world,
)

REFUSE, SKIP, APPLY = HelmHooks.REFUSE, HelmHooks.SKIP, HelmHooks.APPLY


def _hook(events: str, name: str = "a", kind: str = "ConfigMap", **parts: Any) -> dict[str, Any]:
    metadata = {"annotations": {HOOK: events}, **parts.pop("metadata", {})}
    return body(kind, name, metadata=metadata, **parts)


def _resolved(*bodies: dict[str, Any], **options: Any) -> Resolved:
    manifests = [manifest(raw, line) for line, raw in enumerate(bodies, 1)]
    chosen = options_of(**options)
    found = resolve(manifests, CATALOGUE, TARGET, namespace="home", options=chosen)
    raise_all(found.errors)
    return found


def _names(found: Resolved) -> list[str]:
    return [one.ref.short for one in found.desired]


NEVER = ("pre-delete", "post-delete", "pre-rollback", "post-rollback", "test", "test-success",
         "test-failure")  # fmt: skip
INSTALL = ("pre-install", "post-install", "pre-upgrade", "post-upgrade", "crd-install")


@pytest.mark.parametrize("decision", HelmHooks)
@pytest.mark.parametrize("event", NEVER)
def test_test_delete_and_rollback_hooks_are_always_left_out(
    event: str, decision: HelmHooks
) -> None:
    """Not even ``apply`` applies them: a pre-delete Job would run at once."""
    found = _resolved(body(name="b"), _hook(event), helm_hooks=decision)
    assert _names(found) == ["configmap/b"]
    (warning,) = found.warnings
    assert warning.kind is ProblemKind.CHART_HOOKS
    assert warning.location == "set.yaml:2"
    assert (warning.message, warning.reason) == (
        "1 chart hook is left out",
        f"configmap/a ({event})",
    )
    assert "helm template --no-hooks" in warning.hint


@pytest.mark.parametrize("event", INSTALL)
def test_install_and_upgrade_hooks_need_a_decision(event: str) -> None:
    """The error has file and line, and names both decisions and Helm's own option."""
    with pytest.raises(InputError) as caught:
        _resolved(_hook(event))
    text = str(caught.value)
    assert text.startswith(
        "set.yaml:1: configmap/a is an install or upgrade hook of a chart: Helm would create it at "
        f"{event}\n"
    )
    for hint in ("helm template --no-hooks", "helm-hooks: skip", "helm-hooks: apply"):
        assert hint in text
    assert _names(_resolved(_hook(event), helm_hooks=APPLY)) == ["configmap/a"]
    skipped = _resolved(_hook(event), helm_hooks=SKIP)
    assert _names(skipped) == []
    assert [warning.reason for warning in skipped.warnings] == [f"configmap/a ({event})"]


WRITTEN = {
    "spaces": (" pre-install , post-upgrade ", ("pre-install", "post-upgrade")),
    "another case": ("Pre-Delete", ("pre-delete",)),
    "one twice": ("test,test", ("test", "test")),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_events_are_read_as_helm_reads_them(name: str) -> None:
    """Split at commas, without spaces, in any case."""
    text, events = WRITTEN[name]
    (hook,) = find_hooks([manifest(_hook(text))], CATALOGUE, "home", options_of())[0]
    assert hook.events == events


INVALID = {
    "a mistyped event": ("pre-instal", "Did you mean pre-install?"),
    "an event of nobody": ("zzz", "The events are crd-install, post-delete"),
    "one unknown among known ones": ("pre-delete,pre-uninstall", "'pre-uninstall' is not"),
    "nothing": ("", "'' is not an event"),
    "a trailing comma": ("test,", "'' is not an event"),
    "a list in brackets": ("[test]", "'[test]' is not an event"),
}


@pytest.mark.parametrize("decision", HelmHooks)
@pytest.mark.parametrize("name", INVALID)
def test_unknown_event_is_refused(name: str, decision: HelmHooks) -> None:
    """Helm would drop the object silently; here a typing error must not."""
    text, expected = INVALID[name]
    with pytest.raises(InputError) as caught:
        _resolved(_hook(text), helm_hooks=decision)
    assert str(caught.value).startswith("set.yaml:1: invalid helm.sh/hook: ")
    assert expected in str(caught.value)


def test_hook_with_several_events_follows_the_one_that_needs_a_decision() -> None:
    """A Job at pre-upgrade and pre-delete may be applied, if the user says so."""
    both = _hook("pre-delete,pre-upgrade")
    with pytest.raises(InputError, match="Helm would create it at pre-delete and pre-upgrade"):
        _resolved(both)
    assert _names(_resolved(both, helm_hooks=APPLY)) == ["configmap/a"]
    assert _names(_resolved(_hook("pre-delete,test"), helm_hooks=APPLY)) == []


def test_all_hooks_are_named_in_one_error_with_their_places() -> None:
    """Beside the other errors of the input."""
    unknown = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}}
    with pytest.raises(InputErrors) as caught:
        _resolved(
            _hook("pre-install", "a"),
            _hook("test", "t"),
            _hook("post-install,post-upgrade", "b"),
            unknown,
            _hook("typo", "c"),
        )
    typo, kind, hooks = caught.value.errors
    assert (typo.location, kind.location, hooks.location) == (
        "set.yaml:5",
        "set.yaml:4",
        "set.yaml:1",
    )
    assert hooks.message == "2 objects are install or upgrade hooks of a chart"
    assert hooks.reason == (
        "configmap/a (pre-install) in set.yaml:1, "
        "configmap/b (post-install, post-upgrade) in set.yaml:3"
    )
    assert [(mark.note, mark.origin and mark.origin.line) for mark in hooks.problem.marks] == [
        ("configmap/a", 1),
        ("configmap/b", 3),
    ]


def test_all_left_out_hooks_are_named_in_one_warning() -> None:
    """A chart may have a dozen, and every run reports them."""
    found = _resolved(
        _hook("test", "t"),
        _hook("pre-install", "a"),
        _hook("post-delete", "d", "Job"),
        helm_hooks=SKIP,
    )
    (warning,) = found.warnings
    assert warning.message == "3 chart hooks are left out"
    assert (
        warning.reason == "configmap/t (test), configmap/a (pre-install), job.batch/d (post-delete)"
    )


def test_hook_outside_the_selection_is_neither_refused_nor_named() -> None:
    """It is not applied anyway."""
    chosen = body(name="b", metadata={"labels": {"app": "web"}})
    found = _resolved(
        chosen, _hook("pre-install", "a"), _hook("test", "t"), selector=parse_selector("app=web")
    )
    assert (_names(found), found.warnings) == (["configmap/b"], ())


def test_crd_that_is_left_out_brings_no_kind() -> None:
    """Otherwise its custom resources would fail in the middle of the apply."""
    crd = _hook(
        "crd-install",
        "foos.x.io",
        "CustomResourceDefinition",
        spec={
            "group": "x.io",
            "scope": "Namespaced",
            "names": {"kind": "Foo", "plural": "foos"},
            "versions": [{"name": "v1", "served": True}],
        },
    )
    custom = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}}
    assert _names(_resolved(crd, custom, helm_hooks=APPLY))[1] == "foo.x.io/f"
    with pytest.raises(InputError, match="no matches for kind Foo"):
        _resolved(crd, custom, helm_hooks=SKIP)


def test_left_out_hook_keeps_its_own_scope_and_namespace() -> None:
    """Its ref is that of the entry that an earlier run may have recorded."""
    found = _resolved(
        _hook("test", "one"),
        _hook("test", "two", metadata={"namespace": "x"}),
        _hook("test", "three", "Namespace", metadata={"namespace": "x"}),
    )
    assert set(found.left_out) == {
        Ref("", "ConfigMap", "home", "one"),
        Ref("", "ConfigMap", "x", "two"),
        Ref("", "Namespace", "", "three"),
    }


ONE, OTHER = desired(body()), desired(body(name="b"))
THERE = live(ONE.ref)
STATES: dict[str, tuple[State, Fate]] = {
    "it exists": (THERE, Fate.LEAVE),
    "it is gone": (Absent(), Fate.REMOVE_FROM_INVENTORY),
    "it cannot be read": (Unknown(Problem(kind=ProblemKind.FORBIDDEN, message="no")), Fate.LEAVE),
    "it is somebody else's now": (
        live(ONE.ref, uid="u2", label="", entries=[]),
        Fate.REMOVE_FROM_INVENTORY,
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_recorded_object_that_is_a_left_out_hook_now_is_kept(name: str) -> None:
    """A set may have been applied before hooks were known, or with ``apply``."""
    state, fate = STATES[name]
    found = _resolved(body(name="b"), _hook("pre-delete"))
    plan = make_plan(
        world(
            found.desired,
            inventory(recorded(ONE, THERE), recorded(OTHER, live(OTHER.ref, uid="u9"))),
            cluster({ONE.ref: state, OTHER.ref: live(OTHER.ref, uid="u9")}),
            options_of(),
            left_out=found.left_out,
        )
    )
    (step,) = plan.removals
    assert (step.fate, step.problem, plan.refusal, plan.no_prune) == (fate, None, None, "")
    assert step.reason == "a chart hook, left out" or fate is not Fate.LEAVE
