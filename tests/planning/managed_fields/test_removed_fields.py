"""Whether another manager owns what a manifest sets to null, by managedFields alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from applyprune.planning.managed_fields import is_contested
from tests.support.planning import TARGET, body, desired, live, managed

POINTER = '/spec/ports[name="http"]/appProtocol'


@pytest.mark.parametrize(
    ("item", "field", "contested"),
    [
        ('k:{"name":"http"}', "f:appProtocol", True),
        ('k:{"name":"other"}', "f:appProtocol", False),
        ('k:{"port":80,"protocol":"TCP"}', "f:appProtocol", True),
        ('k:{"port":80,"protocol":"TCP"}', "f:targetPort", False),
        ("f:http", "f:appProtocol", False),
    ],
)
def test_null_in_an_unread_item_may_be_contested(item: str, field: str, contested: bool) -> None:
    """The server may name an item by other keys: then only its values show which one it is."""
    one = replace(desired(body()), removed=(POINTER,))
    fields: dict[str, Any] = {"f:spec": {"f:ports": {item: {field: {}}}}}
    state = live(one.ref, entries=[{**managed("kubectl-edit"), "fieldsV1": fields}])
    assert is_contested(one, state, TARGET.manager) is contested
