"""What must be read to know the consequences of a plan."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.planning.consequences import Change, ConsequenceReads, Facts, Listing, listings
from applyprune.planning.recovery import CascadeContents
from tests.support.consequences import KINDS, change, live, resource

HOME = frozenset({"home"})
LABEL = "applyset.kubernetes.io/part-of=ID"


def _service(name: str = "web", fate: Fate = Fate.CREATE, **selector: str) -> Change:
    return change("Service", name, fate, manifest={"spec": {"selector": selector}})


def _body(kind: str, *, selector: str = LABEL, namespaces: frozenset[str] = HOME) -> Listing:
    return Listing(resource(kind), namespaces, selector, full=True, is_plan=True)


def _reader(name: str) -> Change:
    spec = {"containers": [{"envFrom": [{"configMapRef": {"name": name}}]}]}
    return change("Deployment", fate=Fate.LEAVE, manifest={"spec": {"template": {"spec": spec}}})


READ: dict[str, Any] = {"before": {"spec": {"template": {}}}}
CASES: dict[str, tuple[list[Change], list[Listing]]] = {
    "nothing changes": (
        [change("Deployment", fate=Fate.LEAVE), _service(fate=Fate.LEAVE, app="a")],
        [],
    ),
    "a new set": (
        [
            change("Deployment", fate=Fate.CREATE),
            change("ConfigMap", fate=Fate.CREATE),
            change("PersistentVolumeClaim", fate=Fate.CREATE),
            _reader("web"),
        ],
        [],
    ),
    "a changed workload": (
        [change("Deployment"), change("Deployment", "b")],
        [_body("Deployment")],
    ),
    "a changed workload that was read": ([change("Deployment", **READ)], []),
    "an adopted workload": (
        [change("Deployment", fate=Fate.ADOPT)],
        [_body("Deployment", selector="")],
    ),
    "a ConfigMap that a workload reads": (
        [change("ConfigMap"), _reader("web")],
        [_body("ConfigMap")],
    ),
    "a ConfigMap that nobody reads": ([change("ConfigMap"), _reader("other")], []),
    "a Secret is never read": ([change("Secret")], []),
    "a CRD": (
        [change("CustomResourceDefinition")],
        [_body("CustomResourceDefinition", namespaces=frozenset())],
    ),
    "a Service without a template": (
        [_service(app="web", b="c")],
        [Listing(resource("Pod"), HOME, "app=web")],
    ),
    "two Services with a common label": (
        [_service(app="web", part="a"), _service("other", app="web", part="b")],
        [Listing(resource("Pod"), HOME, "app=web")],
    ),
    "two Services with a common key": (
        [_service(app="web"), _service("other", app="other")],
        [Listing(resource("Pod"), HOME, "app")],
    ),
    "two Services with nothing in common": (
        [_service(app="web"), _service("other", part="other")],
        [Listing(resource("Pod"), HOME)],
    ),
    "a pruned Deployment": (
        [change("Deployment", fate=Fate.PRUNE)],
        [Listing(resource("Pod"), HOME), Listing(resource("ReplicaSet"), HOME)],
    ),
    "a pruned Deployment and a Service": (
        [change("Deployment", fate=Fate.PRUNE), _service(fate=Fate.LEAVE, app="web")],
        [Listing(resource("Pod"), HOME), Listing(resource("ReplicaSet"), HOME)],
    ),
    "a pruned DaemonSet": (
        [change("DaemonSet", fate=Fate.PRUNE)],
        [Listing(resource("Pod"), HOME)],
    ),
    "a pruned StatefulSet": ([change("StatefulSet", fate=Fate.PRUNE)], [_body("StatefulSet")]),
    "a pruned StatefulSet that was read": (
        [change("StatefulSet", fate=Fate.PRUNE, before={"spec": {}})],
        [Listing(resource("PersistentVolumeClaim"), HOME), Listing(resource("Pod"), HOME)],
    ),
    "a pruned claim": (
        [change("PersistentVolumeClaim", fate=Fate.PRUNE)],
        [Listing(resource("PersistentVolume"), full=True)],
    ),
    "a pruned ConfigMap": ([change("ConfigMap", fate=Fate.PRUNE)], []),
}


@pytest.mark.parametrize(("changes", "expected"), CASES.values(), ids=CASES)
def test_listings_are_only_those_that_a_consequence_needs(
    changes: list[Change], expected: list[Listing]
) -> None:
    """One for each kind; bodies only where metadata is not enough."""
    assert list(listings(Facts(changes, kinds=KINDS), "ID")) == expected


def test_custom_resource_may_own_anything_in_its_namespace() -> None:
    """But Events and the like do not count."""
    wanted = listings(Facts([change("Database", fate=Fate.PRUNE)], kinds=KINDS), "ID")
    listed = {each.resource.kind for each in wanted}
    assert {"Pod", "Secret", "PersistentVolumeClaim", "StatefulSet"} <= listed
    assert not listed & {"Event", "PersistentVolume", "Namespace"}
    assert not any(each.full for each in wanted)


def test_later_listings_depend_on_earlier_ones() -> None:
    """Volumes are only listed if a claim is deleted with its StatefulSet."""
    pruned = change("StatefulSet", fate=Fate.PRUNE, before={"spec": {}})
    _pod, claim = (resource(kind).group_kind for kind in ("Pod", "PersistentVolumeClaim"))
    for owners, expected in ((("web",), ["PersistentVolume"]), ((), [])):
        read = {
            claim: [live("PersistentVolumeClaim", "c", *owners)],
            resource("Pod").group_kind: [],
        }
        facts = Facts([pruned], kinds=KINDS, related=ConsequenceReads(read))
        assert [each.resource.kind for each in listings(facts, "ID")] == expected


def test_failed_listing_is_not_repeated() -> None:
    """Neither of bodies nor of other objects."""
    pod, deployment = resource("Pod").group_kind, resource("Deployment").group_kind
    related = ConsequenceReads(failures={pod: "no right"}, full=frozenset({deployment}))
    changes = [change("Deployment"), change("DaemonSet", fate=Fate.PRUNE)]
    assert listings(Facts(changes, kinds=KINDS, related=related), "ID") == ()


def test_claims_in_a_pruned_namespace_need_their_volumes() -> None:
    """Its contents are known already."""
    place = change("Namespace", "old", Fate.PRUNE)
    for kind, expected in (("PersistentVolumeClaim", ["PersistentVolume"]), ("Secret", [])):
        contents = {place.ref: CascadeContents((live(kind, "c", namespace="old"),))}
        facts = Facts([place], contents, KINDS)
        assert [each.resource.kind for each in listings(facts, "ID")] == expected
