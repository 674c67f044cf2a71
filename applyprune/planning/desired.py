"""Turn manifests into desired objects: find endpoint, scope and namespace before any write.

The refs are final: they come from discovery or, for a new kind, from the CRD in the input.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.errors import InputError, as_problem
from applyprune.model.identity import GVK, GroupKind, Ref
from applyprune.model.inventory import FIRST_WAVE
from applyprune.model.live import CRD, Resource, ResourceMap, mapping
from applyprune.model.options import Options
from applyprune.model.plan import Desired, Recreate
from applyprune.model.problem import Problem
from applyprune.planning.annotations import (
    IGNORED,
    READY_WHEN,
    annotation_errors,
    orphan_mark,
    recreate_rule,
    timeout_of,
)
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.checks.helm_hooks import (
    ChartHook,
    find_hooks,
    hooks_refusal,
    hooks_warning,
    is_undecided,
)
from applyprune.planning.checks.late_kinds import LateObject
from applyprune.planning.checks.non_members import refuse_non_member
from applyprune.planning.checks.unsent_parts import unsent_parts
from applyprune.planning.dependencies import asked_for
from applyprune.planning.fields.ignore_rule import IgnoreRule, parse_rule
from applyprune.planning.fields.normalize import (
    manifest_digest,
    normalize,
    ruled_digest,
    with_manifest_digest,
)
from applyprune.planning.fields.null_fields import without_nulls, without_status
from applyprune.planning.inventory.selection import is_applied_part
from applyprune.planning.marks.apply_mark import (
    apply_rule,
    is_disabled,
    peer_errors,
    unread_marks,
)
from applyprune.planning.order import in_order, is_built_in, wave_asked
from applyprune.planning.ownership.default_rules import without_defaults
from applyprune.planning.ownership.ignored_fields import (
    conflict_rule,
    ignored_fields,
    matching_pointers,
)
from applyprune.planning.readiness.wait_rules import wait_word
from applyprune.planning.schema.crd import defined_resources, served_versions
from applyprune.planning.suggest import advice_for_kind
from applyprune.values import dataclass, field, packed, replace

if TYPE_CHECKING:
    from applyprune.model.problem import Manifest

_PLAIN = Options()
_NAME = ("metadata", "name")
_MAY_COME = "If a controller installs it while the set is applied: apply --wait-for-kinds 2m."


@dataclass(frozen=True, slots=True)
class Resolved:
    """The result of ``resolve``."""

    desired: tuple[Desired, ...]
    """The desired objects in the order of their waves; with ``errors``, the valid ones."""
    warnings: tuple[Problem, ...]
    errors: tuple[InputError, ...] = ()
    """Everything that is wrong with the input; with any, nothing of it may be applied."""
    unknown: tuple[tuple[Ref, Problem], ...] = ()
    """The objects of an API group whose server does not answer: only these fail."""
    manifests: tuple[Manifest, ...] = ()
    """The manifests of the set: all but the chart hooks that are left out."""
    left_out: Mapping[Ref, ChartHook] = field(default_factory=dict, hash=False)
    """The chart hooks that do not belong to the set."""
    late: tuple[LateObject, ...] = ()
    """The selected objects whose kinds are not served yet, if that is allowed."""
    kinds: frozenset[GroupKind] = frozenset()
    """The kinds of all valid objects of the input, selected or not."""


class KindNotServed(InputError):
    """The kind of an object is neither served nor in the input; a controller may install it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules for fields that are left to others."""

    given: tuple[IgnoreRule, ...] = ()
    """The user's own rules."""
    off: frozenset[str] = frozenset()
    """The default rules that are switched off."""


class _Silent(InputError):
    """The kind of an object is unknown: the server of its API group does not answer."""


def resolve(
    manifests: Sequence[Manifest],
    catalogue: ResourceMap,
    applyset: ApplySetIdentity,
    *,
    namespace: str,
    options: Options = _PLAIN,
    elsewhere: Collection[Ref] = (),
    allows_late: bool = False,
) -> Resolved:
    """Resolve every manifest, and return those that the options select.

    ``namespace`` is used for objects without a namespace. Only options.namespace_override replaces
    a namespace; it does not change namespaces in other fields of manifests. An object that is not
    selected must also be valid, because others may depend on it. Objects may also depend on refs in
    ``elsewhere``. With ``allows_late``, a custom kind may be unknown: its objects are not resolved;
    with options.wait.kinds, neither are such objects that are not selected.
    An error is an unknown kind, a duplicate object, an ApplySet label in a manifest,
    the set's own inventory, an invalid annotation, a missing dependency, a chart hook that needs a
    decision, or a cycle.
    """
    found = find_hooks(manifests, options.apply.helm_hooks)
    coming = {
        resource.gvk: resource
        for manifest in found.manifests
        if manifest.gvk.group_kind == CRD and not is_disabled(manifest)
        for resource in defined_resources(manifest.body)
    }
    versions = served_versions(catalogue, coming.values())
    rules = Rules(tuple(map(parse_rule, options.apply.ignore)), options.apply.no_default_ignore)
    late = _late(
        found.manifests, catalogue, coming, namespace, options, allows_selected=allows_late
    )
    errors: list[InputError] = [*found.errors, *late.errors]
    wrong: set[Ref] = {ref for one in late.objects for ref in one.refs}
    warnings: list[Problem] = [*unread_marks(found.manifests)]
    desired: dict[Ref, Desired] = {}
    unknown: list[tuple[Ref, Problem]] = []
    override = options.apply.namespace_override
    selected: set[Ref] = set()
    moved: dict[Ref, Ref] = {}
    for manifest in late.others:
        own_namespace = override or manifest.namespace or namespace
        is_decided = not is_undecided(manifest, options.apply.helm_hooks)
        faults = _mark_errors(manifest)
        try:
            resource = _resource(manifest, catalogue, coming)
            candidate = _settle(manifest, resource, applyset, own_namespace, versions, rules)
            refuse_non_member(candidate, manifest, applyset, desired, override=override)
        except _Silent as error:
            likely = _likely_ref(manifest, own_namespace)
            if is_decided and is_applied_part(options, labels_of(manifest), likely):
                unknown.append((likely, as_problem(error)))
            errors += faults
            continue
        except InputError as error:
            faults.append(error)
        if faults:
            errors += faults
            # It is in the input, so objects that depend on it need no further error.
            likely = _likely_ref(manifest, own_namespace)
            wrong |= {likely, replace(likely, namespace="")}
            continue
        desired[candidate.ref] = candidate
        if is_decided and is_applied_part(options, labels_of(manifest), candidate.ref):
            selected.add(candidate.ref)
        if override and resource.namespaced:
            moved[replace(candidate.ref, namespace=manifest.namespace or namespace)] = candidate.ref
        warnings += unsent_parts(candidate, manifest)
    hooks = [
        hook
        for hook in found.hooks
        if is_applied_part(
            options,
            labels_of(hook.manifest),
            _hook_ref(hook, catalogue, override or hook.manifest.namespace or namespace),
        )
    ]
    if (refused := hooks_refusal(hooks, options.apply.helm_hooks)) is not None:
        errors.append(refused)
    if (left := hooks_warning(hooks, options.apply.helm_hooks)) is not None:
        warnings.append(left)
    ordered, misplaced = in_order(desired, moved, {*elsewhere, *wrong})
    errors += misplaced
    taken = tuple(candidate for candidate in ordered if candidate.ref in selected)
    left_out = {
        _hook_ref(hook, catalogue, override or hook.manifest.namespace or namespace): hook
        for hook in found.hooks
        if hook.is_left_out(options.apply.helm_hooks)
    }
    return Resolved(
        taken,
        tuple(warnings),
        tuple(errors),
        tuple(unknown),
        found.manifests,
        left_out,
        late.selected,
        frozenset(ref.group_kind for ref in desired),
    )


@dataclass(slots=True)
class _Late:
    """The manifests of kinds that are not served yet, and the others."""

    others: list[Manifest] = field(default_factory=list)
    objects: list[LateObject] = field(default_factory=list)
    selected: tuple[LateObject, ...] = ()
    errors: list[InputError] = field(default_factory=list)


def _late(
    manifests: Sequence[Manifest],
    catalogue: ResourceMap,
    coming: Mapping[GVK, Resource],
    namespace: str,
    options: Options,
    *,
    allows_selected: bool,
) -> _Late:
    """Part the manifests; of a late object, only its annotations can be checked."""
    late = _Late()
    for manifest in manifests:
        hint = _hint_if_unserved(manifest, catalogue, coming) if options.wait.kinds else ""
        own_namespace = options.apply.namespace_override or manifest.namespace or namespace
        likely = _likely_ref(manifest, own_namespace)
        is_selected = bool(hint) and any(
            is_applied_part(options, labels_of(manifest), ref)
            for ref in (likely, replace(likely, namespace=""))
        )
        if not hint or (is_selected and not allows_selected):
            late.others.append(manifest)
            continue
        metadata, wave = manifest.body["metadata"], 0
        late.errors += _mark_errors(manifest)
        try:
            wave = wave_asked(metadata, manifest.origin)
            asked_for(metadata, manifest.origin)
            timeout_of(metadata, manifest.origin)
        except InputError as error:
            late.errors.append(error)
        one = LateObject(likely, manifest.gvk, manifest.origin, wave, hint)
        late.objects.append(one)
        if is_selected:
            late.selected = (*late.selected, one)
    return late


def _hint_if_unserved(
    manifest: Manifest, catalogue: ResourceMap, coming: Mapping[GVK, Resource]
) -> str:
    """Return what may be meant instead of a kind that may come; empty for any other kind."""
    try:
        _resource(manifest, catalogue, coming)
    except KindNotServed as error:
        return error.hint
    except InputError:
        pass
    return ""


def _mark_errors(manifest: Manifest) -> list[InputError]:
    """Return an error for each annotation that applyprune or its own tool would not understand."""
    metadata, origin = manifest.body["metadata"], manifest.origin
    kind = manifest.gvk.group_kind
    return [
        *annotation_errors(metadata, origin, kind),  # guard: unknown-annotation
        *peer_errors(metadata, origin),  # guard: unknown-peer-value
    ]


def labels_of(manifest: Manifest) -> Mapping[str, Any]:
    """Return the labels that a manifest gives its object."""
    return mapping(manifest.body["metadata"].get("labels"))


def _likely_ref(manifest: Manifest, namespace: str) -> Ref:
    """Return the probable ref of an object whose scope is unknown."""
    return Ref(manifest.gvk.group, manifest.gvk.kind, namespace, manifest.name)


def _hook_ref(hook: ChartHook, catalogue: ResourceMap, namespace: str) -> Ref:
    scoped = _is_namespaced(hook.manifest.gvk, catalogue)
    return _likely_ref(hook.manifest, namespace if scoped else "")


def _is_namespaced(gvk: GVK, catalogue: ResourceMap) -> bool:
    """Return whether the objects of a kind have a namespace; true for an unknown kind.

    The kind may be served in other versions only.
    """
    served = catalogue.find_kind(gvk.group_kind)  # guard: scope-of-left-out
    return served is None or served.namespaced


def _resource(
    manifest: Manifest, catalogue: ResourceMap, coming: Mapping[GVK, Resource]
) -> Resource:
    found = catalogue.find(manifest.gvk) or coming.get(manifest.gvk)
    if found is not None:
        return found
    gvk = manifest.gvk
    if is_disabled(manifest):
        # Nothing is sent for it: only its ref counts, which is the same in each served version.
        scoped = _is_namespaced(gvk, catalogue)
        return Resource(gvk.group, gvk.version, gvk.kind, "", namespaced=scoped)
    if gvk.group in catalogue.stale:
        raise _Silent(
            f"the kind {gvk} is unknown",
            location=manifest.origin,
            reason=f"the server of the API group {gvk.group} does not answer",
            hint=f"See `kubectl get apiservice {gvk.version}.{gvk.group}`.",
        )
    kinds = catalogue.preferred
    is_kind = any(kind.kind == gvk.kind for kind in kinds)
    is_group = any(kind.group == gvk.group for kind in kinds)
    advice = advice_for_kind(gvk, catalogue, coming.values())
    # The group of a CRD has a dot.
    may_come = (
        "." in gvk.group
        and not is_built_in(gvk.group)
        and not any(resource.group_kind == gvk.group_kind for resource in coming.values())
    )
    raise (KindNotServed if may_come else InputError)(
        f"no matches for kind {gvk.kind} in {gvk.api_version}",
        location=manifest.origin,
        hint=f"{advice} {_MAY_COME}" if may_come else advice,
        # If the kind exists in another group, the group or version is wrong.
        field=("kind",) if is_group and not is_kind else ("apiVersion",),
    )


def _settle(
    manifest: Manifest,
    resource: Resource,
    applyset: ApplySetIdentity,
    namespace: str,
    versions: Mapping[GroupKind, frozenset[str]],
    rules: Rules,
) -> Desired:
    own_namespace = namespace if resource.namespaced else ""
    ref = Ref(resource.group, resource.kind, own_namespace, manifest.name)
    given, left = without_defaults(manifest.body, ref.group_kind, rules.off)
    given, nulls = without_nulls(given, custom=not is_built_in(resource.group))
    removed = without_status(nulls) if resource.has_status else nulls
    body = normalize(
        given,
        namespace=own_namespace,
        set_id=applyset.id,
        has_status=resource.has_status,
    )
    recreate = recreate_rule(body["metadata"])
    if recreate is Recreate.ON_CHANGE:
        # A Bundle writes its rules into this annotation: the manifest has not changed then.
        body = with_manifest_digest(body, manifest.body, but={IGNORED})  # guard: rules-of-a-bundle
    spec = mapping(body.get("spec"))
    ruled = matching_pointers(rules.given, ref, body)
    rule, mark = apply_rule(body["metadata"])
    return Desired(
        ref=ref,
        resource=resource,
        packed=packed(body),
        digest=ruled_digest(
            manifest_digest(body), (*ruled, *(f"null {pointer}" for pointer in removed))
        ),
        wave=FIRST_WAVE,
        orphan_reason=orphan_mark(body["metadata"]),
        has_ttl=(ref.group, ref.kind) == ("batch", "Job")
        and spec.get("ttlSecondsAfterFinished") is not None,
        origin=manifest.origin,
        recreate=recreate,
        apply=rule,
        apply_mark=mark,
        timeout=timeout_of(body["metadata"], manifest.origin),
        conflicts=conflict_rule(body),
        ignored=(*ignored_fields(body, manifest.origin), *ruled),
        left=left,
        removed=removed,
        versions=frozenset()
        if is_built_in(resource.group)
        else versions.get(resource.group_kind, frozenset()),
        wait=wait_word(body["metadata"]),
        ready_when=str(mapping(body["metadata"].get("annotations")).get(READY_WHEN, "")),
    )
