"""How long an apply is sent again, exactly: where the server's answer will soon be another one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from applyprune.engine.ports import Cancellation
from applyprune.engine.send import send_apply
from applyprune.errors import ApplypruneError, Conflict, Forbidden, Invalid, NotFound, NotServed
from applyprune.model.identity import Ref
from applyprune.model.options import WaitOptions
from tests.support.clocks import ManualClock

SERVED, SETTLED = 60.0, 2.0


@pytest.mark.parametrize(
    ("error", "is_new_kind", "is_settling", "seconds"),
    [
        # The kind of a CRD that was just applied, and any other.
        (NotServed("no such kind", code=404), True, False, SERVED),
        (NotServed("no such kind", code=404), False, True, 0.0),
        (NotServed('namespaces "home" not found', code=404), True, False, 0.0),
        # What this run has just written, and anything else.
        (Forbidden("no", code=403), False, True, SETTLED),
        (Invalid("no", code=422), False, True, SETTLED),
        (NotFound("no", code=404), False, True, SETTLED),
        (Forbidden("no", code=403), True, False, 0.0),
        (Conflict("no", code=409), True, True, 0.0),
    ],
)
def test_apply_is_sent_again_for_a_moment_only(
    error: ApplypruneError, is_new_kind: bool, is_settling: bool, seconds: float
) -> None:
    """Every tenth of a second, or ever more rarely, until more than that time has passed."""

    def apply(_: object) -> Any:
        raise error

    clock = ManualClock()
    context: Any = SimpleNamespace(
        cluster=SimpleNamespace(apply=apply),
        cancellation=Cancellation(clock=clock),
        options=SimpleNamespace(wait=WaitOptions(timeout=SERVED)),
    )
    desired = SimpleNamespace(ref=Ref("", "ConfigMap", "home", "a"))
    step: Any = SimpleNamespace(request=SimpleNamespace(force=False), desired=desired, live=None)
    with pytest.raises(type(error)):
        send_apply(context, step, lambda _: is_settling, lambda: is_new_kind)
    assert clock.waits == sorted(clock.waits)
    assert is_new_kind or set(clock.waits) <= {0.1}
    assert seconds <= clock.passed <= seconds + (2.0 if is_new_kind else 0.2)
