"""Roles and bindings as YAML, each with its comments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from applyprune.output.text.yaml_object import as_yaml

if TYPE_CHECKING:
    from applyprune.planning.checks.rbac import RoleText


def rbac_text(found: Sequence[RoleText]) -> str:
    """Return the documents, with the comments of each above it."""
    documents = []
    for role, lines in zip(found, as_yaml(*(role.body for role in found)), strict=True):
        documents.append("\n".join((*(f"# {comment}" for comment in role.comments), *lines)))
    return "\n---\n".join(documents)
