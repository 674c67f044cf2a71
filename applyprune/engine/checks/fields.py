"""Check the fields of every object to send against the server's own schemas; change nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from applyprune.errors import ApplypruneError
from applyprune.model.identity import GVK, GroupKind, Ref
from applyprune.model.live import CRD
from applyprune.model.options import DryRun
from applyprune.model.plan import ApplyStep, Desired, Fate, Plan
from applyprune.model.problem import Problem
from applyprune.planning.schemas import (
    KindSchema,
    custom_schema,
    field_faults,
    fields_problem,
    kind_schema,
)
from applyprune.planning.served_kinds import defined_resources, schema_of
from applyprune.values import dataclass, replace

if TYPE_CHECKING:
    from applyprune.engine.context import RunContext, WorkerPool
    from applyprune.engine.ports import Cluster
    from applyprune.model.live import Resource
    from applyprune.planning.recovery import ClusterSnapshot

_Schemas: TypeAlias = "Mapping[str, Any] | str"
"""The schemas of a group version, or why there are none."""
_NO_SCHEMA = "its fields are not checked: the server publishes no schema of its kind"
_OPEN = "its fields are not checked: its CRD is in the same input, without a schema"


def with_fields_checked(plan: Plan, context: RunContext, snapshot: ClusterSnapshot) -> Plan:
    """Return a plan that refuses every object with an unknown field or a value of a wrong type.

    A client dry run checks nothing.
    """
    if context.options.dry_run is DryRun.CLIENT:
        return plan
    custom = {kind for kind, generation in snapshot.schemas.items() if generation is not None}
    found = field_check(context.cluster, context.workers, plan.applies, custom)
    applies = (_judged(step, found) for step in plan.applies)
    return replace(plan, applies=tuple(applies))


@dataclass(frozen=True, slots=True)
class FieldCheck:
    """The result of the check."""

    faults: Mapping[Ref, Problem]
    """The problem of each object with faulty fields."""
    not_checked: Mapping[Ref, str]
    """Why the fields of an object were not checked."""


def _judged(step: ApplyStep, found: FieldCheck) -> ApplyStep:
    ref = step.desired.ref
    if (problem := found.faults.get(ref)) is not None:
        return replace(step, fate=Fate.REFUSE, request=None, problem=problem)
    return replace(step, not_checked=found.not_checked.get(ref, step.not_checked))


def field_check(
    cluster: Cluster,
    workers: WorkerPool,
    steps: Sequence[ApplyStep],
    custom: Collection[GroupKind] = (),
) -> FieldCheck:
    """Check the names and the types of the fields of every object that a plan sends.

    It reads one document for each group version, and none if nothing is sent. ``custom`` are the
    kinds that a CRD in the cluster defines.
    """
    sending = {step.desired.ref: step for step in steps if step.request is not None}
    known = _known(cluster, workers, [step.desired for step in sending.values()], custom)
    problems: dict[Ref, Problem] = {}
    not_checked: dict[Ref, str] = {}
    for ref, step in sending.items():
        schema = known[step.desired.resource.gvk]
        if isinstance(schema, str):
            not_checked[ref] = schema
        elif step.request and (faults := field_faults(step.request.body, schema)):
            problems[ref] = fields_problem(step.desired, faults)
    return FieldCheck(problems, not_checked)


def _known(
    cluster: Cluster,
    workers: WorkerPool,
    sending: Sequence[Desired],
    custom: Collection[GroupKind],
) -> Mapping[GVK, KindSchema | str]:
    """Return the schema of each kind, or why it is not known."""
    defined = _defined(sending)
    known: dict[GVK, KindSchema | str] = {
        gvk: custom_schema(schema) if schema is not None else _OPEN
        for gvk, schema in defined.items()
    }
    wanted = {desired.resource.gvk: desired.resource for desired in sending}
    served = {gvk: resource for gvk, resource in wanted.items() if gvk not in defined}
    documents = _documents(cluster, workers, served.values())
    for gvk in served:
        schemas = documents[gvk.api_version]
        if isinstance(schemas, str):
            known[gvk] = schemas
        else:
            is_custom = gvk.group_kind in custom
            known[gvk] = kind_schema(schemas, gvk, custom=is_custom) or _NO_SCHEMA
    return known


def _defined(sending: Sequence[Desired]) -> Mapping[GVK, Mapping[str, Any] | None]:
    """Return the schema of each kind that a CRD to send defines."""
    return {
        resource.gvk: schema_of(desired.body, resource.version)
        for desired in sending
        if desired.ref.group_kind == CRD
        for resource in defined_resources(desired.body)
    }


def _documents(
    cluster: Cluster, workers: WorkerPool, resources: Collection[Resource]
) -> Mapping[str, _Schemas]:
    """Return the schemas of each group version."""

    def read(resource: Resource) -> tuple[str, _Schemas]:
        try:
            return resource.gvk.api_version, cluster.schemas(resource)
        except ApplypruneError as error:
            reason = f"its fields are not checked: its schema cannot be read: {error.message}"
            return resource.gvk.api_version, reason

    versions = {resource.gvk.api_version: resource for resource in resources}
    documents = dict(workers.each(read, versions.values()))
    workers.check()
    return documents
