"""What other tools still have of the objects that a plan adopts, and the commands that end it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.live import LiveObject
from applyprune.model.plan import ApplyStep, Plan, ToolRecord
from applyprune.planning.applyset import PART_OF, TOOLING, ApplySetIdentity
from applyprune.planning.marks import OWNER_MARKS
from applyprune.planning.ownership import OtherSet
from applyprune.planning.still_recorded import PLACES, LookUp, tool_records
from tests.support.planning import SECRETS, TARGET, body, desired, live, managed, recorded

ONE, OF_A_SECRET = desired(body()), desired(body("Secret"), SECRETS)
RELEASE = {"meta.helm.sh/release-name": "legacy", "meta.helm.sh/release-namespace": "shop"}
INVENTORY = {"config.k8s.io/owning-inventory": "8f1a-1"}
KAPP = {"kapp.k14s.io/app": "1600468671765235154"}
FLUX = {
    "kustomize.toolkit.fluxcd.io/name": "apps",
    "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
}
HELM_RELEASE = {
    "helm.toolkit.fluxcd.io/name": "legacy",
    "helm.toolkit.fluxcd.io/namespace": "shop",
}
TRACKED = {"argocd.argoproj.io/tracking-id": "web:apps/Deployment:shop/web"}
APPLYSET = "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1"
ASKED = "kubectl delete secret -n shop -l owner=helm,name=legacy"
SHOP = ApplySetIdentity("web", "shop")


def _noted(annotations: dict[str, str], of: Any = ONE) -> ApplyStep:
    there = live(of.ref, label="", entries=[managed("them")], annotations=annotations)
    return ApplyStep(of, Fate.ADOPT, recorded(of, there), there)


def _labelled(labels: dict[str, str]) -> ApplyStep:
    there = live(ONE.ref, entries=[managed("them")], labels=labels, annotations={})
    return ApplyStep(ONE, Fate.ADOPT, recorded(ONE, there), there)


def _there(kind: str, name: str, namespace: str, full: Any = None, **metadata: Any) -> LiveObject:
    place = Ref("", kind, namespace, name)
    return LiveObject.of(place, "u", "5", {"name": name, **metadata}, full)


def _has(*objects: LiveObject) -> LookUp:
    """Return a cluster with these objects; the selector is not looked at."""

    def look_up(kind: GroupKind, namespace: str, selector: str) -> Sequence[LiveObject]:
        kinds = [one for one in objects if one.ref.kind == kind.kind]
        return [one for one in kinds if namespace in {"", one.ref.namespace}]

    return look_up


def _unknown(*_: object) -> None:
    """Nothing can be read."""


def _app(name: str, label: str = KAPP["kapp.k14s.io/app"]) -> LiveObject:
    spec = json.dumps({"labelKey": "kapp.k14s.io/app", "labelValue": label})
    return _there("ConfigMap", name, "shop", {"data": {"spec": spec}})


def _records(
    look_up: LookUp, *steps: ApplyStep, other: OtherSet | None = None
) -> Sequence[ToolRecord]:
    known = {} if other is None else {APPLYSET: other}
    return tool_records(Plan(steps, ()), TARGET, known, look_up)


SECRET = _there("Secret", "sh.helm.release.v1.legacy.v1", "shop")
SECOND = _there("Secret", "sh.helm.release.v1.legacy.v2", "shop")
PARENT = _there("Secret", "my-set", "shop", annotations={TOOLING: "kubectl/v1.36.0"})
INVENTORY_OF_OURS = _there(
    "ConfigMap", "applyprune-x", "shop", annotations={TOOLING: "applyprune/1"}
)
KUSTOMIZATION = _there("Kustomization", "apps", "flux-system")


def _patched(change: str, where: str) -> str:
    return f"kubectl patch {where} --type=merge -p '{change}' && kubectl delete {where}"


DETACH = '{"metadata":{"finalizers":null},"spec":{"syncPolicy":{"automated":null}}}'
Told = tuple[ApplyStep, LookUp, str, str]
TOLD: dict[str, Told] = {
    "Helm": (
        _noted(RELEASE), _has(SECRET, SECOND),
        "recorded by Helm (release legacy in namespace shop)", ASKED,
    ),
    "Helm, unread": (
        _noted(RELEASE), _unknown, "recorded by Helm (release legacy in namespace shop)", ASKED,
    ),
    "Helm, without a namespace": (
        _noted({"meta.helm.sh/release-name": "legacy"}), _has(SECRET),
        "recorded by Helm (release legacy)", "",
    ),
    "kapp": (
        _labelled(KAPP), _has(_app("other", "1"), _app("web.apps.k14s.io")),
        "recorded by kapp (app web.apps.k14s.io in namespace shop)",
        "kubectl delete configmap -n shop web.apps.k14s.io",
    ),
    "kapp, unread": (
        _labelled(KAPP), _unknown, "recorded by kapp (app 1600468671765235154)", "",
    ),
    "kapp, of its controller": (
        _labelled(KAPP), _has(_app("web.app.apps.k14s.io")),
        "recorded by kapp (app web.app.apps.k14s.io in namespace shop)", "",
    ),
    "cli-utils": (
        _noted(INVENTORY), _has(_there("ConfigMap", "inventory-1", "shop")),
        "recorded by cli-utils (inventory 8f1a-1)",
        "kubectl delete configmap -A -l cli-utils.sigs.k8s.io/inventory-id=8f1a-1",
    ),
    "Flux": (
        _labelled(FLUX), _has(KUSTOMIZATION),
        "applied by Flux (Kustomization apps in namespace flux-system)",
        _patched(
            '{"spec":{"suspend":true,"prune":false}}',
            "kustomizations.kustomize.toolkit.fluxcd.io -n flux-system apps",
        ),
    ),
    "a HelmRelease": (
        _labelled(HELM_RELEASE), _unknown,
        "applied by Flux (HelmRelease legacy in namespace shop)",
        _patched(
            '{"spec":{"suspend":true}}', "helmreleases.helm.toolkit.fluxcd.io -n shop legacy"
        ),
    ),
    "Argo CD": (
        _noted(TRACKED),
        _has(_there("Application", "web", "argocd"), _there("Application", "other", "argocd")),
        "applied by Argo CD (application web in namespace argocd)",
        _patched(DETACH, "applications.argoproj.io -n argocd web"),
    ),
    "Argo CD, two of a name": (
        _noted(TRACKED),
        _has(_there("Application", "web", "argocd"), _there("Application", "web", "shop")),
        "applied by Argo CD (application web)", "",
    ),
    "Argo CD, in another namespace": (
        _noted({"argocd.argoproj.io/tracking-id": "shop_web:/Secret:shop/web"}), _unknown,
        "applied by Argo CD (application web in namespace shop)",
        _patched(DETACH, "applications.argoproj.io -n shop web"),
    ),
    "an ApplySet of kubectl": (
        _labelled({PART_OF: APPLYSET}), _has(PARENT, INVENTORY_OF_OURS),
        "recorded by kubectl (ApplySet my-set in namespace shop)",
        "kubectl delete secret -n shop my-set",
    ),
    "an operator": (
        _labelled({"olm.owner": "web.v1"}), _has(), "applied by OLM (operator web.v1)", "",
    ),
    "Config Sync": (
        _noted({"configsync.gke.io/resource-id": "x"}), _has(), "applied by Config Sync (as x)", "",
    ),
    "a Secret": (
        _noted(RELEASE, OF_A_SECRET), _unknown, "recorded by Helm (release (secret))", "",
    ),
    **{
        f"no name of an object: {name}": (
            _noted({**RELEASE, "meta.helm.sh/release-name": name}), _unknown,
            f"recorded by Helm (release {name} in namespace shop)", "",
        )
        for name in ("x; rm -rf ~", "$(id)", "-A", "a'b", "X", "a,b")
    },
    "no name of a namespace": (
        _noted({**RELEASE, "meta.helm.sh/release-namespace": "x --all"}), _unknown,
        "recorded by Helm (release legacy in namespace x --all)", "",
    ),
}  # fmt: skip


@pytest.mark.holds("named-record", row="no name of an object: $(id)")
@pytest.mark.holds("named-record", row="no name of a namespace")
@pytest.mark.parametrize("row", TOLD.values(), ids=TOLD.keys())
def test_record_of_a_tool_has_its_command(row: Told) -> None:
    """One that a shell can run as it is, or none."""
    step, look_up, said, command = row
    (record,) = _records(look_up, step)
    assert (record.said, record.command) == (f"still {said}", command)
    to_end = "to end that record" if said.startswith("recorded") else "to end that"
    told = f"still {said}: {to_end}: {command}" if command else f"still {said}"
    assert str(record) == told


KAPP_APP, TRACKED_APP, OF_KUBECTL = (
    _labelled(KAPP),
    _noted(TRACKED),
    _labelled({PART_OF: APPLYSET}),
)
ENDED: dict[str, ApplyStep] = {
    "Helm": _noted(RELEASE),
    "kapp": KAPP_APP,
    "cli-utils": _noted(INVENTORY),
    "Flux": _labelled(FLUX),
    "Argo CD": TRACKED_APP,
    "an ApplySet": OF_KUBECTL,
    "kluctl": _labelled({"kluctl.io/discriminator": "x"}),
    "a mark of our own apply": ApplyStep(
        ONE,
        Fate.ADOPT,
        recorded(ONE, live(ONE.ref)),
        live(
            ONE.ref,
            entries=[managed(fieldsV1={"f:metadata": {"f:labels": {"f:olm.owner": {}}}})],
            labels={"olm.owner": "x"},
        ),
    ),
}


@pytest.mark.parametrize("step", ENDED.values(), ids=ENDED.keys())
def test_ended_record_is_left_out(step: ApplyStep) -> None:
    """Then there is nothing to do about it any more."""
    strangers = (_app("web", "1"), INVENTORY_OF_OURS, _there("Application", "other", "argocd"))
    look_up = _has(*strangers) if step in (KAPP_APP, TRACKED_APP, OF_KUBECTL) else _has()
    assert list(_records(look_up, step)) == []


def test_each_record_comes_once_and_what_runs_comes_first() -> None:
    """However many objects are in it; the name of a Secret is that of the others."""
    steps = [_noted(RELEASE), _noted(RELEASE, OF_A_SECRET), _labelled(FLUX), _noted(RELEASE)]
    found = _records(_unknown, *steps)
    assert [(one.tool, one.objects) for one in found] == [("Flux", 1), ("Helm", 2)]


@pytest.mark.parametrize("fate", sorted({*Fate} - {Fate.ADOPT}))
def test_only_an_adoption_is_about_the_records_of_others(fate: Fate) -> None:
    """What is refused, or the set's own, is not taken from anybody."""
    step = _noted(RELEASE)
    other = ApplyStep(step.desired, fate, step.entry, step.live)
    assert not _records(_unknown, other)


def test_set_of_ours_has_no_record_of_another_tool() -> None:
    """Its next run drops the object by itself."""
    step = _labelled({PART_OF: APPLYSET})
    assert not _records(_unknown, step, other=OtherSet(SHOP))
    there = live(ONE.ref, label=SHOP.id, entries=[managed(SHOP.manager)])
    assert not _records(_unknown, ApplyStep(ONE, Fate.ADOPT, recorded(ONE, there), there))


def test_each_mark_of_an_owner_has_its_place() -> None:
    """Or it is said that the tool has none."""
    assert {mark.key for mark in OWNER_MARKS} | {PART_OF} == PLACES.keys()
