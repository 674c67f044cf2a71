"""What a kustomization consists of: too much rather than too little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from applyprune.sources.kustomize import Included, files_to_load, included
from tests.support.source_text import write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass
class Files:
    """A tree in memory."""

    files: Mapping[str, str | None]

    def kind(self, path: str) -> str | None:
        if path in self.files:
            return "blob"
        is_folder = not path or any(name.startswith(f"{path}/") for name in self.files)
        return "tree" if is_folder else None

    def real(self, path: str) -> str:
        return path

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
    "files/my patch.yaml": "",
    "files/blank.yaml": "kind: PatchTransformer\npath: ../files/my patch.yaml\n",
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
        (
            "transformers: [../files/blank.yaml]",
            ["app", "files/blank.yaml", "files/my patch.yaml"],
        ),
        (
            "transformers:\n- |\n  kind: PatchTransformer\n  path: ../files/my patch.yaml\n",
            ["app", "files/my patch.yaml"],
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


def test_names_of_a_linked_base_are_seen_from_where_it_leads(tmp_path: Path) -> None:
    """As kustomize builds it: ``..`` is not the folder that has the link."""
    files = {
        "app/kustomization.yaml": "resources: [../link]",
        "real/deep/kustomization.yaml": "resources: [../cm.yaml]",
        "real/cm.yaml": "",
        "cm.yaml": "",
    }
    write(tmp_path, files)
    (tmp_path / "link").symlink_to("real/deep")
    named = ("app/kustomization.yaml", "link/kustomization.yaml", "real/cm.yaml")
    assert files_to_load(str(tmp_path / "app")) == {str(tmp_path / name) for name in named}
