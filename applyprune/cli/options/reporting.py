"""What every verb has in common: ``-o``, and the way from a stream of events to an exit code.

What ``-o FORMAT=FILE`` writes to, and what a pipeline's environment says of files.
"""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from applyprune.cli.options.combine import with_options
from applyprune.cli.options.completion import FORMAT
from applyprune.errors import ApplypruneError, UsageError, as_problem, problems_of
from applyprune.output.printers import PRINTERS, TEXTS, OutputTarget, Places, nowhere, printer
from applyprune.output.terminal.style import rendered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from applyprune.model.events import Event, Outcome
    from applyprune.output.printers import Printer
    from applyprune.output.terminal.live_display import LiveDisplay
    from applyprune.output.terminal.terminal import Terminal

_TELLS_ALL = frozenset({"text", "github", *TEXTS})
"""Formats that leave nothing to be said on standard error."""


@dataclass(frozen=True)
class Reporting:
    """How one call tells what it does: formats, each with its file, empty for standard output.

    ``verbose`` asks for a line for each request.
    """

    formats: tuple[tuple[str, str], ...] = (("text", ""),)
    quiet: bool = False
    verbose: bool = False

    @cached_property
    def terminal(self) -> Terminal:
        """Return the streams that all of it goes to."""
        from applyprune.output.terminal.terminal import Terminal

        return Terminal()

    @cached_property
    def live(self) -> LiveDisplay:
        """Return what shows that a run is alive."""
        from applyprune.output.terminal.live_display import LiveDisplay

        return LiveDisplay(self.terminal)

    @property
    def trace(self) -> Callable[[str], None] | None:
        """Return what takes a line for each request, None where none is asked for."""
        return self.terminal.err if self.verbose else None

    def stopping(self, *, at_once: bool) -> None:
        """Say that a signal ends the run; ``at_once`` when there is no time for anything else."""
        if at_once:
            self.terminal.give_up()
        else:
            self.live.stopping()

    def follow(self, events: Iterable[Event]) -> int:
        """Show events as they come and return the exit code that they end with.

        An error that ends the stream is shown too, and ends it in good order.
        """
        from applyprune.model.events import ErrorRaised, Finished, ObjectDone

        began = time.monotonic()
        counts: Counter[Outcome] = Counter()
        end: Finished | None = None
        files: list[ReportFile] = []
        with ExitStack() as closing:
            printers, unwritable = self._printers(closing, files)
            if unwritable is not None:
                events = raised(unwritable)

            def show(event: Event) -> None:
                for one in printers:
                    one.show(event)

            try:
                for event in events:
                    if isinstance(event, ObjectDone):
                        counts[event.outcome] += 1
                    elif isinstance(event, Finished):
                        end = event
                    show(event)
            except ApplypruneError as error:
                for problem in problems_of(error):
                    show(ErrorRaised(problem))
                end = Finished(dict(counts), error.exit_code, time.monotonic() - began)
                show(end)
            if end is None:
                # Who only looks need not say when that is over, or that it went well.
                end = Finished(dict(counts), 0, time.monotonic() - began)
                show(end)
        lost = self._lost(files)
        return end.exit_code or lost

    def put(self, text: str) -> int:
        """Write lines to standard output; return the exit code, 0 unless they were not taken."""
        self.terminal.out(text)
        return self._lost(())

    def _lost(self, files: Iterable[ReportFile]) -> int:
        """Say which places did not take everything, and return the exit code for that, or 0.

        Whoever reads a pipe and ends has read what was wanted.
        """
        from applyprune.output.text.problem_text import problem_text

        places = {"standard output": self.terminal.lost, **{one.path: one.lost for one in files}}
        errors = [
            ApplypruneError(f"{name} is not complete", reason=lost.strerror or str(lost))
            for name, lost in places.items()
            if lost is not None and not isinstance(lost, BrokenPipeError)
        ]
        for error in errors:
            self.terminal.err(problem_text("error", as_problem(error)))
        return errors[0].exit_code if errors else 0

    def _printers(
        self, closing: ExitStack, files: list[ReportFile]
    ) -> tuple[list[Printer], UsageError | None]:
        """Return a printer for each format, but for a file that cannot be written: the error."""

        printers: list[Printer] = []
        if not self.quiet:
            # The live lines are gone before the last words are said.
            closing.callback(self.live.close)
            printers.append(self.live)
        error = None
        whence, summary = places(os.environ), step_summary(os.environ)
        for form, path in self.formats:
            if path:
                try:
                    file = ReportFile(path)
                except UsageError as unwritable:
                    error = error or unwritable
                    continue
                files.append(file)
                closing.callback(file.close)
                screen = file.screen(whence, talk=form == "text" or form in TEXTS)
            else:
                screen = replace(self._screen(), places=whence)
                if form not in _TELLS_ALL:
                    # Data goes to standard output; what went wrong is said beside it.
                    talk = printer("text", replace(screen, out=nowhere))
                    closing.callback(talk.close)
                    printers.append(talk)
            if form == "github":
                # Once, however many files have the annotations.
                screen, summary = replace(screen, summary=summary), None
            one = printer(form, screen)
            closing.callback(one.close)
            printers.append(one)
        return printers, error

    def _screen(self) -> OutputTarget:
        terminal = self.terminal
        return OutputTarget(
            out=terminal.out,
            err=terminal.err,
            colour=terminal.out_colours,
            live=terminal.live,
            width=terminal.size()[0],
            quiet=self.quiet,
            again=terminal.again if terminal.out_is_screen else None,
        )


def reporting_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add -o, --quiet and -v; the verb gets them as ``reporting``."""

    @wraps(verb)
    def command(output: tuple[str, ...], quiet: bool, verbose: bool, **others: Any) -> Any:
        reporting = Reporting(_formats(output), quiet, verbose)
        if "where" in others:
            # Who talks to the server tells the reporting, and no verb has to think of it.
            others["where"] = replace(others["where"], listener=reporting)
        try:
            return verb(reporting=reporting, **others)
        except ApplypruneError as error:
            # What is wrong with the call, before there was a stream of events.
            return reporting.follow(raised(error))

    return with_options(
        command,
        click.option("-v", "--verbose", is_flag=True, help="Print a line for each request."),
        click.option("-q", "--quiet", is_flag=True, help="Only print errors."),
        click.option(
            "-o",
            "--output",
            type=FORMAT,
            multiple=True,
            metavar="FORMAT[=FILE]",
            help=f"Output format:  {', '.join(PRINTERS)}; repeatable.  [default: text]",
        ),
    )


def raised(error: ApplypruneError) -> Iterator[Event]:
    """Return the stream of what ended before its first event."""
    yield from ()
    raise error


def _formats(given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the formats that were asked for; standard output has one, text unless told."""
    formats = tuple((form, path) for form, _, path in (one.partition("=") for one in given))
    for one, (form, path) in zip(given, formats, strict=True):
        if form not in PRINTERS:
            raise UsageError(
                f"-o {form!r} is no format", hint=f"The formats are {', '.join(PRINTERS)}."
            )
        if "=" in one and not path:
            raise UsageError(f"-o {one!r} names no file", hint="Write -o FORMAT=FILE.")
        if path.endswith((".yaml", ".yml")):
            raise UsageError(
                f"-o {one!r} could write over a manifest",
                reason="that is what files of this name are taken for",
                hint="Give the report another ending.",
            )
    to_stdout = [form for form, path in formats if not path]
    if len(to_stdout) > 1:
        raise UsageError(
            f"{' and '.join(to_stdout)} would both go to standard output",
            hint="Give all but one a file: -o FORMAT=FILE.",
        )
    files = [os.path.realpath(path) for _, path in formats if path]
    for path in files:
        if files.count(path) > 1:
            raise UsageError(f"two formats would both go to {path}")
    return formats if to_stdout else (("text", ""), *formats)


class ReportFile:
    """A file that a report goes to, a text at a time; each is there as soon as it is written.

    A disk that is full is no reason to stop a run half-way: ``lost`` is why not all of it is there.
    """

    def __init__(self, path: str) -> None:
        """Empty the file, or make it; raise UsageError when that cannot be."""
        self.path = path
        self.lost: OSError | None = None
        self._drafted = False
        try:
            # Kept open until the last event has been written: the caller closes it.
            self._file = Path(path).open("w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"{path} cannot be written", reason=why or "") from error
        self._regular = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)

    def write(self, text: str) -> None:
        """Add lines, in the place of a draft where there is one."""
        self._write(text, anew=self._drafted)
        self._drafted = False

    def draft(self, text: str) -> None:
        """Write what is to be there until ``write``; nothing where it could not be taken back."""
        if self._regular:
            self._write(text, anew=True)
            self._drafted = True

    def close(self) -> None:
        """Close the file."""
        try:
            self._file.close()
        except OSError as error:
            self.lost = self.lost or error

    def screen(self, places: Places, *, talk: bool) -> OutputTarget:
        """Return the file as a place for data, and for talk where that is part of the report."""
        err = self.write if talk else nowhere
        return OutputTarget(out=self.write, err=err, draft=self.draft, places=places)

    def _write(self, text: str, *, anew: bool) -> None:
        if self.lost is not None:
            return
        try:
            if anew:
                self._file.seek(0)
            self._file.write(f"{rendered(text, colour=False)}\n")
            self._file.flush()
            if anew:
                self._file.truncate()
        except OSError as error:
            self.lost = error


def places(environ: Mapping[str, str]) -> Places:
    """Return from where paths are told: the checkout of GitHub Actions or GitLab CI, or here."""
    try:
        here = str(Path.cwd())
    except OSError:
        return Places()
    root = environ.get("GITHUB_WORKSPACE") or environ.get("CI_PROJECT_DIR") or here
    return Places(here, os.path.realpath(root))


def step_summary(environ: Mapping[str, str]) -> Path | None:
    """Return the file of GitHub Actions to which a step appends its summary."""
    path = environ.get("GITHUB_STEP_SUMMARY")
    return Path(path) if path else None
