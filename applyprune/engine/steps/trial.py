"""Try by a server dry run what cannot be undone: to create an object again, and to delete it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from applyprune.errors import (
    AlreadyExists,
    ApplypruneError,
    Conflict,
    Invalid,
    NotFound,
    Unreachable,
    as_problem,
)
from applyprune.model.live import LiveObject
from applyprune.model.plan import DeleteRequest, Fate
from applyprune.planning.comparison import is_worth_a_trial, renamed
from applyprune.planning.conflicts import managers, settled_first
from applyprune.planning.ownership import name_error
from applyprune.planning.plan import decided_again
from applyprune.planning.replies import late_replacement, refused_guard, refused_recreation
from applyprune.planning.requests import delete_request, dry_run_request, trial_request
from applyprune.planning.server_errors import cannot_be_dry_run
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.engine.context import RunContext
    from applyprune.engine.ports import Cluster
    from applyprune.model.plan import ApplyStep, Desired, RemoveStep
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


def try_in(namespace: str, desired: Desired, context: RunContext) -> Mapping[str, Any]:
    """Return what ``try_create`` does, under the object's own name if it is free there."""
    name, cluster, applyset = desired.ref.name, context.cluster, context.applyset
    try:
        return try_create(cluster, applyset, desired, name=name, namespace=namespace)
    except (AlreadyExists, Conflict):
        name = random_name(name)
        return try_create(cluster, applyset, desired, name=name, namespace=namespace)


def try_creation(
    cluster: Cluster, applyset: ApplySetIdentity, desired: Desired
) -> Mapping[str, Any]:
    """Return an existing object as the server would create it; raises the errors of an apply."""
    name, namespace = random_name(desired.ref.name), desired.ref.namespace
    return try_create(cluster, applyset, desired, name=name, namespace=namespace)


def created_again(
    cluster: Cluster, applyset: ApplySetIdentity, desired: Desired
) -> Mapping[str, Any] | None:
    """Return an existing object as the server would create it; None if it would refuse that."""
    try:
        return try_creation(cluster, applyset, desired)
    except ApplypruneError:
        return None


def check_recreation(
    context: RunContext, step: ApplyStep, live: LiveObject, error: ApplypruneError
) -> tuple[DeleteRequest, Mapping[str, Any]]:
    """Return the delete of an object that may be re-created, and the object as it would be then.

    ``live`` was read in full. Raises ``error`` if it is not about an immutable field. Raises
    RunFailed, which names the field, if the object may not be re-created.
    """
    if not (isinstance(error, Invalid) and is_worth_a_trial(error)):
        raise error
    body = created_again(context.cluster, context.applyset, step.desired)
    refused = refused_recreation(step, live, body, error, context.applyset, context.options)
    if refused is not None:
        raise refused from error
    if body is None:
        raise error
    deletion = delete_request(step.desired.resource, live, context.options.prune.propagation)
    return deletion, body


def check_recreation_again(
    context: RunContext, step: ApplyStep, error: ApplypruneError
) -> tuple[LiveObject, DeleteRequest]:
    """Return an object that has changed since ``check_recreation``, as it is now, and its delete.

    Raises what that does, and RunFailed if the object has been deleted or replaced meanwhile.
    """
    state = context.cluster.read(step.desired.resource, step.desired.ref, full=True)
    live = state if isinstance(state, LiveObject) else None
    refused_guard(step, live, error, context.applyset)
    if live is None:
        raise error
    deletion, _ = check_recreation(context, step, live, error)
    return live, deletion


def random_name(name: str) -> str:
    """Return a name that no object has."""
    return f"{name[:_NAME].rstrip('-.')}-{secrets.token_hex(4)}"


def check_replacement(
    context: RunContext, step: ApplyStep, planned: LiveObject
) -> tuple[LiveObject, DeleteRequest]:
    """Return an object that is to be re-created as it is now, and its delete.

    ``planned`` is the object as the plan saw it. Raises RunFailed if it may not be deleted any
    more, Conflict if other managers own its fields, and the errors of an apply if the server would
    not create it again.
    """
    cluster, applyset, desired = context.cluster, context.applyset, step.desired
    state = cluster.read(desired.resource, desired.ref, full=True)
    live, deletion = late_replacement(step, planned, state, applyset, context.options)
    request = dry_run_request(decided_again(step, live, applyset, context.options), applyset)
    try:
        cluster.apply(request, dry_run=True)  # guard: conflict-before-recreation
    except Invalid:
        pass  # it cannot be changed in place either
    except Conflict as error:
        if not error.causes or not managers(error) <= settled_first(live, step.migration, applyset):
            raise
    try_creation(cluster, applyset, desired)  # guard: trial-before-recreation
    return live, deletion


def check_delete(cluster: Cluster, step: RemoveStep) -> RemoveStep:
    """Return a removal as the server confirms it by a dry run of its delete."""
    if not isinstance(step.request, DeleteRequest):
        return step
    try:
        cluster.delete(step.request, dry_run=True)
    except (NotFound, Conflict):
        return step  # it has changed since it was read: the prune decides again
    except Unreachable:
        raise
    except ApplypruneError as error:
        if reason := cannot_be_dry_run(error):
            return replace(step, not_checked=reason)
        problem = as_problem(error, where=str(step.entry.ref))
        return replace(step, fate=Fate.REFUSE, request=None, problem=problem)
    return step
