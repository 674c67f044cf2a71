"""Try to create an object under another name, by a server dry run."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from applyprune.errors import ApplypruneError
from applyprune.planning.diff.states import renamed
from applyprune.planning.ownership.obstacle import name_error
from applyprune.planning.requests import trial_request

if TYPE_CHECKING:
    from applyprune.engine.ports import Cluster
    from applyprune.model.plan import Desired
    from applyprune.planning.applyset import ApplySetIdentity

_NAME = 40


def try_create(
    cluster: Cluster, applyset: ApplySetIdentity, desired: Desired, *, name: str, namespace: str
) -> Mapping[str, Any]:
    """Return the object as the server would create it, by a dry run under another name.

    The result has the object's own name and namespace. Raises the errors of an apply; Conflict if
    an object of that other name exists.
    """
    request = trial_request(desired, applyset, name=name, namespace=namespace)
    # A warning would be about another name, or about the rules of another namespace.
    live, _ = cluster.warning_to(None).apply(request, dry_run=True)
    if (error := name_error(desired.ref, live, desired.origin, exists=False)) is not None:
        raise error
    return renamed(live.body or {}, name=desired.ref.name, namespace=desired.ref.namespace)


def created_again(
    cluster: Cluster, applyset: ApplySetIdentity, desired: Desired
) -> Mapping[str, Any] | None:
    """Return an existing object as the server would create it; None if it would refuse that."""
    name, namespace = random_name(desired.ref.name), desired.ref.namespace
    try:
        return try_create(cluster, applyset, desired, name=name, namespace=namespace)
    except ApplypruneError:
        return None


def random_name(name: str) -> str:
    """Return a name that no object has."""
    return f"{name[:_NAME].rstrip('-.')}-{secrets.token_hex(4)}"
