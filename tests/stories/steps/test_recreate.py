"""Recreations: for which fields, of what they never delete, what meets them, and how they end."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from itertools import count
from typing import Any

import pytest

from applyprune.errors import Denied
from applyprune.localplane import Plane
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import Conflicts, DryRun
from tests.decisions.world import annotated, owned_by
from tests.support.api import Api
from tests.support.clocks import AGES
from tests.support.denials import denied
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults, first
from tests.support.objects import CLAIM, DEPLOYMENT, config_map, of_kind
from tests.support.run_rows import RunRow
from tests.support.stage import Stage, Story
from tests.support.webhook import Webhook

Body = dict[str, Any]
ALLOWED = {"applyprune.dev/recreate": "allowed"}


def _immutable(value: str, name: str = "fixed", **metadata: Any) -> Body:
    return {**config_map(name, value, **metadata), "immutable": True}


def _secret(value: str, name: str = "s", kind: str = "Opaque", **parts: Any) -> Body:
    values = {"username": "u", "password": value}
    return of_kind("Secret", name, type=kind, stringData=values, **parts)


# Fields that the server refuses to change in place, each named in one line.


def _job(name: str, image: str, *env: str, **container: Any) -> Body:
    made: Body = {"name": "c", "image": image, **container}
    made["env"] = [{"name": one, "value": "1"} for one in env]
    pod = {"restartPolicy": "Never", "containers": [made]}
    return of_kind("Job", name, spec={"template": {"spec": pod}})


def _stateful(service: str, storage: str = "1Mi", **spec: Any) -> Body:
    resources = {"requests": {"storage": storage}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": resources}
    return of_kind("StatefulSet", "many", spec={
        "replicas": 1,
        "serviceName": service,
        "selector": {"matchLabels": {"app": "web"}},
        "template": DEPLOYMENT["spec"]["template"],
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        **spec,
    })  # fmt: skip


def _service(name: str, address: str | None, **spec: Any) -> Body:
    given = {} if address is None else {"clusterIP": address}
    return of_kind("Service", name, spec={"ports": [{"port": 80}], **given, **spec})


def _deployment(app: str, replicas: int = 1) -> Body:
    body = copy.deepcopy(DEPLOYMENT)
    body["spec"]["selector"]["matchLabels"] = {"app": app}
    body["spec"]["template"]["metadata"]["labels"] = {"app": app}
    body["spec"]["replicas"] = replicas
    return body


NEVER = "persistentvolumeclaim/data"
QUANTITIES: Body = {"resources": {"limits": {"cpu": "1000m"}, "requests": {"cpu": "0.5"}}}
STORAGE = "spec.volumeClaimTemplates[0].spec.resources.requests.storage: 1Mi → 2Mi"
CASES: dict[str, tuple[Body, Body, tuple[str, ...]]] = {
    # The server has stored another form of the same quantity: only the image and B differ.
    "job.batch/image": (
        _job("image", "m:1", "A", "B", **QUANTITIES), _job("image", "m:2", "A", **QUANTITIES),
        ("spec.template.spec.containers[0].image: m:1 → m:2",
            'spec.template.spec.containers[0].env[1]: {"name": "B", "value": "1"} → none'),
    ),
    "deployment.apps/web": (
        DEPLOYMENT, _deployment("other", 2), ("spec.selector.matchLabels.app: web → other",),
    ),
    # Each with both values, and only what cannot be changed: not the number of replicas.
    "statefulset.apps/many": (
        _stateful("one"), _stateful("two", "2Mi", replicas=2, podManagementPolicy="Parallel"),
        ("spec.serviceName: one → two", STORAGE,
            "spec.podManagementPolicy: OrderedReady → Parallel"),
    ),
    NEVER: (
        CLAIM, {**CLAIM, "spec": {**CLAIM["spec"], "accessModes": ["ReadWriteMany"]}},
        ("spec.accessModes[0]: ReadWriteOnce → ReadWriteMany",),
    ),
    "service/web": (_service("web", ""), _service("web", "None"), ("spec.clusterIP: 10.",)),
    # The server names the ipFamilyPolicy of a headless Service, which nobody has written.
    "service/headless": (
        _service("headless", "None"), _service("headless", None, selector={"app": "web"}),
        ('spec.selector: none → {"app": "web"}', "spec.clusterIP: None → none"),
    ),
    "secret/type": (
        _secret("geheim-4711", "type"), _secret("geheim-4711", "type", "kubernetes.io/basic-auth"),
        ("type: Opaque → kubernetes.io/basic-auth",),
    ),
    "secret/value": (
        _secret("geheim-4711", "value", immutable=True),
        _secret("geheim-4712", "value", immutable=True),
        ("data.password: *** (before) → *** (after)",),
    ),
    "configmap/fixed": (_immutable("one"), _immutable("two"), ("data.key: one → two",)),
}  # fmt: skip


def _uids(stage: Stage) -> dict[str, str]:
    return {ref.short: entry.uid for ref, entry in stage.inventory().entries.items()}


def _is_told(story: Story, name: str, before: Body, lines: tuple[str, ...]) -> None:
    problem = story.problem(name)
    first, hint = problem.split("\n")
    assert all(line in first for line in lines), problem
    assert first.count("→") == len(lines), problem
    assert "replicas" not in first
    why = ", as it has immutable: true" if before.get("immutable") else ""
    assert first.endswith(f" cannot be changed in place{why}"), problem
    if name == NEVER:
        assert "It cannot be recreated: a PersistentVolumeClaim is never" in hint
    else:
        assert hint.startswith("  --recreate deletes and creates it."), problem
    for word in ("Invalid value", "geheim", "…", "@@", "null"):
        assert word not in problem


def test_immutable_field_is_named_in_one_line_or_recreated(stage: Stage) -> None:
    """With both values, by an apply and by each check; the objects are ours as before.

    A claim never is, whatever allows it. Of annotated objects no option is needed.
    """
    befores, afters, lines = zip(*CASES.values(), strict=True)
    assert stage.run(*befores, config_map("a"), wait=False).exit_code == 0
    uids = _uids(stage)
    options: dict[str, Any]
    for options in ({}, {"dry_run": DryRun.SERVER}, {"check": True}):
        story = stage.run(*afters, config_map("a", "changed"), wait=False, **options)
        assert story.exit_code == 3
        failed = {name for name, one in story.outcomes.items() if one is Outcome.FAILED}
        assert failed == CASES.keys()
        # The rest is applied, unless the server has checked the plan.
        assert options or story.outcomes["configmap/a"] is Outcome.UPDATED
        for name, before, said in zip(CASES, befores, lines, strict=True):
            _is_told(story, name, before, said)
    given, rest = [*afters, config_map("a", "changed")], {"configmap/a": Outcome.UNCHANGED}
    outcomes = {**dict.fromkeys(CASES, Outcome.RECREATED), NEVER: Outcome.FAILED, **rest}
    kinds: dict[str, Any] = {"recreate": True, "wait": False, "timeout": AGES}
    for dry_run in (DryRun.SERVER, DryRun.OFF):
        assert _uids(stage) == uids
        story = stage.run(*given, dry_run=dry_run, **kinds)
        assert (story.exit_code, story.outcomes) == (3, outcomes), story.events
    now = _uids(stage)
    same = {NEVER, "configmap/a"}
    assert {name for name, uid in now.items() if uid == uids[name]} == same
    assert {entry.ownership for entry in stage.inventory().entries.values()} == {Ownership.OWNED}
    marked = copy.deepcopy(CASES["configmap/fixed"][0])
    marked["metadata"]["annotations"] = ALLOWED
    story = stage.run(marked, prune=False, wait=False)
    assert story.outcomes["configmap/fixed"] is Outcome.RECREATED, story.events


@pytest.mark.parametrize("check", [True, False])
def test_immutable_secret_is_recreated_where_drift_is_reverted(
    stage: Stage, api: Api, check: bool
) -> None:
    """No digest shows that its values have changed. What others have changed is drift even so."""
    ref = "secret/s"
    given: dict[str, Any] = {"conflicts": Conflicts.REVERT, "recreate": True, "check": check}
    stage.run(_secret("geheim-4711", immutable=True))
    for after in (_secret("geheim-4712", immutable=True), _secret("geheim-4712")):
        story = stage.run(after, timeout=AGES, **given)
        assert (story.exit_code, story.outcomes) == (0, {ref: Outcome.RECREATED}), story.events
        assert [one.drift for one in story.plan.applies] == [()]
    path = stage.path("s", "secrets")
    theirs = {"data": {"password": "dGhlaXJz"}, "immutable": True}
    uid = api.patch(path, theirs, by="opponent")["metadata"]["uid"]
    told = stage.run(after, timeout=AGES, **given).problem(ref)
    assert "its manifest has not changed, and reverting drift deletes nothing" in told
    assert "geheim" not in told
    assert api.get(path)["metadata"]["uid"] == uid


UNCHANGED_B = {"data": {"key": "1"}, "immutable": True}


def _never(*others: Any, **parts: Any) -> RunRow:
    """Return the row of an object that is not recreated."""
    return RunRow(
        applied=[A, _immutable("1", "b")],
        others=others,
        given=[A, _immutable("2", "b")],
        options={"recreate": True, "conflicts": Conflicts.FORCE},
        exit_code=3,
        outcomes={"configmap/b": Outcome.FAILED},
        live={"configmap/b": UNCHANGED_B},
        says={"configmap/b": "It cannot be recreated"},
        **parts,
    )


A = config_map("a")
FOREIGN = {
    "kept": _never(annotated("configmap/b", {"applyprune.dev/prune": "disabled"})),
    "maybe kept": _never(annotated("configmap/b", {"applyprune.dev/prune": "never"})),
    "owned": _never(owned_by("configmap/b", "configmap/a")),
    # The manifest would be refused at its creation, too: nothing is deleted for it.
    "an invalid change": RunRow(
        applied=[DEPLOYMENT],
        given=[{**DEPLOYMENT, "metadata": {"name": "web", "labels": {"app": "not a label"}}}],
        options={"recreate": True},
        exit_code=3,
        outcomes={"deployment.apps/web": Outcome.FAILED},
        live={"deployment.apps/web": {"metadata": {"generation": 1}}},
        says={"deployment.apps/web": "a valid label must be"},
    ),
}


@pytest.mark.holds("mark-before-recreation", row="maybe kept")
@pytest.mark.parametrize("row", FOREIGN.values(), ids=FOREIGN)
def test_object_is_not_recreated(stage: Stage, api: Api, row: RunRow) -> None:
    """Marked to be kept, somebody else's by an ownerReference, or not for an immutable field."""
    row.holds(api, stage)


# What meets a recreation on the way.


@pytest.mark.holds("recreated-by-others")
def test_recreation_that_others_were_faster_than_is_not_reported_as_done(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """Another tool takes the name between the delete and the create."""
    stage.run(_immutable("a"))
    path = stage.path()

    def before(seen: Exchange) -> None:
        is_create = seen.method == "PATCH" and seen.path == f"{path}/fixed"
        if is_create and not api.exists(seen.path):
            marks = {"meta.helm.sh/release-name": "web"}
            api.create(path, config_map("fixed", "theirs", annotations=marks))

    proxy.before_forward = before
    story = spoiled.run(_immutable("b"), recreate=True)
    assert (story.exit_code, story.outcomes) == (3, {"configmap/fixed": Outcome.FAILED})
    assert api.get(f"{path}/fixed")["data"] == {"key": "theirs"}


@pytest.mark.holds("recreation-judged-again", row="a value")
@pytest.mark.parametrize("change", ["a value", "a mark", "always"])
def test_object_that_changes_before_its_delete_is_judged_again(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, change: str
) -> None:
    """A controller writes to it, somebody protects it, or it never stays as it is."""
    stage.run(_immutable("a"))
    path = stage.path("fixed")
    uid = api.get(path)["metadata"]["uid"]
    deletes = count(1)

    def before(seen: Exchange) -> None:
        is_delete = seen.method == "DELETE" and seen.path == path and "dryRun" not in seen.query
        if not is_delete or ((number := next(deletes)) > 1 and change != "always"):
            return
        marks = {"applyprune.dev/prune": "disabled"} if change == "a mark" else {"n": str(number)}
        patch = {"metadata": {"annotations": marks}}
        api.patch(path, patch, by="job-controller")

    proxy.before_forward = before
    story = spoiled.run(_immutable("b"), recreate=True)
    if change == "a value":
        assert story.outcomes == {"configmap/fixed": Outcome.RECREATED}, story.events
        assert (api.get(path)["metadata"]["uid"] != uid, next(deletes)) == (True, 3)
        return
    expected = {"a mark": "applyprune.dev/prune", "always": "changes faster than it can be deleted"}
    assert (story.exit_code, story.outcomes) == (3, {"configmap/fixed": Outcome.FAILED})
    assert expected[change] in story.problem("configmap/fixed")
    assert (api.get(path)["metadata"]["uid"], api.get(path)["data"]) == (uid, {"key": "a"})


def _creates(seen: Exchange) -> bool:
    is_new = b'"resourceVersion":"1"' in seen.body
    return seen.method == "PATCH" and is_new and seen.path.endswith("/fixed")


def test_create_that_fails_after_the_delete_is_recovered(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api
) -> None:
    """The object is missing for a moment, but stays listed. A lost reply to the create is ours."""
    stage.run(_immutable("a"))
    spoiled.budget = 0.2
    proxy.rule = always(faults.status(500, reason="InternalError"), where=_creates)
    assert spoiled.run(_immutable("b"), recreate=True).exit_code == 3
    assert not api.exists(stage.path("fixed"))
    assert stage.listed() == {"configmap/fixed"}
    assert stage.run(_immutable("b")).outcomes == {"configmap/fixed": Outcome.CREATED}
    spoiled.budget = 5.0
    proxy.rule = first(1, faults.lose_reply(), where=_creates)
    story = spoiled.run(_immutable("c"), recreate=True)
    assert story.outcomes == {"configmap/fixed": Outcome.RECREATED}, story.events
    assert {one.ownership for one in stage.inventory().entries.values()} == {Ownership.OWNED}


# A refusal by a policy or a webhook is not an immutable field.


def _frozen(
    api: Api, namespace: str, plural: str, **validation: str
) -> AbstractContextManager[None]:
    """Let a policy refuse each change of the data of the object ``frozen``."""
    tried = f"/api/v1/namespaces/{namespace}/{plural.split(maxsplit=1)[0]}/frozen?dryRun=All"
    expression = "object.metadata.name != 'frozen' || object.data == oldObject.data"
    told = {"expression": expression, "message": "updates are frozen until Monday"}

    def change() -> int:
        kind = "application/merge-patch+json"
        return api("PATCH", tried, {"data": {"key": "eA=="}}, content_type=kind)[0]

    return denied(api, namespace, plural, "UPDATE", change, **told | validation)


@pytest.mark.parametrize(
    ("reason", "check"), [("", True), ("", False), ("RequestEntityTooLarge", False)]
)
def test_refusal_of_a_policy_recreates_nothing(
    stage: Stage, api: Api, reason: str, check: bool
) -> None:
    """Its words are shown, but of a Secret, which may have them; whatever code it answers with."""
    chosen = {"reason": reason} if reason else {}
    marks = {"annotations": ALLOWED}
    before, secret = (
        of_kind("Secret", "frozen", marks, stringData={"key": one}) for one in ("one", "two")
    )
    stage.run(config_map("frozen", "1", **marks), before)
    uids = _uids(stage)
    told = "updates are frozen until geheim-4711"
    with _frozen(api, stage.namespace, "configmaps secrets", message=told, **chosen):
        story = stage.run(config_map("frozen", "2", **marks), secret, recreate=True, check=check)
    names = ("configmap/frozen", "secret/frozen")
    assert (story.exit_code, story.outcomes) == (3, dict.fromkeys(names, Outcome.FAILED))
    for name in names:
        assert f"ValidatingAdmissionPolicy '{stage.namespace}" in story.problem(name)
        assert (told in story.problem(name)) is (name == names[0])
        for word in ("--recreate", "in place", "credentials"):
            assert word not in story.problem(name)
    assert _uids(stage) == uids
    assert api.get(stage.path("frozen"))["data"] == {"key": "1"}


def _like_an_immutable_field(code: int, request: dict[str, Any]) -> dict[str, Any] | None:
    if request["name"] != "frozen":
        return None
    cause = {"reason": "FieldValueForbidden", "message": "field is immutable", "field": "data"}
    return {
        "status": "Failure",
        "reason": "Invalid",
        "code": code,
        "message": "data: Forbidden: field is immutable when `immutable` is set",
        "details": {"name": "frozen", "kind": "ConfigMap", "causes": [cause]},
    }


def test_refusal_of_a_webhook_recreates_nothing(stage: Stage, plane: Plane, api: Api) -> None:
    """Whatever it says: the server's own words would begin otherwise."""
    stage.run(config_map("frozen", "1", annotations=ALLOWED))
    uids, codes = _uids(stage), [400, 413, 422]

    def reply(request: dict[str, Any]) -> dict[str, Any] | None:
        return _like_an_immutable_field(codes[0], request)

    with Webhook(plane, api, stage.namespace, ("UPDATE",), reply) as webhook:
        while codes:
            story = stage.run(config_map("frozen", "2", annotations=ALLOWED), recreate=True)
            assert set(webhook.refused) == {"UPDATE frozen"}
            assert story.outcomes == {"configmap/frozen": Outcome.FAILED}
            told = story.problem("configmap/frozen")
            assert 'admission webhook "' in told
            assert "field is immutable" in told
            assert "--recreate" not in told
            codes.pop(0)
    assert _uids(stage) == uids


def test_refusal_of_the_inventory_says_what_to_except(stage: Stage, api: Api) -> None:
    """A policy that demands a label of every ConfigMap: the set itself has it."""
    maps = stage.path()
    api.create(maps, config_map("frozen"))
    member = config_map("a")
    member["metadata"]["labels"] = {"team": "x"}
    assert stage.run(member).exit_code == 0
    rule = "has(object.metadata.labels) && 'team' in object.metadata.labels"
    with (
        _frozen(api, stage.namespace, "configmaps", expression=rule, message="no label team"),
        pytest.raises(Denied) as caught,
    ):
        stage.run({**member, "data": {"key": "changed"}})
    assert "no label team" in caught.value.message
    assert "configmap/applyprune-web is the set's inventory" in caught.value.hint
    assert "applyset.kubernetes.io/id or applyprune.dev/inventory" in caught.value.hint
    assert api.get(f"{maps}/a")["data"] == {"key": "v"}
