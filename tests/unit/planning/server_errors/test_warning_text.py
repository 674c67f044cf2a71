"""The words of the server's warnings: where, what, for whom, and never a value of a Secret."""

from __future__ import annotations

import base64
from functools import partial
from typing import Any

import pytest

from applyprune.engine.context import ServerWarnings
from applyprune.model.identity import Ref
from applyprune.model.plan import Plan
from applyprune.planning.secrets import KnownSecrets
from applyprune.planning.server_errors import MOST_WARNINGS, known_secrets
from tests.support.objects import manifest
from tests.support.planning import live

REFS = [Ref("", "ConfigMap", "home", name) for name in ("a", "b", "c")]
EMPTY = Plan((), ())


def _told(warnings: ServerWarnings, plan: Plan = EMPTY) -> list[str]:
    return [str(event.problem) for event in warnings.events(plan)]


def test_same_warning_is_one_with_the_names_of_all_objects() -> None:
    """It is reported once per object, however often the object is sent."""
    warnings = ServerWarnings()
    for ref in (*reversed(REFS), *REFS):
        warnings.add(ref, "old")
    assert _told(warnings) == [f"{REFS[0]}: configmap/a: old: also for configmap/b, configmap/c"]
    warnings.add(REFS[1], "old")
    warnings.add(REFS[1], "new")
    assert _told(warnings) == [f"{REFS[1]}: configmap/b: new"]


def test_number_and_length_are_limited_and_control_characters_escaped() -> None:
    """The rest is counted."""
    warnings = ServerWarnings()
    warnings.add(REFS[0], f"\x1b[31m {'x' * 10_000}")
    (told,) = _told(warnings)
    assert "\\x1b[31m" in told
    assert len(told) < 500
    for number in range(2 * MOST_WARNINGS):
        warnings.add(REFS[0], f"number {number}")
    told_all = _told(warnings)
    assert len(told_all) == MOST_WARNINGS
    assert (
        told_all[-1]
        == f"the server has given {MOST_WARNINGS + 1} more warnings, which are not shown"
    )


def test_warning_about_a_secret_may_have_no_text() -> None:
    """It could hold a value."""
    warnings = ServerWarnings()
    warnings.add(REFS[1], "")
    (told,) = _told(warnings)
    assert "the text is not shown" in told


VALUE = "hunter2-" * 40
ENCODED = base64.b64encode(VALUE.encode()).decode()
SECRET: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
REF = Ref("", "Secret", "home", "s")


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(VALUE, marks=pytest.mark.holds("unselected-secret", "live-secret")),
        ENCODED,
        "x" * 4080 + VALUE,
        pytest.param("x" * 240 + VALUE[:16], marks=pytest.mark.holds("cut-secret-in-text")),
        "x" * 240 + ENCODED[:16].lower(),
        f"{VALUE[:20]}…; more",
    ],
)
def test_secrets_of_the_input_and_of_the_cluster_are_masked(shown: str) -> None:
    """Also what is not selected, or leaves the set; a text may be cut within a value."""
    unselected = manifest({**SECRET, "stringData": {"key": VALUE}})
    item = live(REF, full={"data": {"key": ENCODED}})
    for manifests, states in (((unselected,), ()), ((), (item,))):
        secrets = KnownSecrets(partial(known_secrets, manifests, states))
        told = secrets.masked(f"found {shown}")
        assert "(secret)" in told
        assert "hunter2" not in told
        assert ENCODED[:16].lower() not in told.lower()
