"""Numbers of objects in words: ``1 Pod``, ``2 Ingresses``, ``3 NetworkPolicies``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from applyprune.model.identity import Ref

_VOWELS = "aeiou"


def counted(kind: str, number: int) -> str:
    """Return a number and a kind, in the plural unless the number is 1."""
    return f"{number} {kind if number == 1 else plural(kind)}"


def plural(kind: str) -> str:
    """Return the plural of a kind by the rules of English."""
    if kind.endswith(("s", "x", "ch", "sh")):
        return f"{kind}es"
    if kind.endswith("y") and kind[-2:-1] not in _VOWELS:
        return f"{kind[:-1]}ies"
    return f"{kind}s"


def by_kind(refs: Iterable[Ref]) -> str:
    """Return how many objects of each kind there are, most first: ``12 Pods, 1 ReplicaSet``."""
    numbers = Counter(ref.kind for ref in refs)
    ordered = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(counted(kind, number) for kind, number in ordered)
