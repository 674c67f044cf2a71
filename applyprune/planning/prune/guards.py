"""The prune as a whole: how much it may delete, and which kinds, without being told by name.

A source that renders empty, a moved directory, a mistyped selector: each looks just like a wish to
delete. So a prune beyond a few objects, or one of a kind that holds data or other objects, is the
user's word and not the input's. ``delete`` is that word already; only what it would take along of
others is asked about there.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import astuple, replace
from typing import TYPE_CHECKING

from applyprune.errors import PruneRefused, as_problem
from applyprune.model.options import Mode, PruneLimit
from applyprune.model.plan import Action
from applyprune.model.problem import ProblemKind
from applyprune.model.resources import GUARDED_KINDS
from applyprune.planning.fields.normalize import digest
from applyprune.planning.inventory.selection import unlisted

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from applyprune.model.identity import Ref
    from applyprune.model.options import Options
    from applyprune.model.plan import RemoveStep
    from applyprune.model.problem import Problem
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
    """Return the steps, those refused for what they take along with their hint, and the refusal.

    The hint names every option that this very prune needs, and no wider one. ``listed`` is what
    the inventory lists, ``desired`` what the input wants, and ``empty`` names what of the input
    holds nothing.
    """
    doomed = [step for step in steps if _is_doomed(step)]
    taken = {ref for step in doomed for ref in cascades.foreign(step.entry.ref)}
    count = len(doomed) + len(taken - {step.entry.ref for step in doomed})
    most = options.prune.max_prune.of(len(listed))
    limited = options.mode in {Mode.APPLY, Mode.PRUNE}
    over = limited and count > most
    leaves = doomed or any(step.action is Action.ORPHAN for step in steps)
    if not limited or options.prune.allow_empty or (desired and not leaves):
        empty = ()
    # A namespace that was set wrongly, or not at all; whoever names a number has seen that.
    left = (
        ()
        if options.prune.max_prune != PruneLimit() or not limited
        else _left(doomed, desired, options)
    )
    lost = unlisted(options.prune.orphan, listed) if doomed else ()
    refused = [step.entry.ref for step in doomed if step.action is Action.REFUSE]
    cascading = [ref for ref in refused if ref not in cascades.coming]
    wanted = [ref for ref in refused if ref in cascades.coming]
    others = [step.entry.ref for step in doomed if step.action is not Action.REFUSE]
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
        hint = f"Put {names} back into the input, or orphan it with --orphan."
    if lost:
        hint = f"Correct or drop {' '.join(f'--orphan {name}' for name in lost)}."
    reasons = [
        *([f"there is no object in {', '.join(empty)}"] if empty else []),
        *(f"the input wants elsewhere what is in the namespace {home}" for home in left),
        *(f"{ref.short} holds what the input wants" for ref in wanted[:3]),
        *(f"--orphan {name} names nothing that the set lists" for name in lost),
        *([f"a prune may delete {most} of the {len(listed)} objects listed"] if over else []),
        *(f"no {kind} is pruned unless that is allowed" for kind in kinds),
        *(f"{ref.short} would take along what is to stay" for ref in cascading[:3]),
    ]
    along = f", {count - len(doomed)} of them taken along" if count > len(doomed) else ""
    # Of what has left the set nothing may be there any more.
    delete = f": it would delete {count} object{'' if count == 1 else 's'}" if count else ""
    error = PruneRefused(
        f"the prune was refused{delete}{along}",
        reason="; ".join(reasons),
        hint=hint,
    )
    told = (step if step.entry.ref in wanted else _told(step, hint) for step in steps)
    return tuple(told), as_problem(error)


def approval_of(steps: Sequence[RemoveStep], cascades: Cascades) -> str:
    """Return the digest of exactly this prune: each object with its UID, and what goes along."""
    doomed = [
        [*astuple(step.entry.ref), step.live.uid if step.live else ""]
        for step in steps
        if _is_doomed(step)
    ]
    along = {astuple(ref) for step in steps for ref in cascades.foreign(step.entry.ref)}
    return digest([sorted(doomed), sorted(along)])


def with_approval(options: Options, steps: Sequence[RemoveStep], cascades: Cascades) -> Options:
    """Return the options with every guard lifted that an approval of this prune can lift.

    What could not be counted was not approved, for the digest does not know it.
    """
    counted = {
        step.entry.ref.short
        for step in steps
        if (one := cascades.found.get(step.entry.ref)) is not None and not one.uncounted
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
    doomed: Sequence[RemoveStep],
    desired: Collection[Ref],
    options: Options,
) -> Sequence[str]:
    """Return the namespaces that lose objects because the input wants the same ones elsewhere.

    Where an option says where all of it goes, one such object is enough; else there must be two
    in a namespace where the input wants nothing any more: one may be moved without a question.
    """
    # Of a large set nothing is looked through when nothing goes.
    wanted = {(ref.group, ref.kind, ref.name) for ref in desired} if doomed else frozenset()
    going = [step.entry.ref for step in doomed if step.entry.ref.namespace]
    moved = Counter(ref.namespace for ref in going if (ref.group, ref.kind, ref.name) in wanted)
    if options.apply.namespace_override or not moved:
        return sorted(moved)
    homes = {ref.namespace for ref in desired}
    return sorted(home for home, count in moved.items() if count > 1 and home not in homes)


def _is_doomed(step: RemoveStep) -> bool:
    return step.action is Action.DELETE or (
        step.problem is not None and step.problem.kind is ProblemKind.PRUNE_REFUSED
    )


def _kinds_in_need(doomed: Sequence[Ref], options: Options) -> list[str]:
    """Return the guarded kinds among them; an object that is named itself needs no more."""
    return sorted(
        {
            word
            for ref in doomed
            if (word := GUARDED_KINDS.get(ref.group_kind, ""))
            and word not in options.prune.allow_kinds
            and not ref.is_among(options.prune.allow_cascade)
        }
    )


def _told(step: RemoveStep, hint: str) -> RemoveStep:
    if step.problem is None or step.problem.kind is not ProblemKind.PRUNE_REFUSED:
        return step
    hint = f"{hint}. To orphan it instead: --orphan {step.entry.ref.short}"
    return replace(step, problem=replace(step.problem, hint=hint))
