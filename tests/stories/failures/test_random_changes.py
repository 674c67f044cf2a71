"""100 random changes from outside over more than 25 kinds: each is seen, and put back."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote

import pytest

from applyprune.localplane import Binaries, Plane, PlaneSpec, start
from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts
from applyprune.planning.applyset import OWNED_BY, PART_OF, ApplySetIdentity
from tests.support.api import Api, AuditTrail
from tests.support.samples import JSON, OTHERS_FIELDS, SAMPLES, Sample
from tests.support.stage import Stage

# No controllers: what they write at any moment would make a forced apply, which holds for the
# object as it was read, fail now and then. test_outside_changes has them.
BARE = PlaneSpec(controller_manager=False, scheduler=False, kwok=False, nodes=0, audit=True)

SEEDS = range(10)
A_SEED = 10
"""So many changes are counted for each seed, each of another object, before the next run."""

Path: TypeAlias = tuple[str, ...]
"""The way to a field as ``fieldsV1`` writes it: ``f:spec``, ``k:{"name":"web"}``."""


MERGE = "application/merge-patch+json"
SET_LABEL = ("f:metadata", "f:labels", f"f:{PART_OF}")
WITNESS = ("f:metadata", "f:annotations", f"f:{OWNED_BY}")
"""An apply never puts this back: without it, the object counts as adopted."""
WAYS = ("merge patch", "JSON patch", "PUT", "another's apply", "our own name", "removal")


@pytest.fixture(scope="module")
def running(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane of the module's own: half of the kinds belong to a whole cluster."""
    with start(binaries, BARE, tmp_path_factory.mktemp("planes") / "random") as plane:
        yield plane


@pytest.fixture
def bare(running: Plane) -> Iterator[Api]:
    """Plain requests to it."""
    api = Api(running)
    yield api
    api.close()


def _fields(node: Mapping[str, JSON], at: Path = ()) -> Iterator[Path]:
    """Yield the way to each leaf of a ``fieldsV1``, and to each list item that is owned as such."""
    for key, inside in node.items():
        if key == ".":
            if at and at[-1].startswith("k:"):
                yield at
        elif not inside:
            yield (*at, key)
        else:
            yield from _fields(inside, (*at, key))


def _is_key(path: Path) -> bool:
    """Say whether a leaf is the key of its list item: changed, it is another item beside ours."""
    return len(path) > 1 and path[-2].startswith("k:") and path[-1][2:] in json.loads(path[-2][2:])


def _pointer(body: JSON, path: Path) -> list[str | int] | None:
    """Return where a field is in an object, None when it is not there."""
    found: list[str | int] = []
    for step in path:
        key: str | int | None
        if step.startswith("f:"):
            key = step[2:] if isinstance(body, dict) and step[2:] in body else None
        else:
            wanted = json.loads(step[2:])
            items = body if isinstance(body, list) else []
            is_map = step.startswith("k:")
            hits = (
                number
                for number, item in enumerate(items)
                if (wanted.items() <= item.items() if is_map else item == wanted)
            )
            key = next(hits, None)
        if key is None:
            return None
        found.append(key)
        body = body[key]
    return found


def _at(body: JSON, pointer: list[str | int]) -> JSON:
    for key in pointer:
        body = body[key]
    return body


def _set(body: JSON, pointer: list[str | int], value: JSON) -> None:
    _at(body, pointer[:-1])[pointer[-1]] = value


def _owned(live: JSON, manager: str) -> dict[Path, JSON]:
    """Return what our manager's apply owns of an object, with the values."""
    (entry,) = [
        one
        for one in live["metadata"]["managedFields"]
        if (one["manager"], one["operation"]) == (manager, "Apply")
    ]
    found = {}
    for path in _fields(entry["fieldsV1"]):
        if path == WITNESS:
            continue
        pointer = _pointer(live, path)
        assert pointer is not None, path
        found[path] = copy.deepcopy(_at(live, pointer))
    return found


def _values(live: JSON, paths: Iterable[Path]) -> dict[Path, JSON]:
    """Return the values of fields, None for missing ones."""
    found = {path: _pointer(live, path) for path in paths}
    return {path: pointer and _at(live, pointer) for path, pointer in found.items()}


def _other(rng: random.Random, value: JSON) -> JSON:
    """Return another value of the same shape; the server may not like it."""
    match value:
        case bool():
            return not value
        case int():
            return value + rng.choice((1, 2, 5))
        case str():
            return rng.choice((f"{value}x", f"1{value}", f"{value}1", "Never", "Always"))
        case list() if len(value) > 1 and rng.random() < 0.5:
            return rng.choice((value[::-1], value[1:]))
        case list() if value:
            return [_other(rng, value[0]), *value[1:]]
        case dict() if value:
            key = rng.choice(sorted(value))
            return {**value, key: _other(rng, value[key])}
        case _:
            return "x"


def _merged(live: JSON, pointer: list[str | int], value: JSON) -> JSON:
    """Return the JSON merge patch that sets a field: a list on the way goes as a whole."""
    if not pointer:
        return value
    if isinstance(live, list):
        changed = copy.deepcopy(live)
        _set(changed, pointer, value)
        return changed
    key = pointer[0]
    return {key: _merged(live[key], pointer[1:], value)}


def _stated(path: Path, value: JSON) -> JSON:
    """Return the smallest manifest that contains a field."""
    if not path:
        return value
    inside = _stated(path[1:], value)
    if path[0].startswith("f:"):
        return {path[0][2:]: inside}
    wanted = json.loads(path[0][2:])
    return [{**wanted, **inside} if isinstance(inside, dict) else wanted]


@dataclass(frozen=True, slots=True)
class Change:
    """One change from outside that the server took: ``way``, of ``path``, in ``sample``."""

    sample: Sample
    path: Path
    way: str


def _draw(rng: random.Random, api: Api, sample: Sample, target: ApplySetIdentity) -> Change | None:
    """Try one change of an owned field; None when the server refuses it, or takes it for none."""
    live = api.get(sample.path)
    owned = _owned(live, target.manager)
    way = rng.choice(WAYS)
    path = rng.choice([one for one in owned if not _is_key(one)])
    pointer = _pointer(live, path)
    assert pointer is not None
    value = _other(rng, owned[path])
    if way != "removal" and (path == SET_LABEL or not path[-1].startswith("f:")):
        # Our label with another value says that the object is another set's; and a list item has
        # no other value: with another key it is another item.
        return None
    query, body, content_type = "", value, "application/json"
    match way:
        case "merge patch":
            body, content_type = _merged(live, pointer, value), MERGE
        case "JSON patch" | "removal":
            where = "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in pointer)
            operation = {"op": "replace", "path": where, "value": value}
            body = [{"op": "remove", "path": where} if way == "removal" else operation]
            content_type = "application/json-patch+json"
        case "PUT":
            body = copy.deepcopy(live)
            _set(body, pointer, value)
        case _:
            manager, content_type = "other", "application/apply-patch+yaml"
            stated = _stated(path, value)
            body = {key: live[key] for key in ("apiVersion", "kind")} | stated
            body["metadata"] = {**stated.get("metadata", {}), "name": live["metadata"]["name"]}
            if way == "our own name":
                # The whole manifest as we sent it, but for this one field.
                manager, body = target.manager, copy.deepcopy(sample.body)
                body["metadata"]["labels"][PART_OF] = target.id
                if (there := _pointer(body, path)) is None:
                    return None
                _set(body, there, value)
            query = f"?force=true&fieldManager={quote(manager, safe='')}"
    method = {"application/json": "PUT"}.get(content_type, "PATCH")
    status, _ = api(method, f"{sample.path}{query}", body, content_type=content_type)
    if status != 200 or _values(api.get(sample.path), owned) == owned:
        return None
    return Change(sample, path, way)


def test_hundred_random_changes_are_seen_and_reverted(running: Plane, bare: Api) -> None:
    """Each by the next run; the same run leaves unchanged objects alone.

    Slow: more than 25 kinds are read, changed and applied ten times.
    """
    stage = Stage(running.kubeconfig, "default")
    bodies = [sample.body for sample in SAMPLES]
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.CREATED}
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    owned = {one.path: _owned(bare.get(one.path), stage.target.manager) for one in SAMPLES}
    changes: list[Change] = []
    wrong: list[str] = []
    for seed in SEEDS:
        rng = random.Random(seed)  # noqa: S311 - no secret
        batch: dict[str, Change] = {}
        for sample in rng.sample(SAMPLES, len(SAMPLES)):
            if len(batch) < A_SEED and (change := _draw(rng, bare, sample, stage.target)):
                batch[sample.kind] = change
        story = stage.run(*bodies, conflicts=Conflicts.FORCE)
        ended = {one.ref.kind: one for one in story.of(ObjectDone)}
        for one in SAMPLES:
            expected = Outcome.UPDATED if one.kind in batch else Outcome.UNCHANGED
            now = _values(bare.get(one.path), owned[one.path])
            if ended[one.kind].outcome is not expected or now != owned[one.path]:
                told = {path: now[path] for path in now if now[path] != owned[one.path][path]}
                wrong.append(f"{seed}: {batch.get(one.kind)}: {ended[one.kind]}: {told}")
        changes += batch.values()
    assert not wrong, "\n".join(wrong)
    assert len(changes) == 100
    assert len({one.sample.kind for one in changes}) >= 25
    assert {one.way for one in changes} == set(WAYS)
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}


STATUS: dict[str, dict[str, Any]] = {
    "Deployment": {"observedGeneration": 1},
    "Pod": {"message": "of others"},
    "Namespace": {"phase": "Active"},
    "PersistentVolumeClaim": {"phase": "Pending"},
    "ResourceQuota": {"used": {"pods": "1"}},
    "Ingress": {"loadBalancer": {"ingress": [{"ip": "10.9.8.7"}]}},
}


def test_random_changes_to_fields_of_others_cause_no_write(running: Plane, bare: Api) -> None:
    """Labels, annotations, fields and status of others over all kinds: by the log, no request."""
    stage = Stage(running.kubeconfig, "default")
    bodies = [sample.body for sample in SAMPLES]
    stage.run(*bodies)
    marks = {"metadata": {"labels": {"foreign": "1"}, "annotations": {"foreign": "1"}}}
    before = {}
    for sample in SAMPLES:
        patch = {**OTHERS_FIELDS.get(sample.kind, {}), **marks}
        bare.patch(sample.path, patch)
        if told := STATUS.get(sample.kind):
            path = f"{sample.path}/status"
            bare.patch(path, {"status": told})
        before[sample.path] = bare.get(sample.path)
    audit = AuditTrail(running, bare)
    assert set(stage.run(*bodies).outcomes.values()) == {Outcome.UNCHANGED}
    ours = audit.ours()
    assert {one["verb"] for one in ours} == {"get", "list"}
    assert {path: bare.get(path) for path in before} == before
