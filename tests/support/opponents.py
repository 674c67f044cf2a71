"""Who fights a Bundle about a field, as real processes; a test says when each begins and ends."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tests.support.objects import DEPLOYMENT, config_map

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Tenant

AUTOSCALING = "autoscaling/v2"


@dataclass(slots=True)
class Ring:
    """Where a fight takes place: a Bundle ``web`` of a tenant, and a folder for the opponent."""

    tenant: Tenant
    plane: Plane
    folder: Path


class Opponent(Protocol):
    """An opponent; ``place`` is its object and field as a message has them."""

    place: str
    ours: str
    theirs: str
    spec: dict[str, Any]
    """What the Bundle must say for a fight with it."""
    where: tuple[str, str, str]
    """The name, the plural and the group of the object."""

    def manager(self) -> str:
        """Return its name as a field manager."""

    def manifest(self) -> dict[str, Any]:
        """Return the manifest of the Bundle that it fights about."""

    def value(self) -> str:
        """Return the value of the field."""

    def begin(self) -> None:
        """Begin to fight."""

    def end(self) -> None:
        """Fight no more."""


@dataclass(slots=True)
class _AboutConfigMap:
    """What is the same in each fight about the value of the ConfigMap ``a``."""

    ring: Ring
    place: str = "configmap/a /data/key"
    ours: str = '"ours"'
    theirs: str = '"theirs"'
    spec: dict[str, Any] = field(default_factory=dict)
    where: tuple[str, str, str] = ("a", "configmaps", "")

    def manifest(self) -> dict[str, Any]:
        """Return a ConfigMap."""
        return config_map("a", "ours")

    def value(self) -> str:
        """Return the value of the ConfigMap."""
        return f'"{self.ring.tenant.value("a")}"'


@dataclass(slots=True)
class KubectlEdit(_AboutConfigMap):
    """Somebody who edits the object again and again by ``kubectl edit``."""

    _process: subprocess.Popen[bytes] | None = None

    def manager(self) -> str:
        """Return its name as a field manager."""
        return "kubectl-edit"

    def begin(self) -> None:
        """Run ``kubectl edit`` in a loop; its editor is a command that replaces the value."""
        plane = self.ring.plane
        edit = (plane.kubectl, "--kubeconfig", plane.kubeconfig, "edit", "configmap", "a")
        loop = ("sh", "-c", 'while :; do "$@"; sleep 0.1; done', "sh", *map(str, edit))
        # In its own group, so that its end is the end of what it has started.
        self._process = subprocess.Popen(
            [*loop, "-n", self.ring.tenant.namespace],
            env={**os.environ, "KUBE_EDITOR": "sed -i s/ours/theirs/", "TMPDIR": self._folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end(self) -> None:
        """Kill the loop, and the editor in it."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    @property
    def _folder(self) -> str:
        return str(self.ring.folder)


@dataclass(slots=True)
class OtherBundle(_AboutConfigMap):
    """Another Bundle that takes the object, as this one takes it back."""

    spec: dict[str, Any] = field(default_factory=lambda: {"adopt": "all", "conflicts": "force"})

    def manager(self) -> str:
        """Return the field manager of its set."""
        return f"applyprune/{self.ring.tenant.namespace}/other"

    def begin(self) -> None:
        """Apply it; it never gives way."""
        drift = {"reverts": 100}
        options = {**self.spec, "drift": drift, "interval": "1h"}
        self.ring.tenant.bundle("other", config_map("a", "theirs"), **options)

    def end(self) -> None:
        """Suspend it."""
        self.ring.tenant.patch("other", suspend=True)


@dataclass(slots=True)
class Autoscaler:
    """The autoscaler of the real controller-manager, beyond whose bounds the manifest is."""

    ring: Ring
    place: str = "deployment.apps/web /spec/replicas"
    ours: str = "1"
    theirs: str = "3"
    spec: dict[str, Any] = field(
        default_factory=lambda: {"noDefaultIgnore": ["autoscaled-replicas"]}
    )
    where: tuple[str, str, str] = ("web", "deployments", "apps/v1")

    def manager(self) -> str:
        """Return its name as a field manager."""
        return "kube-controller-manager"

    def manifest(self) -> dict[str, Any]:
        """Return a Deployment of one replica."""
        return DEPLOYMENT

    def value(self) -> str:
        """Return the number of replicas."""
        path = self.ring.tenant.path("deployments", "web", "apps/v1")
        return str(self.ring.tenant.api.get(path)["spec"]["replicas"])

    def begin(self) -> None:
        """Create the autoscaler, which wants at least three."""
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        body = {
            "apiVersion": AUTOSCALING,
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web"},
            "spec": {"minReplicas": 3, "maxReplicas": 5, "scaleTargetRef": target},
        }
        self.ring.tenant.put("horizontalpodautoscalers", body, AUTOSCALING)

    def end(self) -> None:
        """Delete the autoscaler."""
        tenant = self.ring.tenant
        path = tenant.path("horizontalpodautoscalers", "web", AUTOSCALING)
        assert tenant.api("DELETE", path)[0] == 200


OPPONENTS: dict[str, type[KubectlEdit | OtherBundle | Autoscaler]] = {
    "an autoscaler": Autoscaler,
    "kubectl edit": KubectlEdit,
    "another Bundle": OtherBundle,
}
