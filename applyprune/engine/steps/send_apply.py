"""Send one apply, again for a moment where the server's answer will soon be another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError, Conflict, Forbidden, Invalid, NotFound, NotServed
from applyprune.planning.plan import decided_again

if TYPE_CHECKING:
    from applyprune.engine.context import RunContext
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import ApplyStep

_SERVED_SOON = 10.0
_SETTLED_SOON = 2.0
_POLL = 0.1


def send_apply(
    context: RunContext,
    step: ApplyStep,
    is_settling: Callable[[ApplypruneError], bool],
    *,
    is_new_kind: bool,
) -> tuple[LiveObject, bool]:
    """Send the request of a step; return the object as stored, and whether it was created.

    ``is_new_kind`` says that its CRD has just been applied. ``is_settling`` says whether an error
    is about what this run has just written. Raises the errors of an apply.
    """
    began = context.cancellation.now()
    while True:
        if step.request is None:
            raise ValueError(f"nothing is sent for {step.desired.ref}")
        waited = context.cancellation.now() - began
        try:
            return context.cluster.apply(step.request)
        except Conflict as error:
            if error.causes or not step.reverts or waited > _SETTLED_SOON:
                raise
            if context.cancellation.wait(_POLL):
                raise
            step = _decided_again(context, step, error)
        except NotServed:
            if not is_new_kind or waited > _SERVED_SOON or context.cancellation.wait(_POLL):
                raise
        except (Forbidden, Invalid, NotFound) as error:
            # The server decides by its caches, which follow a write after a moment.
            if not is_settling(error) or waited > _SETTLED_SOON or context.cancellation.wait(_POLL):
                raise


def _decided_again(context: RunContext, step: ApplyStep, error: Conflict) -> ApplyStep:
    """Return the step for the object as it is now: reverting drift, it guards a version."""
    desired, before = step.desired, step.live
    live = context.cluster.get(desired.resource, desired.ref, full=True)
    if before is None or live.uid != before.uid:
        raise error
    return decided_again(step, live, context.applyset, context.options)
