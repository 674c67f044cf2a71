"""The spec of a Bundle: what is parsed, and what is rejected even if the CRD accepts it."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from applyprune.controller.clients import request_of
from applyprune.controller.spec import (
    BundleSpec,
    DeletionPolicy,
    Dependency,
    IgnoreFields,
    InvalidSpec,
    SourceRef,
    read_bundle,
)
from applyprune.model.identity import Ref
from applyprune.model.inventory import Ownership
from applyprune.model.live import LiveObject
from applyprune.model.options import (
    Adopt,
    Approval,
    Conflicts,
    HelmHooks,
    Mode,
    PruneLimit,
    WaitMode,
)
from applyprune.planning.marks import RECONCILE_NOW
from applyprune.planning.normalize import IgnoreRule

DIGEST = "sha256:" + "d" * 64
INLINE = {"source": {"inline": ""}}


def bundle(spec: object, name: str = "web") -> BundleSpec:
    """Read a Bundle of the namespace ``shop``."""
    metadata = {"name": name, "namespace": "shop"}
    ref = Ref("applyprune.dev", "Bundle", "shop", name)
    return read_bundle(LiveObject.of(ref, "u", "1", metadata, {"metadata": metadata, "spec": spec}))


def test_full_spec_is_read() -> None:
    """Every field, each different from its default."""
    found = bundle(
        {
            "source": {"configMapRefs": [{"name": "a", "keys": ["x", "y"]}, {"name": "b"}]},
            "interval": "1h30m",
            "retryInterval": "1.5s",
            "timeout": "90s",
            "suspend": True,
            "prune": {"enabled": False, "maxPrune": "40%", "allowEmpty": True},
            "approval": "Prune",
            "wait": True,
            "failFast": True,
            "readyWhen": ["widget.x.io=self.status.a == 'b'"],
            "conflicts": "force",
            "adopt": "all",
            "adoptAs": "owned",
            "recreate": True,
            "helmHooks": "skip",
            "targetNamespace": "elsewhere",
            "serviceAccountName": "deployer",
            "dependsOn": [{"name": "db", "readyWhen": "self.status.ok"}, {"name": "net"}],
            "deletionPolicy": "Orphan",
            "inventoryName": "old",
            "ignoreFields": [{"kind": "Deployment.apps", "fields": ["/spec/replicas"]}],
            "noDefaultIgnore": ["ca-bundle"],
        }
    )
    spec = found.spec
    assert spec.source.config_map_refs == (SourceRef("a", ("x", "y")), SourceRef("b"))
    assert (spec.interval, spec.retry_interval, spec.timeout) == (5400, 1.5, 90)
    assert spec.depends_on == (Dependency("db", "self.status.ok"), Dependency("net"))
    assert spec.deletion_policy is DeletionPolicy.ORPHAN
    assert spec.ignore_fields == (IgnoreFields(("/spec/replicas",), "Deployment.apps"),)
    assert found.ignore_rules == (IgnoreRule("/spec/replicas", "Deployment.apps"),)
    assert (spec.suspend, spec.target_namespace) == (True, "elsewhere")
    assert spec.service_account_name == "deployer"
    assert (found.target.name, found.target.namespace) == ("old", "shop")
    options = found.options(Mode.APPLY, approved=DIGEST)
    assert (options.approval, options.approved_plan) == (Approval.PRUNE, DIGEST)
    assert options.prune.apply_anyway
    assert (options.prune.enabled, options.wait.mode, options.apply.conflicts) == (
        False,
        WaitMode.ALL,
        Conflicts.FORCE,
    )
    assert (options.apply.recreate, options.apply.adopt, options.prune.approved) == (
        True,
        Adopt.ALL,
        DIGEST,
    )
    assert options.apply.adopt_as is Ownership.OWNED
    assert options.apply.helm_hooks is HelmHooks.SKIP
    assert options.apply.no_default_ignore == {"ca-bundle"}
    assert (options.prune.allow_empty, options.wait.timeout) == (True, 90)
    assert options.wait.fail_fast
    assert options.wait.ready_when == (("widget.x.io", "self.status.a == 'b'"),)
    assert found.options(Mode.DELETE).wait.ready_when == ()
    assert options.prune.max_prune == PruneLimit(0, 40)
    assert not options.apply.reapply_all


def test_defaults_are_filled_in() -> None:
    """The defaults of an object that was stored before a field existed."""
    found = bundle(INLINE)
    spec = found.spec
    assert (spec.interval, spec.retry_interval, spec.timeout) == (600, 30, 300)
    assert (spec.prune.enabled, spec.wait, spec.adopt) == (True, False, Adopt.UNOWNED)
    assert spec.adopt_as is Ownership.ADOPTED
    assert found.options(Mode.APPLY).wait.mode is WaitMode.AUTO
    assert spec.service_account_name == "default"
    assert spec.deletion_policy is DeletionPolicy.MIRROR
    assert found.deletion_policy is DeletionPolicy.DELETE
    assert spec.approval is Approval.AUTOMATIC


def test_bundle_that_always_needs_an_approval_applies_nothing_anyway() -> None:
    """A hotfix is not held up, unless that is asked for."""
    found = bundle({**INLINE, "approval": "Always"}).options(Mode.APPLY)
    assert (found.approval, found.prune.apply_anyway) == (Approval.ALWAYS, False)


@pytest.mark.parametrize("wrong", ["yes", DIGEST[:-1], f"{DIGEST}\n", "\x1b[2J"])
def test_annotation_that_is_not_a_digest_approves_nothing(wrong: str) -> None:
    """Anybody may have written it, so it goes nowhere."""
    options = bundle(INLINE).options(Mode.APPLY, approved=wrong)
    assert (options.prune.approved, options.approved_plan) == ("", "")


@pytest.mark.parametrize("mode", [Mode.DELETE, Mode.ORPHAN])
def test_removal_of_a_bundle_needs_no_approval(mode: Mode) -> None:
    """To delete the Bundle is a decision of its own; a guard is still lifted by the annotation.

    Nor does it depend on whether it prunes.
    """
    spec = {**INLINE, "approval": "Always", "prune": {"enabled": False}}
    found = bundle(spec).options(mode, approved=DIGEST)
    assert (found.approval, found.prune.approved) == (Approval.AUTOMATIC, DIGEST)
    assert found.prune.enabled


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
    "no source": ({}, "spec.source: is required"),
    "null": (None, "spec.source: is required"),
    "no object": ([], "spec: must be an object"),
    "source is a text": ({"source": "x"}, "spec.source: must be an object"),
    "two sources": ({"source": {"inline": "", "secretRefs": [{"name": "a"}]}}, "exactly one"),
    "no refs": ({"source": {"configMapRefs": []}}, "exactly one"),
    "a ref without a name": (
        {"source": {"secretRefs": [{}]}},
        "spec.source.secretRefs[0].name: is required",
    ),
    "a path as a name": ({"source": {"secretRefs": [{"name": "../x"}]}}, "is not a valid name"),
    "another's account": ({**INLINE, "serviceAccountName": "a/b"}, "is not a valid name"),
    "a query as a namespace": ({**INLINE, "targetNamespace": "a?x=y"}, "is not a DNS label"),
    "interval": ({**INLINE, "interval": "soon"}, "must be a duration"),
    "timeout of a year": ({**INLINE, "timeout": "9000h"}, "is not between 1s and 720h"),
    "a URL as of scp": (
        {"source": {"git": {"url": "git@git.example.com:org/repo.git"}}},
        "must be written as ssh://git@git.example.com/org/repo.git",
    ),
    "a URL as of scp, from the root": (
        {"source": {"git": {"url": "git@git.example.com:/srv/repo.git"}}},
        "must be written as ssh://git@git.example.com/srv/repo.git",
    ),
    "interval of nothing": ({**INLINE, "interval": "0s"}, "must be greater than zero"),
    "interval too short": ({**INLINE, "interval": "10ms"}, "not between"),
    "timeout too long": ({**INLINE, "timeout": "9999h"}, "not between"),
    "a number as a time": ({**INLINE, "retryInterval": 5}, "spec.retryInterval: must be text"),
    "suspend": ({**INLINE, "suspend": "yes"}, "must be true or false"),
    "adopt": ({**INLINE, "adopt": "some"}, "must be 'none', 'unowned' or 'all', not 'some'"),
    "approval": ({**INLINE, "approval": "Never"}, "must be 'Automatic', 'Prune' or 'Always'"),
    "deletionPolicy": (
        {**INLINE, "deletionPolicy": "Keep"},
        "deletionPolicy: must be 'MirrorPrune'",
    ),
    "maxPrune over all": ({**INLINE, "prune": {"maxPrune": "101%"}}, "neither a number"),
    "a negative maxPrune": ({**INLINE, "prune": {"maxPrune": -1}}, "neither a number"),
    "a true maxPrune": ({**INLINE, "prune": {"maxPrune": True}}, "neither a number"),
    "depends on itself": ({**INLINE, "dependsOn": [{"name": "web"}]}, "depend on itself"),
    "a rule that is none": (
        {**INLINE, "dependsOn": [{"name": "db", "readyWhen": "self."}]},
        "spec.dependsOn[0].readyWhen: the rule “self.” is not a CEL expression",
    ),
    "a rule without a kind": (
        {**INLINE, "readyWhen": ["widget=true", "=true"]},
        "spec.readyWhen[1]: '=true' must be KIND.GROUP=EXPRESSION",
    ),
    "a kind without a rule": (
        {**INLINE, "readyWhen": ["widget= "]},
        "spec.readyWhen[0]: 'widget= ' must be KIND.GROUP=EXPRESSION",
    ),
    "a rule for a kind that is none": (
        {**INLINE, "readyWhen": ["widget=true", "gadget=self.status.("]},
        "spec.readyWhen[1]: the rule “self.status.(” is not a CEL expression",
    ),
    "a rule that returns no bool": (
        {**INLINE, "readyWhen": ["widget='x'"]},
        "the rule “'x'” is not a CEL expression that returns a bool: it returns a string, not",
    ),
    "rules that are no list": (
        {**INLINE, "readyWhen": "widget=true"},
        "spec.readyWhen: must be a list",
    ),
    "a pointer that is none": ({**INLINE, "ignoreFields": [{"fields": ["x"]}]}, "JSON pointer"),
    "a pointer that is not closed": (
        {**INLINE, "ignoreFields": [{"fields": ["/spec/a[b=1"]}]},
        "spec.ignoreFields[0].fields[0]: '/spec/a[b=1': missing ]",
    ),
    "two pointers in one": (
        {**INLINE, "ignoreFields": [{"fields": ["/a,/b"]}]},
        "'/a,/b' is not a single JSON pointer",
    ),
    "pointers of numbers": (
        {**INLINE, "ignoreFields": [{"fields": [1]}]},
        "fields[0]: must be text",
    ),
    "no list": ({**INLINE, "dependsOn": {"name": "db"}}, "spec.dependsOn: must be a list"),
    "an empty name": ({**INLINE, "dependsOn": [{"name": ""}]}, "'' is not a valid name"),
    "an inventory that cannot be": ({**INLINE, "inventoryName": "a.b"}, "invalid set name"),
}


@pytest.mark.holds("name-of-one-object", row="another's account")
@pytest.mark.holds("name-of-one-namespace", row="a query as a namespace")
@pytest.mark.parametrize("name", sorted(WRONG))
def test_invalid_spec_is_refused(name: str) -> None:
    """With the field that is wrong."""
    spec, word = WRONG[name]
    with pytest.raises(InvalidSpec) as caught:
        bundle(spec)
    assert word in caught.value.reason


def test_all_errors_are_reported_at_once() -> None:
    """Each with its field and a reason, and without what the source holds."""
    with pytest.raises(InvalidSpec) as caught:
        bundle({"source": {"inline": 5}, "interval": "x", "wait": 1})
    assert caught.value.reason.split("; ") == [
        "spec.source.inline: must be text",
        "spec.interval: 'x' must be a duration such as 90s or 5m",
        "spec.wait: must be true or false",
    ]


def test_null_field_is_at_its_default() -> None:
    """An object that was stored before the field was there has it so."""
    nulls = {"interval": None, "prune": {"maxPrune": None}, "dependsOn": None}
    assert bundle({**INLINE, **nulls}).spec == bundle(INLINE).spec


def test_field_has_only_its_name_of_the_api() -> None:
    """The server drops every other name before it stores an object."""
    assert bundle({**INLINE, "target_namespace": "x"}).spec == bundle(INLINE).spec


@pytest.mark.parametrize("name", ["web.example", "a" * 64, "web-yielded"])
def test_name_that_is_no_set_name_needs_an_inventory_name(name: str) -> None:
    """The name becomes that of the inventory."""
    with pytest.raises(InvalidSpec, match="the spec is invalid"):
        bundle(INLINE, name)
    assert bundle({**INLINE, "inventoryName": "web"}, name).target.name == "web"


@pytest.mark.parametrize(
    ("length", "is_short"),
    [(0, True), (256, True), pytest.param(257, False, marks=pytest.mark.holds("bounded-request"))],
)
def test_long_request_is_repeated_as_a_digest(length: int, is_short: bool) -> None:
    """An annotation may have 262,144 characters, and a status is written again and again."""
    request = "x" * length
    metadata = {"name": "web", "annotations": {RECONCILE_NOW: request}}
    ref = Ref("applyprune.dev", "Bundle", "shop", "web")
    found = request_of(LiveObject.of(ref, "u", "1", metadata))
    assert (found == request) is is_short
    assert is_short or found == f"sha256:{sha256(request.encode()).hexdigest()}"
