"""Which sets a change concerns: what each reads is compared with a commit of its work tree.

Whoever finds the same files, and misses the same, reads the same manifests. So a set is followed as
it is now: each file that it reads, each place where it looks for one, and each folder of which it
reads the names must be as the commit has them. What cannot be compared counts as changed.

Only contents count: the executable bit of a file does not, nor the time of a file or what the index
says of it. Each file, folder and kustomization is looked at once, however many sets share it.
"""

from __future__ import annotations

import os
import posixpath
import stat
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from msgspec import Struct

from applyprune.errors import InputError
from applyprune.model.inventory import short_commit
from applyprune.model.text import and_more
from applyprune.planning.configuration import inherited
from applyprune.sources.folders import (
    FILE,
    configuration_in,
    expand_pattern,
    is_pattern,
    matches_pattern,
)
from applyprune.sources.git_store import CommitTree
from applyprune.sources.inputs import STDIN, LocalFolders, shown_given
from applyprune.sources.kustomize import NAMES, Overlay, is_pinned, named_by
from applyprune.sources.moment import Moment
from applyprune.sources.source_ignore import FILE as IGNORE_FILE
from applyprune.sources.source_ignore import folders_above, rules_in
from applyprune.sources.tree import is_url, shown_path
from applyprune.sources.work_tree import (
    WorkTree,
    blob_ids,
    digests,
    folder_or_file,
    is_read,
    opened,
    work_tree_of,
)

_OPTION = "--changed-since"
_CONFIGURATIONS = (FILE, "applyprune.yml")
"""The second name is an error, and so has to do with whether a set can be read."""
_IGNORED = (IGNORE_FILE,)
_GIT = ".git"
_MAGIC = frozenset("*?[")
_MOST_LINKS = 40


class SetName(Struct, frozen=True):
    """Which set it is. A part that the files do not say is empty: it may be any."""

    name: str
    namespace: str = ""
    context: str = ""

    def may_be(self, other: SetName) -> bool:
        """Return whether nothing says that the two are different sets."""
        parts = (
            (self.name, other.name),
            (self.namespace, other.namespace),
            (self.context, other.context),
        )
        return all(one == two or "" in {one, two} for one, two in parts)


class SetReads(Struct, frozen=True):
    """One set, and what a run of it reads."""

    key: str
    """How the caller knows it."""
    set: SetName
    paths: Sequence[str | Overlay]
    """Its input, as seen from the working directory."""
    files: Sequence[str]
    """Its ``applyprune.yaml`` files; those above them and above its input are found."""
    ignore_paths: Sequence[str] = ()
    """Lines of ignore rules, beside those in ``.sourceignore``."""


class Concern(Struct, frozen=True):
    """A set that a change concerns."""

    key: str
    reasons: tuple[str, ...]
    """``deploy/base/service.yaml changed``; safe to print."""

    @property
    def reason(self) -> str:
        """Return the first of them, and how many more there are."""
        return and_more(self.reasons, 1)


class RemovedSet(Struct, frozen=True):
    """A set that the commit has, and the work tree has not."""

    set: SetName
    """As its files said at that commit."""
    file: str
    """Its ``applyprune.yaml``, from the root of the work tree."""


class Concerned(Struct, frozen=True):
    """What a change concerns."""

    commit: str
    """The whole ID of the commit that was compared."""
    concerns: tuple[Concern, ...]
    """The sets that it concerns, in the order in which they were given."""
    removed: tuple[RemovedSet, ...]


def concerned(top: str, sets: Sequence[SetReads], revision: str) -> Concerned:
    """Return which sets are not certainly as they were at a revision, and which are gone.

    ``top`` is the folder in which the sets were looked for. The revision itself is compared, as by
    ``git diff REV``, and not where a branch has left it: what is equal to ``origin/main`` has
    nothing to change where that was applied. Behind ``origin/main``, its newer changes count too;
    ``$(git merge-base origin/main HEAD)`` leaves them out.

    Nothing is written to the repository, and no program of it is run: a file that a filter of Git
    has changed at its checkout differs. Raises UsageError for sets in no work tree or in two, and
    PathNotFound for a revision that the repository does not have.
    """
    files = [file for one in sets for file in one.files]
    with opened([top, *files], revision, _OPTION, sizes=False) as (tree, commit, before):
        look = _Look(tree, before, short_commit(shown_path(revision)))
        found = [Concern(one.key, tuple(dict.fromkeys(look.of_set(one)))) for one in sets]
        removed = removed_sets(look.sets_before(top), [one.set for one in sets])
        if removed:  # guard: set-outside-of-the-folder never
            removed = removed_sets(removed, [*look.sets_outside(top)])
    return Concerned(commit, tuple(one for one in found if one.reasons), tuple(removed))


def removed_sets(before: Iterable[RemovedSet], now: Collection[SetName]) -> Sequence[RemovedSet]:
    """Return the sets that none of those of now may be, each once."""
    gone: dict[SetName, RemovedSet] = {}
    for one in before:
        if not any(one.set.may_be(other) for other in now):  # guard: set-that-is-gone always
            gone.setdefault(one.set, one)
    return [*gone.values()]


# How a work tree differs from a commit.


class _Found(Struct, frozen=True):
    """What one folder has, as it is read or built."""

    reasons: Sequence[str]
    """How it differs from the commit."""
    folders: Iterable[str]
    """The folders that are read with it."""


class _Look:
    """Compares what is read in a work tree with a commit, each place once.

    A name is a path from the root of the work tree. It may lead through links; a place does not.
    """

    def __init__(self, tree: WorkTree, commit: CommitTree, shown: str) -> None:
        self._tree = tree
        self._roots = (tree.root, os.path.realpath(tree.root))
        self._commit = commit
        self._shown = shown
        self._children: dict[str, list[str]] = {}
        self._modules: set[str] = set()
        for place in commit.names:
            folder, _, name = place.rpartition("/")
            self._children.setdefault(folder, []).append(name)
            if (entry := commit.entry(place)) is not None and entry.kind == "commit":
                self._modules.add(place)
        self._places: dict[str, tuple[str | None, Sequence[str]]] = {}
        self._targets: dict[str, str] = {}
        self._is_here: dict[str, bool] = {}
        self._compared: dict[tuple[str, bool], str] = {}
        self._above: dict[tuple[str, Sequence[str]], Sequence[str]] = {}
        self._read: dict[str, _Found] = {}
        self._built: dict[str, _Found] = {}
        self._folders: dict[Sequence[str], LocalFolders] = {}

    # What a set reads.

    def of_set(self, one: SetReads) -> Iterator[str]:
        """Yield why a change concerns a set."""
        for file in one.files:
            name = self._name(file)
            yield from self._differences(name, is_text=True)
            yield from self._beside(posixpath.dirname(name), _CONFIGURATIONS)
        for path in one.paths:
            try:
                yield from self._input(path, tuple(one.ignore_paths))
            except (OSError, ValueError, InputError):
                yield f"{shown_given(path)} cannot be read"

    def _input(self, path: str | Overlay, ignore_paths: Sequence[str]) -> Iterator[str]:
        given = folder_or_file(path)
        if given == STDIN or is_url(given):
            yield f"{shown_given(path)} is not in {self._shown}"
        elif isinstance(path, Overlay) or not is_pattern(given):
            yield from self._path(given, ignore_paths, must_build=isinstance(path, Overlay))
        else:
            yield from self._pattern(given, ignore_paths)

    def _pattern(self, pattern: str, ignore_paths: Sequence[str]) -> Iterator[str]:
        """Yield how that differs which a pattern matches, now or at the commit."""
        shown = shown_path(pattern)
        parts = pattern.split("/")
        literal = [*takewhile(_MAGIC.isdisjoint, parts)]
        rest = [part for part in parts[len(literal) :] if part not in {"", "."}]
        if ".." in rest:  # guard: pattern-that-goes-back never
            yield f"{shown} may match anything"
            return
        found = expand_pattern(pattern)
        if not found:
            yield f"{shown} matches no file"
        for path in found:
            yield from self._path(path, ignore_paths, must_build=False)
        # A file may have had exactly this name.
        yield from self._differences(self._name(pattern), is_text=True)
        above, _ = self._place(self._name("/".join(literal) or ("/" if literal else ".")))
        if above is not None:
            yield from self._matched_before(above, "/".join(rest), shown)

    def _matched_before(self, above: str, pattern: str, shown: str) -> Iterator[str]:
        """Yield how that differs which a pattern has matched below a place at the commit."""
        for place in self._names_below(above):
            entry = self._commit.entry(place)
            kind = entry.kind if entry is not None else None
            if entry is not None and not entry.is_file and kind != "tree":
                yield from self._differences(place, is_text=True)
                # guard: matched-behind-a-link never
                if any(self._linked_folder(place)):
                    yield f"{shown} may match anything behind {shown_path(place)}"
            # guard: matched-before never
            elif matches_pattern(pattern, place[len(above) :].lstrip("/"), kind):
                yield from self._differences(place, is_text=True)

    def _path(self, path: str, ignore_paths: Sequence[str], *, must_build: bool) -> Iterator[str]:
        is_folder = os.path.isdir(path)  # noqa: PTH112
        # guard: other-work-tree never
        if not self._is_in_tree(path if is_folder else posixpath.dirname(path)):
            yield f"{shown_path(path)} is not in this work tree"
            return
        name = self._name(path)
        found = [*self._differences(name, is_text=True)]
        yield from found
        if not (found or os.path.lexists(path)):
            yield f"{shown_path(path)} does not exist"
        folder = name if is_folder else posixpath.dirname(name)
        place, _ = self._place(folder)
        for one in dict.fromkeys((folder, place)):
            if one is not None:
                yield from self._beside(one, _CONFIGURATIONS + _IGNORED)
        if place is None or not is_folder:
            return
        if must_build or self._folders_for(ignore_paths).kustomization(Path(path)) is not None:
            yield from _all(place, self._build_of)
        else:
            yield from _all(place, self._files_of)

    def _is_in_tree(self, folder: str) -> bool:
        if folder not in self._is_here:
            tree = work_tree_of(folder)
            self._is_here[folder] = tree is not None and tree.root == self._tree.root
        return self._is_here[folder]

    def _folders_for(self, ignore_paths: Sequence[str]) -> LocalFolders:
        if ignore_paths not in self._folders:
            rules = rules_in("\n".join(ignore_paths), "ignore-paths")
            self._folders[ignore_paths] = LocalFolders(Moment(), rules)
        return self._folders[ignore_paths]

    def _beside(self, folder: str, files: Sequence[str]) -> Sequence[str]:
        """Return how files of some names differ, in a folder and in those above it."""
        key = (folder, files)
        if key not in self._above:
            # guard: files-above -> (folder,)
            above = (folder, *folders_above(folder))
            names = [f"{one}/{file}" if one else file for one in above for file in files]
            found = [reason for name in names for reason in self._differences(name, is_text=True)]
            self._above[key] = found
        return self._above[key]

    # A folder that is read, and one that is built.

    def _files_of(self, folder: str) -> _Found:
        if folder not in self._read:
            self._read[folder] = self._listed(folder)
        return self._read[folder]

    def _listed(self, folder: str) -> _Found:
        try:
            with os.scandir(self._real(folder)) as found:
                now = {entry.name: entry for entry in found}
        except (FileNotFoundError, NotADirectoryError):
            now = {}
        if _GIT in now and folder:  # guard: nested-repository never
            return _Found([f"{shown_path(folder)} is a repository of its own"], ())
        reasons: list[str] = []
        folders: list[str] = []
        # guard: removed-from-a-folder -> now.keys()
        names = {*now, *self._children.get(folder, ())}
        for name in sorted(names - {_GIT}):
            place = f"{folder}/{name}" if folder else name
            before = self._commit.entry(place)
            is_other = before is not None and not before.is_file and before.kind != "tree"
            if (entry := now.get(name)) is not None and entry.is_symlink():
                reasons += self._differences(place, is_text=True)
                folders += self._linked_folder(place)
                continue
            if is_other or is_read(name):
                reasons.append(self._difference(place, is_text=True))
            is_folder = before is not None and before.kind == "tree"
            if place not in self._modules and (is_folder or (entry is not None and entry.is_dir())):
                folders.append(place)
        return _Found([*filter(None, reasons)], folders)

    def _linked_folder(self, name: str) -> Iterator[str]:
        place, _ = self._place(name)
        if place is not None and os.path.isdir(self._real(place)):  # noqa: PTH112
            yield place

    def _build_of(self, folder: str) -> _Found:
        if folder not in self._built:
            self._built[folder] = self._named(folder)
        return self._built[folder]

    def _named(self, folder: str) -> _Found:
        named = named_by(self._real(folder))
        faults = []
        if named.unknown:  # guard: unknown-build never
            faults.append(named.unknown)
        if named.plugins:  # guard: folder-of-plugins never
            faults.append("names a folder of generators or transformers")
        if not all(map(is_pinned, named.elsewhere)):  # guard: pinned-base never
            faults.append("names what is neither in the work tree nor of one version")
        reasons: list[str] = []
        for name in NAMES:
            reasons += self._differences(posixpath.join(folder, name), is_text=True)
        beside = {folder}
        # guard: named-and-missing -> named.files
        for path in sorted(named.paths):
            name = self._name(path)
            if not _is_out(name):
                # guard: bytes-of-a-build -> reasons += self._differences(name, is_text=True)
                reasons += self._differences(name, is_text=False)
                beside |= {posixpath.dirname(name)} if path in named.files else set()
            elif os.path.lexists(path):  # guard: base-out-of-the-tree never
                faults.append("names what is outside of the work tree")
        for one in sorted(beside):
            reasons += self._beside(one, _IGNORED)
        called = f"the kustomization of {shown_path(folder) or '.'}"
        reasons += [f"{called} {fault}" for fault in faults]
        inside = (self._name(path) for path in sorted(named.folders))
        return _Found(reasons, [name for name in inside if not _is_out(name)])

    # One place.

    def _differences(self, name: str, *, is_text: bool) -> Iterator[str]:
        """Yield how the links on the way to a name differ, and what it leads to.

        The line ends of a text do not count. A folder counts by what is read of it.
        """
        place, links = self._place(name)
        compared = [*links, *([] if place is None else [place])]
        # guard: links-on-the-way -> compared[-1:]
        for one in compared:
            if reason := self._difference(one, is_text=is_text):
                yield reason
        if place is None:  # guard: link-out-of-the-tree never
            yield f"{shown_path(name)} leads out of the work tree"

    def _difference(self, place: str, *, is_text: bool) -> str:
        key = (place, is_text)
        if key not in self._compared:
            self._compared[key] = self._compare(place, is_text=is_text)
        return self._compared[key]

    def _compare(self, place: str, *, is_text: bool) -> str:
        shown, path = shown_path(place) or ".", self._real(place)
        inside = self._modules.intersection((place, *folders_above(place)))
        if inside:
            return f"{shown_path(min(inside))} is a submodule"
        try:
            mode = os.lstat(path).st_mode
        except PermissionError:
            return f"{shown} cannot be read"
        except (OSError, ValueError):  # nothing can be there
            mode = 0
        before = self._commit.entry(place)
        if before is None:
            return f"{shown} is not in {self._shown}" if mode and not stat.S_ISDIR(mode) else ""
        if not mode:
            return f"{shown} was removed"
        if stat.S_ISDIR(mode):
            is_same = before.kind == "tree"
        elif stat.S_ISLNK(mode):
            target = os.fsencode(self._target(place))
            is_same = not before.is_file and before.oid in blob_ids(target, len(before.oid))
        else:
            ids = digests(path, len(before.oid)) if stat.S_ISREG(mode) else ()
            # guard: link-with-the-text-of-a-file -> is_same = before.oid in ids[: 1 + is_text]
            is_same = before.is_file and before.oid in ids[: 1 + is_text]
        return "" if is_same else f"{shown} changed"

    def _place(self, name: str) -> tuple[str | None, Sequence[str]]:
        """Return where a name leads, None if that is out of the work tree; and the links there."""
        if name not in self._places:
            self._places[name] = self._follow(name)
        return self._places[name]

    def _follow(self, name: str) -> tuple[str | None, Sequence[str]]:
        place = ""
        links: list[str] = []
        waiting = name.split("/")[::-1]
        while waiting:
            part = waiting.pop()
            if part in {"", "."}:
                continue
            if part == "..":
                if not place:
                    return None, links
                place = posixpath.dirname(place)
                continue
            at = f"{place}/{part}" if place else part
            target = self._target(at)
            if not target:
                place = at
                continue
            links.append(at)
            if len(links) > _MOST_LINKS:
                return None, links
            if target.startswith("/"):
                place, target = "", self._name(target)
            waiting += target.split("/")[::-1]
        return place, links

    def _target(self, place: str) -> str:
        """Return where a link leads; empty for what is not a link."""
        if place not in self._targets:
            try:
                self._targets[place] = os.readlink(self._real(place))  # noqa: PTH115
            except (OSError, ValueError):
                self._targets[place] = ""
        return self._targets[place]

    def _name(self, path: str) -> str:
        """Return the name of a path; one that begins with ``..`` is out of the work tree."""
        full = os.path.abspath(path)  # noqa: PTH100
        for root in self._roots:
            inside = os.path.join(root, "")  # noqa: PTH118
            if f"{full}/".startswith(inside):
                return full[len(inside) :]
        return os.path.relpath(full, self._roots[0])

    def _real(self, place: str) -> str:
        return os.path.join(self._roots[1], place)  # noqa: PTH118

    def _names_below(self, folder: str) -> Iterable[str]:
        names = self._commit.names
        if not folder:
            return names
        first, end = (bisect_left(names, f"{folder}{sign}") for sign in "/0")
        return names[first:end]

    # Which sets there were, and are.

    def sets_before(self, top: str) -> Iterator[RemovedSet]:
        """Yield the sets of the commit below a folder whose files have changed."""
        place, _ = self._place(self._name(top))
        names = () if place is None else self._names_below(place)
        files = (name.rpartition("/") for name in names)
        folders = [folder for folder, _, file in files if file == FILE]
        changed = [folder for folder in folders if self._beside(folder, _CONFIGURATIONS)]
        above = {one for folder in changed for one in (folder, *folders_above(folder))}
        contents = self._commit.small_files([posixpath.join(one, FILE) for one in above])
        for folder in changed:
            if (found := _set_of(folder, contents.get)) is not None:
                yield RemovedSet(found, posixpath.join(folder, FILE))

    def sets_outside(self, top: str) -> Iterator[SetName]:
        """Yield the sets of the work tree that are not below a folder."""
        inside = os.path.realpath(top)
        for folder, folders, files in os.walk(self._roots[1]):
            folders[:] = [one for one in folders if one != _GIT]
            if folder == inside:
                folders.clear()
            elif FILE in files:
                found = _set_of(self._name(folder), self._bytes)
                if found is not None:
                    yield found

    def _bytes(self, name: str) -> bytes | None:
        try:
            return Path(self._real(name)).read_bytes()
        except OSError:
            return None


def _all(top: str, found_in: Callable[[str], _Found]) -> Iterator[str]:
    """Yield the reasons of a folder, and of all that are read with it."""
    entered: set[str] = set()
    waiting = [top]
    while waiting:
        folder = waiting.pop()
        if folder not in entered:
            entered.add(folder)
            found = found_in(folder)
            yield from found.reasons
            waiting += sorted(found.folders, reverse=True)


def _is_out(name: str) -> bool:
    return name == ".." or name.startswith("../")


def _set_of(folder: str, read: Callable[[str], bytes | None]) -> SetName | None:
    """Return the set that the file in a folder names; None if it names none.

    ``read`` returns the content of a file; None if there is none.
    """
    chain = []
    try:
        for above in reversed([folder, *folders_above(folder)]):
            data = read(posixpath.join(above, FILE))
            if data is not None:
                chain.append(configuration_in(shown_path(posixpath.join(above, FILE)), data))
        said = inherited(chain)
    except InputError:
        return None
    if not chain or said.get("name") is not chain[-1]:
        return None
    values = (
        said[key].settings[key] if key in said else "" for key in ("name", "namespace", "context")
    )
    name, namespace, context = (
        one.get("name", "") if isinstance(one, dict) else one for one in values
    )
    return SetName(str(name), str(namespace), str(context))
