"""Resolve the names by which users call kinds: those that kubectl takes.

A kind has its plural, its singular, its kind in any case, and short names. Each may be followed by
``.GROUP`` or ``.VERSION.GROUP``. Without a group, the first match in the server's order counts, as
in kubectl. One difference keeps a CustomResourceDefinition from capturing a name: a short name
never hides the plural, the singular or the kind of another resource.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from applyprune.errors import UsageError
from applyprune.model.identity import GroupKind
from applyprune.model.live import CRD
from applyprune.planning.schema.crd import defined_resources
from applyprune.planning.suggest import did_you_mean
from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.model.inventory import Inventory
    from applyprune.model.live import Resource, ResourceMap
    from applyprune.model.problem import Manifest

_FORMS = "Write KIND/NAME, KIND.GROUP/NAME or NAMESPACE/KIND/NAME: deployment.apps/web."
_LONGEST = 3


class UnknownKind(UsageError):
    """A name that no kind has, neither served nor in the set nor in the input."""


class _Words(NamedTuple):
    names: frozenset[str]
    short_names: frozenset[str]
    versions: frozenset[str]


class NamedObject(NamedTuple):
    """The object that a text names, and the other kinds that the text may mean."""

    text: str
    """The exact name, as ``Ref.is_among`` takes it."""
    kind: GroupKind
    name: str
    others: tuple[GroupKind, ...]
    """The kinds of lower priority that the text names too."""
    namespace: str = ""
    """The namespace in the text; empty if it has none."""


@dataclass(frozen=True, slots=True)
class KindNames:
    """The kinds that can be named, in their order of preference, with the words for each."""

    words: Mapping[GroupKind, _Words]
    stale: frozenset[str] = frozenset()
    """The API groups that discovery could not read."""

    def matches(self, text: str) -> tuple[GroupKind, ...]:
        """Return the kinds that a text may mean, the preferred one first; empty for none."""
        word, dot, rest = text.lower().partition(".")
        version, has_group, group = rest.partition(".")
        if has_group:
            exact = self._named(word, group, version)
            if exact:
                return exact
        return self._named(word, rest if dot else None)

    def kind(self, text: str, *, of: str) -> tuple[GroupKind, ...]:
        """Return what ``matches`` does; raise UnknownKind if there is none.

        ``of`` is the option and its value, for the message.
        """
        if found := self.matches(text):
            return found
        reason, hint = self._unknown(text)
        raise UnknownKind(f"{of}: unknown kind", reason=reason, hint=hint)

    def object(self, text: str, *, option: str = "") -> NamedObject:
        """Return the object that a text names; raise UsageError if it names none."""
        of = f"{option} {text}" if option else repr(text)
        parts = text.split("/")
        if not 2 <= len(parts) <= _LONGEST or not all(parts):
            raise UsageError(f"{of} does not name an object", hint=_FORMS)
        *namespace, kind, name = parts
        if not (found := self.matches(kind)):
            reason, hint = self._unknown(kind)
            raise UsageError(
                f"{of} does not name an object", reason=reason, hint=f"{hint} {_FORMS}"
            )
        first, *others = found
        exact = "/".join((*namespace, full_name(first), name))
        return NamedObject(exact, first, name, tuple(others), "".join(namespace))

    def _unknown(self, text: str) -> tuple[str, str]:
        """Return why no kind matches a text, and what may be meant."""
        word, _, group = text.lower().partition(".")
        known = {one for words in self.words.values() for one in words.names | words.short_names}
        elsewhere = " or ".join(map(full_name, self._named(word, None))) if group else ""
        meant = f"Did you mean {elsewhere}?" if elsewhere else did_you_mean(word, known - {word})
        unread = f"; discovery could not read {', '.join(sorted(self.stale))}" if self.stale else ""
        hint = meant or "To list the kinds: kubectl api-resources."
        return f"no matches for kind {text}{unread}", hint

    def _named(
        self, word: str, group: str | None, version: str | None = None
    ) -> tuple[GroupKind, ...]:
        """Return the kinds with this name, then those with this short name."""
        among = [
            (kind, words)
            for kind, words in self.words.items()
            if group in {None, kind.group} and (version is None or version in words.versions)
        ]
        named = [kind for kind, words in among if word in words.names]
        short = [kind for kind, words in among if word in words.short_names - words.names]
        return tuple(dict.fromkeys((*named, *short)))


def full_name(kind: GroupKind) -> str:
    """Return ``deployment.apps``, or ``service`` for the core group: the name of one kind only."""
    return str(kind).lower()


def kind_names(
    resource_map: ResourceMap,
    inventories: Iterable[Inventory] = (),
    manifests: Iterable[Manifest] = (),
) -> KindNames:
    """Return the names of the kinds that are served, then of those listed or in the input.

    A recorded kind may not be served any more, and one of the input not yet.
    """
    versions: dict[GroupKind, set[str]] = defaultdict(set)
    for gvk in resource_map.served:
        versions[gvk.group_kind].add(gvk.version)
    words = {
        kind: _words(resource, versions[kind]) for kind, resource in resource_map.preferred.items()
    }
    given = tuple(manifests)
    for manifest in given:
        defined = defined_resources(manifest.body) if manifest.gvk.group_kind == CRD else ()
        for resource in defined:
            words.setdefault(resource.group_kind, _words(resource, {resource.version}))
    for inventory in inventories:
        for entry in inventory.entries.values():
            kind = entry.ref.group_kind
            words.setdefault(kind, _only(kind.kind, entry.plural, entry.version))
    for manifest in given:
        kind = manifest.gvk.group_kind
        words.setdefault(kind, _only(kind.kind, "", manifest.gvk.version))
    return KindNames(words, resource_map.stale)


def _words(resource: Resource, versions: Iterable[str]) -> _Words:
    names = {resource.kind.lower(), resource.plural.lower(), resource.singular.lower()} - {""}
    short = frozenset(name.lower() for name in resource.short_names)
    return _Words(frozenset(names), short, frozenset(versions))


def _only(kind: str, plural: str, version: str) -> _Words:
    return _Words(
        frozenset({kind.lower(), plural.lower()} - {""}), frozenset(), frozenset({version})
    )
