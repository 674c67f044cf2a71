"""The spec of a Bundle, parsed and validated, with all that its CRD cannot check.

pydantic checks the types. It reports all faults at once, each with the path of its field, and
``make docs`` writes the CRD (``deploy/crd.yaml``) from the same model: the docstring of each field
is its description there, and so in ``kubectl explain``, and ``_crd`` gives the bounds and the rules
in CEL that the API server checks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from msgspec import Struct
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
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
from applyprune.model.live import LiveObject
from applyprune.model.options import (
    Adopt,
    ApplyOptions,
    Approval,
    Conflicts,
    HelmHooks,
    Mode,
    Options,
    PruneLimit,
    PruneOptions,
    WaitMode,
    WaitOptions,
    parse_duration,
    parse_ready_when,
)
from applyprune.model.problem import ProblemKind
from applyprune.model.text import and_more, is_dns_label, is_dns_subdomain
from applyprune.planning.applyset import ApplySetIdentity, applyset_identity
from applyprune.planning.bundle_set import owner_of_set
from applyprune.planning.cel import compile_rule
from applyprune.planning.digests import is_digest
from applyprune.planning.normalize import DefaultRule, IgnoreRule, digest, split_pointers
from applyprune.sources.address import (
    GitSource,
    check_range,
    is_artifact_digest,
    is_commit,
    is_full_ref_name,
    is_ref_name,
    is_tag,
    parse_reference,
)
from applyprune.sources.source_ignore import IgnoreRulesInvalid, Rule, rules_in
from applyprune.sources.tree import clean_path

if TYPE_CHECKING:
    from pydantic.config import JsonDict
    from pydantic_core import ErrorDetails

    from applyprune.model.fieldset import ObjectWriter
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
        faults.append(f"spec.dependsOn: {_NOT_ITSELF}")
    return faults


_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_NOT_ITSELF = "a Bundle cannot depend on itself"
RULES_OF_BUNDLE = (
    {
        "rule": "has(self.spec.inventoryName) || (self.metadata.name.size() <= 63 && "
        f"self.metadata.name.matches('{_LABEL}') && "
        "!self.metadata.name.endsWith('-yielded'))",
        "message": "the name is also the name of the inventory: it must be a DNS label that does "
        "not end in -yielded, unless spec.inventoryName is given",
    },
    {
        "rule": "(has(self.spec.inventoryName) ? self.spec.inventoryName : self.metadata.name) == "
        "(has(oldSelf.spec.inventoryName) ? oldSelf.spec.inventoryName : oldSelf.metadata.name)",
        "message": "inventoryName cannot be changed, because the old set would remain",
    },
    {
        "rule": "!has(self.spec.dependsOn) || "
        "self.spec.dependsOn.all(one, one.name != self.metadata.name)",
        "message": _NOT_ITSELF,
    },
)
"""What the CRD checks of a whole Bundle."""


def name_fault(bundle: BundleSpec) -> list[str]:
    """Return why no set can have its name, as a list of at most one."""
    try:
        _ = bundle.target
    except UsageError as error:
        return [f"{error.message}: {error.reason}"]
    return []


_CONCURRENCY = 8
_TURN = 1.0
"""Seconds that a reconcile may wait; then its worker serves another Bundle."""


class BundleSpec(Struct, frozen=True):
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
        owner = owner_of_set(self.namespace, self.name)
        return f"{owner}{OF_CLUSTER}{self.home}" if self.home else owner

    @property
    def deletion_policy(self) -> DeletionPolicy:
        """Return the policy for its removal; never ``MIRROR``."""
        policy, prunes = self.spec.deletion_policy, self.spec.prune.enabled
        if policy is not DeletionPolicy.MIRROR:
            return policy
        # guard: mirror-prune -> DeletionPolicy.DELETE
        return DeletionPolicy.DELETE if prunes else DeletionPolicy.ORPHAN

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
    def sibling_key(self) -> str:
        """Return what only Bundles have in common that may take objects from one another.

        That is source, account and cluster; empty if the manifests are in the cluster itself.
        """
        remote = self.spec.source.remote
        if remote is None:
            return ""
        own = {"path", "ignore", "interval", "timeout"}
        source = {key: value for key, value in asdict(remote).items() if key not in own}
        cluster = self.spec.kube_config
        elsewhere = asdict(cluster) if cluster is not None else None
        return digest([type(remote).__name__, source, self.spec.service_account_name, elsewhere])

    @property
    def _conflicts(self) -> Conflicts:
        if self.spec.conflicts == "force":
            return Conflicts.FORCE
        corrects = self.spec.drift.policy is DriftPolicy.CORRECT
        return Conflicts.REVERT if corrects else Conflicts.FAIL

    @property
    def ignore_rules(self) -> tuple[IgnoreRule, ...]:
        """Return the rules of ``spec.ignoreFields``, one for each pointer."""
        return tuple(
            IgnoreRule(pointer, fields.kind)
            for fields in self.spec.ignore_fields
            for pointer in fields.fields
        )

    @property
    def ignore_paths(self) -> tuple[Rule, ...]:
        """Return the rules in ``ignore`` of its source on another host."""
        source = self.spec.source
        kind = "git" if source.git is not None else "oci"
        text = source.remote.ignore if source.remote is not None else ""
        return rules_in(text, f"spec.source.{kind}.ignore")

    def options(
        self,
        mode: Mode,
        *,
        approved: str = "",
        source: str = "",
        contended: frozenset[ObjectWriter] = frozenset(),
        corrects: frozenset[Ref] = frozenset(),
        continues: bool = False,
        tries_rewritten: bool = False,
        reruns_jobs: bool = False,
    ) -> Options:
        """Return the options of a run.

        ``approved`` is the value of the annotation, and ``source`` the version of the source.
        ``contended`` are the managers that win if they have changed their objects again. With
        ``corrects``, the run is about the drift of these objects only. One that ``continues`` a
        wait applies what an earlier run has checked. With ``tries_rewritten``, it sends again what
        admission has rewritten, and with ``reruns_jobs`` it creates Jobs that are gone.
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
            # A removal goes as far as it can, and the others send what was checked before. But only
            # the server knows which recreations, and which changes, an approval would cover.
            check=approval is not Approval.AUTOMATIC or not (removes or corrects or continues),
            approval=approval,
            approved_plan=approved,
            source=source,
            contended=contended if spec.drift.policy is DriftPolicy.CORRECT else frozenset(),
            corrects=corrects,
            tries_rewritten=tries_rewritten,
            reruns_jobs=reruns_jobs,
            apply=ApplyOptions(
                adopt=spec.adopt,
                conflicts=self._conflicts,
                # Report and Ignore differ only in what the Bundle says.
                keep_drift=spec.drift.policy is not DriftPolicy.CORRECT,
                adopt_as=spec.adopt_as,
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
                only_approved=False,
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
_RULES = "x-kubernetes-validations"
_BY_NAME = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
_LONGEST = 30 * 24 * 3600.0


def _crd(*rules: JsonDict, **said: Any) -> Any:
    """Return what the CRD says of a field beyond its type: bounds, and rules in CEL.

    The API server checks it before the controller sees the field; here it is only data.
    """
    return Field(json_schema_extra={**said, **({_RULES: [*rules]} if rules else {})})


_DNS_LABEL = _crd(minLength=1, maxLength=63, pattern=_LABEL)
_DNS_NAME = _crd(minLength=1, maxLength=253, pattern="^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
_AT_MOST_64 = _crd(maxItems=64)
_AT_MOST_255 = _crd(maxLength=255)


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
    if not is_dns_label(text):  # guard: name-of-one-namespace never
        raise ValueError(f"{text!r} is not a DNS label")
    return text


def _name(text: str) -> str:
    # It becomes part of a URL path, and of the name of a user.
    if not is_dns_subdomain(text):  # guard: name-of-one-object never
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


Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema({"type": "string"}),
    _crd(
        {
            "rule": "duration(self) >= duration('1s') && duration(self) <= duration('720h')",
            "message": "it must be between 1s and 720h",
        },
        maxLength=32,
        pattern=r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$",
    ),
]
MaxPrune = Annotated[
    PruneLimit | None,
    PlainValidator(_max_prune),
    WithJsonSchema({"x-kubernetes-int-or-string": True}),
    _crd(
        {
            "rule": "type(self) == int ? self >= 0 : "
            "string(self).matches('^([0-9]{1,9}|[0-9]{1,2}%|100%)$')",
            "message": "it must be a number, or a percentage such as 30%",
        }
    ),
]
Label = Annotated[str, AfterValidator(_label), _DNS_LABEL]
ObjectName = Annotated[str, AfterValidator(_name), _DNS_NAME]
Pointer = Annotated[str, AfterValidator(_pointer), _crd(maxLength=512, pattern="^/[^,]+$")]
Expression = Annotated[str, AfterValidator(_expression), _crd(minLength=1, maxLength=1024)]
"""A CEL expression that returns a bool, or nothing."""
KindRule = Annotated[str, AfterValidator(_kind_rule), _crd(maxLength=1024, pattern=r"^[^=]+=\s*\S")]
"""``KIND.GROUP=EXPRESSION``."""


# The fields of ``spec.source`` and ``spec.decryption``; names and Secret keys are Flux's.


_GIT_URL = "https://HOST/PATH or ssh://USER@HOST/PATH, without a password"
_OCI_URL = "oci://HOST/NAME, without a tag: that is in ref"


def _read_by(read: Callable[[str], object], words: str) -> AfterValidator:
    """Return the check that the source itself makes when it is fetched."""

    def check(text: str) -> str:
        try:
            read(text)
        except UsageError as error:
            raise ValueError(f"must be {words} ({error.reason or error.message})") from None
        return text

    return AfterValidator(check)


def _oci_url(text: str) -> None:
    found = parse_reference(text)
    if found.tag or found.digest:
        raise UsageError("it names a version")


def _one_word(word: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": [word]})


def _matching(is_valid: Callable[[str], bool], words: str) -> AfterValidator:
    def check(text: str) -> str:
        if text and not is_valid(text):
            raise ValueError(f"must be {words}")
        return text

    return AfterValidator(check)


def _path(text: str) -> str:
    path = clean_path(text)
    if path is None or not path.isprintable():
        raise ValueError("must be a relative path without .. and control characters")
    return path


def _ignore(text: str) -> str:
    try:
        rules_in(text, "")
    except IgnoreRulesInvalid as error:
        raise ValueError(error.message) from None
    return text


_OF_URLS = {"minLength": 1, "maxLength": 2048}
GitUrl = Annotated[
    str,
    _read_by(GitSource, _GIT_URL),
    _crd(
        {
            "rule": r"self.matches('^(https|ssh)://[^\\s?#]+$')",
            "messageExpression": r"self.matches('^[^\\s@/:?#]+@[^\\s@/:?#]+:[^\\s/?#][^\\s?#]*$')"
            " ? 'it must be written as ssh://' + self.replace(':', '/', 1) : "
            f"'it must be {_GIT_URL}'",
        },
        **_OF_URLS,
    ),
]
OciUrl = Annotated[
    str,
    _read_by(_oci_url, _OCI_URL),
    _crd(
        {"rule": r"self.matches('^oci://[^\\s?#]+$')", "message": f"it must be {_OCI_URL}"},
        **_OF_URLS,
    ),
]
IgnorePaths = Annotated[str, AfterValidator(_ignore), _crd(maxLength=65536)]
"""Lines as in ``.gitignore``."""
_A_REF = "the name of a Git reference"
_A_COMMIT = "a full commit ID, of 40 digits: git rev-parse NAME prints it"
RefName = Annotated[str, _matching(is_ref_name, _A_REF), _AT_MOST_255]
Range = Annotated[
    str, _read_by(lambda text: text and check_range(text), "a range of versions"), _AT_MOST_255
]
"""A range of versions."""
SourcePath = Annotated[str, AfterValidator(_path), _crd(maxLength=1024)]
Digest = Annotated[
    str, _matching(is_artifact_digest, "sha256: and 64 hexadecimal digits"), _crd(maxLength=71)
]


@checked(config=CAMEL, frozen=True, slots=True)
class SourceRef:
    """A ConfigMap or Secret whose values are manifests; without ``keys``, all values."""

    name: ObjectName
    """The name of the ConfigMap or Secret."""
    keys: Annotated[
        tuple[Annotated[str, _crd(minLength=1, maxLength=253)], ...],
        _crd(minItems=1, maxItems=256),
    ] = ()
    """The keys to read, in this order. By default all keys."""


@checked(config=CAMEL, frozen=True, slots=True)
class SecretRef:
    """A Secret of the Bundle's namespace."""

    name: ObjectName
    """The name of the Secret."""


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
    """The Secret with the public keys: *.asc for OpenPGP, *.sshpub for SSH."""
    mode: GitVerifyMode = GitVerifyMode.HEAD
    """What must be signed."""


@checked(config=CAMEL, frozen=True, slots=True)
class GitRefSpec:
    """What of a repository is followed; without a field, its default branch."""

    branch: RefName = ""
    """A branch."""
    tag: RefName = ""
    """A tag."""
    semver: Range = ""
    """A range of versions, such as ">=1.2.0 <2.0.0". The highest tag in it."""
    name: Annotated[
        str, _matching(is_full_ref_name, f"{_A_REF} that begins with refs/"), _AT_MOST_255
    ] = ""
    """A whole reference, such as refs/pull/420/head."""
    commit: Annotated[str, _matching(is_commit, _A_COMMIT), _crd(maxLength=40)] = ""
    """A whole commit ID; branch may say where it is."""


@checked(config=CAMEL, frozen=True, slots=True)
class GitSpec:
    """A Git repository; times are in seconds."""

    url: GitUrl
    """https://HOST/PATH or ssh://USER@HOST/PATH, without a password."""
    ref: GitRefSpec = GitRefSpec()
    """What is followed; by default the default branch. If several are given: commit, name, semver,
    tag, branch, the first of these."""
    path: SourcePath = ""
    """The folder or file to apply. By default all of it. A kustomization is built."""
    ignore: IgnorePaths = ""
    """Which files are left out: lines as in .gitignore, from the root of the source. They come
    after those in .sourceignore, and replace the default list."""
    interval: Seconds = 60.0
    """How often to look for a new commit."""
    timeout: Seconds = 60.0
    """How long one fetch may take; at most ten minutes."""
    secret_ref: SecretRef | None = None
    """The Secret of the Bundle's namespace with the credentials: username and password, or
    bearerToken, or identity and known_hosts; ca.crt for the CA of the server."""
    verify: GitVerify | None = None
    """Whose signatures it must have."""


@checked(config=CAMEL, frozen=True, slots=True)
class OciVerify:
    """Whose signatures an artifact must have: ``*.pub`` of a Secret."""

    secret_ref: SecretRef
    """The Secret with the public keys: *.pub."""
    provider: Annotated[Literal["cosign"], _one_word("cosign")] = "cosign"
    """Who has signed. Only signatures by a key are verified."""


@checked(config=CAMEL, frozen=True, slots=True)
class OciRefSpec:
    """Which version of an artifact is followed; without a field, the tag latest."""

    tag: Annotated[str, _matching(is_tag, "the name of a tag"), _crd(maxLength=128)] = ""
    """A tag."""
    semver: Range = ""
    """A range of versions, such as ">=1.2.0 <2.0.0". The highest tag in it."""
    digest: Digest = ""
    """sha256 and 64 hexadecimal digits."""


@checked(config=CAMEL, frozen=True, slots=True)
class OciSpec:
    """An artifact in an OCI registry; times are in seconds."""

    url: OciUrl
    """oci://HOST/NAME, without a tag."""
    ref: OciRefSpec = OciRefSpec()
    """What is followed; by default the tag latest. If several are given: digest, semver, tag, the
    first of these."""
    path: SourcePath = ""
    """The folder or file to apply. By default all of it. A kustomization is built."""
    ignore: IgnorePaths = ""
    """Which files are left out: lines as in .gitignore, from the root of the source. They come
    after those in .sourceignore, and replace the default list."""
    interval: Seconds = 60.0
    """How often to look for another digest."""
    timeout: Seconds = 60.0
    """How long one fetch may take; at most ten minutes."""
    secret_ref: SecretRef | None = None
    """The Secret of the Bundle's namespace with the credentials, of the type
    kubernetes.io/dockerconfigjson."""
    cert_secret_ref: SecretRef | None = None
    """The Secret with ca.crt, tls.crt and tls.key."""
    verify: OciVerify | None = None
    """Whose signatures it must have."""


SourceRefs = Annotated[tuple[SourceRef, ...], _crd(minItems=1, maxItems=64, **_BY_NAME)]
_ONE_SOURCE = "give exactly one of inline, configMapRefs, secretRefs, git and oci"
_IS_ONE: JsonDict = {
    "rule": "[has(self.inline), has(self.configMapRefs), has(self.secretRefs), has(self.git), "
    "has(self.oci)].filter(one, one).size() == 1",
    "message": _ONE_SOURCE,
}


_MOST_SHOWN = 3


@checked(config=ConfigDict(**CAMEL, json_schema_extra={_RULES: [_IS_ONE]}), frozen=True, slots=True)
class BundleSource:
    """The source of the manifests: exactly one of the fields is set."""

    inline: Annotated[str, _crd(maxLength=1048576)] | None = field(default=None, repr=False)
    """YAML documents."""
    config_map_refs: SourceRefs = ()
    """ConfigMaps of the Bundle's namespace whose values are YAML documents."""
    secret_refs: SourceRefs = ()
    """Secrets of the Bundle's namespace whose values are YAML documents."""
    git: GitSpec | None = None
    """A Git repository."""
    oci: OciSpec | None = None
    """An artifact in an OCI registry, as applyprune push or Flux writes it."""

    @property
    def remote(self) -> GitSpec | OciSpec | None:
        """Return the source on another host; None if the manifests are in the cluster."""
        return self.git or self.oci

    @property
    def shown(self) -> str:
        """Return the path in the source, or the objects that it is in."""
        if self.remote is not None:
            return self.remote.path or "."
        kinds = (("configmap", self.config_map_refs), ("secret", self.secret_refs))
        named = [f"{kind}/{ref.name}" for kind, refs in kinds for ref in refs]
        return and_more(named, _MOST_SHOWN) if named else "inline"

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        given = (
            self.inline is not None,
            bool(self.config_map_refs),
            bool(self.secret_refs),
            self.git is not None,
            self.oci is not None,
        )
        if sum(given) != 1:
            raise ValueError(_ONE_SOURCE)
        return self


@checked(config=CAMEL, frozen=True, slots=True)
class Decryption:
    """How encrypted files of a source are decrypted: ``*.agekey`` and ``*.asc`` of a Secret."""

    secret_ref: SecretRef
    """The Secret of the Bundle's namespace with the private keys: *.agekey for age, *.asc for
    OpenPGP."""
    provider: Annotated[Literal["sops"], _one_word("sops")] = "sops"
    """Who has encrypted them."""


# The other fields; pydantic needs each type before its use.


@checked(config=CAMEL, frozen=True, slots=True)
class DriftSpec:
    """What happens to drift."""

    policy: DriftPolicy = DriftPolicy.CORRECT
    """Correct reverts what an update has changed or removed, and creates what was deleted; it
    never deletes, and a field that another manager applies stays a conflict. Report only reports
    it, in the condition Drifted. Ignore does not even report it. With both, an object is written
    only when its manifest changes, and then as a whole."""
    reverts: Annotated[StrictInt, Field(ge=1, le=100)] = 5
    """When Correct stops: if an object was reverted so often, and the same manager changes it
    again, it is left alone until the manager is quiet for ten minutes, or the source, the spec or
    the annotation reconcile-now changes."""


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
    """The name of the Secret."""
    key: Annotated[str, _crd(minLength=1, maxLength=253, pattern="^[-._a-zA-Z0-9]+$")] = ""
    """The key. By default value or, without it, value.yaml."""


@checked(config=CAMEL, frozen=True, slots=True)
class KubeConfig:
    """How to reach another cluster."""

    secret_ref: SecretKeyRef
    """The Secret of the Bundle's namespace with a kubeconfig that contains all it needs."""


@checked(config=CAMEL, frozen=True, slots=True)
class Prune:
    """What happens to objects that have left the source."""

    enabled: StrictBool = True
    """Whether to delete objects that have left the source."""
    max_prune: MaxPrune = None
    """How many objects a prune may delete, as a number or as a percentage of the set's live objects
    ("30%"). By default 5, or 30 % if that is more, and at most half; and the source must have an
    object in common with the set."""
    allow_empty: StrictBool = False
    """Whether to allow an empty source."""


@checked(config=CAMEL, frozen=True, slots=True)
class Dependency:
    """A Bundle of the same namespace that must be ready first."""

    name: ObjectName
    """The name of the Bundle."""
    ready_when: Expression = ""
    """A CEL expression over that Bundle as self. It replaces the check of the condition Ready."""


@checked(config=CAMEL, frozen=True, slots=True)
class IgnoreFields:
    """Fields that are left to other field managers."""

    fields: Annotated[tuple[Pointer, ...], _crd(minItems=1, maxItems=64)]
    """JSON pointers, such as /spec/replicas."""
    kind: Annotated[str, _crd(minLength=1, maxLength=317)] = ""
    """KIND or KIND.GROUP. By default every kind."""


@checked(config=CAMEL, frozen=True, slots=True)
class Spec:
    """The spec of a Bundle; times are in seconds."""

    source: BundleSource
    """Where the manifests are. Give exactly one."""
    decryption: Decryption | None = None
    """How encrypted files of the source are decrypted."""
    interval: Seconds = 600.0
    """How often to reconcile when nothing has changed."""
    retry_interval: Seconds = 30.0
    """How soon to retry after a failure. It doubles each time, up to interval; up to two minutes
    while a kind, source, account, right, kubeconfig or other cluster is missing."""
    timeout: Seconds = 300.0
    """How long each wait may take, for readiness and deletions; other Bundles do not wait for it. A
    deleted Bundle whose account may not remove its objects goes after this time too."""
    suspend: StrictBool = False
    """Whether to suspend the Bundle. Then nothing happens, not even cleanup."""
    prune: Prune = Prune()
    """What happens to objects that have left the source."""
    drift: DriftSpec = DriftSpec()
    """What happens to what others have changed, removed or deleted since the last apply."""
    approval: Approval = Approval.AUTOMATIC
    """Which plans wait for the annotation applyprune.dev/approve. Automatic: a prune that a guard
    refuses. Prune: every deletion; the rest is applied. Always: every change; until then nothing is
    written."""
    wait: StrictBool = False
    """Whether to wait until everything is ready, and prune only then. If not, it waits only for
    what may still need an object that is pruned."""
    fail_fast: StrictBool = False
    """Whether a wait ends at the first problem, even if it may pass: a crash, an image that cannot
    be pulled, a quota, no node."""
    ready_when: Annotated[tuple[KindRule, ...], _AT_MOST_64] = ()
    """When objects of a kind are ready, each as KIND.GROUP=CEL: a CEL expression over the live
    object as self. It replaces the rule of the kind wherever the Bundle waits. The annotation
    applyprune.dev/ready-when of an object comes first."""
    conflicts: Literal["fail", "force"] = "fail"
    """What to do with fields that other field managers own: report a conflict, or take them. What
    others have changed of the set's own fields is drift."""
    adopt: Adopt = Adopt.UNOWNED
    """Which existing objects the set may adopt."""
    adopt_as: Ownership = Ownership.ADOPTED
    """How to record what is adopted. A later prune deletes owned objects, and orphans adopted ones.
    What another tool may manage is owned only with adopt: all."""
    recreate: StrictBool = False
    """Whether to delete and re-create an object to change an immutable field."""
    helm_hooks: HelmHooks = HelmHooks.REFUSE
    """What to do with the install and upgrade hooks of a chart: leave them out, or apply them like
    other objects. Test, delete and rollback hooks are always left out."""
    target_namespace: Label = ""
    """The namespace of manifests without one. By default the Bundle's own."""
    kube_config: KubeConfig | None = None
    """The cluster to apply to. By default the cluster of the Bundle. The inventory is there too, in
    the namespace with the name of the Bundle's."""
    service_account_name: ObjectName = "default"
    """The ServiceAccount of the Bundle's namespace that the controller acts as. With kubeConfig, it
    only reads the source and the kubeconfig."""
    depends_on: Annotated[tuple[Dependency, ...], _AT_MOST_64, _crd(**_BY_NAME)] = ()
    """Bundles of the same namespace that must be ready first."""
    deletion_policy: DeletionPolicy = DeletionPolicy.MIRROR
    """What happens to the objects when the Bundle is deleted. MirrorPrune is Delete if
    prune.enabled is true, and Orphan if not; the other policies apply in both cases. Delete deletes
    them, and removes the Bundle even if finalizers still hold some of them at the timeout;
    WaitForTermination removes it only when all are gone; Orphan leaves the objects in the cluster,
    without the set's label and field manager."""
    inventory_name: Annotated[
        str,
        _DNS_LABEL,
        _crd({"rule": "!self.endsWith('-yielded')", "message": "it must not end in -yielded"}),
    ] = ""
    """The name of the set. By default that of the Bundle. The Bundle takes over a set from the
    command line only if this name is given, even if it is the same."""
    ignore_fields: Annotated[tuple[IgnoreFields, ...], _AT_MOST_64] = ()
    """Fields that are sent at creation and then left to other field managers."""
    no_default_ignore: Annotated[tuple[DefaultRule, ...], _crd(maxItems=len(DefaultRule))] = ()
    """Default rules that are switched off. They leave to other field managers what controllers
    usually set."""


SPEC: TypeAdapter[Spec] = TypeAdapter(Spec)
"""Parses a spec and generates its schema."""
