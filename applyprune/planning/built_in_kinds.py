"""The kinds that every supported API server serves itself, for what must do without a server."""

from __future__ import annotations

from functools import cache

from applyprune.model.identity import GVK, GroupKind
from applyprune.model.live import Resource, ResourceMap

# In the order of discovery: the version that a server prefers comes last. A test compares them with
# what a server answers.
_KINDS = """
v1
  ConfigMap configmaps cm
  Endpoints endpoints ep
  Event events ev
  LimitRange limitranges limits
  Namespace namespaces cluster status ns
  Node nodes cluster status no
  PersistentVolume persistentvolumes cluster status pv
  PersistentVolumeClaim persistentvolumeclaims status pvc
  Pod pods status po
  PodTemplate podtemplates
  ReplicationController replicationcontrollers status rc
  ResourceQuota resourcequotas status quota
  Secret secrets
  Service services status svc
  ServiceAccount serviceaccounts sa
admissionregistration.k8s.io/v1
  MutatingAdmissionPolicy mutatingadmissionpolicies cluster
  MutatingAdmissionPolicyBinding mutatingadmissionpolicybindings cluster
  MutatingWebhookConfiguration mutatingwebhookconfigurations cluster
  ValidatingAdmissionPolicy validatingadmissionpolicies cluster status
  ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings cluster
  ValidatingWebhookConfiguration validatingwebhookconfigurations cluster
apiextensions.k8s.io/v1
  CustomResourceDefinition customresourcedefinitions cluster status crd,crds
apiregistration.k8s.io/v1
  APIService apiservices cluster status
apps/v1
  ControllerRevision controllerrevisions
  DaemonSet daemonsets status ds
  Deployment deployments status deploy
  ReplicaSet replicasets status rs
  StatefulSet statefulsets status sts
autoscaling/v1
  HorizontalPodAutoscaler horizontalpodautoscalers status hpa
autoscaling/v2
  HorizontalPodAutoscaler horizontalpodautoscalers status hpa
batch/v1
  CronJob cronjobs status cj
  Job jobs status
certificates.k8s.io/v1
  CertificateSigningRequest certificatesigningrequests cluster status csr
coordination.k8s.io/v1
  Lease leases
discovery.k8s.io/v1
  EndpointSlice endpointslices
events.k8s.io/v1
  Event events ev
flowcontrol.apiserver.k8s.io/v1
  FlowSchema flowschemas cluster status
  PriorityLevelConfiguration prioritylevelconfigurations cluster status
networking.k8s.io/v1
  IPAddress ipaddresses cluster ip
  Ingress ingresses status ing
  IngressClass ingressclasses cluster
  NetworkPolicy networkpolicies netpol
  ServiceCIDR servicecidrs cluster status
node.k8s.io/v1
  RuntimeClass runtimeclasses cluster
policy/v1
  PodDisruptionBudget poddisruptionbudgets status pdb
rbac.authorization.k8s.io/v1
  ClusterRole clusterroles cluster
  ClusterRoleBinding clusterrolebindings cluster
  Role roles
  RoleBinding rolebindings
resource.k8s.io/v1
  DeviceClass deviceclasses cluster
  ResourceClaim resourceclaims status
  ResourceClaimTemplate resourceclaimtemplates
  ResourceSlice resourceslices cluster
scheduling.k8s.io/v1
  PriorityClass priorityclasses cluster pc
storage.k8s.io/v1
  CSIDriver csidrivers cluster
  CSINode csinodes cluster
  CSIStorageCapacity csistoragecapacities
  StorageClass storageclasses cluster sc
  VolumeAttachment volumeattachments cluster status
  VolumeAttributesClass volumeattributesclasses cluster vac
"""
"""API versions, each with its kinds: plural, what it is, and its short names."""


@cache
def built_in_kinds() -> ResourceMap:
    """Return the built-in kinds in their stable versions, as discovery would."""
    served: dict[GVK, Resource] = {}
    preferred: dict[GroupKind, Resource] = {}
    group = version = ""
    for line in _KINDS.split("\n"):
        kind, *about = line.split() or [""]
        if not about:
            group, _, version = kind.rpartition("/")
            continue
        plural, *about = about
        names = [one for one in about if one not in {"cluster", "status"}]
        resource = Resource(
            group,
            version,
            kind,
            plural,
            namespaced="cluster" not in about,
            short_names=tuple(names[0].split(",")) if names else (),
            has_status="status" in about,
        )
        served[resource.gvk] = preferred[resource.group_kind] = resource
    versions = frozenset((gvk.group, gvk.version) for gvk in served)
    return ResourceMap(served, preferred, versions=versions)
