"""The plan file: what was planned, without manifests and values, so that a later apply is bound.

It is JSON, readable with any tool. Its first line has the checksum of all that follows, so a file
with one changed byte is invalid. It restricts an apply and allows nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from applyprune._version import __version__
from applyprune.errors import PlanOutdated, UsageError
from applyprune.model.identity import Ref
from applyprune.model.plan import Cascaded, Fate
from applyprune.planning.approval.digests import is_digest
from applyprune.planning.approval.planned_objects import PlannedObject, names
from applyprune.planning.approval.shaping_options import OptionValue
from applyprune.values import dataclass, field, pattern, replace

_VERSION = 1
SCHEMA = f"applyprune.dev/plan/v{_VERSION}"
LARGEST = 32 * 1024 * 1024
"""The most bytes that a plan file may have: about 150,000 objects."""

_HEAD = pattern(rb'\{"schema":"applyprune\.dev/plan/v(\d{1,9})"')
_TIGHT = (",", ":")
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_PROGRAM = f"applyprune {__version__}"
_LONGEST_REASON = 200
_UNREADABLE = (KeyError, TypeError, ValueError, RecursionError, OverflowError)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PlanFile:
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
    created_by: str = _PROGRAM
    """The program that made it, with its version."""
    checksum: str = field(default="", compare=False)
    """The checksum of the file; it names this very plan."""


def sealed(file: PlanFile) -> PlanFile:
    """Return the plan file with its checksum."""
    return replace(file, checksum=_checksum(_content(file)))


def encode(file: PlanFile) -> bytes:
    """Return the content of a plan file."""
    content = _content(file)
    return _first_line(_checksum(content)) + content


def is_plan_file(data: bytes) -> bool:
    """Return whether this is the beginning of a plan file of any version."""
    return _HEAD.match(data) is not None


def decode(data: bytes, *, source: str) -> PlanFile:
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
        # guard: plan-file-form
        is_ours = _content(file) == content
    except _UNREADABLE as error:
        lacks = "it lacks " if isinstance(error, KeyError) else ""
        reason = f"{lacks}{error}"[:_LONGEST_REASON]
        raise _invalid(source, "is not a valid plan file", reason=reason) from error
    if not is_ours:  # a key that is there twice, or unknown, would show another plan than is read
        raise _invalid(source, "is not a valid plan file", reason="it has another form")
    return replace(file, checksum=checksum)


def refuse_expired(file: PlanFile, now: datetime, *, source: str = "") -> None:
    """Refuse a plan file whose time is over."""
    if now >= file.expires:
        raise PlanOutdated(
            f"the plan expired at {file.expires.strftime(_TIME)}",
            location=source,
            hint="Make the plan again, and review it again.",
        )


def _invalid(source: str, message: str, *, reason: str = "") -> UsageError:
    hint = "Make it again with `applyprune plan --out FILE`."
    return UsageError(f"the file {message}", location=source, reason=reason, hint=hint)


def _first_line(checksum: str) -> bytes:
    return f'{{"schema":"{SCHEMA}","checksum":"{checksum}",\n'.encode()


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
        "recovered": [[*names(ref), uid] for ref, uid in file.recovered],
    }
    parts = [f"{_json(key)}:{_json(value)}" for key, value in head.items()]
    rows = ",\n".join(_json(_object_out(planned)) for planned in file.objects)
    return (",\n".join(parts) + f',\n"objects":[\n{rows}\n]}}\n').encode()


def _json(value: object) -> str:
    # In ASCII, so that no name can move a terminal's cursor.
    return json.dumps(value, sort_keys=True, separators=_TIGHT)


def _object_out(planned: PlannedObject) -> dict[str, Any]:
    out: dict[str, Any] = {"object": names(planned.ref), "fate": str(planned.fate)}
    for key in ("manifest", "uid", "state", "applied"):
        if value := getattr(planned, key):
            out[key] = value
    if planned.is_checked:
        out["checked"] = True
    if planned.cascade:
        out["cascade"] = [[*names(also.ref), also.uid] for also in planned.cascade]
    return out


def _file_in(raw: Mapping[str, Any]) -> PlanFile:
    applyset, inventory = raw["set"], raw["inventory"]
    objects = tuple(_object_in(planned) for planned in _list(raw["objects"]))
    if len({planned.ref for planned in objects}) != len(objects):
        raise ValueError("an object is in it twice")
    return PlanFile(
        name=_typed(str, applyset["name"]),
        namespace=_typed(str, applyset["namespace"]),
        cluster=_texts(raw["cluster"]),
        inventory_uid=_typed(str, inventory["uid"]),
        generation=_typed(int, inventory["generation"]),
        options={key: _option_in(value) for key, value in _mapping(raw["options"]).items()},
        created=_time_in(raw["created"]),
        expires=_time_in(raw["expires"]),
        digest=_digest_in(raw["digest"]),
        deletions=_digest_in(raw["deletions"]) if raw["deletions"] != "" else "",
        objects=objects,
        recovered=tuple((cascaded.ref, cascaded.uid) for cascaded in _cascade_in(raw["recovered"])),
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


def _cascade_in(raw: object) -> tuple[Cascaded, ...]:
    return tuple(Cascaded(_ref_in(row[:-1]), _typed(str, row[-1])) for row in _list(raw))


def _ref_in(raw: object) -> Ref:
    group, kind, namespace, name = (_typed(str, part) for part in _list(raw))
    return Ref(group, kind, namespace, name)


def _option_in(raw: object) -> OptionValue:
    if isinstance(raw, bool | str):
        return raw
    return tuple(_typed(str, one) for one in _list(raw))


def _time_in(raw: object) -> datetime:
    return datetime.strptime(_typed(str, raw), _TIME).replace(tzinfo=UTC)


def _digest_in(raw: object) -> str:
    if not is_digest(text := _typed(str, raw)):
        raise ValueError("a digest has another form")
    return text


def _texts(raw: object) -> Mapping[str, str]:
    return {key: _typed(str, value) for key, value in _mapping(raw).items()}


def _mapping(raw: object) -> Mapping[str, Any]:
    return _typed(dict, raw)


def _list(raw: object) -> list[Any]:
    return _typed(list, raw)


def _typed(kind: type[T], value: object) -> T:
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} is in the place of {kind.__name__}")
    if isinstance(value, str):
        value.encode()  # half a surrogate pair could not be printed
    return value
