"""A set whose files and documents come in any order: one plan, and one cluster."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from applyprune.localplane import Plane
from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.inventory import Wave
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import Plan
from applyprune.sources import read
from tests.support.api import Api
from tests.support.command import applyprune
from tests.support.objects import of_kind
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
SHOP = sorted((ROOT / "fixtures" / "shop").glob("*.yaml"))
SEEDS = range(8)
# Chains against the ranks of the kinds, waves, names that are alike, a second custom resource. What
# others depend on, and each wave but the last, is ready without a scheduler.
MORE = """
apiVersion: v1
kind: ConfigMap
metadata:
  name: last
  namespace: shop
  annotations:
    config.kubernetes.io/depends-on: >-
      networking.k8s.io/namespaces/shop/Ingress/storefront,
      /namespaces/shop/ConfigMap/middle
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: middle
  namespace: shop
  annotations:
    config.kubernetes.io/depends-on: batch/namespaces/shop/CronJob/nightly-report
---
apiVersion: shop.example.com/v1
kind: Promotion
metadata: {name: winter-sale, namespace: shop}
spec: {discountPercent: 30, until: "2027-01-31"}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: early
  namespace: annex
  annotations: {applyprune.dev/wave: "-1"}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: late
  namespace: annex
---
apiVersion: v1
kind: Namespace
metadata: {name: annex}
---
apiVersion: v1
kind: Service
metadata: {name: catalogue, namespace: annex}
spec:
  type: ExternalName
  externalName: catalogue.shop.svc
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: shuffled}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: shuffled}
subjects:
  - {kind: ServiceAccount, name: storefront, namespace: shop}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: shuffled}
rules:
  - {apiGroups: [""], resources: [pods], verbs: [get]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: catalogue, namespace: shop}
spec:
  minAvailable: 1
  selector: {matchLabels: {app: catalogue}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: shuffled, annotations: {applyprune.dev/wave: "-3"}}
value: 10
"""


def _documents(*texts: str) -> list[str]:
    """Return every document of some YAML streams, as text."""
    found: list[list[str]] = []
    for text in texts:
        found.append([])
        for line in text.splitlines():
            if line.rstrip() == "---":
                found.append([])
            else:
                found[-1].append(line)
    return [text for lines in found if "kind:" in (text := "\n".join(lines))]


SHOP_SET = _documents(*(path.read_text() for path in SHOP), MORE)
HOMES = ("shop", "annex")


def _shuffled(documents: Sequence[str], seed: int, folder: Path) -> Path:
    """Write the documents to files and folders as the seed deals them out."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    count = rng.randint(1, 9)
    files: list[list[str]] = [[] for _ in range(count)]
    for document in rng.sample(documents, len(documents)):
        rng.choice(files).append(document)
    for number, name in enumerate(rng.sample("abcdefghi", count)):
        file = folder / rng.choice((".", "x", "x/y")) / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n---\n".join(files[number]))
    return folder


def _outcomes(story: Story) -> list[Outcome]:
    """Return the outcome of each object; two of the set differ in their namespace only."""
    return [one.outcome for one in story.of(ObjectDone)]


def _steps(plan: Plan) -> list[tuple[str, str, Wave | None]]:
    steps: list[tuple[str, str, Wave | None]] = [
        (str(one.desired.ref), str(one.fate), one.desired.wave) for one in plan.applies
    ]
    return steps + [(str(one.entry.ref), str(one.fate), None) for one in plan.removals]


def _content(api: Api, plan: Plan, manager: str) -> Mapping[str, Any]:
    """Return the objects of a plan without the values that are new each time."""
    found = {}
    for step in plan.applies:
        one, ref = step.desired.resource, step.desired.ref
        root = f"/apis/{one.group}/{one.version}" if one.group else f"/api/{one.version}"
        home = f"/namespaces/{ref.namespace}" if one.namespaced else ""
        live = api.get(f"{root}{home}/{one.plural}/{ref.name}")
        metadata = live.pop("metadata")
        live.pop("status", None)
        if ref.kind == "Service":
            for key in ("clusterIP", "clusterIPs"):
                live["spec"].pop(key, None)
            for port in live["spec"].get("ports") or ():
                port.pop("nodePort", None)
        managed = [entry for entry in metadata["managedFields"] if entry["manager"] == manager]
        annotations = dict(metadata.get("annotations") or {})
        annotations.pop("deployment.kubernetes.io/revision", None)
        live["metadata"] = {
            "labels": metadata["labels"],
            "annotations": annotations,
            "owned": [entry["fieldsV1"] for entry in managed],
        }
        found[str(ref)] = live
    return found


def _record(stage: Stage) -> Mapping[str, Any]:
    return {
        str(ref): (
            one.digest,
            one.wave,
            one.depends_on,
            one.orphan_reason,
            one.ownership,
            one.version,
        )
        for ref, one in stage.inventory().entries.items()
    }


@pytest.mark.parametrize("orders", [2, pytest.param(8, marks=pytest.mark.sweep)])
def test_input_order_changes_neither_plan_nor_cluster(
    running: Plane, crds: Api, tmp_path: Path, orders: int
) -> None:
    """Some orders, each from empty and each applied again the other way round.

    The namespaces are there before and stay: the namespace controller takes 5 s for each, and the
    test from the command line does without.
    """
    assert len(SHOP_SET) == 26
    for home in HOMES:
        body = of_kind("Namespace", home)
        crds.create("/api/v1/namespaces", body)
    stage = Stage(running.kubeconfig, "default", name="demo")
    plans, contents, records = [], [], []
    for seed in range(orders):
        inputs = read([str(_shuffled(SHOP_SET, seed, tmp_path / str(seed)))])
        bodies = [dict(one.body) for one in inputs]
        story = stage.run(*bodies)
        assert story.exit_code == 0, story.events
        assert Counter(_outcomes(story)) == Counter(
            {Outcome.CREATED: len(SHOP_SET) - len(HOMES), Outcome.UPDATED: len(HOMES)}
        )
        plans.append(_steps(story.plan))
        contents.append(_content(crds, story.plan, stage.target.manager))
        records.append(_record(stage))
        again = stage.run(*reversed(bodies))
        assert _outcomes(again) == [Outcome.UNCHANGED] * len(SHOP_SET)
        gone = stage.run(mode=Mode.DELETE)
        assert gone.exit_code == 0, gone.events
    for found in (plans, contents, records):
        assert len(found) == orders
        assert all(one == found[0] for one in found)
    for home in HOMES:
        assert crds("DELETE", f"/api/v1/namespaces/{home}")[0] == 200
    eventually(lambda: not any(crds.exists(f"/api/v1/namespaces/{home}") for home in HOMES))


def test_input_order_does_not_change_the_prune_order(running: Plane, tmp_path: Path) -> None:
    """However the run read the applied objects and the rest of the set."""
    stage = Stage(running.kubeconfig, "default", name="shrinks")
    kept = [one for one in SHOP_SET if "kind: Namespace" in one or "kind: PriorityClass" in one]
    stage.run(*(dict(one.body) for one in read([str(_shuffled(SHOP_SET, 0, tmp_path / "all"))])))
    plans = []
    for seed in SEEDS:
        inputs = read([str(_shuffled(kept, seed, tmp_path / str(seed)))])
        story = stage.run(*(dict(one.body) for one in inputs), dry_run=DryRun.CLIENT)
        plans.append(_steps(story.plan))
    assert len(plans[0]) == len(SHOP_SET)
    assert all(one == plans[0] for one in plans)
    assert stage.run(mode=Mode.DELETE).exit_code == 0


def test_file_order_does_not_matter_on_the_command_line(running: Plane, tmp_path: Path) -> None:
    """All is created, and the same again from another order."""
    one, other = (_shuffled(SHOP_SET, seed, tmp_path / str(seed)) for seed in (1, 2))
    ended = applyprune("apply", "told", "-f", one, kubeconfig=running.kubeconfig)
    assert ended.code == 0, ended.err
    assert len([line for line in ended.out.splitlines() if line.endswith(" created")]) == 26
    again = applyprune("apply", "told", "-f", other, kubeconfig=running.kubeconfig)
    assert again.code == 0, again.err
    assert "told: 26 unchanged" in again.out
    gone = applyprune("delete", "told", "--yes", kubeconfig=running.kubeconfig)
    assert gone.code == 0, gone.err
