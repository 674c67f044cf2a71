"""Attacks by what a Bundle reads: its source, other Bundles, rules; and by what it says of that."""

from __future__ import annotations

import json
from typing import Any

from tests.support.attacks.attack import (
    TENANT,
    VICTIM,
    WEAK,
    Attack,
    Scene,
    body,
    core,
)
from tests.support.objects import config_map, text
from tests.support.waiting import eventually

_DEPENDS_ON = "config.kubernetes.io/depends-on"
_PASSWD = "file:///etc/passwd"
_METADATA = "http://169.254.169.254/latest/meta-data/iam/security-credentials/"


def _from(kind: str, name: str, *, says: str = "") -> Attack:
    """Return the attack that reads its manifests from an object of this name."""
    return Attack(spec={"source": {kind: [{"name": name}]}}, says=says or f"spec.source.{kind}[0]")


def _rule(rule: str, says: str = "is not a CEL expression that returns a bool") -> Attack:
    depends = [{"name": "stepping-stone", "readyWhen": rule}]
    return Attack(manifests=(config_map("by-rule"),), spec={"dependsOn": depends}, says=says)


def _token(scene: Scene, name: str) -> None:
    """Make a Secret that the token controller fills with the account's own token."""
    meta = {"name": name, "annotations": {"kubernetes.io/service-account.name": "default"}}
    kind = "kubernetes.io/service-account-token"
    scene.tenant.put("secrets", {**body("v1", "Secret", name, type=kind), "metadata": meta})
    path = scene.tenant.path("secrets", name)
    eventually(lambda: "token" in scene.tenant.api.get(path).get("data", {}), lambda: "the token")


def _kubeconfig(scene: Scene, name: str) -> None:
    """Store a kubeconfig with a program, a file and insecure TLS, as if it were manifests."""
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/sh"}}
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "metadata": {"name": "x"},
        "clusters": [
            {"name": "c", "cluster": {"server": _METADATA, "insecure-skip-tls-verify": True}}
        ],
        "users": [{"name": "u", "user": {**user, "tokenFile": "/var/run/secrets/token"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    scene.tenant.put(
        "secrets", {**body("v1", "Secret", name), "stringData": {"value": json.dumps(content)}}
    )


SOURCES: dict[str, Attack] = {
    "source: a ConfigMap of another namespace": _from("configMapRefs", f"{VICTIM}/settings"),
    "source: a path to a ConfigMap": _from("configMapRefs", f"../../{VICTIM}/configmaps/settings"),
    "source: a Secret of another namespace": _from("secretRefs", f"{VICTIM}/bank"),
    "source: a path to a Secret": _from("secretRefs", f"../../{VICTIM}/secrets/bank"),
    "source: another kind by a path": _from("configMapRefs", "../secrets/own"),
    "source: a query": _from("configMapRefs", "a?fieldSelector=metadata.namespace"),
    "source: a Secret that exists only elsewhere": _from(
        "secretRefs", "bank", says="secret/bank does not exist"
    ),
    "source: a token of an account": Attack(
        spec={"source": {"secretRefs": [{"name": "source-a-token-of-an-account"}]}},
        before=_token,
        says="secret/source-a-token-of-an-account[ca.crt]",
    ),
    "source: a kubeconfig that runs a program": Attack(
        spec={"source": {"secretRefs": [{"name": "source-a-kubeconfig-that-runs-a-program"}]}},
        before=_kubeconfig,
        says="secret/source-a-kubeconfig-that-runs-a-program[value]",
    ),
    "source: a Secret that the account may not read": Attack(
        spec={"source": {"secretRefs": [{"name": "own"}]}, "serviceAccountName": WEAK},
        says="forbidden",
    ),
    "source: an object of Python": Attack(
        inline='a: !!python/object/apply:os.system ["touch /tmp/mallory"]', says="InvalidSource"
    ),
    "source: a kustomization with a file and a URL": Attack(
        inline=json.dumps(
            {
                "apiVersion": "kustomize.config.k8s.io/v1beta1",
                "kind": "Kustomization",
                "metadata": {"name": "x"},
                "resources": [_PASSWD, _METADATA, "/var/run/secrets"],
            }
        ),
        says="a kustomization, not an object",
    ),
    "source: a file": Attack(inline=_PASSWD, says="InvalidSource"),
    "dependency: a Bundle of another namespace": Attack(
        manifests=(config_map("by-dependency"),),
        spec={"dependsOn": [{"name": f"{VICTIM}/web"}]},
        says="spec.dependsOn[0].name: ",
    ),
    "dependency: a path to a Bundle": Attack(
        manifests=(config_map("by-path"),),
        spec={"dependsOn": [{"name": f"../../{VICTIM}/bundles/web"}]},
        says="spec.dependsOn[0].name: ",
    ),
    "dependency: a Bundle that exists only elsewhere": Attack(
        manifests=(config_map("by-same-name"),),
        spec={"dependsOn": [{"name": "web"}]},
        says="the Bundle web does not exist",
    ),
    "rule: a request": _rule(f"http.get('{_METADATA}').body != ''"),
    "rule: an object of the cluster": _rule(f"kubernetes.get('{VICTIM}', 'bank').data != null"),
    "rule: the rights of the controller": _rule(
        "authorizer.group('').resource('secrets').allowed()"
    ),
    "rule: a file": _rule("readFile('/etc/passwd').size() > 0"),
    "rule: a variable of the environment": _rule("env.KUBECONFIG != ''"),
    "rule: more memory than there is": _rule(
        "[self.spec.source.inline]" + ".map(a, a + a)" * 26 + ".exists(a, a == '')",
        "the reconcile was ended at its limit of memory",
    ),
    "rule: another object of the kind": Attack(
        manifests=(config_map("by-ready-when"),),
        spec={"readyWhen": [f"configmap=lookup('{VICTIM}', 'settings').data.key == 'v'"]},
        says="spec.readyWhen[0]: ",
    ),
    "rule: a kind with a path": Attack(
        manifests=(config_map("by-rule-kind"),),
        spec={"readyWhen": [f"../../{VICTIM}/secrets=true"]},
        says="unknown kind",
    ),
    "mark: a dependency on the victim's Secret": Attack(
        manifests=(
            config_map(
                "by-mark",
                annotations={_DEPENDS_ON: f"/namespaces/{VICTIM}/Secret/bank"},
            ),
        ),
        says="depends on an object outside the set",
    ),
    "oracle: a Secret that exists": Attack(
        manifests=(
            {
                **body("v1", "Secret", "bank", VICTIM),
                "metadata": {
                    "name": "bank",
                    "namespace": VICTIM,
                    "annotations": {"applyprune.dev/apply": "exists"},
                },
            },
        ),
        says="forbidden",
    ),
    "oracle: a Secret that does not exist": Attack(
        manifests=(
            {
                **body("v1", "Secret", "bonk", VICTIM),
                "metadata": {
                    "name": "bonk",
                    "namespace": VICTIM,
                    "annotations": {"applyprune.dev/apply": "exists"},
                },
            },
        ),
        says="forbidden",
    ),
    "oracle: values of a Secret that may only be patched": Attack(
        manifests=(
            body("v1", "Secret", "own", TENANT, type="example.com/x", stringData={"key": "guess"}),
        ),
        spec={"serviceAccountName": WEAK, "conflicts": "force", "adopt": "all"},
        says="forbidden",
    ),
    "oracle: a workload of the victim's Secret": Attack(
        inline=text(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "by-pod", "namespace": VICTIM},
                "spec": {
                    "serviceAccountName": "deployer",
                    "containers": [
                        {"name": "c", "image": "x", "envFrom": [{"secretRef": {"name": "bank"}}]}
                    ],
                },
            }
        ),
        says="forbidden",
        never=(core("pods", "by-pod"),),
    ),
}
"""Attacks on what a Bundle may read, and on what its status, Events and log may tell."""

ORACLES = ("oracle: a Secret that exists", "oracle: a Secret that does not exist")
"""Two attacks that must not be told apart."""
