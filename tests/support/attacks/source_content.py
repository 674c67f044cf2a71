"""Attacks by what a source on another host contains: objects, links, programs, bombs."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING, Any

from applyprune.planning.applyset import applyset_identity
from tests.support.archives import archive as tar_of
from tests.support.archives import member, zeros
from tests.support.artifacts import served_artifact
from tests.support.attacks.attack import (
    RBAC,
    TENANT,
    VICTIM,
    WEAK,
    admin_binding,
    body,
    core,
    stolen,
)
from tests.support.attacks.source_attack import SourceAttack, oci
from tests.support.git_servers import LFS_POINTER, LINK, SUBMODULE
from tests.support.objects import config_map, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.support.attacks.servers import Servers

_VICTIMS = applyset_identity("web", VICTIM)
_COMMIT = "1" * 40
_ROLES = "/apis/rbac.authorization.k8s.io/v1"


def _objects(*manifests: dict[str, Any], says: str = "forbidden", never: str = "") -> SourceAttack:
    return SourceAttack(says, files={"web/a.yaml": text(*manifests)}, never=(never,) * bool(never))


def _build(kustomization: str, says: str = "InvalidSource", **files: str) -> SourceAttack:
    every = {"web/kustomization.yaml": kustomization, "web/a.yaml": text(config_map("built"))}
    return SourceAttack(says, files={**every, **files})


def _layer(says: str, name: str, layer: bytes) -> SourceAttack:
    def prepare(servers: Servers) -> None:
        servers.web.answers |= served_artifact(f"evil/{name}", layer)

    return SourceAttack(says, source=oci(f"evil/{name}"), prepare=prepare)


def _tar(name: str, *members: bytes) -> SourceAttack:
    return _layer("FetchFailed", name, tar_of(members))


def _sentinel(name: str) -> Callable[[Servers], None]:
    """Commit files whose programs would create a file on this machine."""

    def prepare(servers: Servers) -> None:
        touch = f"touch {servers.sentinel}"
        files: Mapping[str, str] = {
            ".gitattributes": "*.yaml filter=evil diff=evil merge=evil\n",
            ".gitmodules": (
                f'[submodule "x"]\n\tpath = x\n\turl = ext::{touch}\n\tupdate = !{touch}\n'
            ),
            ".lfsconfig": (
                f'[lfs]\n\turl = ext::{touch}\n[lfs "customtransfer.x"]\n\tpath = {touch}\n'
            ),
            "config": f'[core]\n\tfsmonitor = "{touch}"\n\tsshCommand = "{touch}"\n',
            "HEAD": "ref: refs/heads/main\n",
            "objects/info/alternates": "/etc\n",
            "refs/heads/main": f"{_COMMIT}\n",
            "hooks/post-checkout": f"#!/bin/sh\n{touch}\n",
            "hooks/reference-transaction": f"#!/bin/sh\n{touch}\n",
            "web/a.yaml": text(config_map(f"of-{name}")),
        }
        modes = {file: "100755" for file in files if file.startswith("hooks/")}
        servers.git.repository_of("evil").commit(files, name, keeps=False, modes=modes)

    return prepare


CONTENT: dict[str, SourceAttack] = {
    "rights: a ClusterRoleBinding": _objects(
        admin_binding("ClusterRoleBinding", "by-source"),
        never=f"{_ROLES}/clusterrolebindings/by-source",
    ),
    "rights: a RoleBinding of the victim": _objects(
        admin_binding("RoleBinding", "by-source", VICTIM),
        never=f"{_ROLES}/namespaces/{VICTIM}/rolebindings/by-source",
    ),
    "rights: a Role with more than the account has": SourceAttack(
        "forbidden",
        files={
            "web/a.yaml": text(
                body(
                    f"{RBAC}/v1", "Role", "by-weak", TENANT,
                    rules=[{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
                )
            )
        },
        spec={"serviceAccountName": WEAK},
        never=(f"{_ROLES}/namespaces/{TENANT}/roles/by-weak",),
    ),
    "rights: a Bundle of the victim": _objects(
        body(
            "applyprune.dev/v1alpha1", "Bundle", "by-source", VICTIM,
            spec={"source": {"inline": ""}, "serviceAccountName": "deployer"},
        ),
        never=f"/apis/applyprune.dev/v1alpha1/namespaces/{VICTIM}/bundles/by-source",
    ),
    "rights: an object of the victim": _objects(
        stolen("by-source"), never=core("configmaps", "by-source")
    ),
    "rights: the namespace of a kustomization": SourceAttack(
        "forbidden",
        files={
            "web/kustomization.yaml": f"namespace: {VICTIM}\nresources: [a.yaml]\n",
            "web/a.yaml": text(config_map("by-kustomization")),
        },
        never=(core("configmaps", "by-kustomization"),),
    ),
    "forged: the inventory of another Bundle": _objects(
        config_map("applyprune-stepping-stone"), says="is the inventory of a set"
    ),
    "forged: an inventory of the victim's set": _objects(
        config_map("by-id", labels={"applyset.kubernetes.io/id": _VICTIMS.id}),
        says="applyset.kubernetes.io/id",
    ),
    "forged: a part of the victim's set": _objects(
        config_map("by-label", labels={"applyset.kubernetes.io/part-of": _VICTIMS.id}),
        says="applyset.kubernetes.io/part-of",
    ),
    "link: a file of this machine": SourceAttack(
        "FetchFailed", files={"web/a.yaml": "/etc/passwd"}, modes={"web/a.yaml": LINK}
    ),
    "link: a folder of this machine": SourceAttack(
        "PathNotFound", files={"web": "/etc", "x": ""}, modes={"web": LINK}, path="web/ssl"
    ),
    "link: the path itself": SourceAttack(
        "FetchFailed", files={"web": "../../../etc"}, modes={"web": LINK}
    ),
    "link: a base": SourceAttack(
        "FetchFailed",
        files={"web/kustomization.yaml": "resources: [base]\n", "web/base": "/etc"},
        modes={"web/base": LINK},
    ),
    "build: a file above the source": _build("resources: [../../../../../etc/passwd]\n"),
    "build: an absolute file": _build("resources: [/etc/passwd]\n"),
    "build: a file above it in a generator": _build(
        "resources: [a.yaml]\nconfigMapGenerator:\n- name: x\n  files: [../../../../etc/passwd]\n"
    ),
    "build: a file of variables above it": _build(
        "resources: [a.yaml]\nsecretGenerator:\n- name: x\n  envs: [/proc/self/environ]\n"
    ),
    "build: a base at another host": _build(
        "resources: ['https://169.254.169.254/latest/meta-data']\n", "remote"
    ),
    "build: a repository at another host": _build(
        "resources: ['github.com/x/y//base?ref=main']\n", "remote"
    ),
    "build: a repository by SSH": _build("resources: ['git@127.0.0.2:x/y.git']\n", "remote"),
    "build: a chart of Helm": _build(
        "helmCharts:\n- name: x\n  repo: https://127.0.0.2/charts\n  version: 1.0.0\n"
    ),
    "build: a program as a generator": _build(
        "generators: [g.yaml]\n",
        **{
            "web/g.yaml": "apiVersion: v1\nkind: Exec\nmetadata:\n  name: x\n  annotations:\n"
            "    config.kubernetes.io/function: |\n      exec: {path: /bin/sh}\n"
        },
    ),
    "build: a container as a transformer": _build(
        "resources: [a.yaml]\ntransformers: [g.yaml]\n",
        **{
            "web/g.yaml": "apiVersion: v1\nkind: X\nmetadata:\n  name: x\n  annotations:\n"
            "    config.kubernetes.io/function: |\n      container: {image: evil, network: true}\n"
        },
    ),
    "program: a submodule with a command": SourceAttack(
        "submodule",
        files={
            "web/a.yaml": text(config_map("a")),
            "web/x": _COMMIT,
            ".gitmodules": '[submodule "x"]\n\tpath = web/x\n\turl = --upload-pack=touch /tmp/x\n',
        },
        modes={"web/x": SUBMODULE},
    ),
    "program: a pointer of LFS": SourceAttack("LFS", files={"web/a.yaml": LFS_POINTER}),
    "program: filters, hooks and settings": SourceAttack(
        "Applied: ", prepare=_sentinel("program-filters-hooks-and-settings")
    ),
    "tar: above the archive": _tar("above", member("../../etc/cron.d/x", b"x")),
    "tar: an absolute name": _tar("absolute", member("/etc/cron.d/x", b"x")),
    "tar: a symbolic link": _tar(
        "symbolic", member("a.yaml", kind=tarfile.SYMTYPE, link="/etc/passwd")
    ),
    "tar: a hard link": _tar("hard", member("a.yaml", kind=tarfile.LNKTYPE, link="/etc/passwd")),
    "tar: a link, and a file through it": _tar(
        "through", member("x", kind=tarfile.SYMTYPE, link="/tmp"), member("x/evil.yaml", b"x")
    ),
    "tar: a device": _tar("device", member("a.yaml", kind=tarfile.CHRTYPE)),
    "tar: a record with another name": _tar(
        "record", member("a.yaml", b"x", records={"path": "../../x.yaml"})
    ),
    "ignore: a file that hides the path": SourceAttack(
        "PathNotFound", files={".sourceignore": "/web\n", "web/a.yaml": text(config_map("hidden"))}
    ),
    "ignore: costly patterns": SourceAttack(
        "Applied: ",
        files={
            ".sourceignore": "\n".join(["*a" * 300 + "b", "**/a/" * 100 + "b", "[" * 500]),
            f"web/{'a' * 200}.yaml": text(config_map("by-costly-patterns")),
        },
    ),
    "ignore: a file of a million rules": SourceAttack(
        "the file is too long",
        files={".sourceignore": "a\n" * 2**20, "web/a.yaml": text(config_map("by-many-rules"))},
    ),
    "bomb: gzip": _layer("SourceTooLarge", "bomb", zeros(200 * 2**20)),
    "bomb: a large file in a small pack": SourceAttack(
        "SourceTooLarge", files={"web/a.yaml": bytes(80 * 2**20)}
    ),
    "bomb: YAML": SourceAttack(
        "InvalidSource",
        files={
            "web/a.yaml": "a0: &a0 [x,x,x,x,x,x,x,x]\n"
            + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 8)}]\n" for n in range(1, 12))
        },
    ),
}  # fmt: skip
"""The files of each are in a branch of its own, or at the attacker's site."""
