"""Reconcile Bundles, one after the other, as far as each is let."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from applyprune.controller.clusters.other_clusters import AwaitsTurn, OtherClusters
from applyprune.controller.known_bundle import MustReadAgain
from applyprune.controller.reconcile.one_reconcile import OneReconcile
from applyprune.controller.task import Answer, Task
from applyprune.errors import Interrupted
from applyprune.values import dataclass, replace

if TYPE_CHECKING:
    from applyprune.controller.bundle_client import BundleObjects
    from applyprune.controller.constants import Key
    from applyprune.controller.reconcile.report import Reporter
    from applyprune.controller.reconcile.source_reader import SourceReader
    from applyprune.controller.runtime.impersonation import Impersonation
    from applyprune.model.live import LiveObject


@dataclass(slots=True)
class Reconciler:
    """Reconciles Bundles, one at a time; it keeps nothing of one for the next."""

    bundles: BundleObjects
    impersonation: Impersonation
    clusters: OtherClusters
    sources: SourceReader
    reporter: Reporter
    _current: OneReconcile | None = None
    _ended: bool = False

    def reconcile(self, task: Task) -> Answer:
        """Reconcile a Bundle once.

        Raises ApplypruneError if not even the Bundle's status could be written.
        """
        if task.known is not None:
            with suppress(MustReadAgain):
                return self._reconcile(task, task.known.unpack(task.key))
        return self._reconcile(task, None)

    def _reconcile(self, task: Task, known: LiveObject | None) -> Answer:
        self._current = current = OneReconcile(
            self.bundles,
            self.impersonation,
            self.clusters,
            self.sources,
            self.reporter,
            task.key,
            task.past,
            task.drifted,
            known,
            task.source,
        )
        if self._ended:
            current.stop.request(0)
        try:
            return current.run()
        except Interrupted:
            # The Bundle changed in between, or the process ends.
            return Answer(0.0, task.past)
        except AwaitsTurn as turn:
            past = replace(task.past, cluster=turn.cluster)
            return replace(current.answer, delay=0.0, past=past)
        finally:
            self._current = None

    def cut_off(self, key: Key, generation: int | None) -> None:
        """End the reconcile of an older generation of a Bundle; None ends any; thread-safe.

        What is in flight is finished and recorded.
        """
        current = self._current
        if current is not None and current.key == key:
            current.cut_off(generation)

    def end(self) -> None:
        """End the reconcile that is under way, and every later one; thread-safe."""
        self._ended = True
        if (current := self._current) is not None:
            current.stop.request(0)
