"""Find out by a server dry run whether an object would change and, if a diff is wanted, how.

A server dry run is a single request and cannot show what an apply does in several steps: in a
namespace or kind that does not exist yet, or with fields that are transferred first. Then another
check takes its place, and the diff says what was not checked.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from applyprune.engine.context import RunContext
from applyprune.errors import (
    AlreadyExists,
    ApplypruneError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotServed,
    RunFailed,
)
from applyprune.model.display import and_more
from applyprune.model.events import Drift, ObjectDiff, Outcome
from applyprune.model.identity import GVK, Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.live import LiveObject
from applyprune.model.plan import ApplyStep, Desired, Fate, RemoveStep
from applyprune.model.resources import CRD, NAMESPACE, Resource
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.diff import dropped, overlaid, renamed, substance, without
from applyprune.planning.drift import drifted_from_manifest, manifest_drift
from applyprune.planning.fields.ignore_rule import IgnoreRule, ignored_paths, parse_rule
from applyprune.planning.fields.normalize import sent
from applyprune.planning.fields.path import from_pointer, is_under, left_out
from applyprune.planning.fields.redact import masked
from applyprune.planning.ownership.conflicts import settled_first
from applyprune.planning.readiness.pods import is_denial
from applyprune.planning.schema.crd import defined_resources, schema_of
from applyprune.planning.schema.structural import validate

if TYPE_CHECKING:
    from typing import Any

    from applyprune.engine.ports import Cluster

NOT_CHECKED = "not checked by the server: its namespace or kind does not exist yet"
FIELDS_TRANSFERRED = "not fully checked by the server: some fields must be transferred first"
_NO_KIND = "its kind does not exist yet: checked by the schema in its CRD, not by the server"
_NEW_SCHEMA = (
    "its CRD is about to change: checked by the new schema and merged locally, not by the server"
)
_SHOWN = 3


@dataclass(slots=True)
class ServerDryRun:
    """Interprets the dry run of one plan; thread-safe except for ``set_plan``."""

    context: RunContext
    recorded: Mapping[Ref, InventoryEntry]
    """The entries of the inventory as read."""
    rules: Sequence[IgnoreRule] = field(init=False)
    _namespaces: frozenset[str] = frozenset()
    _schemas: Mapping[GVK, Mapping[str, Any] | None] = field(default_factory=dict)
    _changing: frozenset[GVK] = frozenset()
    _served: dict[GVK, bool] = field(default_factory=dict)
    _diffs: dict[Ref, ObjectDiff] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Parse the rules for ignored fields; raise UsageError for an invalid one."""
        self.rules = [parse_rule(text) for text in self.context.options.diff.ignore]

    def set_plan(self, steps: Sequence[ApplyStep]) -> None:
        """Remember the namespaces and kinds that the plan itself will create or change."""
        own = (
            {self.context.applyset.namespace}
            if self.context.options.apply.create_namespace
            else set()
        )
        self._namespaces = frozenset(
            step.desired.ref.name
            for step in steps
            if step.desired.ref.group_kind == NAMESPACE and step.fate is Fate.CREATE
        ) | frozenset(own)
        self._schemas = {
            resource.gvk: schema_of(step.desired.body, resource.version)
            for step in steps
            if step.desired.ref.group_kind == CRD and step.fate is not Fate.REFUSE
            for resource in defined_resources(step.desired.body)
        }
        self._changing = frozenset(
            resource.gvk
            for step in steps
            if step.desired.ref.group_kind == CRD and step.fate in {Fate.CHANGE, Fate.ADOPT}
            for resource in defined_resources(step.desired.body)
        )

    def take_diff(self, ref: Ref) -> Iterator[ObjectDiff]:
        """Yield the diff of one object, if it exists, and remove it."""
        if (diff := self._diffs.pop(ref, None)) is not None:
            yield diff

    def outcome(
        self,
        step: ApplyStep,
        after: LiveObject,
        *,
        created: bool,
        taken: bool,
        not_checked: str = "",
    ) -> Outcome:
        """Return the outcome that an apply would have, from the reply to its dry run.

        ``taken`` says that fields are transferred first: then the object changes in any case.
        """
        if created or step.live is None:
            self._add_diff(step, Outcome.CREATED, None, after.body)
            return Outcome.CREATED
        if taken and not self.context.options.diff.enabled:
            return Outcome.CONFIGURED
        desired = step.desired
        before = self.context.cluster.get(desired.resource, desired.ref, full=True)
        body = after.body or {}
        if taken:
            gone = dropped(
                after, settled_first(step, self.context.applyset), self.context.applyset.manager
            )
            body = without(body, gone)
            if gone and not not_checked:
                not_checked = FIELDS_TRANSFERRED
        status = "status" in desired.body
        then, now = (substance(each, status=status) for each in (before.body or {}, body))
        if then == now and not taken:
            return Outcome.UNCHANGED
        ignored = ignored_paths(self.rules, desired.ref)
        if then != now and left_out(then, ignored) == left_out(now, ignored):
            return Outcome.UNCHANGED
        self._add_diff(step, Outcome.CONFIGURED, before, body, after=after, not_checked=not_checked)
        return Outcome.CONFIGURED

    def diff_field_transfer(self, step: ApplyStep, body: Mapping[str, Any]) -> None:
        """Diff an object whose apply must first take fields from other managers."""
        if not self.context.options.diff.enabled:
            return
        desired = step.desired
        after, _ = self.context.cluster.apply(
            desired.resource,
            desired.ref,
            body,
            manager=self.context.applyset.manager,
            force=True,
            dry_run=True,
        )
        self.outcome(step, after, created=False, taken=True, not_checked=FIELDS_TRANSFERRED)

    def diff_recreate(self, step: ApplyStep) -> None:
        """Diff an object that would be deleted and re-created."""
        if self.context.options.diff.enabled:
            desired = step.desired
            before = self.context.cluster.get(desired.resource, desired.ref, full=True)
            name, namespace = random_name(desired.ref.name), desired.ref.namespace
            body = try_create(
                self.context.cluster, self.context.applyset, desired, name=name, namespace=namespace
            )
            not_checked = "tried under another name"
            self._add_diff(step, Outcome.RECREATED, before, body, not_checked=not_checked)

    def diff_delete(self, step: RemoveStep, live: LiveObject, outcome: Outcome) -> None:
        """Diff an object that would be deleted."""
        if not self.context.options.diff.enabled or step.resource is None:
            return
        not_checked = ""
        try:
            live = self.context.cluster.get(step.resource, step.entry.ref, full=True)
        except ApplypruneError as error:
            not_checked = f"only its metadata could be read: {error.message}"
        body, _ = masked(substance(live.body or {"metadata": live.metadata}), None)
        ref = step.entry.ref
        self._diffs[ref] = ObjectDiff(ref, outcome, body, None, not_checked=not_checked)

    def check_new_kind_or_namespace(self, step: ApplyStep) -> str:
        """Check an object whose namespace or kind the plan itself will create; return how.

        Return an empty text if the server failed for another reason. Raises Invalid or RunFailed
        if the object cannot be created as it is.
        """
        desired = step.desired
        if step.fate is not Fate.CREATE:
            return ""
        if desired.resource.gvk in self._schemas and not self._is_served(desired.resource):
            return self._by_schema(step, _NO_KIND)
        return self._try_other_namespaces(step) if desired.ref.namespace in self._namespaces else ""

    def check_by_new_schema(self, step: ApplyStep, error: Conflict | Invalid) -> str:
        """Check a custom resource that its current CRD rejects by the new schema; return how.

        Return an empty text if the plan does not change its CRD. Raises RunFailed if the new
        schema rejects it too.
        """
        if step.desired.resource.gvk not in self._changing or not isinstance(error, Invalid):
            return ""
        return self._by_schema(step, _NEW_SCHEMA)

    def _is_served(self, resource: Resource) -> bool:
        if resource.gvk not in self._served:
            self._served[resource.gvk] = self.context.cluster.serves(resource)
        return self._served[resource.gvk]

    def _by_schema(self, step: ApplyStep, how: str) -> str:
        desired = step.desired
        outcome = Outcome.CREATED if step.live is None else Outcome.CONFIGURED
        before = self._before(step)
        body = desired.body if before is None else sent(desired)
        schema = self._schemas[desired.resource.gvk]
        if schema is None:
            self._add_diff(step, outcome, before, overlaid(before, body), not_checked=NOT_CHECKED)
            return NOT_CHECKED
        report = validate(schema, body)
        if report.violations:
            error = RunFailed(
                f"{desired.ref} does not fit the schema of its CRD",
                location=desired.origin,
                reason=report.told,
            )
            error.field = report.violations[0].place
            raise error
        if report.unchecked:
            how += f"; not checked: {and_more(report.unchecked, _SHOWN)}"
        self._add_diff(step, outcome, before, overlaid(before, report.body), not_checked=how)
        return how

    def _before(self, step: ApplyStep) -> LiveObject | None:
        if step.live is None or not self.context.options.diff.enabled:
            return step.live
        return self.context.cluster.get(step.desired.resource, step.desired.ref, full=True)

    def _try_other_namespaces(self, step: ApplyStep) -> str:
        """Try to create the object in an existing namespace: the set's own, or default."""
        desired = step.desired
        how, body = NOT_CHECKED, desired.body
        for namespace in dict.fromkeys((self.context.applyset.namespace, "default")):
            try:
                body = self._try_in(namespace, desired)
            except (NotFound, NotServed):
                continue
            except (Forbidden, Invalid) as error:
                # A quota or policy of that namespace says nothing about the object's own one.
                if isinstance(error, Invalid) and not is_denial(error.message):
                    raise
                how = f"{NOT_CHECKED} (the namespace {namespace}, tried instead, would reject it)"
            else:
                how = (
                    f"its namespace does not exist yet: checked in {namespace}, without the quotas "
                    "and policies of its own namespace"
                )
            break
        self._add_diff(step, Outcome.CREATED, None, body, not_checked=how)
        return how

    def _try_in(self, namespace: str, desired: Desired) -> Mapping[str, Any]:
        name = desired.ref.name
        try:
            return try_create(
                self.context.cluster, self.context.applyset, desired, name=name, namespace=namespace
            )
        except (AlreadyExists, Conflict):
            name = random_name(name)
            return try_create(
                self.context.cluster, self.context.applyset, desired, name=name, namespace=namespace
            )

    def _add_diff(
        self,
        step: ApplyStep,
        outcome: Outcome,
        before: LiveObject | None,
        body: Mapping[str, Any] | None,
        *,
        after: LiveObject | None = None,
        not_checked: str = "",
    ) -> None:
        if not self.context.options.diff.enabled:
            return
        desired = step.desired
        ref, status, ignored = (
            desired.ref,
            "status" in desired.body,
            ignored_paths(self.rules, desired.ref),
        )

        def fit(state: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
            return None if state is None else substance(state, status=status)

        # Mask the whole object first: a rule that ignores the kind must not unmask a Secret.
        then, now = (
            None if state is None else left_out(state, ignored)
            for state in masked(fit(before.body if before else None), fit(body))
        )
        drifted = drifted_from_manifest(
            desired, self.recorded.get(ref), before, self.context.applyset.manager
        )
        drift: tuple[Drift, ...] = ()
        if drifted and before is not None and after is not None:
            drift = tuple(
                drift
                for drift in manifest_drift(before, after, self.context.applyset.manager)
                if not any(is_under(from_pointer(drift.path), path) for path in ignored)
            )
        self._diffs[ref] = ObjectDiff(
            ref, outcome, then, now, desired.origin, not_checked, drifted=drifted, drift=drift
        )


_NAME = 40


def try_create(
    cluster: Cluster, applyset: ApplySetIdentity, desired: Desired, *, name: str, namespace: str
) -> Mapping[str, Any]:
    """Return the object as the server would create it, by a dry run under another name.

    The result has the object's own name and namespace. Raises the errors of an apply; Conflict if
    an object of that other name exists.
    """
    where = renamed(desired.body, name=name, namespace=namespace)
    body = {**where, "metadata": {**where["metadata"], "resourceVersion": "1"}}
    live, _ = cluster.apply(
        desired.resource,
        replace(desired.ref, name=name, namespace=namespace),
        body,
        manager=applyset.manager,
        force=False,
        dry_run=True,
    )
    return renamed(live.body or {}, name=desired.ref.name, namespace=desired.ref.namespace)


def random_name(name: str) -> str:
    """Return a name that no object has."""
    return f"{name[:_NAME].rstrip('-.')}-{secrets.token_hex(4)}"
