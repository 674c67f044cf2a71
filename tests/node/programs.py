"""What a node is made of: programs of Debian's packages, and kubelet and kube-proxy from Go."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from applyprune.localplane.build import GoModule, built, kubernetes_version, source_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.localplane.cache import Progress

PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "/usr/lib/cni/portmap": "containernetworking-plugins",
    "iptables": "iptables",
    "ip": "iproute2",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "unshare": "util-linux",
    "setpriv": "util-linux",
    "git": "git",
    "ssh-keygen": "openssh-client",
    "gpg": "gpg",
}
"""The package of Debian that has each program."""

NODE = GoModule(
    folder=Path(__file__).parent / "gomodule",
    cache="node",
    name="kubelet and kube-proxy",
    duration="about 5 minutes on 2 cores",
    programs=("kubelet", "kube-proxy", "pause", "workload"),
    version=f"Kubernetes {kubernetes_version()}",
    linker_flags=source_of().linker_flags,
)


class NodePrograms(Struct, frozen=True):
    kubelet: Path
    kube_proxy: Path
    pause: Path
    """Holds the namespaces of a Pod."""
    workload: Path
    """What the Pods of the stories run."""


def missing(path: str | None = None, packages: Mapping[str, str] = PACKAGES) -> str:
    """Return why this machine cannot run a node, and what to do; empty if it can."""
    if platform.system() != "Linux":
        return f"It takes Linux: this is {platform.system()}."
    if os.geteuid() != 0:
        return "It takes root: containers need mounts, namespaces and cgroups."
    absent = [name for name in packages if shutil.which(name, path=path) is None]
    if absent:
        debian = " ".join(dict.fromkeys(packages[name] for name in absent))
        return f"It takes {', '.join(absent)}: apt-get install {debian}"
    if not Path("/sys/fs/cgroup").is_mount():
        return "It takes cgroups, and none are mounted at /sys/fs/cgroup."
    return ""


def ensure_node_programs(progress: Progress) -> NodePrograms:
    """Return the programs; build them if they are not cached.

    Raises AccessError if there is no Go, or if the build fails.
    """
    folder = built(NODE, progress)
    return NodePrograms(*(folder / name for name in NODE.programs))
