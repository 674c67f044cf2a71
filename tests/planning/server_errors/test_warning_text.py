"""The words of the server's warnings: where, what, for whom, and never a value of a Secret."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.engine.context import ServerWarnings
from applyprune.model.identity import Ref
from applyprune.model.plan import ApplyStep, Fate, Plan
from applyprune.planning.recovery import ClusterSnapshot
from applyprune.planning.server_errors import MOST_WARNINGS
from tests.support.objects import manifest
from tests.support.planning import SECRETS, body, desired, live, recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.model.problem import Manifest

REFS = [Ref("", "ConfigMap", "home", name) for name in ("a", "b", "c")]
EMPTY = Plan((), ())
NOTHING = ClusterSnapshot({})


def _told(
    warnings: ServerWarnings,
    plan: Plan = EMPTY,
    snapshot: ClusterSnapshot = NOTHING,
    manifests: Sequence[Manifest] = (),
) -> list[str]:
    return [str(event.problem) for event in warnings.events(plan, snapshot, manifests)]


def test_same_warning_is_one_with_the_names_of_all_objects() -> None:
    """It is reported once per object, however often the object is sent."""
    warnings = ServerWarnings()
    for ref in (*reversed(REFS), *REFS):
        warnings.add(ref, "old")
    assert _told(warnings) == [
        f"{REFS[0]}: configmap/a: old: also for configmap/b, configmap/c",
    ]
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


def test_values_of_the_sets_secrets_are_masked_in_every_warning() -> None:
    """Plain, encoded, or a single line; a Secret's own warning may be empty."""
    encoded = base64.b64encode(b"first line\nhunter2-unique").decode()
    secret = body("Secret", "s", data={"key": encoded})
    one = desired(secret, SECRETS)
    plan = Plan((ApplyStep(one, Fate.CREATE, recorded(one, live(one.ref))),), ())
    warnings = ServerWarnings()
    warnings.add(REFS[0], f"found hunter2-unique and {encoded}")
    assert _told(warnings, plan) == [f"{REFS[0]}: configmap/a: found (secret) and (secret)"]
    warnings.add(REFS[1], "")
    (told,) = _told(warnings, plan)
    assert "the text is not shown" in told


VALUE = "hunter2-" * 40
ENCODED = base64.b64encode(VALUE.encode()).decode()
SECRET: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
REF = Ref("", "Secret", "home", "s")


@pytest.mark.parametrize("shown", [VALUE, ENCODED, "x" * 4080 + VALUE, "x" * 240 + VALUE[:16]])
def test_values_of_secrets_that_the_run_does_not_send_are_masked_too(shown: str) -> None:
    """They are not selected, or leave the set; a warning may be cut within a value."""
    unselected = manifest({**SECRET, "stringData": {"key": VALUE}})
    item = live(REF, full={"data": {"key": ENCODED}})
    for snapshot, manifests in (
        (NOTHING, (unselected,)),
        (ClusterSnapshot({REF: item}), ()),
    ):
        warnings = ServerWarnings()
        warnings.add(REFS[0], f"found {shown}")
        (told,) = _told(warnings, EMPTY, snapshot, manifests)
        assert "hunter2" not in told
        assert ENCODED[:16] not in told
