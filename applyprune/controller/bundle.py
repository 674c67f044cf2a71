"""A Bundle's spec as a value, and the reading of it: whatever the CRD lets through is judged here.

The CRD (``deploy/crd.yaml``) says the same of types and defaults; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from applyprune.controller.reading import Fields
from applyprune.errors import ApplypruneError, UsageError
from applyprune.model.builtin import BUNDLES
from applyprune.model.options import Adopt, Mode, Options, PruneLimit
from applyprune.model.problems import ProblemKind
from applyprune.planning.ready_rules import compile_rule
from applyprune.planning.tracking import SetIdentity, identity

if TYPE_CHECKING:
    from applyprune.model.live import Live

_DEFAULT_MAX_PRUNE = PruneLimit()
_LOCK_TIMEOUT = 10.0
_CONCURRENCY = 8


class InvalidSpec(UsageError):
    """A Bundle whose spec cannot be carried out; ``why`` lists everything that is wrong."""

    kind = ProblemKind.INVALID_SPEC


class DeletionPolicy(StrEnum):
    """What becomes of the objects when the Bundle is deleted."""

    DELETE = "Delete"
    WAIT = "WaitForTermination"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True, order=True)
class SourceRef:
    """A ConfigMap or Secret whose values are manifests; all of its keys when none is named."""

    name: str
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Where the manifests are: exactly one of the three is given."""

    inline: str | None = field(default=None, repr=False)
    config_map_refs: tuple[SourceRef, ...] = ()
    secret_refs: tuple[SourceRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Prune:
    """What becomes of what has left the source."""

    enabled: bool = True
    max_prune: PruneLimit = _DEFAULT_MAX_PRUNE
    allow_empty: bool = False


@dataclass(frozen=True, slots=True)
class Dependency:
    """A Bundle of the same namespace to be ready first; ``ready_when`` is CEL, empty for Ready."""

    name: str
    ready_when: str = ""


@dataclass(frozen=True, slots=True)
class IgnoreFields:
    """JSON pointers of fields to be left to others; ``kind`` is KIND or KIND.GROUP, or empty."""

    fields: tuple[str, ...]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Spec:
    """What a Bundle asks for; times in seconds."""

    source: Source
    interval: float = 600.0
    retry_interval: float = 30.0
    timeout: float = 300.0
    suspend: bool = False
    prune: Prune = Prune()
    wait: bool = False
    force_conflicts: bool = False
    adopt: Adopt = Adopt.UNOWNED
    recreate: bool = False
    target_namespace: str = ""
    service_account_name: str = "default"
    depends_on: tuple[Dependency, ...] = ()
    deletion_policy: DeletionPolicy = DeletionPolicy.DELETE
    inventory_name: str = ""
    ignore_fields: tuple[IgnoreFields, ...] = ()


@dataclass(frozen=True, slots=True)
class Bundle:
    """One Bundle as it was read."""

    namespace: str
    name: str
    spec: Spec

    @property
    def owner(self) -> str:
        """Return how the inventory names it."""
        return owner_name(self.namespace, self.name)

    @property
    def target(self) -> SetIdentity:
        """Return the set that it applies; raises UsageError when there can be no such set."""
        return identity(self.spec.inventory_name or self.name, self.namespace)

    def options(self, mode: Mode, *, approved: str = "") -> Options:
        """Return the decisions of one run for it; ``approved`` is the digest of a prune."""
        spec = self.spec
        return Options(
            mode=mode,
            prune=spec.prune.enabled,
            adopt=spec.adopt,
            force_conflicts=spec.force_conflicts,
            allow_empty=spec.prune.allow_empty,
            max_prune=spec.prune.max_prune,
            recreate=spec.recreate,
            wait=spec.wait,
            timeout=spec.timeout,
            lock_timeout=_LOCK_TIMEOUT,
            concurrency=_CONCURRENCY,
            approved=approved,
        )


def owner_name(namespace: str, name: str) -> str:
    """Return what an inventory records of the Bundle that owns it."""
    return f"{BUNDLES.kind} {namespace}/{name}"


def read_bundle(live: Live) -> Bundle:
    """Return the Bundle that an object read in full is.

    Raises InvalidSpec with everything that is wrong with it, not the first fault only.
    """
    fields = Fields("spec", (live.body or {}).get("spec"))
    bundle = Bundle(live.ref.namespace, live.ref.name, _spec(fields))
    faults = [*fields.faults]
    if not faults:
        faults += _faults(bundle)
    if faults:
        raise InvalidSpec("the spec cannot be carried out", why="; ".join(faults))
    return bundle


def _spec(fields: Fields) -> Spec:
    source = fields.part("source")
    prune = fields.part("prune")
    return Spec(
        source=Source(
            inline=source.given("inline"),
            config_map_refs=tuple(map(_ref, source.parts("configMapRefs"))),
            secret_refs=tuple(map(_ref, source.parts("secretRefs"))),
        ),
        interval=fields.seconds("interval", 600.0),
        retry_interval=fields.seconds("retryInterval", 30.0),
        timeout=fields.seconds("timeout", 300.0),
        suspend=fields.flag("suspend"),
        prune=Prune(
            enabled=prune.flag("enabled", default=True),
            max_prune=_max_prune(prune),
            allow_empty=prune.flag("allowEmpty"),
        ),
        wait=fields.flag("wait"),
        force_conflicts=fields.flag("forceConflicts"),
        adopt=Adopt(fields.choice("adopt", [str(one) for one in Adopt], str(Adopt.UNOWNED))),
        recreate=fields.flag("recreate"),
        target_namespace=fields.name("targetNamespace"),
        service_account_name=fields.name("serviceAccountName") or "default",
        depends_on=tuple(
            Dependency(one.name("name"), one.text("readyWhen")) for one in fields.parts("dependsOn")
        ),
        deletion_policy=DeletionPolicy(
            fields.choice(
                "deletionPolicy", [str(one) for one in DeletionPolicy], str(DeletionPolicy.DELETE)
            )
        ),
        inventory_name=fields.name("inventoryName"),
        ignore_fields=tuple(
            IgnoreFields(one.texts("fields"), one.text("kind"))
            for one in fields.parts("ignoreFields")
        ),
    )


def _ref(fields: Fields) -> SourceRef:
    return SourceRef(fields.name("name"), fields.texts("keys"))


def _max_prune(fields: Fields) -> PruneLimit:
    value = fields.value("maxPrune")
    if value is None:
        return PruneLimit()
    try:
        return PruneLimit.parse(str(value))
    except ValueError as error:
        return fields.refused("maxPrune", str(error), PruneLimit())


def _faults(bundle: Bundle) -> list[str]:
    """Return what is wrong beyond the types of the fields."""
    spec, faults = bundle.spec, []
    source = spec.source
    given = (source.inline is not None, bool(source.config_map_refs), bool(source.secret_refs))
    if sum(given) != 1:
        faults.append("spec.source: give exactly one of inline, configMapRefs and secretRefs")
    if not all(ref.name for ref in (*source.config_map_refs, *source.secret_refs)):
        faults.append("spec.source: a reference names nothing")
    try:
        _ = bundle.target
    except UsageError as error:
        faults.append(f"{error.what}: {error.why}")
    for one in spec.depends_on:
        if not one.name or one.name == bundle.name:
            faults.append("spec.dependsOn: a Bundle cannot depend on itself, or on nothing")
        if one.ready_when:
            faults += _rule_fault(one)
    for rule in spec.ignore_fields:
        faults += [
            f"spec.ignoreFields: {pointer!r} is no JSON pointer"
            for pointer in rule.fields
            if not pointer.startswith("/") or "," in pointer
        ]
    return faults


def _rule_fault(one: Dependency) -> list[str]:
    try:
        compile_rule(one.ready_when, where=f"spec.dependsOn {one.name}")
    except ApplypruneError as error:
        return [f"{error.where}: {error.what}" + (f": {error.why}" if error.why else "")]
    return []
