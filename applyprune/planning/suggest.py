"""Suggest what the user may have meant by an unknown name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from applyprune.model.identity import GVK
    from applyprune.model.live import Resource, ResourceMap
    from applyprune.planning.applyset import ApplySetIdentity

_CLOSE = 0.7
_CLOSE_SET = 0.6
"""Names of sets are short: three letters with one mistake must be similar."""


def closest(word: str, words: Iterable[str], cutoff: float = _CLOSE) -> str:
    """Return the most similar of ``words``; empty if none is similar.

    ``cutoff`` is how similar it must be, from 0 to 1.
    """
    by_lower = {known.lower(): known for known in words}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else ""


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return a suggestion as a question; empty if no word is similar."""
    found = closest(word, words)
    return f"Did you mean {found}?" if found else ""


def similar_sets(
    applyset: ApplySetIdentity, sets: Iterable[ApplySetIdentity]
) -> tuple[ApplySetIdentity, ...]:
    """Return the sets that may be meant by a new one: at most one of its namespace, and one other.

    That of another namespace may have the very same name.
    """
    here: dict[str, ApplySetIdentity] = {}
    elsewhere: dict[str, ApplySetIdentity] = {}
    for other in sets:
        (here if other.namespace == applyset.namespace else elsewhere)[other.name] = other
    here.pop(applyset.name, None)
    found = (group.get(closest(applyset.name, group, _CLOSE_SET)) for group in (here, elsewhere))
    return tuple(other for other in found if other is not None)


def advice_for_kind(gvk: GVK, catalogue: ResourceMap, coming: Iterable[Resource]) -> str:
    """Return what to do about a kind that the server does not serve in that version.

    ``coming`` are the resources that CRDs in the input define.
    """
    brought = [resource for resource in coming if resource.group_kind == gvk.group_kind]
    if brought:
        versions = " and ".join(sorted({resource.gvk.api_version for resource in brought}))
        return f"Its CustomResourceDefinition in the input serves {versions}."
    if (other := catalogue.find_kind(gvk.group_kind)) is not None:
        return f"The server serves {other.gvk.api_version}."
    of_name = sorted(
        (resource for kind, resource in catalogue.preferred.items() if kind.kind == gvk.kind),
        key=lambda resource: resource.gvk,
    )
    if of_name:
        served = " and ".join(resource.gvk.api_version for resource in of_name)
        return f"Did you mean {served}? The server serves {gvk.kind} there."
    if (like := _kind_like(gvk, catalogue)) is not None:
        return f"Did you mean {like.gvk}?"
    if "." not in gvk.group:
        return "Check the spelling: kinds in this group come with Kubernetes itself."
    return (
        "For a custom resource, add its CustomResourceDefinition to the input (it is applied "
        "first), or install it before."
    )


def _kind_like(gvk: GVK, catalogue: ResourceMap) -> Resource | None:
    """Return the resource with the most similar kind; of another group only if the group is known.

    A kind of an unknown group is probably a custom kind: Traefik's IngressRoute is not an Ingress.
    """
    groups = {kind.group for kind in catalogue.preferred}
    like = closest(gvk.group, groups - {""})
    own = ({like},) if like else ()
    for within in ({gvk.group}, groups) if gvk.group in groups else own:
        kinds = {
            kind.kind: resource
            for kind, resource in sorted(catalogue.preferred.items(), reverse=True)
            if kind.group in within
        }
        if found := closest(gvk.kind, kinds):
            return kinds[found]
    return None
