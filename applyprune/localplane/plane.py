"""A plane: a control plane in one folder, its parts, its state and the kubeconfig of its user."""

from __future__ import annotations

import base64
import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from applyprune.values import hiding

if TYPE_CHECKING:
    from collections.abc import Mapping


class PlaneSpec(Struct, frozen=True):
    """The components beside etcd and the API server; a plane with fewer components starts faster.

    Pods need the controller manager, the scheduler and kwok to run.
    """

    controller_manager: bool = True
    """Without it, namespaces are never removed and nothing is garbage-collected."""
    scheduler: bool = True
    kwok: bool = True
    nodes: int = 1
    """The number of nodes that kwok simulates."""
    audit: bool = False
    """Whether the API server writes an audit log."""


FULL = PlaneSpec(audit=True)
API_SERVER_ONLY = PlaneSpec(controller_manager=False, scheduler=False, kwok=False, nodes=0)


class Plane(Struct, frozen=True):
    """The address of a plane's API server, and the admin credentials for it."""

    name: str
    folder: Path
    server: str
    """The URL of the API server."""
    ca_file: Path
    token: str
    """The bearer token of an admin."""
    client_cert_file: Path
    """The client certificate of an admin."""
    client_key_file: Path
    kubeconfig: Path
    """A kubeconfig with the contexts NAME (token) and NAME-cert (client certificate)."""
    kubectl: Path
    """kubectl of the server's version."""
    audit_log: Path | None
    """The audit log; None if the plane was started without it."""
    supervisor_pid: int

    __repr__ = hiding("token")


def plane_in(folder: Path, state: PlaneState) -> Plane:
    layout = Layout(folder)
    return Plane(
        name=state.name,
        folder=folder,
        server=state.server,
        ca_file=layout.certificate("ca"),
        token=layout.tokens.read_text().partition(",")[0],
        client_cert_file=layout.certificate("admin"),
        client_key_file=layout.key("admin"),
        kubeconfig=layout.kubeconfig,
        kubectl=Path(state.kubectl),
        audit_log=layout.audit_log if state.audit else None,
        supervisor_pid=state.pid,
    )


# The state file: the phase of a plane, for processes that did not start it.


class PlanePhase(StrEnum):
    """The phase of a plane; STARTING and READY are valid only while the supervisor lives."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


class PlaneState(Struct, frozen=True):
    name: str
    phase: PlanePhase
    pid: int
    """The process id of the supervisor."""
    started: float
    """The start time, in seconds since the epoch."""
    program: str
    """The control plane that the plane was started with."""
    kubectl: str
    """The kubectl that the plane was started with."""
    nodes: int
    """The number of nodes."""
    server: str = ""
    """The URL of the API server; empty until it is known."""
    reason: str = ""
    """Why the plane failed; empty otherwise."""
    audit: bool = False
    """Whether the API server writes an audit log."""


def read_state(path: Path) -> PlaneState | None:
    """Return the state, or None if the file is missing or has another version."""
    try:
        facts = json.loads(path.read_text())
        return PlaneState(**facts | {"phase": PlanePhase(facts["phase"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_state(path: Path, state: PlaneState) -> None:
    """Replace the file atomically, so that no reader sees an incomplete file."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(state), indent=1))
    new.replace(path)


# The files in a plane's folder.


class Layout(Struct, frozen=True):
    """The files of one plane; the supervisor owns all of them except the lock."""

    folder: Path

    @property
    def lock(self) -> Path:
        """Return the file that is locked as long as any process of the plane lives."""
        return self.folder / "lock"

    @property
    def supervisor_lock(self) -> Path:
        """Return the file that is locked as long as the supervisor lives."""
        return self.folder / "supervisor.lock"

    @property
    def state(self) -> Path:
        """Return the file with the phase of the plane and the address of its server."""
        return self.folder / "state.json"

    @property
    def kubeconfig(self) -> Path:
        """Return the user's kubeconfig, with a context for each of the two admin credentials."""
        return self.folder / "kubeconfig"

    @property
    def pki(self) -> Path:
        """Return the folder of certificates and keys, written by ``controlplane pki``."""
        return self.folder / "pki"

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.csv"

    @property
    def audit_policy(self) -> Path:
        return self.folder / "audit-policy.json"

    @property
    def audit_log(self) -> Path:
        """Return the audit log, one JSON event per line; it exists only if the spec enables it."""
        return self.folder / "audit.log"

    @property
    def stages(self) -> Path:
        """Return the configuration of kwok's stages for nodes and pods."""
        return self.folder / "kwok-stages.yaml"

    def certificate(self, name: str) -> Path:
        """Return the PEM file with the certificate of an identity."""
        return self.pki / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Return the PEM file with the private key of an identity."""
        return self.pki / f"{name}.key"

    def component_kubeconfig(self, component: str) -> Path:
        return self.folder / f"{component}.kubeconfig"

    def log(self, component: str) -> Path:
        return self.folder / f"{component}.log"


# The command line of each component: its flags, and the reason for each flag.


# etcd listens on sockets in the plane's folder. With a port, every user of the machine could bypass
# the API server, and another process could take the port first. The paths are relative to the
# components' working folder: macOS limits them to 104 characters. etcd requires the form
# "host:port".
ETCD_SOCKET = "etcd-clients:0"
ETCD_CLIENTS = f"unix://{ETCD_SOCKET}"
ETCD_PEERS = "unix://etcd-peers:0"
# The clients of a plane are tests and waiting users: there is no need to limit the load.
QUICK = ("--kube-api-qps=500", "--kube-api-burst=1000")
# What a node offers: every resource that published manifests request. The first three are those
# that kwok would choose. kwok keeps what a Node has, so no new program is needed for these.
NODE_RESOURCES = {
    "cpu": "1k",
    "memory": "1Ti",
    "pods": "1M",
    "ephemeral-storage": "1Ti",
    "hugepages-1Gi": "1Ti",
    "hugepages-2Mi": "1Ti",
    "amd.com/gpu": "1k",
    "gpu.intel.com/i915": "1k",
    "nvidia.com/gpu": "1k",
}


class Component(Struct, frozen=True):
    name: str
    """The name of the component and of its log."""
    arguments: tuple[str, ...]


def etcd(layout: Layout) -> Component:
    """Return etcd; its data is as disposable as the plane."""
    return Component(
        "etcd",
        (
            "--name=default",
            f"--data-dir={layout.folder / 'etcd'}",
            f"--listen-client-urls={ETCD_CLIENTS}",
            f"--advertise-client-urls={ETCD_CLIENTS}",
            f"--listen-peer-urls={ETCD_PEERS}",
            f"--initial-advertise-peer-urls={ETCD_PEERS}",
            f"--initial-cluster=default={ETCD_PEERS}",
            # fsync takes half of the time of a write, to survive a power cut: not needed here.
            "--unsafe-no-fsync",
            "--quota-backend-bytes=8589934592",
            "--log-level=warn",
        ),
    )


def api_server(layout: Layout, port: int, *, audit: bool) -> Component:
    """Return the API server on 127.0.0.1:``port``."""
    arguments = [
        f"--etcd-servers={ETCD_CLIENTS}",
        "--bind-address=127.0.0.1",
        # The default is the address of the default route, which a machine may not have.
        "--advertise-address=127.0.0.1",
        "--external-hostname=127.0.0.1",
        f"--secure-port={port}",
        # The supervisor keeps the port bound, so that no other process can get it in between.
        "--permit-port-sharing",
        f"--tls-cert-file={layout.certificate('server')}",
        f"--tls-private-key-file={layout.key('server')}",
        f"--client-ca-file={layout.certificate('ca')}",
        f"--token-auth-file={layout.tokens}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged",
        # It would reject every pod until the namespace has its "default" service account.
        "--disable-admission-plugins=ServiceAccount",
        # Endpoints must not contain 127.0.0.1.
        "--endpoint-reconciler-type=none",
        "--service-cluster-ip-range=10.96.0.0/12",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.pki / 'service-accounts.pub'}",
        f"--service-account-signing-key-file={layout.key('service-accounts')}",
        f"--requestheader-client-ca-file={layout.certificate('front-proxy-ca')}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={layout.certificate('front-proxy-client')}",
        f"--proxy-client-key-file={layout.key('front-proxy-client')}",
    ]
    if audit:
        arguments += [
            f"--audit-policy-file={layout.audit_policy}",
            f"--audit-log-path={layout.audit_log}",
            # A request ends after its line is written: after the response, the line can be read.
            "--audit-log-mode=blocking",
            # In megabytes. The default rotates at 100: a reader would lose unread events.
            "--audit-log-maxsize=100000",
        ]
    return Component("kube-apiserver", tuple(arguments))


def controllers(layout: Layout, spec: PlaneSpec) -> tuple[Component, ...]:
    """Return the components of the spec that need a ready API server."""
    components = []
    if spec.controller_manager:
        components.append(_controller_manager(layout))
    if spec.scheduler:
        components.append(_scheduler(layout))
    if spec.kwok:
        components.append(_kwok(layout))
    return tuple(components)


def _controller_manager(layout: Layout) -> Component:
    name = "kube-controller-manager"
    return Component(
        name,
        (
            f"--kubeconfig={layout.component_kubeconfig(name)}",
            "--leader-elect=false",
            "--secure-port=0",
            "--use-service-account-credentials",
            f"--service-account-private-key-file={layout.key('service-accounts')}",
            f"--root-ca-file={layout.certificate('ca')}",
            f"--cluster-signing-cert-file={layout.certificate('ca')}",
            f"--cluster-signing-key-file={layout.key('ca')}",
            # The default is 15 s: a claim whose volume comes later would wait that long.
            "--pvclaimbinder-sync-period=1s",
            # As long would an autoscaler need to see its target.
            "--horizontal-pod-autoscaler-sync-period=1s",
            *QUICK,
        ),
    )


def _scheduler(layout: Layout) -> Component:
    name = "kube-scheduler"
    return Component(
        name,
        (
            f"--kubeconfig={layout.component_kubeconfig(name)}",
            "--leader-elect=false",
            "--secure-port=0",
            *QUICK,
        ),
    )


def _kwok(layout: Layout) -> Component:
    name = "kwok"
    return Component(
        name,
        (
            f"--kubeconfig={layout.component_kubeconfig(name)}",
            f"--config={layout.stages}",
            "--manage-all-nodes=true",
            # Without leases, the controller manager marks a node as dead after 40 seconds.
            "--node-lease-duration-seconds=40",
            "--cidr=10.244.0.1/16",
            "--node-ip=127.0.0.1",
        ),
    )


def audit_policy() -> str:
    """Return the audit policy: metadata for all requests, bodies for deletes and ConfigMaps.

    It logs all ConfigMaps, not only inventories: ``resourceNames`` supports no wildcard.
    """
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        # Write only the final event of each request.
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "RequestResponse", "verbs": ["delete", "deletecollection"]},
            {
                "level": "RequestResponse",
                "verbs": ["create", "update", "patch"],
                "resources": [{"group": "", "resources": ["configmaps"]}],
            },
            {"level": "Metadata"},
        ],
    }
    return json.dumps(policy, indent=1)


def node(number: int) -> dict[str, object]:
    """Return the Node that kwok simulates; ``number`` counts from 0."""
    name = f"node-{number}"
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node-role.kubernetes.io/agent": "",
        "type": "kwok",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": NODE_RESOURCES, "allocatable": NODE_RESOURCES},
    }


# Kubeconfig files that contain all credentials, so that they can be copied and merged.


def kubeconfig(
    name: str, server: str, layout: Layout, users: Mapping[str, Mapping[str, str]]
) -> str:
    """Return a kubeconfig, as JSON, with a context for each user; the first context is current."""
    authority = _data(layout.certificate("ca").read_bytes())
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {"server": server, "certificate-authority-data": authority},
            }
        ],
        "users": [{"name": user, "user": facts} for user, facts in users.items()],
        "contexts": [{"name": user, "context": {"cluster": name, "user": user}} for user in users],
        "current-context": next(iter(users)),
    }
    return json.dumps(config, indent=2) + "\n"


def certificate_user(layout: Layout, identity: str) -> dict[str, str]:
    return {
        "client-certificate-data": _data(layout.certificate(identity).read_bytes()),
        "client-key-data": _data(layout.key(identity).read_bytes()),
    }


def _data(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
