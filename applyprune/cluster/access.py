"""Which API server, and as whom: by kubectl's rules, or by a kubeconfig that a tenant has written.

A tenant's file may use nothing of ours. The TLS of both has Go's rules.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from applyprune.cluster.credentials import (
    AuthProvider,
    CredentialFiles,
    Credentials,
    Entry,
    ExecPlugin,
    FixedCredentials,
    Identity,
    Kubeconfig,
    RenewableCredentials,
    candidate_files,
    checked_token,
    load,
    read_file,
)
from applyprune.errors import AccessError, InvalidKubeConfig
from applyprune.http import (
    AddressRules,
    is_address,
    open_pools,
    proxy_for,
    show_certificate,
    trust_only,
)
from applyprune.values import dataclass, field, pattern

if TYPE_CHECKING:
    from urllib3.connectionpool import HTTPConnectionPool


__all__ = ["ClusterAccess", "connect"]

NO_CLUSTER_HINT = (
    "Set KUBECONFIG or pass --kubeconfig. Without a cluster, `applyprune local up` starts one here."
)


def connect(
    *, kubeconfig: str = "", context: str = "", environ: Mapping[str, str]
) -> ClusterAccess:
    """Return the access from the option, ``KUBECONFIG``, ``~/.kube/config`` or the pod.

    Nothing is sent yet: credential plugins run with the first request. Raises AccessError.
    """
    paths = candidate_files(kubeconfig, environ)
    config = load(paths)
    if not config.contexts and not config.clusters and not kubeconfig:
        pod = None if context else pod_access(environ)
        if pod is None:
            raise _nothing_configured(paths, context)
        return pod
    return _from_context(config, context, environ)


def _nothing_configured(paths: Iterable[Path], context: str) -> AccessError:
    looked = [f"{path} (no such file, or empty)" for path in paths]
    if not context:
        looked.append("a service account of the pod (not in a pod)")
    what = (
        f"no cluster is configured, so no context {context!r}"
        if context
        else ("no cluster is configured")
    )
    return AccessError(what, reason=f"looked at {', '.join(looked)}", hint=NO_CLUSTER_HINT)


def _from_context(config: Kubeconfig, wanted: str, environ: Mapping[str, str]) -> ClusterAccess:
    name = wanted or config.current_context
    where = ", ".join(map(str, config.files))
    if not name:
        raise AccessError(
            "no context is selected",
            location=where,
            reason="current-context is not set",
            hint=f"Pass --context, or run kubectl config use-context. {_listed(config.contexts)}",
        )
    if name not in config.contexts:
        raise AccessError(
            f"there is no context {name!r}", location=where, hint=_listed(config.contexts)
        )
    context = config.contexts[name]
    cluster = _named(config.clusters, context, "cluster", where)
    user = _named(config.users, context, "user", where) if context.text("user") else None
    trust = _trust(cluster)
    server = _server(cluster, trust)
    # As kubectl does: no credentials over plain HTTP.
    secure = server.startswith("https://")
    return ClusterAccess(
        server=server,
        namespace=context.text("namespace") or "default",
        context=name,
        user=context.text("user"),
        credentials=(
            _credentials(user, cluster, name, config) if user and secure else FixedCredentials()
        ),
        trust=trust,
        proxy=cluster.text("proxy-url") or proxy_for(server, environ),
        impersonation=_impersonation(user) if user else (),
    )


def _listed(contexts: Mapping[str, Entry]) -> str:
    if not contexts:
        return "The kubeconfig has no contexts."
    return f"The contexts are: {', '.join(sorted(contexts))}."


def _named(entries: Mapping[str, Entry], context: Entry, kind: str, where: str) -> Entry:
    name = context.text(kind)
    if name not in entries:
        raise AccessError(
            f"context {context.name!r} names the {kind} {name!r}, which does not exist"
            if name
            else f"context {context.name!r} names no {kind}",
            location=where,
            hint=f"Each context needs an entry of its {kind} under {kind}s.",
        )
    return entries[name]


def _server(cluster: Entry, trust: TLSTrust) -> str:
    """Return the server's URL; without a scheme, any TLS setting means https."""
    server = cluster.text("server")
    if server and "://" not in server:
        server = f"{'https' if trust != TLSTrust() else 'http'}://{server}"
    try:
        parts = urlsplit(server)
        good = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or 1)
    except ValueError:
        good = False
    if not good or "@" in parts.netloc or parts.query or parts.fragment or not server.isprintable():
        raise AccessError(
            f"cluster {cluster.name!r} has no usable server",
            # The part before an @ is a password.
            reason=f"server is {server.rpartition('@')[2]!r}" if server else "server is empty",
            hint="It must be a URL such as https://host:6443.",
        )
    return server.rstrip("/")


def _trust(cluster: Entry) -> TLSTrust:
    data = cluster.data("certificate-authority-data")
    path = cluster.path("certificate-authority")
    authorities = data or (read_file(path) if path else b"")
    skip_verify = cluster.flag("insecure-skip-tls-verify")
    if skip_verify and authorities:
        raise AccessError(
            f"cluster {cluster.name!r} has a certificate authority and also turns the check off",
            hint="Remove certificate-authority(-data) or insecure-skip-tls-verify.",
        )
    return TLSTrust(
        authorities=authorities.decode("ascii", "replace"),
        server_name=cluster.text("tls-server-name"),
        skip_verify=skip_verify,
    )


def _credentials(user: Entry, cluster: Entry, context: str, config: Kubeconfig) -> Credentials:
    """Return the source of credentials that client-go would choose for this user."""
    where = f"user {user.name!r}"
    certificate = user.data("client-certificate-data")
    key = user.data("client-key-data")
    token = user.path("tokenFile")
    certificate_file = None if certificate else user.path("client-certificate")
    key_file = None if key else user.path("client-key")
    fixed = Identity(checked_token(user.text("token"), where), certificate, key)
    if bool(certificate or certificate_file) != bool(key or key_file):
        raise AccessError(f"{where} has a client certificate without its key, or the reverse")
    plain: Credentials = FixedCredentials(fixed)
    if token or certificate_file or key_file:
        files = CredentialFiles(token, certificate_file, key_file, fixed)
        plain = RenewableCredentials(files.issue)
        plain.current()
    if token or fixed.token:
        return plain
    if (plugin := user.mapping("exec")) is not None:
        settings = Entry(user.name, plugin, user.base)
        return RenewableCredentials(ExecPlugin(settings, cluster, plain).issue)
    if (provider := user.mapping("auth-provider")) is not None:
        settings = Entry(user.name, provider, user.base)
        return RenewableCredentials(AuthProvider(settings, config.files, context).issue)
    if user.text("username") and not (certificate or certificate_file):
        raise AccessError(
            f"{where} has a username and password, which Kubernetes no longer accepts",
            hint="Use a token, a client certificate or an exec plugin.",
        )
    return plain


def _impersonation(user: Entry) -> tuple[tuple[str, str], ...]:
    """Return the headers for ``as``, ``as-uid``, ``as-groups`` and ``as-user-extra``."""
    headers = []
    if user.text("as"):
        headers.append(("Impersonate-User", user.text("as")))
    if user.text("as-uid"):
        headers.append(("Impersonate-Uid", user.text("as-uid")))
    headers += [("Impersonate-Group", group) for group in user.texts("as-groups")]
    extra = user.mapping("as-user-extra") or {}
    values = Entry(user.name, extra, user.base)
    for key in extra:
        header = f"Impersonate-Extra-{quote(key.lower(), safe='!#$&*+-.^_`|~')}"
        headers += [(header, value) for value in values.texts(key)]
    if headers and not user.text("as"):
        raise AccessError(f"user {user.name!r} impersonates groups without a user (as)")
    for header, value in headers:
        if not value.isascii() or not value.isprintable():
            raise AccessError(f"user {user.name!r}: {header} cannot be sent as a header")
    return tuple(headers)


SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def pod_access(
    environ: Mapping[str, str], service_account: Path | None = None
) -> ClusterAccess | None:
    """Return the access of the pod that we run in; None outside a pod, or without a token.

    The token is read again when the kubelet rotates it. Raises AccessError.
    """
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "")
    service_account = service_account or SERVICE_ACCOUNT
    token = service_account / "token"
    if not host or not port or not token.exists():
        return None
    if ":" in host:
        host = f"[{host}]"
    return ClusterAccess(
        server=f"https://{host}:{port}",
        namespace=environ.get("POD_NAMESPACE") or _namespace(service_account),
        context="in-cluster",
        user="the pod's service account",
        credentials=RenewableCredentials(CredentialFiles(token=token).issue),
        trust=TLSTrust(read_file(service_account / "ca.crt").decode("ascii", "replace")),
    )


def _namespace(service_account: Path) -> str:
    try:
        return read_file(service_account / "namespace").decode("ascii").strip() or "default"
    except (AccessError, UnicodeDecodeError):
        return "default"


@dataclass(frozen=True, slots=True)
class TLSTrust:
    """How the server's certificate is checked."""

    authorities: str = ""
    """The trusted certificates as PEM text; empty for the system's authorities."""
    server_name: str = ""
    """Replaces the host in SNI and in the check of the certificate's name."""
    skip_verify: bool = False
    """Whether every check is turned off."""


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """How to reach one API server: its address, how to trust it, and our credentials."""

    server: str
    """A URL without a trailing slash, possibly with a path."""
    namespace: str
    """The context's namespace, or ``default``."""
    context: str
    """The context's name, for messages."""
    user: str
    """The user's name in the kubeconfig, for messages."""
    credentials: Credentials = field(repr=False)
    trust: TLSTrust = field(default=TLSTrust(), repr=False)
    proxy: str = field(default="", repr=False)
    """The URL of a proxy; empty for none."""
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers that are sent with every request."""
    shown: str = ""
    """What messages call the server; empty for its URL."""
    hidden: tuple[str, ...] = field(default=(), repr=False)
    """Texts that no message may show, even if the server quotes them."""
    addresses: AddressRules | None = None
    """Which addresses the server may have; None for all."""


# Read a kubeconfig that somebody else has written: it may use nothing of ours.
#
# It needs no program, file, environment or proxy of the machine that uses it, and the server must
# prove by TLS who it is. Messages name the field that is wrong, never its value.


MOST_BYTES = 64 * 1024
_MOST_VALUES = 5000
_DEEPEST = 12
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
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAME = pattern(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)*{_LABEL}\.?", re.IGNORECASE)
_PATH = pattern(r"(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~-]+)*/?")


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


def _fault(text: str) -> AccessError:
    return AccessError(text)


def _parsed(raw: bytes) -> Mapping[str, Any]:
    """Parse one small YAML document without aliases, every scalar as text."""
    if len(raw) > MOST_BYTES:  # guard: kubeconfig-size
        raise _fault(f"it has more than {MOST_BYTES >> 10} KiB")
    try:
        _measure(raw)
        content = YAML(typ="base").load(raw)
    except (YAMLError, UnicodeDecodeError, RecursionError, ValueError):
        # The parser's own message may quote a value, and values here are tokens.
        raise _fault("it is not valid YAML") from None
    if not isinstance(content, dict):
        raise _fault("it must be a mapping")
    return content


def _measure(raw: bytes) -> None:
    """Refuse what costs more to read than a kubeconfig does."""
    depth = 0
    for number, event in enumerate(YAML(typ="base").parse(raw)):
        kind = type(event).__name__
        depth += kind.endswith("StartEvent")
        depth -= kind.endswith("EndEvent")
        if kind == "AliasEvent":
            raise _fault("it has a YAML alias")
        if number > _MOST_VALUES or depth > _DEEPEST:  # guard: kubeconfig-cost
            raise _fault("it has too many values, or too many levels")


def _top(content: Mapping[str, Any], key: str) -> str:
    text = Entry("kubeconfig", content, Path()).text(key)
    if not text:
        raise _fault(f"{key} is not set")
    return text


def _only_entry(content: Mapping[str, Any], kind: str, name: str) -> Entry:
    """Return the only entry with a name; what it is called in messages is its kind."""
    if not name:
        raise _fault(f"the context names no {kind}")
    items = content.get(f"{kind}s")
    listed = items if isinstance(items, list) else []
    found = [one for one in listed if isinstance(one, dict) and one.get("name") == name]
    if len(found) != 1:
        where = "current-context" if kind == "context" else "the current context"
        what = f"twice under {kind}s" if found else f"missing under {kind}s"
        raise _fault(f"the {kind} that {where} names is {what}")
    fields = found[0].get(kind)
    if not isinstance(fields, dict):
        raise _fault(f"the {kind} of the current context must be a mapping")
    return Entry(f"the {kind} of the current context", fields, Path())


def _refuse(entry: Entry, forbidden: Mapping[str, str]) -> None:
    for key, why in forbidden.items():
        value = entry.fields.get(key, "")
        if value and (not isinstance(value, str) or value not in _NO):  # guard: foreign-kubeconfig
            raise _fault(f"{entry.name} has {key}, which is not allowed: {why}")


def _tenant_server(cluster: Entry, addresses: AddressRules) -> str:
    server = cluster.text("server")
    try:
        parts = urlsplit(server)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _fault("server is not a URL such as https://host:6443") from None
    if parts.scheme != "https":  # guard: https-only
        raise _fault("server must begin with https://")
    place = f"[{host}]" if ":" in host else host
    place += f":{port}" if port is not None else ""
    # Written in one way only: another parser must not find another host in it.
    plain = server == f"https://{parts.netloc}{parts.path}" and parts.netloc.lower() == place
    if not (plain and port != 0 and _PATH.fullmatch(parts.path) and _is_host(host)):
        raise _fault("server is not a URL such as https://host:6443")
    if is_address(host) and (fault := addresses.fault(host)):
        raise _fault(f"server is {fault}, to which the controller does not connect")
    return server.rstrip("/")


def _is_host(host: str) -> bool:
    return (is_address(host) and "%" not in host) or _NAME.fullmatch(host) is not None


def _tenant_trust(cluster: Entry) -> TLSTrust:
    name = cluster.text("tls-server-name")
    if name and not _is_host(name):
        raise _fault("tls-server-name is not a host's name")
    authorities = cluster.data("certificate-authority-data").decode("ascii", "replace")
    return TLSTrust(authorities, name)


def _check_certificates(trust: TLSTrust, identity: Identity) -> None:
    """Refuse certificates that cannot be used, by the names that their fields have here."""
    try:
        tls_context(trust, Identity())
    except AccessError:
        raise _fault("certificate-authority-data is not a PEM certificate") from None
    try:
        tls_context(TLSTrust(skip_verify=True), identity)
    except AccessError as error:
        why = error.reason
        raise _fault(f"client-certificate-data and client-key-data cannot be used: {why}") from None


def _identity(user: Entry) -> Identity:
    token = checked_token(user.text("token"), "token")
    certificate, key = user.data("client-certificate-data"), user.data("client-key-data")
    if bool(certificate) != bool(key):
        raise _fault("client-certificate-data and client-key-data belong together")
    if not token and not certificate:
        raise _fault("the user has neither token nor client-certificate-data")
    return Identity(token, certificate, key)


# The connections to one API server: its TLS context, which has Go's rules, and their pool.


def tls_context(trust: TLSTrust, identity: Identity) -> ssl.SSLContext:
    """Return a context that follows ``trust`` and presents the identity's certificate.

    The system's authorities are loaded (20 ms) only when the kubeconfig has none. Raises
    AccessError for invalid certificates and keys.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # As Go does: trust every certificate given as an authority, self-signed or not, and ignore the
    # common name of a server's certificate.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    if trust.skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif trust.authorities:
        _trust_only(context, trust.authorities)
    else:
        context.load_default_certs()
    if identity.certificate:
        _show(context, identity)
    return context


def _trust_only(context: ssl.SSLContext, authorities: str) -> None:
    try:
        trust_only(context, authorities)
    except ValueError:
        raise AccessError(
            "the certificate authority is not a PEM certificate",
            hint="Check certificate-authority(-data) of the cluster in the kubeconfig.",
        ) from None


def _show(context: ssl.SSLContext, identity: Identity) -> None:
    try:
        show_certificate(context, identity.certificate, identity.key)
    except ValueError:
        raise AccessError(
            "the client certificate and its key cannot be used",
            reason="they are not PEM, do not belong together, or the key has a password",
            hint="Check client-certificate(-data) and client-key(-data) in the kubeconfig.",
        ) from None


@dataclass(frozen=True, slots=True)
class ServerPool:
    """Connections to the server."""

    pool: HTTPConnectionPool
    base: str
    """The prefix of every request's path."""


def open_pool(access: ClusterAccess, identity: Identity, size: int) -> ServerPool:
    """Return a pool of at most ``size`` connections, not opened yet. Raises AccessError.

    A connection is bound to its client certificate: another certificate needs another pool.
    """
    options: dict[str, Any] = {"maxsize": size, "block": True}
    parts = urlsplit(access.server)
    if parts.scheme == "https":
        options["ssl_context"] = tls_context(access.trust, identity)
        if access.trust.server_name:
            options["server_hostname"] = access.trust.server_name
    manager = open_pools(access.proxy, **options)
    # A proxy gets the whole URL of a plain HTTP server; to an HTTPS server it opens a tunnel.
    whole = bool(access.proxy) and parts.scheme == "http"
    base = access.server if whole else parts.path.rstrip("/")
    pool = manager.connection_from_url(access.server)
    if access.addresses is not None:
        pool.conn_kw["addresses"] = access.addresses
    return ServerPool(pool, base)
