"""The options that several verbs share; each group becomes one parameter of the verb."""

from __future__ import annotations

import os
from functools import wraps
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from applyprune.cli.command import Command
from applyprune.cli.options.cluster_access import cluster_options, namespace_name
from applyprune.cli.options.combine import F, with_options
from applyprune.cli.options.completion import FILE, OBJECT, SET
from applyprune.errors import UsageError
from applyprune.model.options import (
    Actor,
    DryRun,
    HelmHooks,
    Options,
    Propagation,
    PruneOptions,
    WaitOptions,
    seconds_of,
)
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.sources import Overlay

__all__ = [
    "RunCommand",
    "cluster_options",
    "duration",
    "execution_options",
    "input_option",
    "optional_input_option",
    "placement_option",
    "record_options",
    "run_options",
    "set_argument",
    "timeout_option",
    "yes_option",
]


class RunCommand(Command):
    """A verb whose ``--dry-run`` takes a value only after ``=``, like kubectl's.

    Otherwise ``apply --dry-run web -f …`` would take the set's name as the value.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Replace a bare ``--dry-run`` with ``--dry-run=server`` before click parses it."""
        end = args.index("--") if "--" in args else len(args)
        bare = ["--dry-run=server" if arg == "--dry-run" else arg for arg in args[:end]]
        return super().parse_args(ctx, bare + args[end:])


def set_argument(command: F) -> F:
    """Add NAME, which the verb gets as ``name``."""
    return click.argument("name", type=SET)(command)


def input_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add -f and -k, both repeatable; the verb gets at least one path in ``paths``."""

    @wraps(verb)
    def command(paths: tuple[str | Overlay, ...], **others: Any) -> Any:
        if not paths:
            raise UsageError(
                "no input given",
                hint="Give -f PATH or -k DIR, or add filename to applyprune.yaml.",
            )
        return verb(paths=paths, **others)

    return optional_input_option(command)


def optional_input_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add -f and -k to a verb that needs no input; ``paths`` may be empty."""

    @wraps(verb)
    def command(paths: tuple[str, ...], kustomize: tuple[str, ...], **others: Any) -> Any:
        from applyprune.sources import Overlay

        if is_given("paths") != is_given("kustomize"):
            # Input on the command line replaces all input of a configuration.
            paths = paths if is_given("paths") else ()
            kustomize = kustomize if is_given("kustomize") else ()
        return verb(paths=(*paths, *map(Overlay, kustomize)), **others)

    return with_options(
        command,
        click.option(
            "-k",
            "--kustomize",
            type=FILE,
            multiple=True,
            metavar="DIR",
            help="A kustomization, built with kustomize or kubectl, or the address of one. "
            "Repeatable.",
        ),
        click.option(
            "-f",
            "--filename",
            "paths",
            type=FILE,
            multiple=True,
            metavar="PATH",
            help="A file, a folder (with everything below it, or built if it is a "
            "kustomization), a quoted pattern with *, ? or **, an https:// URL of a document or "
            "archive, git+https://HOST/REPO.git//PATH?ref=REF, git+ssh://…, oci://HOST/NAME:TAG, "
            "or - for standard input. Repeatable.",
        ),
    )


def is_given(option: str) -> bool:
    """Return whether the command line itself gives an option."""
    source = click.get_current_context().get_parameter_source(option)
    return source is ParameterSource.COMMANDLINE


def placement_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that decide which objects an input means; they become part of ``options``."""

    @wraps(verb)
    def command(
        namespace_override: str, helm_hooks: str, options: Options | None = None, **others: Any
    ) -> Any:
        options = options or Options()
        options = replace(
            options,
            apply=replace(
                options.apply,
                namespace_override=namespace_override,
                helm_hooks=HelmHooks(helm_hooks),
            ),
        )
        return verb(options=options, **others)

    return with_options(
        command,
        click.option(
            "--helm-hooks",
            type=click.Choice([str(decision) for decision in HelmHooks]),
            default=str(HelmHooks.REFUSE),
            show_default=True,
            help="What to do with the install and upgrade hooks of a chart: leave them out, or "
            "apply them like other objects. Test, delete and rollback hooks are always left out.",
        ),
        click.option(
            "--namespace-override",
            default="",
            metavar="NS",
            callback=namespace_name,
            help="Apply every namespaced manifest in this namespace, even if it names another one. "
            "Namespaces keep their names. Names inside manifests, such as the subjects "
            "of a RoleBinding, do not change.",
        ),
    )


def run_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every run that deletes; the verb gets them as ``options``."""
    return execution_options(removal_options(verb))


def execution_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that only a run has, and no plan; place it above ``removal_options``."""

    @wraps(verb)
    def command(dry_run: DryRun, timeout: float, actor: Actor, **others: Any) -> Any:
        options = Options(dry_run=dry_run, wait=WaitOptions(timeout=timeout), actor=actor)
        return verb(options=options, **others)

    return with_options(
        command,
        _actor_option,
        timeout_option("How long each wait may take: for CRDs, readiness and deletions."),
        _dry_run_option,
    )


def removal_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of deletions; the verb gets them as ``options``."""

    @wraps(verb)
    def command(
        lock_timeout: float,
        orphan: tuple[str, ...],
        allow_cascade: tuple[str, ...],
        prune_adopted: bool,
        prune_shared: bool,
        propagation: str,
        options: Options | None = None,
        **others: Any,
    ) -> Any:
        options = replace(
            options or Options(),
            lock_timeout=lock_timeout,
            prune=PruneOptions(
                orphan=frozenset(orphan),
                allow_cascade=frozenset(allow_cascade),
                prune_adopted=prune_adopted,
                prune_shared=prune_shared,
                propagation=Propagation(propagation.capitalize()),
            ),
        )
        return verb(options=options, **others)

    return with_options(
        command,
        click.option(
            "--propagation",
            type=click.Choice([str(propagation).lower() for propagation in Propagation]),
            default="background",
            show_default=True,
            help="What happens to the dependents of a deleted object.",
        ),
        click.option(
            "--prune-shared",
            is_flag=True,
            help="Delete objects that another tool runs by now as well, instead of orphaning them.",
        ),
        click.option(
            "--prune-adopted",
            is_flag=True,
            help="Delete adopted objects as well, instead of orphaning them.",
        ),
        click.option(
            "--allow-cascade",
            type=OBJECT,
            multiple=True,
            metavar="KIND/NAME",
            help="Allow the deletion of this object although it cascades to objects "
            "outside the set.",
        ),
        click.option(
            "--orphan",
            type=OBJECT,
            multiple=True,
            metavar="KIND/NAME",
            help="Orphan this object instead of deleting it: it leaves the set and stays in the "
            "cluster.",
        ),
        _lock_timeout_option,
    )


def record_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every change to an inventory; the verb gets them as ``options``."""

    @wraps(verb)
    def command(dry_run: DryRun, lock_timeout: float, actor: Actor, **others: Any) -> Any:
        options = Options(dry_run=dry_run, lock_timeout=lock_timeout, actor=actor)
        return verb(options=options, **others)

    return with_options(command, _actor_option, _lock_timeout_option, _dry_run_option)


def duration(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """Return the seconds of a duration in Go's form (90s, 5m, 1h30m), or of a number."""
    try:
        return seconds_of(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}", ctx, param) from None


def duration_or_none(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of a duration; None if it was not given."""
    return None if value is None else duration(ctx, param, value)


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
        raise click.BadParameter(f"{value!r} is neither server nor client", ctx, param) from None


yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
"""Adds --yes to a verb that asks; the verb gets it as ``yes``."""


def timeout_option(help_text: str) -> Callable[[F], F]:
    """Return --timeout with its ``help_text``; the verb gets seconds."""
    return click.option(
        "--timeout",
        default="5m",
        metavar="TIME",
        callback=duration,
        help=f"{help_text}  [default: 5m]",
    )


fail_fast_option = click.option(
    "--fail-fast",
    is_flag=True,
    help="End a wait at the first problem, even if it may pass: a crash, an image that cannot be "
    "pulled, a quota, no node.",
)
"""Adds --fail-fast to a verb that waits; the verb gets it as ``fail_fast``."""


_lock_timeout_option = click.option(
    "--lock-timeout",
    default="60s",
    metavar="TIME",
    callback=duration,
    help="How long to wait for another run on the same set.  [default: 60s]",
)
_actor_option = click.option(
    "--actor",
    default="",
    metavar="TEXT",
    callback=_actor,
    help="For whom the run works, for `inventory history`.  [default: the user of the job of "
    "GitHub or GitLab]",
)
_dry_run_option = click.option(
    "--dry-run",
    is_flag=False,
    flag_value="server",
    default="none",
    metavar="[server|client]",
    callback=_dry_run,
    help="Change nothing; the server checks everything unless it is 'client'.",
)
