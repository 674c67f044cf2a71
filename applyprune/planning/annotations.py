"""The annotations of applyprune itself; ``planning.marks`` has those of other tools.

They fail closed. A key under our prefix that is not in the table, or a value that its key does not
have, is an error in a manifest; a live object with one is not deleted. Another tool's annotation
keeps an object if any verb of that tool would keep it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from applyprune.errors import InputError
from applyprune.model.identity import GroupKind
from applyprune.model.live import BUNDLES, mapping
from applyprune.model.options import seconds_of
from applyprune.model.plan import ApplyRule, Recreate
from applyprune.planning.applyset import MANIFEST_DIGEST, OWNED_BY, SHARD_OF, WANTED
from applyprune.planning.marks.apply_mark import APPLY
from applyprune.planning.marks.peer_marks import PARTS, Meaning, found_marks, plain
from applyprune.planning.suggest import closest, did_you_mean
from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.model.problem import Origin

PREFIX = "applyprune.dev/"

ACCEPT_CLUSTER = "applyprune.dev/accept-cluster"
"""On a Bundle: the UID of the cluster to which it may go, and leave its objects in another."""
APPROVE = "applyprune.dev/approve"
"""On a Bundle: the digest that is approved, of deletions or of a whole plan."""
CONFLICTS = "applyprune.dev/conflicts"
IGNORED = "applyprune.dev/ignore-fields"
ORPHAN = "applyprune.dev/orphan"
"""On a Bundle: its removal ends at once, and leaves all its objects."""
PRUNE = "applyprune.dev/prune"
READY_WHEN = "applyprune.dev/ready-when"
RECONCILE_NOW = "applyprune.dev/reconcile-now"
"""On a Bundle: each new value requests a reconcile at once."""
RECREATE = "applyprune.dev/recreate"
TIMEOUT = "applyprune.dev/timeout"
WAIT = "applyprune.dev/wait"
WAVE = "applyprune.dev/wave"

FARTHEST_WAVE = 1_000
DISABLED = "disabled"
"""The value of PRUNE."""
_BUNDLE, _ANY = BUNDLES.group_kind, GroupKind("", "")


def timeout_of(metadata: Mapping[str, object], origin: Origin) -> float | None:
    """Return how many seconds a wait for an object may take; None for that of the run."""
    text = mapping(metadata.get("annotations")).get(TIMEOUT)
    if text is None:
        return None
    try:
        return seconds_of(str(text))
    except ValueError as error:
        raise InputError(
            f"invalid {TIMEOUT}: {str(text)!r}",
            location=origin,
            reason=f"it {error}",
            field=("metadata", "annotations", TIMEOUT),
        ) from None


def recreate_rule(metadata: Mapping[str, object]) -> Recreate:
    """Return when a manifest allows to delete and recreate its object."""
    value = str(mapping(metadata.get("annotations")).get(RECREATE, ""))
    known = value in {Recreate.ALLOWED, Recreate.ON_CHANGE}
    return Recreate(value) if known else Recreate.NEVER


def wave_number(text: str) -> int | None:
    """Return the wave that a value of WAVE means; None if it means none."""
    digits = re.fullmatch(r"[+-]?[0-9]{1,9}", text.strip())
    wave = int(text) if digits else FARTHEST_WAVE + 1
    return wave if abs(wave) <= FARTHEST_WAVE else None


def _is_duration(value: str) -> bool:
    try:
        seconds_of(value)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Known:
    """A key under our prefix."""

    words: tuple[str, ...] = ()
    """All its values; empty if it has others."""
    accepts: Callable[[str], bool] | None = None
    """Whether a text is one of its values; None if that is so for its words, or for every text."""
    in_manifests: bool = True
    """Whether a manifest may have it; the others are only written by applyprune itself."""
    for_bundles: bool = False
    """Whether only a Bundle may have it: on another object it would promise what nobody does."""

    def has(self, value: str) -> bool:
        """Return whether a text is one of its values."""
        if self.accepts is not None:
            return self.accepts(value)
        return not self.words or value in self.words


_PRUNE = _Known((DISABLED,), lambda value: plain(value) == DISABLED)
_ANNOTATIONS: Mapping[str, _Known] = {
    ACCEPT_CLUSTER: _Known(for_bundles=True),
    APPLY: _Known((ApplyRule.DISABLED, ApplyRule.EXISTS, ApplyRule.ONCE)),
    APPROVE: _Known(),
    CONFLICTS: _Known(("force", "skip")),
    IGNORED: _Known(),
    MANIFEST_DIGEST: _Known(),
    ORPHAN: _Known(("true",), for_bundles=True),
    OWNED_BY: _Known(accepts=lambda value: re.fullmatch(r"applyset-[\w-]+-v1", value) is not None),
    PRUNE: _PRUNE,
    READY_WHEN: _Known(),
    RECONCILE_NOW: _Known(),
    RECREATE: _Known((Recreate.ALLOWED, Recreate.ON_CHANGE)),
    TIMEOUT: _Known(accepts=_is_duration),
    WAIT: _Known(("skip", "started")),
    WANTED: _Known(in_manifests=False),
    WAVE: _Known(accepts=lambda value: wave_number(value) is not None),
}
"""Every annotation under our prefix."""
_LABELS: Mapping[str, _Known] = {PRUNE: _PRUNE, SHARD_OF: _Known(in_manifests=False)}
"""Every label under our prefix."""
_PARTS: Mapping[str, tuple[str, Mapping[str, _Known]]] = {
    "annotations": ("annotation", _ANNOTATIONS),
    "labels": ("label", _LABELS),
}


def orphan_mark(metadata: Mapping[str, object]) -> str:
    """Return ``key: value`` of the first annotation that forbids deletion; empty if there is none.

    Flux reads its annotations from labels too, so all are searched in both. The value in the text
    is the documented one, never a text of the object.
    """
    for part in PARTS:
        value = mapping(metadata.get(part)).get(PRUNE)
        if value is not None and _PRUNE.has(str(value)):
            return f"{PRUNE}: {DISABLED}"
    return next((found.text for found in found_marks(metadata, Meaning.KEEP)), "")


def not_understood(metadata: Mapping[str, object], kind: GroupKind = _ANY) -> str:
    """Return the first annotation or label under our prefix with an unknown key or value.

    It is returned in words, without the value; empty if there is none. ``kind`` is the object's.
    """
    for part, key, value in _ours(metadata):
        name, table = _PARTS[part]
        known = table.get(key)
        if known is None or (known.for_bundles and kind != _BUNDLE):  # guard: orphan-of-a-bundle
            return f"the {name} {key}"
        if not known.has(value):
            return f"the value of the {name} {key}"
    return ""


def annotation_errors(
    metadata: Mapping[str, object], origin: Origin, kind: GroupKind = _ANY
) -> Iterator[InputError]:
    """Yield an error for each annotation or label under our prefix that a manifest may not have.

    Of values, only those that must be one of a few words are judged here. ``kind`` is the
    object's.
    """
    for part, key, value in _ours(metadata):
        name, table = _PARTS[part]
        known = table.get(key)
        if known is None:
            message, hint = f"unknown {name} {key}", _advice(part, key)
        elif not known.in_manifests:
            message, hint = f"only applyprune sets the {name} {key}", "Remove it from the manifest."
        elif known.for_bundles and kind != _BUNDLE:
            message = f"only a Bundle may have the {name} {key}"
            hint = f"To keep this object when it leaves the set: {PRUNE}: {DISABLED}"
        elif known.words and not known.has(value):
            words = " or ".join(f'"{word}"' for word in known.words)
            meant = did_you_mean(value, known.words)
            message = f"invalid {key}: {value!r}"
            hint = f"{meant} Use {words}, or remove the {name}.".lstrip()
        else:
            continue
        yield InputError(message, location=origin, hint=hint, field=("metadata", part, key))


def _ours(metadata: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    """Yield the part, key and value of each annotation and label under our prefix.

    The API server accepts capitals in the prefix of an annotation.
    """
    for part in _PARTS:
        for key, value in mapping(metadata.get(part)).items():
            if key.lower().startswith(PREFIX):
                yield part, key, str(value)


def _advice(part: str, key: str) -> str:
    """Return what to do about an unknown key."""
    name, table = _PARTS[part]
    if part == "labels" and key in _ANNOTATIONS:
        return "It is an annotation: move it to metadata.annotations."
    words = {
        other.removeprefix(PREFIX): other
        for other, known in table.items()
        if known.in_manifests and other not in {MANIFEST_DIGEST, OWNED_BY}
    }
    meant = closest(key.lower().removeprefix(PREFIX), words)
    if meant:
        return f"Did you mean {words[meant]}?"
    return f"The prefix {PREFIX} is reserved. Remove the {name}, or check its spelling."
