"""What somebody may have meant by a name that is not known."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from applyprune.model.identity import GVK
    from applyprune.model.resources import Resource, ResourceMap

_CLOSE = 0.7


def closest(word: str, words: Iterable[str]) -> str:
    """Return the one of ``words`` that is most like ``word``; empty when none is."""
    by_lower = {one.lower(): one for one in words}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=_CLOSE)
    return by_lower[found[0]] if found else ""


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return the question, empty when nothing is like it."""
    found = closest(word, words)
    return f"Did you mean {found}?" if found else ""


def advice_for_kind(gvk: GVK, catalogue: ResourceMap, coming: Iterable[Resource]) -> str:
    """Return what to do about a kind that nothing serves in that version.

    ``coming`` are the resources that CRDs in the input bring.
    """
    brought = [one for one in coming if one.group_kind == gvk.group_kind]
    if brought:
        versions = " and ".join(sorted({one.gvk.api_version for one in brought}))
        return f"Its CustomResourceDefinition in the input serves {versions}."
    if (other := catalogue.find_kind(gvk.group_kind)) is not None:
        return f"The server serves {other.gvk.api_version}."
    of_name = sorted(
        (one for kind, one in catalogue.preferred.items() if kind.kind == gvk.kind),
        key=lambda one: one.gvk,
    )
    if of_name:
        served = " and ".join(one.gvk.api_version for one in of_name)
        return f"Did you mean {served}? There the server serves {gvk.kind}."
    if (like := _kind_like(gvk, catalogue)) is not None:
        return f"Did you mean {like.gvk}?"
    if "." not in gvk.group:
        return "Check the spelling: kinds in this group come with Kubernetes itself."
    return (
        "If it is a custom resource: add its CustomResourceDefinition to the input (it is applied, "
        "and served, before what needs it), or install it first."
    )


def _kind_like(gvk: GVK, catalogue: ResourceMap) -> Resource | None:
    """Return the resource whose kind is most like it; another group's only where its own is known.

    Kinds of a group that nobody knows are somebody's own: Traefik's IngressRoute is no Ingress.
    """
    groups = {kind.group for kind in catalogue.preferred}
    like = closest(gvk.group, groups - {""})
    own = ({like},) if like else ()
    for within in ({gvk.group}, groups) if gvk.group in groups else own:
        kinds = {
            kind.kind: one
            for kind, one in sorted(catalogue.preferred.items(), reverse=True)
            if kind.group in within
        }
        if found := closest(gvk.kind, kinds):
            return kinds[found]
    return None
