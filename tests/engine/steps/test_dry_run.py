"""What a run compares when it is asked to: by the server's dry run, and with nothing written."""

from __future__ import annotations

import base64
import copy
import hashlib
import io
import json
import secrets
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.events import Finished, ObjectDiff
from applyprune.model.fate import Fate, Outcome
from applyprune.model.options import Adopt, Conflicts, DryRun
from applyprune.planning.applyset import OWNED_BY, PART_OF
from applyprune.values import replace
from tests.support.actors import ALICE
from tests.support.api import Api, AuditTrail
from tests.support.fault_proxy import FaultProxy
from tests.support.objects import config_map, crd, custom_resource, manifest, of_kind
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually
from tests.support.workloads import run_ahead, workload

WRITES = {"create", "update", "patch", "delete"}


def compare(stage: Stage, *bodies: dict[str, Any], **options: Any) -> Story:
    """Return what an apply would change."""
    return stage.run(*bodies, dry_run=DryRun.SERVER, diff=True, **options)


def compared(story: Story) -> dict[str, ObjectDiff]:
    return {one.ref.short: one for one in story.of(ObjectDiff)}


def secret(**values: str) -> dict[str, Any]:
    return of_kind("Secret", "s", stringData=values)


def test_diff_compares_exactly_what_would_change(stage: Stage, audit: AuditTrail) -> None:
    """In the order of the apply, then the prunes; what stays as it is costs no request."""
    stage.run(*(config_map(name) for name in ("a", "b", "c", "d")))
    audit.restart()
    story = compare(stage, config_map("e"), config_map("b", "new"), config_map("a"))
    found = compared(story)
    assert [(one.ref.name, one.fate) for one in found.values()] == [
        ("b", Fate.CHANGE),
        ("e", Fate.CREATE),
        ("c", Fate.PRUNE),
        ("d", Fate.PRUNE),
    ]
    before, after = found["configmap/b"].before, found["configmap/b"].after
    assert before is not None
    assert after == {**before, "data": {"key": "new"}}
    assert set(after["metadata"]) == {"name", "namespace", "labels", "annotations"}
    assert (found["configmap/e"].before, found["configmap/c"].after) == (None, None)
    assert not any(one.drifted for one in found.values())
    # The plane's own parts write whenever they like.
    events = audit.ours()
    assert {
        "dryRun=All" in one["requestURI"] or "delete" in one["verb"]
        for one in events
        if one["verb"] in WRITES
    } == {True}
    asked = {one["objectRef"].get("name") for one in events if "objectRef" in one}
    assert {"b", "c", "d", "e"} < asked
    assert "a" not in asked
    assert stage.listed() == {f"configmap/{name}" for name in "abcd"}
    assert stage.run(*(config_map(name) for name in "abcd")).outcomes["configmap/c"] == "unchanged"


@pytest.mark.holds("secret-in-diff")
def test_diff_masks_a_secret_everywhere(stage: Stage, api: Api) -> None:
    """Raw, base64 and hex: no value is in the run's output."""
    token = secrets.token_hex(8)
    values = [f"{token}-{number}" for number in range(4)]
    stage.run(secret(a=values[0], b=values[1]))
    copied = {"metadata": {"annotations": {"copied": values[0]}}}
    api.patch(stage.path("s", "secrets"), {**copied, "stringData": {"a": values[2]}}, by=ALICE)
    for options in ({}, {"conflicts": Conflicts.FORCE}):
        story = compare(stage, secret(a=values[0], b=values[3]), **options)
        texts = str([(one, getattr(one, "before", 0), getattr(one, "after", 0))
                     for one in story.events])  # fmt: skip
        for value in values:
            for form in (value, base64.b64encode(value.encode()).decode(), value.encode().hex()):
                assert form not in texts
    found = compared(story)["secret/s"]
    assert found.before is not None
    assert found.after is not None
    assert found.before["data"] == {"a": "*** (before)", "b": "*** (before)"}
    assert found.after["data"] == {"a": "*** (after)", "b": "*** (after)"}
    assert found.after["metadata"]["annotations"] == {"copied": "***", OWNED_BY: stage.target.id}


def _packed(text: str) -> str:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("value", text)
    return base64.b64encode(archive.getvalue()).decode()


COPIES: dict[str, Callable[[str], str]] = {
    "zip": _packed,
    "compressed": lambda text: base64.b64encode(zlib.compress(text.encode())).decode(),
    "base64-of-json": lambda text: base64.b64encode(json.dumps({"a": text}).encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "sha256": lambda text: hashlib.sha256(text.encode()).hexdigest()[:60],
    "reversed": lambda text: text[::-1],
}


@pytest.mark.holds("secret-label", "secret-annotation")
def test_copies_in_a_secrets_metadata_are_not_shown(stage: Stage, api: Api) -> None:
    """In whatever form: of labels and annotations, only the manifest's own texts are shown."""
    value = secrets.token_hex(8)
    manifests = [secret(a=value), secret(a="new")]
    for body in manifests:
        body["metadata"] |= {"annotations": {"team": "platform"}, "labels": {"app": "web"}}
    stage.run(manifests[0], config_map("a"))
    copies = {name: copied(value) for name, copied in COPIES.items()}
    short = {
        name: copied for name, copied in copies.items() if len(copied) <= 63 and copied.isalnum()
    }
    assert {"hex", "sha256", "reversed"} <= short.keys()
    path = f"/api/v1/namespaces/{stage.namespace}/secrets/s"
    api.patch(path, {"metadata": {"annotations": copies, "labels": short}}, by=ALICE)
    changed, pruned = compare(stage, manifests[1], config_map("a")), compare(stage, config_map("a"))
    adopted = compare(replace(stage, name="other"), manifests[1], adopt=Adopt.ALL)
    for story in (changed, pruned, adopted):
        found = compared(story)["secret/s"]
        told = str([found, found.before, found.after, *story.events])
        assert [name for name, copied in copies.items() if copied in told] == []
        assert found.before is not None
        assert found.before["metadata"]["annotations"].keys() == {"team", OWNED_BY, *copies}
    after = compared(changed)["secret/s"].after
    assert after is not None
    assert after["metadata"]["annotations"] == {
        "team": "platform",
        OWNED_BY: stage.target.id,
        **dict.fromkeys(copies, "***"),
    }
    labels = {"app": "web", PART_OF: stage.target.id, **dict.fromkeys(short, "***")}
    assert after["metadata"]["labels"] == labels


def test_diff_separates_drift_from_a_new_manifest_and_names_its_author(
    stage: Stage, api: Api
) -> None:
    """With the field, both values and the manager; an object that is gone has drifted too."""
    stage.run(config_map("a"), config_map("b"), config_map("c"))
    api.patch(stage.path("a"), {"data": {"key": "theirs", "more": "x"}}, by=ALICE)
    api.patch(stage.path("b"), {"data": {"more": "x"}}, by=ALICE)
    api("DELETE", stage.path("c"))
    story = compare(
        stage, config_map("a"), config_map("b", "new"), config_map("c"), conflicts=Conflicts.FORCE
    )
    found = compared(story)
    (drift,) = found["configmap/a"].drift
    assert (drift.path, drift.wanted, drift.found) == ("/data/key", '"v"', '"theirs"')
    assert (drift.manager, drift.operation) == (ALICE, "Update")
    assert drift.time
    drifted = {name: one.drifted for name, one in found.items()}
    assert drifted == {"configmap/a": True, "configmap/b": False, "configmap/c": True}


def test_diff_reports_a_conflict_and_skips_the_prunes(stage: Stage, api: Api) -> None:
    """Like the apply: exit code 4, and the planned deletes are reported."""
    stage.run(config_map("a"), config_map("old"))
    api.patch(stage.path("a"), {"data": {"key": "theirs"}}, by=ALICE)
    story = compare(stage, config_map("a"))
    assert (story.exit_code, compared(story)) == (4, {})
    conflict = f'.data.key: theirs "theirs" → ours "v", owned by {ALICE}'
    assert conflict in story.problem("configmap/a")
    assert story.outcomes["configmap/old"] is Outcome.NOT_PRUNED
    (end,) = (one.problem for one in story.of(Finished))
    assert "the run would fail: other field managers own fields of 1" in str(end)


def test_diff_leaves_ignored_fields_out(stage: Stage) -> None:
    """An object that differs in nothing else counts as the same, once its fields are given away."""
    rule = ("configmap:/data/key",)
    stage.run(config_map("a"), config_map("b"))
    stage.run(config_map("a", "other"), config_map("b", "other"), ignore=rule)
    bodies = [config_map("a", "new"), config_map("b", "new", labels={"x": "y"})]
    story = compare(stage, *bodies, ignore=rule)
    assert story.outcomes == {"configmap/a": "unchanged", "configmap/b": "updated"}
    (found,) = compared(story).values()
    assert found.before is not None
    assert found.after is not None
    assert "data" not in found.before
    assert found.after["metadata"]["labels"]["x"] == "y"


def test_diff_does_not_wait_for_terminating_objects(stage: Stage, api: Api) -> None:
    """A finalizer may hold it indefinitely; the outcome is known while no time passes."""
    stage.run(config_map("held", finalizers=["x.example.com/held"]), config_map("a"))
    path = stage.path("held")
    api("DELETE", path)
    run_ahead(stage, last=0.0)
    story = compare(stage, config_map("a"))
    assert story.outcomes["configmap/held"] is Outcome.PRUNED
    body = [{"op": "remove", "path": "/metadata/finalizers"}]
    api.patch(path, body)


def test_adoption_of_the_same_manifest_changes_only_the_label(stage: Stage, api: Api) -> None:
    """kubectl owns the server's defaults too: they are not removed, but set again."""
    wanted, path = workload("Deployment"), stage.path("web", "deployments", "/apis/apps/v1")
    api.create(path.rpartition("/")[0], wanted, by="kubectl-client-side-apply")
    eventually(  # its controller writes it too
        lambda: api.get(path).get("status", {}).get("availableReplicas") == 1, lambda: "a Pod"
    )
    (found,) = compared(compare(stage, wanted)).values()
    assert found.before is not None
    assert found.after is not None
    labels = found.after["metadata"].pop("labels")
    before = dict(found.before["metadata"])
    before.pop("labels", None)
    assert set(labels) == {PART_OF}
    assert {**found.after} == {**found.before, "metadata": before}
    assert not found.not_checked


def test_diff_shows_what_an_adoption_removes(stage: Stage, api: Api) -> None:
    """A field that kubectl set and the manifest lacks: the server itself shows the result."""
    one = {**config_map("a"), "data": {"key": "v", "gone": "x", "changed": "old"}}
    api.create(stage.path(), one, by="kubectl-client-side-apply")
    api.patch(stage.path("a"), {"metadata": {"annotations": {"stays": "here"}}}, by=ALICE)
    wanted = {**config_map("a"), "data": {"key": "v", "changed": "new"}}
    (found,) = compared(compare(stage, wanted)).values()
    assert found.after is not None
    assert not found.not_checked
    stage.run(wanted)
    live = stage.run(wanted, reapply_all=True, dry_run=DryRun.SERVER, diff=True)
    assert live.outcomes == {"configmap/a": "unchanged"}
    assert found.after["data"] == api.get(stage.path("a"))["data"] == {"changed": "new", "key": "v"}
    assert found.after["metadata"]["annotations"] == {"stays": "here"}


def test_diff_shows_what_another_set_loses_and_what_is_recreated(stage: Stage) -> None:
    """The label and the fields that only the other set has set; what the server would create."""
    other, fixed = replace(stage, name="other"), {"immutable": True}
    other.run({**config_map("a"), "data": {"key": "v", "gone": "x"}})
    stage.run({**config_map("fixed"), **fixed})
    given = config_map("a", "new"), {**config_map("fixed", "new"), **fixed}
    found = compared(compare(stage, *given, adopt=Adopt.ALL, recreate=True))
    taken, recreated = found["configmap/a"], found["configmap/fixed"]
    assert taken.before is not None
    assert taken.after is not None
    assert taken.after["data"] == {"key": "new"}
    assert taken.before["metadata"]["labels"] != taken.after["metadata"]["labels"]
    assert recreated.fate is Fate.RECREATE
    assert recreated.after is not None
    after = recreated.after
    assert (after["metadata"]["name"], after["data"]) == ("fixed", {"key": "new"})
    # So that a pipeline can point at the line.
    assert taken.origin == manifest(given[0]).origin


def test_diff_uses_a_substitute_for_a_new_namespace(stage: Stage) -> None:
    """Under the object's own name, or another if that is taken; errors are the server's."""
    stage.run(config_map("taken"), prune=False)
    name = f"{stage.namespace}-new"
    home = of_kind("Namespace", name)
    service: dict[str, Any] = of_kind(
        "Service", "web", {"namespace": name}, spec={"ports": [{"port": 80}]}
    )
    good = [service, config_map("taken", namespace=name)]
    other = replace(stage, name="other")
    story = compare(other, home, *good)
    assert (story.exit_code, set(story.outcomes.values())) == (0, {Outcome.CREATED})
    found = compared(story)
    for short in ("service/web", "configmap/taken"):
        one = found[short]
        assert one.after is not None
        assert one.after["metadata"]["namespace"] == name
        assert f"checked in {stage.namespace}" in one.not_checked
    assert found["configmap/taken"].after is not None
    assert found["configmap/taken"].after["metadata"]["name"] == "taken"
    spec = (found["service/web"].after or {})["spec"]
    assert (spec["type"], spec["ports"][0]["protocol"]) == ("ClusterIP", "TCP")
    wrong = copy.deepcopy(service)
    wrong["spec"]["ports"] = [{"port": 0}]
    absent = config_map("lost", namespace=f"{name}-absent")
    story = compare(other, home, wrong, absent)
    assert story.exit_code == 3
    assert "spec.ports[0].port" in story.problem("service/web")
    assert "there is no namespace" in story.problem("configmap/lost")


def test_diff_ignores_policies_of_the_substitute_namespace(stage: Stage, api: Api) -> None:
    """What it refuses is not checked, and no failure."""
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    api.patch(f"/api/v1/namespaces/{stage.namespace}", label)
    name = f"{stage.namespace}-new"
    pod = of_kind(
        "Pod",
        "p",
        {"namespace": name},
        spec={"hostNetwork": True, "containers": [{"name": "c", "image": "c"}]},
    )
    home = of_kind("Namespace", name)
    story = compare(stage, home, pod)
    assert (story.exit_code, story.outcomes["pod/p"]) == (0, Outcome.CREATED)
    weaker = compared(story)["pod/p"].not_checked
    assert "not checked by the server" in weaker
    assert f"{stage.namespace}, tried instead, would reject it" in weaker


@pytest.fixture
def kinds(running: Plane) -> Stage:
    """A set in the default namespace of the plane for CRDs."""
    return Stage(running.kubeconfig, "default", name=f"set-{secrets.token_hex(3)}")


def sized(kind: str, **schema: Any) -> dict[str, Any]:
    one = crd(kind)
    size = {"type": "integer", "minimum": 1}
    spec = {"type": "object", "properties": {"size": size, **schema}}
    root = one["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    root["properties"]["spec"] = spec
    return one


def test_diff_checks_the_fields_of_a_new_kind_by_its_crd(kinds: Stage) -> None:
    """Names and types; the server judges the values once it knows the kind."""
    crd = sized("Coming", mode={"type": "string"})
    one = {**custom_resource("a", "Coming"), "spec": {"size": 2, "mode": "small"}}
    low = {**custom_resource("b", "Coming"), "spec": {"size": 0}}
    typo = {**custom_resource("c", "Coming"), "spec": {"sise": 1}}
    story = compare(kinds, crd, one, low, typo)
    assert story.exit_code == 3
    why = story.problem("coming.x.example.com/c")
    assert "set.yaml:4" in why
    assert "spec.sise: unknown field" in why
    story = compare(kinds, crd, one, low)
    assert story.exit_code == 0
    assert "only its fields were compared" in compared(story)["coming.x.example.com/b"].not_checked
    found = compared(story)["coming.x.example.com/a"]
    assert found.after is not None
    assert found.after["spec"] == {"size": 2, "mode": "small"}
    assert "only its fields were compared with its CRD" in found.not_checked
    # What was foretold comes.
    assert kinds.run(crd, one).exit_code == 0
    assert (
        compare(kinds, crd, one, reapply_all=True).outcomes["coming.x.example.com/a"] == "unchanged"
    )


def test_diff_checks_the_fields_of_a_changing_kind_by_its_new_crd(kinds: Stage) -> None:
    """Where the server knows only today's."""
    one: dict[str, Any] = {**custom_resource("a", "Changing"), "spec": {"size": 2}}
    kinds.run(sized("Changing"), one)
    wider = sized("Changing", note={"type": "string"})
    one["spec"] = {"size": 3, "note": "x"}
    new = {**custom_resource("b", "Changing"), "spec": {"size": 3, "note": "x"}}
    bad = {**custom_resource("c", "Changing"), "spec": {"size": 3, "note": 1}}
    story = compare(kinds, wider, one, new, bad)
    why = story.problem("changing.x.example.com/c")
    assert "spec.note: expected string, got integer" in why
    story = compare(kinds, wider, one, new)
    found = compared(story)["changing.x.example.com/a"]
    assert (found.before or {})["spec"] == {"size": 2}
    assert (found.after or {})["spec"] == {"size": 3, "note": "x"}
    assert "only its fields were compared with the new one" in found.not_checked
    assert compared(story)["changing.x.example.com/b"].fate is Fate.CREATE


@pytest.mark.parametrize(
    "rule",
    [pytest.param("secret:/data", marks=pytest.mark.holds("secret-unsent")), "secret:/data/p"],
)
def test_ignore_rule_does_not_unmask_a_secret(stage: Stage, rule: str) -> None:
    """Without its values, a copy of them would be no copy."""
    one = secret(p="hunter2")
    one["metadata"]["annotations"] = {"note": "now it is hunter2"}
    stage.run(one)
    other = secret(p="hunter3")
    other["metadata"]["annotations"] = {"note": "now it is hunter3"}
    (found,) = compared(compare(stage, other, ignore=(rule,))).values()
    told = json.dumps([found.before, found.after])
    assert "*** (after)" in told
    for value in ("hunter2", "hunter3"):
        assert value not in told
        assert base64.b64encode(value.encode()).decode() not in told


@pytest.mark.parametrize(
    "check", [pytest.param(True, marks=pytest.mark.holds("namespace-of-a-new-kind")), False]
)
def test_resource_of_a_new_kind_needs_its_namespace(
    running: Plane, crd_stage: Stage, tmp_path: Path, check: bool
) -> None:
    """A check finds that the namespace is not there; without one, the object is sent once."""
    kind = f"Lost{int(check)}"
    given = [crd(kind), custom_resource("one", kind, namespace="nowhere-at-all")]
    with FaultProxy(running) as proxy:
        through = replace(crd_stage, kubeconfig=proxy.kubeconfig(tmp_path))
        story = through.run(*given, check=check)
        sent = [
            one for one in proxy.exchanges if one.method == "PATCH" and "dryRun" not in one.query
        ]
    name = f"{kind.lower()}.x.example.com/one"
    assert (story.exit_code, story.outcomes[name]) == (3, Outcome.FAILED)
    assert "there is no namespace nowhere-at-all" in story.problem(name)
    assert "kubectl create namespace nowhere-at-all" in story.problem(name)
    assert [one.path.endswith("/one") for one in sent] == ([] if check else [False, True])
    own = f"{crd_stage.namespace}-own"
    home = of_kind("Namespace", own)
    made = custom_resource("one", kind, namespace=own)
    assert crd_stage.run(crd(kind), home, made, check=True).exit_code == 0
