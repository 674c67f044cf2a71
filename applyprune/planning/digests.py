"""The digests of a plan and of its deletions, and what of the plan they bind.

A digest depends on what the plan does, and not on the order or the form of its input.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from applyprune.model.fate import Fate
from applyprune.model.fieldset import Writer
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject, mapping
from applyprune.model.options import Options
from applyprune.model.plan import ApplyStep, Cascaded, Plan, RemoveStep
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.managed_fields import entry_times
from applyprune.planning.normalize import canonical, digest
from applyprune.planning.ownership import FIXED_GENERATION
from applyprune.values import pattern, replace

_ALGORITHM = "sha256:"
_DIGEST = pattern(r"sha256:[0-9a-f]{64}")


def plan_digest(plan: Plan, applyset: ApplySetIdentity, options: Options) -> str:
    """Return the digest of a whole plan: of the set, the options, and every object.

    Every write of the inventory changes it, so a plan that has run once has another one.
    """
    found = hashlib.sha256()
    for part in plan_text(plan, applyset, options):
        found.update(part)
    return f"{_ALGORITHM}{found.hexdigest()}"


def plan_text(plan: Plan, applyset: ApplySetIdentity, options: Options) -> Iterator[bytes]:
    """Yield the parts of the text that has the digest of a plan, one for each object."""
    before = {"inventory": plan.inventory, "mode": str(options.mode)}
    after = {
        "options": shaping_options(options),
        "recovered": sorted([*ref_parts(entry.ref), entry.uid] for entry in plan.recovered),
        "set": [applyset.name, applyset.namespace],
        "source": options.source,
    }
    # The canonical JSON of it all: there may be 100,000 objects.
    yield canonical(before)[:-1] + b',"objects":['
    for number, step in enumerate(steps_by_ref(plan)):
        yield b"," * bool(number) + canonical(_plan_row(step))
    yield b"]," + canonical(after)[1:]


def is_same_run(
    text: Mapping[str, Any], plan: Plan, applyset: ApplySetIdentity, options: Options
) -> bool:
    """Return whether a plan is of the run whose text this is: its set, source and options."""
    asked = {
        "inventory": plan.inventory.rpartition("/")[0],
        "mode": str(options.mode),
        "options": shaping_options(options),
        "recovered": [],
        "set": [applyset.name, applyset.namespace],
        "source": options.source,
    }
    known = {key: text[key] for key in asked} | {
        "inventory": str(text["inventory"]).rpartition("/")[0],
        "recovered": [list(ref_parts(entry.ref)) for entry in plan.recovered],
    }
    return canonical(known) == canonical(asked)


def _plan_row(step: ApplyStep | RemoveStep) -> list[object]:
    planned = without_state(step)
    # A check by the server changes the digest only where it finds a deletion.
    fate = Fate.CHANGE if planned.is_checked else planned.fate
    # What is left as it is may change, for example its number of replicas.
    state = "" if fate is Fate.LEAVE else state_of(step)
    known = [str(fate), planned.manifest, planned.uid, state]
    return [*ref_parts(planned.ref), *known, _cascade_rows(planned)]


def deletions_digest(applies: Iterable[ApplyStep], removals: Iterable[RemoveStep]) -> str:
    """Return the digest of what would be deleted: each object by UID, with its cascade.

    It is empty if nothing would be deleted, or only what somebody has deleted already.
    """
    text = deletions_text(applies, removals)
    return digest_of_text(text) if text else ""


def deletions_text(applies: Iterable[ApplyStep], removals: Iterable[RemoveStep]) -> bytes:
    """Return the text that has the digest of these deletions; empty if they need none."""
    # A prune that a guard refuses counts too.
    doomed = [step for step in removals if step.is_doomed]
    recreated = [step for step in applies if step.fate is Fate.RECREATE]
    if not recreated and all(step.is_going for step in doomed):
        return b""
    planned = (*map(without_state, doomed), *map(without_state, recreated))
    return canonical(sorted(map(deletion_row, planned)))


CASCADE = 6
"""Where the cascade is in a row of a deletion."""


def deletion_row(planned: PlannedObject) -> list[Any]:
    """Return what the digest of the deletions has of one object."""
    return [*ref_parts(planned.ref), str(planned.fate), planned.uid, _cascade_rows(planned)]


def row_of_plan(row: Sequence[Any]) -> list[Any]:
    """Return the row of a deletion for one in the text of a whole plan."""
    *ref, fate, _, uid, _, cascade = row
    return [*ref, fate, uid, cascade]


def _cascade_rows(planned: PlannedObject) -> list[list[str]]:
    return sorted([*ref_parts(cascaded.ref), cascaded.uid] for cascaded in planned.cascade)


def digest_of(value: object) -> str:
    """Return the digest of JSON data, as the user sees and gives it: ``sha256:`` and 64 digits."""
    return digest_of_text(canonical(value))


def digest_of_text(text: bytes) -> str:
    return f"{_ALGORITHM}{hashlib.sha256(text).hexdigest()}"


def is_digest(text: str) -> bool:
    return _DIGEST.fullmatch(text) is not None


# What binds a run: the fate of each object, and the digests of its two states.
#
# Nothing here depends on a value of a Secret: of its data, only the keys count.


_PARTS = ("deletionTimestamp", "finalizers", "labels", "ownerReferences")
_ANNOTATIONS = ("metadata", "annotations")
_OWNER = ("manager", "operation", "subresource", "apiVersion", "time", "fieldsV1")
_UNREVIEWED = frozenset({"status", "scale"})
"""Whoever writes through these subresources changes nothing that a manifest sets.

If a manifest sets the scaled field too, its own entry in managedFields loses it, and that shows.
"""


class PlannedObject(Struct, frozen=True):
    """What a plan decides about one object."""

    ref: Ref
    fate: Fate
    manifest: str = ""
    """The digest of its manifest; empty if it is not in the input."""
    uid: str = ""
    """The UID of the live object; empty if none exists."""
    state: str = ""
    """The mark of the live object's state; empty if none exists."""
    cascade: tuple[Cascaded, ...] = ()
    """The objects outside the prune that its deletion would delete too."""
    applied: str = ""
    """When the set has last applied the live object; empty if it has not, or need not."""
    is_checked: bool = False
    """Whether it is left because the server found that an apply would not change it."""


def planned_objects(plan: Plan) -> tuple[PlannedObject, ...]:
    """Return what a plan decides about each object, in the order of their refs.

    A deletion that a guard refuses counts as a deletion: an approval may allow it.
    """
    return tuple(map(planned_object, steps_by_ref(plan)))


def steps_by_ref(plan: Plan) -> Sequence[ApplyStep | RemoveStep]:
    # A tuple compares many times faster than a dataclass, and a set may have 100,000 objects.
    return sorted(plan.steps, key=lambda step: ref_parts(step.entry.ref))


def planned_object(step: ApplyStep | RemoveStep) -> PlannedObject:
    """Return what a step decides about its object, and its state."""
    return replace(without_state(step), state=state_of(step))


def without_state(step: ApplyStep | RemoveStep) -> PlannedObject:
    """Return what a step decides about its object; its state costs more than all of that."""
    uid = "" if step.live is None else step.live.uid
    if isinstance(step, ApplyStep):
        applied = ""
        if step.live is not None and step.request is not None:
            applied = entry_times(step.live, step.request.manager)
        return PlannedObject(
            step.desired.ref,
            step.fate,
            step.desired.digest,
            uid,
            cascade=step.cascade,
            applied=applied,
            is_checked=step.is_checked and step.fate is Fate.LEAVE,
        )
    fate = Fate.PRUNE if step.is_doomed else step.fate
    return PlannedObject(step.entry.ref, fate, uid=uid, cascade=step.cascade)


def state_of(step: ApplyStep | RemoveStep) -> str:
    """Return the mark of the state of a step's live object; empty if none exists."""
    return "" if step.live is None else state_mark(step.live, _strange_annotations(step))


# What the program reads in annotations: the marks of Kubernetes, of applyprune, and of other tools.
_READ_DOMAINS = (
    "applyprune.dev",
    "argoproj.io",
    "cattle.io",
    "coreos.com",
    "fluxcd.io",
    "gke.io",
    "helm.sh",
    "k14s.io",
    "k8s.io",
    "kluctl.io",
    "kpt.dev",
    "kubernetes.io",
    "operatorframework.io",
)


def is_read(key: str) -> bool:
    """Return whether an annotation may say something to a run, by its key."""
    domain = key.rpartition("/")[0]
    return any(domain == one or domain.endswith(f".{one}") for one in _READ_DOMAINS)


def _strange_annotations(step: ApplyStep | RemoveStep) -> frozenset[str]:
    """Return the annotations of an object that change nothing about a step: strangers write them.

    They are in no manifest, and nobody applies them. The apply leaves them alone: it is not an
    adoption, which may take over their manager, and no deletion, which would lose them.
    """
    if not isinstance(step, ApplyStep) or step.live is None or not step.live.annotations:
        return frozenset()
    if step.fate not in {Fate.CHANGE, Fate.LEAVE} or step.takes_over or step.taken_from:
        return frozenset()  # guard: annotation-that-is-lost
    ours = mapping(mapping(step.desired.body.get("metadata")).get("annotations"))
    applied: set[object] = set()
    for one in step.live.writers:
        if one.operation != "Update":
            applied.update(one.fields.at(_ANNOTATIONS).below)
    return frozenset(
        key
        for key in step.live.annotations
        # guard: annotation-that-is-read -> key not in ours and key not in applied
        if key not in ours and key not in applied and not is_read(key)
    )


def _only_annotates(writer: Writer, keys: Collection[str]) -> bool:
    """Return whether an entry of managedFields has nothing but these annotations."""
    own = [*writer.fields.leaves()]
    return bool(own) and all(path[:-1] == _ANNOTATIONS and path[-1] in keys for path in own)


def state_mark(live: LiveObject, strange: Collection[str] = ()) -> str:
    """Return a text that changes with the spec or the metadata of an object.

    Annotations that are ``strange`` do not count, nor does who has written only these.

    It does not change with its status, or when an autoscaler scales it: that needs no new review.
    What the spec is, managedFields tell: each write of a field changes an entry or its time. For a
    kind without a generation, and where nobody tells, it changes with every write. The number of a
    write alone proves nothing: after a restore of etcd, they come again.
    """
    owners = [
        [one.entry.get(key) for key in _OWNER]
        for one in live.writers
        if one.subresource not in _UNREVIEWED and not (strange and _only_annotates(one, strange))
    ]
    is_told = live.generation is not None and live.ref.group_kind not in FIXED_GENERATION and owners
    version = "" if is_told else live.resource_version
    by_status = {*_status_annotations(live), *strange}
    metadata = [live.metadata.get(key) for key in _PARTS]
    annotations = {key: text for key, text in live.annotations.items() if key not in by_status}
    return digest([version, metadata, annotations, owners])


def _status_annotations(live: LiveObject) -> set[object]:
    """Return the annotations that a controller writes together with the status."""
    written: dict[bool, set[object]] = {True: set(), False: set()}
    for one in live.writers if live.annotations else ():
        keys = one.fields.at(("metadata", "annotations")).below
        written[one.subresource == "status"].update(keys)
    return written[True] - written[False]


def ref_parts(ref: Ref) -> tuple[str, str, str, str]:
    """Return the parts of a ref, in its own order."""
    return ref.group, ref.kind, ref.namespace, ref.name


# The options that shape a plan, by their names on the command line or in applyprune.yaml.


OptionValue: TypeAlias = "bool | str | tuple[str, ...]"
ONLY_KEYS = frozenset(
    {"helm-hooks", "ignore", "keep-drift", "namespace-override", "no-default-ignore", "propagation"}
)
"""Those that the command line does not have."""


def shaping_options(options: Options) -> Mapping[str, OptionValue]:
    apply, prune = options.apply, options.prune
    return {
        "adopt": str(apply.adopt),
        "conflicts": str(apply.conflicts),
        "create-namespace": apply.create_namespace,
        "helm-hooks": str(apply.helm_hooks),
        "ignore": tuple(sorted(apply.ignore)),
        "keep-drift": apply.keep_drift,
        "namespace-override": apply.namespace_override,
        "no-default-ignore": tuple(sorted(apply.no_default_ignore)),
        "only": tuple(sorted(apply.only)),
        "orphan": tuple(sorted(prune.orphan)),
        "propagation": str(prune.propagation).lower(),
        "prune": prune.enabled,
        "prune-also": ",".join(sorted(prune.also)),
        "reapply-all": apply.reapply_all,
        "record-as": str(apply.adopt_as),
        "recreate": apply.recreate,
        "selector": apply.selector.text if apply.selector else "",
        "take-over": tuple(sorted(apply.take_over)),
    }


def changed_options(
    before: Mapping[str, OptionValue], now: Mapping[str, OptionValue]
) -> list[tuple[str, str]]:
    """Return each option that differs, as it was written before and as it is now."""
    names = sorted({*before, *now})
    return [
        (as_written(name, before.get(name, "")), as_written(name, now.get(name, "")))
        for name in names
        if before.get(name, "") != now.get(name, "")
    ]


def as_written(name: str, value: OptionValue) -> str:
    """Return an option as it is given: ``--adopt=all``, ``--no-prune``, ``helm-hooks: skip``."""
    if name in ONLY_KEYS:
        shown = ", ".join(value) if isinstance(value, tuple) else value
        return f"{name}: {'true' if shown is True else shown}" if value else f"no {name}"
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}" if name == "prune" else f"no --{name}"
    if not value:
        return f"no --{name}"
    values = value if isinstance(value, tuple) else (value,)
    return " ".join(f"--{name}={one}" for one in values)
