"""Published sets come back as manifests that change nothing, of which each part is needed.

``CORPUS`` names files and folders, separated by colons: each is one set, beside the project's own.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.errors import ApplypruneError
from applyprune.model.identity import GVK, Ref
from applyprune.model.kinds import CRD
from applyprune.model.live import API_SERVICES
from applyprune.planning.import_trials import lacking, without_place
from applyprune.planning.requests import creation_trial
from applyprune.sources import read
from tests.support.api import Api, AuditTrail
from tests.support.command import applyprune
from tests.support.objects import config_map, of_kind, text
from tests.support.stage import Stage
from tests.support.waiting import eventually
from tests.support.workloads import workload

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune import ClusterConnection
    from applyprune.cluster.client import KubernetesClient
    from applyprune.localplane import Plane
    from applyprune.model.identity import GroupKind
    from applyprune.model.live import Resource
    from applyprune.model.problem import Field
    from tests.support.plane import FreshPlane, Kubectl

pytestmark = pytest.mark.sweep

OWN = Path(__file__).parents[2] / "fixtures" / "corpus"
NAMED = [Path(path) for path in os.environ.get("CORPUS", "").split(":") if path]
SETS = {path.name: path.resolve() for path in (*sorted(OWN.iterdir()), *NAMED)}
WRITTEN_ANYWAY = {"emptyDir", "podSelector"}
"""What people write though it is a default; and the group of a role."""
MOST_FIELDS = 300


@pytest.mark.parametrize("name", SETS)
def test_published_set_comes_back(
    fresh_plane: FreshPlane, kubectl: Kubectl, tmp_path: Path, name: str
) -> None:
    plane = fresh_plane()
    apply_all(kubectl, plane, SETS[name])
    out = tmp_path / "out"
    words = ("-A", "--secrets", "--out", out)
    done = applyprune("import", *words, kubeconfig=plane.kubeconfig)
    assert done.code == 0, done.err
    with Stage(plane.kubeconfig, "default").connection() as cluster:
        assert list(superfluous(cluster, out)) == []
    # A caBundle without a certificate is left to its injector, and so goes with kubectl's fields.
    changed = 1 if name == "controllers" else 0

    def planned() -> str:
        words = ("plan", "all", "-f", out, "--adopt=all")
        ended = applyprune(*words, kubeconfig=plane.kubeconfig)
        assert ended.code == 0, ended.err
        return ended.out

    # The controllers may still change what has just been made.
    eventually(lambda: f" to adopt, {changed} changed" in planned(), planned)


def apply_all(kubectl: Kubectl, plane: Plane, source: Path) -> None:
    """Apply a set by kubectl; what needs a kind of the set, or its namespace, by a second run."""
    api = Api(plane)
    bodies = [dict(one.body) for one in read([str(source)])]
    for body in bodies:
        place = body["metadata"].get("namespace", "default")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}}
        api("POST", "/api/v1/namespaces", namespace)
    api.close()
    words = ("apply", "--server-side", "-f", "-")
    first = [one for one in bodies if one["kind"] == "CustomResourceDefinition"]
    if first:
        kubectl(*words, stdin=text(*first), plane=plane)
        crds = [f"crd/{one['metadata']['name']}" for one in first]
        kubectl("wait", "--for=condition=Established", *crds, plane=plane)
    kubectl(*words, stdin=text(*bodies), plane=plane)


def superfluous(cluster: ClusterConnection, folder: Path) -> Iterator[tuple[str, Field]]:
    """Yield each field of the manifests without which the server would create the same object."""
    for manifest in read([str(folder)]):
        body: dict[str, Any] = dict(manifest.body)
        whole = created(cluster, body)
        for place, part in without_each(body)[:MOST_FIELDS] if whole else ():
            found = created(cluster, part)
            # The server may also set more without it.
            if found and lacking(body, found) == () and size(found) == size(whole):
                yield f"{body['kind']}/{body['metadata']['name']}", place


def created(cluster: ClusterConnection, body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the object as the server would create it; None if it would not."""
    client, metadata = cluster.client, body["metadata"]
    kind = GVK.parse(body["apiVersion"], body["kind"]).group_kind
    if kind in {CRD, API_SERVICES.group_kind}:
        return None  # no other name can be tried
    resource = resources(client)[kind]
    ref = Ref(kind.group, kind.kind, metadata.get("namespace", ""), metadata["name"])
    try:
        trial = creation_trial(resource, ref, body)
        reply, _ = client.warning_to(None).apply(trial, dry_run=True)
    except ApplypruneError:
        return None
    return {**(reply.body or {}), "metadata": metadata}


@cache
def resources(client: KubernetesClient) -> Mapping[GroupKind, Resource]:
    return client.resource_map().preferred


def size(body: dict[str, Any] | None) -> int:
    return sum(1 for _ in without_place(body or {}))


def without_each(body: dict[str, Any]) -> Sequence[tuple[Field, dict[str, Any]]]:
    """Return each field that a manifest may lack, and the manifest without it."""
    found = []
    for place, part in without_place(body):
        names = tuple(step for step in place if isinstance(step, str))
        if names[0] in {"apiVersion", "kind", "metadata"} or names[-1] in WRITTEN_ANYWAY:
            continue
        if names[-2:] != ("roleRef", "apiGroup"):
            found.append((place, part))
    return found


def test_import_of_a_thousand_objects_takes_one_list_a_kind_and_three_dry_runs_an_object(
    fresh_plane: FreshPlane, kubectl: Kubectl, tmp_path: Path
) -> None:
    plane = fresh_plane()
    api = Api(plane)
    web = workload("Deployment", "web")
    web["spec"]["replicas"] = 0
    bodies = [
        *(config_map(f"a-{at}", str(at)) for at in range(500)),
        *({**web, "metadata": {"name": f"web-{at}"}} for at in range(250)),
        *(of_kind("Service", f"s-{at}", spec={"ports": [{"port": 80}]}) for at in range(250)),
    ]
    kubectl("create", "-f", "-", stdin=text(*bodies), plane=plane)
    audit = AuditTrail(plane, api)
    words = ("-n", "default", "--out", tmp_path / "out")
    done = applyprune("import", *words, kubeconfig=plane.kubeconfig)
    assert done.code == 0, done.err
    assert len(list((tmp_path / "out").iterdir())) == 1000
    events = audit.ours()
    lists = Counter(
        one["objectRef"]["resource"]
        for one in events
        if one["verb"] == "list" and "continue" not in one["requestURI"]
    )
    assert set(lists.values()) == {1}
    dry_runs = [one for one in events if one["verb"] in {"patch", "update"}]
    assert all("dryRun=All" in one["requestURI"] for one in dry_runs)
    assert 2000 <= len(dry_runs) <= 3000
    api.close()
