"""What ``-o``, ``-q`` and ``-v`` mean, and the way from events to an exit code.

Also report files (``-o FORMAT=FILE``), and the files that a pipeline's environment names."""

from __future__ import annotations

import os
import stat
import time
from collections import Counter
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from applyprune.errors import ApplypruneError, UsageError, problems_of
from applyprune.output.printers import (
    FORMATS,
    TEXTS,
    WIDE,
    OutputTarget,
    RepositoryPaths,
    discard,
    printer,
)
from applyprune.output.terminal import Terminal, rendered
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from applyprune.model.events import Event
    from applyprune.model.fate import Outcome
    from applyprune.output.printers import Printer
    from applyprune.output.progress import LiveDisplay


_PRINT_PROBLEMS = frozenset({"text", "github", *TEXTS})
"""The formats that print problems themselves; the others need a text printer beside them."""
_PAGES = frozenset({"github", "markdown"})


class Reporting(Struct, frozen=True, dict=True):
    """How one call reports its events."""

    formats: tuple[tuple[str, str], ...] = (("text", ""),)
    """Each format and its file; an empty path is standard output."""
    quiet: bool = False
    """Whether to print errors only."""
    verbose: bool = False
    """Whether to print a line for each request, and for each object that has failed or does not
    change."""
    wide: bool = False
    """Whether tables have all columns."""
    digests: bool = False
    """Whether a terminal shows the digests of a plan, too."""

    @property
    def has_page(self) -> bool:
        """Return whether one of the formats is a page of Markdown, or appends one to a summary."""
        return any(form in _PAGES for form, _ in self.formats)

    @cached_property
    def terminal(self) -> Terminal:
        """Return the standard streams of this call."""
        return Terminal()

    @cached_property
    def live(self) -> LiveDisplay:
        """Return the display of the progress."""
        from applyprune.output.progress import LiveDisplay

        return LiveDisplay(self.terminal)

    def with_text(self, text: str) -> Reporting:
        """Return the same with a verb's own text instead of the usual one."""
        formats = tuple((text if form == "text" else form, path) for form, path in self.formats)
        return replace(self, formats=formats)

    @property
    def trace(self) -> Callable[[str], None] | None:
        """Return what prints a line for each request, None without -v."""
        return self.terminal.err if self.verbose else None

    def stopping(self, *, at_once: bool) -> None:
        """Show that a signal ends the run; if ``at_once``, only remove the live lines."""
        if at_once:
            self.terminal.erase_now()
        else:
            self.live.stopping()

    def print_events(self, events: Iterable[Event], *, plan_is_shown: bool = False) -> int:
        """Print each event at once, and return the exit code.

        An error that the stream raises is printed too, followed by a Finished event.
        ``plan_is_shown`` says that the terminal shows the table of the plan besides.
        """
        from applyprune.model.events import Finished

        exit_code = 0
        files: list[ReportFile] = []
        with ExitStack() as closing:
            printers, unwritable = self._printers(closing, files, plan_is_shown)
            if unwritable is not None:
                events = raising(unwritable)
            for event in with_finished(events):
                if isinstance(event, Finished):
                    exit_code = event.exit_code
                for each in printers:
                    each.show(event)
        write_code = self._print_write_errors(files)
        return exit_code or write_code

    def print_error(self, error: ApplypruneError) -> int:
        """Print an error that is there before any event, and return its exit code."""
        return self.print_events(raising(error))

    def print_text(self, text: str) -> int:
        """Write lines to standard output; return the exit code, 0 unless the write failed."""
        self.terminal.out(text)
        return self._print_write_errors(())

    def _print_write_errors(self, files: Iterable[ReportFile]) -> int:
        """Print which outputs are not complete, and return the exit code for that, or 0.

        A closed pipe is not an error: its reader has read enough.
        """
        from applyprune.output.problem_text import problem_text

        write_errors = {
            "standard output": self.terminal.write_error,
            **{file.path: file.write_error for file in files},
        }
        errors = [
            ApplypruneError(f"{name} is not complete", reason=error.strerror or str(error))
            for name, error in write_errors.items()
            if error is not None and not isinstance(error, BrokenPipeError)
        ]
        for error in errors:
            self.terminal.err(problem_text("error", error.problem))
        return errors[0].exit_code if errors else 0

    def _printers(
        self, closing: ExitStack, files: list[ReportFile], plan_is_shown: bool
    ) -> tuple[list[Printer], UsageError | None]:
        """Return a printer for each format, and the error of the first unwritable file."""

        printers: list[Printer] = []
        if not self.quiet:
            # The first printer: at the end it removes the live lines before the others print.
            closing.callback(self.live.close)
            printers.append(self.live)
        error = None
        paths, summary = repository_paths(os.environ), step_summary(os.environ)
        for form, path in self.formats:
            if path:
                try:
                    file = ReportFile(path)
                except UsageError as unwritable:
                    error = error or unwritable
                    continue
                files.append(file)
                closing.callback(file.close)
                target = replace(
                    file.output_target(paths, messages=form == "text" or form in TEXTS),
                    verbose=self.verbose,
                    wide=self.wide,
                )
            else:
                target = replace(
                    self._standard_streams(), repository_paths=paths, plan_is_shown=plan_is_shown
                )
                if self.quiet and (form == "text" or form in TEXTS):
                    target = replace(target, out=discard)
                if form not in _PRINT_PROBLEMS:
                    # Data goes to standard output, problems go to standard error.
                    problems = printer("text", replace(target, out=discard))
                    closing.callback(problems.close)
                    printers.append(problems)
            if form == "github":
                # Write one summary even if several files get the annotations.
                target, summary = replace(target, summary=summary), None
            format_printer = printer(form, target)
            closing.callback(format_printer.close)
            printers.append(format_printer)
        return printers, error

    def _standard_streams(self) -> OutputTarget:
        terminal = self.terminal
        return OutputTarget(
            out=terminal.out,
            err=terminal.err,
            colour=terminal.out_colours,
            live=terminal.live,
            is_watched=terminal.err_is_terminal,
            width=terminal.size()[0],
            quiet=self.quiet,
            verbose=self.verbose,
            wide=self.wide,
            digests=self.digests,
            joined=terminal.joined,
            redraw=terminal.redraw if terminal.out_is_screen else None,
        )


def repository_paths(environ: Mapping[str, str]) -> RepositoryPaths:
    """Return paths from the checkout of GitHub Actions or GitLab CI, or the working directory."""
    from pathlib import Path

    try:
        working_directory = str(Path.cwd())
    except OSError:
        return RepositoryPaths()
    root = environ.get("GITHUB_WORKSPACE") or environ.get("CI_PROJECT_DIR") or working_directory
    return RepositoryPaths(working_directory, os.path.realpath(root))


def step_summary(environ: Mapping[str, str]) -> Path | None:
    """Return the file to which a step of GitHub Actions appends its summary."""
    from pathlib import Path

    path = environ.get("GITHUB_STEP_SUMMARY")
    return Path(path) if path else None


def reporting_of(formats: tuple[str, ...], quiet: bool, verbose: bool) -> Reporting:
    """Return how a call with these options reports; raise UsageError for an unknown format."""
    given = _formats(formats)
    return Reporting(
        tuple(("text" if form == WIDE else form, path) for form, path in given),
        quiet,
        verbose,
        wide=any(form == WIDE for form, _ in given),
    )


def _formats(given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the requested formats, with one for standard output: text by default."""
    formats = tuple((form, path) for form, _, path in (text.partition("=") for text in given))
    for text, (form, path) in zip(given, formats, strict=True):
        if form not in FORMATS:
            from applyprune.cli.answers import OUTPUTS, answer

            hint = answer(OUTPUTS, form) or f"The formats are {', '.join(FORMATS)}."
            raise UsageError(f"unknown format -o {form!r}", hint=hint)
        if "=" in text and not path:
            raise UsageError(f"-o {text!r} names no file", hint="Write -o FORMAT=FILE.")
        if path.endswith((".yaml", ".yml")):
            raise UsageError(
                f"-o {text!r} could overwrite a manifest",
                reason="files with this ending are read as manifests",
                hint="Give the report another ending.",
            )
    to_stdout = [form for form, path in formats if not path]
    if len(to_stdout) > 1:
        raise UsageError(
            f"{' and '.join(to_stdout)} cannot both go to standard output",
            hint="Write all but one to a file: -o FORMAT=FILE.",
        )
    files = [os.path.realpath(path) for _, path in formats if path]
    for path in files:
        if files.count(path) > 1:
            raise UsageError(f"two formats cannot both go to {path}")
    return formats if to_stdout else (("text", ""), *formats)


def with_finished(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the events, the error that the stream raises if it does, and always a Finished event.

    A verb that only reads may omit the Finished event of a success.
    """
    from applyprune.model.events import ErrorRaised, Finished, ObjectDone

    began = time.monotonic()
    counts: Counter[Outcome] = Counter()
    exit_code: int | None = 0
    try:
        for event in events:
            if isinstance(event, ObjectDone):
                counts[event.outcome] += 1
            elif isinstance(event, Finished):
                exit_code = None
            yield event
    except ApplypruneError as error:
        for problem in problems_of(error):
            yield ErrorRaised(problem)
        exit_code = error.exit_code
    if exit_code is not None:
        yield Finished(dict(counts), exit_code, time.monotonic() - began)


def raising(error: ApplypruneError) -> Iterator[Event]:
    """Return a stream that raises the error before its first event."""
    yield from ()
    raise error


class ReportFile:
    """A file for a report; each text is flushed at once.

    A full disk must not stop a run halfway, so ``write_error`` keeps the error instead of raising.
    """

    def __init__(self, path: str) -> None:
        """Create or empty the file; raise UsageError if that fails."""
        from pathlib import Path

        self.path = path
        self.write_error: OSError | None = None
        self._has_draft = False
        try:
            # Kept open until the last event has been written: the caller closes it.
            self._file = Path(path).open("w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"{path} cannot be written", reason=reason or "") from error
        self._regular = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)

    def write(self, text: str) -> None:
        """Append lines, or replace the draft with them."""
        self._write(text, overwrite=self._has_draft)
        self._has_draft = False

    def draft(self, text: str) -> None:
        """Write lines that ``write`` replaces; do nothing unless the file is a regular file."""
        if self._regular:
            self._write(text, overwrite=True)
            self._has_draft = True

    def close(self) -> None:
        """Close the file."""
        try:
            self._file.close()
        except OSError as error:
            self.write_error = self.write_error or error

    def output_target(self, paths: RepositoryPaths, *, messages: bool) -> OutputTarget:
        """Return the file as a target for data, and for ``messages`` if they are in the report."""
        err = self.write if messages else discard
        return OutputTarget(out=self.write, err=err, draft=self.draft, repository_paths=paths)

    def _write(self, text: str, *, overwrite: bool) -> None:
        if self.write_error is not None:
            return
        try:
            if overwrite:
                self._file.seek(0)
            self._file.write(f"{rendered(text, colour=False)}\n")
            self._file.flush()
            if overwrite:
                self._file.truncate()
        except OSError as error:
            self.write_error = error
