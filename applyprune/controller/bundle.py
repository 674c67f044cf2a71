"""Parse and validate a Bundle's spec, including everything that its CRD cannot check.

pydantic checks the types. It reports all faults at once, each with the path of its field. It also
generates the schema that a test compares with the CRD (``deploy/crd.yaml``) in both directions.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import StrictBool, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from applyprune.controller.drift.drift_spec import ON_DRIFT, DriftPolicy, DriftSpec
from applyprune.controller.source_spec import Decryption, Source
from applyprune.controller.spec_types import (
    CAMEL,
    Expression,
    KindRule,
    Label,
    MaxPrune,
    Name,
    Pointer,
    Seconds,
)
from applyprune.errors import UsageError
from applyprune.model.inventory import OF_CLUSTER, Ownership
from applyprune.model.live import LiveObject
from applyprune.model.options import (
    Adopt,
    ApplyOptions,
    Approval,
    HelmHooks,
    Mode,
    Options,
    PruneOptions,
    WaitMode,
    WaitOptions,
    rule_of_kind,
)
from applyprune.model.problem import ProblemKind
from applyprune.model.resources import BUNDLES
from applyprune.planning.applyset import ApplySetIdentity, applyset_identity
from applyprune.planning.approval.digests import is_digest
from applyprune.planning.fields.ignore_rule import IgnoreRule
from applyprune.planning.ownership.default_rules import DefaultRule
from applyprune.values import dataclass

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from applyprune.model.identity import Ref
    from applyprune.model.plan_values.field_writer import FieldWriter

_CONCURRENCY = 8
_TURN = 1.0
"""Seconds that a reconcile may wait; then its worker serves another Bundle."""
_MESSAGES = {
    "bool_type": "must be true or false",
    "dataclass_type": "must be an object",
    "int_type": "must be a whole number",
    "missing": "is required",
    "string_type": "must be text",
    "tuple_type": "must be a list",
}
"""Our message for each of pydantic's error types."""


class InvalidSpec(UsageError):
    """An invalid spec; ``reason`` lists every fault."""

    kind = ProblemKind.INVALID_SPEC


class DeletionPolicy(StrEnum):
    """What happens to the objects when the Bundle is deleted."""

    MIRROR = "MirrorPrune"
    """As ``DELETE`` if the Bundle prunes, else as ``ORPHAN``."""
    DELETE = "Delete"
    WAIT = "WaitForTermination"
    ORPHAN = "Orphan"


@checked(config=CAMEL, frozen=True, slots=True)
class SecretKeyRef:
    """A Secret of the Bundle's namespace, and a key of it."""

    name: Name
    key: str = ""
    """Empty for ``value`` or, if that is missing, ``value.yaml``."""


@checked(config=CAMEL, frozen=True, slots=True)
class KubeConfig:
    """How to reach another cluster."""

    secret_ref: SecretKeyRef


@checked(config=CAMEL, frozen=True, slots=True)
class Prune:
    """What happens to objects that have left the source."""

    enabled: StrictBool = True
    max_prune: MaxPrune = None
    allow_empty: StrictBool = False


@checked(config=CAMEL, frozen=True, slots=True)
class Dependency:
    """A Bundle of the same namespace that must be ready first."""

    name: Name
    ready_when: Expression = ""
    """A CEL expression; if it is empty, the condition Ready must be true."""


@checked(config=CAMEL, frozen=True, slots=True)
class IgnoreFields:
    """Fields that are left to other field managers."""

    fields: tuple[Pointer, ...]
    """JSON pointers."""
    kind: str = ""
    """KIND or KIND.GROUP; empty for all kinds."""


@checked(config=CAMEL, frozen=True, slots=True)
class Spec:
    """The spec of a Bundle; times are in seconds."""

    source: Source
    decryption: Decryption | None = None
    interval: Seconds = 600.0
    retry_interval: Seconds = 30.0
    timeout: Seconds = 300.0
    suspend: StrictBool = False
    prune: Prune = Prune()
    drift: DriftSpec = DriftSpec()
    approval: Approval = Approval.AUTOMATIC
    wait: StrictBool = False
    fail_fast: StrictBool = False
    ready_when: tuple[KindRule, ...] = ()
    force_conflicts: StrictBool = False
    adopt: Adopt = Adopt.UNOWNED
    adopt_as: Ownership = Ownership.ADOPTED
    recreate: StrictBool = False
    helm_hooks: HelmHooks = HelmHooks.REFUSE
    target_namespace: Label = ""
    kube_config: KubeConfig | None = None
    """The cluster of the objects; None for that of the Bundle."""
    service_account_name: Name = "default"
    depends_on: tuple[Dependency, ...] = ()
    deletion_policy: DeletionPolicy = DeletionPolicy.MIRROR
    inventory_name: str = ""
    ignore_fields: tuple[IgnoreFields, ...] = ()
    no_default_ignore: tuple[DefaultRule, ...] = ()


SPEC: TypeAdapter[Spec] = TypeAdapter(Spec)
"""Parses a spec and generates its schema."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """One Bundle as it was read."""

    namespace: str
    name: str
    spec: Spec
    timeout: float
    """How many seconds each wait of this reconcile may take."""
    generation: int = 0
    """The number of changes of its spec."""
    home: str = ""
    """The UID of its cluster, if its objects are in another one."""

    @property
    def owner(self) -> str:
        """Return the Bundle's name as the owner in an inventory."""
        return owner_name(self.namespace, self.name) + (self.home and f"{OF_CLUSTER}{self.home}")

    @property
    def deletion_policy(self) -> DeletionPolicy:
        """Return the policy for its removal; never ``MIRROR``."""
        policy, prunes = self.spec.deletion_policy, self.spec.prune.enabled
        if policy is not DeletionPolicy.MIRROR:
            return policy
        return DeletionPolicy.DELETE if prunes else DeletionPolicy.ORPHAN  # guard: mirror-prune

    @property
    def has_secret_source(self) -> bool:
        """Return whether the manifests are confidential: no message may show a value of them.

        They come from a Secret, or are decrypted.
        """
        return bool(self.spec.source.secret_refs) or self.spec.decryption is not None

    @property
    def target(self) -> ApplySetIdentity:
        """Return the set that it applies; raise UsageError if its name is invalid."""
        return applyset_identity(self.spec.inventory_name or self.name, self.namespace)

    @property
    def ignore_rules(self) -> tuple[IgnoreRule, ...]:
        """Return the rules of ``spec.ignoreFields``, one for each pointer."""
        return tuple(
            IgnoreRule(pointer, fields.kind)
            for fields in self.spec.ignore_fields
            for pointer in fields.fields
        )

    def options(
        self,
        mode: Mode,
        *,
        approved: str = "",
        source: str = "",
        contended: frozenset[FieldWriter] = frozenset(),
        corrects: frozenset[Ref] = frozenset(),
        tries_rewritten: bool = False,
    ) -> Options:
        """Return the options of a run.

        ``approved`` is the value of the annotation, and ``source`` the version of the source.
        ``contended`` are the managers that win if they have changed their fields again. With
        ``corrects``, the run is about the drift of these objects only. With ``tries_rewritten``,
        it sends again what admission has rewritten.
        """
        spec = self.spec
        approved = approved if is_digest(approved) else ""
        # To delete or orphan the whole set is a decision of its own.
        removes = mode is not Mode.APPLY
        approval = Approval.AUTOMATIC if removes else spec.approval
        return Options(
            mode=mode,
            # One look: no worker waits for another run. What was seen counts at the next look.
            lock_timeout=0.0,
            concurrency=_CONCURRENCY,
            # Only the server knows which objects must be recreated, and which would not change.
            check=approval is not Approval.AUTOMATIC,
            approval=approval,
            approved_plan=approved,
            source=source,
            contended=contended if spec.drift.policy is DriftPolicy.CORRECT else frozenset(),
            corrects=corrects,
            tries_rewritten=tries_rewritten,
            apply=ApplyOptions(
                adopt=spec.adopt,
                on_drift=ON_DRIFT[spec.drift.policy],
                adopt_as=spec.adopt_as,
                force_conflicts=spec.force_conflicts,
                recreate=spec.recreate,
                helm_hooks=spec.helm_hooks,
                no_default_ignore=frozenset(spec.no_default_ignore),
            ),
            prune=PruneOptions(
                enabled=spec.prune.enabled or removes,
                allow_empty=spec.prune.allow_empty,
                max_prune=spec.prune.max_prune,
                apply_anyway=spec.approval is not Approval.ALWAYS,
                approved=approved,
            ),
            wait=WaitOptions(
                WaitMode.ALL if spec.wait else WaitMode.AUTO,
                timeout=self.timeout,
                turn=_TURN,
                fail_fast=spec.fail_fast,
                # A removal waits for nothing to be ready, and their kinds may be gone.
                ready_when=() if removes else tuple(map(rule_of_kind, spec.ready_when)),
            ),
        )


def owner_name(namespace: str, name: str) -> str:
    """Return the name of a Bundle as the owner in an inventory."""
    return f"{BUNDLES.kind} {namespace}/{name}"


def read_bundle(live: LiveObject) -> Bundle:
    """Return the Bundle in an object that was read in full.

    Raises InvalidSpec with all faults, not only the first one.
    """
    raw = (live.body or {}).get("spec")
    faults: list[str] = []
    try:
        spec = SPEC.validate_python(without_nulls({} if raw is None else raw))
    except ValidationError as error:
        faults += map(fault_text, error.errors(include_url=False))
    else:
        place = (live.ref.namespace, live.ref.name)
        bundle = Bundle(*place, spec, spec.timeout, live.generation or 0)
        faults += _faults(bundle)
    if faults:
        raise InvalidSpec("the spec is invalid", reason="; ".join(faults))
    return bundle


def without_nulls(value: Any) -> Any:
    """Return a value without its null fields, so that they get their defaults."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def fault_text(error: ErrorDetails) -> str:
    """Return ``spec.dependsOn[0].name: is required``, without a value that may be confidential."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error["loc"])
    message = _MESSAGES.get(error["type"], error["msg"])
    if error["type"] == "value_error":
        message = str(error["ctx"]["error"])
    elif error["type"] == "enum":
        message = f"must be {error['ctx']['expected']}, not {error['input']!r}"
    return f"spec{path}: {message}"


def _faults(bundle: Bundle) -> list[str]:
    """Return the faults that concern more than the type of a field."""
    faults = []
    try:
        _ = bundle.target
    except UsageError as error:
        faults.append(f"{error.message}: {error.reason}")
    if any(dependency.name == bundle.name for dependency in bundle.spec.depends_on):
        faults.append("spec.dependsOn: a Bundle cannot depend on itself")
    return faults
