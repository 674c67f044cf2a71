"""A Bundle as a reconcile has left it: the next one need not read it if nothing has changed since.

That nothing has changed is what a watch says, and a watch may be late. So a reconcile of such a
Bundle only looks: its first write ends it, and it begins again with everything read.
"""

from __future__ import annotations

import json
import zlib

from applyprune.controller.bundle_client import bundle_ref
from applyprune.controller.constants import Key
from applyprune.model.live import LiveObject
from applyprune.values import dataclass, field

_LARGEST = 16 * 1024
_UNUSED = frozenset({"managedFields"})


class MustReadAgain(Exception):
    """A reconcile that only looks has found something to do."""


class OnlyLooks:
    """The lease of a reconcile that must not write: it refuses every write."""

    def ensure(self) -> None:
        """Refuse to write."""
        raise MustReadAgain

    def left(self) -> float:
        """Return that nothing may be sent."""
        return 0.0


@dataclass(frozen=True, slots=True)
class KnownBundle:
    """A Bundle in one resourceVersion, packed: the main process keeps thousands."""

    version: str
    packed: bytes = field(repr=False)

    def unpack(self, key: Key) -> LiveObject:
        """Return the Bundle as it was read."""
        body = json.loads(zlib.decompress(self.packed))
        metadata = body["metadata"]
        return LiveObject.of(bundle_ref(key), metadata["uid"], self.version, metadata, body)


def known_bundle(live: LiveObject) -> KnownBundle | None:
    """Return a Bundle packed; None if it is large: then it is read each time."""
    body = live.body or {}
    kept = {key: value for key, value in body["metadata"].items() if key not in _UNUSED}
    packed = zlib.compress(json.dumps({**body, "metadata": kept}).encode(), 1)
    return KnownBundle(live.resource_version, packed) if len(packed) <= _LARGEST else None
