"""What a value holds in memory, by the garbage collector."""

from __future__ import annotations

import gc

from applyprune.values import Packed


def held(value: object) -> list[type]:
    """Return the types of what a value holds itself, and in its packed fields."""
    found = gc.get_referents(value)
    inside = [two for one in found if isinstance(one, Packed) for two in gc.get_referents(one)]
    return [type(one) for one in (*found, *inside) if not isinstance(one, type)]
