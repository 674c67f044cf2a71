"""The cluster that has a Bundle's objects: this one, or that of its kubeconfig.

Another cluster is recognized by a UID, and a kubeconfig that a tenant has written may use nothing
of the controller.
"""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from applyprune.addresses import AddressRules, is_ip_address
from applyprune.cluster.access import ClusterAccess
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.credentials import (
    FixedCredentials,
    Identity,
    KubeconfigEntry,
    checked_token,
)
from applyprune.cluster.transport import Transport
from applyprune.controller.clients import ServiceAccountClient, status_of
from applyprune.controller.reasons import RETRY_BUDGET
from applyprune.controller.result import (
    ClusterChanged,
    ClusterUnreached,
    KubeConfigMissing,
    NamespaceMissing,
)
from applyprune.engine.checks import namespace_exists
from applyprune.errors import (
    AccessError,
    ApplypruneError,
    Forbidden,
    InvalidKubeConfig,
    NotFound,
    Unauthorized,
)
from applyprune.http import UNUSABLE_PAIR, Trust, certificates_in
from applyprune.model.identity import Ref
from applyprune.model.live import NAMESPACES, SECRETS, namespace_ref, text
from applyprune.planning.marks import ACCEPT_CLUSTER, FINALIZER
from applyprune.system.memory_files import memory_file
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from applyprune.controller.spec import BundleSpec
    from applyprune.controller.task import ReconcileHistory
    from applyprune.engine.ports import Cluster
    from applyprune.model.live import LiveObject, Resource

_POOL = 8


class OtherClusters(Struct):
    """The clusters that kubeconfigs of Bundles lead to."""

    own: KubernetesClient
    addresses: AddressRules
    trace: Callable[[str], None] | None = None
    agent: str = ""
    _home: str = ""

    def owning(self, bundle: BundleSpec) -> BundleSpec:
        """Return a Bundle as the owner of its inventory: it names this cluster in another one.

        There may be a Bundle of the same name there.
        """
        # guard: owner-of-another-cluster -> bundle
        return bundle if bundle.spec.kube_config is None else replace(bundle, home=self._own_uid())

    @contextmanager
    def target(
        self,
        live: LiveObject,
        bundle: BundleSpec,
        account_client: ServiceAccountClient,
        kubeconfig: bytes,
        history: ReconcileHistory,
    ) -> Iterator[Target]:
        """Yield the cluster that has the objects of a Bundle, and close the connections to it.

        Nothing is sent to another cluster before it is this Bundle's turn. Raises AwaitsTurn,
        InvalidKubeConfig, ClusterUnreached, ClusterChanged and AccessError.
        """
        known = recorded_cluster(status_of(live))
        ref = kubeconfig_ref(bundle)
        if ref is None:
            before = (
                previous_cluster(live, home := self._own_uid(), home) if known is not None else ""
            )
            yield Target(account_client, previous=before)
            return
        access = self_contained(kubeconfig, ref.short, self.addresses)
        place = urlsplit(access.server).netloc
        if history.cluster != place:  # guard: turn-of-a-cluster never
            raise AwaitsTurn(place)
        with closing(self._connect(access)) as transport:
            # No cache of discovery: whoever has written the kubeconfig could write into it.
            client = ServiceAccountClient(KubernetesClient(transport, access.shown))
            identity = identify(client.cluster, bundle.namespace, known)
            before = previous_cluster(live, identity.uid, self._own_uid())
            yield Target(client, identity, before)

    def _own_uid(self) -> str:
        if not self._home:
            self._home = self.own.get(NAMESPACES, namespace_ref(SYSTEM_NAMESPACE)).uid
        return self._home

    def _connect(self, access: ClusterAccess) -> Transport:
        return Transport(
            access, pool_size=_POOL, retry_budget=RETRY_BUDGET, trace=self.trace, agent=self.agent
        )


class Target(Struct, frozen=True):
    client: ServiceAccountClient
    identity: ClusterIdentity | None = None
    """None for this cluster."""
    previous: str = ""
    """The UID of the cluster that had them before, if somebody has accepted that it is left."""

    def needs_namespace(self, bundle: BundleSpec) -> None:
        """Raise NamespaceMissing if another cluster lacks the namespace of the inventory."""
        if self.identity is not None and not namespace_exists(self.client.cluster, bundle.target):
            raise missing_namespace(bundle.namespace)


class AwaitsTurn(Exception):
    """The reconcile goes on when the queue lets it use a worker for this cluster."""

    def __init__(self, cluster: str) -> None:
        super().__init__("it waits for its turn")
        self.cluster = cluster


# A cluster is recognized by the UID of a Namespace: an address proves nothing. One that was wiped
# and created again under its address is another cluster.


SYSTEM_NAMESPACE = "kube-system"
_UID = pattern(r"[0-9A-Za-z][-0-9A-Za-z]{0,62}")


class ClusterIdentity(Struct, frozen=True):
    uid: str
    namespace: str
    """The Namespace whose UID it is: kube-system, or the inventory's if that may not be read."""

    @property
    def status(self) -> dict[str, str]:
        return {"uid": self.uid, "namespace": self.namespace}


def identify(cluster: Cluster, namespace: str, known: ClusterIdentity | None) -> ClusterIdentity:
    """Return which cluster it is that answers; ``namespace`` is that of the inventory.

    The Namespace of a ``known`` cluster is asked first: another one has another UID. Raises
    NamespaceMissing, ClusterUnreached, and Forbidden if the account may read none of the two.
    """
    first = known.namespace if known is not None else SYSTEM_NAMESPACE
    failure: ApplypruneError = ClusterUnreached("the other cluster cannot be recognized")
    for name in sorted(
        {SYSTEM_NAMESPACE, namespace}, key=lambda one: (one != first, one != SYSTEM_NAMESPACE)
    ):
        try:
            live = cluster.get(NAMESPACES, namespace_ref(name))
        except Forbidden as error:
            failure = error
        except NotFound:
            failure = missing_namespace(name)
        except Unauthorized:
            message = "the other cluster refuses the credentials of the kubeconfig"
            raise ClusterUnreached(message) from None
        except AccessError as error:
            raise ClusterUnreached(error.message) from None
        else:
            if _UID.fullmatch(live.uid):
                return ClusterIdentity(live.uid, name)
            raise ClusterUnreached("the other cluster has an invalid UID")
    raise failure


def missing_namespace(name: str) -> NamespaceMissing:
    return NamespaceMissing(
        f"the namespace {name} does not exist in the other cluster",
        reason="the inventory of the set belongs there: create it",
    )


def recorded_cluster(status: Mapping[str, Any]) -> ClusterIdentity | None:
    uid = text(status, "cluster", "uid")
    return ClusterIdentity(uid, text(status, "cluster", "namespace")) if uid else None


def previous_cluster(live: LiveObject, now: str, home: str) -> str:
    """Return the UID of the cluster that a Bundle leaves for ``now``; empty if it stays.

    Raises ClusterChanged unless somebody has accepted ``now``. ``home`` is the controller's own
    cluster: a Bundle with its finalizer may have objects there if it names no other cluster.
    """
    recorded = recorded_cluster(status_of(live))
    before = home if FINALIZER in live.finalizers else ""
    before = recorded.uid if recorded is not None else before
    if before in {"", now}:
        return ""
    if live.annotations.get(ACCEPT_CLUSTER) != now:  # guard: other-cluster never
        place = f"{live.ref.name} -n {live.ref.namespace}"
        raise ClusterChanged(
            f"another cluster answers ({now}) than has its objects ({before}): nothing is applied "
            "or deleted",
            reason="to leave those there and go on here: kubectl annotate bundle "
            f"{place} --overwrite {ACCEPT_CLUSTER}={now}",
        )
    return before


# The Secret with the kubeconfig, read as the Bundle's ServiceAccount.


_KEYS = ("value", "value.yaml")
"""The keys that are tried if the spec names none, as in Flux."""


def read_kubeconfig(bundle: BundleSpec, cluster: Cluster, versions: dict[Ref, str]) -> bytes:
    """Return the kubeconfig of a Bundle; empty if it is applied in this cluster.

    The Secret's resourceVersion goes into ``versions``; it is empty if the Secret does not exist.
    Raises KubeConfigMissing, InvalidKubeConfig and AccessError.
    """
    ref = kubeconfig_ref(bundle)
    if ref is None or bundle.spec.kube_config is None:
        return b""
    live = read_version(cluster, SECRETS, ref, versions)
    if live is None:
        raise KubeConfigMissing("the kubeconfig is missing", reason=f"{ref.short} does not exist")
    key = bundle.spec.kube_config.secret_ref.key
    keys = (key,) if key else _KEYS
    values = (live.body or {}).get("data") or {}
    value = next((values[one] for one in keys if one in values), None)
    if value is None:
        names = " nor ".join(map(repr, keys))
        raise KubeConfigMissing(
            "the kubeconfig is missing", reason=f"{ref.short} has no key {names}"
        )
    try:
        return base64.b64decode(str(value), validate=True)
    except ValueError:
        raise InvalidKubeConfig(f"the kubeconfig of {ref.short} is not base64") from None


def read_version(
    cluster: Cluster, resource: Resource, ref: Ref, versions: dict[Ref, str]
) -> LiveObject | None:
    """Return an object that a Bundle names, in full; None if it does not exist.

    Its resourceVersion goes into ``versions``; it is empty if the object does not exist.
    """
    try:
        live = cluster.get(resource, ref, full=True)
    except NotFound:
        versions[ref] = ""
        return None
    versions[ref] = live.resource_version
    return live


def kubeconfig_ref(bundle: BundleSpec) -> Ref | None:
    """Return the Secret with a Bundle's kubeconfig; None if it is applied in this cluster."""
    if bundle.spec.kube_config is None:
        return None
    name = bundle.spec.kube_config.secret_ref.name
    return Ref(SECRETS.group, SECRETS.kind, bundle.namespace, name)


# A kubeconfig that somebody else has written.
#
# It needs no program, file, environment or proxy of the machine that uses it, and the server must
# prove by TLS who it is. Messages name the field that is wrong, never its value.


_PROGRAM = "it would run a program in the controller"
_FILE = "it would read a file of the controller"
_IMPERSONATION = "requests are sent as the user itself"
_USER: Mapping[str, str] = {
    "exec": _PROGRAM,
    "auth-provider": _PROGRAM,
    "tokenFile": f"{_FILE}; give token",
    "client-certificate": f"{_FILE}; give client-certificate-data",
    "client-key": f"{_FILE}; give client-key-data",
    "as": _IMPERSONATION,
    "as-uid": _IMPERSONATION,
    "as-groups": _IMPERSONATION,
    "as-user-extra": _IMPERSONATION,
    "username": "Kubernetes no longer accepts it",
    "password": "Kubernetes no longer accepts it",
}
"""What the user may not have, and why."""
_CLUSTER: Mapping[str, str] = {
    "certificate-authority": f"{_FILE}; give certificate-authority-data",
    "insecure-skip-tls-verify": "then anybody could be the server",
    "proxy-url": "the server is connected to directly",
}
"""What the cluster may not have, and why."""
_NO = frozenset({"", "~", "null", "Null", "NULL", "false", "False", "FALSE", "no", "off"})
"""How YAML spells nothing and false."""
MOST_BYTES = 64 * 1024
_MOST_VALUES = 5000
_DEEPEST = 12
_PATH = pattern(r"(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~-]+)*/?")
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAME = pattern(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)*{_LABEL}\.?", re.IGNORECASE)


def self_contained(raw: bytes, where: str, addresses: AddressRules) -> ClusterAccess:
    """Return the access of the current context of a kubeconfig; nothing is sent or read.

    ``where`` names it in messages. Raises InvalidKubeConfig.
    """
    try:
        content = _parsed(raw)
        context = _only_entry(content, "context", _top(content, "current-context"))
        cluster = _only_entry(content, "cluster", context.text("cluster"))
        user = _only_entry(content, "user", context.text("user"))
        _refuse(cluster, _CLUSTER)
        _refuse(user, _USER)
        identity, trust = _identity(user), _tenant_trust(cluster)
        _check_certificates(trust, identity)
        return ClusterAccess(
            server=_tenant_server(cluster, addresses),
            namespace="default",
            context="",
            user="",
            credentials=FixedCredentials(identity),
            trust=trust,
            shown=f"the cluster of {where}",
            hidden=(identity.token,) if identity.token else (),
            addresses=addresses,
        )
    except AccessError as error:
        fault = error.reason or error.message
        raise InvalidKubeConfig(f"the kubeconfig of {where} cannot be used: {fault}") from None


def _parsed(raw: bytes) -> Mapping[str, Any]:
    """Parse one small YAML document without aliases, every scalar as text."""
    if len(raw) > MOST_BYTES:  # guard: kubeconfig-size never
        raise AccessError(f"it has more than {MOST_BYTES >> 10} KiB")
    try:
        _measure(raw)
        content = YAML(typ="base").load(raw)
    except (YAMLError, UnicodeDecodeError, RecursionError, ValueError):
        # The parser's own message may quote a value, and values here are tokens.
        raise AccessError("it is not valid YAML") from None
    if not isinstance(content, dict):
        raise AccessError("it must be a mapping")
    return content


def _measure(raw: bytes) -> None:
    """Refuse what costs more to read than a kubeconfig does."""
    depth = 0
    for number, event in enumerate(YAML(typ="base").parse(raw)):
        kind = type(event).__name__
        depth += kind.endswith("StartEvent")
        depth -= kind.endswith("EndEvent")
        if kind == "AliasEvent":
            raise AccessError("it has a YAML alias")
        if number > _MOST_VALUES or depth > _DEEPEST:  # guard: kubeconfig-cost never
            raise AccessError("it has too many values, or too many levels")


def _top(content: Mapping[str, Any], key: str) -> str:
    text = KubeconfigEntry("kubeconfig", content, Path()).text(key)
    if not text:
        raise AccessError(f"{key} is not set")
    return text


def _only_entry(content: Mapping[str, Any], kind: str, name: str) -> KubeconfigEntry:
    """Return the only entry with a name; what it is called in messages is its kind."""
    if not name:
        raise AccessError(f"the context names no {kind}")
    items = content.get(f"{kind}s")
    listed = items if isinstance(items, list) else []
    found = [one for one in listed if isinstance(one, dict) and one.get("name") == name]
    if len(found) != 1:
        where = "current-context" if kind == "context" else "the current context"
        what = f"twice under {kind}s" if found else f"missing under {kind}s"
        raise AccessError(f"the {kind} that {where} names is {what}")
    fields = found[0].get(kind)
    if not isinstance(fields, dict):
        raise AccessError(f"the {kind} of the current context must be a mapping")
    return KubeconfigEntry(f"the {kind} of the current context", fields, Path())


def _refuse(entry: KubeconfigEntry, forbidden: Mapping[str, str]) -> None:
    for key, why in forbidden.items():
        value = entry.fields.get(key, "")
        # guard: foreign-kubeconfig never
        if value and (not isinstance(value, str) or value not in _NO):
            raise AccessError(f"{entry.name} has {key}, which is not allowed: {why}")


def _identity(user: KubeconfigEntry) -> Identity:
    token = checked_token(user.text("token"), "token")
    certificate, key = user.data("client-certificate-data"), user.data("client-key-data")
    if bool(certificate) != bool(key):
        raise AccessError("client-certificate-data and client-key-data belong together")
    if not token and not certificate:
        raise AccessError("the user has neither token nor client-certificate-data")
    return Identity(token, certificate, key)


def _tenant_trust(cluster: KubeconfigEntry) -> Trust:
    name = cluster.text("tls-server-name")
    if name and not _is_host(name):
        raise AccessError("tls-server-name is not a host's name")
    authorities = cluster.data("certificate-authority-data").decode("ascii", "replace")
    return Trust(authorities, name)


def _check_certificates(trust: Trust, identity: Identity) -> None:
    """Refuse certificates that cannot be used, by the names that their fields have here.

    libcurl would say so at the first request.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if trust.authorities:
        try:
            context.load_verify_locations(cadata="\n".join(certificates_in(trust.authorities)))
        except (ssl.SSLError, ValueError):
            raise AccessError("certificate-authority-data is not a PEM certificate") from None
    if identity.certificate and not _is_pair(context, identity):
        raise AccessError(
            f"client-certificate-data and client-key-data cannot be used: {UNUSABLE_PAIR}"
        )


def _is_pair(context: ssl.SSLContext, identity: Identity) -> bool:
    """Return whether a certificate and a key can be used together."""

    def no_password() -> str:
        # Without it, OpenSSL would ask for one on the terminal.
        raise ValueError("the key has a password")

    # ssl reads nothing but a file.
    with memory_file(identity.certificate + b"\n" + identity.key) as (pair, _):
        try:
            context.load_cert_chain(pair, password=no_password)
        except (ssl.SSLError, ValueError):
            return False
    return True


def _tenant_server(cluster: KubeconfigEntry, addresses: AddressRules) -> str:
    server = cluster.text("server")
    try:
        parts = urlsplit(server)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise AccessError("server is not a URL such as https://host:6443") from None
    if parts.scheme != "https":  # guard: https-only never
        raise AccessError("server must begin with https://")
    place = f"[{host}]" if ":" in host else host
    place += f":{port}" if port is not None else ""
    # Written in one way only: another parser must not find another host in it.
    plain = server == f"https://{parts.netloc}{parts.path}" and parts.netloc.lower() == place
    if not (plain and port != 0 and _PATH.fullmatch(parts.path) and _is_host(host)):
        raise AccessError("server is not a URL such as https://host:6443")
    if is_ip_address(host) and (fault := addresses.fault(host)):
        raise AccessError(f"server is {fault}, to which the controller does not connect")
    return server.rstrip("/")


def _is_host(host: str) -> bool:
    return (is_ip_address(host) and "%" not in host) or _NAME.fullmatch(host) is not None
