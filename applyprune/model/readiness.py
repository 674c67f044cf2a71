"""How far an object has come since it was applied, in the words of kstatus."""

from dataclasses import dataclass
from enum import StrEnum


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
        """Return the state as text says it: ``Ready`` for Current."""
        return "Ready" if self is Status.CURRENT else self.value


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is known of one object: its state, and in ``message`` why that is its state."""

    status: Status
    message: str


def in_progress(message: str) -> Readiness:
    """Return that the object is on its way."""
    return Readiness(Status.IN_PROGRESS, message)


def current(message: str) -> Readiness:
    """Return that the object is as its specification says."""
    return Readiness(Status.CURRENT, message)


def failed(message: str) -> Readiness:
    """Return that the object will not become what its specification says by itself."""
    return Readiness(Status.FAILED, message)
