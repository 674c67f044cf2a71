"""When a list of kinds is complete, and what a kind that is not served means."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.kinds import CRD
from applyprune.model.live import (
    API_SERVICES,
    Absent,
    CompleteResourceMap,
    KindDeleted,
    LiveObject,
    NotListed,
    Registrations,
    Resource,
    ResourceMap,
    State,
    Unknown,
)
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.served_kinds import MissingKinds, prove, still_registered, unserved_state
from tests.support.objects import crd

FOO = Resource("x.example.com", "v1", "Foo", "foos", namespaced=True)
X = "x.example.com"


def _definition(body: dict[str, Any], *, established: str = "True") -> LiveObject:
    status = {"conditions": [{"type": "Established", "status": established}]}
    name = body["metadata"]["name"]
    ref = Ref(CRD.group, CRD.kind, "", name)
    return LiveObject.of(ref, "u", "1", body["metadata"], {**body, "status": status})


def _service(
    group: str, version: str = "v1", *, backend: bool = False, available: str = "True"
) -> LiveObject:
    spec: dict[str, Any] = {"group": group, "version": version}
    if backend:
        spec["service"] = {"namespace": "default", "name": "backend"}
    status = {"conditions": [{"type": "Available", "status": available}]}
    ref = Ref(API_SERVICES.group, API_SERVICES.kind, "", f"{version}.{group}")
    return LiveObject.of(ref, "u", "1", {}, {"spec": spec, "status": status})


def _served(*resources: Resource, stale: Collection[str] = (), more: Any = ()) -> ResourceMap:
    return ResourceMap(
        {one.gvk: one for one in resources},
        {one.group_kind: one for one in resources},
        frozenset(stale),
        frozenset({*((one.group, one.version) for one in resources), *more}),
    )


def _found(
    served: ResourceMap,
    definitions: Collection[LiveObject] = (),
    services: Collection[LiveObject] = (),
    **options: Any,
) -> str:
    """Return why the list is not complete; empty if it is."""
    found = prove(served, Registrations(tuple(definitions), tuple(services)), **options)
    return found.reason if isinstance(found, MissingKinds) else ""


MISSING = f"the kind of the CRD foos.{X} is not served"
SILENT = f"the API group {X} does not answer"
CASES: dict[str, tuple[str, str]] = {
    "all is served": (_found(_served(FOO), [_definition(crd())], [_service(X)]), ""),
    "a kind is missing": (_found(_served(), [_definition(crd())]), MISSING),
    "a kind of twelve CRDs is missing": (
        _found(_served(), [_definition(crd(f"Foo{one}")) for one in range(12)]),
        "the kinds of 12 CRDs are not served",
    ),
    "a kind is served under another plural": (
        _found(_served(Resource(X, "v1", "Foo", "foozes", namespaced=True)), [_definition(crd())]),
        MISSING,
    ),
    "a CRD is not established": (_found(_served(), [_definition(crd(), established="False")]), ""),
    "a CRD serves no version": (
        _found(
            _served(),
            [_definition(crd(versions=[{"name": "v1", "served": False, "storage": True}]))],
        ),
        "",
    ),
    "one of two versions is missing": (
        _found(
            _served(FOO),
            [_definition(crd(versions=[{"name": one, "served": True} for one in ("v1", "v2")]))],
        ),
        MISSING,
    ),
    "a group is stale": (_found(_served(FOO, stale=[X]), [_definition(crd())]), SILENT),
    "an APIService is not available": (
        _found(_served(), services=[_service(X, backend=True, available="False")]),
        SILENT,
    ),
    "an available APIService is missing": (
        _found(_served(), services=[_service(X, backend=True)]),
        f"not served: v1.{X}",
    ),
    "a group version without any kind that a set may contain": (
        _found(
            _served(more=[("authentication.k8s.io", "v1")]),
            services=[_service("authentication.k8s.io")],
        ),
        "",
    ),
    "an aggregated API has the place of a CRD": (
        _found(_served(FOO), [_definition(crd())], [_service(X, backend=True)]),
        SILENT,
    ),
    "something is missing in another group": (
        _found(_served(), [_definition(crd())], groups={"apps"}),
        "",
    ),
    "another group is silent": (_found(_served(stale=["metrics.k8s.io"]), groups={X}), ""),
    "a silent group whose APIService goes": (
        _found(
            _served(stale=[X]),
            services=[_service(X, backend=True, available="False")],
            removed={f"v1.{X}"},
        ),
        "",
    ),
    "the kind of a CRD in such a group": (
        _found(
            _served(stale=[X]),
            [_definition(crd())],
            [_service(X, backend=True, available="False")],
            removed={f"v1.{X}"},
        ),
        MISSING,
    ),
    "a silent group without an APIService that goes": (
        _found(_served(stale=[X]), removed={f"v1.{X}"}),
        SILENT,
    ),
    "the other APIService of such a group": (
        _found(
            _served(),
            services=[_service(X, backend=True), _service(X, "v2", backend=True)],
            removed={f"v1.{X}"},
        ),
        f"not served: v2.{X}",
    ),
    "a group that is left out of a search": (_found(_served(stale=[X]), but={X}), ""),
}


@pytest.mark.parametrize(("found", "wanted"), CASES.values(), ids=CASES)
def test_list_of_kinds_is_complete(found: str, wanted: str) -> None:
    """Every served version of each CRD, and each available APIService, is in it."""
    assert found == wanted


def test_proof_names_its_groups() -> None:
    """A proof for some groups is none for others."""
    proof = prove(_served(FOO), Registrations((), ()), groups={X})
    assert isinstance(proof, CompleteResourceMap)
    assert proof.groups == frozenset({X})
    whole = prove(_served(FOO), Registrations((), ()))
    assert isinstance(whole, CompleteResourceMap)
    assert whole.groups is None


def test_many_silent_groups_are_counted() -> None:
    """Three of them are named."""
    silent = [f"g{one}.example.com" for one in range(5)]
    reason = _found(_served(stale=silent))
    assert reason.endswith("; and 2 more API groups")
    assert reason.count("does not answer") == 3


def test_deleted_kinds_need_not_be_served() -> None:
    """With a CRD, the server removes the APIService of its group; an aggregated one stays."""
    registered = Registrations(
        (_definition(crd()), _definition(crd("Bar"))),
        (_service(X), _service(X, "v2", backend=True), _service("gone.example.com")),
    )
    gone = [
        Ref(CRD.group, CRD.kind, "", f"foos.{X}"),
        Ref(API_SERVICES.group, API_SERVICES.kind, "", "v1.gone.example.com"),
    ]
    left = still_registered(registered, gone)
    assert [live.ref.name for live in left.definitions] == [f"bars.{X}"]
    assert [live.ref.name for live in left.services] == [f"v2.{X}"]


WHOLE = prove(_served(), Registrations((), ()))
UNPROVED = MissingKinds(unread="no", is_forbidden=True)
HERE = _definition(crd())
UNREAD = Unknown(Problem(kind=ProblemKind.FORBIDDEN, message="no"))
ENTRY = InventoryEntry(Ref(X, "Foo", "shop", "f"), "foos", "v1", None, uid="u", crd=f"foos.{X}")
UNRECORDED = InventoryEntry(Ref(X, "Foo", "shop", "f"), "foos", "v1", None, uid="u")
RENAMED = InventoryEntry(Ref(X, "Bar", "shop", "f"), "bars", "v1", None, uid="u", crd=f"foos.{X}")
STATES: dict[str, tuple[InventoryEntry, State, State, Any, bool, type]] = {
    "the recorded CRD is gone": (ENTRY, Absent(), Absent(), WHOLE, False, KindDeleted),
    "and another CRD of the group stays": (
        ENTRY, Absent(), _service(X), WHOLE, False, KindDeleted,
    ),
    "it exists": (ENTRY, HERE, Absent(), WHOLE, False, Unknown),
    "it could not be read": (ENTRY, UNREAD, Absent(), WHOLE, False, Unknown),
    "its APIService could not be read": (ENTRY, Absent(), UNREAD, WHOLE, False, Unknown),
    "an aggregated API serves the group": (
        ENTRY, Absent(), _service(X, backend=True), WHOLE, False, Unknown,
    ),
    "the list of kinds is not proved": (ENTRY, Absent(), Absent(), UNPROVED, False, Unknown),
    "no CRD was recorded": (UNRECORDED, Absent(), Absent(), WHOLE, False, Unknown),
    "another CRD was recorded": (RENAMED, Absent(), Absent(), WHOLE, False, Unknown),
    "it is in the input": (UNRECORDED, Absent(), Absent(), UNPROVED, True, NotListed),
    "it is in the input, and its CRD exists": (ENTRY, HERE, Absent(), WHOLE, True, Unknown),
}  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "definition", "service", "proof", "wanted", "state"), STATES.values(), ids=STATES
)
def test_object_of_a_kind_that_is_not_served(
    entry: InventoryEntry,
    definition: State,
    service: State,
    proof: CompleteResourceMap | MissingKinds,
    wanted: bool,
    state: type,
) -> None:
    """It is unknown, unless its recorded CRD is gone; in the input, it may be created."""
    assert isinstance(unserved_state(entry, definition, service, proof, wanted=wanted), state)
