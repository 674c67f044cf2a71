"""Start the cluster, run a command beside it: ``python -m tests.node.cluster COMMAND… FOLDER``.

It runs in namespaces of its own (`isolation`): all that it starts is gone when it has ended.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import os
import secrets
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from applyprune.localplane import PlaneSpec, progress_on
from applyprune.localplane.build import ensure_built
from applyprune.localplane.plane import (
    ETCD_SOCKET,
    Layout,
    api_server,
    certificate_user,
    controllers,
    etcd,
    kubeconfig,
)
from applyprune.localplane.supervisor import ServerProbe
from tests.components import ensure_components
from tests.node.images import PAUSE, WITH_GPG, ensure_images
from tests.node.isolation import CGROUPS
from tests.node.programs import ensure_node_programs
from tests.support.linux import enter_network
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.localplane import Binaries
    from tests.node.programs import NodePrograms

FOLDER_VARIABLE = "APPLYPRUNE_NODE"
"""The folder of the run, for the tests."""
ADDRESS = "10.200.0.1"
"""The address of the API server, and of what tests serve; node-1 has it too."""
SERVER = f"https://{ADDRESS}:6443"
SERVICE = "10.96.0.1"
SERVICES = "10.96.0.0/12"
DNS = "10.96.0.10"
"""Nobody answers there: stories name addresses."""
NODES = (1, 2)
BRIDGE = "node0"
_CAP_SYS_RESOURCE = 24


def main(arguments: Sequence[str]) -> int:
    """Return the exit code of the command."""
    *command, name = arguments
    folder = Path(name)
    progress = progress_on(sys.stderr)
    binaries, programs = ensure_built(progress), ensure_node_programs(progress)
    images = ensure_images(programs, folder, progress)
    # The servers of stories: they cannot be built without a network.
    ensure_components(progress)
    enter_network()
    cluster = Cluster(folder, binaries, programs)
    progress.step("starting the control plane and two nodes")
    cluster.start(images)
    progress.step(f"ready; its logs are in {folder}")
    environment = {
        **os.environ,
        FOLDER_VARIABLE: str(folder),
        "KUBECONFIG": str(cluster.layout.kubeconfig),
        "PATH": f"{binaries.kubectl.parent}:{os.environ['PATH']}",
    }
    code = subprocess.run(command, env=environment, check=False).returncode
    if code != 0 and (kept := os.environ.get("APPLYPRUNE_NODE_LOGS")):
        for log in folder.rglob("*.log"):
            shutil.copy(log, kept)
    return code


class Cluster:
    """The processes of a cluster, in a network that only they have."""

    def __init__(self, folder: Path, binaries: Binaries, programs: NodePrograms) -> None:
        self._folder = folder
        self._binaries = binaries
        self._programs = programs
        self.layout = Layout(folder)
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, images: Mapping[str, Path]) -> None:
        """Return when all nodes are ready and have the images."""
        _make_network()
        self._start_plane()
        for number in NODES:
            self._start_runtime(number)
        import_images([path for name, path in images.items() if name != WITH_GPG])
        for number in NODES:
            self._start_kubelet(number)
        self._start_proxy()
        self._await(lambda: self._probe.ready_nodes(untainted=True) == len(NODES), "the nodes")

    # -- the control plane: that of applyprune, at an address that Pods reach

    def _start_plane(self) -> None:
        layout, program = self.layout, self._binaries.program
        layout.pki.mkdir()
        subprocess.run([program, "pki", layout.pki], check=True)
        token = secrets.token_urlsafe(32)
        layout.tokens.write_text(f'{token},admin,admin,"system:masters"\n')
        names = ["localhost", "kubernetes.default.svc"]
        self._certify("server", "kube-apiserver", names=[*names, "127.0.0.1", ADDRESS, SERVICE])
        for identity in ("kube-controller-manager", "kube-scheduler"):
            self._write_kubeconfig(layout.component_kubeconfig(identity), identity)
        self._write_kubeconfig(layout.kubeconfig, "admin")
        store = etcd(layout)
        self._launch(store.name, program, store.name, *store.arguments)
        self._await((layout.folder / ETCD_SOCKET).exists, "etcd")
        arguments = [*api_server(layout, 6443, audit=False).arguments]
        # Pods get tokens of their accounts.
        arguments.remove("--disable-admission-plugins=ServiceAccount")
        arguments.remove("--endpoint-reconciler-type=none")
        arguments += [
            "--enable-admission-plugins=NodeRestriction",
            "--bind-address=0.0.0.0",
            f"--advertise-address={ADDRESS}",
            f"--kubelet-client-certificate={layout.certificate('admin')}",
            f"--kubelet-client-key={layout.key('admin')}",
            "--kubelet-preferred-address-types=InternalIP",
        ]
        self._launch("kube-apiserver", program, "kube-apiserver", *arguments)
        self._probe = ServerProbe(SERVER, layout.certificate("ca"), token)
        self._await(self._probe.is_ready, "the API server")
        for component in controllers(layout, PlaneSpec(kwok=False)):
            self._launch(component.name, program, component.name, *component.arguments)
        self._await(self._probe.has_default_account, "the controller manager")

    def _certify(
        self, identity: str, user: str, *, groups: Sequence[str] = (), names: Sequence[str] = ()
    ) -> None:
        """Write a certificate of the plane's authority: of a server with names, else of a user."""
        pki = self.layout
        authority = x509.load_pem_x509_certificate(pki.certificate("ca").read_bytes())
        signer = serialization.load_pem_private_key(pki.key("ca").read_bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        subject = [x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, one) for one in groups]
        subject.append(x509.NameAttribute(x509.NameOID.COMMON_NAME, user))
        usage = x509.oid.ExtendedKeyUsageOID
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name(subject))
            .issuer_name(authority.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(authority.not_valid_before_utc)
            .not_valid_after(authority.not_valid_before_utc + dt.timedelta(days=300))
            .add_extension(
                x509.ExtendedKeyUsage([usage.SERVER_AUTH if names else usage.CLIENT_AUTH]),
                critical=False,
            )
        )
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False
            )
        signed = builder.sign(signer, hashes.SHA256())
        pki.certificate(identity).write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        pki.key(identity).write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )

    def _write_kubeconfig(self, path: Path, identity: str) -> None:
        users = {identity: certificate_user(self.layout, identity)}
        path.write_text(kubeconfig("node", SERVER, self.layout, users))

    # -- a node: containerd, kubelet, a network of Pods, cgroups

    def _start_runtime(self, number: int) -> None:
        folder = self._folder / f"node-{number}"
        (folder / "cni").mkdir(parents=True)
        _socket(number).parent.mkdir(parents=True)
        (folder / "cni/pods.conflist").write_text(json.dumps(_pod_network(number, folder)))
        (folder / "containerd.toml").write_text(_runtime_configuration(number, folder))
        self._launch(f"containerd-{number}", "containerd", "--config", folder / "containerd.toml")
        version = ("ctr", "--address", _socket(number), "version")
        self._await(lambda: _succeeds(version), f"containerd of node-{number}")

    def _start_kubelet(self, number: int) -> None:
        name, folder = f"node-{number}", self._folder / f"node-{number}"
        cgroup = f"{self._folder.name}-{number}"
        _make_cgroup(cgroup)
        self._certify(name, f"system:node:{name}", groups=["system:nodes"])
        self._write_kubeconfig(folder / "kubeconfig", name)
        (folder / "resolv.conf").touch()
        configuration = _kubelet_configuration(number, folder, cgroup, self.layout)
        (folder / "kubelet.json").write_text(json.dumps(configuration))
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number}"}
        self._launch(
            f"kubelet-{number}",
            self._programs.kubelet,
            f"--config={folder / 'kubelet.json'}",
            f"--kubeconfig={folder / 'kubeconfig'}",
            f"--root-dir={folder / 'kubelet'}",
            f"--hostname-override={name}",
            f"--node-ip={_address(number)}",
            f"--node-labels={','.join(f'{key}={value}' for key, value in labels.items())}",
        )

    def _start_proxy(self) -> None:
        self._launch(
            "kube-proxy",
            self._programs.kube_proxy,
            f"--kubeconfig={self.layout.kubeconfig}",
            "--proxy-mode=iptables",
            "--hostname-override=node-1",
            "--cluster-cidr=10.192.0.0/11",
            # What belongs to the whole kernel stays as it is.
            "--conntrack-max-per-core=0",
            "--conntrack-min=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        )

    # -- processes

    def _launch(self, name: str, *command: str | Path) -> None:
        with self.layout.log(name).open("ab") as log:
            self._started[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                start_new_session=True,
            )

    def _await(self, found: Any, told: str) -> None:
        def found_or_failed() -> Any:
            for name, process in self._started.items():
                if process.poll() is not None:
                    tail = self.layout.log(name).read_text(errors="replace")[-3000:]
                    raise RuntimeError(f"{name} ended with {process.returncode}:\n{tail}")
            return found()

        eventually(found_or_failed, lambda: told)


def import_images(archives: Sequence[Path]) -> None:
    """Give images to all nodes, at once: each unpacks half a gigabyte."""
    started = []
    for number in NODES:
        command = ("ctr", "--address", _socket(number), "--namespace", "k8s.io", "images", "import")
        script = " && ".join(f"{' '.join(map(str, command))} {one} >/dev/null" for one in archives)
        started.append(subprocess.Popen(["sh", "-c", script]))
    for one in started:
        assert one.wait() == 0, "an image cannot be imported"


def _succeeds(command: Sequence[str | Path]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _alternative(name: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(name))
    return x509.DNSName(name)


def _make_network() -> None:
    """Give this network namespace a bridge with an address for each node."""
    for command in (
        "link set lo up",
        f"link add {BRIDGE} type bridge",
        f"link set {BRIDGE} up",
        *(f"addr add {_address(number)}/24 dev {BRIDGE}" for number in NODES),
        # Where a node would have its default route: kube-proxy gives the packets another address.
        f"route add {SERVICES} dev {BRIDGE}",
    ):
        subprocess.run(["ip", *command.split()], check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    # Without it, a Pod that reaches itself by a Service gets no answer; not every kernel has it.
    with suppress(OSError):
        Path("/proc/sys/net/bridge/bridge-nf-call-iptables").write_text("1")


def _address(number: int) -> str:
    return f"10.200.0.{number}"


def _socket(number: int) -> Path:
    return Path(f"/run/node-{number}/containerd.sock")


def _pod_network(number: int, folder: Path) -> Mapping[str, Any]:
    ipam = {
        "type": "host-local",
        "dataDir": str(folder / "addresses"),
        "ranges": [[{"subnet": f"10.20{number}.0.0/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": f"pods{number}",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": ipam,
    }
    return {
        "cniVersion": "0.4.0",
        "name": f"pods{number}",
        "plugins": [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}],
    }


def _runtime_configuration(number: int, folder: Path) -> str:
    # Without this right, root cannot make a container safer from the kernel than itself.
    restricted = "false" if _has_capability(_CAP_SYS_RESOURCE) else "true"
    return f"""\
version = 2
root = "{folder / "containerd"}"
state = "/run/node-{number}/state"
[grpc]
  address = "{_socket(number)}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = {restricted}
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{folder / "cni"}"
"""


def _has_capability(number: int) -> bool:
    status = Path("/proc/self/status").read_text()
    effective = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(effective.split()[1], 16) >> number & 1)


def _make_cgroup(name: str) -> None:
    """Make the cgroup in which the Pods of a node are: one, or one for each controller in v1."""
    if (CGROUPS / "cgroup.controllers").exists():
        enabled = " ".join(f"+{one}" for one in _controllers(CGROUPS))
        (CGROUPS / "cgroup.subtree_control").write_text(enabled)
        (CGROUPS / name).mkdir()
        return
    for hierarchy in CGROUPS.iterdir():
        if hierarchy.is_symlink() or not (hierarchy / "cgroup.procs").exists():
            continue
        (hierarchy / name).mkdir()
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / file).exists():
                (hierarchy / name / file).write_text((hierarchy / file).read_text())


def _controllers(cgroup: Path) -> Sequence[str]:
    return (cgroup / "cgroup.controllers").read_text().split()


def _kubelet_configuration(
    number: int, folder: Path, cgroup: str, layout: Layout
) -> Mapping[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "failSwapOn": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "containerRuntimeEndpoint": f"unix://{_socket(number)}",
        "address": _address(number),
        "healthzPort": 10350 + number,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.certificate("ca"))},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [DNS],
        "clusterDomain": "cluster.local",
        "resolvConf": str(folder / "resolv.conf"),
        "podLogsDir": str(folder / "pods"),
        "volumePluginDir": str(folder / "plugins"),
        "nodeStatusUpdateFrequency": "5s",
        # A disk that others have filled evicts no Pod of a story.
        "evictionHard": {"memory.available": "200Mi", "nodefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
