"""The few endpoints that the program itself needs, whatever discovery says."""

from applyprune.model.refs import GroupKind
from applyprune.model.resources import Resource

CRD = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")

NAMESPACE = GroupKind("", "Namespace")

NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
API_SERVICES = Resource(
    "apiregistration.k8s.io", "v1", "APIService", "apiservices", namespaced=False
)
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)
STATEFUL_SETS = Resource("apps", "v1", "StatefulSet", "statefulsets", namespaced=True)
DAEMON_SETS = Resource("apps", "v1", "DaemonSet", "daemonsets", namespaced=True)
AUTOSCALERS = Resource(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", namespaced=True
)
PODS = Resource("", "v1", "Pod", "pods", namespaced=True)
REPLICA_SETS = Resource("apps", "v1", "ReplicaSet", "replicasets", namespaced=True)
EVENTS = Resource("", "v1", "Event", "events", namespaced=True)
BUNDLES = Resource("applyprune.dev", "v1alpha1", "Bundle", "bundles", namespaced=True)
SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True)
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True)
