"""Make the request for an object again, when its state has changed or was read in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.errors import RunFailed
from applyprune.model.options import OnDrift
from applyprune.model.plan import PatchRequest
from applyprune.planning.ownership.conflicts import forces
from applyprune.planning.ownership.foreign_label import foreign_label
from applyprune.planning.ownership.shared_fields import drift_to_revert
from applyprune.planning.requests import apply_request
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.model.live import LiveObject
    from applyprune.model.options import Options
    from applyprune.model.plan import ApplyStep
    from applyprune.planning.applyset import ApplySetIdentity


def again(
    step: ApplyStep,
    live: LiveObject | None,
    applyset: ApplySetIdentity,
    options: Options,
    *,
    is_reply: bool = False,
) -> ApplyStep:
    """Return a step with the request for a state of its object that is newer, or read in full.

    ``is_reply`` says that it is the reply to the request before the apply.
    """
    claims = (
        is_reply
        and step.request is not None
        and isinstance(step.request.before, PatchRequest)
        and step.request.before.claims
    )
    reverts = _reverts(step, live, applyset, options)
    request = apply_request(
        step.desired,
        live,
        applyset,
        options,
        migration=step.migration,
        fence=step.fence,
        reverts=bool(reverts),
        owns=step.becomes_owned or None,
    )
    claimed_from = step.live if claims else step.claimed_from
    return replace(step, live=live, request=request, reverts=reverts, claimed_from=claimed_from)


def decided_again(
    step: ApplyStep,
    live: LiveObject | None,
    applyset: ApplySetIdentity,
    options: Options,
    *,
    is_reply: bool = False,
) -> ApplyStep:
    """Do what ``again`` does during an apply.

    Raises RunFailed for drift that no plan has shown, and for another set's label.
    """
    planned = foreign_label(step.live, applyset) if step.live is not None else ""
    # guard: taken-by-another-set
    if live is not None and foreign_label(live, applyset) not in {"", planned}:
        raise RunFailed(
            f"{step.desired.ref} was taken by another set during this run",
            location=step.desired.origin,
            hint="Run again.",
        )
    fresh = again(step, live, applyset, options, is_reply=is_reply)
    if not {*fresh.reverts} <= {*step.reverts}:  # guard: unplanned-revert
        raise RunFailed(
            f"{step.desired.ref} changed during this run, after force was decided",
            location=step.desired.origin,
            hint="Run again.",
        )
    return fresh


def _reverts(
    step: ApplyStep, live: LiveObject | None, applyset: ApplySetIdentity, options: Options
) -> tuple[tuple[str, str], ...]:
    """Return the drifted fields that are set back, if that is asked for.

    Where the options force everything, nothing is left to decide.
    """
    fails = options.apply.on_drift is OnDrift.FAIL
    if live is None or fails or forces(step.desired, live, options, applyset):
        return ()
    return drift_to_revert(step.desired, live, step.entry, step.migration, applyset)
