"""The program: its verbs, each imported only when it is called, and its one way to end."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from applyprune._version import __version__
from applyprune.errors import ApplypruneError

_VERBS = {
    "apply": "applyprune.cli.apply:apply",
    "prune": "applyprune.cli.prune:prune",
    "delete": "applyprune.cli.delete:delete",
    "inventory": "applyprune.cli.inventory:inventory",
    "controller": "applyprune.cli.controller:controller",
    "demo": "applyprune.cli.demo:demo",
    "local": "applyprune.cli.local:local",
}


class _Verbs(click.Group):
    """A group whose verbs are modules, imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the verbs in the order of the help."""
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a verb; None for one that there is not."""
        if cmd_name not in _VERBS:
            return None
        module, _, name = _VERBS[cmd_name].partition(":")
        command = getattr(import_module(module), name)
        return command if isinstance(command, click.Command) else None


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name="applyprune")
def cli() -> None:
    """Make a Kubernetes cluster match a set of YAML: apply it, record it, prune what left it."""


def main() -> NoReturn:
    """Run the command line and exit with the code of the table in the README."""
    try:
        code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = 2
    except click.Abort:
        click.echo("aborted", err=True)
        code = 130
    except ApplypruneError as error:
        click.echo(f"error: {error}", err=True)
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # Whoever read our output has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    sys.exit(code if isinstance(code, int) else 0)
