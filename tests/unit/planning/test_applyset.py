"""The marks of a set: formats of KEP-3659, and a field manager of its own."""

from __future__ import annotations

import base64
import hashlib

import pytest

from applyprune.errors import UsageError
from applyprune.model.identity import Ref
from applyprune.planning.applyset import applyset_annotations, applyset_identity, hinted_namespaces


def test_id_matches_the_published_test_vectors() -> None:
    """kubectl's apply_test.go: Secret my-set in test → applyset-0eFHV8y…; ours, by that formula."""

    def formula(text: str) -> str:
        digest = hashlib.sha256(text.encode()).digest()
        return f"applyset-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}-v1"

    assert formula("my-set.test.Secret.") == (
        "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1"
    )
    assert applyset_identity("set1", "foo").id == formula("applyprune-set1.foo.ConfigMap.")


def test_two_sets_share_neither_id_nor_field_manager() -> None:
    """One manager for two sets lets each strip the other's fields without a conflict."""
    sets = [applyset_identity(name, ns) for name in ("a", "b") for ns in ("x", "y")]
    assert len({one.id for one in sets}) == len({one.manager for one in sets}) == 4


@pytest.mark.parametrize(("name", "namespace"), [("n" * 63, "s" * 63), ("web", "shop")])
def test_field_manager_fits_into_128_bytes(name: str, namespace: str) -> None:
    """Past 128 bytes the id stands in for namespace and name."""
    manager = applyset_identity(name, namespace).manager
    assert len(manager.encode()) <= 128
    assert manager.startswith("applyprune/")


@pytest.mark.parametrize("name", ["", "A", "a.b", "-a", "a-", "a" * 64, "a/b", "../x", "a b"])
def test_invalid_set_name_is_refused(name: str) -> None:
    """The name becomes part of a ConfigMap's name, a URL and a field manager."""
    with pytest.raises(UsageError, match="DNS label"):
        applyset_identity(name, "home")


def test_parent_annotations_are_sorted_without_its_own_namespace() -> None:
    """The formats of ``contains-group-kinds`` and ``additional-namespaces``."""
    refs = [
        Ref("apps", "Deployment", "b", "x"),
        Ref("", "ConfigMap", "home", "x"),
        Ref("", "ConfigMap", "a", "x"),
        Ref("", "Namespace", "", "a"),
    ]
    found = applyset_annotations(refs, namespace="home", tooling="applyprune/v1")
    assert found == {
        "applyset.kubernetes.io/tooling": "applyprune/v1",
        "applyset.kubernetes.io/contains-group-kinds": "ConfigMap,Deployment.apps,Namespace",
        "applyset.kubernetes.io/additional-namespaces": "a,b",
    }


def test_parent_annotations_are_read_back() -> None:
    """They are a second record of the namespaces; a list that was too long is empty."""
    refs = [Ref("apps", "Deployment", "shop", "a"), Ref("", "ConfigMap", "home", "a")]
    found = applyset_annotations(refs, namespace="home", tooling="applyprune/v1")
    assert hinted_namespaces(found) == {"shop"}
    assert not hinted_namespaces({})
