"""The command line of each component: its flags, and the reason for each flag."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.localplane.layout import Layout
    from applyprune.localplane.plane import PlaneSpec

# etcd listens on sockets in the plane's folder. With a port, every user of the machine could bypass
# the API server, and another process could take the port first. The paths are relative to the
# components' working folder: macOS limits them to 104 characters. etcd requires the form
# "host:port".
ETCD_SOCKET = "etcd-clients:0"
ETCD_CLIENTS = f"unix://{ETCD_SOCKET}"
ETCD_PEERS = "unix://etcd-peers:0"

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

# The clients of a plane are tests and waiting users: there is no need to limit the load.
QUICK = ("--kube-api-qps=500", "--kube-api-burst=1000")


@dataclass(frozen=True, slots=True)
class Component:
    """A component of the control plane."""

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
