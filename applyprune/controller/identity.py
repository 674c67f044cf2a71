"""As whom a Bundle is carried out: always a ServiceAccount of its own namespace.

The controller impersonates it, so all that it may do for a tenant is what the tenant may do.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from applyprune.cluster.api_server import KubernetesClient
from applyprune.cluster.inventory_store import ConfigMapStore
from applyprune.cluster.transport import Transport
from applyprune.controller.objects import deleted_at
from applyprune.errors import AccessError, ApplypruneError, NotFound
from applyprune.model.builtin import BUNDLES, DEFINITIONS, NAMESPACES, SERVICE_ACCOUNTS
from applyprune.model.problems import ProblemKind
from applyprune.model.refs import Ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from applyprune.cluster.access import ClusterAccess
    from applyprune.planning.tracking import SetIdentity

_POOL = 8
_BUDGET = 10.0


class AccountMissing(ApplypruneError):
    """The ServiceAccount of a Bundle is not there."""

    kind = ProblemKind.ACCOUNT_MISSING


@dataclass(frozen=True, slots=True)
class Acting:
    """A connection as one ServiceAccount; ``close`` ends it."""

    transport: Transport
    cluster: KubernetesClient

    def store(self, target: SetIdentity) -> ConfigMapStore:
        """Return the store of one set's inventory."""
        return ConfigMapStore(self.transport, target)

    def close(self) -> None:
        """Close the connections."""
        self.transport.close()


@dataclass(frozen=True, slots=True)
class Identities:
    """The controller's own connection, and those that it opens as others."""

    access: ClusterAccess
    own: KubernetesClient
    cache: Path | None
    trace: Callable[[str], None] | None = None
    agent: str = ""

    def connect(self, namespace: str, account: str) -> Acting:
        """Return a connection as a ServiceAccount, looked up or not; nothing is sent yet.

        The API server adds the groups of service accounts by itself where none is named, so the
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
        return Acting(transport, KubernetesClient(transport, access.server, cache=self.cache))

    @contextmanager
    def acting_as(self, namespace: str, account: str, *, must_exist: bool) -> Iterator[Acting]:
        """Yield a connection as a ServiceAccount; raises AccountMissing where there is none.

        To impersonate one that does not exist succeeds, with whatever rights its name still has.
        """
        if must_exist:
            self.look_up(namespace, account)
        acting = self.connect(namespace, account)
        try:
            yield acting
        finally:
            acting.close()

    def look_up(self, namespace: str, account: str) -> None:
        """Raise AccountMissing unless the ServiceAccount is there."""
        ref = Ref(SERVICE_ACCOUNTS.group, SERVICE_ACCOUNTS.kind, namespace, account)
        try:
            self.own.get(SERVICE_ACCOUNTS, ref)
        except NotFound:
            raise AccountMissing(
                f"the ServiceAccount {account} is not there",
                why=f"everything that the Bundle asks for is done as {account} of namespace "
                f"{namespace}",
            ) from None

    def is_going(self, namespace: str) -> bool:
        """Return whether a namespace is being deleted, or is gone."""
        try:
            return self.own.get(NAMESPACES, Ref("", NAMESPACES.kind, "", namespace)).terminating
        except NotFound:
            return True

    def crd_deleted_at(self) -> datetime | None:
        """Return when somebody has deleted the CRD of Bundles; None when nobody has."""
        ref = Ref(DEFINITIONS.group, DEFINITIONS.kind, "", BUNDLES.full_plural)
        return deleted_at(self.own.get(DEFINITIONS, ref))


def refuse_impersonated(access: ClusterAccess) -> None:
    """Refuse credentials that impersonate somebody already: only one can be at a time."""
    if access.impersonation:
        raise AccessError(
            f"the kubeconfig's user {access.user!r} impersonates another user",
            why="the controller impersonates the ServiceAccounts of Bundles itself",
            hint="Use credentials of the controller's own.",
        )
