"""What each kind of step writes: method, path, query and body, as golden files.

``pytest --snapshot-update`` writes them; look at the difference before you commit it. Writes of one
object stand in their order, and the objects in the order of their paths: threads send them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.golden import FIXTURES
from tests.support.renewals import without_renewals
from tests.support.stage import Stage
from tests.support.steps import SCENARIOS, other_set

_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CHANGING = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
    (re.compile(r"resourceVersion=\d+"), "resourceVersion=VERSION"),
    (re.compile(r"\ba-[0-9a-f]{8}\b"), "a-TRIAL"),
)


def _written(exchanges: Sequence[Exchange], stage: Stage) -> str:
    """Return the writes of a run, without what differs between two runs."""
    numbers, uids = count(1), dict[str, str]()

    def named(text: str) -> str:
        text = text.replace(stage.namespace, "home")
        for set_ in (stage, other_set(stage)):
            text = text.replace(set_.target.id, f"ID-OF-{set_.name}")
        for uid in _UID.findall(text):
            uids.setdefault(uid, f"UID-{next(numbers)}")
            text = text.replace(uid, uids[uid])
        for pattern, word in _CHANGING:
            text = pattern.sub(word, text)
        return text

    def lines(one: Exchange) -> Iterator[str]:
        yield f"{one.method} {named(one.target)}"
        if "/configmaps/applyprune-" in one.target or b'"name":"applyprune-' in one.body:
            yield "  (an inventory)"
        elif one.body:
            body = _without_versions(json.loads(one.body))
            yield from (f"  {line}" for line in named(json.dumps(body, indent=1)).splitlines())

    sent = [one for one in without_renewals(exchanges) if one.method != "GET"]
    ordered = sorted(sent, key=lambda one: (one.path, one.number))
    return "".join(f"{line}\n" for one in ordered for line in lines(one))


def _without_versions(body: Any) -> Any:
    """Return a body whose resourceVersions say only that there is one."""
    if isinstance(body, list):
        return [_without_versions(one) for one in body]
    if not isinstance(body, dict):
        return body
    found = {key: _without_versions(value) for key, value in sorted(body.items())}
    if found.get("path") == "/metadata/resourceVersion":
        found["value"] = "VERSION"
    return {key: "VERSION" if key == "resourceVersion" else value for key, value in found.items()}


@pytest.mark.parametrize("name", SCENARIOS)
def test_written_requests_match_their_golden_file(
    spoiled: Stage, api: Api, proxy: FaultProxy, golden: SnapshotAssertion, name: str
) -> None:
    """A step writes exactly this."""
    *before, last = SCENARIOS[name]
    for step in before:
        step(spoiled, api)
    start = len(proxy.exchanges)
    last(spoiled, api)
    written = _written(proxy.exchanges[start:], spoiled)
    assert written
    assert written == golden(name=f"requests/{name}.txt")


def test_no_golden_file_is_left_over() -> None:
    """A golden file that no test writes would never change."""
    assert {path.stem for path in (FIXTURES / "requests").iterdir()} == set(SCENARIOS)
