"""A repository of four sets, two of which build a base; and what they have applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.command import applyprune
from tests.support.pipelines import SHOP
from tests.support.source_text import config_map

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.api import Api

HEAD = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\n"
BUILD = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
TOP = "deploy/prod"
SETS = ("api", "jobs", "old", "web")
BUILT = ("api", "web")
"""The sets of a base that they share."""
MANY = ("one", "two", "three", "four")
COLOURS = ("green", "red", "blue", "yellow", "first")
GREEN = {
    "api-api": "green", "api-base": "first", "jobs": "green", "old": "green", "web-base": "first",
    "web-web": "green",
}  # fmt: skip
"""What all sets have at first."""


def own(name: str, colour: str, *more: str) -> dict[str, str]:
    """Return the manifests of a set, beside those of the base; ``more`` has its name, too."""
    texts = [config_map(name, f"data: {{colour: {colour}}}\n")]
    texts += [config_map(f"{name}-{one}") for one in more]
    return {f"{TOP}/{name}/own.yaml": "---\n".join(texts)}


def files() -> dict[str, str]:
    """Return all files of the repository."""
    found = {
        f"{TOP}/applyprune.yaml": f"{HEAD}namespace: shop\n",
        "deploy/base/kustomization.yaml": f"{BUILD}resources: [base.yaml]\n",
        "deploy/base/base.yaml": config_map("base", "data: {shared: first}\n"),
    }
    for name in SETS:
        given = "filename: own.yaml"
        if name in BUILT:
            given = "kustomize: ."
            build = f"resources: [../../base, own.yaml]\nnamePrefix: {name}-\n"
            found[f"{TOP}/{name}/kustomization.yaml"] = f"{BUILD}{build}"
        found[f"{TOP}/{name}/applyprune.yaml"] = f"{HEAD}name: {name}\n{given}\n"
        found |= own(name, "green")
    return found


def delete_sets(kubeconfig: Path) -> None:
    """Delete what an earlier test has left."""
    for name in SETS:
        delete = ("delete", name, "-n", "shop", "--prune-also", "adopted", "--yes")
        reply = applyprune(*delete, kubeconfig=kubeconfig)
        assert reply.code == 0, reply


def colours(api: Api) -> dict[str, str]:
    """Return what the ConfigMaps of the sets have."""
    found = {}
    for one in api.get(f"{SHOP}/configmaps")["items"]:
        if value := {*one.get("data", {}).values()} & {*COLOURS}:
            found[one["metadata"]["name"]] = value.pop()
    return found


def names(api: Api, of: str) -> set[str]:
    """Return which of the further ConfigMaps of a set exist."""
    every = {one["metadata"]["name"] for one in api.get(f"{SHOP}/configmaps")["items"]}
    return every & {f"{of}-{one}" for one in MANY}
