"""A third party's 404 to one request of a run: from a webhook, an aggregated API, a proxy."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING

from tests.support.command import start
from tests.support.fault_proxy import faults
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.support.fault_proxy import Exchange, Fault, FaultProxy
    from tests.support.kill import Moment


class Answer(StrEnum):
    """Which 404 answers a request; the server has not processed it."""

    OWN = "own"
    """To a write, a webhook's about the object itself. No webhook sees a read: a text."""
    NAMESAKE = "namesake"
    """A Status about an object of the same name, but of another kind; or about no object."""


def fault_of(seen: Exchange, answer: Answer) -> Fault:
    """Return the reply to a request."""
    plural, name = _named(seen)
    if answer is Answer.NAMESAKE:
        if not name:
            return faults.status(404, "NotFound", _NO_KIND)
        plural = "endpoints" if plural != "endpoints" else "secrets"
    elif seen.method == "GET":
        return faults.text(404, "404 page not found\n")
    message = f'{plural} "{name}" not found'
    return faults.status(404, "NotFound", message, kind=plural, name=name)


_NO_KIND = "the server could not find the requested resource"


def _named(seen: Exchange) -> tuple[str, str]:
    """Return the plural and the name of the object of a request; no name for a list."""
    steps = seen.path.strip("/").split("/")
    # Without ``api/v1`` or ``apis/GROUP/VERSION``, and without the namespace.
    steps = steps[2:] if steps[0] == "api" else steps[3:]
    if steps[:1] == ["namespaces"] and len(steps) > 2:
        steps = steps[2:]
    plural, name = ([*steps, "", ""])[:2]
    if seen.method == "POST":
        # The name is in the body; a question about rights has none.
        name = json.loads(seen.body).get("metadata", {}).get("name", "")
    return plural, name


def is_write(seen: Exchange) -> bool:
    """Return whether a request changes something if the server processes it."""
    is_trial = "dryRun" in seen.query or b'"dryRun"' in seen.body
    is_question = seen.path.startswith("/apis/authorization.k8s.io/")
    return seen.method != "GET" and not is_trial and not is_question


def has_failed(spoiled: Exchange, requests: Sequence[Exchange]) -> bool:
    """Return whether a run of these ``requests`` must fail, because its write has failed.

    It may have repeated the write.
    """
    same = (seen for seen in requests if (seen.method, seen.path) == (spoiled.method, spoiled.path))
    done = [seen.number - spoiled.number for seen in same if seen.server_status in {200, 201}]
    is_repeated = any(place > 0 for place in done)
    return is_write(spoiled) and not is_repeated


def answer_404(
    proxy: FaultProxy,
    number: int,
    _moment: Moment,
    arguments: Sequence[str | Path],
    kubeconfig: Path,
    counts: Callable[[Exchange], bool] = lambda _: True,
) -> Exchange | None:
    """Run a command whose request of that number gets a third party's 404; return that request.

    None if there is no such request, or it does not count.
    """
    spoiled: list[Exchange] = []
    made = len(proxy.exchanges)

    def rule(seen: Exchange) -> Fault | None:
        if seen.number != made + number or not counts(seen):
            return None
        spoiled.append(seen)
        return fault_of(seen, Answer.OWN)

    proxy.rule = rule
    with start(*arguments, kubeconfig=kubeconfig) as running:
        out, err = running.communicate("", timeout=HANG)
    proxy.rule = lambda _seen: None
    assert "Traceback" not in err, err
    if not spoiled:
        return None
    if has_failed(spoiled[0], proxy.exchanges[made:]):
        assert running.returncode != 0, (spoiled, out)
    return spoiled[0]
