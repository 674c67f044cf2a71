"""The items that nobody owns of a list that a set owns in part: remains, and what looks like it."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fieldset import to_server
from applyprune.model.identity import Ref
from applyprune.planning.managed_fields import unowned_items
from tests.support.planning import TARGET, live, managed

Body = dict[str, Any]
REF = Ref("x.io", "Widget", "home", "w")
NAMED = 'k:{"name":"one"}'
OURS = {
    "f:parts": {NAMED: {"f:name": {}}},
    "f:tags": {'v:"one"': {}},
    "f:whole": {},
    "f:port": {'k:{"number":1,"protocol":"TCP"}': {".": {}}},
}
TWO = {"name": "two"}


def _found(
    spec: Body, *others: Body, created: Body | None = None, ours: Body | None = None, **own: Any
) -> list[str]:
    entry = managed(**own)
    entry["fieldsV1"] = {"f:spec": ours or OURS}
    state = live(REF, entries=[entry, *others], full={"spec": spec})
    new = None if created is None else {"spec": created}
    return [to_server(path) for path in unowned_items(state, TARGET.manager, new)]


def _other(fields: Body, **parts: Any) -> Body:
    return managed("other", operation="Update", **parts) | {"fieldsV1": {"f:spec": fields}}


SPEC: Body = {
    "parts": [{"name": "one"}, TWO],
    "tags": ["one", "two"],
    "whole": ["one", "two"],
    "port": [{"number": 1}, {"number": 2, "protocol": "TCP"}],
    "mode": "a default",
}
ALL = ['.spec.parts[name="two"]', '.spec.tags[="two"]', '.spec.port[number=2,protocol="TCP"]']
CASES: dict[str, tuple[tuple[Body, ...], Body | None, list[str]]] = {
    "nobody owns them": ((), None, ALL),
    "a part of one is owned": (
        (_other({"f:parts": {'k:{"name":"two"}': {"f:value": {}}}}),), None, ALL[1:],
    ),
    "one list is owned as a whole": ((_other({"f:tags": {}}),), None, [ALL[0], ALL[2]]),
    "everything is": ((_other({}) | {"fieldsV1": {"f:spec": {}}},), None, []),
    "the list itself is owned, without its items": ((_other({"f:tags": {".": {}}}),), None, ALL),
    "another version may name them": (
        (_other({"f:labels": {}}, apiVersion="x.io/v0"),), None, [],
    ),
    "created without them": (
        (), {"parts": [{"name": "one"}], "tags": ["one"], "port": [{"number": 1}]}, ALL,
    ),
    "created with one of them": (
        (), {"parts": [{"name": "one"}], "tags": ["one", "two"], "port": [{"number": 1}]},
        [ALL[0], ALL[2]],
    ),
    "created with an item of a random name": (
        (), {"parts": [{"name": "one"}, {"name": "x-7f3a"}], "tags": [], "port": []}, ALL[1:],
    ),
    "created without the list": ((), {"tags": ["one"]}, ALL[1:2]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_item_that_nobody_owns_is_found(name: str) -> None:
    """An item of the server, of a webhook or of another manager is none."""
    others, created, expected = CASES[name]
    assert _found(SPEC, *others, created=created) == expected


def test_lists_inside_items_are_searched() -> None:
    """With the item around them, but not inside what nobody owns."""
    inner: Body = {"f:env": {NAMED: {".": {}}}}
    ours = {"f:parts": {NAMED: {".": {}, **inner}}}
    spec = {"parts": [{"name": "one", "env": [{"name": "one"}, TWO]}, {**TWO, "env": [TWO]}]}
    found = ['.spec.parts[name="two"]', '.spec.parts[name="one"].env[name="two"]']
    assert _found(spec, ours=ours) == found


def test_set_without_an_entry_owns_no_list() -> None:
    """Then everything may be somebody else's."""
    state = live(REF, entries=[_other({})], full={"spec": SPEC})
    assert [*unowned_items(state, TARGET.manager)] == []
    assert _found({"whole": ["one", "two"]}, ours={"f:whole": {}}) == []
