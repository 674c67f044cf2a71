"""What becomes of a Bundle's objects when it is deleted: its finalizer stays until that is done.

Done under the same identity as the apply. Whatever cannot be done keeps the finalizer, and the
condition says why: an object that nobody deletes and nobody lists any more is what must not be.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from applyprune.controller.bundle import DeletionPolicy
from applyprune.controller.following import Followed, follow, reason_of, reason_of_exit, told
from applyprune.controller.identity import AccountMissing
from applyprune.controller.names import APPROVE_PRUNE, FINALIZER, Reason
from applyprune.controller.notices import Weight
from applyprune.controller.objects import deleted_at
from applyprune.controller.status import Pass, Verdict
from applyprune.engine.context import WorkerPool
from applyprune.engine.releasing import release
from applyprune.engine.run import Request, run
from applyprune.engine.searching import search_all
from applyprune.errors import ApplypruneError, problems_of
from applyprune.model.options import Mode
from applyprune.model.problems import ProblemKind
from applyprune.model.visible import seconds_since
from applyprune.planning.tracking import PART_OF

if TYPE_CHECKING:
    from applyprune.controller.bundle import Bundle
    from applyprune.controller.identity import Acting, Identities
    from applyprune.controller.notices import Notices
    from applyprune.controller.objects import BundleObjects
    from applyprune.engine.cancellation import Cancellation
    from applyprune.model.live import Live


@dataclass(frozen=True, slots=True)
class Removal:
    """Removes what one Bundle has applied, by its deletion policy."""

    bundles: BundleObjects
    identities: Identities
    notices: Notices
    stop: Cancellation

    def of(self, live: Live, bundle: Bundle) -> Pass:
        """Do what is to be done, and take the finalizer off when it is; ``done`` says that.

        Raises Interrupted.
        """
        if FINALIZER not in live.finalizers:
            return Pass(Verdict.SAME, Reason.REMOVED, "nothing of it is left to remove", done=True)
        account, going = bundle.spec.service_account_name, False
        try:
            if self._goes_with_its_kind(live):
                one = self._release(live, bundle)
                self.bundles.let_go(live)
                return one
            going = self.identities.is_going(bundle.namespace)
            # In a namespace that is going the account goes first, and no other one of its name can
            # be made: what its name may do still, by a ClusterRoleBinding, is tried.
            with self.identities.acting_as(
                bundle.namespace, account, must_exist=not going
            ) as acting:
                one = self._remove(acting, live, bundle)
        except AccountMissing as error:
            message = f"{told(problems_of(error)[0])}; what it applied stays until it is back"
            one = Pass(Verdict.NOT_READY, Reason.SERVICE_ACCOUNT_NOT_FOUND, message, retries=True)
        except ApplypruneError as error:
            self.stop.check()
            one = Pass(
                Verdict.NOT_READY, reason_of(error), told(problems_of(error)[0]), retries=True
            )
        if not one.done and going and _age(live) > bundle.spec.timeout:
            one = self._give_up(bundle, one)
        if one.done:
            self.bundles.let_go(live)
        return one

    def _goes_with_its_kind(self, live: Live) -> bool:
        """Return whether nobody has deleted this Bundle, but the CRD and with it every Bundle."""
        crd, own = self.identities.crd_deleted_at(), deleted_at(live)
        return crd is not None and own is not None and crd <= own

    def _release(self, live: Live, bundle: Bundle) -> Pass:
        """Leave the set to the command line as it is: to take away a program is no wish to delete.

        Where its inventory cannot be written, `applyprune inventory release` does it later.
        """
        message = "the CRD of Bundles is being deleted: all objects stay, and stay listed"
        self.notices.about(live, Weight.WARNING, Reason.REMOVED, message)
        with (
            suppress(ApplypruneError),
            self.identities.acting_as(
                bundle.namespace, bundle.spec.service_account_name, must_exist=True
            ) as acting,
        ):
            options = bundle.options(Mode.APPLY)
            store = acting.store(bundle.target)
            for _ in release(bundle.target, options, store, self.stop, is_active=lambda _: False):
                pass
        self.stop.check()
        return Pass(Verdict.SAME, Reason.REMOVED, message, done=True)

    def _remove(self, acting: Acting, live: Live, bundle: Bundle) -> Pass:
        inventory = acting.store(bundle.target).read()
        if inventory.exists and inventory.owner != bundle.owner:
            # Released, or never taken over: it is somebody else's now, with all that it lists.
            whose = inventory.owner or "no Bundle"
            message = f"the set {inventory.name} belongs to {whose}; nothing of it was removed"
            self.notices.about(live, Weight.NORMAL, Reason.REMOVED, message)
            return Pass(Verdict.SAME, Reason.REMOVED, message, done=True)
        if not inventory.exists:
            return self._without_inventory(acting, bundle)
        if bundle.spec.suspend:
            message = "spec.suspend is true: its removal waits, and so do its objects"
            return Pass(Verdict.SAME, Reason.SUSPENDED, message)
        orphan = bundle.spec.deletion_policy is DeletionPolicy.ORPHAN
        options = bundle.options(
            Mode.ABANDON if orphan else Mode.DELETE,
            approved=live.annotations.get(APPROVE_PRUNE, ""),
        )
        request = Request(
            bundle.target,
            (),
            bundle.namespace,
            options,
            who=bundle.owner,
            owner=bundle.owner,
        )
        followed = Followed()
        events = run(request, acting.cluster, acting.store(bundle.target), self.stop)
        follow(events, followed, lambda _: None)
        self.stop.check()
        return self._came_to(live, bundle, followed)

    def _came_to(self, live: Live, bundle: Bundle, followed: Followed) -> Pass:
        if followed.exit_code == 0:
            message = f"objects dealt with: {len(followed.gone)}"
            return Pass(Verdict.SAME, Reason.REMOVED, message, followed=followed, done=True)
        failing = sorted(followed.failing.values(), key=lambda one: (one.skipped, one.ref))
        message = "; ".join(f"{one.ref.short}: {one.message}" for one in failing[:3])
        if followed.refusal is not None and not message:
            message = f"{followed.refusal.what}: {followed.refusal.why}"
        accepted = bool(failing) and all(one.kind is ProblemKind.NOT_READY for one in failing)
        if bundle.spec.deletion_policy is DeletionPolicy.DELETE and accepted:
            # Every one of them is deleted, and held by a finalizer of somebody else's.
            self.notices.about(live, Weight.WARNING, Reason.REMOVAL_INCOMPLETE, message)
            return Pass(
                Verdict.SAME, Reason.REMOVAL_INCOMPLETE, message, followed=followed, done=True
            )
        reason = reason_of_exit(followed.exit_code)
        if reason is not Reason.PRUNE_REFUSED:
            reason = Reason.REMOVAL_FAILED
        return Pass(Verdict.NOT_READY, reason, message, followed=followed, retries=True)

    def _without_inventory(self, acting: Acting, bundle: Bundle) -> Pass:
        """Look for what a lost inventory may have listed; without any of it there is nothing."""
        with WorkerPool(4, self.stop) as workers:
            catalogue = acting.cluster.catalogue()
            marked = search_all(acting.cluster, workers, catalogue, bundle.target)
        self.stop.check()
        if not marked.lives:
            return Pass(
                Verdict.SAME,
                Reason.REMOVED,
                "there is no inventory, and nothing bears its marks",
                done=True,
            )
        first = ", ".join(str(one.ref) for one in marked.lives[:3])
        message = (
            f"the inventory is gone, and {len(marked.lives)} objects bear the set's marks: "
            f"{first}. Make it anew: applyprune inventory repair {bundle.target.arguments}"
        )
        return Pass(Verdict.NOT_READY, Reason.INVENTORY_UNREADABLE, message, retries=True)

    def _give_up(self, bundle: Bundle, one: Pass) -> Pass:
        """Let go of a Bundle whose namespace is going; say what may be left, where that is seen."""
        message = (
            f"the Bundle {bundle.name} was let go of with its namespace {bundle.namespace}, before "
            f"all that it applied elsewhere could be removed: {one.message}. "
            f"See: kubectl get -A -l {PART_OF}={bundle.target.id}"
        )
        self.notices.about_namespace(bundle.namespace, Reason.REMOVAL_INCOMPLETE, message)
        return Pass(
            Verdict.SAME, Reason.REMOVAL_INCOMPLETE, message, followed=one.followed, done=True
        )


def _age(live: Live) -> float:
    """Return the seconds since somebody has deleted an object, by the server's clock and ours."""
    return seconds_since(live.metadata.get("deletionTimestamp"), datetime.now(UTC)) or 0.0
