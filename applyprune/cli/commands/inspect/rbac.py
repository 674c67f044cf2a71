"""``applyprune rbac``: print the roles that the account of a set needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.command import Command
from applyprune.cli.options.cluster_access import cluster_options
from applyprune.cli.options.config_defaults import optional_name_argument
from applyprune.cli.options.run_options import input_option, placement_option
from applyprune.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from applyprune.cli.target import ClusterTarget
    from applyprune.model.options import Options
    from applyprune.model.problem import Problem
    from applyprune.planning.checks.rbac import RoleText
    from applyprune.sources import Overlay


@click.command(cls=Command)
@optional_name_argument
@input_option
@cluster_options
@placement_option
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Bind the roles to a group.")
@click.option("--user", "users", multiple=True, metavar="NAME", help="Bind the roles to a user.")
@click.option(
    "--account",
    "accounts",
    multiple=True,
    metavar="NS/NAME",
    help="Bind the roles to a ServiceAccount. Repeatable, as --user and --group are.",
)
def rbac(
    name: str | None,
    paths: Sequence[str | Overlay],
    cluster_target: ClusterTarget,
    options: Options,
    accounts: tuple[str, ...],
    users: tuple[str, ...],
    groups: tuple[str, ...],
) -> None:
    """Print the roles that an account needs to apply, prune and delete a set.

    The output is YAML for `kubectl apply`: a Role for each namespace, a ClusterRole, and the
    bindings that you ask for. Plurals and scopes come from the server, and from the CRDs in the
    input. With NAME, what the inventory lists counts too: it may be pruned. In cluster scope the
    rules name each object, so print them again when the set changes. Nothing is written.

    \b
    Examples:
      applyprune rbac web -f manifests/ --account shop/applyprune
      applyprune rbac -f manifests/ -n shop
    """
    from applyprune.output.diff_text import rbac_text
    from applyprune.output.terminal import Terminal
    from applyprune.planning.checks.rbac import bindings

    subjects = [
        *map(_account, accounts),
        *(_subject("User", user) for user in users),
        *(_subject("Group", group) for group in groups),
    ]
    found = _roles(cluster_target, name, paths, options)
    Terminal().out(rbac_text((*found, *bindings(found, subjects))))


def _roles(
    cluster_target: ClusterTarget,
    name: str | None,
    paths: Sequence[str | Overlay],
    options: Options,
) -> Sequence[RoleText]:
    from applyprune.cli.session import input_reader, open_session
    from applyprune.engine.operations.rbac import rbac as roles_of

    given = input_reader(paths)(warn=_warn)
    with open_session(cluster_target) as session:
        # Without a name, only the namespace of the set matters.
        applyset = session.applyset(name or "applyprune")
        inventory = applyset.inventory() if name else None
        return roles_of(
            given.manifests, inventory, applyset.identity, options, session.cluster.client
        )


def _warn(problem: Problem) -> None:
    from applyprune.output.plan_text import problem_text
    from applyprune.output.terminal import Terminal

    Terminal().err(problem_text("warning", problem))


def _account(text: str) -> Mapping[str, str]:
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise UsageError(
            f"--account {text} does not name a ServiceAccount",
            hint="Write NAMESPACE/NAME: shop/applyprune.",
        )
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def _subject(kind: str, name: str) -> Mapping[str, str]:
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
