"""Which files of a source are left out: by ``.sourceignore``, by given rules, by a default list.

Names, syntax and default list are those of Flux's source-controller. A rule is a line of
``.gitignore``; the last rule that matches a file, or a folder above it, decides. Each part of a
path is matched alone, so no pattern takes time that grows faster than its length: tenants write
them. pathspec, which reads such files too, makes one regular expression of a rule: one with five
stars takes it 9 s for a name of 120 characters, so no bound on rules would do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from applyprune.errors import InputError
from applyprune.sources.tree import FileTree, IgnoredFile, shown_path
from applyprune.values import pattern

FILE = ".sourceignore"
VCS = (".git/", ".gitignore", ".gitmodules", ".gitattributes")
"""What is never a part of a source, unless a rule takes it back."""
DEFAULTS = (
    *("*.jpg", "*.jpeg", "*.gif", "*.png", "*.wmv", "*.flv", "*.tar.gz", "*.zip"),
    *(".github/", ".circleci/", ".travis.yml", ".gitlab-ci.yml", "appveyor.yml", ".drone.yml"),
    *("cloudbuild.yaml", "codeship-services.yml", "codeship-steps.yml"),
    *("**/.goreleaser.yml", "**/.sops.yaml", "**/.flux.yaml"),
)
"""What is left out too where there is no other rule."""
OF_DEFAULTS = "the default list"
MOST_OF_A_FILE = 2**20
"""Bytes of a ``.sourceignore``."""
_LONGEST = 1000
_MOST_STEPS = 20_000_000


class Rule(Struct, frozen=True):
    """One line."""

    text: str
    """The line, as it was written."""
    where: str
    """The file that it is in, or what else it is of; safe to print."""
    depth: int
    """How many folders from the root that file is in: a rule holds below its folder only."""
    parts: tuple[str, ...]
    """The pattern, part by part."""
    takes_back: bool
    is_folder: bool
    """Whether it matches folders only, with all that is in them."""

    @property
    def name(self) -> str | None:
        """Return the pattern of one part of a path, if the rule is about any such part."""
        return self.parts[1] if self.parts[0] == "**" and len(self.parts) == 2 else None

    def __str__(self) -> str:
        """Return ``the rule *.yaml in .sourceignore``."""
        return f"the rule {shown_path(self.text)} in {self.where}"

    def matches(self, path: Sequence[str]) -> bool:
        """Return whether it is about a file, given in parts from the root."""
        most = len(path) - self.is_folder
        return any(self.depth + count <= most for count in self._lengths(path[self.depth :]))

    def _lengths(self, path: Sequence[str]) -> Iterator[int]:
        """Yield how many parts of a path the whole pattern matches."""
        reached = _without_folders(self.parts, {0})
        for count, part in enumerate(path, 1):
            following = set()
            for at in reached:
                if at == len(self.parts):
                    continue
                if self.parts[at] == "**":
                    following |= {at, at + 1}
                elif _glob(self.parts[at])(part):
                    following.add(at + 1)
            reached = _without_folders(self.parts, following)
            if len(self.parts) in reached:
                yield count


def _without_folders(parts: Sequence[str], reached: set[int]) -> set[int]:
    """Return the places in a pattern, also after a ``**`` that stands for no folder at all."""
    last = len(parts) - 1
    return reached | {at + 1 for at in reached if at < last and parts[at] == "**"}


@lru_cache(maxsize=4096)
def _glob(text: str) -> _Match:
    """Return what matches one part of a path; the regular expression never tries twice."""
    end = text.removeprefix("*")
    if not _SPECIAL.search(end):  # most rules; to compile a pattern takes longer than a manifest
        return text.__eq__ if end == text else lambda part: part.endswith(end)
    return re.compile(translate(_ESCAPED.sub(_as_set, text).replace("[^", "[!"))).match


_Match: TypeAlias = Callable[[str], object]
_Tests: TypeAlias = tuple[tuple[Rule, _Match | None], ...]
_ESCAPED = pattern(r"\\(.)")
_SPECIAL = pattern(r"[*?[\\]")


def _as_set(found: re.Match[str]) -> str:
    return f"[{found[1]}]" if found[1] in "*?[" else found[1]


def rules_in(text: str, where: str, depth: int = 0) -> tuple[Rule, ...]:
    """Return the rules in a text; raise IgnoreRulesInvalid for a line that is too long."""
    rules = []
    for line in text.splitlines():
        if len(line) > _LONGEST:
            raise IgnoreRulesInvalid(
                f"a rule has more than {_LONGEST} characters", location=where, hint="Shorten it."
            )
        if not line.startswith("#") and (rule := _rule(line, where, depth)) is not None:
            rules.append(rule)
    return tuple(rules)


def _rule(line: str, where: str, depth: int) -> Rule | None:
    line = line.rstrip("\r\n")
    bare = line if line.endswith("\\ ") else line.rstrip(" \t")
    takes_back = bare.startswith("!")
    glob = bare.removeprefix("!")
    is_folder = glob.endswith("/")
    glob = glob.rstrip("/") if is_folder else glob
    parts = [part for part in glob.split("/") if part]
    if not parts:
        return None
    if "/" not in glob and parts != ["**"]:
        parts = ["**", *parts]
    merged = [part for at, part in enumerate(parts) if part != "**" or parts[at - 1 : at] != ["**"]]
    return Rule(bare, where, depth, tuple(merged), takes_back, is_folder)


_VCS = rules_in("\n".join(VCS), OF_DEFAULTS)
_DEFAULTS = _VCS + rules_in("\n".join(DEFAULTS), OF_DEFAULTS)


class IgnoreRulesInvalid(InputError):
    """Rules that cannot be read: which files they leave out is unknown."""


class IgnoreRules:
    """The rules of one source, as they hold in each of its folders.

    As in Flux, the default list holds only where no other rule does.
    """

    def __init__(self, read: Callable[[str], bytes | None], given: Sequence[Rule] = ()) -> None:
        """``read`` returns the ``.sourceignore`` in a folder; None if it has none.

        ``given`` come after those of the files.
        """
        self._read = read
        self._given = tuple(given)
        self._own: dict[str, tuple[Rule, ...]] = {}
        self._all: dict[str, tuple[Rule, ...]] = {}
        self._sizes: dict[str, int] = {}
        self._names: dict[str, _Tests] = {}
        # Most folders have the same rules.
        self._same: dict[_Tests, _Tests] = {}

    def rule_for(self, path: str) -> Rule | None:
        """Return the rule that leaves out a file; None for a file that is read."""
        folder, _, name = path.rpartition("/")
        for rule, matches_name in self._of_names(folder):
            matches = rule.matches(path.split("/")) if matches_name is None else matches_name(name)
            if matches:
                return None if rule.takes_back else rule
        return None

    def _of_names(self, folder: str) -> _Tests:
        """Return the rules for the files in a folder, the last one first, each with its test.

        Of a rule that is about one part of a path, the folders above are looked at once only. None
        is the test of any other rule.
        """
        if folder not in self._names:
            above = folder.split("/") if folder else []
            tests: list[tuple[Rule, _Match | None]] = []
            for rule in reversed(self.of_folder(folder)):
                if rule.name is None:
                    tests.append((rule, None))
                elif any(map(_glob(rule.name), above[rule.depth :])):
                    tests.append((rule, bool))
                    break
                elif not rule.is_folder:
                    tests.append((rule, _glob(rule.name)))
            found = tuple(tests)
            self._names[folder] = self._same.setdefault(found, found)
        return self._names[folder]

    def steps(self, path: str) -> int:
        """Return how much it may cost to find the rule for a file."""
        folder = path.rpartition("/")[0]
        if folder not in self._sizes:
            self._sizes[folder] = sum(len(rule.parts) for rule in self.of_folder(folder))
        return self._sizes[folder] * (path.count("/") + 1)

    def of_folder(self, folder: str) -> tuple[Rule, ...]:
        """Return the rules for the files in a folder; the last one that matches wins."""
        if folder not in self._all:
            own = (*self._of_files(folder), *self._given)
            self._all[folder] = (*_VCS, *own) if own else _DEFAULTS
        return self._all[folder]

    def _of_files(self, folder: str) -> tuple[Rule, ...]:
        above = [folder, *folders_above(folder)] if folder else [""]
        found: tuple[Rule, ...] = ()
        for one in reversed(above):
            if one not in self._own:
                self._own[one] = found + self._in(one)
            found = self._own[one]
        return found

    def _in(self, folder: str) -> tuple[Rule, ...]:
        data = self._read(folder)
        if data is None:
            return ()
        file = ignore_file(folder)
        if len(data) > MOST_OF_A_FILE:
            raise IgnoreRulesInvalid("the file is too long", location=shown_path(file))
        depth = folder.count("/") + 1 if folder else 0
        return rules_in(data.decode("utf-8", "replace"), shown_path(file), depth)


def ignore_file(folder: str) -> str:
    """Return the path of the rules in a folder."""
    return f"{folder}/{FILE}" if folder else FILE


def folders_above(path: str) -> Iterator[str]:
    """Yield every folder that a path is in, the nearest first; the root is empty."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def ignore_files(paths: Iterable[str]) -> set[str]:
    """Return the files that may have rules for some paths, but for those below the paths."""
    return {ignore_file(folder) for path in paths for folder in folders_above(path)}


def without_ignored(tree: FileTree, given: Sequence[Rule] = ()) -> FileTree:
    """Return a tree with only the files that are read; it keeps the others apart.

    Raises IgnoreRulesInvalid if there are too many rules for so many files.
    """
    files = tree.files
    rules = IgnoreRules(lambda folder: files.get(ignore_file(folder)), given)
    # guard: steps-of-ignore-rules never
    if sum(map(rules.steps, files)) > _MOST_STEPS:
        raise IgnoreRulesInvalid(
            "the ignore rules are too many for so many files",
            hint=f"Remove rules from {FILE}, or files from the source.",
        )
    found = {
        path: IgnoredFile(data, str(rule))
        for path, data in files.items()
        if (rule := rules.rule_for(path)) is not None
    }
    kept = {path: data for path, data in files.items() if path not in found}
    return FileTree(kept, tree.revision, found) if found else tree
