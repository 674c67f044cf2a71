"""Read the input of a run: its manifests, or all errors with file, line, column and an excerpt.

A ``List``, or a typed list such as ``RoleList``, is expanded into its objects.
"""

from __future__ import annotations

import gc
import json
import os
import re
import zlib
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from sys import intern
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias, TypeGuard, overload

from msgspec import Struct, StructMeta, field

from applyprune.errors import ApplypruneError, InputError, InputErrors, UsageError, raise_all
from applyprune.model.events import (
    ErrorRaised,
    Event,
    Finished,
    ObjectDone,
    Planned,
    PruneBlocked,
    ReadinessReported,
    WarningRaised,
)
from applyprune.model.identity import GVK
from applyprune.model.inventory import NO_SOURCE, RunSource
from applyprune.model.plan import Plan
from applyprune.model.problem import (
    MOST_ERRORS,
    ChangedKey,
    Field,
    IgnoredManifest,
    JSONObject,
    Manifest,
    Mark,
    Origin,
    Problem,
    ProblemKind,
)
from applyprune.model.text import DNS_LABEL, and_more, is_dns_label
from applyprune.planning.normalize import SECRET_PARTS, is_secret
from applyprune.sources.documents import read_documents, text_in
from applyprune.sources.excerpt import document_around, excerpt, item_lines, lines_of, nearest
from applyprune.sources.folders import is_manifest_name
from applyprune.sources.inputs import ignore, read_sources, shown_given
from applyprune.sources.moment import Moment
from applyprune.sources.source_ignore import rules_in
from applyprune.sources.tree import BUILT, IgnoredText, SourceText, shown_path
from applyprune.sources.yaml import Allowance, AllowanceSpent, Document, YAMLFault, shown_key
from applyprune.values import Packed, hiding, packed, pattern, replace

if TYPE_CHECKING:
    from applyprune.sources.inputs import CommitInput
    from applyprune.sources.kustomize import Overlay


def read(
    paths: Sequence[str | Overlay],
    *,
    stdin: BinaryIO | None = None,
    warn: Callable[[Problem], None] = ignore,
    ignore_paths: Sequence[str] = (),
    at: str = "",
) -> Input:
    """Return every manifest that ``paths`` hold, in order, and the texts; ``-`` is ``stdin``.

    A path may be a file, a folder, a pattern, an HTTPS URL, the address of an OCI artifact, or an
    Overlay to build. ``warn`` receives redirects, what a build writes
    to standard error, and which manifests are ignored. ``ignore_paths`` are lines as in a
    ``.sourceignore`` at the root of each source. ``at`` is a revision of Git: then the files are
    those of that commit of their work tree.

    An input without manifests is not an error here: the run decides what it means. Raises
    InputError, or InputErrors with all errors, for what cannot be read or is not a manifest, and
    UsageError for invalid paths. No message contains a value of a manifest.
    """
    manifests: list[Manifest] = []
    errors: list[InputError] = []
    texts = KeptTexts()
    full: set[str] = set()
    filled: set[str | Overlay] = set()
    ignored: list[IgnoredManifest] = []
    allowance = Allowance()
    rules = rules_in("\n".join(ignore_paths), KEY)
    moment, commit = Moment(), _input_at(paths, at) if at else None
    with _without_collector():
        for given in read_sources(paths, stdin, warn, moment, rules, commit):
            source = given.source
            if isinstance(source, InputError):
                errors.append(source)
                continue
            if isinstance(source, IgnoredText):
                ignored += ignored_in(source)
                continue
            if source is not None:
                text = text_in(source.data)
                texts.keep(source.path, text)
                for found in read_source(source, text, allowance):
                    full.add(given.place)
                    if isinstance(found, Manifest):
                        manifests.append(found)
                    else:
                        errors.append(found)
            if given.place in full:
                filled.add(given.path)
    raise_all(_with_charts(errors))
    empty = tuple(shown_given(path) for path in dict.fromkeys(paths) if path not in filled)
    for warning in ignored_warnings(ignored):
        warn(warning)
    came_from = partial(_source, paths, moment, commit)
    return Input(tuple(manifests), texts, empty, tuple(ignored), source=came_from)


def _input_at(paths: Sequence[str | Overlay], revision: str) -> CommitInput:
    from applyprune.sources.work_tree import input_at  # noqa: PLC0415 - rarely needed

    return input_at(paths, revision)


def _source(
    paths: Sequence[str | Overlay],
    moment: Moment,
    commit: CommitInput | None,
) -> RunSource:
    """Return where an input came from; it is asked for only if a run changes something."""
    from applyprune.sources.work_tree import source_at, source_of  # noqa: PLC0415

    if commit is not None:
        return source_at(paths, commit.commit)
    return source_of(paths, moment)


_CHART = "Chart.yaml"


def _with_charts(errors: Sequence[InputError]) -> Sequence[InputError]:
    """Return the errors; those of a Helm chart are one, in the place of the first."""
    places = [error.problem.origin for error in errors]
    paths = [at.path if at else one.location for at, one in zip(places, errors, strict=True)]
    charts = {path.removesuffix(_CHART) for path in paths if path.split("/")[-1] == _CHART}
    found: dict[object, InputError] = {}
    for number, (path, error) in enumerate(zip(paths, errors, strict=True)):
        chart = min((one for one in charts if path.startswith(one)), key=len, default=None)
        if chart is None:
            found[number] = error
        else:
            found.setdefault(chart, _chart_error(chart.rstrip("/") or "."))
    return [*found.values()]


def _chart_error(folder: str) -> InputError:
    named = "CHART" if "://" in folder else folder
    return InputError(
        "a Helm chart, not manifests",
        location=folder,
        hint=f"Render it first: helm template NAME {named} | applyprune apply NAME -f -",
    )


_PATH = "-f PATH"


class _StructOfManifests(StructMeta, ABCMeta):
    """A Struct that is also a Sequence, which is an abstract class."""


class Input(Struct, Sequence[Manifest], frozen=True, metaclass=_StructOfManifests):
    """The manifests of a run, in order, with the texts of their sources."""

    manifests: tuple[Manifest, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    """The text of each source, by the path of its origins."""
    empty: tuple[str, ...] = ()
    """The paths that hold no manifest, safe to print."""
    ignored: tuple[IgnoredManifest, ...] = ()
    """The objects that ignore rules leave out."""
    named: str = ""
    """The options that name it on a command line, as ``-f manifests/``; empty if unknown."""
    source: Callable[[], RunSource] = lambda: NO_SOURCE
    """Says where it came from; that takes a run of git."""

    __repr__ = hiding("texts", "source")

    @overload
    def __getitem__(self, index: int) -> Manifest: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Manifest, ...]: ...
    def __getitem__(self, index: int | slice) -> Manifest | tuple[Manifest, ...]:
        return self.manifests[index]

    def __len__(self) -> int:
        return len(self.manifests)

    def pointed(self, problem: Problem) -> Problem:
        """Return the problem with the lines and columns of its fields, and an excerpt of the text.

        It has neither when it has no place in these texts. A command in its hint names this input.
        """
        if self.named and _PATH in problem.hint:
            problem = replace(problem, hint=problem.hint.replace(_PATH, self.named))
        if problem.origin is None or problem.excerpt:
            return problem
        marks = problem.marks or ((Mark(problem.field),) if problem.field else ())
        first, excerpts = point(self.texts, problem.origin, marks)
        where = str(first) if problem.location == str(problem.origin) else problem.location
        places = {
            str(start): str(_nearest(self.texts[start.path], start, mark.field)[1])
            for mark in marks
            if (start := mark.origin) is not None and start.path in self.texts
        }
        reason = problem.reason
        if places:  # `web.yaml:1` is also a part of `a/web.yaml:12`
            named = rf"(?<![\w./-])(?:{'|'.join(map(re.escape, places))})(?!:?\d)"
            reason = re.sub(named, lambda found: places[found[0]], reason)
        return replace(problem, origin=first, location=where, reason=reason, excerpt=excerpts)


Objects: TypeAlias = Iterable[Manifest | Mapping[str, Any]] | Mapping[str, Any]
"""Manifests, objects as plain JSON data, or one object."""


def read_objects(objects: Objects) -> tuple[Manifest, ...]:
    """Return the manifests of objects that are plain JSON data; lists are expanded.

    Raises InputError, or InputErrors with all errors, and UsageError for anything else.
    """
    if isinstance(objects, str | bytes | os.PathLike):
        raise UsageError("objects are expected, and not a path", hint="Read it by load(PATH).")
    if not isinstance(objects, Iterable):
        raise UsageError(f"objects are expected, and not {type(objects).__name__}")
    found: list[Manifest | InputError] = []
    for number, value in enumerate([objects] if isinstance(objects, Mapping) else objects):
        origin = Origin(f"objects[{number}]")
        if isinstance(value, Manifest):
            found.append(value)
            continue
        try:
            # A copy: a manifest never changes, and the caller's objects may.
            document = Document(Packed(json.loads(json.dumps(value, allow_nan=False))), 0)
        except (TypeError, ValueError) as error:
            found.append(InputError("not plain JSON data", location=origin, reason=str(error)))
            continue
        for each in expand_list(document, lambda *_: []):
            if isinstance(each, YAMLFault):
                found.append(_structure_error(StructureFault(("items",), each.problem), origin, ""))
            else:
                found += _read_object(each, origin, "")
    raise_all([one for one in found if isinstance(one, InputError)])
    return tuple(one for one in found if isinstance(one, Manifest))


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable the cycle collector: checking a million new objects takes a fifth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def read_source(
    source: SourceText, text: str, allowance: Allowance
) -> Iterator[Manifest | InputError]:
    """Yield the manifests and the errors of one source in order; ``text`` is its text.

    All sources of a load share one ``allowance``; when it is spent, the rest is not read.
    """
    if allowance.spent:
        return
    for found in _read_source(source, text, allowance):
        yield found
        if isinstance(found, InputError):
            try:
                allowance.take_error()
            except AllowanceSpent as last:
                yield InputError(last.problem, location=Origin(source.path), hint=last.hint)
                return


def _read_source(
    source: SourceText, text: str, allowance: Allowance
) -> Iterator[Manifest | InputError]:
    for numbered in read_documents(source.data, allowance):
        if isinstance(numbered.content, YAMLFault):
            yield _yaml_error(numbered.content, source.path, numbered.number, text)
            continue
        for each in expand_list(numbered.content, partial(_item_lines, text)):
            if isinstance(each, YAMLFault):
                where = Origin(source.path, numbered.number, each.line)
                yield _structure_error(StructureFault(("items",), each.problem), where, text)
            else:
                where = Origin(source.path, numbered.number, each.line)
                where = _of_build(where, each.value) if source.path.endswith(BUILT) else where
                yield from _read_object(each, where, text, allowance.errors)


# ``buildMetadata: [originAnnotations]`` of a kustomization: where an object comes from, or which
# generator has made it. The paths are relative to the folder that is built.
_ORIGIN = "config.kubernetes.io/origin"
_OF_ORIGIN = pattern(r"^(repo|path|configuredIn):[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)


def _of_build(output: Origin, value: object) -> Origin:
    """Return where an object of a build comes from; nobody has the output of the build.

    Its place in the output remains only if the object has no name that a message could give.
    """
    body = value if isinstance(value, dict) else {}
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    annotations = metadata.get("annotations")
    noted = annotations.get(_ORIGIN) if isinstance(annotations, dict) else None
    known = dict(_OF_ORIGIN.findall(noted)) if isinstance(noted, str) else {}
    if path := known.get("path") or known.get("configuredIn"):
        if "repo" in known:
            return Origin(shown_path(f"{known['repo']}//{path}"))
        address, root, folder = output.path.removesuffix(BUILT).rpartition("//")
        file = os.path.normpath(f"{folder}/{path}" if folder else path)
        return Origin(f"{address}{root}{shown_path(file)}")
    return Origin(output.path) if metadata.get("name") else output


def _read_object(
    document: Document, origin: Origin, text: str, most: int = MOST_ERRORS
) -> Iterator[Manifest | InputError]:
    result = read_manifest(document.value, origin, document.changed_keys)
    if isinstance(result, Manifest):
        yield result
        return
    errors = [_structure_error(fault, origin, text) for fault in result[:most]]
    yield from sorted(errors, key=lambda error: getattr(error.problem.origin, "line", 0))


def _structure_error(fault: StructureFault, origin: Origin, text: str) -> InputError:
    also = [Mark((key,), fault.also_note) for key in fault.also]
    place, shown = point({origin.path: text}, origin, [Mark(fault.path), *also])
    error = InputError(fault.what, location=place, hint=fault.hint, field=fault.path)
    error.problem = replace(error.problem, excerpt=shown)
    return error


def _yaml_error(refused: YAMLFault, path: str, document: int, text: str) -> InputError:
    line, column = refused.line, refused.column
    begin, _ = refused.since
    where = Origin(path, document, line, column)
    hint = refused.hint
    if 0 < line <= len(lines_of(text)) and "{{" in lines_of(text)[line - 1]:
        hint = "If this is a template, render it first, for example with `helm template`."
    reason = f"it begins on line {begin}" if begin else ""
    error = InputError(refused.problem, location=where, reason=reason, hint=hint)
    width = len(str(line))
    shown = (
        excerpt(text, *refused.since, notes=["from here"], gutter=width),
        excerpt(text, line, column),
    )
    error.problem = replace(error.problem, excerpt="\n".join(filter(None, shown)))
    return error


# What is in files that ignore rules leave out.


KEY = "ignore-paths"
_MOST_OF_AN_IGNORED = 2**20
_FILES_NAMED = 5


def ignored_in(text: IgnoredText) -> Iterator[IgnoredManifest]:
    """Yield the objects in a file that is not read; what is not a manifest is left out."""
    if b"apiVersion" not in text.data and b"\0" not in text.data:
        return
    source = SourceText(text.path, text.data)
    for found in read_source(source, "", Allowance(_MOST_OF_AN_IGNORED, 1)):
        if isinstance(found, Manifest):
            yield IgnoredManifest(found.gvk, found.namespace, found.name, text.path, text.rule)


def ignored_warnings(manifests: Iterable[IgnoredManifest]) -> Iterator[Problem]:
    """Yield a warning for each rule that leaves out manifests, with their files."""
    found: dict[str, dict[str, None]] = {}
    for one in manifests:
        found.setdefault(one.rule, {})[one.path] = None
    for rule, files in found.items():
        yield Problem(
            ProblemKind.IGNORED_MANIFEST,
            f"manifests are ignored: {and_more(list(files), _FILES_NAMED)}",
            reason=f"by {rule}",
            hint="Objects of them that an earlier run has applied count as removed. To keep them, "
            "take the files back with a rule that begins with an exclamation mark.",
        )


# Expand lists into their objects.


_DEEPEST_LIST = 10
_MISSING = object()
_FIRST_LINES = 64
"""How many lines of a list are searched first for its items."""
_LONGEST_LINE = 10_000


def expand_list(
    document: Document, lines: Callable[[int, int], list[int]], level: int = 0
) -> Iterator[Document | YAMLFault]:
    """Yield the objects of a document in order: the document itself, or the items of nested lists.

    As in kubectl, an item with neither apiVersion nor kind has those of its list. ``lines`` returns
    the lines of so many items of the list that begins in a line, or [] where it cannot.
    """
    body = document.value
    kind = body.get("kind") if isinstance(body, dict) else None
    if not isinstance(kind, str) or not _is_list(kind, body):
        yield document
        return
    items = body.get("items", _MISSING)
    if items is _MISSING or not isinstance(items, list | None):
        yield YAMLFault("the items of a List must be a list", document.line)
        return
    if level == _DEEPEST_LIST:
        yield YAMLFault(f"a List inside {level} Lists", document.line)
        return
    items = items or []
    found = lines(document.line, len(items)) if items else []
    if len(found) != len(items):
        found = [document.line] * len(items)
    changed = _of_items(document.changed_keys)
    for index, (item, line) in enumerate(zip(items, found, strict=True)):
        value = Packed(_with_list_type(item, body, kind))
        yield from expand_list(Document(value, line, changed.get(index, ())), lines, level + 1)


def _of_items(changed: Sequence[ChangedKey]) -> Mapping[object, tuple[ChangedKey, ...]]:
    """Return the keys in the items of a list, each with its path in the item, by the item."""
    found: dict[object, tuple[ChangedKey, ...]] = {}
    for index, keys in groupby(changed, lambda one: one.place[:2]):
        if index[:1] == ("items",):
            found[index[-1]] = tuple(replace(one, place=one.place[2:]) for one in keys)
    return found


def _is_list(kind: str, body: dict[str, Any]) -> bool:
    """Return whether ``body`` is a list; a kind that only ends in List has a name, or no items."""
    if kind == "List":
        return body.get("apiVersion") == "v1"
    metadata = body.get("metadata")
    named = isinstance(metadata, dict) and bool(metadata.get("name"))
    return kind.endswith("List") and not named and isinstance(body.get("items", 0), list | None)


def _with_list_type(item: Any, body: dict[str, Any], kind: str) -> Any:
    if not isinstance(item, dict) or "kind" in item or "apiVersion" in item or kind == "List":
        return item
    return {"apiVersion": body.get("apiVersion"), "kind": kind.removesuffix("List"), **item}


def _item_lines(text: str, line: int, count: int) -> list[int]:
    """Return the lines of the ``count`` items of the list that begins in a line; [] if unknown.

    Reading the rest of the text for each of many lists would take minutes.
    """
    lines, above = lines_of(text), line - 1
    _, end = document_around(text, line)
    if not 0 <= above < end or len(lines[above]) > _LONGEST_LINE:
        return []
    most = _FIRST_LINES
    while True:
        found = item_lines("\n".join(lines[above : min(end, above + most)]), 1)
        if len(found) == count or above + most >= end:
            return [above + each for each in found]
        most *= 8


# Turn a document into a manifest, or into the list of its faults.
#
# The API server checks most rules. This part checks only what an object needs to have a path, and
# what would silently go wrong later. Of names, kinds and versions, it rejects only what could
# change its meaning in a URL or in a terminal.


# Fields that only `kubectl get -o yaml` writes. The first two are preconditions that a run sets
# itself: in a file they would make the apply fail as soon as the object changes or is recreated.
# The server rejects the third. It stores the other two, and the object can then never be deleted.
# Dropping them would hide that the file is a copy of a live object: the apply would then also own
# the object's defaults (clusterIP, nodeName, …). The author must see that.
_SET_BY_SERVER = (
    "uid",
    "resourceVersion",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_QUOTE = "Quote it: without quotes, y, no, on, 1.0 and 0x10 are not strings."
_DNS_LABEL = "Use lower-case letters, digits and '-', at most 63 characters."
_REPLACE = "If ${…} is a placeholder, replace it before, for example with envsubst."
_GENERATED = (
    "Set metadata.name: each run would create another object, and no run could find it again."
)
_KUSTOMIZE = "Build its folder: applyprune apply NAME -k DIR"
_LIVE = "This is a copy of a live object: remove what the server added, also status and defaults."
_LEAVE_OUT = "If it is not meant as a manifest, leave it out: by .sourceignore, or --ignore-paths."
# apimachinery's IsValidPathSegmentName forbids the first two; the others would end the path. Names
# of RBAC objects may have spaces.
_UNSAFE = frozenset("/%?#")
_API_VERSION = pattern(rf"(?:{DNS_LABEL}(?:\.{DNS_LABEL})*/)?{DNS_LABEL}")
_LONGEST_API_VERSION = 253 + 1 + 63
_KIND = pattern(r"[A-Za-z](?:[-A-Za-z0-9]{0,61}[A-Za-z0-9])?")


def read_manifest(
    value: Any, origin: Origin, changed_keys: tuple[ChangedKey, ...] = ()
) -> Manifest | list[StructureFault]:
    """Return the manifest that a document holds, or all of its faults."""
    if not isinstance(value, dict):
        return [StructureFault((), f"expected a Kubernetes object, got {_type(value)}")]
    if "apiVersion" not in value and "kind" not in value:
        return [
            StructureFault((), "not a Kubernetes object: no apiVersion, no kind", _hint_for(origin))
        ]
    metadata = value.get("metadata")
    faults = [*_type_faults(value), *_metadata_faults(value)]
    if is_secret(value):
        faults += [fault for part in SECRET_PARTS for fault in _text_map_faults(value, part)]
    if faults or not isinstance(metadata, dict):
        return faults
    return Manifest(
        gvk=GVK.parse(value["apiVersion"], value["kind"]),
        namespace=intern(metadata.get("namespace") or ""),
        name=metadata["name"],
        packed=packed(_without_noise(value, metadata)),
        origin=origin,
        changed_keys=changed_keys,
    )


class StructureFault(Struct, frozen=True):
    """One fault of a document."""

    path: tuple[str, ...]
    """The keys that lead to the faulty field."""
    what: str
    """The message: it names fields, keys and types, never a value, which may belong to a Secret."""
    hint: str = ""
    """What to do about it; may be empty."""
    also: tuple[str, ...] = ()
    """Other fields of the object that have to do with it."""
    also_note: str = ""
    """What is wrong with these, in a few words."""


def _type_faults(value: JSONObject) -> Iterator[StructureFault]:
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if not _is_text(api_version):
        yield StructureFault(("apiVersion",), _not_text("apiVersion", api_version))
    elif not is_api_version(api_version):
        yield StructureFault(
            ("apiVersion",), "apiVersion must have the form VERSION or GROUP/VERSION"
        )
    elif api_version.startswith("kustomize.config.k8s.io/"):
        yield StructureFault((), "a kustomization, not an object", _KUSTOMIZE)
    if not _is_text(kind):
        yield StructureFault(("kind",), _not_text("kind", kind))
    elif not is_kind(kind):
        yield StructureFault(("kind",), "invalid kind")


# What stands beside metadata if it is not indented.
_OF_METADATA = ("name", "generateName", "namespace", "labels", "annotations")


def _metadata_faults(value: JSONObject) -> Iterator[StructureFault]:
    metadata = value.get("metadata")
    beside = tuple(key for key in _OF_METADATA if key in value)
    if not isinstance(metadata, dict):
        message = f"metadata is {_type(metadata)}, not a mapping"
        if metadata is None:
            message = "metadata is empty" if "metadata" in value else "no metadata"
        yield _beside(StructureFault(("metadata",), message), beside)
        return
    yield from _name_faults(metadata, beside)
    namespace = metadata.get("namespace")
    if namespace is not None and not isinstance(namespace, str):
        message = _not_text("metadata.namespace", namespace)
        yield StructureFault(("metadata", "namespace"), message, _QUOTE)
    elif namespace and not is_dns_label(namespace):
        hint = _REPLACE if "${" in namespace else _DNS_LABEL
        yield StructureFault(("metadata", "namespace"), "invalid metadata.namespace", hint)
    yield from _text_map_faults(metadata, "labels", "metadata")
    yield from _text_map_faults(metadata, "annotations", "metadata")
    if live := [field for field in _SET_BY_SERVER if metadata.get(field)]:
        message = f"only the server sets {', '.join(f'metadata.{field}' for field in live)}"
        yield StructureFault(("metadata", live[0]), message, _LIVE)


def _beside(fault: StructureFault, beside: tuple[str, ...]) -> StructureFault:
    """Return a fault of metadata with the fields that should be in it, and are beside it."""
    if not beside:
        return fault
    hint = f"Indent {' and '.join(beside)} below metadata."
    return replace(fault, hint=hint, also=beside, also_note="not within metadata")


def _name_faults(metadata: JSONObject, beside: tuple[str, ...]) -> Iterator[StructureFault]:
    name = metadata.get("name")
    if name is None or name == "":
        if metadata.get("generateName"):
            message = "metadata.generateName without metadata.name"
            yield StructureFault(("metadata", "generateName"), message, _GENERATED)
        else:
            path = ("metadata", "name") if "name" in metadata else ("metadata",)
            fault = StructureFault(path, "no metadata.name")
            yield _beside(fault, beside if "name" in beside else ())
    elif not isinstance(name, str):
        yield StructureFault(("metadata", "name"), _not_text("metadata.name", name), _QUOTE)
    elif problem := name_problem(name):
        yield StructureFault(("metadata", "name"), f"metadata.name {problem}")


def _text_map_faults(body: JSONObject, field: str, *above: str) -> Iterator[StructureFault]:
    """Yield a fault for each value of a map that is not a string; null removes its key."""
    texts = body.get(field)
    if texts is None:
        return
    path = (*above, field)
    name = ".".join(path)
    if not isinstance(texts, dict):
        yield StructureFault(path, f"{name} is {_type(texts)}, not a mapping")
        return
    for key, text in texts.items():
        if not isinstance(text, str | None):  # guard: text-of-a-map never
            message = f"{name}: the value of {shown_key(key)} is {_type(text)}, not a string"
            yield StructureFault((*path, key), message, _hint_to_quote(text))


def _without_noise(value: JSONObject, metadata: JSONObject) -> JSONObject:
    """Remove ``creationTimestamp: null`` and the like, which Go writes for unset fields."""
    empty = [
        field for field in ("creationTimestamp", *_SET_BY_SERVER)
        if field in metadata and not metadata[field]
    ]  # fmt: skip
    if not empty:
        return value
    kept = {key: inner for key, inner in metadata.items() if key not in empty}
    return {**value, "metadata": kept}


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and value != ""


def _not_text(field: str, value: Any) -> str:
    return f"no {field}" if value in (None, "") else f"{field} is {_type(value)}, not a string"


def _type(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool):
        return "a boolean"
    if value is None:
        return "null"
    return "a string" if isinstance(value, str) else "a number"


def _hint_to_quote(value: Any) -> str:
    return "" if isinstance(value, dict | list) else _QUOTE


def _hint_for(origin: Origin) -> str:
    if "kustomization.y" in origin.path.lower():
        return _KUSTOMIZE
    is_file = "://" not in origin.path and is_manifest_name(origin.path)
    return _LEAVE_OUT if is_file else ""


def name_problem(name: str) -> str:
    """Return why ``name`` cannot be in a URL path, to follow ``metadata.name``; "" if it can."""
    if not name:
        return "is empty"
    if name in {".", ".."}:
        return f"cannot be {name!r}"
    for char in name:
        if char in _UNSAFE:
            return f"cannot contain {char!r}"
        if not char.isprintable():
            return f"cannot contain the character U+{ord(char):04X}"
    return ""


def is_api_version(text: str) -> bool:
    """Return whether ``text`` has the form ``version`` or ``group/version``."""
    return len(text) <= _LONGEST_API_VERSION and _API_VERSION.fullmatch(text) is not None


def is_kind(text: str) -> bool:
    """Return whether ``text`` can name a kind: a DNS label with capitals."""
    return _KIND.fullmatch(text) is not None


# The texts of all sources, and the places in them to which messages point.


_SMALL = 4096
"""A shorter text is kept as it is: to compress it would save nothing."""
_BEGIN = pattern(r"(?:---)?[ \t]*(?:-[ \t]+)*")


class KeptTexts(Mapping[str, str]):
    """Texts by the path of their source, compressed: standard input cannot be read again."""

    def __init__(self) -> None:
        self._texts: dict[str, str | bytes] = {}
        self._last = ("", "")

    def keep(self, path: str, text: str) -> None:
        """Keep the text of a path; a long one compressed."""
        is_small = len(text) < _SMALL
        self._texts[path] = text if is_small else zlib.compress(text.encode(), 1)
        self._last = ("", "")

    def __getitem__(self, path: str) -> str:
        """Return a text; raises KeyError for a path without one."""
        kept = self._texts[path]
        if isinstance(kept, str):
            return kept
        # A file may have a thousand faults.
        if self._last[0] != path:
            self._last = path, zlib.decompress(kept).decode()
        return self._last[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def point(texts: Mapping[str, str], origin: Origin, marks: Sequence[Mark]) -> tuple[Origin, str]:
    """Return the place of the first mark of an object, and the lines of all marks.

    A missing field has the place of the nearest field around it, or else the object's place.
    """
    found: dict[tuple[Origin, str], list[str]] = {}
    read = {start.path for mark in marks if (start := mark.origin or origin).path in texts}
    kept = {path: texts[path] for path in read}
    for mark in marks:
        start = mark.origin or origin
        if start.path in kept:
            path, place = _nearest(kept[start.path], start, mark.field)
            key = path[-1] if path and isinstance(path[-1], str) else ""
            found.setdefault((place, key), []).append(mark.note)
    if not found:
        return origin, ""
    # The fields of one object are in the order of the text.
    places = list(found) if any(mark.origin for mark in marks) else sorted(found)
    first = places[0][0]
    width = max(len(str(place.line)) for place, _ in places)
    parts: list[str] = []
    for place, key in places:
        text, notes = kept[place.path], found[place, key]
        shown = excerpt(text, place.line, place.column, key=key, notes=notes, gutter=width)
        # The message names the first place; its own line may be one that must not be shown.
        if shown and place != first and (place.path != first.path or not parts):
            parts.append(f"--> {place}")
        parts += [shown] if shown else []
    return first, "\n".join(parts)


def _nearest(text: str, origin: Origin, path: Field) -> tuple[Field, Origin]:
    """Return the longest prefix of a path that is in the text, and its place."""
    if not 0 < origin.line <= len(lines_of(text)):
        return (), origin
    known, place = nearest(text, origin.line, path)
    if path[:1] == ("data",) and known < len(path):
        plain: Field = ("stringData", *path[1:])  # the server stores it in data
        known_plain, place_plain = nearest(text, origin.line, plain)
        if known_plain > known:
            path, known, place = plain, known_plain, place_plain
    if known and place is not None:
        return path[:known], replace(origin, line=place[0], column=place[1])
    begin = _BEGIN.match(lines_of(text)[origin.line - 1])
    return (), replace(origin, column=begin.end() + 1 if begin else 1)


def with_excerpt(events: Iterable[Event], given: Input) -> Iterator[Event]:
    """Yield the events, and raise the error that ends them, with line, column and excerpt."""
    try:
        for event in events:
            yield _pointed_event(event, given)
    except InputErrors as several:
        for error in several.errors:
            _locate(error, given)
        raise
    except ApplypruneError as error:
        _locate(error, given)
        raise


def _pointed_event(event: Event, given: Input) -> Event:
    if isinstance(event, Planned):
        return replace(event, plan=_pointed_plan(event.plan, given))
    match event:
        case (
            ObjectDone()
            | ReadinessReported()
            | WarningRaised()
            | PruneBlocked()
            | ErrorRaised()
            | Finished()
        ):
            if event.problem is not None:
                return replace(event, problem=given.pointed(event.problem))
        case _:
            pass
    return event


def _pointed_plan(plan: Plan, given: Input) -> Plan:
    if all(step.problem is None for step in plan.applies):
        return plan
    applies = tuple(
        step if step.problem is None else replace(step, problem=given.pointed(step.problem))
        for step in plan.applies
    )
    return replace(plan, applies=applies)


def _locate(error: ApplypruneError, given: Input) -> None:
    error.problem = given.pointed(error.problem)
