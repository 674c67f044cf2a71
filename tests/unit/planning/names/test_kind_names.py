"""The names of kinds: those that kubectl takes, in its order of preference."""

from __future__ import annotations

import pytest

from applyprune.errors import UsageError
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.live import DEPLOYMENTS
from applyprune.planning.names import KindNames, Resolver, full_name, kind_names
from tests.support.kinds import DEPLOYS, MAP
from tests.support.objects import crd, manifest


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("deployment", ["deployment.apps"]),
        ("Deployment", ["deployment.apps"]),
        ("deployments", ["deployment.apps"]),
        ("deployments.apps", ["deployment.apps"]),
        ("deployments.v1.apps", ["deployment.apps"]),
        ("Deployment.v1.apps", ["deployment.apps"]),
        ("deployments.v2.apps", []),
        ("deployment.extensions", []),
        ("deploy", ["deployment.apps", "thief.thief.example"]),
        ("deploy.apps", ["deployment.apps"]),
        ("deploy.v1.apps", ["deployment.apps"]),
        ("deploy.thief.example", ["thief.thief.example"]),
        ("svc", ["service"]),
        ("services.v1.", ["service"]),
        ("service", ["service", "service.serving.knative.dev", "thief.thief.example"]),
        ("service.serving.knative.dev", ["service.serving.knative.dev"]),
        ("ksvc", ["service.serving.knative.dev"]),
        ("w", ["widget.a.example", "widget.b.example"]),
        ("widgets.b.example", ["widget.b.example"]),
        ("widgets.v2.b.example", ["widget.b.example"]),
        ("", []),
        (".", []),
        ("..", []),
        (".apps", []),
        ("deployment.", []),
        ("deployments.v1.", []),
    ],
)
def test_kind_is_found_by_its_names(text: str, found: list[str]) -> None:
    """The preferred one is first; a short name never hides the name of another kind."""
    assert list(map(full_name, kind_names(MAP).matches(text))) == found


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("svc/web", "service/web"),
        ("deploy.apps/Web", "deployment.apps/Web"),
        ("shop/DEPLOY/web", "shop/deployment.apps/web"),
        ("service/system:x:y", "service/system:x:y"),
    ],
)
def test_object_gets_its_exact_name(text: str, named: str) -> None:
    """The kind may have any case; the name may not, and may have colons."""
    assert Resolver(kind_names(MAP)).object(text).text == named


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("web", "Write KIND/NAME"),
        ("svc/", "Write KIND/NAME"),
        ("/web", "Write KIND/NAME"),
        ("a/b/c/d", "Write KIND/NAME"),
        ("shop//web", "Write KIND/NAME"),
        ("deplyment/web", "no matches for kind deplyment"),
        ("deplyment/web", "Did you mean deployment?"),
        ("deployment.extensions/web", "Did you mean deployment.apps?"),
    ],
)
def test_unknown_name_says_what_may_be_meant(text: str, told: str) -> None:
    """A name that is not found is an error, never an empty choice."""
    with pytest.raises(UsageError) as raised:
        Resolver(kind_names(MAP)).object(text, "--orphan")
    assert told in str(raised.value)
    assert f"--orphan {text} does not name an object" in str(raised.value)


def test_groups_that_were_not_read_are_named() -> None:
    """The kind may be one of theirs."""
    names = KindNames({}, frozenset({"metrics.k8s.io"}))
    with pytest.raises(UsageError, match=r"discovery could not read metrics\.k8s\.io"):
        names.kind("nodemetrics", of="--allow-kind nodemetrics")


def test_kinds_of_the_input_and_the_inventory_have_names() -> None:
    """One is not served yet, the other not any more; what is served comes first."""
    definition = crd("Foo", names={"plural": "foos", "kind": "Foo", "shortNames": ["fo"]})
    gone = GroupKind("gone.example", "Widget")
    entry = InventoryEntry(
        ref=Ref(gone.group, gone.kind, "home", "a"),
        plural="widgets",
        version="v1",
        uid_before_apply=None,
        uid="u",
    )
    listed = Inventory("web", "home", {entry.ref: entry})
    names = kind_names(MAP, [listed], [manifest(definition)])
    group = definition["spec"]["group"]
    for text in ("foo", "foos", "fo", f"foos.{group}"):
        assert list(map(full_name, names.matches(text))) == [f"foo.{group}"]
    widgets = ["widget.a.example", "widget.b.example", "widget.gone.example"]
    assert list(map(full_name, names.matches("widgets"))) == widgets
    assert DEPLOYMENTS == DEPLOYS
