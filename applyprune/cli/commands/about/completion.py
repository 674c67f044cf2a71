"""``applyprune completion``: print the completion script for a shell."""

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
    from applyprune.output.terminal import Terminal

    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise UsageError(f"no completion for {shell}")
    script = completion_class(cli, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source()
    Terminal().out(script)
