"""Check an inventory against the cluster and repair it, without creating or deleting objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from applyprune.engine.context import RunContext, run_context
from applyprune.engine.inventory_lock import WRITE_MARGIN
from applyprune.engine.listing import KindProofs, all_labelled_objects
from applyprune.engine.preflight import no_such_set
from applyprune.engine.snapshot_reader import SnapshotReader
from applyprune.errors import ApplypruneError, InventoryError, as_problem
from applyprune.model.events import Event, MismatchFound, ObjectDone, Outcome, WarningRaised
from applyprune.model.identity import GroupKind
from applyprune.model.inventory import Inventory, Mismatch, MismatchType, Ownership, Repair
from applyprune.model.options import DryRun, Mode, Options
from applyprune.model.problem import Problem
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.managed_fields import is_applied
from applyprune.planning.order import is_built_in
from applyprune.planning.ownership import has_witness
from applyprune.planning.recovery import check, repaired, unsearched_problem
from applyprune.planning.requests import mark_request
from applyprune.planning.served_kinds import hidden_kind_problem
from applyprune.values import dataclass, replace

if TYPE_CHECKING:
    from applyprune.engine.cancellation import Cancellation
    from applyprune.engine.ports import Cluster, DamagedStore


def repair(
    applyset: ApplySetIdentity,
    options: Options,
    ownership: Ownership,
    cluster: Cluster,
    store: DamagedStore,
    cancellation: Cancellation,
) -> Iterator[Event]:
    """Yield every mismatch and repair it; with ``options.dry_run``, repair nothing.

    ``ownership`` is how an unlisted object of the set is recorded. Raises AccessError,
    InventoryLocked and Interrupted; InventoryError if the ConfigMap is not an inventory.
    """
    with run_context(cluster, store, applyset, options, cancellation, mode=Mode.REPAIR) as context:
        yield from _Repair(context, store, ownership).events()


@dataclass(slots=True)
class _Repair:
    context: RunContext
    store: DamagedStore
    ownership: Ownership
    damage: Sequence[str] = ()
    unseen: Sequence[str] = ()
    unrelated: Sequence[str] = ()
    hidden: frozenset[GroupKind] = frozenset()

    def events(self) -> Iterator[Event]:
        """Read, compare, report, write, restore the labels, write again."""
        options, summary = self.context.options, self.context.summary
        yield self.context.started(Mode.REPAIR)
        if options.dry_run is DryRun.OFF:
            yield from self.context.lock.wait(self._salvage)
            inventory = self.context.lock.inventory
        else:
            inventory = self._salvage()
        mismatches = self._mismatches(inventory)
        yield from (WarningRaised(unsearched_problem(line)) for line in self.unrelated)
        yield from (MismatchFound(mismatch) for mismatch in mismatches)
        repairs = [mismatch for mismatch in mismatches if mismatch.repair is not Repair.NONE]
        if repairs and options.dry_run is DryRun.OFF:
            yield from self._repair(inventory, repairs)
        yield summary.finished()

    def _salvage(self) -> Inventory:
        """Read the readable part of the inventory, and remember the damage."""
        inventory, self.damage = self.store.salvage()
        return inventory

    def _mismatches(self, inventory: Inventory) -> Sequence[Mismatch]:
        cluster, workers = self.context.cluster, self.context.workers
        applyset = self.context.applyset
        # A damaged inventory may have lost entries, but its annotation still names their groups.
        groups = {ref.group for ref in inventory.entries}
        groups |= {kind.group for kind in inventory.hidden_kinds}
        proofs = KindProofs(cluster, workers, cluster.resource_map(), cluster.patience)
        is_whole = inventory.exists and not self.damage
        marked, resource_map = all_labelled_objects(
            proofs, applyset, groups=groups if is_whole else None
        )
        reader = SnapshotReader(cluster, workers, applyset, self.store)
        # Nothing leaves the inventory because it is missing, so a list is enough.
        snapshot = reader.read(
            (), inventory, resource_map, prunes=False, proves=False, searches=False
        )
        self.context.cancellation.check()
        if not (inventory.exists or marked.objects):
            raise no_such_set(applyset)
        unseen = marked.unseen_in(groups) if is_whole else marked.unseen
        self.unrelated = [line for line in marked.unseen if line not in unseen]
        snapshot = replace(
            snapshot,
            marked=marked.objects,
            unseen=unseen,
            resources={**resource_map.preferred, **snapshot.resources},
        )
        self.unseen = marked.unseen
        unserved = self._unserved_kinds(inventory, proofs)
        unlisted = {one.kind for one in marked.unlisted}
        self.hidden = frozenset(
            kind for kind in inventory.hidden_kinds if unserved.get(kind) or kind in unlisted
        )
        return check(
            inventory,
            self.damage,
            self.store.strays(),
            snapshot,
            applyset,
            ownership=self.ownership,
            unserved=unserved,
        )

    def _unserved_kinds(self, inventory: Inventory, proofs: KindProofs) -> Mapping[GroupKind, str]:
        """Return the kinds without an entry that are not served, and why they stay recorded."""
        accepted = self.context.options.allow_partial
        return {
            kind: ""
            if accepted
            else hidden_kind_problem(
                kind,
                proofs.of({kind.group}),
                proofs.registered,
                built_in=is_built_in(kind.group),
            )
            for kind in sorted(inventory.hidden_kinds)
            if proofs.resource_map.find_kind(kind) is None
        }

    def _repair(self, inventory: Inventory, mismatches: Sequence[Mismatch]) -> Iterator[Event]:
        self._refuse_partial(mismatches)
        entries = repaired(inventory, mismatches)
        hidden = frozenset() if self.context.options.allow_partial else self.hidden
        yield self.context.lock.take(
            replace(inventory, entries=entries, copied=False, hidden_kinds=hidden)
        )
        for mismatch, problem in self.context.workers.each(self._mark, mismatches):
            yield from self._done(mismatch, problem)
        exit_code = self.context.cancellation.exit_code or self.context.summary.exit_code
        changes = self.context.summary.changes
        yield self.context.lock.release(entries, exit_code=exit_code, changes=changes)
        self.context.cancellation.check()

    def _refuse_partial(self, mismatches: Sequence[Mismatch]) -> None:
        """Refuse to replace a damaged inventory with an incomplete one."""
        rebuilt = any(
            mismatch.type in {MismatchType.DAMAGED, MismatchType.LOST} for mismatch in mismatches
        )
        if rebuilt and self.unseen and not self.context.options.allow_partial:
            raise InventoryError(
                f"the inventory of the set {self.context.applyset.name} was not rebuilt",
                reason=f"not everything could be listed: {'; '.join(self.unseen[:3])}",
                hint="Objects that could not be listed would be lost from the inventory. Retry "
                "with more permissions, or accept that with --allow-partial.",
            )

    def _mark(self, mismatch: Mismatch) -> tuple[Mismatch, Problem | None]:
        if mismatch.live is None or mismatch.resource is None or mismatch.ref is None:
            return mismatch, None
        self.context.lock.ensure(WRITE_MARGIN)
        try:
            live, applyset = mismatch.live, self.context.applyset
            # The server makes the patch's manager the owner of what it changes: the label, and the
            # annotation. A second patch must return them.
            for _ in range(2):
                request = mark_request(mismatch.resource, live, applyset, owned=mismatch.owned)
                live = self.context.cluster.patch(request)
                is_marked = is_applied(live, applyset.manager)
                if is_marked and has_witness(live, applyset) >= mismatch.owned:
                    break
        except ApplypruneError as error:
            return mismatch, as_problem(error, where=str(mismatch.ref))
        return mismatch, None

    def _done(self, mismatch: Mismatch, problem: Problem | None) -> Iterator[Event]:
        if mismatch.ref is None:
            return  # about the inventory itself, which is rewritten as a whole
        outcome = Outcome.FAILED if problem else Outcome.REPAIRED
        done = ObjectDone(mismatch.ref, outcome, reason=mismatch.repair.text, problem=problem)
        yield from self.context.summary.counted((done,))
