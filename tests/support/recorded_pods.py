"""What Pods of a kubelet write, as files in fixtures/pods: one for each kind of failure.

A file has the Pod (null if it is gone), the events, the reason that applyprune gives in ``says``,
and the owner if that is the object that is not ready.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from applyprune.model.identity import GVK, Ref
from applyprune.planning.readiness import Related, assess, with_pods_explained
from tests.support.planning import live

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = Path(__file__).parents[2] / "fixtures" / "pods"
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


def write(name: str, pod: Any, events: Sequence[Any], owner: Any = None) -> None:
    """Write what a real Pod has written, with the reason that applyprune gives now."""
    for body in (pod, owner, *events):
        if body is not None:
            body["metadata"].pop("managedFields", None)
    recorded: dict[str, Any] = {"pod": pod, "events": list(events)}
    if owner is not None:
        recorded["owner"] = owner
    recorded = json.loads(_without_this_machine(json.dumps(recorded)))
    recorded["says"] = reason(recorded)
    path = FOLDER / f"{name}.json"
    path.write_text(f"{json.dumps(recorded, indent=1, ensure_ascii=False)}\n", encoding="utf-8")


def _without_this_machine(text: str) -> str:
    """Return a text with an address for documentation in place of this machine's resolver."""
    for line in Path("/etc/resolv.conf").read_text(encoding="utf-8").splitlines():
        if line.startswith("nameserver "):
            text = text.replace(line.split()[1], "192.0.2.53")
    return text
