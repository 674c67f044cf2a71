"""The sets of one command for many: all that files below a folder name, each with its options.

What is wrong with any of them is found before anything is read from a cluster, and reported all at
once.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from applyprune.cli.config import FILE, MISNAMED, Files
from applyprune.cli.options import KEYS, is_given, values_in
from applyprune.errors import ApplypruneError, InputError, UsageError, raise_all
from applyprune.model.identity import SetKey
from applyprune.model.text import and_more, counted
from applyprune.planning.applyset import applyset_identity
from applyprune.planning.configuration import (
    SetSettings,
    context_name,
    faults_of_sets,
    inherited,
    settings_of_set,
)
from applyprune.planning.set_order import SetOrder, UnknownSet, set_order
from applyprune.sources.concerned import SetName, SetReads, concerned
from applyprune.sources.folders import Configuration
from applyprune.sources.set_folders import SetFolders, set_folders
from applyprune.sources.tree import shown_path

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    import click

    from applyprune.cli.reporting import Reporting
    from applyprune.model.problem import Problem

_NAMES = (FILE, MISNAMED)
_SHOWN = 5


class SetCall(Struct, frozen=True):
    """One of the sets."""

    found: SetSettings[Configuration]
    """Its name, its folder, and which file says each key."""
    values: Mapping[str, Any]
    """What the verb gets for it, as ``applyprune VERB NAME`` in its folder."""


class SetCalls(Struct, frozen=True):
    """The sets of one command."""

    sets: tuple[SetCall, ...]
    """In the order of their folders."""
    order: SetOrder
    """What they wait for; empty for a verb without a cluster."""
    context: str
    """The context that the command line gives, or the files of the current folder select, for all
    of them; empty if neither does."""
    namespace: str
    """The namespace of sets for which nothing gives one; empty if every set has one."""
    ignored: tuple[tuple[str, str], ...]
    """The files that rules leave out, each with its rule."""


class ConcernedSets(Struct, frozen=True):
    """The sets that a change concerns."""

    sets: Sequence[SetCall]
    notes: Sequence[Problem] = ()
    """What to know of the others."""
    removed: Sequence[SetKey] = ()
    """The sets whose files are gone."""


def sets_of_call(
    ctx: click.Context,
    directory: str,
    namespace_of: Callable[[str], str],
    reporting: Reporting | None = None,
) -> SetCalls:
    """Return all sets that a file at or below a folder names.

    ``ctx`` is that of the call: what its command line gives counts for every set. ``namespace_of``
    returns the namespace of a context, which is that of a set for which nothing gives one; the
    current context has an empty name. Raises all errors together, and UsageError if there is no
    set.
    """
    settled = {key: ctx.params[key] for key in ("namespace", "context") if is_given(key, ctx)}
    folders = set_folders(directory, _NAMES)
    reader = _Reader(directory, settled, namespace_of)
    sets = tuple(reader.sets_in(folders.folders))
    found: list[ApplypruneError] = [*folders.errors, *reader.errors]
    # A set whose file is wrong is missing from the others.
    is_complete = not found
    within = "in the current folder"
    if os.path.normpath(directory) != os.curdir:
        within = f"below {shown_path(directory)}"
    order = SetOrder({})
    has_cluster = "context" in ctx.params
    # A verb without a cluster is for the sets of all clusters, which may have the same names.
    for group in [sets] if has_cluster else _by_context(sets):
        found += faults_of_sets(group, settled if has_cluster else {*settled, "context"})
        needs = [one.depends_on for one in group]
        order, wrong = set_order(needs, within)
        if unknown := {error.key for error in wrong if isinstance(error, UnknownSet)}:
            _, wrong = set_order(needs, within, reader.elsewhere(directory, unknown))
        found += (one for one in wrong if is_complete or not isinstance(one, UnknownSet))
    calls = []
    for one in sets:
        try:
            calls.append(SetCall(one, values_in(ctx, one, reporting)))
        except ApplypruneError as error:
            found.append(error)
    # A file above many sets is wrong once.
    raise_all(list({str(error): error for error in found}.values()))
    if not sets:
        raise _no_set(within, folders)
    ignored = tuple((shown_path(str(one.path)), one.rule) for one in folders.ignored)
    order = order if has_cluster else SetOrder({})
    return SetCalls(tuple(calls), order, reader.context, reader.namespace, ignored)


def concerned_by(calls: SetCalls, directory: str, since: str) -> ConcernedSets:
    """Return the sets of which anything differs from a commit, and what to know of the others.

    Raises UsageError for sets in no work tree or in two, and PathNotFound for a commit that the
    repository does not have.
    """
    reads = [_reads_of(one) for one in calls.sets]
    found = concerned(directory, reads, since)
    keys = {one.key for one in found.concerns}
    sets = [one for one in calls.sets if one.found.folder in keys]
    notes, removed = [], []
    if others := len(calls.sets) - len(sets):
        count = counted(others, "set", "is", "are")
        notes.append(UsageError(f"{count} not concerned by this change").problem)
    for gone in found.removed:
        removed.append(SetKey(gone.set.namespace or calls.namespace, gone.set.name))
        where = f" -n {gone.set.namespace}" if gone.set.namespace else ""
        error = UsageError(
            f"the set {SetKey(gone.set.namespace, gone.set.name)} is gone",
            reason=f"{gone.file} named it at {since}",
            hint="Nothing deletes its objects by that. If no other set has taken them: "
            f"applyprune delete {gone.set.name}{where}",
        )
        notes.append(error.problem)
    return ConcernedSets(sets, notes, removed)


def _reads_of(call: SetCall) -> SetReads:
    found, paths = call.found, call.values["paths"]
    contexts = [context_name(one) for one in found.settings.conditions]
    name = SetName(found.key.name, found.key.namespace, contexts[0] if contexts else "")
    files = [file.path for file in dict.fromkeys(found.settings.said.values())]
    # Without a cluster, the sets of two contexts may have one name; no folder has two sets.
    return SetReads(found.folder, name, paths.paths, files, paths.ignore)


class _Reader:
    """Reads the files of many folders, and keeps what is wrong with them."""

    def __init__(
        self, directory: str, settled: Mapping[str, str], namespace_of: Callable[[str], str]
    ) -> None:
        """Read the files of the current folder; the command line gives what is ``settled``."""
        self.errors: list[ApplypruneError] = []
        self.context = settled.get("context", "")
        self._namespace, self.namespace = settled.get("namespace", ""), ""
        self._files = Files(KEYS, directory)
        self._here: Sequence[Configuration] = ()
        try:
            self._here = self._files.of_folder("")
            selects = settings_of_set(self._here, (), self._here).selects
            self.context = self.context or (context_name(selects) if selects else "")
            self.namespace = "" if self._namespace else namespace_of(self.context)
        except ApplypruneError as error:
            self.errors.append(error)

    def sets_in(self, folders: Iterable[str]) -> Iterator[SetSettings[Configuration]]:
        for folder in folders:
            try:
                if (one := self._set_in(folder)) is not None:
                    yield one
            except ApplypruneError as error:
                self.errors.append(error)

    def elsewhere(self, directory: str, wanted: Collection[SetKey]) -> Mapping[SetKey, str]:
        """Return where some sets are in the whole work tree, as far as it can be read."""
        found: dict[SetKey, str] = {}
        top = self._files.work_tree_of(directory)
        for folder in () if top is None else set_folders(top or os.curdir, _NAMES).folders:
            with suppress(ApplypruneError):
                one = self._set_in(folder)
                if one is not None and one.key in wanted:
                    found[one.key] = str(one.file.origin("name"))
        return found

    def _set_in(self, folder: str) -> SetSettings[Configuration] | None:
        """Return the set that the file in a folder names; None if it names none."""
        own, files = self._files.only_in(folder), self._files.of_folder(folder, named=True)
        said = inherited(files)
        if own is None or "name" not in own.settings:
            return None
        name = own.settings["name"]
        stated = said["namespace"].settings["namespace"] if "namespace" in said else ""
        namespace = self._namespace or stated or self.namespace
        try:
            applyset_identity(name, namespace or "default")
        except UsageError as error:
            raise InputError(
                error.message, location=own.origin("name"), reason=error.reason, hint=error.hint
            ) from None
        named = self._files.of_paths(self._files.input_of(files, ()))
        settings = settings_of_set(files, named, self._here)
        place = folder.rstrip(os.sep) or (os.sep if folder else os.curdir)
        return SetSettings(SetKey(namespace, name), place, settings)


def _by_context(
    sets: Sequence[SetSettings[Configuration]],
) -> Sequence[Sequence[SetSettings[Configuration]]]:
    """Return the sets of each context, with those that name none."""
    contexts = [set(map(context_name, one.settings.conditions)) for one in sets]
    return [
        [one for one, own in zip(sets, contexts, strict=True) if context in own or not own]
        for context in sorted(set().union(*contexts)) or [""]
    ]


def _no_set(within: str, folders: SetFolders) -> UsageError:
    rules = [f"{one.rule} leaves out {shown_path(str(one.path))}" for one in folders.ignored]
    return UsageError(
        f"no set {within}",
        reason=f"none of {counted(folders.looked_at, 'folder')} has an {FILE} with a name"
        + (f"; {and_more(rules, _SHOWN)}" if rules else ""),
        hint="A set is a folder with such a file: applyprune init NAME -f PATH",
    )
