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


ENDS = (
    *["goes"] * 6,
    "fails",
    "times out",
    "is marked",
    "fails, unread",
    "is marked, unread",
    "goes, but unread",
)


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

    def keep(ref: Ref, *, is_failure: bool) -> None:
        body, unread = _fields(ref, ends)
        if old:
            before.keep(frozen(steps[ref]), body, unread, is_failure=is_failure)
        else:
            now.keep(steps[ref], body, unread, is_failure=is_failure)

    kept = set(steps) - deleting
    for ref in sorted(kept):
        keep(ref, is_failure=False)
    for order in sorted({step.entry.wave for step in steps.values()}, reverse=True):
        failed, changed, stays = set[Ref](), set[Ref](), set[Ref]()
        for ref in sorted(one for one in deleting if steps[one].entry.wave == order):
            found: Any = before.blocker(frozen(steps[ref])) if old else now.blocker(steps[ref])
            if found is not None:
                (failed if found.is_failure else stays).add(ref)
            elif ends[ref] in {"fails", "times out", "fails, unread"}:
                failed.add(ref)
            elif ends[ref].startswith("is marked"):
                changed.add(ref)
        kept |= failed | changed | stays
        for ref in sorted(failed) if old else ():
            kind = ProblemKind.NOT_READY if ends[ref] == "times out" else ProblemKind.UNREACHABLE
            before.add(frozen(steps[ref]), frozen(Problem(kind, "no")), *_fields(ref, ends))
        if not old and failed | changed:
            now.wait(min(failed | changed), is_late=False)
        for ref in sorted(changed | stays):
            keep(ref, is_failure=ref in changed)
    return kept


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
