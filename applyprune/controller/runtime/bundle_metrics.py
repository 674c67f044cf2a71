"""Metrics of each Bundle, made when they are scraped: a Bundle that is gone leaves no series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from applyprune.controller.constants import Condition, Key
from applyprune.controller.task import READY, BundleSample

STATES = ("applied", "failing")
_VALUES = {"True": 1.0, "False": 0.0, "Unknown": -1.0}
_LABELS = ("namespace", "bundle")


@dataclass(slots=True, eq=False)
class BundleMetrics(Collector):
    """The state of every Bundle; thread-safe. A scrape counts, so a reconcile costs nothing."""

    _samples: dict[Key, BundleSample] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def record(self, key: Key, sample: BundleSample) -> None:
        """Record a Bundle after a reconcile; its ``reverted`` is added to the earlier ones."""
        with self._lock:
            known = self._samples.get(key)
            before = known.reverted if known is not None else 0
            self._samples[key] = replace(sample, reverted=before + sample.reverted)

    def forget(self, key: Key) -> None:
        """Forget a Bundle that is gone."""
        with self._lock:
            self._samples.pop(key, None)

    def collect(self) -> Iterator[Metric]:
        """Yield the totals, and the metrics of each Bundle."""
        with self._lock:
            samples = dict(self._samples)
        yield from _totals(samples)
        yield from _conditions(samples)
        yield _info(samples)
        yield _objects(samples)
        yield _gauge(
            "suspended",
            "Whether the Bundle is suspended.",
            {key: float(sample.suspended) for key, sample in samples.items()},
        )
        yield _gauge(
            "pending_approval",
            "Whether a plan of the Bundle waits for an approval.",
            {key: float(sample.pending) for key, sample in samples.items()},
        )
        yield _gauge(
            "reconcile_duration_seconds",
            "How long the last reconcile of the Bundle took.",
            {key: sample.seconds for key, sample in samples.items()},
        )
        reverted = CounterMetricFamily(
            "applyprune_bundle_reverted_fields",
            "Fields of the Bundle that others had changed and that were set back.",
            labels=_LABELS,
        )
        for key, sample in samples.items():
            reverted.add_metric(key, sample.reverted)
        yield reverted


def _totals(samples: Mapping[Key, BundleSample]) -> Iterator[Metric]:
    by_ready = Counter(sample.ready for sample in samples.values())
    bundles = GaugeMetricFamily(
        "applyprune_bundles", "Bundles, by their Ready condition.", labels=["ready"]
    )
    for ready in READY:
        bundles.add_metric([ready], by_ready[ready])
    yield bundles
    objects = GaugeMetricFamily(
        "applyprune_objects", "Objects of Bundles, by state.", labels=["state"]
    )
    objects.add_metric(["applied"], sum(sample.applied for sample in samples.values()))
    objects.add_metric(["failing"], sum(sample.failing for sample in samples.values()))
    yield objects
    yield GaugeMetricFamily(
        "applyprune_pending_approvals",
        "Bundles with a plan that waits for an approval.",
        value=sum(sample.pending for sample in samples.values()),
    )


def _conditions(samples: Mapping[Key, BundleSample]) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "applyprune_bundle_condition",
        "The conditions of the Bundle: 1 for True, 0 for False, -1 for Unknown.",
        labels=(*_LABELS, "type"),
    )
    for key, sample in samples.items():
        for kind in Condition:
            if (value := _VALUES.get(sample.conditions.get(kind, ""))) is not None:
                family.add_metric((*key, str(kind)), value)
    yield family


def _info(samples: Mapping[Key, BundleSample]) -> Metric:
    family = GaugeMetricFamily(
        "applyprune_bundle_info",
        "The revision that was applied last, as a label; the value is 1.",
        labels=(*_LABELS, "revision"),
    )
    for key, sample in samples.items():
        family.add_metric((*key, sample.revision), 1)
    return family


def _objects(samples: Mapping[Key, BundleSample]) -> Metric:
    family = GaugeMetricFamily(
        "applyprune_bundle_objects", "Objects of the Bundle, by state.", labels=(*_LABELS, "state")
    )
    for key, sample in samples.items():
        for state, count in zip(STATES, (sample.applied, sample.failing), strict=True):
            family.add_metric((*key, state), count)
    return family


def _gauge(name: str, told: str, values: Mapping[Key, float]) -> Metric:
    family = GaugeMetricFamily(f"applyprune_bundle_{name}", told, labels=_LABELS)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
