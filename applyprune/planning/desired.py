"""Manifests → desired objects: endpoint, scope and namespace settled, before anything is written.

Refs are final here: from discovery or, for a kind that is yet to come, from the CRD in the input.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from applyprune.errors import InputError, InputErrors, as_problem, raise_all
from applyprune.model.identity import Ref
from applyprune.model.inventory import FIRST_WAVE
from applyprune.model.json_access import mapping
from applyprune.model.options import Options
from applyprune.model.plan import Desired
from applyprune.model.problem import Mark, Problem, ProblemKind
from applyprune.model.resources import CRD
from applyprune.planning.annotations import READY_WHEN, orphan_mark
from applyprune.planning.applyset import PART_OF, SET_ID, ApplySetIdentity
from applyprune.planning.fields.normalize import manifest_digest, normalize
from applyprune.planning.order import in_order
from applyprune.planning.ownership.ignored_fields import conflict_rule, ignored_fields
from applyprune.planning.readiness.wait_rules import wait_word
from applyprune.planning.schema.crd import defined_resources
from applyprune.planning.schema.server_errors import is_recreation_allowed
from applyprune.planning.suggest import advice_for_kind

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from applyprune.model.identity import GVK
    from applyprune.model.manifest import Manifest
    from applyprune.model.resources import Resource, ResourceMap

_PLAIN = Options()
_NAME = ("metadata", "name")


@dataclass(frozen=True, slots=True)
class Resolved:
    """The desired objects in the order of their waves, and what the user should know of them.

    ``unknown`` are those of an API group whose server does not answer: they fail, no other does.
    """

    desired: tuple[Desired, ...]
    warnings: tuple[Problem, ...]
    unknown: tuple[tuple[Ref, Problem], ...] = ()


class _Silent(InputError):
    """What an object is cannot be told: the server of its API group does not answer."""


def resolve(
    manifests: Sequence[Manifest],
    catalogue: ResourceMap,
    target: ApplySetIdentity,
    *,
    namespace: str,
    options: Options = _PLAIN,
    elsewhere: Collection[Ref] = (),
) -> Resolved:
    """Settle every manifest, and return those that the options select.

    ``namespace`` fills in a missing one and never overrides one; that is what the option for it
    does, and it leaves what manifests name in their own fields as it is. What is not selected must
    be right all the same: the others may depend on it. They may depend on what is ``elsewhere``,
    too. Raises InputErrors with everything that is wrong: an unknown kind, one object twice, an
    ApplySet label that is already there, the set's own inventory, an annotation that cannot be
    read, a dependency that is missing or goes round in a circle.
    """
    coming = {
        resource.gvk: resource
        for manifest in manifests
        if manifest.gvk.group_kind == CRD
        for resource in defined_resources(manifest.body)
    }
    errors: list[InputError] = []
    wrong: set[Ref] = set()
    warnings: list[Problem] = []
    desired: dict[Ref, Desired] = {}
    unknown: list[tuple[Ref, Problem]] = []
    override, selector = options.apply.namespace_override, options.apply.selector
    selected: set[Ref] = set()
    moved: dict[Ref, Ref] = {}
    for manifest in manifests:
        home = override or manifest.namespace or namespace
        is_selected = selector is None or selector.matches(labels_of(manifest))
        try:
            resource = _resource(manifest, catalogue, coming)
            one = _settle(manifest, resource, target, home)
            _check(one, manifest, target, desired, override=override)
        except _Silent as error:
            if is_selected:
                unknown.append((_likely_ref(manifest, home), as_problem(error)))
            continue
        except InputError as error:
            errors.append(error)
            # It is in the input all the same: what depends on it lacks nothing.
            likely = _likely_ref(manifest, home)
            wrong |= {likely, replace(likely, namespace="")}
            continue
        desired[one.ref] = one
        if is_selected:
            selected.add(one.ref)
        if override and resource.namespaced:
            moved[replace(one.ref, namespace=manifest.namespace or namespace)] = one.ref
        if manifest.namespace and not resource.namespaced:
            warnings.append(
                Problem(
                    kind=ProblemKind.IGNORED_NAMESPACE,
                    message=f"{one.ref.short} is cluster-scoped: its namespace is ignored",
                    location=str(manifest.origin),
                    origin=manifest.origin,
                    field=("metadata", "namespace"),
                    hint=f"Remove metadata.namespace {manifest.namespace!r} from the manifest.",
                )
            )
    try:
        ordered = in_order(desired, moved, {*elsewhere, *wrong})
    except InputErrors as several:
        errors += several.errors
    except InputError as error:
        errors.append(error)
    raise_all(errors)
    taken = tuple(one for one in ordered if one.ref in selected)
    return Resolved(taken, tuple(warnings), tuple(unknown))


def labels_of(manifest: Manifest) -> Mapping[str, Any]:
    """Return the labels that a manifest gives its object."""
    return mapping(manifest.body["metadata"].get("labels"))


def _likely_ref(manifest: Manifest, home: str) -> Ref:
    """Return what names an object whose scope is not known."""
    return Ref(manifest.gvk.group, manifest.gvk.kind, home, manifest.name)


def _resource(
    manifest: Manifest, catalogue: ResourceMap, coming: Mapping[GVK, Resource]
) -> Resource:
    found = catalogue.find(manifest.gvk) or coming.get(manifest.gvk)
    if found is not None:
        return found
    gvk = manifest.gvk
    if gvk.group in catalogue.stale:
        raise _Silent(
            f"cannot tell what {gvk} is",
            location=manifest.origin,
            reason=f"the server of the API group {gvk.group} does not answer",
            hint=f"See `kubectl get apiservice {gvk.version}.{gvk.group}`.",
        )
    kinds = catalogue.preferred
    is_kind = any(kind.kind == gvk.kind for kind in kinds)
    is_group = any(kind.group == gvk.group for kind in kinds)
    raise InputError(
        f"the server knows no kind {gvk.kind} in {gvk.api_version}",
        location=manifest.origin,
        hint=advice_for_kind(gvk, catalogue, coming.values()),
        # Where the kind is right, the group or version is wrong.
        field=("kind",) if is_group and not is_kind else ("apiVersion",),
    )


def _settle(
    manifest: Manifest, resource: Resource, target: ApplySetIdentity, namespace: str
) -> Desired:
    home = namespace if resource.namespaced else ""
    ref = Ref(resource.group, resource.kind, home, manifest.name)
    body = normalize(manifest.body, namespace=home, set_id=target.id)
    spec = mapping(body.get("spec"))
    return Desired(
        ref=ref,
        resource=resource,
        body=body,
        digest=manifest_digest(body),
        wave=FIRST_WAVE,
        orphan_reason=orphan_mark(body["metadata"]),
        once=(ref.group, ref.kind) == ("batch", "Job")
        and spec.get("ttlSecondsAfterFinished") is not None,
        origin=manifest.origin,
        recreate=is_recreation_allowed(body["metadata"], manifest.origin),
        conflicts=conflict_rule(body, manifest.origin),
        ignored=ignored_fields(body, manifest.origin),
        wait=wait_word(body["metadata"], manifest.origin),
        ready_when=str(mapping(body["metadata"].get("annotations")).get(READY_WHEN, "")),
    )


def _check(
    one: Desired,
    manifest: Manifest,
    target: ApplySetIdentity,
    seen: Mapping[Ref, Desired],
    *,
    override: str,
) -> None:
    if (twin := seen.get(one.ref)) is not None:
        together = " --namespace-override puts both there." if override else ""
        raise InputError(
            f"{one.ref} is in the set twice",
            location=manifest.origin,
            reason=f"it is also in {twin.origin}",
            hint=f"Remove one of the two.{together}",
            marks=(Mark(_NAME, "here"), Mark(_NAME, "and here", twin.origin)),
        )
    labels = labels_of(manifest)
    for label in (PART_OF, SET_ID):
        if label in labels:
            raise InputError(
                f"{one.ref} already carries the label {label}",
                location=manifest.origin,
                reason="applyprune sets it: it says which set an object belongs to",
                hint="Remove the label from the manifest.",
                field=("metadata", "labels", label),
            )
    if target.records_in(one.ref):
        raise InputError(
            f"{one.ref} is the inventory of this very set",
            location=manifest.origin,
            hint="Remove it from the input, or choose another name for the set.",
            field=_NAME,
        )
