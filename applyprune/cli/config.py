"""Default values of options from ``applyprune.yaml``.

The file is the one of ``--config``, that of the working directory, or the nearest one above it in
the same Git work tree; a run names a file from above, because it decides what a prune deletes. A
key is the long name of an option.
"""

from __future__ import annotations

import os
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from applyprune.errors import InputError, UsageError
from applyprune.values import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from applyprune.sources.folders import Configuration


class Form(Enum):
    """The form of a key's value."""

    TEXT = auto()
    TEXTS = auto()
    PATHS = auto()
    FLAG = auto()
    CONTEXT = auto()


@dataclass(frozen=True, slots=True)
class Keys:
    """What the file may say; ``options.KEYS`` takes it from the table of options."""

    forms: Mapping[str, Form]
    """The form of each key's value: of options, and of ``context``, which is a condition or a
    selection."""
    guards: frozenset[str]
    """The options that disable a guard: the user must give them for each run."""
    unsafe: Mapping[str, str | bool]
    """The values that disable a guard, by their key: the user must give the option instead."""


@dataclass(frozen=True, slots=True)
class ConfigInUse:
    """The file that a call uses; all parts are empty if it uses none."""

    path: str = ""
    name: str = ""
    context: str = ""
    """The context that must be in use, or that is used."""
    uses_context: bool = False
    """Whether the file selects the context; otherwise it is a condition."""
    is_above: bool = False
    """Whether it was found in a folder above the working directory."""
    unused: UnusedConfig | None = None
    """The file that is there instead, for another set."""


@dataclass(frozen=True, slots=True)
class UnusedConfig:
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
_MISNAMED = "applyprune.yml"
_LARGEST = 2**20
_NAMES_ITSELF = {"name", "context"}


def use(ctx: click.Context, names: tuple[str, ...], config: str | None, keys: Keys) -> None:
    """Make the values of the file the defaults of the call's options.

    ``names`` and ``config`` are those of the command line.
    """
    ctx.meta[_META] = _use(ctx, names, config, keys)


def _use(ctx: click.Context, names: tuple[str, ...], config: str | None, keys: Keys) -> ConfigInUse:
    # Imported below, not at the top: a call without a file does not need YAML.
    found = config if config is not None else find_configuration()
    if found is None:
        return ConfigInUse()
    if config == "":
        raise UsageError("empty path for --config", hint="Is a variable of the script not set?")
    from applyprune.sources.folders import read_configuration

    configuration = read_configuration(found, is_named=config is not None)
    settings = {key: _checked(configuration, key, keys) for key in configuration.settings}
    if "name" not in settings:
        raise InputError(
            "the configuration names no set", location=configuration.path, hint="Add name: NAME."
        )
    if names and settings["name"] not in names:
        if config is None:
            return ConfigInUse(unused=UnusedConfig(configuration.path, settings["name"], names))
        raise UsageError(
            f"{configuration.path} is for the set {settings['name']}, and not for "
            f"{', '.join(names)}"
        )
    folder = os.path.dirname(found)  # noqa: PTH120 -- as it was given
    for key in settings.keys() & {"filename", "kustomize"}:
        settings[key] = [_from(folder, path) for path in settings[key]]
    ctx.default_map = {
        str(param.name): _converted(configuration, key, ctx, param, value)
        for key, value in settings.items()
        if key not in _NAMES_ITSELF and (param := _option(ctx.command, key)) is not None
    }
    context, uses_context = settings.get("context", ""), False
    if not isinstance(context, str):
        context, uses_context = context["name"], context.get("use", False)
    is_above = config is None and bool(folder)
    return ConfigInUse(configuration.path, settings["name"], context, uses_context, is_above)


def find_configuration() -> str | None:
    """Return the path of the nearest file, here or above in the same Git work tree.

    Above the folder that has ``.git`` nothing is read, nor anything that is another user's or on
    another file system: whoever may write there must not decide what a prune deletes.
    """
    named = ((f"{folder}{file}", folder) for folder, _ in _places() for file in (FILE, _MISNAMED))
    found, folder = next(((file, at) for file, at in named if _is_there(file)), (None, ""))
    if folder and not any(is_top for _, is_top in _places()):
        return None  # nothing says where the work tree ends
    if found is not None and not found.endswith(FILE):
        raise UsageError(
            f"found {found}, which is not read",
            hint=f"Rename it to {FILE}, or give it with --config.",
        )
    return found


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


def _places() -> Iterator[tuple[str, bool]]:
    """Yield each folder of a file, from here up, and whether the Git work tree begins there."""
    folder, here = "", _owner("")
    while True:
        is_top = os.path.lexists(f"{folder}.git")
        yield folder, is_top
        below, folder = folder, f"../{folder}"
        is_root = os.path.samefile(below or ".", folder)  # noqa: PTH121
        if is_top or is_root or _owner(folder) != here:  # guard: foreign-configuration
            return


def _owner(folder: str) -> tuple[int, int]:
    stat = os.stat(folder or ".")  # noqa: PTH116
    return stat.st_dev, stat.st_uid


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
        judged = compile_rule(expression, where=f"--ready-when {kind}")
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
    if key == "ready-when" and any(map(_holds_at_once, value)):  # guard: empty-rule-of-a-file
        reason = "it holds for an object without a status, so that no prune would wait"
        raise _refused(configuration, key, "such a rule", key, reason)
    return value


def _option(command: click.Command, key: str) -> click.Parameter | None:
    return next((param for param in command.params if f"--{key}" in param.opts), None)


def no_set_given() -> UsageError:
    """Return the error of a call that names no set."""
    return UsageError("no set given", hint="Give NAME, or add name: NAME to applyprune.yaml.")


def no_input_given() -> UsageError:
    """Return the error of a call without input."""
    hint = "Give -f PATH, -f - for standard input, or -k DIR"
    unused = config_in_use().unused
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
