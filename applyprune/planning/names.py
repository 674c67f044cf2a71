"""Kinds and objects as users name them, a part of a set, and what a mistyped name may mean.

A kind has its plural, its singular, its kind in any case, and short names. Each may be followed by
``.GROUP`` or ``.VERSION.GROUP``. Without a group, the first match in the server's order counts, as
in kubectl. One difference keeps a CustomResourceDefinition from capturing a name: a short name
never hides the plural, the singular or the kind of another resource.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from applyprune.errors import PruneRefused, UsageError
from applyprune.model.identity import GroupKind, Ref
from applyprune.model.inventory import Inventory, InventoryEntry
from applyprune.model.kinds import CRD, GUARDED_KINDS
from applyprune.model.live import Absent, KindDeleted, LiveObject
from applyprune.model.options import Mode
from applyprune.model.problem import Problem, ProblemKind
from applyprune.model.text import and_more, counted
from applyprune.planning.served_kinds import defined_resources
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from applyprune.model.identity import GVK
    from applyprune.model.live import Resource, ResourceMap, State
    from applyprune.model.options import Options
    from applyprune.model.problem import Manifest
    from applyprune.model.text import Selector
    from applyprune.planning.applyset import ApplySetIdentity


_LONGEST = 3
_FORMS = "Write KIND/NAME, KIND.GROUP/NAME or NAMESPACE/KIND/NAME: deployment.apps/web."


class _Words(NamedTuple):
    names: frozenset[str]
    short_names: frozenset[str]
    versions: frozenset[str]


class KindNames(Struct, frozen=True):
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

        ``of`` is the option or key with its value, for the message.
        """
        if found := self.matches(text):
            return found
        reason, hint = self.unknown(text)
        raise UnknownKind(f"{of}: unknown kind", reason=reason, hint=hint)

    def unknown(self, text: str) -> tuple[str, str]:
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


class NamedObject(NamedTuple):
    """The object that a text names."""

    text: str
    """The exact name, as ``Ref.is_among`` takes it."""
    kind: GroupKind
    name: str
    namespace: str
    """The namespace in the text; empty if it has none."""


class UnknownKind(UsageError):
    """A name that no kind has, neither served nor in the set nor in the input."""


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
    words: dict[GroupKind, _Words] = {}

    def add(
        kind: GroupKind, names: Iterable[str], versions: set[str], short: Iterable[str] = ()
    ) -> None:
        if kind not in words:
            words[kind] = _Words(_lower((kind.kind, *names)), _lower(short), frozenset(versions))

    for kind, one in resource_map.preferred.items():
        add(kind, (one.plural, one.singular), versions[kind], one.short_names)
    given = tuple(manifests)
    for manifest in given:
        for one in defined_resources(manifest.body) if manifest.gvk.group_kind == CRD else ():
            add(one.group_kind, (one.plural, one.singular), {one.version}, one.short_names)
    for inventory in inventories:
        for entry in inventory.entries.values():
            add(entry.ref.group_kind, (entry.plural,), {entry.version})
    for manifest in given:
        add(manifest.gvk.group_kind, (), {manifest.gvk.version})
    return KindNames(words, resource_map.stale)


def _lower(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(map(str.lower, texts)) - {""}


# The names in the options of a run, resolved once, before its plan.
#
# Afterwards each option names exactly one kind or object, and everything that reads it compares
# whole names. A name that cannot be resolved ends the run: it never allows anything.


_ALL = "*"


def with_names_resolved(
    options: Options,
    names: KindNames,
    known: Collection[tuple[GroupKind, str]],
    *,
    of_bundle: bool = False,
) -> tuple[Options, Sequence[Problem]]:
    """Return options whose names are exact, and a warning for each name that others share.

    ``known`` are the objects for which an ambiguous name matters. ``of_bundle`` says that the
    options are those of a Bundle, for the words of an error. Raises UsageError.
    """
    rules = "spec.readyWhen" if of_bundle else "ready-when"
    resolver = Resolver(names, known)
    prune = replace(
        options.prune,
        orphan=resolver.objects(options.prune.orphan, "--orphan"),
        allow_cascade=resolver.objects(options.prune.allow_cascade, "--allow-cascade"),
        allow_kinds=frozenset(map(resolver.guarded_kind, sorted(options.prune.allow_kinds))),
    )
    ready_when = tuple(
        (resolver.kind(kind, f"{rules} {kind}"), rule) for kind, rule in options.wait.ready_when
    )
    resolved = replace(
        options,
        select=resolver.objects(options.select),
        prune=prune,
        wait=replace(options.wait, ready_when=ready_when),
        apply=replace(
            options.apply,
            only=resolver.objects(options.apply.only, "--only"),
            ignore=tuple(map(resolver.rule, options.apply.ignore)),
        ),
    )
    return resolved, tuple(resolver.warnings)


def has_names(options: Options) -> bool:
    """Return whether any option names a kind or an object."""
    prune = options.prune
    chosen = (options.select, options.apply.only)
    named = (*chosen, prune.orphan, prune.allow_cascade, prune.allow_kinds)
    return any(named) or bool(options.wait.ready_when or options.apply.ignore)


def known_names(
    inventory: Inventory, manifests: Iterable[Manifest]
) -> frozenset[tuple[GroupKind, str]]:
    """Return the kind and name of each object that is listed or in the input."""
    given = ((manifest.gvk.group_kind, manifest.name) for manifest in manifests)
    return frozenset({*((ref.group_kind, ref.name) for ref in inventory.entries), *given})


class Resolver(Struct):
    """Resolves names, and collects a warning for each that may mean another known object."""

    names: KindNames
    known: Collection[tuple[GroupKind, str]] = ()
    warnings: list[Problem] = field(default_factory=list)

    def objects(self, texts: Iterable[str], option: str = "") -> frozenset[str]:
        return frozenset(self.object(text, option).text for text in sorted(texts))

    def object(self, text: str, option: str = "") -> NamedObject:
        """Return the object that a text names; raise UsageError if it names none."""
        refusal = f"{f'{option} {text}' if option else repr(text)} does not name an object"
        parts = text.split("/")
        if not 2 <= len(parts) <= _LONGEST or not all(parts):
            raise UsageError(refusal, hint=_FORMS)
        *namespace, kind, name = parts
        if not (found := self.names.matches(kind)):
            reason, hint = self.names.unknown(kind)
            raise UsageError(refusal, reason=reason, hint=f"{hint} {_FORMS}")
        first, *others = found
        exact = f"{full_name(first)}/{name}"
        self._warn(text, exact, [one for one in others if (one, name) in self.known], f"/{name}")
        return NamedObject("/".join((*namespace, exact)), first, name, "".join(namespace))

    def kind(self, text: str, of: str) -> str:
        """Return the exact name of a kind; raise UsageError for an unknown one."""
        first, *others = self.names.kind(text, of=of)
        kinds = {kind for kind, _ in self.known}
        self._warn(text, full_name(first), [kind for kind in others if kind in kinds])
        return full_name(first)

    def guarded_kind(self, text: str) -> str:
        """Return the word of a guarded kind; raise UsageError for any other kind."""
        option = f"--allow-kind {text}"
        kind = self.names.kind(text, of=option)[0]
        if (word := GUARDED_KINDS.get(kind)) is None:
            raise UsageError(
                f"{option}: the prune of a {full_name(kind)} needs no permission",
                hint=f"The guarded kinds are {', '.join(sorted(GUARDED_KINDS.values()))}.",
            )
        return word

    def rule(self, text: str) -> str:
        """Return a rule ``KIND[/NAME]:/pointer`` with the exact name of its kind.

        In a rule, KIND alone is each kind of that name: of a Bundle, nothing is resolved.
        """
        about, colon, pointer = text.partition(":/")
        kind, slash, name = about.partition("/")
        if not colon or kind in {"", _ALL}:
            return text  # for all kinds; or malformed, and refused where rules are parsed
        exact = self.kind(kind, f"ignore {text}")
        core = "" if "." in exact else "."  # guard: core-kind-only -> ""
        return f"{exact}{core}{slash}{name}{colon}{pointer}"

    def _warn(self, text: str, meant: str, others: Sequence[GroupKind], name: str = "") -> None:
        if not others:
            return
        named = " and ".join(f"{full_name(kind)}{name}" for kind in others)
        self.warnings.append(
            Problem(
                kind=ProblemKind.AMBIGUOUS_NAME,
                message=f"{text!r} names {meant}; it could also match {named}",
                hint="Write KIND.GROUP to name another one.",
            )
        )


def full_name(kind: GroupKind) -> str:
    """Return ``deployment.apps``, or ``service`` for the core group: the name of one kind only."""
    return str(kind).lower()


# A part of a set, by name or by label: of an input, or of an inventory.


_SHOWN = 5


def selected(
    inventory: Inventory, states: Mapping[Ref, State], options: Options
) -> Sequence[InventoryEntry]:
    """Return the entries that the options select, by name or by the labels of the live objects."""
    entries = entries_named(options.select, inventory.entries.values())
    if (selector := options.select_labels) is None:
        return entries
    return [entry for entry in entries if _may_match(states[entry.ref], selector)]


def entries_named(
    names: Collection[str], entries: Iterable[InventoryEntry]
) -> Sequence[InventoryEntry]:
    """Return the entries with the given names; all entries if there are no names."""
    return [entry for entry in entries if not names or entry.ref.is_among(names)]


def _may_match(state: State, selector: Selector) -> bool:
    """Return whether an object has these labels, or may have: then it is refused, never deleted.

    What is gone has no labels, so it stays in the inventory.
    """
    if isinstance(state, LiveObject):
        return selector.matches(state.labels)
    return not isinstance(state, Absent | KindDeleted)


def is_applied_part(options: Options, labels: Mapping[str, Any], ref: Ref) -> bool:
    """Return whether the options select a manifest, by its labels or by its name."""
    if options.corrects:
        return ref in options.corrects
    selector, only = options.apply.selector, options.apply.only
    if selector is not None and not selector.matches(labels):
        return False
    return not only or ref.is_among(only)


def partial_problem(options: Options, picked: Collection[Ref], listed: Collection[Ref]) -> Problem:
    """Return the warning for a run that works on a part of the set: ``picked``."""
    others = len(set(listed) - set(picked))
    objects = counted(others, "other object", "in the inventory does", "in the inventory do")
    done = "the inventory stays" if options.mode is Mode.DELETE else "nothing is pruned"
    return Problem(
        kind=ProblemKind.PART_OF_THE_SET,
        message=f"{done}: {selection_text(options)} selects only a part of the set",
        reason=f"{objects} not change" if others else "",
    )


def refuse_unselected(
    options: Options, picked: Collection[Ref], listed: Collection[Ref], applyset: ApplySetIdentity
) -> None:
    """Refuse an apply of names that the input does not have: a typing error must be visible."""
    if missing := unmatched_names(options.apply.only, picked):
        left = [name for name in missing if name not in unmatched_names(missing, listed)]
        delete = f"delete {applyset.arguments} {' '.join(f'--only {name}' for name in left)}"
        raise UsageError(
            f"the input has no {' and no '.join(missing)}",
            reason=f"the inventory lists {', '.join(left)}" if left else "",
            hint=f"To delete what has left the input: applyprune {delete}" if left else "",
        )


def unmatched_names(names: Collection[str], refs: Collection[Ref]) -> Sequence[str]:
    return sorted(name for name in names if not any(ref.is_among((name,)) for ref in refs))


def unmatched_selection(options: Options, listed: Collection[Ref]) -> UsageError:
    """Return the error for a delete that selects nothing: a typing error must be visible."""
    objects = counted(len(listed), "object")
    return UsageError(
        f"{selection_text(options)} matches none of the {objects} of the set",
        reason="it is compared with the labels of the live objects",
    )


def selection_text(options: Options) -> str:
    """Return the options that select a part of a set, as on the command line."""
    selectors = (options.apply.selector, options.select_labels)
    parts = [f"-l {selector.text}" for selector in selectors if selector is not None]
    parts += [f"--only {name}" for name in sorted(options.apply.only | options.select)]
    return " ".join(parts)


def refuse_needed(
    entries: Iterable[InventoryEntry], inventory: Inventory, states: Mapping[Ref, State]
) -> None:
    """Refuse to delete a part of a set on which the rest of it depends, by depends-on."""
    going = {entry.ref for entry in entries}
    needed = {
        ref.short: entry.ref.short
        for entry in inventory.entries.values()
        if entry.ref not in going and not isinstance(states[entry.ref], Absent | KindDeleted)
        for ref in entry.depends_on
        if ref in going
    }
    if needed:
        pairs = [f"{other} depends on {one}" for one, other in sorted(needed.items())]
        names = sorted(set(needed.values()))
        raise PruneRefused(
            f"a part of the set was not deleted: {and_more(pairs, _SHOWN)}",
            reason="what stays would lose what it needs",
            hint=f"Select {and_more(names, _SHOWN)} too, or remove the annotation depends-on in an "
            "apply.",
        )


# What the user may have meant by an unknown name.


CLOSE_SET = 0.6
"""Names of sets are short: three letters with one mistake must be similar."""
_CLOSE = 0.7


def similar_sets(
    applyset: ApplySetIdentity, sets: Iterable[ApplySetIdentity]
) -> tuple[ApplySetIdentity, ...]:
    """Return the sets that may be meant by a new one: at most one of its namespace, and one other.

    That of another namespace may have the very same name.
    """
    here: dict[str, ApplySetIdentity] = {}
    elsewhere: dict[str, ApplySetIdentity] = {}
    for other in sets:
        (here if other.namespace == applyset.namespace else elsewhere)[other.name] = other
    here.pop(applyset.name, None)
    found = (group.get(closest(applyset.name, group, CLOSE_SET)) for group in (here, elsewhere))
    return tuple(other for other in found if other is not None)


def about_new_set(
    applyset: ApplySetIdentity, sets: Sequence[ApplySetIdentity], *, creates_namespace: bool
) -> tuple[str, bool]:
    """Return what to say of a new set, and whether it may be a mistake for one of ``sets``.

    It may be, if its name exists in another namespace, if one of its namespace has nearly its name,
    or if its namespace is new, or has nearly the name of another one with sets.
    """
    name, namespace = applyset.name, applyset.namespace
    elsewhere = [one for one in sets if one.namespace != namespace]
    doubles = (
        [one for one in sets if one.namespace == namespace and is_slip(one.name, name)],
        [one for one in elsewhere if one.name == name],
    )
    nearly = sorted({one.namespace for one in elsewhere if is_slip(one.namespace, namespace)})
    named = {one.namespace == namespace: one for one in similar_sets(applyset, sets)}
    named |= {one.namespace == namespace: one for one in (found[0] for found in doubles if found)}
    parts = (
        f"there is also the set {' and '.join(set_in_words(named.values(), namespace))}"
        if named
        else "",
        f"its namespace {namespace} is created for it" if creates_namespace else "",
        f"there is also the namespace {and_more(nearly, _SHOWN)}" if nearly else "",
    )
    # guard: doubtful-set -> bool(nearly) or creates_namespace
    is_doubtful = any(doubles) or bool(nearly) or creates_namespace
    return "; ".join(filter(None, parts)), is_doubtful


def set_in_words(sets: Collection[ApplySetIdentity], namespace: str) -> Sequence[str]:
    """Return ``web`` for a set of the namespace, and ``web in shop`` for another one."""
    ordered = sorted(sets, key=lambda one: one.namespace != namespace)
    return [
        one.name if one.namespace == namespace else f"{one.name} in {one.namespace}"
        for one in ordered
    ]


_LONG = 6
"""From how many characters on two wrong letters still leave a name that can be recognised."""
_DIGITS = pattern(r"[0-9]+")


def is_slip(one: str, other: str) -> bool:
    """Return whether two names differ by a letter or two; those of a numbered series do not."""
    if one == other or _DIGITS.sub("", one) == _DIGITS.sub("", other):
        return False
    most = 2 if min(len(one), len(other)) >= _LONG else 1
    return abs(len(one) - len(other)) <= most and _distance(one, other) <= most


def _distance(one: str, other: str) -> int:
    """Return how many letters to add, drop, change or swap with the next one lead to the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one, start=1):
        last, before, row = before, row, [at]
        for to, wanted in enumerate(other, start=1):
            cost = min(before[to] + 1, row[to - 1] + 1, before[to - 1] + (letter != wanted))
            is_swap = at > 1 < to and letter == other[to - 2] and wanted == one[at - 2]
            row.append(min(cost, last[to - 2] + 1) if is_swap else cost)
    return row[-1]


def advice_for_kind(gvk: GVK, catalogue: ResourceMap, coming: Iterable[Resource]) -> str:
    """Return what to do about a kind that the server does not serve in that version.

    ``coming`` are the resources that CRDs in the input define.
    """
    brought = [resource for resource in coming if resource.group_kind == gvk.group_kind]
    if brought:
        versions = " and ".join(sorted({resource.gvk.api_version for resource in brought}))
        return f"Its CustomResourceDefinition in the input serves {versions}."
    if (other := catalogue.find_kind(gvk.group_kind)) is not None:
        return f"{gvk.kind} is served as {other.gvk.api_version}."
    of_name = sorted(
        (resource for kind, resource in catalogue.preferred.items() if kind.kind == gvk.kind),
        key=lambda resource: resource.gvk,
    )
    if of_name:
        served = " and ".join(resource.gvk.api_version for resource in of_name)
        return f"Did you mean {served}? {gvk.kind} is served there."
    if (like := _kind_like(gvk, catalogue)) is not None:
        return f"Did you mean {like.gvk}?"
    if "." not in gvk.group:
        return "Check the spelling: kinds in this group come with Kubernetes itself."
    return (
        "For a custom resource, add its CustomResourceDefinition to the input (it is applied "
        "first), or install it before."
    )


def _kind_like(gvk: GVK, catalogue: ResourceMap) -> Resource | None:
    """Return the resource with the most similar kind; of another group only if the group is known.

    A kind of an unknown group is probably a custom kind: Traefik's IngressRoute is not an Ingress.
    """
    groups = {kind.group for kind in catalogue.preferred}
    like = closest(gvk.group, groups - {""})
    own = ({like},) if like else ()
    for within in ({gvk.group}, groups) if gvk.group in groups else own:
        kinds = {
            kind.kind: resource
            for kind, resource in sorted(catalogue.preferred.items(), reverse=True)
            if kind.group in within
        }
        if found := closest(gvk.kind, kinds):
            return kinds[found]
    return None


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return a suggestion as a question; empty if no word is similar."""
    found = closest(word, words)
    return f"Did you mean {found}?" if found else ""


def closest(word: str, words: Iterable[str], cutoff: float = _CLOSE) -> str:
    """Return the most similar of ``words``; empty if none is similar.

    ``cutoff`` is how similar it must be, from 0 to 1.
    """
    by_lower = {known.lower(): known for known in words}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[found[0]] if found else ""
