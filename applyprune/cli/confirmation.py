"""Show a run on the terminal before it writes anything; ask if it deletes or takes something.

The plan file of ``plan --out`` is written where the plan is shown.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from applyprune.cli.advice import new_set, similar_names
from applyprune.cli.options import Ask
from applyprune.errors import (
    ApplypruneError,
    Declined,
    Interrupted,
    UsageError,
    problems_of,
)
from applyprune.model.events import Finished, Planned, Started
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun, Mode
from applyprune.output.plan_text import (
    deletion_summary,
    plan_table,
    record_lines,
    target_line,
)
from applyprune.output.printers import OutputTarget, printer
from applyprune.output.problem_text import problem_text
from applyprune.planning.approval import changes_anything, is_blocked, needed_consent
from applyprune.sources.plan_files import refuse_unwritable, write_plan
from applyprune.sources.tree import shown_path
from applyprune.system.processes import STOP_SIGNALS
from applyprune.system.terminal import drop_typed, open_standard_input, open_terminal
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterator, Mapping
    from io import RawIOBase
    from types import FrameType

    from applyprune.cli.reporting import Reporting
    from applyprune.cli.session import Session
    from applyprune.model.events import Event
    from applyprune.model.options import Options
    from applyprune.model.plan import Plan
    from applyprune.output.terminal import Terminal
    from applyprune.planning.approval import Consent
    from applyprune.sources import Overlay


_STANDARD_INPUT = ("-", "/dev/stdin")


class Confirmation(Struct, frozen=True):
    """How one call shows its plan on the terminal, and lets the user confirm it."""

    reporting: Reporting
    yes: bool = False
    """Whether the user has confirmed it already."""
    paths: Collection[str | Overlay] = ()
    """The paths of the input."""
    ask_for: Ask = Ask.DELETIONS
    """Which plans are asked about."""

    @property
    def can_ask(self) -> bool:
        """Return whether somebody is there to read a question and to answer it."""
        return can_ask(self.reporting.terminal, stdin_is_input=self._stdin_is_input)

    @property
    def _stdin_is_input(self) -> bool:
        return any(path in self.paths for path in _STANDARD_INPUT)

    def require(self, action: str) -> None:
        """Raise UsageError if ``action`` is not confirmed and nobody can be asked."""
        if not (self.yes or self.can_ask):
            raise unconfirmed(action)

    def confirm(self, action: str, question: str) -> None:
        """Return if the user has confirmed ``action``, or does so now.

        Raises Declined after a no, and UsageError if nobody can be asked.
        """
        self.require(action)
        if not self.yes:
            self.ask(action, question)

    def watch(
        self,
        events: Iterator[Event],
        session: Session,
        options: Options,
        diff: Callable[[], Iterator[Event]],
    ) -> Iterator[Event]:
        """Pass the events of a run on; show its plan, and ask before it goes on.

        Raises Declined after a no: nothing of the plan has been written then. Without a terminal,
        show and ask nothing.
        """
        if not self.can_ask:
            yield from events
            return
        watch = _Watch(self, session, options, diff)
        with closing(cast("Generator[Event, None, None]", events)):
            for event in events:
                yield event
                watch.take(event)

    def ask(
        self,
        action: str,
        question: str,
        *,
        details: Callable[[], None] | None = None,
    ) -> None:
        """Return after a yes; raise Declined after a no.

        ``details`` shows more, if that is the answer; None if there is no more.
        """
        terminal, live = self.reporting.terminal, self.reporting.live
        with live.paused():
            ask(
                terminal,
                action,
                question,
                stdin_is_input=self._stdin_is_input,
                details=details,
            )

    def needs_answer(self, plan: Plan, needed: Consent, agreed: Consent) -> bool:
        """Return whether a plan is asked about, which needs more consent than was given."""
        if self.yes or self.ask_for is Ask.NEVER:
            return False
        is_new = not needed <= agreed
        return is_new or (self.ask_for is Ask.ALWAYS and changes_anything(plan))


_QUESTIONS = {Mode.DELETE: "Delete these objects", Mode.ORPHAN: "Orphan these objects"}


class _Watch(Struct):
    """One run on a terminal."""

    confirmation: Confirmation
    session: Session
    options: Options
    diff: Callable[[], Iterator[Event]]
    started: Started | None = None
    agreed: Consent | None = None
    """What the user has seen and agreed to; None before the first plan."""

    def take(self, event: Event) -> None:
        """Show the target and the plan, and ask; raise Declined after a no."""
        if isinstance(event, Started):
            self.started = event
            if not self.confirmation.reporting.quiet:
                self._show(target_line(event))
        elif isinstance(event, Planned) and self.started is not None:
            self.session.stop.check()
            self._plan(event, self.started)

    def _plan(self, event: Planned, started: Started) -> None:
        """Show a plan, and ask if it needs consent.

        If another run was first, there is a second plan: ask only if it needs more than the first.
        """
        plan, is_first = event.plan, self.agreed is None
        agreed = self.agreed or frozenset()
        stops = is_blocked(plan, self.options)
        needed = frozenset() if stops else needed_consent(plan, started.mode)
        said, is_doubtful = self._new_set(plan, started) if is_first else ("", False)
        if is_doubtful and not stops:  # guard: new-set-asks never
            needed |= {said}
        self.agreed = agreed | needed
        is_dry, quiet = self.options.dry_run is not DryRun.OFF, self.confirmation.reporting.quiet
        asks = not (is_dry or stops) and self.confirmation.needs_answer(plan, needed, agreed)
        if not asks and (quiet or not is_first):
            return
        if quiet:
            self._show(target_line(started))
        if not is_first:
            self._show("Another run finished first. The plan is now:")
        else:
            self._show(said)
        width, _ = self.confirmation.reporting.terminal.size()
        applyset = self.session.applyset(started.name).identity
        if not (stops or is_dry):
            self._show(plan_table(plan, started.mode, applyset, width))
            self._show("\n".join(record_lines(plan, width)))
        elif is_dry and started.mode is Mode.DELETE and plan.removals and not plan.no_prune:
            # The lines of the dry run name each object.
            self._show("\n".join(deletion_summary(plan, applyset, width)))
        if asks:  # guard: asks-first never
            action = f"the {started.mode} of the set {started.name}"
            question = _QUESTIONS.get(started.mode, "Apply these changes")
            to = "of" if started.mode in _QUESTIONS else "to"
            part = f" {to} a part of the set" if self.options.is_part else ""
            self.confirmation.ask(
                action,
                f"{question}{part}?",
                details=self._show_diff,
            )

    def _new_set(self, plan: Plan, started: Started) -> tuple[str, bool]:
        """Return what to say of a set that is new, and whether it may be a mistake.

        A deletion may mean the set that has such a name.
        """
        if not plan.new_set:
            return "", False
        applyset = self.session.applyset(started.name).identity
        if started.mode is not Mode.APPLY:
            names = similar_names(applyset, self.session.cluster)
            return (f"did you mean {' or '.join(names)}?" if names else ""), False
        also, is_doubtful = new_set(plan, applyset, self.session.cluster)
        return f"{applyset.name} is a new set{'; ' if also else ''}{also}", is_doubtful

    def _show_diff(self) -> None:
        """Show what the run would change, as ``diff`` does; an error too."""
        show_events(self.confirmation.reporting.terminal, self.diff(), "diff")

    def _show(self, text: str) -> None:
        if text:
            self.confirmation.reporting.terminal.err(text)


def show_events(terminal: Terminal, events: Iterator[Event], text: str) -> None:
    """Show events on standard error in a verb's own text; an error that ends them, too."""
    width, _ = terminal.size()
    shown = printer(text, OutputTarget(out=terminal.err, err=terminal.err, width=width))
    try:
        for event in events:
            if not isinstance(event, Finished):
                shown.show(event)
    except ApplypruneError as error:
        for problem in problems_of(error):
            terminal.err(problem_text("error", problem))
    finally:
        shown.close()


# Somebody can be asked if standard error is a terminal and an answer can be read from standard
# input. If that is the input (``-f -``), the answer comes from the process's own terminal. The
# runner of a pipeline may give it a terminal too, but sets ``CI``: nobody is there to answer.


_OFF = frozenset({"", "0", "false"})


def can_ask(terminal: Terminal, *, stdin_is_input: bool) -> bool:
    """Return whether somebody is there to read a question and to answer it."""
    if not terminal.err_is_terminal or os.environ.get("CI", "").lower() not in _OFF:
        return False
    return stdin_is_input or (sys.stdin is not None and sys.stdin.isatty())


def unconfirmed(action: str) -> UsageError:
    """Return the error for an action that needs a yes, if nobody can be asked."""
    return UsageError(
        f"{action} needs confirmation",
        reason="there is no terminal to ask on",
        hint="Add --yes, or try --dry-run first.",
    )


def ask(
    terminal: Terminal,
    action: str,
    question: str,
    *,
    stdin_is_input: bool,
    details: Callable[[], None] | None = None,
) -> None:
    """Return after a yes; raise Declined after a no, or if the terminal is closed.

    Raises Interrupted after Ctrl-C, and UsageError if an answer to ``action`` cannot be read.
    """
    with _answers(action, stdin_is_input=stdin_is_input) as answers, _interruptible():
        keys = "y/N/d" if details else "y/N"
        try:
            while True:
                # What was typed before answers something else.
                with suppress(OSError):
                    drop_typed(answers)
                line = _line(terminal, answers, f"{question} [{keys}] ")
                if details is not None and line.strip().lower() in _DETAILS:
                    details()
                elif _is_yes(line):
                    break
                else:
                    terminal.err("Answer y, n, or d for the diff." if details else "Answer y or n.")
        except Interrupted:
            terminal.err("")  # the cursor is still behind the question
            raise


@contextmanager
def _answers(action: str, *, stdin_is_input: bool) -> Iterator[RawIOBase]:
    """Yield what to read an answer from."""
    try:
        answers = open_terminal() if stdin_is_input else open_standard_input()
    except OSError:
        raise unconfirmed(action) from None
    with answers:
        yield answers


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let a signal end the question at once: nothing is in flight that must be finished."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        raise Interrupted(number, is_unchanged=True)

    before = {number: signal.signal(number, on_signal) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_yes(line: str) -> bool:
    """Return True for a yes, and False for an unclear answer; raise Declined for a no."""
    answer = line.strip().lower()
    if answer in {"", "n", "no"}:
        raise Declined("nothing was changed")
    return answer in {"y", "yes"}


_DETAILS = frozenset({"d", "diff"})
_LONGEST = 1024


def _line(terminal: Terminal, answers: RawIOBase, question: str) -> str:
    """Ask, and return the line of the answer; empty at the end of the terminal."""
    terminal.prompt(question)
    try:
        line = answers.read(_LONGEST) or b""
    except OSError:  # the terminal is gone
        line = b""
    if not line:
        terminal.err("")
    return line.decode(errors="replace")


class PlanOutput(Struct, frozen=True):
    """The plan file that one call writes."""

    reporting: Reporting
    name: str
    """The name of the set."""
    input: Mapping[str, tuple[str, ...]]
    """The local input, so that an apply of the plan need not name it."""
    path: str
    expires_in: float
    """Seconds."""
    can_ask: bool = False

    def watch(
        self,
        events: Iterator[Event],
        session: Session,
        options: Options,
        diff: Callable[[], Iterator[Event]],  # noqa: ARG002 - RunWatcher's signature
    ) -> Iterator[Event]:
        """Pass the events of a dry run on; write its plan before its end is reported.

        A plan with an object that cannot be applied or pruned is not written. One whose prune a
        guard refuses is: an approval of its deletions may allow it. Raises UsageError if the file
        cannot be written, if possible before anything is read.
        """
        refuse_unwritable(self.path)
        plan: Plan | None = None
        for event in events:
            if isinstance(event, Planned):
                plan = event.plan
            elif isinstance(event, Finished) and plan is not None:
                failed = event.counts.get(Outcome.FAILED, 0)
                self._print(
                    f"{shown_path(self.path)} was not written: the plan cannot be applied"
                    if failed
                    else self._written(plan, session, options)
                )
            yield event

    def _written(self, plan: Plan, session: Session, options: Options) -> str:
        file = session.applyset(self.name).plan_file(
            plan, options=options.apply, prune=options.prune, expires_in=self.expires_in
        )
        write_plan(self.path, replace(file, input=self.input))
        until = file.expires.strftime("%Y-%m-%d %H:%M UTC")
        return f"{shown_path(self.path)} was written: the plan is valid until {until}"

    def _print(self, text: str) -> None:
        if not self.reporting.quiet:
            self.reporting.terminal.err(text)
