"""The spec of a Bundle: what is read from it, and what is refused whatever the CRD lets through."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.controller.bundle import (
    Bundle,
    DeletionPolicy,
    Dependency,
    IgnoreFields,
    InvalidSpec,
    SourceRef,
    read_bundle,
)
from applyprune.model.live import Live
from applyprune.model.options import Adopt, Mode, PruneLimit
from applyprune.model.refs import Ref

INLINE = {"source": {"inline": ""}}


def bundle(spec: object, name: str = "web") -> Bundle:
    """Read a Bundle of the namespace ``shop``."""
    metadata = {"name": name, "namespace": "shop"}
    ref = Ref("applyprune.dev", "Bundle", "shop", name)
    return read_bundle(Live(ref, "u", "1", metadata, {"metadata": metadata, "spec": spec}))


def test_full_spec_is_read() -> None:
    """Every field, none of it at its default."""
    found = bundle(
        {
            "source": {"configMapRefs": [{"name": "a", "keys": ["x", "y"]}, {"name": "b"}]},
            "interval": "1h30m",
            "retryInterval": "1.5s",
            "timeout": "90s",
            "suspend": True,
            "prune": {"enabled": False, "maxPrune": "40%", "allowEmpty": True},
            "wait": True,
            "forceConflicts": True,
            "adopt": "all",
            "recreate": True,
            "targetNamespace": "elsewhere",
            "serviceAccountName": "deployer",
            "dependsOn": [{"name": "db", "readyWhen": "self.status.ok"}, {"name": "net"}],
            "deletionPolicy": "Orphan",
            "inventoryName": "old",
            "ignoreFields": [{"kind": "Deployment.apps", "fields": ["/spec/replicas"]}],
        }
    )
    spec = found.spec
    assert spec.source.config_map_refs == (SourceRef("a", ("x", "y")), SourceRef("b"))
    assert (spec.interval, spec.retry_interval, spec.timeout) == (5400, 1.5, 90)
    assert spec.depends_on == (Dependency("db", "self.status.ok"), Dependency("net"))
    assert spec.deletion_policy is DeletionPolicy.ORPHAN
    assert spec.ignore_fields == (IgnoreFields(("/spec/replicas",), "Deployment.apps"),)
    assert (spec.suspend, spec.target_namespace) == (True, "elsewhere")
    assert spec.service_account_name == "deployer"
    assert (found.target.name, found.target.namespace) == ("old", "shop")
    options = found.options(Mode.APPLY, approved="d")
    assert (options.prune, options.wait, options.force_conflicts) == (False, True, True)
    assert (options.recreate, options.adopt, options.approved) == (True, Adopt.ALL, "d")
    assert (options.allow_empty, options.timeout) == (True, 90)
    assert options.max_prune == PruneLimit(0, 40)
    assert not options.reapply_all


def test_defaults_are_filled_in() -> None:
    """What an object that was stored before a field was there is taken for."""
    spec = bundle(INLINE).spec
    assert (spec.interval, spec.retry_interval, spec.timeout) == (600, 30, 300)
    assert (spec.prune.enabled, spec.wait, spec.adopt) == (True, False, Adopt.UNOWNED)
    assert spec.service_account_name == "default"
    assert spec.deletion_policy is DeletionPolicy.DELETE


@pytest.mark.parametrize(
    ("value", "limit"),
    [
        (0, PruneLimit(0, 0)),
        (7, PruneLimit(7, 0)),
        ("7", PruneLimit(7, 0)),
        ("0%", PruneLimit(0, 0)),
    ],
)
def test_limits_are_read(value: object, limit: PruneLimit) -> None:
    """A number or a percentage, as on the command line."""
    assert bundle({**INLINE, "prune": {"maxPrune": value}}).spec.prune.max_prune == limit


WRONG: dict[str, tuple[Any, str]] = {
    "no source": ({}, "exactly one"),
    "null": (None, "exactly one"),
    "no object": ([], "spec is no object"),
    "source is a text": ({"source": "x"}, "spec.source is no object"),
    "two sources": ({"source": {"inline": "", "secretRefs": [{"name": "a"}]}}, "exactly one"),
    "no refs": ({"source": {"configMapRefs": []}}, "exactly one"),
    "a ref without a name": ({"source": {"secretRefs": [{}]}}, "names nothing"),
    "a path as a name": ({"source": {"secretRefs": [{"name": "../x"}]}}, "is no name"),
    "another's account": ({**INLINE, "serviceAccountName": "a/b"}, "is no name"),
    "a query as a namespace": ({**INLINE, "targetNamespace": "a?x=y"}, "is no name"),
    "interval": ({**INLINE, "interval": "soon"}, "is no time"),
    "interval of nothing": ({**INLINE, "interval": "0s"}, "is not more than nothing"),
    "interval too short": ({**INLINE, "interval": "10ms"}, "not between"),
    "timeout too long": ({**INLINE, "timeout": "9999h"}, "not between"),
    "a number as a time": ({**INLINE, "retryInterval": 5}, "is no text"),
    "suspend": ({**INLINE, "suspend": "yes"}, "neither true nor false"),
    "adopt": ({**INLINE, "adopt": "some"}, "none of"),
    "deletionPolicy": ({**INLINE, "deletionPolicy": "Keep"}, "none of"),
    "maxPrune over all": ({**INLINE, "prune": {"maxPrune": "101%"}}, "neither a number"),
    "a negative maxPrune": ({**INLINE, "prune": {"maxPrune": -1}}, "neither a number"),
    "a true maxPrune": ({**INLINE, "prune": {"maxPrune": True}}, "neither a number"),
    "depends on itself": ({**INLINE, "dependsOn": [{"name": "web"}]}, "depend on itself"),
    "a rule that is none": (
        {**INLINE, "dependsOn": [{"name": "db", "readyWhen": "self."}]},
        "spec.dependsOn db: the rule",
    ),
    "a pointer that is none": ({**INLINE, "ignoreFields": [{"fields": ["x"]}]}, "JSON pointer"),
    "pointers of numbers": ({**INLINE, "ignoreFields": [{"fields": [1]}]}, "no list of texts"),
    "an inventory that cannot be": ({**INLINE, "inventoryName": "a.b"}, "cannot name a set"),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_invalid_spec_is_refused(name: str) -> None:
    """With the field that is wrong."""
    spec, word = WRONG[name]
    with pytest.raises(InvalidSpec) as caught:
        bundle(spec)
    assert word in caught.value.why


def test_all_errors_are_reported_at_once() -> None:
    """So that they need not be found one by one."""
    with pytest.raises(InvalidSpec) as caught:
        bundle({"source": {"inline": 5}, "interval": "x", "wait": 1})
    assert len(caught.value.why.split("; ")) == 3


@pytest.mark.parametrize("name", ["web.example", "a" * 64, "web-yielded"])
def test_name_that_is_no_set_name_needs_an_inventory_name(name: str) -> None:
    """The name becomes that of the inventory."""
    with pytest.raises(InvalidSpec, match="cannot be carried out"):
        bundle(INLINE, name)
    assert bundle({**INLINE, "inventoryName": "web"}, name).target.name == "web"
