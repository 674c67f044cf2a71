"""Changes from outside: of what we own they are seen and put back, of the rest left alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import DEPLOYMENT, SECRET, SERVICE, config_map, of_kind
from tests.support.plane import Kubectl
from tests.support.stage import Stage
from tests.support.waiting import eventually, next_second

BODIES: tuple[dict[str, Any], ...] = (
    config_map("a", labels={"team": "x"}, annotations={"note": "y"}),
    SECRET,
    SERVICE,
    DEPLOYMENT,
)
CHANGES: dict[str, tuple[str, list[str]]] = {
    "a value": ("configmap/a", ["--type=merge", "-p", '{"data":{"key":"other"}}']),
    "a key removed": ("configmap/a", ["--type=json", "-p", '[{"op":"remove","path":"/data/key"}]']),
    "a label": ("configmap/a", ["--type=merge", "-p", '{"metadata":{"labels":{"team":"z"}}}']),
    "an annotation": (
        "configmap/a",
        ["--type=merge", "-p", '{"metadata":{"annotations":{"note":null}}}'],
    ),
    "our own label": (
        "configmap/a",
        ["--type=merge", "-p", '{"metadata":{"labels":{"applyset.kubernetes.io/part-of":null}}}'],
    ),
    "a secret's value": ("secret/s", ["--type=merge", "-p", '{"data":{"password":"eA=="}}']),
    # Not the port itself: it is the list's merge key, and the server refuses what then results.
    "a target port": (
        "service/web",
        ["--type=json", "-p", '[{"op":"replace","path":"/spec/ports/0/targetPort","value":81}]'],
    ),
    "an image": (
        "deployment.apps/web",
        [
            "--type=json",
            "-p",
            '[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"x:2"}]',
        ],
    ),
    "replicas, by the scale subresource": (
        "deployment.apps/web",
        ["--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":3}}'],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change_to_our_fields_is_reverted(stage: Stage, kubectl: Kubectl, name: str) -> None:
    """By the rules of conflicts the other manager owns it now: it takes ``--conflicts force``."""
    target, patch = CHANGES[name]
    stage.run(*BODIES)
    before = _owned(kubectl, stage, target)
    kubectl("patch", target, "-n", stage.namespace, *patch)
    assert _owned(kubectl, stage, target) != before, "the change took"
    story = stage.run(*BODIES, conflicts=Conflicts.FORCE)
    outcomes = story.outcomes
    assert outcomes.pop(target) is Outcome.UPDATED, story.problem(target)
    assert set(outcomes.values()) == {Outcome.UNCHANGED}
    assert _owned(kubectl, stage, target) == before


def _owned(kubectl: Kubectl, stage: Stage, target: str) -> str:
    """Return spec, data, labels and annotations of an object as text."""
    columns = "{.spec}{.data}{.metadata.labels}{.metadata.annotations.note}"
    return kubectl("get", target, "-n", stage.namespace, "-o", f"jsonpath={columns}")


def test_object_deleted_by_others_is_created_again(stage: Stage, kubectl: Kubectl) -> None:
    """As a new object, recorded under its new UID."""
    stage.run(*BODIES)
    kubectl("delete", "service/web", "-n", stage.namespace)
    assert stage.run(*BODIES).outcomes["service/web"] is Outcome.CREATED
    assert set(stage.run(*BODIES).outcomes.values()) == {Outcome.UNCHANGED}


# No controller writes to it while it is suspended, and it has what the rest of design §7 is about:
# a generation, lists with keys, lists and maps that are one value.
CRON_JOB: dict[str, Any] = of_kind(
    "CronJob",
    "c",
    {"labels": {"team": "x"}, "annotations": {"note": "y"}},
    spec={
        "schedule": "30 3 * * *",
        "suspend": True,
        "jobTemplate": {
            "spec": {
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "nodeSelector": {"disk": "fast", "zone": "a"},
                        "containers": [
                            {
                                "name": "c",
                                "image": "x:1",
                                "args": ["--a", "--b"],
                                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                            },
                            {"name": "side", "image": "y:1"},
                        ],
                    }
                }
            }
        },
    },
)
PORTS: dict[str, Any] = of_kind(
    "Service",
    "p",
    {"labels": {"team": "x"}, "annotations": {"note": "y"}},
    spec={
        "selector": {"app": "web", "tier": "front"},
        "ports": [
            {"name": "http", "port": 80, "protocol": "TCP"},
            {"name": "https", "port": 443, "protocol": "TCP"},
        ],
    },
)
CONFIG = config_map("m", labels={"team": "x"}, annotations={"note": "y"})
QUIET: dict[str, dict[str, Any]] = {
    "cronjob.batch/c": CRON_JOB,
    "service/p": PORTS,
    "configmap/m": CONFIG,
}
PATHS = {
    "cronjob.batch/c": "/apis/batch/v1/namespaces/{}/cronjobs/c",
    "service/p": "/api/v1/namespaces/{}/services/p",
    "configmap/m": "/api/v1/namespaces/{}/configmaps/m",
}
MERGE = "application/merge-patch+json"


def _pod(body: Any) -> Any:
    """Return the Pod specification of the CronJob."""
    return body["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def _wiped(body: Any) -> None:
    """Empty managedFields, written as a list with one empty entry."""
    body["metadata"]["managedFields"] = [{}]


def _all(*edits: Callable[[Any], None]) -> Callable[[Any], None]:

    def edit(body: Any) -> None:
        for one in edits:
            one(body)

    return edit


def _label(body: Any) -> None:
    body["metadata"]["labels"]["team"] = "z"


def _value(body: Any) -> None:
    body["data"]["key"] = "theirs"


EDITS: dict[str, tuple[str, Callable[[Any], None]]] = {
    "a value": ("configmap/m", _value),
    "a list of one value, in another order": (
        "cronjob.batch/c",
        lambda body: _pod(body)["containers"][0]["args"].reverse(),
    ),
    "an item less in a list of one value": (
        "cronjob.batch/c",
        lambda body: _pod(body)["containers"][0]["args"].pop(),
    ),
    "a key of a map of one value": (
        "cronjob.batch/c",
        lambda body: _pod(body)["nodeSelector"].update(zone="b"),
    ),
    "a key more in a map of one value, of a kind without a generation": (
        "service/p",
        lambda body: body["spec"]["selector"].update(foreign="1"),
    ),
    "an item of a list with keys": (
        "cronjob.batch/c",
        lambda body: _pod(body)["containers"][0]["env"].pop(),
    ),
    "managedFields wiped, and a label": ("cronjob.batch/c", _all(_wiped, _label)),
    "managedFields wiped, and a value": ("configmap/m", _all(_wiped, _value)),
}
# They alone leave managedFields as they are.
ORDERS: dict[str, tuple[str, Callable[[Any], None]]] = {
    "a list with keys, in another order": (
        "cronjob.batch/c",
        lambda body: _pod(body)["containers"].reverse(),
    ),
    "a list with keys in another, in another order": (
        "cronjob.batch/c",
        lambda body: _pod(body)["containers"][0]["env"].reverse(),
    ),
    "a list with keys, in another order, of a kind without a generation": (
        "service/p",
        lambda body: body["spec"]["ports"].reverse(),
    ),
}


def _put(api: Api, path: str, edit: Callable[[Any], None]) -> Any:
    """Edit an object by a PUT, and return what was there before."""
    before = api.get(path)
    body = copy.deepcopy(before)
    edit(body)
    status, reply = api("PUT", path, body)
    assert status == 200, reply
    return before


def _substance(live: Any) -> Any:
    """Return what a manifest may say of an object."""
    metadata = {key: live["metadata"].get(key) for key in ("labels", "annotations")}
    passing = {"metadata", "status"}
    return {**{key: live[key] for key in live.keys() - passing}, "metadata": metadata}


def _others_unchanged(outcomes: Mapping[str, Outcome], target: str) -> bool:
    return {one for name, one in outcomes.items() if name != target} == {Outcome.UNCHANGED}


@pytest.mark.parametrize("name", [*EDITS, *ORDERS])
def test_put_is_reverted(stage: Stage, api: Api, name: str) -> None:
    """By PUT, which replaces everything: values, orders, managedFields."""
    target, edit = (EDITS | ORDERS)[name]
    stage.run(*QUIET.values())
    path = PATHS[target].format(stage.namespace)
    before = _put(api, path, edit)
    changed = api.get(path)
    assert _substance(changed) != _substance(before), "the change took"
    if name in ORDERS:
        assert changed["metadata"]["managedFields"] == before["metadata"]["managedFields"]
    story = stage.run(*QUIET.values(), conflicts=Conflicts.FORCE)
    assert story.outcomes[target] is Outcome.UPDATED, story.events
    assert _others_unchanged(story.outcomes, target)
    assert _substance(api.get(path)) == _substance(before)


@pytest.mark.parametrize("target", QUIET)
def test_wiped_managed_fields_are_restored(stage: Stage, api: Api, target: str) -> None:
    """Without our entry nothing would show the next change, nor prune the object."""
    stage.run(*QUIET.values())
    path = PATHS[target].format(stage.namespace)
    _put(api, path, _wiped)
    stage.run(*QUIET.values())
    # The server gives all that it found to a manager of its own making; the next run takes it over,
    # or no field that leaves the manifest would ever go.
    stage.run(*QUIET.values())
    managers = [one["manager"] for one in api.get(path)["metadata"]["managedFields"]]
    assert managers == [stage.target.manager]
    assert set(stage.run(*QUIET.values()).outcomes.values()) == {Outcome.UNCHANGED}


@pytest.mark.parametrize("soon", [True, False], ids=["within its second", "later"])
@pytest.mark.parametrize("target", QUIET)
def test_apply_under_our_own_manager_is_noticed(
    stage: Stage, api: Api, target: str, soon: bool
) -> None:
    """The same values leave nothing to do; another label, which moves no generation, is seen.

    Our entry's paths are the same either way, and its time is good for a second only.
    """
    path = PATHS[target].format(stage.namespace)
    body = copy.deepcopy(QUIET[target])
    body["metadata"]["labels"][PART_OF] = stage.target.id
    labelled = copy.deepcopy(body)
    _label(labelled)

    def time() -> str:
        (ours,) = _entry(api.get(path), stage)
        return str(ours["time"])

    def applied() -> Any:
        """Return the object before the label, if that came in the wanted second."""
        api("DELETE", path)
        next_second()
        stage.run(*QUIET.values())
        ours = time()
        if not soon:
            next_second()
        api.apply(path, body, by=stage.target.manager, force=True)
        assert set(stage.run(*QUIET.values()).outcomes.values()) == {Outcome.UNCHANGED}
        before = api.get(path)
        api.apply(path, labelled, by=stage.target.manager, force=True)
        return before if (time() == ours) is soon else None

    before = eventually(applied)
    story = stage.run(*QUIET.values())
    assert story.outcomes[target] is Outcome.UPDATED
    assert _others_unchanged(story.outcomes, target)
    assert _substance(api.get(path)) == _substance(before)


def test_co_owner_is_ignored_until_it_changes_a_value(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """Who owns our fields along with us disturbs nothing until they say something else."""
    stage.run(*QUIET.values())
    path = PATHS["cronjob.batch/c"].format(stage.namespace)
    before = api.get(path)
    body = copy.deepcopy(CRON_JOB)
    api.apply(path, body, by="other", force=True)
    audit.restart()
    assert set(stage.run(*QUIET.values()).outcomes.values()) == {Outcome.UNCHANGED}
    assert writes(audit) == []
    body["spec"]["schedule"] = "0 4 * * *"
    api.apply(path, body, by="other", force=True)
    story = stage.run(*QUIET.values())
    assert story.exit_code == 4, "they own it now, and alone"
    story = stage.run(*QUIET.values(), conflicts=Conflicts.FORCE)
    assert story.outcomes["cronjob.batch/c"] is Outcome.UPDATED
    assert _substance(api.get(path)) == _substance(before)


def test_object_recreated_by_others_is_adopted_again(stage: Stage, api: Api) -> None:
    """Under the same name with other values; the inventory has its new UID, as adopted."""
    stage.run(*QUIET.values())
    path = PATHS["configmap/m"].format(stage.namespace)
    old = api.get(path)["metadata"]["uid"]
    assert api("DELETE", path)[0] == 200
    api.create(path.removesuffix("/m"), config_map("m", "theirs"))
    story = stage.run(*QUIET.values(), conflicts=Conflicts.FORCE)
    assert story.outcomes["configmap/m"] is Outcome.UPDATED
    live = api.get(path)
    assert live["data"] == CONFIG["data"]
    (entry,) = [one for ref, one in stage.inventory().entries.items() if ref.short == "configmap/m"]
    assert entry.uid == live["metadata"]["uid"] != old
    assert entry.ownership == "adopted"


REWRITES: dict[str, tuple[str, str, str]] = {
    "a label": ("cronjob.batch/c", "/metadata/labels/team", "z"),
    "an annotation": ("cronjob.batch/c", "/metadata/annotations/note", "z"),
    "a field": ("cronjob.batch/c", "/spec/schedule", "0 4 * * *"),
    "a label of a kind without a generation": ("configmap/m", "/metadata/labels/team", "z"),
    "a value of a kind without a generation": ("configmap/m", "/data/key", "theirs"),
}


@pytest.fixture
def policy(api: Api, stage: Stage) -> Iterator[Callable[[str, str], None]]:
    """Sets a policy that rewrites a field whenever somebody else annotates an object."""
    root, name = "/apis/admissionregistration.k8s.io/v1", stage.namespace
    kinds = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")

    def start(pointer: str, value: str) -> None:
        rewrite = f'[JSONPatch{{op: "replace", path: "{pointer}", value: "{value}"}}]'
        marked = "has({0}.metadata.annotations) && 'foreign' in {0}.metadata.annotations"
        rule = {
            "apiGroups": ["", "batch"],
            "apiVersions": ["*"],
            "operations": ["UPDATE"],
            "resources": ["configmaps", "cronjobs"],
        }
        spec: dict[str, Any] = {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                "resourceRules": [rule],
            },
            # Our own apply, which finds the annotation there, is left as it is.
            "matchConditions": [
                {"name": "new", "expression": marked.format("object")},
                {"name": "old", "expression": f"!({marked.format('oldObject')})"},
            ],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": rewrite}}],
        }
        for plural, kind, told in (
            (kinds[0], "MutatingAdmissionPolicy", spec),
            (kinds[1], "MutatingAdmissionPolicyBinding", {"policyName": name}),
        ):
            body = {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": name},
                "spec": told,
            }
            api.create(f"{root}/{plural}", body)

    yield start
    for plural in reversed(kinds):
        api("DELETE", f"{root}/{plural}/{name}")


@pytest.mark.since_kubernetes("v1.36", "the server has MutatingAdmissionPolicy in v1")
@pytest.mark.parametrize("name", REWRITES)
def test_policy_rewrite_during_anothers_patch_is_reverted(
    stage: Stage, api: Api, policy: Callable[[str, str], None], name: str
) -> None:
    """It changes our field and leaves it ours: managedFields stay as they are."""
    target, pointer, value = REWRITES[name]
    stage.run(*QUIET.values())
    path = PATHS[target].format(stage.namespace)
    before = api.get(path)
    policy(pointer, value)
    foreign = {"metadata": {"annotations": {"foreign": "1"}}}

    def works() -> bool:
        tried = api.patch(f"{path}?dryRun=All", foreign)
        return bool(_without_marks(tried) != _without_marks(before))

    # The API server applies a new policy after a moment, and does not report when.
    eventually(works, lambda: "the policy")
    changed = api.patch(path, foreign)
    assert _without_marks(changed) != _without_marks(before)
    assert _entry(changed, stage) == _entry(before, stage)
    story = stage.run(*QUIET.values())
    assert story.outcomes[target] is Outcome.UPDATED, story.events
    assert _others_unchanged(story.outcomes, target)
    assert _without_marks(api.get(path)) == _without_marks(before)


def _without_marks(live: Any) -> Any:
    """Return what a manifest may say, without the annotation of others."""
    said = _substance(live)
    annotations = said["metadata"]["annotations"] or {}
    said["metadata"]["annotations"] = {
        key: value for key, value in annotations.items() if key != "foreign"
    }
    return said


def _entry(live: Any, stage: Stage) -> Any:
    entries = live["metadata"]["managedFields"]
    return [one for one in entries if one["manager"] == stage.target.manager]


@pytest.mark.parametrize(
    ("target", "patch"),
    [
        ("configmap/m", {"data": {"foreign": "1"}}),
        ("configmap/m", {"metadata": {"annotations": {"foreign": "1"}}}),
        ("configmap/m", {"metadata": {"finalizers": ["example.com/foreign"]}}),
        ("service/p", {"metadata": {"labels": {"foreign": "1"}}}),
        ("service/p", {"spec": {"publishNotReadyAddresses": True}}),
        ("cronjob.batch/c", {"metadata": {"labels": {"foreign": "1"}}}),
        ("cronjob.batch/c", {"spec": {"successfulJobsHistoryLimit": 1}}),
        ("cronjob.batch/c", {"spec": {"jobTemplate": {"spec": {"backoffLimit": 2}}}}),
    ],
)
def test_change_to_fields_of_others_is_left_alone(
    stage: Stage, api: Api, audit: AuditTrail, target: str, patch: dict[str, Any]
) -> None:
    """Nothing is touched, and by the server's own log nothing is sent."""
    stage.run(*QUIET.values())
    path = PATHS[target].format(stage.namespace)
    before = api.patch(path, patch)
    audit.restart()
    assert set(stage.run(*QUIET.values()).outcomes.values()) == {Outcome.UNCHANGED}
    assert writes(audit) == []
    assert api.get(path) == before
    api("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)


def test_list_item_added_by_others_costs_one_apply(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """Its values alone could be ours; applying them changes nothing, and is not repeated."""
    stage.run(*QUIET.values())
    path = PATHS["service/p"].format(stage.namespace)
    _put(api, path, lambda body: body["spec"]["ports"].append({"name": "foreign", "port": 81}))
    before = api.get(path)
    assert set(stage.run(*QUIET.values()).outcomes.values()) == {Outcome.UNCHANGED}
    audit.restart()
    assert set(stage.run(*QUIET.values()).outcomes.values()) == {Outcome.UNCHANGED}
    assert writes(audit) == []
    assert api.get(path) == before
