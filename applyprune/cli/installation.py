"""``deploy/`` → the text of what an installation consists of: the same files, with few changes.

They are texts from end to end, so that what is printed has its comments, and no second place says
what the controller needs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from applyprune.errors import UsageError
from applyprune.sources.yaml.documents import read_documents
from applyprune.sources.yaml.parser import Document

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

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
