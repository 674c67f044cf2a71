"""What every verb has in common: ``-o``, and the way from a stream of events to an exit code."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from applyprune.cli.completing import FORMAT
from applyprune.errors import ApplypruneError, UsageError, problems_of
from applyprune.output.printing import PRINTERS, printer
from applyprune.output.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from applyprune.model.events import Event, Outcome
    from applyprune.output.printing import Printer


@dataclass(frozen=True, slots=True)
class Reporting:
    """How one call tells what it does: formats, each with its file, empty for standard output.

    ``verbose`` asks for a line for each request.
    """

    formats: tuple[tuple[str, str], ...] = (("text", ""),)
    quiet: bool = False
    verbose: bool = False

    def follow(self, events: Iterable[Event]) -> int:
        """Show events as they come and return the exit code that they end with.

        An error that ends the stream is shown too, and ends it in good order.
        """
        from applyprune.model.events import Done, Failed, Finished

        began = time.monotonic()
        counts: Counter[Outcome] = Counter()
        code = 0
        with ExitStack() as open_files:
            printers = [self._printer(one, open_files) for one in self.formats]

            def show(event: Event) -> None:
                for one in printers:
                    one.show(event)

            try:
                for event in events:
                    if isinstance(event, Done):
                        counts[event.outcome] += 1
                    elif isinstance(event, Finished):
                        code = event.exit_code
                    show(event)
            except ApplypruneError as error:
                for problem in problems_of(error):
                    show(Failed(problem))
                code = error.exit_code
                show(Finished(dict(counts), code, time.monotonic() - began))
            finally:
                for one in printers:
                    one.close()
        return code

    def _printer(self, form: tuple[str, str], open_files: ExitStack) -> Printer:
        from pathlib import Path

        name, path = form
        if not path:
            return printer(name, self._screen())
        try:
            # A file of its own is kept open until the last event has been written.
            file = Path(path).open("w", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"{path} cannot be written", why=error.strerror or "") from error
        open_files.enter_context(file)
        return printer(name, Screen(out=lambda line: print(line, file=file), err=_err))

    def _screen(self) -> Screen:
        import shutil

        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        return Screen(
            out=click.echo,
            err=_err,
            colour=sys.stdout.isatty() and not plain,
            live=sys.stderr.isatty() and os.environ.get("TERM") != "dumb",
            width=shutil.get_terminal_size().columns,
            quiet=self.quiet,
        )


def _err(line: str) -> None:
    click.echo(line, err=True)


def reporting_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add -o, --quiet and -v; the verb gets them as ``reporting``."""

    @wraps(verb)
    def command(output: tuple[str, ...], quiet: bool, verbose: bool, **others: Any) -> Any:
        return verb(reporting=Reporting(_formats(output), quiet, verbose), **others)

    for option in (
        click.option("-v", "--verbose", is_flag=True, help="A line for each request."),
        click.option("-q", "--quiet", is_flag=True, help="No talk but errors."),
        click.option(
            "-o",
            "--output",
            type=FORMAT,
            multiple=True,
            metavar="FORMAT[=FILE]",
            help=f"How to tell what happens: {', '.join(PRINTERS)}; as often as wanted.  "
            "[default: text]",
        ),
    ):
        command = option(command)
    return command


def _formats(given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the formats that were asked for; standard output has one, text unless told."""
    formats = tuple((form, path) for form, _, path in (one.partition("=") for one in given))
    for form, _ in formats:
        if form not in PRINTERS:
            raise UsageError(
                f"-o {form!r} is no format", hint=f"The formats are {', '.join(PRINTERS)}."
            )
    to_stdout = [form for form, path in formats if not path]
    if len(to_stdout) > 1:
        raise UsageError(
            f"{' and '.join(to_stdout)} would both go to standard output",
            hint="Give all but one a file: -o FORMAT=FILE.",
        )
    return formats if to_stdout else (("text", ""), *formats)
