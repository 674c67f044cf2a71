"""A CRD replaces the only version that it serves: what needs the new one waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun
from applyprune.values import replace
from tests.support.api import Api
from tests.support.clocks import AGES
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults, first
from tests.support.objects import crd, crd_name
from tests.support.stage import Stage
from tests.support.workloads import run_ahead

OLD, NEW = "v1beta1", "v1"
LAGGING = faults.answer(404, b"404 page not found\n", (("Content-Type", "text/plain"),))
NOT_SERVED = "its API version is not served yet: only its fields were compared with its CRD"


def _definition(kind: str, *served: str, stored: str) -> dict[str, Any]:
    """Return a CRD with both versions, of which some are served."""
    body = crd(kind)
    (version,) = body["spec"]["versions"]
    body["spec"]["versions"] = [
        {**version, "name": name, "served": name in served, "storage": name == stored}
        for name in dict.fromkeys((OLD, *served, stored))
    ]
    return body


def _resource(kind: str, version: str, name: str = "f", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"x.example.com/{version}",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": {"a": version},
    }


CHANGED = {
    "Replaced": ((NEW,), NEW),
    "Beside": ((OLD, NEW), OLD),
    "Moved": ((OLD, NEW), NEW),
    "StoredOld": ((NEW,), OLD),
}
"""Which versions each kind serves afterwards, and which one is stored."""


def test_version_that_the_crd_of_the_input_brings_is_not_checked(crd_stage: Stage) -> None:
    """It is there when the object is applied. Whatever of the kind leaves the set goes as well."""
    before: list[dict[str, Any]] = []
    after: list[dict[str, Any]] = []
    outcomes: dict[str, Outcome] = {}
    kept = {"annotations": {"applyprune.dev/prune": "disabled"}}
    for kind, (served, stored) in CHANGED.items():
        orphan = _resource(kind, OLD, "orphan", **kept)
        before += [_definition(kind, OLD, stored=OLD), _resource(kind, OLD)]
        before += [_resource(kind, OLD, "left"), orphan]
        after += [_definition(kind, *served, stored=stored), _resource(kind, NEW)]
        outcomes |= {crd_name(kind): Outcome.UPDATED}
        outcomes |= {
            f"{kind.lower()}.x.example.com/{name}": outcome
            for name, outcome in (
                ("f", Outcome.UPDATED), ("left", Outcome.PRUNED), ("orphan", Outcome.ORPHANED)
            )
        }  # fmt: skip
    assert crd_stage.run(*before).exit_code == 0
    dry = crd_stage.run(*after, dry_run=DryRun.SERVER, diff=True)
    told = {one.not_checked for one in dry.plan.applies if one.desired.ref.name == "f"}
    assert (dry.exit_code, told) == (0, {NOT_SERVED})
    story = crd_stage.run(*after, check=True)
    assert story.outcomes == outcomes, story.events
    assert set(crd_stage.run(*after).outcomes.values()) == {Outcome.UNCHANGED}
    assert crd_stage.check().found == {}


@pytest.mark.holds("version-of-a-skipped-crd")
def test_version_of_a_crd_that_is_skipped_never_comes(crd_stage: Stage, crds: Api) -> None:
    """Somebody else owns its versions: the plan says so of the object, and nothing is written."""
    kind = "Skipped"
    definition = _definition(kind, OLD, stored=OLD)
    assert crd_stage.run(definition, _resource(kind, OLD)).exit_code == 0
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/skippeds.x.example.com"
    versions = definition["spec"]["versions"]
    columns = [{"name": "A", "type": "string", "jsonPath": ".spec.a"}]
    theirs = {"spec": {"versions": [{**versions[0], "additionalPrinterColumns": columns}]}}
    crds.patch(path, theirs, by="hand")
    after = _definition(kind, NEW, stored=NEW)
    after["metadata"]["annotations"] = {"applyprune.dev/conflicts": "skip"}
    story = crd_stage.run(after, _resource(kind, NEW), check=True)
    name = "skipped.x.example.com/f"
    assert (story.exit_code, story.outcomes) == (3, {name: Outcome.FAILED})
    assert crds.get(path)["spec"]["versions"][0]["name"] == OLD
    assert len(crds.get(path)["spec"]["versions"]) == 1
    assert f"{crd_name(kind)}, which would bring it, is left as it is" in story.problem(name)


@pytest.fixture
def kinds_proxy(running: Plane) -> Iterator[FaultProxy]:
    """A proxy in front of the plane for kinds."""
    with FaultProxy(running) as proxy:
        yield proxy


def test_version_that_a_crd_of_others_has_just_got_is_waited_for(
    crd_stage: Stage, kinds_proxy: FaultProxy, tmp_path: Path
) -> None:
    """One API server of several serves it later than the others, to the check and to the apply."""
    kind = "Lagging"
    name, plural = f"{kind.lower()}.x.example.com/f", f"{kind.lower()}s"
    others = replace(crd_stage, name="crds")
    assert others.run(_definition(kind, OLD, stored=OLD)).exit_code == 0
    stage = replace(crd_stage, kubeconfig=kinds_proxy.kubeconfig(tmp_path))
    run_ahead(stage)
    assert stage.run(_resource(kind, OLD), timeout=AGES).exit_code == 0
    assert others.run(_definition(kind, NEW, stored=NEW)).exit_code == 0

    def is_lagging(seen: Exchange) -> bool:
        of_kind = seen.path.startswith(f"/apis/x.example.com/{NEW}/") and plural in seen.path
        return of_kind and (seen.method == "PATCH" or seen.query.get("limit") == "1")

    kinds_proxy.rule = always(LAGGING, where=is_lagging)
    given = _resource(kind, NEW)
    dry = stage.run(given, dry_run=DryRun.SERVER)
    (step,) = dry.plan.applies
    assert (dry.exit_code, step.not_checked) == (0, NOT_SERVED), dry.events
    # The dry run, the look at the endpoint, and some tries of what changes the object.
    kinds_proxy.rule = first(9, LAGGING, where=is_lagging)
    story = stage.run(given, timeout=AGES, check=True)
    assert story.outcomes == {name: Outcome.UPDATED}, story.events
