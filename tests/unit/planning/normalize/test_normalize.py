"""What is sent: the set's label, the namespace, and no stringData."""

from __future__ import annotations

from copy import deepcopy

from applyprune.planning.applyset import LAST_APPLIED, MANIFEST_DIGEST, OWNED_BY, PART_OF
from applyprune.planning.normalize import manifest_digest, normalize
from tests.support.planning import body


def test_callers_body_is_unchanged() -> None:
    """Values are never changed after they are made."""
    raw = body("Secret", stringData={"a": "x"}, metadata={"labels": {"l": "1"}})
    before = deepcopy(raw)
    normalize(raw, namespace="home", set_id="s")
    assert raw == before


def test_string_data_becomes_data_and_wins() -> None:
    """A key of stringData overwrites that of data, as the server does it; values are UTF-8."""
    raw = body("Secret", stringData={"a": "x", "b": "ü"}, data={"a": "eQ==", "c": "eg=="})
    sent = normalize(raw, namespace="home", set_id="s")
    assert sent["data"] == {"a": "eA==", "b": "w7w=", "c": "eg=="}
    assert "stringData" not in sent


def test_secret_digest_covers_keys_but_not_values() -> None:
    """Not even a digest of a value may be found out from the inventory."""
    one = normalize(body("Secret", data={"a": "eA=="}), namespace="h", set_id="s")
    other_value = normalize(body("Secret", data={"a": "eQ=="}), namespace="h", set_id="s")
    other_key = normalize(body("Secret", data={"b": "eA=="}), namespace="h", set_id="s")
    assert manifest_digest(one) == manifest_digest(other_value) != manifest_digest(other_key)


def test_label_and_namespace_are_set() -> None:
    """A cluster-scoped object loses a namespace that it may not have."""
    namespaced = normalize(body(metadata={"labels": {"l": "1"}}), namespace="home", set_id="s")
    assert namespaced["metadata"] == {
        "name": "a",
        "namespace": "home",
        "labels": {"l": "1", PART_OF: "s"},
    }
    cluster = normalize(body(metadata={"namespace": "x"}), namespace="", set_id="s")
    assert "namespace" not in cluster["metadata"]


def test_annotations_that_are_copied_along_are_left_out() -> None:
    """Those of live objects: one would hold the whole manifest, Secrets too."""
    copied = dict.fromkeys((LAST_APPLIED, MANIFEST_DIGEST, OWNED_BY), "{}")
    raw = body(metadata={"annotations": {**copied, "mine": "1"}})
    sent = normalize(raw, namespace="home", set_id="s")
    assert sent["metadata"]["annotations"] == {"mine": "1"}
