"""Check the guards of a prune: how much it may delete, and which kinds.

A source that renders empty, a moved folder or a mistyped selector looks like a request to delete.
So the user must explicitly allow a prune of more than a few objects, or of kinds that contain data
or other objects. ``delete`` is explicit already; there only foreign cascaded deletions are checked.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from applyprune.errors import PruneRefused, as_problem
from applyprune.model.identity import Ref
from applyprune.model.options import Mode, Options, PruneLimit
from applyprune.model.plan import Fate, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.resources import GUARDED_KINDS
from applyprune.planning.inventory.selection import unlisted
from applyprune.planning.prune.cascade import Cascades


def check_guards(
    steps: Sequence[RemoveStep],
    cascades: Cascades,
    listed: Collection[Ref],
    options: Options,
    *,
    empty: Sequence[str],
    desired: Collection[Ref] = (),
) -> tuple[tuple[RemoveStep, ...], Problem | None]:
    """Return the steps, with hints for those refused because of cascades, and the refusal.

    The hint names exactly the options that this prune needs. ``listed`` are the refs in the
    inventory, ``desired`` those in the input, and ``empty`` names the parts of the input without
    an object.
    """
    to_delete = [step for step in steps if _is_doomed(step)]
    taken = {ref for step in to_delete for ref in cascades.foreign(step.entry.ref)}
    count = len(to_delete) + len(taken - {step.entry.ref for step in to_delete})
    most = options.prune.max_prune.of(len(listed))
    limited = options.mode in {Mode.APPLY, Mode.PRUNE}
    over = limited and count > most
    leaves = to_delete or any(step.fate is Fate.ORPHAN for step in steps)
    if not limited or options.prune.allow_empty or (desired and not leaves):
        empty = ()
    # Detect a wrong or missing namespace; a user who gives a number has seen the count.
    left = (
        ()
        if options.prune.max_prune != PruneLimit() or not limited
        else _left(to_delete, desired, options)
    )
    lost = unlisted(options.prune.orphan, listed) if to_delete else ()
    refused = [step.entry.ref for step in to_delete if step.fate is Fate.REFUSE]
    cascading = [ref for ref in refused if ref not in cascades.coming]
    wanted = [ref for ref in refused if ref in cascades.coming]
    others = [step.entry.ref for step in to_delete if step.fate is not Fate.REFUSE]
    kinds = _kinds_in_need(others, options) if limited else []
    needed = [
        *(["--allow-empty"] if empty else []),  # guard: empty-input
        *([f"--max-prune {count}"] if over or left else []),
        *(f"--allow-kind {kind}" for kind in kinds),
        *(f"--allow-cascade {ref.short}" for ref in cascading),
    ]
    if not (needed or lost or wanted):
        return tuple(steps), None
    hint = f"To allow exactly this: {' '.join(needed)}"
    if wanted:
        names = ", ".join(ref.short for ref in wanted)
        hint = f"Add {names} to the input again, or orphan it with --orphan."
    if lost:
        hint = f"Correct or remove {' '.join(f'--orphan {name}' for name in lost)}."
    reasons = [
        *([f"no object in {', '.join(empty)}"] if empty else []),
        *(
            f"the input has the objects of namespace {namespace} in another namespace"
            for namespace in left
        ),
        *(f"{ref.short} contains objects of the input" for ref in wanted[:3]),
        *(f"--orphan {name} matches no object in the inventory" for name in lost),
        *(
            [f"a prune may delete at most {most} of the {len(listed)} objects in the inventory"]
            if over
            else []
        ),
        *(f"a {kind} is only pruned if that is allowed" for kind in kinds),
        *(f"{ref.short} would cascade-delete objects that must stay" for ref in cascading[:3]),
    ]
    along = (
        f", including {count - len(to_delete)} cascaded deletions" if count > len(to_delete) else ""
    )
    # The objects that have left the set may all be gone already.
    delete = f": it would delete {count} object{'' if count == 1 else 's'}" if count else ""
    error = PruneRefused(
        f"the prune was refused{delete}{along}",
        reason="; ".join(reasons),
        hint=hint,
    )
    hinted = (step if step.entry.ref in wanted else _with_hint(step, hint) for step in steps)
    return tuple(hinted), as_problem(error)


def of_other_approval(refusal: Problem, approved: str, deletions: str) -> Problem:
    """Return the refusal of a prune that is not the approved one; both have their digests."""
    reason = f"the approval is for {approved}, and this prune is {deletions}"
    return replace(refusal, reason=f"{refusal.reason}; {reason}")


def with_approval(options: Options, steps: Sequence[RemoveStep], cascades: Cascades) -> Options:
    """Return the options without the guards that an approval of this prune lifts.

    A cascade that could not be counted is not approved, because the digest does not contain it.
    """
    counted = {
        step.entry.ref.short
        for step in steps
        if (cascade := cascades.found.get(step.entry.ref)) is not None and not cascade.uncounted
    }
    return replace(
        options,
        prune=replace(
            options.prune,
            allow_empty=True,
            allow_kinds=frozenset(GUARDED_KINDS.values()),
            allow_cascade=options.prune.allow_cascade | counted,
            max_prune=PruneLimit(count=sys.maxsize),
        ),
    )


def _left(
    to_delete: Sequence[RemoveStep],
    desired: Collection[Ref],
    options: Options,
) -> Sequence[str]:
    """Return the namespaces that lose objects because the input has them in another namespace.

    With --namespace-override, a single such object is enough. Otherwise there must be two in a
    namespace that the input does not use any more: a single object may move without approval.
    """
    # Skip the work for a large set if nothing is deleted.
    wanted = {(ref.group, ref.kind, ref.name) for ref in desired} if to_delete else frozenset()
    deleting = [step.entry.ref for step in to_delete if step.entry.ref.namespace]
    moved = Counter(ref.namespace for ref in deleting if (ref.group, ref.kind, ref.name) in wanted)
    if options.apply.namespace_override or not moved:
        return sorted(moved)
    namespaces = {ref.namespace for ref in desired}
    return sorted(
        namespace for namespace, count in moved.items() if count > 1 and namespace not in namespaces
    )


def _is_doomed(step: RemoveStep) -> bool:
    return step.fate is Fate.PRUNE or (
        step.problem is not None and step.problem.kind is ProblemKind.PRUNE_REFUSED
    )


def _kinds_in_need(to_delete: Sequence[Ref], options: Options) -> list[str]:
    """Return the guarded kinds that are not allowed; an object allowed by name does not count."""
    return sorted(
        {
            word
            for ref in to_delete
            if (word := GUARDED_KINDS.get(ref.group_kind, ""))
            and word not in options.prune.allow_kinds
            and not ref.is_among(options.prune.allow_cascade)
        }
    )


def _with_hint(step: RemoveStep, hint: str) -> RemoveStep:
    if step.problem is None or step.problem.kind is not ProblemKind.PRUNE_REFUSED:
        return step
    hint = f"{hint}. To orphan it instead: --orphan {step.entry.ref.short}"
    return replace(step, problem=replace(step.problem, hint=hint))
