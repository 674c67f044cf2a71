"""Who must agree to a plan, and the plan file that binds a later apply to it.

An approval is the digest of exactly one plan, or of its deletions, so an approval of an earlier
revision never lets a later one run. A plan file restricts an apply and allows nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct, field

from applyprune._version import __version__
from applyprune.errors import NotApproved, PlanOutdated, PruneRefused, UsageError
from applyprune.model.events import ObjectDone
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref, SetKey
from applyprune.model.inventory import Inventory
from applyprune.model.live import LiveObject
from applyprune.model.options import Approval, DryRun, Mode, Options
from applyprune.model.plan import (
    IN_PLACE,
    ApplyStep,
    Cascaded,
    Cause,
    ConsequenceKind,
    Guard,
    GuardResult,
    GuardVerdict,
    OnConflict,
    Plan,
    RemoveStep,
)
from applyprune.model.problem import Origin, Problem, ProblemKind
from applyprune.model.text import and_more
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.digests import (
    OptionValue,
    PlannedObject,
    changed_options,
    deletions_digest,
    is_digest,
    plan_digest,
    planned_object,
    planned_objects,
    ref_parts,
    shaping_options,
    state_mark,
)
from applyprune.planning.field_writers import writers_since
from applyprune.planning.guards import with_digest
from applyprune.planning.managed_fields import entry_times, owns_all
from applyprune.planning.normalize import body_to_send, may_be_secret, other_values
from applyprune.planning.plan import settled, unchecked, warnings_of
from applyprune.values import pattern, replace


def without_unapproved(plan: Plan, options: Options, *, takes_set: bool) -> Plan:
    """Return the plan as it may run now: without the deletions if they must be approved first.

    With ``Approval.ALWAYS`` nothing of a plan with ``needs_approval`` may run.
    """
    missing = missing_approval(plan, options, takes_set=takes_set)
    plan = replace(plan, needs_approval=missing)
    if not missing or options.approval is Approval.AUTOMATIC:
        return plan
    what = "the plan is" if options.approval is Approval.ALWAYS else "the deletions are"
    message = f"{what} not approved"
    if options.approval is Approval.PRUNE:
        plan = replace(plan, applies=tuple(map(_not_recreated, plan.applies)))
    problem = NotApproved(message, reason=f"it needs an approval of {missing}").problem
    return replace(
        plan,
        no_prune=plan.no_prune or (message if plan.removals else ""),  # guard: unapproved-deletions
        refusal=plan.refusal or problem,
    )


def _not_recreated(step: ApplyStep) -> ApplyStep:
    if step.fate is not Fate.RECREATE:
        return step
    return replace(
        step,
        fate=Fate.LEAVE,
        reason="it must be recreated, and that is not approved",
        request=None,
        deletion=None,
        cause=Cause.NOT_APPROVED,
    )


def missing_approval(plan: Plan, options: Options, *, takes_set: bool) -> str:
    """Return the digest that must be approved before all of a plan may run; empty if none.

    ``takes_set`` says whether the set gets another owner.
    """
    if plan.faults or plan.lacks_rights:
        return ""  # nothing of it runs anyway
    if options.approval is Approval.ALWAYS:
        # guard: whole-plan-approved -> options.approved_plan
        approved = plan.digest == options.approved_plan
        return "" if approved or not (takes_set or changes_anything(plan)) else plan.digest
    if options.approval is Approval.PRUNE or plan.refusal is not None:
        # guard: deletions-approved -> options.prune.approved
        approved = plan.deletions == options.prune.approved
        return "" if approved else plan.deletions
    return ""


def changes_anything(plan: Plan) -> bool:
    """Return whether a plan changes any object, or which objects the inventory lists."""
    fates = {step.fate for step in plan.applies}
    if not plan.no_prune:
        fates |= {step.fate for step in plan.removals}
    return bool(plan.recovered) or not fates <= {Fate.LEAVE, Fate.REFUSE}


def is_blocked(plan: Plan, options: Options) -> bool:
    """Return whether nothing of a plan may run: for a fault, a refused prune, or no approval."""
    prune_is_refused = (
        options.mode is Mode.APPLY
        and plan.refusal is not None
        and plan.refusal.kind is ProblemKind.PRUNE_REFUSED
        and not plan.restored
        and not options.prune.apply_anyway  # guard: apply-anyway never
    )
    is_unapproved = options.approval is Approval.ALWAYS and bool(plan.needs_approval)
    is_wrong = plan.stops or prune_is_refused
    return is_wrong or is_unapproved  # guard: unapproved-plan -> is_wrong


def with_approval(
    plan: Plan,
    applyset: ApplySetIdentity,
    options: Options,
    *,
    deletions: str = "",
    stays: str = "",
    continues: bool = False,
) -> Plan:
    """Return a plan after all checks of its steps: with its digests, and with what follows.

    A refused prune is lifted if exactly its deletions are approved. ``deletions`` replaces their
    digest if the plan is the rest of an earlier one, which was interrupted. ``stays`` says why
    nothing is pruned in any case; empty if it may be. A plan that ``continues`` is the rest of what
    was approved, so it has that digest.
    """
    is_whole = options.approval is Approval.ALWAYS
    prunes = options.prune.enabled and not plan.restored
    found = deletions or deletions_digest(plan.applies, plan.removals if prunes else ())
    if continues and found and not is_whole:
        found = options.prune.approved
    plan = replace(plan, deletions=found, continues=continues)
    applies, removals, guards, refusal = plan.applies, plan.removals, plan.guards, plan.refusal
    lifted, given = plan.if_approved, options.prune.approved
    exactly = found == given  # guard: one-approval -> given
    # guard: only-approved never
    if refusal is None and found and given and not exactly and _only_approved(options):
        refusal, guard = _not_these(plan, options), Guard.APPROVED_DELETIONS
        guards = (*guards, GuardResult(guard, GuardVerdict.REFUSED, refusal.reason))
        # Where the apply goes on without the prune, nothing is recreated either.
        applies = tuple(map(_not_recreated, applies)) if options.prune.apply_anyway else applies
    elif refusal is not None and lifted is not None and found and not exactly:
        refusal = with_digest(refusal, given, found, allows=lifted.refusal is None)
    elif refusal is not None and lifted is not None and found:
        # Some steps may have been left out since: objects of an API group that does not answer.
        steps = {step.entry.ref: step for step in lifted.steps}
        removals = tuple(steps[step.entry.ref] for step in removals)
        guards, refusal, lifted = lifted.guards, lifted.refusal, None
    if options.dry_run is DryRun.CLIENT:
        applies = tuple(unchecked(step, options.mode) for step in applies)
        removals = tuple(unchecked(step, options.mode) for step in removals)
    no_prune, applies, removals = settled(applies, removals, refusal, options, stays)
    plan = replace(
        plan,
        applies=applies,
        removals=removals,
        no_prune=no_prune,
        guards=guards,
        refusal=refusal,
        if_approved=lifted,
    )
    warnings = (*plan.warnings, *warnings_of(plan, applyset, options))
    own = plan_digest(plan, applyset, options)
    digest = options.approved_plan if continues and is_whole else own
    return replace(plan, warnings=warnings, digest=digest)


def _only_approved(options: Options) -> bool:
    # What waits for an approval by a policy is left out later.
    return options.approval is Approval.AUTOMATIC and options.prune.only_approved


def _not_these(plan: Plan, options: Options) -> Problem:
    """Return the problem of a plan that no guard refuses, and whose deletions are not approved."""
    what = f"the {options.mode.removal} was refused"
    error = PruneRefused(what, reason="what it would delete is not approved")
    return with_digest(error.problem, options.prune.approved, plan.deletions, allows=True)


# What a person must agree to. Creations and changes need no question: another apply undoes them.


# Pods that stop, and what others have declared, do not come back by another apply.
_ASKING = frozenset({ConsequenceKind.FIELDS_LOST, ConsequenceKind.SCALES})
Consent: TypeAlias = frozenset[Hashable]
"""What somebody agrees to; two plans that need the same consent have equal values."""


def needed_consent(plan: Plan, mode: Mode) -> Consent:
    """Return what the plan needs consent for; empty if it needs none.

    To delete or to orphan a set, every object that leaves it counts, even if it stays in the
    cluster. Otherwise, what somebody has deleted already does not count.
    """
    fates = {Fate.PRUNE}
    if mode in {Mode.DELETE, Mode.ORPHAN}:
        fates |= {Fate.ORPHAN, Fate.REMOVE_FROM_INVENTORY}
    removals = () if plan.no_prune else plan.removals
    return frozenset(
        (
            *(
                _identity(step)
                for step in removals
                if step.fate in fates and (mode is Mode.DELETE or not step.is_going)
            ),
            *(_identity(step) for step in plan.applies if _needs_consent(step)),
            *(one for one in plan.consequences if one.kind in _ASKING),
        )
    )


def _identity(step: ApplyStep | RemoveStep) -> Hashable:
    """Return what the user has seen of a step, and the UID that the name stands for."""
    uid = step.live.uid if step.live else ""
    taken = (step.taken_from, step.reverts) if isinstance(step, ApplyStep) else ()
    return (step.fate, step.entry.ref, uid, step.reason, taken)


def _needs_consent(step: ApplyStep) -> bool:
    if step.fate is Fate.RECREATE:
        return True
    undoes = bool(step.taken_from or step.reverts)  # guard: revert-asks -> bool(step.taken_from)
    # guard: own-asks -> step.fate.is_applied and (undoes)
    return step.fate.is_applied and (undoes or step.becomes_owned)


# A plan file, and the refusals that bind a run to it.


SYSTEM = "kube-system"
"""The Namespace whose UID identifies a cluster."""
_AGAIN = "Make the plan again, and review it again."
_SHOWN = 3
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class PlanFile(Struct, frozen=True):
    """A plan as it was reviewed: the fate of each object, and on what it is based."""

    name: str
    """The name of the set."""
    namespace: str
    """The namespace of its inventory."""
    cluster: Mapping[str, str]
    """The UIDs of the Namespaces that identify the cluster, by their names."""
    inventory_uid: str
    """The UID of the inventory; empty if there was none."""
    generation: int
    """The number of the inventory's writes."""
    options: Mapping[str, OptionValue]
    """The options that shape the plan."""
    created: datetime
    expires: datetime
    digest: str
    """The digest of the whole plan."""
    deletions: str
    """The digest of its deletions; empty if there are none."""
    objects: tuple[PlannedObject, ...]
    """What is planned for each object, in the order of their refs."""
    recovered: tuple[tuple[Ref, str], ...] = ()
    """The refs and UIDs of unlisted objects that the inventory gets back."""
    input: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The local input, as the options of the command line named it; empty if any is not local."""
    created_by: str = f"applyprune {__version__}"
    """The program that made it, with its version."""
    checksum: str = ""
    """The checksum of the file; it names this very plan."""


def plan_file_of(
    plan: Plan,
    applyset: ApplySetIdentity,
    options: Options,
    *,
    cluster: Mapping[str, str],
    now: datetime,
    valid_for: timedelta,
) -> PlanFile:
    """Return the file of a plan that a run has planned and checked.

    ``cluster`` has the UIDs of the Namespaces that identify the cluster. Raises UsageError if
    nothing identifies it.
    """
    uid, _, generation = plan.inventory.rpartition("/")
    if not (cluster or uid):
        raise UsageError(
            "a plan file must name its cluster, and nothing identifies it",
            reason=f"the Namespaces {SYSTEM} and {applyset.namespace} cannot be read",
            hint=f"Allow the account to get the Namespace {applyset.namespace}.",
        )
    created = now.replace(microsecond=0)
    return sealed(
        PlanFile(
            name=applyset.name,
            namespace=applyset.namespace,
            cluster=cluster,
            inventory_uid=uid,
            generation=int(generation),
            options=shaping_options(options),
            created=created,
            expires=created + valid_for,
            digest=plan.digest,
            deletions=plan.deletions,
            objects=planned_objects(plan),
            recovered=tuple((entry.ref, entry.uid) for entry in plan.recovered),
        )
    )


def refuse_validity(seconds: float) -> None:
    """Refuse a plan file that would be valid for less than a second, or for more than a year."""
    if not 1 <= seconds <= 365 * 24 * 3600:
        raise UsageError("a plan file must be valid for at least 1s, and at most 8760h, a year")


def refuse_expired(file: PlanFile, now: datetime, *, source: str = "") -> None:
    if now >= file.expires:
        raise PlanOutdated(
            f"the plan expired at {file.expires.strftime(_TIME)}",
            location=source,
            hint=_AGAIN,
        )


def refuse_other_set(file: PlanFile, applyset: ApplySetIdentity) -> None:
    if (file.name, file.namespace) != (applyset.name, applyset.namespace):
        raise UsageError(
            f"the plan file is for the set {file.name} in namespace {file.namespace}",
            reason=f"this run is for the set {applyset.name} in namespace {applyset.namespace}",
        )


def refuse_other_options(file: PlanFile, options: Options) -> None:
    changes = changed_options(file.options, shaping_options(options))
    if changes:
        raise UsageError(
            "the plan was made with other options",
            reason="; ".join(f"{then} then, {now} now" for then, now in changes),
            hint="Give the same options as for the plan, or make the plan again.",
        )


def refuse_other_cluster(file: PlanFile, cluster: Mapping[str, str]) -> None:
    """Refuse a plan file for another cluster; ``cluster`` has the UIDs of this one's Namespaces."""
    # A Namespace may be replaced in the same cluster, but not kube-system.
    names = sorted(file.cluster.keys() & cluster.keys(), key=lambda name: name != SYSTEM)
    if not names and not file.inventory_uid:
        known = " or ".join(f"the Namespace {name}" for name in sorted(file.cluster))
        raise UsageError(
            "it is unknown whether the plan file is for this cluster",
            reason=f"this account cannot read {known}",
            hint=f"Allow the account to get {known}.",
        )
    if names and file.cluster[names[0]] != cluster[names[0]]:
        raise UsageError(
            "the plan file is for another cluster",
            reason=f"the Namespace {names[0]} has another UID here",
        )


def as_reviewed(steps: Iterable[ApplyStep], file: PlanFile) -> Sequence[ApplyStep]:
    """Return steps that fit the file, with the fates that the server had confirmed for them.

    An object is only recreated if the file says so.
    """
    before = {one.ref: one for one in file.objects}
    return [_reviewed(step, before.get(step.desired.ref)) for step in steps]


def unconfirmed(steps: Iterable[ApplyStep], file: PlanFile) -> frozenset[Ref]:
    """Return the Secrets that the server had confirmed, and whose values are other ones now.

    The file has no digest of them, so only the server can tell whether an apply changes them.
    """
    before = {one.ref for one in file.objects if one.is_checked}
    return frozenset(
        step.desired.ref
        for step in steps
        if step.desired.ref in before and step.request is not None and _has_other_values(step)
    )


def _has_other_values(step: ApplyStep) -> bool:
    body, live = step.desired.body, step.live
    if live is None or not may_be_secret(body):
        return False
    return live.body is None or bool(other_values(body_to_send(step.desired), live.body))


def _reviewed(step: ApplyStep, old: PlannedObject | None) -> ApplyStep:
    if old is None or step.request is None or step.desired.conflicts is OnConflict.SKIP:
        return step  # what may be skipped on a conflict is tried first, as in any run
    if old.is_checked and _has_other_values(step):
        return step  # the server is asked again
    step = replace(step, is_checked=True)
    if old.is_checked:
        return replace(step, fate=Fate.LEAVE)
    if old.fate is not Fate.RECREATE or step.fate is Fate.RECREATE:
        return step
    if step.live is None or step.live.uid != old.uid:
        return step
    # Without a delete in the plan, the run first proves that the object can be created again.
    return replace(step, fate=Fate.RECREATE, reason=IN_PLACE)


def refuse_other_inventory(file: PlanFile, inventory: Inventory) -> None:
    """Refuse a plan file of an inventory that was deleted and created again."""
    if file.inventory_uid not in {"", inventory.uid}:  # guard: reviewed-inventory never
        raise PlanOutdated(
            "nothing was written, because the plan no longer fits",
            reason="the inventory of the set was deleted and created again",
            hint=_AGAIN,
        )


# The format of a plan file: JSON whose first line has the checksum of all that follows, so a file
# with one changed byte is invalid.


_VERSION = 1
SCHEMA = f"applyprune.dev/plan/v{_VERSION}"
SCHEMA_OF_MANY = "applyprune.dev/plans/v1"
LARGEST = 32 * 1024 * 1024
"""The most bytes that a plan file may have: about 150,000 objects."""
_HEAD_OF_MANY = pattern(rb'\{"schema":"applyprune\.dev/plans/v1"')
_HEAD = pattern(rb'\{"schema":"applyprune\.dev/plan/v(\d{1,9})"')
_LONGEST_REASON = 200
T = TypeVar("T")


def is_plan_file(data: bytes) -> bool:
    """Return whether this is the beginning of a plan file of any version."""
    return (_HEAD.match(data) or _HEAD_OF_MANY.match(data)) is not None


class PlanFiles(Struct, frozen=True):
    """The plans of many sets, in one file."""

    folder: str
    """The folder of the sets, as the command line named it."""
    files: tuple[PlanFile, ...]
    removed: tuple[SetKey, ...] = ()
    """The sets whose files are gone: the plans may take their objects."""


def with_own_approval(options: Options, file: PlanFile) -> Options:
    """Return the options of one of many sets, of which somebody has approved several digests.

    Its own is that of its plan, if it is among them. Without it, none of them is of its deletions.
    """
    if file.deletions in options.prune.approved.split():  # guard: own-approval always
        return replace(options, prune=replace(options.prune, approved=file.deletions))
    return options


def encode_plan_files(plans: PlanFiles) -> bytes:
    """Return the plans of many sets as JSON; each of them is as in a file of its own."""
    each = b",\n".join(encode_plan_file(one).rstrip() for one in plans.files)
    head = f'"folder":{_json(plans.folder)},\n"removed":{_json(plans.removed)}'
    content = f'{head},\n"plans":[\n'.encode() + each + b"\n]}\n"
    return _first_line(_checksum(content), SCHEMA_OF_MANY) + content


def decode_plan_files(data: bytes, *, source: str) -> PlanFiles | PlanFile:
    """Return the plan in the content of a file, or the plans of many sets.

    Raises UsageError if it is not exactly as it was written. ``source`` is the path of the file.
    """
    if _HEAD_OF_MANY.match(data) is None:
        return decode_plan_file(data, source=source)
    first, end, content = data.partition(b"\n")
    if first + end != _first_line(_checksum(content), SCHEMA_OF_MANY):
        raise _invalid(source, "was changed or cut off after it was written")
    head, _, rest = content.partition(b',\n"plans":[\n')
    try:
        said = json.loads(b"{" + head + b"}")
        folder, gone = _typed(str, said["folder"]), _typed(list, said["removed"])
        removed = [SetKey(_typed(str, namespace), _typed(str, name)) for namespace, name in gone]
        files = [decode_plan_file(one, source=source) for one in _plans_in(rest.decode())]
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise _invalid(source, "is not a valid plan file", reason="it is malformed") from error
    plans = PlanFiles(folder, tuple(files), tuple(removed))
    if encode_plan_files(plans) != data:  # guard: plans-form never
        raise _invalid(source, "is not a valid plan file", reason="it is malformed")
    return plans


def _plans_in(text: str) -> Iterator[bytes]:
    """Yield each plan of a list, as it was written."""
    decoder, at = json.JSONDecoder(), 0
    while text[at] == "{":
        _, end = decoder.raw_decode(text, at)
        yield f"{text[at:end]}\n".encode()
        at = end + len(",\n" if text[end] == "," else "\n")


def encode_plan_file(file: PlanFile) -> bytes:
    content = _content(file)
    return _first_line(_checksum(content)) + content


def decode_plan_file(data: bytes, *, source: str) -> PlanFile:
    """Return the plan in the content of a file; raise UsageError if it is not exactly as written.

    ``source`` is the path of the file, for the error.
    """
    found = _HEAD.match(data)
    if found is None:
        raise _invalid(source, "is not a plan file, or was changed after it was written")
    if (version := int(found[1])) != _VERSION:
        raise UsageError(
            f"the plan file has the schema v{version}, which is unknown",
            location=source,
            reason=f"applyprune {__version__} reads v{_VERSION}",
            hint="Use the version of applyprune that wrote it.",
        )
    first, end, content = data.partition(b"\n")
    checksum = _checksum(content)
    if first + end != _first_line(checksum):
        raise _invalid(source, "was changed or cut off after it was written")
    try:
        file = _file_in(json.loads(b"{" + content))
        # guard: plan-file-form -> True
        is_ours = _content(file) == content
    except (KeyError, TypeError, ValueError, RecursionError, OverflowError) as error:
        lacks = "it lacks " if isinstance(error, KeyError) else ""
        reason = f"{lacks}{error}"[:_LONGEST_REASON]
        raise _invalid(source, "is not a valid plan file", reason=reason) from error
    if not is_ours:  # a key that is there twice, or unknown, would show another plan than is read
        raise _invalid(source, "is not a valid plan file", reason="it is malformed")
    return replace(file, checksum=checksum)


def _invalid(source: str, message: str, *, reason: str = "") -> UsageError:
    hint = "Make it again with `applyprune plan --out FILE`."
    return UsageError(f"the file {message}", location=source, reason=reason, hint=hint)


def _first_line(checksum: str, schema: str = SCHEMA) -> bytes:
    return f'{{"schema":"{schema}","checksum":"{checksum}",\n'.encode()


def _file_in(raw: Mapping[str, Any]) -> PlanFile:
    applyset, inventory = raw["set"], raw["inventory"]
    objects = tuple(_object_in(planned) for planned in _typed(list, raw["objects"]))
    if len({planned.ref for planned in objects}) != len(objects):
        raise ValueError("an object is listed twice")
    return PlanFile(
        name=_typed(str, applyset["name"]),
        namespace=_typed(str, applyset["namespace"]),
        cluster={key: _typed(str, uid) for key, uid in _typed(dict, raw["cluster"]).items()},
        inventory_uid=_typed(str, inventory["uid"]),
        generation=_typed(int, inventory["generation"]),
        options={key: _option_in(value) for key, value in _typed(dict, raw["options"]).items()},
        created=_time_in(raw["created"]),
        expires=_time_in(raw["expires"]),
        digest=_digest_in(raw["digest"]),
        deletions=_digest_in(raw["deletions"]) if raw["deletions"] != "" else "",
        objects=objects,
        recovered=tuple((cascaded.ref, cascaded.uid) for cascaded in _cascade_in(raw["recovered"])),
        input={
            _typed(str, option): tuple(_typed(str, path) for path in _typed(list, paths))
            for option, paths in _typed(dict, raw.get("input", {})).items()
        },
        created_by=_typed(str, raw["createdBy"]),
    )


def _object_in(raw: Mapping[str, Any]) -> PlannedObject:
    return PlannedObject(
        ref=_ref_in(raw["object"]),
        fate=Fate(raw["fate"]),
        manifest=_typed(str, raw.get("manifest", "")),
        uid=_typed(str, raw.get("uid", "")),
        state=_typed(str, raw.get("state", "")),
        cascade=_cascade_in(raw.get("cascade", [])),
        applied=_typed(str, raw.get("applied", "")),
        is_checked=_typed(bool, raw.get("checked", False)),
    )


def _option_in(raw: object) -> OptionValue:
    if isinstance(raw, bool | str):
        return raw
    return tuple(_typed(str, one) for one in _typed(list, raw))


def _time_in(raw: object) -> datetime:
    return datetime.strptime(_typed(str, raw), _TIME).replace(tzinfo=UTC)


def _digest_in(raw: object) -> str:
    if not is_digest(text := _typed(str, raw)):
        raise ValueError("a digest is malformed")
    return text


def _cascade_in(raw: object) -> tuple[Cascaded, ...]:
    return tuple(Cascaded(_ref_in(row[:-1]), _typed(str, row[-1])) for row in _typed(list, raw))


def _ref_in(raw: object) -> Ref:
    group, kind, namespace, name = (_typed(str, part) for part in _typed(list, raw))
    return Ref(group, kind, namespace, name)


def _typed(kind: type[T], value: object) -> T:
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} where there should be {kind.__name__}")
    if isinstance(value, str):
        value.encode()  # half a surrogate pair could not be printed
    return value


def sealed(file: PlanFile) -> PlanFile:
    return replace(file, checksum=_checksum(_content(file)))


def _checksum(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _content(file: PlanFile) -> bytes:
    """Return everything after the first line: a line for each object."""
    head = {
        "createdBy": file.created_by,
        "created": file.created.strftime(_TIME),
        "expires": file.expires.strftime(_TIME),
        "set": {"name": file.name, "namespace": file.namespace},
        "cluster": file.cluster,
        "inventory": {"uid": file.inventory_uid, "generation": file.generation},
        "options": file.options,
        "digest": file.digest,
        "deletions": file.deletions,
        "recovered": [[*ref_parts(ref), uid] for ref, uid in file.recovered],
    }
    if file.input:
        head["input"] = file.input
    parts = [f"{_json(key)}:{_json(value)}" for key, value in head.items()]
    rows = ",\n".join(_json(_object_out(planned)) for planned in file.objects)
    return (",\n".join(parts) + f',\n"objects":[\n{rows}\n]}}\n').encode()


def _json(value: object) -> str:
    # In ASCII, so that no name can move a terminal's cursor.
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _object_out(planned: PlannedObject) -> dict[str, Any]:
    out: dict[str, Any] = {"object": ref_parts(planned.ref), "fate": str(planned.fate)}
    for key in ("manifest", "uid", "state", "applied"):
        if value := getattr(planned, key):
            out[key] = value
    if planned.is_checked:
        out["checked"] = True
    if planned.cascade:
        out["cascade"] = [[*ref_parts(also.ref), also.uid] for also in planned.cascade]
    return out


# What no longer fits in a plan file: whatever does more than it shows. So an interrupted apply is
# continued with the same file.


def misfits(
    file: PlanFile,
    plan: Plan,
    inventory: Inventory,
    unknown: Mapping[Ref, str] = MappingProxyType({}),
) -> Iterator[ObjectDone]:
    """Yield a failure for each object for which the plan made now does more than the file shows.

    ``unknown`` are the objects of the input that could not be planned, each with the reason.
    """
    last = inventory.plan
    is_new = not (inventory.exists or file.inventory_uid)  # its Namespace may be made already
    is_last = is_new or (last is not None and last.checksum == file.checksum)
    before = {one.ref: one for one in file.objects}
    steps: dict[Ref, ApplyStep | RemoveStep] = {
        **{step.entry.ref: step for step in plan.removals},
        **{step.desired.ref: step for step in plan.applies},
    }
    for ref in sorted({*before, *steps}):
        step, old = steps.get(ref), before.get(ref)
        both = exceeds(old, step, is_last=is_last) if old and step else ""
        if reason := unknown.get(ref) or both or _one_sided(old, step):
            if reason == _CHANGED and old is not None and step is not None and step.live:
                reason = _changed_by(old, step.live, file)
            origin = step.desired.origin if isinstance(step, ApplyStep) else None
            yield _misfit(ref, reason, origin)
    recovered = {(entry.ref, entry.uid) for entry in plan.recovered}
    # guard: reviewed-recovery -> sorted(())
    for ref, _ in sorted(recovered.difference(file.recovered)):
        yield _misfit(ref, "it has the set's label, and the inventory does not list it")


def _misfit(ref: Ref, reason: str, origin: Origin | None = None) -> ObjectDone:
    error = PlanOutdated(f"{ref} no longer fits the plan", location=origin or "", reason=reason)
    return ObjectDone(ref, Outcome.FAILED, origin, problem=error.problem)


def exceeds(shown: PlannedObject, step: ApplyStep | RemoveStep, *, is_last: bool = False) -> str:
    """Return why a step does more than was shown of its object; empty if it does the same or less.

    It does less if it leaves the object as it is, or only does what is left of a request that has
    arrived already. ``is_last`` says whether no other run of the set has begun since what was shown
    was last applied: managedFields have no values, so an apply of another run looks the same.
    """
    now = planned_object(step)
    if now.manifest and not shown.manifest:
        return "the input has it again"
    if reason := _input_reason(shown.manifest, now.manifest):
        return reason
    if now.fate is Fate.LEAVE or _is_rest(shown, step, now, is_last=is_last):
        return ""
    if step.problem is not None and now.fate is Fate.REFUSE:
        return step.problem.message.removeprefix(f"{shown.ref}: ")
    # What adopts or recreates an object is bound to more of its state than what only changes it.
    whole = "" if step.live is None else state_mark(step.live)
    now = replace(now, state=whole) if shown.state == whole else now
    reason = _changed_state(shown, now)
    is_confirmed = shown.is_checked and isinstance(step, ApplyStep) and step.is_checked
    # guard: reviewed-secret -> reason or ""
    return reason or (_OTHER_VALUES if is_confirmed else "")


def _is_rest(
    shown: PlannedObject, step: ApplyStep | RemoveStep, now: PlannedObject, *, is_last: bool
) -> bool:
    """Return whether a step is what is left of the one that was shown, whoever did the rest."""
    live = step.live
    match now.fate:
        case Fate.REMOVE_FROM_INVENTORY:
            return shown.fate in {Fate.PRUNE, Fate.ORPHAN, Fate.REMOVE_FROM_INVENTORY}
        case Fate.PRUNE:
            is_going = live is not None and live.terminating
            return shown.fate is Fate.PRUNE and now.uid == shown.uid and is_going
        case Fate.CREATE:
            return shown.fate is Fate.RECREATE
        case Fate.ADOPT if _awaits_controller(shown):
            return True
    # guard: reviewed-run -> not isinstance(step, ApplyStep)
    if not isinstance(step, ApplyStep) or not is_last:
        return False
    if not (shown.fate.is_applied or shown.is_checked):
        return False
    # Of a recreation, the new object: the old one is still to be deleted.
    recreates = shown.fate is Fate.RECREATE
    is_same = now.uid != shown.uid if recreates else shown.uid in {"", now.uid}
    return is_same and _has_arrived(shown, step)  # guard: reviewed-apply -> is_same


def _one_sided(old: PlannedObject | None, step: ApplyStep | RemoveStep | None) -> str:
    """Return why an object does not fit that only the file has, or only the plan."""
    if isinstance(step, ApplyStep):
        return "" if old else _input_reason("", step.desired.digest)
    if step is not None:
        action = planned_object(step).fate.action
        return "" if old else f"it is no longer in the input: an apply would {action}"
    # What has left the set, and is not listed any more, was removed.
    return "the input no longer has it" if old is not None and old.manifest else ""


def _has_arrived(old: PlannedObject, step: ApplyStep) -> bool:
    """Return whether the set has applied an object since the plan, and nobody has undone it.

    managedFields count in seconds: an apply within the second of the one before the plan counts as
    none, so the plan is refused.
    """
    live, request = step.live, step.request
    if live is None or request is None or entry_times(live, request.manager) == old.applied:
        return False
    return owns_all(live, request.manager, request.body)


def _awaits_controller(old: PlannedObject) -> bool:
    """Return whether the plan adopts an object that a controller is about to create."""
    return old.fate is Fate.ADOPT and not old.uid


def _changed_state(old: PlannedObject, new: PlannedObject) -> str:
    """Return how the live object, or the decision about it, differs from the plan."""
    if old.uid and not new.uid:
        return "it was deleted meanwhile"
    if new.uid and not old.uid:
        return "it was created meanwhile"
    if old.uid != new.uid:
        return "it was deleted and created again meanwhile"
    if old.state != new.state:  # guard: reviewed-state never
        return _CHANGED
    allowed = _SENT if old.is_checked else _NO_MORE.get(old.fate, {old.fate})
    if new.fate not in allowed:  # guard: reviewed-fate never
        if (old.fate, new.fate) == (Fate.LEAVE, Fate.CHANGE):
            return "its live state differs from its manifest now"
        return f"the plan was to {old.fate.action}; now an apply would {new.fate.action}"
    if not {*new.cascade} <= {*old.cascade}:  # guard: reviewed-cascade never
        return "its deletion would delete other objects now"
    return ""


_SENT = frozenset({Fate.CHANGE, Fate.ADOPT})
# The fates that do no more than another one to the same object in the same state.
_NO_MORE: Mapping[Fate, frozenset[Fate]] = {
    Fate.ADOPT: _SENT,
    Fate.RECREATE: frozenset({Fate.RECREATE, Fate.CHANGE}),
}
_CHANGED = "it has been changed meanwhile"
_OTHER_VALUES = "its manifest has other values now"


def _changed_by(old: PlannedObject, live: LiveObject, file: PlanFile) -> str:
    """Return that an object was changed, with whoever has written it since the plan was made.

    The plan has no values, so it cannot tell that somebody has changed them back.
    """
    manager = ApplySetIdentity(file.name, file.namespace).manager
    ours = manager if old.applied in {"", entry_times(live, manager)} else ""
    writers = writers_since(live, file.created.strftime(_TIME), but=ours)
    by = f", by {and_more(writers, _SHOWN)}" if writers else ""
    return f"{_CHANGED}{by}; changing it back is not enough"


def _input_reason(old: str, new: str) -> str:
    """Return how two manifests differ, by their digests; empty if they do not."""
    if old == new:
        return ""
    if old and new:
        return "its manifest has changed"
    return "the input no longer has it" if old else "the input has it, and the plan does not"
