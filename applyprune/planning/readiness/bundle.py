"""Read the state of a Bundle from its object, and decide whether a wait for it has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from applyprune.errors import (
    ApplypruneError,
    ConflictsFound,
    InputError,
    InventoryError,
    NotApproved,
    NotReady,
    OwnedByBundle,
    PruneRefused,
    RunFailed,
    UsageError,
)
from applyprune.model.identity import Ref
from applyprune.model.json_access import items, mapping, text, whole_number
from applyprune.model.readiness_state import (
    Readiness,
    Status,
    current,
    failed,
    in_progress,
    stuck,
)
from applyprune.model.reports.bundle import (
    BundleChange,
    BundleCondition,
    BundlePlan,
    BundleStatus,
    FailingObject,
    PendingObject,
)
from applyprune.model.resources import CONFIG_MAPS, SECRETS
from applyprune.model.text.display import seconds_since
from applyprune.planning.annotations import APPROVE, RECONCILE_NOW

if TYPE_CHECKING:
    from datetime import datetime

    from applyprune.model.live import LiveObject

if TYPE_CHECKING:
    Body = Mapping[str, Any]

INLINE = "spec.source.inline"
"""The source of a Bundle that contains its manifests itself."""
_SOURCES = (("configMapRefs", CONFIG_MAPS), ("secretRefs", SECRETS))
_REMOTE_SOURCES = ("git", "oci", "archive")
_TRUE = "True"

ERRORS: Mapping[str, type[ApplypruneError]] = {
    "ApplyFailed": RunFailed,
    "Conflicts": ConflictsFound,
    "InvalidKubeConfig": UsageError,
    "InvalidSource": InputError,
    "InvalidSpec": UsageError,
    "InventoryOwned": OwnedByBundle,
    "InventoryUnreadable": InventoryError,
    "PendingApproval": NotApproved,
    "PruneRefused": PruneRefused,
}
"""The error of a Bundle that is not ready, by the reason; NotReady for any other reason."""


def bundle_status(live: LiveObject, now: datetime) -> BundleStatus:
    """Return the state of a Bundle that was read in full; ``now`` is the server's time."""
    body = live.body or {}
    spec, status = mapping(body.get("spec")), mapping(body.get("status"))
    conditions = tuple(_conditions(status))
    by_type = {one.type: one for one in conditions}
    ready, drifted = by_type.get("Ready"), by_type.get("Drifted")
    observed = whole_number(status, "observedGeneration")
    inventory = text(status, "inventory", "name")
    kubeconfig = text(spec, "kubeConfig", "secretRef", "name")
    return BundleStatus(
        name=live.ref.name,
        namespace=live.ref.namespace,
        uid=live.uid,
        generation=live.generation or 0,
        observed_generation=-1 if observed is None else observed,
        ready=ready.status if ready is not None else "Unknown",
        reason=ready.reason if ready is not None else "",
        message=ready.message if ready is not None else "",
        drifted=drifted.status if drifted is not None else "",
        suspended=spec.get("suspend") is True,
        deleting=live.terminating,
        age=seconds_since(live.metadata.get("creationTimestamp"), now),
        source=tuple(_source(spec)),
        account=text(spec, "serviceAccountName") or "default",
        kubeconfig=Ref("", SECRETS.kind, live.ref.namespace, kubeconfig) if kubeconfig else None,
        applyset=text(spec, "inventoryName") or live.ref.name,
        inventory=Ref("", CONFIG_MAPS.kind, live.ref.namespace, inventory) if inventory else None,
        revision=text(status, "lastAppliedRevision"),
        attempted_revision=text(status, "lastAttemptedRevision"),
        requested_at=live.annotations.get(RECONCILE_NOW, ""),
        reconciled_at=text(status, "lastHandledReconcileAt"),
        objects=whole_number(status, "objects", "total"),
        failing_count=whole_number(status, "objects", "failing") or 0,
        failing=tuple(
            FailingObject(text(one, "object"), text(one, "namespace"), text(one, "message"))
            for one in map(mapping, items(status, "failing"))
        ),
        pending=_pending(status, live.annotations.get(APPROVE, "")),
        last_change=_change(mapping(status.get("lastChange"))),
        conditions=conditions,
    )


def bundle_readiness(status: BundleStatus, requested: str) -> Readiness:
    """Return whether a Bundle is ready since the reconcile that was ``requested``; empty for none.

    What is Failed does not become ready until someone changes something.
    """
    told = f"{status.reason}: {status.message}"
    stalled = next((one for one in status.conditions if one.type == "Stalled"), None)
    if status.deleting:
        return Readiness(Status.TERMINATING, "the Bundle is being deleted")
    if status.suspended:
        return failed("the Bundle is suspended")
    # Somebody else may have requested another reconcile since.
    if requested and status.reconciled_at not in {requested, status.requested_at}:
        return in_progress("the controller has not handled the request yet")
    if status.observed_generation != status.generation:
        return in_progress(f"generation {status.generation} has not been handled yet")
    if status.ready == _TRUE:
        return current(status.message)
    if status.pending is not None or (stalled is not None and stalled.status == _TRUE):
        return failed(told)
    return stuck(told) if status.ready == "False" else in_progress(told)


def not_ready(
    status: BundleStatus, readiness: Readiness, *, within: float | None = None
) -> ApplypruneError:
    """Return the error of a wait that has ended without readiness.

    ``within`` is after how many seconds its time was over; None if it has ended before.
    """
    is_final = readiness.status is Status.FAILED
    kind = ERRORS.get(status.reason, NotReady) if is_final or readiness.stuck else NotReady
    late = "" if within is None else f" within {within:.0f} s"
    return kind(
        f"the Bundle {status.name} in namespace {status.namespace} is not ready{late}",
        reason=readiness.message,
        hint=f"See: applyprune bundle show {status.name} -n {status.namespace}",
    )


def _conditions(status: Body) -> Iterator[BundleCondition]:
    for one in map(mapping, items(status, "conditions")):
        yield BundleCondition(
            text(one, "type"),
            text(one, "status"),
            text(one, "reason"),
            text(one, "message"),
            text(one, "lastTransitionTime"),
        )


def _source(spec: Body) -> Iterator[str]:
    """Yield what the source is read from, never its text."""
    source = mapping(spec.get("source"))
    if "inline" in source:
        yield INLINE
    for key, resource in _SOURCES:
        for ref in map(mapping, items(source, key)):
            keys = ", ".join(str(one) for one in items(ref, "keys"))
            yield f"{resource.kind.lower()}/{text(ref, 'name')}{f' ({keys})' if keys else ''}"
    for key in _REMOTE_SOURCES:
        if key in source:
            remote = mapping(source[key])
            path = text(remote, "path")
            yield f"{_without_secrets(text(remote, 'url'))}{f' ({path})' if path else ''}"


def _without_secrets(url: str) -> str:
    """Return a URL without what may be a credential, also one that no Bundle may have."""
    bare = url.partition("?")[0].partition("#")[0]
    scheme, separator, rest = bare.rpartition("://")
    login, at, place = rest.rpartition("@")
    user = f"{login.partition(':')[0]}{at}" if scheme == "ssh" else ""
    return f"{scheme}{separator}{user}{place}"


def _pending(status: Body, approved: str) -> BundlePlan | None:
    plan = mapping(status.get("pendingPlan"))
    if not plan:
        return None
    counts = mapping(plan.get("counts"))
    return BundlePlan(
        digest=text(plan, "digest"),
        scope=text(plan, "scope"),
        since=text(plan, "since"),
        revision=text(plan, "revision"),
        counts={str(key): count for key, count in counts.items() if isinstance(count, int)},
        objects=tuple(
            PendingObject(text(one, "object"), text(one, "namespace"), text(one, "fate"))
            for one in map(mapping, items(plan, "objects"))
        ),
        approved=bool(approved) and approved == text(plan, "digest"),
    )


def _change(change: Body) -> BundleChange | None:
    if not change:
        return None
    seconds = change.get("seconds")
    return BundleChange(
        text(change, "time"),
        float(seconds) if isinstance(seconds, int | float) else 0.0,
        whole_number(change, "created") or 0,
        whole_number(change, "configured") or 0,
        whole_number(change, "removed") or 0,
    )
