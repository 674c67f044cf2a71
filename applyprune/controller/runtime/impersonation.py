"""Apply each Bundle as a ServiceAccount of its own namespace.

The controller impersonates that account, so it can do no more for a tenant than the tenant may.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from applyprune.cluster.client import KubernetesClient, RememberingClient
from applyprune.cluster.inventory_store import ConfigMapStore
from applyprune.controller.known_bundle import OnlyLooks
from applyprune.errors import AccessError, ApplypruneError, NotFound
from applyprune.model.identity import Ref
from applyprune.model.live import deleted_at
from applyprune.model.problem import ProblemKind
from applyprune.model.request import Access
from applyprune.model.resources import (
    BUNDLES,
    DEFINITIONS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    namespace_ref,
)
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.values import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from applyprune.cluster.access import ClusterAccess


class AccountMissing(ApplypruneError):
    """The ServiceAccount of a Bundle does not exist."""

    kind = ProblemKind.ACCOUNT_MISSING


@dataclass(frozen=True, slots=True)
class ServiceAccountClient:
    """A client that acts for one Bundle: as a ServiceAccount, or as the user of a kubeconfig."""

    cluster: KubernetesClient

    def only_looking(self) -> ServiceAccountClient:
        """Return the same client; every write ends with MustReadAgain."""
        return ServiceAccountClient(self.cluster.under_lease(OnlyLooks()))

    def store(self, target: ApplySetIdentity) -> ConfigMapStore:
        """Return the store of one set's inventory."""
        return ConfigMapStore(self.cluster, target)


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The controller's own client, and the clients that impersonate ServiceAccounts.

    They share connections: who is impersonated stands in each request.
    """

    own: RememberingClient

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
        if must_exist:  # guard: account-exists
            self.look_up(namespace, account)
        yield self.connect(namespace, account)

    def forget(self) -> None:
        """Forget what is remembered of the server's kinds: something has failed."""
        self.own.memory.forget_kinds()

    def look_up(self, namespace: str, account: str) -> None:
        """Raise AccountMissing unless the ServiceAccount exists."""
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
        """Return whether a namespace is being deleted or is gone."""
        try:
            return self.own.get(NAMESPACES, namespace_ref(namespace)).terminating
        except NotFound:
            return True

    def crd_deleted_at(self) -> datetime | None:
        """Return when the Bundle CRD was deleted; None when it was not."""
        ref = Ref(DEFINITIONS.group, DEFINITIONS.kind, "", BUNDLES.full_plural)
        return deleted_at(self.own.get(DEFINITIONS, ref))


def account_user(namespace: str, account: str) -> str:
    """Return the name of a ServiceAccount as a user."""
    return f"system:serviceaccount:{namespace}:{account}"


def refuse_impersonated(access: ClusterAccess) -> None:
    """Refuse credentials that already impersonate someone: impersonation cannot be nested."""
    if access.impersonation:
        raise AccessError(
            f"the kubeconfig's user {access.user!r} impersonates another user",
            reason="the controller impersonates the ServiceAccounts of Bundles itself",
            hint="Use the controller's own credentials.",
        )
