"""A client for many short runs: it remembers for a while what rarely changes.

Nothing that it remembers proves anything. A list of kinds may be outdated; a right may have been
granted since; the schemas are those of the API server's own kinds, which change only with it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from applyprune.clock import CLOCK, Clock
from applyprune.cluster.client import KubernetesClient
from applyprune.errors import Forbidden
from applyprune.planning.order import is_built_in
from applyprune.values import dataclass, field, replace

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.cluster.transport.transport import Transport
    from applyprune.model.live import LiveObject
    from applyprune.model.resources import Resource, ResourceMap

KINDS_LAST = 60.0
"""Seconds for which kinds and schemas are remembered."""
_REFUSAL_LASTS = 300.0
"""Seconds for which it is remembered that an account may not list a kind in the whole cluster."""


@dataclass(slots=True)
class Memory:
    """What the clients of one process remember of one API server; thread-safe."""

    kinds: tuple[float, ResourceMap] | None = None
    schemas: dict[tuple[str, str], tuple[float, Mapping[str, Any]]] = field(default_factory=dict)
    """The schemas of group versions, each with the time of the read."""
    clock: Clock = CLOCK

    def is_fresh(self, asked: float) -> bool:
        """Return whether what was read at that time still counts."""
        return self.clock.now() - asked < KINDS_LAST

    def forget_kinds(self) -> None:
        """Forget the kinds and their schemas: something has failed, perhaps for that reason."""
        self.kinds = None
        self.schemas.clear()


class RememberingClient(KubernetesClient):
    """A client that shares a memory with others, each for one user; thread-safe."""

    def __init__(
        self,
        transport: Transport,
        server: str,
        *,
        cache: Path | None,
        user: str = "",
        registry: KubernetesClient | None = None,
        memory: Memory | None = None,
    ) -> None:
        """Keep the memory; ``user`` is the one that the transport impersonates."""
        super().__init__(transport, server, cache=cache, registry=registry)
        self._user = user
        self.memory = memory if memory is not None else Memory()
        """What it shares with other clients."""

    def as_user(self, user: str) -> RememberingClient:
        """Return a client for another user, over the same connections and with the same memory.

        The CRDs and APIServices are read as the user of this one.
        """
        return RememberingClient(
            self._transport.as_user(user),
            self.server,
            cache=self._cache,
            user=user,
            registry=self,
            memory=self.memory,
        )

    def resource_map(self, *, remembered: bool = False) -> ResourceMap:
        """Return what the server serves now; if ``remembered``, at most a minute ago."""
        kept = self.memory.kinds
        if remembered and kept is not None and self.memory.is_fresh(kept[0]):
            return kept[1]
        asked = self.memory.clock.now()
        found = super().resource_map()
        self.memory.kinds = asked, replace(found, remembered=True)
        return found

    def schemas(self, resource: Resource) -> Mapping[str, Any]:
        """Return the schemas of a group version; those of built-in kinds may be remembered."""
        if not is_built_in(resource.group):
            return super().schemas(resource)
        memory, key = self.memory.schemas, (resource.group, resource.version)
        kept = memory.get(key)
        if kept is not None and self.memory.is_fresh(kept[0]):
            return kept[1]
        asked = self.memory.clock.now()
        found = super().schemas(resource)
        memory[key] = asked, found
        return found

    def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        full: bool = False,
        page: int | None = None,
        timeout: float | None = None,
        remembered: bool = False,
    ) -> Sequence[LiveObject]:
        """Return what ``KubernetesClient.list`` returns.

        With ``remembered``, a refusal for the whole cluster counts for some minutes.
        """
        refusal = None
        # guard: search-asks-again
        if remembered and resource.namespaced and not namespace:
            refusal = self._refusal(resource)
        if refusal is not None and (message := _text_of(refusal)):
            raise Forbidden(message, code=403)
        try:
            return super().list(
                resource,
                namespace=namespace,
                selector=selector,
                full=full,
                page=page,
                timeout=timeout,
            )
        except Forbidden as error:
            if refusal is not None:
                _write(refusal, error.message)
            raise

    def _refusal(self, resource: Resource) -> Path | None:
        """Return the file with the refusal of a list; all processes that share the cache see it."""
        if self._cache is None:
            return None
        which = f"{self.server}\n{self._user}\n{resource.full_plural}"
        return self._cache / "refused" / hashlib.sha256(which.encode()).hexdigest()


def _text_of(refusal: Path) -> str:
    """Return why a list was refused; empty if it was not lately."""
    try:
        age = time.time() - refusal.stat().st_mtime
        return refusal.read_text() if 0 <= age < _REFUSAL_LASTS else ""
    except (OSError, ValueError):
        return ""


def _write(refusal: Path, message: str) -> None:
    # Without it, only a request is lost.
    with suppress(OSError):
        refusal.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        refusal.write_text(message)
