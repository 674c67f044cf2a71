"""The day after: what has a set changed, whose is an object, back to yesterday."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command import Ended, applyprune
from tests.support.objects import config_map, of_kind, text
from tests.support.repository import Repository
from tests.support.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api

POD: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
DEPLOYMENT = of_kind(
    "Deployment",
    "web",
    spec={"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": POD},
)
RULE = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "web"}
SUBJECT = {"kind": "ServiceAccount", "name": "web"}
SCALED = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
JOB = {"spec": {"template": {"spec": {**POD["spec"], "restartPolicy": "Never"}}}}
TEN = [
    config_map("web"),
    of_kind("Secret", "web", stringData={"password": "hunter2"}),
    of_kind("ServiceAccount", "web"),
    of_kind("Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}),
    of_kind("Role", "web", rules=[RULE]),
    of_kind("RoleBinding", "web", roleRef=ROLE, subjects=[SUBJECT]),
    DEPLOYMENT,
    of_kind("HorizontalPodAutoscaler", "web", spec={"scaleTargetRef": SCALED, "maxReplicas": 3}),
    of_kind("CronJob", "web", spec={"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": JOB}),
    of_kind("NetworkPolicy", "web", spec={"podSelector": {}}),
]
PATHS = {
    "ConfigMap": "/api/v1/{}/configmaps",
    "Secret": "/api/v1/{}/secrets",
    "ServiceAccount": "/api/v1/{}/serviceaccounts",
    "Service": "/api/v1/{}/services",
    "Role": "/apis/rbac.authorization.k8s.io/v1/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/{}/rolebindings",
    "Deployment": "/apis/apps/v1/{}/deployments",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/{}/horizontalpodautoscalers",
    "CronJob": "/apis/batch/v1/{}/cronjobs",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/{}/networkpolicies",
}


@dataclass(frozen=True)
class Team:
    """A set whose input is in a repository."""

    plane: Plane
    namespace: str
    repository: Repository

    def call(self, *words: str, cwd: Path | None = None) -> Ended:
        verb, *rest = words
        where = ("-n", self.namespace)
        here = cwd or self.repository.root
        return applyprune(verb, *rest, *where, kubeconfig=self.plane.kubeconfig, cwd=here)

    def apply(self, *bodies: dict[str, Any], commits: bool = True) -> str:
        """Apply the bodies as the whole input, committed before; return the commit."""
        self.repository.write(**{"deploy/prod/web.json": text(*bodies)})
        if commits:
            self.repository.git("add", "-A")
            self.repository.git("commit", "-q", "--allow-empty", "-m", "change")
        ended = self.call("apply", "web", "-f", "deploy/prod", "--yes", "--max-prune", "100%")
        assert ended.code == 0, ended.err
        return self.repository.git("rev-parse", "--short=7", "HEAD")

    def live(self, api: Api) -> dict[str, Any]:
        place = f"namespaces/{self.namespace}"
        return {kind: api.find(f"{path.format(place)}/web") for kind, path in PATHS.items()}


@pytest.fixture
def team(plane: Plane, namespace: str, tmp_path: Path) -> Team:
    return Team(plane, namespace, Repository(tmp_path / "repository"))


def shown(ended: Ended) -> list[list[str]]:
    """Return the rows of a table, without the times."""
    assert ended.code == 0, ended.err
    rows = (re.sub(r"\d+[smh] ago", "then", line) for line in ended.out.splitlines())
    return [re.split(r" {2,}", row) for row in rows]


def test_history_names_commit_and_objects_of_each_run(team: Team) -> None:
    """With a plus where a file differed; and one run with its objects."""
    first = team.apply(config_map("a"), config_map("b"))
    team.apply(config_map("a", "by hand"), config_map("b"), commits=False)
    second = team.apply(config_map("a", "new"))
    who = shown(team.call("history", "web"))[1][2]
    assert shown(team.call("history", "web")) == [
        ["RUN", "WHEN", "WHO", "SOURCE", "DID"],
        ["3", "then", who, f"deploy/prod @ {second}", "1 changed, 1 pruned"],
        ["2", "then", who, f"deploy/prod @ {first}+", "1 changed"],
        ["1", "then", who, f"deploy/prod @ {first}", "2 created"],
    ]
    one = team.call("history", "web", "3").out.splitlines()
    assert one[0] == f"run 3 of the set web in namespace {team.namespace}"
    assert one[-2:] == ["configmap/a updated", "configmap/b pruned"]
    assert f"from deploy/prod @ {second}, exit code 0" in team.call("status", "web").out
    assert "the set web has no run 9" in team.call("history", "web", "9").err


def without_assigned(body: Any) -> Any:
    """Return an object without what the server assigns to a new one."""
    metadata = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"}
    kept = {key: value for key, value in body.items() if key != "status"}
    kept["metadata"] = {k: v for k, v in body["metadata"].items() if k not in metadata}
    addresses = {"clusterIP", "clusterIPs"}
    if "spec" in kept:
        kept["spec"] = {k: v for k, v in kept["spec"].items() if k not in addresses}
    return kept


def test_rollback_of_a_prune_brings_each_field_back(team: Team, api: Api) -> None:
    """Of ten kinds, all but what the server assigns; and it says what does not come back.

    The work tree stays as it is, and so does the question of the guards.
    """
    team.apply(config_map("stays"), *TEN)
    before = {kind: without_assigned(body) for kind, body in team.live(api).items()}
    team.apply(config_map("stays"))
    assert not any(team.live(api).values())
    tree = team.repository.git("status", "--porcelain=v2")
    dry = team.call("rollback", "web", "--dry-run")
    assert "web: 10 created, 1 unchanged" in dry.out
    assert "does not bring back its address: service/web" in dry.err
    assert not any(team.live(api).values())
    ended = team.call("rollback", "web")
    assert ended.code == 0, ended.err
    after = {kind: without_assigned(body) for kind, body in team.live(api).items()}
    assert after == before
    assert team.repository.git("status", "--porcelain=v2") == tree
    assert shown(team.call("history", "web"))[1][3:] == [
        shown(team.call("history", "web"))[3][3],
        "10 created",
    ]
    assert "hunter2" not in team.call("history", "web", "3", "-o", "json").out


def test_rollback_has_the_guards_of_an_apply(team: Team, api: Api) -> None:
    """It prunes what was not there then, within the limits, and obeys the options of today."""
    team.apply(config_map("a"))
    team.apply(*map(config_map, "abcdefghi"))
    refused = team.call("rollback", "web")
    assert refused.code == 6, refused.err
    assert "would delete 8" in refused.err
    allowed = team.call("rollback", "web", "1", "--max-prune", "8", "--yes")
    assert allowed.code == 0, allowed.err
    assert "8 pruned" in allowed.summary
    assert not api.exists(f"/api/v1/namespaces/{team.namespace}/configmaps/b")


def test_rollback_goes_only_to_what_a_commit_has(team: Team, tmp_path: Path) -> None:
    """Not to a run with a plus; nor from a place where the commit is not."""
    first = team.apply(config_map("a"))
    team.apply(config_map("a", "by hand"), commits=False)
    team.apply(config_map("a", "third"))
    refused = team.call("rollback", "web")
    assert refused.code == 2
    assert "run 2 of the set web cannot be repeated: files that it read were not" in refused.err
    assert "Run 1 can be repeated: applyprune rollback web 1" in refused.err
    nowhere = team.call("rollback", "web", "1", cwd=tmp_path)
    assert "this folder is in no Git work tree" in nowhere.err
    other = Repository(tmp_path / "other")
    other.commit(**{"a.yaml": "x: 1\n"})
    assert "git fetch origin" in team.call("rollback", "web", "1", cwd=other.root).err
    below = team.repository.root / "deploy"
    assert team.call("rollback", "web", "1", cwd=below).code == 0
    assert shown(team.call("history", "web"))[1][3] == f"deploy/prod @ {first}"


def test_rollback_holds_the_context_of_then(team: Team) -> None:
    """A commit that was for another cluster is not applied to this one."""
    conditions = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\ncontext: other\n"
    team.apply(config_map("a"))
    team.repository.commit(**{"deploy/applyprune.yaml": conditions})
    then = team.repository.git("rev-parse", "--short=7", "HEAD")
    (team.repository.root / "deploy/applyprune.yaml").unlink()
    team.apply(config_map("a", "new"))
    asked = ("plan", "web", "-f", "deploy/prod", "--at", then)
    refused = team.call(*asked)
    assert refused.code == 2
    assert f"{then}//deploy/applyprune.yaml:3:1 is for other" in refused.err
    assert team.call(*asked[:-1], "HEAD~2").code == 0


def test_rollback_of_a_bundle_says_what_to_revert(team: Team) -> None:
    """It follows its source, so both would fight."""
    commit = team.apply(config_map("a"))
    team.apply(config_map("a", "new"))
    Stage(team.plane.kubeconfig, team.namespace).rewrite(owner=f"Bundle {team.namespace}/web")
    refused = team.call("rollback", "web")
    assert refused.code == 2
    assert f"belongs to Bundle {team.namespace}/web: it follows its source" in refused.err
    revert = team.repository.git("rev-parse", "--short=7", "HEAD")
    assert f"Revert there: git revert {revert} in its source." in refused.err
    assert commit != revert


def test_plan_at_a_commit_can_be_applied_later(team: Team, api: Api) -> None:
    """The plan file names the commit, whatever the work tree has by then."""
    first = team.apply(config_map("a"))
    team.apply(config_map("a", "new"))
    call = ("web", "-f", "deploy/prod", "--at", first)
    assert "-  key: new\n+  key: v" in team.call("diff", *call).out.replace(
        "key: 'new'", "key: new"
    )
    assert team.call("check", *call[1:]).code == 0
    assert team.call("plan", *call, "--out", "web.plan").code == 0
    ended = team.call("apply", "--plan", "web.plan", "--yes")
    assert ended.code == 0, ended.err
    live = api.get(f"/api/v1/namespaces/{team.namespace}/configmaps/a")
    assert live["data"] == {"key": "v"}


def test_object_without_a_set_named_says_whose_it_is(team: Team, api: Api) -> None:
    """The set, since when and from where, and who sets which fields; no value of any."""
    commit = team.apply(*TEN)
    place = f"/apis/apps/v1/namespaces/{team.namespace}/deployments/web"
    api.patch(place, {"metadata": {"labels": {"team": "a"}}}, by="kubectl-label")
    told = team.call("explain", "deployment/web")
    assert told.code == 0, told.err
    first, second = re.sub(r"\d+[smh] ago", "then", told.out).splitlines()
    assert first == (
        f"deployment.apps/web belongs to the set web in namespace {team.namespace}, "
        f"applied then from deploy/prod @ {commit}"
    )
    assert second == "  the label team is set by kubectl-label (then)"
    secret = team.call("explain", "secret/web", "-o", "json")
    assert "hunter2" not in secret.out + secret.err
    owners = json.loads(secret.out)["belongs"][0]["owners"]
    assert owners == [f"the set web in namespace {team.namespace}"]
    missing = team.call("explain", "configmap/none")
    assert (missing.code, "does not exist" in missing.err) == (2, True)
    label = team.call("list", "-o", "wide").out.split()[-1]
    found = api.get(place)["metadata"]["labels"]["applyset.kubernetes.io/part-of"]
    assert label == found
