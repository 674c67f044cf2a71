"""Which API server, and as whom: chosen by kubectl's rules.

They come from a kubeconfig. Without one, and inside a pod, they come from two environment variables
and the mounted service account.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

from msgspec import Struct

from applyprune.addresses import (
    PROXY_FORM,
    AddressRules,
    InvalidHost,
    bracketed,
    endpoint_of,
    http_endpoint,
    proxy_for,
)
from applyprune.cluster.credentials import (
    AuthProvider,
    CredentialFiles,
    Credentials,
    ExecPlugin,
    FixedCredentials,
    Identity,
    Kubeconfig,
    KubeconfigEntry,
    RenewableCredentials,
    candidate_files,
    checked_token,
    load_kubeconfig,
    read_file,
)
from applyprune.errors import AccessError
from applyprune.http import Trust
from applyprune.values import hiding


class ClusterAccess(Struct, frozen=True):
    """How to reach one API server: its address, how to trust it, and our credentials."""

    server: str
    """A URL without a trailing slash, possibly with a path."""
    namespace: str
    """The context's namespace, or ``default``."""
    context: str
    """The context's name, for messages."""
    user: str
    """The user's name in the kubeconfig, for messages."""
    credentials: Credentials
    trust: Trust = Trust()
    proxy: str = ""
    """The URL of a proxy; empty for none."""
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers that are sent with every request."""
    shown: str = ""
    """What messages call the server; empty for its URL."""
    hidden: tuple[str, ...] = ()
    """Texts that no message may show, even if the server quotes them."""
    addresses: AddressRules | None = None
    """Which addresses the server may have; None for all."""

    __repr__ = hiding("credentials", "trust", "proxy", "hidden")


def cluster_access(
    *, kubeconfig: str = "", context: str = "", environ: Mapping[str, str]
) -> ClusterAccess:
    """Return the access from the option, ``KUBECONFIG``, ``~/.kube/config`` or the pod.

    Nothing is sent yet: credential plugins run with the first request. Raises AccessError.
    """
    paths = candidate_files(kubeconfig, environ)
    config = load_kubeconfig(paths)
    if not config.contexts and not config.clusters and not kubeconfig:
        pod = None if context else pod_access(environ)
        if pod is None:
            raise _nothing_configured(paths, context)
        return pod
    return _from_context(config, context, environ)


_NO_CLUSTER_HINT = (
    "Set KUBECONFIG or pass --kubeconfig. Without a cluster, this starts one here: "
    'eval "$(applyprune local up)"'
)


def _nothing_configured(paths: Iterable[Path], context: str) -> AccessError:
    looked = [f"{path} (no such file, or empty)" for path in paths]
    if not context:
        looked.append("a service account of the pod (not in a pod)")
    what = (
        f"no cluster is configured, so no context {context!r}"
        if context
        else ("no cluster is configured")
    )
    return AccessError(what, reason=f"looked at {', '.join(looked)}", hint=_NO_CLUSTER_HINT)


def _from_context(config: Kubeconfig, wanted: str, environ: Mapping[str, str]) -> ClusterAccess:
    name = wanted or config.current_context
    where = ", ".join(map(str, config.files))
    if not name:
        raise AccessError(
            "no context is selected",
            location=where,
            reason="current-context is not set",
            hint="Pass --context, or run kubectl config use-context. "
            f"{_known_contexts(config.contexts)}",
        )
    if name not in config.contexts:
        raise AccessError(
            f"there is no context {name!r}", location=where, hint=_known_contexts(config.contexts)
        )
    context = config.contexts[name]
    cluster = _named(config.clusters, context, "cluster", where)
    user = _named(config.users, context, "user", where) if context.text("user") else None
    trust = _trust(cluster, where)
    server = _server(cluster, trust, where)
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
        proxy=_proxy(cluster, server, where, environ),
        impersonation=_impersonation(user) if user else (),
    )


def _known_contexts(contexts: Mapping[str, KubeconfigEntry]) -> str:
    if not contexts:
        return "The kubeconfig has no contexts."
    return f"The contexts are: {', '.join(sorted(contexts))}."


def _named(
    entries: Mapping[str, KubeconfigEntry], context: KubeconfigEntry, kind: str, where: str
) -> KubeconfigEntry:
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


def _trust(cluster: KubeconfigEntry, where: str) -> Trust:
    data = cluster.data("certificate-authority-data")
    path = cluster.path("certificate-authority")
    authorities = data or (read_file(path) if path else b"")
    skip_verify = cluster.flag("insecure-skip-tls-verify")
    if skip_verify and authorities:
        raise AccessError(
            f"cluster {cluster.name!r} has a certificate authority and also turns verification off",
            hint="Remove certificate-authority(-data) or insecure-skip-tls-verify.",
        )
    return Trust(
        authorities=authorities.decode("ascii", "replace"),
        server_name=_server_name(cluster, where),
        skip_verify=skip_verify,
    )


def _server_name(cluster: KubeconfigEntry, where: str) -> str:
    """Return the name that the server's certificate must have: a host without a port."""
    name = cluster.text("tls-server-name")
    try:
        if not name:
            return ""
        if _NOT_IN_A_NAME.isdisjoint(name):
            return endpoint_of(f"https://{bracketed(name.strip('[]'))}").host
    except InvalidHost:
        pass
    raise AccessError(
        f"cluster {cluster.name!r} has no usable tls-server-name",
        location=where,
        reason=f"tls-server-name is {name!r}",
        hint="It must be a host name or an address, without a port.",
    )


_NOT_IN_A_NAME = frozenset("@/?#%")


def _server(cluster: KubeconfigEntry, trust: Trust, where: str) -> str:
    """Return the server's URL; without a scheme, any TLS setting means https."""
    server = cluster.text("server")
    if server and "://" not in server:
        server = f"{'https' if trust != Trust() else 'http'}://{server}"
    reason = "server is empty"
    if server:
        # The part before an @ is a password.
        reason = f"server is {server.rpartition('@')[2]!r}"
        if fault := _server_fault(server):
            reason = f"{reason}: {fault}"
        else:
            scheme, _, rest = server.partition("://")
            return f"{scheme.lower()}://{rest}".rstrip("/")
    raise AccessError(
        f"cluster {cluster.name!r} has no usable server",
        location=where,
        reason=reason,
        hint="It must be a URL such as https://host:6443 or https://[fd00::1]:6443.",
    )


def _server_fault(server: str) -> str:
    """Return why a URL is not that of a server; empty if it is."""
    try:
        http_endpoint(server)
    except InvalidHost as error:
        return str(error)
    parts = urlsplit(server)
    if "@" in parts.netloc or parts.query or parts.fragment:
        return "it has more than a host, a port and a path"
    if not (server.isascii() and server.isprintable()):
        return "it has a character that no URL can have"
    return ""


def _proxy(cluster: KubeconfigEntry, server: str, where: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the proxy for a server, empty for none; the kubeconfig's comes first."""
    given = cluster.text("proxy-url")
    try:
        proxy = given or proxy_for(server, environ)
        if proxy:
            http_endpoint(proxy)
    except InvalidHost as error:
        what, place = f"proxy-url of cluster {cluster.name!r}", where
        if not given:
            variable = "HTTPS_PROXY" if server.startswith("https:") else "HTTP_PROXY"
            what, place = "the proxy", getattr(error, "variable", variable)
        raise AccessError(
            f"{what} cannot be used", location=place, reason=str(error), hint=PROXY_FORM
        ) from None
    if proxy and endpoint_of(server).zone:
        raise AccessError(
            f"cluster {cluster.name!r} cannot be reached through a proxy",
            location=where,
            reason="the address of its server has a zone, which names a network interface of this "
            "machine",
            hint="Add that address to NO_PROXY.",
        )
    return proxy


def _credentials(
    user: KubeconfigEntry, cluster: KubeconfigEntry, context: str, config: Kubeconfig
) -> Credentials:
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
        settings = KubeconfigEntry(user.name, plugin, user.base)
        return RenewableCredentials(ExecPlugin(settings, cluster, plain).issue)
    if (provider := user.mapping("auth-provider")) is not None:
        settings = KubeconfigEntry(user.name, provider, user.base)
        return RenewableCredentials(AuthProvider(settings, config.files, context).issue)
    if user.text("username") and not (certificate or certificate_file):
        raise AccessError(
            f"{where} has a username and password, which Kubernetes no longer accepts",
            hint="Use a token, a client certificate or an exec plugin.",
        )
    return plain


def _impersonation(user: KubeconfigEntry) -> tuple[tuple[str, str], ...]:
    """Return the headers for ``as``, ``as-uid``, ``as-groups`` and ``as-user-extra``."""
    headers = []
    if user.text("as"):
        headers.append(("Impersonate-User", user.text("as")))
    if user.text("as-uid"):
        headers.append(("Impersonate-Uid", user.text("as-uid")))
    headers += [("Impersonate-Group", group) for group in user.texts("as-groups")]
    extra = user.mapping("as-user-extra") or {}
    values = KubeconfigEntry(user.name, extra, user.base)
    for key in extra:
        header = f"Impersonate-Extra-{quote(key.lower(), safe='!#$&*+-.^_`|~')}"
        headers += [(header, value) for value in values.texts(key)]
    if headers and not user.text("as"):
        raise AccessError(f"user {user.name!r} impersonates groups without a user (as)")
    for header, value in headers:
        if not value.isascii() or not value.isprintable():
            raise AccessError(f"user {user.name!r}: {header} cannot be sent as a header")
    return tuple(headers)


_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def pod_access(
    environ: Mapping[str, str], service_account: Path | None = None
) -> ClusterAccess | None:
    """Return the access of the pod that we run in; None outside a pod, or without a token.

    The token is read again when the kubelet rotates it. Raises AccessError.
    """
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "")
    service_account = service_account or _SERVICE_ACCOUNT
    token = service_account / "token"
    if not host or not port or not token.exists():
        return None
    # The kubelet gives an address without brackets.
    server = f"https://{bracketed(host.strip('[]')).replace('%', '%25')}:{port}"
    if fault := _server_fault(server):
        raise AccessError(
            "the API server of this pod cannot be found",
            location="KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT",
            reason=f"they mean {server}: {fault}",
            hint="The kubelet sets them; something has changed them.",
        )
    return ClusterAccess(
        server=server,
        namespace=environ.get("POD_NAMESPACE") or _namespace(service_account),
        context="in-cluster",
        user="the pod's service account",
        credentials=RenewableCredentials(CredentialFiles(token=token).issue),
        trust=Trust(read_file(service_account / "ca.crt").decode("ascii", "replace")),
    )


def _namespace(service_account: Path) -> str:
    try:
        return read_file(service_account / "namespace").decode("ascii").strip() or "default"
    except (AccessError, UnicodeDecodeError):
        return "default"
