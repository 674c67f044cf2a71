"""Generated worlds: an input, an inventory, a cluster and options, as a run would have read them.

Most objects begin as what this set has applied, and then something happens to them: to the
manifest, to the entry, to the live object, or to all three. The seed decides everything.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from random import Random
from typing import Any

from msgspec import Struct

from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import (
    ApplyFingerprint,
    Inventory,
    InventoryEntry,
    JobRecord,
    Ownership,
)
from applyprune.model.kinds import CRD, NAMESPACE
from applyprune.model.live import (
    Absent,
    KindDeleted,
    LiveObject,
    NotListed,
    Resource,
    ResourceMap,
    State,
    Unknown,
)
from applyprune.model.options import (
    Adopt,
    ApplyOptions,
    Approval,
    Conflicts,
    DryRun,
    HelmHooks,
    Mode,
    Options,
    Propagation,
    PruneAlso,
    PruneLimit,
    PruneOptions,
    WaitMode,
    WaitOptions,
)
from applyprune.model.plan import Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.applyset import OWNED_BY, PART_OF, applyset_identity
from applyprune.planning.approval import with_approval
from applyprune.planning.built_in_kinds import built_in_kinds
from applyprune.planning.desired import resolve
from applyprune.planning.normalize import manifest_digest, normalize
from applyprune.planning.ownership import UNREAD, OtherSet, fingerprint_of, owned_fields_of
from applyprune.planning.plan import make_plan
from applyprune.planning.world import CascadeContents, World
from applyprune.sources import Input, read_objects
from applyprune.values import replace

SET = applyset_identity("web", "home")
OTHER = applyset_identity("other", "home")
WIDGET = Resource("example.com", "v1", "Widget", "widgets", namespaced=True)
EARLIER, LATER = "2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z"
UNREADABLE = Unknown(Problem(ProblemKind.FORBIDDEN, "no", exit_code=7))
HEALTHY = 0.6
"""How many objects of a world nothing has happened to."""


class Generated(Struct, frozen=True):
    """What a plan is made of: the input, and what was read."""

    manifests: Input
    read: World

    def plan(self) -> Plan:
        """Return what a run would do."""
        read, options = self.read, self.read.options
        resolved = resolve(
            self.manifests, read.resource_map, SET, namespace=SET.namespace, options=options
        )
        plan = make_plan(replace(read, desired=resolved.desired))
        return with_approval(plan, SET, options)


def world(seed: int) -> Generated:
    """Return the world of a seed."""
    return _Maker(Random(seed)).world()  # noqa: S311 - a seed, not a secret


def later(one: Generated, seed: int) -> Generated:
    """Return a world some time later: a few of its objects and entries are not as they were."""
    return _Maker(Random(seed)).later(one)  # noqa: S311 - a seed, not a secret


_CONTAINER = {"name": "c", "image": "web:1"}
_POD = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [_CONTAINER]}}
_SELECTED = {"selector": {"matchLabels": {"app": "a"}}, "template": _POD}
_SCHEMA = {"openAPIV3Schema": {"type": "object"}}
BODIES: dict[str, dict[str, Any]] = {
    "v1 ConfigMap": {"data": {"key": "v", "other": "w"}},
    "v1 Secret": {"stringData": {"key": "v"}, "type": "Opaque"},
    "v1 Namespace": {},
    "v1 Service": {"spec": {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}},
    "v1 ServiceAccount": {},
    "v1 PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "apps/v1 Deployment": {"spec": {"replicas": 3, **_SELECTED}},
    "apps/v1 StatefulSet": {"spec": {"replicas": 1, "serviceName": "a", **_SELECTED}},
    "batch/v1 Job": {"spec": {"template": {"spec": {"containers": [_CONTAINER]}}}},
    "rbac.authorization.k8s.io/v1 ClusterRole": {
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    },
    "apiextensions.k8s.io/v1 CustomResourceDefinition": {
        "spec": {
            "group": "example.com",
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": _SCHEMA}],
        }
    },
    "example.com/v1 Widget": {"spec": {"size": 1}},
    "autoscaling/v2 HorizontalPodAutoscaler": {
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
            "maxReplicas": 9,
        }
    },
}
_NAMES = ("a", "b", "c", "d", "e", "f")
_ANNOTATIONS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("applyprune.dev/prune", ("disabled",)),
    ("applyprune.dev/apply", ("disabled", "once", "exists")),
    ("applyprune.dev/conflicts", ("fail", "skip", "revert", "force")),
    ("applyprune.dev/recreate", ("allowed",)),
    ("applyprune.dev/ignore-fields", ("/data/key", "/spec/replicas")),
    ("applyprune.dev/wave", ("-1", "1", "2")),
    ("applyprune.dev/wait", ("skip", "started")),
    ("helm.sh/resource-policy", ("keep",)),
    ("helm.sh/hook", ("pre-install", "test")),
    ("kustomize.toolkit.fluxcd.io/prune", ("disabled",)),
    ("kustomize.toolkit.fluxcd.io/reconcile", ("disabled",)),
    ("argocd.argoproj.io/sync-options", ("Prune=false", "Delete=false")),
    ("argocd.argoproj.io/sync-wave", ("1",)),
    ("client.lifecycle.config.k8s.io/deletion", ("detach",)),
    ("config.kubernetes.io/depends-on", ("/namespaces/home/ConfigMap/a",)),
)
_TOOLS: tuple[tuple[str, dict[str, str]], ...] = (
    ("labels", {"app.kubernetes.io/managed-by": "Helm"}),
    ("annotations", {"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "n"}),
    ("annotations", {"argocd.argoproj.io/tracking-id": "app:/ConfigMap:home/a"}),
    ("labels", {"kustomize.toolkit.fluxcd.io/name": "k"}),
    ("labels", {"kapp.k14s.io/app": "1"}),
    ("annotations", {"config.k8s.io/owning-inventory": "i"}),
)
_WRITERS = (
    ("kubectl-edit", "Update", ""),
    ("kubectl", "Apply", ""),
    ("kubectl-client-side-apply", "Update", ""),
    ("kube-controller-manager", "Update", "status"),
    ("kube-controller-manager", "Update", "scale"),
    ("argocd-controller", "Apply", ""),
    ("helm", "Update", ""),
    ("before-first-apply", "Update", ""),
    (OTHER.manager, "Apply", ""),
    (f"{SET.manager}-yielded", "Apply", ""),
)


class _Maker:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.uids = iter(range(1, 1000))

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def world(self) -> Generated:
        kinds = self.random.sample(sorted(BODIES), self.random.randint(1, 4))
        wanted: list[dict[str, Any]] = []
        entries: list[InventoryEntry] = []
        states: dict[Ref, State] = {}
        for _ in range(self.random.choice((0, 1, 2, 3, 5, 8))):
            manifest, entry, ref, state = self.member(self.random.choice(kinds))
            if ref in states:
                continue
            states[ref] = state
            if manifest is not None:
                wanted.append(manifest)
            if entry is not None:
                entries.append(entry)
        options = self.options()
        known = built_in_kinds()
        catalogue = ResourceMap(
            {**known.served, WIDGET.gvk: WIDGET},
            {**known.preferred, WIDGET.group_kind: WIDGET},
            known.stale,
        )
        live = [one for one in states.values() if isinstance(one, LiveObject)]
        return Generated(
            Input(read_objects(wanted)),
            World(
                SET,
                self.inventory(entries),
                options,
                resource_map=catalogue,
                states=states,
                schemas={WIDGET.group_kind: self.random.choice((None, 1, 2))},
                resources=self.resources(entries, states, catalogue),
                occupied=self.occupied(entries),
                contents=self.contents(states),
                dependants=self.dependants(live),
                marked=tuple(one for one in live if not entries and self.maybe(0.5)),
                unseen=("secrets: forbidden",) if not entries and self.maybe(0.1) else (),
                others=self.others(),
                withheld=self.random.choice((None, None, {}, {OTHER.id: ""}, {OTHER.id: "no"})),
                autoscalers=self.autoscalers(),
                own_namespace_stays=self.random.choice(("", "it holds the inventory")),
            ),
        )

    def later(self, one: Generated) -> Generated:
        bodies = {
            (body["kind"], body["metadata"]["name"]): body
            for body in (manifest.body for manifest in one.manifests)
        }
        states = dict(one.read.states)
        for ref, state in one.read.states.items():
            body = bodies.get((ref.kind, ref.name))
            if body is not None and self.maybe(0.15):
                states[ref] = self.arrived(ref, body, state)
            elif isinstance(state, LiveObject) and self.maybe(0.15):
                states[ref] = self.changed_state(state)
        entries = (
            self.changed_entry(entry) if self.maybe(0.1) else entry
            for entry in one.read.inventory.entries.values()
        )
        kept = {entry.ref: entry for entry in entries if entry is not None}
        inventory = replace(one.read.inventory, entries=kept)
        return replace(one, read=replace(one.read, inventory=inventory, states=states))

    def arrived(self, ref: Ref, body: Mapping[str, Any], before: State) -> LiveObject:
        """Return an object after an apply of its manifest; often the same one."""
        made = self.applied_object(ref, dict(body), body["apiVersion"], time=LATER)
        uid = before.uid if isinstance(before, LiveObject) and self.maybe(0.8) else "new"
        metadata = {**made.whole_metadata, "uid": uid}
        return LiveObject.of(ref, uid, made.resource_version, metadata, made.body)

    def member(self, kind: str) -> tuple[dict[str, Any] | None, InventoryEntry | None, Ref, State]:
        """Return an object of the world; it was applied, and something may have happened since."""
        version, name = kind.split()
        group, _, number = version.rpartition("/")
        kind_of = GroupKind(group, name)
        resource = WIDGET if name == "Widget" else built_in_kinds().find_kind(kind_of)
        assert resource is not None
        own = self.random.choice(_NAMES)
        if kind_of == CRD:
            own = "widgets.example.com"
        namespace = (
            self.random.choice(("home", "home", "home", "away")) if resource.namespaced else ""
        )
        metadata: dict[str, Any] = {"name": own, **({"namespace": namespace} if namespace else {})}
        if self.maybe(0.3):
            metadata["annotations"] = {
                key: self.random.choice(values)
                for key, values in self.random.sample(_ANNOTATIONS, self.random.randint(1, 2))
            }
        applied = {"apiVersion": version, "kind": name, "metadata": metadata, **BODIES[kind]}
        ref = Ref(group, name, namespace, own)
        live = self.applied_object(ref, applied, version)
        entry = self.entry(ref, resource, number, applied, live)
        manifest: dict[str, Any] | None = applied
        state: State = live
        if not self.maybe(HEALTHY):
            manifest = self.changed_manifest(applied) if self.maybe(0.7) else None
            entry_now = self.changed_entry(entry) if self.maybe(0.5) else entry
            state = self.changed_state(live) if self.maybe(0.7) else live
            return manifest, entry_now, ref, state
        if self.maybe(0.3):
            manifest = None
        return manifest, entry, ref, state

    def applied_object(
        self, ref: Ref, applied: dict[str, Any], version: str, time: str = EARLIER
    ) -> LiveObject:
        body = copy.deepcopy(dict(normalize(applied, namespace=ref.namespace, set_id=SET.id)))
        metadata = body["metadata"]
        substance = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
        substance["metadata"] = {
            key: value for key, value in metadata.items() if key not in ("name", "namespace")
        }
        metadata["managedFields"] = [
            _writer(SET.manager, "Apply", fields_set_by_all(substance), version=version, time=time)
        ]
        number = next(self.uids)
        metadata.update(
            uid=f"u{number}",
            resourceVersion=str(number),
            creationTimestamp=EARLIER,
            generation=self.random.choice((1, 1, 2)),
        )
        full = body if self.maybe(0.5) else None
        return LiveObject.of(ref, metadata["uid"], metadata["resourceVersion"], metadata, full)

    def entry(
        self, ref: Ref, resource: Resource, version: str, applied: dict[str, Any], live: LiveObject
    ) -> InventoryEntry:
        sent = normalize(applied, namespace=ref.namespace, set_id=SET.id)
        return InventoryEntry(
            ref,
            resource.plural,
            version,
            self.random.choice((None, live.uid)),
            live.uid,
            self.random.choice((Ownership.OWNED, Ownership.OWNED, *Ownership)),
            manifest_digest(sent),
            fingerprint=fingerprint_of(live, SET.manager, None),
            owned_fields=owned_fields_of(live, SET.manager),
            orphan_reason="applyprune.dev/prune: disabled" if self.maybe(0.03) else "",
            job=JobRecord(EARLIER, 60, self.maybe(0.5))
            if ref.kind == "Job" and self.maybe(0.5)
            else None,
        )

    def changed_manifest(self, applied: dict[str, Any]) -> dict[str, Any]:
        changed = copy.deepcopy(applied)
        how = self.random.choice(("value", "added", "removed", "null", "annotations", "same"))
        part = next((key for key in ("data", "stringData", "spec", "rules") if key in changed), "")
        if how == "annotations":
            key, values = self.random.choice(_ANNOTATIONS)
            changed["metadata"].setdefault("annotations", {})[key] = self.random.choice(values)
        elif part and isinstance(changed[part], dict):
            key = self.random.choice(sorted(changed[part]))
            if how == "added":
                changed[part]["added"] = "x" if part != "spec" else 7
            elif how == "removed":
                del changed[part][key]
            elif how == "null":
                changed["metadata"].setdefault("labels", {})[key] = None
            elif how == "value" and isinstance(changed[part][key], str | int):
                changed[part][key] = "new" if isinstance(changed[part][key], str) else 8
        return changed

    def changed_entry(self, entry: InventoryEntry) -> InventoryEntry | None:
        changes: tuple[dict[str, Any] | None, ...] = (
            None,
            {"uid": "", "digest": "", "uid_before_apply": None},
            {"uid": "", "digest": "", "uid_before_apply": entry.uid},
            {"uid": "gone"},
            {"digest": "another"},
            {"fingerprint": None},
            {"fingerprint": ApplyFingerprint("1", None, "digest", EARLIER)},
            {"owned_fields": ""},
            {"deleting": True},
            {"orphaning": True},
            {"version": "v1beta1"},
            {"stored": "s"},
            {"defaulted": "d"},
            {"marks": ("app.kubernetes.io/managed-by=Helm",)},
            {"depends_on": (Ref("", "ConfigMap", "home", "a"),)},
            {"orphan_reason": "applyprune.dev/prune: disabled"},
        )
        change = self.random.choice(changes)
        return None if change is None else replace(entry, **change)

    def changed_state(self, live: LiveObject) -> State:
        how = self.random.random()
        if how < 0.3:
            return self.random.choice((Absent(), Absent(), NotListed(), KindDeleted(), UNREADABLE))
        metadata = copy.deepcopy(dict(live.whole_metadata))
        body = copy.deepcopy(dict(live.body)) if live.body is not None else None
        uid, version = live.uid, live.resource_version
        for _ in range(self.random.randint(1, 3)):
            what = self.random.randrange(11)
            if what == 0:
                uid = metadata["uid"] = "recreated"
            elif what == 1:
                label = self.random.choice((OTHER.id, "unknown", None))
                labels = metadata.setdefault("labels", {})
                labels.pop(PART_OF, None)
                labels.update({PART_OF: label} if label else {})
            elif what == 2:
                marks = metadata.setdefault("annotations", {})
                marks.pop(OWNED_BY, None)
                marks.update(self.random.choice(({}, {OWNED_BY: OTHER.id})))
            elif what == 3:
                part, texts = self.random.choice(_TOOLS)
                metadata.setdefault(part, {}).update(texts)
            elif what == 4:
                metadata["deletionTimestamp"] = LATER
                metadata["finalizers"] = ["example.com/finalizer"]
            elif what == 5:
                metadata["managedFields"] = []
            elif what == 6:
                key, values = self.random.choice(_ANNOTATIONS)
                metadata.setdefault("annotations", {})[key] = self.random.choice(values)
            elif what == 7:
                metadata["ownerReferences"] = [
                    {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "ux"}
                ]
            else:
                self.write(metadata, body)
            version = metadata["resourceVersion"] = f"{version}0"
        if body is not None:
            body["metadata"] = metadata
        return LiveObject.of(live.ref, uid, version, metadata, body)

    def write(self, metadata: dict[str, Any], body: dict[str, Any] | None) -> None:
        """Let another field manager take a field over, share one, or add one."""
        manager, operation, subresource = self.random.choice(_WRITERS)
        key, field, value = self.random.choice(
            (("data", "key", "drift"), ("spec", "replicas", 9), ("data", "theirs", "x"))
        )
        managers = metadata.setdefault("managedFields", [])
        for one in managers:
            if self.maybe(0.7):
                one["fieldsV1"].get(f"f:{key}", {}).pop(f"f:{field}", None)
        managers.append(
            _writer(
                manager,
                operation,
                {f"f:{key}": {f"f:{field}": {}}},
                version=self.random.choice(("v1", "apps/v1")),
                time=LATER,
                subresource=subresource,
            )
        )
        if body is not None and isinstance(body.setdefault(key, {}), dict):
            body[key][field] = value

    def inventory(self, entries: list[InventoryEntry]) -> Inventory:
        if not entries and self.maybe(0.5):
            return Inventory(SET.name, SET.namespace)
        return Inventory(
            SET.name,
            SET.namespace,
            entries={entry.ref: entry for entry in entries},
            uid="i1",
            resource_version="9",
            generation=3,
        )

    def resources(
        self, entries: list[InventoryEntry], states: dict[Ref, State], catalogue: ResourceMap
    ) -> dict[GroupKind, Resource]:
        """A recorded kind may not be served any more; then none of its objects was read."""
        live = {ref.group_kind for ref, state in states.items() if isinstance(state, LiveObject)}
        kinds = {entry.ref.group_kind for entry in entries}
        return {
            kind: found
            for kind in sorted(kinds)
            if (found := catalogue.find_kind(kind)) and (kind in live or self.maybe(0.8))
        }

    def occupied(self, entries: list[InventoryEntry]) -> dict[str, Problem | None]:
        names = [entry.ref.name for entry in entries if entry.ref.group_kind == NAMESPACE]
        return {
            name: self.random.choice((None, UNREADABLE.problem))
            for name in names
            if self.maybe(0.2)
        }

    def contents(self, states: dict[Ref, State]) -> dict[Ref, CascadeContents]:
        holders = [ref for ref in states if ref.group_kind in {NAMESPACE, CRD}]
        return {ref: self.content() for ref in holders if self.maybe(0.9)}

    def dependants(self, live: list[LiveObject]) -> dict[Ref, CascadeContents]:
        return {one.ref: self.content() for one in live if self.maybe(0.05)}

    def content(self) -> CascadeContents:
        refs = [Ref("", "PersistentVolumeClaim", "home", "pvc"), Ref("", "ConfigMap", "b", "x")]
        objects = tuple(
            LiveObject.of(ref, f"c{number}", "1", {"name": ref.name, "namespace": ref.namespace})
            for number, ref in enumerate(refs)
            if self.maybe(0.3)
        )
        uncounted = "secrets: forbidden" if self.maybe(0.1) else ""
        return CascadeContents(objects, uncounted, lacks_rights=bool(uncounted) and self.maybe(0.5))

    def others(self) -> dict[str, OtherSet]:
        found = self.random.choice(
            (
                None,
                OtherSet(OTHER),
                OtherSet(OTHER, frozenset({"u1", "u2"})),
                UNREAD,
            )
        )
        return {} if found is None else {OTHER.id: found}

    def autoscalers(self) -> tuple[dict[str, Any], ...]:
        if not self.maybe(0.15):
            return ()
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}
        metadata = {"name": "a-hpa", "namespace": "home", "uid": "hpa"}
        return ({"metadata": metadata, "spec": {"scaleTargetRef": target, "maxReplicas": 5}},)

    def options(self) -> Options:
        choose, maybe = self.random.choice, self.maybe
        apply = ApplyOptions(
            adopt=choose(tuple(Adopt)) if maybe(0.4) else ApplyOptions().adopt,
            conflicts=choose(tuple(Conflicts)) if maybe(0.4) else ApplyOptions().conflicts,
            helm_hooks=HelmHooks.SKIP if maybe(0.7) else HelmHooks.REFUSE,
            take_over=frozenset({"kubectl-edit"}) if maybe(0.1) else frozenset(),
            recreate=maybe(0.1),
            keep_drift=maybe(0.05),
        )
        prune = PruneOptions(
            enabled=maybe(0.95),
            max_prune=choose((None, None, None, PruneLimit(100, 100.0), PruneLimit(1, 0.0))),
            allow_empty=maybe(0.3),
            allow_kinds=choose((frozenset(), frozenset({"namespace", "crd", "pvc"}))),
            orphan=frozenset({"configmap/a"}) if maybe(0.05) else frozenset(),
            also=choose((frozenset(), frozenset(), frozenset(PruneAlso))),
            propagation=choose((Propagation.BACKGROUND, *Propagation)),
            apply_anyway=maybe(0.1),
            approved="sha256:0" if maybe(0.05) else "",
        )
        return Options(
            mode=choose((Mode.APPLY,) * 6 + (Mode.PRUNE, Mode.DELETE, Mode.DELETE, Mode.ORPHAN)),
            dry_run=choose((DryRun.OFF,) * 4 + tuple(DryRun)),
            approval=choose((Approval.AUTOMATIC,) * 6 + tuple(Approval)),
            apply=apply,
            prune=prune,
            wait=WaitOptions(choose(tuple(WaitMode))),
        )


def fields_set_by_all(value: Any) -> dict[str, Any]:
    """Return the FieldsV1 of everything in a body; a list is owned as a whole."""
    if not isinstance(value, dict):
        return {}
    return {f"f:{key}": fields_set_by_all(part) for key, part in value.items()}


def _writer(
    manager: str,
    operation: str,
    fields: dict[str, Any],
    *,
    version: str = "v1",
    time: str = EARLIER,
    subresource: str = "",
) -> dict[str, Any]:
    found = {
        "manager": manager,
        "operation": operation,
        "apiVersion": version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return {**found, "subresource": subresource} if subresource else found
