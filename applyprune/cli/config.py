"""Default values of options from ``applyprune.yaml``.

The files of a call are those of the working directory, or that of ``--config``, and those of the
folders that ``-f`` and ``-k`` name, each with the files above it in the same Git work tree. What
they say together is decided in ``planning.configuration``. A run names each file that is not in the
working directory, because it decides what a prune deletes. A key is the name of a row of
``options``: the long name of an option, or one that the command line does not have.
"""

from __future__ import annotations

import os
import stat
from enum import Enum, auto
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from applyprune.cli.target import Condition
from applyprune.errors import ApplypruneError, InputError, UsageError
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from applyprune.planning.configuration import CallSettings, SetSettings
    from applyprune.sources.folders import Configuration
    from applyprune.sources.kustomize import Overlay


class Form(Enum):
    """The form of a key's value."""

    TEXT = auto()
    TEXTS = auto()
    PATHS = auto()
    FLAG = auto()
    CONTEXT = auto()


class Keys(Struct, frozen=True):
    """What the file may say; ``options.KEYS`` takes it from the table of options."""

    forms: Mapping[str, Form]
    """The form of each key's value: of options, and of ``context``, which is a condition or a
    selection."""
    guards: frozenset[str]
    """The options that disable a guard: the user must give them for each run."""
    unsafe: Mapping[str, str | bool]
    """The values that disable a guard, by their key: the user must give the option instead."""


class ConfigInUse(Struct, frozen=True):
    """The files that a call uses; all parts are empty if it uses none."""

    path: str = ""
    """The file that names the set."""
    name: str = ""
    context: str = ""
    """The context that the file of the working directory selects."""
    conditions: tuple[Condition, ...] = ()
    elsewhere: tuple[str, ...] = ()
    """The files in use that are neither in the working directory nor given by --config."""
    unused: tuple[UnusedConfig, ...] = ()
    """The files that are there instead, for other sets."""


class UnusedConfig(Struct, frozen=True):
    """A file that a call does not use, because it names another set."""

    path: str
    name: str
    names: tuple[str, ...]
    """The sets of the call."""

    @property
    def text(self) -> str:
        """Return why the file is not used."""
        return (
            f"{self.path} is for the set {self.name}, so its options are not used for "
            f"{', '.join(self.names)}"
        )


_META = "applyprune.configuration"
FILE = "applyprune.yaml"
MISNAMED = "applyprune.yml"
_LARGEST = 2**20
_NAMES_ITSELF = {"name", "context"}


def use(ctx: click.Context, names: tuple[str, ...], given: Mapping[str, Any], keys: Keys) -> None:
    """Make the values of the files the defaults of the call's options.

    ``names`` are the sets on the command line, and ``given`` its options, by their parameters.
    """
    ctx.meta[_META] = _use(ctx, names, given, keys)


def use_of_set(ctx: click.Context, one: SetSettings[Configuration], keys: Keys) -> None:
    """Make what the files of a set say the defaults of a call's options, as in its folder."""
    ctx.meta[_META] = _taken(ctx, _options_of(ctx, keys), one.settings)


def _use(
    ctx: click.Context, names: tuple[str, ...], given: Mapping[str, Any], keys: Keys
) -> ConfigInUse:
    # Imported below, not at the top: a call without a file does not need YAML.
    files, config = Files(keys), given.get("config")
    if config == "":
        raise UsageError("empty path for --config", hint="Is a variable of the script not set?")
    here = files.of_folder("") if config is None else files.of_file(config, names)
    paths, of_plan = (*given.get("paths", ()), *given.get("kustomize", ())), ""
    if not paths and "plan_path" in given:
        of_plan, paths = _in_plan(given["plan_path"])
    # The file that names a folder itself speaks for it, but for the context.
    counts = bool(paths) and config is None
    named = files.of_paths(paths or files.input_of(here, names))
    if not (here or named):
        return ConfigInUse()
    from applyprune.planning.configuration import INPUT_KEYS, inherited, settings_of_call

    own = inherited(here).get("name")
    if of_plan and not names and (own is None or own.settings["name"] == of_plan):
        names = (of_plan,)
    options = _options_of(ctx, keys)
    open_keys = {"name", *(key for key, param in options.items() if param.name not in given)}
    found = settings_of_call(
        here, named, names, settled=keys.forms.keys() - open_keys, only_context=not counts
    )
    if counts:
        said = {key: file for key, file in found.said.items() if key not in INPUT_KEYS}
        found = replace(found, said=said)
    own_paths = {FILE, *((here[-1].path,) if config is not None else ())}
    return _taken(ctx, options, found, own_paths, names)


def _options_of(ctx: click.Context, keys: Keys) -> Mapping[str, click.Parameter]:
    """Return the parameters of a call that a file may give, by their keys.

    A verb may have another option with the word of a key: the `--wait` of `status`.
    """
    given = (param for param in ctx.command.params if getattr(param, "config", None) is not None)
    keyed = ((getattr(param, "key", ""), param) for param in given)
    return {key: param for key, param in keyed if key in keys.forms}


def _taken(
    ctx: click.Context,
    options: Mapping[str, click.Parameter],
    found: CallSettings[Configuration],
    own_paths: Collection[str] = (),
    names: tuple[str, ...] = (),
) -> ConfigInUse:
    """Make what files say together the defaults of a call; return which files it uses.

    Those in ``own_paths`` need not be named. ``names`` are the sets on the command line.
    """
    from applyprune.planning.configuration import context_name

    said = {key: file for key, file in found.said.items() if key in {*options, *_NAMES_ITSELF}}
    ctx.default_map = {
        str(options[key].name): _converted(file, key, ctx, options[key], file.settings[key])
        for key, file in said.items()
        if key not in _NAMES_ITSELF
    }
    naming = said.get("name")
    conditions = (
        Condition(context_name(file), str(file.origin("context"))) for file in found.conditions
    )
    return ConfigInUse(
        naming.path if naming else "",
        naming.settings["name"] if naming else "",
        context_name(found.selects) if found.selects else "",
        tuple(conditions),
        tuple(dict.fromkeys(one.path for one in said.values() if one.path not in own_paths)),
        tuple(UnusedConfig(file.path, file.settings["name"], names) for file in found.unused),
    )


def _in_plan(path: str) -> tuple[str, tuple[str, ...]]:
    """Return the set and the local input of a plan file; the verb says what is wrong with it."""
    from applyprune.sources.plan_files import read_plan

    try:
        plan = read_plan(path)
    except ApplypruneError:
        return "", ()
    return plan.name, (*plan.input.get("filename", ()), *plan.input.get("kustomize", ()))


def _folders(paths: Iterable[str]) -> Iterable[str]:
    """Return the folders that local paths name, or in which the files are that they name."""
    found: dict[str, str] = {}
    for path in paths:
        for one in () if path == "-" or "://" in path else _expanded(path):
            folder = one if os.path.isdir(one) else os.path.dirname(one)  # noqa: PTH112, PTH120
            if os.path.isdir(folder or "."):  # noqa: PTH112
                found.setdefault(os.path.realpath(folder or "."), folder)
    return found.values()


def _expanded(path: str) -> Sequence[str]:
    """Return the paths that a path means; whoever reads them says what is wrong with it."""
    if not set("*?[") & set(path):
        return [path]
    from applyprune.sources.folders import expand_pattern, is_pattern

    try:
        return expand_pattern(path) if is_pattern(path) else [path]
    except (OSError, ValueError):
        return []


def conditions_at(paths: Sequence[str | Overlay], revision: str) -> tuple[Condition, ...]:
    """Return the contexts that the files beside an input and above it demand at a commit."""
    from applyprune.planning.configuration import context_name
    from applyprune.sources.folders import configuration_in
    from applyprune.sources.work_tree import files_above

    found = []
    for chain in files_above(paths, revision, FILE):
        files = [configuration_in(place, data) for place, data in chain]
        # The nearest file decides.
        if saying := [file for file in files if "context" in file.settings]:
            at = saying[-1]
            found.append(Condition(context_name(at), str(at.origin("context"))))
    return tuple(dict.fromkeys(found))


# The files of a folder, and those above it.


class Files:
    """Reads each file once, and checks it as a whole."""

    def __init__(self, keys: Keys, top: str | None = None) -> None:
        """Take the keys; without a work tree, the files of a folder ``top`` count below it."""
        self._keys = keys
        self._top = None if top is None else os.path.realpath(top or os.curdir)
        self._folders: dict[str, tuple[Sequence[str], bool]] = {}
        self._found: dict[tuple[str, bool], Configuration | ApplypruneError | None] = {}
        self._read: dict[str, Configuration] = {}
        self._reals: dict[str, str] = {}

    def of_folder(self, folder: str, *, named: bool = False) -> Sequence[Configuration]:
        """Return the files that count in a folder, in their order from the top of its work tree.

        One in the folder that the input names may be a manifest of that name.
        """
        start = os.path.join(folder, "")  # noqa: PTH118 -- as it was given
        return self._in(self._counting(start), named=named)

    def only_in(self, folder: str) -> Configuration | None:
        """Return the file in a folder that is named; None if it is a manifest."""
        return self._of(os.path.join(folder, ""), named=True)  # noqa: PTH118

    def work_tree_of(self, folder: str) -> str | None:
        """Return the top of the work tree whose files count in a folder; None without one."""
        folders, is_in_work_tree = self._upwards(os.path.join(folder, ""))  # noqa: PTH118
        return folders[-1] if is_in_work_tree else None

    def of_paths(self, paths: Iterable[str]) -> Sequence[Sequence[Configuration]]:
        """Return the files that count in each folder of an input that has some."""
        return [of for at in _folders(paths) if (of := self.of_folder(at, named=True))]

    def of_file(self, path: str, names: tuple[str, ...]) -> Sequence[Configuration]:
        """Return the file of --config with those above its folder; raise UsageError for other sets.

        It stands for the one in its folder.
        """
        from applyprune.planning.configuration import inherited

        folder = os.path.join(os.path.dirname(path), "")  # noqa: PTH118, PTH120
        above = self._in(self._counting(folder)[1:]) if os.path.isdir(folder or ".") else ()  # noqa: PTH112
        files = (*above, self._checked(path, folder, is_named=True))
        name = files[-1].settings.get("name")
        if name is None and "name" in (said := inherited(files)):
            name = said["name"].settings["name"]
        if names and name is not None and name not in names:
            raise UsageError(
                f"{files[-1].path} is for the set {name}, and not for {', '.join(names)}"
            )
        return files

    def input_of(self, files: Sequence[Configuration], names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the paths that the files name as the input of a set."""
        if not files:
            return ()
        from applyprune.planning.configuration import INPUT_KEYS, for_sets, inherited

        said = inherited(for_sets(files, names))
        given = (said[key].settings[key] for key in sorted(INPUT_KEYS) if key in said)
        return tuple(path for paths in given for path in paths)

    def _counting(self, folder: str) -> Sequence[str]:
        """Return the folders whose files count in a folder: itself, and those above it.

        Above the folder that has ``.git`` nothing is read, nor anything that is another user's or
        on another file system: whoever may write there must not decide what a prune deletes.
        Without a work tree, nothing says where to stop.
        """
        folders, is_in_work_tree = self._upwards(folder)
        if is_in_work_tree:
            return folders
        # Whoever names a folder for all that is below it trusts its files, too.
        tops = (at for at, one in enumerate(folders, 1) if self._real(one) == self._top)
        return folders[: next(tops, 1)]

    def _upwards(self, folder: str) -> tuple[Sequence[str], bool]:
        """Return a folder and those above it, and whether the last one begins a work tree."""
        below: list[tuple[str, str]] = []
        while (real := self._real(folder)) not in self._folders:
            below.append((real, _shortest(folder)))
            is_top = os.path.lexists(f"{folder}.git")
            if is_top or not _may_look_above(folder):
                found: tuple[Sequence[str], bool] = (), is_top
                break
            above = _above(folder)
            folder = _shortest(f"{folder}../" if above is None else above)
        else:
            found = self._folders[real]
        for real, short in reversed(below):
            found = self._folders[real] = (short, *found[0]), found[1]
        return found

    def _real(self, folder: str) -> str:
        """Return the path of a folder without links; most have that of the one above."""
        if folder not in self._reals:
            above = _above(folder)
            known = None if above is None else self._reals.get(above)
            self._reals[folder] = (
                os.path.realpath(folder or ".")
                if known is None
                else f"{known.rstrip(os.sep)}{os.sep}{folder[len(above or '') : -1]}"
            )
        return self._reals[folder]

    def _in(self, folders: Sequence[str], *, named: bool = False) -> Sequence[Configuration]:
        found = (self._of(folder, named=named) for folder in reversed(folders))
        return [file for file in found if file is not None]

    def _of(self, folder: str, *, named: bool) -> Configuration | None:
        place = (folder, named)
        if place not in self._found:
            try:
                self._found[place] = self._look(folder, named=named)
            except ApplypruneError as error:
                self._found[place] = error
        found = self._found[place]
        if isinstance(found, ApplypruneError):
            raise found
        return found

    def _look(self, folder: str, *, named: bool) -> Configuration | None:
        path = next((at for name in (FILE, MISNAMED) if _is_there(at := f"{folder}{name}")), None)
        if path is None:
            return None
        _refuse_planted(path, folder)
        if not path.endswith(FILE):
            raise UsageError(
                f"found {path}, which is not read",
                hint=f"Rename it to {FILE}, or give it with --config.",
            )
        real = self._real(folder)
        if real not in self._read:
            try:
                self._read[real] = self._checked(path, folder)
            except InputError:
                if named and _holds_objects(path):
                    return None
                raise
        return self._read[real]

    def _checked(self, path: str, folder: str, *, is_named: bool = False) -> Configuration:
        """Return the file, its paths as seen from the working directory."""
        from applyprune.sources.folders import read_configuration

        file = read_configuration(path, is_named=is_named)
        settings = {key: _checked(file, key, self._keys) for key in file.settings}
        for key in (key for key in settings if self._keys.forms[key] is Form.PATHS):
            settings[key] = [_from(folder, path) for path in settings[key]]
        return replace(file, settings=settings)


def _above(folder: str) -> str | None:
    """Return the folder that a path names another one in; None if only the system knows it."""
    name = folder[:-1].rpartition(os.sep)[2]
    if name in {"", os.curdir, os.pardir} or os.path.islink(folder[:-1]):  # noqa: PTH114
        return None
    return folder[: -len(name) - 1]


def _shortest(folder: str) -> str:
    """Return a folder without the ways up and down again that its path has."""
    if "/../" not in folder:
        return folder
    short, real = os.path.normpath(folder), os.path.realpath(folder)
    if os.path.realpath(short) != real:  # a link leads elsewhere
        short = real if os.path.isabs(folder) else os.path.relpath(real)  # noqa: PTH117
    return "" if short == "." else os.path.join(short, "")  # noqa: PTH118


def _holds_objects(path: str) -> bool:
    """Return whether a file is a manifest, in a folder of which somebody has named the input."""
    from applyprune.sources.folders import holds_objects
    from applyprune.sources.moment import read_at_once

    try:
        return holds_objects(read_at_once(Path(path), _LARGEST, waits=False))
    except (OSError, ValueError, InputError):
        return False


def _refuse_planted(path: str, folder: str) -> None:
    """Refuse a file that somebody else may have put into a folder like /tmp."""
    place, trusted = _stat(folder or "."), {0, os.geteuid()}
    is_open = bool(place.st_mode & stat.S_IWOTH)
    # guard: planted-configuration never
    if is_open and _stat(path).st_uid not in {*trusted, place.st_uid}:
        raise UsageError(
            f"{path} is another user's, in a folder where everybody may write",
            reason="its options would decide what a prune deletes",
            hint="Use a folder of your own.",
        )


def _stat(path: str) -> os.stat_result:
    return os.lstat(path)


def _is_there(file: str) -> bool:
    """Return whether a file is there; one with another name only if it is a configuration."""
    if file.endswith(FILE) or not os.path.lexists(file):
        return os.path.lexists(file)
    from applyprune.sources.folders import is_configuration
    from applyprune.sources.moment import read_at_once

    try:
        return is_configuration(read_at_once(Path(file), _LARGEST, waits=False))
    except (OSError, ValueError):
        return False


def _may_look_above(folder: str) -> bool:
    above = f"{folder}../"
    is_root = os.path.samefile(folder or ".", above)  # noqa: PTH121
    # guard: foreign-configuration -> not is_root
    return not is_root and _owner(above) == _owner(folder)


def _owner(folder: str) -> tuple[int, int]:
    found = os.stat(folder or ".")  # noqa: PTH116
    return found.st_dev, found.st_uid


def _checked(configuration: Configuration, key: str, keys: Keys) -> Any:
    """Return a setting in the form of its key; raise InputError for a wrong key or value."""
    value, form, unsafe = configuration.settings[key], keys.forms.get(key), keys.unsafe.get(key)
    if key in keys.guards or (unsafe is not None and value == unsafe):
        what = f"{key}{'' if unsafe is None else f': {unsafe}'.lower()}"
        raise _refused(configuration, key, what, f"no-{key}" if unsafe is False else key)
    if form is None:
        from applyprune.cli.answers import KEYS, answer
        from applyprune.planning.names import did_you_mean

        hint = answer(KEYS, key) or did_you_mean(key, keys.forms)
        hint = hint or f"The keys are {', '.join(keys.forms)}."
        location = configuration.origin(key)
        written = configuration.written(key)
        raise InputError(f"unknown key {written!r}", location=location, hint=hint)
    if form in {Form.TEXTS, Form.PATHS} and isinstance(value, str):
        value = [value]
    if not _fits(form, value):
        wanted = {
            Form.FLAG: "true or false",
            Form.TEXT: "a text",
            Form.CONTEXT: "a text, or name: a text and use: true or false",
        }.get(form, "a text or a list of texts, none of them empty")
        raise InputError(f"{key} must be {wanted}", location=configuration.origin(key))
    if form is Form.PATHS and "-" in value:
        raise InputError(
            f"{key} cannot be standard input in a configuration", location=configuration.origin(key)
        )
    return value


def _refused(
    configuration: Configuration,
    key: str,
    what: str,
    option: str,
    reason: str = "it would disable a guard for every future run",
) -> InputError:
    from applyprune.cli.answers import KEYS, answer

    return InputError(
        f"{what} is not allowed in a configuration",
        location=configuration.origin(key),
        reason=reason,
        hint=answer(KEYS, key)
        or f"Give --{option} on the command line, for the run that needs it.",
    )


@lru_cache(64)  # a file above many sets has the same for each
def _holds_at_once(rule: str) -> bool:
    """Return whether a readiness rule is true of an object of which the cluster says nothing.

    A prune would not wait then, as with --no-wait. A rule that cannot be judged is the run's error.
    """
    from applyprune.model.events import Status
    from applyprune.model.options import parse_ready_when
    from applyprune.planning.cel import compile_rule

    new = {"apiVersion": "v1", "kind": "New", "metadata": {"name": "new"}, "spec": {}}
    try:
        kind, expression = parse_ready_when(rule)
        judged = compile_rule(expression, where=f"ready-when {kind}")
    except (ValueError, UsageError):
        return False
    states = (judged.judge(body).status for body in ({}, new, {**new, "status": {}}))
    return Status.CURRENT in states


def _fits(form: Form, value: object) -> bool:
    if form is Form.FLAG:
        return isinstance(value, bool)
    if form is Form.CONTEXT and isinstance(value, dict):
        return (
            value.keys() <= {"name", "use"}
            and _fits(Form.TEXT, value.get("name"))
            and _fits(Form.FLAG, value.get("use", False))
        )
    if form in {Form.TEXT, Form.CONTEXT}:
        return isinstance(value, str) and bool(value)
    return isinstance(value, list) and all(isinstance(text, str) and text for text in value)


def _from(folder: str, path: str) -> str:
    """Return a path that is relative to the file as one relative to the working directory."""
    return path if "://" in path else os.path.join(folder, path)  # noqa: PTH118 -- as it was given


def _converted(
    configuration: Configuration, key: str, ctx: click.Context, param: click.Parameter, value: Any
) -> Any:
    """Return the value; raise InputError with its line if the option rejects it."""
    try:
        param.process_value(ctx, value)
    except click.BadParameter as error:
        raise InputError(
            f"invalid value for {key}", location=configuration.origin(key), reason=error.message
        ) from None
    except UsageError as error:
        raise InputError(
            error.message,
            location=configuration.origin(key),
            reason=error.reason,
            hint=error.hint,
        ) from None
    if key == "ready-when" and any(map(_holds_at_once, value)):  # guard: empty-rule-of-a-file never
        reason = "it holds for an object without a status, so that no prune would wait"
        raise _refused(configuration, key, "such a rule", "no-wait", reason)
    return value


def no_set_given() -> UsageError:
    """Return the error of a call that names no set."""
    return UsageError("no set given", hint="Give NAME, or add name: NAME to applyprune.yaml.")


def no_input_given() -> UsageError:
    """Return the error of a call without input."""
    hint = "Give -f PATH, -f - for standard input, or -k DIR"
    unused = next(iter(config_in_use().unused), None)
    if unused is None:
        return UsageError("no input given", hint=f"{hint}, or add filename to {FILE}.")
    from applyprune.planning.names import CLOSE_SET, closest

    is_close = any(closest(name, [unused.name], CLOSE_SET) for name in unused.names)
    hint = f"Did you mean {unused.name}?" if is_close else f"{hint}."
    return UsageError("no input given", reason=unused.text, hint=hint)


def config_in_use() -> ConfigInUse:
    """Return the file that the current call uses."""
    ctx = click.get_current_context(silent=True)
    used = ctx.meta.get(_META) if ctx is not None else None
    return used if isinstance(used, ConfigInUse) else ConfigInUse()
