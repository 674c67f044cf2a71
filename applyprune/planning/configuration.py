"""What the files ``applyprune.yaml`` of a folder and of those above it say together.

A nearer file wins, key by key. That is one rule for every way to name a folder: to stand in it, to
name it as input, or to find it. Many sets of one command are many such folders.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from msgspec import Struct

from applyprune.errors import InputError, UsageError
from applyprune.model.identity import SetKey
from applyprune.planning.set_order import KEY as DEPENDS_ON
from applyprune.planning.set_order import SetNeeds
from applyprune.values import replace

if TYPE_CHECKING:
    from applyprune.model.problem import Origin


class SettingsFile(Protocol):
    """What one file says."""

    @property
    def path(self) -> str:
        """Return its path, safe to print."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return the value of each of its keys."""

    def origin(self, key: str) -> Origin:
        """Return the place of a key."""


F = TypeVar("F", bound=SettingsFile)

INPUT_KEYS = frozenset({"filename", "kustomize"})
"""The input of a set. The nearest file with either gives all of it."""
_UNDISPUTED = INPUT_KEYS | {"name", "context"}
"""What is decided otherwise: by the command line, by the sets, and by every condition."""


# One folder.


def inherited(files: Sequence[F]) -> Mapping[str, F]:
    """Return which file says each key in a folder; ``files`` are its own and those above it.

    They are in their order from the top. The nearest file with a key says it, a list as a whole. A
    file with ``name`` begins a set: the name and the input of a set above are not for it. Raises
    InputError for input of no set.
    """
    said: dict[str, F] = {}
    for file in files:
        own = file.settings.keys()
        begins, has_input = "name" in own, not INPUT_KEYS.isdisjoint(own)
        if begins or has_input:  # guard: input-of-another-set -> has_input
            said = {key: above for key, above in said.items() if key not in INPUT_KEYS}
        said |= dict.fromkeys(own, file)
    if "name" not in said:
        for key in sorted(INPUT_KEYS & said.keys()):
            raise InputError(
                f"{key} is the input of a set, and no file names the set",
                location=said[key].origin(key),
                hint="Add name: NAME to this file, or to one above it.",
            )
    return said


def for_sets(files: Sequence[F], names: Collection[str]) -> Sequence[F]:
    """Return the files that count for the sets ``names``; all, if there are no names.

    The last one is the nearest that is for such a set. Without one, only the files above the first
    set are left: they are for every set below.
    """
    if not names:
        return files
    name, count = None, 0
    for at, file in enumerate(files, start=1):
        name = file.settings.get("name", name)
        count = at if name is None or name in names else count
    return files[:count]


def context_name(file: SettingsFile) -> str:
    """Return the context that a file names; empty if it names none."""
    value = file.settings.get("context", "")
    return value if isinstance(value, str) else str(value["name"])


def selects_context(file: SettingsFile) -> bool:
    """Return whether a file selects its context; otherwise it is a condition."""
    value = file.settings.get("context", "")
    return not isinstance(value, str) and bool(value.get("use", False))


# One call: the current folder, or the file of --config, and the folders of the input.


class CallSettings(Struct, Generic[F], frozen=True):
    """What the files of one call say together."""

    said: Mapping[str, F]
    """The file that says each key."""
    conditions: tuple[F, ...] = ()
    """The files whose context must be in use."""
    selects: F | None = None
    """The file that selects the context."""
    unused: tuple[F, ...] = ()
    """The files that name another set than the call, so that their options are not used."""


def settings_of_call(
    here: Sequence[F],
    named: Sequence[Sequence[F]] = (),
    names: Collection[str] = (),
    *,
    settled: Collection[str] = (),
    only_context: bool = False,
) -> CallSettings[F]:
    """Return what the files of a call say: of the current folder, and of each that is named.

    ``names`` are the sets of the command line. No file decides the keys ``settled``. With
    ``only_context``, nothing else counts of the folders that are named. A file selects a context
    only for who stands in its folder or below it. Raises UsageError if the folders are of different
    sets, or if files say different things of which neither is the nearer.
    """
    own = for_sets(here, names)
    used = () if only_context else tuple(for_sets(files, names) for files in named)
    # A folder below inherits all that the files here say.
    is_below = any(all(file in files for file in own) for files in used)
    chains = used if is_below else (own, *used)
    _refuse_two_sets(chains, settled)
    chosen = inherited(own).get("context")
    # guard: named-context -> (*chains, *chains)
    places = (*named, *chains)
    wanted = (file for files in places if (file := inherited(files).get("context")) is not None)
    counted = {file for files in chains for file in files}
    others = (inherited(files).get("name") for files in (here, *(() if only_context else named)))
    return CallSettings(
        _together(chains, settled),
        tuple(dict.fromkeys(wanted)),
        chosen if chosen is not None and selects_context(chosen) else None,
        tuple(dict.fromkeys(one for one in others if one and names and one not in counted)),
    )


def _together(chains: Sequence[Sequence[F]], settled: Collection[str]) -> Mapping[str, F]:
    """Return which file says each key in all of these folders; raise UsageError for a dispute."""
    said: dict[str, F] = {}
    for files in chains:
        for key, file in inherited(files).items():
            known = said.setdefault(key, file)
            if _is_above(known, file, chains):
                said[key] = file
            elif not (
                file.settings[key] == known.settings[key]
                or key in settled
                or key in _UNDISPUTED
                or _is_above(file, known, chains)
            ):
                raise UsageError(
                    f"{known.origin(key)} and {file.origin(key)} say different things",
                    reason="both count in this call, and neither is above the other",
                    hint="Say which one counts by --config FILE, or run once for each folder.",
                )
    return said


def _is_above(file: F, other: F, chains: Sequence[Sequence[F]]) -> bool:
    return any(
        files.index(file) < files.index(other)
        for files in chains
        if file in files and other in files
    )


def _refuse_two_sets(chains: Sequence[Sequence[F]], settled: Collection[str]) -> None:
    """Raise UsageError if two folders are of different sets."""
    sets = [said for files in chains if "name" in (said := inherited(files))]
    for one, other in combinations(sets, 2):
        contexts = {_said(said, "context", settled) for said in (one, other)} - {""}
        names = [(_said(said, "name"), _said(said, "namespace", settled)) for said in (one, other)]
        if names[0] != names[1] or len(contexts) > 1:  # guard: two-sets never
            raise UsageError(
                f"{_set_of(one, settled)}, and {_set_of(other, settled)}",
                reason="one run is for one set",
                hint="Run once for each of them, or say which one is meant: by NAME, or by "
                "--config FILE if both have one name.",
            )


def _said(said: Mapping[str, F], key: str, settled: Collection[str] = ()) -> str:
    file = said.get(key)
    if file is None or key in settled:
        return ""
    return context_name(file) if key == "context" else str(file.settings[key])


_WORDS = {"name": "is for the set", "namespace": "in namespace", "context": "in context"}


def _set_of(said: Mapping[str, F], settled: Collection[str]) -> str:
    """Return ``deploy/prod/applyprune.yaml is for the set web in namespace shop``."""
    parts = [
        f"{word} {value}" for key, word in _WORDS.items() if (value := _said(said, key, settled))
    ]
    return f"{said['name'].path} {' '.join(parts)}"


# Many calls in one: each file with a name below a folder is a set.


class SetSettings(Struct, Generic[F], frozen=True):
    """A set, and what its files say: as for a call in its folder."""

    key: SetKey
    folder: str
    """The folder of the file that names it, as seen from the current one."""
    settings: CallSettings[F]

    @property
    def file(self) -> F:
        """Return the file that names the set."""
        return self.settings.said["name"]

    @property
    def input(self) -> Mapping[str, Sequence[str]]:
        """Return the paths of each key of input that counts."""
        given = {key: self.settings.said.get(key) for key in sorted(INPUT_KEYS)}
        found = {key: file.settings[key] for key, file in given.items() if file is not None}
        return {key: paths for key, paths in found.items() if paths}

    @property
    def depends_on(self) -> SetNeeds:
        """Return what must be applied and ready before it."""
        file = self.settings.said.get(DEPENDS_ON)
        if file is None:
            return SetNeeds(self.key)
        return SetNeeds(self.key, tuple(file.settings[DEPENDS_ON]), file.origin(DEPENDS_ON))


def settings_of_set(
    files: Sequence[F], named: Sequence[Sequence[F]], here: Collection[F]
) -> CallSettings[F]:
    """Return what the files of a set say, as in a call in its folder; ``named`` are of its input.

    ``here`` are the files of the current folder: another one selects no context, and refuses only.
    """
    found = settings_of_call(files, named, only_context=True)
    # guard: selected-for-sets never
    if found.selects is not None and found.selects not in here:
        return replace(found, selects=None)
    return found


def faults_of_sets(
    sets: Sequence[SetSettings[F]], settled: Collection[str] = ()
) -> Sequence[InputError]:
    """Return what keeps sets from being those of one command.

    These are a set without input, two files of one set, and contexts that exclude each other. The
    command line decides the keys ``settled``, for all sets.
    """
    faults: list[InputError] = []
    first: dict[SetKey, SetSettings[F]] = {}
    contexts: dict[str, F] = {}
    for one in sets:
        known = first.setdefault(one.key, one)
        if known is not one:  # guard: set-twice never
            faults.append(_named_twice(one, known, settled))
        if not one.input:
            faults.append(_without_input(one))
        for file in () if "context" in settled else one.settings.conditions:
            contexts.setdefault(context_name(file), file)
    chosen, *others = contexts or ("",)
    # guard: contexts-of-sets
    faults += (_other_context(context, chosen, contexts) for context in others)
    selecting = [one.settings.selects for one in sets if one.settings.selects is not None]
    silent = [one for one in sets if not one.settings.conditions]
    # guard: context-for-some-sets never
    if selecting and silent and "context" not in settled:
        faults.append(_selected_for_some(selecting[0], silent[0]))
    return faults


def _named_twice(
    one: SetSettings[F], known: SetSettings[F], settled: Collection[str]
) -> InputError:
    own = {_said(each.settings.said, "namespace") for each in (one, known)}
    is_forced = "namespace" in settled and len(own) > 1
    return InputError(
        f"{known.file.origin('name')} names the set {one.key}, too",
        location=one.file.origin("name"),
        hint="Leave out -n: it gives all sets one namespace."
        if is_forced
        else "Give each set its own name, or its own namespace.",
    )


def _without_input(one: SetSettings[F]) -> InputError:
    return InputError(
        f"the set {one.key} has no input",
        location=one.file.origin("name"),
        hint="Add filename or kustomize to this file: a set does not inherit those of a set above "
        "it.",
    )


def _selected_for_some(file: F, silent: SetSettings[F]) -> InputError:
    return InputError(
        f"this selects the context {context_name(file)}, and not for the set {silent.key}",
        location=file.origin("context"),
        reason="one command is for one cluster",
        hint=f"Give --context, or write the context into a file above {silent.file.path}, too.",
    )


def _other_context(context: str, chosen: str, contexts: Mapping[str, F]) -> InputError:
    return InputError(
        f"this is for the context {context}, and {contexts[chosen].origin('context')} for {chosen}",
        location=contexts[context].origin("context"),
        reason="one command is for one cluster",
        hint="Run it for a folder whose sets have one context, or give --context.",
    )
