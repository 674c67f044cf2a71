"""Read a kubeconfig that somebody else has written: it may use nothing of ours.

It needs no program, file, environment or proxy of the machine that uses it, and the server must
prove by TLS who it is. Messages name the field that is wrong, never its value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from applyprune.cluster.auth.credentials import FixedCredentials, Identity, checked_token
from applyprune.cluster.auth.kubeconfig import ClusterAccess, TLSTrust
from applyprune.cluster.auth.kubeconfig_files import Entry
from applyprune.cluster.transport.tls import tls_context
from applyprune.errors import AccessError, InvalidKubeConfig
from applyprune.http import AddressRules, is_address
from applyprune.values import pattern

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
        context = _named(content, "context", _top(content, "current-context"))
        cluster = _named(content, "cluster", context.text("cluster"))
        user = _named(content, "user", context.text("user"))
        _refuse(cluster, _CLUSTER)
        _refuse(user, _USER)
        identity, trust = _identity(user), _trust(cluster)
        _check_certificates(trust, identity)
        return ClusterAccess(
            server=_server(cluster, addresses),
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


def _named(content: Mapping[str, Any], kind: str, name: str) -> Entry:
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


def _server(cluster: Entry, addresses: AddressRules) -> str:
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


def _trust(cluster: Entry) -> TLSTrust:
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
