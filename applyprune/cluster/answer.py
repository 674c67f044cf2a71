"""What came back from a server, and the Status that its body may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: ``status`` and ``headers``, the bytes and, where they are one, the object."""

    status: int
    headers: Mapping[str, str]
    raw: bytes
    body: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class StatusBody:
    """The parts of a Status body that decide; all empty when the body is no Status."""

    is_status: bool = False
    reason: str = ""
    message: str = ""
    name: str = ""
    group: str = ""
    kind: str = ""
    causes: tuple[dict[str, str], ...] = ()
    retry_after: float | None = None

    @classmethod
    def of(cls, answer: Answer) -> StatusBody:
        """Read the body of an answer; nothing in it is taken on trust but its shape."""
        body = answer.body
        if body is None or body.get("kind") != "Status" or body.get("apiVersion") != "v1":
            return cls()
        details = body.get("details")
        details = details if isinstance(details, dict) else {}
        causes = details.get("causes")
        seconds = details.get("retryAfterSeconds")
        return cls(
            is_status=True,
            reason=_text(body, "reason"),
            message=_text(body, "message"),
            name=_text(details, "name"),
            group=_text(details, "group"),
            kind=_text(details, "kind"),
            causes=tuple(
                {key: _text(cause, key) for key in ("reason", "field", "message")}
                for cause in (causes if isinstance(causes, list) else [])
                if isinstance(cause, dict)
            ),
            retry_after=float(seconds) if isinstance(seconds, int) and seconds > 0 else None,
        )


def _text(mapping: Mapping[str, Any], key: str) -> str:
    value = mapping.get(key)
    return value if isinstance(value, str) else ""
