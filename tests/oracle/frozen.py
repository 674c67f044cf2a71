"""The frozen planner, and values of today as its own."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import cache
from types import MappingProxyType, ModuleType
from typing import Any

import msgspec

from tests.oracle.freeze import ARCHIVE, NAME

_TODAY = "applyprune"
_MOVED = {"planning.world": "planning.recovery"}
NARROWED = {"pruned_autoscalers"}
"""Fields of values that are gone, each with a row of house.md §5."""


def module(name: str) -> ModuleType:
    """Return a module of the frozen planner, such as ``planning.plan``."""
    if str(ARCHIVE) not in sys.path:
        sys.path.append(str(ARCHIVE))
    return importlib.import_module(f"{NAME}.{name}")


def frozen(value: Any) -> Any:
    """Return the same value made of the classes of the frozen planner."""
    if isinstance(value, Enum):
        return _twin(type(value))[value.name]
    if isinstance(value, msgspec.Struct):
        twin = _twin(type(value))
        # What is new has no twin.
        known = set(value.__struct_fields__) & set(twin.__struct_fields__)
        parts = {name: getattr(value, name) for name in known}
        return twin(
            **{name: frozen(part) for name, part in parts.items() if part is not msgspec.UNSET}
        )
    if isinstance(value, Mapping):
        found = {frozen(key): frozen(part) for key, part in value.items()}
        return MappingProxyType(found) if isinstance(value, MappingProxyType) else found
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _twin(type(value))(*map(frozen, value))
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(map(frozen, value))
    return value


@cache
def _twin(kind: type) -> Any:
    home = kind.__module__.removeprefix(f"{_TODAY}.")
    home = _MOVED.get(home, home)
    return getattr(module(home), kind.__qualname__)


def plain(value: Any) -> Any:
    """Return a value as plain data with the names of its classes, which both planners share."""
    if type(value).__name__ == "Recreate":
        return bool(value)  # narrowed: whether it is allowed
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, msgspec.Struct):
        if type(value).__name__ == "Packed":
            kept: Any = value
            return kept.value  # of either planner
        names = set(value.__struct_fields__) - NARROWED
        return {"": type(value).__name__, **{name: plain(getattr(value, name)) for name in names}}
    if isinstance(value, Mapping):
        return {repr(plain(key)): plain(part) for key, part in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(map(repr, map(plain, value)))
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value
