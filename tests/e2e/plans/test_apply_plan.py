"""``plan --out`` and ``apply --plan``: exactly the reviewed plan is applied, or nothing is."""

from __future__ import annotations

import json
import re
import stat
from typing import TYPE_CHECKING

import pytest

from tests.support.api import writes
from tests.support.command import applyprune
from tests.support.desk import NAMES
from tests.support.input_files import write_input
from tests.support.live import config_maps
from tests.support.objects import config_map

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.api import Api, AuditTrail
    from tests.support.command import Ended
    from tests.support.desk import Desk

ALL = dict.fromkeys(NAMES, "1")
NEXT = {**dict.fromkeys(NAMES[:6], "1"), "a0": "2", "new": "1"}
"""One is changed, one is created, three are pruned."""


@pytest.fixture
def file(desk: Desk) -> Path:
    """The file of the plan of NEXT."""
    return planned(desk, **NEXT)


def planned(desk: Desk, *arguments: str, **values: str) -> Path:
    """Write the plan of an input, and return its file."""
    path = desk.folder / "web.plan"
    made = desk.call("plan", "--out", path, *arguments, **values)
    assert f"{path} was written: the plan is valid until " in made.err, made.err
    return path


def test_plan_file_is_applied_without_a_second_dry_run(
    desk: Desk, file: Path, audit: AuditTrail
) -> None:
    """Its writes are those of any apply; the file is only for its owner."""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    audit.restart()
    done = desk.call("apply", "--plan", file, **NEXT)
    assert done.code == 0, done.err
    assert desk.there() == NEXT
    assert [event for event in audit.events() if "dryRun" in event["requestURI"]] == []


def test_plan_file_names_its_set_and_its_input(desk: Desk, file: Path) -> None:
    """Nothing else is needed, as long as the input is local; another input does not fit."""
    kubeconfig = desk.plane.kubeconfig
    desk.line("apply", **ALL)
    changed = applyprune("apply", "--plan", file, kubeconfig=kubeconfig)
    assert changed.code == 8, changed.err
    assert desk.there() == ALL
    desk.line("apply", **NEXT)
    done = applyprune("apply", "--plan", file, kubeconfig=kubeconfig)
    assert done.code == 0, done.err
    assert desk.there() == NEXT


def test_plan_file_decides_over_the_configuration(
    desk: Desk, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A default of the folder is no wish; a file for another set is, and so is the command line."""
    kubeconfig = desk.plane.kubeconfig
    desk.line("apply", **NEXT)
    monkeypatch.chdir(tmp_path)
    configuration = tmp_path / "applyprune.yaml"
    head = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\n"
    configuration.write_text(f"{head}name: other\nnamespace: default\n")
    call = ("apply", "--plan", file)
    other = applyprune(*call, kubeconfig=kubeconfig)
    assert other.code == 2
    assert "applyprune.yaml is for the set other, and the plan for the set web" in other.err
    assert f"Use applyprune apply web --plan {file}" in other.err
    configuration.write_text(f"{head}name: web\nnamespace: default\n")
    asked = applyprune(*call, "-n", "default", kubeconfig=kubeconfig)
    assert "this run is for the set web in namespace default" in asked.err
    done = applyprune(*call, kubeconfig=kubeconfig)
    assert done.code == 0, done.err
    assert desk.there() == NEXT


def test_files_of_the_planned_input_count_for_the_apply(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the plan: the same options, and the same refusal of another context."""
    kubeconfig = desk.plane.kubeconfig
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prod").mkdir()
    configuration = tmp_path / "prod/applyprune.yaml"
    settings = f"name: shop\nnamespace: {desk.namespace}\nconflicts: revert\n"
    configuration.write_text(f"apiVersion: applyprune.dev/v1alpha1\nkind: Config\n{settings}")
    write_input(tmp_path / "prod/new.json", [config_map("new")])
    planned = applyprune("plan", "-f", "prod", "--out", "web.plan", kubeconfig=kubeconfig)
    assert planned.code == 0, planned.err
    text = configuration.read_text()
    configuration.write_text(f"{text}context: another\n")
    refused = applyprune("apply", "--plan", "web.plan", kubeconfig=kubeconfig)
    assert "and prod/applyprune.yaml:6:1 is for another" in refused.err
    configuration.write_text(text)
    done = applyprune("apply", "--plan", "web.plan", kubeconfig=kubeconfig)
    assert (done.code, list(done.lines)) == (0, ["configmap/new"]), done


def test_plan_file_of_another_folder_says_where_it_was_made(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its paths are relative."""
    monkeypatch.chdir(desk.folder)
    desk.line("plan", **ALL)
    arguments = ("web", "-n", desk.namespace, "-f", "set.json")
    made = applyprune("plan", *arguments, "--out", "web.plan", kubeconfig=desk.plane.kubeconfig)
    assert made.code == 0, made.err
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    plan = desk.folder / "web.plan"
    lost = applyprune("apply", "--plan", plan, kubeconfig=desk.plane.kubeconfig)
    assert lost.code == 2
    assert "set.json does not exist here, and the plan was made from it" in lost.err
    assert "Run this in the folder in which the plan was made" in lost.err


def test_plan_of_standard_input_does_not_name_it(desk: Desk) -> None:
    """Who applies it must give the same input again."""
    path = desk.folder / "piped.plan"
    kubeconfig, source = desk.plane.kubeconfig, json.dumps(config_map("a0", "2"))
    given = ("plan", "web", "-n", desk.namespace, "-f", "-", "--no-prune", "--out", path)
    assert applyprune(*given, stdin=source, kubeconfig=kubeconfig).code == 0
    refused = applyprune("apply", "--plan", path, "--no-prune", kubeconfig=kubeconfig)
    assert refused.code == 2
    assert "error: no input given" in refused.err


def test_dry_run_of_a_plan_file_asks_the_server(desk: Desk, file: Path, audit: AuditTrail) -> None:
    """It says whether the file still fits, and what the server says about it today."""
    audit.restart()
    tried = desk.call("apply", "--plan", file, "--dry-run", **NEXT)
    assert tried.code == 0, tried.err
    assert "configmap/a0 updated (server dry run)" in tried.out.replace(f" -n {desk.namespace}", "")
    sent = [event for event in audit.events() if "dryRun=All" in event["requestURI"]]
    assert (len(sent) >= 2, writes(audit)) == (True, [])
    _edit(desk.api, desk.namespace, "a4")
    refused = desk.call("apply", "--plan", file, "--dry-run", **NEXT)
    assert refused.code == 8
    assert "configmap/a4" in refused.err


def test_plan_file_that_is_used_twice_changes_nothing_more(
    desk: Desk, file: Path, audit: AuditTrail
) -> None:
    """Another input is refused nevertheless, and so is a set of which something is gone."""
    assert desk.call("apply", "--plan", file, **NEXT).code == 0
    audit.restart()
    again = desk.call("apply", "--plan", file, **NEXT)
    assert (again.code, f"{len(NEXT)} unchanged" in again.out) == (0, True), again.out
    other = desk.call("apply", "--plan", file, **{**NEXT, "a1": "2"})
    assert other.code == 8
    assert "its manifest has changed" in other.err
    assert writes(audit) == []
    path = f"/api/v1/namespaces/{desk.namespace}/configmaps"
    assert desk.api("DELETE", f"{path}/a0")[0] == 200
    gone = desk.call("apply", "--plan", file, **NEXT)
    assert gone.code == 8
    assert "configmap/a0" in gone.err
    assert "it was deleted meanwhile" in gone.err
    assert not desk.api.exists(f"{path}/a0")


INPUTS: dict[str, tuple[dict[str, str], str]] = {
    "one object more": ({**NEXT, "more": "1"}, "the input has it, and the plan does not"),
    "one object fewer": (
        {name: value for name, value in NEXT.items() if name != "a2"},
        "the input no longer has it",
    ),
    "a pruned object is back": ({**NEXT, "a8": "1"}, "the input has it again"),
    "another value": ({**NEXT, "a3": "2"}, "its manifest has changed"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_other_input_is_refused(desk: Desk, file: Path, audit: AuditTrail, name: str) -> None:
    """Each object that does not fit is named, with its file and line if it has one."""
    values, reason = INPUTS[name]
    audit.restart()
    refused = desk.call("apply", "--plan", file, **values)
    assert refused.code == 8
    assert reason in refused.err
    assert "1 object no longer fits the plan: nothing was written" in refused.err
    assert writes(audit) == []
    document = json.loads(desk.call("apply", "--plan", file, "-o", "json", **values).out)
    kinds = [one["problem"]["kind"] for one in document["objects"]]
    assert (kinds, document["exitCode"]) == (["PlanOutdated"], 8)


def test_input_in_another_form_fits(desk: Desk, file: Path) -> None:
    """Reordered, and one YAML file instead of JSON: only the objects count."""
    documents = [
        f"---\n# a comment\nkind: ConfigMap\napiVersion: v1\nmetadata: {{name: {name}}}\n"
        f'data:\n    key: "{value}"\n'
        for name, value in sorted(NEXT.items(), reverse=True)
    ]
    other = desk.folder / "other.yaml"
    other.write_text("".join(documents))
    done = desk.call_with("apply", "--plan", file, "-f", other)
    assert done.code == 0, done.err
    assert desk.there() == NEXT


def _edit(api: Api, namespace: str, name: str) -> None:
    body = {"data": {"key": "3"}}
    path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
    status, _ = api("PATCH", path, body, content_type="application/merge-patch+json")
    assert status == 200


def _create(api: Api, namespace: str, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    assert api("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)[0] == 201


def _delete(api: Api, namespace: str, name: str) -> None:
    assert api("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/{name}")[0] == 200


def _replace(api: Api, namespace: str, name: str) -> None:
    _delete(api, namespace, name)
    _create(api, namespace, name)


CHANGED = r"it has been changed meanwhile, by .+ \(\.data\.key\); changing it back is not enough"
CHANGES: dict[str, tuple[Callable[[Api, str, str], None], str, str]] = {
    "changed": (_edit, "a0", CHANGED),
    "unchanged in the plan, and changed": (_edit, "a4", CHANGED),
    "to prune, and changed": (_edit, "a7", CHANGED),
    "created": (_create, "new", "it was created meanwhile"),
    "deleted": (_delete, "a0", "it was deleted meanwhile"),
    "replaced": (_replace, "a0", "it was deleted and created again meanwhile"),
}


@pytest.mark.holds("plan-fits", row="to prune, and changed")
@pytest.mark.parametrize("name", CHANGES)
def test_changed_cluster_is_refused(desk: Desk, file: Path, audit: AuditTrail, name: str) -> None:
    """A prune is bound to the UID and the state that were reviewed."""
    change, changed, reason = CHANGES[name]
    change(desk.api, desk.namespace, changed)
    before = config_maps(desk.api, desk.namespace)
    audit.restart()
    refused = desk.call("apply", "--plan", file, **NEXT)
    assert refused.code == 8
    ref = f"configmap/{changed} in namespace {desk.namespace}"
    assert re.search(f"{ref} no longer fits the plan: {reason}\n", refused.err), refused.err
    assert writes(audit) == []
    assert config_maps(desk.api, desk.namespace) == before


def _scale(desk: Desk, replicas: int) -> None:
    path = f"/apis/apps/v1/namespaces/{desk.namespace}/deployments/scaled/scale"
    body = {"spec": {"replicas": replicas}}
    status, _ = desk.api("PATCH", path, body, content_type="application/merge-patch+json")
    assert status == 200


def _deployment(desk: Desk, image: str, **spec: int) -> Path:
    template = {
        "metadata": {"labels": {"app": "scaled"}},
        "spec": {"containers": [{"name": "web", "image": image}]},
    }
    selector = {"matchLabels": {"app": "scaled"}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "scaled"},
        "spec": {"selector": selector, "template": template, **spec},
    }
    path = desk.folder / "scaled.json"
    path.write_text(json.dumps(body))
    return path


def test_autoscaler_does_not_outdate_a_plan(desk: Desk) -> None:
    """It works all the time; only if it changes what the manifest sets, that needs a review."""
    plan = desk.folder / "scaled.plan"

    def call(verb: str, image: str, *arguments: str | Path, **spec: int) -> Ended:
        path = _deployment(desk, image, **spec)
        return desk.call_with(verb, "-f", path, "--max-prune=100%", *arguments)

    assert call("apply", "web:1").code == 0
    assert call("plan", "web:2", "--out", plan).code == 0
    _scale(desk, 3)
    done = call("apply", "web:2", "--plan", plan)
    assert done.code == 0, done.err
    assert call("apply", "web:2", "--conflicts=force", replicas=2).code == 0
    assert call("plan", "web:3", "--out", plan, replicas=2).code == 0
    _scale(desk, 4)
    assert call("apply", "web:3", "--plan", plan, replicas=2).code == 8


def test_other_run_that_leaves_every_object_as_it_was_hinders_nothing(
    desk: Desk, file: Path
) -> None:
    """What is done was reviewed; of the objects to prune, somebody has deleted or replaced two.

    So two reviewed plans may both run where they do not meet.
    """
    assert desk.call("apply", **{**ALL, "extra": "1"}).code == 0
    assert desk.call("apply", **ALL).code == 0
    _delete(desk.api, desk.namespace, "a7")
    _replace(desk.api, desk.namespace, "a8")
    done = desk.call("apply", "--plan", file, **NEXT)
    assert done.code == 0, done.err
    there = config_maps(desk.api, desk.namespace)
    assert {name for name in there if name in ALL} == {*ALL} & {*NEXT, "a8"}


@pytest.mark.parametrize("option", ["--adopt=all", "--no-prune", "--prune-also=adopted"])
def test_other_options_are_refused(desk: Desk, file: Path, audit: AuditTrail, option: str) -> None:
    """The file sets no option; the call must give those of the plan."""
    audit.restart()
    refused = desk.call("apply", "--plan", file, option, **NEXT)
    assert refused.code == 2
    assert "the plan was made with other options" in refused.err
    assert f"{option} now" in refused.err
    assert writes(audit) == []


def test_plan_file_lifts_no_guard(desk: Desk, audit: AuditTrail) -> None:
    """The plan of a refused prune can be written; its apply needs the approval as well."""
    values = {"a0": "1"}
    file = planned(desk, **values)
    digest = desk.call("plan", **values).digests["deletions"]
    audit.restart()
    refused = desk.call("apply", "--plan", file, **values)
    assert refused.code == 6
    assert writes(audit) == []
    done = desk.call("apply", "--plan", file, "--approve", digest, **values)
    assert done.code == 0, done.err
    assert desk.there() == values


def test_plan_without_check_binds_too(desk: Desk, file: Path) -> None:
    """A job that may only read makes it; the objects and their states are the same."""
    unchecked = planned(desk, "--no-check", **NEXT)
    done = desk.call("apply", "--plan", unchecked, **NEXT)
    assert done.code == 0, done.err
    assert desk.there() == NEXT


def test_plan_of_faults_is_not_written(desk: Desk) -> None:
    """An apply of it would be refused; an earlier file stays as it is."""
    path = desk.folder / "web.plan"
    assert desk.call("plan", "--out", path, **NEXT).code == 0
    earlier = path.read_bytes()
    made = desk.call("plan", "--out", path, **{**NEXT, "not a name": "1"})
    assert made.code != 0
    assert path.read_bytes() == earlier
