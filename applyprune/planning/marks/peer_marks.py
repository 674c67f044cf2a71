"""The marks of other tools: what each means, and what applyprune does about it.

The values are read as the sources of each tool read them. Helm trims and lowers the value of its
resource policy, and its uninstall deletes no object that has the annotation, whatever its value.
Flux ignores the case, and reads labels like annotations. kapp only looks whether ``exists`` and
``noop`` are there, documents no value but the empty one, and fails for a delete strategy that it
does not know. kluctl reads a boolean as Go does. The others compare exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

from applyprune.model.live import mapping
from applyprune.values import dataclass

PARTS = ("annotations", "labels")
"""Where marks are looked for: Flux reads its annotations from labels too."""


class Handling(StrEnum):
    """What applyprune does about a mark of another tool."""

    HONOURED = "honoured"
    REFUSED = "refused"
    NAMED = "named"
    """A warning says that it is not read, and what to write instead."""


class Meaning(StrEnum):
    """What a mark of another tool means."""

    OWNERSHIP = "ownership"
    """The tool manages the object."""
    KEEP = "keep"
    """The object is not deleted."""
    LEAVE_OUT = "leave-out"
    """The manifest is not applied, and the object is left alone."""
    CREATE_ONLY = "create-only"
    """The object is created if it does not exist, and never changed."""
    EXISTS = "exists"
    """The object must exist, and belongs to somebody else."""
    HOOK = "hook"
    """The object is applied at certain events of a run."""
    ORDER = "order"
    """When the object is applied."""
    RECREATE = "recreate"
    """The object may be deleted and created again."""
    WAIT = "wait"
    """Whether its readiness counts."""

    @property
    def handling(self) -> Handling:
        """Return what applyprune does about such a mark."""
        if self is Meaning.OWNERSHIP:
            return Handling.REFUSED
        named = self in {Meaning.HOOK, Meaning.ORDER, Meaning.RECREATE, Meaning.WAIT}
        return Handling.NAMED if named else Handling.HONOURED


def plain(value: str) -> str:
    """Return a value without the spaces around it, in lower case."""
    return value.strip().lower()


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a mark that have its meaning."""

    documented: tuple[str, ...]
    read: Callable[[str], str | None]
    """Returns the documented value that a text is; None if it does not have the meaning.

    It returns an empty text for another value that has the meaning.
    """


def _word(documented: str) -> Values:
    return Values(
        (documented,), lambda value: documented if plain(value) == plain(documented) else None
    )


def _any_value(documented: str = "") -> Values:
    return Values(
        (documented,), lambda value: documented if plain(value) == plain(documented) else ""
    )


def _not_empty(documented: str) -> Values:
    any_value = _any_value(documented)
    return Values((documented,), lambda value: any_value.read(value) if value else None)


def _options(*documented: str) -> Values:
    """Return the values that have one of several options in a list with commas."""

    def read(value: str) -> str | None:
        asked = set(map(plain, value.split(",")))
        return next((option for option in documented if plain(option) in asked), None)

    return Values(documented, read)


def _only(*documented: str) -> Values:
    """Return the values that are a list with commas of nothing but these."""
    some = _options(*documented)

    def read(value: str) -> str | None:
        items = [plain(item) for item in value.split(",") if item.strip()]
        return some.read(value) if set(map(plain, documented)).issuperset(items) else None

    return Values(documented, read)


_TRUE = Values(("true",), lambda value: "true" if plain(value) in {"1", "t", "true"} else None)
_NOT_ZERO = Values((), lambda value: None if re.fullmatch(r"[+-]?0*", value.strip()) else "")


@dataclass(frozen=True, slots=True)
class PeerMark:
    """An annotation or label of another tool, with one of its meanings."""

    tool: str
    key: str
    meaning: Meaning
    values: Values
    """Which of its values mean that."""
    others: tuple[str, ...] | None = ()
    """The values that mean nothing to applyprune, in any case; None if all others do."""
    instead: str = ""
    """The annotation of applyprune to use instead, for a mark that is only named."""


@dataclass(frozen=True, slots=True)
class OwnerMark:
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

    meaning = Meaning.OWNERSHIP


_FLUX = "kustomize.toolkit.fluxcd.io"
_FALSE = ("false", "0", "f", "")

OWNER_MARKS: tuple[OwnerMark, ...] = (
    OwnerMark(
        "Helm",
        "annotations",
        "meta.helm.sh/release-name",
        "the Helm release {}",
        "meta.helm.sh/release-namespace",
    ),
    OwnerMark("Flux", "labels", f"{_FLUX}/name", "the Flux Kustomization {}", f"{_FLUX}/namespace"),
    OwnerMark(
        "Flux",
        "labels",
        "helm.toolkit.fluxcd.io/name",
        "the Flux HelmRelease {}",
        "helm.toolkit.fluxcd.io/namespace",
    ),
    OwnerMark(
        "Argo CD",
        "annotations",
        "argocd.argoproj.io/tracking-id",
        "the Argo CD application {}",
        ends_at=":",
    ),
    OwnerMark("Argo CD", "labels", "argocd.argoproj.io/instance", "the Argo CD application {}"),
    OwnerMark(
        "Argo CD",
        "labels",
        "app.kubernetes.io/instance",
        "the Argo CD application {}",
        managers=frozenset({"argocd-controller", "argocd-application-controller"}),
    ),
    OwnerMark("kapp", "labels", "kapp.k14s.io/app", "the kapp app {}"),
    OwnerMark(
        "cli-utils", "annotations", "config.k8s.io/owning-inventory", "the cli-utils inventory {}"
    ),
    OwnerMark("kluctl", "labels", "kluctl.io/discriminator", "the kluctl target {}"),
    OwnerMark("Config Sync", "annotations", "configsync.gke.io/resource-id", "Config Sync, as {}"),
    OwnerMark("Fleet", "annotations", "objectset.rio.cattle.io/id", "the Fleet bundle {}"),
    OwnerMark("OLM", "labels", "olm.owner", "the OLM operator {}"),
)
"""The marks by which other tools own an object: it is not adopted unless the user says so."""

PEER_MARKS: tuple[PeerMark, ...] = (
    PeerMark("Helm", "helm.sh/resource-policy", Meaning.KEEP, _any_value("keep")),
    PeerMark(
        "cli-utils", "client.lifecycle.config.k8s.io/deletion", Meaning.KEEP, _word("detach"), None
    ),
    PeerMark("cli-utils", "cli-utils.sigs.k8s.io/on-remove", Meaning.KEEP, _word("keep"), None),
    PeerMark("Flux", f"{_FLUX}/prune", Meaning.KEEP, _word("disabled"), None),
    PeerMark("Flux", f"{_FLUX}/reconcile", Meaning.KEEP, _word("disabled"), None),
    PeerMark("kapp", "kapp.k14s.io/delete-strategy", Meaning.KEEP, _not_empty("orphan"), None),
    PeerMark("kluctl", "kluctl.io/skip-delete", Meaning.KEEP, _TRUE, None),
    PeerMark(
        "Argo CD",
        "argocd.argoproj.io/sync-options",
        Meaning.KEEP,
        _options("Delete=confirm", "Delete=false", "Prune=confirm", "Prune=false"),
        None,
    ),
    PeerMark("kapp", "kapp.k14s.io/noop", Meaning.LEAVE_OUT, _word("")),
    PeerMark("kluctl", "kluctl.io/ignore", Meaning.LEAVE_OUT, _TRUE, _FALSE),
    PeerMark("Flux", f"{_FLUX}/ssa", Meaning.LEAVE_OUT, _word("Ignore"), ("Merge", "Override", "")),
    PeerMark("Flux", f"{_FLUX}/reconcile", Meaning.LEAVE_OUT, _word("disabled"), None),
    PeerMark(
        "Argo CD",
        "argocd.argoproj.io/hook",
        Meaning.LEAVE_OUT,
        _only("PostDelete", "PreDelete", "Skip", "SyncFail"),
        None,
    ),
    PeerMark(
        "kpt", "config.kubernetes.io/local-config", Meaning.LEAVE_OUT, _word("true"), ("false",)
    ),
    PeerMark("kapp", "kapp.k14s.io/exists", Meaning.EXISTS, _word("")),
    PeerMark("Flux", f"{_FLUX}/ssa", Meaning.CREATE_ONLY, _word("IfNotPresent")),
    PeerMark(
        "cli-utils", "client.lifecycle.config.k8s.io/mutation", Meaning.CREATE_ONLY, _word("ignore")
    ),
    PeerMark(
        "Argo CD",
        "argocd.argoproj.io/hook",
        Meaning.HOOK,
        _options("PostSync", "PreSync", "Sync"),
        None,
        "applyprune.dev/wave",
    ),
    PeerMark("kluctl", "kluctl.io/hook", Meaning.HOOK, _any_value(), None, "applyprune.dev/wave"),
    PeerMark(
        "Argo CD",
        "argocd.argoproj.io/sync-wave",
        Meaning.ORDER,
        _NOT_ZERO,
        None,
        "applyprune.dev/wave",
    ),
    PeerMark("Helm", "helm.sh/hook-weight", Meaning.ORDER, _NOT_ZERO, None, "applyprune.dev/wave"),
    PeerMark(
        "kluctl", "kluctl.io/hook-weight", Meaning.ORDER, _NOT_ZERO, None, "applyprune.dev/wave"
    ),
    PeerMark("kluctl", "kluctl.io/barrier", Meaning.ORDER, _TRUE, None, "applyprune.dev/wave"),
    PeerMark(
        "kapp",
        "kapp.k14s.io/change-rule",
        Meaning.ORDER,
        _any_value(),
        None,
        "config.kubernetes.io/depends-on",
    ),
    PeerMark(
        "Argo CD",
        "argocd.argoproj.io/sync-options",
        Meaning.RECREATE,
        _options("Force=true", "Replace=true"),
        None,
        "applyprune.dev/recreate",
    ),
    PeerMark(
        "Flux",
        f"{_FLUX}/force",
        Meaning.RECREATE,
        _word("Enabled"),
        None,
        "applyprune.dev/recreate",
    ),
    PeerMark(
        "kapp",
        "kapp.k14s.io/update-strategy",
        Meaning.RECREATE,
        _options("always-replace", "fallback-on-replace"),
        None,
        "applyprune.dev/recreate",
    ),
    PeerMark(
        "kapp", "kapp.k14s.io/disable-wait", Meaning.WAIT, _any_value(), None, "applyprune.dev/wait"
    ),
    PeerMark(
        "Argo CD",
        "argocd.argoproj.io/ignore-healthcheck",
        Meaning.WAIT,
        _TRUE,
        None,
        "applyprune.dev/wait",
    ),
)
"""Every other mark that applyprune knows. ``planning.checks.helm_hooks`` reads Helm's hooks.

An Argo CD hook that must never run in an apply is left out, like such a hook of a chart.
"""
_KEYS = frozenset(mark.key for mark in PEER_MARKS)


@dataclass(frozen=True, slots=True)
class FoundMark:
    """A mark of another tool on an object or a manifest."""

    mark: PeerMark
    part: str
    value: str
    """The documented value that it has; empty if it has another one that counts as that."""

    @property
    def text(self) -> str:
        """Return ``key: value``, without any text of the object itself."""
        return f"{self.mark.key}: {self.value}" if self.value else self.mark.key


def found_marks(metadata: Mapping[str, object], *meanings: Meaning) -> Iterator[FoundMark]:
    """Yield the marks of other tools that mean one of ``meanings``, in the order of the table."""
    for part in PARTS:
        there = mapping(metadata.get(part))
        if _KEYS.isdisjoint(there):
            continue  # as nearly always: there may be 100,000 objects
        for mark in PEER_MARKS:
            if mark.meaning not in meanings or mark.key not in there:
                continue
            if (value := mark.values.read(str(there[mark.key]))) is not None:
                yield FoundMark(mark, part, value)


def unknown_values(
    metadata: Mapping[str, object], *meanings: Meaning
) -> Iterator[tuple[str, str, str]]:
    """Yield the part, key and value of each mark whose value its tool would not understand.

    Only keys that can mean one of ``meanings`` count.
    """
    for part in PARTS:
        there = mapping(metadata.get(part))
        if _KEYS.isdisjoint(there):
            continue
        asked = {mark.key for mark in PEER_MARKS if mark.meaning in meanings}
        for key, value in there.items():
            if key in asked and not _is_known(key, str(value)):
                yield part, key, str(value)


def known_values(key: str) -> tuple[str, ...]:
    """Return the values that a mark may have, without what only spells one of them differently."""
    marks = [mark for mark in PEER_MARKS if mark.key == key]
    documented = [value for mark in marks for value in mark.values.documented]
    others = [value for mark in marks for value in mark.others or () if len(value) > 1]
    return tuple(dict.fromkeys((*documented, *others)))


def _is_known(key: str, value: str) -> bool:
    return any(
        mark.others is None
        or plain(value) in map(plain, mark.others)
        or mark.values.read(value) is not None
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
