"""A set whose files and documents come in any order: one plan, and one cluster."""

from __future__ import annotations

import random
import re
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
from applyprune.planning.order import DEPENDS_ON
from applyprune.sources import read
from tests.support.api import Api
from tests.support.objects import config_map, of_kind, text
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually

SHOP = sorted((Path(__file__).parents[2] / "fixtures" / "shop").glob("*.yaml"))
INGRESS, CRON_JOB = "networking.k8s.io/namespaces/shop/Ingress", "batch/namespaces/shop/CronJob"
RBAC = "rbac.authorization.k8s.io"


def _of(namespace: str, name: str, **annotations: str) -> dict[str, Any]:
    keys = {"after": DEPENDS_ON, "wave": "applyprune.dev/wave"}
    marks = {keys[key]: value for key, value in annotations.items()}
    return config_map(name, namespace=namespace, annotations=marks)


# Chains against the ranks of the kinds, waves, names that are alike, a second custom resource. What
# others depend on, and each wave but the last, is ready without a scheduler.
MORE = text(
    _of("shop", "last", after=f"{INGRESS}/storefront,/namespaces/shop/ConfigMap/middle"),
    _of("shop", "middle", after=f"{CRON_JOB}/nightly-report"),
    of_kind(
        "Promotion", "winter-sale", {"namespace": "shop"}, api="shop.example.com/v1",
        spec={"discountPercent": 30, "until": "2027-01-31"},
    ),
    _of("annex", "early", wave="-1"),
    _of("annex", "late"),
    of_kind("Namespace", "annex"),
    of_kind(
        "Service", "catalogue", {"namespace": "annex"},
        spec={"type": "ExternalName", "externalName": "catalogue.shop.svc"},
    ),
    of_kind(
        "ClusterRoleBinding", "shuffled",
        roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "shuffled"}, subjects=[],
    ),
    of_kind("ClusterRole", "shuffled", rules=[]),
    of_kind(
        "PriorityClass", "shuffled", {"annotations": {"applyprune.dev/wave": "-3"}},
        api="scheduling.k8s.io/v1", value=10,
    ),
)  # fmt: skip


def _documents(*texts: str) -> list[str]:
    """Return every document of some YAML streams, as text."""
    found: list[list[str]] = []
    for stream in texts:
        found.append([])
        for line in stream.splitlines():
            if line.rstrip() == "---":
                found.append([])
            else:
                found[-1].append(line)
    return [one for lines in found if "kind" in (one := "\n".join(lines))]


SHOP_SET = _documents(*(path.read_text() for path in SHOP), MORE)
STAY = [one for one in SHOP_SET if re.search('kind"?: "?Namespace', one)]
HOMES = ("shop", "annex")


def _shuffled(documents: Sequence[str], seed: int, folder: Path) -> list[dict[str, Any]]:
    """Read the documents from files and folders as the seed deals them out."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    count = rng.randint(1, 9)
    files: list[list[str]] = [[] for _ in range(count)]
    for document in rng.sample(documents, len(documents)):
        rng.choice(files).append(document)
    for number, name in enumerate(rng.sample("abcdefghi", count)):
        file = folder / rng.choice((".", "x", "x/y")) / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n---\n".join(files[number]))
    return [dict(one.body) for one in read([str(folder)])]


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
    facts = ("digest", "wave", "depends_on", "orphan_reason", "ownership", "version")
    entries = stage.inventory().entries.items()
    return {str(ref): [getattr(one, fact) for fact in facts] for ref, one in entries}


@pytest.mark.parametrize("orders", [2, pytest.param(8, marks=pytest.mark.sweep)])
def test_input_order_changes_neither_plan_nor_cluster(
    running: Plane, crds: Api, tmp_path: Path, orders: int
) -> None:
    """Some orders, each from empty, each applied again the other way round, and each shrunk.

    The namespaces are there before and stay: the namespace controller takes 5 s for each.

    Slow: it applies and deletes the shop for each order.
    """
    assert (len(SHOP_SET), len(STAY)) == (25, 2)
    for home in HOMES:
        crds.create("/api/v1/namespaces", of_kind("Namespace", home))
    stage = Stage(running.kubeconfig, "default", name="demo")
    found: dict[str, list[Any]] = {"plan": [], "content": [], "record": [], "prune": []}
    for seed in range(orders):
        bodies = _shuffled(SHOP_SET, seed, tmp_path / str(seed))
        story = stage.run(*bodies)
        assert story.exit_code == 0, story.events
        assert Counter(_outcomes(story)) == Counter(
            {Outcome.CREATED: len(SHOP_SET) - len(HOMES), Outcome.UPDATED: len(HOMES)}
        )
        found["plan"].append(_steps(story.plan))
        found["content"].append(_content(crds, story.plan, stage.target.manager))
        found["record"].append(_record(stage))
        again = stage.run(*reversed(bodies))
        assert _outcomes(again) == [Outcome.UNCHANGED] * len(SHOP_SET)
        fewer = _shuffled(STAY, seed, tmp_path / f"{seed}-fewer")
        found["prune"].append(_steps(stage.run(*fewer, dry_run=DryRun.CLIENT).plan))
        gone = stage.run(mode=Mode.DELETE)
        assert gone.exit_code == 0, gone.events
    for what, ones in found.items():
        assert len(ones) == orders
        assert all(one == ones[0] for one in ones), what
    for home in HOMES:
        assert crds("DELETE", f"/api/v1/namespaces/{home}")[0] == 200
    eventually(lambda: not any(crds.exists(f"/api/v1/namespaces/{home}") for home in HOMES))
