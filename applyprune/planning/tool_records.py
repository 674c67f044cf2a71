"""Which objects another tool has recorded as those of one of its sets.

Anybody with a right in its namespace may have written a record, and that of a Helm release has all
its manifests, with the values of its Secrets. So only identities are taken from a record, each is
checked to be one, and no error quotes anything else.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, TypeAlias

from msgspec import Struct

from applyprune.errors import InventoryError, UsageError
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.kinds import APPLICATION, CONFIG_MAP, KUSTOMIZATION, RESOURCE_GROUP, SECRET
from applyprune.model.live import (
    LiveObject,
    Resource,
    ResourceMap,
    field,
    items,
    mapping,
    one_line,
    text,
)
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import (
    Operator,
    Requirement,
    and_more,
    counted,
    is_dns_label,
    is_dns_subdomain,
    parse_selector,
)
from applyprune.planning.applyset import (
    GROUP_KINDS,
    PART_OF,
    SET_ID,
    TOOL,
    TOOLING,
    applyset_id,
    hinted_namespaces,
    is_group_kind,
    listed_kinds,
)
from applyprune.planning.names import did_you_mean, kind_names
from applyprune.planning.order import is_built_in
from applyprune.values import pattern

# Which record: what the user has written, and where each tool has its records.


class _Tool(Struct, frozen=True):
    word: str
    """What is recorded."""
    kinds: tuple[GroupKind, ...]
    """The kinds of the objects that are records, in the order of the search."""
    selector: str = ""
    """The label selector of those that are records; empty for all."""
    label: str = ""
    """The label that has the name of what is recorded; empty if the object has that name."""
    suffix: str = ""
    """How the name of the object may end beyond that."""


_TOOLS: Mapping[str, _Tool] = {
    "helm": _Tool("Helm release", (SECRET, CONFIG_MAP), "owner=helm", label="name"),
    "kapp": _Tool("kapp app", (CONFIG_MAP,), "kapp.k14s.io/is-app", suffix=".apps.k14s.io"),
    "flux": _Tool("Flux Kustomization", (KUSTOMIZATION,)),
    "argo": _Tool("Argo CD application", (APPLICATION,)),
    "applyset": _Tool("ApplySet", (SECRET, CONFIG_MAP), SET_ID),
    "cli-utils": _Tool(
        "cli-utils inventory", (CONFIG_MAP, RESOURCE_GROUP), "cli-utils.sigs.k8s.io/inventory-id"
    ),
}
TOOLS = tuple(_TOOLS)
"""The tools whose records are known, as users write them."""


class RecordName(Struct, frozen=True):
    """The name of a set of another tool: ``helm:web``."""

    tool: str
    name: str
    kind: str = ""
    """The kind of an ApplySet's parent, as the user has written it; empty for Secret, ConfigMap."""

    @property
    def word(self) -> str:
        """Return what it is called: ``Helm release``."""
        return _TOOLS[self.tool].word

    @property
    def selector(self) -> str:
        """Return the label selector of all records of the tool; empty for all objects."""
        return _TOOLS[self.tool].selector

    @property
    def own_selector(self) -> str:
        """Return the same, of fewer that may have this name, where a label says it."""
        label = _TOOLS[self.tool].label
        return f"{self.selector},{label}={self.name}" if label else self.selector

    @property
    def is_in_metadata(self) -> bool:
        """Return whether the metadata of its object has it all."""
        return self.tool == "applyset"

    def is_in(self, live: LiveObject) -> bool:
        """Return whether an object that is a record of the tool has this name."""
        return self.name == self.name_in(live)

    def name_in(self, live: LiveObject) -> str:
        """Return the name of what an object records."""
        tool = _TOOLS[self.tool]
        if tool.label:
            return live.labels.get(tool.label, "")
        return live.ref.name.removesuffix(tool.suffix)

    def __str__(self) -> str:
        """Return ``the Helm release web``."""
        return f"the {self.word} {self.name}"


def parsed_record(written: str) -> RecordName:
    """Return the record that ``TOOL:NAME`` names; raise UsageError if it names none.

    The parent of an ApplySet may have its kind: ``applyset:configmap/web``.
    """
    tool, _, rest = written.partition(":")
    refusal = f"{written!r} does not name what another tool has applied"
    if tool not in _TOOLS:
        raise UsageError(
            refusal,
            reason=f"there is no tool {tool!r}" if tool else "it does not begin with a tool",
            hint=f"{did_you_mean(tool, TOOLS)} Write TOOL:NAME; the tools are "
            f"{', '.join(TOOLS)}.".lstrip(),
        )
    before, slash, name = rest.rpartition("/")
    kind = before if tool == "applyset" else ""
    # A name in another case is valid here: the search says which one is meant.
    if not is_dns_subdomain(name.lower()) or slash != "/" * bool(kind) or "/" in kind:
        raise UsageError(
            refusal,
            reason=f"{rest!r} cannot be a name" if rest else "it has no name",
            hint=f"Write {tool}:NAME" + (f" or {tool}:KIND/NAME." if tool == "applyset" else "."),
        )
    return RecordName(tool, name.removesuffix(_TOOLS[tool].suffix), kind)


def resources_of(record: RecordName, resource_map: ResourceMap) -> Sequence[Resource]:
    """Return the resources among whose objects the record may be, in the order of the search.

    Raises UsageError if the server has none of them.
    """
    kinds = _TOOLS[record.tool].kinds
    if record.kind:
        option = f"--from {record.tool}:{record.kind}/{record.name}"
        kinds = kind_names(resource_map).kind(record.kind, of=option)[:1]
    found = [one for one in map(resource_map.find_kind, kinds) if one is not None]
    if not found:
        raise UsageError(
            f"this cluster has no {record.word}", reason=f"it does not serve {kinds[0]}"
        )
    return found


_MOST_NAMED = 10


def chosen(
    record: RecordName, found: Iterable[LiveObject]
) -> tuple[LiveObject | None, tuple[Problem, ...]]:
    """Return the object that has the record, None if none has it; and warnings about it.

    Of a Helm release, it is that of the last deployed revision; raises InventoryError without one.
    """
    named = sorted(filter(record.is_in, found), key=_revision)
    if record.tool != "helm" or not named:
        return (named[0] if named else None), ()
    last = named[-1]
    deployed = [live for live in named if live.labels.get("status") == "deployed"]
    state = f"revision {_revision(last)} is {last.labels.get('status', 'unknown')}"
    if not deployed:
        raise InventoryError(
            f"{record} has no deployed revision",
            location=str(last.ref),
            reason=state,
            hint="Deploy it or roll it back by Helm first, or name the objects.",
        )
    if deployed[-1] is last:
        return last, ()
    warning = _warning(
        f"the objects are those of revision {_revision(deployed[-1])}, the last deployed one",
        record,
        reason=state,
        hint=f"What only revision {_revision(last)} has is left out.",
    )
    return deployed[-1], (warning,)


def _revision(live: LiveObject) -> int:
    number = live.labels.get("version", "")
    return int(number) if number.isascii() and number.isdecimal() else 0


def no_record(
    record: RecordName, namespace: str, found: Iterable[LiveObject], elsewhere: Iterable[str]
) -> UsageError:
    """Return the error for a record that a namespace does not have.

    ``found`` are the records in it, ``elsewhere`` the namespaces that have one of this name.
    """
    names = sorted({record.name_in(live) for live in found if not _is_own(live)} - {""})
    others = sorted(elsewhere)
    where = f"It is in namespace {and_more(others, _MOST_NAMED)}." if others else ""
    return UsageError(
        f"there is no {record.word} {record.name} in namespace {namespace}",
        reason=f"there are: {and_more(names, _MOST_NAMED)}" if names else "",
        hint=where or did_you_mean(record.name, names),
    )


# What a record says: objects by name, or a label and the kinds that may have it.


class Members(Struct, frozen=True):
    """The objects that a tool has recorded as those of one of its sets."""

    record: Ref
    """The object that has the record."""
    refs: frozenset[Ref] = frozenset()
    """The objects that it lists, each as the server serves it; they may not exist any more."""
    selector: str = ""
    """The label that its objects have, as ``key=value``; empty if it lists them."""
    resources: tuple[Resource, ...] = ()
    """The resources of its objects."""
    namespaces: frozenset[str] = frozenset()
    """Where its namespaced objects are; empty for anywhere, if it has a selector."""
    warnings: tuple[Problem, ...] = ()

    def has(self, live: LiveObject) -> bool:
        """Return whether an object is one of them."""
        if not self.selector:
            return live.ref in self.refs
        key, _, value = self.selector.partition("=")
        return (
            live.labels.get(key) == value
            and (key == PART_OF or _is_identified(live))
            and any(one.group_kind == live.ref.group_kind for one in self.resources)
            and (not self.namespaces or live.ref.namespace in {"", *self.namespaces})
        )


_IDENTITY = "kapp.k14s.io/identity"


def _is_identified(live: LiveObject) -> bool:
    """Return whether kapp has made an object itself: templates give its label to others too.

    It writes ``v1;NAMESPACE/GROUP/KIND/NAME;VERSION`` on what it makes.
    """
    ref = live.ref
    named = f"v1;{ref.namespace}/{ref.group}/{ref.kind}/{ref.name};"
    return live.annotations.get(_IDENTITY, "").startswith(named)  # guard: made-by-kapp -> True


Documents: TypeAlias = "Callable[[str], Iterable[object]]"
"""Returns each document of a YAML text as plain data; None for one that nothing reads."""


def members_of(
    record: RecordName, live: LiveObject, resource_map: ResourceMap, documents: Documents
) -> Members:
    """Return the objects that a record names; ``live`` is what has it, read as far as needed.

    Raises InventoryError if it cannot be read.
    """
    content = _READERS[record.tool](_Stored(record, live, resource_map, documents))
    listed = [ref for ref in content.refs if ref is not None]
    kinds = {*content.kinds, *(ref.group_kind for ref in listed)} - {None}
    served = {kind: _resource_of(kind, resource_map) for kind in kinds if kind is not None}
    placed = [
        _placed(ref, resource, content.default_namespace)
        for ref in listed
        if (resource := served[ref.group_kind]) is not None
    ]
    refs = frozenset(ref for ref in placed if ref is not None)
    resources = {one.group_kind: one for one in served.values() if one is not None}
    return Members(
        live.ref,
        refs,
        content.selector,
        tuple(resources[kind] for kind in sorted(resources)),
        content.namespaces or frozenset(ref.namespace for ref in refs) - {""},
        (
            *content.warnings,
            *_left_out(
                record,
                content.hooks,
                (*content.refs, *content.kinds, *placed).count(None),
                sorted(str(kind) for kind, one in served.items() if one is None),
            ),
        ),
    )


def _resource_of(kind: GroupKind, resource_map: ResourceMap) -> Resource | None:
    """Return the resource of a recorded kind; the group extensions was split into others."""
    groups = (one.group for one in sorted(resource_map.preferred) if one.kind == kind.kind)
    moved = filter(is_built_in, groups) if kind.group == "extensions" else ()
    names = (kind, *(GroupKind(group, kind.kind) for group in moved))
    return next(filter(None, map(resource_map.find_kind, names)), None)


def _placed(ref: Ref, resource: Resource, default_namespace: str) -> Ref | None:
    """Return the identity that the server has for an object; None if its namespace is unknown."""
    namespace = (ref.namespace or default_namespace) if resource.namespaced else ""
    is_known = bool(namespace) is resource.namespaced
    return Ref(resource.group, resource.kind, namespace, ref.name) if is_known else None


def _left_out(
    record: RecordName, hooks: int, unreadable: int, unserved: Sequence[str]
) -> Iterator[Problem]:
    if hooks:
        message = f"{counted(hooks, 'hook', 'is', 'are')} left out"
        hint = "applyprune runs no hooks."
        yield Problem(ProblemKind.CHART_HOOKS, message, str(record), hint=hint)
    if unreadable:
        message = f"{counted(unreadable, 'entry', 'is', 'are')} left out"
        yield _warning(message, record, reason="no object can have such an identity")
    if unserved:
        message = f"objects of {and_more(unserved, _MOST_NAMED)} are left out"
        yield _warning(message, record, reason="the server does not serve them now")


def _warning(message: str, record: RecordName, *, reason: str = "", hint: str = "") -> Problem:
    return Problem(ProblemKind.TOOL_RECORD, message, str(record), reason, hint)


class _Content(Struct, frozen=True):
    """What a record says, before it is known what the server serves."""

    refs: tuple[Ref | None, ...] = ()
    """The objects that it lists; None for an entry that is not the identity of one."""
    default_namespace: str = ""
    """The namespace of the namespaced ones for which it names none."""
    selector: str = ""
    kinds: tuple[GroupKind | None, ...] = ()
    """The kinds of the objects that have the label; None for an entry that is not a kind."""
    namespaces: frozenset[str] = frozenset()
    hooks: int = 0
    """How many of its objects only exist for a while."""
    warnings: tuple[Problem, ...] = ()


class _Stored(Struct, frozen=True):
    """A record as it is stored."""

    record: RecordName
    live: LiveObject
    resource_map: ResourceMap
    documents: Documents

    @property
    def body(self) -> Mapping[str, Any]:
        return self.live.body or {}

    def unreadable(self, reason: str) -> InventoryError:
        """Return the error for a record that cannot be read; ``reason`` quotes none of it."""
        return InventoryError(
            f"the record of {self.record} cannot be read",
            location=str(self.live.ref),
            reason=reason,
            hint="Name the objects, or select them by label.",
        )

    def json(self, data: str | bytes) -> Mapping[str, Any]:
        """Return the mapping that a JSON text is."""
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            # Without its cause, which has the text.
            raise self.unreadable("it is not JSON") from None
        if not isinstance(value, dict):
            raise self.unreadable("it is not a mapping")
        return value

    def elsewhere(self, cluster: str) -> Problem:
        """Return the warning that the objects are in another cluster."""
        message = f"the record is about objects in another cluster: {cluster}"
        hint = "Objects of the same names in this cluster may belong to something else."
        return _warning(message, self.record, hint=hint)


_NAME = pattern(r"(?!\.{1,2}\Z)[^\s/%]{1,253}")


def _ref(group: str, kind: str, namespace: str, name: str) -> Ref | None:
    """Return an identity; None for anything else, which may be any text of the record."""
    ref = Ref(group, kind, namespace, name)
    is_one = (
        _kind(group, kind) is not None
        and (not namespace or is_dns_label(namespace))
        and name.isprintable()
        and _NAME.fullmatch(name) is not None
    )
    return ref if is_one else None  # guard: identities-of-a-record -> ref


def _kind(group: str, kind: str) -> GroupKind | None:
    found = GroupKind(group, kind)
    return found if "." not in kind and is_group_kind(str(found)) else None


def _namespaces(named: Iterable[object]) -> Iterator[str]:
    return (one for one in named if isinstance(one, str) and is_dns_label(one))


# Helm 3 and 4: each revision of a release is base64 of gzip of JSON, in a Secret or a ConfigMap.


_MOST_UNPACKED = 64 * 2**20
_GZIP = b"\x1f\x8b\x08"


def _helm(stored: _Stored) -> _Content:
    release = stored.json(_unpacked(stored))
    hooks = len(items(release, "hooks"))
    if not (manifest := text(release, "manifest")) and not hooks:
        raise stored.unreadable("it has no manifest")
    files = (text(one, "name") for one in items(release, "chart", "files"))
    definitions = sum(name.startswith("crds/") for name in files)
    warnings = []
    if definitions:
        message = f"{counted(definitions, 'file', 'is', 'are')} left out: crds/ of the chart"
        reason = "Helm installs them with the release, but does not record them"
        warnings.append(_warning(message, stored.record, reason=reason))
    namespace = text(release, "namespace")
    return _Content(
        tuple(_refs_in(stored.documents(manifest))),
        namespace if is_dns_label(namespace) else stored.live.ref.namespace,
        hooks=hooks,
        warnings=tuple(warnings),
    )


def _unpacked(stored: _Stored) -> bytes:
    """Return the JSON of a release; the server encodes what is in a Secret once more."""
    try:
        data = text(stored.body, "data", "release").encode()
        for _ in range(1 + (stored.live.ref.group_kind == SECRET)):
            data = base64.b64decode(data, validate=True)
    except ValueError:
        raise stored.unreadable("it is not base64") from None
    if not data.startswith(_GZIP):
        return data  # Helm reads that too
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as opened:
            unpacked = opened.read(_MOST_UNPACKED + 1)
    except EOFError:
        raise stored.unreadable("its gzip data is cut off") from None
    except (OSError, zlib.error):
        raise stored.unreadable("its gzip data is damaged") from None
    if len(unpacked) > _MOST_UNPACKED:  # guard: unpacked-release never
        raise stored.unreadable(f"it unpacks to more than {_MOST_UNPACKED >> 20} MiB")
    if unpacked.startswith(_GZIP):
        raise stored.unreadable("it is compressed twice")
    return unpacked


def _refs_in(documents: Iterable[object]) -> Iterator[Ref | None]:
    """Yield the identity of each object; a List has several."""
    for document in documents:
        body = mapping(document)
        is_list = text(body, "kind").endswith("List") and isinstance(body.get("items"), list)
        for each in items(body, "items") if is_list else (body,):
            group = text(each, "apiVersion").rpartition("/")[0]
            named = mapping(field(each, "metadata"))
            yield _ref(group, text(each, "kind"), text(named, "namespace"), text(named, "name"))


# kapp: a label with a value of its own, and the kinds that the app has used.


def _kapp(stored: _Stored) -> _Content:
    spec = stored.json(text(stored.body, "data", "spec"))
    key, value = text(spec, "labelKey"), text(spec, "labelValue")
    try:
        label = parse_selector(f"{key}={value}").requirements
    except ValueError:
        label = ()
    # Without a value, it would select what belongs to no app.
    if not value or label != (Requirement(key, Operator.IN, frozenset({value})),):
        raise stored.unreadable("its label is invalid")
    kinds: Iterable[GroupKind | None]
    if isinstance(spec.get("usedGKs"), list):
        kinds = (_kind(text(one, "Group"), text(one, "Kind")) for one in spec["usedGKs"])
    elif isinstance(spec.get("usedGVs"), list):
        # Of an old kapp: all kinds of these groups.
        groups = {text(one, "Group") for one in spec["usedGVs"]}
        kinds = (kind for kind in stored.resource_map.preferred if kind.group in groups)
    else:
        raise stored.unreadable("it does not say which kinds it has")
    change = mapping(spec.get("lastChange"))
    # A change that has failed may not name all.
    named = items(change, "namespaces") if change.get("successful") is True else ()
    return _Content(
        selector=f"{key}={value}",
        kinds=tuple(kinds),
        namespaces=frozenset(_namespaces(named)),
    )


# ApplySets of KEP-3659: kinds and namespaces in annotations, and a label with the hash of the name.


def _applyset(stored: _Stored) -> _Content:
    live, annotations = stored.live, stored.live.annotations
    if _is_own(live):
        raise UsageError(
            f"{live.ref} is the inventory of a set of applyprune",
            hint="To take its objects, use --adopt set/NAME of applyprune apply.",
        )
    if live.labels.get(SET_ID) != applyset_id(live.ref):  # guard: applyset-of-its-name never
        raise stored.unreadable(f"its label {SET_ID} is not that of its name and namespace")
    if GROUP_KINDS not in annotations:
        raise stored.unreadable(f"it has no annotation {GROUP_KINDS}")
    warnings = []
    if not (tooling := one_line(annotations.get(TOOLING, ""))).startswith("kubectl/"):
        reason = f"its annotation {TOOLING} is {tooling!r}"
        warnings.append(_warning("kubectl does not manage it", stored.record, reason=reason))
    pairs = (one.partition(".") for one in listed_kinds(annotations))
    return _Content(
        selector=f"{PART_OF}={applyset_id(live.ref)}",
        kinds=tuple(_kind(group, kind) for kind, _, group in pairs),
        namespaces=frozenset(_namespaces({*hinted_namespaces(annotations), live.ref.namespace})),
        warnings=tuple(warnings),
    )


def _is_own(live: LiveObject) -> bool:
    """Return whether an object is the inventory of a set of applyprune: an ApplySet too."""
    return live.annotations.get(TOOLING, "").rpartition("/")[0] == TOOL


# Flux, Argo CD, cli-utils and kpt: a list of objects.


def _flux(stored: _Stored) -> _Content:
    entries = field(stored.body, "status", "inventory", "entries")
    if not isinstance(entries, list):
        raise stored.unreadable("its status has no inventory")
    is_remote = field(stored.body, "spec", "kubeConfig") is not None
    return _Content(
        tuple(_ref_of_id(text(one, "id")) for one in entries),
        warnings=(stored.elsewhere("that of spec.kubeConfig"),) if is_remote else (),
    )


_THIS_CLUSTER = frozenset({"", "in-cluster", "https://kubernetes.default.svc"})


def _argo(stored: _Stored) -> _Content:
    resources = field(stored.body, "status", "resources")
    if not isinstance(resources, list):
        raise stored.unreadable("its status lists no resources")
    target = mapping(field(stored.body, "spec", "destination"))
    cluster = text(target, "name") or text(target, "server")
    lasting = [one for one in resources if field(one, "hook") is not True]
    return _Content(
        tuple(map(_listed, lasting)),
        text(target, "namespace"),
        hooks=len(resources) - len(lasting),
        warnings=() if cluster in _THIS_CLUSTER else (stored.elsewhere(one_line(cluster)),),
    )


def _cli_utils(stored: _Stored) -> _Content:
    if stored.live.ref.group_kind == RESOURCE_GROUP:
        return _Content(tuple(map(_listed, items(stored.body, "spec", "resources"))))
    return _Content(tuple(map(_ref_of_id, mapping(stored.body.get("data")))))


def _ref_of_id(written: str) -> Ref | None:
    """Return what ``NAMESPACE_NAME_GROUP_KIND`` names; in a name, a colon is written as ``__``."""
    namespace, _, rest = written.partition("_")
    rest, _, kind = rest.rpartition("_")
    name, _, group = rest.rpartition("_")
    return _ref(group, kind, namespace, name.replace("__", ":"))


def _listed(one: Mapping[str, Any]) -> Ref | None:
    return _ref(text(one, "group"), text(one, "kind"), text(one, "namespace"), text(one, "name"))


_READERS: Mapping[str, Callable[[_Stored], _Content]] = {
    "helm": _helm,
    "kapp": _kapp,
    "flux": _flux,
    "argo": _argo,
    "applyset": _applyset,
    "cli-utils": _cli_utils,
}
