"""The annotations of applyprune, and those of other tools: what each means, and what follows.

They fail closed. A key under our prefix that is not in the table, or a value that its key does not
have, is an error in a manifest; a live object with one is not deleted. Another tool's annotation
keeps an object if any verb of that tool would keep it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from applyprune.errors import InputError
from applyprune.model.fieldset import NO_FIELDS, FieldSet
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.kinds import Trait, kinds_with
from applyprune.model.live import BUNDLES, mapping
from applyprune.model.options import parse_duration
from applyprune.model.plan import ApplyRule, OnConflict
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import and_more
from applyprune.planning.applyset import MANIFEST_DIGEST, OWNED_BY, SHARD_OF, WANTED
from applyprune.planning.names import closest, did_you_mean

if TYPE_CHECKING:
    from applyprune.model.problem import Manifest, Origin


PREFIX = "applyprune.dev/"
ACCEPT_CLUSTER = "applyprune.dev/accept-cluster"
"""On a Bundle: the UID of the cluster to which it may go, and leave its objects in another."""
APPLY = "applyprune.dev/apply"
APPROVE = "applyprune.dev/approve"
"""On a Bundle: the digest that is approved, of deletions or of a whole plan."""
CONFLICTS = "applyprune.dev/conflicts"
FINALIZER = "applyprune.dev/finalizer"
"""The finalizer of a Bundle: the controller has not yet removed the Bundle's objects."""
IGNORE_FIELDS = "applyprune.dev/ignore-fields"
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
DISABLED = "disabled"
"""The value of PRUNE."""
FARTHEST_WAVE = 1_000
PARTS = ("annotations", "labels")
"""Where marks are looked for: Flux reads its annotations from labels too."""
_BUNDLE, _ANY = BUNDLES.group_kind, GroupKind("", "")


def texts_of(metadata: Mapping[str, object], part: str) -> Mapping[str, object]:
    """Return the annotations or labels; without those that are null, which are not sent."""
    found = mapping(metadata.get(part))
    if None not in found.values():
        return found
    return {key: value for key, value in found.items() if value is not None}


class _KeyRule(Struct, frozen=True):
    """A key under our prefix."""

    words: tuple[str, ...] = ()
    """All its values in a manifest; empty if it has others."""
    old_words: tuple[str, ...] = ()
    """What live objects may have besides, from earlier versions."""
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
        return not self.words or value in {*self.words, *self.old_words}


_PRUNE = _KeyRule((DISABLED,), accepts=lambda value: plain(value) == DISABLED)


def orphan_mark(metadata: Mapping[str, object]) -> str:
    """Return ``key: value`` of the first annotation that forbids deletion; empty if there is none.

    Flux reads its annotations from labels too, so all are searched in both. The value in the text
    is the documented one, never a text of the object.
    """
    for part in PARTS:
        value = texts_of(metadata, part).get(PRUNE)
        if value is not None and _PRUNE.has(str(value)):
            return f"{PRUNE}: {DISABLED}"
    return next((found.text for found in found_marks(metadata, Meaning.ORPHAN)), "")


def _is_duration(value: str) -> bool:
    try:
        parse_duration(value)
    except ValueError:
        return False
    return True


_ANNOTATIONS: Mapping[str, _KeyRule] = {
    ACCEPT_CLUSTER: _KeyRule(for_bundles=True),
    APPLY: _KeyRule((ApplyRule.DISABLED, ApplyRule.EXISTS, ApplyRule.ONCE)),
    APPROVE: _KeyRule(),
    CONFLICTS: _KeyRule(tuple(word for word in OnConflict if word)),
    IGNORE_FIELDS: _KeyRule(),
    MANIFEST_DIGEST: _KeyRule(),
    ORPHAN: _KeyRule(("true",), for_bundles=True),
    OWNED_BY: _KeyRule(
        accepts=lambda value: re.fullmatch(r"applyset-[\w-]+-v1", value) is not None
    ),
    PRUNE: _PRUNE,
    READY_WHEN: _KeyRule(),
    RECONCILE_NOW: _KeyRule(),
    RECREATE: _KeyRule(("allowed",), old_words=("on-change",)),
    TIMEOUT: _KeyRule(accepts=_is_duration),
    WAIT: _KeyRule(("skip", "started")),
    WANTED: _KeyRule(in_manifests=False),
    WAVE: _KeyRule(accepts=lambda value: wave_number(value) is not None),
}
"""Every annotation under our prefix."""
_LABELS: Mapping[str, _KeyRule] = {PRUNE: _PRUNE, SHARD_OF: _KeyRule(in_manifests=False)}
"""Every label under our prefix."""
_TABLES = {"annotations": _ANNOTATIONS, "labels": _LABELS}


def unknown_mark(metadata: Mapping[str, object], kind: GroupKind = _ANY) -> str:
    """Return the first annotation or label under our prefix with an unknown key or value.

    It is returned in words, without the value; empty if there is none. ``kind`` is the object's.
    """
    for part, key, value in _own_marks(metadata):
        name, known = part.removesuffix("s"), _TABLES[part].get(key)
        # guard: orphan-of-a-bundle -> known is None
        if known is None or (known.for_bundles and kind != _BUNDLE):
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
    for part, key, value in _own_marks(metadata):
        name, known = part.removesuffix("s"), _TABLES[part].get(key)
        if known is None:
            message, hint = f"unknown {name} {key}", _advice(part, key)
        elif not known.in_manifests:
            message, hint = f"only applyprune sets the {name} {key}", "Remove it from the manifest."
        elif known.for_bundles and kind != _BUNDLE:
            message = f"only a Bundle may have the {name} {key}"
            hint = f"To keep this object when it is no longer in the input: {PRUNE}: {DISABLED}"
        elif known.words and (value in known.old_words or not known.has(value)):
            words = " or ".join(f'"{word}"' for word in known.words)
            meant = did_you_mean(value, known.words)
            message = f"invalid {key}: {value!r}"
            hint = f"{meant} Use {words}, or remove the {name}.".lstrip()
        else:
            continue
        yield InputError(message, location=origin, hint=hint, field=("metadata", part, key))


def _own_marks(metadata: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    """Yield the part, key and value of each annotation and label under our prefix.

    The API server accepts capitals in the prefix of an annotation.
    """
    for part in PARTS:
        for key, value in texts_of(metadata, part).items():
            if key.lower().startswith(PREFIX):
                yield part, key, str(value)


def _advice(part: str, key: str) -> str:
    if part == "labels" and key in _ANNOTATIONS:
        return "It is an annotation: move it to metadata.annotations."
    words = {
        other.removeprefix(PREFIX): other
        for other, known in _TABLES[part].items()
        if known.in_manifests and other not in {MANIFEST_DIGEST, OWNED_BY}
    }
    if meant := closest(key.lower().removeprefix(PREFIX), words):
        return f"Did you mean {words[meant]}?"
    name = part.removesuffix("s")
    return f"The prefix {PREFIX} is reserved. Remove the {name}, or check its spelling."


def timeout_of(metadata: Mapping[str, object], origin: Origin) -> float | None:
    """Return how many seconds a wait for an object may take; None for that of the run."""
    text = texts_of(metadata, "annotations").get(TIMEOUT)
    if text is None:
        return None
    try:
        return parse_duration(str(text))
    except ValueError as error:
        raise InputError(
            f"invalid {TIMEOUT}: {str(text)!r}",
            location=origin,
            reason=f"it {error}",
            field=("metadata", "annotations", TIMEOUT),
        ) from None


def wave_number(text: str) -> int | None:
    """Return the wave that a value of WAVE means; None if it means none."""
    digits = re.fullmatch(r"[+-]?[0-9]{1,9}", text.strip())
    wave = int(text) if digits else FARTHEST_WAVE + 1
    return wave if abs(wave) <= FARTHEST_WAVE else None


# The marks of other tools.
#
# The values are read as the sources of each tool read them. Helm trims and lowers the value of its
# resource policy, and its uninstall deletes no object that has the annotation, whatever its value.
# Flux ignores the case, and reads labels like annotations. kapp only looks whether ``exists`` and
# ``noop`` are there, documents no value but the empty one, and fails for a delete strategy that it
# does not know. kluctl reads a boolean as Go does. The others compare exactly.


_ARGO = "argocd.argoproj.io"
_ARGO_NAMED = "the Argo CD application {}"
_CLI_UTILS = "client.lifecycle.config.k8s.io"
_FLUX = "kustomize.toolkit.fluxcd.io"
_FALSE = ("false", "0", "f", "")


class Meaning(StrEnum):
    """What a mark of another tool means."""

    ORPHAN = "orphan"
    """The object is orphaned, not deleted."""
    LEAVE = "leave"
    """The manifest is not applied, and the object stays as it is."""
    CREATE_ONLY = "create-only"
    """The object is created if it does not exist, and never changed."""
    EXISTS = "exists"
    """The object must exist, and belongs to somebody else."""
    HOOK = "hook"
    """The object is applied at certain events of a run."""
    ORDER = "order"
    """When the object is applied."""
    RECREATE = "recreate"
    """The object may be replaced, or deleted and created again."""
    WAIT = "wait"
    """Whether its readiness counts."""


def found_marks(metadata: Mapping[str, object], *meanings: Meaning) -> Iterator[FoundMark]:
    """Yield the marks of other tools that mean one of ``meanings``, in the order of the table."""
    for part in PARTS:
        if _PEER_KEYS.isdisjoint(mapping(metadata.get(part))):
            continue  # as nearly always: there may be 100,000 objects
        there = texts_of(metadata, part)
        for mark in PEER_MARKS:
            if mark.meaning not in meanings or mark.key not in there:
                continue
            if (value := mark.read(str(there[mark.key]))) is not None:
                yield FoundMark(mark, part, value)


class FoundMark(Struct, frozen=True):
    """A mark of another tool on an object or a manifest."""

    mark: PeerMark
    part: str
    value: str
    """The documented value that it has; empty if it has another one that counts as that."""

    @property
    def text(self) -> str:
        """Return ``key: value``, without any text of the object itself."""
        return f"{self.mark.key}: {self.value}" if self.value else self.mark.key


def unknown_values(
    metadata: Mapping[str, object], *meanings: Meaning
) -> Iterator[tuple[str, str, str]]:
    """Yield the part, key and value of each mark whose value its tool would not understand.

    Only keys that can mean one of ``meanings`` count.
    """
    for part in PARTS:
        if _PEER_KEYS.isdisjoint(mapping(metadata.get(part))):
            continue
        there = texts_of(metadata, part)
        asked = {mark.key for mark in PEER_MARKS if mark.meaning in meanings}
        for key, value in there.items():
            if key in asked and not _is_known(key, str(value)):
                yield part, key, str(value)


def known_values(key: str) -> tuple[str, ...]:
    """Return the values that a mark may have, without what only spells one of them differently."""
    marks = [mark for mark in PEER_MARKS if mark.key == key]
    documented = [value for mark in marks for value in mark.documented]
    others = [value for mark in marks for value in mark.others or () if len(value) > 1]
    return tuple(dict.fromkeys((*documented, *others)))


def _is_known(key: str, value: str) -> bool:
    return any(
        mark.others is None
        or plain(value) in map(plain, mark.others)
        or mark.read(value) is not None
        for mark in PEER_MARKS
        if mark.key == key
    )


def owner_marks(
    labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Iterator[tuple[OwnerMark, str]]:
    """Yield the marks by which other tools own an object, with their values."""
    for mark in OWNER_MARKS:
        there = labels if mark.part == "labels" else annotations
        if text := there.get(mark.key):
            yield mark, text


def owner_named(
    mark: OwnerMark, text: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> str:
    """Return the owner by a mark, as ``the Helm release web in namespace shop``."""
    name = text.partition(mark.ends_at)[0] if mark.ends_at else text
    there = labels if mark.part == "labels" else annotations
    namespace = there.get(mark.namespace, "") if mark.namespace else ""
    return mark.named.format(name) + (f" in namespace {namespace}" if namespace else "")


class PeerMark(Struct, frozen=True):
    """An annotation or label of another tool, with one of its meanings."""

    tool: str
    key: str
    meaning: Meaning
    way: _Way
    documented: tuple[str, ...] = ()
    """Its documented values that mean that."""
    others: tuple[str, ...] | None = None
    """The values that mean nothing to applyprune, in any case; None if all others do."""
    instead: str = ""
    """What is true of a mark that is not read, and what to use; the hint of its warning."""

    def read(self, value: str) -> str | None:
        """Return the documented value that a text is; None if it does not have the meaning.

        Return an empty text for another value that has the meaning.
        """
        return self.way(value, self.documented)


_Way: TypeAlias = "Callable[[str, tuple[str, ...]], str | None]"
"""How a value is read, as ``PeerMark.read`` does; with the documented ones."""


def plain(value: str) -> str:
    """Return a value without the spaces around it, in lower case."""
    return value.strip().lower()


class OwnerMark(Struct, frozen=True):
    """An annotation or label by which another tool owns an object."""

    tool: str
    part: str
    key: str
    named: str
    """What owns the object, with its value as ``{}``."""
    namespace: str = ""
    """The annotation or label with the namespace of the owner; empty if there is none."""
    ends_at: str = ""
    """Where the name of the owner ends in the value; empty if the value is the name."""
    managers: frozenset[str] = frozenset()
    """The field managers by which the tool writes it; empty if nobody else uses the key."""


OWNER_MARKS: tuple[OwnerMark, ...] = (
    OwnerMark(
        "Helm", "annotations", "meta.helm.sh/release-name", "the Helm release {}",
        "meta.helm.sh/release-namespace",
    ),
    OwnerMark("Flux", "labels", f"{_FLUX}/name", "the Flux Kustomization {}", f"{_FLUX}/namespace"),
    OwnerMark(
        "Flux", "labels", "helm.toolkit.fluxcd.io/name", "the Flux HelmRelease {}",
        "helm.toolkit.fluxcd.io/namespace",
    ),
    OwnerMark("Argo CD", "annotations", f"{_ARGO}/tracking-id", _ARGO_NAMED, ends_at=":"),
    OwnerMark("Argo CD", "labels", f"{_ARGO}/instance", _ARGO_NAMED),
    OwnerMark(
        "Argo CD", "labels", "app.kubernetes.io/instance", _ARGO_NAMED,
        managers=frozenset({"argocd-application-controller", "argocd-controller"}),
    ),
    OwnerMark("kapp", "labels", "kapp.k14s.io/app", "the kapp app {}"),
    OwnerMark(
        "cli-utils", "annotations", "config.k8s.io/owning-inventory", "the cli-utils inventory {}"
    ),
    OwnerMark("kluctl", "labels", "kluctl.io/discriminator", "the kluctl target {}"),
    OwnerMark("Config Sync", "annotations", "configsync.gke.io/resource-id", "Config Sync, as {}"),
    OwnerMark("Fleet", "annotations", "objectset.rio.cattle.io/id", "the Fleet bundle {}"),
    OwnerMark("OLM", "labels", "olm.owner", "the OLM operator {}"),
)  # fmt: skip
"""The marks by which other tools own an object: it is not adopted unless the user says so."""
TOOL_MANAGERS: Mapping[str, frozenset[str]] = {
    "Helm": frozenset({"helm"}),
    "Flux": frozenset({"helm-controller", "kustomize-controller"}),
    "Argo CD": frozenset({"argocd-application-controller", "argocd-controller"}),
    "kapp": frozenset({"kapp"}),
    "kluctl": frozenset({"kluctl", "kluctl-controller"}),
}
"""The field managers by which tools apply what they have rendered, but for that of kubectl."""


# The marks that go when a set takes an object in.
#
# They say nothing but whose the object is, so only their own tool reads them. What else it writes
# may be a wish of the user, such as kapp's ``delete-strategy``, or what others select by, such as
# ``app.kubernetes.io/instance``: that stays. A mark here is the object's own, never one in a
# selector or in the template of its Pods.


class PureMark(Struct, frozen=True):
    """An annotation or label that only says which tool has made an object, or for what."""

    tool: str
    part: str
    key: str
    value: str = ""
    """The value that makes it a mark; empty if each does."""


def _pure(tool: str, part: str, prefix: str, *names: str) -> tuple[PureMark, ...]:
    return tuple(PureMark(tool, part, f"{prefix}/{name}") for name in names)


PURE_MARKS: tuple[PureMark, ...] = (
    *_pure("Helm", "annotations", "meta.helm.sh", "release-name", "release-namespace"),
    PureMark("Helm", "labels", "app.kubernetes.io/managed-by", "Helm"),
    *_pure("Flux", "labels", _FLUX, "name", "namespace", "checksum"),
    *_pure("Flux", "annotations", _FLUX, "checksum"),
    *_pure("Flux", "labels", "helm.toolkit.fluxcd.io", "name", "namespace"),
    *_pure("Argo CD", "annotations", _ARGO, "tracking-id", "installation-id"),
    *_pure("Argo CD", "labels", _ARGO, "instance"),
    *_pure("kapp", "labels", "kapp.k14s.io", "app", "association"),
    *_pure(
        "kapp", "annotations", "kapp.k14s.io",
        "identity", "nonce", "original", "original-diff", "original-diff-full", "original-diff-md5",
    ),
    *_pure("cli-utils", "annotations", "config.k8s.io", "owning-inventory"),
    *_pure("kluctl", "labels", "kluctl.io", "discriminator"),
    *_pure("kluctl", "annotations", "kluctl.io", "deployment-item-dir"),
)  # fmt: skip
"""All of them."""
PURE_KEYS = frozenset(mark.key for mark in PURE_MARKS if not mark.value)
"""Their keys, but for those that are a mark by their value only."""
_LABELS_STAY = kinds_with(Trait.SELECTED)


def pure_marks(
    kind: GroupKind, labels: Mapping[str, object], annotations: Mapping[str, object]
) -> Iterator[tuple[str, str]]:
    """Yield the part and the key of each such mark of an object of a kind.

    Of what selectors choose by its labels, all labels stay: without one, a Pod would leave its
    ReplicaSet.
    """
    keeps = kind in _LABELS_STAY  # guard: labels-of-pods -> False
    # guard: only-marks -> (*PURE_MARKS, *(PureMark("", "annotations", key) for key in _PEER_KEYS))
    for mark in PURE_MARKS:
        there = labels if mark.part == "labels" else annotations
        if mark.key not in there or (keeps and mark.part == "labels"):
            continue
        # guard: managed-by-others always
        if not mark.value or there[mark.key] == mark.value:
            yield mark.part, mark.key


def _word(value: str, documented: tuple[str, ...]) -> str | None:
    return next((one for one in documented if plain(one) == plain(value)), None)


def _any(value: str, documented: tuple[str, ...]) -> str | None:
    return _word(value, documented) or ""


def _any_but_empty(value: str, documented: tuple[str, ...]) -> str | None:
    return _any(value, documented) if value else None


def _true(value: str, _: tuple[str, ...]) -> str | None:
    return "true" if plain(value) in {"1", "t", "true"} else None


def _not_zero(value: str, _: tuple[str, ...]) -> str | None:
    return None if re.fullmatch(r"[+-]?0*", value.strip()) else ""


def _option(value: str, documented: tuple[str, ...]) -> str | None:
    """Read a list with commas that has one of these options."""
    asked = set(map(plain, value.split(",")))
    return next((option for option in documented if plain(option) in asked), None)


def _only(value: str, documented: tuple[str, ...]) -> str | None:
    """Read a list with commas of nothing but these."""
    items = {plain(item) for item in value.split(",") if item.strip()}
    return _option(value, documented) if items <= set(map(plain, documented)) else None


_TRUE = ("true",)
# Each says what applyprune does, and names only what does the same as the mark.
_BY_WAVE = f"Use {WAVE} instead."
_NO_HOOK = (
    f"applyprune applies it as any other object, in the order of {WAVE}. A Job runs once: to run "
    "it again, give it another name."
)
_BY_NEED = "Use config.kubernetes.io/depends-on instead."
_IF_NEEDED = (
    f"Use {RECREATE}: allowed instead. It deletes the object and creates it again only where the "
    "object cannot be changed in place."
)
_IN_PLACE = (
    "applyprune changes the object in place, and has nothing that replaces it at each change. For "
    f"a change that cannot be made in place: {RECREATE}: allowed."
)
_WHOLE = (
    "A server-side apply needs no replacement of large objects. Fields of others stay: "
    "--take-over MANAGER lets the apply remove them."
)
_NO_WAIT = f"Use {WAIT}: skip instead."
PEER_MARKS: tuple[PeerMark, ...] = (
    PeerMark("Helm", "helm.sh/resource-policy", Meaning.ORPHAN, _any, ("keep",)),
    PeerMark("cli-utils", f"{_CLI_UTILS}/deletion", Meaning.ORPHAN, _word, ("detach",)),
    PeerMark("cli-utils", "cli-utils.sigs.k8s.io/on-remove", Meaning.ORPHAN, _word, ("keep",)),
    PeerMark("Flux", f"{_FLUX}/prune", Meaning.ORPHAN, _word, ("disabled",)),
    PeerMark("Flux", f"{_FLUX}/reconcile", Meaning.ORPHAN, _word, ("disabled",)),
    PeerMark("kapp", "kapp.k14s.io/delete-strategy", Meaning.ORPHAN, _any_but_empty, ("orphan",)),
    PeerMark("kluctl", "kluctl.io/skip-delete", Meaning.ORPHAN, _true, _TRUE),
    PeerMark(
        "Argo CD", f"{_ARGO}/sync-options", Meaning.ORPHAN, _option,
        ("Delete=confirm", "Delete=false", "Prune=confirm", "Prune=false"),
    ),
    PeerMark("kapp", "kapp.k14s.io/noop", Meaning.LEAVE, _word, ("",), ()),
    PeerMark("kluctl", "kluctl.io/ignore", Meaning.LEAVE, _true, _TRUE, _FALSE),
    PeerMark(
        "Flux", f"{_FLUX}/ssa", Meaning.LEAVE, _word, ("Ignore",), ("Merge", "Override", "")
    ),
    PeerMark("Flux", f"{_FLUX}/reconcile", Meaning.LEAVE, _word, ("disabled",)),
    PeerMark(
        "Argo CD", f"{_ARGO}/hook", Meaning.LEAVE, _only,
        ("PostDelete", "PreDelete", "Skip", "SyncFail"),
    ),
    PeerMark(
        "kpt", "config.kubernetes.io/local-config", Meaning.LEAVE, _word, _TRUE, ("false",)
    ),
    PeerMark("kapp", "kapp.k14s.io/exists", Meaning.EXISTS, _word, ("",), ()),
    PeerMark("Flux", f"{_FLUX}/ssa", Meaning.CREATE_ONLY, _word, ("IfNotPresent",), ()),
    PeerMark("cli-utils", f"{_CLI_UTILS}/mutation", Meaning.CREATE_ONLY, _word, ("ignore",), ()),
    PeerMark(
        "Argo CD", f"{_ARGO}/hook", Meaning.HOOK, _option, ("PostSync", "PreSync", "Sync"),
        instead=_NO_HOOK,
    ),
    PeerMark("kluctl", "kluctl.io/hook", Meaning.HOOK, _any, ("",), instead=_NO_HOOK),
    PeerMark("Argo CD", f"{_ARGO}/sync-wave", Meaning.ORDER, _not_zero, instead=_BY_WAVE),
    PeerMark("Helm", "helm.sh/hook-weight", Meaning.ORDER, _not_zero, instead=_BY_WAVE),
    PeerMark("kluctl", "kluctl.io/hook-weight", Meaning.ORDER, _not_zero, instead=_BY_WAVE),
    PeerMark("kluctl", "kluctl.io/barrier", Meaning.ORDER, _true, _TRUE, instead=_BY_WAVE),
    PeerMark(
        "kapp", "kapp.k14s.io/change-rule", Meaning.ORDER, _any, ("",), instead=_BY_NEED,
    ),
    PeerMark(
        "Argo CD", f"{_ARGO}/sync-options", Meaning.RECREATE, _option, ("Force=true",),
        instead=_IF_NEEDED,
    ),
    PeerMark(
        "Argo CD", f"{_ARGO}/sync-options", Meaning.RECREATE, _option, ("Replace=true",),
        instead=_WHOLE,
    ),
    PeerMark("Flux", f"{_FLUX}/force", Meaning.RECREATE, _word, ("Enabled",), instead=_IF_NEEDED),
    PeerMark(
        "kapp", "kapp.k14s.io/update-strategy", Meaning.RECREATE, _word, ("fallback-on-replace",),
        instead=_IF_NEEDED,
    ),
    PeerMark(
        "kapp", "kapp.k14s.io/update-strategy", Meaning.RECREATE, _word, ("always-replace",),
        instead=_IN_PLACE,
    ),
    PeerMark("kapp", "kapp.k14s.io/disable-wait", Meaning.WAIT, _any, ("",), instead=_NO_WAIT),
    PeerMark(
        "Argo CD", f"{_ARGO}/ignore-healthcheck", Meaning.WAIT, _true, _TRUE, instead=_NO_WAIT,
    ),
)  # fmt: skip
"""Every other mark that applyprune knows. ``desired.py`` reads Helm's hooks.

An Argo CD hook that must never run in an apply is left out, like such a hook of a chart.
"""
_PEER_KEYS = frozenset(mark.key for mark in PEER_MARKS)


# Whether a manifest is applied in each run, by its own annotation or another tool's.


_LEAVE_KEYS = frozenset({APPLY}).union(
    mark.key for mark in PEER_MARKS if mark.meaning is Meaning.LEAVE
)
_NOT_READ = frozenset(mark.meaning for mark in PEER_MARKS if mark.instead)
_SHOWN = 3
_OWN_RULES = frozenset({ApplyRule.DISABLED, ApplyRule.EXISTS, ApplyRule.ONCE})
_APPLY_RULES = {
    Meaning.LEAVE: ApplyRule.DISABLED,
    Meaning.EXISTS: ApplyRule.EXISTS,
    Meaning.CREATE_ONLY: ApplyRule.ONCE,
}
"""The rule of each meaning; the one that does least comes first."""


def apply_rule(metadata: Mapping[str, object]) -> tuple[ApplyRule, str]:
    """Return whether a manifest is applied in each run, and the annotation that says otherwise.

    Our own annotation decides. Of several marks of other tools, the one that does least decides.
    """
    value = str(texts_of(metadata, "annotations").get(APPLY, ""))
    if value in _OWN_RULES:
        return ApplyRule(value), f"{APPLY}: {value}"
    found = {one.mark.meaning: one for one in found_marks(metadata, *_APPLY_RULES)}
    for meaning, rule in _APPLY_RULES.items() if found else ():
        if meaning in found:
            return rule, found[meaning].text
    return ApplyRule.ALWAYS, ""


def is_disabled(manifest: Manifest) -> bool:
    return apply_rule(mapping(manifest.body.get("metadata")))[0] is ApplyRule.DISABLED


def is_created_once(live: Mapping[str, object], ours: FieldSet) -> bool:
    """Return whether a live object was created by a manifest that asks to leave it alone then.

    ``ours`` are the fields of our own Apply entry: only what the manifest has written counts.
    """
    own = {
        part: {
            key: value
            for key, value in mapping(live.get(part)).items()
            if key in _own_keys(ours, part)
        }
        for part in PARTS
    }
    return apply_rule(own)[0] is ApplyRule.ONCE


def leave_mark(live: Mapping[str, object], ours: FieldSet = NO_FIELDS) -> str:
    """Return which annotation of a live object says to leave it as it is; empty if none does.

    A value that is not understood says so too. ``ours`` are the fields of our own Apply entry:
    what our last apply wrote counts for nothing, because the manifest decides about that.
    """
    for part in PARTS:
        if _LEAVE_KEYS.isdisjoint(mapping(live.get(part))):
            continue
        own = _own_keys(ours, part)
        there = {key: value for key, value in mapping(live.get(part)).items() if key not in own}
        if part == "annotations" and APPLY in there:
            value = plain(str(there[APPLY]))
            if value not in {ApplyRule.ONCE, ApplyRule.EXISTS}:
                return f"{APPLY}: {value}" if value == ApplyRule.DISABLED else APPLY
        for found in found_marks({part: there}, Meaning.LEAVE):
            return found.text
        for _, key, _ in unknown_values({part: there}, Meaning.LEAVE):
            return key
    return ""


def _own_keys(ours: FieldSet, part: str) -> Collection[object]:
    """Return the keys of the annotations or labels that our Apply entry has."""
    return ours.at(("metadata", part)).below.keys()


def is_wish(key: object) -> bool:
    """Return whether an annotation or label says what to do with its object, ours or a tool's."""
    return key in _PEER_KEYS or str(key).startswith(PREFIX)


def peer_errors(metadata: Mapping[str, object], origin: Origin) -> Iterator[InputError]:
    """Yield an error for each mark of another tool about the apply with an unknown value."""
    for part, key, value in unknown_values(metadata, *_APPLY_RULES):
        words = " or ".join(f'"{known}"' for known in known_values(key))
        yield InputError(
            f"invalid {key}: {value!r}",
            location=origin,
            reason="it may say that the manifest is not applied",
            hint=f"Use {words}, or remove the {part.removesuffix('s')}.",
            field=("metadata", part, key),
        )


def unread_marks(manifests: Iterable[Manifest]) -> Iterator[Problem]:
    """Yield a warning for each mark of another tool that is not read, with all its manifests.

    One that is left out needs none.
    """
    found: dict[str, list[tuple[Manifest, FoundMark]]] = {}
    for manifest in manifests:
        if not any(map(manifest.packed.mentions, PARTS)):
            continue
        marks = list(found_marks(mapping(manifest.body.get("metadata")), *_NOT_READ))
        if not marks or is_disabled(manifest):
            continue
        for one in marks:
            found.setdefault(one.text, []).append((manifest, one))
    for text, marked in found.items():
        manifest, first = marked[0]
        named = and_more(
            [
                f"{Ref(each.gvk.group, each.gvk.kind, '', each.name).short} in {each.origin}"
                for each, _ in marked
            ],
            _SHOWN,
        )
        yield Problem(
            kind=ProblemKind.IGNORED_ANNOTATION,
            message=f"the annotation {text} of {first.mark.tool} is not read",
            location=str(manifest.origin),
            origin=manifest.origin,
            field=("metadata", first.part, first.mark.key),
            reason=named,
            hint=first.mark.instead,
        )
