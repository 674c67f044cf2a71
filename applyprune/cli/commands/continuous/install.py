"""``applyprune install``: install the controller as a set, from the files in ``deploy/``.

The files are changed as text, not as data: so --print keeps their comments, and ``deploy/`` is the
only place that lists what the controller needs.
"""

from __future__ import annotations

import re
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING

import click

from applyprune.cli.options.cluster_access import namespaces_option, not_empty
from applyprune.cli.options.reporting import reporting_options, show_unchanged_option
from applyprune.cli.options.run_options import (
    RunCommand,
    cluster_options,
    record_options,
    timeout_option,
)
from applyprune.errors import UsageError
from applyprune.model.options import Mode, WaitMode
from applyprune.sources.documents import read_documents
from applyprune.sources.yaml import Document
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.options import Options
    from applyprune.model.problem import Problem
    from applyprune.sources import Input

SET = "applyprune"
"""The name of the controller's set."""
_ORIGIN = "install --print"


@click.command(cls=RunCommand)
@cluster_options
@record_options
@timeout_option("How long each wait may take, for the CRD and with --wait.")
@show_unchanged_option
@reporting_options
@click.option(
    "--image",
    default="",
    metavar="IMAGE",
    callback=not_empty,
    help="The controller's image, which the nodes must be able to pull.  "
    "[default: applyprune:VERSION]",
)
@namespaces_option(
    "The namespaces whose Bundles the controller handles, and where it gets its rights."
)
@click.option("--force-conflicts", is_flag=True, help="Take fields that other field managers own.")
@click.option(
    "--wait/--no-wait",
    default=None,
    help="--wait waits until the controller runs. --no-wait prunes without waiting.  [default: "
    "wait only before the prune of a workload, a Service, or what Pods may use]",
)
@click.option(
    "--print", "prints", is_flag=True, help="Print the manifests without contacting the server."
)
def install(
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    image: str,
    watch_namespaces: tuple[str, ...],
    timeout: float,
    force_conflicts: bool,
    wait: bool | None,
    prints: bool,
) -> int:
    """Install the controller in the cluster, or update it.

    It becomes the set `applyprune` in the namespace `applyprune-system`, or in the one that -n
    names. `applyprune delete` removes it, except the CRD and the namespace.

    \b
    Examples:
      applyprune install --image registry.example.com/applyprune:0.1.0 --wait
      applyprune install --watch-namespaces shop,blog --dry-run
      applyprune install --print > applyprune.yaml
      applyprune delete applyprune -n applyprune-system
    """
    from applyprune.cli.packaged import packaged_folder
    from applyprune.cli.session import run_set

    cluster_target = replace(
        cluster_target, namespace=cluster_target.namespace or DEFAULT_NAMESPACE
    )
    text = installation(
        packaged_folder("deploy"),
        namespace=cluster_target.namespace,
        image=image,
        watched_namespaces=watch_namespaces,
    )
    if prints:
        return reporting.print_text(text.rstrip("\n"))
    options = replace(
        options,
        mode=Mode.APPLY,
        apply=replace(options.apply, create_namespace=True, force_conflicts=force_conflicts),
        wait=replace(options.wait, mode=WaitMode.asked(wait), timeout=timeout),
    )
    return reporting.print_events(run_set(cluster_target, SET, partial(_read_text, text), options))


def _read_text(text: str, *, warn: Callable[[Problem], None]) -> Input:
    """Return the manifests of a text; their origins are lines of the output of --print."""
    from applyprune.sources import Input, read

    manifests = [
        replace(manifest, origin=replace(manifest.origin, path=_ORIGIN))
        for manifest in read(("-",), stdin=BytesIO(text.encode()), warn=warn)
    ]
    return Input(tuple(manifests), {_ORIGIN: text})


DEFAULT_NAMESPACE = "applyprune-system"
"""The namespace in the files."""
_NAMESPACE_IN_TEXT = pattern(rf"\b{DEFAULT_NAMESPACE}\b")
_IMAGE = pattern(r"(?<= image: )applyprune:\S+$", re.MULTILINE)
_IMAGE_NAME = pattern(r"[A-Za-z0-9][\w./:@-]*", re.ASCII)
_GRACE = pattern(r"^( +- )--grace=.*$", re.MULTILINE)
_NAMESPACE = "\nkind: Namespace\n"
_BINDING = "kind: ClusterRoleBinding\nmetadata:\n  name: applyprune-controller\n"
_EVERYWHERE = "kind: ClusterRole\nmetadata:\n  name: applyprune-controller-crd\n"
"""The role whose binding stays one for the whole cluster."""
_HOME = """\
  # Read the UID of this cluster: in another one, it names the owner of a set.
  - apiGroups: [""]
    resources: [namespaces]
    resourceNames: [kube-system]
    verbs: [get]
"""


def installation(
    folder: Path,
    *,
    namespace: str = DEFAULT_NAMESPACE,
    image: str = "",
    watched_namespaces: Sequence[str] = (),
) -> str:
    """Return the YAML documents of ``folder``, in the order of its kustomization.

    Another ``namespace`` is used without its Namespace document. ``image`` replaces that of the
    Deployment. With ``watched_namespaces`` the controller handles only those, and has rights only
    there. Raises UsageError for an invalid image.
    """
    if image and not _IMAGE_NAME.fullmatch(image):
        raise UsageError(
            f"invalid image name {image!r}", hint="Write HOST/PATH:TAG or HOST/PATH@DIGEST."
        )
    documents = [document for name in _files(folder) for document in _documents(folder / name)]
    if namespace != DEFAULT_NAMESPACE:
        # The user's own namespace: keep its Pod security level.
        documents = [document for document in documents if _NAMESPACE not in document]
    if watched_namespaces:
        documents = [
            limited
            for document in documents
            for limited in _limited_to(document, watched_namespaces)
        ]
    text = "---\n".join(documents)
    if image:
        text = _IMAGE.sub(image, text)
    return _NAMESPACE_IN_TEXT.sub(namespace, text)


def _files(folder: Path) -> list[str]:
    (document,) = read_documents((folder / "kustomization.yaml").read_bytes())
    content = document.content
    return list(content.value["resources"]) if isinstance(content, Document) else []


def _documents(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("---\n")


def _limited_to(document: str, watched_namespaces: Sequence[str]) -> Iterator[str]:
    """Yield a document, changed for a controller that handles some namespaces only."""
    if _EVERYWHERE in document:
        yield document + _HOME
        return
    if _BINDING not in document:
        argument = f"--watch-namespaces={','.join(watched_namespaces)}"
        yield _GRACE.sub(rf"\g<0>\n\g<1>{argument}", document)
        return
    for namespace in watched_namespaces:
        binding = _BINDING.replace("ClusterRole", "Role") + f"  namespace: {namespace}\n"
        yield document.replace(_BINDING, binding)
