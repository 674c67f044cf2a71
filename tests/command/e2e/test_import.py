"""``import``: manifests of what lives, as a person has written them, and nothing of others."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING, Any

import pytest
from ruamel.yaml import YAML

from applyprune.planning.applyset import PART_OF
from tests.support.accounts import kubeconfig_as, rule
from tests.support.api import writes
from tests.support.canaries import TOKEN, encoded, untold
from tests.support.canaries import secret as canary
from tests.support.command import Ended, applyprune, start
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.objects import config_map, of_kind
from tests.support.waiting import eventually
from tests.support.webhook import Webhook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from applyprune.localplane import Plane
    from tests.support.api import Api, AuditTrail

SHOP = Path(__file__).parents[3] / "fixtures/imports/shop.yaml"
CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
WEB = {"matchLabels": {"app.kubernetes.io/name": "web"}}


def documents(text: str) -> list[dict[str, Any]]:
    return [one for one in YAML(typ="safe", pure=True).load_all(text) if one]


def bodies(folder: Path) -> list[dict[str, Any]]:
    """Return what the files of a folder have, and of the folders in it."""
    return [one for file in sorted(folder.rglob("*.yaml")) for one in documents(file.read_text())]


def by_name(objects: Iterable[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the objects by kind and name, without their namespaces."""
    found = {}
    for one in objects:
        metadata = {key: value for key, value in one["metadata"].items() if key != "namespace"}
        found[one["kind"], metadata["name"]] = {**one, "metadata": metadata}
    return found


@pytest.fixture
def importing(plane: Plane, namespace: str) -> Callable[..., Ended]:
    """Run ``import`` in the namespace."""

    def call(*words: str | Path, kubeconfig: Path | None = None, **more: Any) -> Ended:
        access = kubeconfig or plane.kubeconfig
        return applyprune("import", *words, "-n", namespace, kubeconfig=access, **more)

    return call


def test_import_gives_back_what_was_applied(
    plane: Plane, namespace: str, importing: Any, kubectl: Any, audit: AuditTrail, tmp_path: Path
) -> None:
    """Of 14 kinds, by kubectl's client-side apply; adopted, nothing changes, nor in a second run.

    Slow: it waits for the controllers, so that their fields are there.
    """
    kubectl("apply", "-n", namespace, "-f", SHOP)
    kubectl("rollout", "status", "-n", namespace, "deployment/web")
    audit.restart()
    ended = importing("--out", tmp_path / "out")
    assert (ended.code, writes(audit)) == (0, []), ended.err
    wanted = by_name(documents(SHOP.read_text()))
    # An autoscaler sets its replicas.
    del wanted["Deployment", "web"]["spec"]["replicas"]
    assert by_name(bodies(tmp_path / "out")) == wanted
    step = ended.out.splitlines()[-1]
    assert step == f"Next: applyprune plan out -n {namespace} -f {tmp_path / 'out'}"
    assert "left out: what owners make" in ended.out
    generations = states(kubectl, namespace)
    words = ("out", "-n", namespace, "-f", tmp_path / "out", "--yes")
    adopted = applyprune("apply", *words, kubeconfig=plane.kubeconfig)
    assert adopted.code == 0, adopted.err
    assert states(kubectl, namespace) == generations
    again = applyprune("plan", *words[:-1], "--exit-code", kubeconfig=plane.kubeconfig)
    assert again.code == 0, again.out


def states(kubectl: Any, namespace: str) -> dict[str, tuple[str, int]]:
    """Return the UID and generation of each object; ReplicaSets say whether Pods were replaced.

    Of a Deployment, the server counts each change of an annotation too, and kubectl's goes.
    """
    kinds = "cm,sa,deploy,sts,svc,cronjob,job,ing,netpol,pdb,role,rolebinding,hpa,pvc,rs"
    items = json.loads(kubectl("get", kinds, "-n", namespace, "-o", "json"))["items"]
    return {
        f"{one['kind']}/{one['metadata']['name']}": (
            one["metadata"]["uid"],
            0 if one["kind"] == "Deployment" else one["metadata"].get("generation", 0),
        )
        for one in items
        if one["metadata"]["name"] != "applyprune-out"
    }


def test_import_prints_one_object_by_its_name(importing: Any, namespace: str, api: Api) -> None:
    """Manifests alone on standard output, and messages beside them; every format has both."""
    path = CONFIG_MAPS.format(namespace)
    api.create(path, config_map("a", "no", annotations={"note": "y"}), by="kubectl-create")
    ended = importing("configmap/a", "--out", "-")
    assert documents(ended.out) == [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": namespace, "annotations": {"note": "y"}},
            "data": {"key": "no"},
        }
    ]
    assert ended.err == ""
    found = json.loads(importing("configmap/a", "--out", "-", "-o", "json").out)
    assert [one["manifest"]["data"] for one in found["manifests"]] == [{"key": "no"}]
    assert found["imported"]["kinds"] == {"ConfigMap": 1}
    nothing = importing("-l", "a=b", "--out", "-")
    assert f"warning: nothing that an import lists is in namespace {namespace}" in nothing.err
    assert (nothing.code, nothing.out) == (0, "")
    missing = importing("configmap/b", "--out", "-")
    assert (missing.code, missing.out) == (2, "")
    assert "configmap/b in namespace" in missing.err


def test_import_overwrites_no_file(
    importing: Any, namespace: str, api: Api, tmp_path: Path
) -> None:
    """None is written if one of them exists, not even through a link."""
    for name in "ab":
        api.create(CONFIG_MAPS.format(namespace), config_map(name), by="kubectl-create")
    out, target = tmp_path / "out", tmp_path / "target"
    out.mkdir()
    (out / "configmap-b.yaml").symlink_to(target)
    ended = importing("--out", out)
    assert (ended.code, ended.out) == (2, "")
    assert "configmap-b.yaml exists already" in ended.err
    assert [file.name for file in out.iterdir()] == ["configmap-b.yaml"]
    assert not target.exists()


def test_import_writes_files_that_no_system_confuses(
    importing: Any, namespace: str, api: Api, tmp_path: Path
) -> None:
    """Names of RBAC may differ in case, and have colons; a label of two apps finds both."""
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles"
    for name in ("Admin", "admin", "system:web"):
        one = of_kind("Role", name, {"labels": {"tier": "x"}}, rules=[])
        api.create(roles, one, by="kubectl-create")
    api.create(
        CONFIG_MAPS.format(namespace), config_map("web", labels={"tier": "x"}), by="kubectl-create"
    )
    api.create(CONFIG_MAPS.format(namespace), config_map("other"), by="kubectl-create")
    ended = importing("-l", "tier=x", "--out", tmp_path / "out", "--kustomization")
    names = ["configmap-web.yaml", "role-Admin.yaml", "role-admin-2.yaml", "role-system_web.yaml"]
    files = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert files == sorted([*names, "kustomization.yaml"]), ended.err
    kustomization = documents((tmp_path / "out/kustomization.yaml").read_text())[0]
    assert kustomization["resources"] == sorted(names)
    assert " -k " in ended.out
    assert importing("-l", "tier=x", "--out", tmp_path / "one", "--one-file").code == 0
    (file,) = (tmp_path / "one").iterdir()
    assert (file.name, len(bodies(tmp_path / "one"))) == ("manifests.yaml", 4)


@pytest.mark.holds("private-secrets", "import-without-secrets")
def test_values_of_secrets_are_written_on_request_only(
    importing: Any, namespace: str, api: Api, tmp_path: Path
) -> None:
    """And then into files that only their owner can read."""
    path = f"/api/v1/namespaces/{namespace}/secrets"
    api.create(path, canary("key", stringData={"a": TOKEN}), by="kubectl-create")
    api.create(CONFIG_MAPS.format(namespace), config_map("a"), by="kubectl-create")
    outs = [importing("--out", tmp_path / "without"), importing("--list"),
            importing("--out", "-", "-o", "json"), importing("secret/key", "--out", "-"),
            importing("--out", tmp_path / "verbose", "-v")]  # fmt: skip
    for ended in outs:
        assert ended.code == 0, ended.err
        untold(ended.out + ended.err)
    assert [one["kind"] for one in bodies(tmp_path / "without")] == ["ConfigMap"]
    untold("".join(file.read_text() for file in tmp_path.rglob("*.yaml")))
    assert "Secrets, without --secrets (1)" in outs[0].out
    assert importing("--out", tmp_path / "with", "--secrets").code == 0
    file = tmp_path / "with/secret-key.yaml"
    assert documents(file.read_text())[0]["data"] == {"a": encoded(TOKEN)}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "with/configmap-a.yaml").stat().st_mode) & 0o077 == 0o044


def test_error_about_a_secret_shows_no_value(
    importing: Any, plane: Plane, namespace: str, api: Api, tmp_path: Path
) -> None:
    """The server's words may quote what was sent."""
    api.create(
        f"/api/v1/namespaces/{namespace}/secrets",
        canary("key", stringData={"a": TOKEN}),
        by="kubectl-create",
    )

    def refuse(request: dict[str, Any]) -> dict[str, Any] | None:
        if request["resource"]["resource"] != "secrets":
            return None
        return {"status": "Failure", "code": 403, "message": f"no {TOKEN} here"}

    with Webhook(plane, api, namespace, ("CREATE", "UPDATE"), refuse):
        ended = importing("--out", tmp_path / "out", "--secrets")
    untold(ended.out + ended.err)
    assert ended.code == 3
    assert f"secret/key in namespace {namespace} was not written" in ended.err
    assert not (tmp_path / "out").exists()


def test_import_names_the_kinds_that_it_may_not_list(
    importing: Any, plane: Plane, namespace: str, api: Api, tmp_path: Path
) -> None:
    """And writes the others."""
    api.create(CONFIG_MAPS.format(namespace), config_map("a"), by="kubectl-create")
    rights = rule("", ["configmaps"], ["get", "list", "create", "patch"])
    access = kubeconfig_as("importer", plane, api, namespace, tmp_path, rights)
    ended = importing("--out", tmp_path / "out", kubeconfig=access)
    assert ended.code == 0, ended.err
    assert [one["metadata"]["name"] for one in bodies(tmp_path / "out")] == ["a"]
    assert re.search(
        r"warning: .* and \d+ more could not be listed: this account has no right", ended.err
    )
    assert "Their objects are not in the manifests." in ended.err


@pytest.mark.holds("import-of-a-change")
def test_object_that_changes_meanwhile_is_written_as_it_is_then(
    plane: Plane, namespace: str, api: Api, tmp_path: Path
) -> None:
    """Between the list and the proof; one that changes every time is an error."""
    path = f"{CONFIG_MAPS.format(namespace)}/a"
    api.create(CONFIG_MAPS.format(namespace), config_map("a", "old"), by="kubectl-create")

    def is_proof(seen: Exchange) -> bool:
        return seen.method == "PATCH" and seen.path.endswith("/configmaps/a")

    def change(value: str) -> None:
        api.patch(path, {"data": {"key": value}}, by="kubectl-edit")

    with FaultProxy(plane) as proxy:
        access = proxy.kubeconfig(tmp_path)
        happened = proxy.before_first(is_proof, lambda: change("new"))
        words = ("import", "-n", namespace, "configmap/a", "--out", "-")
        ended = applyprune(*words, kubeconfig=access)
        assert happened
        assert documents(ended.out)[0]["data"] == {"key": "new"}
        proxy.before_forward = lambda seen: change(str(seen.number)) if is_proof(seen) else None
        ended = applyprune(*words, kubeconfig=access)
    assert (ended.code, ended.out) == (3, "")
    assert "it changes all the time" in ended.err


def test_object_that_a_webhook_would_change_is_not_written(
    importing: Any, plane: Plane, namespace: str, api: Api, tmp_path: Path
) -> None:
    """The error names the field; what a webhook refuses to create is proved by the apply alone."""
    for name in "ab":
        api.create(CONFIG_MAPS.format(namespace), config_map(name), by="kubectl-create")

    def change(request: dict[str, Any]) -> list[dict[str, Any]]:
        if request["name"] != "a":
            return []
        return [{"op": "add", "path": "/data/key", "value": "of the webhook"}]

    hook = Webhook(plane, api, namespace, ("UPDATE",), change=change, resources=("configmaps",))
    with hook:
        ended = importing("--out", tmp_path / "out")
    assert ended.code == 3
    assert "an apply of its manifest would change data.key" in ended.err
    assert [one["metadata"]["name"] for one in bodies(tmp_path / "out")] == ["b"]


@pytest.mark.holds("import-of-the-whole")
def test_object_that_a_webhook_changes_at_its_creation_is_written_as_it_is(
    importing: Any, plane: Plane, namespace: str, api: Api, tmp_path: Path
) -> None:
    """No creation proves what it needs; with all its values, an apply changes nothing."""
    body = of_kind("Service", "web", spec={"selector": {"a": "b"}, "ports": [{"port": 80}]})
    api.create(f"/api/v1/namespaces/{namespace}/services", body, by="kubectl-create")

    def change(request: dict[str, Any]) -> list[dict[str, Any]]:
        if request["resource"]["resource"] != "services":
            return []
        return [{"op": "add", "path": "/spec/selector/a", "value": "webhook"}]

    with Webhook(plane, api, namespace, ("CREATE",), change=change):
        ended = importing("--out", tmp_path / "out")
    assert ended.code == 0, ended.err
    spec = by_name(bodies(tmp_path / "out"))["Service", "web"]["spec"]
    assert spec == {"selector": {"a": "b"}, "ports": [{"port": 80}], "type": "ClusterIP"}


def test_import_needs_no_free_quota(
    importing: Any, namespace: str, api: Api, tmp_path: Path
) -> None:
    """Where the server creates nothing more, an apply to the live object is the proof."""
    body = of_kind("Service", "web", spec={"selector": {"a": "b"}, "ports": [{"port": 80}]})
    api.create(f"/api/v1/namespaces/{namespace}/services", body, by="kubectl-create")
    quota = of_kind("ResourceQuota", "full", spec={"hard": {"services": "1"}})
    created = api.create(
        f"/api/v1/namespaces/{namespace}/resourcequotas", quota, by="kubectl-create"
    )
    place = f"/api/v1/namespaces/{namespace}/resourcequotas/{created['metadata']['name']}"
    eventually(lambda: api.get(place).get("status", {}).get("used") == {"services": "1"})
    ended = importing("--out", tmp_path / "out")
    assert ended.code == 0, ended.err
    assert by_name(bodies(tmp_path / "out"))["Service", "web"]["spec"] == {
        "selector": {"a": "b"},
        "ports": [{"port": 80}],
        "type": "ClusterIP",
    }


def test_list_says_what_lives_and_under_whom(importing: Any, namespace: str, api: Api) -> None:
    """By namespace and owner, with what imports it; sets and records are counted."""
    marked: dict[str, dict[str, Any]] = {
        "helm": {"annotations": {"meta.helm.sh/release-name": "web"}},
        "kubectl": {"annotations": {LAST_APPLIED: "{}"}},
        "set": {"labels": {PART_OF: "applyset-x-v1"}},
    }
    for name, metadata in marked.items():
        api.create(CONFIG_MAPS.format(namespace), config_map(name, **metadata), by="helm")
    ended = importing("--list")
    table = [re.split(r" {2,}", line) for line in ended.out.splitlines()]
    assert table[1:3] == [
        [namespace, "kubectl apply", "1", "1 ConfigMap", "-"],
        [namespace, "the Helm release web", "1", "1 ConfigMap", "helm:web"],
    ]
    assert "what a set has (1)" in ended.err
    owners = json.loads(importing("--list", "-o", "json").out)["owners"]
    assert [one["source"] for one in owners] == ["", "helm:web"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing says where to write"),
        (("--list", "--out", "x"), "--list writes nothing"),
        (("configmap/a", "-l", "a=b", "--out", "-"), "KIND/NAME excludes -l, --from and -A"),
        (("--from", "helm:web", "-A", "--out", "-"), "--from excludes -A"),
        (("nothing/a", "--out", "-"), "'nothing/a' does not name an object"),
    ],
)
def test_call_that_means_nothing_is_refused(
    importing: Any, words: tuple[str, ...], message: str
) -> None:
    ended = importing(*words)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_interrupted_import_has_written_nothing(
    plane: Plane, namespace: str, api: Api, tmp_path: Path
) -> None:
    """Files are written once all manifests are proved."""
    for name in "abc":
        api.create(CONFIG_MAPS.format(namespace), config_map(name), by="kubectl-create")
    out = tmp_path / "out"
    with FaultProxy(plane) as proxy:
        words = ("import", "-n", namespace, "--out", out)
        with start(*words, kubeconfig=proxy.kubeconfig(tmp_path)) as process:
            happened = proxy.before_first(
                lambda seen: seen.method == "PATCH", lambda: process.send_signal(SIGINT)
            )
            _, err = process.communicate()
    assert happened
    assert (process.returncode, out.exists()) == (130, False)
    assert "nothing was changed" in err
