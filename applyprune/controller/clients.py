"""As whom the controller speaks to the API server, and what it reads and writes of a Bundle.

It applies each Bundle as a ServiceAccount of its own namespace, which it impersonates: so it can do
no more for a tenant than the tenant may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.inventory_store import ConfigMapStore
from applyprune.controller.reasons import Key
from applyprune.errors import AccessError, ApplypruneError, Conflict, Interrupted, NotFound
from applyprune.model.identity import Ref
from applyprune.model.live import (
    BUNDLES,
    DEFINITIONS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    Absent,
    LiveObject,
    deleted_at,
    is_after,
    namespace_ref,
)
from applyprune.model.plan import Access
from applyprune.model.problem import ProblemKind
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.marks import FINALIZER, RECONCILE_NOW
from applyprune.planning.replies import not_stored, refuse_false_absence

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from applyprune.cluster.access import ClusterAccess


class Impersonation(Struct, frozen=True):
    """The controller's own client, and the clients that impersonate ServiceAccounts.

    They share connections: who is impersonated stands in each request.
    """

    own: KubernetesClient

    def connect(self, namespace: str, account: str) -> ServiceAccountClient:
        """Return a client for a ServiceAccount without checking that it exists; sends nothing.

        If no group is given, the API server adds the groups of ServiceAccounts itself, so the
        right to impersonate groups is not needed.
        """
        # To read the CRDs and APIServices is a right of the controller's own.
        return ServiceAccountClient(self.own.as_user(account_user(namespace, account)))

    @contextmanager
    def as_account(
        self, namespace: str, account: str, *, must_exist: bool
    ) -> Iterator[ServiceAccountClient]:
        """Yield a client for a ServiceAccount; raises AccountMissing if it does not exist.

        Impersonating an account that does not exist succeeds, with all rights bound to its name.
        """
        if must_exist:  # guard: account-exists never
            self.require_account(namespace, account)
        yield self.connect(namespace, account)

    def forget(self) -> None:
        """Forget what is remembered of the server's kinds: something has failed."""
        self.own.forget()

    def require_account(self, namespace: str, account: str) -> None:
        ref = Ref(SERVICE_ACCOUNTS.group, SERVICE_ACCOUNTS.kind, namespace, account)
        try:
            self.own.get(SERVICE_ACCOUNTS, ref)
        except NotFound:
            raise AccountMissing(
                f"the ServiceAccount {account} does not exist",
                reason=f"the Bundle is applied as {account} of namespace {namespace}",
            ) from None

    def is_allowed(self, namespace: str, account: str) -> bool:
        """Return whether the controller may act as a ServiceAccount; false if nobody can know."""
        access = Access("impersonate", "", SERVICE_ACCOUNTS.plural, namespace, account)
        try:
            return self.own.access.is_allowed(access)
        except ApplypruneError:
            return False

    def is_terminating(self, namespace: str) -> bool:
        try:
            return self.own.get(NAMESPACES, namespace_ref(namespace)).terminating
        except NotFound:
            return True

    def crd_deleted_at(self) -> datetime | None:
        ref = Ref(DEFINITIONS.group, DEFINITIONS.kind, "", BUNDLES.full_plural)
        return deleted_at(self.own.get(DEFINITIONS, ref))


class ServiceAccountClient(Struct, frozen=True):
    """A client that acts for one Bundle: as a ServiceAccount, or as the user of a kubeconfig."""

    cluster: KubernetesClient

    def store(self, target: ApplySetIdentity) -> ConfigMapStore:
        return ConfigMapStore(self.cluster, target)


class AccountMissing(ApplypruneError):
    """The ServiceAccount of a Bundle does not exist."""

    kind = ProblemKind.ACCOUNT_MISSING


def account_user(namespace: str, account: str) -> str:
    return f"system:serviceaccount:{namespace}:{account}"


def refuse_impersonated(access: ClusterAccess) -> None:
    """Refuse credentials that already impersonate someone: impersonation cannot be nested."""
    if access.impersonation:
        raise AccessError(
            f"the kubeconfig's user {access.user!r} impersonates another user",
            reason="the controller impersonates the ServiceAccounts of Bundles itself",
            hint="Use the controller's own credentials.",
        )


# Bundles in the API.


_TRIES = 5


class BundleObjects(Struct, frozen=True):
    """Bundles, read in full and by consistent reads, and written by compare-and-swap.

    The response to a write is the Bundle as stored, so no write is followed by a read.
    """

    client: KubernetesClient

    def get(self, key: Key) -> LiveObject | None:
        try:
            return self.client.get(BUNDLES, bundle_ref(key), full=True)
        except NotFound:
            return None

    def in_namespace(self, namespace: str) -> Sequence[LiveObject]:
        """Return the Bundles of a namespace, or of all if it is empty."""
        return self.client.list(BUNDLES, namespace=namespace, full=True)

    def write_status(self, live: LiveObject, status: Mapping[str, Any]) -> LiveObject | None:
        """Store a Bundle's status and return the Bundle as stored; None when it is gone.

        Nothing is sent when the status has not changed. After a conflict it is sent again on top of
        the other change. Raises Interrupted when that was a change of the status: then another
        replica has reconciled the Bundle meanwhile, and knows more. Raises RunFailed if it is not
        stored: a removal believes what it says of other namespaces and clusters.
        """
        current: LiveObject | None = live
        for _ in range(_TRIES):
            if current is None or current.uid != live.uid:
                return None
            if status_of(current) == status:
                return current
            if status_of(current) != status_of(live):  # guard: status-overtaken never
                raise Interrupted(0)
            body = {**(current.body or {}), "status": status}
            try:
                after = self.client.replace(BUNDLES, live.ref, body, subresource="status")
            except Conflict:
                current = self.get((live.ref.namespace, live.ref.name))
                continue
            except NotFound as error:
                self._refuse_false_absence(live, error)
                return None
            # By the status of the reply: an older CRD drops what it does not know.
            is_written = partial(_has_status, status_of(after))
            # guard: status-is-stored -> after
            return self._stored(current, after, is_written)
        raise Conflict(f"{live.ref} changes faster than its status can be written", code=409)

    def add_finalizer(self, live: LiveObject) -> LiveObject:
        """Add the finalizer to a Bundle, if it is missing; return the Bundle as stored.

        Raises Conflict when the Bundle has changed since it was read, NotFound when it is gone.
        """
        if FINALIZER in live.finalizers:
            return live
        try:
            after = self._set_finalizers(live, [*live.finalizers, FINALIZER])
        except NotFound as error:
            self._refuse_false_absence(live, error)
            raise
        # guard: finalizer-is-stored -> after
        return self._stored(live, after, lambda one: FINALIZER in one.finalizers)

    def remove_finalizer(self, live: LiveObject) -> None:
        """Remove the finalizer: everything that the Bundle has applied is taken care of."""
        for _ in range(_TRIES):
            current = self.get((live.ref.namespace, live.ref.name))
            if current is None or current.uid != live.uid or FINALIZER not in current.finalizers:
                return
            others = [finalizer for finalizer in current.finalizers if finalizer != FINALIZER]
            try:
                after = self._set_finalizers(current, others)
            except Conflict:
                continue
            except NotFound as error:
                self._refuse_false_absence(live, error)
                return
            if is_after(after, current.resource_version):
                return
        raise Conflict(f"{live.ref} changes faster than its finalizer can be removed", code=409)

    def _stored(
        self, before: LiveObject, after: LiveObject, is_written: Callable[[LiveObject], bool]
    ) -> LiveObject:
        """Return a Bundle as stored, by the reply to a write or a read; raise RunFailed if not."""
        if is_after(after, before.resource_version) and is_written(after):
            return after
        state = self.client.read(BUNDLES, before.ref, full=True)
        if isinstance(state, Absent) or not is_written(state):
            raise not_stored(state)
        return state

    def _refuse_false_absence(self, live: LiveObject, error: NotFound) -> None:
        """Read a Bundle after a 404 to a write; raise RunFailed if it exists."""
        state = self.client.read(BUNDLES, live.ref)
        refuse_false_absence(live.uid, state, error)  # guard: bundle-absence

    def _set_finalizers(self, live: LiveObject, finalizers: list[str]) -> LiveObject:
        metadata = {"finalizers": finalizers, "resourceVersion": live.resource_version}
        return self.client.merge_patch(BUNDLES, live.ref, {"metadata": metadata})


def _has_status(status: Mapping[str, Any], live: LiveObject) -> bool:
    return status_of(live) == status


def bundle_ref(key: Key) -> Ref:
    return Ref(BUNDLES.group, BUNDLES.kind, *key)


def status_of(live: LiveObject) -> Mapping[str, Any]:
    return (live.body or {}).get("status") or {}


_LONGEST_REQUEST = 256


def request_of(live: LiveObject) -> str:
    """Return the value of reconcile-now as a status repeats it: of a long one, a digest."""
    request = live.annotations.get(RECONCILE_NOW, "")
    if len(request) <= _LONGEST_REQUEST:  # guard: bounded-request always
        return request
    return f"sha256:{sha256(request.encode('utf-8', 'replace')).hexdigest()}"
