"""What is wrong with an input, as far as that can be known without any cluster.

The rules are those of a run. The built-in kinds, and the CRDs of the input, stand for what a server
serves. Of a kind that only a cluster knows, the annotations and the name are checked.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from applyprune.errors import InputError
from applyprune.model.fate import Fate
from applyprune.model.identity import GVK, GroupKind, Ref
from applyprune.model.inventory import InventoryEntry
from applyprune.model.kinds import CONFIG_MAP, NAMESPACE, RBAC, SECRET, SERVICE
from applyprune.model.live import Resource, mapping
from applyprune.model.options import Options
from applyprune.model.plan import ApplyStep, Desired, Plan
from applyprune.model.problem import Manifest, Problem
from applyprune.model.text import is_dns_label, is_dns_subdomain
from applyprune.planning.applyset import ApplySetIdentity
from applyprune.planning.built_in_kinds import built_in_kinds
from applyprune.planning.desired import (
    Resolved,
    UnknownObject,
    changed_key_warning,
    defined_twice,
    resolve,
)
from applyprune.planning.order import is_built_in, missing_keys, mistaken_references
from applyprune.planning.schemas import (
    TYPE_WORDS,
    KindSchema,
    changed_key_faults,
    defined_schemas,
)
from applyprune.planning.server_errors import advice_on, dotted
from applyprune.values import pattern, replace

_PRE_RELEASE = pattern(r"v\d+(?:alpha|beta)\d+")
_STABLE_ONLY = frozenset(
    {
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "autoscaling",
        "batch",
        "discovery.k8s.io",
        "events.k8s.io",
        "extensions",
        "policy",
        "rbac.authorization.k8s.io",
    }
)
"""The groups of which Kubernetes 1.27 and newer serve stable versions only, or nothing."""


class InputCheck(Struct, frozen=True):
    """What was found in an input."""

    errors: tuple[InputError, ...]
    """What would end every run, before it writes anything."""
    warnings: tuple[Problem, ...]
    unknown: tuple[GVK, ...]
    """The kinds that only a cluster knows, in the order of the input."""


def check_input(
    manifests: Sequence[Manifest], applyset: ApplySetIdentity, options: Options
) -> InputCheck:
    """Check an input; objects without a namespace are in that of the set."""
    guessed = {one.gvk: _guessed(one) for one in manifests if _is_pre_release(one.gvk)}
    catalogue = built_in_kinds()
    catalogue = replace(catalogue, served={**guessed, **catalogue.served})
    resolved = resolve(
        manifests,
        catalogue,
        applyset,
        namespace=applyset.namespace,
        options=options,
        kinds_may_come=True,
    )
    steps = tuple(ApplyStep(one, Fate.CREATE, _entry(one)) for one in resolved.desired)
    plan = Plan(steps, ())
    wrong_keys, odd_keys = _changed_keys(resolved)
    return InputCheck(
        (
            *resolved.errors,
            *_duplicates(resolved.unknown),
            *_wrong_names(resolved.desired),
            *_wrong_values(resolved.desired),
            *wrong_keys,
        ),
        (
            *resolved.warnings,
            *missing_keys(plan, applyset.manager),
            *mistaken_references(plan),
            *odd_keys,
        ),
        tuple(dict.fromkeys([*guessed, *(one.gvk for one in resolved.unknown)])),
    )


def _is_pre_release(gvk: GVK) -> bool:
    """Return whether a version of a built-in API comes and goes with the cluster's version."""
    comes_and_goes = is_built_in(gvk.group) and gvk.group not in _STABLE_ONLY
    return comes_and_goes and _PRE_RELEASE.fullmatch(gvk.version) is not None


def _guessed(manifest: Manifest) -> Resource:
    """Return the resource of a kind by its stable version, else by what the manifest says."""
    gvk = manifest.gvk
    known = built_in_kinds().find_kind(gvk.group_kind)
    if known is not None:
        return replace(known, version=gvk.version)
    plural = f"{gvk.kind.lower()}s"
    return Resource(gvk.group, gvk.version, gvk.kind, plural, namespaced=bool(manifest.namespace))


def _entry(desired: Desired) -> InventoryEntry:
    resource = desired.resource
    return InventoryEntry(desired.ref, resource.plural, resource.version, None)


def _duplicates(unknown: Iterable[UnknownObject]) -> Iterator[InputError]:
    """Yield an error for each object of an unknown kind that the input has already."""
    seen: dict[Ref, UnknownObject] = {}
    for one in unknown:
        first = seen.setdefault(one.ref, one)
        if first is not one:
            yield defined_twice(one.ref, one.origin, first.origin)


def _changed_keys(resolved: Resolved) -> tuple[Sequence[InputError], Sequence[Problem]]:
    """Return the errors and the warnings about changed keys in what only a schema judges."""
    errors: list[InputError] = []
    warnings: list[Problem] = []
    known = defined_schemas(resolved.desired)
    for one in resolved.desired:
        wrong = _wrong_keys(one, known)
        errors += wrong
        if one.changed_keys and not wrong:
            warnings.append(changed_key_warning(one.ref, one.origin, one.changed_keys))
    warnings += [
        changed_key_warning(one.ref, one.origin, one.changed_keys)
        for one in resolved.unknown
        if one.changed_keys
    ]
    return errors, warnings


def _wrong_keys(one: Desired, known: Mapping[GVK, KindSchema | None]) -> Sequence[InputError]:
    """Return an error for each changed key in a field that a CRD of the input defines."""
    schema = known.get(one.resource.gvk) if one.changed_keys else None
    return [
        InputError(
            f"{one.ref}: {dotted(fault.field[:-1])}: {fault.what}",
            location=one.origin,
            hint=advice_on(fault.what),
            field=fault.field,
        )
        for fault in (changed_key_faults(one.changed_keys, schema) if schema else ())
    ]


# Names, labels and keys, by the rules of apimachinery. A kind of an aggregated API has its own.


_NAME_HINT = (
    "Use lower-case letters, digits, '-' and '.', at most 253 characters; the first and the last "
    "one is a letter or a digit."
)
_AS_LABEL = (
    "Use lower-case letters, digits and '-', at most 63 characters; the first and the last one is "
    "a letter or a digit."
)
_LABEL_HINT = (
    "Use letters, digits, '-', '_' and '.', at most 63 characters; the first and the last one is a "
    "letter or a digit."
)
_KEY_HINT = f"A key is NAME or DNS-NAME/NAME. {_LABEL_HINT}"
_DATA_HINT = "Use letters, digits, '-', '_' and '.', at most 253 characters."
_PLACEHOLDER = "If ${…} is a placeholder, replace it before, for example with envsubst."
_LABEL_VALUE = pattern(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_DATA_KEY = pattern(r"(?!\.$|\.\.)[-._A-Za-z0-9]{1,253}")
# Names that are addresses or name a signer have colons.
_WITH_COLONS = frozenset({"certificates.k8s.io", "networking.k8s.io"})
_LABELS = frozenset({NAMESPACE, SERVICE})


def _wrong_names(desired: Iterable[Desired]) -> Iterator[InputError]:
    for one in desired:
        metadata = mapping(one.body.get("metadata"))
        if not _is_name(one.ref.group_kind, one.ref.name):
            hint = _AS_LABEL if one.ref.group_kind in _LABELS else _NAME_HINT
            hint = _PLACEHOLDER if "${" in one.ref.name else hint
            yield _wrong(one, "invalid metadata.name", hint, "metadata", "name")
        for part in ("labels", "annotations"):
            for key, value in mapping(metadata.get(part)).items():
                if not _is_key(key.lower() if part == "annotations" else key):
                    yield _wrong(
                        one, f"metadata.{part}: invalid key", _KEY_HINT, "metadata", part, key
                    )
                elif part == "labels" and not _LABEL_VALUE.fullmatch(str(value)):
                    what = f"metadata.labels: invalid value of {key}"
                    yield _wrong(one, what, _LABEL_HINT, "metadata", part, key)
        if one.ref.group_kind in {CONFIG_MAP, SECRET}:
            for part in ("data", "binaryData"):
                for key in mapping(one.body.get(part)):
                    if not _DATA_KEY.fullmatch(key):
                        yield _wrong(one, f"{part}: invalid key", _DATA_HINT, part, key)


def _wrong(one: Desired, what: str, hint: str, *field: str) -> InputError:
    return InputError(f"{one.ref}: {what}", location=one.origin, hint=hint, field=field)


def _is_name(kind: GroupKind, name: str) -> bool:
    if kind.group == RBAC or (kind.group in _WITH_COLONS and ":" in name):
        return True
    return is_dns_label(name) if kind in _LABELS else is_dns_subdomain(name)


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    return bool(name and _LABEL_VALUE.fullmatch(name)) and (not slash or is_dns_subdomain(prefix))


# The values of ConfigMaps and Secrets: the server would refuse them without naming the key.


_TEXT, _BASE64 = "expected string", "illegal base64 data"
_ENCODED = {(SECRET, "data"), (CONFIG_MAP, "binaryData")}


def _wrong_values(desired: Iterable[Desired]) -> Iterator[InputError]:
    for one in desired:
        kind = one.ref.group_kind
        for part in ("data", "binaryData") if kind in {CONFIG_MAP, SECRET} else ():
            for key, value in mapping(one.body.get(part)).items():
                if fault := _fault(value, is_encoded=(kind, part) in _ENCODED):
                    yield InputError(
                        f"{one.ref}: {part}.{key}: {fault}",
                        location=one.origin,
                        hint=advice_on(fault),
                        field=(part, key),
                    )


def _fault(value: object, *, is_encoded: bool) -> str:
    """Return what is wrong with a value, which is not shown; empty if nothing is."""
    if not isinstance(value, str):
        return f"{_TEXT}, got {TYPE_WORDS.get(type(value), 'another type')}"
    if is_encoded:
        try:
            # As Go's encoding/json: line ends are skipped, and nothing else is.
            base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
        except (binascii.Error, ValueError):
            return _BASE64
    return ""
