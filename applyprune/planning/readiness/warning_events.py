"""Read the events about an object: its last warnings, and whether the server rejects its Pods."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from applyprune.model.events import WarningEvent
from applyprune.model.identity import Ref
from applyprune.model.live import count, mapping, one_line, text
from applyprune.model.text import visible
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

if TYPE_CHECKING:
    Events = Sequence[Mapping[str, Any]]

GRACE = 15.0
"""Seconds before a reason that is often temporary counts as final; as kstatus for scheduling."""

_SHOWN = 3
# The wording of the API server and its admission plugins (1.36).
_REFUSED = ("forbidden", "exceeded quota", "is invalid:")
_DENIED = ("admission webhook", "ValidatingAdmissionPolicy")
# Temporary rejections: the service account controller creates `default` shortly after a Namespace,
# the quota controller must count first, and a rollout frees quota when it removes old Pods.
_PASSING = (
    "exceeded quota",
    "status unknown for quota",
    "error looking up service account",
    "no API token found for service account",
    "not yet ready to handle request",
)
# The length of an RFC 3339 time up to its seconds.
_SECONDS = 19
_FAILED_CREATE = "FailedCreate"
_CREATED = "SuccessfulCreate"


def is_refusal(message: str, *, waited: float = math.inf) -> bool:
    """Return whether a message is a permanent rejection by the API server.

    These are quota, Pod Security and other admission, and webhooks that deny. A webhook that cannot
    be called is not a rejection. A rejection that is often temporary counts after 15 seconds.
    """
    refused = any(words in message for words in _REFUSED) or is_denial(message)
    return refused and (waited > GRACE or not any(words in message for words in _PASSING))


def is_denial(message: str) -> bool:
    """Return whether a message is the denial of an admission webhook or policy."""
    return "denied" in message and any(words in message for words in _DENIED)


def last_warnings(events: Events) -> tuple[WarningEvent, ...]:
    """Return the newest Warning events, at most three; equal ones of several Pods are one.

    ``events`` are those of an object, or of an object and its Pods.
    """
    found: dict[tuple[str, str], WarningEvent] = {}
    for event in _newest_first(events):
        if event.get("type") != "Warning":
            continue
        key = (visible(text(event, "reason")) or "Warning", one_line(_message(event)))
        fresh = WarningEvent(_about(event), *key, _times(event), _time(event))
        last = found.get(key)
        found[key] = replace(last, count=last.count + fresh.count) if last else fresh
    return tuple(found.values())[:_SHOWN]


def _about(event: Mapping[str, Any]) -> str:
    subject = mapping(event.get("involvedObject")) or mapping(event.get("regarding"))
    group = text(subject, "apiVersion").rpartition("/")[0]
    return Ref(group, text(subject, "kind"), "", text(subject, "name")).short


def refused_creation(events: Events, *, waited: float = math.inf, since: str = "") -> str:
    """Return the server's message if the newest creation of a Pod was rejected, else "".

    StatefulSets, DaemonSets and Jobs have no condition for this, only FailedCreate events. Those
    from before ``since``, the RFC 3339 time of the last apply, are about what it may have repaired.
    """
    for event in _newest_first(events):
        if _time(event)[:_SECONDS] < since[:_SECONDS]:
            return ""
        if event.get("reason") == _CREATED:
            return ""
        if event.get("reason") == _FAILED_CREATE:
            message = one_line(_message(event))
            return message if is_refusal(message, waited=waited) else ""
    return ""


def _newest_first(events: Events) -> Events:
    # Times are RFC 3339 in UTC, some with microseconds: truncated to seconds, they compare as text.
    # Of two events in the same second, the later event in the list counts as newer.
    placed = sorted(
        enumerate(events),
        key=lambda indexed: (_time(indexed[1])[:_SECONDS], indexed[0]),
        reverse=True,
    )
    return [event for _, event in placed]


def _time(event: Mapping[str, Any]) -> str:
    return max(
        text(event, "series", "lastObservedTime"),
        text(event, "lastTimestamp"),
        text(event, "deprecatedLastTimestamp"),
        text(event, "eventTime"),
    ) or text(event, "metadata", "creationTimestamp")


def _message(event: Mapping[str, Any]) -> str:
    # events.k8s.io/v1 has `note` instead of `message`.
    return text(event, "message") or text(event, "note")


def _times(event: Mapping[str, Any]) -> int:
    return max(
        count(event, "count"), count(event, "deprecatedCount"), count(event, "series", "count"), 1
    )
