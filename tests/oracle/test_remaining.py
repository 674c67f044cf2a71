"""A prune keeps all that the frozen rule kept.

The row of house.md §5: what must stay when a deletion fails.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Wave
from applyprune.model.plan import RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.leave import Remaining
from tests.oracle.frozen import frozen, module
from tests.support.planning import live

if TYPE_CHECKING:
    from collections.abc import Mapping

WORLDS = 1500
KINDS = (
    ("", "Namespace"),
    ("", "ConfigMap"),
    ("", "Secret"),
    ("", "ServiceAccount"),
    ("", "Service"),
    ("apps", "Deployment"),
    ("networking.k8s.io", "Ingress"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("x.io", "Widget"),
)
CLUSTER_SCOPED = {"Namespace", "CustomResourceDefinition", "APIService"}
FIXED = {"CustomResourceDefinition": "widgets.x.io", "APIService": "v1.x.io"}
POD = {"serviceAccountName": "b", "containers": [], "volumes": [{"secret": {"secretName": "a"}}]}
BODIES: Mapping[str, dict[str, Any]] = {
    "Deployment": {"spec": {"template": {"spec": POD}}},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "a"}}}},
    "RoleBinding": {"roleRef": {"kind": "Role", "name": "a"}},
    "APIService": {"spec": {"service": {"namespace": "a", "name": "b"}}},
    "Widget": {"spec": {"secretRef": "a", "account": "b"}},
}


def _ref(rng: random.Random) -> Ref:
    group, kind = rng.choice(KINDS)
    name = FIXED.get(kind) or rng.choice("ab")
    return Ref(group, kind, "" if kind in CLUSTER_SCOPED else rng.choice("ab"), name)


def _step(ref: Ref, rng: random.Random) -> RemoveStep:
    entry = InventoryEntry(
        ref,
        plural=f"{ref.kind.lower()}s",
        version="v1",
        uid_before_apply=None,
        wave=Wave(rng.randrange(2), rng.randrange(3)),
        depends_on=tuple(_ref(rng) for _ in range(rng.randrange(2))),
    )
    owners = [{"apiVersion": "v1", "kind": "ConfigMap", "uid": f"uid-{_ref(rng)}"}]
    finalizers = ["x.io/hold"] if rng.random() < 0.2 else []
    state = live(
        ref, uid=f"uid-{ref}", finalizers=finalizers, ownerReferences=owners * rng.randrange(2)
    )
    return RemoveStep(entry, None, rng.choice([Fate.PRUNE, Fate.PRUNE, Fate.LEAVE]), live=state)


def _kept(steps: Mapping[Ref, RemoveStep], ends: Mapping[Ref, str], *, old: bool) -> set[Ref]:
    """Return what one prune does not delete; ``ends`` says how each deletion would end."""
    deleting = {ref for ref, step in steps.items() if step.fate is Fate.PRUNE}
    now = Remaining(deleting)
    before = module("planning.leave").Remaining(frozen(deleting))

    def keep(ref: Ref, failure: Problem | None, *, is_changed: bool = False) -> None:
        body, unread = _fields(ref, ends)
        if not old:
            now.keep(steps[ref], body, unread, failure)
        elif failure is None or is_changed:
            before.keep(frozen(steps[ref]), body, unread, is_failure=is_changed)
        else:
            before.add(frozen(steps[ref]), frozen(failure), body, unread)

    kept = set(steps) - deleting
    for ref in sorted(kept):
        keep(ref, None)
    orders = {
        ref: (step.entry.wave, bool(step.live.finalizers))
        for ref, step in steps.items()
        if step.live
    }
    for order in sorted(set(orders.values()), reverse=True):
        left: dict[Ref, Problem | None] = {}
        for ref in sorted(one for one in deleting if orders[one] == order):
            found: Any = before.blocker(frozen(steps[ref])) if old else now.blocker(steps[ref])
            if found is not None:
                left[ref] = _WAITS if found.is_failure else None
            elif ends[ref] in _PROBLEMS:
                left[ref] = _PROBLEMS[ends[ref]]
        kept |= left.keys()
        for ref, failure in left.items() if old or not now.waits(order[0]) else ():
            keep(ref, failure, is_changed=failure is _CHANGED)
    return kept


_WAITS, _CHANGED = (Problem(ProblemKind.RUN_FAILED, text) for text in ("it waits", "it is marked"))
_PROBLEMS = {
    "fails": Problem(ProblemKind.FORBIDDEN, "no"),
    "fails, unread": Problem(ProblemKind.FORBIDDEN, "no"),
    "ends with the server": Problem(ProblemKind.UNREACHABLE, "no"),
    "times out": Problem(ProblemKind.NOT_READY, "no"),
    "is marked": _CHANGED,
    "is marked, unread": _CHANGED,
}


ENDS = (*["goes"] * 8, "goes, but unread", *_PROBLEMS)


def _fields(ref: Ref, ends: Mapping[Ref, str]) -> tuple[dict[str, Any] | None, str]:
    return (None, "no") if ends[ref].endswith("unread") else (BODIES.get(ref.kind, {}), "")


def test_prune_keeps_what_the_frozen_rule_kept() -> None:
    """In worlds in which deletions fail, time out, cannot be read or are taken back."""
    held = 0
    for seed in range(WORLDS):
        rng = random.Random(seed)  # noqa: S311 - a generated world
        steps = {ref: _step(ref, rng) for ref in dict.fromkeys(_ref(rng) for _ in range(12))}
        ends = {ref: rng.choice(ENDS) for ref in steps}
        old = _kept(steps, ends, old=True)
        assert old <= _kept(steps, ends, old=False), seed
        held += len(old)
    assert held > WORLDS
