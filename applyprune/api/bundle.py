"""Work on one Bundle: read it, suspend and resume it, reconcile it now, approve its plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from applyprune.api.apply_set import ApplySet
from applyprune.api.run_arguments import given_or_new
from applyprune.engine.operations.bundle import BundleWait, requested_event, until_ready
from applyprune.engine.operations.controller_logs import LogFilter, controller_logs
from applyprune.errors import (
    ApplypruneError,
    NotFound,
    NotServed,
    PlanOutdated,
    UsageError,
    as_problem,
)
from applyprune.model.events import Event, ObjectStatus
from applyprune.model.identity import Ref
from applyprune.model.options import StatusOptions
from applyprune.model.readiness_state import TreeNode
from applyprune.model.reports.bundle import BundleStatus
from applyprune.model.resources import BUNDLES
from applyprune.model.text.names import is_dns_subdomain
from applyprune.output.report import RunReport, report_of
from applyprune.planning.annotations import APPROVE, RECONCILE_NOW
from applyprune.planning.readiness.bundle import bundle_status
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.api.cluster_connection import ClusterConnection
    from applyprune.engine.cancellation import Cancellation

CONTROLLER_NAMESPACE = "applyprune-system"
"""The namespace of the controller, unless it was installed elsewhere."""
_TREE = StatusOptions(tree=True)


class Bundle:
    """One Bundle: its name, its namespace, and its cluster. The controller does the work.

    Nothing here writes but ``suspend``, ``resume``, ``reconcile`` and ``approve``: each sends one
    merge patch of one field or annotation. All methods raise AccessError, and UsageError if the
    Bundle does not exist.
    """

    def __init__(self, name: str, namespace: str = "", *, cluster: ClusterConnection) -> None:
        """Name a Bundle; raise UsageError for an invalid name."""
        if not is_dns_subdomain(name):
            raise UsageError(f"{name!r} is not the name of a Bundle")
        self.ref = Ref(BUNDLES.group, BUNDLES.kind, namespace or cluster.namespace, name)
        """Its kind, namespace and name."""
        self.cluster = cluster

    def __repr__(self) -> str:
        """Return the name and the namespace."""
        return f"<Bundle {self.name} -n {self.namespace}>"

    @property
    def name(self) -> str:
        """Return the name of the Bundle."""
        return self.ref.name

    @property
    def namespace(self) -> str:
        """Return the namespace of the Bundle."""
        return self.ref.namespace

    def status(self) -> BundleStatus:
        """Return its state, as the controller has reported it."""
        try:
            live = self.cluster.client.get(BUNDLES, self.ref, full=True)
        except NotFound:
            raise UsageError(
                f"there is no Bundle {self.name} in namespace {self.namespace}",
                hint="To list all Bundles: applyprune bundle list -A",
            ) from None
        except NotServed as error:
            raise _no_bundles(error) from error
        return bundle_status(live, self.cluster.client.server_time or datetime.now(UTC))

    def suspend(self) -> bool:
        """Let the controller do nothing about it; return False if it was suspended already."""
        return self._set_suspended(suspended=True)

    def resume(self) -> bool:
        """Let the controller continue; return False if it was not suspended."""
        return self._set_suspended(suspended=False)

    def reconcile(
        self,
        *,
        wait: bool = False,
        timeout: float = 300.0,
        fail_fast: bool = False,
        cancellation: Cancellation | None = None,
    ) -> RunReport:
        """Request a reconcile now, and with ``wait`` wait until it is done and all is ready.

        ``timeout`` is in seconds. The controller retries what may pass, and the wait goes on; with
        ``fail_fast`` it ends at the first failure.
        """
        return report_of(
            self.iter_reconcile(
                wait=wait, timeout=timeout, fail_fast=fail_fast, cancellation=cancellation
            )
        )

    def iter_reconcile(
        self,
        *,
        wait: bool = False,
        timeout: float = 300.0,
        fail_fast: bool = False,
        cancellation: Cancellation | None = None,
    ) -> Iterator[Event]:
        """Do what ``reconcile`` does, and yield the events."""
        before = self.status()
        if before.suspended:
            raise UsageError(
                f"the Bundle {self.name} is suspended",
                reason="the controller does nothing about it",
                hint=f"First: applyprune bundle resume {self.name} -n {self.namespace}",
            )
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        self._annotate(before, RECONCILE_NOW, now)
        yield requested_event(self.ref)
        if wait:
            wanted = BundleWait(self.ref, now, timeout, fail_fast)
            yield from until_ready(wanted, self.cluster.client, given_or_new(cancellation))

    def approve(self, digest: str) -> BundleStatus:
        """Approve the pending plan with this digest; return the Bundle's state before.

        Raises UsageError if nothing waits for an approval, and PlanOutdated if another plan waits.
        """
        before = self.status()
        pending = before.pending
        if pending is None:
            raise UsageError(
                f"nothing of the Bundle {self.name} waits for an approval",
                hint=f"See: applyprune bundle show {self.name} -n {self.namespace}",
            )
        if digest != pending.digest:  # guard: approve-shown-digest
            raise PlanOutdated(
                f"the Bundle {self.name} waits for the approval of another plan",
                reason=f"the digest of its pending plan is {pending.digest}",
                hint=f"Review it: applyprune bundle show {self.name} -n {self.namespace}",
            )
        self._annotate(before, APPROVE, pending.digest)
        return before

    def tree(self, *, cancellation: Cancellation | None = None) -> RunReport:
        """Return its objects with what they own, down to Pods and the objects of other Bundles."""
        return report_of(self.iter_tree(cancellation=cancellation))

    def iter_tree(self, *, cancellation: Cancellation | None = None) -> Iterator[Event]:
        """Do what ``tree`` does, and yield the events."""
        return _tree(self, given_or_new(cancellation), frozenset())

    def iter_logs(
        self,
        *,
        follow: bool = False,
        since: float | None = None,
        controller_namespace: str = CONTROLLER_NAMESPACE,
        cancellation: Cancellation | None = None,
    ) -> Iterator[Event]:
        """Yield the LogLine events about it, from the logs of the controller's Pods.

        ``since`` limits them to the last seconds. With ``follow``, they continue until the
        cancellation.
        """
        try:
            applyset = self.status().applyset
        except UsageError:
            applyset = self.name  # the log may be about a Bundle that is gone
        yield from controller_logs(
            self.cluster.client,
            controller_namespace,
            LogFilter(self.namespace, self.name, applyset),
            given_or_new(cancellation),
            follow=follow,
            since=since,
        )

    def _set_suspended(self, *, suspended: bool) -> bool:
        before = self.status()
        if before.suspended == suspended:
            return False
        self._patch(before, {"spec": {"suspend": suspended}})
        return True

    def _annotate(self, before: BundleStatus, key: str, value: str) -> None:
        self._patch(before, {"metadata": {"annotations": {key: value}}})

    def _patch(self, before: BundleStatus, patch: Mapping[str, Any]) -> None:
        """Send a merge patch, as Flux does, for exactly the Bundle that was read."""
        metadata = {**patch.get("metadata", {}), "uid": before.uid}
        self.cluster.client.merge_patch(BUNDLES, self.ref, {**patch, "metadata": metadata})


def list_bundles(
    cluster: ClusterConnection, namespace: str = "", *, all_namespaces: bool = False
) -> list[BundleStatus]:
    """Return the Bundles of a namespace, by default the connection's, or of all namespaces."""
    where = "" if all_namespaces else namespace or cluster.namespace
    client = cluster.client
    try:
        found = client.list(BUNDLES, namespace=where, full=True)
    except NotServed as error:
        raise _no_bundles(error) from error
    now = client.server_time or datetime.now(UTC)
    return sorted(
        (bundle_status(live, now) for live in found), key=lambda one: (one.namespace, one.name)
    )


def _no_bundles(error: NotServed) -> UsageError:
    return UsageError(
        "this cluster has no Bundles",
        reason=error.message,
        hint="Install the controller: applyprune install",
    )


def _tree(bundle: Bundle, stop: Cancellation, above: frozenset[Ref]) -> Iterator[Event]:
    """Yield the status of the set of a Bundle, with the objects of each Bundle in it.

    ``above`` are the Bundles that it belongs to: a Bundle may list itself.
    """
    above |= {bundle.ref}
    status = bundle.status()
    if status.kubeconfig is not None:
        raise UsageError(
            f"the objects of the Bundle {bundle.name} are in another cluster",
            reason=f"spec.kubeConfig names {status.kubeconfig.short}",
            hint=f"There: applyprune status {status.applyset} -n {bundle.namespace} --tree",
        )
    applyset = ApplySet(status.applyset, bundle.namespace, cluster=bundle.cluster)
    for event in applyset.iter_status(_TREE, cancellation=stop):
        if (
            isinstance(event, ObjectStatus)
            and event.ref.group_kind == BUNDLES.group_kind
            and event.ref not in above
        ):
            yield _with_its_objects(event, bundle.cluster, stop, above)
        else:
            yield event


def _with_its_objects(
    event: ObjectStatus, cluster: ClusterConnection, stop: Cancellation, above: frozenset[Ref]
) -> ObjectStatus:
    """Return the status of a Bundle that is an object of another one, with its own objects."""
    inner = Bundle(event.ref.name, event.ref.namespace, cluster=cluster)
    try:
        owned = tuple(
            replace(
                found.tree or TreeNode(found.ref, "", "", None, found.age),
                state=found.readiness.status.text,
            )
            for found in _tree(inner, stop, above)
            if isinstance(found, ObjectStatus)
        )
    except ApplypruneError as error:
        why = f"its objects cannot be read: {as_problem(error).message}"
        return replace(event, not_read="; ".join(filter(None, (event.not_read, why))))
    node = event.tree or TreeNode(event.ref, "", event.readiness.status.text, None, event.age)
    return replace(event, tree=replace(node, owned=(*node.owned, *owned)))
