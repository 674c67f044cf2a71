"""The command line of each component: which flags, and why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from applyprune.localplane.layout import Layout
    from applyprune.localplane.spec import PlaneSpec

# etcd listens on sockets in the plane's folder. A port would let every user of the machine past the
# API server, and could be lost in a race. The paths are relative to the components' working folder,
# since on macOS none may exceed 104 characters; etcd insists on something like "host:port".
ETCD_SOCKET = "etcd-clients:0"
ETCD_CLIENTS = f"unix://{ETCD_SOCKET}"
ETCD_PEERS = "unix://etcd-peers:0"

# Clients of a plane are tests and people who wait: nothing here need spare the server.
QUICK = ("--kube-api-qps=500", "--kube-api-burst=1000")


@dataclass(frozen=True, slots=True)
class Component:
    """A component's name, which is also its log's, and its arguments."""

    name: str
    arguments: tuple[str, ...]


def etcd(layout: Layout) -> Component:
    """Return the store; its data is as disposable as the plane."""
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
            # Half of the time of a write, for a promise (data after a power cut) that nobody needs.
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
        # By default that of the route to the world, which a machine need not have.
        "--advertise-address=127.0.0.1",
        "--external-hostname=127.0.0.1",
        f"--secure-port={port}",
        # The supervisor keeps the port bound, so that no one else is given it in the meantime.
        "--permit-port-sharing",
        f"--tls-cert-file={layout.certificate('server')}",
        f"--tls-private-key-file={layout.key('server')}",
        f"--client-ca-file={layout.certificate('ca')}",
        f"--token-auth-file={layout.tokens}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged",
        # It would hold back every pod until the namespace has its "default" service account.
        "--disable-admission-plugins=ServiceAccount",
        # 127.0.0.1 is no address that Endpoints may hold.
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
            # A request ends when its line is written: who has the reply can read the line.
            "--audit-log-mode=blocking",
            # Megabytes; the default rotates at 100, and a reader would lose what it has not read.
            "--audit-log-maxsize=100000",
        ]
    return Component("kube-apiserver", tuple(arguments))


def controllers(layout: Layout, spec: PlaneSpec) -> tuple[Component, ...]:
    """Return what the spec asks for of the components that need a ready API server."""
    asked_for = []
    if spec.controller_manager:
        asked_for.append(_controller_manager(layout))
    if spec.scheduler:
        asked_for.append(_scheduler(layout))
    if spec.kwok:
        asked_for.append(_kwok(layout))
    return tuple(asked_for)


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
            # Without leases the controller manager takes a node for dead after 40 seconds.
            "--node-lease-duration-seconds=40",
            "--cidr=10.244.0.1/16",
            "--node-ip=127.0.0.1",
        ),
    )


def audit_policy() -> str:
    """Return the audit policy: who did what, and for deletes and ConfigMaps also with which body.

    A policy's ``resourceNames`` knows no wildcard, so it is all ConfigMaps, not only inventories.
    """
    policy = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        # One event for a request: that of its end.
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
    """Return the Node object that kwok brings to life, counted from 0."""
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
    }
