"""Which proxy the environment asks for; the cases are those of golang.org/x/net/http/httpproxy."""

from __future__ import annotations

import pytest

from applyprune.addresses import proxy_for

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("server", "environ", "proxy"),
    [
        ("https://k8s.example", {}, ""),
        ("https://k8s.example", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://k8s.example", {"https_proxy": PROXY}, PROXY),
        ("https://k8s.example", {"HTTPS_PROXY": "proxy:3128"}, PROXY),
        ("https://k8s.example", {"HTTP_PROXY": PROXY}, ""),
        ("http://k8s.example", {"HTTP_PROXY": PROXY}, PROXY),
        ("http://k8s.example", {"HTTPS_PROXY": PROXY}, ""),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://127.9.9.9:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://localhost.:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://LocalHost:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://[::ffff:127.0.0.1]:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://[fd00::1]:6443", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://k8s.example", {"HTTPS_PROXY": "[fd00::1]:3128"}, "http://[fd00::1]:3128"),
    ],
)
def test_proxy_is_read_from_the_environment(
    server: str, environ: dict[str, str], proxy: str
) -> None:
    assert proxy_for(server, environ) == proxy


@pytest.mark.parametrize(
    ("no_proxy", "server", "direct"),
    [
        ("*", "https://k8s.example", True),
        ("example", "https://k8s.example", True),
        (".example", "https://k8s.example", True),
        ("*.example", "https://k8s.example", True),
        ("k8s.example", "https://k8s.example", True),
        ("K8S.Example", "https://k8s.example", True),
        (" other , k8s.example ", "https://k8s.example", True),
        (".k8s.example", "https://k8s.example", False),
        ("ample", "https://k8s.example", False),
        ("k8s.example:6443", "https://k8s.example:6443", True),
        ("k8s.example:443", "https://k8s.example", True),
        ("k8s.example:6443", "https://k8s.example", False),
        ("10.0.0.0/8", "https://10.1.2.3", True),
        ("10.0.0.0/8", "https://11.1.2.3", False),
        ("10.1.2.3", "https://10.1.2.3", True),
        ("10.1.2.3:6443", "https://10.1.2.3:6443", True),
        ("10.1.2.3:6443", "https://10.1.2.3:443", False),
        ("10.1", "https://10.1.2.3", False),
        ("fd00::/8", "https://[fd00::7]:6443", True),
        ("[fd00::7]:6443", "https://[fd00::7]:6443", True),
        ("fd00::7", "https://[fd00::7]:6443", True),
        ("[fd00::7]", "https://[fd00::7]:6443", True),
        ("[fd00::7]:6443", "https://[fd00::7]", False),
        ("fd00::7", "https://[fd00::8]:6443", False),
        ("FD00:0:0::7", "https://[fd00::7]:6443", True),
        ("fd00::/8", "https://10.1.2.3", False),
        ("10.0.0.0/8", "https://[fd00::7]", False),
        ("10.1.2.3", "https://[::ffff:10.1.2.3]", True),
        ("10.0.0.0/8", "https://[::ffff:10.1.2.3]", True),
        ("::ffff:10.0.0.0/104", "https://10.1.2.3", True),
        ("::ffff:10.0.0.0/104", "https://11.1.2.3", False),
        ("fe80::/10", "https://[fe80::1%25eth0]", True),
        ("fe80::1", "https://[fe80::1%25eth0]", True),
        ("fe80::1%eth0", "https://[fe80::1%25eth0]", True),
        ("[fe80::1%25eth0]:443", "https://[fe80::1%25eth0]", True),
        ("fe80::1%eth1", "https://[fe80::1%25eth0]", False),
        ("k8s.example", "https://K8S.example.", True),
        ("k8s.example.", "https://k8s.example", True),
        (".example", "https://k8s.example.", True),
        ("10.0.0.0/99", "https://10.1.2.3", False),
        (",,", "https://k8s.example", False),
    ],
)
def test_no_proxy_makes_exceptions(no_proxy: str, server: str, *, direct: bool) -> None:
    for variable in ("NO_PROXY", "no_proxy"):
        environ = {"HTTPS_PROXY": PROXY, variable: no_proxy}
        assert (proxy_for(server, environ) == "") is direct
