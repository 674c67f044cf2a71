"""Find the Pod template of a workload, and what its Pods read from other objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from applyprune.model.identity import GroupKind
from applyprune.model.json_access import field, items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Sequence

POD = GroupKind("", "Pod")
CRON_JOB = GroupKind("batch", "CronJob")
_GROUPS = frozenset({"", "apps", "batch"})


class Way(StrEnum):
    """How a Pod reads another object; its value is the word in messages."""

    ENVIRONMENT = "environment"
    """As environment variables, when a container starts."""
    SUB_PATH = "subPath"
    """As a file mounted by ``subPath``, when a container starts."""
    VOLUME = "volume"
    """As a volume; the kubelet updates the files of a ConfigMap or Secret in it."""
    START = "start"
    """Only when the Pod starts: its ServiceAccount, or the credentials to pull an image."""


@dataclass(frozen=True, slots=True)
class Reading:
    """An object that a Pod names in its own namespace."""

    kind: str
    """ConfigMap, Secret, PersistentVolumeClaim or ServiceAccount."""
    name: str
    way: Way
    keys: frozenset[str] | None = None
    """The keys that it reads; None for all of them."""
    optional: bool = False
    """Whether the Pod starts without the object."""


def pod_template(kind: GroupKind, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the Pod template of a workload in the built-in groups, or a Pod itself; else empty."""
    if kind == POD:
        return body
    if kind.group not in _GROUPS:
        return {}
    path = ("spec", "jobTemplate", "spec") if kind == CRON_JOB else ("spec",)
    return mapping(field(body, *path, "template"))


def readings(template: Mapping[str, Any]) -> Iterator[Reading]:
    """Yield what the Pods of a template read; a name or a way may come several times."""
    pod = mapping(template.get("spec"))
    for account in ("serviceAccountName", "serviceAccount"):
        if name := text(pod, account):
            yield Reading("ServiceAccount", name, Way.START)
    for secret in _mappings(pod, "imagePullSecrets"):
        if name := text(secret, "name"):
            yield Reading("Secret", name, Way.START, optional=True)
    mounts = [
        mount for container in _containers(pod) for mount in _mappings(container, "volumeMounts")
    ]
    for volume in _mappings(pod, "volumes"):
        own = [mount for mount in mounts if mount.get("name") == volume.get("name")]
        for source in (volume, *_mappings(volume, "projected", "sources")):
            yield from _from_volume(source, own)
        if name := text(volume, "persistentVolumeClaim", "claimName"):
            yield Reading("PersistentVolumeClaim", name, Way.VOLUME)
    for container in _containers(pod):
        yield from _from_environment(container)


def _containers(pod: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for part in ("containers", "initContainers"):
        yield from _mappings(pod, part)


def _from_volume(
    source: Mapping[str, Any], mounts: Sequence[Mapping[str, Any]]
) -> Iterator[Reading]:
    for part, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
        found = mapping(source.get(part))
        # A secret volume has secretName; a projected volume has name.
        name = text(found, "secretName") or text(found, "name")
        if not name:
            continue
        optional = found.get("optional") is True
        paths = {text(item, "path"): text(item, "key") for item in _mappings(found, "items")}
        for mount in mounts or ({},):
            sub_path = text(mount, "subPath")
            expanded = sub_path or text(mount, "subPathExpr")
            way = Way.SUB_PATH if expanded else Way.VOLUME
            keys = frozenset(paths.values()) if paths else None
            if sub_path and not paths:
                keys = frozenset({sub_path})
            elif sub_path:
                keys = frozenset(key for path, key in paths.items() if _is_below(path, sub_path))
            yield Reading(kind, name, way, keys, optional)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _from_environment(container: Mapping[str, Any]) -> Iterator[Reading]:
    for source in _mappings(container, "envFrom"):
        for part, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if name := text(source, part, "name"):
                optional = field(source, part, "optional") is True
                yield Reading(kind, name, Way.ENVIRONMENT, optional=optional)
    for variable in _mappings(container, "env"):
        for part, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            chosen = mapping(field(variable, "valueFrom", part))
            if name := text(chosen, "name"):
                keys = frozenset({text(chosen, "key")})
                optional = chosen.get("optional") is True
                yield Reading(kind, name, Way.ENVIRONMENT, keys, optional)


def _mappings(body: Mapping[str, Any], *path: str) -> Iterator[Mapping[str, Any]]:
    for item in items(body, *path):
        yield mapping(item)
