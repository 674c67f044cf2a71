"""Plan what controllers create in a Namespace that does not exist yet: the set adopts it.

They create it within milliseconds after the Namespace, so a create-only request would often fail.
Whoever is first, the set does not own the object: without the set it would exist too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from applyprune.errors import RunFailed, as_problem
from applyprune.model.inventory import Ownership
from applyprune.model.live import IN_EACH_NAMESPACE, NAMESPACE
from applyprune.model.options import Adopt
from applyprune.model.plan import ApplyRule, ApplyStep, Fate
from applyprune.planning.adoption.existing import refused_step
from applyprune.planning.requests import apply_request
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.model.options import Options
    from applyprune.planning.applyset import ApplySetIdentity

_WHO = "a controller creates it in a new Namespace"


def with_controllers_objects(
    steps: Sequence[ApplyStep],
    applyset: ApplySetIdentity,
    options: Options,
    *,
    new_namespace: str,
) -> tuple[ApplyStep, ...]:
    """Return steps that adopt what controllers create in the Namespaces that the run creates.

    ``new_namespace`` is one that it creates besides; empty for none.
    """
    creates = {new_namespace} - {""}
    creates |= {
        step.desired.ref.name
        for step in steps
        if step.desired.ref.group_kind == NAMESPACE and step.fate is Fate.CREATE
    }
    if not creates:
        return tuple(steps)
    return tuple(
        _adopted(step, applyset, options)
        if step.fate is Fate.CREATE
        and step.desired.apply is ApplyRule.ALWAYS  # what is only created once is never adopted
        and (step.desired.ref.group_kind, step.desired.ref.name) in IN_EACH_NAMESPACE
        and step.desired.ref.namespace in creates
        else step
        for step in steps
    )


def _adopted(step: ApplyStep, applyset: ApplySetIdentity, options: Options) -> ApplyStep:
    desired = step.desired
    if options.apply.adopt is Adopt.NONE:
        error = RunFailed(
            f"{desired.ref} would exist already, and belong to no set",
            reason=_WHO,
            hint="To adopt it into this set: --adopt=unowned.",
        )
        return refused_step(desired, step.entry, as_problem(error, where=desired.origin), None)
    return replace(
        step,
        fate=Fate.ADOPT,
        entry=replace(step.entry, ownership=Ownership.ADOPTED),
        reason=f"adopted: {_WHO}",
        # The request creates the object if the controller is slow.
        request=apply_request(desired, None, applyset, options, owns=False),
    )
