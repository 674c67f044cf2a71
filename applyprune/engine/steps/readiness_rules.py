"""Compile the rules by which the objects of one run are ready, and choose what to wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError, InputError, UsageError
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.live import CRD, DEFINITIONS
from applyprune.planning.cel import compile_rule
from applyprune.planning.marks import READY_WHEN
from applyprune.planning.order import is_built_in
from applyprune.planning.readiness import Awaited, Wait, is_awaited
from applyprune.planning.served_kinds import defined_kinds, has_status
from applyprune.values import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from applyprune.engine.ports import Cluster
    from applyprune.model.options import Options
    from applyprune.model.plan import Desired
    from applyprune.planning.cel import Rule


@dataclass(slots=True)
class ReadinessRules:
    """The rules by which the objects of one run are ready.

    The constructor compiles all rules, before anything is written. A run with ``errors`` must not
    go on.
    """

    cluster: Cluster
    desired: Sequence[Desired]
    options: Options
    errors: list[ApplypruneError] = field(default_factory=list)
    """The invalid rules."""
    _kinds: dict[GroupKind, Rule] = field(default_factory=dict)
    _texts: dict[str, Rule] = field(default_factory=dict)
    _statuses: dict[GroupKind, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Compile every rule."""
        for name, text in self.options.wait.ready_when:
            try:
                self._kinds[_kind_of(name)] = compile_rule(text, where=f"--ready-when {name}")
            except UsageError as error:
                self.errors.append(error)
        for desired in self.desired:
            if desired.ready_when and desired.ready_when not in self._texts:
                try:
                    rule = compile_rule(desired.ready_when, where=str(desired.origin))
                except InputError as error:
                    error.origin = desired.origin
                    error.field = ("metadata", "annotations", READY_WHEN)
                    self.errors.append(error)
                else:
                    self._texts[desired.ready_when] = rule
            if desired.ref.group_kind == CRD:
                for kind in defined_kinds(desired.body):
                    self._statuses[kind] = has_status(desired.body)

    def of(
        self,
        candidates: Iterable[Desired],
        since: Mapping[Ref, float],
        completed: Collection[Ref] = (),
    ) -> Sequence[Awaited]:
        """Return those of ``candidates`` that need a wait; ``since`` is when they were applied.

        ``completed`` are the Jobs of which the inventory says so.
        """
        return [
            Awaited(
                ref=desired.ref,
                resource=desired.resource,
                since=since[desired.ref],
                origin=desired.origin,
                has_ttl=desired.has_ttl,
                completed=desired.ref in completed,
                has_status=self._has_status(desired),
                job_started=desired.wait == Wait.STARTED,
                timeout=desired.timeout,
                rule=self._texts.get(desired.ready_when) or self._kinds.get(self._key(desired)),
            )
            for desired in candidates
            if is_awaited(
                desired, has_rule=bool(desired.ready_when) or self._key(desired) in self._kinds
            )
        ]

    def _key(self, desired: Desired) -> GroupKind:
        kind = desired.ref.group_kind
        return GroupKind(kind.group, kind.kind.lower())

    def _has_status(self, desired: Desired) -> bool:
        kind = desired.ref.group_kind
        if is_built_in(kind.group):
            return False
        if kind not in self._statuses:
            name = Ref(CRD.group, CRD.kind, "", desired.resource.full_plural)
            try:
                body = self.cluster.get(DEFINITIONS, name, full=True).body or {}
            except ApplypruneError:
                body = {}  # an aggregated API, or forbidden: go by the object alone
            self._statuses[kind] = has_status(body)
        return self._statuses[kind]


def _kind_of(text: str) -> GroupKind:
    kind, _, group = text.partition(".")
    if not kind:
        raise UsageError(f"{text!r} does not name a kind", hint="Write KIND.GROUP=EXPRESSION.")
    return GroupKind(group, kind.lower())
