"""What an attack is, and the names of those who take part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.objects import config_map

if TYPE_CHECKING:
    from tests.support.controller import Tenant

Body = dict[str, Any]

TENANT = "mallory"
"""The namespace of the attacker, and the name of its user."""
VICTIM = "victim"
"""The namespace that is attacked."""
DEPLOYER = "deployer"
"""The ServiceAccount of the victim that may do anything."""
GHOST = "ghost"
"""The name of a ServiceAccount of the attacker that does not exist, and has all rights."""
WEAK = "weak"
"""A ServiceAccount of the attacker that may write ConfigMaps, roles and Secrets, and read few."""
RBAC = "rbac.authorization.k8s.io"


@dataclass(slots=True)
class Scene:
    """What an attacker may know of the victim."""

    tenant: Tenant
    """The attacker: its requests are those of its own user."""
    victim: Tenant
    """The victim: its requests are those of an administrator."""
    uids: dict[str, str] = field(default_factory=dict)
    """The UIDs of the victim's objects, by name."""


def nothing(_scene: Scene, _name: str) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack: a Bundle, what is prepared for it, and what is done when it was reconciled."""

    inline: str = ""
    """The source; empty if the spec has one."""
    manifests: tuple[Body, ...] = ()
    """The source, if there is no other one."""
    spec: Body = field(default_factory=dict)
    says: str = ""
    """What the Bundle says about it; empty if it succeeds and has no effect elsewhere."""
    before: Callable[[Scene, str], None] = nothing
    """What the tenant does before it creates the Bundle of this name."""
    then: Callable[[Scene, str], None] | None = None
    """What it does after the first reconcile; there is another one after it."""
    deletes: bool = False
    """Whether it deletes the Bundle in the end."""
    never: tuple[str, ...] = ()
    """The paths of objects that must not exist afterwards."""


def core(plural: str, name: str, namespace: str = VICTIM) -> str:
    """Return the path of an object of the core group."""
    return f"/api/v1/namespaces/{namespace}/{plural}/{name}"


def stolen(name: str, namespace: str = VICTIM, **metadata: Any) -> Body:
    """Return a ConfigMap in the victim's namespace."""
    return config_map(name, "stolen", namespace=namespace, **metadata)


def body(version: str, kind: str, name: str, namespace: str = "", **top: Any) -> Body:
    """Return an object of any kind."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **top}


def admin_binding(kind: str, name: str, namespace: str = "") -> Body:
    """Return a binding that gives the attacker's account all rights."""
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": TENANT}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    return body(f"{RBAC}/v1", kind, name, namespace, roleRef=role, subjects=[subject])
