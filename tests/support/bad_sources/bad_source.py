"""What a source that becomes bad is: how it is good, how it is bad, and what its Bundle says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.remote_bundles import file_of

if TYPE_CHECKING:
    from tests.support.bad_sources.servers import BadServers

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BadSource:
    """One source. Its Bundle applies two ConfigMaps while it is good."""

    reason: str
    """The reason of the condition Ready when it is bad."""
    says: str
    """A part of the message."""
    begin: Callable[[BadServers, str], Body]
    """Publishes it under the name of its Bundle; returns the source of the Bundle."""
    spoil: Callable[[BadServers, str], object]
    """Makes it bad; what can still be read would prune one of the ConfigMaps."""
    spec: Body = field(default_factory=dict)
    """More fields of the Bundle's spec."""
    keeps: bool = True
    """Whether the message says which revision stays applied."""


def both(name: str) -> Mapping[str, bytes]:
    """Return the files of a good source: two ConfigMaps, named after the Bundle."""
    files = {"a": file_of(f"{name}-a"), "b": file_of(f"{name}-b")}
    return {f"{file}.yaml": data.encode() for file, data in files.items()}


def one(name: str) -> Mapping[str, bytes]:
    """Return the only file of a source without one of them, and with another value."""
    return {"a.yaml": file_of(f"{name}-a", value="2").encode()}
