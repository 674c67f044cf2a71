"""The options of the verbs: one row for each, in groups that several verbs share.

A row says all that is known of an option: its words and help, the heading of the help, whether
``applyprune.yaml`` may give it, and what it sets. Some are keys of that file only. A verb names its
groups in ``@command``; it gets ``name``, ``paths``, ``cluster_target``, ``options``,
``status_options`` and ``reporting`` as values that are whole, and what no row sets by its own name.
"""

from __future__ import annotations

import os
from enum import StrEnum
from functools import wraps
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import click
from click.core import ParameterSource

from applyprune.cli.complete import (
    BUNDLE_NAME,
    CONTEXT_NAME,
    FILE_PATH,
    FORMAT_NAME,
    KIND_NAME,
    NAMESPACE_NAME,
    OBJECT_NAME,
    SET_NAME,
    TextType,
)
from applyprune.cli.config import Form, Keys, config_in_use, no_set_given, use, use_of_set
from applyprune.cli.main import CalledCommand, InterruptedVerb, SuggestingGroup
from applyprune.cli.target import ClusterTarget, is_connected
from applyprune.errors import ApplypruneError, UsageError
from applyprune.model.inventory import Ownership
from applyprune.model.options import (
    Actor,
    Adopt,
    AdoptFrom,
    Conflicts,
    DryRun,
    HelmHooks,
    Options,
    Propagation,
    PruneAlso,
    PruneLimit,
    StatusOptions,
    WaitMode,
    parse_duration,
    parse_ready_when,
)
from applyprune.model.text import is_dns_label, parse_selector
from applyprune.output.printers import FORMATS
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from click.shell_completion import CompletionItem

    from applyprune.cli.reporting import Reporting
    from applyprune.cli.session import InputPaths
    from applyprune.model.text import Selector
    from applyprune.planning.configuration import SetSettings
    from applyprune.sources.folders import Configuration


REST = "Options"
HEADINGS = ("Input", "Apply", "Prune", "Prune guards", "Waiting", "Cluster", "Output")
"""The headings of the help, after ``REST``."""


class Row(click.Parameter):
    """One option or key, and all that is known of it."""

    def __init__(self, *words: str, **row: Any) -> None:
        """Take the words of an option, and the rest of its row, with click's own attributes.

        ``heading`` is one of HEADINGS; a ``rare`` option is only in --help-all. ``config`` is the
        form of its value in ``applyprune.yaml``; None if the file cannot give it. ``guard``: it
        disables a guard, so the user must give it for each run; ``unsafe`` is the one value of
        which this is true. ``values`` are those of an option that may stand alone, which then means
        the first. ``time`` is the default of a duration, and ``one_of`` has the words of an option
        that takes one of them. ``sets`` is what it sets: a value that the verb gets, and a field in
        it; ``into`` makes the verb's value of what was given.
        """
        self.words, self._row = words, dict(row)
        if time := row.pop("time", ""):
            row = {"default": time, "metavar": "TIME", "callback": duration, **row}
        if words_of := row.pop("one_of", None):
            by_word = {str(word).lower(): word for word in words_of}
            default = str(row["default"]).lower()
            row |= {"type": click.Choice(list(by_word)), "default": default}
            row["into"] = by_word.__getitem__
        self.heading: str = row.pop("heading", REST)
        self.config: Form | None = row.pop("config", None)
        self.guard: bool = row.pop("guard", False)
        self.unsafe: str | bool | None = row.pop("unsafe", None)
        self.values: tuple[str, ...] = row.pop("values", ())
        self.rare: bool = row.pop("rare", False)
        self.sets: str = row.pop("sets", "")
        self.into: Callable[[Any], Any] = row.pop("into", _as_given)
        self.bare = self.values[0] if self.values else ""
        if self.bare:
            metavar = f"[={'|'.join(self.values)}]"
            row |= {"is_flag": False, "flag_value": self.bare, "metavar": metavar}
        super().__init__(words, **row)

    @property
    def key(self) -> str:
        """Return the name in ``applyprune.yaml``: for an option, the long one without dashes."""
        long = [word for word in self.opts if word.startswith("--")]
        return long[0].removeprefix("--") if long else self.words[0]

    def but(self, **changes: Any) -> Self:
        """Return the same row with other values."""
        return type(self)(*self.words, **{**self._row, **changes})


class Option(Row, click.Option):
    """A row that the command line has."""

    def __init__(self, *words: str, **row: Any) -> None:
        """Take the words and the rest of the row; the help shows the default that a row names."""
        if row.keys() & {"time", "one_of"}:
            row = {"show_default": True, **row}
        super().__init__(*words, **row)

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Process the option; note what else is given, which decides on the files that count."""
        ctx.meta.setdefault(_GIVEN, dict(opts))
        return super().handle_parse_result(ctx, opts, args)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option and its help; a value that needs ``=`` is shown with it."""
        record = super().get_help_record(ctx)
        return (record[0].replace(" [=", "[="), record[1]) if record and self.bare else record


class Setting(Row):
    """A row that only ``applyprune.yaml`` has."""

    param_type_name = "key"

    def __init__(self, key: str, *, help: str, **row: Any) -> None:  # noqa: A002 - click's word
        """Take the key, what it says, and the rest of its row."""
        super().__init__(key, **row)
        self._row["help"] = self.help = help

    def _parse_decls(
        self,
        decls: Sequence[str],
        expose_value: bool,  # noqa: ARG002 - click's signature
    ) -> tuple[str, list[str], list[str]]:
        return decls[0].replace("-", "_"), [], []

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Leave the parser as it is: no argument gives the value."""


def _as_given(value: Any) -> Any:
    return value


# What the values are: each function checks one, or turns it into what a run takes.


def duration(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """Return the seconds of a duration in Go's form (90s, 5m, 1h30m), or of a number."""
    try:
        return parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}", ctx, param) from None


def digest_value(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the digest that an option gives, empty if it gives none; raise BadParameter.

    For many sets, ``apply`` takes several, with spaces between.
    """
    from applyprune.planning.digests import is_digest

    digests = value.split()
    if wrong := [one for one in digests if not is_digest(one)]:
        raise click.BadParameter(
            f"{wrong[0]!r} is not a digest: write sha256: and 64 hex digits", ctx, param
        )
    if len(digests) > 1 and ctx.command.name != "apply":
        raise click.BadParameter("only one digest can be given", ctx, param)
    return " ".join(digests)


def namespace_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the namespace of an option; raise BadParameter for an invalid name."""
    if not_empty(ctx, param, value) and not ctx.resilient_parsing and not is_dns_label(value):
        raise click.BadParameter(f"{value!r} is not a valid namespace name", ctx, param)
    return value


def not_empty(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return an option's value; raise UsageError if the command line gives an empty one.

    The default could be another cluster or namespace than the script meant.
    """
    is_given = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    if not value and is_given and not ctx.resilient_parsing:
        raise UsageError(
            f"empty value for {param.opts[-1]}", hint="Is a variable of the script not set?"
        )
    return value


def _namespace_names(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[str, ...]:
    names = () if value is None else value.split(",")
    return tuple(namespace_name(ctx, param, name.strip()) for name in names)


class _Adoption(TextType):
    """A word of Adopt, or ``set/NAME[.NAMESPACE]``."""

    name = "adoption"
    choices = tuple(str(one) for one in Adopt)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what may be adopted."""
        try:
            given = AdoptFrom.parse(str(value))
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)
        return given or Adopt(click.Choice(self.choices).convert(value, param, ctx))

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the words that begin so."""
        return click.Choice(self.choices).shell_complete(ctx, param, incomplete)


def _adopt(
    ctx: click.Context, param: click.Parameter, value: Adopt | AdoptFrom
) -> Adopt | AdoptFrom:
    """Return what may be adopted; from another set only if the command line says so."""
    is_given = ctx.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    if isinstance(value, AdoptFrom) and not is_given:
        raise UsageError(
            f"{param.name}: {value} is not allowed in a configuration",
            reason="every future run would take objects from that set",
            hint="Give --adopt on the command line, for the run that needs it.",
        )
    return value


def _not_of_sets(
    _: click.Context, __: click.Parameter, managers: tuple[str, ...]
) -> tuple[str, ...]:
    if managers:
        from applyprune.planning.applyset import MANAGERS

        if of_sets := sorted(manager for manager in managers if manager.startswith(MANAGERS)):
            raise UsageError(
                f"{of_sets[0]} is the field manager of a set",
                hint="--adopt=all takes objects from another set.",
            )
    return managers


def _rules(_: click.Context, __: click.Parameter, rules: tuple[str, ...]) -> tuple[str, ...]:
    if rules:
        from applyprune.planning.normalize import parse_rule

        for rule in rules:
            parse_rule(rule)
    return rules


def _ignore_paths(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    if any("\n" in rule or not rule.strip() for rule in value):
        raise click.BadParameter("a rule is one line, and not empty", ctx, param)
    return value


def _prune_limit(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> PruneLimit | None:
    if value is None:
        return None
    try:
        return PruneLimit.parse(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}", ctx, param) from None


def _prune_also(ctx: click.Context, param: click.Parameter, value: str) -> frozenset[PruneAlso]:
    try:
        return frozenset(PruneAlso(word.strip()) for word in value.split(",") if value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r} is not adopted,shared or one of them", ctx, param
        ) from None


def _labels(ctx: click.Context, param: click.Parameter, value: str | None) -> Selector | None:
    del ctx, param
    if value is None:
        return None
    try:
        return parse_selector(value)
    except ValueError as error:
        raise UsageError(
            f"invalid label selector {value!r}",
            reason=str(error),
            hint="Write labels as app=web,tier!=db or 'app in (web,db),!canary'.",
        ) from error


def _actor(ctx: click.Context, param: click.Parameter, value: str) -> Actor:
    from applyprune.api.sets import actor_of

    try:
        return actor_of(os.environ, value)
    except UsageError as error:
        raise click.BadParameter(error.reason, ctx, param) from None


def _dry_run(ctx: click.Context, param: click.Parameter, value: str) -> DryRun:
    try:
        return DryRun(value)
    except ValueError:
        hint = f"Use {param.opts[-1]}, or leave it out."
        raise click.BadParameter(
            f"{value!r} is neither server nor client. {hint}", ctx, param
        ) from None


def _ready_when(rules: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    return tuple(map(_ready_rule, rules))


def _ready_rule(text: str) -> tuple[str, str]:
    try:
        return parse_ready_when(text)
    except ValueError as error:
        raise UsageError(f"invalid rule {text!r} in ready-when", hint=f"It {error}") from None


def is_given(option: str, ctx: click.Context | None = None) -> bool:
    """Return whether the command line itself gives an option."""
    source = (ctx or click.get_current_context()).get_parameter_source(option)
    return source is ParameterSource.COMMANDLINE


# The names of sets, and the file with their options. A name is eager like --config: the file must
# be read before any other option gets its default.


class SetName(click.Argument):
    """NAME, which the file may give instead."""

    def __init__(self, name: str, *, needed: bool = False, **attributes: Any) -> None:
        """Take the name of the argument; ``needed`` if the verb cannot do without a set."""
        attributes = {"required": False, **attributes}
        super().__init__((name,), type=SET_NAME, is_eager=True, callback=_note, **attributes)
        self.needed = needed

    def chosen(self, given: Any) -> Any:
        """Return the name or names on the command line, else that of the file."""
        used = config_in_use().name
        if self.nargs == -1:
            return given or ((used,) if used else ())
        if self.needed and not (given or used):
            raise no_set_given()
        return given or used or None


def words_given(ctx: click.Context) -> list[str]:
    """Return the options that the command line gives, as words of another command line."""
    words: list[str] = []
    for param in ctx.command.params:
        if not (isinstance(param, click.Option) and is_given(str(param.name), ctx)):
            continue
        value = ctx.meta[_GIVEN][param.name]
        word = max(param.opts, key=len)
        if param.is_flag:
            words.append(word if value else param.secondary_opts[-1])
        else:
            given = value if isinstance(value, list | tuple) else [value]
            words += [f"{word}={one}" for one in given]
    return words


class RunNumber(click.Argument):
    """The number of a run, which may stand alone if the file names the set."""

    def __init__(self, name: str) -> None:
        """Take the name of the argument."""
        super().__init__((name,), type=click.IntRange(min=1), metavar="[RUN]", required=False)

    def chosen(self, given: int | None) -> int | None:
        """Return the number on the command line, wherever it stands."""
        alone: int | None = click.get_current_context().meta.get(_RUN)
        return alone if given is None else given


class ObjectName(click.Argument):
    """KIND/NAME, which may stand alone if the file names the set: no set has a slash."""

    def __init__(self, name: str) -> None:
        """Take the name of the argument."""
        super().__init__((name,), type=OBJECT_NAME, metavar="KIND/NAME", required=False)

    def chosen(self, given: str | None) -> str:
        """Return the object on the command line, wherever it stands."""
        ctx = click.get_current_context()
        first: str = ctx.meta.get(_OBJECT, "")
        if given and first:
            raise UsageError(f"invalid set name {first!r}", hint="Name one object: NAME KIND/NAME.")
        if not (given or first):
            raise click.MissingParameter(ctx=ctx, param=self)
        return given or first


_OBJECT = "applyprune.object"
_RUN = "applyprune.run"
_GIVEN = "applyprune.given"
"""The options of the command line, by their parameters, before any is processed."""


def _note(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    takes_name = any(isinstance(one, SetName) for one in ctx.command.params)
    noted = ctx.meta.setdefault("applyprune.parsed", {} if takes_name else {"names": ()})
    takes_object = any(isinstance(one, ObjectName) for one in ctx.command.params)
    if isinstance(param, SetName) and takes_object and value and "/" in value:
        ctx.meta[_OBJECT], value = value, None
    takes_run = any(isinstance(one, RunNumber) for one in ctx.command.params)
    if isinstance(param, SetName) and takes_run and value and value.isdecimal():
        ctx.meta[_RUN], value = int(value), None
    if param.name == "config":
        noted["config"] = value
    else:
        noted["names"] = value if isinstance(value, tuple) else (value,) if value else ()
    if {"names", "config"} <= noted.keys() and not ctx.resilient_parsing:
        given = {**ctx.meta[_GIVEN], "config": noted["config"]}
        if given.get(ALL_IN.name) is not None:
            return value  # each set has files of its own
        try:
            use(ctx, noted["names"], given, KEYS)
        except ApplypruneError as error:
            if "output" not in given:
                raise
            # Every format has every error.
            ctx.exit(_reported(error, given))
    return value


def _reported(error: ApplypruneError, given: Mapping[str, Any]) -> int:
    from applyprune.cli.reporting import reporting_of

    quiet, verbose = (bool(given.get(option)) for option in ("quiet", "verbose"))
    return reporting_of(tuple(given["output"]), quiet, verbose).print_error(error)


CONFIG = Option(
    "--config",
    rare=True,
    heading="Input",
    type=FILE_PATH,
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_note,
    help="A file with the set's name, its options and more keys.  [default: applyprune.yaml, here, "
    "in the folders of the input, and above them in the same Git work tree]",
)
NAME = (SetName("name", needed=True), CONFIG)
OPTIONAL_NAME = (SetName("name"), CONFIG)
NAMES = (SetName("names", nargs=-1, metavar="[NAME]..."), CONFIG)
OWN_NAME = (SetName("name", required=True), CONFIG)
"""NAME where objects may follow it: no file gives it, but one for the set counts."""
BUNDLE = click.Argument(("name",), type=BUNDLE_NAME, metavar="NAME")
OBJECT = ObjectName("ref")
OBJECTS = click.Argument(("objects",), nargs=-1, type=OBJECT_NAME, metavar="[KIND/NAME]...")


# The rows.


INPUT = (
    Option(
        "-f",
        "--filename",
        "paths",
        heading="Input",
        config=Form.PATHS,
        sets="paths.files",
        type=FILE_PATH,
        multiple=True,
        metavar="PATH",
        help="A file, a folder, a pattern, an address, or -. A folder is read with everything "
        "below it, or built if it is a kustomization. A pattern is quoted, and has *, ? or **. An "
        "address is an https:// URL of a document, or oci://HOST/NAME:TAG. The dash is standard "
        "input. Repeatable.",
    ),
    Option(
        "-k",
        "--kustomize",
        heading="Input",
        config=Form.PATHS,
        sets="paths.kustomizations",
        type=FILE_PATH,
        multiple=True,
        metavar="DIR",
        help="A kustomization, or its address. It is built with kustomize or kubectl. Repeatable.",
    ),
    Setting(
        "ignore-paths",
        config=Form.TEXTS,
        sets="paths.ignore",
        multiple=True,
        callback=_ignore_paths,
        help="Leave out files of folders and of sources on other hosts: lines as in .gitignore, "
        "from the root of the repository or folder. They come after the lines of .sourceignore, "
        "and replace the default list, as `ignore` of a Bundle does.",
    ),
)
"""Which manifests."""
AT = Option(
    "--at",
    rare=True,
    heading="Input",
    sets="paths.at",
    default="",
    metavar="REV",
    callback=not_empty,
    help="Read the input as of a commit. It is one of the input's Git work tree, which stays as it "
    "is. The options are those of today; `context` in applyprune.yaml must hold in both.",
)
ALL_IN = Option(
    "--all-in",
    heading="Input",
    type=FILE_PATH,
    metavar="DIR",
    callback=not_empty,
    help="All sets below this folder. Each applyprune.yaml there with a name is one.",
)
CHANGED_SINCE = Option(
    "--changed-since",
    heading="Input",
    metavar="REV",
    callback=not_empty,
    help="Only the sets that a change concerns. Anything that they read differs from a commit of "
    "the Git work tree. It needs --all-in.",
)
MANY = (ALL_IN, CHANGED_SINCE)
"""Which sets, if they are many."""
PLACEMENT = (
    Setting(
        "namespace-override",
        config=Form.TEXT,
        sets="options.apply.namespace_override",
        default="",
        callback=namespace_name,
        help="Apply every namespaced manifest in this namespace, even if it names another one. "
        "Namespaces keep their names. Names inside manifests, such as the subjects of a "
        "RoleBinding, do not change.",
    ),
    Setting(
        "helm-hooks",
        config=Form.TEXT,
        sets="options.apply.helm_hooks",
        one_of=HelmHooks,
        default=HelmHooks.REFUSE,
        help="What to do with the install and upgrade hooks of a chart: leave them out, or apply "
        "them like other objects. Test, delete and rollback hooks are always left out.",
    ),
)
"""Which objects the input means."""
SELECTION = (
    Option(
        "-l",
        "--selector",
        rare=True,
        heading="Input",
        sets="options.apply.selector",
        metavar="SELECTOR",
        callback=_labels,
        help="Apply only the manifests with these labels: app=web or 'app in (web,db)'. The rest "
        "of the set does not change, and nothing is pruned.",
    ),
    Option(
        "--only",
        rare=True,
        heading="Input",
        sets="options.apply.only",
        into=frozenset,
        type=OBJECT_NAME,
        multiple=True,
        metavar="KIND/NAME",
        help="Apply only this object. The rest of the set does not change, and nothing is pruned. "
        "Repeatable.",
    ),
)
"""Which part of the set is applied."""
DELETION = (
    SELECTION[0].but(
        rare=False,
        sets="options.select_labels",
        help="Delete only the objects that have these labels in the cluster. The rest of the set "
        "and its inventory stay.",
    ),
    SELECTION[1].but(
        rare=False,
        sets="options.select",
        help="Delete only this object. The rest of the set and its inventory stay. Repeatable.",
    ),
)
"""Which part of the set is deleted."""
APPLY = (
    Option(
        "--prune/--no-prune",
        heading="Prune",
        config=Form.FLAG,
        sets="options.prune.enabled",
        default=True,
        show_default=True,
        help="Delete what has left the input. If not, it stays in the inventory.",
    ),
    Option(
        "--adopt",
        heading="Apply",
        config=Form.TEXT,
        unsafe="all",
        sets="options.apply.adopt",
        type=_Adoption(),
        default=str(Adopt.UNOWNED),
        metavar="WHICH",
        callback=_adopt,
        help="Which existing objects to adopt. It is none, unowned, all, or set/NAME[.NS] for "
        "those of that set too, owned as they are there. The default is unowned.",
    ),
    Option(
        "--record-as",
        rare=True,
        heading="Apply",
        guard=True,  # a later prune deletes what was adopted, as with --prune-also adopted
        sets="options.apply.adopt_as",
        one_of=Ownership,
        default=Ownership.ADOPTED,
        help="How to record what is adopted: a later prune deletes an `owned` object, and orphans "
        "an `adopted` one. What another tool may manage is owned only with --adopt=all.",
    ),
    Option(
        "--take-over",
        rare=True,
        heading="Apply",
        guard=True,
        sets="options.apply.take_over",
        into=frozenset,
        multiple=True,
        metavar="MANAGER",
        callback=_not_of_sets,
        help="Take over the fields of this field manager, except finalizers and ownerReferences. "
        "Adoption does so for `kubectl apply`.",
    ),
    Option(
        "--conflicts",
        heading="Apply",
        config=Form.TEXT,
        unsafe=str(Conflicts.FORCE),
        sets="options.apply.conflicts",
        one_of=Conflicts,
        default=Conflicts.FAIL,
        help="What to do with conflicts. A conflict is a field that others have changed. `revert` "
        "takes back drift: fields of the set that others have changed by an update since its last "
        "apply. Fields that others apply, or had before, are taken with `force` only.",
    ),
    Option(
        "--recreate",
        rare=True,
        heading="Apply",
        guard=True,
        sets="options.apply.recreate",
        is_flag=True,
        help="Delete and re-create an object to change an immutable field; never a "
        "PersistentVolumeClaim, PersistentVolume, Namespace or CRD.",
    ),
    Option(
        "--create-namespace",
        heading="Apply",
        config=Form.FLAG,
        sets="options.apply.create_namespace",
        is_flag=True,
        help="Create the inventory's namespace. Unless the input has it too, it does not belong to "
        "the set, and `delete` keeps it.",
    ),
    Option(
        "--reapply-all",
        rare=True,
        heading="Apply",
        sets="options.apply.reapply_all",
        is_flag=True,
        help="Send every object, even an unchanged one: believe neither the inventory nor the "
        "server's record of the writes.",
    ),
    Setting(
        "ignore",
        config=Form.TEXTS,
        sets="options.apply.ignore",
        multiple=True,
        callback=_rules,
        help="Send these fields at creation only, then leave them to other field managers: "
        "KIND[.GROUP][/NAME]:/json/pointer, with * and ? in NAME, and * for every KIND.",
    ),
    Setting(
        "no-default-ignore",
        config=Form.TEXTS,
        sets="options.apply.no_default_ignore",
        into=frozenset,
        multiple=True,
        # The names of ``planning.ownership.default_rules``, without an import of it.
        type=click.Choice(("aggregated-rules", "autoscaled-replicas", "ca-bundle")),
        help="Switch off these default rules: send also what controllers usually set.",
    ),
)
"""What an apply does with what exists."""
LOCK_TIMEOUT = Setting(
    "lock-timeout",
    config=Form.TEXT,
    sets="options.lock_timeout",
    time="60s",
    help="How long to wait for another run on the same set.",
)
PRUNE = (
    LOCK_TIMEOUT,
    Option(
        "--orphan",
        rare=True,
        heading="Prune guards",
        config=Form.TEXTS,
        sets="options.prune.orphan",
        into=frozenset,
        type=OBJECT_NAME,
        multiple=True,
        metavar="KIND/NAME",
        help="Orphan this object instead of deleting it: the set no longer lists it, and it "
        "stays in the cluster.",
    ),
    Option(
        "--allow-cascade",
        rare=True,
        heading="Prune guards",
        guard=True,
        sets="options.prune.allow_cascade",
        into=frozenset,
        type=OBJECT_NAME,
        multiple=True,
        metavar="KIND/NAME",
        help="Allow the deletion of this object although it cascades to objects outside the set, "
        "or although the controller needs it to end Bundles.",
    ),
    Option(
        "--prune-also",
        rare=True,
        heading="Prune",
        guard=True,
        sets="options.prune.also",
        default="",
        metavar="adopted,shared",
        callback=_prune_also,
        help="Delete as well, instead of orphaning them: objects that the set has adopted, and "
        "those that another tool manages, or another object owns, now.",
    ),
    Setting(
        "propagation",
        config=Form.TEXT,
        sets="options.prune.propagation",
        one_of=Propagation,
        default=Propagation.BACKGROUND,
        help="What happens to the dependents of a deleted object.",
    ),
)
"""What deletions do."""
GUARDS = (
    Option(
        "--max-prune",
        rare=True,
        heading="Prune guards",
        guard=True,
        sets="options.prune.max_prune",
        metavar="N|N%",
        callback=_prune_limit,
        help="How many objects a prune may delete, including cascaded deletions.  [default: 5 or "
        "30% of the set's live objects, the larger of the two, and at most half of them]",
    ),
    Option(
        "--allow-kind",
        rare=True,
        heading="Prune guards",
        guard=True,
        sets="options.prune.allow_kinds",
        into=frozenset,
        multiple=True,
        type=KIND_NAME,
        metavar="KIND",
        # The words of ``model.kinds.GUARDED_KINDS``, without an import of it.
        help="Allow the pruning of this kind, by any of its names: customresourcedefinition, "
        "namespace, persistentvolume, persistentvolumeclaim, statefulset.",
    ),
    Option(
        "--allow-empty",
        rare=True,
        heading="Prune guards",
        guard=True,
        sets="options.prune.allow_empty",
        is_flag=True,
        help="Allow empty input.",
    ),
    Option(
        "--approve",
        heading="Prune guards",
        guard=True,
        sets="options.prune.approved",
        envvar="APPLYPRUNE_APPROVE",
        default="",
        metavar="DIGEST",
        callback=digest_value,
        help="Allow the deletions with this digest only. A refused prune and `plan -v` print it; "
        "the variable APPLYPRUNE_APPROVE may have it. `apply --plan` of many sets takes several, "
        "with spaces between.",
    ),
)
"""What disables the guards of a prune."""
DRY_RUN = Option(
    "--dry-run",
    sets="options.dry_run",
    values=("server", "client"),
    default="none",
    callback=_dry_run,
    help="Change nothing. The server checks everything, unless it is 'client'.",
)
ACTOR = Setting(
    "actor",
    config=Form.TEXT,
    sets="options.actor",
    default="",
    callback=_actor,
    help="Who to record as the author of the run, for `history`. The default is the user "
    "of the job of GitHub or GitLab.",
)
TIMEOUT = Option(
    "--timeout",
    heading="Waiting",
    config=Form.TEXT,
    time="5m",
    help="How long each wait may take. A run waits for CRDs, readiness and deletions.",
)
RUN = (DRY_RUN, TIMEOUT.but(sets="options.wait.timeout"), ACTOR)
"""What only a run has, and no plan."""
RECORD = (DRY_RUN, LOCK_TIMEOUT, ACTOR)
"""What every change to an inventory has."""


class Ask(StrEnum):
    """Which plans a terminal asks about before they run."""

    ALWAYS = "always"
    """Those that change anything."""
    DELETIONS = "deletions"
    """Those that delete, recreate, revert or take something, or make a doubtful set."""
    NEVER = "never"
    """None, as in a pipeline."""


ASK = Setting(
    "ask",
    config=Form.TEXT,
    one_of=Ask,
    default=Ask.DELETIONS,
    help="When to ask on a terminal: before any change, before deletions, recreations, "
    "reverts, takeovers and a new set that may be a mistake, or not at all, as in a pipeline.",
)
YES = Option("-y", "--yes", guard=True, is_flag=True, help="Do not ask for confirmation.")
CHECK = Option(
    "--check/--no-check",
    rare=True,
    heading="Apply",
    config=Form.FLAG,
    default=True,
    show_default=True,
    help="Whether the server checks everything in a dry run before the first write.",
)
WAIT = Option(
    "--wait/--no-wait",
    heading="Waiting",
    config=Form.FLAG,
    unsafe=False,
    sets="options.wait.mode",
    into=WaitMode.asked,
    default=None,
    help="Wait until everything is ready. --no-wait prunes without waiting. By default, only what "
    "may still need an object that is pruned is waited for.",
)
FAIL_FAST = Option(
    "--fail-fast",
    rare=True,
    heading="Waiting",
    config=Form.FLAG,
    is_flag=True,
    help="End a wait at the first problem, even if it may pass: a crash, an image that cannot be "
    "pulled, a quota, no node.",
)
WAITS = (
    WAIT,
    FAIL_FAST.but(sets="options.wait.fail_fast"),
    Setting(
        "ready-when",
        config=Form.TEXTS,
        sets="options.wait.ready_when",
        into=_ready_when,
        multiple=True,
        help="When objects of a kind are ready, as KIND.GROUP=CEL: an expression over `self`.",
    ),
)
"""What an apply waits for."""
CLUSTER = (
    Option(
        "--kubeconfig",
        rare=True,
        heading="Cluster",
        sets="cluster_target.kubeconfig",
        default="",
        type=FILE_PATH,
        metavar="FILE",
        callback=not_empty,
        help="The kubeconfig; default: KUBECONFIG, ~/.kube/config, or the pod's own account.",
    ),
    Option(
        "--context",
        heading="Cluster",
        config=Form.CONTEXT,
        sets="cluster_target.context",
        default="",
        type=CONTEXT_NAME,
        metavar="NAME",
        callback=not_empty,
        help="The context to use.  [env: APPLYPRUNE_CONTEXT]",
    ),
    Option(
        "-n",
        "--namespace",
        heading="Cluster",
        config=Form.TEXT,
        sets="cluster_target.namespace",
        default="",
        type=NAMESPACE_NAME,
        metavar="NS",
        callback=namespace_name,
        help="Namespace of the set. Its inventory is there, and manifests without one go there. "
        "The default is the context's.  [env: APPLYPRUNE_NAMESPACE]",
    ),
)
"""Which cluster, and which namespace of it."""
OUTPUT = (
    Option(
        "-o",
        "--output",
        heading="Output",
        sets="reporting.formats",
        type=FORMAT_NAME,
        multiple=True,
        metavar="FORMAT[=FILE]",
        help=f"Output format: {', '.join(FORMATS)}. Repeatable.  [default: text]",
    ),
    Option(
        "-q",
        "--quiet",
        rare=True,
        heading="Output",
        sets="reporting.quiet",
        is_flag=True,
        help="Print errors only, unless -o names a format.",
    ),
    Option(
        "-v",
        "--verbose",
        rare=True,
        heading="Output",
        sets="reporting.verbose",
        is_flag=True,
        help="Print a line for each request, every object that an error is about, and the objects "
        "that do not change.",
    ),
)
"""How the verb reports what happens."""
_OF_LISTS = tuple(form for form in FORMATS if form not in {"github", "gitlab", "junit", "markdown"})
LIST_OUTPUT = (
    OUTPUT[0].but(
        help=f"Output format: {', '.join(_OF_LISTS)}. Repeatable.  [default: text]",
    ),
    *OUTPUT[1:],
)
"""The same for what is only listed: the other formats are about a run, and have its error only."""
ALL_NAMESPACES = Option("-A", "--all-namespaces", heading="Cluster", is_flag=True)
WATCH_NAMESPACES = Option("--watch-namespaces", metavar="NS,…", callback=_namespace_names)
EXPIRES_IN = Setting(
    "expires-in",
    config=Form.TEXT,
    time="168h",
    help="How long a plan file is valid, at most 8760h, a year.",
)
PLANNING = (*INPUT, AT, *CLUSTER, *PRUNE, *GUARDS, *PLACEMENT, *SELECTION, *APPLY)
"""What decides on a plan: the same for ``apply`` and for the verbs that show what it would do."""


DEPENDS_ON = Setting(
    "dependsOn",
    config=Form.TEXTS,
    multiple=True,
    help="The sets that must be applied and ready before this one, as NAME in the same namespace, "
    "or NAMESPACE/NAME. It counts with --all-in; a call for one set ignores it.",
)
ROWS = (*PLANNING, *RUN, YES, ASK, CHECK, *WAITS, EXPIRES_IN, DEPENDS_ON)
"""The options of a run: keys of ``applyprune.yaml``, and what it may not give."""


def _keys_of(rows: Sequence[Row]) -> Keys:
    return Keys(
        forms={
            "name": Form.TEXT,
            **{row.key: row.config for row in rows if row.config is not None},
        },
        guards=frozenset(row.key for row in rows if row.guard),
        unsafe={row.key: row.unsafe for row in rows if row.unsafe is not None},
    )


KEYS = _keys_of(ROWS)


# From the rows to the verb.


class Command(CalledCommand):
    """A command whose help lists its options under HEADINGS, and whose options complete."""

    allow_extra_args = True  # to say what is meant by them; none is taken

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; for a completion drop a last option that still needs its value.

        An option that may stand alone takes a value only after ``=``, like kubectl's. Otherwise
        ``apply --dry-run web -f …`` would take the set's name as the value.
        """
        if ctx.resilient_parsing and args and self._wants_value(ctx, args[-1]):
            # Without its value click would stop parsing, and the set's name would be unknown.
            args = args[:-1]
        bare = {
            word: f"{word}={param.bare}"
            for param in self.params
            if isinstance(param, Option) and param.bare
            for word in param.opts
        }
        end = args.index("--") if "--" in args else len(args)
        if not (ctx.resilient_parsing or ctx.ignore_unknown_options):
            self._refuse_single_dash(ctx, args[:end])
        try:
            left = super().parse_args(
                ctx, [*(bare.get(arg, arg) for arg in args[:end]), *args[end:]]
            )
        except click.NoSuchOption as error:
            raise self._no_such_option(ctx, error.option_name) from None
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise
        if not ctx.resilient_parsing:
            self._refuse_arguments(ctx, args[:end])
        return left

    def _refuse_single_dash(self, ctx: click.Context, args: Sequence[str]) -> None:
        """Raise UsageError for ``-out=x``, as Terraform and Go write options."""
        if long := [arg for arg in args if len(arg) > len("-x") and arg[0] == "-" != arg[1]]:
            from applyprune.cli.answers import refuse_single_dash

            verb = str(ctx.info_name)
            refuse_single_dash(
                verb, long, {word for one in self.get_params(ctx) for word in one.opts}
            )

    def _no_such_option(self, ctx: click.Context, word: str) -> Exception:
        """Return the error for an option that this command does not have."""
        from applyprune.cli.answers import OPTIONS, answer, did_you_mean_option

        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        if instead := answer(OPTIONS, f"{ctx.info_name} {word}", word):
            return UsageError(f"no such option {word}", hint=instead)
        if any(isinstance(one, Setting) and word == f"--{one.key}" for one in self.params):
            key = word.removeprefix("--")
            return UsageError(f"no such option {word}", hint=f"Write {key} into applyprune.yaml.")
        hint = did_you_mean_option(word, options)
        return click.NoSuchOption(word, f"No such option {word}. {hint}", ctx=ctx)

    def _refuse_arguments(self, ctx: click.Context, args: Sequence[str]) -> None:
        """Raise UsageError for arguments that are too many, or manifests without -f."""
        extra = list(map(str, ctx.args))
        if extra or any(param.nargs == -1 for param in self.params):
            self._refuse_value_apart(args)
        if "kustomize" in ctx.params:
            from applyprune.cli.answers import refuse_arguments

            name = ctx.params.get("name")
            words = [name if name and is_given("name", ctx) else "", *extra]
            refuse_arguments(ctx.command_path, words, ctx.params.get("paths", ()))
        if extra:
            what = "argument" if len(extra) == 1 else "arguments"
            object_ = next((one for one in self.params if isinstance(one, ObjectName)), None)
            kind = ctx.params.get(str(object_.name)) if object_ is not None else None
            advice = ""
            if kind and "/" not in kind and len(extra) == 1:
                advice = f" Write KIND/NAME: {kind}/{extra[0]}"
            ctx.fail(f"Unexpected {what}: {' '.join(extra)}.{advice}")

    def _refuse_value_apart(self, args: Sequence[str]) -> None:
        """Raise UsageError for a value after an option that takes it only after ``=``."""
        for param in self.params:
            values = param.values if isinstance(param, Option) else ()
            for option, value in pairwise(args):
                if value in values and option in param.opts:
                    raise UsageError(f"unexpected argument: {value}", hint=f"Use {option}={value}")

    def _wants_value(self, ctx: click.Context, arg: str) -> bool:
        options = (param for param in self.get_params(ctx) if isinstance(param, click.Option))
        return any(arg in option.opts and not option.is_flag for option in options)

    def get_help_option_names(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the same in every context: click keeps the option that the first one has made."""
        return ["-h", "--help"]

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, and --help-all where --help leaves some out."""
        params = super().get_params(ctx)
        return [*params, _HELP_ALL] if any(map(_is_rare, self.params)) else params

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each heading that has options, with ``Options`` first.

        Rare options are left out, and so is all but the first sentence about the others, unless
        ``ctx.meta`` has EVERY_OPTION.
        """
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        is_short = EVERY_OPTION not in ctx.meta and any(map(_is_rare, options))
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in options:
            record = option.get_help_record(ctx)
            if record is None or (is_short and (_is_rare(option) or option is _HELP_ALL)):
                continue
            heading = getattr(option, "heading", REST)
            if is_short:
                record = record[0], _first_sentence(record[1])
                heading = "Prune" if heading == "Prune guards" else heading
            sections.setdefault(heading, []).append(record)
        for heading in (REST, *HEADINGS):
            if heading in sections:
                with formatter.section(heading):
                    formatter.write_dl(sections[heading])
        if is_short:
            count = sum(isinstance(param, Option) for param in self.params)
            formatter.write(f"\n--help-all shows all {count} options.\n")


EVERY_OPTION = "applyprune.every-option"
"""The key in ``ctx.meta`` of a help that leaves nothing out."""


def _is_rare(param: click.Parameter) -> bool:
    return isinstance(param, Option) and param.rare


def _first_sentence(text: str) -> str:
    """Return the first sentence of a help, and the default value if it names one."""
    said, bracket, default = text.partition("  [")
    return f"{said.partition('. ')[0].removesuffix('.')}.{bracket}{default}"


def _show_every_option(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from applyprune.output.terminal import Terminal

        ctx.meta[EVERY_OPTION] = True
        Terminal().out(ctx.get_help())
        ctx.exit()


_HELP_ALL = click.Option(
    ("--help-all",),
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_every_option,
    help="Show all options, and exit.",
)


_WHOLE = 1000


class CommandGroup(SuggestingGroup):
    """A group of such commands."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs, each with its whole first sentence; click would shorten it."""
        verbs = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, verb.get_short_help_str(_WHOLE)) for name, verb in verbs if verb]
            )


_CONTEXT = "cluster_target.context"
"""What an option of every verb of a cluster sets."""


def command(
    *parts: click.Parameter | Sequence[click.Parameter],
    name: str | None = None,
    of: click.Group | None = None,
    **attributes: Any,
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a function the verb with these parameters, in this order; ``of`` a group, or alone."""
    params = [
        param
        for part in parts
        for param in ((part,) if isinstance(part, click.Parameter) else part)
    ]

    def decorated(verb: Callable[..., Any]) -> click.Command:
        is_of_a_cluster = any(getattr(param, "sets", "") == _CONTEXT for param in params)

        @wraps(verb)
        def call(**given: Any) -> Any:
            try:
                return _call(verb, params, given)
            except KeyboardInterrupt:
                if is_of_a_cluster and not is_connected():
                    raise
                raise InterruptedVerb from None

        made = click.command(name, Command, params=params, **attributes)(call)
        if of is not None:
            of.add_command(made)
        return made

    return decorated


def _call(verb: Callable[..., Any], params: Sequence[click.Parameter], given: Any) -> Any:
    """Call the verb with its values; an error of the call itself is reported as the verb does."""
    fields = _fields(params, given)
    if "reporting" not in fields:
        return verb(**_values(params, given, fields))
    from applyprune.cli.reporting import reporting_of

    reporting = reporting_of(**_made(fields.pop("reporting")))
    used = config_in_use()
    if used.elsewhere and not reporting.quiet:
        reporting.terminal.err(f"options from {' and '.join(used.elsewhere)}")
    try:
        _refuse_one_of_many(given)
        values = _values(params, given, fields, reporting)
        unused = () if reporting.quiet else used.unused
        if unused and ("paths" not in values or values["paths"].paths):
            reporting.terminal.err("\n".join(one.text for one in unused))
        return verb(reporting=reporting, **values)
    except ApplypruneError as error:
        return reporting.print_error(error)


def _refuse_one_of_many(given: Mapping[str, Any]) -> None:
    """Raise UsageError for a call for all sets below a folder that names one."""
    is_of_many = given.get(str(ALL_IN.name)) is not None
    if is_of_many and any(map(is_given, ("name", "names", "paths", "kustomize", "config"))):
        raise UsageError(
            "--all-in excludes NAME, -f, -k and --config",
            hint="Each applyprune.yaml below the folder names a set and its input.",
        )
    if given.get(str(CHANGED_SINCE.name)) is not None and not is_of_many:
        raise UsageError("--changed-since needs --all-in", hint="Give --all-in DIR.")


def values_in(
    ctx: click.Context, one: SetSettings[Configuration], reporting: Reporting | None = None
) -> Mapping[str, Any]:
    """Return what the verb of a call gets for one set of many: what it gets in the set's folder.

    What the command line gives is parsed already, and counts before the files of the set. But
    ``reporting`` is that of the whole call. Raises InputError for a value of a file that the option
    rejects.
    """
    made = click.Context(ctx.command, info_name=ctx.command_path, obj=ctx.obj)
    made.meta.update(ctx.meta)
    with made.scope(cleanup=False):
        use_of_set(made, one, KEYS)
        made.params = dict(ctx.params)
        said = made.default_map or {}
        for param in ctx.command.params:
            name = str(param.name)
            source = ctx.get_parameter_source(name)
            # What the files of the current folder say is nothing to another one.
            if source is ParameterSource.DEFAULT_MAP or (name in said and not is_given(name, ctx)):
                made.params.pop(name, None)
                param.handle_parse_result(made, {}, [])
            elif source is not None:
                made.set_parameter_source(name, source)
        params, given = ctx.command.params, dict(made.params)
        fields = _fields(params, given)
        fields.pop("reporting", None)
        return _values(params, given, fields, reporting)


def _fields(
    params: Sequence[click.Parameter], given: dict[str, Any]
) -> dict[str, dict[str, tuple[Row, Any]]]:
    """Take what rows set out of what was given; return it by value and field."""
    fields: dict[str, dict[str, tuple[Row, Any]]] = {}
    for param in params:
        if isinstance(param, Row) and param.sets:
            value, _, field = param.sets.partition(".")
            fields.setdefault(value, {})[field] = (param, given.pop(str(param.name)))
    return fields


def _values(
    params: Sequence[click.Parameter],
    given: dict[str, Any],
    fields: Mapping[str, Mapping[str, tuple[Row, Any]]],
    reporting: Reporting | None = None,
) -> dict[str, Any]:
    """Return what the verb gets: what its rows set, and the rest as it was given."""
    names = {
        str(param.name): param.chosen(given[str(param.name)])
        for param in params
        if isinstance(param, SetName | ObjectName | RunNumber)
    }
    others = {
        str(param.name): param.into(given[str(param.name)])
        for param in params
        if isinstance(param, Row) and not param.sets and str(param.name) in given
    }
    made = {value: _MAKERS[value](**_made(rows)) for value, rows in fields.items()}
    if reporting is not None and "cluster_target" in made:
        # The session reports requests and signals to it; no verb has to pass it on.
        made["cluster_target"] = replace(made["cluster_target"], listener=reporting)
    return {**given, **names, **others, **made}


def _made(rows: Mapping[str, tuple[Row, Any]]) -> dict[str, Any]:
    return {field: row.into(value) for field, (row, value) in rows.items()}


def _paths(
    files: tuple[str, ...],
    kustomizations: tuple[str, ...],
    ignore: tuple[str, ...],
    at: str = "",
) -> InputPaths:
    from applyprune.cli.session import InputPaths
    from applyprune.sources import Overlay

    if files and is_given("paths"):
        from applyprune.cli.answers import refuse_list

        for path in files:
            refuse_list(path)
    if is_given("paths") != is_given("kustomize"):
        # Input on the command line replaces all input of a configuration.
        files = files if is_given("paths") else ()
        kustomizations = kustomizations if is_given("kustomize") else ()
    return InputPaths((*files, *map(Overlay, kustomizations)), ignore, at)


def _cluster_target(kubeconfig: str, context: str, namespace: str) -> ClusterTarget:
    used = config_in_use()
    conditions = () if context else used.conditions
    return ClusterTarget(kubeconfig, context or used.context, namespace, conditions=conditions)


def _options(**fields: Any) -> Options:
    """Return the options of a run: ``prune.max_prune`` is a field of ``Options.prune``."""
    groups: dict[str, dict[str, Any]] = {}
    for path, value in fields.items():
        group, _, field = path.rpartition(".")
        groups.setdefault(group, {})[field] = value
    options = Options(**groups.pop("", {}))
    options = replace(
        options,
        **{group: replace(getattr(options, group), **set_) for group, set_ in groups.items()},
    )
    apply = options.apply
    if (apply.selector is not None and apply.only) or (
        options.select_labels is not None and options.select
    ):
        raise UsageError(
            "--only and --selector exclude each other", hint="Run once with each of them."
        )
    if apply.is_part and options.prune.enabled and is_given("prune"):
        part = "--selector" if apply.selector else "--only"
        raise UsageError(
            f"--prune and {part} exclude each other",
            reason="the objects that are not selected would look as if they were no longer in the "
            "input",
            hint=f"Prune in a run without {part}.",
        )
    return options


_MAKERS: Mapping[str, Callable[..., Any]] = {
    "paths": _paths,
    "cluster_target": _cluster_target,
    "options": _options,
    "status_options": StatusOptions,
}
"""What makes each value of what the rows of its name set."""
