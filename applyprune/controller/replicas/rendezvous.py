"""Rendezvous hashing: decide which of the live replicas serves a Bundle.

Each replica gets a weight for each Bundle, and the highest weight wins. So a replica that comes
takes only what it wins, and what a replica that goes has served is spread over all others.
Replicas that see the same others decide the same, without a word between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from applyprune.controller.constants import Key
from applyprune.values import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Replica:
    """A replica of the controller."""

    name: str
    """Its name, which is the name of its Lease."""
    namespaces: tuple[str, ...] = ()
    """The namespaces whose Bundles it handles; empty for all namespaces."""

    def handles(self, namespace: str) -> bool:
        """Return whether it handles the Bundles of a namespace."""
        return not self.namespaces or namespace in self.namespaces


def server_of(key: Key, replicas: Iterable[Replica]) -> str:
    """Return the name of the replica that serves a Bundle; empty if none of them may."""
    able = (replica.name for replica in replicas if replica.handles(key[0]))
    return max(able, key=lambda name: (_weight(name, key), name), default="")


def _weight(name: str, key: Key) -> bytes:
    # A change of this moves almost every Bundle. None of these names can contain a slash.
    return blake2b(f"{name}/{key[0]}/{key[1]}".encode("utf-8", "replace"), digest_size=8).digest()
