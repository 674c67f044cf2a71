"""What a kustomization consists of: too much rather than too little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from applyprune.sources.kustomize import Included, included

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass
class Files:
    """A tree in memory."""

    files: Mapping[str, str | None]

    def kind(self, path: str) -> str | None:
        if path in self.files:
            return "blob"
        is_folder = not path or any(name.startswith(f"{path}/") for name in self.files)
        return "tree" if is_folder else None

    def read(self, path: str) -> bytes | None:
        text = self.files[path]
        return None if text is None else text.encode()


OTHERS = {
    "base/kustomization.yaml": "resources: [deploy.yaml]",
    "base/deploy.yaml": "",
    "deep/kustomization.yml": "resources:\n- ../base\ncomponents: [../part/]\n",
    "part/Kustomization": "kind: Component\npatches:\n- path: ../files/patch.yaml\n",
    "files/patch.yaml": "",
    "files/app.properties": "",
    "files/generator.yaml": "kind: ConfigMapGenerator\nfiles:\n  - x=../files/app.properties\n",
    "files/nested/more.txt": "",
}


def find(kustomization: str | None, **others: str) -> Included:
    files = {"app/kustomization.yaml": kustomization, **OTHERS, **others}
    return included("app", Files(files))


@pytest.mark.parametrize(
    ("kustomization", "paths"),
    [
        ("resources: [a.yaml]", ["app"]),
        ("resources: [../base]", ["app", "base"]),
        ("resources: ['./../base/']", ["app", "base"]),
        ('resources: ["\\x2e\\x2e/base"]', ["app", "base"]),
        ("resources: [../base/deploy.yaml]", ["app", "base/deploy.yaml"]),
        ("bases: [../base]", ["app", "base"]),
        ("resources: [../deep]", ["app", "base", "deep", "files/patch.yaml", "part"]),
        (
            "configMapGenerator: [{files: [x=../files/app.properties]}]",
            ["app", "files/app.properties"],
        ),
        (
            "configMapGenerator: [{files: [../files/app.properties]}]",
            ["app", "files/app.properties"],
        ),
        (
            "configMapGenerator: [{envs: [../files/app.properties]}]",
            ["app", "files/app.properties"],
        ),
        ("patchesStrategicMerge: [../files/patch.yaml]", ["app", "files/patch.yaml"]),
        ("patches: [{path: ../files/patch.yaml}]", ["app", "files/patch.yaml"]),
        ("replacements: [{path: ../files/patch.yaml}]", ["app", "files/patch.yaml"]),
        ("openapi: {path: ../files/patch.yaml}", ["app", "files/patch.yaml"]),
        ("crds: [../files/patch.yaml]", ["app", "files/patch.yaml"]),
        ("resources: [../files/nested]", ["app", "files/nested"]),
        (
            "generators: [../files/generator.yaml]",
            ["app", "files/app.properties", "files/generator.yaml"],
        ),
        (
            "transformers:\n- |\n  kind: PatchTransformer\n  path: ../files/patch.yaml\n",
            ["app", "files/patch.yaml"],
        ),
        ("x: |\n  - ../base\n  - ../files/patch.yaml\n", ["app", "base", "files/patch.yaml"]),
        ("a: &a [../base]\nresources: *a", ["app", "base"]),
        ("resources: [a.yaml]\n---\nresources: [../base]", ["app", "base"]),
        ("resources: [../none]", ["app"]),
        # A loop is an error of kustomize's.
        ("resources: [../app, .]", ["app"]),
        ("resources: ['..']", [""]),
    ],
)
def test_named_paths_are_included(kustomization: str, paths: list[str]) -> None:
    found = find(kustomization)
    assert found == Included(tuple(paths), is_build=True)


@pytest.mark.parametrize(
    "kustomization",
    [
        None,
        "resources: [",
        "- a",
        "",
        "resources: [../../elsewhere]",
        "helmCharts: [{name: x}]",
        "resources: [../bad]",
    ],
)
def test_unknown_content_is_the_whole_commit(kustomization: str | None) -> None:
    """Unreadable, out of the repository, or charts in a folder that something else names."""
    assert find(kustomization, **{"bad/kustomization.yaml": "{"}).paths == ("",)


def test_folder_without_a_kustomization_is_itself() -> None:
    assert included("files", Files(OTHERS)) == Included(("files",))
