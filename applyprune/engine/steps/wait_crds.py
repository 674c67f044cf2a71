"""Waiting for CRDs: a kind may be used as soon as the API server answers for it.

The endpoint of a kind answers only once its CRD is Established (apiextensions-apiserver's
crdHandler), so a list of one says all; a CRD itself may be of 700 kB and is read only when the
wait grows long, to learn why.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError, NotReady, as_problem
from applyprune.model.events import Event, WarningRaised
from applyprune.model.resources import DEFINITIONS
from applyprune.planning.schema.crd import defined_resources, refused_names
from applyprune.planning.summary import waiting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from applyprune.engine.context import RunContext
    from applyprune.model.identity import Ref
    from applyprune.model.plan import Desired
    from applyprune.model.problem import Problem

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0
_SAY_AFTER = 2.0


@dataclass(slots=True)
class CrdWaiter:
    """Waits for one wave's CRDs; ``failed`` holds those that did not come."""

    context: RunContext
    failed: dict[Ref, Problem] = field(default_factory=dict)

    def run(self, definitions: Sequence[Desired]) -> Iterator[Event]:
        """Yield what is waited for; return when all are served or the time is up."""
        began = time.monotonic()
        pending = list(definitions)
        pause, timeout = _FIRST_PAUSE, self.context.options.wait.timeout
        said = 0.0
        while pending:
            ready = dict(self.context.workers.each(self._served, pending))
            self.context.stop.check()
            pending = [one for one in pending if not ready[one.ref] and one.ref not in self.failed]
            if not pending:
                break
            elapsed = time.monotonic() - began
            if elapsed > timeout:
                for one in pending:
                    self._fail(one, "it was not Established and served in time")
                break
            if elapsed - said > _SAY_AFTER:
                said = elapsed
                self._find_refused(pending)
                whys = dict.fromkeys((one.ref for one in pending), "")
                yield waiting(whys, "served", elapsed, timeout)
            self.context.stop.wait(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        for problem in self.failed.values():
            yield WarningRaised(problem)

    def _served(self, one: Desired) -> tuple[Ref, bool]:
        try:
            resources = defined_resources(one.body)
            return one.ref, all(self.context.cluster.serves(resource) for resource in resources)
        except ApplypruneError:
            return one.ref, False

    def _find_refused(self, pending: Sequence[Desired]) -> None:
        """Give up on CRDs whose names another one has already."""
        for one in pending:
            try:
                body = self.context.cluster.get(DEFINITIONS, one.ref, full=True).body or {}
            except ApplypruneError:
                continue
            if why := refused_names(body):
                self._fail(one, why)

    def _fail(self, one: Desired, why: str) -> None:
        error = NotReady(f"{one.ref.name} is not served", reason=why)
        self.failed[one.ref] = as_problem(error, where=one.origin)
