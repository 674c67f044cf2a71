"""Served is not listable: only a 404 says that a new kind is not served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.values import replace
from tests.support.clocks import AGES
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, always, faults, first
from tests.support.objects import crd, crd_name, custom_resource
from tests.support.stage import Stage
from tests.support.workloads import run_ahead

FORBIDDEN = faults.status(403, reason="Forbidden", message="you may not list them")
CONVERSION = faults.status(
    500,
    message="conversion webhook for x.example.com/v1, Kind=Foo failed: "
    'Post "https://hooks.default.svc:443/": connection refused',
)
AWAY = faults.status(503, reason="ServiceUnavailable", message="please wait")


@pytest.fixture
def kinds_proxy(running: Plane) -> Iterator[FaultProxy]:
    """A proxy in front of the plane for kinds."""
    with FaultProxy(running) as proxy:
        yield proxy


@pytest.fixture
def spoiled_kinds(crd_stage: Stage, kinds_proxy: FaultProxy, tmp_path: Path) -> Stage:
    """A set behind it, whose waits run ahead."""
    stage = replace(crd_stage, kubeconfig=kinds_proxy.kubeconfig(tmp_path))
    run_ahead(stage)
    return stage


def _is_list(seen: Exchange, plural: str) -> bool:
    path = f"/apis/x.example.com/v1/{plural}"
    return (seen.method, seen.path) == ("GET", path) and "watch" not in seen.query


FAULTS = {"Secluded": FORBIDDEN, "Converted": CONVERSION, "Busy": AWAY}


def test_kind_that_may_not_be_listed_is_served(
    spoiled_kinds: Stage, kinds_proxy: FaultProxy
) -> None:
    """Its CRD is Established, and it is in the list of kinds: no warning, and its object is there.

    The Deployment behind a conversion webhook comes after its CRD.
    """

    def rule(seen: Exchange) -> Fault | None:
        return next(
            (fault for kind, fault in FAULTS.items() if _is_list(seen, f"{kind.lower()}s")), None
        )

    kinds_proxy.rule = rule
    bodies = [body for kind in FAULTS for body in (crd(kind), custom_resource("f", kind))]
    story = spoiled_kinds.run(*bodies, check=False, prune=False, timeout=AGES)
    assert (story.exit_code, story.warnings) == (0, [])
    assert list(story.outcomes.values()) == [Outcome.CREATED] * 6


@pytest.mark.holds("forbidden-list")
def test_kind_that_may_not_be_listed_is_not_served_before_its_crd_is_established(
    spoiled_kinds: Stage, kinds_proxy: FaultProxy
) -> None:
    """A 403 says nothing: another CRD has the names already."""
    replace(spoiled_kinds, name="first").run(crd("Twin"))
    second = crd("Twin")
    second["metadata"]["name"] = "othertwins.x.example.com"
    second["spec"]["names"].update(plural="othertwins", singular="othertwin")
    kinds_proxy.rule = always(FORBIDDEN, where=lambda seen: _is_list(seen, "othertwins"))
    story = spoiled_kinds.run(second, timeout=AGES)
    assert "othertwins.x.example.com is not served" in "".join(story.warnings)
    assert "already in use" in "".join(story.warnings)


def test_apply_that_meets_a_server_that_lags_is_sent_again(
    spoiled_kinds: Stage, kinds_proxy: FaultProxy
) -> None:
    """One server of several serves the kind, the next one not yet."""
    lagging = faults.answer(404, b"404 page not found\n", (("Content-Type", "text/plain"),))
    kinds_proxy.rule = first(
        12, lagging, where=lambda seen: seen.method == "PATCH" and "/laggards/" in seen.path
    )
    story = spoiled_kinds.run(
        crd("Laggard"), custom_resource("f", "Laggard"), check=False, timeout=AGES
    )
    assert story.exit_code == 0
    assert story.outcomes == {
        crd_name("Laggard"): Outcome.CREATED,
        "laggard.x.example.com/f": Outcome.CREATED,
    }
