"""Hosts and ports in every form: what each reader of a URL makes of them, and where it refuses.

A reader is whatever takes a URL from a user: a kubeconfig, the environment, the command line. What
one of them lets through that another one cannot use would be an internal error later.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from applyprune.addresses import InvalidHost, endpoint_of
from applyprune.cli.controller import _address
from applyprune.cluster.access import cluster_access, pod_access
from applyprune.errors import AccessError, InputError, UsageError
from applyprune.sources.address import parse_address, parse_git_url
from applyprune.sources.web import check_url, source_proxy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.errors import ApplypruneError

BRACKETS, PORT = "is written in brackets", "its port is not a number from 1 to 65535"
NEITHER, ASCII = "not a name or an address", "is not ASCII"
NOT_IPV6, ZONE = "is not an IPv6 address", "a zone is written after %25"


@dataclass(frozen=True)
class Form:
    """A way to write a host, and what it is; ``why`` is the reason where it is refused."""

    written: str
    host: str = ""
    dialed: str = ""
    why: str = ""


HOSTS = {
    "name": Form("k8s.example", "k8s.example"),
    "short name": Form("web", "web"),
    "underscore": Form("my_host.example", "my_host.example"),
    "upper case": Form("K8S.Example", "k8s.example"),
    "final dot": Form("k8s.example.", "k8s.example", "k8s.example."),
    "localhost with a dot": Form("LocalHost.", "localhost", "localhost"),
    "IPv4": Form("10.1.2.3", "10.1.2.3"),
    "IPv4 with a dot": Form("10.1.2.3.", "10.1.2.3"),
    "short IPv4": Form("127.1", "127.1"),
    "::1": Form("[::1]", "::1"),
    "IPv6": Form("[fd00:1:2:3:4:5:6:7]", "fd00:1:2:3:4:5:6:7"),
    "IPv6 with zeros": Form("[fd00:0:0:0:0:0:0:1]", "fd00::1"),
    "IPv6 in upper case": Form("[FD00::A]", "fd00::a"),
    "IPv6 that maps IPv4": Form("[::ffff:10.1.2.3]", "::ffff:a01:203"),
    "zone": Form("[fe80::1%25eth0.5]", "fe80::1", "fe80::1%eth0.5"),
    "zone in upper case": Form("[FE80::1%25Eth0]", "fe80::1", "fe80::1%Eth0"),
    "numbered zone": Form("[fe80::1%252]", "fe80::1", "fe80::1%2"),
    "zone that is not escaped": Form("[fe80::1%eth0]", why=ZONE),
    "empty zone": Form("[fe80::1%25]", why=ZONE),
    "zone with a slash": Form("[fe80::1%25a%2f]", why=ZONE),
    "IPv6 without brackets": Form("fd00::1", why=BRACKETS),
    "::1 without brackets": Form("::1", why=BRACKETS),
    "open bracket": Form("[fd00::1", why=BRACKETS),
    "closing bracket": Form("fd00::1]", why=BRACKETS),
    "bracket in a name": Form("a[b]", why=BRACKETS),
    "text after a bracket": Form("[fd00::1]x", why=BRACKETS),
    "name in brackets": Form("[k8s.example]", why=NOT_IPV6),
    "IPv4 in brackets": Form("[10.1.2.3]", why=NOT_IPV6),
    "future address": Form("[v1.x]", why=NOT_IPV6),
    "too many groups": Form("[1:2:3:4:5:6:7:8:9]", why=NOT_IPV6),
    "nothing in brackets": Form("[]", why=NOT_IPV6),
    "no host": Form("", why="it has no host"),
    "empty label": Form("k8s..example", why=NEITHER),
    "only a dot": Form(".", why=NEITHER),
    "dash first": Form("-oProxyCommand=x", why=NEITHER),
    "percent": Form("k8s%2eexample", why=NEITHER),
    "star": Form("*.example", why=NEITHER),
    "international": Form("bücher.example", why=ASCII),
    "digits that are not ASCII": Form("１０.1.2.3", why=ASCII),
}
PORTS = {
    "none": ("", 443),
    "empty": (":", 443),
    "one": (":1", 1),
    "usual": (":6443", 6443),
    "highest": (":65535", 65535),
    "zeros first": (":00443", 443),
    "zero": (":0", None),
    "too high": (":65536", None),
    "huge": (":99999999999", None),
    "negative": (":-1", None),
    "plus": (":+1", None),
    "name": (":https", None),
    "space": (": 1", None),
}


@pytest.mark.parametrize("form", HOSTS)
def test_host_is_read(form: str) -> None:
    one = HOSTS[form]
    for port in ("", ":6443"):
        url = f"https://{one.written}{port}/a"
        if one.why:
            with pytest.raises(InvalidHost, match=one.why):
                endpoint_of(url)
            continue
        end = endpoint_of(url)
        assert (end.host, end.dialed) == (one.host, one.dialed or one.host)
        assert end.port == (6443 if port else 443)


@pytest.mark.parametrize("port", PORTS)
def test_port_is_read(port: str) -> None:
    """Behind each kind of host."""
    written, expected = PORTS[port]
    for host in ("k8s.example", "10.1.2.3", "[fd00::1]", "[fe80::1%25eth0]"):
        url = f"https://{host}{written}"
        if expected is None:
            with pytest.raises(InvalidHost, match=PORT):
                endpoint_of(url)
        else:
            assert endpoint_of(url).port == expected


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://h", "h:80"),
        ("HTTPS://h", "h:443"),
        ("ssh://git@h/x", "h:22"),
        ("socks5://h", "h:1080"),
        ("https://u:p@[fd00::1]/x", "[fd00::1]:443"),
        ("https://u:p%40@h?a@b#c@d", "h:443"),
        ("https://h?x", "h:443"),
    ],
)
def test_rest_of_a_url_is_not_the_host(url: str, place: str) -> None:
    assert endpoint_of(url).place == place


@pytest.mark.parametrize(
    "url", ["", "h:443", "//h", "https:/h", "https://", "https:///a", "https://a@"]
)
def test_text_without_a_host_is_refused(url: str) -> None:
    with pytest.raises(InvalidHost, match="no host"):
        endpoint_of(url)


def test_reason_quotes_nothing() -> None:
    """There may be a password in a URL, at any place of it."""
    for url in ("https://hunter2:hunter2", "https://u:hunter2[@h", "https://[hunter2]", "hunter2"):
        with pytest.raises(InvalidHost) as caught:
            endpoint_of(url)
        assert "hunter2" not in str(caught.value)


# Those who read a URL.


def server(place: str, folder: Path) -> None:
    _kubeconfig(folder, {"server": f"https://{place}"})


def proxy_of_kubeconfig(place: str, folder: Path) -> None:
    _kubeconfig(folder, {"server": "https://a.example", "proxy-url": f"http://u:p@{place}"})


def proxy_of_environment(place: str, folder: Path) -> None:
    _kubeconfig(folder, {"server": "https://a.example"}, HTTPS_PROXY=f"u:p@{place}")


def document(place: str, folder: Path) -> None:
    del folder
    check_url(f"https://{place}/x.yaml")


def git(place: str, folder: Path) -> None:
    del folder
    parse_git_url(f"https://{place}/x.git")


def git_over_ssh(place: str, folder: Path) -> None:
    del folder
    parse_git_url(f"ssh://git@{place}/x.git")


def artifact(place: str, folder: Path) -> None:
    del folder
    assert parse_address(f"oci://{place}/x:1")


def listen(place: str, folder: Path) -> None:
    del folder
    assert _address(place)


def _kubeconfig(folder: Path, cluster: dict[str, str], **environ: str) -> None:
    path = folder / "config"
    contexts = [{"name": "a", "context": {"cluster": "a"}}]
    clusters = [{"name": "a", "cluster": cluster}]
    path.write_text(
        json.dumps({"current-context": "a", "contexts": contexts, "clusters": clusters})
    )
    cluster_access(kubeconfig=str(path), environ=environ)


PROXIES = (proxy_of_kubeconfig, proxy_of_environment)
READERS = (server, *PROXIES, document, git, git_over_ssh, artifact, listen)
ZONES = {form for form in HOSTS if "%" in HOSTS[form].dialed}
# Their hosts are written in one way only, because they are compared: with the host of a login, and
# with what git itself reads.
STRICT: dict[Callable[[str, Path], None], set[str]] = {
    git: ZONES | {"final dot", "short IPv4"},
    git_over_ssh: ZONES | {"final dot", "short IPv4"},
    artifact: ZONES | {"final dot", "localhost with a dot", "IPv4 with a dot", "underscore"},
    document: ZONES,
    listen: ZONES,
}


def refusal(read: Callable[[str, Path], None], place: str, folder: Path) -> ApplypruneError | None:
    try:
        read(place, folder)
    except (UsageError, AccessError) as error:
        return error
    return None


@pytest.mark.parametrize("form", HOSTS)
@pytest.mark.parametrize("read", READERS)
def test_each_reader_takes_a_host_or_says_why_not(
    read: Callable[[str, Path], None], form: str, tmp_path: Path
) -> None:
    """An error of the input, or of the access; it has a place, and shows no password."""
    one = HOSTS[form]
    if read is listen and not one.written:
        return  # every address
    error = refusal(read, f"{one.written}:6443", tmp_path)
    assert (error is not None) is bool(one.why or form in STRICT.get(read, ()))
    if error is not None:
        assert error.exit_code == (7 if read in {server, *PROXIES} else 2)
        assert error.location or "valid" in error.message
        assert error.reason or read in {git, git_over_ssh}
        assert error.hint
        assert "u:p" not in str(error)


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize("read", [server, *PROXIES, document, git, artifact])
def test_each_reader_takes_a_port_or_says_why_not(
    read: Callable[[str, Path], None], port: str, tmp_path: Path
) -> None:
    written, expected = PORTS[port]
    strict = read is artifact and port == "empty"
    for host in ("k8s.example", "[fd00::1]"):
        error = refusal(read, f"{host}{written}", tmp_path)
        assert (error is None) is (expected is not None and not strict)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("10.96.0.1", "https://10.96.0.1:443"),
        ("fd00:10:96::1", "https://[fd00:10:96::1]:443"),
        ("[fd00:10:96::1]", "https://[fd00:10:96::1]:443"),
        ("fe80::1%eth0", "https://[fe80::1%25eth0]:443"),
        ("kubernetes.default.svc", "https://kubernetes.default.svc:443"),
    ],
)
def test_pod_reaches_its_server_at_each_address(host: str, expected: str, tmp_path: Path) -> None:
    """The kubelet writes an address of IPv6 without brackets."""
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text("x")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    access = pod_access(environ, tmp_path)
    assert access is not None
    assert access.server == expected


@pytest.mark.parametrize(
    ("host", "port"), [("a b", "443"), ("h", "tcp://10.0.0.1:443"), ("h", "0")]
)
def test_pod_without_a_usable_server_says_so(host: str, port: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x")
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    with pytest.raises(AccessError, match="KUBERNETES_SERVICE_HOST") as caught:
        pod_access(environ, tmp_path)
    assert caught.value.exit_code == 7


@pytest.mark.parametrize(
    ("proxy", "expected"),
    [
        ("proxy", "http://proxy:80"),
        ("https://proxy", "https://proxy:443"),
        ("http://u:p@Proxy.:3128/x@y", "http://u:p@proxy:3128"),
        ("[fd00::1]:3128", "http://[fd00::1]:3128"),
        ("http://[fe80::1%25eth0]:3128", "http://[fe80::1%25eth0]:3128"),
        ("socks5://proxy", "socks5://proxy:1080"),
    ],
)
def test_proxy_gets_its_port(proxy: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where none is written, libcurl, git and Go mean different ones."""
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert source_proxy("https://k8s.example/x") == expected


@pytest.mark.parametrize("proxy", ["http://fd00::1:3128", "proxy:99999", "http://", "http://[x]:1"])
def test_unusable_proxy_of_a_source_names_its_variable(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless NO_PROXY says that it is not used."""
    monkeypatch.setenv("https_proxy", proxy)
    monkeypatch.delenv("HTTPS_PROXY", raising=False)
    monkeypatch.setenv("NO_PROXY", "direct.example")
    with pytest.raises(InputError, match="the proxy in https_proxy cannot be used"):
        source_proxy("https://k8s.example/x")
    assert source_proxy("https://direct.example/x") == ""


def test_zone_means_nothing_to_a_proxy(tmp_path: Path) -> None:
    cluster = {"server": "https://[fe80::1%25eth0]:6443"}
    _kubeconfig(tmp_path, cluster)
    with pytest.raises(AccessError, match=r"through a proxy.*zone"):
        _kubeconfig(tmp_path, {**cluster, "proxy-url": "http://proxy:3128"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Inner.Example.", "inner.example"),
        ("fd00::1", "fd00::1"),
        ("[FD00::1]", "fd00::1"),
        ("10.0.0.1", "10.0.0.1"),
        *((one, None) for one in ("h:443", "a b", "u@h", "h/x", "h?", "bücher", "*.a")),
    ],
)
def test_name_of_a_certificate_is_a_host(name: str, expected: str | None, tmp_path: Path) -> None:
    """Without a port; libcurl would refuse the rest as a URL of ours."""
    path = tmp_path / "config"
    cluster = {"server": "https://h", "tls-server-name": name}
    contexts = [{"name": "a", "context": {"cluster": "a"}}]
    clusters = [{"name": "a", "cluster": cluster}]
    path.write_text(
        json.dumps({"current-context": "a", "contexts": contexts, "clusters": clusters})
    )
    if expected is None:
        with pytest.raises(AccessError, match="no usable tls-server-name"):
            cluster_access(kubeconfig=str(path), environ={})
    else:
        assert cluster_access(kubeconfig=str(path), environ={}).trust.server_name == expected
