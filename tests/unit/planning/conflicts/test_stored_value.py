"""Whether the server has stored a value as it was sent: its own forms are no change."""

from __future__ import annotations

import pytest

from applyprune.model.fieldset import MISSING
from applyprune.planning.conflicts import is_stored

SAME = [
    ("v", "v", ""),
    (1, 1, ""),
    (1.0, 1, ""),
    ("1000m", "1", "cpu"),
    (1, "1", "cpu"),
    (0.5, "500m", "cpu"),
    ("1024Ki", "1Mi", "memory"),
    ("1e3", "1k", "memory"),
    ("60m", "1h0m0s", "duration"),
    ("2026-11-21T12:00:00+02:00", "2026-11-21T10:00:00Z", "time"),
    ("YWJj\nZGVm\n", "YWJjZGVm", "key"),
    (None, MISSING, ""),
    ("", "TCP", "protocol"),
    ("", "10.96.0.7", "clusterIP"),
    (MISSING, "None", "clusterIP"),
    ({}, MISSING, ""),
    (False, MISSING, ""),
    (0, MISSING, ""),
    (0, 30080, "nodePort"),
    ({"a": 1}, {"a": 1, "filled": True}, ""),
    ([{"a": 1}, {"a": 2}], [{"a": 0}, {"a": 1, "b": 1}, {"a": 2}], "tolerations"),
    (["IPv4"], ["IPv4", "IPv6"], "ipFamilies"),
]
OTHER = [
    ("v", "w", ""),
    ("v", MISSING, ""),
    ("", "None", "clusterIP"),
    ("100m", "200m", "cpu"),
    ("1Mi", "1M", "memory"),
    (True, False, ""),
    (True, MISSING, ""),
    (False, True, ""),
    (1, True, ""),
    (0, 1, "replicas"),
    ("8080", "http", "targetPort"),
    ("1h", "2h", "duration"),
    ("2026-11-21T12:00:00Z", "2026-11-21T10:00:00Z", "time"),
    ("YWJj", "YWJk", "key"),
    ({"a": 1}, {"a": 2}, ""),
    ({"a": 1}, {}, ""),
    ({"a": 1}, "a", ""),
    (["a", "b"], ["a"], "args"),
    (["a"], ["a", "--more"], "args"),
    (["a", "b"], ["b", "a"], "args"),
    ([{"a": 1}], [{"a": 2}], "tolerations"),
    ([{"a": 1}], MISSING, "tolerations"),
]


@pytest.mark.parametrize(("wanted", "stored", "name"), SAME, ids=str)
def test_form_of_the_server_is_the_same_value(wanted: object, stored: object, name: str) -> None:
    """Also what it fills in, and what it drops because it is empty."""
    assert is_stored(wanted, stored, name)


@pytest.mark.parametrize(("wanted", "stored", "name"), OTHER, ids=str)
def test_other_value_is_no_form_of_the_same(wanted: object, stored: object, name: str) -> None:
    """A value that is gone counts too, unless it was empty."""
    assert not is_stored(wanted, stored, name)
