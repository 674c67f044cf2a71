"""What Pods of a kubelet write, and the one reason that it gives: a file for each kind of failure.

A file has the Pod (null if it is gone), the events, the reason in ``says``, and the owner if that
is the object that is not ready.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from applyprune.model.identity import GVK, Ref
from applyprune.planning.readiness import Related, assess, with_pods_explained
from tests.support.planning import live

FOLDER = Path(__file__).parents[3] / "fixtures" / "pods"
LONG = 60.0


def reason(recorded: dict[str, Any]) -> str:
    """Return why the object is not ready, as each command says it."""
    pod, body = recorded["pod"], recorded.get("owner") or recorded["pod"]
    kind = GVK.parse(body["apiVersion"], body["kind"]).group_kind
    metadata = body["metadata"]
    ref = Ref(kind.group, kind.kind, metadata["namespace"], metadata["name"])
    events: dict[str, list[Any]] = {}
    for event in recorded["events"]:
        events.setdefault(event["involvedObject"]["uid"], []).append(event)
    related = Related(pods=[pod] if pod else [], events=events)
    found = live(ref, uid=metadata["uid"], full=body)
    readiness = assess(body, waited=LONG)
    return with_pods_explained(readiness, found, related, manager="m", waited=LONG).message


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_recorded_pod_gives_its_one_reason(path: Path) -> None:
    recorded = json.loads(path.read_text(encoding="utf-8"))
    assert reason(recorded) == recorded["says"]
