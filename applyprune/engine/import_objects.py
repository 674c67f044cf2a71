"""Find what lives in the cluster, and make a manifest of each object, proved by dry runs.

A manifest needs two kinds of proof: the server would create the same object from it, and an apply
of it to the live object changes nothing. No object is written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from applyprune.engine.context import WorkerPool
from applyprune.engine.tool_records import recorded_members
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
    UsageError,
)
from applyprune.model.events import ErrorRaised, WarningRaised
from applyprune.model.kinds import CRD, SECRET
from applyprune.model.live import (
    API_SERVICES,
    AUTOSCALERS,
    SECRETS,
    LiveObject,
    Resource,
    ResourceMap,
    mapping,
)
from applyprune.model.reports import ImportEnded, ManifestMade, OwnerFound
from applyprune.model.text import and_more, counted
from applyprune.planning.applyset import PART_OF
from applyprune.planning.comparison import renamed
from applyprune.planning.import_content import (
    STATE_KINDS,
    LeftOut,
    content_of,
    left_out,
    owner_and_source,
)
from applyprune.planning.import_trials import (
    NOTHING_SEEN,
    SeenDefaults,
    Trial,
    first_trial,
    lacking,
    whole_trial,
)
from applyprune.planning.marks import pure_marks
from applyprune.planning.names import Resolver, kind_names
from applyprune.planning.normalize import targets
from applyprune.planning.ownership import owning_tools, tool_marks
from applyprune.planning.requests import apply_trial, creation_trial
from applyprune.planning.server_errors import dotted
from applyprune.planning.tool_records import parsed_record
from applyprune.planning.uids import each_once, uid_of
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.engine.ports import Cancellation, Cluster
    from applyprune.model.events import Event
    from applyprune.model.identity import GroupKind, Ref
    from applyprune.model.options import ImportOptions
    from applyprune.model.problem import JSONObject, Problem
    from applyprune.planning.tool_records import Documents, Members


_MOST_TRIALS = 8
_MOST_READS = 3
_SHOWN = 5
# Their names say what they are about, so that no other name can be tried.
_NAMED = frozenset({CRD, API_SERVICES.group_kind})


def import_objects(
    cluster: Cluster,
    namespace: str,
    options: ImportOptions,
    cancellation: Cancellation,
    documents: Documents,
) -> Iterator[Event]:
    """Yield a manifest of each object that is asked for, by kind and name, and what was left out.

    ``documents`` reads YAML that another tool has stored. An error about one object does not end
    the others. Raises UsageError for a kind that is not served, and for a named object or record
    that does not exist.
    """
    resource_map = cluster.resource_map()
    quiet = cluster.warning_to(None)
    with WorkerPool(16, cancellation) as workers:
        found = _Objects()
        if options.objects:
            yield from _read_named(quiet, resource_map, namespace, options, found)
        else:
            scope = _scope(quiet, resource_map, namespace, options, documents)
            yield from map(WarningRaised, scope.warnings)
            yield from _list_all(quiet, scope, options, workers, found)
        cancellation.check(is_unchanged=True)
        yield from _made(quiet, found, workers, cancellation)
    yield ImportEnded(_counted(found))


def owners(
    cluster: Cluster,
    namespace: str,
    options: ImportOptions,
    cancellation: Cancellation,
    documents: Documents,
) -> Iterator[Event]:
    """Yield under whom the objects are that an import would write, and how many were left out.

    Only metadata is read. Raises as ``import_objects`` does.
    """
    options = replace(options, secrets=True)
    scope = _scope(cluster, cluster.resource_map(), namespace, options, documents)
    yield from map(WarningRaised, scope.warnings)
    found = _Objects()
    with WorkerPool(16, cancellation) as workers:
        yield from _list_all(cluster, scope, options, workers, found, full=False)
    cancellation.check(is_unchanged=True)
    groups: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    known = {value for _, live in found.lives for _, value in tool_marks(live, "")}
    for _, live in found.lives:
        where = live.ref.namespace
        owner, source = owner_and_source(live, known)
        groups[where, owner.removesuffix(f" in namespace {where}"), source][live.ref.kind] += 1
    for (where, owner, source), kinds in sorted(groups.items()):
        yield OwnerFound(owner, where, kinds.total(), dict(sorted(kinds.items())), source)
    yield ImportEnded(_counted(found))


# What lives there.


class _Objects(Struct):
    """The objects that are written, the others by their reasons, and the autoscalers."""

    lives: list[tuple[Resource, LiveObject]] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    scalers: list[LiveObject] = field(default_factory=list)


def _counted(found: _Objects) -> Mapping[str, int]:
    counts = Counter(found.left_out)
    return {str(why): counts[why] for why in LeftOut if counts[why]}


def _read_named(
    cluster: Cluster,
    resource_map: ResourceMap,
    namespace: str,
    options: ImportOptions,
    found: _Objects,
) -> Iterator[Event]:
    from applyprune.engine.plan_stage import resource_and_ref  # noqa: PLC0415 - a large module

    resolver = Resolver(kind_names(resource_map))
    for text in dict.fromkeys(options.objects):
        named = resolver.object(text)
        resource, ref = resource_and_ref(named, resource_map, namespace)
        live = cluster.read(resource, ref, full=True)
        if not isinstance(live, LiveObject):
            raise UsageError(
                f"{ref} does not exist",
                hint="Check its name and its namespace: NAMESPACE/KIND/NAME.",
            )
        # Whoever names an object means it, whoever has made it.
        if live.ref.group_kind == SECRET and not options.secrets:
            found.left_out.append(LeftOut.UNASKED)
        else:
            found.lives.append((resource, live))
    yield from map(WarningRaised, resolver.warnings)
    found.scalers += _scalers(cluster, {live.ref.namespace for _, live in found.lives} - {""})


def _scalers(cluster: Cluster, namespaces: Iterable[str]) -> Iterator[LiveObject]:
    for namespace in namespaces:
        # Without them, the replicas of an object are written as they are.
        with suppress(ApplypruneError):
            yield from cluster.list(AUTOSCALERS, namespace=namespace, full=True)


class _Scope(Struct, frozen=True):
    """Where the objects are looked for."""

    resources: Sequence[Resource]
    namespace: str
    """Empty for all namespaces."""
    selector: str
    applyset: str = ""
    """The label of the set that is asked for; empty if no set's objects are written."""
    members: Members | None = None
    """What a record has; None for whatever lives there."""

    @property
    def warnings(self) -> Sequence[Problem]:
        return () if self.members is None else self.members.warnings

    def has(self, live: LiveObject) -> bool:
        return self.members is None or self.members.has(live)


def _scope(
    cluster: Cluster,
    resource_map: ResourceMap,
    namespace: str,
    options: ImportOptions,
    documents: Documents,
) -> _Scope:
    selector = options.selector.text if options.selector is not None else ""
    if not options.source:
        place = "" if options.everywhere else namespace
        resources = [
            one
            for one in resource_map.preferred.values()
            if one.group_kind not in STATE_KINDS and (one.namespaced or not place)
        ]
        return _Scope(resources, place, selector)
    record = parsed_record(options.source)
    members = recorded_members(cluster, resource_map, record, namespace, documents)
    places = sorted(members.namespaces - {""})
    key, _, value = members.selector.partition("=")
    return _Scope(
        members.resources,
        places[0] if len(places) == 1 else "",
        ",".join(filter(None, (selector, members.selector))),
        value if key == PART_OF else "",
        members,
    )


def _list_all(
    cluster: Cluster,
    scope: _Scope,
    options: ImportOptions,
    workers: WorkerPool,
    found: _Objects,
    *,
    full: bool = True,
) -> Iterator[Event]:
    """List each kind once, and keep the bodies of what is written only."""
    unread: defaultdict[str, list[str]] = defaultdict(list)
    lives: list[tuple[Resource, LiveObject]] = []
    read = partial(_listed, cluster, scope, options, full=full)
    for resource, listed in workers.each(read, scope.resources, in_order=True):
        if isinstance(listed, ApplypruneError):
            message = _NO_RIGHT if isinstance(listed, Forbidden) else listed.message
            unread[message].append(resource.full_plural)
        else:
            lives += ((resource, live) for live in listed if scope.has(live))
    kept = each_once(live for _, live in lives)
    for resource, live in lives:
        if kept.get(uid_of(live), live) is not live:
            continue
        why = left_out(live, secrets=options.secrets, applyset=scope.applyset)
        if why is None:
            found.lives.append((resource, live))
        else:
            found.left_out.append(why)
    scalers = {live.ref.namespace for _, live in found.lives} - {""}
    found.scalers += (live for _, live in lives if live.ref.group_kind == AUTOSCALERS.group_kind)
    if full and scope.members is not None:
        # Whoever scales an object of the release may be no part of it.
        found.scalers += _scalers(cluster, scalers)
    yield from _not_found(scope, lives, unread)


_NO_RIGHT = "this account has no right to it"


def _not_found(
    scope: _Scope,
    lives: Iterable[tuple[Resource, LiveObject]],
    unread: Mapping[str, Sequence[str]],
) -> Iterator[Event]:
    """Yield a warning about what could not be listed, and what a record has and nobody else."""
    for message, plurals in unread.items():
        error: ApplypruneError = RunFailed(
            f"{and_more(plurals, _SHOWN)} could not be listed",
            reason=message,
            hint="Their objects are not in the manifests.",
        )
        yield WarningRaised(error.problem)
    if not (lives or unread):
        where = f"in namespace {scope.namespace}" if scope.namespace else "there"
        yield WarningRaised(UsageError(f"nothing that an import lists is {where}").problem)
    if scope.members is None or unread or scope.selector:
        return
    if gone := sorted(map(str, scope.members.refs - {live.ref for _, live in lives})):
        count = counted(len(gone), "object", "does", "do")
        error = RunFailed(f"{count} not exist, and the record has it: {and_more(gone, _SHOWN)}")
        yield WarningRaised(error.problem)


def _listed(
    cluster: Cluster, scope: _Scope, options: ImportOptions, resource: Resource, *, full: bool
) -> tuple[Resource, Sequence[LiveObject] | ApplypruneError]:
    def slim(live: LiveObject) -> LiveObject:
        why = left_out(live, secrets=options.secrets, applyset=scope.applyset)
        return live if why is None else _without_body(live)

    # Values of Secrets are read only if they are asked for.
    full = full and (options.secrets or resource.group_kind != SECRETS.group_kind)
    place = scope.namespace if resource.namespaced else ""
    try:
        lives, _ = cluster.list_at(
            resource, namespace=place, selector=scope.selector, full=full, slim=slim
        )
    except (Forbidden, NotFound, NotServed) as error:
        return resource, error
    return resource, lives


def _without_body(live: LiveObject) -> LiveObject:
    found: LiveObject = replace(live, packed_body=None)
    return found


# The manifest of each.


def _made(
    cluster: Cluster, found: _Objects, workers: WorkerPool, cancellation: Cancellation
) -> Iterator[Event]:
    """Yield the manifest of each object, or the error because of which there is none.

    The largest object of each kind is tried first: what it shows saves the others a trial each.
    """
    by_kind: defaultdict[GroupKind, list[tuple[Resource, LiveObject]]] = defaultdict(list)
    for resource, live in found.lives:
        by_kind[live.ref.group_kind].append((resource, live))
    largest = {kind: max(objects, key=_size) for kind, objects in by_kind.items()}
    make = partial(_manifest, cluster, found.scalers)
    results = workers.each(lambda one: make(NOTHING_SEEN, *one), largest.values(), in_order=True)
    first = dict(zip(largest, results, strict=False))
    cancellation.check(is_unchanged=True)

    def rest(one: tuple[Resource, LiveObject]) -> Event:
        live = one[1]
        event, seen = first[live.ref.group_kind]
        return event if largest[live.ref.group_kind] is one else make(seen, *one)[0]

    ordered = sorted(found.lives, key=lambda one: _place(one[1].ref))
    yield from workers.each(rest, ordered, in_order=True)
    cancellation.check(is_unchanged=True)


def _size(one: tuple[Resource, LiveObject]) -> tuple[int, str, str]:
    live = one[1]
    return len(str(live.body)), live.ref.namespace, live.ref.name


def _place(ref: Ref) -> tuple[str, ...]:
    return ref.namespace, ref.kind, ref.group, ref.name


def _manifest(
    cluster: Cluster,
    scalers: Sequence[LiveObject],
    seen: SeenDefaults,
    resource: Resource,
    live: LiveObject,
) -> tuple[Event, SeenDefaults]:
    """Return the manifest of an object, or why there is none, and what its trials have shown."""
    try:
        for _ in range(_MOST_READS):
            content = _content(resource, live, scalers)
            trial = _tried(cluster, resource, live, first_trial(content, live.body or {}, seen))
            trial, now = _applied(cluster, resource, live, trial)
            if now is None:
                tool = next(owning_tools(live, ""), "")
                return ManifestMade(live.ref, trial.body, tool), trial.seen
            live = now
    except ApplypruneError as error:
        return ErrorRaised(_problem(live.ref, error)), NOTHING_SEEN
    changing = RunFailed(
        f"{live.ref} was not written", reason="it changes all the time", hint="Try it again."
    )
    return ErrorRaised(changing.problem), NOTHING_SEEN


def _content(resource: Resource, live: LiveObject, scalers: Iterable[LiveObject]) -> JSONObject:
    scaled = any(
        one.ref.namespace == live.ref.namespace
        and targets({"kind": one.ref.kind, **mapping(one.body)}, live.ref)
        for one in scalers
    )
    marks = tuple(pure_marks(live.ref.group_kind, live.labels, live.annotations))
    return content_of(live, resource.gvk.api_version, marks, autoscaled=scaled)


def _tried(cluster: Cluster, resource: Resource, live: LiveObject, trial: Trial) -> Trial:
    """Return what the manifest needs, by the server's dry runs of creations.

    Where it creates none, for example because of a quota, only the usual defaults are left out.
    """
    create = _replaced if live.ref.group_kind in _NAMED else _created
    for _ in range(_MOST_TRIALS):
        try:
            created = create(cluster, resource, live, trial.body)
        except Invalid as error:
            if (known := trial.after_refusal(error)) is None:
                break
            trial = known
        except (Forbidden, AlreadyExists, Conflict, NotFound, DryRunUnsupported):
            break
        else:
            more = trial.after_reply(created)
            if more.kept != trial.kept:
                trial = more
            elif lacking(trial.content, created):  # guard: import-of-the-whole never
                break  # a webhook may change what is created
            else:
                return more
    return whole_trial(trial)


def _created(
    cluster: Cluster, resource: Resource, live: LiveObject, body: JSONObject
) -> Mapping[str, Any]:
    """Return the object as the server would create it, by a dry run under another name."""
    reply, _ = cluster.apply(creation_trial(resource, live.ref, body), dry_run=True)
    return renamed(reply.body or {}, name=live.ref.name, namespace=live.ref.namespace)


def _replaced(
    cluster: Cluster, resource: Resource, live: LiveObject, body: JSONObject
) -> Mapping[str, Any]:
    """Return the object as the server would store it in place of the live one, by a dry run."""
    kept = {key: live.metadata[key] for key in ("resourceVersion", "uid") if key in live.metadata}
    whole = {**body, "metadata": {**body["metadata"], **kept}}
    return cluster.replace(resource, live.ref, whole, dry_run=True).body or {}


def _applied(
    cluster: Cluster, resource: Resource, live: LiveObject, trial: Trial
) -> tuple[Trial, LiveObject | None]:
    """Prove by a dry run that an apply of a manifest changes nothing; return what it has then.

    With it comes the object as it is now, if it has changed since it was read. Raises RunFailed if
    the apply would change it.
    """
    try:
        reply, _ = cluster.apply(apply_trial(resource, live, trial.body, force=False), dry_run=True)
    except Conflict as error:
        trial = trial.after_conflict(error, live) or trial
        # What is left of the conflict, an adoption takes.
        reply, _ = cluster.apply(apply_trial(resource, live, trial.body, force=True), dry_run=True)
    before, after = _settled(live), _settled(reply)
    # A dry run says which state it has changed.
    is_same = reply.resource_version == live.resource_version  # guard: import-of-a-change -> True
    if before == after and is_same:
        return trial, None
    now = cluster.get(resource, live.ref, full=True)
    if _settled(now) != before:
        return trial, now
    if before == after:
        return trial, None  # only its status has changed
    changed = {dotted(one) for one in (*lacking(before, after), *lacking(after, before))}
    raise RunFailed(
        f"{live.ref} was not written",
        reason=f"an apply of its manifest would change {and_more(sorted(changed), _SHOWN)}",
        hint="An admission webhook may change what is sent.",
    )


def _settled(live: LiveObject) -> Mapping[str, Any]:
    """Return an object without what changes by itself, and by a dry run."""
    body = dict(live.body or {})
    body.pop("status", None)
    passing = {"resourceVersion", "managedFields", "generation"}
    body["metadata"] = {key: value for key, value in live.metadata.items() if key not in passing}
    return body


def _problem(ref: Ref, error: ApplypruneError) -> Problem:
    """Return the problem of an object that cannot be written."""
    if isinstance(error, RunFailed):
        return error.problem
    return RunFailed(
        f"{ref} was not written", reason=f"no dry run proves its manifest: {error}"
    ).problem
