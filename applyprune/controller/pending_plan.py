"""The plan of a Bundle that waits for an approval, and the objects that nobody else may take.

Alone, because the main process has the status and must not load pydantic.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, field
from pydantic.alias_generators import to_camel

from applyprune.controller.reasons import Reason
from applyprune.errors import ApplypruneError, UsageError
from applyprune.model.fate import Fate
from applyprune.model.live import BUNDLES, mapping, text
from applyprune.model.options import Approval
from applyprune.model.plan import ApplyStep, Cause, RemoveStep
from applyprune.model.problem import ProblemKind
from applyprune.model.text import and_more
from applyprune.planning.applyset import applyset_identity
from applyprune.planning.cascade import loss_of
from applyprune.planning.digests import is_digest
from applyprune.planning.marks import APPROVE
from applyprune.planning.ownership import namespace_of_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from applyprune.controller.clients import BundleObjects
    from applyprune.controller.result import RunResult
    from applyprune.controller.spec import BundleSpec
    from applyprune.model.identity import Ref
    from applyprune.model.live import LiveObject
    from applyprune.model.plan import Plan

OBJECTS_SHOWN = 20
_SHOWN = 3
_DELETIONS = (Fate.PRUNE, Fate.RECREATE)
_ORDER = (
    *_DELETIONS,
    Fate.ADOPT,
    Fate.CHANGE,
    Fate.CREATE,
    Fate.ORPHAN,
    Fate.REMOVE_FROM_INVENTORY,
    Fate.REFUSE,
)
_DIGITS = len("sha256:") + 12


def pending_plan(run: RunResult, bundle: BundleSpec, approved: str) -> PendingPlan | None:
    """Return what of a run's plan waits for an approval; None if nothing does.

    ``approved`` is the value of the Bundle's annotation.
    """
    plan = run.plan
    if plan is None or not plan.needs_approval:
        return None
    whole = bundle.spec.approval is Approval.ALWAYS and plan.needs_approval == plan.digest
    concerned = sorted(
        (
            (fate, step)
            for fate, step in _fates(plan)
            if fate is not Fate.LEAVE and (whole or fate in _DELETIONS)
        ),
        key=lambda found: (_ORDER.index(found[0]), _ref(found[1])),
    )
    counts = Counter(count_key(fate) for fate, _ in concerned)
    cascades = {
        _ref(step): loss_of([also.ref for also in step.cascade])
        for _, step in concerned
        if step.cascade
    }
    counts["cascaded"] = sum(len(step.cascade) for _, step in concerned)
    counts = +counts
    refused = run.refusal is not None and run.refusal.kind is ProblemKind.PRUNE_REFUSED
    summary = f"waiting for an approval: {_counts_text(concerned)}"
    parts = [
        run.refusal_message if refused else "",
        summary,
        # The refusal of a guard has said it.
        "" if refused else _cascades_text(cascades),
        # The rules may be content of the source.
        "" if bundle.has_secret_source else _ignored_text(concerned),
        and_more(plan.records, _SHOWN, "; ") if whole else "",
        # The refusal of a guard names the digest that is approved.
        "" if refused and is_digest(approved) else _mismatch(approved),
        f"to approve exactly this: {command(bundle, plan.needs_approval)}",
    ]
    return PendingPlan(
        plan.needs_approval,
        Scope.PLAN if whole else Scope.DELETIONS,
        counts,
        tuple((fate, _ref(step)) for fate, step in concerned[:OBJECTS_SHOWN]),
        Reason.PRUNE_REFUSED if refused else Reason.PENDING_APPROVAL,
        "; ".join(part for part in parts if part),
        summary,
        cascades,
    )


class PendingPlan(Struct, frozen=True):
    """What of a plan waits for an approval."""

    digest: str
    """The digest to approve."""
    scope: Scope
    counts: Mapping[str, int]
    """How many objects it concerns, by fate; and the cascaded deletions."""
    objects: tuple[tuple[Fate, Ref], ...]
    """The first of these objects, deletions first."""
    reason: Reason
    """``PruneRefused`` if a guard has refused it, else ``PendingApproval``."""
    message: str
    """What waits, why, and the command that approves it."""
    summary: str
    """What waits, in short."""
    cascades: Mapping[Ref, str] = field(default_factory=dict)
    """What the deletion of an object deletes with it."""

    @property
    def deletes(self) -> bool:
        return any(fate in self.counts for fate in _DELETIONS)

    def status(self, before: Mapping[str, Any], *, revision: str, now: str) -> dict[str, Any]:
        """Return the field of the status; its time is that of ``before`` for the same digest."""
        since = before["since"] if before.get("digest") == self.digest else now
        return {
            "digest": self.digest,
            "scope": str(self.scope),
            **({"revision": revision} if revision else {}),
            "since": since,
            "counts": dict(self.counts),
            "objects": [
                {
                    "object": ref.short,
                    **({"namespace": ref.namespace} if ref.namespace else {}),
                    "fate": str(fate),
                    **({"cascade": self.cascades[ref]} if ref in self.cascades else {}),
                }
                for fate, ref in self.objects
            ],
        }


class Scope(StrEnum):
    """What the digest of a pending plan covers."""

    DELETIONS = "Deletions"
    PLAN = "Plan"


def _fates(plan: Plan) -> Iterator[tuple[Fate, ApplyStep | RemoveStep]]:
    """Yield each step with the fate that it would have if it were approved."""
    for step in plan.applies:
        yield Fate.RECREATE if step.cause is Cause.NOT_APPROVED else step.fate, step
    for removal in plan.removals:
        yield Fate.PRUNE if removal.is_doomed else removal.fate, removal


def count_key(fate: Fate) -> str:
    """Return the name of a fate among the counts: ``removeFromInventory``."""
    return to_camel(fate.replace("-", "_"))


def _counts_text(concerned: Iterable[tuple[Fate, ApplyStep | RemoveStep]]) -> str:
    """Return ``2 to prune, 1 to create``."""
    counts, cascaded = Counter[Fate](), 0
    for fate, step in concerned:
        counts[fate] += 1
        cascaded += len(step.cascade)
    found = [f"{counts[fate]} to {fate.replace('-', ' ')}" for fate in _ORDER if counts[fate]]
    return ", ".join([*found, f"{cascaded} cascaded"] if cascaded else found)


def _cascades_text(cascades: Mapping[Ref, str]) -> str:
    """Return what is deleted with the first objects."""
    return and_more([f"{ref.short} would {loss}" for ref, loss in cascades.items()], _SHOWN, "; ")


def _ignored_text(concerned: Iterable[tuple[Fate, ApplyStep | RemoveStep]]) -> str:
    """Return which objects would be deleted because of an ignore rule; empty for none."""
    steps = [step for _, step in concerned if isinstance(step, RemoveStep) and step.ignored]
    return and_more([f"{step.entry.ref.short}: {step.ignored}" for step in steps], _SHOWN, "; ")


def _ref(step: ApplyStep | RemoveStep) -> Ref:
    return step.desired.ref if isinstance(step, ApplyStep) else step.entry.ref


def _mismatch(approved: str) -> str:
    """Return why an annotation approves nothing; empty without one."""
    if not approved:
        return ""
    if not is_digest(approved):
        return f"the annotation {APPROVE} is not a digest"
    return f"the annotation {APPROVE}={approved[:_DIGITS]}… is about another plan"


def command(bundle: BundleSpec, digest: str) -> str:
    return (
        f"kubectl annotate {BUNDLES.full_plural} {bundle.name} -n {bundle.namespace} --overwrite "
        f"{APPROVE}={digest}"
    )


# The sets of other Bundles with an approval. Whoever adopts an object of such a set may change and
# delete it without that approval.


_LEVELS = {level: strictness for strictness, level in enumerate(Approval)}


def withheld_sets(
    bundle: BundleSpec, bundles: BundleObjects, owners: Mapping[str, LiveObject]
) -> Mapping[str, str]:
    """Return why a Bundle may not adopt from sets; ``owners`` has an object of each, by its label.

    Empty for a set from which it may. What cannot be known counts as an approval.
    """
    known: dict[str, Sequence[LiveObject]] = {}
    withheld: dict[str, str] = {}
    for label, live in owners.items():
        namespace = namespace_of_set(live)
        try:
            if namespace not in known:
                known[namespace] = bundles.in_namespace(namespace)
            found = (withholds(bundle, label, other) for other in known[namespace])
            why = next(filter(None, found), "")
        except ApplypruneError as error:
            where = f" of namespace {namespace}" if namespace else ""
            why = f"the controller cannot read the Bundles{where}: {error.message}"
        withheld[label] = why
    return withheld


def withholds(bundle: BundleSpec, label: str, other: LiveObject) -> str:
    """Return why a Bundle may not adopt from the set of another one; empty if it may.

    ``label`` is that of the set. It may if the same people approve at least as much of its plans.
    """
    namespace, name = other.ref.namespace, other.ref.name
    spec = mapping((other.body or {}).get("spec"))
    own_set = text(spec, "inventoryName") or name
    try:
        is_its = applyset_identity(own_set, namespace).id == label
    except UsageError:
        return ""
    try:
        approval = Approval(text(spec, "approval") or Approval.AUTOMATIC)
    except ValueError:
        approval = Approval.ALWAYS
    as_strict = namespace == bundle.namespace and (
        _LEVELS[bundle.spec.approval] >= _LEVELS[approval]
    )
    if (
        not is_its
        or approval is Approval.AUTOMATIC
        # guard: as-strict
        or as_strict
    ):
        return ""
    return (
        f"spec.approval of the Bundle {namespace}/{name} is {approval}. To adopt from it, use a "
        f"Bundle of the namespace {namespace} with the same approval, or let somebody who may "
        "approve there set it to Automatic meanwhile"
    )
