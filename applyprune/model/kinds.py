"""What the program knows about single kinds: one row for each, by group and name.

A fact about a kind stands here. A rule that needs code stays with its subject: a row names it, or a
trait chooses the kinds that it is for. What the fields of a kind name is in
``planning/references.py``.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Any

from msgspec import Struct

from applyprune.model.identity import GroupKind


class Rank(IntEnum):
    """The place of a kind in the order of an apply; a prune has the reverse order."""

    NAMESPACE = 0
    DEFINITION = 1
    NAMED = 2
    """Objects that others refer to or are limited by."""
    NAMING = 3
    """A binding needs its role: the server checks escalation against it."""
    WORKLOAD = 4
    """What else there is in the built-in groups."""
    CUSTOM = 5
    """After the workloads, and so deleted before them: the controller that handles the finalizers
    of a custom resource is often a Deployment of the same set."""
    ADMITTING = 6
    """Kinds that route or reject other requests come after everything else."""


class Trait(StrEnum):
    """What may be true of a kind."""

    CLUSTER_SCOPED = "cluster"
    GUARDED = "guarded"
    """A prune deletes its objects only if somebody has allowed it, by its name in small letters."""
    AT_ONCE = "at-once"
    """It is ready as soon as it is stored: a watch would be useless."""
    HOLDS_OTHERS = "holds"
    """Its deletion deletes what is in it."""
    HAS_SET = "has-set"
    """Its deletion deletes the objects of a set: that is what it is for."""
    NEVER_RECREATED = "no-recreate"
    READ_BY_PODS = "read"
    """Pods read its values."""
    KEEPS_PODS = "keeps-pods"
    """It keeps a number of Pods running."""
    RUNS_ONCE = "runs-once"
    """Its Pods end by themselves."""
    NAMED_BY_PODS = "by-pods"
    """Pods of its namespace may name it."""
    NAMED_BY_ALL_PODS = "by-all-pods"
    """Pods of any namespace may name it."""
    NAMED_BY_CUSTOM = "by-custom"
    """A custom resource may name it, in a field that only its own kind knows."""
    SELECTED = "selected"
    """Selectors choose its objects by their labels: what owns them does, or Services."""
    HAS_BACKEND = "backend"
    """It passes requests on to Pods."""
    BLOCKS = "blocks"
    """Without what it calls, it can block a cluster."""
    ROLE = "role"
    BINDING = "binding"
    GENERATED = "generated"
    """Nobody counts its objects: Kubernetes makes them."""
    FIXED_GENERATION = "fixed-generation"
    """No change counts up its generation."""
    COUNTS_EMPTY = "counts-empty"
    """The server stores no empty list of it, but counts a new generation whenever one is sent. Null
    is the same value, owned as the list is, and counts nothing (tried, with all kinds)."""
    FREE_FORM = "free-form"
    """Its parameters may be any JSON."""


class KindRow(Struct, frozen=True):
    rank: Rank | None = None
    """None: that of its group."""
    traits: frozenset[Trait] = frozenset()
    ready: str = ""
    """Its rule in ``planning/readiness.py``; empty if its conditions say when it is ready."""
    template: tuple[str, ...] | None = None
    """The path of the Pod template, where it is another one than that of a Deployment."""
    strategy: str = ""
    """The field that says how Pods are replaced; without it, those that exist never change."""
    everywhere: str = ""
    """The name of the object that a controller creates in each Namespace."""


KINDS: dict[GroupKind, KindRow] = {}


def _kind(
    name: str, rank: Rank | None = None, traits: str = "", ready: str = "", **facts: Any
) -> GroupKind:
    """Add the row of ``KIND.GROUP``; ``traits`` are words."""
    kind, _, group = name.partition(".")
    found = GroupKind(group, kind)
    KINDS[found] = KindRow(rank, frozenset(map(Trait, traits.split())), ready, **facts)
    return found


RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"
_NAMED, _NAMING, _ADMITTING = Rank.NAMED, Rank.NAMING, Rank.ADMITTING
# By group: messages name the guarded kinds in this order.
NAMESPACE = _kind("Namespace", Rank.NAMESPACE, "cluster guarded holds no-recreate", "namespace")
VOLUME = _kind("PersistentVolume", _NAMED, "cluster guarded no-recreate")
CLAIM = _kind("PersistentVolumeClaim", _NAMING, "guarded no-recreate by-pods", "claim")
CONFIG_MAP = _kind(
    "ConfigMap", _NAMED, "at-once read by-pods by-custom", "always", everywhere="kube-root-ca.crt"
)
SECRET = _kind("Secret", _NAMED, "at-once read by-pods by-custom", "always")
SERVICE_ACCOUNT = _kind("ServiceAccount", _NAMED, "at-once by-pods by-custom", everywhere="default")
LIMITS = _kind("LimitRange", _NAMED, "at-once")
QUOTA = _kind("ResourceQuota", _NAMED, "at-once")
SERVICE = _kind("Service", _NAMING, "backend", "service")
POD = _kind("Pod", None, "selected", "pod", template=())
REPLICATION_CONTROLLER = _kind("ReplicationController", None, "keeps-pods", "replica-set")
_kind("Endpoints", None, "generated")
_kind("Event", None, "generated")
NODE = _kind("Node", None, "cluster")
MUTATION = _kind(f"MutatingAdmissionPolicy.{ADMISSION}", _ADMITTING, "cluster")
MUTATION_BINDING = _kind(f"MutatingAdmissionPolicyBinding.{ADMISSION}", _ADMITTING, "cluster")
MUTATING_WEBHOOKS = _kind(
    f"MutatingWebhookConfiguration.{ADMISSION}", _ADMITTING, "cluster at-once blocks counts-empty"
)
POLICY = _kind(f"ValidatingAdmissionPolicy.{ADMISSION}", _ADMITTING, "cluster")
POLICY_BINDING = _kind(f"ValidatingAdmissionPolicyBinding.{ADMISSION}", _ADMITTING, "cluster")
VALIDATING_WEBHOOKS = _kind(
    f"ValidatingWebhookConfiguration.{ADMISSION}", _ADMITTING, "cluster at-once blocks counts-empty"
)
CRD = _kind(
    "CustomResourceDefinition.apiextensions.k8s.io",
    Rank.DEFINITION,
    "cluster guarded holds no-recreate blocks",
    "definition",
)
API_SERVICE = _kind(
    "APIService.apiregistration.k8s.io", _ADMITTING, "cluster backend blocks", "api-service"
)
BUNDLE = _kind("Bundle.applyprune.dev", None, "has-set no-recreate")
_kind("ControllerRevision.apps", None, "free-form selected")
DAEMON_SET = _kind("DaemonSet.apps", None, "keeps-pods", "daemon-set", strategy="updateStrategy")
REPLICA_SET = _kind("ReplicaSet.apps", None, "keeps-pods selected", "replica-set")
DEPLOYMENT = _kind(
    "Deployment.apps",
    None,
    "keeps-pods",
    "deployment",
    strategy="strategy",
)
STATEFUL_SET = _kind(
    "StatefulSet.apps",
    None,
    "keeps-pods guarded",
    "stateful-set",
    strategy="updateStrategy",
)
APPLICATION = _kind("Application.argoproj.io")
AUTOSCALER = _kind("HorizontalPodAutoscaler.autoscaling", ready="autoscaler")
JOB = _kind("Job.batch", None, "runs-once")
CRON_JOB = _kind(
    "CronJob.batch",
    None,
    "runs-once",
    "always",
    template=("spec", "jobTemplate", "spec", "template"),
)
ENDPOINT_SLICE = _kind("EndpointSlice.discovery.k8s.io")
_kind("Event.events.k8s.io", None, "generated")
# No server has them any more, but kstatus does.
_kind("DaemonSet.extensions", ready="daemon-set")
_kind("Deployment.extensions", ready="deployment")
_kind("ReplicaSet.extensions", ready="replica-set")
GATEWAY = _kind("Gateway.gateway.networking.k8s.io")
GATEWAY_CLASS = _kind("GatewayClass.gateway.networking.k8s.io", None, "cluster")
HELM_RELEASE = _kind("HelmRelease.helm.toolkit.fluxcd.io")
KUSTOMIZATION = _kind("Kustomization.kustomize.toolkit.fluxcd.io")
SCALED_OBJECT = _kind("ScaledObject.keda.sh")
"""KEDA's autoscaler: its operator makes a HorizontalPodAutoscaler of it, a moment later."""
RESOURCE_GROUP = _kind("ResourceGroup.kpt.dev")
INGRESS = _kind("Ingress.networking.k8s.io")
INGRESS_CLASS = _kind("IngressClass.networking.k8s.io", _NAMED, "cluster at-once")
_kind("NetworkPolicy.networking.k8s.io", _NAMED, "at-once counts-empty")
RUNTIME_CLASS = _kind("RuntimeClass.node.k8s.io", _NAMED, "cluster by-all-pods")
# kstatus: after the controller has seen the generation, nothing else happens.
_kind("PodDisruptionBudget.policy", _NAMED, ready="always")
CLUSTER_ROLE = _kind(f"ClusterRole.{RBAC}", _NAMED, "cluster at-once role")
_kind(f"ClusterRoleBinding.{RBAC}", _NAMING, "cluster at-once binding")
_kind(f"Role.{RBAC}", _NAMED, "at-once role")
_kind(f"RoleBinding.{RBAC}", _NAMING, "at-once binding")
_kind("ResourceClaim.resource.k8s.io", None, "by-pods free-form")
_kind("ResourceClaimTemplate.resource.k8s.io", None, "by-pods free-form")
_kind("DeviceClass.resource.k8s.io", None, "cluster free-form")
PRIORITY_CLASS = _kind(
    "PriorityClass.scheduling.k8s.io", _NAMED, "cluster at-once by-all-pods fixed-generation"
)
_kind("CSIDriver.storage.k8s.io", _NAMED, "cluster")
STORAGE_CLASS = _kind("StorageClass.storage.k8s.io", _NAMED, "cluster at-once by-all-pods")


_UNKNOWN = KindRow()


def row_of(kind: GroupKind) -> KindRow:
    """Return what is known about a kind; the defaults if that is nothing."""
    return KINDS.get(kind, _UNKNOWN)


def kinds_with(*traits: Trait) -> frozenset[GroupKind]:
    """Return the kinds that have one of these traits."""
    return frozenset(kind for kind, row in KINDS.items() if not row.traits.isdisjoint(traits))


GUARDED_KINDS = {kind: kind.kind.lower() for kind in KINDS if Trait.GUARDED in KINDS[kind].traits}
"""The kinds that no prune deletes unless they are allowed, by the word that allows each."""
IN_EACH_NAMESPACE = frozenset(
    (kind, row.everywhere) for kind, row in KINDS.items() if row.everywhere
)
"""The objects that controllers create in each Namespace, by kind and name."""
COUNTED_WITH = kinds_with(Trait.HOLDS_OTHERS, Trait.HAS_SET)
"""The kinds whose deletion deletes what nobody's ownerReference names: it is counted first."""
HOLDERS = kinds_with(Trait.HOLDS_OTHERS)
"""The kinds whose deletion deletes what is in an object: Namespaces and CRDs."""
