"""What a verb takes from ``applyprune.yaml``: options that the command line does not give.

The file of the working directory counts, or the one that ``--config`` names; never one of a folder
above, so that it does not depend on files out of sight what a prune deletes. A key is the long name
of an option, letter for letter. What lifts a guard has no key: in a file it would be lifted for
ever, and for plans that nobody has seen.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum, auto
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from applyprune.cli.options.completion import FILE, SET
from applyprune.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from applyprune.sources.config_file import Configuration


class _Form(Enum):
    TEXT = auto()
    TEXTS = auto()
    PATHS = auto()
    FLAG = auto()


KEYS: Mapping[str, _Form] = {
    "name": _Form.TEXT,
    "namespace": _Form.TEXT,
    "context": _Form.TEXT,
    "filename": _Form.PATHS,
    "kustomize": _Form.PATHS,
    "namespace-override": _Form.TEXT,
    "create-namespace": _Form.FLAG,
    "prune": _Form.FLAG,
    "orphan": _Form.TEXTS,
    "adopt": _Form.TEXT,
    "wait": _Form.FLAG,
    "ready-when": _Form.TEXTS,
    "propagation": _Form.TEXT,
    "timeout": _Form.TEXT,
    "lock-timeout": _Form.TEXT,
}
"""The keys of the file; ``context`` is a condition, and all others are options."""

GUARDS = frozenset(
    {
        "allow-cascade",
        "allow-empty",
        "allow-kind",
        "force-conflicts",
        "max-prune",
        "prune-adopted",
        "recreate",
        "take-over",
        "yes",
    }
)
"""The options that lift a guard: each run needs the user's word."""

_META = "applyprune.configuration"
_NAMES_ITSELF = {"name", "context"}


@dataclass(frozen=True, slots=True)
class _Used:
    """The file that a call goes by; empty where there is none."""

    path: str = ""
    name: str = ""
    context: str = ""


def name_argument(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add NAME and --config: the set, which the file may name."""

    @wraps(verb)
    def command(name: str | None, **others: Any) -> Any:
        if not (name := name or used().name):
            raise UsageError(
                "no set is named", hint="Give NAME, or name it in an applyprune.yaml here."
            )
        return verb(name=name, **others)

    # Both are eager: what the file says must be known before any other option gets its default.
    option = click.option(
        "--config",
        type=FILE,
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_note,
        help="A file that names the set and its options.  [default: applyprune.yaml, if it exists]",
    )
    name = click.argument("name", type=SET, required=False, is_eager=True, callback=_note)
    return name(option(command))


def used() -> _Used:
    """Return the file that the call at hand goes by."""
    noted = click.get_current_context().meta.get(_META, {}).get("used")
    return noted if isinstance(noted, _Used) else _Used()


def _note(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    noted = ctx.meta.setdefault(_META, {})
    noted[param.name] = value
    if {"name", "config"} <= noted.keys() and not ctx.resilient_parsing:
        noted["used"] = _use(ctx, noted["name"], noted["config"])
    return value


def _use(ctx: click.Context, name: str | None, config: str | None) -> _Used:
    """Give the options of the call the defaults that the file has for them."""
    # Here and not at the top: a call without a file does not wait for YAML.
    if config is None and not os.path.lexists("applyprune.yaml"):
        return _Used()
    if config == "":
        raise UsageError("an empty path for --config", hint="Is a variable of the script not set?")
    from applyprune.sources.config_file import FILE as HERE
    from applyprune.sources.config_file import read_configuration

    found = read_configuration(HERE if config is None else config)
    settings = {key: _checked(found, key) for key in found.settings}
    if "name" not in settings:
        raise InputError(
            "the configuration names no set", location=found.path, hint="Add name: NAME."
        )
    if name not in {None, settings["name"]}:
        if config is None:
            return _Used()  # it speaks of one set; of another it says nothing
        raise UsageError(f"{found.path} is for the set {settings['name']}, and not for {name}")
    folder = os.path.dirname("" if config is None else config)  # noqa: PTH120 -- as it was given
    for key in settings.keys() & {"filename", "kustomize"}:
        settings[key] = [_from(folder, path) for path in settings[key]]
    ctx.default_map = {
        str(param.name): _converted(found, key, ctx, param, value)
        for key, value in settings.items()
        if key not in _NAMES_ITSELF and (param := _option(ctx.command, key)) is not None
    }
    return _Used(found.path, settings["name"], settings.get("context", ""))


def _checked(found: Configuration, key: str) -> Any:
    """Return a setting in the form of its key; raises InputError for what is none."""
    value, form = found.settings[key], KEYS.get(key)
    if key in GUARDS or (key == "adopt" and value == "all"):
        raise InputError(
            f"{key}{': all' if key == 'adopt' else ''} has no place in a configuration",
            location=found.origin(key),
            reason="there it would lift a guard for every run to come",
            hint=f"Give --{key} on the command line, for the run that needs it.",
        )
    if form is None:
        from applyprune.planning.suggest import did_you_mean

        hint = did_you_mean(key, KEYS) or f"The keys are {', '.join(KEYS)}."
        raise InputError(f"unknown key {key!r}", location=found.origin(key), hint=hint)
    if form in {_Form.TEXTS, _Form.PATHS} and isinstance(value, str):
        value = [value]
    if not _fits(form, value):
        wanted = {
            _Form.FLAG: "true or false",
            _Form.TEXT: "a text",
        }.get(form, "a text or a list of texts, none of them empty")
        raise InputError(f"{key} must be {wanted}", location=found.origin(key))
    if form is _Form.PATHS and "-" in value:
        raise InputError(
            f"{key} cannot be standard input in a configuration", location=found.origin(key)
        )
    return value


def _fits(form: _Form, value: object) -> bool:
    if form is _Form.FLAG:
        return isinstance(value, bool)
    if form is _Form.TEXT:
        return isinstance(value, str) and bool(value)
    return isinstance(value, list) and all(isinstance(one, str) and one for one in value)


def _from(folder: str, path: str) -> str:
    """Return a path of the file as one of the working directory."""
    return path if "://" in path else os.path.join(folder, path)  # noqa: PTH118 -- as it was given


def _option(command: click.Command, key: str) -> click.Parameter | None:
    return next((one for one in command.params if f"--{key}" in one.opts), None)


def _converted(
    found: Configuration, key: str, ctx: click.Context, param: click.Parameter, value: Any
) -> Any:
    """Return a value that its option takes; what it refuses is an error with its place."""
    try:
        param.process_value(ctx, value)
    except click.BadParameter as error:
        raise InputError(
            f"{key} is refused", location=found.origin(key), reason=error.message
        ) from None
    return value
