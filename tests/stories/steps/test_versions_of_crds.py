"""CRDs that change under their custom resources: other versions, and other types of fields."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from applyprune.errors import InputError
from applyprune.localplane import Plane
from applyprune.model.events import ObjectDiff, ObjectDone
from applyprune.model.fate import Fate, Outcome
from applyprune.model.options import Conflicts, DryRun
from applyprune.values import replace
from tests.support.api import Api
from tests.support.clocks import AGES
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults, first
from tests.support.objects import config_map, crd, crd_name
from tests.support.stage import Stage
from tests.support.workloads import run_ahead

Body = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ALPHA, OLD, NEW = "v1alpha1", "v1beta1", "v1"
LAGGING = faults.answer(404, b"404 page not found\n", (("Content-Type", "text/plain"),))
NOT_SERVED = "its API version is not served yet: only its fields were compared with its CRD"


def _definition(kind: str, *served: str, stored: str = "", all_of: tuple[str, ...] = ()) -> Body:
    """Return a CRD with these versions, of which some are served; the last one is stored."""
    body = crd(kind)
    (version,) = body["spec"]["versions"]
    version["subresources"] = {"status": {}}
    version["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] = True
    body["spec"]["versions"] = [
        {**copy.deepcopy(version), "name": name, "served": name in served,
         "storage": name == (stored or served[-1])}
        for name in all_of or served
    ]  # fmt: skip
    return body


def _resource(kind: str, version: str, value: str = "1", name: str = "f", **notes: str) -> Body:
    metadata = {"name": name, "annotations": notes}
    return {
        "apiVersion": f"x.example.com/{version}",
        "kind": kind,
        "metadata": metadata,
        "spec": {"value": value},
    }


def _name(kind: str, name: str = "f") -> str:
    return f"{kind.lower()}.x.example.com/{name}"


def _path(stage: Stage, kind: str, version: str = NEW, name: str = "f") -> str:
    home = f"namespaces/{stage.namespace}/{kind.lower()}s"
    return f"/apis/x.example.com/{version}/{home}/{name}"


def _drop(crds: Api, stage: Stage, kind: str, body: Body) -> None:
    """Let the set's CRD have other versions, as if another run of the set had applied it."""
    versions = {"spec": {"versions": body["spec"]["versions"]}}
    crds.patch(f"{CRDS}/{kind.lower()}s.x.example.com", versions, by=stage.target.manager)


def _store_only_new(crds: Api, kind: str) -> None:
    path = f"{CRDS}/{kind.lower()}s.x.example.com/status"
    crds.patch(path, {"status": {"storedVersions": [NEW]}})


# A version that comes with the CRD of the input, and one that goes.


def test_version_is_turned_off_while_another_is_served(crd_stage: Stage, crds: Api) -> None:
    """Objects in it are refused; in the other one, none is re-created, and none pruned.

    Slow: the server takes some seconds to serve another version.
    """
    kind, stage = "Grows", crd_stage
    old = [_resource(kind, OLD, name=one) for one in "ab"]
    assert stage.run(_definition(kind, OLD), *old).exit_code == 0
    given = _resource(kind, NEW, "2", name="a"), old[1]
    assert stage.run(_definition(kind, OLD, NEW), *given).exit_code == 0
    uid = crds.get(_path(stage, kind, name="a"))["metadata"]["uid"]
    off = _definition(kind, NEW, all_of=(OLD, NEW))
    for _ in range(2):  # by the run that would turn it off, and after it
        with pytest.raises(InputError, match=f"no matches for kind Grows in .*/{OLD}") as caught:
            stage.run(off, *given)
        assert f"serves x.example.com/{NEW}" in caught.value.hint
        _drop(crds, stage, kind, off)
    assert stage.listed() == {crd_name(kind), _name(kind, "a"), _name(kind, "b")}
    story = stage.run(off, given[0])
    assert story.exit_code == 0, story.events
    assert story.outcomes[_name(kind, "b")] is Outcome.PRUNED
    assert crds.get(_path(stage, kind, name="a"))["metadata"]["uid"] == uid


CHANGED = {
    "Replaced": ((NEW,), NEW),
    "Beside": ((OLD, NEW), OLD),
    "Moved": ((OLD, NEW), NEW),
    "StoredOld": ((NEW,), OLD),
}
"""Which versions each kind serves afterwards, and which one is stored."""


def test_version_that_the_crd_of_the_input_brings_is_not_checked(crd_stage: Stage) -> None:
    """It is there when the object is applied. Whatever of the kind leaves the set goes as well.

    Slow: the server takes some seconds to serve another version.
    """
    before: list[Body] = []
    after: list[Body] = []
    outcomes: dict[str, Outcome] = {}
    kept = {"applyprune.dev/prune": "disabled"}
    ends = {"f": Outcome.UPDATED, "left": Outcome.PRUNED, "orphan": Outcome.ORPHANED}
    for kind, (served, stored) in CHANGED.items():
        before += [_definition(kind, OLD), _resource(kind, OLD), _resource(kind, OLD, name="left")]
        before += [_resource(kind, OLD, name="orphan", **kept)]
        both = _definition(kind, *served, stored=stored, all_of=(OLD, NEW))
        after += [both, _resource(kind, NEW, "2")]
        outcomes |= {crd_name(kind): Outcome.UPDATED}
        outcomes |= {_name(kind, name): outcome for name, outcome in ends.items()}
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
    kind, path = "Skipped", f"{CRDS}/skippeds.x.example.com"
    definition = _definition(kind, OLD)
    assert crd_stage.run(definition, _resource(kind, OLD)).exit_code == 0
    columns = [{"name": "A", "type": "string", "jsonPath": ".spec.a"}]
    (version,) = definition["spec"]["versions"]
    theirs = {"spec": {"versions": [{**version, "additionalPrinterColumns": columns}]}}
    crds.patch(path, theirs, by="hand")
    after = _definition(kind, NEW, all_of=(OLD, NEW))
    after["metadata"]["annotations"] = {"applyprune.dev/conflicts": "skip"}
    story = crd_stage.run(after, _resource(kind, NEW), check=True)
    name = _name(kind)
    assert (story.exit_code, story.outcomes) == (3, {name: Outcome.FAILED})
    assert [one["name"] for one in crds.get(path)["spec"]["versions"]] == [OLD]
    assert f"{crd_name(kind)}, which would bring it, is left as it is" in story.problem(name)


@pytest.mark.holds("version-of-a-refused-crd")
def test_resource_of_a_refused_crd_is_applied_only_in_a_version_that_is_served(
    crd_stage: Stage,
) -> None:
    """The CRD drops a version in which objects are stored; the run has not been checked."""
    kinds = ("RefusedServed", "Refused")
    old = [_resource(kind, ALPHA) for kind in kinds]
    new = [*(_resource(kind, NEW, "2") for kind in kinds), config_map("a")]
    first = [_definition(kind, ALPHA) for kind in kinds]
    both = [_definition(kind, ALPHA, NEW) for kind in kinds]
    assert crd_stage.run(*first, *old).exit_code == 0
    # The first one is stored as before, and served in both versions.
    assert crd_stage.run(both[0], first[1], *old).exit_code == 0
    story = crd_stage.run(*(_definition(kind, NEW) for kind in kinds), *new, check=False)
    served, refused = map(_name, kinds)
    assert (story.exit_code, story.outcomes) == (3, {
        **dict.fromkeys(map(crd_name, kinds), Outcome.FAILED),
        served: Outcome.UPDATED,
        refused: Outcome.SKIPPED,
        "configmap/a": Outcome.CREATED,
    })  # fmt: skip
    for kind in kinds:
        assert "storedVersions" in story.problem(crd_name(kind))
    told = f"it depends on {crd_name(kinds[1])}, which was not applied"
    assert story.problem(refused).endswith(told)
    assert crd_stage.run(*both, *new).exit_code == 0


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
    name, plural = _name(kind), f"{kind.lower()}s"
    others = replace(crd_stage, name="crds")
    assert others.run(_definition(kind, OLD)).exit_code == 0
    stage = replace(crd_stage, kubeconfig=kinds_proxy.kubeconfig(tmp_path))
    run_ahead(stage)
    assert stage.run(_resource(kind, OLD), timeout=AGES).exit_code == 0
    assert others.run(_definition(kind, NEW, all_of=(OLD, NEW))).exit_code == 0

    def is_lagging(seen: Exchange) -> bool:
        of_kind = seen.path.startswith(f"/apis/x.example.com/{NEW}/") and plural in seen.path
        return of_kind and (seen.method == "PATCH" or seen.query.get("limit") == "1")

    kinds_proxy.rule = always(LAGGING, where=is_lagging)
    given = _resource(kind, NEW, "2")
    dry = stage.run(given, dry_run=DryRun.SERVER)
    (step,) = dry.plan.applies
    assert (dry.exit_code, step.not_checked) == (0, NOT_SERVED), dry.events
    # The dry run, the look at the endpoint, and some tries of what changes the object.
    kinds_proxy.rule = first(9, LAGGING, where=is_lagging)
    story = stage.run(given, timeout=AGES, check=True)
    assert story.outcomes == {name: Outcome.UPDATED}, story.events


# A version that is served no more, in which another controller has written.


def _controllers_entry(found: Body) -> Body:
    (entry,) = (one for one in found["metadata"]["managedFields"] if one["manager"] == "ctrl")
    return {key: entry[key] for key in ("apiVersion", "operation", "subresource", "fieldsV1")}


def test_change_after_a_version_was_dropped(crd_stage: Stage, crds: Api) -> None:
    """By the set itself in the same run, or by somebody else before it; also of no value."""
    values = {"DroppedHere": "3", "DroppedThere": "3", "DroppedSame": "2"}
    old = [_resource(kind, ALPHA) for kind in values]
    assert crd_stage.run(*(_definition(kind, ALPHA) for kind in values), *old).exit_code == 0
    before = {}
    for kind in values:
        path = _path(crd_stage, kind, ALPHA)
        crds.patch(f"{path}/status", {"status": {"phase": "Up"}}, by="ctrl")
        before[kind] = _controllers_entry(crds.get(path))
    moved = [_resource(kind, NEW, "2") for kind in values]
    both = [_definition(kind, ALPHA, NEW) for kind in values]
    assert crd_stage.run(*both, *moved).exit_code == 0
    given: list[Body] = []
    for kind, value in values.items():
        _store_only_new(crds, kind)
        if kind != "DroppedHere":
            _drop(crds, crd_stage, kind, _definition(kind, NEW))
        given += [_definition(kind, NEW), _resource(kind, NEW, value)]
    dry = crd_stage.run(*given, dry_run=DryRun.SERVER, diff=True, conflicts=Conflicts.FORCE)
    assert [str(one.problem) for one in dry.of(ObjectDone) if one.problem] == []
    shown = {one.ref.kind: one.after or {} for one in dry.of(ObjectDiff)}
    story = crd_stage.run(*given, conflicts=Conflicts.FORCE)
    again = crd_stage.run(*given)
    for kind, value in values.items():
        name = _name(kind)
        assert shown[kind]["spec"] == {"value": value}
        assert dry.outcomes[name] is story.outcomes[name] is Outcome.UPDATED
        found = crds.get(_path(crd_stage, kind))
        assert (found["spec"], found["status"]) == ({"value": value}, {"phase": "Up"})
        # Only the version of the other manager's entry has changed.
        assert _controllers_entry(found) == {**before[kind], "apiVersion": "x.example.com/v1"}
        assert again.outcomes[name] is Outcome.UNCHANGED


@pytest.mark.holds("two-entries-of-a-manager")
def test_both_entries_of_a_manager_keep_their_fields(crd_stage: Stage, crds: Api) -> None:
    """It has written in the dead version and in a served one: the server keeps one entry."""
    kind = "Twice"
    both = _definition(kind, ALPHA, NEW)
    assert crd_stage.run(both, _resource(kind, NEW)).exit_code == 0
    for version in (ALPHA, NEW):
        theirs = {"spec": {f"by-{version}": "theirs"}}
        crds.patch(_path(crd_stage, kind, version), theirs, by="ctrl")
    _store_only_new(crds, kind)
    assert crd_stage.run(_definition(kind, NEW), _resource(kind, NEW, "2")).exit_code == 0
    entries = crds.get(_path(crd_stage, kind))["metadata"]["managedFields"]
    (entry,) = (one for one in entries if one["manager"] == "ctrl")
    assert entry["fieldsV1"]["f:spec"].keys() - {"."} == {"f:by-v1alpha1", "f:by-v1"}


def _grown(*names: str) -> Body:
    """Return a CRD with a strict schema, in which v1 has one more field, with a default."""
    body = _definition("Grown", *names)
    for version in body["spec"]["versions"]:
        spec: Body = {"value": {"type": "string"}, "more": {"type": "string"}}
        if version["name"] == NEW:
            spec["mode"] = {"type": "string", "default": "fast"}
        phase = {"type": "object", "properties": {"phase": {"type": "string"}}}
        parts = {"spec": {"type": "object", "properties": spec}, "status": phase}
        version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": parts}}
    return body


@pytest.mark.holds("entries-of-other-versions")
def test_change_beside_an_entry_of_a_version_that_lacks_a_default(
    crd_stage: Stage, crds: Api
) -> None:
    """The older version is still served; the server can convert the object to it no more."""
    name, old = _name("Grown"), _path(crd_stage, "Grown", ALPHA)
    assert crd_stage.run(_grown(ALPHA), _resource("Grown", ALPHA)).exit_code == 0
    crds.patch(f"{old}/status", {"status": {"phase": "Up"}}, by="ctrl")
    before = _controllers_entry(crds.get(old))
    grown = _grown(ALPHA, NEW)
    assert crd_stage.run(grown, _resource("Grown", NEW, "2")).exit_code == 0
    for value, check in (("3", False), ("4", True)):
        given = (grown, _resource("Grown", NEW, value))
        dry = crd_stage.run(*given, dry_run=DryRun.SERVER, diff=True)
        assert dry.exit_code == 0, dry.events
        (shown,) = dry.of(ObjectDiff)
        assert (shown.after or {})["spec"] == {"value": value, "mode": "fast"}
        story = crd_stage.run(*given, check=check)
        assert story.outcomes[name] is Outcome.UPDATED, story.events
    found = crds.get(_path(crd_stage, "Grown"))
    assert (found["spec"], found["status"]) == ({"value": "4", "mode": "fast"}, {"phase": "Up"})
    assert _controllers_entry(found) == {**before, "apiVersion": "x.example.com/v1"}
    # What the manifest itself has wrong is said as such, and nothing is rewritten for it.
    wrong = _resource("Grown", NEW, "5")
    wrong["spec"]["unknown"] = "x"
    assert "unknown" in crd_stage.run(grown, wrong).problem(name)


# A type that changes: no apply changes the stored value, only a recreation does.

STORED = "its stored values do not fit the schema of its CRD"
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
LIST, MAP = {"type": "array", "items": TEXT}, {"type": "object", "properties": {"b": TEXT}}


def _typed(kind: str, schema: Body) -> Body:
    body = crd(kind)
    (version,) = body["spec"]["versions"]
    spec = {"type": "object", "properties": {"a": schema, "c": TEXT}}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return body


def _valued(kind: str, value: Any, **notes: str) -> Body:
    return {
        "apiVersion": "x.example.com/v1",
        "kind": kind,
        "metadata": {"name": "f", "annotations": notes},
        "spec": {"c": "same"} if value is None else {"a": value},
    }


TYPES: dict[str, tuple[Any, Any, Any, Any]] = {
    "ToNumber": (TEXT, "x", NUMBER, 5),
    "ToText": (NUMBER, 5, TEXT, "x"),
    "ToMap": (LIST, ["x"], MAP, {"b": "x"}),
    "Emptied": (TEXT, "x", NUMBER, None),
    # Nobody owns the default that is stored, and the manifest stays as it is.
    "Default": ({**TEXT, "default": "x"}, None, NUMBER, None),
}
"""Of each kind: a type, a value, the type that comes, and a value for it."""


@pytest.mark.holds("stored-values-first")
def test_stored_values_are_judged_before_their_crd_changes(crd_stage: Stage, crds: Api) -> None:
    """Nothing is written, unless a recreation is allowed: then one run does both."""
    names = {kind: f"{kind.lower()}.x.example.com/f" for kind in TYPES}
    old: list[Body] = []
    new: list[Body] = []
    for kind, (before, was, after, value) in TYPES.items():
        old += [_typed(kind, before), _valued(kind, was)]
        new += [_typed(kind, after), _valued(kind, value)]

    def read() -> Body:
        home = f"/apis/x.example.com/v1/namespaces/{crd_stage.namespace}"
        return {kind: crds.get(f"{home}/{kind.lower()}s/f") for kind in TYPES}

    assert crd_stage.run(*old).exit_code == 0
    first = read()
    refused = crd_stage.run(*new, check=True)
    assert (refused.exit_code, refused.outcomes) == (
        3, dict.fromkeys(names.values(), Outcome.FAILED)
    )  # fmt: skip
    for name in names.values():
        assert f"{STORED}: spec.a: expected " in refused.problem(name)
        assert "--recreate deletes and creates it" in refused.problem(name)
        assert "quotes" not in refused.problem(name)
    assert read() == first
    dry = crd_stage.run(*new, dry_run=DryRun.SERVER, recreate=True)
    assert {dry.outcomes[name] for name in names.values()} == {Outcome.RECREATED}
    story = crd_stage.run(*new, check=True, recreate=True)
    assert story.outcomes == {
        **dict.fromkeys(map(crd_name, TYPES), Outcome.UPDATED),
        **dict.fromkeys(names.values(), Outcome.RECREATED),
    }, story.events
    for kind, found in read().items():
        assert found["spec"] == _valued(kind, TYPES[kind][3])["spec"]
        assert found["metadata"]["uid"] != first[kind]["metadata"]["uid"]
    assert set(crd_stage.run(*new).outcomes.values()) == {Outcome.UNCHANGED}


def test_stored_values_in_a_version_that_the_crd_replaces(crd_stage: Stage, crds: Api) -> None:
    """Nothing but a deletion before that helps; without a webhook, the values stay as they are."""
    kind, name = "Replaces", "replaces.x.example.com/f"

    def definition(*served: str) -> Body:
        versions = [
            {**version, "name": number, "served": number in served, "storage": number == served[-1]}
            for number, schema in (("v1beta1", TEXT), ("v1", NUMBER))
            for version in _typed(kind, schema)["spec"]["versions"]
        ]
        body = crd(kind)
        body["spec"]["versions"] = versions
        return body

    old = {**_valued(kind, "x"), "apiVersion": "x.example.com/v1beta1"}
    assert crd_stage.run(definition("v1beta1"), old).exit_code == 0
    new = (definition("v1"), _valued(kind, 5))
    refused = crd_stage.run(*new, check=True, recreate=True)
    assert (refused.exit_code, refused.outcomes) == (3, {name: Outcome.FAILED})
    assert f"{STORED}: spec.a: expected integer, got string" in refused.problem(name)
    assert f"Delete it before the CRD changes: kubectl delete {name}" in refused.problem(name)
    path = f"/apis/x.example.com/v1beta1/namespaces/{crd_stage.namespace}/replacess/f"
    assert crds("DELETE", path)[0] == 200
    story = crd_stage.run(*new, check=True)
    assert story.outcomes == {crd_name(kind): Outcome.UPDATED, name: Outcome.CREATED}


@pytest.mark.holds("stored-by-others")
def test_stored_values_of_others_are_not_deleted(crd_stage: Stage, crds: Api) -> None:
    """Somebody else has written the value that does not fit, whatever the set is allowed."""
    kind = "Foreign"
    assert crd_stage.run(_typed(kind, TEXT), _valued(kind, None)).exit_code == 0
    path = f"/apis/x.example.com/v1/namespaces/{crd_stage.namespace}/foreigns/f"
    crds.patch(path, {"spec": {"a": "x"}}, by="hand")
    new = _typed(kind, NUMBER)
    story = crd_stage.run(new, _valued(kind, None), check=True, recreate=True)
    name = "foreign.x.example.com/f"
    assert (story.exit_code, story.outcomes) == (3, {name: Outcome.FAILED})
    assert "It cannot be recreated: hand owns the field too." in story.problem(name)


@pytest.mark.holds("recreation-tried-late")
def test_nothing_is_deleted_for_a_crd_that_does_not_change_after_all(
    crd_stage: Stage, crds: Api, running: Plane, tmp_path: Path
) -> None:
    """The run has planned the recreation, and the server refuses the CRD in the end."""
    kind, name = "Unmoved", "unmoved.x.example.com/f"
    assert crd_stage.run(_typed(kind, TEXT), _valued(kind, "x")).exit_code == 0
    path = f"/apis/x.example.com/v1/namespaces/{crd_stage.namespace}/unmoveds/f"
    uid = crds.get(path)["metadata"]["uid"]
    refused = faults.status(422, reason="Invalid", message="no such CRD")

    def is_write(seen: Exchange) -> bool:
        is_patch = seen.method == "PATCH" and seen.path == f"{CRDS}/unmoveds.x.example.com"
        return is_patch and "dryRun" not in seen.query

    with FaultProxy(running) as proxy:
        proxy.rule = always(refused, where=is_write)
        stage = replace(crd_stage, kubeconfig=proxy.kubeconfig(tmp_path))
        story = stage.run(_typed(kind, NUMBER), _valued(kind, 5), check=True, recreate=True)
    (step,) = (one for one in story.plan.applies if one.desired.ref.short == name)
    assert step.fate is Fate.RECREATE
    assert story.outcomes == {crd_name(kind): Outcome.FAILED, name: Outcome.FAILED}
    assert crds.get(path)["metadata"]["uid"] == uid
