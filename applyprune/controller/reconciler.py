"""One pass over one Bundle: read the world, do what it asks for, say what has come of it."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from applyprune.controller.bundle import InvalidSpec, read_bundle
from applyprune.controller.composing import SourceMissing, compose, used_refs
from applyprune.controller.dependencies import awaited
from applyprune.controller.following import Followed, follow, reason_of, reason_of_exit, told
from applyprune.controller.identity import AccountMissing
from applyprune.controller.logs import LOG, fields
from applyprune.controller.names import APPROVE_PRUNE, RECONCILE_NOW, STALLING, Reason
from applyprune.controller.notices import Weight, utc_now
from applyprune.controller.objects import status_of
from applyprune.controller.removal import Removal
from applyprune.controller.schedule import backoff, spread
from applyprune.controller.status import Pass, Verdict, after, progressing
from applyprune.engine.cancellation import Cancellation
from applyprune.engine.run import Request, run
from applyprune.errors import ApplypruneError, Conflict, Interrupted, NotFound, problems_of
from applyprune.model.events import Done, Outcome
from applyprune.model.options import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.controller.bundle import Bundle
    from applyprune.controller.composing import Uses
    from applyprune.controller.identity import Acting, Identities
    from applyprune.controller.metrics import Metrics
    from applyprune.controller.notices import Notices
    from applyprune.controller.objects import BundleObjects
    from applyprune.controller.queue import Key
    from applyprune.controller.watching import Watches
    from applyprune.model.events import Event
    from applyprune.model.live import Live

_NOT_YET = -1
_SECOND_LOOK = 10.0
"""Seconds that a pass may wait that tries again what was not ready in time."""
_UNREAD = 600.0
"""Seconds until a Bundle is looked at again whose spec cannot be read."""
_MISSING = {
    AccountMissing: Reason.SERVICE_ACCOUNT_NOT_FOUND,
    SourceMissing: Reason.SOURCE_NOT_FOUND,
}


@dataclass(slots=True)
class Reconciler:
    """Carries out Bundles; thread-safe, as long as no two threads have the same one."""

    bundles: BundleObjects
    identities: Identities
    watches: Watches
    notices: Notices
    metrics: Metrics
    stop: Cancellation
    _failures: dict[Key, int] = field(default_factory=dict)
    _under_way: dict[Key, tuple[Cancellation, int | None]] = field(default_factory=dict)
    _waited: dict[Key, tuple[int | None, str]] = field(default_factory=dict)

    def reconcile(self, key: Key) -> float | None:
        """Make one pass; return the seconds until the next, None when only news may ask for one.

        Raises ApplypruneError where not even the Bundle's status could be written, and Interrupted
        when the process is to end.
        """
        try:
            return self._reconcile(key)
        except Interrupted:
            self.stop.check()
            return 0.0  # the Bundle has changed under way: what it is now comes next
        finally:
            self._under_way.pop(key, None)

    def cut_off(self, key: Key, generation: int | None) -> None:
        """End the pass over a Bundle that is of another generation now; None ends any.

        It may be waiting for what will never be ready, and what is mended must not wait for that.
        """
        stop, worked_on = self._under_way.get(key, (None, None))
        if stop is not None and (generation is None or generation != worked_on):
            stop.request(0)

    def end(self) -> None:
        """Ask every pass that is under way to finish what is in flight, record it and end."""
        for stop, _ in list(self._under_way.values()):
            stop.request(0)

    def _reconcile(self, key: Key) -> float | None:
        began = time.monotonic()
        stop = Cancellation()
        # Before the read: what changes between the two is not what is worked on.
        self._under_way[key] = (stop, _NOT_YET)
        live = self.bundles.get(key)
        if live is None:
            self._forget(key)
            return None
        try:
            bundle = read_bundle(live)
        except InvalidSpec as error:
            one = Pass(Verdict.NOT_READY, Reason.INVALID_SPEC, told(problems_of(error)[0]))
            self._tell(live, one, began)
            return spread(_UNREAD)
        self._under_way[key] = (stop, live.generation)
        if self.stop.requested:
            stop.request(0)
        if live.terminating:
            removal = Removal(self.bundles, self.identities, self.notices, stop)
            one = removal.of(live, self._hurried(live, bundle, ""))
            if one.done:
                self._log(key, one, began)
                self.metrics.passed(key, one, time.monotonic() - began, {})
                self._forget(key, live.uid)
                return None
        else:
            held = self._begin(live, bundle)
            if held is None:
                return 0.0
            live = held
            one = self._pass(live, bundle, stop)
        self._tell(live, one, began, bundle)
        return self._next(key, bundle, one)

    def failed(self, key: Key) -> float:
        """Return the seconds until the next try after a pass that could say nothing."""
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        return spread(backoff(failures, first=1.0, longest=60.0))

    def _begin(self, live: Live, bundle: Bundle) -> Live | None:
        """Put the finalizer on it and say that it is worked on; None when it has changed."""
        if bundle.spec.suspend:
            return live
        try:
            held = self.bundles.hold(live)
        except (Conflict, NotFound):
            return None
        if held.generation != live.generation:
            return None
        status = status_of(held)
        if status.get("observedGeneration") != held.generation:
            generation = held.generation or 0
            return self.bundles.put_status(held, progressing(status, generation, utc_now()))
        return held

    def _pass(self, live: Live, bundle: Bundle, stop: Cancellation) -> Pass:
        spec, key = bundle.spec, (bundle.namespace, bundle.name)
        if spec.suspend:
            self.watches.wait_for(key, ())
            return Pass(Verdict.SAME, Reason.SUSPENDED, "spec.suspend is true: nothing is done")
        waiting = awaited(bundle, self.bundles)
        self.watches.wait_for(key, (one.name for one in spec.depends_on) if waiting else ())
        if waiting:
            return Pass(
                Verdict.NOT_READY, Reason.DEPENDENCY_NOT_READY, "; ".join(waiting), retries=True
            )
        uses: Uses = {}
        followed = Followed()
        revision = ""
        try:
            with self.identities.acting_as(
                bundle.namespace, spec.service_account_name, must_exist=True
            ) as acting:
                try:
                    composed = compose(bundle, acting.cluster, uses)
                finally:
                    refs = used_refs(bundle)
                    self.watches.follow(key, spec.service_account_name, refs, uses)
                revision = composed.revision
                approved = live.annotations.get(APPROVE_PRUNE, "")
                hurried = self._hurried(live, bundle, revision)
                options = hurried.options(Mode.APPLY, approved=approved)
                request = Request(
                    bundle.target,
                    composed.manifests,
                    spec.target_namespace or bundle.namespace,
                    options,
                    who=bundle.owner,
                    owner=bundle.owner,
                    takes_over=bool(spec.inventory_name),
                )
                self._run(acting, request, followed, stop)
        except (AccountMissing, SourceMissing) as error:
            message = told(problems_of(error)[0])
            return Pass(Verdict.NOT_READY, _MISSING[type(error)], message, revision, retries=True)
        except ApplypruneError as error:
            stop.check()  # a pass that is cut off says nothing
            return self._ended(error, followed, revision)
        stop.check()
        return self._came_to(followed, revision)

    def _hurried(self, live: Live, bundle: Bundle, revision: str) -> Bundle:
        """Return the Bundle with the time that this pass may wait: all of it only once.

        What was not ready in time is looked at again with every try; nobody else's Bundle is to
        wait for that.
        """
        key, now = (bundle.namespace, bundle.name), (live.generation, revision)
        if self._waited.get(key) == now and self._failures.get(key):
            timeout = min(bundle.spec.timeout, _SECOND_LOOK)
            return replace(bundle, spec=replace(bundle.spec, timeout=timeout))
        self._waited[key] = now
        return bundle

    def _run(
        self, acting: Acting, request: Request, followed: Followed, stop: Cancellation
    ) -> None:
        events = run(request, acting.cluster, acting.store(request.target), stop)
        follow(events, followed, lambda event: _log_event(request, followed, event))

    def _ended(self, error: ApplypruneError, followed: Followed, revision: str) -> Pass:
        """Return what a pass has come to that an error has ended."""
        problems = problems_of(error)
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        message = told(problems[0]) + more
        return Pass(Verdict.NOT_READY, reason_of(error), message, revision, followed, retries=True)

    def _came_to(self, followed: Followed, revision: str) -> Pass:
        total = followed.total
        objects = f"{total} object{'' if total == 1 else 's'}"
        if followed.exit_code == 0:
            return Pass(Verdict.READY, Reason.APPLIED, f"{objects} applied", revision, followed)
        reason = reason_of_exit(followed.exit_code)
        if followed.refusal is not None and not followed.failing:
            reason = Reason.PRUNE_REFUSED
        if reason is Reason.PRUNE_REFUSED and followed.refusal is not None:
            message = f"{followed.refusal.what}: {followed.refusal.why}"
        else:
            first = min(followed.failing.values(), key=lambda one: (one.skipped, one.ref))
            count = len(followed.failing)
            more = f" (and {count - 1} more)" if count > 1 else ""
            message = f"{count} of {objects} failed: {first.ref.short}: {first.message}{more}"
        return Pass(Verdict.NOT_READY, reason, message, revision, followed, retries=True)

    def _tell(self, live: Live, one: Pass, began: float, bundle: Bundle | None = None) -> None:
        """Write the status, if it is another one, and say it to those who watch."""
        before = status_of(live)
        inventory = None
        if bundle is not None and one.followed is not None:
            inventory = (bundle.target.inventory.name, bundle.target.id)
        status = after(
            before,
            one,
            generation=live.generation or 0,
            now=utc_now(),
            asked=live.annotations.get(RECONCILE_NOW, ""),
            inventory=inventory,
        )
        stored = self.bundles.put_status(live, status)
        key = (live.ref.namespace, live.ref.name)
        seconds = time.monotonic() - began
        self.metrics.passed(key, one, seconds, status)
        self._log(key, one, began)
        changed = one.followed is not None and one.followed.changed
        if one.verdict is Verdict.NOT_READY:
            self.notices.about(stored or live, Weight.WARNING, one.reason, one.message)
        elif changed or (one.verdict is Verdict.READY and _was_not_ready(before)):
            self.notices.about(stored or live, Weight.NORMAL, one.reason, _news(one))

    def _next(self, key: Key, bundle: Bundle, one: Pass) -> float | None:
        spec = bundle.spec
        if one.reason is Reason.SUSPENDED:
            return None
        if not one.retries or one.reason in STALLING:
            self._failures.pop(key, None)
            return spread(spec.interval)
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        return spread(backoff(failures, first=spec.retry_interval, longest=spec.interval))

    def _forget(self, key: Key, uid: str = "") -> None:
        self._failures.pop(key, None)
        self._waited.pop(key, None)
        self.watches.forget(key)
        self.metrics.forget(key)
        self.notices.forget(uid)

    def _log(self, key: Key, one: Pass, began: float) -> None:
        followed = one.followed
        counts = {str(each): n for each, n in followed.outcomes.items()} if followed else {}
        level = logging.WARNING if one.verdict is Verdict.NOT_READY else logging.INFO
        if one.verdict is Verdict.READY and followed is not None and not followed.changed:
            level = logging.DEBUG  # idle passes are no news
        LOG.log(
            level,
            "bundle reconciled",
            extra=fields(
                namespace=key[0],
                bundle=key[1],
                run=followed.run if followed else "",
                reason=str(one.reason),
                detail=one.message,
                seconds=round(time.monotonic() - began, 3),
                outcomes=counts or None,
            ),
        )


def _was_not_ready(before: Mapping[str, object]) -> bool:
    conditions = before.get("conditions")
    found = conditions if isinstance(conditions, list) else []
    return not any(one["type"] == "Ready" and one["status"] == "True" for one in found)


def _news(one: Pass) -> str:
    """Return what a person should hear of a pass that went well."""
    followed = one.followed
    if followed is None or not followed.changed:
        return one.message
    ordered = [each for each in Outcome if followed.outcomes[each]]
    return ", ".join(f"{followed.outcomes[each]} {each.text}" for each in ordered)


def _log_event(request: Request, followed: Followed, event: Event) -> None:
    if not isinstance(event, Done) or event.outcome in {Outcome.UNCHANGED, Outcome.NOT_PRUNED}:
        return
    LOG.info(
        "object dealt with",
        extra=fields(
            run=followed.run,
            set=f"{request.target.namespace}/{request.target.name}",
            object=event.ref.short,
            object_namespace=event.ref.namespace,
            outcome=str(event.outcome),
            error=told(event.problem) if event.problem else "",
        ),
    )
