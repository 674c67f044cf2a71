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

from applyprune.model.plan import ApplyStep, RemoveStep, Why
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


def _by_field(step: Any) -> dict[str, Any]:
    """Return the fields that said of a step of the frozen planner what its ``why`` says."""
    kept = f"Kept.{step.why.name}" if step.why in {Why.ADOPTED, Why.MARKED, Why.SHARED} else None
    left = {"is_left_alone": step.why is Why.LEFT_ALONE}
    if isinstance(step, RemoveStep):
        lacks, used = step.why is Why.NO_RIGHT_TO_COUNT, step.why is Why.IN_USE
        return {**left, "kept": kept, "lacks_rights": lacks, "in_use": used}
    return {
        **left,
        "is_unread": step.why is Why.UNREAD,
        "is_contended": step.why is Why.CONFLICT_SKIPPED,
        "awaits_approval": step.why is Why.NOT_APPROVED,
        "keeps_drift": step.keeps_drift,
    }


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
        names = set(value.__struct_fields__) - NARROWED - {"why"}
        said = _by_field(value) if type(value) in {ApplyStep, RemoveStep} else {}
        known = {name: plain(getattr(value, name)) for name in names}
        return {"": type(value).__name__, **known, **said}
    if isinstance(value, Mapping):
        return {repr(plain(key)): plain(part) for key, part in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(map(repr, map(plain, value)))
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value
