"""``applyprune install``: brings the controller into a cluster, as a set of its own.

``deploy/`` → the text of what an installation consists of: the same files, with few changes.

They are texts from end to end, so that what is printed has its comments, and no second place says
what the controller needs.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING

import click

from applyprune.cli.options.cluster_access import namespaces_option, not_empty
from applyprune.cli.options.reporting import reporting_options
from applyprune.cli.options.run_options import (
    RunCommand,
    cluster_options,
    record_options,
    timeout_option,
)
from applyprune.errors import UsageError
from applyprune.model.options import Mode
from applyprune.sources.yaml.documents import read_documents
from applyprune.sources.yaml.parser import Document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.options import Options
    from applyprune.model.problem import Problem
    from applyprune.sources import Input

SET = "applyprune"
"""The name of the set that the controller is."""
_ORIGIN = "install --print"


@click.command(cls=RunCommand)
@cluster_options
@record_options
@timeout_option("How long each wait may take, for the CRD and with --wait.")
@reporting_options
@click.option(
    "--image",
    default="",
    metavar="IMAGE",
    callback=not_empty,
    help="The controller's image, from where the nodes can pull it.  [default: applyprune:VERSION]",
)
@namespaces_option(
    "The namespaces whose Bundles the controller handles, and where it gets its rights."
)
@click.option("--force-conflicts", is_flag=True, help="Take fields that other field managers own.")
@click.option(
    "--wait/--no-wait",
    default=False,
    help="Whether to wait until the controller runs.  [default: no-wait]",
)
@click.option(
    "--print", "prints", is_flag=True, help="Print the manifests without contacting the server."
)
def install(
    where: ClusterTarget,
    reporting: Reporting,
    options: Options,
    image: str,
    watch_namespaces: tuple[str, ...],
    timeout: float,
    force_conflicts: bool,
    wait: bool,
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

    where = replace(where, namespace=where.namespace or HOME)
    text = installation(
        packaged_folder("deploy"),
        namespace=where.namespace,
        image=image,
        watched=watch_namespaces,
    )
    if prints:
        return reporting.print_text(text.rstrip("\n"))
    decided = replace(
        options,
        mode=Mode.APPLY,
        apply=replace(options.apply, create_namespace=True, force_conflicts=force_conflicts),
        wait=replace(options.wait, timeout=timeout, enabled=wait),
    )
    return reporting.print_events(run_set(where, SET, partial(_read, text), decided))


def _read(text: str, *, warn: Callable[[Problem], None]) -> Input:
    """Return the manifests of a text, each from a line of what --print would print."""
    from applyprune.sources import Input, read

    found = read(("-",), stdin=BytesIO(text.encode()), warn=warn)
    named = [replace(one, origin=replace(one.origin, path=_ORIGIN)) for one in found]
    return Input(tuple(named), {_ORIGIN: text})


HOME = "applyprune-system"
"""The namespace that the files name."""
_HOME = re.compile(rf"\b{HOME}\b")
_IMAGE = re.compile(r"(?<= image: )applyprune:\S+$", re.MULTILINE)
_IMAGE_NAME = re.compile(r"[A-Za-z0-9][\w./:@-]*", re.ASCII)
_GRACE = re.compile(r"^( +- )--grace=.*$", re.MULTILINE)
_NAMESPACE = "\nkind: Namespace\n"
_BINDING = "kind: ClusterRoleBinding\nmetadata:\n  name: applyprune-controller\n"


def installation(
    folder: Path, *, namespace: str = HOME, image: str = "", watched: Sequence[str] = ()
) -> str:
    """Return the YAML documents of ``folder``, in the order of its kustomization.

    Of another ``namespace`` than its own nothing is said but the name. ``image`` takes the place of
    the Deployment's. With ``watched``, names of namespaces, the controller looks after those only,
    and has its rights in them only. Raises UsageError for what cannot be an image.
    """
    if image and not _IMAGE_NAME.fullmatch(image):
        raise UsageError(
            f"{image!r} cannot name an image", hint="Write HOST/PATH:TAG or HOST/PATH@DIGEST."
        )
    documents = [one for name in _files(folder) for one in _documents(folder / name)]
    if namespace != HOME:
        # Somebody's own: what Pods may do in it is not for us to say.
        documents = [one for one in documents if _NAMESPACE not in one]
    if watched:
        documents = [each for one in documents for each in _confined(one, watched)]
    text = "---\n".join(documents)
    if image:
        text = _IMAGE.sub(image, text)
    return _HOME.sub(namespace, text)


def _files(folder: Path) -> list[str]:
    (document,) = read_documents((folder / "kustomization.yaml").read_bytes())
    content = document.content
    return list(content.value["resources"]) if isinstance(content, Document) else []


def _documents(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("---\n")


def _confined(document: str, watched: Sequence[str]) -> Iterator[str]:
    """Yield a document as it is for a controller that looks after some namespaces only."""
    if _BINDING not in document:
        argument = f"--watch-namespaces={','.join(watched)}"
        yield _GRACE.sub(rf"\g<0>\n\g<1>{argument}", document)
        return
    for one in watched:
        bound = _BINDING.replace("ClusterRole", "Role") + f"  namespace: {one}\n"
        yield document.replace(_BINDING, bound)
