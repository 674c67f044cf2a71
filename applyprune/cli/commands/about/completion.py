"""``applyprune completion``: the script by which a shell completes what is typed."""

from __future__ import annotations

import click

from applyprune.cli.command import Command
from applyprune.errors import UsageError

SHELLS = ("bash", "zsh", "fish")


@click.command(cls=Command)
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion script for the shell SHELL.

    SHELL is bash, zsh or fish.
    The script completes commands, options, files, and names from the cluster: sets, their
    objects, namespaces. It gives a cluster two seconds to answer.

    \b
    Examples:
      source <(applyprune completion bash)   # in ~/.bashrc
      source <(applyprune completion zsh)    # in ~/.zshrc, after compinit
      applyprune completion fish | source    # in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    from applyprune.cli.main import PROGRAM, cli
    from applyprune.output.terminal.terminal import Terminal

    made = get_completion_class(shell)
    if made is None:
        raise UsageError(f"there is no completion for {shell}")
    Terminal().out(made(cli, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source())
