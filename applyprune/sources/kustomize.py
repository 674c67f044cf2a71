"""Build a folder with a kustomization by the ``kustomize`` program; find what such a folder names.

Only kustomize itself, or kubectl's copy, builds; what is read here is which paths and remote bases
a kustomization names.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import stat
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from collections.abc import Set as AbstractSet
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from applyprune.clock import CLOCK
from applyprune.errors import InputError
from applyprune.model.live import one_line
from applyprune.model.problem import Origin, Problem, ProblemKind
from applyprune.sources.documents import read_documents
from applyprune.sources.moment import changed
from applyprune.sources.source_ignore import folders_above, ignore_files
from applyprune.sources.tree import BUILT, SourceText, is_url, shown_path, too_much
from applyprune.sources.yaml import YAMLFault
from applyprune.system.processes import MOST_ERRORS, TooMuchOutput, run_program
from applyprune.values import hiding, pattern

if TYPE_CHECKING:
    from applyprune.sources.moment import Moment
    from applyprune.system.processes import ProcessGuard

    Warn = Callable[[Problem], None]


NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""The names of kustomize's file, in the order in which kustomize looks for them."""
BUILD_TIMEOUT = 120.0
"""Seconds for one build, including the remote bases that it may fetch."""


class Overlay(Struct, frozen=True):
    """A folder to build, as ``-k`` names it."""

    folder: str


def build(overlay: Overlay, limit: int, warn: Warn, moment: Moment) -> SourceText | InputError:
    """Build a folder; return the source, which is named after the folder, or the error.

    ``limit`` is in bytes. ``warn`` receives what the program writes to standard error, ``moment``
    the files that the build reads.
    """
    shown = shown_path(overlay.folder)
    try:
        _check_overlay(overlay.folder)
        _watch(overlay.folder, moment)
    except InputError as error:
        return error
    except OSError as error:
        return InputError("cannot be built", location=Origin(shown), reason=error.strerror or "")
    source = build_folder(overlay.folder, shown, limit, warn)
    # guard: files-of-a-build never
    if any(not moment.has(file) for file in _files_of_build(overlay.folder)):
        # The build may have read what is new, half.
        return changed(overlay.folder)
    return source


def _watch(folder: str, moment: Moment) -> None:
    """Note the files that a build reads, as they were when all of them had rested."""
    waiting = _files_of_build(folder)
    while waiting:
        for file in sorted(waiting):
            moment.watch(file)
        # A file that has rested meanwhile may name others.
        waiting = {file for file in _files_of_build(folder) if not moment.has(file)}


def _files_of_build(folder: str) -> AbstractSet[str]:
    """Return the files of this machine that a folder consists of for kustomize."""
    tree = _LocalTree(folder)
    finder = _Finder(tree)
    finder.enter(tree.top)
    while finder.waiting:
        finder.scan(finder.waiting.pop())
    return {tree.path(file) for file in tree.files_of(finder.paths)}


def files_to_load(folder: str) -> AbstractSet[str]:
    """Return the files of this machine that the build of a folder certainly loads."""
    tree = _LocalTree(folder)
    return {tree.path(file) for file in loaded_files(tree.top, tree)}


def ignored_base(shown: str, rules: Mapping[str, str]) -> InputError:
    """Return the error for a build that loads files that are not read.

    ``shown`` is the folder, and ``rules`` has the rule of each of the files.
    """
    return InputError(
        "the kustomization names what is ignored",
        location=Origin(shown),
        reason="; ".join(f"{file}, by {rule}" for file, rule in [*rules.items()][:_SHOWN]),
        hint="What is ignored is not a part of the source. Take it back with a rule that begins "
        "with an exclamation mark.",
    )


_SHOWN = 5


class _LocalTree:
    """The files and folders of a machine, as those of one tree; links are followed."""

    def __init__(self, folder: str) -> None:
        real = Path(os.path.realpath(folder))
        self._root = real.anchor
        self.top = real.relative_to(real.anchor).as_posix()

    def path(self, name: str) -> str:
        return os.path.join(self._root, name)  # noqa: PTH118 -- a text, as the others

    def kind(self, name: str) -> str | None:
        try:
            mode = os.stat(self.path(name)).st_mode  # noqa: PTH116
        except (OSError, ValueError):
            return None
        if stat.S_ISDIR(mode):
            return "tree"
        return "blob" if stat.S_ISREG(mode) else None

    def real(self, name: str) -> str:
        found = Path(os.path.realpath(self.path(name))).relative_to(self._root).as_posix()
        return ROOT if found == "." else found

    def read(self, name: str) -> bytes | None:
        try:
            return Path(self.path(name)).read_bytes()
        except OSError:
            return None

    def files_of(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the files among the names, and the kustomizations of the folders."""
        for name in names:
            if self.kind(name) == "blob":
                yield name
            else:
                yield from _kustomizations(name, self)


def _check_overlay(folder: str) -> None:
    where = Origin(shown_path(folder))
    if is_url(folder):
        raise InputError(
            "-k needs a folder, or the address of an artifact",
            location=where,
            hint="Pipe the build in: kustomize build URL | applyprune … -f -",
        )
    if not Path(folder).is_dir():
        raise InputError("no such folder", location=where)
    if kustomization_in(Path(folder)) is None:
        raise no_kustomization(where)


def kustomization_in(folder: Path) -> Path | None:
    """Return the kustomization file of a folder, or None; raises OSError."""
    return next((path for name in NAMES if (path := folder / name).is_file()), None)


def no_kustomization(where: Origin) -> InputError:
    """Return the error for a folder that is to be built, and has no kustomization."""
    return InputError(f"it contains no {', '.join(NAMES[:-1])} or {NAMES[-1]}", location=where)


class BuildRules(Struct, frozen=True):
    """How a folder is built that is not the user's own."""

    shown_text: Callable[[str], str] = str
    """Makes what the program writes fit to be shown."""
    environ: Mapping[str, str] | None = None
    """The program's whole environment; None for that of this process."""
    within: Sequence[str] = ()
    """The beginning of a command that limits the program."""
    guard: ProcessGuard | None = None

    __repr__ = hiding("environ")


_DEFAULT_RULES = BuildRules()


def build_folder(
    folder: str, shown: str, limit: int, warn: Warn, rules: BuildRules = _DEFAULT_RULES
) -> SourceText | InputError:
    """Build a folder that has a kustomization; messages call it ``shown``."""
    where = Origin(f"{shown}{BUILT}")
    try:
        command = _command(folder, shown)
        environ = os.environ if rules.environ is None else rules.environ
        done = run_program(
            [*rules.within, *command],
            env={**environ, "GIT_TERMINAL_PROMPT": "0"},
            deadline=CLOCK.now() + BUILD_TIMEOUT,
            max_output=limit,
            cwd=None,
            guard=rules.guard,
        )
    except InputError as error:
        return error
    except TooMuchOutput:
        return too_much(where.path)
    except TimeoutError:
        return InputError(f"the build did not finish within {BUILD_TIMEOUT:.0f} s", location=where)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return InputError("cannot be built", location=where, reason=reason or "")
    err = _DEPRECATED.sub("", rules.shown_text(done.stderr.decode("utf-8", "replace")))
    message = _message(err, is_cut=len(done.stderr) == MOST_ERRORS)
    if done.code:
        for words, option in _OPTIONS.items():
            if words in message:
                return _needs_option(option, shown if rules is _DEFAULT_RULES else "", where)
        reason = message or f"{' '.join(command[:-1])} exited with code {done.code}"
        return InputError("the build failed", location=where, reason=reason)
    if not done.stdout.strip():
        return InputError(
            "the build is empty", location=where, hint="Check that it lists resources."
        )
    if message:
        warn(Problem(ProblemKind.KUSTOMIZE, message, str(where)))
    return SourceText(where.path, done.stdout)


# What kustomize writes where it wants an option that lets it run other programs.
_OPTIONS = {
    "must specify --enable-helm": "--enable-helm",
    "external plugins disabled": "--enable-alpha-plugins",
}


def _needs_option(option: str, folder: str, where: Origin) -> InputError:
    """Return the error for a build that needs an option; ``folder`` is the user's own, if it is."""
    hint = f"Commit what `kustomize build {option}` writes, and follow that."
    if folder:
        hint = f"Build it yourself: kustomize build {option} {folder} | applyprune … -f -"
    return InputError(
        f"the build needs {option} of kustomize, which applyprune does not set",
        location=where,
        reason="with this option, the build runs other programs",
        hint=hint,
    )


def _command(folder: str, shown: str) -> Sequence[str]:
    # An absolute path: kustomize treats some relative paths as the address of a repository.
    path = os.path.abspath(folder)  # noqa: PTH100 -- links in it stay as they are
    if program := shutil.which("kustomize"):
        return (program, "build", path)
    if program := shutil.which("kubectl"):
        return (program, "kustomize", path)
    raise InputError(
        "kustomize or kubectl is needed to build a kustomization, and neither is installed",
        location=Origin(shown),
        hint="Install either (https://kubectl.docs.kubernetes.io/installation/kustomize/), "
        "or build it on another machine and pipe it in: kustomize build DIR | applyprune … -f -",
    )


# The parts of the input that kustomize quotes in its errors: they may belong to a Secret.
_TO_THE_END = (
    "invalid literal source ",
    "node contents:",
    "invalid utf8 bytes : ",
    "out of bounds for value ",
    "Unexpected kind: ",
)
_PATCH, _FILE = "failure on '", 'source "'
_QUOTED = pattern(
    r"`[^`]*`|\[.*\]"
    # A patch that kustomize treats as a file name.
    rf"|(?<={_PATCH})(?=[^']*\n).*"
    rf'|(?<={_FILE})[^"]*(?=" key name or file path)'
    + "".join(f"|(?<={words}).*" for words in _TO_THE_END),
    re.DOTALL,
)
# Where a quote may begin in an error whose end is missing, and with it that of the quote.
_BEGIN = pattern("|".join(map(re.escape, ("`", "[", _PATCH, _FILE, *_TO_THE_END))))
# An old name of a field changes nothing; each build would say so.
_DEPRECATED = pattern(r"^# Warning: '.+' is deprecated\..*$", re.MULTILINE)
_PREFIX = pattern(r'\A(?:Error: |error: |.*?"command failed" err=)')


# What kustomize itself puts into brackets: the empty parts of a name, and the kinds that it knows.
_EMPTY_PARTS = pattern(r"(?:\.\[no(?:Ver|Grp|Ns)\])+")
_KINDS = pattern(r"(?<= with the following GVK )\[([A-Za-z0-9./ -]*)\]")


def _message(err: str, *, is_cut: bool = False) -> str:
    """Return the program's error text without the input that it quotes.

    ``is_cut`` says that its end is missing. Then it is shown up to the first quote; without one,
    nothing is, because a long error quotes something.
    """
    text = _PREFIX.sub("", err.strip())
    if is_cut:  # guard: errors-of-a-build never
        begin = _BEGIN.search(text)
        return one_line(f"{text[: begin.end()]}…") if begin else ""
    plain = _KINDS.sub(lambda found: ", ".join(found[1].split()), _EMPTY_PARTS.sub("", text))
    if _is_closed(plain):  # guard: quoted-input-of-a-build always
        text = plain
    return one_line(_QUOTED.sub("…", text).strip('"'))


def _is_closed(text: str) -> bool:
    """Return whether every bracket is closed, so that nothing within brackets is left."""
    depth = 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if depth < 0:
            return False
    return depth == 0


# Which paths a folder consists of for kustomize: the folder, and every path that its files name.
#
# Any string that could be a path counts as one. Too many paths cost a reconcile more than is
# needed; one too few would miss a change.


ROOT = ""
_PLUGINS = frozenset({"generators", "transformers", "validators"})
_LOADED = frozenset({"resources", "bases", "components", "crds", "configurations"}) | _PLUGINS
_FILES = frozenset({"path", "files", "envs", "env", "patchesStrategicMerge", "schema"})
_HELM = frozenset({"helmCharts", "helmChartInflationGenerator", "helmGlobals"})
_FILE_ELSEWHERE = pattern(r"(?:^|=)\s*/|://|https?:", re.IGNORECASE)
_LONGEST = 4096
_MOST_PATHS = 5_000
_WORDS = pattern(r"[^\s\"'`,;=\[\]{}()<>|&]+")


def included(folder: str, tree: Tree) -> Included:
    """Return what a folder consists of: with a kustomization, all that it names.

    The ignore rules that hold for any of that belong to it, too.
    """
    is_build = bool(_kustomizations(folder, tree))
    finder = _Finder(tree)
    finder.enter(folder)
    while is_build and finder.waiting and not finder.is_unknown:
        finder.scan(finder.waiting.pop())
    paths = {ROOT} if finder.is_unknown else finder.paths
    paths |= {file for file in ignore_files(paths) if tree.kind(file) == "blob"}
    outer = tuple(sorted(path for path in paths if not _is_inside(path, paths)))
    return Included(outer, is_build=is_build)


class Included(Struct, frozen=True):
    """What a folder consists of."""

    paths: tuple[str, ...]
    """Sorted, with the folder itself; only the root if it cannot be determined.

    The ignore rules above these are files among them.
    """
    is_build: bool = False
    """Whether the folder has a kustomization."""


def loaded_files(folder: str, tree: Tree) -> AbstractSet[str]:
    """Return the files that the build of a folder certainly loads, as far as they can be read."""
    finder = _Finder(tree)
    finder.enter(folder)
    while finder.waiting:
        finder.scan(finder.waiting.pop())
    found = {folder} | finder.loaded
    files = {path for path in found if tree.kind(path) == "blob"}
    return files | {file for path in found - files for file in _kustomizations(path, tree)}


class Tree(Protocol):
    """The files and folders of a commit."""

    def kind(self, path: str) -> str | None:
        """Return ``blob`` for a regular file, ``tree`` for a folder; None if neither exists."""

    def real(self, path: str) -> str:
        """Return where the path of a folder leads, if links are followed."""

    def read(self, path: str) -> bytes | None:
        """Return the content of a regular file; None if it cannot be read."""


class FilesOfTree:
    """The files of a source, as a kustomization is followed through them."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files
        self._folders = {folder for name in files for folder in folders_above(name)}

    def kind(self, path: str) -> str | None:
        if path in self.files:
            return "blob"
        return "tree" if path in self._folders else None

    def real(self, path: str) -> str:
        return path

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)


class Named(Struct, frozen=True):
    """What the kustomization of one folder names, in paths of the tree."""

    paths: AbstractSet[str]
    """All that a text of it could mean, also where nothing is."""
    folders: AbstractSet[str]
    """The folders among them, without links, but for the folder itself."""
    files: AbstractSet[str]
    """The files among them."""
    loaded: AbstractSet[str]
    """The files and folders that are named where kustomize certainly loads them."""
    elsewhere: Sequence[str]
    """What is named where kustomize loads it, and is nowhere in the tree: a remote base, a URL."""
    plugins: AbstractSet[str]
    """The folders of generators and transformers: what is in them may name more, seen from here."""
    unknown: str
    """Why it may name more than that, to follow its name; empty if it does not."""

    __repr__ = hiding("elsewhere")


def named_in(folder: str, tree: Tree) -> Named:
    """Return what the kustomization of a folder names; nothing for a folder without one."""
    found = _Names(folder, tree)
    for file in _kustomizations(folder, tree):
        found.add_kustomization(file)
    return Named(
        *(found.paths, found.folders, found.files, found.loaded),
        *(found.elsewhere, found.plugins, found.unknown),
    )


def named_by(folder: str) -> Named:
    """Return the same for a folder of this machine; the paths are absolute, and have no links."""
    tree = _LocalTree(folder)
    found = named_in(tree.top, tree)
    parts = (found.paths, found.folders, found.files, found.loaded, found.plugins)
    paths, folders, files, loaded, plugins = (frozenset(map(tree.path, one)) for one in parts)
    return Named(paths, folders, files, loaded, found.elsewhere, plugins, found.unknown)


_VERSION = r"v?\d+\.\d+\.\d+(?:[-+][\w.+-]+)?"
_OF_COMMIT = r"[0-9a-f]{40}|[0-9a-f]{64}"
_REF = pattern(r"[?&](?:ref|version)=([^&]*)")
_PINNED_REF = pattern(rf"(?:.*[/_-])?(?:{_VERSION})|{_OF_COMMIT}")
_PINNED_FILE = pattern(rf"https?://[^?#]*/(?:{_VERSION}|{_OF_COMMIT})/[^?#]*\.(?:ya?ml|json)")


def is_pinned(text: str) -> bool:
    """Return whether what a text names on another host is the same as long as the text is.

    That is a base at a commit, or at a version of three numbers, which is a tag; or a file of
    such a version. A branch moves, and so may a tag such as ``v1``.
    """
    refs = _REF.findall(text)
    if refs:
        return all(map(_PINNED_REF.fullmatch, refs))
    return _PINNED_FILE.fullmatch(text) is not None


class _Finder:
    """Follows kustomizations from folder to folder."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.paths: set[str] = set()
        self.waiting: list[str] = []
        self.loaded: set[str] = set()
        self.is_unknown = False

    def enter(self, folder: str) -> None:
        """Include a folder, and scan its kustomization later."""
        if folder in self.paths:
            return
        self.paths.add(folder)
        self.waiting.append(folder)
        self.is_unknown = self.is_unknown or len(self.paths) > _MOST_PATHS

    def scan(self, folder: str) -> None:
        """Include what the kustomization of a folder names."""
        named = named_in(folder, self._tree)
        self.paths |= named.files
        self.loaded |= named.loaded
        self.is_unknown = self.is_unknown or bool(named.unknown)
        for one in named.folders:
            self.enter(one)


class _Names:
    """Gathers what one kustomization names."""

    def __init__(self, folder: str, tree: Tree) -> None:
        self._folder = folder
        self._tree = tree
        self.paths: set[str] = set()
        self.folders: set[str] = set()
        self.files: set[str] = set()
        self.loaded: set[str] = set()
        self.elsewhere: list[str] = []
        self.plugins: set[str] = set()
        self.unknown = ""

    def add_kustomization(self, file: str) -> None:
        body = _parse(self._tree.read(file))
        if body is None:
            self.unknown = "cannot be read"
            return
        if _HELM & body.keys():
            # Charts lie below a folder that another option may name, or on another host.
            self.unknown = "names Helm charts"
        for key, text in _strings(body):
            found = self._add(key, text)
            if key in _LOADED | _FILES and "\n" not in text.strip():
                self.loaded |= found

    def _add(self, key: str, text: str) -> set[str]:
        """Add all that a text could mean; return the files and folders."""
        found = self._add_candidates(text)
        is_name = "\n" not in text.strip()
        if key in _PLUGINS:
            self._add_plugins(found if is_name else (), "" if is_name else text)
        # A part of an address may be the name of a file here.
        if is_name and self._include(text.strip()) is None:
            is_file_elsewhere = key in _FILES and _FILE_ELSEWHERE.search(text)
            if key in _LOADED or is_file_elsewhere:
                self.elsewhere.append(text)
        return found

    def _add_candidates(self, text: str) -> set[str]:
        return {path for one in _candidates(text) if (path := self._include(one)) is not None}

    def _include(self, name: str) -> str | None:
        """Include what a name means; return its path, None if nothing is there."""
        if len(name) > _LONGEST or name.startswith("/") or "\0" in name:
            return None
        path = _path_from(self._folder, name)
        if path is None:
            self.unknown = "names what is outside of the source"
            return None
        self.paths.add(path)
        kind = self._tree.kind(path)
        if kind == "blob":
            self.files.add(path)
        # An ancestor cannot be built from here, and a name such as . says nothing.
        elif kind == "tree" and (real := self._tree.real(path)) != self._folder:
            self.folders.add(real)
        return None if kind is None else path

    def _add_plugins(self, paths: Iterable[str], text: str) -> None:
        """Include what generators or transformers name: those at the paths, and those in a text."""
        texts = [text.encode("utf-8", "surrogatepass")] if text else []
        for path in paths:
            if self._tree.kind(path) == "tree":
                self.plugins.add(path)
            elif (data := self._tree.read(path)) is None:
                self.unknown = "names a plugin that cannot be read"
            else:
                texts.append(data)
        for data in texts:
            for word in _WORDS.findall(data.decode("utf-8", "replace")):
                self._include(word)
            for value in _values(data):
                for _, one in _strings(value):
                    if not self._add_candidates(one) and _URL_WITHIN.search(one):
                        self.elsewhere.append(one)


def _is_inside(path: str, folders: Collection[str]) -> bool:
    """Return whether a path is inside one of the folders, and not that folder itself."""
    while path:
        path = posixpath.dirname(path)
        if path in folders:
            return True
    return False


def _kustomizations(folder: str, tree: Tree) -> list[str]:
    paths = [posixpath.join(folder, name) for name in NAMES]
    return [path for path in paths if tree.kind(path) == "blob"]


def _candidates(text: str) -> Iterator[str]:
    """Yield what of a string could be a path: all of it, a value after a key, each word."""
    text = text.strip()
    if "\n" in text:
        # A patch or a generator in the text, or a list in one string.
        for line in text.splitlines():
            yield line.strip().removeprefix("- ").strip()
        yield from _WORDS.findall(text)
    elif text:
        yield text
        key, equals, value = text.partition("=")
        if equals:
            yield from (part for part in (key.strip(), value.strip()) if part)


def _strings(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield every string in a value, with the nearest key above it."""
    waiting: list[tuple[str, Any]] = [(key, value)]
    while waiting:
        above, one = waiting.pop()
        if isinstance(one, str):
            yield above, one
        elif isinstance(one, Mapping):
            waiting += [
                (above if above in _PLUGINS else str(name), inner) for name, inner in one.items()
            ]
        elif isinstance(one, list):
            waiting += [(above, inner) for inner in one]


@lru_cache(maxsize=32)  # thousands of folders may share a base
def _parse(data: bytes | None) -> Mapping[str, Any] | None:
    """Return the mapping in a kustomization file; None if it cannot be read."""
    found: dict[str, Any] = {}
    for number, value in enumerate(() if data is None else _values(data)):
        if not isinstance(value, Mapping):
            return None
        # kustomize reads the first document only; its names in the others are too many, not wrong.
        found[f"{number}"] = value
        found.update(dict.fromkeys(_HELM & value.keys(), True))
    return found or None


# What a kustomization names outside of its source, found before kustomize would fetch it.
#
# This is an over-approximation: what is not certainly a file or folder of the source is refused. A
# field that is not known here counts as one that is loaded.


_HINT = "Copy it into the source, and name it by a relative path."
# Fields whose texts kustomize never loads.
_HARMLESS = frozenset(
    {
        *("apiVersion", "kind", "metadata", "namePrefix", "nameSuffix", "namespace"),
        *("commonLabels", "commonAnnotations", "labels", "images", "replicas", "vars"),
        *("buildMetadata", "sortOptions", "generatorOptions"),
    }
)
_HARMLESS_IN: Mapping[str, frozenset[str]] = {
    "configMapGenerator": frozenset({"name", "namespace", "literals", "options"}),
    "secretGenerator": frozenset({"name", "namespace", "literals", "options", "type"}),
    "patches": frozenset({"patch", "target", "options"}),
    "patchesJson6902": frozenset({"patch", "target", "options"}),
    "replacements": frozenset({"source", "targets"}),
}
# Fields whose texts are files, or folders that are built.
_BASES = frozenset({"resources", "bases", "components"})
# Fields in which a text of several lines is a patch: no address has a line end.
_INLINE = frozenset({"patchesStrategicMerge"})
_ADDRESS = pattern(r"://|https?:|\bgit::|\bgh:|^[^/]*[@:]|^\s*github\.com", re.IGNORECASE)
_URL_WITHIN = pattern(r"://|https?:", re.IGNORECASE)
_NO_MAP = "it is not valid YAML, or not a mapping"


def remote_base(files: Mapping[str, bytes], folder: str) -> RemoteBase | None:
    """Return what the kustomization in a folder, or one that it includes, names outside of a tree.

    ``files`` are all files of the tree; ``folder`` is empty for its root. A kustomization that this
    program cannot read is such a fault, too. Return None if there is none.
    """
    tree = FilesOfTree(files)
    waiting, entered = [folder], {folder}
    while waiting:
        here = waiting.pop()
        for file in _kustomizations(here, tree):
            for found in _references(tree, file, here):
                if isinstance(found, RemoteBase):
                    return found
                if found not in entered:
                    entered.add(found)
                    waiting.append(found)
    return None


class RemoteBase(Struct, frozen=True):
    """The first thing that a kustomization names outside of its source."""

    file: str
    """The kustomization file, or a file that it names."""
    what: str
    reason: str = ""
    hint: str = _HINT


def _references(tree: FilesOfTree, file: str, here: str) -> Iterator[str | RemoteBase]:
    """Yield the folders that a kustomization file includes, and what it names elsewhere."""
    for document in _values(tree.files[file]):
        if not isinstance(document, dict):
            yield RemoteBase(file, "the kustomization cannot be checked for remote bases", _NO_MAP)
            return
        for key, value in document.items():
            if key in _HARMLESS:
                continue
            for text in _texts(value, _HARMLESS_IN.get(key, frozenset())):
                if key in _BASES:
                    yield from _base_reference(tree, file, here, text)
                elif key in _PLUGINS:
                    yield from _plugin_faults(tree, file, here, text)
                elif _URL_WITHIN.search(text) and not (key in _INLINE and "\n" in text):
                    yield _remote_fault(file, key)


def _base_reference(
    tree: FilesOfTree, file: str, here: str, text: str
) -> Iterator[str | RemoteBase]:
    path = _path_from(here, text)
    if _ADDRESS.search(text) or path is None or "\\" in text:
        yield _remote_fault(file, "a base")
    elif tree.kind(path) == "tree":
        yield path
    elif path not in tree.files:
        yield RemoteBase(
            file,
            "the kustomization names what the source does not have",
            "remote bases are not fetched",
            "Check the paths in its resources, bases and components.",
        )


def _plugin_faults(
    tree: FilesOfTree, file: str, here: str, text: str
) -> Iterator[str | RemoteBase]:
    """Yield the fault of a plugin's configuration: a field of it may be loaded, too."""
    if "\n" in text:
        if _URL_WITHIN.search(text):
            yield _remote_fault(file, "a plugin")
        return
    path = _path_from(here, text)
    if _ADDRESS.search(text) or path is None or "\\" in text:
        yield _remote_fault(file, "a plugin")
    elif path not in tree.files:
        yield RemoteBase(
            file,
            "a generator, transformer or validator must be a file of the source",
            "what a folder builds cannot be checked for remote bases",
            "Name the file itself.",
        )
    elif any(not isinstance(one, dict) for one in _values(tree.files[path])):
        yield RemoteBase(path, "the file cannot be checked for remote bases", _NO_MAP)
    elif any(_URL_WITHIN.search(one) for one in _texts([*_values(tree.files[path])], frozenset())):
        yield _remote_fault(path, "a plugin")


def _remote_fault(file: str, where: str) -> RemoteBase:
    return RemoteBase(file, "the kustomization names a URL or a remote base", f"it is in {where}")


def _values(data: bytes) -> Iterator[Any]:
    """Yield the value of each document; None for one that cannot be read."""
    for numbered in read_documents(data):
        content = numbered.content
        yield None if isinstance(content, YAMLFault) else content.value


def _texts(value: Any, harmless: frozenset[str]) -> Iterator[str]:
    """Yield every text in a value, keys too, but none of ``harmless`` fields of it or its items."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, harmless)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in harmless:
                yield str(key)
                yield from _texts(item, frozenset())


def _path_from(folder: str, text: str) -> str | None:
    """Return the path in the tree that a text means, seen from a folder; None if it leads out."""
    path = posixpath.normpath(posixpath.join(folder, text))
    if path == ".." or path.startswith(("/", "../")):
        return None
    return ROOT if path == "." else path
