"""The body that is sent: normalized as the API server would do, without what is left to others.

A digest is the first 128 bits, in hex, of the SHA-256 of the canonical JSON text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from applyprune.errors import UsageError
from applyprune.model.fieldset import (
    Path,
    from_pointer,
    is_under,
    to_pointer,
    without_fields,
)
from applyprune.model.identity import GVK, GroupKind, Ref
from applyprune.model.kinds import (
    AUTOSCALER,
    CLUSTER_ROLE,
    CRD,
    MUTATING_WEBHOOKS,
    NODE,
    SCALED_OBJECT,
    VALIDATING_WEBHOOKS,
    Trait,
    kinds_with,
)
from applyprune.model.live import API_SERVICES, field, items, mapping, text
from applyprune.model.plan import ApplyRule, Desired
from applyprune.planning.applyset import LAST_APPLIED, MANIFEST_DIGEST, OWNED_BY, PART_OF
from applyprune.values import encode_sorted, pattern, replace

if TYPE_CHECKING:
    from applyprune.model.live import LiveObject
    from applyprune.model.problem import Field, JSONObject


# Annotations of live objects that come along if a manifest is copied from one: never sent as such.
_COPIED = frozenset({LAST_APPLIED, MANIFEST_DIGEST, OWNED_BY})
_KEYED = kinds_with(Trait.READ_BY_PODS)
_DATA = frozenset({"binaryData", "data"})
_COUNTS_EMPTY = kinds_with(Trait.COUNTS_EMPTY)


def normalize(
    body: Mapping[str, Any], *, namespace: str, set_id: str, has_status: bool = False
) -> JSONObject:
    """Return a new body with its namespace and the set's label, without ``stringData``.

    The server merges ``stringData`` into ``data`` without ownership, so a key that is removed from
    the manifest would stay in the Secret permanently (verified on 1.36). An empty map of keys says
    nothing, but would conflict with whoever applies a key. With ``has_status``, the server drops
    the status.
    """
    metadata = {
        key: value
        for key, value in body["metadata"].items()
        if key != "namespace" and value not in ({}, [])
    }
    if namespace:
        metadata["namespace"] = namespace
    annotations = metadata.get("annotations") or {}
    if not _COPIED.isdisjoint(annotations):
        metadata["annotations"] = {
            key: value for key, value in annotations.items() if key not in _COPIED
        }
    metadata["labels"] = {**(metadata.get("labels") or {}), PART_OF: set_id}
    sent: JSONObject = {**body, "metadata": metadata}
    if is_secret(body) and "stringData" in body:
        plain = sent.pop("stringData") or {}
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        sent["data"] = {**(body.get("data") or {}), **encoded}
    kind = _kind_of(body)
    # A node registers itself with its status; the server takes it at the creation.
    if has_status and kind != NODE:
        sent.pop("status", None)
    if kind in _KEYED:
        sent = {key: value for key, value in sent.items() if key not in _DATA or value}
    if kind in _COUNTS_EMPTY:
        sent = {key: value if key == "metadata" else _nulled(value) for key, value in sent.items()}
    return sent


def _kind_of(body: Mapping[str, Any]) -> GroupKind:
    return GVK.parse(str(body.get("apiVersion")), str(body.get("kind"))).group_kind


def _nulled(value: Any) -> Any:
    """Return a value with null for each empty list in it."""
    if isinstance(value, dict):
        return {key: _nulled(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_nulled(item) for item in value] or None
    return value


def body_to_send(desired: Desired) -> Mapping[str, Any]:
    """Return the body to send for an existing object: without the fields that it ignores."""
    if not desired.ignored:
        return desired.body
    return without_fields(desired.body, map(from_pointer, desired.ignored))


SECRET_PARTS = ("data", "stringData")
"""The fields of a Secret that contain its values."""
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def manifest_digest(body: Mapping[str, Any]) -> str:
    """Return the digest of a manifest for the inventory.

    For a Secret, also one of a mistyped kind, only the keys of its data count. No digest of a
    secret value ever leaves the process, because a short value could be guessed from it.
    """
    if may_be_secret(body):
        keys = {
            part: sorted(values) if isinstance(values := body[part], dict) else None
            for part in SECRET_PARTS
            if part in body
        }
        body = {**body, **keys}
    return digest(body)


def ruled_digest(manifest: str, pointers: Sequence[str]) -> str:
    """Return the digest for a manifest of which rules leave fields to others.

    It is another one as soon as a rule comes or goes: then the manifest must be sent again.
    """
    return digest([manifest, *pointers]) if pointers else manifest


def digest(value: object) -> str:
    """Return the digest of JSON data: 32 hex digits."""
    return hashlib.sha256(canonical(value)).hexdigest()[:32]


def canonical(value: object) -> bytes:
    """Return the JSON text of a value with sorted keys and no spaces."""
    try:
        return encode_sorted(value)
    except UnicodeEncodeError:
        # A half of a surrogate pair.
        return _ENCODER.encode(value).encode("utf-8", "surrogatepass")


def canonical_text(value: object) -> str:
    """Return what ``canonical`` does, as text."""
    return canonical(value).decode("utf-8", "surrogatepass")


def is_secret(body: Mapping[str, Any]) -> bool:
    return body.get("kind") == "Secret" and body.get("apiVersion") == "v1"


def may_be_secret(body: Mapping[str, Any]) -> bool:
    """Return whether an object is a core Secret, or may be one whose kind is mistyped.

    No other built-in kind has ``stringData``.
    """
    return is_secret(body) or "stringData" in body  # guard: mistyped-secret -> is_secret(body)


def other_values(body: Mapping[str, Any], stored: Mapping[str, Any] | None) -> frozenset[Path]:
    """Return the paths of a Secret's values that a stored object does not have.

    The same bytes may be written in more than one form of base64.
    """
    form = _decoded if is_secret(body) else lambda value: value
    found: set[Path] = set()
    for part in SECRET_PARTS:
        there = mapping((stored or {}).get(part))
        for key, value in mapping(body.get(part)).items():
            if key not in there or form(value) != form(there[key]):
                found.add((part, key))
    return frozenset(found)


def _decoded(value: object) -> object:
    if isinstance(value, str):
        with suppress(ValueError):
            return base64.b64decode(value)
    return value


# Null in a manifest.
#
# Server-side apply has no word for a removal: it stores the empty value of the field's type, owned
# by the set, or refuses it. So null is left out: it says as much as a field that is not there. In
# custom resources null may be a value, as in the values of a Helm release, so there it is sent as
# it is, except in the metadata.


_NAMED_PARTS = frozenset({"annotations", "labels"})
_FREE_FORM = kinds_with(Trait.FREE_FORM)
# What generators write, what a default rule leaves to others, and the defaults that are removed
# anyway where they exclude what a manifest sets.
_WITHOUT_WARNING = frozenset(
    {"creationTimestamp", "status", "caBundle", "rollingUpdate", "emptyDir"}
)


def without_nulls(body: Mapping[str, Any], *, custom: bool) -> Mapping[str, Any]:
    """Return a body without fields that are null.

    ``custom`` says that a CRD or an aggregated API defines the kind.
    """
    parts = {"metadata"} if _may_be_value(body, custom=custom) else body.keys()
    return {
        key: _stripped(value) if key in parts else value
        for key, value in body.items()
        if value is not None or key not in parts
    }


def _may_be_value(body: Mapping[str, Any], *, custom: bool) -> bool:
    return custom or _kind_of(body) in _FREE_FORM


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stripped(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_stripped(item) for item in value]
    return value


def idle_nulls(body: Mapping[str, Any], *, custom: bool) -> tuple[Field, ...]:
    """Return the nulls that are left out, as far as somebody may wonder."""
    is_sent = _may_be_value(body, custom=custom)

    def is_named(place: Field) -> bool:
        if place[0] == "metadata":
            return len(place) == 3 and place[1] in _NAMED_PARTS
        return not is_sent and place[0] != "status" and place[-1] not in _WITHOUT_WARNING

    return tuple(
        place
        for place, value in leaves(body)
        if value is None and isinstance(place[-1], str) and is_named(place)
    )


def leaves(value: object, place: Field = ()) -> Iterator[tuple[Field, object]]:
    """Yield all that is neither a mapping nor a list in a value, each with its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*place, index))
    else:
        yield place, value


# The default rules: fields that controllers set in everybody's objects, so no set claims them.
#
# Each rule can be switched off by its name. A rule that leaves out what is empty does so at the
# creation too: nothing is lost, and nobody has to take the field from the set later.


CA_BUNDLE = "caBundle"
REPLICAS = "/spec/replicas"
_SCALER = "HorizontalPodAutoscaler"


class DefaultRule(StrEnum):
    """A default rule, by the name that switches it off."""

    AGGREGATED_RULES = "aggregated-rules"
    """The rules of a ClusterRole with an aggregationRule: a controller collects them."""
    CA_BUNDLE = "ca-bundle"
    """An empty caBundle of a webhook, a CRD's conversion or an APIService: an injector sets it."""
    AUTOSCALED_REPLICAS = "autoscaled-replicas"
    """The replicas of an object that a HorizontalPodAutoscaler targets."""


def without_defaults(
    body: Mapping[str, Any], kind: GroupKind, off: Collection[str]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return a body without what two of the default rules leave out, and which fields by which.

    ``off`` are the rules that are switched off.
    """
    reasons: list[str] = []
    is_aggregated = kind == CLUSTER_ROLE and bool(mapping(body.get("aggregationRule")))
    if DefaultRule.AGGREGATED_RULES not in off and is_aggregated and "rules" in body:
        body = {key: value for key, value in body.items() if key != "rules"}
        reasons.append(
            _ignored_for("/rules", "the aggregation controller", DefaultRule.AGGREGATED_RULES)
        )
    if DefaultRule.CA_BUNDLE not in off:
        filled = _without_bundles(body, kind)
        if filled is not body:
            body = filled
            reasons.append(_ignored_for("an empty caBundle", "its injector", DefaultRule.CA_BUNDLE))
    return body, tuple(reasons)


_WEBHOOKS = frozenset({MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS})
_CLIENT = ("clientConfig",)
_BUNDLE_PLACES: Mapping[GroupKind, tuple[str, ...]] = {
    CRD: ("spec", "conversion", "webhook", *_CLIENT),
    API_SERVICES.group_kind: ("spec",),
}


WITH_BUNDLES = frozenset({*_BUNDLE_PLACES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS})
"""The kinds in which the API server looks for certificates."""


def without_certificate(body: Mapping[str, Any], kind: GroupKind) -> tuple[Field, ...]:
    """Return the places of each caBundle that is not empty, and holds no certificate in PEM."""
    found: dict[Field, object] = {}
    if kind in _BUNDLE_PLACES:
        place = (*_BUNDLE_PLACES[kind], CA_BUNDLE)
        found[place] = field(body, *place)
    elif kind in {MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS}:
        for index, hook in enumerate(items(body, "webhooks")):
            place = ("clientConfig", CA_BUNDLE)
            found["webhooks", index, *place] = field(mapping(hook), *place)
    return tuple(place for place, bundle in found.items() if _is_no_certificate(bundle))


def _is_no_certificate(bundle: object) -> bool:
    try:
        # What is not base64 is the server's to refuse.
        return bool(bundle) and b"-----BEGIN " not in base64.b64decode(str(bundle), validate=True)
    except ValueError:
        return False


def is_ignored_by_default(path: Path, body: Mapping[str, Any], off: Collection[str]) -> bool:
    """Return whether a field is one that these rules leave to a controller, by its path alone.

    ``body`` is that of the manifest; ``off`` are the rules that are switched off.
    """
    kind = _kind_of(body)
    if path[0] == "rules" and kind == CLUSTER_ROLE:
        is_aggregated = bool(mapping(body.get("aggregationRule")))
        return is_aggregated and DefaultRule.AGGREGATED_RULES not in off
    if path[-1] != CA_BUNDLE or DefaultRule.CA_BUNDLE in off:
        return False
    if kind in _WEBHOOKS:
        return path[0] == "webhooks" and path[2:-1] == _CLIENT
    return path[:-1] == _BUNDLE_PLACES.get(kind)


def _without_bundles(body: Mapping[str, Any], kind: GroupKind) -> Mapping[str, Any]:
    if kind in _WEBHOOKS:
        hooks = body.get("webhooks")
        if not isinstance(hooks, list):
            return body
        kept = [_without_bundle(hook, _CLIENT) for hook in hooks]
        return body if kept == hooks else {**body, "webhooks": kept}
    place = _BUNDLE_PLACES.get(kind)
    return body if place is None else _without_bundle(body, place)


def _without_bundle(body: Any, place: tuple[str, ...]) -> Any:
    """Return a body without its caBundle if that holds no certificate."""
    config = mapping(field(mapping(body), *place))
    if CA_BUNDLE not in config:
        return body
    bundle = config[CA_BUNDLE]
    try:
        is_empty = not (bundle and base64.b64decode(str(bundle), validate=True).strip())
    except ValueError:
        return body
    return without_fields(body, [(*place, CA_BUNDLE)]) if is_empty else body


def with_autoscaler(
    desired: Desired, autoscalers: Iterable[Mapping[str, Any]], off: Collection[str]
) -> Desired:
    """Return an object whose replicas are left to the autoscaler that targets it, if one does."""
    for scaler in autoscalers:
        name = text(scaler, "metadata", "name")
        place = text(scaler, "metadata", "namespace")
        is_target = place == desired.ref.namespace and targets(scaler, desired.ref)
        if is_target and may_be_autoscaled(desired, off):
            return _ignoring_replicas(desired, f"{text(scaler, 'kind', default=_SCALER)} {name}")
    return desired


def with_unknown_autoscaler(desired: Desired, off: Collection[str]) -> Desired:
    """Return an object in whose namespace no autoscaler could be read.

    Replicas that have left its manifest stay as they are: one may set them.
    """
    desired = replace(desired, is_scaling_unknown=may_be_autoscaled(desired, off))
    if desired.is_scaling_unknown and desired.loses_replicas:  # guard: replicas-stay-unread never
        return _ignoring_replicas(desired, "an autoscaler, as none could be read")
    return desired


def _ignoring_replicas(desired: Desired, who: str) -> Desired:
    # Of a manifest without replicas, only the step that gives them away differs.
    digest = desired.digest if desired.loses_replicas else ruled_digest(desired.digest, (REPLICAS,))
    return replace(
        desired,
        ignored=(*desired.ignored, REPLICAS),
        ignore_reasons=(
            *desired.ignore_reasons,
            _ignored_for(REPLICAS, who, DefaultRule.AUTOSCALED_REPLICAS),
        ),
        digest=digest,
    )


def _ignored_for(what: str, whom: str, rule: DefaultRule) -> str:
    return f"{what} is left to {whom} (default rule {rule})"


def may_be_autoscaled(desired: Desired, off: Collection[str]) -> bool:
    """Return whether an object has replicas that an autoscaler may set."""
    if DefaultRule.AUTOSCALED_REPLICAS in off or REPLICAS in desired.ignored:
        return False
    if desired.loses_replicas:  # guard: lost-replicas never
        return True
    # Parsed only where it may be so: there may be 100,000 objects.
    is_mentioned = desired.packed.mentions("replicas")
    return is_mentioned and field(desired.body, "spec", "replicas") is not None


def autoscalers_in(desired: Iterable[Desired]) -> tuple[Mapping[str, Any], ...]:
    """Return the bodies of the autoscalers among desired objects."""
    kinds = {AUTOSCALER, SCALED_OBJECT}
    scalers = (one for one in desired if one.ref.group_kind in kinds)
    # guard: disabled-autoscaler -> tuple(one.body for one in scalers)
    return tuple(one.body for one in scalers if one.apply is not ApplyRule.DISABLED)


def targets(scaler: Mapping[str, Any], ref: Ref) -> bool:
    """Return whether an autoscaler of the same namespace targets an object."""
    scaled = mapping(field(scaler, "spec", "scaleTargetRef"))
    if scaler.get("kind") == SCALED_OBJECT.kind:
        scaled = {"apiVersion": "apps/v1", "kind": "Deployment", **scaled}  # KEDA's defaults
    group = str(scaled.get("apiVersion", "")).rpartition("/")[0]
    return (group, scaled.get("kind"), scaled.get("name")) == (ref.group, ref.kind, ref.name)


def is_scaled(live: LiveObject) -> bool:
    """Return whether anybody has written to the scale of an object."""
    return any(one.subresource == "scale" for one in live.writers)


# Rules that ignore a field of some objects.
#
# Three inputs give such rules: ``ignore`` in ``applyprune.yaml``, ``spec.ignoreFields`` of a
# Bundle, and the annotation ``applyprune.dev/ignore-fields``, whose rules are only for its object.


_ALL = "*"
# Up to a comma or a space outside of brackets; an unclosed bracket is an error in the pointer.
_POINTER = pattern(r"""(?:\[(?:"(?:[^"\\]|\\.)*"|[^\]"])*\]|[^\s,\[]|\[)+""")


class IgnoreRule(Struct, frozen=True):
    """A field to ignore in the objects that the rule matches.

    Raises ValueError with the reason if the pointer is invalid, or leads to what must be sent.
    """

    pointer: str
    """The JSON pointer of the field; it names items of a list by their keys."""
    kind: str = _ALL
    """KIND or KIND.GROUP, in upper or lower case; ``*`` or empty for all kinds.

    ``KIND.`` is the kind of the core group only.
    """
    name: str = _ALL
    """A glob for the name of the object."""

    @property
    def path(self) -> Path:
        return _checked_path(self.pointer)

    @property
    def text(self) -> str:
        """Return the rule as ``ignore`` takes it."""
        name = "" if self.name == _ALL else f"/{self.name}"
        return f"{self.kind.removesuffix('.') or _ALL}{name}:{self.pointer}"

    def __post_init__(self) -> None:
        _checked_path(self.pointer)

    def matches(self, group_kind: GroupKind, name: str) -> bool:
        kind = group_kind.kind.lower()
        kinds = {"", _ALL, kind, f"{kind}.{group_kind.group}"}
        return self.kind.lower() in kinds and fnmatchcase(name, self.name)


# The identity of an object, and the label of its set, cannot be ignored.
_OUR_PATHS: tuple[Path, ...] = (
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "labels", PART_OF),
)


@lru_cache(maxsize=1024)
def _checked_path(pointer: str) -> Path:
    """Parse a pointer, once: a run asks for the path with each object."""
    path = from_pointer(pointer)
    for ours in _OUR_PATHS:
        if is_under(ours, path) or is_under(path, ours):
            raise ValueError(f"{to_pointer(ours)} cannot be ignored")
    return path


def parse_rule(text: str) -> IgnoreRule:
    """Parse ``KIND[/NAME]:/json/pointer``; raises UsageError if it is invalid."""
    # A name of an RBAC object may contain colons; no name contains a slash.
    about, _, pointer = text.partition(":/")
    kind, slash, name = about.partition("/")
    try:
        rule = IgnoreRule(f"/{pointer}", kind, name or _ALL)
    except ValueError as error:
        raise _refused(text, str(error)) from error
    if not kind or (slash and not name):
        raise _refused(text, "the kind, or the name after the slash, is missing")
    return rule


def _refused(text: str, reason: str) -> UsageError:
    return UsageError(
        f"invalid rule {text!r} in ignore",
        reason=reason,
        hint="Write KIND[/NAME]:/json/pointer, as in deployment:/spec/replicas or "
        """'deployment.apps/web-*:/spec/template/spec/containers[name="web"]/image'.""",
    )


def ignored_paths(rules: Iterable[IgnoreRule], ref: Ref) -> tuple[Path, ...]:
    """Return the paths of the fields of an object that the rules ignore."""
    return tuple(rule.path for rule in rules if rule.matches(ref.group_kind, ref.name))


def is_ignorable(pointer: str) -> bool:
    """Return whether a rule may ignore the field at a valid pointer."""
    try:
        IgnoreRule(pointer)
    except ValueError:
        return False
    return True


def split_pointers(text: str) -> tuple[str, ...]:
    """Return the pointers of a list separated by commas or spaces, not yet checked."""
    return tuple(_POINTER.findall(text))
