"""Which fields of a live object a manifest needs: those that the server would not set by itself.

Nothing but the server knows its defaults. So an import tries to create the object under another
name, by a dry run, without the fields that may be defaults. What the server sets to another value,
or not at all, comes back into the manifest, and what an error names. The next trial proves the
result. What one object of a kind has shown counts for the others, as a guess that their own trial
proves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from applyprune.model.problem import Field
from applyprune.planning.conflicts import owners_by_field
from applyprune.planning.managed_fields import gives_way
from applyprune.planning.normalize import canonical_text
from applyprune.planning.order import is_built_in
from applyprune.planning.server_errors import error_fields, parse_path
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from applyprune.errors import ApiError, Conflict
    from applyprune.model.live import LiveObject
    from applyprune.model.problem import JSONObject


_Shape: TypeAlias = tuple[str, ...]
"""The names on the way to a field, without the places in lists."""


class SeenDefaults(Struct, frozen=True):
    """What trials have shown of a kind."""

    values: Mapping[_Shape, frozenset[str]]
    """The values that the server has set where a field was left out, as JSON."""
    needed: frozenset[_Shape] = frozenset()
    """The fields without which it has refused an object."""
    whole: frozenset[_Shape] = frozenset()
    """The fields that have an owner only as a whole, with their defaults."""


NOTHING_SEEN = SeenDefaults({})


class Trial(Struct, frozen=True):
    """What a manifest has in the next trial."""

    content: Mapping[str, Any]
    """The object with the defaults of the server."""
    live: Mapping[str, Any]
    """The object as it is, also with what is nobody's to write."""
    kept: frozenset[Field]
    """The fields of the content that the manifest has."""
    seen: SeenDefaults
    """What its own trials have shown."""
    doubtful: frozenset[Field] = frozenset()
    """What has come back with a whole part, and may be a default now that the part is there."""
    is_last: bool = False
    """Whether what was doubtful has been left out once more."""

    @property
    def body(self) -> JSONObject:
        """Return the manifest."""
        found: JSONObject = _part(self.content, self.kept, ())
        return found

    def after_refusal(self, error: ApiError) -> Trial | None:
        """Return the trial with the fields that an error is about; None if none comes back."""
        back: set[Field] = set()
        for mark in error_fields(error, self.content):
            back |= self._around(_shape(mark.field))
        if not back:
            return None
        shapes = frozenset(map(_shape, back))
        seen = replace(self.seen, needed=self.seen.needed | shapes)
        return replace(self, kept=self.kept | back, seen=seen, doubtful=self._doubts(back))

    def _doubts(self, back: set[Field]) -> frozenset[Field]:
        return self.doubtful | back if len(back) > 1 else self.doubtful

    def _around(self, shape: _Shape) -> set[Field]:
        """Return what is left out in a field, or else in the nearest one around it.

        The server leaves out no well-known default of its own, so this one comes back last.
        """
        left = [place for place, _ in _leaves(self.content) if place not in self.kept]
        for depth in range(len(shape), 0, -1):
            inside = {place for place in left if _shape(place)[:depth] == shape[:depth]}
            unusual = {place for place in inside if not self._is_well_known(place)}
            if inside:
                return unusual or inside
        return set()

    def _is_well_known(self, place: Field) -> bool:
        return _is_usual(_shape(place), _at(self.content, place))

    def after_reply(self, created: Mapping[str, Any]) -> Trial:
        """Return the trial with what the server has set to another value, or has not set.

        If it is the same one, and the object lacks nothing of the content, the manifest is proved.
        """
        back: set[Field] = set()
        values = dict(self.seen.values)
        for place, value in _leaves(self.content):
            if place in self.kept:
                continue
            there = _at(created, place)
            if there is not _ABSENT:
                shape = _shape(place)
                values[shape] = values.get(shape, frozenset()) | {canonical_text(there)}
            if there is _ABSENT or there != value:
                back.add(place)
        back |= self._beside(created)
        # Where a whole part is missing, its defaults come with what it is.
        unusual = {place for place in back if not self._is_well_known(place)}
        lost = {place for place in back if _at(created, place) is not _ABSENT}
        more = unusual | lost or back
        found = replace(
            self,
            kept=self.kept | more,
            seen=replace(self.seen, values=values),
            doubtful=self.doubtful | (more - lost),
        )
        return found if more or self.is_last else found._without_doubtful()  # noqa: SLF001

    def _beside(self, created: Mapping[str, Any]) -> set[Field]:
        """Return what is left out beside a field that the server has set, and the object lacks.

        It sets one of a default, such as the partition of a strategy, with the default only.
        """
        back: set[Field] = set()
        for place, _ in _leaves(created):
            names = _shape(place)
            if names[0] in _NOT_COMPARED or names[-1] in _ALLOCATED:
                continue
            if _at(self.live, place) is not _ABSENT:
                continue
            above = next(
                place[:depth]
                for depth in range(len(place) - 1, -1, -1)
                if _at(self.content, place[:depth]) is not _ABSENT
            )
            if len(above) > 1:
                inside = (one for one, _ in _leaves(self.content) if one[: len(above)] == above)
                back.update(one for one in inside if one not in self.kept)
        return back

    def _without_doubtful(self) -> Trial:
        """Return the trial without what has come back only because a part was missing."""
        is_custom = _is_custom(self.content)
        doubtful = ((place, _at(self.content, place)) for place in self.doubtful)
        may_go = {
            place
            for place, value in doubtful
            # Something must be left of the part.
            if value not in ({}, []) and _may_go(place, value, NOTHING_SEEN, is_custom=is_custom)
        }
        return replace(self, kept=self.kept - may_go, is_last=True)

    def after_conflict(self, error: Conflict, live: LiveObject) -> Trial | None:
        """Return the trial with all of each field in conflict; None if an adoption takes them.

        The server compares a value that has an owner only as a whole before it sets its defaults.
        """
        back: set[Field] = set()
        for text, owners in owners_by_field(error).items():
            if all(gives_way(live, one.manager, one.operation) for one in owners):
                continue
            field, _ = parse_path(text, self.content)
            inside = {place for place, _ in _leaves(self.content) if place[: len(field)] == field}
            back |= inside - self.kept
        if not back:
            return None
        seen = replace(self.seen, whole=self.seen.whole | frozenset(map(_shape, back)))
        return replace(self, kept=self.kept | back, seen=seen)


def first_trial(content: Mapping[str, Any], live: Mapping[str, Any], seen: SeenDefaults) -> Trial:
    """Return the first trial of an object; ``seen`` is what others of its kind have shown.

    ``content`` is what of the ``live`` object may be written.
    """
    is_custom = _is_custom(content)
    kept = frozenset(
        place
        for place, value in _leaves(content)
        if not _may_go(place, value, seen, is_custom=is_custom)
    )
    return Trial(content, live, kept, NOTHING_SEEN)


def _is_custom(content: Mapping[str, Any]) -> bool:
    return not is_built_in(str(content["apiVersion"]).rpartition("/")[0])


def whole_trial(trial: Trial) -> Trial:
    """Return the trial of the same object of which only the usual defaults are left out."""
    content = trial.content
    kept = frozenset(
        place
        for place, value in _leaves(content)
        if _is_fixed(place) or not _is_usual(_shape(place), value)
    )
    return Trial(content, trial.live, kept, NOTHING_SEEN)


def lacking(content: Mapping[str, Any], live: Mapping[str, Any]) -> tuple[Field, ...]:
    """Return the fields of a manifest that an object does not have, or with another value."""
    return tuple(place for place, value in _leaves(content) if _at(live, place) != value)


def without_place(content: Mapping[str, Any]) -> Iterator[tuple[Field, JSONObject]]:
    """Yield each field of a manifest, with the manifest without it."""
    places = frozenset(place for place, _ in _leaves(content))
    for place in sorted(places, key=str):
        yield place, _part(content, places - {place}, ())


# Which fields are left out of a first trial. It only saves trials: the server decides.


_HEAD = frozenset({"apiVersion", "kind"})
_NOT_COMPARED = frozenset({"apiVersion", "kind", "metadata", "status"})
_ALLOCATED = frozenset({"healthCheckNodePort", "nodePort"})
"""What the server chooses for each object, in a part with other fields."""
_FREE = frozenset(
    {"annotations", "binaryData", "data", "hard", "labels", "limits", "matchLabels",
     "nodeSelector", "parameters", "requests", "selector", "stringData"}
)  # fmt: skip
"""Maps whose keys are people's own."""
_NAMING = frozenset(
    {"containerPort", "emptyDir", "host", "image", "ip", "key", "kind", "level", "mountPath",
     "name", "namespace", "number", "operator", "path", "podSelector", "port", "resource",
     "uid", "user", "value"}
)  # fmt: skip
"""What says which one is meant, and what people write though it is a default."""
_WORD = pattern(r"[A-Z][A-Za-z]+")
_ANY = object()
_USUAL: Mapping[str, tuple[object, ...]] = {
    "allocateLoadBalancerNodePorts": (True,),
    "allowPrivilegeEscalation": (),
    "apiGroup": ("", "rbac.authorization.k8s.io"),
    "apiVersion": ("v1",),
    "concurrencyPolicy": ("Allow",),
    "defaultMode": (420,),
    "dnsPolicy": ("ClusterFirst",),
    "externalTrafficPolicy": ("Cluster",),
    "failureThreshold": (3,),
    "fsType": ("ext4",),
    "imagePullPolicy": ("IfNotPresent", "Always"),
    "internalTrafficPolicy": ("Cluster",),
    "ipFamilies": (["IPv4"], ["IPv6"]),
    "ipFamilyPolicy": ("SingleStack",),
    "listKind": (_ANY,),
    "matchPolicy": ("Equivalent",),
    "maxSurge": ("25%", 0),
    "maxUnavailable": ("25%", 1),
    "partition": (0,),
    "periodSeconds": (10,),
    "pathType": (),
    "policyTypes": (["Ingress"], ["Ingress", "Egress"]),
    "protocol": ("TCP",),
    "restartPolicy": ("Always",),
    "schedulerName": ("default-scheduler",),
    "scheme": ("HTTP",),
    "scope": ("*",),
    "serviceAccount": (_ANY,),
    "sessionAffinity": ("None",),
    "singular": (_ANY,),
    "storageClassName": (),
    "successThreshold": (1,),
    "terminationGracePeriodSeconds": (30,),
    "terminationMessagePath": ("/dev/termination-log",),
    "terminationMessagePolicy": ("File",),
    "timeoutSeconds": (1, 10, 10800),
    "volumeMode": ("Filesystem",),
}
"""The defaults of many kinds, by the name of the field: they come back last."""


_USUAL_AT: Mapping[_Shape, object] = {
    ("clientConfig", "service", "port"): 443,
    ("livenessProbe", "httpGet", "path"): "/",
    ("readinessProbe", "httpGet", "path"): "/",
    ("spec", "service", "port"): 443,
    ("startupProbe", "httpGet", "path"): "/",
}
"""The defaults of fields whose name means another thing elsewhere."""


def _is_usual(shape: _Shape, value: object) -> bool:
    if not shape:
        return False
    if (only := _USUAL_AT.get(shape[-3:])) is not None:
        return value == only
    usual = _USUAL.get(shape[-1])
    if usual is None:
        return value in ({}, [], "") and shape[-1] not in _NAMING
    return _ANY in usual or any(type(one) is type(value) and one == value for one in usual)


def _is_fixed(place: Field) -> bool:
    """Return whether a field is a person's in any case."""
    shape = _shape(place)
    if len(place) == 1 and place[0] in _HEAD:
        return True
    is_free = not _FREE.isdisjoint(shape[:-1]) or shape[0] == "metadata"
    # Its schema asks for it, though the server does not.
    is_role = shape[-2:] == ("roleRef", "apiGroup")
    is_naming = shape[-1] in _NAMING and shape[-3:] not in _USUAL_AT
    return is_free or is_role or is_naming


def _may_go(place: Field, value: object, seen: SeenDefaults, *, is_custom: bool) -> bool:
    """Return whether the first trial is without a field."""
    if _is_fixed(place):
        return False
    shape = _shape(place)
    if shape in seen.whole:
        return False
    # Such a default may depend on other fields, as that of imagePullPolicy does.
    if _is_usual(shape, value):
        return True
    if (known := seen.values.get(shape)) is not None:
        return canonical_text(value) in known
    if shape in seen.needed:
        return False
    # A CRD may have a default of any form.
    is_word = isinstance(value, str) and (is_custom or _WORD.fullmatch(value) is not None)
    return is_word or isinstance(value, bool | int | float)


# The fields of an object: all that is neither a filled mapping nor a list of mappings.


class _Absent(Struct, frozen=True):
    pass


_ABSENT = _Absent()


def _leaves(value: Any, place: Field = ()) -> Iterator[tuple[Field, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*place, key))
    elif _is_list_of_parts(value):
        for index, item in enumerate(value):
            yield from _leaves(item, (*place, index))
    else:
        yield place, value


def _is_list_of_parts(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict | list) for item in value)


def _part(value: Any, kept: frozenset[Field], place: Field) -> Any:
    """Return a value with only the kept fields; the items of lists keep their places."""
    if isinstance(value, dict) and value:
        found = {}
        for key, inner in value.items():
            part = _part(inner, kept, (*place, key))
            if part is not _ABSENT:
                found[key] = part
        return found if found or not place else _ABSENT
    if _is_list_of_parts(value):
        items = [_part(item, kept, (*place, index)) for index, item in enumerate(value)]
        if all(item is _ABSENT for item in items):
            return _ABSENT
        return [{} if item is _ABSENT else item for item in items]
    return value if place in kept else _ABSENT


def _at(value: Any, place: Field) -> Any:
    for step in place:
        if isinstance(step, str):
            value = value.get(step, _ABSENT) if isinstance(value, dict) else _ABSENT
        else:
            is_there = isinstance(value, list) and step < len(value)
            value = value[step] if is_there else _ABSENT
        if value is _ABSENT:
            break
    return value


def _shape(place: Iterable[str | int]) -> _Shape:
    return tuple(step for step in place if isinstance(step, str))
