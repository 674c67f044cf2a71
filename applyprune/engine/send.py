"""Send the requests for one object, one at a time: field transfers, the apply, a recreation.

It also explains why one has failed. The requests of a prune are sent in ``prune.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from applyprune.engine.lock import DELETE_TIMEOUT
from applyprune.engine.waiting import (
    DeletedObject,
    DeletionWait,
    Gone,
    growing_pauses,
    longest_for_kinds,
)
from applyprune.errors import (
    ApplypruneError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotReady,
    NotServed,
    PruneRefused,
    RunFailed,
)
from applyprune.model.fate import Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import Ownership
from applyprune.model.live import Absent, LiveObject
from applyprune.model.plan import (
    NO_MIGRATION,
    ApplyRequest,
    ApplyStep,
    Desired,
    PatchRequest,
)
from applyprune.model.problem import Problem
from applyprune.planning.cascade import cascades_of, deletions_of, refused_recreation_of
from applyprune.planning.comparison import STORED
from applyprune.planning.full_reads import explained
from applyprune.planning.plan import with_checked_request
from applyprune.planning.replies import (
    confirmed,
    created_by_others,
    is_repeated,
    not_deleted,
    not_stored,
    proves_apply,
    proves_patch,
    refuse_false_absence,
    refused_guard,
    shows_apply,
)
from applyprune.planning.requests import settle_request
from applyprune.planning.server_errors import (
    advice_on,
    clean_message,
    error_fields,
    is_about_stored,
    is_without_namespace,
)
from applyprune.values import replace

if TYPE_CHECKING:
    from typing import TypeVar

    from applyprune.engine.context import RunContext
    from applyprune.engine.ports import Cluster
    from applyprune.engine.reader import DependantCounter
    from applyprune.model.plan import DeleteRequest

    _Reply = TypeVar("_Reply")


_SETTLED_SOON = 2.0
_POLL = 0.1


# Before the apply, fields change hands, one guarded request at a time. If the object has changed,
# it is read, and planning makes the request again.


_WRITE_TRIES = 12


def transfer_fields(
    context: RunContext, step: ApplyStep, is_coming: Callable[[], bool]
) -> ApplyStep:
    """Send everything that goes before the apply; return the step with the apply itself.

    See ``when_served`` for ``is_coming``. Raises Conflict if the object was re-created; RunFailed
    if it keeps changing, or if force would take more of it than was decided.
    """
    desired, applyset, options = step.desired, context.applyset, context.options
    for _ in range(_WRITE_TRIES):
        request = step.request
        if step.live is None or request is None or request.before is None:
            return step
        try:
            first = partial(send, context.cluster, request.before, step.live)
            live = when_served(context, desired, is_coming, first)
        except Conflict as error:
            step = decided_again(context, step, error)
        else:
            step = with_checked_request(step, live, applyset, options, is_reply=True)
    raise RunFailed(
        f"{desired.ref} changes faster than it can be taken over", location=desired.origin
    )


def send(cluster: Cluster, request: PatchRequest | ApplyRequest, before: LiveObject) -> LiveObject:
    """Send one request, and the patch that must follow it; return the object as stored.

    ``before`` is the object for which the request was made. The second patch may fail: the next
    apply of the object will own the label's field as well. Raises Conflict if the reply does not
    prove that it is stored, and the object has changed; RunFailed if nothing is stored.
    """
    if isinstance(request, ApplyRequest):
        return proved_reply(cluster, request, before, cluster.apply(request)[0])
    after = proved_reply(cluster, request, before, cluster.patch(request))
    if (settling := settle_request(request, after)) is not None:
        with suppress(ApplypruneError):
            return proved_reply(cluster, settling, after, cluster.patch(settling))
    return after


def when_served(
    context: RunContext, desired: Desired, is_coming: Callable[[], bool], call: Callable[[], _Reply]
) -> _Reply:
    """Return what a request returns, sent again while its kind is not served yet.

    ``is_coming`` says whether its CRD brings this version: one API server of several may serve it
    later than the others.
    """
    began = context.cancellation.now()
    pauses = growing_pauses(_POLL, longest=2.0)
    while True:
        waited = context.cancellation.now() - began
        try:
            return call()
        except NotServed as error:
            is_awaited = not is_without_namespace(error, desired.ref) and is_coming()
            longest = longest_for_kinds(context.options.wait)
            if not is_awaited or waited > longest or context.cancellation.wait(next(pauses)):
                raise


def proved_reply(
    cluster: Cluster,
    request: PatchRequest | ApplyRequest,
    before: LiveObject,
    reply: LiveObject,
) -> LiveObject:
    """Return the reply to a request that changes an object, if it proves that this is stored."""
    is_done = isinstance(request, PatchRequest) and not request.changes
    if is_done or proves_patch(request, before, reply):  # guard: transfer-is-stored always
        return reply
    state = cluster.read(request.resource, request.ref, full=True)
    is_as_before = isinstance(state, LiveObject) and (
        (state.uid, state.resource_version) == (before.uid, before.resource_version)
    )
    if is_as_before or isinstance(state, Absent):
        raise not_stored(state)
    is_that = state.resource_version == reply.resource_version
    if is_that and (state.uid, reply.uid) == (before.uid, before.uid):
        return state  # the reply only lacks a part of it
    raise Conflict(f"{request.ref} has changed since it was read", code=409)


def send_apply(
    context: RunContext,
    step: ApplyStep,
    is_settling: Callable[[ApplypruneError], bool],
    is_coming: Callable[[], bool],
) -> tuple[LiveObject, bool]:
    """Send the request of a step; return the object as stored, and whether it was created.

    ``is_settling`` says whether an error is about what this run has just written; see
    ``when_served`` for ``is_coming``. Raises the errors of an apply.
    """
    began = context.cancellation.now()
    outdated, is_second = 0, False
    while True:
        if step.request is None:
            raise ValueError(f"nothing is sent for {step.desired.ref}")
        waited = context.cancellation.now() - began
        try:
            apply = partial(context.cluster.apply, step.request)
            reply, created = when_served(context, step.desired, is_coming, apply)
            is_proof = proves_apply(step, reply, context.applyset)
            # guard: repeated-reply always
            if is_proof or is_second or not is_repeated(step, reply):
                # guard: apply-is-stored -> reply
                live = reply if is_proof else _read_after(context, step, reply)
                return live, created
            is_second = True
        except Conflict as error:
            outdated += 1
            if not is_outdated(step, step.request, error) or outdated > _WRITE_TRIES:
                raise
            if context.cancellation.wait(_POLL):
                raise
            # What goes before the apply may be due only now.
            # guard: transfer-of-the-changed -> decided_again(context, step, error)
            step = transfer_fields(context, decided_again(context, step, error), is_coming)
        except (Forbidden, Invalid, NotFound) as error:
            # The server decides by its caches, which follow a write after a moment.
            if not is_settling(error) or waited > _SETTLED_SOON or context.cancellation.wait(_POLL):
                raise


def _read_after(context: RunContext, step: ApplyStep, reply: LiveObject) -> LiveObject:
    """Return the object as stored, after a reply that does not prove the apply.

    Raises RunFailed if it is not stored.
    """
    desired = step.desired
    state = context.cluster.read(desired.resource, desired.ref, full=True)
    if isinstance(state, LiveObject) and shows_apply(step, reply, state, context.applyset):
        return state
    raise not_stored(state)


def create_first(context: RunContext, step: ApplyStep) -> LiveObject:
    """Create the Namespace of the inventory, before that exists; return it as stored.

    Only a create is sent. If the Namespace exists now, it must have this set's marks: the reply
    was lost, or another run of the set was first, and the inventory decides which of them goes on.
    """
    desired = step.desired
    try:
        live, created = send_apply(context, step, lambda _: False, lambda: False)
    except (Conflict, Invalid) as error:
        state = context.cluster.read(desired.resource, desired.ref, full=True)
        found = state if isinstance(state, LiveObject) else None
        is_ours = refused_guard(step, found, error, context.applyset)
        if found is None or not is_ours:
            raise
        live, created = found, True
    outcome = Outcome.CREATED if created else Outcome.UNCHANGED
    confirmed(step, live, context.applyset, {}, outcome)  # a 200 is not yet success
    return live


def is_outdated(step: ApplyStep, request: ApplyRequest, error: Conflict) -> bool:
    """Return whether only the resourceVersion of the request is wrong.

    Each write of a status outdates it; then the step may be decided again.
    """
    names_version = step.live is not None and request.precondition.resource_version
    return bool(names_version) and not error.causes


def decided_again(context: RunContext, step: ApplyStep, error: Conflict) -> ApplyStep:
    """Return the step for an object that has changed since it was read, as it is now.

    Raises ``error`` if it is about fields of others, or if the object was re-created; RunFailed if
    more than was decided would be done.
    """
    desired, before = step.desired, step.live
    if error.causes:
        raise error
    live = context.cluster.get(desired.resource, desired.ref, full=True)
    if before is None or live.uid != before.uid:
        raise error
    return with_checked_request(step, live, context.applyset, context.options)


# Delete and re-create an object, if it cannot be changed in place and that is allowed.
#
# Each step is recorded before it is taken, so the entry stays true if the run is interrupted: first
# the intent to delete exactly this object, then that no object exists. Only then comes the create,
# whose guard allows nothing but a create.


_TRIES = 8


class Recreator(Struct, frozen=True):
    """Recreates objects for one run."""

    context: RunContext
    dependants: DependantCounter
    """What the garbage collector deletes with what the plan deletes."""
    listed: Collection[Ref]
    """All refs in the inventory."""

    def refuse_cascade(self, live: LiveObject) -> None:
        """Refuse an object that the plan does not recreate, if others would be deleted with it.

        Raises PruneRefused.
        """
        options = self.context.options
        deletions = deletions_of([live], {}, options.prune.propagation)
        found = self.dependants.count(deletions, in_worker=True)
        cascades = cascades_of(found, [live], self.listed)
        if problem := refused_recreation_of(live.ref, cascades, options):
            raise PruneRefused(problem.message, reason=problem.reason, hint=problem.hint)

    def delete(
        self,
        step: ApplyStep,
        live: LiveObject,
        request: DeleteRequest,
        judge_again: Callable[[], tuple[LiveObject, DeleteRequest]],
    ) -> ApplyStep:
        """Delete the object, wait until it is gone, and return the step that creates it.

        If the object has changed since it was read, as a Job does whenever its controller writes
        its status, ``judge_again`` reads it and returns its delete. It raises if the object may not
        be deleted any more. Raises NotReady if the object is not gone before the timeout.
        """
        for _ in range(_TRIES):
            try:
                return self._delete(step, live, request)
            except Conflict:  # guard: recreation-judged-again
                live, request = judge_again()
        raise RunFailed(
            f"{step.desired.ref} changes faster than it can be deleted",
            location=step.desired.origin,
            hint="Run again.",
        )

    def _delete(self, step: ApplyStep, live: LiveObject, request: DeleteRequest) -> ApplyStep:
        context, desired = self.context, step.desired
        context.lock.record_entry(replace(step.entry, uid=live.uid, deleting=True))
        context.lock.ensure(DELETE_TIMEOUT)
        try:
            context.cluster.delete(request, timeout=DELETE_TIMEOUT)
        except NotFound as error:
            state = context.cluster.read(desired.resource, desired.ref)
            refuse_false_absence(live.uid, state, error)
        self._await_gone(desired, live)
        fresh = replace(
            step.entry,
            uid_before_apply=None,
            uid="",
            ownership=Ownership.OWNED,
            digest="",
            fingerprint=None,
            owned_fields="",
            marks=(),
            deleting=False,
            job=None,
        )
        context.lock.record_entry(fresh)
        fresh_step = replace(
            step,
            entry=fresh,
            fence=False,
            migration=NO_MIGRATION,
            takes_over=False,
            deletion=request,  # guard: reply-of-the-deleted
        )
        return with_checked_request(fresh_step, None, context.applyset, context.options)

    def _await_gone(self, desired: Desired, live: LiveObject) -> None:
        cancellation = self.context.cancellation
        deleted = [DeletedObject(desired.resource, desired.ref, live.uid)]
        options = self.context.options.wait
        # What is gone later is created by a later run, as after a crash.
        longest = min(desired.timeout or options.timeout, options.turn)
        # This thread is a worker already.
        read = self.context.cluster.read
        wait = DeletionWait(deleted, longest, cancellation, read, is_own=True)
        for event in wait.run():
            if isinstance(event, Gone) and event.replaced:
                raise created_by_others(desired)
        if not wait.pending:
            return
        cancellation.check()
        if any(map(wait.is_unmarked, wait.pending)):
            raise not_deleted(desired.ref, desired.origin)
        held = ", ".join(wait.last.get(desired.ref, live).finalizers)
        raise NotReady(
            f"{desired.ref} is still being deleted; it cannot be re-created yet",
            location=desired.origin,
            reason=f"its finalizers have not finished: {held}" if held else "",
            hint="Run again when it is gone.",
        )


# Why an apply has failed; if a read fails, explain less.


_DEAD_VERSION = "to an invalid group/version"


def apply_problem(error: ApplypruneError, step: ApplyStep, context: RunContext) -> Problem:
    """Return the failure of one object as a problem that names the object and its fields.

    A conflict is explained in full.
    """
    desired = step.desired
    problem = error.problem_at(desired.origin)
    if isinstance(error, Conflict) and error.causes:
        live = _live(desired, context.cluster)
        problem = explained(error, step, live, context.applyset, context.options)
    if isinstance(error, Conflict | Invalid):
        problem = _about_fields(problem, error, desired)
    elif isinstance(error, Forbidden):
        problem = replace(problem, hint=problem.hint or advice_on(error.message))
    elif isinstance(error, NotServed) and is_without_namespace(error, desired.ref):
        problem = replace(
            problem,
            message=f"{desired.ref}: there is no namespace {desired.ref.namespace}",
            reason="",
            lasting_reason="",
            hint="Add the Namespace to the manifests, or create it first: "
            f"kubectl create namespace {desired.ref.namespace}",
            field=("metadata", "namespace"),
        )
    if _DEAD_VERSION in problem.message and not problem.hint:
        # This run has seen the version served, or it would have rewritten the entry.
        hint = "Run again: the version has ceased to be served during this run."
        problem = replace(problem, hint=hint)
    if not error.location and str(desired.ref) not in problem.message:
        problem = replace(problem, message=f"{desired.ref}: {problem.message}")
    return problem


def _live(desired: Desired, cluster: Cluster) -> LiveObject | None:
    try:
        return cluster.get(desired.resource, desired.ref, full=True)
    except ApplypruneError:
        return None


def _about_fields(problem: Problem, error: Conflict | Invalid, desired: Desired) -> Problem:
    if is_about_stored(error):
        return replace(
            problem,
            message=f"{desired.ref}: {STORED}: {clean_message(problem.message)}",
            reason="",
            lasting_reason="",
            hint="Nothing in the manifest changes that. --recreate deletes and creates it.",
        )
    marks = error_fields(error, desired.body)
    if marks and isinstance(error, Invalid):
        # If the field is known, the request adds nothing.
        problem = replace(problem, reason="", lasting_reason="")
    return replace(
        problem,
        message=clean_message(problem.message),
        hint=problem.hint or advice_on(error.message),
        field=marks[0].field if marks else (),
        marks=marks if len(marks) > 1 else (),
    )
