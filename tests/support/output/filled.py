"""Build any value of the model from the types of its fields, with the same text everywhere."""

from __future__ import annotations

import enum
import types
import typing
from collections import abc
from collections.abc import Sequence
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import applyprune.model
from applyprune.model.events import Event

EVENTS: tuple[type[Event], ...] = typing.get_args(Event)


def _names() -> dict[str, Any]:
    """Return everything that a module of the model defines, to resolve types named in text."""
    found: dict[str, Any] = {"Mapping": abc.Mapping, "Sequence": abc.Sequence, "Any": Any}
    for module in walk_packages(applyprune.model.__path__, "applyprune.model."):
        found |= vars(import_module(module.name))
    return found


_NAMES = _names()


def filled(kind: Any, text: str, *, optional: bool = True) -> Any:
    """Return a value of a type; optional fields are None only if ``optional`` is off."""
    if kind is str or kind is Any:
        return text
    if kind in {bool, int, float}:
        return kind(1)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind))
    if isinstance(kind, type) and (fields := _fields(kind)):
        hints = typing.get_type_hints(kind, {**_NAMES, **vars(import_module(kind.__module__))})
        return kind(
            **{
                # A tree ends here.
                name: ()
                if typing.get_origin(hints[name]) is tuple and kind in typing.get_args(hints[name])
                else filled(hints[name], text, optional=optional)
                for name in fields
            }
        )
    return _held(kind, text, optional=optional)


def _fields(kind: type) -> Sequence[str]:
    """Return what a Struct or a named tuple is built from; empty for any other type."""
    return getattr(kind, "__struct_fields__", ()) or getattr(kind, "_fields", ())


def _held(kind: Any, text: str, *, optional: bool) -> Any:
    """Return a value of a generic type."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in {typing.Union, types.UnionType}:
        rest = [one for one in inner if one is not type(None)]
        some = optional or len(rest) == len(inner)
        return filled(rest[0], text, optional=optional) if some else None
    if origin in {abc.Mapping, dict}:
        return {filled(inner[0], text): filled(inner[1], text, optional=optional)}
    items = [filled(one, text, optional=optional) for one in inner if one is not Ellipsis]
    if origin in {tuple, abc.Sequence}:
        return tuple(items)
    if origin in {list, frozenset}:
        return origin(items)
    raise TypeError(f"no value of {kind}")
