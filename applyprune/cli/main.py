"""The program: its verbs, each imported only when it is called, and its one way to end."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import click

from applyprune._version import __version__
from applyprune.cli.command import SuggestingGroup
from applyprune.errors import ApplypruneError, problems_of

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = "applyprune"


class ListedCommand(NamedTuple):
    """A verb as the help lists it, which imports none: where it is, and its first sentence."""

    where: str
    what: str


VERBS: dict[str, dict[str, ListedCommand]] = {
    "Change the cluster": {
        "apply": ListedCommand(
            "applyprune.cli.commands.change.apply:apply",
            "Make the cluster match the manifests of the set NAME.",
        ),
        "prune": ListedCommand(
            "applyprune.cli.commands.change.prune:prune",
            "Delete what the set NAME created and the manifests no longer contain; apply nothing.",
        ),
        "delete": ListedCommand(
            "applyprune.cli.commands.change.delete:delete",
            "Delete everything that the set NAME created, then its inventory.",
        ),
    },
    "Inspect": {
        "diff": ListedCommand(
            "applyprune.cli.commands.inspect.diff:diff",
            "Show what `apply` with the same options would change, prunes included; change "
            "nothing.",
        ),
        "status": ListedCommand(
            "applyprune.cli.commands.inspect.status:status",
            "Show the health and drift of each object in the set NAME.",
        ),
        "explain": ListedCommand(
            "applyprune.cli.commands.inspect.explain:explain",
            "Explain what `apply` would do with one object, and why.",
        ),
        "inventory": ListedCommand(
            "applyprune.cli.commands.inspect.inventory:inventory",
            "List, check and repair inventories; move or orphan objects.",
        ),
    },
    "Continuous": {
        "install": ListedCommand(
            "applyprune.cli.commands.continuous.install:install",
            "Install the controller in the cluster, or update it.",
        ),
        "controller": ListedCommand(
            "applyprune.cli.commands.continuous.controller:controller",
            "Run the Bundle controller: apply, prune and revert drift, continuously.",
        ),
    },
    "Local sandbox": {
        "demo": ListedCommand(
            "applyprune.cli.commands.sandbox.demo:demo",
            "Demonstrate apply, prune and delete on a throw-away control plane.",
        ),
        "local": ListedCommand(
            "applyprune.cli.commands.sandbox.local:local",
            "Run a real Kubernetes control plane on this machine: API server, controllers, "
            "fake nodes.",
        ),
    },
    "About applyprune": {
        "version": ListedCommand(
            "applyprune.cli.commands.about.version:version",
            "Show the versions of applyprune and of the server.",
        ),
        "completion": ListedCommand(
            "applyprune.cli.commands.about.completion:completion",
            "Print the completion script for the shell SHELL.",
        ),
    },
}
"""The verbs by the headings of the help; a test holds each sentence against the verb's own."""


class _Verbs(SuggestingGroup):
    """A group whose verbs are modules, imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the verbs in the order of the help."""
        return [name for verbs in VERBS.values() for name in verbs]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a verb; None for one that there is not."""
        listed = next((verbs[cmd_name] for verbs in VERBS.values() if cmd_name in verbs), None)
        if listed is None:
            return None
        module, _, name = listed.where.partition(":")
        command = getattr(import_module(module), name)
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the verbs under their headings, and import none of them."""
        widest = max(len(name) for verbs in VERBS.values() for name in verbs)
        for heading, verbs in VERBS.items():
            with formatter.section(heading):
                # One column for all sections: click would align each by itself.
                rows = [(name.ljust(widest), one.what) for name, one in verbs.items()]
                formatter.write_dl(rows)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name=PROGRAM)
def cli() -> None:
    """Make a Kubernetes cluster match a set of YAML: apply it, record it, prune what left it.

    \b
    Examples:
      applyprune apply web -f manifests/ --dry-run
      applyprune apply web -f manifests/ -n shop --wait
      applyprune delete web -n shop

    `applyprune COMMAND --help` describes a command.
    """


def main() -> NoReturn:
    """Run the command line and exit with a code of docs/reference/exit-codes.md."""
    if sys.stdout is None or sys.stderr is None:  # closed by whoever started us
        nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    sys.exit(ended(_code))


def _code() -> int:
    code = cli.main(standalone_mode=False, prog_name=PROGRAM)
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def ended(work: Callable[[], int]) -> int:
    """Return the exit code that some work ends with; whatever it raises is told in a few lines."""
    try:
        return work()
    except click.ClickException as error:
        _say(_of_call(error))
        return 2
    except click.Abort:
        _say("aborted")
        return 130
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except ApplypruneError as error:
        from applyprune.output.text.problem_text import problem_text

        for problem in problems_of(error):
            _say(problem_text("error", problem))
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our help has read enough; a run's output never gets here.
        _silence()
        return 0
    except Exception as error:  # noqa: BLE001  # the last resort: nobody else catches it
        from applyprune.cli.crash import details, words_of

        words, code = words_of(error)
        _say(f"{details(error)}error: {words}")
        if isinstance(error, OSError):
            _silence()
        return code


def _of_call(error: click.ClickException) -> str:
    """Return what is wrong with a call, in the form of all other errors; or the help, unasked."""
    ctx = getattr(error, "ctx", None)
    if ctx is None or isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        shown = StringIO()
        error.show(shown)
        return shown.getvalue().rstrip("\n")
    from applyprune.model.problem import Problem, ProblemKind
    from applyprune.output.text.problem_text import problem_text

    # Click sets choices below one another, by tabs.
    words = " ".join(error.format_message().split())
    usage = " ".join(ctx.get_usage().split())
    hint = f"{usage}\nAll about it: {ctx.command_path} --help"
    return problem_text(
        "error", Problem(ProblemKind.USAGE_ERROR, f"{words[:1].lower()}{words[1:]}", hint=hint)
    )


def _say(words: str) -> None:
    from applyprune.output.terminal.terminal import Terminal

    Terminal().err(words)


def _silence() -> None:
    """Let Python's last flush of what could not be written find a place that takes all."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
