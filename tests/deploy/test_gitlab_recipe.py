"""The recipe for GitLab: its very commands, in a shell, as the account that it describes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.merges import MERGES, Merge
from tests.support.pipelines import PIPELINE, SHOP, Runner, account_of, gitlab_job, recipe
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.plane import Kubectl

SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}
---
"""
MANY = ("one", "two", "three", "four")


@pytest.fixture(autouse=True)
def no_set(runner: Runner) -> None:
    """Delete what an earlier test has left."""
    delete = "applyprune delete web -n shop --prune-also adopted --yes"
    process = runner.sh(delete, KUBECONFIG=str(runner.kubeconfig))
    said = process.communicate(timeout=HANG)[0]
    assert process.returncode == 0, said


def write_settings(runner: Runner, *names: str) -> None:
    """Replace the manifests by ConfigMaps."""
    text = "".join(SETTINGS.format(name=name) for name in names)
    (runner.folder / "manifests/web.yaml").write_text(text)


def gitlab(runner: Runner, name: str, **variables: str) -> tuple[int, str]:
    """Run a job of the recipe; return its exit code and what it said."""
    return gitlab_job(runner, recipe("gitlab"), name, **variables)


def live(api: Api) -> list[Any]:
    """Return the ConfigMaps of the namespace, the inventory among them."""
    found = api.get(f"{SHOP}/configmaps")["items"]
    assert isinstance(found, list)
    return found


def test_recipe_applies_the_plan_of_the_merge_request(
    runner: Runner, api: Api, kubectl: Kubectl
) -> None:
    """Another input is refused and says what to do; another user may read the plan.

    At night, it fails if somebody has changed a field that the set owns.

    Slow: each job is several processes.
    """
    runner.write("reviewed")
    code, said = gitlab(runner, "plan")
    assert code == 0, said
    for path in recipe("gitlab")["plan"]["artifacts"]["paths"]:
        assert (runner.folder / path).stat().st_mode & 0o004
    runner.write("other")
    code, said = gitlab(runner, "apply")
    assert code == 8, said
    assert "start a pipeline manually on this branch" in said
    runner.write("reviewed")
    code, said = gitlab(runner, "apply")
    assert code == 0, said
    assert "manually" not in said
    assert api.get(f"{SHOP}/configmaps/settings")["data"] == {"colour": "reviewed"}
    patch = '{"data":{"colour":"x"}}'
    kubectl("patch", "cm", "settings", "-n", "shop", "--type=merge", "-p", patch)
    code, said = gitlab(runner, "drift")
    assert code == 1
    assert "configmap/settings" in said


def test_recipe_prunes_what_a_guard_refuses_after_an_approval(runner: Runner, api: Api) -> None:
    """The jobs before it pass with a warning; to start it without need does nothing.

    Slow: each job is several processes of Python.
    """
    jobs = recipe("gitlab")
    write_settings(runner, *MANY)
    assert [gitlab(runner, name)[0] for name in ("plan", "apply", "approved")] == [0, 0, 0]
    write_settings(runner, MANY[0])
    before = live(api)
    for name in ("plan", "apply"):
        code, said = gitlab(runner, name)
        assert [code] == jobs[name]["allow_failure"]["exit_codes"], said
    assert "start the job approved" in said
    assert live(api) == before
    code, said = gitlab(runner, "approved")
    assert code == 0, said
    assert {each["metadata"]["name"] for each in live(api)} & {*MANY} == {MANY[0]}


@pytest.mark.parametrize("way", MERGES)
def test_plan_is_found_after_every_way_to_merge(runner: Runner, way: str) -> None:
    """By the checksum of the manifests, which is that of the merge request.

    Slow: each job is several processes of Python and Git.
    """
    merge = Merge(runner.folder)
    runner.write("changed")
    merge.commit("change")
    (runner.folder / "manifests/more file.yaml").write_text(SETTINGS.format(name="more"))
    merge.commit("more")
    planned = address(runner)
    merge.to_main()
    assert address(runner) != planned
    merge.merge(way)
    assert address(runner) == planned


def address(runner: Runner) -> str:
    """Return where the recipe keeps the plan of the manifests."""
    store = [*recipe("gitlab")[".store"]["before_script"], "echo $url"]
    process = runner.sh("\n".join(store), CI_API_V4_URL="https://example.com", CI_PROJECT_ID="7")
    return process.communicate(timeout=HANG)[0]


def test_recipe_keeps_and_fetches_the_plan(runner: Runner, tmp_path: Path) -> None:
    """Another pipeline gets the same file; for other manifests it says that none exists."""
    variables = {"CI_API_V4_URL": f"file://{tmp_path}", "CI_PROJECT_ID": "7", "CI_JOB_TOKEN": "t"}
    store = recipe("gitlab")[".store"]["before_script"]
    folder = 'mkdir -p "$(dirname "${url#file://}")"'
    process = runner.sh("\n".join([*store, folder]), **variables)
    assert process.communicate(timeout=HANG)[0] == ""
    plan = runner.folder / "web.plan"
    plan.write_text("a plan")
    code, said = gitlab(runner, "keep", **variables)
    assert code == 0, said
    plan.unlink()
    code, said = gitlab(runner, "fetch", **variables)
    assert code == 0, said
    assert plan.read_text() == "a plan"
    runner.write("other")
    code, said = gitlab(runner, "fetch", **variables)
    assert code == 8
    assert "No plan was made for these manifests" in said


def test_plan_of_a_new_set_needs_to_read_its_namespace(
    runner: Runner, plane: Plane, api: Api, tmp_path: Path
) -> None:
    """Without that right of the account, nothing identifies the cluster, and no file is written."""
    name = f"shop-{os.urandom(3).hex()}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert api("POST", "/api/v1/namespaces", body)[0] == 201
    rights = (PIPELINE / "account.yaml").read_text().replace("shop", name)
    right = (
        f'  - apiGroups: [""]\n    resources: [namespaces]\n    resourceNames: [{name}]\n'
        "    verbs: [get]\n"
    )
    assert right in rights
    path = runner.folder / "web.plan"
    plan = f"applyprune plan web -n {name} -f manifests/ --out web.plan"
    for text, code in ((rights.replace(right, ""), 2), (rights, 0)):
        kubeconfig = account_of(plane, name, text, tmp_path)
        process = runner.sh(plan, KUBECONFIG=str(kubeconfig))
        said = process.communicate(timeout=HANG)[0]
        assert (process.returncode, path.exists()) == (code, not code), said
        assert (f"Allow the account to get the Namespace {name}." in said) is bool(code)
    api("DELETE", f"/api/v1/namespaces/{name}")
