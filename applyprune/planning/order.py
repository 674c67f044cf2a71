"""Put the objects of a set in order: waves by kind and dependency, whatever the input's order.

All objects of a wave are applied in parallel. Deletion uses the reverse order, so that custom
resources are deleted before their CRD, and contents before their namespace. The table has groups
and kinds, because a kind alone may belong to any CRD.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING

from applyprune.errors import InputError
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import Wave
from applyprune.model.live import CRD, NAMESPACE, mapping
from applyprune.model.plan import Desired
from applyprune.model.problem import Mark
from applyprune.planning.annotations import FARTHEST_WAVE, WAVE, wave_number
from applyprune.planning.dependencies import DEPENDS_ON, asked_for, brought, needed
from applyprune.planning.suggest import closest
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.model.problem import Origin

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"

_FIRST: tuple[frozenset[GroupKind], ...] = (
    frozenset({NAMESPACE}),
    frozenset({CRD}),
    # Objects that others refer to or are limited by.
    frozenset(
        {
            GroupKind("", "ConfigMap"),
            GroupKind("", "LimitRange"),
            GroupKind("", "PersistentVolume"),
            GroupKind("", "ResourceQuota"),
            GroupKind("", "Secret"),
            GroupKind("", "ServiceAccount"),
            GroupKind("networking.k8s.io", "IngressClass"),
            GroupKind("networking.k8s.io", "NetworkPolicy"),
            GroupKind("node.k8s.io", "RuntimeClass"),
            GroupKind("policy", "PodDisruptionBudget"),
            GroupKind(_RBAC, "ClusterRole"),
            GroupKind(_RBAC, "Role"),
            GroupKind("scheduling.k8s.io", "PriorityClass"),
            GroupKind("storage.k8s.io", "CSIDriver"),
            GroupKind("storage.k8s.io", "StorageClass"),
        }
    ),
    # A binding needs its role: the server checks escalation against it.
    frozenset(
        {
            GroupKind("", "PersistentVolumeClaim"),
            GroupKind("", "Service"),
            GroupKind(_RBAC, "ClusterRoleBinding"),
            GroupKind(_RBAC, "RoleBinding"),
        }
    ),
)
_BUILT_IN = frozenset(
    {
        "",
        "apps",
        "autoscaling",
        "batch",
        "extensions",
        "policy",
        _ADMISSION,
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        _RBAC,
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    }
)
_WORKLOADS = len(_FIRST)
# After the workloads, and so deleted before them: the controller that handles the finalizers of a
# custom resource is often a Deployment of the same set.
_CUSTOM = _WORKLOADS + 1
# Kinds that route or reject other requests come after everything else.
_LAST = frozenset(
    {
        GroupKind("apiregistration.k8s.io", "APIService"),
        GroupKind(_ADMISSION, "MutatingAdmissionPolicy"),
        GroupKind(_ADMISSION, "MutatingAdmissionPolicyBinding"),
        GroupKind(_ADMISSION, "MutatingWebhookConfiguration"),
        GroupKind(_ADMISSION, "ValidatingAdmissionPolicy"),
        GroupKind(_ADMISSION, "ValidatingAdmissionPolicyBinding"),
        GroupKind(_ADMISSION, "ValidatingWebhookConfiguration"),
    }
)
_RANKS = {kind: rank for rank, kinds in enumerate(_FIRST) for kind in kinds} | dict.fromkeys(
    _LAST, _CUSTOM + 1
)


def is_built_in(group: str) -> bool:
    """Return whether the API server itself serves a group, without a CRD."""
    return group in _BUILT_IN


def rank_of(group_kind: GroupKind) -> int:
    """Return the rank of a kind, from 0."""
    return _RANKS.get(group_kind, _WORKLOADS if is_built_in(group_kind.group) else _CUSTOM)


def wave_of(group_kind: GroupKind, *, asked: int = 0) -> Wave:
    """Return the wave of an object without dependencies; ``asked`` is the annotation's wave."""
    return Wave(asked, rank_of(group_kind))


_MARKED = ("metadata", "annotations", DEPENDS_ON)


def in_order(
    desired: Mapping[Ref, Desired],
    moved: Mapping[Ref, Ref] = MappingProxyType({}),
    elsewhere: Collection[Ref] = (),
) -> tuple[Sequence[Desired], Sequence[InputError]]:
    """Return the objects in the order of their waves, with waves and dependencies set; and errors.

    The order is the wave of the annotation, then the rank of the kind, then the dependencies.
    ``moved`` maps refs in manifests to the refs after a namespace override. Objects may depend on
    refs in ``elsewhere``, which are not in the set, or are invalid in the input. There is an error
    for each other dependency that is not in the set, and for each cycle; the order ignores these.
    """
    brings = brought(desired)
    errors: list[InputError] = []
    asked: dict[Ref, int] = {}
    settled: dict[Ref, Desired] = {}
    # Most objects of a namespace need the same: each such set exists once.
    same: dict[frozenset[Ref], frozenset[Ref]] = {}
    for ref, member in desired.items():
        try:
            asked[ref] = wave_asked(member.body["metadata"], member.origin)
        except InputError as error:
            errors.append(error)
            asked[ref] = 0
        depends_on: tuple[Ref, ...] = ()
        try:
            named = asked_for(member.body["metadata"], member.origin)
            depends_on = tuple(need if need in desired else moved.get(need, need) for need in named)
            _refuse_missing(member, depends_on, desired, elsewhere)
        except InputError as error:
            errors.append(error)
        needs = frozenset(
            need for need in needed(member, brings) if need in desired and need != ref
        )
        needs = same.setdefault(needs, needs)
        settled[ref] = replace(member, depends_on=depends_on, needs=needs)
    order, cycles = _sorted(
        {
            ref: sorted({need for need in (*member.depends_on, *member.needs) if need in settled})
            for ref, member in sorted(settled.items())
        }
    )
    errors += (_cycle(cycle, settled) for cycle in cycles)
    waves: dict[Ref, Wave] = {}
    distinct: dict[Wave, Wave] = {}
    for ref, befores in order.items():
        wave = wave_of(ref.group_kind, asked=asked[ref])
        for before in befores:
            earlier = waves[before]
            wave = max(wave, earlier._replace(depth=earlier.depth + 1))
        waves[ref] = distinct.setdefault(wave, wave)
    done = (replace(settled[ref], wave=wave) for ref, wave in waves.items())
    return tuple(sorted(done, key=lambda member: (member.wave, member.ref))), errors


def _sorted(
    graph: Mapping[Ref, Sequence[Ref]],
) -> tuple[Mapping[Ref, Sequence[Ref]], Sequence[Sequence[Ref]]]:
    """Return a graph in the order of its dependencies, and the cycles that were cut for that."""
    left = {ref: list(befores) for ref, befores in graph.items()}
    cycles: list[Sequence[Ref]] = []
    while True:
        try:
            order = tuple(TopologicalSorter(left).static_order())
        except CycleError as error:
            # The sorter repeats the first node at the end, and lists a node after its dependents.
            cycle = list(reversed(error.args[1]))
            cycles.append(cycle)
            left[cycle[0]].remove(cycle[1])
        else:
            return {ref: left[ref] for ref in order}, cycles


def wave_asked(metadata: Mapping[str, object], origin: Origin) -> int:
    """Return the wave of the annotation, 0 by default; raise InputError if it is invalid."""
    text = str(mapping(metadata.get("annotations")).get(WAVE, "0")).strip()
    wave = wave_number(text)
    if wave is None:
        raise InputError(
            f"invalid {WAVE}",
            location=origin,
            reason=f"{text!r} is not a whole number from -{FARTHEST_WAVE} to {FARTHEST_WAVE}",
            field=("metadata", "annotations", WAVE),
        )
    return wave


def _refuse_missing(
    dependent: Desired,
    depends_on: tuple[Ref, ...],
    desired: Mapping[Ref, Desired],
    elsewhere: Collection[Ref],
) -> None:
    missing = [ref for ref in depends_on if ref not in desired and ref not in elsewhere]
    if not missing:
        return
    lacking = missing[0]
    alike = (
        ref
        for ref in desired
        if ref != dependent.ref
        and (ref.group_kind == lacking.group_kind or ref.name == lacking.name)
    )
    close = closest(str(lacking), map(str, alike))
    meant = f"Did you mean {close}? " if close else ""
    raise InputError(
        f"{dependent.ref} depends on an object outside the set: {', '.join(map(str, missing))}",
        location=dependent.origin,
        hint=f"{meant}Add it to the input, or remove it from {DEPENDS_ON}. Check its namespace.",
        field=_MARKED,
    )


def _cycle(refs: Sequence[Ref], desired: Mapping[Ref, Desired]) -> InputError:
    places = " → ".join(f"{ref.short} ({desired[ref].origin})" for ref in refs)
    marks = []
    for ref, before in pairwise(refs):
        member = desired[ref]
        field = _MARKED if before in member.depends_on else ("metadata", "name")
        marks.append(Mark(field, f"{ref.short} needs {before.short}", member.origin))
    return InputError(
        "objects depend on each other in a cycle",
        location=desired[refs[0]].origin,
        reason=places,
        hint=f"Remove a dependency from {DEPENDS_ON}.",
        marks=marks,
    )
