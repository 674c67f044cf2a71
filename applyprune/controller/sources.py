"""What a Bundle is made of: its source, read as its ServiceAccount, into manifests.

The revision never contains a Secret's value, not even as a digest. For a Secret among the
manifests only its keys count, and for a source in a Secret only its resourceVersion.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct, field

from applyprune.controller.clusters import kubeconfig_ref, read_kubeconfig, read_version
from applyprune.controller.fetch import (
    RemoteSource,
    SourceCache,
    SourceTransport,
    SourceVerification,
)
from applyprune.controller.report import WarningLog
from applyprune.controller.result import problem_message
from applyprune.controller.spec import (
    BundleSpec,
    GitSpec,
    GitVerifyMode,
    OciSpec,
    SecretRef,
    SourceRef,
)
from applyprune.controller.task import SourceObjects, SourceRequest
from applyprune.errors import (
    AccessError,
    ApplypruneError,
    Forbidden,
    InputError,
    problems_of,
    raise_all,
)
from applyprune.model.identity import Ref
from applyprune.model.live import (
    CONFIG_MAPS,
    SECRETS,
    LiveObject,
    Resource,
    mapping,
    text,
    whole_number,
)
from applyprune.model.problem import IgnoredManifest, Manifest, Problem, ProblemKind
from applyprune.planning.managed_fields import with_ignored_fields
from applyprune.planning.normalize import IgnoreRule, digest, manifest_digest, may_be_secret
from applyprune.sources.address import GitRef, GitSource, OciRef
from applyprune.sources.documents import text_in
from applyprune.sources.inputs import tree_sources
from applyprune.sources.kustomize import FilesOfTree, loaded_files
from applyprune.sources.load import ignored_in, ignored_warnings, read_source
from applyprune.sources.oci_artifact import OciSource
from applyprune.sources.sops import decrypt, encrypted_files
from applyprune.sources.source_ignore import Rule, without_ignored
from applyprune.sources.tree import (
    ANONYMOUS,
    DecryptionFailed,
    FetchFailed,
    FileTree,
    IgnoredText,
    SourceCredentials,
    SourceText,
    TreeLimits,
    error_of,
)
from applyprune.sources.yaml import Allowance
from applyprune.values import packed, replace

if TYPE_CHECKING:
    from applyprune.addresses import AddressRules
    from applyprune.controller.task import SourceContent, SourceSettings, SourceState
    from applyprune.engine.ports import Cluster


class SourceReader(Struct, frozen=True):
    """Reads the sources of Bundles, as their ServiceAccounts."""

    remote: SourceSettings | None = None
    """How sources on other hosts are read; None if none are."""

    def read(
        self,
        bundle: BundleSpec,
        cluster: Cluster,
        states: tuple[SourceState | None, SourceState | None],
        needs: SourceNeeds,
        keep: Callable[[SourceObjects], None],
    ) -> tuple[LoadedSource, bytes]:
        """Return the source of a Bundle, and its kubeconfig.

        ``states`` are what is known of its source on another host, and what was last read of it.
        ``keep`` gets what the source consists of, so that this is watched even if it is unreadable.
        Raises SourceAwaited and ApplypruneError.
        """
        versions: ReadVersions = {}
        resources = {ref: resource for resource, ref in watched_refs(bundle)}
        read = SourceObjects(bundle.spec.service_account_name, resources, versions)
        try:
            request = self._request(bundle, cluster, versions, needs)
            read = replace(read, remote=request)
            keys = decryption_keys(bundle, cluster, versions)
            if request is None or self.remote is None:
                source = load_source(bundle, cluster, versions, None)
            else:
                cache = SourceCache(self.remote.folder, self.remote.limit)
                _check_order(states[0], needs)
                source = _Fetched(bundle, cluster, request, keys, cache, needs.warnings).usable(
                    *states
                )
            kubeconfig = read_kubeconfig(bundle, cluster, versions)
        except SourceAwaited as awaited:
            if read.remote is not None:
                late = awaited.older_than
                remote = replace(read.remote, lost=awaited.lost, older_than=late)
                read = replace(read, remote=remote)
            raise
        except AccessError as error:
            # Who may no longer read its Secret may no longer use what it says, either.
            read = replace(read, is_known=isinstance(error, Forbidden) or read.remote is not None)
            raise
        finally:
            keep(read)
        return source, kubeconfig

    def _request(
        self, bundle: BundleSpec, cluster: Cluster, versions: ReadVersions, needs: SourceNeeds
    ) -> SourceRequest | None:
        if bundle.spec.source.remote is None:
            return None
        if self.remote is None:
            raise FetchFailed(
                "sources on other hosts cannot be kept",
                reason="there was no space for temporary files when the controller was started",
                hint="Free some space, and restart the controller.",
            )
        return source_request(
            bundle,
            cluster,
            versions,
            secret=self.remote.secret,
            addresses=self.remote.addresses,
            longest=self.remote.longest,
            needs=needs,
        )


class SourceNeeds(Struct, frozen=True):
    """What a reconcile needs to know of a source on another host, beside its content."""

    warnings: WarningLog
    """Where it says what is odd in the content."""
    asked: str = ""
    """The value of reconcile-now."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """The paths of the Bundles that it depends on, by their names, if these have its source."""
    recorded: FoundSource | None = None
    """What another replica has found, as the status has it; None if nothing must be newer."""
    resumed: str = ""
    """When the Bundle was resumed, as RFC 3339: a check must have begun later; empty for any."""


class FoundSource(Struct, frozen=True):
    """Which content was found for a path, by a check that began when: ``status.source``."""

    path: str
    content: str
    checked: str
    """By the API server's clock, RFC 3339; empty if that is not known."""
    generation: int | None
    """That of the Bundle."""


def found_source(status: Mapping[str, object]) -> FoundSource | None:
    """Return what the status of a Bundle says of its source; None if it says nothing."""
    found = mapping(status.get("source"))
    if not found:
        return None
    content, checked = text(found, "content"), text(found, "checkedAt")
    return FoundSource(text(found, "path"), content, checked, whole_number(found, "generation"))


def _check_order(state: SourceState | None, needs: SourceNeeds) -> None:
    """Raise SourceAwaited if another replica has found another content by a later check.

    At equal times, the content in the status stays: the times have whole seconds. The same if no
    check has begun since the Bundle was resumed, unless its source cannot be checked.
    """
    recorded = needs.recorded
    if state is None or state.content is None or not state.checked:
        return
    if state.checked <= needs.resumed and state.problem is None:
        raise SourceAwaited(older_than=needs.resumed)
    if recorded is None:
        return
    is_other = (state.path, state.content.content) != (recorded.path, recorded.content)
    if is_other and state.checked <= recorded.checked:  # guard: older-check never
        raise SourceAwaited(older_than=recorded.checked)


class _Fetched(Struct, frozen=True):
    """What is read of a Bundle's source on another host."""

    bundle: BundleSpec
    cluster: Cluster
    request: SourceRequest
    keys: Mapping[str, bytes] | None
    """What decrypts it; None if it is not encrypted."""
    cache: SourceCache
    warnings: WarningLog

    def usable(self, newest: SourceState | None, last: SourceState | None) -> LoadedSource:
        """Return what is known of the source, or what was last read of it if that is unusable.

        So drift is reverted until somebody repairs what is new.
        """
        try:
            return self._loaded(newest)
        except InputError as error:
            if newest is None or last is None or last.content == newest.content:
                raise
            with suppress(InputError, SourceAwaited):
                found = self._loaded(last)
                return replace(found, state=replace(last, unusable=problems_of(error)))
            raise

    def _loaded(self, state: SourceState | None) -> LoadedSource:
        content = content_of(self.request, state)
        found = remote_texts(
            self.request, content, self.cache, self.keys, self._warn, self.bundle.ignore_paths
        )
        texts = [one for one in found if isinstance(one, SourceText)]
        left_out = [one for one in found if isinstance(one, IgnoredText)]
        ignored = tuple(one for text in left_out for one in ignored_in(text))
        for warning in ignored_warnings(ignored):
            self._warn(warning)
        fetched = FetchedTexts(texts, ignored, content.revision, content.content)
        return replace(load_source(self.bundle, self.cluster, {}, fetched), state=state)

    def _warn(self, problem: Problem) -> None:
        message = problem_message(problem, secret=self.bundle.has_secret_source)
        self.warnings.warn("warning of a source", message)


# The manifests, and their revision.


_MOST_MEMORY = 64 * 2**20
"""Bytes for all values of one source: other Bundles are reconciled in the same process."""
_MOST_ERRORS = 100
ReadVersions = dict[Ref, str]


def load_source(
    bundle: BundleSpec, cluster: Cluster, versions: ReadVersions, fetched: FetchedTexts | None
) -> LoadedSource:
    """Read a Bundle's source; the resourceVersion of each object read goes into ``versions``.

    It is empty for an object that does not exist. ``fetched`` is what was read from another host;
    None if the manifests are in the cluster. Raises SourceMissing, InputError for an invalid
    manifest, and AccessError.
    """
    source = bundle.spec.source
    if fetched is not None:
        texts = fetched.texts
    elif source.inline is not None:
        texts = [SourceText("spec.source.inline", source.inline.encode("utf-8", "replace"))]
    else:
        lives = _lives(bundle, cluster, versions)
        refs = (*source.config_map_refs, *source.secret_refs)
        texts = [text for ref, live in zip(refs, lives, strict=True) for text in _texts(ref, live)]
    manifests = _manifests(texts, bundle.ignore_rules)
    if fetched is not None:
        version = digest([bundle.generation, fetched.content])
        is_secret = any(may_be_secret(one.body) for one in manifests)
        return LoadedSource(
            manifests, fetched.revision, version if is_secret else "", ignored=fetched.ignored
        )
    if bundle.has_secret_source:  # guard: secret-revision never
        content: object = sorted((ref.name, version) for ref, version in versions.items())
    else:
        content = [[manifest.namespace, manifest_digest(manifest.body)] for manifest in manifests]
    revision = f"sha256:{digest(content)}"
    version = ""
    if any(may_be_secret(manifest.body) for manifest in manifests):
        read = sorted((ref.kind, ref.name, version) for ref, version in versions.items())
        version = digest([bundle.generation, read])
    return LoadedSource(manifests, revision, version)


class LoadedSource(Struct, frozen=True):
    manifests: tuple[Manifest, ...]
    revision: str
    version: str = ""
    """A digest that changes with every write of the source; empty if no manifest is a Secret.

    The revision does not show that a value of a Secret has changed.
    """
    state: SourceState | None = None
    """What it was read of, if its source is on another host."""
    ignored: tuple[IgnoredManifest, ...] = ()
    """The objects that ignore rules leave out."""
    is_new: bool = False
    """Whether it was written since the last run, if its revision may not show that."""


class FetchedTexts(Struct, frozen=True):
    texts: Sequence[SourceText]
    ignored: tuple[IgnoredManifest, ...]
    revision: str
    content: str
    """What changes with the content."""


def used_refs(bundle: BundleSpec) -> tuple[tuple[Resource, Ref], ...]:
    """Return the ConfigMaps and Secrets that a Bundle's source is read from."""
    source = bundle.spec.source
    kinds = ((CONFIG_MAPS, source.config_map_refs), (SECRETS, source.secret_refs))
    return tuple(
        (resource, Ref(resource.group, resource.kind, bundle.namespace, ref.name))
        for resource, refs in kinds
        for ref in refs
    )


def watched_refs(bundle: BundleSpec) -> tuple[tuple[Resource, Ref], ...]:
    """Return what a Bundle is read from in its own cluster: its source, Secrets and kubeconfig."""
    kubeconfig = kubeconfig_ref(bundle)
    secrets = (*secret_refs(bundle), *(() if kubeconfig is None else (kubeconfig,)))
    return (*used_refs(bundle), *((SECRETS, ref) for ref in secrets))


def _lives(bundle: BundleSpec, cluster: Cluster, versions: ReadVersions) -> Sequence[LiveObject]:
    found = []
    missing = []
    for resource, ref in used_refs(bundle):
        live = read_version(cluster, resource, ref, versions)
        if live is None:
            missing.append(f"{ref.short} does not exist")
        else:
            found.append(live)
    if missing:
        raise SourceMissing("the source is incomplete", reason="; ".join(missing))
    return found


def _texts(ref: SourceRef, live: LiveObject) -> Iterator[SourceText]:
    """Yield the value of each selected key, in order."""
    body = live.body or {}
    values = {**(body.get("data") or {}), **(body.get("binaryData") or {})}
    encoded = values if live.ref.kind == SECRETS.kind else body.get("binaryData") or {}
    for key in ref.keys or sorted(values):
        if key not in values:
            raise SourceMissing(
                "the source is incomplete", reason=f"{live.ref.short} has no key {key!r}"
            )
        yield SourceText(
            f"{live.ref.short}[{key}]", _bytes(values[key], encoded=key in encoded, where=live.ref)
        )


def _bytes(value: object, *, encoded: bool, where: Ref) -> bytes:
    if not encoded:
        return str(value).encode("utf-8", "replace")
    try:
        return base64.b64decode(str(value), validate=True)
    except ValueError:
        raise InputError(f"{where.short} has a value that is not base64") from None


def _manifests(texts: Sequence[SourceText], rules: Sequence[IgnoreRule]) -> tuple[Manifest, ...]:
    manifests: list[Manifest] = []
    errors: list[InputError] = []
    allowance = Allowance(_MOST_MEMORY, _MOST_ERRORS)
    for one in texts:
        for found in read_source(one, text_in(one.data), allowance):
            if isinstance(found, Manifest):
                manifests.append(_ignoring(found, rules))
            else:
                errors.append(found)
    raise_all(errors)
    return tuple(manifests)


def _ignoring(manifest: Manifest, rules: Sequence[IgnoreRule]) -> Manifest:
    """Return a manifest with the annotation that lists the fields left to other managers.

    So anyone who reads the object sees why the set does not own a field.
    """
    kind, name = manifest.gvk.group_kind, manifest.name
    pointers = [rule.pointer for rule in rules if rule.matches(kind, name)]
    if not pointers:
        return manifest
    return replace(manifest, packed=packed(with_ignored_fields(manifest.body, pointers)))


# What is needed of another host, with the Secrets for it; the keys in these are named as in Flux.


_LIMITS = TreeLimits(files=20_000, size=64 * 2**20)
_CERTIFICATES = frozenset({"ca.crt", "tls.crt", "tls.key"})
_GIT_KEYS = (".asc", ".sshpub")
_COSIGN_KEYS = (".pub",)
_SOPS_KEYS = (".agekey", ".asc")


def source_request(
    bundle: BundleSpec,
    cluster: Cluster,
    versions: ReadVersions,
    *,
    secret: bytes,
    addresses: AddressRules,
    longest: float,
    needs: SourceNeeds,
) -> SourceRequest | None:
    """Return what a Bundle needs of another host; None if its manifests are in the cluster.

    The resourceVersion of each Secret goes into ``versions``; it is empty for a missing one.
    ``secret`` is that of RemoteSource, and ``longest`` the most seconds for a fetch. Raises
    SourceMissing, InputError and AccessError.
    """
    spec = bundle.spec.source.remote
    if spec is None:
        return None
    secrets = _Secrets(bundle, cluster, versions)
    remote = RemoteSource(_transport(spec, secrets, addresses), _verification(spec, secrets))
    return SourceRequest(
        pickle.dumps(remote),
        remote.check(secret),
        remote.place(secret),
        spec.path,
        spec.interval,
        min(spec.timeout, longest),
        needs.asked,
        beside=frozenset(needs.beside.values()),
    )


def _transport(
    spec: GitSpec | OciSpec, secrets: _Secrets, addresses: AddressRules
) -> SourceTransport:
    values = dict(secrets.values(spec.secret_ref)) if spec.secret_ref is not None else {}
    if isinstance(spec, OciSpec) and spec.cert_secret_ref is not None:
        found = secrets.values(spec.cert_secret_ref)
        values.update({key: found[key] for key in _CERTIFICATES & found.keys()})
    credentials = _credentials(values)
    if isinstance(spec, GitSpec):
        ref = spec.ref
        git_ref = GitRef(ref.branch, ref.tag, ref.semver, ref.name, ref.commit)
        return GitSource(spec.url, git_ref, credentials, addresses=addresses, limits=_LIMITS)
    oci_ref = OciRef(spec.ref.tag, spec.ref.semver, spec.ref.digest)
    return OciSource(spec.url, oci_ref, credentials, addresses=addresses, limits=_LIMITS)


def _credentials(values: Mapping[str, bytes]) -> SourceCredentials:
    """Return the credentials in a Secret; keys that are not known are left out."""

    def text(key: str) -> str:
        return values.get(key, b"").decode("utf-8", "replace").rstrip("\r\n")

    if not values:
        return ANONYMOUS
    return SourceCredentials(
        username=text("username"),
        password=text("password"),
        bearer_token=text("bearerToken"),
        identity=values.get("identity", b""),
        known_hosts=values.get("known_hosts", b""),
        ca=values.get("ca.crt", b""),
        certificate=values.get("tls.crt", b""),
        key=values.get("tls.key", b""),
        docker_config=values.get(".dockerconfigjson", b""),
    )


def _verification(spec: GitSpec | OciSpec, secrets: _Secrets) -> SourceVerification | None:
    if spec.verify is None:
        return None
    if isinstance(spec, GitSpec):
        keys = secrets.keys(spec.verify.secret_ref, _GIT_KEYS)
        return SourceVerification(str(GitVerifyMode(spec.verify.mode)), keys)
    keys = secrets.keys(spec.verify.secret_ref, _COSIGN_KEYS)
    return SourceVerification(spec.verify.provider, keys)


def decryption_keys(
    bundle: BundleSpec, cluster: Cluster, versions: ReadVersions
) -> Mapping[str, bytes] | None:
    """Return the private keys by their names in the Secret; None if nothing is to be decrypted."""
    if bundle.spec.decryption is None:
        return None
    return _Secrets(bundle, cluster, versions).keys(bundle.spec.decryption.secret_ref, _SOPS_KEYS)


class _Secrets:
    """The Secrets of one Bundle, each read once."""

    def __init__(self, bundle: BundleSpec, cluster: Cluster, versions: ReadVersions) -> None:
        self._bundle, self._cluster, self._versions = bundle, cluster, versions
        self._read: dict[str, Mapping[str, bytes]] = {}

    def values(self, secret_ref: SecretRef) -> Mapping[str, bytes]:
        """Return the values of a Secret; raises SourceMissing and InputError."""
        name = secret_ref.name
        if name not in self._read:
            self._read[name] = self._values(_ref(self._bundle, name))
        return self._read[name]

    def keys(self, secret_ref: SecretRef, suffixes: tuple[str, ...]) -> Mapping[str, bytes]:
        """Return the values whose keys have one of these suffixes; at least one."""
        values = self.values(secret_ref)
        found = {key: value for key, value in values.items() if key.endswith(suffixes)}
        if not found:
            words = " or ".join(f"*{suffix}" for suffix in suffixes)
            raise SourceMissing(
                "the source is incomplete",
                reason=f"{_ref(self._bundle, secret_ref.name).short} has no key {words}",
            )
        return found

    def _values(self, ref: Ref) -> Mapping[str, bytes]:
        live = read_version(self._cluster, SECRETS, ref, self._versions)
        if live is None:
            raise SourceMissing("the source is incomplete", reason=f"{ref.short} does not exist")
        data = (live.body or {}).get("data") or {}
        return {key: _bytes(text, encoded=True, where=ref) for key, text in data.items()}


def secret_refs(bundle: BundleSpec) -> tuple[Ref, ...]:
    """Return the Secrets that a Bundle names for its source on another host, and to decrypt it."""
    names = {ref.name: None for ref in _named(bundle)}
    return tuple(_ref(bundle, name) for name in names)


def _named(bundle: BundleSpec) -> Iterator[SecretRef]:
    spec = bundle.spec.source.remote
    if spec is not None and spec.secret_ref is not None:
        yield spec.secret_ref
    if isinstance(spec, OciSpec) and spec.cert_secret_ref is not None:
        yield spec.cert_secret_ref
    if spec is not None and spec.verify is not None:
        yield spec.verify.secret_ref
    if bundle.spec.decryption is not None:
        yield bundle.spec.decryption.secret_ref


def _ref(bundle: BundleSpec, name: str) -> Ref:
    return Ref(SECRETS.group, SECRETS.kind, bundle.namespace, name)


class SourceMissing(ApplypruneError):
    """A ConfigMap or Secret that the source names does not exist, or lacks a key."""

    kind = ProblemKind.SOURCE_MISSING


# The content that was fetched, as texts of manifests: decrypted, and built.


_LARGEST = 64 * 2**20
"""Bytes for all texts of one source."""


def content_of(request: SourceRequest, state: SourceState | None) -> SourceContent:
    """Return the last good content of a source.

    Raises SourceAwaited if the source was not read yet, and the InputError that says why it cannot
    be read.
    """
    if state is None or (state.check, state.path) != (request.check, request.path):
        raise SourceAwaited
    if state.content is None:
        if state.problem is None:
            raise SourceAwaited
        raise error_of(state.problem)
    return state.content


def remote_texts(
    request: SourceRequest,
    content: SourceContent,
    cache: SourceCache,
    keys: Mapping[str, bytes] | None,
    warn: Callable[[Problem], None],
    rules: Sequence[Rule] = (),
) -> list[SourceText | IgnoredText]:
    """Return the texts of the manifests in a content; ``keys`` decrypt it, if it is encrypted.

    ``rules`` leave out files, after those in ``.sourceignore``. What is left out is not decrypted.
    Raises SourceAwaited if the cache has lost it, and InputError.
    """
    files = cache.read(content.artifact)
    if files is None:
        raise SourceAwaited(content.artifact)
    tree = without_ignored(FileTree(files, content.revision), rules)
    tree = replace(tree, files=decrypted(tree.files, request.path, keys))
    found = list(
        tree_sources(
            tree,
            request.path,
            shown="",
            limit=_LARGEST,
            warn=warn,
            refuses_remote_bases=True,
        )
    )
    raise_all([one for one in found if isinstance(one, InputError)])
    return [one for one in found if not isinstance(one, InputError)]


def decrypted(
    files: Mapping[str, bytes], path: str, keys: Mapping[str, bytes] | None
) -> Mapping[str, bytes]:
    """Return the files of a source, decrypted at its path and where its kustomization loads them.

    Other files elsewhere may be there that it does not use, and that others encrypt. Raises
    DecryptionFailed.
    """
    here = {name for name in files if path in {"", name} or name.startswith(f"{path}/")}
    others = encrypted_files({name: data for name, data in files.items() if name not in here})
    # Only then are the kustomizations read for it.
    # guard: encrypted-elsewhere -> ()
    loaded = loaded_files(path, FilesOfTree(files)) if others else ()
    own = {name: data for name, data in files.items() if name in here or name in loaded}
    if keys is None:
        if encrypted := encrypted_files(own):
            raise DecryptionFailed(
                "the file is encrypted, and spec.decryption is not set", location=encrypted[0]
            )
        return files
    found = {**files, **decrypt(own, keys)}
    for name in set(others) - own.keys():
        with suppress(DecryptionFailed):
            found.update(decrypt({name: files[name]}, keys))
    return found


class SourceAwaited(Exception):
    """The content of the source is not there yet; the reconcile goes on when it is."""

    def __init__(self, lost: str = "", older_than: str = "") -> None:
        """Keep the artifact that was there before, and the time that a check must have begun after.

        Each is empty for none.
        """
        super().__init__("the source is being fetched")
        self.lost, self.older_than = lost, older_than
