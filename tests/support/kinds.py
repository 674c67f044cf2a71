"""Kinds that a server serves, with all their names."""

from __future__ import annotations

from applyprune.model.live import CONFIG_MAPS, Resource, ResourceMap

SERVICES = Resource(
    "", "v1", "Service", "services", namespaced=True, singular="service", short_names=("svc",)
)
DEPLOYS = Resource(
    "apps",
    "v1",
    "Deployment",
    "deployments",
    namespaced=True,
    singular="deployment",
    short_names=("deploy",),
)
KNATIVE = Resource(
    "serving.knative.dev",
    "v1",
    "Service",
    "services",
    namespaced=True,
    singular="service",
    short_names=("ksvc",),
)
# A CRD may declare whatever it likes as its short name.
THIEF = Resource(
    "thief.example",
    "v1",
    "Thief",
    "thieves",
    namespaced=True,
    singular="thief",
    short_names=("service", "deploy"),
)
WIDGETS = Resource(
    "a.example", "v1", "Widget", "widgets", namespaced=True, singular="widget", short_names=("w",)
)
OTHER_WIDGETS = Resource(
    "b.example", "v2", "Widget", "widgets", namespaced=True, singular="widget", short_names=("w",)
)
ALL = (SERVICES, CONFIG_MAPS, DEPLOYS, THIEF, WIDGETS, OTHER_WIDGETS, KNATIVE)
MAP = ResourceMap({one.gvk: one for one in ALL}, {one.group_kind: one for one in ALL})
