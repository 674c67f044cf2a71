"""The oracle of the sweeps: who has written what, by the audit log."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.replicas import check_written_once, deleted, written


def write(name: str, value: str, version: int, who: str, query: str = "") -> dict[str, Any]:
    """Return the audit event of an apply."""
    return {
        "verb": "patch",
        "requestURI": f"/api/v1/namespaces/shop/configmaps/{name}?fieldManager=applyprune{query}",
        "userAgent": f"applyprune/0.1.0 (linux/amd64; {who}) run/0123456789ab",
        "objectRef": {"resource": "configmaps", "namespace": "shop", "name": name},
        "responseStatus": {"code": 200},
        "responseObject": {
            "kind": "ConfigMap",
            "metadata": {"name": name, "resourceVersion": str(version)},
            "data": {"key": value},
        },
    }


ONCE = [write("a", "1", 5, "one"), write("b", "1", 6, "two"), write("a", "2", 7, "two")]
TWICE = {
    "by another replica": [*ONCE, write("a", "2", 8, "one")],
    "by itself": [*ONCE, write("a", "2", 8, "two")],
    "back to an older value": [*ONCE, write("b", "2", 8, "one"), write("b", "1", 9, "one")],
    "an older value, late": [*ONCE, write("b", "9", 8, "one"), write("b", "8", 9, "two")],
}


def test_each_object_was_changed_once_for_each_value() -> None:
    """A second request that changes nothing has the old resourceVersion; a check writes nothing."""
    events = [*ONCE, write("a", "2", 7, "one"), write("b", "2", 8, "one", "&dryRun=All")]
    assert written(events, "shop") == {
        ("a", "1"): ["one"],
        ("b", "1"): ["two"],
        ("a", "2"): ["two"],
    }
    check_written_once(events, "shop")
    assert deleted(events, "shop") == {}


@pytest.mark.parametrize("case", TWICE)
def test_second_change_is_found(case: str) -> None:
    """Whoever has made it."""
    with pytest.raises(AssertionError):
        check_written_once(TWICE[case], "shop")
