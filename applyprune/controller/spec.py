"""The spec of a Bundle, parsed and validated, with all that its CRD cannot check.

pydantic checks the types. It reports all faults at once, each with the path of its field, and
generates the schema that a test compares with the CRD (``deploy/crd.yaml``) in both directions.
"""

from __future__ import annotations

import re
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as checked

from applyprune.controller.reasons import DriftPolicy
from applyprune.errors import ApplypruneError, UsageError
from applyprune.model.inventory import OF_CLUSTER, Ownership
from applyprune.model.live import BUNDLES, LiveObject
from applyprune.model.options import (
    Adopt,
    ApplyOptions,
    Approval,
    HelmHooks,
    Mode,
    OnDrift,
    Options,
    PruneLimit,
    PruneOptions,
    WaitMode,
    WaitOptions,
    parse_duration,
    parse_ready_when,
)
from applyprune.model.problem import ProblemKind
from applyprune.model.text import is_dns_label, is_dns_subdomain
from applyprune.planning.applyset import ApplySetIdentity, applyset_identity
from applyprune.planning.cel import compile_rule
from applyprune.planning.digests import is_digest
from applyprune.planning.normalize import DefaultRule, IgnoreRule, split_pointers
from applyprune.sources.tree import clean_path
from applyprune.values import dataclass, pattern

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from applyprune.model.fieldset import FieldWriter
    from applyprune.model.identity import Ref


def read_bundle(live: LiveObject) -> BundleSpec:
    """Return the Bundle in an object that was read in full.

    Raises InvalidSpec with all faults, not only the first one.
    """
    raw = (live.body or {}).get("spec")
    faults: list[str] = []
    try:
        spec = SPEC.validate_python(without_null_fields({} if raw is None else raw))
    except ValidationError as error:
        faults += map(fault_text, error.errors(include_url=False))
    else:
        place = (live.ref.namespace, live.ref.name)
        bundle = BundleSpec(*place, spec, spec.timeout, live.generation or 0)
        faults += _faults(bundle)
    if faults:
        raise InvalidSpec("the spec is invalid", reason="; ".join(faults))
    return bundle


class InvalidSpec(UsageError):
    """An invalid spec; ``reason`` lists every fault."""

    kind = ProblemKind.INVALID_SPEC


def without_null_fields(value: Any) -> Any:
    """Return a value without its null fields, so that they get their defaults."""
    if isinstance(value, dict):
        return {key: without_null_fields(item) for key, item in value.items() if item is not None}
    return [without_null_fields(item) for item in value] if isinstance(value, list) else value


_MESSAGES = {
    "bool_type": "must be true or false",
    "dataclass_type": "must be an object",
    "int_type": "must be a whole number",
    "missing": "is required",
    "string_type": "must be text",
    "tuple_type": "must be a list",
}
"""Our message for each of pydantic's error types."""


def fault_text(error: ErrorDetails) -> str:
    """Return ``spec.dependsOn[0].name: is required``, without a value that may be confidential."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error["loc"])
    message = _MESSAGES.get(error["type"], error["msg"])
    if error["type"] == "value_error":
        message = str(error["ctx"]["error"])
    elif error["type"] == "enum":
        message = f"must be {error['ctx']['expected']}, not {error['input']!r}"
    return f"spec{path}: {message}"


def _faults(bundle: BundleSpec) -> list[str]:
    """Return the faults that concern more than the type of a field."""
    faults = name_fault(bundle)
    if any(dependency.name == bundle.name for dependency in bundle.spec.depends_on):
        faults.append("spec.dependsOn: a Bundle cannot depend on itself")
    return faults


def name_fault(bundle: BundleSpec) -> list[str]:
    """Return why no set can have its name, as a list of at most one."""
    try:
        _ = bundle.target
    except UsageError as error:
        return [f"{error.message}: {error.reason}"]
    return []


ON_DRIFT = {
    DriftPolicy.CORRECT: OnDrift.REVERT,
    DriftPolicy.REPORT: OnDrift.KEEP,
    DriftPolicy.IGNORE: OnDrift.KEEP,
}
"""What a run does: Report and Ignore differ only in what the Bundle says."""

_CONCURRENCY = 8
_TURN = 1.0
"""Seconds that a reconcile may wait; then its worker serves another Bundle."""


@dataclass(frozen=True, slots=True)
class BundleSpec:
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
        owner = f"{BUNDLES.kind} {self.namespace}/{self.name}"
        return f"{owner}{OF_CLUSTER}{self.home}" if self.home else owner

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
                ready_when=() if removes else tuple(map(parse_ready_when, spec.ready_when)),
            ),
        )


# The types of fields, each with the checks that its CRD cannot make.


CAMEL = ConfigDict(alias_generator=to_camel, hide_input_in_errors=True)
"""The configuration of each part of a spec."""
_LONGEST = 30 * 24 * 3600.0


def _seconds(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError("must be text such as 90s or 5m")  # noqa: TRY004 - pydantic collects it
    try:
        seconds = parse_duration(value)
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
    if not is_dns_label(text):  # guard: name-of-one-namespace
        raise ValueError(f"{text!r} is not a DNS label")
    return text


def _name(text: str) -> str:
    # It becomes part of a URL path, and of the name of a user.
    if not is_dns_subdomain(text):  # guard: name-of-one-object
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


def _expression(text: str) -> str:
    if text:
        try:
            compile_rule(text, where="")
        except ApplypruneError as error:
            raise ValueError(f"{error.message}: {error.reason}") from None
    return text


def _kind_rule(text: str) -> str:
    try:
        _, expression = parse_ready_when(text)
    except ValueError as error:
        raise ValueError(f"{text!r} {error}") from None
    _expression(expression)
    return text


Seconds = Annotated[float, BeforeValidator(_seconds), WithJsonSchema({"type": "string"})]
MaxPrune = Annotated[
    PruneLimit | None,
    BeforeValidator(_max_prune),
    WithJsonSchema({"x-kubernetes-int-or-string": True}),
]
Label = Annotated[str, AfterValidator(_label)]
ObjectName = Annotated[str, AfterValidator(_name)]
Pointer = Annotated[str, AfterValidator(_pointer)]
Expression = Annotated[str, AfterValidator(_expression)]
"""A CEL expression that returns a bool, or nothing."""
KindRule = Annotated[str, AfterValidator(_kind_rule)]
"""``KIND.GROUP=EXPRESSION``."""


# The fields of ``spec.source`` and ``spec.decryption``; names and Secret keys are Flux's.


_GIT_URL = pattern(r"(?:https|ssh)://[^\s@/?#]+(?:@[^\s@/?#]+)?/[^\s?#]+")
_USER = pattern(r"https://[^/]*@")
_SCP_URL = pattern(r"([^\s@/:?#]+@[^\s@/:?#]+):/*([^\s?#]+)")
_OCI_URL = pattern(r"oci://[A-Za-z0-9.\-]+(?::[0-9]+)?(?:/[a-z0-9]+(?:[._\-]+[a-z0-9]+)*)+")
_ARCHIVE_URL = pattern(r"https://[^\s@/?#]+/[^\s#]+")
_ARCHIVE_NAME = pattern(r"\.(?:tar|tar\.gz|tgz)(?:\?|$)")
_REF = pattern(r"[^\s~^:?*\[\\\x00-\x1f\x7f-]+[^\s~^:?*\[\\\x00-\x1f\x7f]*")
_COMMIT = pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DIGEST = pattern(r"sha256:[0-9a-f]{64}")
_TAG = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}")


def _git_url(text: str) -> str:
    if (scp := _SCP_URL.fullmatch(text)) is not None:
        raise ValueError(f"must be written as ssh://{scp[1]}/{scp[2]}")
    if _GIT_URL.fullmatch(text) is None or _USER.match(text):
        raise ValueError("must be https://HOST/PATH or ssh://USER@HOST/PATH, without a password")
    return text


def _oci_url(text: str) -> str:
    if _OCI_URL.fullmatch(text) is None:
        raise ValueError("must be oci://HOST/NAME, without a tag: that is in ref")
    return text


def _archive_url(text: str) -> str:
    if _ARCHIVE_URL.fullmatch(text) is None or _ARCHIVE_NAME.search(text) is None:
        raise ValueError("must be https://HOST/PATH that ends in .tar.gz, .tgz or .tar")
    return text


def _one_word(word: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": [word]})


def _matching(pattern: re.Pattern[str], words: str) -> AfterValidator:
    def check(text: str) -> str:
        if text and pattern.fullmatch(text) is None:
            raise ValueError(f"must be {words}")
        return text

    return AfterValidator(check)


def _ref(text: str) -> str:
    wrong = ".." in text or text.endswith(("/", ".lock")) or "@{" in text
    if text and (wrong or _REF.fullmatch(text) is None):
        raise ValueError("must be the name of a Git reference")
    return text


def _full_ref(text: str) -> str:
    if text and not text.startswith("refs/"):
        raise ValueError("must begin with refs/")
    return _ref(text)


def _path(text: str) -> str:
    path = clean_path(text)
    if path is None or not path.isprintable():
        raise ValueError("must be a relative path without .. and control characters")
    return path


RefName = Annotated[str, AfterValidator(_ref)]
SourcePath = Annotated[str, AfterValidator(_path)]
Digest = Annotated[str, _matching(_DIGEST, "sha256: and 64 hexadecimal digits")]


@checked(config=CAMEL, frozen=True, slots=True)
class SourceRef:
    """A ConfigMap or Secret whose values are manifests; without ``keys``, all values."""

    name: ObjectName
    keys: tuple[str, ...] = ()


@checked(config=CAMEL, frozen=True, slots=True)
class SecretRef:
    """A Secret of the Bundle's namespace."""

    name: ObjectName


class GitVerifyMode(StrEnum):
    """Which signatures of a Git source must be valid."""

    HEAD = "HEAD"
    """That of the commit."""
    TAG = "Tag"
    """That of the tag."""
    BOTH = "TagAndHEAD"


@checked(config=CAMEL, frozen=True, slots=True)
class GitVerify:
    """Whose signatures a Git source must have: ``*.asc`` and ``*.sshpub`` of a Secret."""

    secret_ref: SecretRef
    mode: GitVerifyMode = GitVerifyMode.HEAD


@checked(config=CAMEL, frozen=True, slots=True)
class GitRefSpec:
    """What of a repository is followed; without a field, its default branch."""

    branch: RefName = ""
    tag: RefName = ""
    semver: str = ""
    """A range of versions; the highest tag in it."""
    name: Annotated[str, AfterValidator(_full_ref)] = ""
    commit: Annotated[str, _matching(_COMMIT, "a whole commit ID")] = ""


@checked(config=CAMEL, frozen=True, slots=True)
class GitSpec:
    """A Git repository; times are in seconds."""

    url: Annotated[str, AfterValidator(_git_url)]
    ref: GitRefSpec = GitRefSpec()
    path: SourcePath = ""
    interval: Seconds = 60.0
    timeout: Seconds = 60.0
    secret_ref: SecretRef | None = None
    verify: GitVerify | None = None


@checked(config=CAMEL, frozen=True, slots=True)
class OciVerify:
    """Whose signatures an artifact must have: ``*.pub`` of a Secret."""

    secret_ref: SecretRef
    provider: Annotated[Literal["cosign"], _one_word("cosign")] = "cosign"


@checked(config=CAMEL, frozen=True, slots=True)
class OciRefSpec:
    """Which version of an artifact is followed; without a field, the tag latest."""

    tag: Annotated[str, _matching(_TAG, "the name of a tag")] = ""
    semver: str = ""
    """A range of versions; the highest tag in it."""
    digest: Digest = ""


@checked(config=CAMEL, frozen=True, slots=True)
class OciSpec:
    """An artifact in an OCI registry; times are in seconds."""

    url: Annotated[str, AfterValidator(_oci_url)]
    ref: OciRefSpec = OciRefSpec()
    path: SourcePath = ""
    interval: Seconds = 60.0
    timeout: Seconds = 60.0
    secret_ref: SecretRef | None = None
    cert_secret_ref: SecretRef | None = None
    verify: OciVerify | None = None


@checked(config=CAMEL, frozen=True, slots=True)
class ArchiveSpec:
    """A tar archive at an HTTPS URL; times are in seconds."""

    url: Annotated[str, AfterValidator(_archive_url)]
    digest: Digest = ""
    path: SourcePath = ""
    interval: Seconds = 60.0
    timeout: Seconds = 60.0
    secret_ref: SecretRef | None = None
    cert_secret_ref: SecretRef | None = None


@checked(config=CAMEL, frozen=True, slots=True)
class BundleSource:
    """The source of the manifests: exactly one of the fields is set."""

    inline: str | None = field(default=None, repr=False)
    config_map_refs: tuple[SourceRef, ...] = ()
    secret_refs: tuple[SourceRef, ...] = ()
    git: GitSpec | None = None
    oci: OciSpec | None = None
    archive: ArchiveSpec | None = None

    @property
    def remote(self) -> GitSpec | OciSpec | ArchiveSpec | None:
        """Return the source on another host; None if the manifests are in the cluster."""
        return self.git or self.oci or self.archive

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        given = (
            self.inline is not None,
            bool(self.config_map_refs),
            bool(self.secret_refs),
            self.git is not None,
            self.oci is not None,
            self.archive is not None,
        )
        if sum(given) != 1:
            raise ValueError(
                "give exactly one of inline, configMapRefs, secretRefs, git, oci and archive"
            )
        return self


@checked(config=CAMEL, frozen=True, slots=True)
class Decryption:
    """How encrypted files of a source are decrypted: ``*.agekey`` and ``*.asc`` of a Secret."""

    secret_ref: SecretRef
    provider: Annotated[Literal["sops"], _one_word("sops")] = "sops"


# The other fields; pydantic needs each type before its use.


@checked(config=CAMEL, frozen=True, slots=True)
class Contention:
    """How often the same field is reverted in which period before its object is left alone."""

    reverts: Annotated[StrictInt, Field(ge=1, le=100)] = 5
    within: Seconds = 600.0


@checked(config=CAMEL, frozen=True, slots=True)
class DriftSpec:
    """What happens to drift."""

    policy: DriftPolicy = DriftPolicy.CORRECT
    contention: Contention = Contention()


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

    name: ObjectName
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

    name: ObjectName
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

    source: BundleSource
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
    service_account_name: ObjectName = "default"
    depends_on: tuple[Dependency, ...] = ()
    deletion_policy: DeletionPolicy = DeletionPolicy.MIRROR
    inventory_name: str = ""
    ignore_fields: tuple[IgnoreFields, ...] = ()
    no_default_ignore: tuple[DefaultRule, ...] = ()


SPEC: TypeAdapter[Spec] = TypeAdapter(Spec)
"""Parses a spec and generates its schema."""
