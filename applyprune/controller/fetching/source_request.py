"""Read what a Bundle needs of another host: its spec, and its Secrets as its ServiceAccount.

The names of the keys in the Secrets are those of Flux.
"""

from __future__ import annotations

import base64
import binascii
import pickle
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from applyprune.controller.fetching.fetch_task import SourceRequest
from applyprune.controller.fetching.remote_source import RemoteSource, Transport, Verification
from applyprune.controller.source_spec import (
    ArchiveSpec,
    GitSpec,
    GitVerifyMode,
    OciSpec,
    SecretRef,
)
from applyprune.errors import ApplypruneError, InputError, NotFound
from applyprune.model.identity import Ref
from applyprune.model.problem import ProblemKind
from applyprune.model.resources import SECRETS
from applyprune.sources.address import GitRef, GitSource
from applyprune.sources.archive import ArchiveSource
from applyprune.sources.oci_artifact import OciRef, OciSource
from applyprune.sources.tree import ANONYMOUS, Credentials, TreeLimits

if TYPE_CHECKING:
    from applyprune.controller.bundle import Bundle
    from applyprune.engine.ports import Cluster
    from applyprune.http import AddressRules

_LIMITS = TreeLimits(files=20_000, size=64 * 2**20)
_LONGEST = 600.0
"""Seconds, at most, for one look at a source."""
_CERTIFICATES = frozenset({"ca.crt", "tls.crt", "tls.key"})
_GIT_KEYS = (".asc", ".sshpub")
_COSIGN_KEYS = (".pub",)
_SOPS_KEYS = (".agekey", ".asc")


class SourceMissing(ApplypruneError):
    """A ConfigMap or Secret that the source names does not exist, or lacks a key."""

    kind = ProblemKind.SOURCE_MISSING


def secret_refs(bundle: Bundle) -> tuple[Ref, ...]:
    """Return the Secrets that a Bundle names for its source on another host, and to decrypt it."""
    names = {ref.name: None for ref in _named(bundle)}
    return tuple(_ref(bundle, name) for name in names)


def source_request(
    bundle: Bundle,
    cluster: Cluster,
    uses: dict[Ref, str],
    *,
    secret: bytes,
    addresses: AddressRules,
    asked: str,
) -> SourceRequest | None:
    """Return what a Bundle needs of another host; None if its manifests are in the cluster.

    The resourceVersion of each Secret goes into ``uses``; it is empty for one that does not exist.
    ``secret`` is that of RemoteSource. Raises SourceMissing, InputError and AccessError.
    """
    spec = bundle.spec.source.remote
    if spec is None:
        return None
    secrets = _Secrets(bundle, cluster, uses)
    remote = RemoteSource(_transport(spec, secrets, addresses), _verification(spec, secrets))
    return SourceRequest(
        pickle.dumps(remote),
        remote.check(secret),
        remote.place(secret),
        spec.path,
        spec.interval,
        min(spec.timeout, _LONGEST),
        asked,
    )


def decryption_keys(
    bundle: Bundle, cluster: Cluster, uses: dict[Ref, str]
) -> Mapping[str, bytes] | None:
    """Return the private keys by their names in the Secret; None if nothing is to be decrypted."""
    if bundle.spec.decryption is None:
        return None
    return _Secrets(bundle, cluster, uses).keys(bundle.spec.decryption.secret_ref, _SOPS_KEYS)


def _named(bundle: Bundle) -> Iterator[SecretRef]:
    spec = bundle.spec.source.remote
    if spec is not None and spec.secret_ref is not None:
        yield spec.secret_ref
    if isinstance(spec, OciSpec | ArchiveSpec) and spec.cert_secret_ref is not None:
        yield spec.cert_secret_ref
    if isinstance(spec, GitSpec | OciSpec) and spec.verify is not None:
        yield spec.verify.secret_ref
    if bundle.spec.decryption is not None:
        yield bundle.spec.decryption.secret_ref


def _ref(bundle: Bundle, name: str) -> Ref:
    return Ref(SECRETS.group, SECRETS.kind, bundle.namespace, name)


class _Secrets:
    """The Secrets of one Bundle, each read once."""

    def __init__(self, bundle: Bundle, cluster: Cluster, uses: dict[Ref, str]) -> None:
        self._bundle, self._cluster, self._uses = bundle, cluster, uses
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
        try:
            live = self._cluster.get(SECRETS, ref, full=True)
        except NotFound:
            self._uses[ref] = ""
            raise SourceMissing(
                "the source is incomplete", reason=f"{ref.short} does not exist"
            ) from None
        self._uses[ref] = live.resource_version
        data = (live.body or {}).get("data") or {}
        try:
            return {key: base64.b64decode(str(text), validate=True) for key, text in data.items()}
        except (binascii.Error, ValueError):
            raise InputError(f"{ref.short} has a value that is not base64") from None


def _transport(
    spec: GitSpec | OciSpec | ArchiveSpec, secrets: _Secrets, addresses: AddressRules
) -> Transport:
    values = dict(secrets.values(spec.secret_ref)) if spec.secret_ref is not None else {}
    if isinstance(spec, OciSpec | ArchiveSpec) and spec.cert_secret_ref is not None:
        found = secrets.values(spec.cert_secret_ref)
        values.update({key: found[key] for key in _CERTIFICATES & found.keys()})
    credentials = _credentials(values)
    if isinstance(spec, GitSpec):
        ref = spec.ref
        git_ref = GitRef(ref.branch, ref.tag, ref.semver, ref.name, ref.commit)
        return GitSource(spec.url, git_ref, credentials, addresses=addresses, limits=_LIMITS)
    if isinstance(spec, OciSpec):
        oci_ref = OciRef(spec.ref.tag, spec.ref.semver, spec.ref.digest)
        return OciSource(spec.url, oci_ref, credentials, addresses=addresses, limits=_LIMITS)
    return ArchiveSource(spec.url, spec.digest, credentials, addresses=addresses, limits=_LIMITS)


def _verification(spec: GitSpec | OciSpec | ArchiveSpec, secrets: _Secrets) -> Verification | None:
    if isinstance(spec, GitSpec) and spec.verify is not None:
        keys = secrets.keys(spec.verify.secret_ref, _GIT_KEYS)
        return Verification(str(GitVerifyMode(spec.verify.mode)), keys)
    if isinstance(spec, OciSpec) and spec.verify is not None:
        keys = secrets.keys(spec.verify.secret_ref, _COSIGN_KEYS)
        return Verification(spec.verify.provider, keys)
    return None


def _credentials(values: Mapping[str, bytes]) -> Credentials:
    """Return the credentials in a Secret; keys that are not known are left out."""

    def text(key: str) -> str:
        return values.get(key, b"").decode("utf-8", "replace").rstrip("\r\n")

    if not values:
        return ANONYMOUS
    return Credentials(
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
