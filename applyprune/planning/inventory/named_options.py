"""Resolve the names of kinds and objects in the options of a run, once, before its plan.

Afterwards each option names exactly one kind or object, and everything that reads it compares
whole names. A name that cannot be resolved ends the run: it never allows anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from applyprune.errors import UsageError
from applyprune.model.identity import GroupKind
from applyprune.model.live import GUARDED_KINDS
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.schema.kind_names import KindNames, full_name
from applyprune.values import dataclass, field, replace

if TYPE_CHECKING:
    from applyprune.model.inventory import Inventory
    from applyprune.model.options import Options
    from applyprune.model.problem import Manifest

_ALL = "*"


def has_names(options: Options) -> bool:
    """Return whether any option names a kind or an object."""
    prune = options.prune
    chosen = (options.select, options.apply.only)
    named = (*chosen, prune.orphan, prune.allow_cascade, prune.allow_kinds)
    return any(named) or bool(options.wait.ready_when or options.apply.ignore)


def known_names(
    inventories: Iterable[Inventory], manifests: Iterable[Manifest]
) -> frozenset[tuple[GroupKind, str]]:
    """Return the kind and name of each object that is listed or in the input."""
    listed = (ref for inventory in inventories for ref in inventory.entries)
    given = ((manifest.gvk.group_kind, manifest.name) for manifest in manifests)
    return frozenset({*((ref.group_kind, ref.name) for ref in listed), *given})


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
    rules = "spec.readyWhen" if of_bundle else "--ready-when"
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


@dataclass(slots=True)
class Resolver:
    """Resolves names, and collects a warning for each that may mean another known object."""

    names: KindNames
    known: Collection[tuple[GroupKind, str]]
    warnings: list[Problem] = field(default_factory=list)

    def objects(self, texts: Iterable[str], option: str = "") -> frozenset[str]:
        """Return the exact name of each object."""
        return frozenset(self.object(text, option) for text in sorted(texts))

    def object(self, text: str, option: str = "") -> str:
        """Return the exact name of an object; raise UsageError if it names none."""
        found = self.names.object(text, option=option)
        others = [kind for kind in found.others if (kind, found.name) in self.known]
        self._warn(text, f"{full_name(found.kind)}/{found.name}", others, f"/{found.name}")
        return found.text

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
        exact = self.kind(kind, f"--ignore {text}")
        core = "" if "." in exact else "."  # guard: core-kind-only
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
