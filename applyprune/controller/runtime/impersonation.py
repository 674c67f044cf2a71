"""Apply each Bundle as a ServiceAccount of its own namespace.

The controller impersonates that account, so it can do no more for a tenant than the tenant may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.inventory.store import ConfigMapStore
from applyprune.cluster.transport.transport import Transport
from applyprune.errors import AccessError, ApplypruneError, NotFound
from applyprune.model.identity import Ref
from applyprune.model.live import deleted_at
from applyprune.model.problem import ProblemKind
from applyprune.model.request import Access
from applyprune.model.resources import BUNDLES, DEFINITIONS, NAMESPACES, SERVICE_ACCOUNTS
from applyprune.planning.applyset import ApplySetIdentity

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from applyprune.cluster.auth.kubeconfig import ClusterAccess

_POOL = 8
_BUDGET = 10.0


class AccountMissing(ApplypruneError):
    """The ServiceAccount of a Bundle does not exist."""

    kind = ProblemKind.ACCOUNT_MISSING


@dataclass(frozen=True, slots=True)
class ServiceAccountClient:
    """A client that impersonates one ServiceAccount; ``close`` closes its connections."""

    transport: Transport
    cluster: KubernetesClient

    def store(self, target: ApplySetIdentity) -> ConfigMapStore:
        """Return the store of one set's inventory."""
        return ConfigMapStore(self.cluster, target)

    def close(self) -> None:
        """Close the connections."""
        self.transport.close()


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The controller's own client, and the clients that impersonate ServiceAccounts."""

    access: ClusterAccess
    own: KubernetesClient
    cache: Path | None
    trace: Callable[[str], None] | None = None
    agent: str = ""

    def connect(self, namespace: str, account: str) -> ServiceAccountClient:
        """Return a client for a ServiceAccount without checking that it exists; sends nothing.

        If no group is given, the API server adds the groups of ServiceAccounts itself, so the
        right to impersonate groups is not needed.
        """
        user = f"system:serviceaccount:{namespace}:{account}"
        access = replace(self.access, impersonation=(("Impersonate-User", user),), user=user)
        transport = Transport(
            access,
            pool_size=_POOL,
            retry_budget=_BUDGET,
            trace=self.trace,
            agent=self.agent,
        )
        return ServiceAccountClient(
            transport,
            # To read the CRDs and APIServices is a right of the controller's own.
            KubernetesClient(transport, access.server, cache=self.cache, registry=self.own),
        )

    @contextmanager
    def as_account(
        self, namespace: str, account: str, *, must_exist: bool
    ) -> Iterator[ServiceAccountClient]:
        """Yield a client for a ServiceAccount; raises AccountMissing if it does not exist.

        Impersonating an account that does not exist succeeds, with all rights bound to its name.
        """
        if must_exist:
            self.look_up(namespace, account)
        account_client = self.connect(namespace, account)
        try:
            yield account_client
        finally:
            account_client.close()

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
            return self.own.get(NAMESPACES, Ref("", NAMESPACES.kind, "", namespace)).terminating
        except NotFound:
            return True

    def crd_deleted_at(self) -> datetime | None:
        """Return when the Bundle CRD was deleted; None when it was not."""
        ref = Ref(DEFINITIONS.group, DEFINITIONS.kind, "", BUNDLES.full_plural)
        return deleted_at(self.own.get(DEFINITIONS, ref))


def refuse_impersonated(access: ClusterAccess) -> None:
    """Refuse credentials that already impersonate someone: impersonation cannot be nested."""
    if access.impersonation:
        raise AccessError(
            f"the kubeconfig's user {access.user!r} impersonates another user",
            reason="the controller impersonates the ServiceAccounts of Bundles itself",
            hint="Use the controller's own credentials.",
        )
