"""Read a Bundle that is being deleted: each field on its own.

An invalid field must neither block the removal, nor decide that anything is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from applyprune.controller.bundle import SPEC, Bundle, DeletionPolicy, fault_text, without_nulls
from applyprune.controller.bundle_client import status_of
from applyprune.errors import UsageError
from applyprune.model.identity import Ref
from applyprune.model.json_access import mapping, text, whole_number
from applyprune.model.live import LiveObject, deleted_at
from applyprune.model.text.names import is_dns_subdomain
from applyprune.planning.annotations import ORPHAN
from applyprune.planning.applyset import set_name
from applyprune.values import dataclass

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_DECIDES = frozenset(
    {"deletionPolicy", "inventoryName", "kubeConfig", "serviceAccountName", "suspend"}
)
"""The fields that decide which objects are deleted, where, by whom, and whether at all."""
_MIRRORED = frozenset({"prune", "prune.enabled"})
"""The fields that decide it with the policy ``MirrorPrune``."""
_NAMED = 3
_NO_SOURCE = {"inline": ""}
_SECRET_SOURCE = {"secretRefs": [{"name": "secret"}]}


@dataclass(frozen=True, slots=True)
class DeletedBundle:
    """A Bundle that is being deleted, as far as it could be read."""

    live: LiveObject
    bundle: Bundle
    """It has the default of each field that could not be read.

    Of its source, it only tells whether that is in Secrets.
    """
    faults: tuple[str, ...] = ()
    """What is wrong with a field that decides what is deleted: then nothing may be."""

    @property
    def is_orphaned(self) -> bool:
        """Return whether somebody has asked to end the removal at once, and leave the objects."""
        return self.live.annotations.get(ORPHAN) == "true"

    @property
    def ends(self) -> datetime:
        """Return when a removal ends that nobody has the rights for."""
        began = deleted_at(self.live) or datetime.now(UTC)
        return began + timedelta(seconds=self.bundle.spec.timeout)

    @property
    def seconds_left(self) -> float:
        """Return the seconds until then, by the server's clock and ours; less than 0 after it."""
        return (self.ends - datetime.now(UTC)).total_seconds()

    def left(self, total: int | None = None) -> str:
        """Return what its inventory still lists, in words: by its status, or ``total`` objects."""
        if not (name := self._inventory_name):
            return "nothing is known to have been applied"
        if total is None:
            total = whole_number(status_of(self.live), "objects", "total")
        return f"left in the inventory {name}: {'its objects' if total is None else counted(total)}"

    def left_unreleased(self, total: int | None = None) -> str:
        """Return the same, and how to delete it while the set belongs to this Bundle."""
        left = self.left(total)
        if not (name := set_name(self._inventory_name)):
            return left
        where = self.at(name)
        release = f"applyprune inventory release {where}"
        return f"{left}. To delete that: {release}, then applyprune delete {where}"

    def outlook(self, total: int | None) -> str:
        """Return what is left, and when the removal ends without it."""
        return f"{self.left(total)}; the Bundle goes at {self.ends:%Y-%m-%dT%H:%M:%SZ}"

    def at(self, name: str) -> str:
        """Return the arguments of a command about a set where the objects are."""
        elsewhere = " --kubeconfig FILE" if self.bundle.spec.kube_config is not None else ""
        return f"{name} -n {self.bundle.namespace}{elsewhere}"

    @property
    def _inventory_name(self) -> str:
        """Return the name of the inventory's ConfigMap; empty if it is unknown.

        Whoever may write a status may write any text, and people run the command with the name.
        """
        if not self.faults:  # guard: forged-inventory-name
            return self.bundle.target.inventory.name
        known = text(status_of(self.live), "inventory", "name")
        return known if is_dns_subdomain(known) else ""  # guard: forged-inventory-text


def read_deleted(live: LiveObject) -> DeletedBundle:
    """Return what can be read of a Bundle that is being deleted; never fails."""
    raw = (live.body or {}).get("spec")
    if not isinstance(raw, Mapping):
        return _read(live, {}, ("spec: must be an object",))
    is_encrypted = raw.get("decryption") is not None
    # guard: secret-removal
    is_secret = is_encrypted or bool(mapping(raw.get("source")).get("secretRefs"))
    source = _SECRET_SOURCE if is_secret else _NO_SOURCE
    spec: dict[str, Any] = {**without_nulls(dict(raw)), "source": source}
    faults: dict[str, str] = {}
    try:
        SPEC.validate_python(spec)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            faults[_drop(spec, fault)] = fault_text(fault)
    found = _read(live, spec, ())
    mirrors = found.bundle.spec.deletion_policy is DeletionPolicy.MIRROR
    decides = _DECIDES | _MIRRORED if mirrors else _DECIDES
    # guard: unreadable-decides
    decisive = tuple(text for path, text in faults.items() if path in decides)
    return _read(live, spec, (*decisive, *_name_fault(found.bundle)))


def _drop(spec: dict[str, Any], fault: ErrorDetails) -> str:
    """Remove the field with a fault, so that it gets its default; return its path."""
    top, *below = map(str, fault["loc"])
    inner = spec.get(top)
    # Of what another part needs, nothing is left.
    if below and isinstance(inner, Mapping) and top != "kubeConfig":
        spec[top] = {key: value for key, value in inner.items() if key != below[0]}
        return f"{top}.{below[0]}"
    spec.pop(top, None)
    return top


def _read(live: LiveObject, spec: Mapping[str, Any], faults: tuple[str, ...]) -> DeletedBundle:
    parsed = SPEC.validate_python({"source": _NO_SOURCE, **spec})
    bundle = Bundle(live.ref.namespace, live.ref.name, parsed, parsed.timeout, live.generation or 0)
    return DeletedBundle(live, bundle, faults)


def _name_fault(bundle: Bundle) -> tuple[str, ...]:
    """Return why no set can have its name, as a tuple of at most one."""
    try:
        _ = bundle.target
    except UsageError as error:
        return (f"{error.message}: {error.reason}",)
    return ()


def named(refs: Collection[Ref]) -> str:
    """Return ``2 objects (configmap/a, service/web)``, with the first three."""
    objects = counted(len(refs))
    shown = ", ".join(ref.short for ref in sorted(refs)[:_NAMED])
    more = ", …" if len(refs) > _NAMED else ""
    return f"{objects} ({shown}{more})" if shown else objects


def counted(count: int) -> str:
    """Return ``1 object`` or ``2 objects``."""
    return f"{count} object{'' if count == 1 else 's'}"
