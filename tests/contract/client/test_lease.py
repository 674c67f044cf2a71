"""Every write of the client is sent under its lease: not after its end, and not again then."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cluster.client import KubernetesClient
from applyprune.errors import InventoryLocked
from applyprune.model.identity import Ref
from applyprune.model.live import CONFIG_MAPS
from applyprune.model.plan import ApplyRequest, DeleteRequest, PatchRequest, Precondition
from applyprune.values import packed
from tests.support.fault_proxy import faults, first
from tests.support.objects import config_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.fault_proxy import FaultProxy
    from tests.support.plane import OpenTransport


@dataclass(slots=True)
class Ending:
    """A lease with the given answers; it can be renewed so many times, then it is lost."""

    left_next: Iterator[float]
    renewals: int = 100
    asked: list[str] = field(default_factory=list)

    def ensure(self) -> None:
        """Renew it, or not."""
        self.asked.append("ensure")
        if self.asked.count("ensure") > self.renewals:
            raise InventoryLocked("lost")

    def left(self) -> float:
        """Return the next answer."""
        self.asked.append("left")
        return next(self.left_next)


OVER, LASTS = 0.0, 10.0
BODY = config_map("probe")
STATE = Precondition(uid="u", resource_version="1")
WRITES: dict[str, Callable[[KubernetesClient, Ref], object]] = {
    "create": lambda client, ref: client.create(CONFIG_MAPS, ref, BODY, retry=False),
    "apply": lambda client, ref: client.apply(
        ApplyRequest(CONFIG_MAPS, ref, packed(BODY), manager="m")
    ),
    "replace": lambda client, ref: client.replace(CONFIG_MAPS, ref, BODY),
    "merge_patch": lambda client, ref: client.merge_patch(CONFIG_MAPS, ref, {}),
    "patch": lambda client, ref: client.patch(PatchRequest(CONFIG_MAPS, ref, [])),
    "delete": lambda client, ref: client.delete(DeleteRequest(CONFIG_MAPS, ref, STATE)),
}
"""Every method of the client that changes the cluster."""


def _ref(namespace: str) -> Ref:
    return Ref("", "ConfigMap", namespace, "probe")


@pytest.mark.holds("write-lease", "late-write", row="apply")
@pytest.mark.parametrize("name", WRITES)
def test_write_is_not_sent_after_the_end_of_its_lease(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str, name: str
) -> None:
    """The lease ends after it was renewed, while the request waits for its connection."""
    lease = Ending(itertools.repeat(OVER), renewals=1)
    client = KubernetesClient(open_transport(), "test").under_lease(lease)
    with pytest.raises(InventoryLocked):
        WRITES[name](client, _ref(namespace))
    assert proxy.exchanges == []
    assert lease.asked == ["ensure", "left", "ensure"]


@pytest.mark.holds("lease-before-try", row="apply")
@pytest.mark.parametrize("name", WRITES)
def test_write_is_not_sent_again_after_the_end_of_its_lease(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str, name: str
) -> None:
    """The first try has failed, and the lease cannot be renewed."""
    proxy.rule = first(1, faults.status(429, "TooManyRequests"))
    lease = Ending(itertools.repeat(LASTS), renewals=1)
    client = KubernetesClient(open_transport(), "test").under_lease(lease)
    with pytest.raises(InventoryLocked):
        WRITES[name](client, _ref(namespace))
    assert len(proxy.exchanges) == 1


def test_write_is_sent_after_a_renewal(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str
) -> None:
    """The server has not seen the first try, so even a create that is never repeated is sent."""
    lease = Ending(itertools.chain([OVER], itertools.repeat(LASTS)))
    client = KubernetesClient(open_transport(), "test").under_lease(lease)
    WRITES["create"](client, _ref(namespace))
    assert [one.method for one in proxy.exchanges] == ["POST"]
    assert lease.asked[:3] == ["ensure", "left", "ensure"]


def test_read_needs_no_lease(
    open_transport: OpenTransport, proxy: FaultProxy, namespace: str
) -> None:
    """The run may look at what has happened."""
    lease = Ending(itertools.repeat(OVER), renewals=0)
    client = KubernetesClient(open_transport(), "test").under_lease(lease)
    client.list(CONFIG_MAPS, namespace=namespace)
    assert [one.method for one in proxy.exchanges] == ["GET"]
    assert lease.asked == []


def test_table_has_every_write_of_the_client() -> None:
    """A new method that writes needs a line in the table."""
    methods: dict[str, Any] = dict(vars(KubernetesClient))
    senders = {
        name
        for name, method in methods.items()
        if callable(method) and "_write" in method.__code__.co_names
    }
    # A delete sends the dry run that proves preconditions, under the same lease.
    assert senders == {*WRITES, "_prove_preconditions"}
