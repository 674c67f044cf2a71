"""``deploy/monitoring``: its alerts and its dashboard, by a real scrape of a real controller."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from applyprune.controller.metrics import STATES
from applyprune.controller.reasons import ConditionType
from applyprune.controller.task import RESULTS, STATUSES
from applyprune.localplane.cache import progress_on
from applyprune.sources import read
from tests.support.api import Api
from tests.support.controller import tenants
from tests.support.objects import config_map
from tests.support.promtool import promtool
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric

    from applyprune.localplane import Plane
    from tests.support.controller import Controller, Tenant
    from tests.support.plane import Kubectl

ROOT = Path(__file__).parents[2]
MONITORING = ROOT / "deploy" / "monitoring"
DASHBOARD = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
(RULES,) = read(("-",), stdin=BytesIO((MONITORING / "prometheus-rule.yaml").read_bytes()))
GROUPS: list[dict[str, Any]] = RULES.body["spec"]["groups"]
ALERTS = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
VALUES = {
    "type": {*map(str, ConditionType), "Drifted"},
    "ready": set(STATUSES),
    "status": {one.lower() for one in STATUSES},
    "state": set(STATES),
    "result": set(RESULTS),
}
"""The values of a label that an expression may name."""
VARIABLES = {"$namespace": ".*", "$bundle": ".*", "$__rate_interval": "5m"}


def queries() -> Iterator[str]:
    """Yield each expression of the dashboard, as Grafana sends it."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            query = target["expr"]
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            yield query


EXPRESSIONS = [*(rule["expr"] for rule in ALERTS.values()), *queries()]
LISTED = [
    re.sub(r"^label_values\((.*), (\w+)\)$", r"count by (\2) (\1)", one["query"]["query"]).replace(
        "$namespace", ".*"
    )
    for one in DASHBOARD["templating"]["list"]
    if one["type"] == "query"
]
"""What the variables of the dashboard list."""


@pytest.fixture(scope="module")
def module_tenant(site: Plane) -> Iterator[Tenant]:
    """A tenant for all tests of this file."""
    api = Api(site)
    with tenants(api) as make:
        yield make()
    api.close()


@pytest.fixture(scope="module")
def families(
    running: Controller, module_tenant: Tenant
) -> tuple[Sequence[Metric], Mapping[str, str]]:
    """A scrape with a Bundle in each state; and the namespace of each."""
    tenant = module_tenant
    tenant.bundle("good", config_map("a"))
    tenant.bundle("failing", source={"configMapRefs": [{"name": "nowhere"}]})
    tenant.bundle("paused", config_map("b"), suspend=True)
    tenant.bundle("waiting", config_map("c"), approval="Always")
    silent = {"url": "https://127.0.0.1:1/web.git"}
    tenant.bundle("silent", source={"git": silent})
    tenant.bundle("gone", config_map("d"))
    tenant.ready("good")
    tenant.ready("gone")
    tenant.failed("failing", "SourceNotFound")
    tenant.failed("waiting", "PendingApproval")
    tenant.delete("gone")
    tenant.gone("gone")
    tenant.failed("silent", "FetchFailed")
    readiness = {"good": "true", "failing": "false", "silent": "false", "waiting": "false"}
    place = f'namespace="{tenant.namespace}"'
    wanted = [
        f'applyprune_bundle_suspended{{bundle="paused",{place}}} 1.0',
        f'applyprune_bundle_pending_approval{{bundle="waiting",{place}}} 1.0',
        *(
            f'applyprune_bundle_condition{{bundle="{name}",{place},status="{status}",type="Ready"}}'
            for name, status in readiness.items()
        ),
    ]

    def scraped() -> str:
        # The metrics of a reconcile follow its status.
        text = running.ask("/metrics")[1]
        return text if all(one in text for one in wanted) and 'bundle="gone"' not in text else ""

    text = eventually(scraped, lambda: "a scrape with every Bundle")
    return list(text_string_to_metric_families(text)), {"namespace": tenant.namespace}


def test_expressions_name_what_a_scrape_has(
    families: tuple[Sequence[Metric], Mapping[str, str]],
) -> None:
    """Each metric with each label, and functions of counters only about counters."""
    labels: dict[str, set[str]] = {}
    kinds = {}
    for family in families[0]:
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
            kinds[sample.name] = family.type
    for query in [*EXPRESSIONS, *LISTED]:
        names = set(re.findall(r"\bapplyprune_\w+", query))
        assert names, query
        assert names - labels.keys() == set(), query
        for name, inside in re.findall(r"\b(applyprune_\w+)\{([^}]*)\}", query):
            for label, operator, value in re.findall(r'(\w+)(=~?)"([^"]*)"', inside):
                assert label in labels[name], query
                if operator == "=":
                    assert value in VALUES[label], query
        known = set().union(*(labels[name] for name in names))
        for grouped in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
            assert {one.strip() for one in grouped.split(",")} <= known, query
        for name in re.findall(r"\b(?:rate|increase)\((\w+)", query):
            assert kinds[name] in {"counter", "histogram"}, query
        for name in re.findall(r"\b(applyprune_\w+_total)\b", query):
            assert re.search(rf"\b(?:rate|increase)\({name}\b", query), query


@pytest.mark.parametrize("of", ["bundle", "source"])
def test_every_metric_of_bundles_and_sources_is_documented(
    families: tuple[Sequence[Metric], Mapping[str, str]], of: str
) -> None:
    """In the guide, and nothing there that does not exist."""
    found = {
        sample.name
        for family in families[0]
        for sample in family.samples
        if sample.name.startswith(f"applyprune_{of}_")
    }
    guide = (ROOT / "docs" / "guides" / "controller.md").read_text(encoding="utf-8")
    assert set(re.findall(rf"`(applyprune_{of}_\w+)`", guide)) == found


def test_every_result_of_a_source_is_documented(
    families: tuple[Sequence[Metric], Mapping[str, str]],
) -> None:
    """Each has a series before it happens first, and the check that has failed is counted."""
    guide = (ROOT / "docs" / "guides" / "controller.md").read_text(encoding="utf-8")
    for name in ("applyprune_source_checks", "applyprune_source_fetches"):
        (family,) = (one for one in families[0] if one.name == name)
        counts = {one.labels["result"]: one.value for one in family.samples}
        assert counts.keys() == set(RESULTS)
        assert [one for one in counts if f"`{one}`" not in guide] == []
        assert (counts["FetchFailed"] > 0) == (name == "applyprune_source_checks")


def test_kustomization_has_everything(site: Plane, kubectl: Kubectl) -> None:
    """In the controller's namespace; with the dashboard as it is."""
    text = kubectl("kustomize", MONITORING, plane=site)
    found = {one.gvk.kind: one for one in read(("-",), stdin=BytesIO(text.encode()))}
    assert sorted(found) == ["ConfigMap", "PrometheusRule", "ServiceMonitor"]
    assert {one.namespace for one in found.values()} == {"applyprune-system"}
    assert json.loads(found["ConfigMap"].body["data"]["applyprune.json"]) == DASHBOARD
    (network,) = [
        one for one in read((str(ROOT / "deploy" / "network.yaml"),)) if one.gvk.kind == "Service"
    ]
    spec = found["ServiceMonitor"].body["spec"]
    assert spec["selector"]["matchLabels"].items() <= network.body["metadata"]["labels"].items()
    assert spec["endpoints"][0]["port"] in {one["name"] for one in network.body["spec"]["ports"]}


Change = dict[str, str]
"""Values of series in promtool's notation, by the beginning of the series."""


def series(families: Sequence[Metric], changes: Change) -> list[dict[str, str]]:
    """Return the scrape as promtool's input: each value stays, unless it is changed."""
    found = []
    for family in families:
        for sample in family.samples:
            told = ",".join(f'{key}="{value}"' for key, value in sorted(sample.labels.items()))
            name = f"{sample.name}{{{told}}}" if told else sample.name
            values = next((new for start, new in changes.items() if name.startswith(start)), "")
            found.append({"series": name, "values": values or f"{sample.value}x1600"})
    return found


def alert(name: str, at: str, *fired: Mapping[str, str]) -> dict[str, Any]:
    """Return what promtool expects of an alert: the labels of each that fires; it may be silent."""
    rule = ALERTS[name]
    expected = []
    for labels in fired:
        told = dict(rule["annotations"])
        for key, value in labels.items():
            told = {
                one: text.replace(f"{{{{ $labels.{key} }}}}", value) for one, text in told.items()
            }
        expected.append({"exp_labels": {**labels, **rule["labels"]}, "exp_annotations": told})
    return {"eval_time": at, "alertname": name, "exp_alerts": expected}


def condition(kind: str, status: str) -> dict[str, str]:
    """Return the labels of a condition, beside those of its Bundle."""
    return {"type": kind, "status": status}


@pytest.mark.sweep
def test_promtool_evaluates_every_expression(
    families: tuple[Sequence[Metric], Mapping[str, str]], tmp_path: Path
) -> None:
    """On the series of the scrape, and on those of a worse day: which alerts, when, and how."""
    program = promtool(progress_on(sys.stderr))
    scrape, place = families
    names = {"namespace": place["namespace"]}
    bundle = {
        one: {**names, "bundle": one} for one in ("good", "failing", "paused", "silent", "waiting")
    }
    unready = [bundle[one] | condition("Ready", "false") for one in ("failing", "silent")]
    day: list[dict[str, Any]] = [
        alert("ApplypruneBundleNotReady", "10m"),
        alert("ApplypruneBundleNotReady", "20m", *unready),
        alert("ApplypruneBundleWaitsForApproval", "50m"),
        alert("ApplypruneBundleWaitsForApproval", "65m", bundle["waiting"]),
        alert("ApplypruneBundleSuspended", "23h"),
        alert("ApplypruneBundleSuspended", "25h", bundle["paused"]),
        *(
            alert(name, "2h")
            for name in (
                "ApplypruneBundleStalled",
                "ApplypruneBundleDrifted",
                "ApplypruneBundleRevertsRepeatedly",
                "ApplypruneNobodyReconciles",
                "ApplypruneUnhealthy",
                "ApplypruneReconcilesSlow",
                "ApplypruneQueueLong",
                "ApplypruneWatchesUsedUp",
                "ApplypruneSourceSilent",
                "ApplypruneSourceChecksWait",
                "ApplypruneApiErrors",
            )
        ),
    ]
    of_good = f'bundle="good",namespace="{place["namespace"]}"'
    changes = {
        f'applyprune_bundle_condition{{{of_good},status="false",type="Stalled"}}': "_x1600",
        f"applyprune_bundle_reverted_fields_total{{{of_good}}}": "0+1x1600",
        "applyprune_leader": "0x1600",
        "applyprune_healthy": "0x1600",
        "applyprune_queue_depth": "30x1600",
        "applyprune_waiting_watches": "7x1600",
        "applyprune_source_checks_oldest_seconds": "90x1600",
        'applyprune_reconcile_duration_seconds_bucket{le="+Inf"}': "0+10x1600",
        'applyprune_reconcile_duration_seconds_bucket{le="300.0"}': "0+10x1600",
        "applyprune_reconcile_duration_seconds_bucket": "0+1x1600",
        'applyprune_api_requests_total{code="5xx",method="GET"}': "0+5x1600",
        'applyprune_api_requests_total{code="2xx",method="GET"}': "0+10x1600",
        'applyprune_source_checks_total{result="FetchFailed"}': "0+5x1600",
        'applyprune_source_fetches_total{result="Success"}': "0+5x1600",
    }
    of_silent = f'bundle="silent",namespace="{place["namespace"]}"'
    changes[f"applyprune_source_age_seconds{{{of_silent}}}"] = "4000x1600"
    # A Bundle that wants a check every three hours, and gets none: its age follows the time.
    slow = {
        f"applyprune_source_interval_seconds{{{of_silent}}}": "10800x1600",
        f"applyprune_source_age_seconds{{{of_silent}}}": "0+60x1600",
    }
    stalled_and_drifted = [
        {
            "series": f'applyprune_bundle_condition{{{of_good},status="true",type="{kind}"}}',
            "values": "1x1600",
        }
        for kind in ("Stalled", "Drifted")
    ]
    worse: list[dict[str, Any]] = [
        alert("ApplypruneBundleStalled", "10m", bundle["good"] | condition("Stalled", "true")),
        alert("ApplypruneBundleDrifted", "20m", bundle["good"] | condition("Drifted", "true")),
        alert("ApplypruneBundleRevertsRepeatedly", "2h", bundle["good"]),
        alert("ApplypruneNobodyReconciles", "10m", {}),
        alert("ApplypruneUnhealthy", "1m"),
        alert("ApplypruneUnhealthy", "2m", {}),
        alert("ApplypruneReconcilesSlow", "1h", {}),
        alert("ApplypruneQueueLong", "20m", {}),
        alert("ApplypruneWatchesUsedUp", "40m", {}),
        alert("ApplypruneSourceChecksWait", "20m", {}),
        alert("ApplypruneSourceSilent", "20m", bundle["silent"]),
        alert("ApplypruneApiErrors", "30m", {}),
    ]
    recorded = [
        {"record": f"dashboard:query{number}", "expr": query}
        for number, query in enumerate([*queries(), *LISTED])
    ]
    groups = [*GROUPS, {"name": "dashboard", "rules": recorded}]
    seen = [
        {"expr": f"count(dashboard:query{number}) > bool 0", "eval_time": "1h"}
        | {"exp_samples": [{"labels": "{}", "value": 1}]}
        for number in _with_results(list(queries()))
    ]
    rules, tests = tmp_path / "rules.json", tmp_path / "tests.json"
    rules.write_text(json.dumps({"groups": groups}))
    cases = [
        {"interval": "1m", "input_series": series(scrape, {}), "alert_rule_test": day},
        {
            "interval": "1m",
            "input_series": [*series(scrape, changes), *stalled_and_drifted],
            "alert_rule_test": worse,
            "promql_expr_test": seen,
        },
        {
            "interval": "1m",
            "input_series": series(scrape, slow),
            "alert_rule_test": [
                alert("ApplypruneSourceSilent", "67m"),
                alert("ApplypruneSourceSilent", "6h"),
                alert("ApplypruneSourceSilent", "390m", bundle["silent"]),
            ],
        },
        {
            "interval": "1m",
            "input_series": [],
            "alert_rule_test": [alert("ApplypruneNobodyReconciles", "10m", {})],
        },
    ]
    head = {"rule_files": [str(rules)], "evaluation_interval": "1m"}
    tests.write_text(json.dumps({**head, "tests": cases}))
    for command in (("check", "rules", rules), ("test", "rules", tests)):
        reply = subprocess.run([program, *command], capture_output=True, text=True, check=False)
        assert reply.returncode == 0, reply.stdout[-4000:] + reply.stderr[-4000:]


def _with_results(found: list[str]) -> list[int]:
    """Return the queries of the dashboard that show something in the worse case."""
    nothing = ("pruned_objects", "refused_prunes", '{state="failing",namespace', "reconciles_total")
    return [
        number for number, query in enumerate(found) if not any(one in query for one in nothing)
    ]
