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
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage
from tests.support.waiting import eventually, next_second

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


EDITS: dict[str, tuple[str, Callable[[Any], None]]] = {
    "a key more in a map of one value, of a kind without a generation": (
        "service/p",
        lambda body: body["spec"]["selector"].update(foreign="1"),
    ),
    "managedFields wiped, and a label": ("cronjob.batch/c", _all(_wiped, _label)),
    "managedFields wiped, and a value": ("configmap/m", _all(_wiped, _value)),
    # It alone leaves managedFields as they are.
    "a list with keys in another, in another order": (
        "cronjob.batch/c",
        lambda body: _pod(body)["containers"][0]["env"].reverse(),
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_put_is_reverted(stage: Stage, api: Api, name: str) -> None:
    """By PUT, which replaces everything: values, orders, managedFields.

    Other fields, kinds and ways of writing: ``test_random_changes.py``.
    """
    target, edit = EDITS[name]
    stage.run(*QUIET.values())
    path = PATHS[target].format(stage.namespace)
    before = _put(api, path, edit)
    assert _substance(api.get(path)) != _substance(before), "the change took"
    story = stage.run(*QUIET.values(), conflicts=Conflicts.FORCE)
    assert story.outcomes[target] is Outcome.UPDATED, story.events
    assert _others_unchanged(story.outcomes, target)
    assert _substance(api.get(path)) == _substance(before)


def test_wiped_managed_fields_are_restored(stage: Stage, api: Api) -> None:
    """Without our entry nothing would show the next change, nor prune the object."""
    stage.run(*QUIET.values())
    path = PATHS["cronjob.batch/c"].format(stage.namespace)
    _put(api, path, _wiped)
    stage.run(*QUIET.values())
    # The server gives all that it found to a manager of its own making; the next run takes it over,
    # or no field that leaves the manifest would ever go.
    stage.run(*QUIET.values())
    managers = [one["manager"] for one in api.get(path)["metadata"]["managedFields"]]
    assert managers == [stage.target.manager]
    assert set(stage.run(*QUIET.values()).outcomes.values()) == {Outcome.UNCHANGED}


@pytest.mark.parametrize(
    ("target", "soon"),
    [("cronjob.batch/c", True), ("configmap/m", True), ("configmap/m", False)],
)
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


REWRITES: dict[str, tuple[str, str, str]] = {
    "a field": ("cronjob.batch/c", "/spec/schedule", "0 4 * * *"),
    "a label of a kind without a generation": ("configmap/m", "/metadata/labels/team", "z"),
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
