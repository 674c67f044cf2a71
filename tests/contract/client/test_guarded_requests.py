"""The contract of each write of a run: what it does to which state of its object, and to no other.

There are five: a create, an apply of one object, the same of one state of it, a patch and a delete
of one state. Which of them a run sends is a decision; here the server answers each of them once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cluster.access import cluster_access
from applyprune.cluster.client import KubernetesClient
from applyprune.cluster.transport import Transport
from applyprune.errors import ApiError, ApplypruneError, Conflict, Invalid, NotFound
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject, Resource
from applyprune.model.options import Propagation
from applyprune.model.plan import (
    CREATE_ONLY,
    ApplyRequest,
    DeleteRequest,
    PatchRequest,
    Precondition,
)
from applyprune.values import packed
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, faults, first
from tests.support.objects import config_map

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
OURS, MANAGER = config_map("a", "ours"), "applyprune/x/web"


class Site:
    """One object on a server, a client through a proxy, and the state in which it was read."""

    def __init__(self, plane: Plane, api: Api, proxy: FaultProxy, namespace: str) -> None:
        """Read an object that somebody has created."""
        self.api, self.proxy = api, proxy
        self.ref = Ref("", "ConfigMap", namespace, "a")
        self.collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self.path = f"{self.collection}/a"
        self.api.create(self.collection, config_map("a", "theirs"), by="them")
        self.read = self.live()

    def live(self) -> dict[str, Any]:
        """Return the object as it is."""
        found: dict[str, Any] = self.api.get(self.path)
        return found

    def precondition(self, *, state: bool = True) -> Precondition:
        """Return what a request demands: the object, or this state of it."""
        metadata = self.read["metadata"]
        return Precondition(metadata["uid"], metadata["resourceVersion"] if state else "")


# What has happened to the object since it was read.


def _gone(site: Site) -> None:
    site.api("DELETE", site.path)


def _changed(site: Site) -> None:
    site.api.patch(site.path, {"data": {"other": "x"}}, by="them")


def _recreated(site: Site) -> None:
    _gone(site)
    site.api.create(site.collection, config_map("a", "again"), by="them")


STATES: dict[str, Callable[[Site], None]] = {
    "as it was": lambda _: None,
    "changed": _changed,
    "recreated": _recreated,
    "gone": _gone,
}


# The five writes.


def _applies(site: Site, guard: Precondition, *, force: bool = True) -> ApplyRequest:
    return ApplyRequest(MAPS, site.ref, packed(OURS), MANAGER, force, guard)


def _create(client: KubernetesClient, site: Site) -> bool:
    return client.apply(_applies(site, CREATE_ONLY, force=False))[1]


def _apply(client: KubernetesClient, site: Site) -> LiveObject:
    return client.apply(_applies(site, site.precondition(state=False)))[0]


def _apply_state(client: KubernetesClient, site: Site) -> LiveObject:
    return client.apply(_applies(site, site.precondition()))[0]


def _patch(client: KubernetesClient, site: Site) -> LiveObject:
    metadata = site.read["metadata"]
    tests = ({"op": "test", "path": f"/metadata/{key}", "value": metadata[key]}
             for key in ("uid", "resourceVersion"))  # fmt: skip
    change = {"op": "replace", "path": "/data/key", "value": "ours"}
    return client.patch(PatchRequest(MAPS, site.ref, (*tests, change)))


def _delete(client: KubernetesClient, site: Site) -> bool:
    return client.delete(DeleteRequest(MAPS, site.ref, site.precondition()))


WRITES: dict[str, Callable[[KubernetesClient, Site], object]] = {
    "create": _create,
    "apply": _apply,
    "apply of a state": _apply_state,
    "patch": _patch,
    "delete": _delete,
}
# The error of each write in each state; None where it does what it is for. A delete of what is
# gone is an error too: the caller proves the absence.
ANSWERS: dict[str, tuple[type[ApplypruneError] | None, ...]] = {
    #                    as it was, changed, recreated, gone
    "create": (Conflict, Conflict, Conflict, None),
    "apply": (None, None, Invalid, Conflict),
    "apply of a state": (None, Conflict, Conflict, Conflict),
    "patch": (None, Conflict, Conflict, NotFound),
    "delete": (None, Conflict, Conflict, NotFound),
}


@pytest.fixture
def site(plane: Plane, api: Api, proxy: FaultProxy, namespace: str) -> Site:
    """An object that was read a moment ago."""
    return Site(plane, api, proxy, namespace)


@pytest.fixture
def client(proxy: FaultProxy, tmp_path: Path) -> Iterator[KubernetesClient]:
    """A client through the proxy."""
    access = cluster_access(kubeconfig=str(proxy.kubeconfig(tmp_path)), environ={})
    with closing(Transport(access, retry_budget=5.0)) as transport:
        yield KubernetesClient(transport, "test")


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("state", STATES)
def test_write_does_nothing_to_another_state_than_it_demands(
    site: Site, client: KubernetesClient, state: str, write: str
) -> None:
    """The server refuses it, and the object stays as it is."""
    STATES[state](site)
    before = site.api.find(site.path)
    error = ANSWERS[write][list(STATES).index(state)]
    if error is not None:
        with pytest.raises(error):
            WRITES[write](client, site)
        assert site.api.find(site.path) == before
        return
    WRITES[write](client, site)
    after = site.api.find(site.path)
    if write == "delete":
        assert after is None
    else:
        assert after["data"]["key"] == "ours"


SENT_AGAIN = {
    "a reset": faults.reset(),
    "a 429": faults.status(429, reason="TooManyRequests"),
    "a page of a proxy": faults.web_page(),
}
LOST = {"no reply": faults.lose_reply(), "half a reply": faults.truncate()}
# What the second try meets after the first was done: the caller reads the object, and judges that.
TWICE: dict[str, type[ApplypruneError] | None] = {
    "create": Conflict,
    "apply": None,
    "apply of a state": Conflict,
    "patch": Conflict,
    "delete": NotFound,
}


def _sent(site: Site, client: KubernetesClient, write: str, fault: Fault) -> ApplypruneError | None:
    """Send a write whose first try meets a fault; return its error."""
    if write == "create":
        _gone(site)
    site.proxy.rule = first(1, fault, where=lambda seen: seen.path == site.path)
    try:
        WRITES[write](client, site)
    except ApplypruneError as error:
        return error
    return None


def _is_done(site: Site, write: str) -> bool:
    after = site.api.find(site.path)
    return after is None if write == "delete" else bool(after and after["data"]["key"] == "ours")


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("fault", SENT_AGAIN)
def test_write_that_the_server_has_not_seen_is_sent_again(
    site: Site, client: KubernetesClient, fault: str, write: str
) -> None:
    """Nobody else has to know."""
    assert _sent(site, client, write, SENT_AGAIN[fault]) is None
    assert _is_done(site, write)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("fault", LOST)
def test_write_whose_reply_was_lost_is_done_once(
    site: Site, client: KubernetesClient, fault: str, write: str
) -> None:
    """Its guard refuses the second try, unless that changes nothing."""
    error = _sent(site, client, write, LOST[fault])
    expected = TWICE[write]
    assert (error is None) if expected is None else isinstance(error, expected), error
    assert _is_done(site, write)


@pytest.mark.parametrize("write", WRITES)
def test_error_of_the_server_is_not_tried_again(
    site: Site, client: KubernetesClient, write: str
) -> None:
    """It may have come from the middle of the write."""
    error = _sent(site, client, write, faults.status(500, reason="InternalError"))
    assert isinstance(error, ApiError)
    assert not _is_done(site, write)


# A gateway may drop the body of a DELETE (RFC 9110, section 9.3.5): its query must say it all.

OTHER_UID = "00000000-0000-4000-8000-000000000000"


def _without_body(seen: Exchange) -> None:
    if seen.method == "DELETE":
        seen.body = b""


@pytest.mark.holds("query-uid", row="the UID")
@pytest.mark.holds("query-version", row="the version")
@pytest.mark.parametrize("wrong", ["the UID", "the version"])
def test_delete_without_its_body_demands_the_same(
    site: Site, client: KubernetesClient, wrong: str
) -> None:
    """kube-apiserver then reads the options in the query."""
    site.proxy.before_forward = _without_body
    metadata = site.read["metadata"]
    uid = OTHER_UID if wrong == "the UID" else metadata["uid"]
    version = "1" if wrong == "the version" else metadata["resourceVersion"]
    guard = Precondition(uid, version)
    with pytest.raises(Conflict):
        client.delete(DeleteRequest(MAPS, site.ref, guard, Propagation.ORPHAN))
    assert site.live() == site.read


@pytest.mark.holds("query-propagation")
def test_delete_without_its_body_treats_dependents_as_asked(
    site: Site, client: KubernetesClient
) -> None:
    """By default the server would delete the dependents."""
    site.proxy.before_forward = _without_body
    client.delete(DeleteRequest(MAPS, site.ref, site.precondition(), Propagation.ORPHAN))
    (reply,) = (json.loads(seen.reply) for seen in site.proxy.exchanges if seen.method == "DELETE")
    assert reply["metadata"].get("finalizers") == ["orphan"]
