"""Asking the server whether it would create an object: a dry run, and nothing is there after it."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

from applyprune.planning.diff import renamed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from applyprune.engine.ports import Cluster
    from applyprune.model.plan import Desired
    from applyprune.planning.applyset import ApplySetIdentity

_NAME = 40


def try_create(
    cluster: Cluster, target: ApplySetIdentity, one: Desired, *, name: str, namespace: str
) -> Mapping[str, Any]:
    """Return the object as the server would create it there, with its own name and namespace.

    Raises the errors of an apply; a Conflict when something of that name is there.
    """
    where = renamed(one.body, name=name, namespace=namespace)
    body = {**where, "metadata": {**where["metadata"], "resourceVersion": "1"}}
    live, _ = cluster.apply(
        one.resource,
        replace(one.ref, name=name, namespace=namespace),
        body,
        manager=target.manager,
        force=False,
        dry_run=True,
    )
    return renamed(live.body or {}, name=one.ref.name, namespace=one.ref.namespace)


def another_name(name: str) -> str:
    """Return a name that nobody has."""
    return f"{name[:_NAME].rstrip('-.')}-{secrets.token_hex(4)}"
