"""What a run waits for: each object with the rule by which it is ready, found out once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from applyprune.errors import ApplypruneError, InputError, UsageError, raise_all
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.resources import CRD, DEFINITIONS
from applyprune.planning.annotations import READY_WHEN
from applyprune.planning.order import is_built_in
from applyprune.planning.readiness.cel import compile_rule
from applyprune.planning.readiness.wait_rules import Awaited, Wait, is_awaited
from applyprune.planning.schema.crd import defined_kinds, has_status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from applyprune.engine.ports import Cluster
    from applyprune.model.options import Options
    from applyprune.model.plan import Desired
    from applyprune.planning.readiness.cel import Rule


@dataclass(slots=True)
class Expectations:
    """The rules of one run; making it compiles them all, before anything is written."""

    cluster: Cluster
    desired: Sequence[Desired]
    options: Options
    _kinds: dict[GroupKind, Rule] = field(default_factory=dict)
    _texts: dict[str, Rule] = field(default_factory=dict)
    _statuses: dict[GroupKind, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Compile every rule; raises InputErrors for those that are none, UsageError for a kind."""
        errors: list[InputError] = []
        for name, text in self.options.ready_when:
            self._kinds[_kind_of(name)] = compile_rule(text, where=f"--ready-when {name}")
        for one in self.desired:
            if one.ready_when and one.ready_when not in self._texts:
                try:
                    rule = compile_rule(one.ready_when, where=str(one.origin))
                except InputError as error:
                    error.origin = one.origin
                    error.field = ("metadata", "annotations", READY_WHEN)
                    errors.append(error)
                else:
                    self._texts[one.ready_when] = rule
            if one.ref.group_kind == CRD:
                for kind in defined_kinds(one.body):
                    self._statuses[kind] = has_status(one.body)
        raise_all(errors)

    def of(self, ones: Iterable[Desired], since: Mapping[Ref, float]) -> Sequence[Awaited]:
        """Return those of ``ones`` that there is anything to wait for, applied at ``since``."""
        return [
            Awaited(
                ref=one.ref,
                resource=one.resource,
                since=since[one.ref],
                origin=one.origin,
                once=one.once,
                has_status=self._has_status(one),
                job_started=one.wait == Wait.STARTED,
                rule=self._texts.get(one.ready_when) or self._kinds.get(self._key(one)),
            )
            for one in ones
            if is_awaited(one, has_rule=bool(one.ready_when) or self._key(one) in self._kinds)
        ]

    def _key(self, one: Desired) -> GroupKind:
        kind = one.ref.group_kind
        return GroupKind(kind.group, kind.kind.lower())

    def _has_status(self, one: Desired) -> bool:
        kind = one.ref.group_kind
        if is_built_in(kind.group):
            return False
        if kind not in self._statuses:
            name = Ref(CRD.group, CRD.kind, "", one.resource.full_plural)
            try:
                body = self.cluster.get(DEFINITIONS, name, full=True).body or {}
            except ApplypruneError:
                body = {}  # an aggregated API's kind, or no right to look: the object alone tells
            self._statuses[kind] = has_status(body)
        return self._statuses[kind]


def _kind_of(text: str) -> GroupKind:
    kind, _, group = text.partition(".")
    if not kind:
        raise UsageError(f"{text!r} names no kind", hint="Write KIND.GROUP=EXPRESSION.")
    return GroupKind(group, kind.lower())
