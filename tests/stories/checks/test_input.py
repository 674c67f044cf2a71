"""An input with errors or wrong fields: nothing of the set is written, and all are reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from applyprune.errors import ApplypruneError, problems_of
from applyprune.localplane import Plane
from applyprune.model.events import Event, Finished
from applyprune.model.fate import Fate, Outcome
from applyprune.model.options import DryRun, HelmHooks, Mode
from applyprune.planning.desired import HOOK
from applyprune.planning.marks import READY_WHEN
from applyprune.planning.order import DEPENDS_ON
from applyprune.values import replace
from tests.support.api import Api, AuditTrail, writes
from tests.support.command import applyprune
from tests.support.fault_proxy import Exchange, FaultProxy, always, faults
from tests.support.input_files import write_input
from tests.support.objects import config_map, crd, custom_resource, of_kind
from tests.support.stage import Stage
from tests.support.waiting import eventually

UNKNOWN: dict[str, Any] = {"apiVersion": "x.io/v1", "kind": "Nonesuch", "metadata": {"name": "f"}}
FAULTY = [
    config_map("hook", annotations={HOOK: "pre-install"}),
    UNKNOWN,
    config_map("needy", annotations={DEPENDS_ON: "/Secret/nowhere"}),
    config_map("ruled", annotations={READY_WHEN: "self.("}),
    config_map("a", "new"),
]
LINES = {"1", "2", "3", "4"}
TYPO = {**config_map("typo"), "dato": {}}
WRONG: dict[str, Any] = {**config_map("wrong"), "data": {"port": 8080, "debug": True}}

# Errors of the input: no object is read.


@pytest.mark.parametrize(
    "options",
    [{"dry_run": DryRun.SERVER}, {"mode": Mode.PRUNE}, {"ready_when": (("cm", "self.("),)}],
)
def test_errors_are_reported_together_and_no_object_is_read(
    spoiled: Stage, proxy: FaultProxy, options: dict[str, Any]
) -> None:
    """An object with an error would look as if it had left the set."""
    spoiled.run(config_map("a"), config_map("b"), config_map("c"))
    before = len(proxy.exchanges)
    events: list[Event] = []
    with pytest.raises(ApplypruneError) as caught:
        replace(spoiled, seen=events.append).run(*FAULTY, **options)
    told = [str(problem) for problem in problems_of(caught.value)]
    lines = [line for line in LINES if any(f"set.yaml:{line}" in one for one in told)]
    wanted = LINES - {"4"} if options.get("mode") is Mode.PRUNE else LINES
    assert (caught.value.exit_code, set(lines)) == (2, wanted)
    assert any("ready-when" in one for one in told) is ("ready_when" in options)
    assert {type(event).__name__ for event in events} == {"Started"}
    sent = [one.path for one in proxy.exchanges[before:] if one.path not in {"/api", "/apis"}]
    # The unknown kind may be that of a CRD which the list of kinds does not have yet.
    assert [path.rpartition("/")[2] for path in sent] == [
        "applyprune-web",
        "customresourcedefinitions",
        "apiservices",
    ]
    assert spoiled.listed() == {"configmap/a", "configmap/b", "configmap/c"}


def test_command_line_has_the_place_of_each_error(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """In text and in JSON, with exit code 2."""
    source = write_input(tmp_path / "set.yaml", FAULTY)
    plan = tmp_path / "web.plan"
    rest = ("-f", source, "-n", namespace)
    ended = applyprune("plan", "web", "--out", plan, *rest, kubeconfig=plane.kubeconfig)
    assert ended.code == 2, ended.err
    assert all(f"error: {source}:{line}" in ended.err for line in LINES), ended.err
    assert not plan.exists()
    ended = applyprune("apply", "web", *rest, "-o", "json", kubeconfig=plane.kubeconfig)
    told = json.loads(ended.out)
    assert (ended.code, told["exitCode"], told["plan"], told["objects"]) == (2, 2, None, [])
    assert {str(one["origin"]["line"]) for one in told["errors"]} == LINES


def _hook(name: str, events: str, **annotations: str) -> dict[str, Any]:
    marks = {HOOK: events, "helm.sh/hook-delete-policy": "before-hook-creation", **annotations}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    return of_kind("Job", name, {"annotations": marks}, spec={"template": {"spec": pod}})


def test_hook_of_a_chart_does_not_run_where_helm_would_not_run_it(stage: Stage, api: Api) -> None:
    """That of a deletion never; one of an installation is an ordinary object with ``apply``.

    Which hooks are left out, refused or kept is decided in ``tests/decisions/test_chart_hooks.py``.
    """
    names = {"configmap/web", "job.batch/migrate"}
    given = config_map("web"), _hook("clean", "pre-delete"), _hook("migrate", "pre-install")
    for outcome in (Outcome.CREATED, Outcome.UNCHANGED):
        story = stage.run(*given, helm_hooks=HelmHooks.APPLY)
        assert story.outcomes == dict.fromkeys(names, outcome)
    jobs = stage.path("", "jobs", "/apis/batch/v1")
    assert [one["metadata"]["name"] for one in api.get(jobs)["items"]] == ["migrate"]
    assert stage.listed() == names
    told = str(stage.explain("job/clean", *given[:2]).explanation)
    assert "it is in the input as a chart hook (pre-delete): " in told
    assert stage.run(mode=Mode.DELETE).outcomes == dict.fromkeys(names, Outcome.DELETED)
    assert not api.exists(f"{jobs}/clean")


def test_name_with_a_space_is_applied_and_pruned(stage: Stage, api: Api) -> None:
    """Groups of directories are called so, and RBAC takes any segment of a path."""
    name, group = " Domain Users (EU)", "rbac.authorization.k8s.io"
    binding = of_kind(
        "RoleBinding", name, roleRef={"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        subjects=[{"kind": "Group", "name": "web team", "apiGroup": group}],
    )  # fmt: skip
    path = stage.path(quote(name), "rolebindings", f"/apis/{group}/v1")
    assert stage.run(binding, config_map("a")).exit_code == 0
    assert api.get(path)["metadata"]["name"] == name
    again = stage.run(binding, config_map("a"), dry_run=DryRun.SERVER)
    assert again.outcomes[f"rolebinding.{group}/{name}"] is Outcome.UNCHANGED
    assert stage.run(config_map("a")).exit_code == 0
    assert not api.exists(path)


# Wrong fields.


def _maps(stage: Stage, api: Api) -> list[str]:
    items = api.get(stage.path())["items"]
    names = [item["metadata"]["name"] for item in items]
    return [name for name in names if name != "kube-root-ca.crt"]


def _openapi(exchange: Exchange) -> bool:
    return exchange.path.startswith("/openapi/")


@pytest.mark.holds("field-check")
def test_typo_in_one_object_leaves_the_whole_set_unwritten(stage: Stage, audit: AuditTrail) -> None:
    """Neither the inventory nor an object; nothing is pruned either."""
    assert stage.run(config_map("a"), config_map("leaves")).exit_code == 0
    before = stage.inventory()
    audit.restart()
    story = stage.run(config_map("a", "changed"), config_map("new"), TYPO)
    assert story.exit_code == 3
    assert story.outcomes == {
        "configmap/typo": Outcome.FAILED,
        "configmap/leaves": Outcome.NOT_PRUNED,
    }
    assert "dato: unknown field" in story.problem("configmap/typo")
    assert "Did you mean data?" in story.problem("configmap/typo")
    end = story.events[-1]
    assert isinstance(end, Finished)
    assert "nothing was changed: 1 object cannot be applied" in str(end.problem)
    assert writes(audit) == []
    assert stage.inventory() == before
    assert stage.run(config_map("a", "changed"), config_map("new")).exit_code == 0
    assert writes(audit)


def test_typo_leaves_even_the_namespace_uncreated(
    stage: Stage, api: Api, audit: AuditTrail
) -> None:
    """The first run of a set would create it for the inventory."""
    name = f"{stage.namespace}-new"
    elsewhere = Stage(stage.kubeconfig, name)
    audit.restart()
    assert elsewhere.run(of_kind("Namespace", name), TYPO).exit_code == 3
    assert elsewhere.run(TYPO, create_namespace=True).exit_code == 3
    assert writes(audit) == []
    assert not api.exists(f"/api/v1/namespaces/{name}")


def test_faults_are_part_of_the_plan(stage: Stage, audit: AuditTrail) -> None:
    """Each faulty object is refused with the others that would fail; the rest has its own fate."""
    replace(stage, name="other").run(config_map("theirs"))
    audit.restart()
    given = (config_map("a"), config_map("theirs", "mine"), TYPO, WRONG)
    for options in ({}, {"dry_run": DryRun.SERVER, "diff": True}):
        story = stage.run(*given, **options)
        fates = {step.desired.ref.name: step.fate for step in story.plan.applies}
        refused = ("theirs", "typo", "wrong")
        assert fates == {"a": Fate.CREATE, **dict.fromkeys(refused, Fate.REFUSE)}
        assert {step.desired.ref.name for step in story.plan.faults} == {*refused}
        assert {step.request for step in story.plan.faults} == {None}
        assert story.exit_code == 3
    assert writes(audit) == []


def test_all_faults_of_all_files_are_told_at_once(
    plane: Plane, stage: Stage, api: Api, tmp_path: Path
) -> None:
    """Each with its file and line, in text and in JSON."""
    (tmp_path / "a.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  debug: yes\n  port: 80\n"
    )
    (tmp_path / "b.yaml").write_text(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: b\nspec:\n  replica: 3\n"
        "  template:\n    spec:\n      containers:\n      - name: b\n        imagee: nginx\n"
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: fine\n"
    )
    call = ("apply", "web", "-f", tmp_path, "-n", stage.namespace)
    ended = applyprune(*call, kubeconfig=plane.kubeconfig)
    assert ended.code == 3
    for words in (
        "a.yaml:6:3",
        "2 fields of the wrong type: data.debug, data.port",
        "b.yaml:6:3",
        "spec.replica, spec.template.spec.containers[0].imagee",
        "11 |         imagee: nginx",
        "Did you mean image?",
        "nothing was changed: 2 objects cannot be applied",
    ):
        assert words in ended.err
    assert "fine" not in ended.out + ended.err
    assert _maps(stage, api) == []
    document = json.loads(applyprune(*call, "-o", "json", kubeconfig=plane.kubeconfig).out)
    steps = document["plan"]["objects"]
    assert [step["fate"] for step in steps] == ["refuse", "create", "refuse"]
    told = [step["problem"] for step in steps if step["problem"]]
    assert [fault["origin"]["line"] for fault in told] == [6, 6]
    assert [len(fault["marks"]) for fault in told] == [2, 2]
    assert document["exitCode"] == 3


def test_value_of_a_secret_is_not_told(plane: Plane, namespace: str, tmp_path: Path) -> None:
    """A number in its data is a wrong type, and a secret; a list is not a value at all."""
    source = tmp_path / "secret.yaml"
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: pin}\n"
    source.write_text(
        f"{text}data: {{pin: 4711471147}}\n---\n{text}data: {{list: [hunter2]}}\nimmutable: hunter2"
    )
    for form in ("text", "json"):
        call = ("apply", "web", "-f", source, "-n", namespace, "-o", form)
        ended = applyprune(*call, kubeconfig=plane.kubeconfig)
        assert ended.code == 2
        said = ended.out + ended.err
        for told in ("the value of 'pin' is a number", "the value of 'list' is a list"):
            assert told in said
        assert not [value for value in ("4711471147", "hunter2") if value in said]


def test_run_that_sends_nothing_reads_no_schema(spoiled: Stage, proxy: FaultProxy) -> None:
    """And one that sends something reads one document for each group version."""
    spoiled.run(config_map("a"))
    assert sum(map(_openapi, proxy.exchanges)) == 1
    seen = len(proxy.exchanges)
    spoiled.run(config_map("a"))
    spoiled.run(config_map("a", "changed"), dry_run=DryRun.CLIENT)
    assert not any(map(_openapi, proxy.exchanges[seen:]))
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}}
    account = of_kind("ServiceAccount", "s")
    spoiled.run(config_map("a"), config_map("b"), account, role)
    assert sorted(one.path for one in proxy.exchanges[seen:] if _openapi(one)) == [
        "/openapi/v3/api/v1",
        "/openapi/v3/apis/rbac.authorization.k8s.io/v1",
    ]


def test_object_without_a_schema_is_not_checked(spoiled: Stage, proxy: FaultProxy) -> None:
    """The account may not read it, or the server has none: the run goes on as it did before."""
    for status in (403, 200):
        proxy.rule = always(faults.answer(status, b"{}"), where=_openapi)
        story = spoiled.run(config_map("a", str(status)), TYPO)
        assert story.outcomes.pop("configmap/a") in {Outcome.CREATED, Outcome.UPDATED}
        assert story.outcomes["configmap/typo"] is Outcome.FAILED
        assert "field not declared in schema" in story.problem("configmap/typo")
        assert story.plan.faults == ()
        assert all("fields are not checked" in step.not_checked for step in story.plan.applies)


def _valve(name: str, **spec: Any) -> dict[str, Any]:
    return {**custom_resource(name, "Valve"), "spec": spec}


def _definition(*fields: str, **spec: Any) -> dict[str, Any]:
    definition = crd("Valve", **spec)
    known = {field: {"type": "string"} for field in fields}
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] = {"type": "object", "properties": known}
    return definition


def test_custom_resources_are_checked_by_the_schema_that_they_will_have(
    crd_stage: Stage, crds: Api
) -> None:
    """The CRD's in the same input if it is new or changed, else the server's."""
    size, both = _definition("size"), _definition("size", "color")
    refused = crd_stage.run(size, _valve("a", size="1"), _valve("b", colour="red"))
    assert refused.exit_code == 3
    assert list(refused.outcomes) == ["valve.x.example.com/b"]
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{size['metadata']['name']}"
    assert not crds.exists(path)
    assert crd_stage.run(size, _valve("a", size="1")).exit_code == 0
    # A new field, of a type that the server does not know yet.
    assert crd_stage.run(size, _valve("a", size="1", color="red")).exit_code == 3
    assert crd_stage.run(both, _valve("a", size="1", color="red")).exit_code == 0
    # A null is a value here. The document of a new group is published some seconds later.
    eventually(
        lambda: crds.exists("/openapi/v3/apis/x.example.com/v1"), lambda: "the schema is published"
    )
    refused = crd_stage.run(both, _valve("a", size=None, color="red", sise="1"))
    assert "2 unknown fields or wrong types: spec.size, spec.sise" in refused.problem(
        "valve.x.example.com/a"
    )
    # Somebody changes the CRD, and another run follows at once.
    more = Stage(crd_stage.kubeconfig, crd_stage.namespace, name="more")
    assert crd_stage.run(_definition("size", "color", "flow"), _valve("a", size="1")).exit_code == 0
    assert more.run(_valve("c", flow="2")).exit_code == 0
