"""Whether an endpoint is there, by what a list of it says and, if that says nothing, by its CRD."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.cluster.client import KubernetesClient
from applyprune.errors import (
    AccessError,
    ApiError,
    Forbidden,
    Invalid,
    NotFound,
    NotServed,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from applyprune.model.identity import Ref
from applyprune.model.live import DEFINITIONS, Absent, LiveObject, Resource, ResourceMap

FOOS = Resource("x.example.com", "v1", "Foo", "foos", namespaced=True)
OLD = Resource("x.example.com", "v1", "Foo", "foolish", namespaced=True)
REFUSED = Forbidden("no right", code=403)
BROKEN = ApiError("conversion webhook failed", code=500)
BUSY = Unavailable("too many requests", code=429)
DOWN = Unreachable("no answer in time")
UNLISTABLE = Invalid("the method is not allowed", code=405)


def definition(established: str | None) -> LiveObject:
    """Return a CRD with this condition, or with none."""
    name = "foos.x.example.com"
    found = [{"type": "Established", "status": established}] if established else []
    body = {"metadata": {"name": name, "uid": "u"}, "status": {"conditions": found}}
    ref = Ref(DEFINITIONS.group, DEFINITIONS.kind, "", name)
    return LiveObject.of(ref, "u", "1", {"name": name, "uid": "u"}, body)


READY, COMING, NEW = definition("True"), definition("False"), definition(None)


@pytest.mark.parametrize(
    ("reply", "listed", "crd", "is_served"),
    [
        (None, None, Absent(), True),
        (NotServed("404 page not found", code=404), FOOS, READY, False),
        (NotFound("not there", code=404), FOOS, READY, False),
        # Authorization comes before routing.
        (REFUSED, FOOS, READY, True),
        pytest.param(REFUSED, FOOS, COMING, False, marks=pytest.mark.holds("forbidden-list")),
        (REFUSED, FOOS, NEW, False),
        (REFUSED, None, READY, False),
        (REFUSED, OLD, READY, False),
        # The CRD may not be read either, or an aggregated API has none.
        (REFUSED, FOOS, REFUSED, True),
        (REFUSED, FOOS, Absent(), True),
        (REFUSED, None, REFUSED, False),
        *((error, FOOS, READY, True) for error in (BROKEN, BUSY, DOWN, UNLISTABLE)),
        *((error, FOOS, COMING, error) for error in (BROKEN, BUSY, DOWN)),
        *((error, None, READY, error) for error in (BROKEN, BUSY, DOWN)),
        (BROKEN, FOOS, REFUSED, BROKEN),
        # An aggregated API that does not answer is not there.
        (BUSY, FOOS, Absent(), BUSY),
        (Unauthorized("log in", code=401), FOOS, READY, Unauthorized("log in", code=401)),
    ],
)
def test_only_a_404_says_that_a_kind_is_not_served(
    monkeypatch: pytest.MonkeyPatch,
    reply: AccessError | None,
    listed: Resource | None,
    crd: LiveObject | Absent | Forbidden,
    is_served: bool | AccessError,
) -> None:
    """After anything else, the list of kinds and the CRD decide, or the error stays."""

    class Server:
        def for_run(self, _run: str) -> Server:
            return self

        def send(self, request: Any) -> None:
            assert not request.retry
            if reply is not None:
                raise reply

    def read(*_: object, **__: object) -> LiveObject | Absent:
        if isinstance(crd, Forbidden):
            raise crd
        return crd

    transport: Any = Server()
    client = KubernetesClient(transport, "https://server")
    kinds = ResourceMap({listed.gvk: listed} if listed else {}, {})
    monkeypatch.setattr(client, "resource_map", lambda: kinds)
    monkeypatch.setattr(client, "read", read)
    if isinstance(is_served, bool):
        assert client.serves(FOOS) is is_served
        return
    with pytest.raises(type(is_served)):
        client.serves(FOOS)
