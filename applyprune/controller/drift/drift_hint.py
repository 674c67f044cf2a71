"""Tell from an object's metadata whether somebody else may have changed what a set has applied.

It is a hint: the reconcile that follows reads the object and decides. A write of the status alone
is none where the kind counts generations, and neither is a write of the set itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.planning.ownership.owner import fingerprint_of
from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.model.inventory import ApplyFingerprint
    from applyprune.model.live import LiveObject

_SHORT = 16


@dataclass(frozen=True, slots=True)
class Mark:
    """A state of one object, as far as its metadata shows a change of the set's fields."""

    version: str = ""
    """Its resourceVersion; empty if it is not known."""
    generation: int | None = None
    """None if its kind does not count generations."""
    own: str = ""
    """The digest and the time of the set's Apply entry; empty if it has none."""
    exists: bool = True

    @classmethod
    def of(cls, live: LiveObject, manager: str) -> Mark:
        """Return the mark of an object for the set with this field manager."""
        found = fingerprint_of(live, manager, None)
        if found is None:
            return cls(live.resource_version, live.generation)
        return cls.applied(found)

    @classmethod
    def applied(cls, fingerprint: ApplyFingerprint) -> Mark:
        """Return the mark of an object as an apply has left it."""
        own = f"{fingerprint.managed_fields[:_SHORT]} {fingerprint.time}"
        return cls(fingerprint.resource_version, fingerprint.generation, own)


GONE = Mark(exists=False)


def may_have_drifted(known: Mark, seen: Mark) -> bool:
    """Return whether somebody else may have changed an object.

    ``known`` is how the last reconcile has left it, and ``seen`` what a watch shows, which may be
    behind.
    """
    if known.version == seen.version or _is_older(seen.version, known.version):
        return False
    if not (known.exists and seen.exists):
        return known.exists or seen.exists
    # The Apply entry shows paths, not values: another value, or another order, may leave it as is.
    is_counted = seen.generation is not None and seen.generation == known.generation
    return not (is_counted and seen.own == known.own)


def _is_older(version: str, than: str) -> bool:
    """Return whether a resourceVersion is older: they are numbers, whatever their size."""
    both = version.isascii() and version.isdecimal() and than.isascii() and than.isdecimal()
    return both and int(version) < int(than)
