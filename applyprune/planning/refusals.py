"""What the events and conditions of a workload tell: above all, that its Pods are refused."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from applyprune.model.json_access import count, one_line, text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Events = Sequence[Mapping[str, Any]]

GRACE = 15.0
"""Seconds for which a reason that often passes is not taken for final: kstatus's for scheduling."""

_SHOWN = 3
# In the words of the API server and its admission plugins (1.36).
_REFUSED = ("forbidden", "exceeded quota", "is invalid:")
_DENIED = ("admission webhook", "ValidatingAdmissionPolicy")
# Refusals that pass: the service account controller makes `default` shortly after a Namespace, the
# quota controller first counts, and a rollout frees quota as it takes old Pods away.
_PASSING = (
    "exceeded quota",
    "status unknown for quota",
    "error looking up service account",
    "no API token found for service account",
    "not yet ready to handle request",
)
_FAILED_CREATE = "FailedCreate"
_CREATED = "SuccessfulCreate"


def is_refusal(message: str, *, waited: float = math.inf) -> bool:
    """Return whether the message is a refusal of the API server that will not pass by itself.

    Quota, Pod Security and other admission, and webhooks that deny; a webhook that cannot be
    called is none. What often passes counts once it has lasted 15 seconds.
    """
    refused = any(words in message for words in _REFUSED) or is_denial(message)
    return refused and (waited > GRACE or not any(words in message for words in _PASSING))


def is_denial(message: str) -> bool:
    """Return whether the message is an admission webhook's or policy's refusal."""
    return "denied" in message and any(words in message for words in _DENIED)


def events_problem(events: Events) -> str:
    """Return the newest Warning events, at most three: ``Reason: message``, and how often, a line.

    They are those of an object, or of it and its Pods.
    """
    lines: dict[str, int] = {}
    for event in _newest_first(events):
        if event.get("type") == "Warning":
            line = f"{text(event, 'reason') or 'Warning'}: {one_line(_message(event))}"
            # One line for what several Pods of a workload tell alike.
            lines[line] = lines.get(line, 0) + _times(event)
    return "\n".join(
        f"{line} (×{times})" if times > 1 else line for line, times in list(lines.items())[:_SHOWN]
    )


def refused_creation(events: Events, *, waited: float = math.inf) -> str:
    """Return the server's words where the newest attempt at a Pod was refused, else nothing.

    StatefulSets, DaemonSets and Jobs have no condition for it, only FailedCreate events.
    """
    for event in _newest_first(events):
        if event.get("reason") == _CREATED:
            return ""
        if event.get("reason") == _FAILED_CREATE:
            message = one_line(_message(event))
            return message if is_refusal(message, waited=waited) else ""
    return ""


def _newest_first(events: Events) -> Events:
    # Times are RFC 3339 in UTC, some with microseconds: cut to seconds they compare as text. Of
    # two in one second the later in the list is taken for the newer.
    placed = sorted(enumerate(events), key=lambda one: (_time(one[1])[:19], one[0]), reverse=True)
    return [event for _, event in placed]


def _time(event: Mapping[str, Any]) -> str:
    return max(
        text(event, "series", "lastObservedTime"),
        text(event, "lastTimestamp"),
        text(event, "deprecatedLastTimestamp"),
        text(event, "eventTime"),
    ) or text(event, "metadata", "creationTimestamp")


def _message(event: Mapping[str, Any]) -> str:
    # `note` is what events.k8s.io/v1 calls it.
    return text(event, "message") or text(event, "note")


def _times(event: Mapping[str, Any]) -> int:
    return max(
        count(event, "count"), count(event, "deprecatedCount"), count(event, "series", "count"), 1
    )
