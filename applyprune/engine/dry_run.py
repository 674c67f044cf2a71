"""Check a plan by a server dry run: send its requests with ``dryRun=All``, and refine its fates.

A server dry run is a single request and cannot show what an apply does in several steps: in a
namespace or kind that does not exist yet, or with fields that change hands first. Then another
check takes its place, and the step says what was not checked. What cannot be checked at all, for
example because the account may not write, is not a failure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from applyprune.engine.send import apply_problem, decided_again, is_outdated
from applyprune.errors import (
    AlreadyExists,
    ApplypruneError,
    Conflict,
    DryRunUnsupported,
    Forbidden,
    Invalid,
    NotFound,
    NotServed,
    RunFailed,
    Unreachable,
)
from applyprune.model.fate import Fate
from applyprune.model.fieldset import is_under, to_server, without_fields
from applyprune.model.identity import GVK, Ref, kubectl_name
from applyprune.model.kinds import CRD, NAMESPACE
from applyprune.model.live import DEFINITIONS, NAMESPACES, LiveObject, Resource, namespace_ref
from applyprune.model.plan import IN_PLACE, ApplyStep, Cause, DeleteRequest
from applyprune.model.problem import Manifest, ProblemKind
from applyprune.planning.comparison import (
    STORED,
    Comparison,
    RefusedChange,
    changes_ownership,
    fields_beside,
    has_changed,
    is_worth_a_trial,
    overlaid,
    predicted,
    removed_fields,
    renamed,
    without_excluding,
)
from applyprune.planning.conflicts import (
    DRIFT_EXCLUDES,
    EXCLUDES,
    HOLDS,
    conflicting_managers,
    excluded_by_drift,
    exclusion,
    is_unrecorded,
    migrated_first,
    own_options,
    skip_reason,
    unrecorded_conflict,
    without_marks,
)
from applyprune.planning.managed_fields import (
    OWN_MARKS,
    after_removal,
    dead_versions,
    going_marks,
    ignored_paths_of,
    own_fields,
    unowned_items,
    unowned_keys,
    with_live_values,
    with_versions,
    yield_steps,
)
from applyprune.planning.normalize import IgnoreRule, body_to_send, ignored_paths, parse_rule
from applyprune.planning.order import SetNeeds
from applyprune.planning.ownership import confirmed_takings, name_error
from applyprune.planning.plan import (
    NOT_CHECKED,
    with_checked_request,
    with_excluding,
    with_own_version,
    with_released,
)
from applyprune.planning.replies import (
    dry_run_reply,
    refused_guard,
    refused_recreation,
    with_staying_fields,
)
from applyprune.planning.requests import (
    delete_request,
    dry_run_request,
    forced,
    planned_removals,
    trial_request,
    unused_name,
)
from applyprune.planning.schemas import custom_schema, stored_faults
from applyprune.planning.served_kinds import (
    defined_resources,
    has_conversion_webhook,
    schema_of,
)
from applyprune.planning.server_errors import (
    cannot_be_dry_run,
    clean_message,
    is_about_stored,
    is_without_namespace,
    is_without_options,
    stored_error,
    without_namespace,
)
from applyprune.planning.staying_fields import held_fields, releasable
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.engine.context import RunContext
    from applyprune.engine.ports import Cluster
    from applyprune.model.fieldset import Path, Writer
    from applyprune.model.plan import ApplyRequest, Desired
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.planning.managed_fields import FieldRemovals
    from applyprune.planning.schemas import KindSchema


NOT_THERE_YET = "not checked by the server: its namespace or kind does not exist yet"
FIELDS_TRANSFERRED = "not fully checked by the server: some fields must be transferred first"
_VERSIONS_REWRITTEN = (
    "merged locally, not by the server, which cannot use an API version in its managedFields"
)
_NO_KIND = "its kind does not exist yet: only its fields were compared with its CRD"
_NO_VERSION = "its API version is not served yet: only its fields were compared with its CRD"
_NEW_SCHEMA = "its CRD is about to change: only its fields were compared with the new one"
_OTHER_NAME = "tried under another name"
_SHOWN = 3


class _ChangesTooFast(RunFailed):
    """Somebody writes an object again and again; that may pass."""

    kind = ProblemKind.UNAVAILABLE


class ServerDryRun(Struct):
    """Checks one plan; thread-safe within a check."""

    context: RunContext
    comparisons: dict[Ref, Comparison] = field(default_factory=dict)
    """Both states of each object that would change."""
    rules: Sequence[IgnoreRule] = ()
    """The rules for ignored fields."""
    brought: Sequence[Manifest] = ()
    """The Namespaces and CRDs that other sets of the command bring before the apply."""
    _needs: SetNeeds = field(default_factory=SetNeeds)
    _excused: dict[Ref, ApplypruneError] = field(default_factory=dict)
    _namespaces: frozenset[str] = frozenset()
    _absent: set[str] = field(default_factory=set)
    """The namespaces of which the server has said that they do not exist: it is asked once."""
    _found: dict[str, bool] = field(default_factory=dict)
    """Whether a namespace exists that the plan does not create, where that was asked."""
    _defined: Mapping[GVK, Ref] = field(default_factory=dict)
    """The CRD of the plan that serves a kind in a version."""
    _brought: frozenset[GVK] = frozenset()
    """The kinds that other sets bring, in each version."""
    _changing: frozenset[GVK] = frozenset()
    _coming: Mapping[GVK, KindSchema] = field(default_factory=dict)
    """The schema that a kind is about to get, where it changes and objects of it are there."""
    _waiting: set[Ref] = field(default_factory=set)
    """The objects in versions that such a CRD is to bring."""
    _served: dict[GVK, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Parse the rules for ignored fields; raise UsageError for an invalid one."""
        self.rules = [parse_rule(text) for text in self.context.options.apply.ignore]

    def checked(
        self, steps: Sequence[ApplyStep], *, only: Collection[Ref] | None = None
    ) -> Sequence[ApplyStep]:
        """Return the steps with the fates that the server confirms; write nothing.

        With ``only``, check only these objects. Raises Unreachable if the server stops answering.
        """
        self._set_plan(steps)
        workers = self.context.workers
        self._read_coming(steps)
        to_send = [
            step
            for step in steps
            if step.request is not None and (only is None or step.desired.ref in only)
        ]
        checked = {step.desired.ref: step for step in workers.each(self.check_apply, to_send)}
        workers.check()
        if self.context.options.diff.enabled:
            checked |= self._with_unowned_keys(steps)
        needs = SetNeeds({**self._needs.steps, **checked})
        for ref, error in self._excused.items():
            # guard: excused-by-a-change never
            if needs.awaited(checked[ref].desired, error) is None:
                checked[ref] = _refused(checked[ref], error, self.context)
        for ref in sorted(self._waiting):
            definition = needs.steps[self._defined[checked[ref].desired.resource.gvk]]
            if definition.is_skipped:  # guard: version-of-a-skipped-crd never
                error = _without_version(checked[ref].desired, definition)
                checked[ref] = _refused(checked[ref], error, self.context)
        return [checked.get(step.desired.ref, step) for step in steps]

    def _with_unowned_keys(self, steps: Iterable[ApplyStep]) -> Mapping[Ref, ApplyStep]:
        """Return the steps of unchanged objects with keys that nobody owns, if they were read."""
        found = {}
        for step in steps:
            live = step.live
            if step.request is not None or live is None or live.body is None:
                continue
            if unowned := tuple(self._unowned(step, live, live.body)):
                found[step.desired.ref] = replace(step, unowned=unowned)
        return found

    def compare_locally(self, steps: Iterable[ApplyStep]) -> None:
        """Compare what would be sent with the live objects; ask the server to try nothing."""
        sent = [step for step in steps if step.request is not None]
        for comparison in filter(None, self.context.workers.each(self._compared_locally, sent)):
            self.comparisons[comparison.step.desired.ref] = comparison

    def _compared_locally(self, step: ApplyStep) -> Comparison | None:
        desired, context = step.desired, self.context
        body = desired.body if step.request is None else step.request.body
        if step.live is None:
            return Comparison(step, None, body, not_checked=NOT_CHECKED)
        try:
            before = context.cluster.get(desired.resource, desired.ref, full=True)
        except Unreachable:
            raise
        except ApplypruneError:
            return None  # its line says that it was not checked
        given = yield_steps(desired, before, context.applyset).fields
        body = with_live_values(before, body, given)
        body = predicted(before.body, body, own_fields(before, context.applyset.manager))
        body = without_fields(body, going_marks(step.migration, desired.packed).leaves())
        comparison = Comparison(step, before, body, not_checked=NOT_CHECKED)
        changes = step.writes_first or has_changed(comparison, self.rules)
        return comparison if changes else None

    def check_apply(self, step: ApplyStep) -> ApplyStep:
        """Return the step with the fate that the server confirms."""
        try:
            return replace(self._checked(replace(step, not_checked="")), is_checked=True)
        except Unreachable:
            raise
        except ApplypruneError as error:
            if reason := skip_reason(step.desired, error):
                return replace(
                    step,
                    fate=Fate.LEAVE,
                    request=None,
                    reason=reason,
                    is_checked=True,
                    cause=Cause.CONFLICT_SKIPPED,
                )
            if reason := cannot_be_dry_run(error):
                return replace(step, not_checked=reason)
            if (awaited := self._needs.awaited(step.desired, error)) is not None:
                self._excused[step.desired.ref] = error
                return replace(step, not_checked=self._needs.reason(awaited))
            return _refused(step, error, self.context)

    def _set_plan(self, steps: Sequence[ApplyStep]) -> None:
        """Remember what the plan itself will create or change: objects, namespaces and kinds."""
        self._needs, self._excused = SetNeeds({step.desired.ref: step for step in steps}), {}
        self._waiting = set()
        new = (step.desired.ref for step in steps if step.is_new or step.is_awaited)
        own = (
            {self.context.applyset.namespace}
            if self.context.options.apply.create_namespace
            else set()
        )
        brought = frozenset(one.name for one in self.brought if one.gvk.group_kind == NAMESPACE)
        self._brought = frozenset(
            resource.gvk
            for one in self.brought
            if one.gvk.group_kind == CRD
            for resource in defined_resources(one.body)
        )
        self._namespaces = brought.union(
            own, (ref.name for ref in new if ref.group_kind == NAMESPACE)
        )
        definitions = [
            step
            for step in steps
            if step.desired.ref.group_kind == CRD
            and step.fate is not Fate.REFUSE
            and not step.is_skipped
        ]
        self._defined = {
            resource.gvk: step.desired.ref
            for step in definitions
            for resource in defined_resources(step.desired.body)
        }
        self._changing = frozenset(
            resource.gvk
            for step in definitions
            if step.fate in {Fate.CHANGE, Fate.ADOPT}
            for resource in defined_resources(step.desired.body)
        )

    def _checked(self, step: ApplyStep) -> ApplyStep:
        context = self.context
        desired = step.desired
        if desired.ref.namespace in self._absent and desired.resource.gvk not in self._defined:
            return self._in_other_namespace(step)
        if (unfit := self._unfit_for_new_schema(step)) is not None:
            return unfit
        try:
            if step.live and dead_versions(step.live, desired.versions):
                return self._by_replacement(step, dry_run_request(step, context.applyset))
            step, after, created = self._tried(step)
        except (NotFound, NotServed, DryRunUnsupported) as error:
            if desired.ref.namespace in self._namespaces and is_without_namespace(
                error, desired.ref
            ):
                self._absent.add(desired.ref.namespace)
            return self._in_new_kind_or_namespace(step, error)
        except (Conflict, Invalid) as error:
            if isinstance(error, Conflict) and error.causes:
                others = without_marks(error, step.live, context.applyset)
                if not conflicting_managers(others) <= migrated_first(
                    step.live, step.migration, context.applyset
                ):
                    raise others from error
                # The conflict is only with managers whose fields become ours first.
                request = forced(dry_run_request(step, context.applyset))
                try:
                    after, created = context.cluster.apply(request, dry_run=True)
                except Invalid as excluded:
                    return self._refused(step, excluded)
            else:
                return self._refused(step, error)
        step = dry_run_reply(step, after, context.applyset)
        if created or step.live is None:
            step = step if step.is_new else replace(step, fate=Fate.CREATE)
            return self._with_comparison(step, None, after.body)
        return self._compared(step, after)

    def _tried(self, step: ApplyStep) -> tuple[ApplyStep, LiveObject, bool]:
        """Return the step as it was tried, with the reply.

        It is decided again as during the run.
        """
        context = self.context
        for _ in range(_TRIES):
            try:
                request = dry_run_request(step, context.applyset)
                return step, *context.cluster.apply(request, dry_run=True)
            except Conflict as error:
                if not is_outdated(step, request, error):
                    raise
                step = decided_again(context, step, error)
        raise _ChangesTooFast(
            f"{step.desired.ref} changes faster than it can be checked", hint="Run again."
        )

    def _compared(self, step: ApplyStep, after: LiveObject) -> ApplyStep:
        """Return the step as CHANGE, ADOPT or LEAVE, by the states before and after.

        Raise Conflict if the apply changes what somebody has written without a record.
        """
        desired, cluster = step.desired, self.context.cluster
        before = cluster.get(desired.resource, desired.ref, full=True)
        if is_unrecorded(step):
            manager = self.context.applyset.manager
            conflict = unrecorded_conflict(step, before, after, manager, self.context.options)
            if conflict is not None:
                raise conflict  # guard: unrecorded-conflict
        taken = confirmed_takings(step, before, after, self.context.applyset)
        step = replace(step, taken_from=taken)
        body: Mapping[str, Any] = after.body or {}
        not_checked = ""
        removed = planned_removals(step, self.context.applyset)
        if step.takes_over or removed:
            body, not_checked = self._after_transfer(step, after, removed)
        created = partial(self._created, desired)
        step = with_staying_fields(step, before, after, body, self.context.applyset, created)
        comparison = Comparison(step, before, body, after, not_checked)
        manager = self.context.applyset.manager
        if step.fate is Fate.ADOPT:
            marks = (*going_marks(step.migration, desired.packed).leaves(), *OWN_MARKS)
            step = replace(step, alters=has_changed(comparison, self.rules, but=marks))
        if self.context.options.apply.reapply_all or self.context.options.diff.enabled:
            step = replace(step, unowned=tuple(self._unowned(step, after, body)))
        if not (
            step.writes_first
            or has_changed(comparison, self.rules)
            or changes_ownership(before, after, manager)
        ):
            return replace(step, fate=Fate.LEAVE)
        self.comparisons[desired.ref] = comparison
        return replace(step, not_checked=not_checked)

    def _unowned(
        self, step: ApplyStep, after: LiveObject, state: Mapping[str, Any]
    ) -> Iterator[str]:
        """Yield the keys and the items of lists that neither a manifest nor a field manager has.

        Only a dry run of a creation shows which of them the server or a webhook adds. ``state`` is
        the object after the apply. The items are searched if every value is to be compared.
        """
        desired, applyset, cluster = step.desired, self.context.applyset, self.context.cluster
        searches = self.context.options.apply.reapply_all

        def found(created: Mapping[str, Any] | None = None) -> Iterator[Path]:
            yield from unowned_keys(after, state, created)
            yield from unowned_items(after, applyset.manager, created) if searches else ()

        if not any(found()) or (created := self._created(desired)) is None:
            return
        others = [
            *ignored_paths_of(desired),
            *ignored_paths(self.rules, desired.ref),
        ]
        for path in found(created):
            if not any(is_under(path, one) for one in others):
                yield cluster.masked(to_server(path).removeprefix("."))

    def _created(self, desired: Desired) -> Mapping[str, Any] | None:
        """Return an existing object as the server would create it; None if it would not."""
        try:
            return _try_creation(self.context.cluster, self.context.applyset, desired)
        except Unreachable:
            raise
        except ApplypruneError:
            return None

    def _after_transfer(
        self, step: ApplyStep, after: LiveObject, removed: FieldRemovals
    ) -> tuple[Mapping[str, Any], str]:
        """Return an object after its fields have changed hands, and what was not checked.

        The apply then removes the fields that the manifest lacks, and the server sets their
        defaults. A dry run of a PUT without these fields shows the result.
        """
        context, desired = self.context, step.desired
        body = after.body or {}
        gone: tuple[Path, ...] = ()
        if step.takes_over:
            gone = removed_fields(step, after, context.applyset)
        if not (gone or removed):
            return body, ""
        body = after_removal(without_fields(body, gone), desired.body, removed)
        try:
            put = context.cluster.replace(desired.resource, desired.ref, body, dry_run=True)
        except (Conflict, Forbidden, DryRunUnsupported):
            return body, FIELDS_TRANSFERRED
        return put.body or {}, ""

    def _by_replacement(self, step: ApplyStep, request: ApplyRequest) -> ApplyStep:
        """Check an object by the dry run of a PUT: the server refuses every apply of it as it is.

        An API version in its managedFields is not served any more.
        """
        desired, cluster = step.desired, self.context.cluster
        # Without its query, a PUT is done for real, and an apply is refused.
        try:
            cluster.apply(request, dry_run=True)
        except (Unreachable, DryRunUnsupported, NotServed):
            raise
        except ApplypruneError as error:
            if is_without_options(error):  # guard: put-after-apply never
                raise
        before = cluster.get(desired.resource, desired.ref, full=True)
        body = with_versions(overlaid(before.body, body_to_send(desired)), before, desired)
        with suppress(Conflict, Forbidden, DryRunUnsupported):
            body = cluster.replace(desired.resource, desired.ref, body, dry_run=True).body or {}
        return self._with_comparison(step, before, body, _VERSIONS_REWRITTEN)

    def _refused(self, step: ApplyStep, error: Conflict | Invalid) -> ApplyStep:
        """Return the step as RECREATE if that explains and resolves a refused change.

        If the server cannot read the entries of another version, return it with their rewriting.
        """
        context, desired = self.context, step.desired
        if (by_schema := self._by_new_schema(step, error)) is not None:
            return by_schema
        if (own := with_own_version(step, error, context.applyset, context.options)) is not None:
            return self._by_replacement(own, dry_run_request(own, context.applyset))
        live: LiveObject | None
        try:
            live = context.cluster.get(desired.resource, desired.ref, full=True)
        except NotFound:
            live = None
        refused_guard(step, live, error, context.applyset)
        if live is None:
            raise error
        if (taken := self._after_takeover(step, live, error)) is not None:
            return self._with_comparison(step, live, taken)
        if (removing := with_exclusion_removed(context, step, live, error)) is not None:
            step, body = removing
            return self._with_comparison(replace(step, fate=Fate.CHANGE), live, body)
        deletion, body = check_recreation(context, step, live, error)
        step = replace(step, fate=Fate.RECREATE, reason=IN_PLACE, deletion=deletion)
        self._with_comparison(step, live, body, _OTHER_NAME)
        return step

    def _after_takeover(
        self, step: ApplyStep, live: LiveObject, error: ApplypruneError
    ) -> Mapping[str, Any] | None:
        """Return an object whose manifest is only refused beside fields that become ours first.

        The apply removes what the manifest lacks of them. None if the server refuses it all the
        same, or if nothing is taken over.
        """
        if not (step.takes_over and is_worth_a_trial(error)):
            return None
        gone = removed_fields(step, live, self.context.applyset)
        return _without_exclusion(self.context, step, live, gone) if gone else None

    def _in_new_kind_or_namespace(self, step: ApplyStep, error: ApplypruneError) -> ApplyStep:
        """Check an object whose namespace, kind or version is only coming.

        The plan itself creates it, or a CRD that somebody has just changed serves the version soon.
        Call it while the server's error is handled: it is raised again if it has another cause.
        """
        desired, resource = step.desired, step.desired.resource
        definition = self._defined.get(resource.gvk)
        is_brought = resource.gvk in self._brought
        is_coming = (
            is_brought
            or definition is not None
            or (
                isinstance(error, NotServed)
                and not is_without_namespace(error, desired.ref)
                and self.context.cluster.defines(resource)
            )
        )
        if is_coming and not self.is_served(resource):
            self._refuse_lost_namespace(desired.ref)
            if definition is not None:
                self._waiting.add(desired.ref)
            is_made = definition is not None and self._needs.steps[definition].is_new
            is_new = is_made or (is_brought and definition is None)
            return self._by_schema(step, _NO_KIND if is_new else _NO_VERSION)
        if step.is_new and desired.ref.namespace in self._namespaces:
            return self._in_other_namespace(step)
        raise  # noqa: PLE0704 - the caller handles the server's error

    def _refuse_lost_namespace(self, ref: Ref) -> None:
        """Raise NotServed if nothing has or makes the namespace of an object of a new kind.

        The server says that the kind is not there before it looks for the namespace.
        """
        name = ref.namespace
        if not name or name in self._namespaces:
            return
        if name not in self._found:
            with suppress(Forbidden):
                state = self.context.cluster.read(NAMESPACES, namespace_ref(name))
                self._found[name] = isinstance(state, LiveObject)
        if not self._found.get(name, True):  # guard: namespace-of-a-new-kind never
            raise without_namespace(name)

    def _read_coming(self, steps: Sequence[ApplyStep]) -> None:
        """Remember the schemas that the plan changes, of kinds of which there are objects."""
        there = {step.desired.resource.gvk for step in steps if step.live is not None}
        wanted = {self._defined[gvk] for gvk in there & self._changing}
        definitions = self.context.workers.each(self._definition, sorted(wanted))
        before = {live.ref: live.body or {} for live in definitions if live is not None}
        found: dict[GVK, KindSchema] = {}
        for gvk in there & self._changing:
            ref = self._defined[gvk]
            schema = schema_of(self._needs.steps[ref].desired.body, gvk.version)
            known = before.get(ref, {})
            # What was written while this version was not served was checked by another schema.
            was_served = any(one.gvk == gvk for one in defined_resources(known))
            if schema is not None and not (was_served and schema == schema_of(known, gvk.version)):
                found[gvk] = custom_schema(schema)
        self._coming = found

    def _definition(self, ref: Ref) -> LiveObject | None:
        try:
            return self.context.cluster.get(DEFINITIONS, ref, full=True)
        except Unreachable:
            raise
        except ApplypruneError:
            return None  # then its schema may change

    def _unfit_for_new_schema(self, step: ApplyStep) -> ApplyStep | None:
        """Return the step as RECREATE if the new schema does not allow the stored values.

        None if it does. Once the CRD has changed, the server refuses every apply of the object.
        """
        desired, live = step.desired, step.live
        schema = self._coming.get(desired.resource.gvk)
        if schema is None or live is None:
            return None
        try:
            live = self.context.cluster.get(desired.resource, desired.ref, full=True)
        except NotFound:
            return None
        definition = self._needs.steps[self._defined[desired.resource.gvk]].desired.body
        # A webhook may make other values of them in another version.
        is_converted = (live.body or {}).get("apiVersion") != desired.resource.gvk.api_version
        is_unknown = is_converted and has_conversion_webhook(definition)
        faults = () if is_unknown else stored_faults(live.body or {}, schema)
        if not faults:  # guard: stored-values-first always
            return None
        error = stored_error((one.field, one.what) for one in faults)
        refused_guard(step, live, error, self.context.applyset)
        if dead_versions(live, desired.versions):
            # The server does not rewrite the managedFields of what it cannot read.
            raise RunFailed(
                f"{desired.ref}: {STORED}: {clean_message(error.message)}",
                location=desired.origin,
                reason="the CRD also ends the API version in which it was written",
                hint="Delete it before the CRD changes: "
                f"kubectl delete {kubectl_name(desired.ref, '')}",
            )
        check_recreation(self.context, step, live, error, created=desired.body)
        # Its delete is only made when the new CRD accepts the object: see ``check_recreation``.
        step = replace(
            step,
            fate=Fate.RECREATE,
            reason=IN_PLACE,
            # guard: recreation-tried-late -> check_recreation(self.context, step, live, error)[0]
            deletion=None,
        )
        return self._with_comparison(step, live, desired.body, _NEW_SCHEMA)

    def _by_new_schema(self, step: ApplyStep, error: Conflict | Invalid) -> ApplyStep | None:
        """Check a custom resource that its current CRD rejects by the new schema.

        Return None if the plan does not change its CRD.
        """
        if step.desired.resource.gvk not in self._changing or not isinstance(error, Invalid):
            return None
        return self._by_schema(step, _NEW_SCHEMA)

    def is_served(self, resource: Resource) -> bool:
        """Return whether the server serves a resource; it is asked once."""
        if resource.gvk not in self._served:
            self._served[resource.gvk] = self.context.cluster.serves(resource)
        return self._served[resource.gvk]

    def _by_schema(self, step: ApplyStep, how: str) -> ApplyStep:
        """Merge an object locally, as its fields fit its CRD; the server checks the rest later."""
        desired, before = step.desired, None
        if step.live is not None:
            before = self.context.cluster.get(desired.resource, desired.ref, full=True)
        body = desired.body if step.request is None else step.request.body
        body = overlaid(before.body if before else None, body)
        return self._with_comparison(step, before, body, how)

    def _in_other_namespace(self, step: ApplyStep) -> ApplyStep:
        """Try to create the object in an existing namespace: the set's own, or default."""
        desired = step.desired
        how, body = NOT_THERE_YET, desired.body
        for namespace in dict.fromkeys((self.context.applyset.namespace, "default")):
            if namespace in self._absent:
                continue  # as the set's own one, if the run creates it
            try:
                body = _try_in(namespace, desired, self.context)
            except (NotFound, NotServed):
                continue
            except (Forbidden, Invalid) as error:
                # A quota or policy of that namespace says nothing about the object's own one.
                if isinstance(error, Invalid):
                    raise
                how = f"{NOT_THERE_YET} (the namespace {namespace}, tried instead, would reject it)"
            else:
                how = (
                    f"only checked in {namespace}, because the namespace {desired.ref.namespace} "
                    "does not exist yet; its quotas and policies were not checked"
                )
            break
        return self._with_comparison(step, None, body, how)

    def _with_comparison(
        self,
        step: ApplyStep,
        before: LiveObject | None,
        body: Mapping[str, Any] | None,
        not_checked: str = "",
    ) -> ApplyStep:
        comparison = Comparison(step, before, body, not_checked=not_checked)
        self.comparisons[step.desired.ref] = comparison
        return replace(step, not_checked=not_checked)


def _refused(step: ApplyStep, error: ApplypruneError, context: RunContext) -> ApplyStep:
    """Return a step that the server has refused in a dry run."""
    problem = apply_problem(error, step, context)
    return replace(
        step, fate=Fate.REFUSE, request=None, problem=problem, is_checked=True, not_checked=""
    )


def _without_version(desired: Desired, definition: ApplyStep) -> RunFailed:
    """Return the error of an object in a version that its CRD does not get."""
    return RunFailed(
        f"{desired.ref}: the server does not serve {desired.resource.gvk.api_version}",
        location=desired.origin,
        reason=f"{definition.desired.ref.short}, which would bring it, is left as it is: "
        f"{definition.reason}",
    )


def check_recreation(
    context: RunContext,
    step: ApplyStep,
    live: LiveObject,
    error: ApplypruneError,
    created: Mapping[str, Any] | None = None,
) -> tuple[DeleteRequest, Mapping[str, Any]]:
    """Return the delete of an object that may be re-created, and the object as it would be then.

    ``live`` was read in full. The server tries that, unless ``created`` is given. Raises ``error``
    if it is neither about an immutable field nor about stored values. Raises RunFailed, which names
    the field, if the object may not be re-created.
    """
    is_stored = is_about_stored(error)
    if not (isinstance(error, Invalid) and (is_stored or is_worth_a_trial(error))):
        raise error
    beside = () if is_stored else fields_beside(error, live, context.applyset.manager)
    if (excludes := _exclusion(context, step, live, error, beside)) is not None:
        raise excludes from error  # guard: excluded-by-others
    body = created
    if body is None:
        with suppress(ApplypruneError):
            body = _try_creation(context.cluster, context.applyset, step.desired)
    change = RefusedChange(step, live, error, body, beside)
    refused = refused_recreation(change, context.applyset, context.options)
    if refused is not None:
        raise refused from error
    if body is None:
        raise error
    deletion = delete_request(step.desired.resource, live, context.options.prune.propagation)
    return deletion, body


_TRIES = 8


def _exclusion(
    context: RunContext,
    step: ApplyStep,
    live: LiveObject,
    error: Invalid,
    beside: Sequence[tuple[Path, Writer]],
) -> Conflict | None:
    """Return the conflict with the fields of others that exclude ours; None if none do.

    ``beside`` are those beside what was refused. Where only what holds a part of it that leaves the
    manifest is in the way, the rest is not named.
    """
    manager = context.applyset.manager
    held = [one for one in held_fields(step.desired, live, manager) if one in beside]
    if held and _without_exclusion(context, step, live, [path for path, _ in held]) is not None:
        return exclusion(error, held, HOLDS)
    if not beside or _without_exclusion(context, step, live, [one for one, _ in beside]) is None:
        return None
    is_drift = not step.desired.excluding and excluded_by_drift(step.entry, live, beside, manager)
    return exclusion(error, beside, DRIFT_EXCLUDES if is_drift else EXCLUDES)


def with_exclusion_removed(
    context: RunContext, step: ApplyStep, live: LiveObject, error: ApplypruneError
) -> tuple[ApplyStep, Mapping[str, Any]] | None:
    """Return the step that also removes the fields of others which exclude ours, and its result.

    They hold a part that leaves the manifest, and may be released; or they are drift, which is
    reverted. None if neither is so, or if this error is about something else.
    """
    options, applyset, manager = context.options, context.applyset, context.applyset.manager
    if step.desired.excluding or step.desired.releasing:
        return None
    if not (isinstance(error, Invalid) and is_worth_a_trial(error)):
        return None
    beside = fields_beside(error, live, manager)
    held = [one for one in held_fields(step.desired, live, manager) if one in beside]
    if free := releasable(step, live, held, applyset, options):
        body = _without_exclusion(context, step, live, [path for path, _ in free])
        if body is not None:
            fresh = with_released(step, live, free, applyset, options)
            return replace(fresh, is_checked=True), body
    if not own_options(step.desired, options).reverts_drift:
        return None
    # guard: excluded-by-drift -> not beside
    if not excluded_by_drift(step.entry, live, beside, manager):
        return None
    body = _without_exclusion(context, step, live, [path for path, _ in beside])
    if body is None:
        return None
    fresh = with_excluding(step, live, beside, context.applyset, options)
    return replace(fresh, is_checked=True), body


def _without_exclusion(
    context: RunContext,
    step: ApplyStep,
    live: LiveObject,
    paths: Collection[Path],
) -> Mapping[str, Any] | None:
    """Return an object with its manifest, but without these fields; None if the server refuses it.

    An apply cannot remove them, so a dry run of a PUT shows it. Without its query, a PUT is done
    for real, and an apply is refused with other words.
    """
    cluster, applyset = context.cluster, context.applyset
    resource, ref = step.desired.resource, step.desired.ref
    for _ in range(_TRIES):
        try:
            fresh = with_checked_request(step, live, applyset, context.options)
            try:
                request = dry_run_request(fresh, applyset)
                cluster.apply(forced(request) if step.takes_over else request, dry_run=True)
            except Invalid as error:
                if is_without_options(error):  # guard: put-after-refusal never
                    return None
            body = without_excluding(step.desired, live, paths, applyset.manager)
            return cluster.replace(resource, ref, body, dry_run=True).body or {}
        except Conflict as error:
            if error.causes:
                return None
            # Controllers write the status of a workload that has just changed.
            live = cluster.get(resource, ref, full=True)
        except (NotFound, NotServed, Forbidden, Invalid, DryRunUnsupported):
            return None
    return None


def check_recreation_again(
    context: RunContext, step: ApplyStep, error: ApplypruneError
) -> tuple[LiveObject, DeleteRequest]:
    """Return an object that has changed since ``check_recreation``, as it is now, and its delete.

    Raises what that does, and RunFailed if the object has been deleted or replaced meanwhile.
    """
    state = context.cluster.read(step.desired.resource, step.desired.ref, full=True)
    live = state if isinstance(state, LiveObject) else None
    refused_guard(step, live, error, context.applyset)
    if live is None:
        raise error
    deletion, _ = check_recreation(context, step, live, error)
    return live, deletion


def _try_creation(
    cluster: Cluster, applyset: ApplySetIdentity, desired: Desired
) -> Mapping[str, Any]:
    """Return an existing object as the server would create it; raises the errors of an apply."""
    name, namespace = unused_name(desired.ref.name), desired.ref.namespace
    return _try_create(cluster, applyset, desired, name=name, namespace=namespace)


def _try_in(namespace: str, desired: Desired, context: RunContext) -> Mapping[str, Any]:
    """Return what ``_try_create`` does, under the object's own name if it is free there."""
    name, cluster, applyset = desired.ref.name, context.cluster, context.applyset
    try:
        return _try_create(cluster, applyset, desired, name=name, namespace=namespace)
    except (AlreadyExists, Conflict):
        name = unused_name(name)
        return _try_create(cluster, applyset, desired, name=name, namespace=namespace)


def _try_create(
    cluster: Cluster, applyset: ApplySetIdentity, desired: Desired, *, name: str, namespace: str
) -> Mapping[str, Any]:
    """Return the object as the server would create it, by a dry run under another name.

    The result has the object's own name and namespace. Raises the errors of an apply; Conflict if
    an object of that other name exists.
    """
    request = trial_request(desired, applyset, name=name, namespace=namespace)
    # A warning would be about another name, or about the rules of another namespace.
    live, _ = cluster.warning_to(None).apply(request, dry_run=True)
    if (error := name_error(desired.ref, live, desired.origin, exists=False)) is not None:
        raise error
    return renamed(live.body or {}, name=desired.ref.name, namespace=desired.ref.namespace)
