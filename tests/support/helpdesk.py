"""Helpdesk: 40 objects of 17 kinds for one namespace, in files as a person writes them.

They are in ``fixtures/helpdesk``. The files name no namespace but where they must, and each value
of their Secrets has the canary of this run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]

from tests.support.canaries import TOKEN, encoded

if TYPE_CHECKING:
    from tests.support.api import Api

FILES = Path(__file__).parents[2] / "fixtures" / "helpdesk"
CLUSTERED = frozenset({"ClusterRole", "ClusterRoleBinding"})
"""The kinds without a namespace; their objects have the namespace in their names."""
_PLURALS = {"Ingress": "ingresses", "NetworkPolicy": "networkpolicies"}


@dataclass(frozen=True, slots=True)
class Helpdesk:
    """The set as files for one namespace."""

    namespace: str
    folder: Path

    @classmethod
    def write(cls, folder: Path, namespace: str) -> Helpdesk:
        """Write the files for a namespace into a new folder."""
        folder.mkdir(parents=True)
        words = {"NAMESPACE": namespace, "TOKEN": TOKEN, "ENCODED": encoded(TOKEN)}
        for file in sorted(FILES.glob("*.yaml")):
            text = Template(file.read_text(encoding="utf-8")).substitute(words)
            (folder / file.name).write_text(text, encoding="utf-8")
        return cls(namespace, folder)

    @property
    def bodies(self) -> dict[str, dict[str, Any]]:
        """Return the objects by ``kind/name``, as a YAML parser of others reads them."""
        return {
            f"{body['kind'].lower()}/{body['metadata']['name']}": body
            for file in sorted(self.folder.glob("*.yaml"))
            for body in yaml.safe_load_all(file.read_text(encoding="utf-8"))
        }

    @property
    def paths(self) -> dict[str, str]:
        """Return where the API server has each object, by ``kind/name``."""
        return {name: self._path(body) for name, body in self.bodies.items()}

    def live(self, api: Api) -> dict[str, Any]:
        """Return the objects of the set that exist, by ``kind/name``."""
        found = ((name, api.find(path)) for name, path in self.paths.items())
        return {name: one for name, one in found if one is not None}

    def _path(self, body: dict[str, Any]) -> str:
        kind, version = body["kind"], body["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        home = "" if kind in CLUSTERED else f"/namespaces/{self.namespace}"
        plural = _PLURALS.get(kind, f"{kind.lower()}s")
        return f"{root}{home}/{plural}/{body['metadata']['name']}"


def selected_labels(body: dict[str, Any]) -> dict[str, str]:
    """Return the labels by which a workload, a Service or a policy selects Pods."""
    spec = body.get("spec", {})
    selector: dict[str, Any] = spec.get("selector") or spec.get("podSelector") or {}
    labels: dict[str, str] = selector.get("matchLabels", selector)
    return labels


def template_labels(body: dict[str, Any]) -> dict[str, str]:
    """Return the labels that a workload gives to its Pods and volume claims."""
    spec = body.get("spec", {})
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    found = [spec.get("template", {}), *spec.get("volumeClaimTemplates", ())]
    labels = (one.get("metadata", {}).get("labels", {}) for one in found)
    return {key: value for each in labels for key, value in each.items()}
