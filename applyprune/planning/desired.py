"""Turn manifests into desired objects: endpoint, scope and namespace, before any write.

The refs are final: they come from discovery or, for a new kind, from the CRD in the input. What a
set cannot contain, what is not sent and what waits for its kind is found here as well.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, pairwise
from shlex import quote
from typing import Any

from msgspec import Struct, field

from applyprune.errors import InputError, NotReady
from applyprune.model.identity import GVK, GroupKind, Ref
from applyprune.model.inventory import FIRST_WAVE
from applyprune.model.kinds import CRD, JOB, Trait, row_of
from applyprune.model.live import Resource, ResourceMap, mapping, text
from applyprune.model.options import HelmHooks, Options
from applyprune.model.plan import ApplyRule, Desired
from applyprune.model.problem import (
    MOST_ERRORS,
    ChangedKey,
    Field,
    Manifest,
    Mark,
    Origin,
    Problem,
    ProblemKind,
)
from applyprune.model.text import and_more, counted
from applyprune.planning.applyset import OWNED_BY, PART_OF, SET_ID, ApplySetIdentity
from applyprune.planning.managed_fields import conflict_rule, ignored_fields, matching_pointers
from applyprune.planning.marks import (
    READY_WHEN,
    RECREATE,
    annotation_errors,
    apply_rule,
    is_disabled,
    orphan_mark,
    peer_errors,
    texts_of,
    timeout_of,
    unread_marks,
)
from applyprune.planning.names import advice_for_kind, did_you_mean, is_applied_part
from applyprune.planning.normalize import (
    WITH_BUNDLES,
    IgnoreRule,
    idle_nulls,
    leaves,
    manifest_digest,
    normalize,
    parse_rule,
    ruled_digest,
    without_certificate,
    without_defaults,
    without_nulls,
)
from applyprune.planning.order import annotated_wave, depends_on_refs, in_order, is_built_in
from applyprune.planning.readiness import wait_word
from applyprune.planning.schemas import becomes
from applyprune.planning.served_kinds import defined_names, defined_resources, served_versions
from applyprune.planning.server_errors import advice_on, dotted
from applyprune.values import packed, pattern, replace

_PLAIN = Options()
_MAY_COME = "If a controller of the set installs it, apply that first: by --only, or in two sets."


class Resolved(Struct, frozen=True):
    desired: tuple[Desired, ...]
    """The desired objects in the order of their waves; with ``errors``, the valid ones."""
    warnings: tuple[Problem, ...]
    errors: tuple[InputError, ...] = ()
    """Everything that is wrong with the input; with any, nothing of it may be applied."""
    unknown: tuple[UnknownObject, ...] = ()
    """The selected objects of kinds that the server does not know now."""
    blocked: Mapping[Ref, Problem] = field(default_factory=dict)
    """Why these ``desired`` objects cannot be applied: they come after unknown ones."""
    manifests: tuple[Manifest, ...] = ()
    """The manifests of the set: all but the chart hooks that are left out."""
    left_out: Mapping[Ref, str] = field(default_factory=dict)
    """The objects of the input with which nothing is done: see ``World``."""
    kinds: frozenset[GroupKind] = frozenset()
    """The kinds of all valid objects of the input, selected or not."""


class Rules(Struct, frozen=True):
    """The rules for fields that are left to others."""

    given: tuple[IgnoreRule, ...] = ()
    """The user's own rules."""
    off: frozenset[str] = frozenset()
    """The default rules that are switched off."""


class UnknownObject(Struct, frozen=True):
    """An object of a kind that the server does not know now: it fails, with what it blocks."""

    ref: Ref
    """Only its probable ref: its scope is unknown. It is never written."""
    gvk: GVK
    origin: Origin
    problem: Problem
    """Why it is not applied."""
    wave: int = 0
    """The wave of its annotation."""
    changed_keys: tuple[ChangedKey, ...] = ()
    """The keys of which YAML makes another text."""

    @property
    def refs(self) -> tuple[Ref, Ref]:
        """Return both refs that it may have: with its namespace, and without."""
        return self.ref, replace(self.ref, namespace="")


class _GroupUnavailable(InputError):
    """The kind of an object is unknown: the server of its API group does not answer."""


class KindNotServed(InputError):
    """The kind of an object is neither served nor in the input; a controller may install it."""


def resolve(
    manifests: Sequence[Manifest],
    catalogue: ResourceMap,
    applyset: ApplySetIdentity,
    *,
    namespace: str,
    options: Options = _PLAIN,
    elsewhere: Collection[Ref] = (),
    coming: Iterable[Manifest] = (),
    kinds_may_come: bool = False,
) -> Resolved:
    """Resolve every manifest, and return those that the options select.

    ``namespace`` is used for objects without a namespace. Only options.namespace_override replaces
    a namespace; it does not change namespaces in other fields of manifests. An object that is not
    selected must also be valid, because others may depend on it. Objects may also depend on refs in
    ``elsewhere``, and be of kinds that the CRDs in ``coming`` bring. With ``kinds_may_come``, as
    without a server, a custom kind may be unknown. An error is an unknown kind, a duplicate object,
    an ApplySet label in a manifest, the set's own inventory, an invalid annotation, a missing
    dependency, a chart hook that needs a decision, or a cycle.
    """
    decision, override = options.apply.helm_hooks, options.apply.namespace_override
    hooks, kept, errors = find_hooks(manifests, catalogue, namespace, options)
    definitions = _Definitions.of((*coming, *kept), options)
    versions = served_versions(
        catalogue,
        (one for one in definitions.resources.values() if one.group_kind in definitions.applied),
    )
    rules = Rules(tuple(map(parse_rule, options.apply.ignore)), options.apply.no_default_ignore)
    warnings: list[Problem] = [*unread_marks(kept)]
    desired: dict[Ref, Desired] = {}
    unknown: list[UnknownObject] = []
    selected: set[Ref] = set()
    moved: dict[Ref, Ref] = {}
    # What objects may depend on, although it is not ``desired``.
    others = {*elsewhere}

    def is_selected(manifest: Manifest, *refs: Ref) -> bool:
        labels = labels_of(manifest)
        return any(is_applied_part(options, labels, ref) for ref in refs)

    for manifest in kept:
        own_namespace = override or manifest.namespace or namespace
        # Else its hook is an error already.
        is_decided = decision is HelmHooks.APPLY or _hook_text(manifest) is None
        faults, late = _own_errors(manifest), None
        try:
            resource = _resource(manifest, catalogue, definitions)
            candidate = _desired_of(manifest, resource, applyset, own_namespace, versions, rules)
            if is_decided and is_selected(manifest, candidate.ref):
                _refuse_without_definition(manifest, catalogue, definitions)
            before = replace(candidate.ref, namespace=manifest.namespace or namespace)
            # An override may give several objects the same ref.
            is_same = before in moved or not resource.namespaced
            if is_same and (warning := _repeated(candidate, desired.get(candidate.ref))):
                warnings.append(warning)
                continue
            refuse_non_member(candidate, manifest, applyset, desired, override=override)
        except InputError as error:
            late = _unknown(manifest, own_namespace, error, faults, kinds_may_come=kinds_may_come)
            if late is None:
                faults.append(error)
            elif is_decided and is_selected(manifest, *late.refs):
                unknown.append(late)
        errors += faults
        if late is not None or faults:
            # What depends on an object of the input needs no further error.
            if late is None or kinds_may_come:
                likely = _likely_ref(manifest, own_namespace)
                others |= {likely, replace(likely, namespace="")}
            continue
        desired[candidate.ref] = candidate
        if is_decided and is_selected(manifest, candidate.ref):
            selected.add(candidate.ref)
        if resource.namespaced:
            moved[before] = candidate.ref
        warnings += [*unsent_parts(candidate, manifest), *placeholders(candidate, manifest)]
    selected_hooks = [hook for hook in hooks if is_selected(hook.manifest, hook.ref)]
    errors += [*hooks_refusal(selected_hooks, decision), *_clashes(definitions.manifests)]
    warnings += hooks_warning(selected_hooks, decision)
    ordered, misplaced = in_order(desired, moved, others)
    return Resolved(
        chosen := tuple(candidate for candidate in ordered if candidate.ref in selected),
        tuple(warnings),
        (*errors, *misplaced),
        tuple(unknown),
        _blocked_by(unknown, chosen),
        tuple(kept),
        {hook.ref: hook.place for hook in hooks if hook.is_left_out(decision)},
        frozenset(ref.group_kind for ref in desired),
    )


def _unknown(
    manifest: Manifest,
    namespace: str,
    error: InputError,
    faults: list[InputError],
    *,
    kinds_may_come: bool,
) -> UnknownObject | None:
    """Return an object by the error of its kind; None if that is an error of the input.

    Only its annotations can be checked: add to ``faults`` what is wrong with them.
    """
    may_come = kinds_may_come and isinstance(error, KindNotServed)
    if not (may_come or isinstance(error, _GroupUnavailable)):
        return None
    metadata, origin, wave = manifest.body["metadata"], manifest.origin, 0
    try:
        wave = annotated_wave(metadata, origin)
        depends_on_refs(metadata, origin)
        timeout_of(metadata, origin)
    except InputError as wrong:
        faults.append(wrong)
    ref, kind = _likely_ref(manifest, namespace), manifest.gvk.group_kind
    keys = tuple(one for one in manifest.changed_keys if _may_be_free(kind, one.place))
    return UnknownObject(ref, manifest.gvk, origin, error.problem, wave, keys)


def _not_applied(ref: Ref, origin: Origin, reason: str) -> Problem:
    """Return the problem of an object for which only time was missing."""
    return NotReady(f"{ref.short} was not applied", location=origin, reason=reason).problem


def _blocked_by(
    unknown: Sequence[UnknownObject], desired: Iterable[Desired]
) -> Mapping[Ref, Problem]:
    """Return the objects of later waves than unknown ones, and those that depend on one.

    ``desired`` are in order.
    """
    found: dict[Ref, Problem] = {}
    first = min(unknown, key=lambda one: one.wave, default=None)
    if first is None:
        return found
    waiting = {ref for one in unknown for ref in one.refs}
    for member in desired:
        needed = sorted(waiting.intersection((*member.depends_on, *member.needs)))
        reason = f"it depends on {needed[0]}, which was not applied" if needed else ""
        if member.wave.wave > first.wave:  # guard: late-wave-order never
            reason = f"{first.ref}, of an earlier wave, was not applied"
        if reason:
            waiting.add(member.ref)
            found[member.ref] = _not_applied(member.ref, member.origin, reason)
    return found


def _own_errors(manifest: Manifest) -> list[InputError]:
    """Return what is wrong with a manifest whatever the server serves.

    No annotation may be one that applyprune or its own tool would not understand.
    """
    metadata, origin = manifest.body["metadata"], manifest.origin
    kind = manifest.gvk.group_kind
    return [
        *annotation_errors(metadata, origin, kind),  # guard: unknown-annotation -> *()
        *peer_errors(metadata, origin),  # guard: unknown-peer-value -> *()
        *_key_errors(manifest),
        *_encrypted(manifest),
    ]


class _Definitions(Struct, frozen=True):
    """What the CRDs of an input define."""

    manifests: Sequence[Manifest]
    """These CRDs, but for those that are left out."""
    resources: Mapping[GVK, Resource]
    """Each kind in each version that they serve."""
    applied: frozenset[GroupKind]
    """The kinds whose CRD the run applies as it is: then it alone decides about the versions."""
    unselected: Mapping[GVK, Manifest]
    """The CRD of each version that only a CRD outside the applied part serves."""

    @classmethod
    def of(cls, manifests: Iterable[Manifest], options: Options) -> _Definitions:
        listed = [one for one in manifests if one.gvk.group_kind == CRD and not is_disabled(one)]
        coming = {id(one) for one in coming_definitions(listed, options)}
        resources: dict[GVK, Resource] = {}
        unselected: dict[GVK, Manifest] = {}
        applied: set[GroupKind] = set()
        # Where two define the same, which is an error, the selected one counts.
        for one in sorted(listed, key=lambda one: id(one) in coming):
            for resource in defined_resources(one.body):
                resources[resource.gvk] = resource
                unselected.pop(resource.gvk, None)
                if id(one) not in coming:
                    unselected[resource.gvk] = one
                elif apply_rule(one.body["metadata"])[0] is ApplyRule.ALWAYS:
                    applied.add(resource.group_kind)
        return cls(listed, resources, frozenset(applied), unselected)


def coming_definitions(manifests: Iterable[Manifest], options: Options) -> list[Manifest]:
    """Return the CRDs of an input that are in the part of it that the options select."""
    return [
        one
        for one in manifests
        if one.gvk.group_kind == CRD
        and not is_disabled(one)
        and is_applied_part(options, labels_of(one), _likely_ref(one, ""))
    ]


def _clashes(definitions: Sequence[Manifest]) -> Iterator[InputError]:
    """Yield an error for each CRD that has a name of another one: the server serves only one.

    So does the API server decide (apiextensions-apiserver, ``naming_controller.go``).
    """
    seen: dict[tuple[str, str, str], Manifest] = {}
    for one in definitions:
        group = text(one.body, "spec", "group")
        for what, name in defined_names(one.body):
            first = seen.setdefault((group, what, name), one)
            if name and first.name != one.name:
                yield defined_twice(f"the {what} {name} of {group}", one.origin, first.origin)
                break


def _refuse_without_definition(
    manifest: Manifest, catalogue: ResourceMap, definitions: _Definitions
) -> None:
    """Raise KindNotServed for an object that needs a CRD of the input that is not selected."""
    definition = definitions.unselected.get(manifest.gvk)
    if definition is None or catalogue.find(manifest.gvk) is not None:
        return
    raise KindNotServed(
        f"no matches for kind {manifest.gvk.kind} in {manifest.gvk.api_version}",
        location=manifest.origin,
        reason=f"its CustomResourceDefinition is in {definition.origin}, and is not selected",
        hint=f"Apply {_likely_ref(definition, '').short} too.",
        field=("apiVersion",),
    )


def _resource(manifest: Manifest, catalogue: ResourceMap, definitions: _Definitions) -> Resource:
    gvk, from_crds = manifest.gvk, definitions.resources
    found = from_crds.get(gvk)
    # A version that the CRD of the input does not serve ends with the apply of that CRD.
    # guard: version-of-its-crd always
    if gvk.group_kind not in definitions.applied or found is not None:
        found = catalogue.find(gvk) or found
    if found is not None:
        return found
    if is_disabled(manifest):
        # Nothing is sent for it: only its ref counts, which is the same in each served version.
        scoped = _is_namespaced(gvk, catalogue)
        return Resource(gvk.group, gvk.version, gvk.kind, "", namespaced=scoped)
    if gvk.group in catalogue.stale:
        raise _GroupUnavailable(
            f"the kind {gvk} is unknown",
            location=manifest.origin,
            reason=f"the server of the API group {gvk.group} does not answer",
            hint=f"See `kubectl get apiservice {gvk.version}.{gvk.group}`.",
        )
    kinds = catalogue.preferred
    is_kind = any(kind.kind == gvk.kind for kind in kinds)
    is_group = any(kind.group == gvk.group for kind in kinds)
    advice = advice_for_kind(gvk, catalogue, from_crds.values())
    # The group of a CRD has a dot.
    may_come = (
        "." in gvk.group
        and not is_built_in(gvk.group)
        and not any(resource.group_kind == gvk.group_kind for resource in from_crds.values())
    )
    raise (KindNotServed if may_come else InputError)(
        f"no matches for kind {gvk.kind} in {gvk.api_version}",
        location=manifest.origin,
        hint=f"{advice} {_MAY_COME}" if may_come else advice,
        # If the kind exists in another group, the group or version is wrong.
        field=("kind",) if is_group and not is_kind else ("apiVersion",),
    )


def _desired_of(
    manifest: Manifest,
    resource: Resource,
    applyset: ApplySetIdentity,
    namespace: str,
    versions: Mapping[GroupKind, frozenset[str]],
    rules: Rules,
) -> Desired:
    own_namespace = namespace if resource.namespaced else ""
    ref = Ref(resource.group, resource.kind, own_namespace, manifest.name)
    given, reasons = without_defaults(manifest.body, ref.group_kind, rules.off)
    if manifest.packed.may_contain("null"):
        given = without_nulls(given, custom=not is_built_in(resource.group))
    body = normalize(
        given, namespace=own_namespace, set_id=applyset.id, has_status=resource.has_status
    )
    metadata, annotations = body["metadata"], mapping(body["metadata"].get("annotations"))
    ruled = matching_pointers(rules.given, ref, body)
    rule, mark = apply_rule(metadata)
    return Desired(
        ref=ref,
        resource=resource,
        packed=packed(body),
        digest=ruled_digest(manifest_digest(body), ruled),
        wave=FIRST_WAVE,
        orphan_reason=orphan_mark(metadata),
        has_ttl=ref.group_kind == JOB
        and mapping(body.get("spec")).get("ttlSecondsAfterFinished") is not None,
        origin=manifest.origin,
        recreate=annotations.get(RECREATE) == "allowed",
        apply=rule,
        apply_mark=mark,
        timeout=timeout_of(metadata, manifest.origin),
        conflicts=conflict_rule(body),
        ignored=(*ignored_fields(body, manifest.origin), *ruled),
        ignore_reasons=reasons,
        versions=frozenset()
        if is_built_in(resource.group)
        else versions.get(resource.group_kind, frozenset()),
        wait=wait_word(metadata),
        ready_when=str(annotations.get(READY_WHEN, "")),
        changed_keys=manifest.changed_keys,
    )


def _is_namespaced(gvk: GVK, catalogue: ResourceMap) -> bool:
    """Return whether the objects of a kind have a namespace; true for an unknown kind.

    The kind may be served in other versions only.
    """
    served = catalogue.find_kind(gvk.group_kind)  # guard: scope-of-left-out -> None
    return served is None or served.namespaced


def _likely_ref(manifest: Manifest, namespace: str) -> Ref:
    """Return the probable ref of an object whose scope is unknown."""
    return Ref(manifest.gvk.group, manifest.gvk.kind, namespace, manifest.name)


def labels_of(manifest: Manifest) -> Mapping[str, Any]:
    return texts_of(manifest.body["metadata"], "labels")


# Objects that the set cannot contain.


_NAME = ("metadata", "name")


def refuse_non_member(
    desired: Desired,
    manifest: Manifest,
    applyset: ApplySetIdentity,
    seen: Mapping[Ref, Desired],
    *,
    override: str,
) -> None:
    """Raise InputError for an object that the set cannot contain.

    It is defined twice, has a label of a set, or is the inventory. ``seen`` are the objects of
    the input before it, ``override`` is the namespace that the user gives to all.
    """
    twin = seen.get(desired.ref) or seen.get(_under_other_group(desired.ref))
    if twin is not None:
        together = " namespace-override gives both the same namespace." if override else ""
        raise defined_twice(desired.ref, manifest.origin, twin.origin, together)
    labels = mapping(manifest.body["metadata"].get("labels"))
    for label in (PART_OF, SET_ID):
        if label in labels:
            raise InputError(
                f"{desired.ref} already has the label {label}",
                location=manifest.origin,
                reason="applyprune sets this label to the set that owns the object",
                hint="Remove the label from the manifest.",
                field=("metadata", "labels", label),
            )
    if applyset.records_in(desired.ref):
        raise InputError(
            f"{desired.ref} is the inventory of this set",
            location=manifest.origin,
            hint="Remove it from the input, or choose another name for the set.",
            field=_NAME,
        )


def defined_twice(name: object, here: Origin, there: Origin, why: str = "") -> InputError:
    """Return the error about an object that the input has already; ``why`` follows the hint."""
    return InputError(
        f"{name} is defined twice",
        location=here,
        reason=f"it is also in {there}",
        hint=f"Remove the duplicate.{why}",
        marks=(Mark(_NAME, "here"), Mark(_NAME, "and here", there)),
    )


# One object that two API groups serve.
_TWINS = {"": "events.k8s.io", "events.k8s.io": ""}


def _under_other_group(ref: Ref) -> Ref:
    """Return the ref of the same object under another API group; the same one if there is none."""
    return replace(ref, group=_TWINS.get(ref.group, ref.group)) if ref.kind == "Event" else ref


def _repeated(candidate: Desired, twin: Desired | None) -> Problem | None:
    """Return the warning about a manifest that says in every value what its twin has said."""
    if twin is None:
        return None
    alike = replace(candidate, origin=twin.origin, changed_keys=twin.changed_keys)
    is_equal = alike == twin  # guard: equal-duplicate -> True
    if not is_equal:
        return None
    return Problem(
        ProblemKind.REPEATED,
        f"{candidate.ref} is defined twice with the same content; it is applied once",
        location=str(candidate.origin),
        origin=candidate.origin,
        reason=f"it is also in {twin.origin}",
        hint="Remove the duplicate.",
        field=_NAME,
        marks=(Mark(_NAME, "here"), Mark(_NAME, "and here", twin.origin)),
    )


# Parts of a manifest that are not sent.


_SHOWN = 3


def unsent_parts(desired: Desired, manifest: Manifest) -> Iterator[Problem]:
    if manifest.namespace and not desired.resource.namespaced:
        yield Problem(
            kind=ProblemKind.IGNORED_NAMESPACE,
            message=f"{desired.ref.short} is cluster-scoped: its namespace is ignored",
            location=str(manifest.origin),
            origin=manifest.origin,
            field=("metadata", "namespace"),
            hint=f"Remove metadata.namespace {manifest.namespace!r} from the manifest.",
        )
    custom = not is_built_in(desired.ref.group)
    if manifest.packed.may_contain("null") and (left := idle_nulls(manifest.body, custom=custom)):
        yield Problem(
            kind=ProblemKind.IGNORED_NULL,
            message=f"{desired.ref.short}: null is left out, and removes nothing, in "
            f"{and_more([dotted(place) for place in left], _SHOWN)}",
            location=str(manifest.origin),
            origin=manifest.origin,
            hint="Leave the field out. A field that the set has owned is removed then.",
            marks=tuple(map(Mark, left)),
            field=left[0],
        )
    kind = desired.ref.group_kind
    if kind in WITH_BUNDLES and (left := without_certificate(desired.body, kind)):
        yield Problem(
            kind=ProblemKind.NO_CERTIFICATE,
            message=f"{desired.ref.short}: the caBundle holds no certificate in PEM",
            location=str(manifest.origin),
            origin=manifest.origin,
            reason="with it, the API server cannot call this server",
            hint="Replace a placeholder, or leave the caBundle empty if an injector sets it.",
            marks=tuple(map(Mark, left)),
            field=left[0],
        )
    if OWNED_BY in mapping(manifest.body["metadata"].get("annotations")):
        yield Problem(
            kind=ProblemKind.IGNORED_ANNOTATION,
            message=f"{desired.ref}: the annotation {OWNED_BY} is left out",
            location=str(manifest.origin),
            origin=manifest.origin,
            field=("metadata", "annotations", OWNED_BY),
            reason="it says which set has created an object, and only applyprune writes it",
            hint="Remove the annotation from the manifest.",
        )


# Placeholders such as ${NAME}, which neither this program nor the server replaces.


_NAME_IN_BRACES = r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::?[-=+?][^{}]*)?\}"
_PLACEHOLDER = pattern(_NAME_IN_BRACES)
# A whole value, or a flag.
_WHOLE = pattern(rf"(?:-\S*)?{_NAME_IN_BRACES}\S*")
# Programs in the cluster may read these texts, and replace what is inside of them.
_FREE_TEXTS = frozenset(
    {
        *("annotations", "args", "binaryData", "command", "data", "description", "env"),
        *("expression", "message", "stringData"),
    }
)


def placeholders(desired: Desired, manifest: Manifest) -> Iterator[Problem]:
    """Yield a warning that names the fields with a placeholder that was left in a manifest.

    In a custom resource, and in a CRD, only the metadata is looked at: others may replace the rest.
    """
    if not manifest.packed.may_contain("${"):
        return
    body = manifest.body
    if not is_built_in(desired.ref.group) or desired.ref.group_kind == CRD:
        body = {"metadata": body["metadata"]}
    found = [
        place
        for place, value in leaves(body)
        if isinstance(value, str)
        and (_PLACEHOLDER.search if _FREE_TEXTS.isdisjoint(place) else _WHOLE.fullmatch)(value)
    ]
    if found:
        yield Problem(
            ProblemKind.PLACEHOLDER,
            f"{desired.ref.short}: a placeholder such as ${{NAME}} is left in "
            f"{and_more([dotted(place) for place in found], _SHOWN)}",
            location=str(manifest.origin),
            origin=manifest.origin,
            reason="neither applyprune nor the server replaces it",
            hint="Replace it before, for example with envsubst.",
            marks=tuple(map(Mark, found[:MOST_ERRORS])),
            field=found[0],
        )


# Keys that are not strings without quotes: `y` becomes "true", and `010` becomes "8".
#
# Nobody means that. In a field that a schema knows it is an error. What a custom resource may hold
# in any form, such as the values of a chart, may be published so, and works so: a warning.


# What is any JSON in a schema of a CRD, unless it is the name of a field there.
_JSON_IN_SCHEMA = frozenset({"default", "enum", "example"})


_SOPS = "sops"
_SOPS_TEXT = pattern(r"ENC\[AES256_GCM,data:[^,\]]*,iv:[^,\]]*,tag:[^,\]]*,type:\w+\]")
_ENCRYPTED = "ENC[AES256_GCM,"
_ENCODED = "RU5DW0FFUzI1Nl9HQ00s"
"""The same in base64."""


def _encrypted(manifest: Manifest) -> Iterator[InputError]:
    """Yield an error for what SOPS has encrypted; a custom kind may want that as it is."""
    if not is_built_in(manifest.gvk.group):
        return
    if not manifest.packed.may_contain(_ENCRYPTED, _ENCODED):
        return
    body, path = manifest.body, manifest.origin.path
    if "mac" in mapping(body.get(_SOPS)):
        file = path if path.endswith((".yaml", ".yml", ".json")) and "://" not in path else "FILE"
        yield InputError(
            f"{manifest.gvk.kind} {manifest.name}: SOPS has encrypted this file",
            location=manifest.origin,
            hint=f"Decrypt it first: sops decrypt {quote(file)} | applyprune apply NAME -f -",
            field=(_SOPS,),
        )
        return
    for place in islice(_encrypted_fields(body, ()), MOST_ERRORS):
        yield InputError(
            f"{manifest.gvk.kind} {manifest.name}: {dotted(place)}: SOPS has encrypted this value, "
            "and the block sops: that decrypts it is missing",
            location=manifest.origin,
            hint="Take the whole file again as sops has written it, and decrypt that.",
            field=place,
        )


def _encrypted_fields(value: object, place: Field) -> Iterator[Field]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _encrypted_fields(inner, (*place, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _encrypted_fields(inner, (*place, at))
    elif isinstance(value, str) and _is_encrypted(value):
        yield place


def _is_encrypted(text: str) -> bool:
    """Return whether a text is one of SOPS as a whole: a file may quote some, and be in order."""
    if text.startswith(_ENCODED):
        with suppress(ValueError):
            text = b64decode(text).decode()
    return _SOPS_TEXT.fullmatch(text.strip()) is not None


def _key_errors(manifest: Manifest) -> Iterator[InputError]:
    """Yield an error for each changed key in a field that every server knows."""
    kind = manifest.gvk.group_kind
    for one in manifest.changed_keys[:MOST_ERRORS]:
        if not _may_be_free(kind, one.place):  # guard: changed-key never
            what = _changed(one)
            yield InputError(what, location=manifest.origin, hint=advice_on(what), field=one.place)


def _may_be_free(kind: GroupKind, place: Field) -> bool:
    """Return whether only the schema of a kind says if a part of an object may be any JSON."""
    if place[0] == "metadata":
        return False
    if kind == CRD:
        return any(
            step in _JSON_IN_SCHEMA and above != "properties" for above, step in pairwise(place)
        )
    return Trait.FREE_FORM in row_of(kind).traits or not is_built_in(kind.group)


def _changed(key: ChangedKey) -> str:
    return f"{dotted(key.place[:-1])}: {becomes(key)}".removeprefix(": ")


def changed_key_warning(ref: Ref, origin: Origin, keys: Sequence[ChangedKey]) -> Problem:
    """Return the warning about an object with changed keys where any JSON may be meant."""
    first, *others = keys
    more = f", and {counted(len(others), 'other key')}" if others else ""
    return Problem(
        ProblemKind.CHANGED_KEY,
        f"{ref.short}: {_changed(first)}{more}",
        location=str(origin),
        origin=origin,
        hint=advice_on(becomes(first)),
        marks=tuple(Mark(key.place) for key in keys[:MOST_ERRORS]),
        field=first.place,
    )


# Chart hooks, and which of them are left out.
#
# Helm creates an object with this annotation only at certain events of a release
# (`SortManifests` in Helm's `manifest_sorter.go`, https://helm.sh/docs/topics/charts_hooks/).
# applyprune runs no hooks: a `pre-delete` Job would run at once. Only the user knows whether an
# install or upgrade hook may be applied like any other object.


HOOK = "helm.sh/hook"
_FIELD = ("metadata", "annotations", HOOK)
_INSTALL = frozenset({"crd-install", "pre-install", "post-install", "pre-upgrade", "post-upgrade"})
_NEVER = frozenset(
    {
        "pre-delete",
        "post-delete",
        "pre-rollback",
        "post-rollback",
        "test",
        "test-success",
        "test-failure",
    }
)


class ChartHook(Struct, frozen=True):
    """An object of the input that Helm would create as a hook."""

    manifest: Manifest
    ref: Ref
    events: tuple[str, ...]
    """The events of a release at which Helm would create it."""

    @property
    def needs_decision(self) -> bool:
        """Return whether it is an install or upgrade hook, whatever else it is."""
        return not _INSTALL.isdisjoint(self.events)

    @property
    def described(self) -> str:
        """Return ``job.batch/migrate (pre-install, pre-upgrade)``."""
        return f"{self.ref.short} ({', '.join(self.events)})"

    @property
    def place(self) -> str:
        """Return ``as a chart hook (pre-install, pre-upgrade): web.yaml:1``."""
        return f"as a chart hook ({', '.join(self.events)}): {self.manifest.origin}"

    def is_left_out(self, decision: HelmHooks) -> bool:
        """Return whether the object does not belong to the set."""
        # guard: left-out-hook -> False
        return not self.needs_decision or decision is HelmHooks.SKIP


def find_hooks(
    manifests: Iterable[Manifest], catalogue: ResourceMap, namespace: str, options: Options
) -> tuple[list[ChartHook], list[Manifest], list[InputError]]:
    """Return the hooks, the manifests that belong to the set, and an error for each unknown event.

    A hook that is not left out is among both.
    """
    decision, override = options.apply.helm_hooks, options.apply.namespace_override
    hooks: list[ChartHook] = []
    kept: list[Manifest] = []
    errors: list[InputError] = []
    for manifest in manifests:
        text = _hook_text(manifest)
        if text is None:
            kept.append(manifest)
            continue
        events = tuple(event.strip().lower() for event in text.split(","))
        scoped = _is_namespaced(manifest.gvk, catalogue)
        own_namespace = (override or manifest.namespace or namespace) if scoped else ""
        hook = ChartHook(manifest, _likely_ref(manifest, own_namespace), events)
        unknown = [event for event in hook.events if event not in _INSTALL | _NEVER]
        if unknown:
            errors.append(_unknown_event(manifest, unknown[0]))
        else:
            hooks.append(hook)
        if unknown or not hook.is_left_out(decision):
            kept.append(manifest)
    return hooks, kept, errors


def _unknown_event(manifest: Manifest, event: str) -> InputError:
    """Return the error for an event that Helm does not know: it drops such an object silently."""
    known = sorted(_INSTALL | _NEVER)
    return InputError(
        f"invalid {HOOK}",
        location=manifest.origin,
        reason=f"{event!r} is not an event of a chart hook",
        hint=did_you_mean(event, known) or f"The events are {', '.join(known)}.",
        field=_FIELD,
    )


def _hook_text(manifest: Manifest) -> str | None:
    """Return the value of the annotation; None if there is none, or the manifest is left out."""
    if not manifest.packed.mentions(HOOK):
        return None
    annotations = texts_of(mapping(manifest.body.get("metadata")), "annotations")
    if HOOK not in annotations or is_disabled(manifest):
        return None
    return str(annotations[HOOK])


def hooks_refusal(hooks: Iterable[ChartHook], decision: HelmHooks) -> Iterator[InputError]:
    """Yield the error that names all hooks which need a decision, if there are any."""
    undecided = [hook for hook in hooks if hook.needs_decision]
    if not undecided or decision is not HelmHooks.REFUSE:
        return
    many = len(undecided) > 1
    yield InputError(
        f"{len(undecided)} objects are install or upgrade hooks of a chart"
        if many
        else f"{undecided[0].ref.short} is an install or upgrade hook of a chart",
        location=undecided[0].manifest.origin,
        reason=", ".join(f"{hook.described} in {hook.manifest.origin}" for hook in undecided)
        if many
        else f"Helm would create it at {' and '.join(undecided[0].events)}",
        hint="applyprune runs no hooks. To leave them out, use `helm template --no-hooks`, or "
        "write helm-hooks: skip into applyprune.yaml. To apply them like other objects, write "
        "helm-hooks: apply.",
        marks=[Mark(_FIELD, hook.ref.short, hook.manifest.origin) for hook in undecided]
        if many
        else [Mark(_FIELD)],
    )


def hooks_warning(hooks: Iterable[ChartHook], decision: HelmHooks) -> Iterator[Problem]:
    """Yield the warning that names all hooks which are left out, if there are any."""
    left_out = [hook for hook in hooks if hook.is_left_out(decision)]
    if not left_out:
        return
    what = "chart hook is" if len(left_out) == 1 else "chart hooks are"
    yield Problem(
        kind=ProblemKind.CHART_HOOKS,
        message=f"{len(left_out)} {what} left out",
        location=str(left_out[0].manifest.origin),
        reason=", ".join(hook.described for hook in left_out),
        origin=left_out[0].manifest.origin,
        hint="applyprune runs no hooks. `helm template --no-hooks` prints none.",
    )
