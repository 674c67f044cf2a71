"""The options of ``apply``, which ``diff`` shares."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from applyprune.cli.options.combine import with_options
from applyprune.cli.options.run_options import is_given
from applyprune.errors import UsageError
from applyprune.model.inventory import Ownership
from applyprune.model.options import Adopt, OnDrift
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from applyprune.model.options import Options


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


def _rules(_: click.Context, __: click.Parameter, rules: tuple[str, ...]) -> tuple[str, ...]:
    if rules:
        from applyprune.planning.fields.ignore_rule import parse_rule

        for rule in rules:
            parse_rule(rule)
    return rules


def _not_of_sets(managers: tuple[str, ...]) -> tuple[str, ...]:
    from applyprune.planning.applyset import MANAGERS

    if of_sets := sorted(manager for manager in managers if manager.startswith(MANAGERS)):
        raise UsageError(
            f"{of_sets[0]} is the field manager of a set",
            hint="--adopt=all takes objects from another set.",
        )
    return managers
