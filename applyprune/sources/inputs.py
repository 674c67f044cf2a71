"""The input that the command line names: files, folders, patterns, URLs, builds, addresses.

The files of a fetched source follow the same rules (``folders``). Links are followed, and each file
and folder is read once. What cannot be read never counts as empty.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import BinaryIO, TypeAlias

from msgspec import Struct

from applyprune.errors import InputError, UsageError
from applyprune.model.problem import Origin, Problem
from applyprune.sources.address import (
    OciAddress,
    is_address,
    parse_address,
    shown_address,
    shown_url,
    source_key,
)
from applyprune.sources.folders import (
    FoundFile,
    FoundIgnored,
    FoundKustomization,
    Kind,
    expand_pattern,
    find,
    ignored_path,
    is_pattern,
    manifests_in,
    unreadable,
)
from applyprune.sources.kustomize import (
    NAMES,
    BuildRules,
    FilesOfTree,
    Overlay,
    build,
    build_folder,
    files_to_load,
    ignored_base,
    kustomization_in,
    loaded_files,
    no_kustomization,
    remote_base,
)
from applyprune.sources.moment import Moment, at_most, without_waiting
from applyprune.sources.source_ignore import (
    MOST_OF_A_FILE,
    IgnoreRules,
    IgnoreRulesInvalid,
    Rule,
    ignore_file,
    without_ignored,
)
from applyprune.sources.tree import (
    MAX_BYTES,
    FetchFailed,
    FileTree,
    IgnoredText,
    SourceText,
    clean_path,
    is_url,
    no_such_path,
    shown_path,
    too_much,
)
from applyprune.sources.web import check_url, download
from applyprune.system.processes import ProcessGuard, ProcessLimits
from applyprune.values import encode, hiding, replace

STDIN = "-"
_GIT = ".git"
"""What the root of a repository has, and what is never a part of its source."""


def ignore(problem: Problem) -> None:
    """Discard a warning."""
    del problem


def read_sources(
    paths: Sequence[str | Overlay],
    stdin: BinaryIO | None = None,
    warn: Callable[[Problem], None] = ignore,
    moment: Moment | None = None,
    rules: Sequence[Rule] = (),
    at: CommitInput | None = None,
) -> Iterator[InputSource]:
    """Yield every source once, in the order of ``paths``; a source that cannot be read as an error.

    At the end come the errors of files and folders that have changed since they were read.
    ``rules`` leave out files of folders and of fetched sources, after those in ``.sourceignore``.
    With ``at``, the files are those of a commit.

    Raises UsageError for ``-`` twice or without a ``stdin``, for an empty path and for an
    unsupported URL. ``warn`` receives the warnings about sources that could be read.
    """
    _check_paths(paths, stdin)
    moment = moment or Moment()
    reader = _Reader(stdin, warn, moment, rules)
    if at is not None:
        for part in at.parts:
            yield from reader.read_commit(at, part)
        return
    for path in paths:
        yield from reader.read(path)
    for error in moment.changes():
        yield InputSource("", "", error)


class CommitInput(Struct, frozen=True):
    """The files of a commit that an input consists of."""

    commit: str
    """Its whole ID."""
    shown: str
    """How it is called in places: as the user has named it."""
    parts: Sequence[tuple[str | Overlay, str, FileTree | InputError]]
    """Each path of the command line, the path from the root that it means, and the files that are
    needed to read it, or what is wrong. A pattern may mean several."""


class InputSource(Struct, frozen=True):
    """One source that a path leads to."""

    path: str | Overlay
    """The path on the command line."""
    place: str
    """The identity of the source: two sources with the same place are the same. It may have a
    credential."""
    source: SourceText | IgnoredText | InputError | None
    """The content, of what is ignored too, or the error; None for a repeated source, and for our
    own configuration file."""

    __repr__ = hiding("place")


def _check_paths(paths: Sequence[str | Overlay], stdin: BinaryIO | None) -> None:
    if "" in paths or Overlay("") in paths:
        # Path("") is the current directory; an unset variable in a script does not mean that.
        raise UsageError("empty path", hint="Check for an unset variable in the script.")
    if paths.count(STDIN) > 1:
        raise UsageError("standard input can be read only once", hint="Use - only once.")
    if STDIN in paths and stdin is None:
        raise UsageError("standard input is not available")
    for path in paths:
        if _remote_source(path) is None and isinstance(path, str) and is_url(path):
            check_url(path)


def _remote_source(path: str | Overlay) -> OciAddress | None:
    """Return the source on another host that a path names; None if it names none.

    Raises UsageError for an invalid address.
    """
    return parse_address(path.folder if isinstance(path, Overlay) else path)


class _Reader:
    """Reads paths one after the other, each file and folder once."""

    def __init__(
        self,
        stdin: BinaryIO | None,
        warn: Callable[[Problem], None],
        moment: Moment,
        rules: Sequence[Rule],
    ) -> None:
        self._stdin = stdin
        self._warn = warn
        self._moment = moment
        self._rules = rules
        self._folders = LocalFolders(moment, rules)
        self._left = MAX_BYTES
        self._left_ignored = _MOST_IGNORED
        self._seen: set[str] = set()
        self._versions: dict[str, list[OciAddress]] = {}

    def read(self, path: str | Overlay) -> Iterator[InputSource]:
        for place in self._places(path):
            if isinstance(place, InputError):
                yield InputSource(path, "", place)
            elif isinstance(place, OciAddress):
                yield from self._fetched(path, place)
            elif isinstance(place, FoundIgnored):
                yield InputSource(path, "", self._read_ignored(place))
            elif self._is_new(identity := _identity(place)):
                source = self._read_place(place)
                yield self._input_source(path, identity, source)
            else:
                yield InputSource(path, identity, None)

    def _places(
        self, path: str | Overlay
    ) -> Iterator[_Place | OciAddress | FoundIgnored[Path] | InputError]:
        if (remote := _remote_source(path)) is not None:
            yield remote
        elif isinstance(path, Overlay):
            yield path
        elif path == STDIN:
            yield None
        elif is_url(path):
            yield _Url(path)
        elif is_pattern(path):
            yield from self._expand(path)
        else:
            yield from self._find(path)

    def _expand(self, pattern: str) -> Iterator[_Place | FoundIgnored[Path] | InputError]:
        try:
            found = expand_pattern(pattern, self._moment.names)
        except OSError as error:
            yield unreadable(shown_path(str(error.filename or pattern)), error)
            return
        except InputError as error:
            yield error
            return
        if not found:
            yield InputError(
                "no file matches",
                location=Origin(shown_path(pattern)),
                hint="** matches any number of folders; to match a hidden name, begin with a dot.",
            )
        for path in found:
            yield from self._find(path, is_named=False)

    def _find(
        self, path: str, *, is_named: bool = True
    ) -> Iterator[_Place | FoundIgnored[Path] | InputError]:
        self._folders.enter(Path(path))
        for found in find(self._folders, Path(path), is_named=is_named):
            # As the user wrote the folder.
            yield Overlay(path) if isinstance(found, FoundKustomization) else found

    def _read_place(self, place: _Place) -> SourceText | InputError | None:
        """Return the content of a place; None for our own configuration file in a folder."""
        match place:
            case _Url(url=url):
                return download(url, self._left, self._warn)
            case Overlay():
                if error := self._folders.ignored_in_build(place):
                    return error
                return build(place, self._left, self._warn, self._moment)
        path = _STDIN_SHOWN if place is None else shown_path(str(place.path))
        is_named = place is None or place.is_named
        most = self._left + 1
        try:
            if place is not None:
                data = self._moment.read(place.path, most, waits=is_named)
            else:
                data = at_most(self._stdin, most) if self._stdin else b""
        except (OSError, ValueError) as error:
            return unreadable(path, error)
        except InputError as error:
            return error
        if len(data) > self._left:
            return too_much(path)
        config_hint = f"Pass it as configuration: --config {path}"
        return manifests_in(path, data, is_named=is_named, config_hint=config_hint)

    def _read_ignored(self, found: FoundIgnored[Path]) -> IgnoredText | None:
        """Return what a file holds that is not read; None if that cannot be found out."""
        try:
            with open(found.path, "rb", opener=without_waiting) as stream:
                is_file = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
                data = at_most(stream, self._left_ignored) if is_file else b""
        except (OSError, ValueError):
            return None
        self._left_ignored -= len(data)
        return IgnoredText(shown_path(str(found.path)), data, found.rule)

    def _fetched(self, path: str | Overlay, address: OciAddress) -> Iterator[InputSource]:
        """Yield the sources of an address; what an earlier address has given is not new."""
        try:
            tree = _pulled(address)
        except InputError as error:
            yield InputSource(path, "", error)
            return
        # Not its repr: that lacks what must not be shown.
        of = encode(source_key(address)).decode()
        yield from self._of_tree(path, tree, address.path, self._shown_name(address), of)

    def read_commit(
        self, at: CommitInput, part: tuple[str | Overlay, str, FileTree | InputError]
    ) -> Iterator[InputSource]:
        """Yield the sources at a path of a commit."""
        path, inside, tree = part
        if isinstance(tree, InputError):
            yield InputSource(path, "", tree)
        else:
            yield from self._of_tree(path, tree, inside, at.shown, at.commit)

    def _of_tree(
        self, path: str | Overlay, tree: FileTree, inside: str, shown: str, of: str
    ) -> Iterator[InputSource]:
        """Yield the sources at a path of a tree; ``of`` tells one tree from another."""
        try:
            tree = without_ignored(tree, self._rules)
        except InputError as error:
            yield InputSource(path, "", error)
            return
        found = tree_sources(
            tree,
            inside,
            shown=shown,
            limit=self._left,
            warn=self._warn,
            refuses_remote_bases=False,
            must_build=isinstance(path, Overlay),
        )
        for source in found:
            identity = "" if isinstance(source, InputError) else f"{of} {source.path}"
            if not identity or self._is_new(identity):
                yield self._input_source(path, identity, source)
            else:
                yield InputSource(path, identity, None)

    def _input_source(
        self,
        path: str | Overlay,
        identity: str,
        source: SourceText | IgnoredText | InputError | None,
    ) -> InputSource:
        if isinstance(source, SourceText):
            self._left -= len(source.data)
        return InputSource(path, identity, source)

    def _is_new(self, identity: str) -> bool:
        is_new = identity not in self._seen
        self._seen.add(identity)
        return is_new

    def _shown_name(self, address: OciAddress) -> str:
        """Return the shown form of a source; another version of it gets a number, as a name."""
        keys = self._versions.setdefault(address.shown, [])
        if (key := source_key(address)) not in keys:
            keys.append(key)
        number = keys.index(key) + 1
        return address.shown if number == 1 else f"{address.shown} ({number})"


class _Url(Struct, frozen=True):
    url: str


def _pulled(address: OciAddress) -> FileTree:
    """Return the files of an artifact, with the user's credentials for its registry."""
    # Most inputs are local, and this takes a tenth of a start.
    from applyprune.sources.oci_artifact import artifact_source, fetch_artifact  # noqa: PLC0415

    try:
        return fetch_artifact(artifact_source(address, os.environ))
    except InputError as error:
        where = Origin(address.shown)
        error.problem = replace(error.problem, location=str(where), origin=where)
        raise


_Place: TypeAlias = "FoundFile[Path] | _Url | Overlay | None"


def _identity(place: _Place) -> str:
    match place:
        case FoundFile(path=path):
            return os.path.realpath(path)
        case Overlay(folder=folder):
            return f"{os.path.realpath(folder)} built"
        case _Url(url=url):
            return url
    return STDIN


_MOST_IGNORED = 16 * 2**20
"""Bytes of files that are not read, in which manifests are looked for."""


class LocalFolders:
    """The files of this machine; links are followed.

    The root of the source is that of the Git repository, where there is one: so the rules of a
    folder are those of a Bundle with its path. Else it is the folder that was named.
    """

    def __init__(self, moment: Moment, rules: Sequence[Rule]) -> None:
        self._moment = moment
        self._given = rules
        self._top = ""
        self._roots: dict[str, str] = {}
        self._rules: dict[str, IgnoreRules] = {}

    def enter(self, top: Path) -> None:
        """Note what the user has named."""
        name = os.path.abspath(top)  # noqa: PTH100 -- links in it stay as they are
        self._top = name if top.is_dir() else os.path.dirname(name)  # noqa: PTH120

    def rule_for(self, file: Path) -> str:
        name = os.path.abspath(file)  # noqa: PTH100
        root = self._repository(os.path.dirname(name)) or self._top  # noqa: PTH120
        return self._rule_in(root, name)

    def ignored_in_build(self, overlay: Overlay) -> InputError | None:
        """Return the error for a build that loads a file that is not in the source."""
        try:
            files = files_to_load(overlay.folder)
            top = os.path.realpath(overlay.folder)
            root = self._repository(top) or top
            for file in sorted(files):
                if rule := self._rule_in(root, file):
                    return ignored_base(shown_path(overlay.folder), {shown_path(file): rule})
        except IgnoreRulesInvalid as error:
            return error
        return None

    def _rule_in(self, root: str, name: str) -> str:
        root = os.path.join(root, "")  # noqa: PTH118 -- a separator at its end
        if not name.startswith(root):
            return ""
        if root not in self._rules:
            self._rules[root] = IgnoreRules(partial(self._rules_of, root), self._given)
        path = name[len(root) :].replace(os.sep, "/")
        found = self._rules[root].rule_for(path)
        return "" if found is None else str(found)

    def _repository(self, folder: str) -> str:
        """Return the root of the work tree that a folder is in; empty if it is in none."""
        if folder not in self._roots:
            above = os.path.dirname(folder)  # noqa: PTH120
            if os.path.lexists(os.path.join(folder, _GIT)):  # noqa: PTH118
                self._roots[folder] = folder
            else:
                self._roots[folder] = "" if above == folder else self._repository(above)
        return self._roots[folder]

    def _rules_of(self, root: str, folder: str) -> bytes | None:
        path = Path(root, ignore_file(folder))
        try:
            return self._moment.read(path, MOST_OF_A_FILE + 1, waits=False)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, InputError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise IgnoreRulesInvalid(
                "cannot be read", location=Origin(shown_path(str(path))), reason=reason or ""
            ) from None

    def kind(self, path: Path) -> Kind:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return Kind.FOLDER
        return Kind.FILE if stat.S_ISREG(mode) else Kind.OTHER

    def children(self, folder: Path) -> Iterable[Path]:
        return [folder / name for name in self._moment.names(str(folder)) if name != _GIT]

    def kustomization(self, folder: Path) -> Path | None:
        found = kustomization_in(folder)
        return None if found is None or self.rule_for(found) else found

    def identity(self, folder: Path) -> str:
        return os.path.realpath(folder)

    def shown(self, path: Path) -> str:
        return shown_path(str(path))

    def build_hint(self, folder: Path) -> str:
        return f"Build its folder: -k {self.shown(folder)}"

    def nested_hint(self, folder: Path) -> str:
        return (
            f"Use -k {self.shown(folder)} to build it, or -f with paths that contain no "
            "kustomization."
        )


_STDIN_SHOWN = "<stdin>"


def shown_given(path: str | Overlay) -> str:
    """Return one of the paths, safe to print."""
    if isinstance(path, Overlay):
        folder = path.folder
        return shown_address(folder) if is_address(folder) else shown_path(folder)
    if path == STDIN:
        return _STDIN_SHOWN
    if is_address(path):
        return shown_address(path)
    return shown_url(path) if is_url(path) else shown_path(path)


def options_for(paths: Sequence[str | Overlay]) -> str:
    """Return the options that name an input again; empty for standard input, and if they are long.

    A path that is not safe to print is not named.
    """
    plain = {path: path.folder if isinstance(path, Overlay) else path for path in paths}
    if len(paths) > _MOST_NAMED or any(shown_given(path) != text for path, text in plain.items()):
        return ""
    return " ".join(
        f"{'-k' if isinstance(path, Overlay) else '-f'} {shlex.quote(text)}"
        for path, text in plain.items()
    )


_MOST_NAMED = 3


# The files of a fetched source, by the same rules as a local folder.
#
# A kustomization is built in a private folder with the files of the source: regular files only, so
# that no link leads out of it. No message names that folder.


_ROOT = PurePosixPath()
_ROOT_SHOWN = "the root of the source"
# No server answers at these addresses, and no program can be found.
_OFFLINE = {
    "PATH": "",
    **{
        name: "http://127.0.0.1:1"
        for word in ("http_proxy", "https_proxy", "all_proxy")
        for name in (word, word.upper())
    },
}


def tree_sources(
    tree: FileTree,
    path: str,
    *,
    shown: str,
    limit: int,
    warn: Callable[[Problem], None],
    refuses_remote_bases: bool,
    must_build: bool = False,
) -> Iterator[SourceText | IgnoredText | InputError]:
    """Yield the manifests at a path of a tree and below it, and the errors; see ``folders``.

    What ``without_ignored`` has taken out of the tree is yielded as such.

    ``shown`` is the address of the tree, safe to print: a file is called ``SHOWN//PATH``. ``limit``
    is in bytes, for all sources together. ``warn`` receives what a build writes to standard error.
    With ``refuses_remote_bases``, a kustomization that names anything outside of the tree is an
    error before its build, which has no network and no variable of this process's environment.
    With ``must_build``, a path without a kustomization is an error.
    """
    folders = _TreeFolders(tree, shown)
    top = PurePosixPath(path)
    left = limit
    if rule := folders.rule_of_all(top):  # guard: ignored-path never
        yield ignored_path(folders.shown(top), rule)
        return
    if must_build and not (folders.is_folder(top) and folders.kustomization(top)):
        files = [str(top / name) for name in NAMES]
        rules = {file: folders.ignored[file].rule for file in files if file in folders.ignored}
        where = folders.shown(top)
        yield ignored_base(where, rules) if rules else no_kustomization(Origin(where))
        return
    if not folders.exists(top):
        yield no_such_path(path, (*tree.files, *tree.ignored), Origin(folders.shown(top)))
        return
    source: SourceText | IgnoredText | InputError | None
    for found in find(folders, top):
        match found:
            case FoundKustomization(folder=folder):
                source = _build_fetched(
                    folders, folder, left, warn, is_offline=refuses_remote_bases
                )
            case FoundFile(path=file, is_named=is_named):
                source = _read_fetched(folders, file, left, is_named=is_named)
            case FoundIgnored(path=file, rule=rule):
                source = IgnoredText(folders.shown(file), folders.ignored[str(file)].data, rule)
            case InputError():
                source = found
        if isinstance(source, SourceText):
            left -= len(source.data)
        if source is not None:
            yield source


class _TreeFolders:
    """The files of a tree as folders; every folder has at least one file below it."""

    def __init__(self, tree: FileTree, shown: str) -> None:
        self.files = tree.files
        self.ignored = tree.ignored
        self.shown_root = shown
        self._children: dict[PurePosixPath, list[PurePosixPath]] = {_ROOT: []}
        for name in (*tree.files, *tree.ignored):
            self._add(PurePosixPath(name))

    def rule_for(self, file: PurePosixPath) -> str:
        found = self.ignored.get(str(file))
        return "" if found is None else found.rule

    def rule_of_all(self, path: PurePosixPath) -> str:
        """Return a rule that leaves out what is at a path; empty if anything of it is read."""
        name = "" if path == _ROOT else str(path)
        first = _first_below(name, self.ignored)
        is_read = first is None or _first_below(name, self.files) is not None
        return "" if first is None or is_read else self.ignored[first].rule

    def _add(self, path: PurePosixPath) -> None:
        parent = path.parent
        if parent not in self._children:
            self._children[parent] = []
            self._add(parent)
        self._children[parent].append(path)

    def is_folder(self, path: PurePosixPath) -> bool:
        return path in self._children

    def exists(self, path: PurePosixPath) -> bool:
        return self.is_folder(path) or str(path) in self.files or str(path) in self.ignored

    def kind(self, path: PurePosixPath) -> Kind:
        return Kind.FOLDER if self.is_folder(path) else Kind.FILE

    def children(self, folder: PurePosixPath) -> Iterable[PurePosixPath]:
        return self._children[folder]

    def kustomization(self, folder: PurePosixPath) -> PurePosixPath | None:
        return next((path for name in NAMES if str(path := folder / name) in self.files), None)

    def identity(self, folder: PurePosixPath) -> str:
        return str(folder)

    def shown(self, path: PurePosixPath) -> str:
        if path == _ROOT:
            return self.shown_root or _ROOT_SHOWN
        # A Bundle has one source, so its status names the path alone.
        root = f"{self.shown_root}//" if self.shown_root else ""
        return f"{root}{shown_path(str(path))}"

    def build_hint(self, folder: PurePosixPath) -> str:
        name = _ROOT_SHOWN if folder == _ROOT else shown_path(str(folder))
        return f"Name its folder to have it built: {name}"

    def nested_hint(self, folder: PurePosixPath) -> str:
        return (
            f"Use the path {shown_path(str(folder))} to build it, or a path that contains no "
            "kustomization."
        )


def _first_below(path: str, files: Iterable[str]) -> str | None:
    start = f"{path}/" if path else ""
    return next((file for file in files if file == path or file.startswith(start)), None)


def _read_fetched(
    folders: _TreeFolders, file: PurePosixPath, left: int, *, is_named: bool
) -> SourceText | InputError | None:
    data = folders.files[str(file)]
    if len(data) > left:
        return too_much(folders.shown(file))
    return manifests_in(folders.shown(file), data, is_named=is_named)


def _build_fetched(
    folders: _TreeFolders,
    folder: PurePosixPath,
    left: int,
    warn: Callable[[Problem], None],
    *,
    is_offline: bool,
) -> SourceText | InputError:
    """Write the tree to a private folder, and build a kustomization in it."""
    built = _build_of_tree(folders, folder, left, warn, is_offline=is_offline)
    if isinstance(built, InputError) and folders.ignored:
        all_files = {**{name: one.data for name, one in folders.ignored.items()}, **folders.files}
        loaded = loaded_files("" if folder == _ROOT else str(folder), FilesOfTree(all_files))
        if named := sorted(loaded & folders.ignored.keys()):
            rules = {
                folders.shown(PurePosixPath(name)): folders.ignored[name].rule for name in named
            }
            return ignored_base(folders.shown(folder), rules)
    return built


def _build_of_tree(
    folders: _TreeFolders,
    folder: PurePosixPath,
    left: int,
    warn: Callable[[Problem], None],
    *,
    is_offline: bool,
) -> SourceText | InputError:
    shown = folders.shown(folder)
    if is_offline:  # guard: remote-bases never
        fault = remote_base(folders.files, "" if folder == _ROOT else str(folder))
        if fault is not None:
            where = Origin(folders.shown(PurePosixPath(fault.file)))
            return InputError(fault.what, location=where, reason=fault.reason, hint=fault.hint)
    try:
        with (
            TemporaryDirectory(prefix="applyprune-") as private,
            ProcessGuard(Path(private)) as guard,
        ):
            # Kustomize resolves links: of the folder for temporary files, too.
            root = Path(private).resolve() / "source"
            _write_tree(root, folders.files)
            rules = BuildRules(
                shown_text=lambda text: _without_private_folder(text, root, folders.shown_root),
                guard=guard,
            )
            if is_offline:
                own = {**_OFFLINE, "HOME": private, "TMPDIR": private}
                rules = replace(rules, environ=own, within=ProcessLimits().command())
            return build_folder(str(root / folder), shown, left, warn, rules)
    except OSError as error:
        # Not InvalidSource, which nothing but a change of the source ends.
        return FetchFailed(
            "its files cannot be written for the build",
            location=Origin(shown),
            reason=error.strerror or "",
        )


def _write_tree(root: Path, files: Mapping[str, bytes]) -> None:
    """Write regular files below a new folder, for this user only; raise OSError."""
    root.mkdir(0o700)
    for name, data in files.items():
        if not name or clean_path(name) != name:  # guard: tree-path never
            raise OSError(errno.EINVAL, "a file has an invalid path")
        path = root / name
        path.parent.mkdir(0o700, parents=True, exist_ok=True)
        # Never through an existing name: two may differ only in case.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)


def _without_private_folder(text: str, root: Path, shown: str) -> str:
    """Return a text with the address of the tree instead of its private folder."""
    return text.replace(f"{root}/", f"{shown}//" if shown else "").replace(str(root), shown)
