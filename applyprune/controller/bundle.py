"""A Bundle's spec as a value, and the reading of it: whatever the CRD lets through is judged here.

pydantic checks the types. It names every fault at once, by the path of the field, and gives the
schema that a test compares with that of the CRD (``deploy/crd.yaml``), in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    StrictBool,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as checked

from applyprune.errors import ApplypruneError, UsageError
from applyprune.model.identity import is_dns_label, is_dns_subdomain
from applyprune.model.options import (
    Adopt,
    ApplyOptions,
    Mode,
    Options,
    PruneLimit,
    PruneOptions,
    WaitOptions,
    seconds_of,
)
from applyprune.model.problem import ProblemKind
from applyprune.model.resources import BUNDLES
from applyprune.planning.applyset import ApplySetIdentity, applyset_identity
from applyprune.planning.fields.ignore_rule import IgnoreRule, split_pointers
from applyprune.planning.readiness.cel import compile_rule

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from applyprune.model.live import LiveObject

_DEFAULT_MAX_PRUNE = PruneLimit()
_LOCK_TIMEOUT = 10.0
_CONCURRENCY = 8
_LONGEST = 30 * 24 * 3600.0
_CAMEL = ConfigDict(alias_generator=to_camel, hide_input_in_errors=True)
_FAULTS = {
    "bool_type": "must be true or false",
    "dataclass_type": "must be an object",
    "missing": "is required",
    "string_type": "must be text",
    "tuple_type": "must be a list",
}
"""What pydantic calls a fault, and what we call it."""


class InvalidSpec(UsageError):
    """A Bundle whose spec cannot be carried out; ``why`` lists everything that is wrong."""

    kind = ProblemKind.INVALID_SPEC


def _seconds(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError("must be text such as 90s or 5m")  # noqa: TRY004 - pydantic collects it
    try:
        seconds = seconds_of(value)
    except ValueError as error:
        raise ValueError(f"{value!r} {error}") from None
    if not 1.0 <= seconds <= _LONGEST:
        raise ValueError(f"{value!r} is not between 1s and 720h")
    return seconds


def _max_prune(value: object) -> PruneLimit:
    try:
        return PruneLimit.parse(str(value))
    except ValueError as error:
        raise ValueError(f"{value!r} {error}") from None


def _label(text: str) -> str:
    if not is_dns_label(text):
        raise ValueError(f"{text!r} is not a DNS label")
    return text


def _name(text: str) -> str:
    # It becomes part of a path.
    if not is_dns_subdomain(text):
        raise ValueError(f"{text!r} is not a valid name")
    return text


def _pointer(text: str) -> str:
    if split_pointers(text) != (text,):
        raise ValueError(f"{text!r} is not a single JSON pointer")
    try:
        IgnoreRule(text)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
    return text


Seconds = Annotated[float, BeforeValidator(_seconds), WithJsonSchema({"type": "string"})]
MaxPrune = Annotated[
    PruneLimit,
    BeforeValidator(_max_prune),
    WithJsonSchema({"x-kubernetes-int-or-string": True}),
]
Label = Annotated[str, AfterValidator(_label)]
Name = Annotated[str, AfterValidator(_name)]
Pointer = Annotated[str, AfterValidator(_pointer)]


class DeletionPolicy(StrEnum):
    """What becomes of the objects when the Bundle is deleted."""

    DELETE = "Delete"
    WAIT = "WaitForTermination"
    ORPHAN = "Orphan"


@checked(config=_CAMEL, frozen=True, slots=True)
class SourceRef:
    """A ConfigMap or Secret whose values are manifests; all of its keys when none is named."""

    name: Name
    keys: tuple[str, ...] = ()


@checked(config=_CAMEL, frozen=True, slots=True)
class Source:
    """Where the manifests are: exactly one of the three is given."""

    inline: str | None = field(default=None, repr=False)
    config_map_refs: tuple[SourceRef, ...] = ()
    secret_refs: tuple[SourceRef, ...] = ()

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        given = (self.inline is not None, bool(self.config_map_refs), bool(self.secret_refs))
        if sum(given) != 1:
            raise ValueError("give exactly one of inline, configMapRefs and secretRefs")
        return self


@checked(config=_CAMEL, frozen=True, slots=True)
class Prune:
    """What becomes of what has left the source."""

    enabled: StrictBool = True
    max_prune: MaxPrune = _DEFAULT_MAX_PRUNE
    allow_empty: StrictBool = False


@checked(config=_CAMEL, frozen=True, slots=True)
class Dependency:
    """A Bundle of the same namespace to be ready first; ``ready_when`` is CEL, empty for Ready."""

    name: Name
    ready_when: str = ""


@checked(config=_CAMEL, frozen=True, slots=True)
class IgnoreFields:
    """JSON pointers of fields to be left to others; ``kind`` is KIND or KIND.GROUP, or empty."""

    fields: tuple[Pointer, ...]
    kind: str = ""


@checked(config=_CAMEL, frozen=True, slots=True)
class Spec:
    """What a Bundle asks for; times in seconds."""

    source: Source
    interval: Seconds = 600.0
    retry_interval: Seconds = 30.0
    timeout: Seconds = 300.0
    suspend: StrictBool = False
    prune: Prune = Prune()
    wait: StrictBool = False
    force_conflicts: StrictBool = False
    adopt: Adopt = Adopt.UNOWNED
    recreate: StrictBool = False
    target_namespace: Label = ""
    service_account_name: Name = "default"
    depends_on: tuple[Dependency, ...] = ()
    deletion_policy: DeletionPolicy = DeletionPolicy.DELETE
    inventory_name: str = ""
    ignore_fields: tuple[IgnoreFields, ...] = ()


SPEC: TypeAdapter[Spec] = TypeAdapter(Spec)
"""Reads a spec, and gives its schema."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """One Bundle as it was read; ``timeout`` is how long each wait of this pass may take."""

    namespace: str
    name: str
    spec: Spec
    timeout: float

    @property
    def owner(self) -> str:
        """Return how the inventory names it."""
        return owner_name(self.namespace, self.name)

    @property
    def target(self) -> ApplySetIdentity:
        """Return the set that it applies; raises UsageError when there can be no such set."""
        return applyset_identity(self.spec.inventory_name or self.name, self.namespace)

    @property
    def ignore_rules(self) -> tuple[IgnoreRule, ...]:
        """Return the rules of ``spec.ignoreFields``, one for each pointer."""
        return tuple(
            IgnoreRule(pointer, fields.kind)
            for fields in self.spec.ignore_fields
            for pointer in fields.fields
        )

    def options(self, mode: Mode, *, approved: str = "") -> Options:
        """Return the decisions of one run for it; ``approved`` is the digest of a prune."""
        spec = self.spec
        return Options(
            mode=mode,
            lock_timeout=_LOCK_TIMEOUT,
            concurrency=_CONCURRENCY,
            apply=ApplyOptions(
                adopt=spec.adopt, force_conflicts=spec.force_conflicts, recreate=spec.recreate
            ),
            prune=PruneOptions(
                enabled=spec.prune.enabled,
                allow_empty=spec.prune.allow_empty,
                max_prune=spec.prune.max_prune,
                approved=approved,
            ),
            wait=WaitOptions(enabled=spec.wait, timeout=self.timeout),
        )


def owner_name(namespace: str, name: str) -> str:
    """Return what an inventory records of the Bundle that owns it."""
    return f"{BUNDLES.kind} {namespace}/{name}"


def read_bundle(live: LiveObject) -> Bundle:
    """Return the Bundle that an object read in full is.

    Raises InvalidSpec with everything that is wrong with it, not the first fault only.
    """
    raw = (live.body or {}).get("spec")
    faults: list[str] = []
    try:
        spec = SPEC.validate_python(_without_nulls({} if raw is None else raw))
    except ValidationError as error:
        faults += map(_fault, error.errors(include_url=False))
    else:
        bundle = Bundle(live.ref.namespace, live.ref.name, spec, spec.timeout)
        faults += _faults(bundle)
    if faults:
        raise InvalidSpec("the spec cannot be carried out", reason="; ".join(faults))
    return bundle


def _without_nulls(value: Any) -> Any:
    """Return a value without the fields that are null: each of them is at its default."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def _fault(error: ErrorDetails) -> str:
    """Return ``spec.dependsOn[0].name: is required``, without a value that may be confidential."""
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error["loc"])
    words = _FAULTS.get(error["type"], error["msg"])
    if error["type"] == "value_error":
        words = str(error["ctx"]["error"])
    elif error["type"] == "enum":
        words = f"must be {error['ctx']['expected']}, not {error['input']!r}"
    return f"spec{where}: {words}"


def _faults(bundle: Bundle) -> list[str]:
    """Return what is wrong beyond single fields."""
    faults = []
    try:
        _ = bundle.target
    except UsageError as error:
        faults.append(f"{error.message}: {error.reason}")
    for one in bundle.spec.depends_on:
        if one.name == bundle.name:
            faults.append("spec.dependsOn: a Bundle cannot depend on itself")
        if one.ready_when:
            faults += _rule_fault(one)
    return faults


def _rule_fault(one: Dependency) -> list[str]:
    try:
        compile_rule(one.ready_when, where=f"spec.dependsOn {one.name}")
    except ApplypruneError as error:
        return [
            f"{error.location}: {error.message}" + (f": {error.reason}" if error.reason else "")
        ]
    return []
