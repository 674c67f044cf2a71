"""Manifests to measure with: mixed kinds, several namespaces, the same text every time."""

from __future__ import annotations

from itertools import cycle, islice
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PER_NAMESPACE = 100
_NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: $namespace\n"
_MAP, _SECRET, *_OTHERS = (
    Path(__file__).with_name("application.yaml").read_text(encoding="utf-8").split("---\n")
)
_APPLICATION = (
    *((_MAP, ""), (_MAP, "-more"), (_SECRET, ""), (_SECRET, "-more")),
    *((text, "") for text in _OTHERS),
)
"""The manifests of one application, and what each has after the number in its name."""
_OLD, _NEW = "LOG_LEVEL: info", "LOG_LEVEL: debug"
COLLECTIONS = {
    "Namespace": "/api/v1/namespaces",
    "ConfigMap": "/api/v1/configmaps",
    "Secret": "/api/v1/secrets",
    "ServiceAccount": "/api/v1/serviceaccounts",
    "Service": "/api/v1/services",
    "Deployment": "/apis/apps/v1/deployments",
    "Role": "/apis/rbac.authorization.k8s.io/v1/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/rolebindings",
}
"""Where the API has all objects of each kind."""


def write_manifests(folder: Path, objects: int, prefix: str, namespaces: int = 0) -> None:
    """Write so many objects into the folder, a file for each namespace, Namespaces included.

    They belong to applications, named by number, in namespaces whose names begin with ``prefix``.
    """
    folder.mkdir(parents=True)
    count = namespaces or max(1, objects // _PER_NAMESPACE)
    names = [f"{prefix}-{number}" for number in range(count)]
    texts = {name: [Template(_NAMESPACE).substitute(namespace=name)] for name in names}
    for index, (template, more) in enumerate(islice(cycle(_APPLICATION), objects - count)):
        number = index // len(_APPLICATION)
        name = names[number % count]
        text = Template(template).substitute(namespace=name, number=f"{number}{more}")
        texts[name].append(text)
    for name, documents in texts.items():
        (folder / f"{name}.yaml").write_text("---\n".join(documents), encoding="utf-8")


def texts_of_sets(
    sets: int, objects: int, prefix: str, namespaces: int
) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each of many sets: each has the objects of one application.

    Together they have so many objects, without the Namespaces.
    """
    each = [one for one in _APPLICATION if one != (_SECRET, "-more")]
    assert sets * len(each) == objects
    for number in range(sets):
        values = {"namespace": f"{prefix}-{number % namespaces}"}
        yield (
            f"{prefix}-{number}",
            "---\n".join(
                Template(template).substitute(values, number=f"{number}{more}")
                for template, more in each
            ),
        )


def change(folder: Path, most: int = 10) -> int:
    """Change a value in a ConfigMap of each of the first files; return in how many."""
    paths = sorted(folder.glob("*.yaml"))[:most]
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert _OLD in text
        path.write_text(text.replace(_OLD, _NEW, 1), encoding="utf-8")
    return len(paths)


def halve(folder: Path, removed: Path) -> int:
    """Move the last half of each file to another folder; return how many objects these are."""
    removed.mkdir(parents=True)
    count = 0
    for path in sorted(folder.glob("*.yaml")):
        texts = path.read_text(encoding="utf-8").split("---\n")
        kept = len(texts) - len(texts) // 2
        path.write_text("---\n".join(texts[:kept]), encoding="utf-8")
        (removed / path.name).write_text("---\n".join(texts[kept:]), encoding="utf-8")
        count += len(texts) - kept
    return count
