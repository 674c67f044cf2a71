"""The options of the verbs, in groups that several verbs share; each group becomes one value."""

from __future__ import annotations

import os
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from applyprune.cli.complete import (
    BUNDLE_NAME,
    CONTEXT_NAME,
    FILE_PATH,
    KIND_NAME,
    NAMESPACE_NAME,
    OBJECT_NAME,
    SET_NAME,
)
from applyprune.cli.config import config_in_use, name_argument
from applyprune.cli.main import Command
from applyprune.cli.target import ClusterTarget
from applyprune.errors import UsageError
from applyprune.model.inventory import Ownership
from applyprune.model.options import (
    Actor,
    Adopt,
    DryRun,
    HelmHooks,
    OnDrift,
    Options,
    Propagation,
    PruneLimit,
    PruneOptions,
    WaitOptions,
    parse_duration,
)
from applyprune.model.text import is_dns_label, parse_selector
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.cli.session import InputPaths
    from applyprune.model.text import Selector


def planning_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add NAME, the input, the cluster and the options of an apply and its prune.

    The verb gets ``name``, ``paths``, ``cluster_target`` and ``options``.
    """
    return name_argument(input_option(_plan_options(verb)))


def optional_planning_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same to a verb that needs no input; ``paths`` may be empty."""
    return name_argument(optional_input_option(_plan_options(verb)))


def _plan_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    verb = guard_options(placement_option(selection_option(apply_options(verb))))
    return cluster_options(removal_options(verb))


DEFAULT_RULES = ("aggregated-rules", "autoscaled-replicas", "ca-bundle")
"""The names of ``planning.ownership.default_rules``, without an import of it."""


def apply_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the apply; they become part of the verb's ``options``."""

    @wraps(verb)
    def command(
        options: Options,
        prune: bool,
        adopt: str,
        adopt_as: str,
        take_over: tuple[str, ...],
        on_drift: str,
        force_conflicts: bool,
        recreate: bool,
        create_namespace: bool,
        reapply_all: bool,
        ignore: tuple[str, ...],
        no_default_ignore: tuple[str, ...],
        **others: Any,
    ) -> Any:
        if options.apply.is_part and prune and is_given("prune"):
            part = "--selector" if options.apply.selector else "--only"
            raise UsageError(
                f"--prune and {part} exclude each other",
                reason="the objects that are not selected would look as if they had left the set",
                hint=f"Prune in a run without {part}.",
            )
        options = replace(
            options,
            apply=replace(
                options.apply,
                adopt=Adopt(adopt),
                adopt_as=Ownership(adopt_as),
                take_over=frozenset(_not_of_sets(take_over)),
                on_drift=OnDrift(on_drift),
                force_conflicts=force_conflicts,
                recreate=recreate,
                create_namespace=create_namespace,
                reapply_all=reapply_all,
                ignore=ignore,
                no_default_ignore=frozenset(no_default_ignore),
            ),
            prune=replace(options.prune, enabled=prune),
        )
        return verb(options=options, **others)

    return with_options(
        command,
        click.option(
            "--no-default-ignore",
            multiple=True,
            type=click.Choice(DEFAULT_RULES),
            help="Switch off a default rule: send also what controllers usually set.",
        ),
        click.option(
            "--ignore",
            multiple=True,
            metavar="RULE",
            callback=_rules,
            help="Send a field at creation only, then leave it to other field managers: "
            "KIND[.GROUP][/NAME]:/json/pointer, with * and ? in NAME, and * for every KIND.",
        ),
        click.option(
            "--reapply-all", is_flag=True, help="Send every object, even an unchanged one."
        ),
        click.option(
            "--create-namespace",
            is_flag=True,
            help="Create the inventory's namespace. It does not belong to the set, so "
            "`delete` keeps it.",
        ),
        click.option(
            "--recreate",
            is_flag=True,
            help="Delete and re-create an object to change an immutable field; never a "
            "PersistentVolumeClaim, PersistentVolume, Namespace or CRD.",
        ),
        click.option(
            "--force-conflicts", is_flag=True, help="Take fields that other field managers own."
        ),
        click.option(
            "--on-drift",
            type=click.Choice([str(OnDrift.FAIL), str(OnDrift.REVERT)]),
            default=str(OnDrift.FAIL),
            show_default=True,
            help="What to do with fields of the set that others have changed since its last apply: "
            "report a conflict, or set them back. Fields that others apply stay a conflict.",
        ),
        click.option(
            "--take-over",
            multiple=True,
            metavar="MANAGER",
            help="Take over the fields of this field manager, but for finalizers and "
            "ownerReferences. Adoption does so for `kubectl apply`.",
        ),
        click.option(
            "--adopt-as",
            type=click.Choice([str(ownership) for ownership in Ownership]),
            default=str(Ownership.ADOPTED),
            show_default=True,
            help="How to record what is adopted: a later prune deletes an `owned` object, and "
            "orphans an `adopted` one. What another tool may run is owned only with --adopt=all.",
        ),
        click.option(
            "--adopt",
            type=click.Choice([str(adopt) for adopt in Adopt]),
            default=str(Adopt.UNOWNED),
            show_default=True,
            help="Which existing objects the set may adopt.",
        ),
        click.option(
            "--prune/--no-prune",
            default=True,
            help="Whether to delete objects that have left the set. If not, they stay in the "
            "inventory.  [default: prune]",
        ),
    )


def _not_of_sets(managers: tuple[str, ...]) -> tuple[str, ...]:
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


def guard_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that disable the guards of a prune; they become part of ``options``."""
    from applyprune.model.live import GUARDED_KINDS

    @wraps(verb)
    def command(
        options: Options,
        max_prune: PruneLimit | None,
        allow_kind: tuple[str, ...],
        allow_empty: bool,
        **others: Any,
    ) -> Any:
        options = replace(
            options,
            prune=replace(
                options.prune,
                max_prune=max_prune,
                allow_kinds=frozenset(allow_kind),
                allow_empty=allow_empty,
            ),
        )
        return verb(options=options, **others)

    return with_options(
        approval_option(command),
        click.option(
            "--allow-empty",
            is_flag=True,
            help="Allow empty input.",
        ),
        click.option(
            "--allow-kind",
            multiple=True,
            type=KIND_NAME,
            metavar="KIND",
            help="Allow the pruning of this kind, by any of its names: "
            + ", ".join(sorted(GUARDED_KINDS.values()))
            + ".",
        ),
        click.option(
            "--max-prune",
            metavar="N|N%",
            callback=_prune_limit,
            help="How many objects a prune may delete, including cascaded deletions.  "
            "[default: 5 or 30% of the set's live objects, the larger of the two, and at most "
            "half of them]",
        ),
    )


def _prune_limit(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> PruneLimit | None:
    if value is None:
        return None
    try:
        return PruneLimit.parse(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}", ctx, param) from None


def approval_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add --approve; it becomes part of ``options``."""

    @wraps(verb)
    def command(options: Options, approve: str, **others: Any) -> Any:
        options = replace(options, prune=replace(options.prune, approved=approve))
        return verb(options=options, **others)

    return click.option(
        "--approve",
        envvar="APPLYPRUNE_APPROVE",
        default="",
        metavar="DIGEST",
        callback=digest_value,
        help="Allow exactly the deletions with this digest, as `plan` and `diff` show it.  "
        "[env: APPLYPRUNE_APPROVE]",
    )(command)


def selection_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add -l and --only to a verb that can apply a part of the set; they become ``options``."""

    @wraps(verb)
    def command(
        options: Options, selector: Selector | None, only: tuple[str, ...], **others: Any
    ) -> Any:
        _refuse_both(selector, only)
        apply = replace(options.apply, selector=selector, only=frozenset(only))
        return verb(options=replace(options, apply=apply), **others)

    return with_options(
        command,
        _only(
            "Apply only this object. The rest of the set does not change, and nothing is pruned."
        ),
        _selector(
            "Apply only the manifests with these labels: app=web or 'app in (web,db)'. "
            "The rest of the set does not change, and nothing is pruned."
        ),
    )


def deletion_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add -l and --only to a verb that can delete a part of the set; they become ``options``."""

    @wraps(verb)
    def command(
        options: Options, selector: Selector | None, only: tuple[str, ...], **others: Any
    ) -> Any:
        _refuse_both(selector, only)
        options = replace(options, select=frozenset(only), select_labels=selector)
        return verb(options=options, **others)

    return with_options(
        command,
        _only("Delete only this object. The rest of the set and its inventory stay."),
        _selector(
            "Delete only the objects that have these labels in the cluster. The rest of the set "
            "and its inventory stay."
        ),
    )


def _refuse_both(selector: Selector | None, only: tuple[str, ...]) -> None:
    if selector is not None and only:
        raise UsageError(
            "--only and --selector exclude each other",
            hint="Run once with each of them.",
        )


F = TypeVar("F", bound="Callable[..., Any]")


def _only(help_text: str) -> Callable[[F], F]:
    return click.option(
        "--only",
        type=OBJECT_NAME,
        multiple=True,
        metavar="KIND/NAME",
        help=f"{help_text} Repeatable.",
    )


def _selector(help_text: str) -> Callable[[F], F]:
    return click.option("-l", "--selector", metavar="SELECTOR", callback=_parsed, help=help_text)


def _parsed(ctx: click.Context, param: click.Parameter, value: str | None) -> Selector | None:
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


def _ignore_paths(
    ctx: click.Context, param: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    if any("\n" in rule or not rule.strip() for rule in value):
        raise click.BadParameter("a rule is one line, and not empty", ctx, param)
    return value


def input_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add -f, -k and rules, all repeatable; the verb gets at least one path in ``paths``."""

    @wraps(verb)
    def command(paths: InputPaths, **others: Any) -> Any:
        if not paths.paths:
            raise UsageError(
                "no input given",
                hint="Give -f PATH or -k DIR, or add filename to applyprune.yaml.",
            )
        return verb(paths=paths, **others)

    return optional_input_option(command)


def optional_input_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add -f, -k and rules to a verb that needs no input; ``paths`` may be without any."""

    @wraps(verb)
    def command(
        paths: tuple[str, ...],
        kustomize: tuple[str, ...],
        ignore_paths: tuple[str, ...],
        **others: Any,
    ) -> Any:
        from applyprune.cli.session import InputPaths
        from applyprune.sources import Overlay

        if is_given("paths") != is_given("kustomize"):
            # Input on the command line replaces all input of a configuration.
            paths = paths if is_given("paths") else ()
            kustomize = kustomize if is_given("kustomize") else ()
        given = InputPaths((*paths, *map(Overlay, kustomize)), ignore_paths)
        return verb(paths=given, **others)

    return with_options(
        command,
        click.option(
            "--ignore-paths",
            multiple=True,
            metavar="RULE",
            callback=_ignore_paths,
            help="Leave out files of folders and of sources on other hosts: a line as in "
            ".gitignore, from the root of the repository or folder. It comes after the lines of "
            ".sourceignore, and replaces the default list, as `ignore` of a Bundle does. "
            "Repeatable.",
        ),
        click.option(
            "-k",
            "--kustomize",
            type=FILE_PATH,
            multiple=True,
            metavar="DIR",
            help="A kustomization, built with kustomize or kubectl, or the address of one. "
            "Repeatable.",
        ),
        click.option(
            "-f",
            "--filename",
            "paths",
            type=FILE_PATH,
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


def run_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every run that deletes; the verb gets them as ``options``."""
    return execution_options(removal_options(verb))


def _actor(ctx: click.Context, param: click.Parameter, value: str) -> Actor:
    from applyprune.api.sets import actor_of

    try:
        return actor_of(os.environ, value)
    except UsageError as error:
        raise click.BadParameter(error.reason, ctx, param) from None


_actor_option = click.option(
    "--actor",
    default="",
    metavar="TEXT",
    callback=_actor,
    help="For whom the run works, for `inventory history`.  [default: the user of the job of "
    "GitHub or GitLab]",
)


def _dry_run(ctx: click.Context, param: click.Parameter, value: str) -> DryRun:
    try:
        return DryRun(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither server nor client", ctx, param) from None


_dry_run_option = click.option(
    "--dry-run",
    is_flag=False,
    flag_value="server",
    default="none",
    metavar="[server|client]",
    callback=_dry_run,
    help="Change nothing; the server checks everything unless it is 'client'.",
)


def execution_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that only a run has, and no plan; place it above ``removal_options``."""

    @wraps(verb)
    def command(dry_run: DryRun, timeout: float, actor: Actor, **others: Any) -> Any:
        options = Options(
            dry_run=dry_run,
            wait=WaitOptions(timeout=timeout),
            actor=actor,
        )
        return verb(options=options, **others)

    return with_options(
        command,
        _actor_option,
        timeout_option("How long each wait may take: for CRDs, readiness and deletions."),
        _dry_run_option,
    )


def duration(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """Return the seconds of a duration in Go's form (90s, 5m, 1h30m), or of a number."""
    try:
        return parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}", ctx, param) from None


_lock_timeout_option = click.option(
    "--lock-timeout",
    default="60s",
    metavar="TIME",
    callback=duration,
    help="How long to wait for another run on the same set.  [default: 60s]",
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
            type=OBJECT_NAME,
            multiple=True,
            metavar="KIND/NAME",
            help="Allow the deletion of this object although it cascades to objects "
            "outside the set, or although the controller needs it to end Bundles.",
        ),
        click.option(
            "--orphan",
            type=OBJECT_NAME,
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


def check_option(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add --check and --no-check; they become part of ``options``, as a dry run."""

    @wraps(verb)
    def command(options: Options, check: bool, **others: Any) -> Any:
        dry_run = DryRun.SERVER if check else DryRun.CLIENT
        return verb(options=replace(options, dry_run=dry_run, check=check), **others)

    return click.option(
        "--check/--no-check",
        default=True,
        help="Whether the server checks, in a dry run, what would change. If not, the command "
        "only reads: for a job that has no right to write.  [default: check]",
    )(command)


def cluster_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose the cluster; the verb gets them as ``cluster_target``."""

    @wraps(verb)
    def command(kubeconfig: str, context: str, namespace: str, **others: Any) -> Any:
        used = config_in_use()
        expected = "" if context or used.uses_context else used.context
        context = context or (used.context if used.uses_context else "")
        return verb(
            cluster_target=ClusterTarget(kubeconfig, context, namespace, expected=expected),
            **others,
        )

    return with_options(
        command,
        click.option(
            "-n",
            "--namespace",
            default="",
            type=NAMESPACE_NAME,
            metavar="NS",
            callback=namespace_name,
            help="Namespace of the inventory, and of manifests without one; default: the "
            "context's.",
        ),
        click.option(
            "--context",
            default="",
            type=CONTEXT_NAME,
            metavar="NAME",
            callback=not_empty,
            help="The kubeconfig context to use.",
        ),
        click.option(
            "--kubeconfig",
            default="",
            type=FILE_PATH,
            metavar="FILE",
            callback=not_empty,
            help="The kubeconfig; default: KUBECONFIG, ~/.kube/config, or the pod's own account.",
        ),
    )


def namespaces_option(help_text: str) -> Callable[[F], F]:
    """Return --watch-namespaces with its ``help_text``; the verb gets the names."""
    return click.option(
        "--watch-namespaces",
        metavar="NS,…",
        callback=_namespace_names,
        help=f"{help_text}  [default: all]",
    )


def _namespace_names(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[str, ...]:
    names = () if value is None else value.split(",")
    return tuple(namespace_name(ctx, param, name.strip()) for name in names)


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


# Single options and arguments.


yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
"""Adds --yes to a verb that asks; the verb gets it as ``yes``."""
fail_fast_option = click.option(
    "--fail-fast",
    is_flag=True,
    help="End a wait at the first problem, even if it may pass: a crash, an image that cannot be "
    "pulled, a quota, no node.",
)
"""Adds --fail-fast to a verb that waits; the verb gets it as ``fail_fast``."""


def timeout_option(help_text: str) -> Callable[[F], F]:
    """Return --timeout with its ``help_text``; the verb gets seconds."""
    return click.option(
        "--timeout",
        default="5m",
        metavar="TIME",
        callback=duration,
        help=f"{help_text}  [default: 5m]",
    )


def set_argument(command: F) -> F:
    """Add NAME, which the verb gets as ``name``."""
    return click.argument("name", type=SET_NAME)(command)


bundle_argument = click.argument("name", type=BUNDLE_NAME, metavar="NAME")
"""Adds NAME, which the verb gets as ``name``."""


def duration_or_none(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of a duration; None if it was not given."""
    return None if value is None else duration(ctx, param, value)


def digest_value(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Return the digest that an option gives, empty if it gives none; raise BadParameter."""
    from applyprune.planning.digests import is_digest

    digest = value.strip()
    if digest and not is_digest(digest):
        raise click.BadParameter(
            f"{value!r} is not a digest: write sha256: and 64 hex digits", ctx, param
        )
    return digest


class RunCommand(Command):
    """A verb whose ``--dry-run`` takes a value only after ``=``, like kubectl's.

    Otherwise ``apply --dry-run web -f …`` would take the set's name as the value.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Replace a bare ``--dry-run`` with ``--dry-run=server`` before click parses it."""
        end = args.index("--") if "--" in args else len(args)
        bare = ["--dry-run=server" if arg == "--dry-run" else arg for arg in args[:end]]
        return super().parse_args(ctx, bare + args[end:])


def with_options(command: F, *options: Callable[[F], F]) -> F:
    """Return the command with the options; the help shows the last one first."""
    for option in options:
        command = option(command)
    return command
