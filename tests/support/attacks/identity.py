"""Attacks on whom the controller acts as."""

from __future__ import annotations

from tests.support.attacks.attack import (
    DEPLOYER,
    GHOST,
    RBAC,
    TENANT,
    VICTIM,
    WEAK,
    Attack,
    Scene,
    admin_binding,
    body,
    core,
    stolen,
)

_ACCOUNTS = {
    "an account of another namespace, by a slash": f"{VICTIM}/{DEPLOYER}",
    "an account of another namespace, by a colon": f"{VICTIM}:{DEPLOYER}",
    "the name of an account as a user": f"system:serviceaccount:{VICTIM}:{DEPLOYER}",
    "a path to an account": f"../../{VICTIM}/serviceaccounts/{DEPLOYER}",
    "an encoded path to an account": f"..%2F..%2F{VICTIM}%2Fserviceaccounts%2F{DEPLOYER}",
    "a query after an account": "default?dryRun=All",
    "a fragment after an account": "default#",
    "a header after an account": "default\r\nImpersonate-Group: system:masters",
    "a line break after an account": "default\n",
    "a NUL after an account": "default\0",
    "a letter of another alphabet": "d\u0435fault",
    "a full-width letter": "\uff44efault",
    "an upper-case account": "Default",
    "a very long account": "a" * 254,
    "an account of dots": "..",
    "no account": "",
    "an administrator as an account": "system:admin",
}


def _same_name_as_the_controller(scene: Scene, _name: str) -> None:
    scene.tenant.account("applyprune-controller")


IDENTITY: dict[str, Attack] = {
    f"account: {name}": Attack(
        manifests=(stolen(f"by-account-{number}"),),
        spec={"serviceAccountName": account},
        says="spec.serviceAccountName: ",
        never=(core("configmaps", f"by-account-{number}"),),
    )
    for number, (name, account) in enumerate(_ACCOUNTS.items())
} | {
    "account: one that does not exist, with all rights": Attack(
        manifests=(stolen("by-ghost"),),
        spec={"serviceAccountName": GHOST},
        says=f"the ServiceAccount {GHOST} does not exist",
        never=(core("configmaps", "by-ghost"),),
    ),
    "account: one with the name of the controller's": Attack(
        manifests=(stolen("by-name"),),
        spec={"serviceAccountName": "applyprune-controller"},
        before=_same_name_as_the_controller,
        says="forbidden",
        never=(core("configmaps", "by-name"),),
    ),
    "rights: more than the account has": Attack(
        manifests=(admin_binding("RoleBinding", "escalated", TENANT),),
        spec={"serviceAccountName": WEAK},
        says="attempting to grant RBAC permissions not currently held",
        never=(f"/apis/{RBAC}/v1/namespaces/{TENANT}/rolebindings/escalated",),
    ),
    "rights: a Role with more than the account has": Attack(
        manifests=(
            body(
                f"{RBAC}/v1",
                "Role",
                "escalated",
                rules=[{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
            ),
        ),
        spec={"serviceAccountName": WEAK},
        says="attempting to grant RBAC permissions not currently held",
        never=(f"/apis/{RBAC}/v1/namespaces/{TENANT}/roles/escalated",),
    ),
    "rights: a binding in the victim's namespace": Attack(
        manifests=(admin_binding("RoleBinding", "bound", VICTIM),),
        says="forbidden",
        never=(f"/apis/{RBAC}/v1/namespaces/{VICTIM}/rolebindings/bound",),
    ),
    "rights: a binding everywhere": Attack(
        manifests=(admin_binding("ClusterRoleBinding", "mallory-everywhere"),),
        says="forbidden",
        never=(f"/apis/{RBAC}/v1/clusterrolebindings/mallory-everywhere",),
    ),
    "rights: a role that is aggregated into edit": Attack(
        manifests=(
            {
                **body(
                    f"{RBAC}/v1",
                    "ClusterRole",
                    "mallory-aggregated",
                    rules=[{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
                ),
                "metadata": {
                    "name": "mallory-aggregated",
                    "labels": {f"{RBAC}/aggregate-to-edit": "true"},
                },
            },
        ),
        says="forbidden",
        never=(f"/apis/{RBAC}/v1/clusterroles/mallory-aggregated",),
    ),
    "identity: a token of the victim's account": Attack(
        manifests=(
            {
                **body("v1", "Secret", "token", VICTIM, type="kubernetes.io/service-account-token"),
                "metadata": {
                    "name": "token",
                    "namespace": VICTIM,
                    "annotations": {"kubernetes.io/service-account.name": DEPLOYER},
                },
            },
        ),
        says="forbidden",
        never=(core("secrets", "token"),),
    ),
    "identity: a token of an account elsewhere": Attack(
        manifests=(
            {
                **body("v1", "Secret", "token-elsewhere"),
                "type": "kubernetes.io/service-account-token",
                "metadata": {
                    "name": "token-elsewhere",
                    "annotations": {"kubernetes.io/service-account.name": f"{VICTIM}:{DEPLOYER}"},
                },
            },
        ),
        # The token controller finds no such account, and removes the Secret.
        says="*",
    ),
    "identity: a certificate of an administrator": Attack(
        manifests=(
            body(
                "certificates.k8s.io/v1",
                "CertificateSigningRequest",
                "mallory",
                spec={
                    "request": "bWFsbG9yeQ==",
                    "signerName": "kubernetes.io/kube-apiserver-client",
                    "usages": ["client auth"],
                },
            ),
        ),
        says="forbidden",
        never=("/apis/certificates.k8s.io/v1/certificatesigningrequests/mallory",),
    ),
}
"""Attacks by names, and by rights that the account does not have."""
