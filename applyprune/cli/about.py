"""``version`` and ``completion``: shells ask for the latter at each start, so it loads little."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune._version import __version__
from applyprune.cli.main import PROGRAM, cli
from applyprune.cli.options import CLUSTER, OUTPUT, command
from applyprune.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.cli.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event


@command(
    CLUSTER,
    OUTPUT,
)
def version(cluster_target: ClusterTarget, reporting: Reporting) -> int:
    """Show the versions of applyprune and of the server.

    Exits with 7 if no server answers, after printing applyprune's own version. `applyprune
    --version` asks no server.

    \b
    Examples:
      applyprune version
    """
    import platform

    ours = (__version__, platform.python_version(), f"{platform.system()} {platform.machine()}")
    return reporting.print_events(_version_events(cluster_target, ours))


def _version_events(cluster_target: ClusterTarget, ours: tuple[str, str, str]) -> Iterator[Event]:
    from applyprune.cli.session import connection_to
    from applyprune.model.reports import VersionReport

    server = ""
    try:
        with connection_to(cluster_target) as cluster:
            server = cluster.client.version()
    finally:
        yield VersionReport(*ours, server)


# ``applyprune completion``: print the completion script for a shell.


SHELLS = ("bash", "zsh", "fish")


@command(click.Argument(("shell",), metavar="SHELL", type=click.Choice(SHELLS)))
def completion(shell: str) -> None:
    """Print the completion script for the shell SHELL.

    SHELL is bash, zsh or fish.
    The script completes commands, options, files, and names from the cluster: sets, their
    objects, namespaces. It gives a cluster two seconds to answer.
    `kubectl applyprune` is completed by the script of kubectl.

    \b
    Examples:
      source <(applyprune completion bash)   # in ~/.bashrc
      source <(applyprune completion zsh)    # in ~/.zshrc, after compinit
      applyprune completion fish | source    # in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    from applyprune.output.terminal import Terminal

    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise UsageError(f"no completion for {shell}")
    script = completion_class(cli, {}, PROGRAM, f"_{PROGRAM.upper()}_COMPLETE").source()
    Terminal().out(script)
