"""Find the object of the same plan for whose lack the server has refused a dry run.

That object is applied earlier, but a dry run applies nothing. The server's words say what it is:
there is no code for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from applyprune.errors import ApplypruneError
from applyprune.model.identity import GVK, GroupKind, Ref
from applyprune.model.live import CRD, namespace_ref, text
from applyprune.model.plan import ApplyStep, Desired
from applyprune.planning.checks.references import STORAGE_CLASS, has_references, references
from applyprune.planning.schema.crd import defined_kinds
from applyprune.planning.schema.server_errors import is_about, said_missing
from applyprune.values import dataclass, field, pattern

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_QUOTA = GroupKind("", "ResourceQuota")
_LIMITS = GroupKind("", "LimitRange")
_ROLES = frozenset({GroupKind(_RBAC, "Role"), GroupKind(_RBAC, "ClusterRole")})
_POLICIES = frozenset(
    GroupKind(_ADMISSION, kind) for kind in ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
)
# The admission plugins ResourceQuota, PodSecurity, LimitRanger and PersistentVolumeClaimResize, and
# the registries of RBAC and of admission policies.
_OVER_QUOTA = pattern(r"(?:exceeded|failed) quota: (?P<name>[\w.-]+)")
_POD_SECURITY = 'violates PodSecurity "'
_OVER_LIMIT = pattern(r"(?:(?:minimum|maximum) \S+ usage|max limit to request ratio) per \w+ is")
_ESCALATION = "is attempting to grant RBAC permissions not currently held"
_NO_RESIZE = "the storageclass that provisions the pvc must support resize"
_PARAMETER = pattern(
    r"of the referenced paramKind|to determine minimum required permissions"
    r"|on the object referenced by paramRef"
)


@dataclass(slots=True)
class SetNeeds:
    """The objects of one plan, by what the server may miss."""

    steps: Mapping[Ref, ApplyStep] = field(default_factory=dict)
    _names: Mapping[str, Sequence[Ref]] = field(init=False)
    _places: Mapping[tuple[GroupKind, str], Sequence[Ref]] = field(init=False)
    _definitions: Mapping[GroupKind, Ref] = field(init=False)

    def __post_init__(self) -> None:
        """Index the objects that are sent."""
        names, places = defaultdict(list), defaultdict(list)
        for ref in (ref for ref, step in self.steps.items() if step.fate.is_applied):
            names[ref.name].append(ref)
            if ref.group_kind == _LIMITS:
                places[ref.group_kind, ref.namespace].append(ref)
        self._names, self._places = names, places
        self._definitions = {
            kind: ref
            for ref, step in self.steps.items()
            if ref.group_kind == CRD and step.fate.is_applied
            for kind in defined_kinds(step.desired.body)
        }

    def awaited(self, desired: Desired, error: ApplypruneError) -> Ref | None:
        """Return the object that an object waits for, by the words of its refusal."""
        found = (*self._missing(desired, error), *self._changing(desired, error.message))
        return next((ref for ref in found if self._is_earlier(ref, desired)), None)

    def reason(self, awaited: Ref) -> str:
        """Return why an object is not checked."""
        is_new = self.steps[awaited].is_new
        how = "does not exist yet" if is_new else "is about to change"
        return f"not checked: it needs {awaited.short}, which {how}"

    def _is_earlier(self, ref: Ref, desired: Desired) -> bool:
        step = self.steps.get(ref)
        return step is not None and step.fate.is_applied and step.desired.wave < desired.wave

    def _missing(self, desired: Desired, error: ApplypruneError) -> Iterator[Ref]:
        """Yield the new objects that do not exist by the words of the error.

        The fields of some kinds say which objects they need. For others, as for a custom resource
        that a webhook refuses, the words must do.
        """
        named = {found.ref for found in references(desired.ref, desired.body)}
        named |= {*desired.depends_on, *desired.needs}
        for said in said_missing(error):
            for ref in self._names.get(said["name"], ()):
                is_named = ref in named or not (
                    has_references(desired.ref.group_kind)
                    or ref.namespace not in {"", desired.ref.namespace}
                )
                if is_named and self.steps[ref].is_new and is_about(said, ref):
                    yield ref

    def _changing(self, desired: Desired, message: str) -> Iterator[Ref]:
        """Yield the objects that decide whether the server admits this one."""
        ref = desired.ref
        if over := _OVER_QUOTA.search(message):
            yield Ref(_QUOTA.group, _QUOTA.kind, ref.namespace, over["name"])
        if _POD_SECURITY in message:
            yield namespace_ref(ref.namespace)
        if _OVER_LIMIT.search(message):
            yield from self._places.get((_LIMITS, ref.namespace), ())
        named = [found.ref for found in references(ref, desired.body)]
        if _ESCALATION in message:
            yield from (one for one in named if one.group_kind in _ROLES)
        if _NO_RESIZE in message:
            yield from (one for one in named if one.group_kind == STORAGE_CLASS)
        if _PARAMETER.search(message):
            policies = [one for one in named if one.group_kind in _POLICIES]
            yield from policies
            bodies = (self.steps[one].desired.body for one in policies if one in self.steps)
            for body in (desired.body, *bodies):
                kind = text(body, "spec", "paramKind", "kind")
                version = text(body, "spec", "paramKind", "apiVersion")
                if (
                    found := self._definitions.get(GVK.parse(version, kind).group_kind)
                ) is not None:
                    yield found
