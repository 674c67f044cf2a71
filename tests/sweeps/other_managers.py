"""Two other field managers that write their own fields to every object of a set.

This keeps its own record of what each of them has written. It never reads managedFields, so it
shares nothing with what it checks.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.support.samples import JSON, OTHERS_FIELDS, SAMPLES, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.support.api import Api

EDITOR = "kubectl-edit"
"""Writes by Update."""
APPLIER = "applier"
"""Writes by server-side apply."""
CREATOR = "kubectl-client-side-apply"
"""Has declared the objects before their adoption."""
APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

Step: TypeAlias = str | tuple[str, str]
"""A name, or the key of a list item and its value."""
Field: TypeAlias = tuple[Step, ...]

VOLUME: Field = ("spec", "template", "spec", "volumes", ("name", "scratch"))
"""A list item of the first two manifests of a Deployment; the editor writes a field into it."""
SCRATCH: JSON = {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}
LEAVING: Mapping[str, Field] = {
    "ConfigMap": ("data", "b"),
    "Secret": ("data", "b"),
    "Service": ("spec", "sessionAffinity"),
    "ServiceAccount": ("imagePullSecrets",),
    "PodTemplate": ("template", "metadata", "annotations", "hint"),
    "ReplicationController": ("spec", "template", "metadata", "annotations", "hint"),
    "Deployment": ("spec", "minReadySeconds"),
    "StatefulSet": ("spec", "template", "metadata", "annotations", "hint"),
    "DaemonSet": ("spec", "minReadySeconds"),
    "ReplicaSet": ("spec", "template", "metadata", "annotations", "hint"),
    "Job": ("spec", "backoffLimit"),
    "CronJob": ("spec", "startingDeadlineSeconds"),
    "HorizontalPodAutoscaler": ("spec", "minReplicas"),
    "Ingress": ("spec", "ingressClassName"),
    "NetworkPolicy": ("spec", "ingress"),
    "Role": ("rules",),
    "ClusterRole": ("rules",),
    "RoleBinding": ("subjects",),
    "ClusterRoleBinding": ("subjects",),
    "PriorityClass": ("description",),
    "StorageClass": ("allowVolumeExpansion",),
    "CSIDriver": ("spec", "storageCapacity"),
    "RuntimeClass": ("scheduling",),
    "Lease": ("spec", "leaseDurationSeconds"),
    "ValidatingWebhookConfiguration": ("webhooks", ("name", "one.example.com"), "timeoutSeconds"),
    "Foo": ("spec", "b"),
}
"""A field of each kind that the third manifest lacks."""
APPLIED: Mapping[str, JSON] = {
    "ConfigMap": {"data": {"applied": "1"}},
    "Secret": {"data": {"applied": "MQ=="}},
    "ServiceAccount": {"secrets": [{"name": "applied"}]},
    "ResourceQuota": {"spec": {"hard": {"services": "5"}}},
    "PodTemplate": {"template": {"metadata": {"annotations": {"applied": "1"}}}},
    "Deployment": {"spec": {"progressDeadlineSeconds": 300}},
    "StatefulSet": {"spec": {"minReadySeconds": 5}},
    "DaemonSet": {"spec": {"template": {"metadata": {"annotations": {"applied": "1"}}}}},
    "CronJob": {"spec": {"failedJobsHistoryLimit": 2}},
    "HorizontalPodAutoscaler": {"spec": {"behavior": {"scaleUp": {"selectPolicy": "Min"}}}},
    "Foo": {"spec": {"applied": "1"}},
}
"""Fields that only the applier writes, besides a label and an annotation."""
UPDATED: Mapping[str, JSON] = {
    **OTHERS_FIELDS,
    "Foo": {"spec": {"foreign": "1"}},
    "CustomResourceDefinition": {"spec": {"names": {"categories": ["all"]}}},
    # In a list item of the set, which leaves the third manifest.
    "Deployment": {
        "spec": {
            "revisionHistoryLimit": 3,
            "template": {
                "spec": {"volumes": [{"name": "scratch", "emptyDir": {"medium": "Memory"}}]}
            },
        }
    },
}
"""Fields that only the editor writes, besides a label and an annotation."""


@dataclass(frozen=True, slots=True)
class Written:
    """A field of an object, the value that another manager has given it, and that manager.

    ``alone`` is whether no manifest has the field, nor the list item around it.
    """

    sample: Sample = field(repr=False)
    field: Field
    value: JSON
    manager: str
    alone: bool

    @property
    def told(self) -> str:
        """Return it in words."""
        return f"{self.sample.kind} {self.field} of {self.manager}"


def manifests(sample: Sample) -> tuple[JSON, JSON, JSON]:
    """Return three manifests: the second adds to the first, the third lacks parts of both."""
    first = copy.deepcopy(sample.body)
    first["metadata"].setdefault("annotations", {})["leaves"] = "1"
    if sample.kind == "Deployment":
        first["spec"]["template"]["spec"]["volumes"] = [SCRATCH]
    second = copy.deepcopy(first)
    second["metadata"].setdefault("labels", {})["added"] = "1"
    second["metadata"]["annotations"]["added"] = "1"
    second["metadata"]["labels"]["team"] = "changed"
    third = copy.deepcopy(first)
    third["metadata"]["labels"] = {"team": "changed"}
    third["metadata"]["annotations"] = {"stays": "1"}
    if sample.kind == "Deployment":
        del third["spec"]["template"]["spec"]["volumes"]
    if (leaving := LEAVING.get(_kind(sample))) is not None:
        del _found(third, leaving[:-1])[leaving[-1]]
    return first, second, third


def samples(namespace: str, *own: Sample, kinds: frozenset[str] = frozenset()) -> Sequence[Sample]:
    """Return an object of each kind, or of these kinds, in a namespace, and objects ``own``.

    No Pod: the server books what admission adds to its creator, and refuses to remove it.
    """
    placed = (one.placed(namespace, f"{namespace}-own") for one in SAMPLES if one.kind != "Pod")
    return [*(one for one in placed if not kinds or one.kind in kinds), *own]


class Others:
    """The other managers of a set's objects, and the record of what they have written."""

    def __init__(self, api: Api) -> None:
        """Begin with an empty record."""
        self._api = api
        self._applied: dict[str, JSON] = {}
        self.written: dict[tuple[str, Field], Written] = {}

    def create(self, sample: Sample) -> None:
        """Create an object as kubectl apply does, with an annotation that no manifest has."""
        body = copy.deepcopy(manifests(sample)[0])
        body["metadata"]["annotations"]["declared"] = "1"
        collection = sample.path.rpartition("/")[0]
        self._send("POST", f"{collection}?fieldManager={CREATOR}", body, "application/json")
        self._record(sample, {"metadata": {"annotations": {"declared": "1"}}}, CREATOR, alone=False)

    def update(self, sample: Sample, **metadata: JSON) -> None:
        """Let the editor write its fields."""
        body = {
            **UPDATED.get(_kind(sample), {}),
            "metadata": {
                "labels": {EDITOR: "1"},
                "annotations": {EDITOR: "1"},
                **metadata,
            },
        }
        self._patch(sample, body, EDITOR)
        self._record(sample, body, EDITOR)

    def update_added(self, sample: Sample) -> None:
        """Let the editor write what the second manifest adds, with the same value."""
        body = {"metadata": {"labels": {"added": "1"}}}
        self._patch(sample, body, EDITOR)
        self._record(sample, body, EDITOR, alone=False)

    def overwrite(self, sample: Sample) -> None:
        """Let the editor overwrite a label of the set."""
        body = {"metadata": {"labels": {"team": "theirs"}}}
        self._patch(sample, body, EDITOR)
        self._record(sample, body, EDITOR, alone=False)

    def apply(self, sample: Sample, *, shares: bool) -> None:
        """Let the applier apply its fields, and an annotation of the set with the same value.

        With ``shares``, it also applies the field that leaves the third manifest.
        """
        own = copy.deepcopy(APPLIED.get(_kind(sample), {}))
        own["metadata"] = {"labels": {APPLIER: "1"}, "annotations": {APPLIER: "1"}}
        body: JSON = {"metadata": {"annotations": {"leaves": "1"}}}
        if shares and (leaving := LEAVING.get(_kind(sample))) is not None:
            whole = _nested(leaving, _found(manifests(sample)[0], leaving))
            body = _merged(body, whole)
        self._record(sample, own, APPLIER)
        self._record(sample, body, APPLIER, alone=False)
        identity = {key: sample.body[key] for key in ("apiVersion", "kind")}
        named = {"metadata": {"name": sample.body["metadata"]["name"]}}
        whole = _merged(_merged(own, body), {**identity, **named})
        self._apply(sample, whole)

    def applies_a_part(self, sample: Sample) -> bool:
        """Return whether the applier declares more than labels and annotations."""
        entries = (self._live(sample.path) or {"metadata": {}})["metadata"].get("managedFields", [])
        return any(
            one["manager"] == APPLIER and one["fieldsV1"].keys() - {"f:metadata", "f:status"}
            for one in entries
        )

    def run(self, sample: Sample) -> None:
        """Let the applier also apply everything outside ``metadata`` of the third manifest."""
        third = manifests(sample)[2]
        self._apply(sample, _merged({**third, "metadata": {}}, self._applied[sample.path]))

    def clear(self, sample: Sample) -> None:
        """Clear managedFields, as a restore from a backup does."""
        operation = {"op": "replace", "path": "/metadata/managedFields", "value": [{}]}
        self._send("PATCH", sample.path, [operation], JSON_PATCH)

    def lost(self) -> list[Written]:
        """Return what no longer has the value that another manager gave it, and forget that."""
        states = {path: self._live(path) for path, _ in self.written}
        lost = [
            one
            for (path, place), one in self.written.items()
            if _found(states[path], place) != one.value
        ]
        for one in lost:
            del self.written[one.sample.path, one.field]
        return lost

    def _live(self, path: str) -> JSON:
        """Return an object; None if it does not exist, or is being deleted."""
        status, body = self._api("GET", path)
        assert status in {200, 404}, body
        return body if status == 200 and not body["metadata"].get("deletionTimestamp") else None

    def _record(self, sample: Sample, body: JSON, manager: str, *, alone: bool = True) -> None:
        for place, value in _leaves(body):
            is_inside = any(step == ("name", "scratch") for step in place)
            one = Written(sample, place, value, manager, alone and not is_inside)
            self.written[sample.path, place] = one

    def _apply(self, sample: Sample, body: JSON) -> None:
        self._applied[sample.path] = body
        # By force: the server counts defaults as fields of whoever has created an object.
        self._send("PATCH", f"{sample.path}?fieldManager={APPLIER}&force=true", body, APPLY_PATCH)

    def _patch(self, sample: Sample, body: JSON, manager: str) -> None:
        is_custom = ".example.com/" in sample.path
        how = MERGE_PATCH if is_custom else STRATEGIC_PATCH
        self._send("PATCH", f"{sample.path}?fieldManager={manager}", body, how)

    def _send(self, method: str, path: str, body: JSON, content_type: str) -> None:
        status, reply = self._api(method, path, body, content_type=content_type)
        assert status in {200, 201}, (path, body, reply)


def _kind(sample: Sample) -> str:
    """Return the kind by which the tables name it: each set has a custom kind of its own."""
    return "Foo" if sample.kind.startswith("Foo") else sample.kind


def _leaves(body: JSON, above: Field = ()) -> Iterator[tuple[Field, JSON]]:
    """Yield each field that a patch sets, with its value."""
    if isinstance(body, dict):
        for name, inner in body.items():
            yield from _leaves(inner, (*above, name))
    elif isinstance(body, list) and all(isinstance(one, dict) and "name" in one for one in body):
        for one in body:
            yield from _leaves(one, (*above, ("name", one["name"])))
    else:
        yield above, body


def _found(body: JSON, place: Field) -> Any:
    """Return the value of a field; None if it is missing."""
    for step in place:
        if isinstance(step, str):
            body = body.get(step) if isinstance(body, dict) else None
        else:
            key, value = step
            body = next((one for one in body or () if one.get(key) == value), None)
    return body


def _nested(place: Field, value: JSON) -> JSON:
    """Return the smallest body with a field."""
    for step in reversed(place):
        if isinstance(step, str):
            value = {step: value}
        else:
            key, name = step
            value = [{key: name, **value}]
    return value


def _merged(first: JSON, second: JSON) -> JSON:
    """Return both bodies in one; lists are not merged."""
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return second
    both = {**first, **second}
    return {
        key: _merged(first[key], second[key]) if key in first and key in second else value
        for key, value in both.items()
    }
