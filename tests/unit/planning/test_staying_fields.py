"""What others hold of what leaves a manifest: which fields, what is released, how it is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from applyprune.controller.result import problem_message
from applyprune.errors import Invalid
from applyprune.model.fate import Fate
from applyprune.model.fieldset import FieldSet, Writer, to_server
from applyprune.model.identity import Ref
from applyprune.model.live import Resource
from applyprune.model.options import Conflicts, Options
from applyprune.model.plan import ApplyStep, Migration
from applyprune.planning.conflicts import HOLDS, exclusion, explain_conflict
from applyprune.planning.managed_fields import as_stored, taken
from applyprune.planning.normalize import is_ignored_by_default
from applyprune.planning.staying_fields import held_fields, releasable
from tests.support.options import options_of
from tests.support.planning import TARGET, desired, live, managed, recorded

Body = dict[str, Any]
GROUP = "admissionregistration.k8s.io"
KIND = "ValidatingWebhookConfiguration"
HOOKS = Resource(GROUP, "v1", KIND, f"{KIND.lower()}s", namespaced=False)
ITEM_A, ITEM_B = 'k:{"name":"a"}', 'k:{"name":"b"}'
WHOLE: Body = {".": {}, "f:name": {}, "f:sideEffects": {}}
OURS: Body = {"f:webhooks": {ITEM_A: WHOLE, ITEM_B: WHOLE}}
BUNDLE: Body = {"f:clientConfig": {"f:caBundle": {}}}
HELD: Body = {".": {}, "f:name": {}, **BUNDLE}
OFF = options_of(no_default_ignore=frozenset({"ca-bundle"}))
FORCE = options_of(conflicts=Conflicts.FORCE)


def _hook(name: str, **more: Any) -> Body:
    return {"name": name, "sideEffects": "None", "clientConfig": {"caBundle": "x"}, **more}


def _step(
    *others: Body, ours: Body = OURS, applied: Body = OURS
) -> tuple[ApplyStep, tuple[str, ...]]:
    """Return the step for a manifest with the entry ``a`` only, and the fields that hold ``b``."""
    raw = {"apiVersion": f"{GROUP}/v1", "kind": HOOKS.kind, "metadata": {"name": "h"}}
    there = {"webhooks": [_hook("a", timeoutSeconds=1), _hook("b", timeoutSeconds=1)]}
    one = desired({**raw, "webhooks": [{"name": "a", "sideEffects": "None"}]}, HOOKS)
    entries = [managed() | {"fieldsV1": ours}]
    entries += [
        managed(f"other-{number}") | {"fieldsV1": {"f:webhooks": fields}}
        for number, fields in enumerate(others)
    ]
    state = live(one.ref, entries=entries, full={**raw, **there})
    fields = FieldSet(applied).fields_v1
    entry = recorded(one, state, owned_fields=json.dumps(fields))
    return ApplyStep(one, Fate.CHANGE, entry, state), tuple(
        to_server(path) for path, _ in held_fields(one, state, TARGET.manager)
    )


B = '.webhooks[name="b"].'
INJECTED = (f"{B}clientConfig.caBundle",)
CASES: dict[str, tuple[tuple[Body, ...], Body, tuple[str, ...], Options, bool]] = {
    "an injector has the entry": (({ITEM_A: HELD, ITEM_B: HELD},), OURS, INJECTED, Options(), True),
    "it only wrote into it": (({ITEM_B: BUNDLE},), OURS, (), Options(), False),
    "the rule is switched off": (({ITEM_B: HELD},), OURS, INJECTED, OFF, False),
    "forced": (({ITEM_B: HELD},), OURS, INJECTED, FORCE, True),
    "no confirmed apply had it": (
        ({ITEM_B: HELD},), {"f:webhooks": {ITEM_A: WHOLE}}, INJECTED, Options(), False,
    ),
    "somebody else has more of it": (
        ({ITEM_B: HELD}, {ITEM_B: {".": {}, "f:timeoutSeconds": {}}}), OURS,
        (*INJECTED, f"{B}timeoutSeconds"), Options(), False,
    ),
}  # fmt: skip


@pytest.mark.holds("released-by-default", row="the rule is switched off")
@pytest.mark.parametrize("name", CASES)
def test_only_what_leaves_is_held_and_released_as_a_whole(name: str) -> None:
    others, applied, fields, options, released = CASES[name]
    step, found = _step(*others, applied=applied)
    assert found == fields
    assert step.live is not None
    held = held_fields(step.desired, step.live, TARGET.manager)
    expected = held if released else ()
    assert releasable(step, step.live, held, TARGET, options) == expected


def test_entry_that_is_not_ours_is_not_held() -> None:
    """The entry is another manager's alone: no apply of ours gives it up."""
    _, found = _step({ITEM_B: HELD}, ours={"f:webhooks": {ITEM_A: WHOLE}})
    assert found == ()


def test_message_of_a_bundle_has_the_manager_and_the_way_out() -> None:
    """Before the server's own words, which may be long."""
    step, _ = _step({ITEM_B: HELD})
    assert step.live is not None
    held = held_fields(step.desired, step.live, TARGET.manager)
    refused = Invalid("webhooks[1].sideEffects: Required value" * 30, code=422, causes=[])
    conflict = exclusion(refused, held, HOLDS)
    told = problem_message(
        explain_conflict(conflict, step.desired, step.live, TARGET, reverts=False)
    )
    assert f"{INJECTED[0]}: owned by other-0" in told
    assert told.endswith("spec.conflicts: force, or annotate applyprune.dev/conflicts: force")


@pytest.mark.parametrize(
    ("name", "manager", "kept"),
    [
        pytest.param(
            "named by the user", "cainjector", True, marks=pytest.mark.holds("left-at-a-takeover")
        ),
        ("declared until now", "kubectl", False),
    ],
)
def test_take_over_leaves_what_a_default_rule_leaves(name: str, manager: str, kept: bool) -> None:
    """Not so what kubectl has declared: it is the old manifest."""
    step, _ = _step()
    entry = managed(manager) | {"fieldsV1": {"f:webhooks": {ITEM_A: HELD}}}
    pair = (manager, "Apply")
    named = frozenset({pair}) if kept else frozenset()
    migration = Migration(whole=frozenset({pair}), named=named)
    found = taken(Writer(entry), migration, step.desired.packed)
    assert ("caBundle" in str(found.fields_v1)) is not kept, name
    off = Migration(whole=frozenset({pair}), named=named, rules_off=frozenset({"ca-bundle"}))
    assert "caBundle" in str(taken(Writer(entry), off, step.desired.packed).fields_v1)


def test_string_data_is_data_of_a_secret_only() -> None:
    fields = FieldSet({"f:stringData": {"f:a": {}}, "f:data": {"f:b": {}}})
    secret, other = (
        Ref("", "Secret", "n", "s").group_kind,
        Ref("x.io", "Secret", "n", "s").group_kind,
    )
    assert as_stored(fields, secret).fields_v1 == {"f:data": {"f:b": {}, "f:a": {}}}
    assert as_stored(fields, other) == fields
    assert as_stored(FieldSet({"f:stringData": {}}), secret).fields_v1 == {}


@pytest.mark.parametrize(
    ("kind", "path", "left"),
    [
        (f"{GROUP}/v1 {KIND}", ("webhooks", "x", "clientConfig", "caBundle"), True),
        ("apiregistration.k8s.io/v1 APIService", ("spec", "caBundle"), True),
        ("apiregistration.k8s.io/v1 APIService", ("spec", "group"), False),
        ("v1 ConfigMap", ("data", "caBundle"), False),
        ("rbac.authorization.k8s.io/v1 ClusterRole", ("rules",), True),
        ("rbac.authorization.k8s.io/v1 Role", ("rules",), False),
    ],
)  # fmt: skip
def test_default_rules_name_fields_of_their_kinds(
    kind: str, path: tuple[str, ...], left: bool
) -> None:
    version, name = kind.split()
    body = {"apiVersion": version, "kind": name, "aggregationRule": {"clusterRoleSelectors": [{}]}}
    assert is_ignored_by_default(path, body, frozenset()) is left
    assert not is_ignored_by_default(path, body, frozenset({"ca-bundle", "aggregated-rules"}))
