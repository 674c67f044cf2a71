"""A network without an IPv4 address: the server, a proxy, each source and the watches."""

from __future__ import annotations

import ipaddress
import json
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trustme

from applyprune.addresses import AddressRules
from applyprune.cluster.access import ClusterAccess, cluster_access, pod_access
from applyprune.cluster.messages import ApiRequest
from applyprune.cluster.transport import Transport
from applyprune.errors import Unreachable
from applyprune.sources.address import GitRef, GitSource, OciRef
from applyprune.sources.oci_artifact import FLUX_LAYER, OciSource, fetch_artifact
from applyprune.sources.tree import FetchFailed, SourceCredentials
from tests.support.archives import packed
from tests.support.artifacts import described, manifest_of
from tests.support.command import Ended, applyprune
from tests.support.git_servers import git_site
from tests.support.git_servers.reads import fetch_git
from tests.support.ipv6_only import LINK_LOCAL, POD, PROXY, Ipv6Network, ipv6_network, to_port
from tests.support.listening import tunnel
from tests.support.second_server import SecondServer
from tests.support.source_text import config_map
from tests.support.tls_site import Answer, Call, site

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.localplane import Binaries, Plane
    from tests.support.api import Api

NAME = "k8s.example"
MAP = config_map("a")
ZONED = f"[{LINK_LOCAL}%25lo]"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A real API server behind addresses of the network, with a certificate for each of them."""

    network: Ipv6Network
    folder: Path
    token: str
    ca: str
    ports: dict[str, int]
    """The port by the address inside; that of the server itself by an empty text."""

    def kubeconfig(self, server: str, **cluster: str) -> Path:
        """Return a kubeconfig that names this server."""
        path = self.folder / "kubeconfig"
        entry = {"server": server, "certificate-authority": str(self.folder / "ca.crt"), **cluster}
        facts = {
            "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{"name": "a", "cluster": entry}],
            "users": [{"name": "a", "user": {"token": self.token}}],
        }
        path.write_text(json.dumps(facts))
        return path

    def run(self, *arguments: str | Path, kubeconfig: Path, **environ: str) -> Ended:
        """Return the result of a command inside the network."""
        call = partial(applyprune, *arguments, kubeconfig=kubeconfig, within=("env",), more=environ)
        return self.network.do(call)


@pytest.fixture(scope="module")
def network() -> Iterator[Ipv6Network]:
    """The network of this file."""
    with ipv6_network() as one:
        yield one


@pytest.fixture(scope="module")
def cluster(
    network: Ipv6Network, plane: Plane, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """The run's plane, by a server with another certificate."""
    folder = tmp_path_factory.mktemp("ipv6")
    certificate, key = certified(plane.folder / "pki", folder)
    pair = (f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}")
    with ExitStack() as stack:
        second = stack.enter_context(SecondServer(plane, binaries, *pair))
        passing = {
            address: stack.enter_context(network.passing(address, to_port(second.port)))
            for address in (POD, LINK_LOCAL, "::1")
        }
        ca = plane.ca_file.read_text()
        (folder / "ca.crt").write_text(ca)
        (folder / "token").write_text(plane.token)
        yield Cluster(network, folder, plane.token, ca, {**passing, "": second.port})


def certified(pki: Path, folder: Path) -> tuple[Path, Path]:
    """Return the files of a certificate of the plane's authority for all these hosts."""
    authority = trustme.CA.from_pem(*((pki / f"ca.{end}").read_bytes() for end in ("crt", "key")))
    made = authority.issue_cert(NAME, "localhost", POD, LINK_LOCAL, "::1", "127.0.0.1")
    files = folder / "server.crt", folder / "server.key"
    files[0].write_bytes(made.cert_chain_pems[0].bytes())
    files[1].write_bytes(made.private_key_pem.bytes())
    return files


def version(access: ClusterAccess) -> int:
    transport = Transport(access, retry_budget=0.0)
    try:
        return transport.send(ApiRequest("GET", "/version", timeout=20.0)).status
    finally:
        transport.close()


def answer(cluster: Cluster, server: str, proxy: str = "", **more: str) -> int:
    """Return the status of a request inside the network, by a kubeconfig with this server."""
    path = cluster.kubeconfig(server, **more)
    access = cluster_access(kubeconfig=str(path), environ={"HTTPS_PROXY": proxy})
    return cluster.network.do(partial(version, access))


# The server.


@pytest.mark.parametrize(
    ("address", "host", "more"),
    [
        (POD, "[FD00:1:0:0::10]", {}),
        (POD, f"[{POD}]", {"tls-server-name": NAME}),
        (LINK_LOCAL, ZONED, {}),
    ],
)
def test_server_is_reached(cluster: Cluster, address: str, host: str, more: dict[str, str]) -> None:
    """Its certificate is compared with the address, without brackets and zone."""
    assert answer(cluster, f"https://{host}:{cluster.ports[address]}", **more) == 200


@pytest.mark.parametrize(
    ("at", "found"),
    [
        (POD, [("10.0.0.1", 0), ("fd00:2::1", 0, 0, 0), (POD, 0, 0, 0)]),
        (LINK_LOCAL, [("10.0.0.1", 0), (LINK_LOCAL, 0, 0, 1)]),
    ],
)
def test_name_leads_to_its_address(
    cluster: Cluster, at: str, found: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the one that can be reached, of several that a resolver has found."""
    asked: list[object] = []

    def resolved(name: object, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(name)
        return [(0, 0, 0, "", address) for address in found]

    monkeypatch.setattr("socket.getaddrinfo", resolved)
    assert answer(cluster, f"https://{NAME.upper()}:{cluster.ports[at]}") == 200
    assert asked == [NAME]


def test_pod_reaches_the_server(cluster: Cluster) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": POD, "KUBERNETES_SERVICE_PORT": str(cluster.ports[POD])}
    access = pod_access(environ, cluster.folder)
    assert access is not None
    assert cluster.network.do(partial(version, access)) == 200


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("[fd00:2::1]", "cannot be reached: Network is unreachable"),
        (f"[{LINK_LOCAL}]", "a link-local address needs its network interface"),
    ],
)
def test_address_without_a_way_is_no_broken_connection(
    cluster: Cluster, host: str, why: str
) -> None:
    with pytest.raises(Unreachable, match=why) as caught:
        answer(cluster, f"https://{host}:6443")
    assert "reachable" in caught.value.hint


def test_set_is_applied_and_waited_for(
    cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    """Discovery, the dry run, the apply, the watch of the wait, and the prune."""
    folder = tmp_path / "set"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.yaml").write_text(config_map(name))
    path = cluster.kubeconfig(f"https://[{POD}]:{cluster.ports[POD]}")
    call = ("apply", namespace, "-n", namespace, "-f", folder, "--wait", "--yes")
    ended = cluster.run(*call, kubeconfig=path)
    assert (ended.code, ended.err) == (0, "")
    (folder / "b.yaml").unlink()
    ended = cluster.run(*call, kubeconfig=path)
    assert ended.code == 0, ended.err
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    assert [name for name in ("a", "b") if api.exists(f"{maps}/{name}")] == ["a"]


# The proxy.


@pytest.mark.parametrize(("host", "proxy_at"), [(NAME, PROXY), (f"[{POD}]", LINK_LOCAL)])
def test_proxy_leads_to_the_server(cluster: Cluster, host: str, proxy_at: str) -> None:
    """Nobody inside can resolve the name, and nobody listens at that port of the address."""
    with cluster.network.passing(proxy_at, tunnel(f"127.0.0.1:{cluster.ports['']}")) as port:
        zone = "%25lo" if proxy_at == LINK_LOCAL else ""
        proxy = f"http://u:pass@[{proxy_at}{zone}]:{port}"
        assert answer(cluster, f"https://{host}:6443", **{"proxy-url": proxy}) == 200
        assert answer(cluster, f"https://{host}:6443", proxy) == 200


# The sources.


ARTIFACT = packed({"a.yaml": MAP.encode()})
MANIFEST = json.dumps(manifest_of(described(ARTIFACT))).encode()


def served(call: Call) -> Answer:
    """Answer as a web server and as a registry."""
    path = call.path.partition("?")[0]
    if path.startswith("/v2/web/manifests/"):
        kind = json.loads(MANIFEST)["mediaType"]
        return Answer(200, MANIFEST, {"Content-Type": kind})
    layer = described(ARTIFACT, FLUX_LAYER)["digest"]
    blob = ARTIFACT if path.rpartition("/")[2] == layer else b"{}"
    return Answer(200, blob) if path.startswith("/v2/web/blobs/") else Answer(404, b"")


@dataclass(frozen=True, slots=True)
class Sources:
    """Servers of sources at an address of the network."""

    web: str
    """Its host and port."""
    git: str
    ca: bytes


@pytest.fixture(scope="module")
def sources(network: Ipv6Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sources]:
    """A web server that is a registry too, and a server of Git."""
    with (
        site(served, names=(POD,)) as web,
        git_site(tmp_path_factory.mktemp("git")) as git,
        network.passing(POD, to_port(int(web.host.rpartition(":")[2]))) as web_port,
        network.passing(POD, to_port(git.port)) as git_port,
    ):
        git.authority.issue_cert(POD).configure_cert(git.tls)
        git.repository().commit({"m/a.yaml": MAP})
        yield Sources(f"[{POD}]:{web_port}", f"[{POD}]:{git_port}", web.ca + git.ca)


def read_git(sources: Sources, rules: AddressRules, folder: Path) -> object:
    credentials = SourceCredentials(ca=sources.ca)
    source = GitSource(
        f"https://{sources.git}/web.git",
        GitRef(branch="main"),
        credentials=credentials,
        addresses=rules,
    )
    return fetch_git(source, "m", folder / "store").files


def read_artifact(sources: Sources, rules: AddressRules, _folder: Path) -> object:
    credentials = SourceCredentials(ca=sources.ca)
    source = OciSource(
        f"oci://{sources.web}/web", OciRef(tag="1"), credentials=credentials, addresses=rules
    )
    return fetch_artifact(source).files


@pytest.mark.parametrize("read", [read_git, read_artifact])
def test_source_of_a_bundle_is_read(
    network: Ipv6Network,
    sources: Sources,
    tmp_path: Path,
    read: Callable[[Sources, AddressRules, Path], object],
) -> None:
    """A unique local address is private, as 10.0.0.0/8; a denied one is refused."""
    assert network.do(lambda: read(sources, AddressRules(), tmp_path))
    denied = AddressRules(denied=(ipaddress.ip_network("fd00::/8"),))
    with pytest.raises(FetchFailed, match="an address of a denied network"):
        network.do(lambda: read(sources, denied, tmp_path))


# The watches.
