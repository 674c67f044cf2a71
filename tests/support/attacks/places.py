"""Attacks on objects of other namespaces, and of none."""

from __future__ import annotations

import json
from typing import Any

from tests.support.attacks.attack import (
    DEPLOYER,
    TENANT,
    VICTIM,
    Attack,
    Body,
    body,
    core,
    stolen,
)
from tests.support.objects import config_map, text

_SYSTEM = "applyprune-system"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ADMISSION = "admissionregistration.k8s.io/v1"


def _within(kind: str, *items: Body) -> Body:
    return {"apiVersion": "v1", "kind": kind, "items": list(items)}


def _definition(group: str, plural: str) -> Body:
    version = {
        "name": "v1alpha1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    names = {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].title()}
    names["listKind"] = f"{names['kind']}List"
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    kind = "CustomResourceDefinition"
    return body("apiextensions.k8s.io/v1", kind, f"{plural}.{group}", spec=spec)


def _webhook(kind: str) -> Body:
    hook = {
        "name": "mallory.example.com",
        "clientConfig": {"service": {"namespace": TENANT, "name": "hook"}},
        "rules": [
            {
                "apiGroups": ["*"],
                "apiVersions": ["*"],
                "operations": ["*"],
                "resources": ["secrets"],
            }
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
    }
    return body(_ADMISSION, kind, "mallory", webhooks=[hook])


def _bundle(name: str, namespace: str, **spec: Any) -> Body:
    source = {"inline": text(config_map("by-bundle"))}
    return body(
        "applyprune.dev/v1alpha1", "Bundle", name, namespace, spec={"source": source, **spec}
    )


def _outside(path: str, manifest: Body, says: str = "forbidden") -> Attack:
    """Return the attack that applies an object where the account has no rights."""
    return Attack(manifests=(manifest,), says=says, never=(path,))


def _own(name: str, **changes: Any) -> str:
    """Return a manifest of which some fields are not what they should be."""
    return json.dumps({**config_map(name), **changes})


ELSEWHERE: dict[str, Attack] = {
    "namespace: targetNamespace": Attack(
        manifests=(config_map("by-target"),),
        spec={"targetNamespace": VICTIM},
        says="forbidden",
        never=(core("configmaps", "by-target"),),
    ),
    "namespace: a path as targetNamespace": Attack(
        manifests=(config_map("by-target-path"),),
        spec={"targetNamespace": f"../{VICTIM}"},
        says="spec.targetNamespace: ",
        never=(core("configmaps", "by-target-path"),),
    ),
    "namespace: a query as targetNamespace": Attack(
        manifests=(config_map("by-target-query"),),
        spec={"targetNamespace": f"{VICTIM}?x="},
        says="spec.targetNamespace: ",
        never=(core("configmaps", "by-target-query"),),
    ),
    "namespace: in the manifest": _outside(
        core("configmaps", "by-manifest"), stolen("by-manifest")
    ),
    "namespace: of an existing object": Attack(
        manifests=(stolen("settings"),), spec={"conflicts": "force", "adopt": "all"},
        says="forbidden",
    ),
    "namespace: of an existing object, as owned": Attack(
        manifests=(stolen("settings"),), spec={"adopt": "all", "adoptAs": "owned"},
        says="forbidden", deletes=True,
    ),
    "namespace: in a List": _outside(
        core("configmaps", "by-list"), _within("List", config_map("ok"), stolen("by-list"))
    ),
    "namespace: in a List in a List": _outside(
        core("configmaps", "by-lists"), _within("List", _within("List", stolen("by-lists")))
    ),
    "namespace: in a typed list": _outside(
        core("configmaps", "by-typed"), _within("ConfigMapList", stolen("by-typed"))
    ),
    "namespace: a path": Attack(
        inline=_own("x", metadata={"name": "by-path", "namespace": f"{TENANT}/../{VICTIM}"}),
        says="namespace", never=(core("configmaps", "by-path"),),
    ),
    "namespace: with a line break": Attack(
        inline=_own("x", metadata={"name": "by-break", "namespace": f"{TENANT}\r\nX-A: b"}),
        says="namespace",
    ),
    "name: a path": Attack(
        inline=_own("x", metadata={"name": f"../../{VICTIM}/configmaps/settings"}), says="name"
    ),
    "name: an encoded path": Attack(
        inline=_own("x", metadata={"name": f"..%2F..%2F{VICTIM}%2Fconfigmaps%2Fsettings"}),
        says="name",
    ),
    "name: a query": Attack(
        inline=_own("x", metadata={"name": "by-query?fieldManager=deployer&force=true"}),
        says="name",
    ),
    "name: two dots": Attack(inline=_own("x", metadata={"name": ".."}), says="name"),
    "name: a header": Attack(
        inline=_own("x", metadata={"name": "x\r\nImpersonate-User: system:admin"}), says="name"
    ),
    "name: generated": Attack(
        inline=_own("x", metadata={"generateName": "by-generate-", "namespace": VICTIM}),
        says="generateName",
    ),
    "kind: a path": Attack(
        inline=_own("settings", kind=f"namespaces/{VICTIM}/ConfigMap"), says="kind"
    ),
    "version: a path": Attack(
        inline=_own("settings", apiVersion=f"v1/namespaces/{VICTIM}"), says="apiVersion"
    ),
    "version: dots": Attack(inline=_own("settings", apiVersion="../../api/v1"), says="apiVersion"),
    "elsewhere: a Secret of the victim": Attack(
        manifests=(
            body("v1", "Secret", "bank", VICTIM, type="Opaque", stringData={"password": "guess"}),
        ),
        spec={"conflicts": "force"},
        says="forbidden",
    ),
    "elsewhere: a Bundle of the victim's namespace": _outside(
        f"/apis/applyprune.dev/v1alpha1/namespaces/{VICTIM}/bundles/planted",
        _bundle("planted", VICTIM, serviceAccountName=DEPLOYER),
    ),
    "elsewhere: the victim's own Bundle": Attack(
        manifests=(_bundle("web", VICTIM, serviceAccountName=DEPLOYER),),
        spec={"conflicts": "force", "adopt": "all"},
        says="forbidden",
    ),
    "elsewhere: the victim's inventory": Attack(
        manifests=(stolen("applyprune-web"),), spec={"conflicts": "force", "adopt": "all"},
        says="forbidden",
    ),
    "elsewhere: the controller's Lease": Attack(
        manifests=(
            body(
                "coordination.k8s.io/v1", "Lease", "applyprune-controller", _SYSTEM,
                spec={"holderIdentity": TENANT, "leaseDurationSeconds": 3600},
            ),
        ),
        spec={"conflicts": "force", "adopt": "all"},
        says="forbidden",
    ),
    "elsewhere: the controller's account": Attack(
        manifests=(body("v1", "ServiceAccount", "applyprune-controller", _SYSTEM),),
        spec={"conflicts": "force", "adopt": "all"},
        says="forbidden",
    ),
    "elsewhere: an Event about the victim": _outside(
        core("events", "planted"),
        body(
            "v1", "Event", "planted", VICTIM, reason="Applied", message="stolen",
            involvedObject={"kind": "Bundle", "namespace": VICTIM, "name": "web"},
        ),
    ),
    "elsewhere: a ConfigMap of the system": _outside(
        core("configmaps", "by-system", "kube-system"), stolen("by-system", "kube-system")
    ),
    "everywhere: a Namespace": _outside(
        "/api/v1/namespaces/mallory-new", body("v1", "Namespace", "mallory-new")
    ),
    "everywhere: the victim's Namespace": Attack(
        manifests=(body("v1", "Namespace", VICTIM),),
        spec={"adopt": "all", "adoptAs": "owned"}, says="forbidden", deletes=True,
    ),
    "everywhere: the CRD of Bundles": Attack(
        manifests=(_definition("applyprune.dev", "bundles"),),
        spec={"conflicts": "force", "adopt": "all"}, says="forbidden",
    ),
    "everywhere: a CRD of the same group": _outside(
        f"{_DEFINITIONS}/approvals.applyprune.dev", _definition("applyprune.dev", "approvals")
    ),
    "everywhere: an APIService of the same group": _outside(
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.applyprune.dev",
        body(
            "apiregistration.k8s.io/v1", "APIService", "v1.applyprune.dev",
            spec={
                "group": "applyprune.dev", "version": "v1", "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 1, "versionPriority": 1,
                "service": {"namespace": TENANT, "name": "hook"},
            },
        ),
    ),
    "everywhere: a validating webhook": _outside(
        f"/apis/{_ADMISSION}/validatingwebhookconfigurations/mallory",
        _webhook("ValidatingWebhookConfiguration"),
    ),
    "everywhere: a mutating webhook": _outside(
        f"/apis/{_ADMISSION}/mutatingwebhookconfigurations/mallory",
        _webhook("MutatingWebhookConfiguration"),
    ),
    "everywhere: a volume on the node": _outside(
        "/api/v1/persistentvolumes/mallory",
        body(
            "v1", "PersistentVolume", "mallory",
            spec={
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/etc"},
            },
        ),
    ),
    "everywhere: an object without a namespace that names one": _outside(
        "/apis/scheduling.k8s.io/v1/priorityclasses/mallory",
        body("scheduling.k8s.io/v1", "PriorityClass", "mallory", TENANT, value=1),
    ),
}  # fmt: skip
"""Attacks by manifests and ``targetNamespace``."""
