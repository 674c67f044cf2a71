"""The guards of a prune: how much it may delete, and which kinds.

A source that renders empty, a wrong folder or a mistyped selector looks like a request to delete,
so the user must allow a large prune explicitly; ``delete`` is explicit already. One number lifts
all guards that compare objects: a user who gives it has seen the count. The count itself must not
be larger than that number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from applyprune.errors import PruneRefused
from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.kinds import BUNDLE, GUARDED_KINDS, HOLDERS
from applyprune.model.live import BUNDLES, LiveObject, mapping
from applyprune.model.options import Mode, PruneLimit
from applyprune.model.plan import ApplyRule, Desired, Guard, GuardResult, GuardVerdict, RemoveStep
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import and_more, counted
from applyprune.planning.cascade import NOTHING, Cascades
from applyprune.planning.marks import ORPHAN
from applyprune.planning.names import unmatched_names
from applyprune.planning.uids import owners_of
from applyprune.planning.world import CascadeContents, World
from applyprune.values import replace

APPROVAL = "the approved digest"
"""What lifts a guard for the prune that the user has approved."""
_ALL_LEFT_OUT = ": a mark leaves out each of its manifests"
_SHOWN = 3
_FEWEST = 2
"""A set with fewer live objects may lose all of them: a single object may be replaced."""


class GuardedPrune(Struct, frozen=True):
    """A prune as the guards see it."""

    world: World
    steps: Sequence[RemoveStep]
    """The steps; those with forbidden cascades are refused already."""
    cascades: Cascades
    own: Mapping[Ref, str]
    """The UIDs of the set's own live objects: owned and adopted entries that exist.

    What goes away without this prune is left out: objects that are being deleted, and Jobs with a
    TTL.
    """
    shares: bool
    """Whether the input and the inventory have an object in common."""
    approved: bool = False
    """Whether the user has approved exactly this prune, by its digest."""

    @property
    def limited(self) -> bool:
        """Return whether the deletions follow from an input; ``delete`` is explicit."""
        return self.world.options.mode in {Mode.APPLY, Mode.PRUNE}

    @property
    def to_delete(self) -> Sequence[Ref]:
        """Return the objects that would be deleted, whether or not they may be.

        What somebody has deleted already needs no guard.
        """
        return [step.entry.ref for step in self.steps if step.is_doomed and not step.is_going]

    @property
    def refused(self) -> Sequence[Ref]:
        """Return the objects that may not be deleted because of their cascades."""
        return [
            step.entry.ref for step in self.steps if step.is_doomed and step.fate is Fate.REFUSE
        ]

    @property
    def around_input(self) -> Sequence[Ref]:
        """Return what is refused because an object of the input would be deleted with it."""
        return [ref for ref in self.refused if ref in self.cascades.desired]

    @property
    def is_passing(self) -> bool:
        """Return whether only kinds that come or go keep the refused from being counted."""
        refused = set(self.refused).difference(self.around_input)
        return bool(refused) and all(
            self.cascades.of(ref).is_passing and not self.cascades.foreign(ref) for ref in refused
        )

    @property
    def cascaded(self) -> Collection[Ref]:
        """Return the objects that only cascades would delete."""
        doomed = self.to_delete
        return {ref for root in doomed for ref in self.cascades.foreign(root)} - set(doomed)

    @property
    def taken(self) -> Collection[Ref]:
        """Return the objects that Bundles would delete with them."""
        sets = [ref for ref in self.to_delete if self.cascades.of(ref).is_set]
        return {ref for root in sets for ref in self.cascades.foreign(root)}

    @property
    def is_one_bundle(self) -> bool:
        """Return whether a single Bundle would be deleted, of several."""
        kinds = {ref.group_kind for ref in self.to_delete}
        return kinds == {BUNDLE} and len(self.to_delete) == 1 and self.world.bundles.staying > 0

    @property
    def count(self) -> int:
        """Return how many objects would be deleted, with cascades."""
        return len(self.to_delete) + len(self.cascaded)

    @property
    def own_count(self) -> int:
        """Return how many of the set's own live objects would be deleted."""
        return len({self.own[ref] for ref in (*self.to_delete, *self.cascaded) if ref in self.own})

    @property
    def live(self) -> int:
        """Return how many live objects the set has; two groups may serve the same one."""
        return len(set(self.own.values()))

    @property
    def size(self) -> int:
        """Return how many live objects the set has, with those of the sets of its Bundles."""
        return self.live + len(self.taken) + self.world.bundles.objects

    @property
    def unmatched(self) -> Sequence[str]:
        """Return the names to orphan that match no object."""
        return unmatched_names(self.world.options.prune.orphan, self.world.inventory.entries)

    def is_allowed(self, refs: Iterable[Ref]) -> bool:
        """Return whether the user has allowed all these cascades by name."""
        return all(ref.is_among(self.world.options.prune.allow_cascade) for ref in refs)


class _Finding(NamedTuple):
    """What a guard has found."""

    guard: Guard
    fault: str
    """What is wrong; empty if the guard passes."""
    passed: str
    """What is right, if nothing is wrong."""
    option: str = ""
    """What would allow exactly this prune."""
    given: str = ""
    """What the user has given to allow it."""
    approvable: bool = True


_AGAIN = "Run again: somebody adds or removes kinds at the moment."


def check_guards(prune: GuardedPrune) -> tuple[GuardResult, ...]:
    return tuple(_result(finding, approved=prune.approved) for finding in _findings(prune))


def _result(finding: _Finding, *, approved: bool) -> GuardResult:
    if not finding.fault:
        return GuardResult(finding.guard, GuardVerdict.PASSED, finding.passed)
    lifted_by = finding.given or (APPROVAL if approved and finding.approvable else "")
    verdict = GuardVerdict.LIFTED if lifted_by else GuardVerdict.REFUSED
    return GuardResult(finding.guard, verdict, finding.fault, finding.option, lifted_by)


def _findings(prune: GuardedPrune) -> Iterator[_Finding]:
    limited, desired = prune.limited, prune.world.desired
    leaves = prune.to_delete or any(step.fate is Fate.ORPHAN for step in prune.steps)
    if limited and (leaves or not desired or (prune.steps and not _takes_part(desired))):
        empty = _empty_input(prune)
        if prune.to_delete or empty.fault:
            yield empty
    if not prune.to_delete:
        return
    yield _orphan_names(prune)
    if limited:
        yield _input_inside(prune)
        if desired:
            # Without any object in the input, the first guard has said so.
            yield _nothing_in_common(prune)
            yield _other_namespace(prune)
            if prune.live >= _FEWEST:
                yield _more_than_half(prune)
        yield _max_prune(prune)
        yield _guarded_kind(prune)
    yield _cascade(prune)
    if parts := prune.world.controller.parts.intersection(prune.to_delete):
        yield _controller_in_use(prune, parts)


def _empty_input(prune: GuardedPrune) -> _Finding:
    world, only = prune.world, ""
    empty = world.empty_inputs
    if not _takes_part(world.desired):
        empty, only = ("the input",), _ALL_LEFT_OUT if world.desired else ""
    return _Finding(
        Guard.EMPTY_INPUT,
        # guard: empty-input -> ""
        f"no object in {', '.join(empty)}{only}" if empty else "",
        "every part of the input contains an object",
        "--allow-empty",
        "--allow-empty" if world.options.prune.allow_empty else "",
    )


def _takes_part(desired: Iterable[Desired]) -> bool:
    """Return whether the input has an object that no mark leaves out."""
    # guard: left-out-only -> bool(desired)
    return any(member.apply is not ApplyRule.DISABLED for member in desired)


def _orphan_names(prune: GuardedPrune) -> _Finding:
    """Detect a mistyped name: its object would be pruned, not orphaned."""
    lost = (f"--orphan {name} matches no object in the inventory" for name in prune.unmatched)
    passed = "every --orphan option matches an object"
    return _Finding(Guard.ORPHAN_NAMES, "; ".join(lost), passed, approvable=False)


def _input_inside(prune: GuardedPrune) -> _Finding:
    faults = []
    for ref in prune.around_input[:_SHOWN]:
        verb = "contains" if ref.group_kind in HOLDERS else "owns"
        faults.append(f"{ref.short} {verb} objects of the input")
    passed = "nothing that would be deleted contains objects of the input"
    return _Finding(Guard.INPUT_INSIDE, "; ".join(faults), passed, approvable=False)


def _nothing_in_common(prune: GuardedPrune) -> _Finding:
    """Detect a wrong folder, whatever the size of the set; a single object may be replaced."""
    fails = not prune.shares and prune.own_count >= _FEWEST  # guard: nothing-in-common -> 0
    fault = "the input has no object in common with the inventory" if fails else ""
    passed = "the input would replace a single object"
    if prune.shares:
        passed = "the input and the inventory have objects in common"
    return _lifted_by_number(prune, Guard.NOTHING_IN_COMMON, fault, passed)


def _other_namespace(prune: GuardedPrune) -> _Finding:
    """Detect a wrong or missing namespace, which loses objects that the input has in another one.

    With a namespace for all, a single such object is enough. Otherwise there must be two in a
    namespace that the input does not use any more: a single object may move without approval. A
    disabled manifest uses none.
    """
    refs = {member.ref for member in prune.world.desired}
    wanted = {(ref.group, ref.kind, ref.name) for ref in refs}
    deleting = [ref for ref in prune.to_delete if ref.namespace]
    moved = Counter(ref.namespace for ref in deleting if (ref.group, ref.kind, ref.name) in wanted)
    used = {
        member.ref.namespace
        for member in prune.world.desired
        if member.apply is not ApplyRule.DISABLED  # guard: disabled-uses-no-namespace always
    }
    faults = (
        f"the input has the objects of namespace {namespace} in another namespace"
        for namespace, count in sorted(moved.items())
        if prune.world.options.apply.namespace_override
        or (count >= _FEWEST and namespace not in used)
    )
    passed = "the input does not have the deleted objects in another namespace"
    return _lifted_by_number(prune, Guard.OTHER_NAMESPACE, "; ".join(faults), passed)


def _more_than_half(prune: GuardedPrune) -> _Finding:
    """Compare the set's own live objects only: cascades and lost objects say nothing of it."""
    count, live = prune.own_count, prune.live
    more = f"more than half of the set's {live} live objects"
    # guard: more-than-half -> ""
    fault = f"{_deletions(count)} {more}" if 2 * count > live else ""
    return _lifted_by_number(prune, Guard.MORE_THAN_HALF, fault, f"{_deletions(count)} not {more}")


def _lifted_by_number(prune: GuardedPrune, guard: Guard, fault: str, passed: str) -> _Finding:
    limit = prune.world.options.prune.max_prune
    given = "" if limit is None else f"--max-prune {limit.text}"
    return _Finding(guard, fault, passed, f"--max-prune {prune.count}", given)


def _max_prune(prune: GuardedPrune) -> _Finding:
    """Compare all deletions with the default limit, or with the user's."""
    given, default = prune.world.options.prune.max_prune, PruneLimit()
    count, live = prune.count, prune.size
    size = f"the set's {live} live object{'' if live == 1 else 's'}"
    if live > prune.live:
        size += ", with those of its Bundles"
    if prune.is_one_bundle:  # guard: one-bundle never
        # One of several leaves by an edit of its own: the input as a whole is there.
        default = PruneLimit(percent=50.0)
    over = f"{default.count}, and more than {default.percent:g}% of {size}"
    limit = given or default
    allowed = count <= limit.of(live)
    if given is not None and not allowed:
        over = f"{given.text} of {size}" if given.percent else given.text
    return _Finding(
        Guard.MAX_PRUNE,
        "" if allowed and count <= default.of(live) else f"{_deletions(count)} more than {over}",
        f"{_deletions(count)} not more than {limit.of(live)}",
        f"--max-prune {count}",
        f"--max-prune {given.text}" if given is not None and allowed else "",
    )


def _deletions(count: int) -> str:
    return "1 deletion is" if count == 1 else f"{count} deletions are"


def _guarded_kind(prune: GuardedPrune) -> _Finding:
    """Look for guarded kinds; an object that is allowed or refused by name does not count."""
    refused = set(prune.refused)
    kinds = {
        word
        for ref in (
            *prune.to_delete,
            *prune.taken,  # guard: guarded-kind-in-a-set
        )
        if (word := GUARDED_KINDS.get(ref.group_kind, ""))
        and ref not in refused
        and not prune.is_allowed([ref])
    }
    needed = sorted(kinds - prune.world.options.prune.allow_kinds)
    named = needed or sorted(kinds)
    fault = "".join(f"a {kind} is only pruned if that is allowed" for kind in named)
    if len(named) > 1:
        fault = f"these kinds are only pruned if that is allowed: {', '.join(named)}"
    option = " ".join(f"--allow-kind {kind}" for kind in named)
    passed = "no object of a guarded kind would be deleted"
    return _Finding(Guard.GUARDED_KIND, fault, passed, option, "" if needed else option)


def _cascade(prune: GuardedPrune) -> _Finding:
    around, cascades = set(prune.around_input), prune.cascades
    refused = [ref for ref in prune.refused if ref not in around]
    allowed = [ref for ref in prune.to_delete if ref not in around and cascades.of(ref).harms]
    named = refused or allowed
    option = "" if prune.is_passing else _allow_cascade(named)
    unknown = any(cascades.of(ref).unlisted for ref in prune.to_delete)
    return _Finding(
        Guard.CASCADE,
        cascades.harm(named[:_SHOWN]),
        f"no deletion cascades to objects that must stay{', as far as is known' * unknown}",
        option,
        option if prune.is_allowed(allowed) and not refused else "",
        approvable=not refused,
    )


def _allow_cascade(refs: Iterable[Ref]) -> str:
    return " ".join(f"--allow-cascade {ref.short}" for ref in refs)


def _controller_in_use(prune: GuardedPrune, deleted: Iterable[Ref]) -> _Finding:
    use, fault = prune.world.controller, ""
    parts = sorted(deleted, key=lambda ref: (not ref.group, ref))  # its workload first
    needs = f"the Bundle controller needs {', '.join(ref.short for ref in parts)}"
    if use.unread:
        fault = f"{needs}, and the Bundles cannot be read: {use.unread}"
    elif use.bundles:
        names = and_more([f"{ref.namespace}/{ref.name}" for ref in use.bundles], _SHOWN)
        fault = f"{needs}, and only it can end {counted(len(use.bundles), 'Bundle')}: {names}"
    option = _allow_cascade(parts)
    return _Finding(
        Guard.CONTROLLER_IN_USE,
        fault,  # guard: controller-in-use -> ""
        "no Bundle needs the controller",
        option,
        option if prune.is_allowed(parts) else "",
        approvable=False,
    )


# The controller. Only it ends Bundles, so whoever deletes it first can delete none of them later.


_CONTROLLER = {
    "app.kubernetes.io/name": "applyprune",
    "app.kubernetes.io/component": "controller",
}
"""The labels of what the controller cannot do without, and of its Pods: see ``deploy``."""


def controller_parts(
    deleted: Iterable[LiveObject],
    contents: Mapping[Ref, CascadeContents],
    desired: Iterable[Desired],
) -> frozenset[Ref]:
    """Return which deleted objects the controller needs, or contain such an object.

    What the input has of the same kind takes its place.
    """
    kept = {
        member.ref.group_kind
        for member in desired
        if is_of_controller(mapping(mapping(member.body.get("metadata")).get("labels")))
    }

    def is_needed(live: LiveObject) -> bool:
        return is_of_controller(live.labels) and live.ref.group_kind not in kept

    return frozenset(
        live.ref
        for live in deleted
        if is_needed(live)
        # Pods and ReplicaSets have the labels of the Deployment that makes them.
        or any(
            is_needed(one) and not owners_of(one) for one in contents.get(live.ref, NOTHING).objects
        )
    )


def is_of_controller(labels: Mapping[str, object]) -> bool:
    return _CONTROLLER.items() <= labels.items()


# The problem of a refused prune.


_HOW_TO_END = (
    f"Delete the Bundles first, and wait until they are gone: kubectl delete {BUNDLES.full_plural} "
    "--all -A\n  To keep all their objects, before that: kubectl annotate "
    f"{BUNDLES.full_plural} --all -A {ORPHAN}=true"
)


WOULD_DELETE = ": it would delete "


def refusal_of(prune: GuardedPrune, results: Sequence[GuardResult]) -> Problem | None:
    """Return the problem of a refused prune; None if no guard refuses it.

    The hint names exactly the options that this prune needs.
    """
    refused = [result for result in results if result.verdict is GuardVerdict.REFUSED]
    if not refused:
        return None
    # Half of a set is a stricter limit than the number, and says the same.
    is_half = any(result.guard is Guard.MORE_THAN_HALF for result in refused)
    shown = [result for result in refused if not (is_half and result.guard is Guard.MAX_PRUNE)]
    count, cascaded = prune.count, len(prune.cascaded)
    along = f", including {counted(cascaded, 'cascaded deletion')}" if cascaded else ""
    # The objects that have left the set may all be gone already, and ``delete`` has no limit.
    delete = f"{WOULD_DELETE}{counted(count, 'object')}{along}" if count else ""
    error = PruneRefused(
        f"the {prune.world.options.mode.removal} was refused{delete if prune.limited else ''}",
        reason=f"{_reason(shown)}{_goes_along(prune)}",
        hint=_hint(prune, refused),
    )
    return error.problem


def _reason(refused: Sequence[GuardResult]) -> str:
    """Return what the guards have found; if there are several, each on a line of its own."""
    first, *others = refused
    if not others:
        return first.message
    lines = (f"\n    {result.guard}: {result.message}" for result in refused)
    return f"{len(refused)} guards refuse it{''.join(lines)}"


def _goes_along(prune: GuardedPrune) -> str:
    """Return a line for each object that takes others with it, but for what a problem names."""
    cascades, refused = prune.cascades, set(prune.refused)
    causes = [ref for ref in prune.to_delete if ref not in refused and cascades.foreign(ref)]
    return and_more(["", *map(cascades.loss, causes)], 1 + _SHOWN, "\n    ")


def _hint(prune: GuardedPrune, refused: Sequence[GuardResult]) -> str:
    guards = {result.guard for result in refused}
    if Guard.ORPHAN_NAMES in guards:
        return f"Correct or remove {' '.join(f'--orphan {name}' for name in prune.unmatched)}."
    if Guard.INPUT_INSIDE in guards:
        around = [ref.short for ref in prune.around_input]
        them = "it" if len(around) == 1 else "them"
        orphan = " ".join(f"--orphan {name}" for name in around)
        return f"Add {', '.join(around)} to the input again, or orphan {them}: {orphan}"
    options = dict.fromkeys(result.option for result in refused if result.option)
    allows = f"To allow this: {' '.join(options)}" if options else ""
    if Guard.CASCADE in guards and prune.is_passing:
        allows = f"{_AGAIN}\n  {allows}" if allows else _AGAIN
    return f"{_HOW_TO_END}\n  {allows}" if Guard.CONTROLLER_IN_USE in guards else allows


def with_digest(refusal: Problem, approved: str, deletions: str, *, allows: bool) -> Problem:
    """Return the refusal of a prune with the digest of exactly its deletions.

    ``approved`` is the digest of another approval; empty if there is none. ``allows`` says that an
    approval would be enough: some guards it does not lift.
    """
    reason = refusal.reason
    if approved:
        own = f"the approval is for {approved}, and the digest of these deletions is {deletions}"
        reason += f"\n    {own}" if "\n" in reason else f"; {own}"
    hint = refusal.hint
    if allows:
        exactly = f"To allow exactly these deletions: --approve {deletions}"
        hint = f"{exactly}\n  {hint}" if hint else exactly
    return replace(refusal, reason=reason, hint=hint)


def hinted(prune: GuardedPrune) -> tuple[RemoveStep, ...]:
    """Return the steps; those that are refused because of cascades say how to keep the object.

    The refusal of the whole prune says how to delete it.
    """
    around = set(prune.around_input)

    def with_hint(step: RemoveStep) -> RemoveStep:
        problem, ref = step.problem, step.entry.ref
        if problem is None or problem.kind is not ProblemKind.PRUNE_REFUSED or ref in around:
            return step
        is_passing = prune.cascades.of(ref).is_passing
        hint = _AGAIN if is_passing else f"To orphan it: --orphan {ref.short}"
        return replace(step, problem=replace(problem, hint=hint))

    return tuple(map(with_hint, prune.steps))
