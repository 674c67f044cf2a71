"""Readiness in the words of kstatus, and what explains it: events, logs, owned objects."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.model.identity import Ref


class Status(StrEnum):
    """The states of kstatus (sigs.k8s.io/cli-utils); only Current and Failed end a wait."""

    IN_PROGRESS = "InProgress"
    CURRENT = "Current"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    NOT_FOUND = "NotFound"
    UNKNOWN = "Unknown"

    @property
    def text(self) -> str:
        """Return the state for text output: ``Ready`` for Current."""
        return "Ready" if self is Status.CURRENT else self.value


@dataclass(frozen=True, slots=True)
class Readiness:
    """The readiness of an object."""

    status: Status
    message: str
    """The reason for the status."""
    stuck: bool = False
    """Whether a problem holds it up that can pass, such as a quota; --fail-fast ends a wait."""
    warning: str = ""
    """What is wrong with an object that is ready nevertheless; empty if nothing is."""
    lasting_message: str = ""
    """The message without what changes while the reason stays; empty if the message has no such."""

    @property
    def fact(self) -> str:
        """Return the message without what changes while the reason stays the same."""
        return self.lasting_message or self.message


def in_progress(message: str) -> Readiness:
    """Return the readiness of an object that is not ready yet."""
    return Readiness(Status.IN_PROGRESS, message)


def stuck(message: str) -> Readiness:
    """Return the readiness of an object that a problem holds up, which can pass."""
    return Readiness(Status.IN_PROGRESS, message, stuck=True)


def current(message: str, *, warning: str = "") -> Readiness:
    """Return the readiness of an object that matches its spec."""
    return Readiness(Status.CURRENT, message, warning=warning)


def failed(message: str) -> Readiness:
    """Return the readiness of an object that will not become ready without a change."""
    return Readiness(Status.FAILED, message)


@dataclass(frozen=True, slots=True)
class WarningEvent:
    """A Warning event about an object, its ReplicaSets or its Pods; equal ones are counted."""

    about: str
    """The object, as ``kind/name``; the newest one of several."""
    reason: str
    message: str
    count: int
    last: str
    """The time of the newest one, RFC 3339; empty if unknown."""

    @property
    def text(self) -> str:
        """Return ``Reason: message``, and how often it came."""
        times = f" (×{self.count})" if self.count > 1 else ""
        return f"{self.reason}: {self.message}{times}"


@dataclass(frozen=True, slots=True)
class ContainerLog:
    """The last lines that a container of a Pod has written; control characters are escaped."""

    pod: Ref
    container: str
    previous: bool
    """Whether they are of the instance that ran before the present one."""
    lines: tuple[str, ...]
    problem: str = ""
    """Why they could not be read; empty if they could."""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """An object and what it owns, by ownerReferences; the columns are those of kubectl."""

    ref: Ref
    ready: str
    """How many of its containers or Pods are ready, ``1/2``; empty if it has none."""
    state: str
    """Its STATUS."""
    restarts: int | None
    """How often its containers were restarted; None if it has none."""
    age: float | None
    """Seconds since its creation; None if unknown."""
    owned: tuple[TreeNode, ...] = ()
    """What it owns."""
