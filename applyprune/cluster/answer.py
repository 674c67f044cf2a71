"""A response as received, and the Status that its body may hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class RawResponse:
    """A response as received; ``body`` is None when the bytes are not a JSON object."""

    status: int
    headers: Mapping[str, str]
    raw: bytes
    body: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class StatusBody:
    """The parts of a Status that decide what it means; all empty when the body is not a Status."""

    is_status: bool = False
    reason: str = ""
    message: str = ""
    name: str = ""
    group: str = ""
    kind: str = ""
    causes: tuple[dict[str, str], ...] = ()
    retry_after: float | None = None

    @classmethod
    def of(cls, response: RawResponse) -> StatusBody:
        """Read the body of a response; only its shape is checked, nothing in it is trusted."""
        body = response.body
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
