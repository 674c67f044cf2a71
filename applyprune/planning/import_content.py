"""Which live objects an import writes, and what of each is a person's.

The server, the controllers of Kubernetes and other tools add fields to each object, and make
objects of their own. Who has written a field is in managedFields; the rest is in tables here.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from applyprune.model.fieldset import (
    MISSING,
    NO_FIELDS,
    Path,
    list_item,
    value_at,
    with_value,
    without_fields,
)
from applyprune.model.identity import GroupKind
from applyprune.model.kinds import (
    CLAIM,
    IN_EACH_NAMESPACE,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    VOLUME,
)
from applyprune.model.live import LiveObject, field, items, mapping, text
from applyprune.model.text import is_dns_subdomain
from applyprune.planning.applyset import LAST_APPLIED, MANIFEST_DIGEST, OWNED_BY, PART_OF, SET_ID
from applyprune.planning.field_writers import is_kubernetes
from applyprune.planning.marks import owner_named
from applyprune.planning.normalize import (
    CA_BUNDLE,
    may_be_secret,
    without_defaults,
    without_nulls,
)
from applyprune.planning.order import is_built_in
from applyprune.planning.ownership import tool_marks
from applyprune.planning.references import template_path
from applyprune.planning.secrets import HIDDEN
from applyprune.values import pattern

if TYPE_CHECKING:
    from applyprune.model.problem import JSONObject


# Which objects are left out, and why. Each reason is a line of the summary.


class LeftOut(StrEnum):
    """Why an object is not written."""

    OWNED = "what owners make"
    MADE = "what controllers make"
    OF_SET = "what a set has"
    RECORD = "records of tools"
    HOOK = "Helm hooks"
    CREDENTIAL = "tokens"
    UNASKED = "Secrets, without --secrets"
    GOING = "what is being deleted"


def _kinds(*names: str) -> frozenset[GroupKind]:
    pairs = (name.partition(".") for name in names)
    return frozenset(GroupKind(group, kind) for kind, _, group in pairs)


STATE_KINDS = _kinds(
    "Event", "Event.events.k8s.io", "Lease.coordination.k8s.io",
    "LeaseCandidate.coordination.k8s.io", "CSINode.storage.k8s.io",
    "CSIStorageCapacity.storage.k8s.io", "VolumeAttachment.storage.k8s.io",
    "CertificateSigningRequest.certificates.k8s.io", "ControllerRevision.apps",
    "EndpointSlice.discovery.k8s.io", "PodMetrics.metrics.k8s.io", "NodeMetrics.metrics.k8s.io",
    "ResourceSlice.resource.k8s.io", "StorageVersion.internal.apiserver.k8s.io",
) | {NODE}  # fmt: skip
"""The kinds that only programs write, about the state of the cluster: they are never listed."""
_CREDENTIALS = frozenset({"kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token"})
_RELEASE = "helm.sh/release.v1"
_RECORD_LABELS = frozenset(
    {SET_ID, "kapp.k14s.io/is-app", "kapp.k14s.io/is-app-change",
     "cli-utils.sigs.k8s.io/inventory-id"}
)  # fmt: skip
"""The labels of what other tools, and applyprune, store about themselves."""
_MAKERS = frozenset(
    {"control-plane.alpha.kubernetes.io/leader", "cert-manager.io/certificate-name",
     "pv.kubernetes.io/provisioned-by", "endpoints.kubernetes.io/last-change-trigger-time"}
)  # fmt: skip
"""Annotations that programs write on what they make, without an ownerReference."""
_HOOK = "helm.sh/hook"
_SYSTEM_NAMESPACES = frozenset({"kube-node-lease", "kube-public", "kube-system"})
_SYSTEM_MANAGERS = pattern(r"clusterrole-aggregation-controller|api-priority-and-fairness-.*")


def left_out(live: LiveObject, *, secrets: bool, applyset: str = "") -> LeftOut | None:
    """Return why an import leaves out a live object; None if it writes it.

    ``live`` may be metadata only, but for a Secret of which the type counts. ``secrets`` says that
    Secrets are written, and ``applyset`` is the label of the set whose objects are asked for.
    """
    is_secret = live.ref.group_kind == SECRET or may_be_secret(live.body or {})
    is_record = not _RECORD_LABELS.isdisjoint(live.labels) or _type_of(live) == _RELEASE
    rules = {
        LeftOut.GOING: live.terminating,
        LeftOut.OWNED: bool(items(live.metadata, "ownerReferences")),
        # guard: import-of-another-set never
        LeftOut.OF_SET: live.labels.get(PART_OF, applyset) != applyset,
        LeftOut.RECORD: is_record,
        LeftOut.MADE: _is_made(live) or not _MAKERS.isdisjoint(live.annotations),
        LeftOut.HOOK: _HOOK in live.annotations,
        LeftOut.CREDENTIAL: _type_of(live) in _CREDENTIALS,
        # guard: import-without-secrets never
        LeftOut.UNASKED: is_secret and not secrets,
    }
    return next((reason for reason, holds in rules.items() if holds), None)


def _type_of(live: LiveObject) -> str:
    if live.ref.group_kind != SECRET:
        return ""
    # Helm labels its releases; of metadata alone, no more is known.
    is_release = live.labels.get("owner") == "helm" and live.ref.name.startswith("sh.helm.release.")
    return _RELEASE if is_release else text(live.body or {}, "type")


def _is_made(live: LiveObject) -> bool:
    """Return whether only Kubernetes itself has written an object."""
    kind, name = live.ref.group_kind, live.ref.name
    is_own = kind == NAMESPACE and name in {*_SYSTEM_NAMESPACES, "default"}
    if (kind, name) in IN_EACH_NAMESPACE or is_own:
        return True
    writers = [one for one in live.writers if one.subresource != "status"]
    if not writers:
        # The accounts of its controllers have no record of a writer.
        return live.ref.namespace in _SYSTEM_NAMESPACES
    return all(_is_system(one.manager) for one in writers)


def _is_system(manager: str) -> bool:
    return is_kubernetes(manager) or _SYSTEM_MANAGERS.fullmatch(manager) is not None


_SOURCES = {
    "meta.helm.sh/release-name": "helm",
    "kustomize.toolkit.fluxcd.io/name": "flux",
    "argocd.argoproj.io/tracking-id": "argo",
}
"""What ``--from`` calls the tool whose mark has the name of its record."""


def owner_and_source(live: LiveObject, known: Collection[str]) -> tuple[str, str]:
    """Return under whom an object is, and what ``--from`` takes for it; both may be empty.

    ``known`` are the values of marks of others: of a Secret, no other value is shown.
    """
    for mark, shown in tool_marks(live, ""):
        there = live.labels if mark.part == "labels" else live.annotations
        value = shown or (there[mark.key] if there[mark.key] in known else "")
        if not value:
            return mark.named.format(HIDDEN), ""
        tool, name = _SOURCES.get(mark.key, ""), value.partition(mark.ends_at or "\n")[0]
        source = f"{tool}:{name}" if tool and is_dns_subdomain(name) else ""
        return owner_named(mark, value, live.labels, live.annotations), source
    return ("kubectl apply" if LAST_APPLIED in live.annotations else ""), ""


# What of an object is a person's.


_ADDED_ANNOTATIONS = frozenset(
    {LAST_APPLIED, MANIFEST_DIGEST, OWNED_BY, "deployment.kubernetes.io/revision",
     "deprecated.daemonset.template.generation", "kubectl.kubernetes.io/restartedAt",
     "volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/selected-node",
     "volume.kubernetes.io/storage-provisioner", "batch.kubernetes.io/job-tracking",
     "field.cattle.io/publicEndpoints", "cattle.io/timestamp", "cattle.io/status"}
)  # fmt: skip
_ADDED_PREFIXES = ("pv.kubernetes.io/", "autoscaling.alpha.kubernetes.io/")
_ADDED_LABELS: Mapping[GroupKind, frozenset[str]] = {
    NAMESPACE: frozenset({"kubernetes.io/metadata.name"}),
    JOB: frozenset(
        {"batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid",
         "job-name"}
    ),
}  # fmt: skip
_ADDED_FIELDS: Mapping[GroupKind, tuple[Path, ...]] = {
    SERVICE: (("spec", "clusterIPs"), ("spec", "clusterIP"), ("spec", "healthCheckNodePort")),
    CLAIM: (("spec", "volumeName"),),
    VOLUME: (("spec", "claimRef", "uid"), ("spec", "claimRef", "resourceVersion")),
    NAMESPACE: (("spec",),),
    POD: (("spec", "nodeName"),),
    SERVICE_ACCOUNT: (("secrets",),),
}
"""What the server allocates and controllers bind: a person's only if somebody has declared it."""
_HEADLESS = "None"
_ACCESS = "kube-api-access-"


def content_of(
    live: LiveObject, api_version: str, marks: Sequence[tuple[str, str]], *, autoscaled: bool
) -> JSONObject:
    """Return the body of an object as a person would have written it, with the server's defaults.

    ``live`` was read in full. ``marks`` are the labels and annotations of another tool that go:
    which part, and which key. ``autoscaled`` says that an autoscaler sets its replicas.
    """
    kind = live.ref.group_kind
    gone = {*_of_controllers(live), *_allocated(live)}
    if autoscaled:
        gone.add(("spec", "replicas"))
    body = dict(without_fields(live.body or {}, gone))
    body.pop("status", None)
    metadata: dict[str, Any] = {"name": live.ref.name, "namespace": live.ref.namespace}
    for part in ("labels", "annotations"):
        dropped = {key for where, key in marks if where == part}
        kept = _own_texts(body["metadata"].get(part), part, kind, dropped)
        metadata[part] = kept
    found: Mapping[str, Any] = {
        "apiVersion": api_version,
        "kind": live.ref.kind,
        "metadata": {key: value for key, value in metadata.items() if value},
        **{key: value for key, value in body.items() if key not in _HEAD},
    }
    found = without_nulls(found, custom=not is_built_in(live.ref.group))
    found, _ = without_defaults(found, kind, ())
    return _by_kind(_without_template_marks(dict(found), kind), kind)


_HEAD = frozenset({"apiVersion", "kind", "metadata", "status"})


def _own_texts(texts: object, part: str, kind: GroupKind, dropped: set[str]) -> dict[str, Any]:
    """Return the labels or annotations of an object that a person has written."""
    added = _ADDED_ANNOTATIONS if part == "annotations" else _ADDED_LABELS.get(kind, frozenset())
    return {
        key: value
        for key, value in mapping(texts).items()
        if key not in added
        and key not in dropped
        and key != PART_OF
        and not (part == "annotations" and key.startswith(_ADDED_PREFIXES))
    }


def _of_controllers(live: LiveObject) -> Iterator[Path]:
    """Yield the fields that only controllers own: those of Kubernetes, and who injects a CA."""
    theirs = ours = NO_FIELDS
    for one in live.writers:
        if one.subresource == "status":
            continue
        leaves = list(one.fields.leaves())
        is_injector = bool(leaves) and all(path[-1] == CA_BUNDLE for path in leaves)
        if is_injector or _is_system(one.manager):
            theirs |= one.fields
        else:
            ours |= one.fields
    yield from (theirs - ours).leaves() if ours else ()


def _allocated(live: LiveObject) -> Iterator[Path]:
    """Yield what the server allocates, and controllers bind, unless somebody has declared it."""
    places = tuple(_allocatable(live))
    if not places:
        return
    applied: object = None
    with suppress(ValueError, RecursionError):
        applied = json.loads(live.annotations.get(LAST_APPLIED, "null"))
    declared = [one.fields for one in live.writers if one.operation == "Apply"]
    for path in places:
        is_declared = value_at(applied, path) is not MISSING
        # guard: declared-address -> True
        if not (is_declared or any(path in fields for fields in declared)):
            yield path


def _allocatable(live: LiveObject) -> Iterator[Path]:
    body, kind = live.body or {}, live.ref.group_kind
    is_headless = field(body, "spec", "clusterIP") == _HEADLESS
    for path in _ADDED_FIELDS.get(kind, ()):
        if not (is_headless and path[-1] == "clusterIP"):
            yield path
    # People choose the ports of nodes: firewalls and balancers know them.
    if kind == SERVICE and field(body, "spec", "type") != "NodePort":
        for port in map(mapping, items(body, "spec", "ports")):
            named = list_item({key: port.get(key) for key in ("port", "protocol")})
            yield ("spec", "ports", named, "nodePort")


def _without_template_marks(body: JSONObject, kind: GroupKind) -> JSONObject:
    """Return a body whose Pod template has nothing that acts on it have added."""
    path = template_path(kind)
    if not path or not isinstance(template := field(body, *path), dict):
        return body
    metadata = mapping(template.get("metadata"))
    labels = _own_texts(metadata.get("labels"), "labels", kind, set())
    annotations = _own_texts(metadata.get("annotations"), "annotations", kind, set())
    texts = {"labels": labels, "annotations": annotations}
    rest = {key: value for key, value in metadata.items() if key not in {*texts, PART_OF}}
    named = {**rest, **{part: kept for part, kept in texts.items() if kept}}
    without = {key: value for key, value in template.items() if key != "metadata"}
    if isinstance(spec := without.get("spec"), dict):
        without["spec"] = _without_same(spec, "serviceAccount", "serviceAccountName")
    return with_value(body, path, {"metadata": named, **without} if named else without)


def _by_kind(body: JSONObject, kind: GroupKind) -> JSONObject:
    """Return a body without what the server adds to the lists of some kinds."""
    spec = dict(mapping(body.get("spec")))
    if kind == SERVICE and isinstance(ports := spec.get("ports"), list):
        spec["ports"] = [_without_same(mapping(port), "targetPort", "port") for port in ports]
    elif kind == JOB and spec.get("manualSelector") is not True:
        spec.pop("selector", None)
    elif kind == POD:
        spec = _without_same(_without_token(spec), "serviceAccount", "serviceAccountName")
    elif isinstance(claims := spec.get("volumeClaimTemplates"), list):
        spec["volumeClaimTemplates"] = [
            without_fields(claim, [("status",), ("apiVersion",), ("kind",)]) for claim in claims
        ]
    else:
        return body
    return {**body, "spec": spec}


def _without_same(part: Mapping[str, Any], key: str, other: str) -> dict[str, Any]:
    """Return a part without a field that the server sets to the value of another one."""
    return {name: value for name, value in part.items() if name != key or value != part.get(other)}


def _without_token(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a Pod without the volume of its token, which the server adds."""

    def others(things: object, key: str) -> list[Any]:
        listed = things if isinstance(things, list) else []
        return [one for one in listed if not text(mapping(one), key).startswith(_ACCESS)]

    found = {**spec, "volumes": others(spec.get("volumes"), "name")}
    for part in ("containers", "initContainers"):
        if isinstance(containers := spec.get(part), list):
            found[part] = [
                {**one, "volumeMounts": others(mapping(one).get("volumeMounts"), "name")}
                for one in containers
            ]
    return found
