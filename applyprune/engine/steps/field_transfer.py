"""Send the requests before an apply: fields change hands, one guarded request at a time.

Each request is one of the plan. If the object has changed, it is read, and planning makes the
request again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError, Conflict, RunFailed
from applyprune.model.plan import ApplyRequest, PatchRequest
from applyprune.planning.plan import decided_again
from applyprune.planning.requests import settle_request

if TYPE_CHECKING:
    from applyprune.engine.context import RunContext
    from applyprune.engine.ports import Cluster
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import ApplyStep

_TRIES = 12


def transfer_fields(context: RunContext, step: ApplyStep) -> ApplyStep:
    """Send everything that goes before the apply; return the step with the apply itself.

    Raises Conflict if the object was re-created or, where the apply is forced and nothing is taken
    over, if it has changed since force was decided; RunFailed if it keeps changing.
    """
    desired, planned = step.desired, step.live
    for _ in range(_TRIES):
        request = step.request
        if request is None or request.before is None:
            return step
        is_reply = True
        try:
            live = send(context.cluster, request.before)
        except Conflict as error:
            is_reply = False
            if error.causes or (request.force and not step.takes_over):
                raise
            live = context.cluster.get(desired.resource, desired.ref, full=True)
            if planned is not None and live.uid != planned.uid:
                raise
        step = decided_again(step, live, context.applyset, context.options, is_reply=is_reply)
    raise RunFailed(
        f"{desired.ref} changes faster than it can be taken over", location=desired.origin
    )


def send(cluster: Cluster, request: PatchRequest | ApplyRequest) -> LiveObject:
    """Send one request, and the patch that must follow it; return the object as stored.

    The second patch may fail: the next apply of the object will own the label's field as well.
    """
    if isinstance(request, ApplyRequest):
        return cluster.apply(request)[0]
    after = cluster.patch(request)
    if (settling := settle_request(request, after)) is not None:
        with suppress(ApplypruneError):
            return cluster.patch(settling)
    return after
