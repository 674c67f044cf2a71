"""Kubeconfigs as tenants may write them: good ones, attacks, and mistakes; all names are secret."""

from __future__ import annotations

from typing import Any

from tests.support.canaries import TOKEN, encoded

SERVER = "https://k8s.example:6443"
_MOST_BYTES = 64 * 1024


def kubeconfig(
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    *,
    current: object = TOKEN,
    **changes: Any,
) -> dict[str, Any]:
    """Return a kubeconfig whose names are secret too."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "contexts": [{"name": TOKEN, "context": {"cluster": TOKEN, "user": TOKEN}}],
        "clusters": [{"name": TOKEN, "cluster": {"server": SERVER, **(cluster or {})}}],
        "users": [{"name": TOKEN, "user": {"token": TOKEN} if user is None else user}],
        **changes,
    }


FOREIGN: dict[str, tuple[str, object]] = {
    "exec": ("user", {"command": TOKEN, "apiVersion": "client.authentication.k8s.io/v1"}),
    "auth-provider": ("user", {"name": "oidc", "config": {"id-token": TOKEN}}),
    "tokenFile": ("user", "/var/run/secrets/kubernetes.io/serviceaccount/token"),
    "client-certificate": ("user", f"/{TOKEN}"),
    "client-key": ("user", f"/{TOKEN}"),
    "as": ("user", "system:admin"),
    "as-uid": ("user", TOKEN),
    "as-groups": ("user", ["system:masters"]),
    "as-user-extra": ("user", {"a": [TOKEN]}),
    "username": ("user", TOKEN),
    "password": ("user", TOKEN),
    "certificate-authority": ("cluster", "/etc/ssl/ca.pem"),
    "insecure-skip-tls-verify": ("cluster", True),
    "proxy-url": ("cluster", f"http://{TOKEN}@proxy:3128"),
}
"""What uses the machine that reads it: whose field it is, and a value."""


def with_foreign(key: str, value: object) -> dict[str, Any]:
    """Return a kubeconfig with that field beside good credentials."""
    if FOREIGN[key][0] == "cluster":
        return kubeconfig({key: value})
    return kubeconfig(user={"token": TOKEN, key: value})


HTTPS = "server must begin with https://"
URL = "server is not a URL such as https://host:6443"
SERVERS = {
    "": HTTPS,
    TOKEN: HTTPS,
    f"http://{TOKEN}": HTTPS,
    "HTTPS://k8s.example": URL,
    "unix:///run/api.sock": HTTPS,
    "file:///etc/passwd": HTTPS,
    "//k8s.example": HTTPS,
    "k8s.example:6443": HTTPS,
    f"https://user:{TOKEN}@k8s.example": URL,
    f"https://k8s.example?token={TOKEN}": URL,
    f"https://k8s.example#{TOKEN}": URL,
    "https://": URL,
    "https://k8s..example": URL,
    "https://k8s.example:0": URL,
    "https://k8s.example:99999": URL,
    "https://k8s.example:": URL,
    "https://k8s.example/../x": URL,
    "https://k8s.example/a b": URL,
    "https://k8s.example\\@127.0.0.1": URL,
    "https://k8s.example\n.org": URL,
    "https://k8s_example": URL,
    "https://[fe80::1%25eth0]": URL,
    "https://[::1]x": URL,
    f"https://{'a' * 64}": URL,
    "https://127.0.0.1:6443": "server is a loopback address",
    "https://[::1]:6443": "server is a loopback address",
    "https://0.0.0.0": "server is an address of this machine",
    "https://169.254.169.254": "server is a link-local address",
    "https://[fd00:ec2::254]": "server is the address of a cloud's metadata",
    "https://[::ffff:169.254.169.254]/latest": "server is a link-local address",
}
"""Servers, and the beginning of why each is refused."""

PEM = f"-----BEGIN CERTIFICATE-----\n{encoded(TOKEN)}\n-----END CERTIFICATE-----\n"
"""It looks like a certificate."""
MALFORMED: dict[str, tuple[dict[str, Any] | bytes, str]] = {
    "nothing": (b"", "it must be a mapping"),
    "a text": (TOKEN.encode(), "it must be a mapping"),
    "not YAML": (f'a: "{TOKEN}\n'.encode(), "it is not valid YAML"),
    "not text": (b"\xff\xfe\x00" + TOKEN.encode(), "it is not valid YAML"),
    "two documents": (f"a: b\n---\n{TOKEN}: c\n".encode(), "it is not valid YAML"),
    "a key twice": (f"{TOKEN}: b\n{TOKEN}: c\n".encode(), "it is not valid YAML"),
    "no context": (kubeconfig(current=""), "current-context is not set"),
    "a context that is a list": (
        kubeconfig(current=[TOKEN]),
        "current-context must be text",
    ),
    "no such context": (
        kubeconfig(contexts=[]),
        "the context that current-context names is missing",
    ),
    "contexts as text": (kubeconfig(contexts=TOKEN), "the context that current-context names is"),
    "no such cluster": (kubeconfig(clusters=None), "the cluster that the current context names is"),
    "a user twice": (
        kubeconfig(users=[{"name": TOKEN, "user": {}}] * 2),
        "the user that the current context names is twice under users",
    ),
    "a user as text": (
        kubeconfig(users=[{"name": TOKEN, "user": TOKEN}]),
        "the user of the current context must be a mapping",
    ),
    "no credentials": (kubeconfig(user={}), "the user has neither token nor client-certificate"),
    "half a pair": (
        kubeconfig(user={"client-key-data": encoded(TOKEN)}),
        "client-certificate-data and client-key-data belong together",
    ),
    "not base64": (
        kubeconfig({"certificate-authority-data": f"!{TOKEN}"}),
        "certificate-authority-data is not base64",
    ),
    "no authority": (
        kubeconfig({"certificate-authority-data": encoded(TOKEN)}),
        "certificate-authority-data is not a PEM certificate",
    ),
    "a wrong authority": (
        kubeconfig({"certificate-authority-data": encoded(PEM)}),
        "certificate-authority-data is not a PEM certificate",
    ),
    "a wrong certificate": (
        kubeconfig(user={"client-certificate-data": encoded(PEM), "client-key-data": encoded(PEM)}),
        "client-certificate-data and client-key-data cannot be used: they are not PEM",
    ),
    "a token of two lines": (kubeconfig(user={"token": f"{TOKEN}\r\nX: y"}), "the token contains"),
    "a token that is a list": (kubeconfig(user={"token": [TOKEN]}), "token must be text"),
    "a name that is none": (
        kubeconfig({"tls-server-name": f"{TOKEN}\0"}),
        "tls-server-name is not",
    ),
}
"""What cannot be read, and the beginning of why."""

LEVELS = "it has too many values, or too many levels"
COSTLY = {
    "long": (b"a: " + b"b" * _MOST_BYTES, "it has more than 64 KiB"),
    "deep lists": (b"[" * 60_000, LEVELS),
    "deep mappings": (b"{a: " * 15_000, LEVELS),
    "deep blocks": (b"- " * 30_000, LEVELS),
    "many values": (b"- a\n" * 15_000, LEVELS),
    "many keys": (b"".join(b"k%d: 1\n" % number for number in range(6_000)), LEVELS),
    "aliases": (b"a: &a [1]\nb: &b [*a, *a]\nc: [*b, *b]\n", "it has a YAML alias"),
    "an alias of itself": (b"a: &a [*a]\n", "it has a YAML alias"),
    "quotes": (b'"' * 60_000, "it is not valid YAML"),
    "one long key": (b"? " + b"a" * 60_000 + b"\n", "current-context is not set"),
}
"""What would cost much to read, and why it is refused."""
