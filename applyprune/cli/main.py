"""The command line: its commands, each imported only when it is called, and its exit code.

With it the click classes of verbs and groups.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
from contextlib import suppress
from importlib import import_module
from io import StringIO, TextIOWrapper
from typing import TYPE_CHECKING, NoReturn

import click

from applyprune._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


PROGRAM = "applyprune"
PLUGIN = f"kubectl-{PROGRAM}"
"""The program by which `kubectl applyprune` runs it."""


def called_as() -> str:
    """Return what the user types to run the program."""
    is_plugin = os.path.basename(sys.argv[0]).startswith(PLUGIN)  # noqa: PTH119 -- no import for it
    return f"kubectl {PROGRAM}" if is_plugin else PROGRAM


def as_called(text: str) -> str:
    """Return a text with each command as the user types it."""
    if (called := called_as()) == PROGRAM:
        return text
    verbs = "|".join(name for listed in VERBS.values() for name in listed)
    return re.sub(rf"(?<!kubectl )\b{PROGRAM} (?=({verbs}|COMMAND)\b)", f"{called} ", text)


def main() -> NoReturn:
    """Run the command line and exit with a code of docs/reference/exit-codes.md."""
    ended: list[int] = []
    atexit.register(_leave_threads, ended)  # what is registered first runs last
    if sys.stdout is None or sys.stderr is None:  # closed by the parent process
        null = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
        sys.stdout, sys.stderr = sys.stdout or null, sys.stderr or null
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A stream with few characters must not end a run.
            stream.reconfigure(errors="backslashreplace")
    code = exit_code_of(_code)
    ended.append(code)
    sys.exit(code)


def _leave_threads(ended: Sequence[int]) -> None:
    """End the process if a thread still reads from a server, after all that was registered later.

    Nobody waits for the thread of a watch. While Python and OpenSSL free what it uses, it could
    crash a process whose work is done. ``ended`` has the exit code.
    """
    if ended and threading.active_count() > 1:  # guard: threads-left never
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(ended[0])


def _code() -> int:
    code = cli.main(standalone_mode=False, prog_name=called_as())
    sys.stdout.flush()
    return code if isinstance(code, int) else 0


def exit_code_of(work: Callable[[], int]) -> int:
    """Run ``work`` and return the exit code; print what it raises in a few lines."""
    try:
        return work()
    except click.ClickException as error:
        _print_error(_usage_text(error))
        return 2
    except click.Abort as abort:
        # click raises it for any Ctrl-C, also while a verb does its work.
        is_early = type(abort.__cause__) is KeyboardInterrupt
        _print_error("aborted: nothing was changed" if is_early else "aborted")
        return 130
    except KeyboardInterrupt:
        _print_error("interrupted")
        return 130
    except BrokenPipeError:
        # The reader of our help has read enough. A run handles this error itself.
        _discard_stdout()
        return 0
    except Exception as error:  # noqa: BLE001  # the last resort
        return _print_problems(error)


class InterruptedVerb(KeyboardInterrupt):
    """Ctrl-C while a verb may have changed something."""


# The words that click quotes, and other errors do not: an option, and the name of an argument.
_QUOTED = r"'(--?[a-z][a-z-]*|[A-Z][A-Z/]*)'"


def _usage_text(error: click.ClickException) -> str:
    """Return the text of a wrong call, in the form of all other errors; or the help."""
    ctx = getattr(error, "ctx", None)
    if ctx is None or isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        text = StringIO()
        error.show(text)
        return text.getvalue().rstrip("\n")
    from applyprune.model.problem import Problem, ProblemKind
    from applyprune.output.problem_text import problem_text

    # click puts each choice on a line of its own, with tabs. What to do follows a full stop.
    said = re.sub(_QUOTED, r"\1", " ".join(error.format_message().split()))
    message, *advice = re.split(r"\. (?=[A-Z])", said, maxsplit=1)
    message = f"{message[:1].lower()}{message[1:]}".rstrip(". ")
    usage = advice[0] if advice else " ".join(ctx.get_usage().split())
    hint = as_called(f"{usage}\nSee: {ctx.command_path} --help")
    return problem_text("error", Problem(ProblemKind.USAGE_ERROR, message, hint=hint))


def _print_problems(error: Exception) -> int:
    """Print what an error of ours says, or that of a bug; return the exit code."""
    # The help needs none of this, and a third of its time would be the import.
    from applyprune.errors import ApplypruneError, problems_of

    if isinstance(error, ApplypruneError):
        from applyprune.output.problem_text import problem_text
        from applyprune.values import replace

        for problem in problems_of(error):
            shown = replace(problem, hint=as_called(problem.hint))
            _print_error(problem_text("error", shown))
        return error.exit_code
    from applyprune.cli.crash import describe_crash, requested_traceback

    message, code = describe_crash(error)
    _print_error(f"{requested_traceback(error)}error: {message}")
    if isinstance(error, OSError):
        _discard_stdout()
    return code


def _print_error(text: str) -> None:
    from applyprune.output.terminal import Terminal

    Terminal().err(text)


def _discard_stdout() -> None:
    """Let Python's flush at exit write to /dev/null, so that it does not fail again."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# The commands, under the headings of the help. Their modules are imported only when they are
# called.


VERBS: dict[str, dict[str, tuple[str, str]]] = {
    "Change the cluster": {
        "apply": ("run", "Make the cluster match the manifests of the set NAME."),
        "prune": (
            "run",
            "Delete what the set NAME created and the manifests no longer contain; apply nothing.",
        ),
        "delete": ("run", "Delete everything that the set NAME created, then its inventory."),
        "rollback": ("history", "Apply again what the set NAME had before its last change."),
    },
    "Inspect": {
        "diff": (
            "run",
            (
                "Show what `apply` with the same options would change, prunes included; change "
                "nothing."
            ),
        ),
        "plan": (
            "run",
            "Show what `apply` with the same options would do to each object; change nothing.",
        ),
        "list": (
            "inspect",
            (
                "List the sets: their objects, the last run that changed something, and the "
                "current run."
            ),
        ),
        "status": (
            "inspect",
            "Show the health and drift of each object in the set NAME, or in several sets.",
        ),
        "history": ("history", "List the last runs that changed an object of the set NAME."),
        "explain": (
            "run",
            "Explain what `apply` would do with one object, and why; or whose it is.",
        ),
        "check": ("check", "Check manifests without any cluster."),
        "rbac": (
            "inspect",
            "Print the roles that an account needs to apply, prune and delete a set.",
        ),
        "inventory": ("inventory", "Show, check and repair inventories; orphan objects."),
    },
    "Configure": {
        "init": (
            "publish",
            "Write an applyprune.yaml for the set NAME.",
        ),
        "import": (
            "importing",
            (
                "Write clean manifests of what lives in the cluster, as a person would have "
                "written them."
            ),
        ),
    },
    "Publish": {
        "push": (
            "publish",
            "Publish manifests as an artifact in an OCI registry, and print its digest.",
        ),
    },
    "Continuous": {
        "bundle": ("bundle", "Suspend, reconcile and approve Bundles."),
        "install": ("controller", "Install the controller in the cluster, or update it."),
        "controller": (
            "controller",
            "Run the Bundle controller: apply and prune Bundles continuously.",
        ),
    },
    "Local sandbox": {
        "demo": (
            "sandbox",
            (
                "Demonstrate a diff, a prune, a refused prune and a conflict on a throw-away "
                "control plane."
            ),
        ),
        "local": (
            "sandbox",
            (
                "Run a real Kubernetes control plane on this machine: API server, controllers, "
                "fake nodes."
            ),
        ),
    },
    "About": {
        "version": ("about", "Show the versions of applyprune and of the server."),
        "completion": ("about", "Print the completion script for the shell SHELL."),
    },
}
"""The commands under the headings of the help: the module of each, and the first sentence of its
help, which a test compares with the command."""


class CalledCommand(click.Command):
    """A command whose help shows it as the user types it."""

    def get_help(self, ctx: click.Context) -> str:
        """Return the help."""
        return as_called(super().get_help(ctx))


class SuggestingGroup(CalledCommand, click.Group):
    """A group that suggests a verb for a mistyped one, and where an option belongs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what is before the verb; raise UsageError for an option that belongs after it."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            from applyprune.cli.answers import refuse_before_command

            refuse_before_command(error, ctx, self, given)
            raise
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb of the first argument; raise UsageError for an unknown verb."""
        verb = args[0]
        if not ctx.resilient_parsing and self.get_command(ctx, verb) is None and verb[:1] != "-":
            from applyprune.cli.answers import COMMANDS, answer
            from applyprune.errors import UsageError
            from applyprune.planning.names import did_you_mean

            verbs = self.list_commands(ctx)
            word = verb if ctx.parent is None else f"{ctx.info_name} {verb}"
            if instead := answer(COMMANDS, word):  # a group has its own verbs
                if args[1:] and args[1] in verbs:
                    instead = instead.replace("COMMAND", args[1])
                raise UsageError(f"no such command {verb}", hint=instead)
            hint = did_you_mean(verb, verbs) or f"The commands are {', '.join(verbs)}."
            ctx.fail(f"No such command {verb}. {hint}")
        return super().resolve_command(ctx, args)


class _LazyGroup(SuggestingGroup):
    """A group that imports the module of a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands in the order of the help."""
        return [name for verbs in VERBS.values() for name in verbs]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; ``help COMMAND`` is ``COMMAND --help``."""
        if args[:1] == ["help"] and not ctx.resilient_parsing:
            args = [*args[1:], "--help"]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command; return None for an unknown one."""
        for verbs in VERBS.values():
            if cmd_name in verbs:
                module = import_module(f"applyprune.cli.{verbs[cmd_name][0]}")
                # A verb that is also a name of Python has a ``_`` there: ``list_``.
                command = getattr(module, f"{cmd_name}_", None) or getattr(module, cmd_name)
                return command if isinstance(command, click.Command) else None
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands under their headings without importing them."""
        widest = max(len(name) for verbs in VERBS.values() for name in verbs)
        for heading, verbs in VERBS.items():
            with formatter.section(heading):
                # One width for all sections: click would align each section separately.
                rows = [(name.ljust(widest), summary) for name, (_, summary) in verbs.items()]
                formatter.write_dl(rows)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "--version", prog_name=PROGRAM)
def cli() -> None:
    """Make a Kubernetes cluster match a set of YAML: apply, record, prune what left the set.

    \b
    Examples:
      applyprune apply web -f manifests/ --dry-run
      applyprune apply web -f manifests/ -n shop --wait
      applyprune delete web -n shop

    `applyprune COMMAND --help` describes a command.
    """
