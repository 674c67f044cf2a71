"""Find the Pod template of a workload, and what its Pods read from other objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from applyprune.model.identity import GroupKind
from applyprune.model.live import field, items, mapping, text
from applyprune.values import dataclass
from applyprune.values import field as dataclass_field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.model.problem import Field

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
    path: Field = dataclass_field(default=(), compare=False)
    """The field of the Pod template that names the object."""
    required: tuple[tuple[str, Field], ...] = dataclass_field(default=(), compare=False)
    """The keys without which the Pod does not start, each with the field that names it."""


def template_path(kind: GroupKind) -> tuple[str, ...] | None:
    """Return the path of the Pod template in a workload of the built-in groups; else None."""
    if kind == POD:
        return ()
    if kind.group not in _GROUPS:
        return None
    return ("spec", "jobTemplate", "spec", "template") if kind == CRON_JOB else ("spec", "template")


def pod_template(kind: GroupKind, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the Pod template of a workload in the built-in groups, or a Pod itself; else empty."""
    path = template_path(kind)
    return {} if path is None else mapping(field(body, *path))


def readings(template: Mapping[str, Any]) -> Iterator[Reading]:
    """Yield what the Pods of a template read; a name or a way may come several times."""
    pod = mapping(template.get("spec"))
    spec: Field = ("spec",)
    for account in ("serviceAccountName", "serviceAccount"):
        if name := text(pod, account):
            yield Reading("ServiceAccount", name, Way.START, path=(*spec, account))
    for path, secret in _mappings(pod, spec, "imagePullSecrets"):
        if name := text(secret, "name"):
            yield Reading("Secret", name, Way.START, optional=True, path=(*path, "name"))
    containers = [
        found for part in ("containers", "initContainers") for found in _mappings(pod, spec, part)
    ]
    mounts = [
        mount
        for place, container in containers
        for _, mount in _mappings(container, place, "volumeMounts")
    ]
    for path, volume in _mappings(pod, spec, "volumes"):
        own = [mount for mount in mounts if mount.get("name") == volume.get("name")]
        for place, source in ((path, volume), *_mappings(volume, path, "projected", "sources")):
            yield from _from_volume(source, place, own)
        if name := text(volume, "persistentVolumeClaim", "claimName"):
            place = (*path, "persistentVolumeClaim", "claimName")
            yield Reading("PersistentVolumeClaim", name, Way.VOLUME, path=place)
    for path, container in containers:
        yield from _from_environment(container, path)


def _from_volume(
    source: Mapping[str, Any], place: Field, mounts: Sequence[Mapping[str, Any]]
) -> Iterator[Reading]:
    for part, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
        found = mapping(source.get(part))
        # A secret volume has secretName; a projected volume has name.
        named = "secretName" if text(found, "secretName") else "name"
        name = text(found, named)
        if not name:
            continue
        optional = found.get("optional") is True
        chosen = tuple(_mappings(found, (*place, part), "items"))
        paths = {text(item, "path"): text(item, "key") for _, item in chosen}
        required = tuple((text(item, "key"), (*path, "key")) for path, item in chosen)
        for mount in mounts or ({},):
            sub_path = text(mount, "subPath")
            expanded = sub_path or text(mount, "subPathExpr")
            way = Way.SUB_PATH if expanded else Way.VOLUME
            keys = frozenset(paths.values()) if paths else None
            if sub_path and not paths:
                keys = frozenset({sub_path})
            elif sub_path:
                keys = frozenset(key for path, key in paths.items() if _is_below(path, sub_path))
            yield Reading(kind, name, way, keys, optional, (*place, part, named), required)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _from_environment(container: Mapping[str, Any], place: Field) -> Iterator[Reading]:
    for path, source in _mappings(container, place, "envFrom"):
        for part, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            if name := text(source, part, "name"):
                optional = field(source, part, "optional") is True
                named = (*path, part, "name")
                yield Reading(kind, name, Way.ENVIRONMENT, optional=optional, path=named)
    for path, variable in _mappings(container, place, "env"):
        for part, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
            chosen = mapping(field(variable, "valueFrom", part))
            if name := text(chosen, "name"):
                key = text(chosen, "key")
                optional = chosen.get("optional") is True
                inside = (*path, "valueFrom", part)
                yield Reading(
                    kind,
                    name,
                    Way.ENVIRONMENT,
                    frozenset({key}),
                    optional,
                    (*inside, "name"),
                    ((key, (*inside, "key")),),
                )


def _mappings(
    body: Mapping[str, Any], place: Field, *path: str
) -> Iterator[tuple[Field, Mapping[str, Any]]]:
    """Yield the items of the list at a path of ``body``, each with its whole path."""
    for index, item in enumerate(items(body, *path)):
        yield (*place, *path, index), mapping(item)
