"""Other tools, as their users call them: each makes a set of its own, changes it, and deletes it.

What each row of ``TOOLS`` says about a tool is what this version of it does on a server:
``tests/sweeps/test_other_tools.py`` proves it. ``last-applied-configuration`` and kapp's
``original`` hold the values of Secrets.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.command import Ended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.support.api import Api
    from tests.support.helpdesk import Helpdesk


@dataclass(frozen=True, slots=True)
class Tool:
    """How a tool is called, and what it does with marks and records.

    Words have ``{name}``, ``{namespace}``, ``{home}`` and ``{files}`` of their ``ToolSet``.
    """

    program: str
    """A name of ``PEERS``, or ``kubectl``."""
    makes: str
    deletes: str
    manager: tuple[str, str]
    """The field manager of its objects, and the operation of its entry in managedFields."""
    takes_back: str = ""
    """What makes it take objects that exist already; empty if that is ``makes``."""
    updates: str = ""
    """What the next run is called with; empty if that is ``makes``."""
    labels: tuple[str, ...] = ()
    """The labels that it writes on every object."""
    annotations: tuple[str, ...] = ()
    """The annotations that it writes on every object."""
    selects: tuple[str, ...] = ()
    """The labels that it writes into selectors too: of workloads and of Services."""
    in_templates: tuple[str, ...] = ()
    """The labels that it writes into Pod templates too, and into those of volume claims."""
    record: str = ""
    """The options by which ``kubectl get`` finds its record; empty if it has none."""
    set_name: str = ""
    """What ``applyprune import --from`` calls its set; empty if it has no record."""
    delete_heeds_marks: bool = False
    """Whether its deletion leaves an object without its marks."""
    update_heeds_marks: bool = True
    """Whether an update leaves an object without its marks that its files no longer have."""
    update_returns_marks: bool = True
    """Whether an update writes its marks again, and so takes the objects back."""
    owner: str = ""
    """What ``OWNER_MARKS`` calls it; empty if it has no such mark."""
    refusal: str = ""
    """Why applyprune does not adopt its objects by default; empty if it does."""
    keeps: str = "files"
    """Where its home folder has the manifests."""
    code: int = 0
    """The exit code when it has made all objects."""
    prepares: Callable[[ToolSet], object] = lambda _: None
    """Writes what it needs beside the manifests."""
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ToolSet:
    """A set of one tool in the namespace of its manifests, with a home folder of its own."""

    tool: Tool
    program: Path
    kubectl: Path
    kubeconfig: Path
    home: Path
    manifests: Helpdesk
    name: str = "helpdesk"

    @property
    def files(self) -> Path:
        """Return the folder of the tool's own copy of the manifests."""
        return self.home / self.tool.keeps

    def make(self) -> Ended:
        """Apply all manifests by the tool, for the first time."""
        shutil.copytree(self.manifests.folder, self.files)
        self.tool.prepares(self)
        done = self.run(self.tool.makes)
        assert done.code == self.tool.code, done
        return done

    def update(self) -> Ended:
        """Apply again by the tool what its files have now."""
        return self.run(self.tool.updates or self.tool.makes)

    def delete(self) -> Ended:
        """Delete the set by the tool."""
        return self.run(self.tool.deletes)

    def remove_marks(self, api: Api) -> None:
        """Remove what the tool has written on its objects, outside selectors and templates."""
        labels, annotations = dict.fromkeys(self.tool.labels), dict.fromkeys(self.tool.annotations)
        for path in self.manifests.paths.values():
            api.patch(path, {"metadata": {"labels": labels, "annotations": annotations}}, by="hand")

    def kubectl_says(self, words: str) -> str:
        """Run kubectl, and return its output."""
        return self._kubectl(words)

    def records(self) -> list[str]:
        """Return the objects in which the tool records the set, as ``kind/name``."""
        if not self.tool.record:
            return []
        return self._kubectl(f"get {self.tool.record} -o name --ignore-not-found").split()

    def end_record(self) -> None:
        """Delete the objects in which the tool records the set."""
        self._kubectl(f"delete {self.tool.record}")

    def run(self, words: str) -> Ended:
        """Run the tool with other words."""
        return self._run(self.program, words)

    def _kubectl(self, words: str) -> str:
        done = self._run(self.kubectl, words)
        assert done.code == 0, done
        return done.out

    def _run(self, program: Path, words: str) -> Ended:
        filled = words.format(
            name=self.name,
            namespace=self.manifests.namespace,
            home=self.home,
            files=self.files,
        )
        done = subprocess.run(
            [program, *filled.split()],
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    @property
    def environment(self) -> dict[str, str]:
        """Return all of its environment: whatever it caches or stores is in its home folder."""
        return {
            "PATH": os.defpath,
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_DATA_HOME": str(self.home / "data"),
            "KUBECACHEDIR": str(self.home / "kube-cache"),
            "KUBECONFIG": str(self.kubeconfig),
            **dict(self.tool.variables),
        }


def _write_chart(of: ToolSet) -> None:
    (of.home / "chart" / "Chart.yaml").write_text(
        f"apiVersion: v2\nname: {of.name}\nversion: 1.0.0\ndescription: Answers to customers\n"
    )


def _write_inventory_template(of: ToolSet) -> None:
    (of.files / "inventory-template.yaml").write_text(
        "apiVersion: v1\n"
        "kind: ConfigMap\n"
        "metadata:\n"
        f"  name: {of.name}-inventory\n"
        f"  namespace: {of.manifests.namespace}\n"
        "  labels:\n"
        f"    cli-utils.sigs.k8s.io/inventory-id: {of.manifests.namespace}-{of.name}\n"
    )


def _write_rest(of: ToolSet) -> None:
    (of.home / "rest.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: rest\n")


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _helm(version: int, operation: str, *, delete_heeds_marks: bool) -> Tool:
    """Return a version of Helm: its updates read only the release, never the marks.

    ``uninstall`` and ``upgrade`` fail without the release. ``install`` then refuses objects
    without the marks, and takes those that have them.
    """
    return Tool(
        f"helm{version}",
        "install {name} {home}/chart -n {namespace}",
        "uninstall {name} -n {namespace}",
        ("helm", operation),
        takes_back="install {name} {home}/chart -n {namespace} --take-ownership",
        updates="upgrade {name} {home}/chart -n {namespace}",
        labels=("app.kubernetes.io/managed-by",),
        annotations=("meta.helm.sh/release-name", "meta.helm.sh/release-namespace"),
        record="secret -n {namespace} -l owner=helm,name={name}",
        set_name="helm:{name}",
        delete_heeds_marks=delete_heeds_marks,
        update_heeds_marks=False,
        owner="Helm",
        refusal="belongs to the Helm release {name} in namespace {namespace}",
        keeps="chart/templates",
        prepares=_write_chart,
    )


_APPLY = "apply -n {namespace} -f {files}"
_DELETE = "delete -n {namespace} -f {files} --wait=false"
_APPLYSET = "apply -n {namespace} --prune --applyset={name}"

TOOLS: Mapping[str, Tool] = {
    # Deletes by the names in the release, whatever the objects are now.
    "helm3": _helm(3, "Update", delete_heeds_marks=False),
    # Its uninstall skips an object if any of the three marks is missing or another's. A release
    # that Helm 3 has made stays client-side, with the operation Update.
    "helm4": _helm(4, "Apply", delete_heeds_marks=True),
    # It finds objects by the label of the app, and deletes those that have their identity too.
    # What has the label by a template stays, such as the volume claims of a StatefulSet: without
    # the marks it deletes nothing, and fails because of Pods, ReplicaSets and these claims.
    # A later deploy takes all objects back without asking, while the record is there.
    "kapp": Tool(
        "kapp",
        "deploy -a {name} -n {namespace} -f {files} --yes --wait=false",
        "delete -a {name} -n {namespace} --yes --wait=false",
        ("kapp", "Update"),
        labels=("kapp.k14s.io/app", "kapp.k14s.io/association"),
        annotations=(
            "kapp.k14s.io/identity",
            "kapp.k14s.io/original",
            "kapp.k14s.io/original-diff-md5",
        ),
        selects=("kapp.k14s.io/app",),
        in_templates=("kapp.k14s.io/app", "kapp.k14s.io/association"),
        record="configmap -n {namespace} {name}",
        set_name="kapp:{name}",
        delete_heeds_marks=True,
        owner="kapp",
        refusal="belongs to the kapp app ",
    ),
    # Neither its apply nor its destroy touches an object with another inventory's mark or none.
    # It ends with code 1, because nothing makes the volumes for the claims.
    "kapply": Tool(
        "kapply",
        "apply {files} -n {namespace} --reconcile-timeout=1ms",
        "destroy {files} -n {namespace}",
        ("kubectl", "Update"),
        takes_back="apply {files} -n {namespace} --reconcile-timeout=1ms --inventory-policy=adopt",
        annotations=("config.k8s.io/owning-inventory", LAST_APPLIED),
        record="configmap -n {namespace} -l cli-utils.sigs.k8s.io/inventory-id={namespace}-{name}",
        set_name="cli-utils:{name}-inventory",
        delete_heeds_marks=True,
        update_returns_marks=False,
        owner="cli-utils",
        refusal="belongs to the cli-utils inventory {namespace}-{name}",
        code=1,
        prepares=_write_inventory_template,
    ),
    "kubectl": Tool(
        "kubectl",
        _APPLY,
        _DELETE,
        ("kubectl-client-side-apply", "Update"),
        annotations=(LAST_APPLIED,),
    ),
    "kubectl server-side": Tool(
        "kubectl", f"{_APPLY} --server-side", _DELETE, ("kubectl", "Apply")
    ),
    # It refuses an empty input: one object stays. A later apply of the same files takes the label
    # back from another set, without asking. Without the parent, the next apply makes a new one, and
    # the one after it prunes what still has the label, of the kinds that this parent lists.
    "applyset": Tool(
        "kubectl",
        f"{_APPLYSET} -f {{files}}",
        f"{_APPLYSET} -f {{home}}/rest.yaml",
        ("kubectl-client-side-apply", "Update"),
        labels=("applyset.kubernetes.io/part-of",),
        annotations=(LAST_APPLIED,),
        record="secret -n {namespace} {name}",
        set_name="applyset:{name}",
        delete_heeds_marks=True,
        refusal="has the label of another set, which does not list it",
        prepares=_write_rest,
        variables=(("KUBECTL_APPLYSET", "true"),),
    ),
}
