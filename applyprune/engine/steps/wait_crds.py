"""Wait for CRDs: a kind can be used as soon as the API server serves it.

The endpoint of a kind answers only once its CRD is Established (apiextensions-apiserver's
crdHandler), so a list with a limit of one is enough. A CRD can be 700 kB large, so it is read only
if the wait takes long, to find out why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from applyprune.engine.context import RunContext
from applyprune.errors import ApplypruneError, NotReady, as_problem
from applyprune.model.events import Event, WarningRaised
from applyprune.model.identity import Ref
from applyprune.model.live import DEFINITIONS
from applyprune.model.plan import Desired
from applyprune.model.problem import Problem
from applyprune.planning.plan import waiting
from applyprune.planning.served_kinds import defined_resources, refused_names
from applyprune.values import dataclass, field

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0
_SAY_AFTER = 2.0
_TURNS = 10
"""A kind is served within seconds; nothing of the run can go on before."""


@dataclass(slots=True)
class CrdWaiter:
    """Waits for the CRDs of one wave; ``failed`` has those that are not served."""

    context: RunContext
    failed: dict[Ref, Problem] = field(default_factory=dict)

    def run(self, crds: Sequence[Desired]) -> Iterator[Event]:
        """Yield what is waited for; return when all are served or at the timeout."""
        began = self.context.cancellation.now()
        pending = list(crds)
        options = self.context.options.wait
        pause, timeout, longest = _FIRST_PAUSE, options.timeout, options.turn * _TURNS
        reported_at = 0.0
        while pending:
            ready = dict(self.context.workers.each(self._served, pending))
            self.context.cancellation.check()
            pending = [crd for crd in pending if not ready[crd.ref] and crd.ref not in self.failed]
            if not pending:
                break
            elapsed = self.context.cancellation.now() - began
            late = [crd for crd in pending if elapsed > min(crd.timeout or timeout, longest)]
            for crd in late:
                self._fail(crd, "it was not Established and served before the timeout")
            if len(late) == len(pending):
                break
            if elapsed - reported_at > _SAY_AFTER:
                reported_at = elapsed
                self._find_refused(pending)
                reasons = dict.fromkeys((crd.ref for crd in pending), "")
                yield waiting(reasons, "served", elapsed, timeout)
            self.context.cancellation.wait(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        for problem in self.failed.values():
            yield WarningRaised(problem)

    def _served(self, crd: Desired) -> tuple[Ref, bool]:
        try:
            resources = defined_resources(crd.body)
            return crd.ref, all(self.context.cluster.serves(resource) for resource in resources)
        except ApplypruneError:
            return crd.ref, False

    def _find_refused(self, pending: Sequence[Desired]) -> None:
        """Give up on CRDs whose names another CRD already has."""
        for crd in pending:
            try:
                body = self.context.cluster.get(DEFINITIONS, crd.ref, full=True).body or {}
            except ApplypruneError:
                continue
            if reason := refused_names(body):
                self._fail(crd, reason)

    def _fail(self, crd: Desired, reason: str) -> None:
        error = NotReady(f"{crd.ref.name} is not served", reason=reason)
        self.failed[crd.ref] = as_problem(error, where=crd.origin)
