"""What a plan is asked about on a terminal, as a table; what is shown first, and which answers are.

The process, its terminal and its signals: ``tests/command/e2e/test_confirmation.py``.
"""

from __future__ import annotations

import io
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from applyprune.cli import advice, confirmation
from applyprune.cli.advice import warning_of_new_set
from applyprune.cli.confirmation import Confirmation
from applyprune.cli.main import cli, exit_code_of
from applyprune.cli.options import Ask
from applyprune.cli.reporting import Reporting
from applyprune.engine.ports import Cancellation
from applyprune.errors import Declined, Forbidden, Interrupted, UsageError
from applyprune.model.events import Event, Planned, Started, WarningRaised
from applyprune.model.inventory import Ownership
from applyprune.model.options import DryRun, Mode, PruneLimit
from applyprune.model.plan import Plan
from applyprune.output.terminal import Terminal
from applyprune.planning.applyset import ApplySetIdentity, applyset_identity
from applyprune.values import replace as with_values
from tests.decisions.rows import Row, decide
from tests.decisions.world import HOME, SET, annotated, created, deleted
from tests.support.objects import config_map
from tests.support.options import options_of
from tests.support.source_text import write

if TYPE_CHECKING:
    from pathlib import Path

TARGET = f"web in namespace {HOME}, context prod (https://prod)\n"
QUESTION, DELETION = "Apply these changes? [y/N/d] ", "Delete these objects? [y/N/d] "
PRUNE_OF_C = "OBJECT        PLAN\nconfigmap/c   would be pruned\n"
A, B, C = map(config_map, "abc")
ALL = [A, B, C]


GONE = "the terminal is gone"


class _Screen(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


class _Keys(io.RawIOBase):
    """What is typed, a line for each question, or a signal; then the terminal is closed."""

    def __init__(self, lines: list[str | signal.Signals]) -> None:
        self.lines = lines

    def read(self, _: int = -1) -> bytes:
        line = self.lines.pop(0) if self.lines else ""
        if isinstance(line, signal.Signals):
            signal.raise_signal(line)
            return b"y\n"
        if line == GONE:
            raise OSError
        return line.encode()


@dataclass(frozen=True)
class Case:
    """A plan, how the call was made, and what is asked."""

    row: Row
    asks: str = ""
    """The question; empty for none."""
    call: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ``Confirmation``."""
    quiet: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    """Those of the run that the row does not need."""
    shows: str | None = None
    """What stands between the target and the question; None for whatever it is."""
    sets: Sequence[ApplySetIdentity] = ()
    """The sets of the cluster."""


class Watch(Protocol):
    """Returns what is shown of plans, when these keys are typed."""

    def __call__(
        self,
        case: Case,
        *keys: str | signal.Signals,
        plans: Sequence[Plan] = (),
        diffs: Sequence[str] = (),
    ) -> str: ...


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """A run on a terminal that decides, and does nothing."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("CI", raising=False)

    def watched(
        case: Case,
        *keys: str | signal.Signals,
        plans: Sequence[Plan] = (),
        diffs: Sequence[str] = (),
    ) -> str:
        screen = _Screen()
        monkeypatch.setattr(sys, "stderr", screen)
        monkeypatch.setattr(sys, "stdin", _Screen())
        typed, details = list(keys), list(diffs)
        # With ``-f -`` the answer comes from the terminal of the process.
        opener = "open_terminal" if "-" in case.call.get("paths", ()) else "open_standard_input"
        monkeypatch.setattr(confirmation, opener, lambda: _Keys(typed))
        monkeypatch.setattr(advice, "_sets", lambda *_: case.sets)
        options = options_of(**case.row.options, **case.options)
        started = Started("r", options.mode, "web", HOME, options.dry_run, "prod", "https://prod")
        events: list[Event] = [started, *map(Planned, plans or (decide(case.row)[0],))]
        session: Any = SimpleNamespace(
            stop=Cancellation(),
            cluster=None,
            applyset=lambda _: SimpleNamespace(identity=SET),
        )
        asked = Confirmation(Reporting(quiet=case.quiet), **case.call)
        passed = list(
            asked.watch((one for one in events), session, options, lambda: _diff(details))
        )
        assert passed == events
        return screen.getvalue()

    return watched


def _diff(texts: list[str]) -> Iterator[Event]:
    """Fail with the next of these texts."""
    yield from ()
    raise UsageError(texts.pop(0))


def _row(*given: Mapping[str, Any], **parts: Any) -> Row:
    return Row([dict(one) for one in ALL], given=[dict(one) for one in given], **parts)


ADOPTS = [created(config_map("found"), by="helm-operator")]
FOUND = (*ALL, config_map("found"))
DELETES: dict[str, Any] = {"mode": Mode.DELETE}
NEVER, ALWAYS = {"ask_for": Ask.NEVER}, {"ask_for": Ask.ALWAYS}
NEW = Row(given=[A])
NEW_ELSEWHERE = [applyset_identity("web", "far")]

CASES: dict[str, Case] = {
    "a prune": Case(_row(A, B), QUESTION, shows=PRUNE_OF_C),
    "a prune, in a quiet run": Case(_row(A, B), QUESTION, quiet=True, shows=PRUNE_OF_C),
    "a prune, and --yes": Case(_row(A, B), call={"yes": True}, shows=PRUNE_OF_C),
    "a prune, --yes and quiet": Case(_row(A, B), call={"yes": True}, quiet=True),
    "a prune, and ask: never": Case(_row(A, B), call=NEVER, shows=PRUNE_OF_C),
    "a prune that is only tried": Case(_row(A, B, options={"dry_run": DryRun.SERVER}), shows=""),
    "a prune of what somebody is deleting": Case(
        _row(A, B, others=[deleted("configmap/c")]),
    ),
    "a prune that a guard refuses": Case(
        _row(A, B, options={"max_prune": PruneLimit(count=0, percent=0.0)}), shows=""
    ),
    "a creation and a change": Case(
        _row(config_map("a", "new"), B, C, config_map("d")),
        shows=(
            "OBJECT        PLAN\nconfigmap/d   would be created\nconfigmap/a   would be updated\n"
        ),
    ),
    "a creation, and ask: always": Case(_row(*ALL, config_map("d")), QUESTION, ALWAYS),
    "nothing, and ask: always": Case(_row(*ALL), call=ALWAYS, shows=""),
    "nothing": Case(_row(*ALL), shows=""),
    "an adoption from somebody": Case(
        _row(*FOUND, others=ADOPTS),
        QUESTION,
        shows=(
            "OBJECT            PLAN               DETAILS\n"
            "configmap/found   would be adopted   from helm-operator\n"
            "configmap/found stays in the cluster when it leaves the set; --record-as owned\n"
            "  changes that\n"
        ),
    ),
    "an adoption as owned": Case(
        _row(*FOUND, others=ADOPTS, options={"adopt_as": Ownership.OWNED}),
        QUESTION,
        shows=(
            "OBJECT            PLAN               DETAILS\n"
            "configmap/found   would be adopted   from helm-operator\n"
            "                                     as owned: a later prune deletes it\n"
        ),
    ),
    "a deletion of the set": Case(Row(ALL, options=DELETES), DELETION),
    "a deletion, where all stays": Case(
        Row(
            [A],
            others=[annotated("configmap/a", {"applyprune.dev/prune": "disabled"})],
            options=DELETES,
        ),
        DELETION,
    ),
    "a deletion of a part": Case(
        Row(ALL, options=DELETES),
        "Delete these objects of a part of the set? [y/N/d] ",
        options={"only": frozenset({"configmap/a"})},
    ),
    "a deletion, tried": Case(
        Row(ALL, options={**DELETES, "dry_run": DryRun.SERVER}),
        shows="3 objects: 3 would be deleted\n",
    ),
    "a set that is missing": Case(
        Row(options=DELETES),
        sets=[applyset_identity("wep", HOME)],
        shows="did you mean wep?\n",
    ),
    "a new set": Case(
        NEW,
        sets=[applyset_identity("webster", HOME)],
        shows=(
            "web is a new set; there is also the set webster\n"
            "OBJECT        PLAN\nconfigmap/a   would be created\n"
        ),
    ),
    "a new set of a name elsewhere": Case(
        NEW,
        QUESTION,
        sets=NEW_ELSEWHERE,
        shows=(
            "web is a new set; there is also the set web in far\n"
            "OBJECT        PLAN\nconfigmap/a   would be created\n"
        ),
    ),
    "a doubtful new set, in a quiet run": Case(NEW, QUESTION, sets=NEW_ELSEWHERE, quiet=True),
    "a doubtful new set, and --yes": Case(NEW, call={"yes": True}, sets=NEW_ELSEWHERE),
    "a doubtful new set, and ask: never": Case(NEW, call=NEVER, sets=NEW_ELSEWHERE),
    "a doubtful new set, tried": Case(
        replace(NEW, options={"dry_run": DryRun.SERVER}),
        sets=NEW_ELSEWHERE,
        shows="web is a new set; there is also the set web in far\n",
    ),
}


@pytest.mark.holds("new-set-asks", row="a new set of a name elsewhere")
@pytest.mark.parametrize("name", CASES)
def test_plan_is_asked_about_if_another_apply_cannot_undo_it(watch: Watch, name: str) -> None:
    """First comes the target, then the table; a quiet run shows only what it asks about."""
    case = CASES[name]
    if case.asks:
        with pytest.raises(Declined):
            watch(case)
    else:
        watch(case)
    assert isinstance(sys.stderr, _Screen)
    shown = sys.stderr.getvalue()
    assert (shown.count("[y/N"), shown.endswith(f"{case.asks}\n" if case.asks else shown)) == (
        int(bool(case.asks)),
        True,
    ), shown
    if case.quiet and not case.asks:
        assert shown == ""
        return
    assert shown.startswith(TARGET)
    if case.shows is not None:
        assert shown.removeprefix(TARGET).partition(case.asks or "\0")[0] == case.shows


PRUNE = CASES["a prune"]


@pytest.mark.holds("asks-first")
@pytest.mark.parametrize("keys", ["n\n", "\n", "NO\n", "", GONE])
def test_any_other_answer_than_yes_ends_the_run(watch: Watch, keys: str) -> None:
    """Nothing has been written then; a closed terminal is no yes."""
    for paths in ((), ("-",)):
        with pytest.raises(Declined, match="nothing was changed"):
            watch(replace(PRUNE, call={"paths": paths}), keys)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_at_the_question_ends_the_run(watch: Watch, number: signal.Signals) -> None:
    """It needs no second one; the handlers are those of before."""
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match="nothing was changed") as caught:
        watch(PRUNE, number)
    assert (caught.value.exit_code, signal.getsignal(number)) == (128 + number, before)


def test_process_without_a_terminal_cannot_be_asked(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard input is the input, so no answer can come from it."""

    def none() -> io.RawIOBase:
        raise OSError

    case = replace(PRUNE, call={"paths": ("-",)})
    watch(case, "y\n")
    monkeypatch.setattr(confirmation, "open_terminal", none)
    with pytest.raises(UsageError, match="the apply of the set web needs confirmation"):
        confirmation.ask(Terminal(), "the apply of the set web", "Apply?", stdin_is_input=True)


def test_unclear_answer_is_asked_for_again(watch: Watch) -> None:
    """And the diff is shown as often as it is wanted; what fails in it is shown too."""
    shown = watch(PRUNE, "perhaps\n", "d\n", "diff\n", " Yes \n", diffs=("first", "second"))
    _, unclear, first, second, end = shown.split(QUESTION)
    assert (unclear, end) == ("Answer y, n, or d for the diff.\n", "")
    assert (first, second) == ("error: first\n", "error: second\n")


def test_second_plan_is_asked_about_only_if_it_needs_more(watch: Watch) -> None:
    """Another run may be first while the question is open."""
    first, same = decide(PRUNE.row)[0], decide(_row(config_map("a", "new"), B))[0]
    more = decide(_row(A))[0]
    more = with_values(more, no_prune="", refusal=None, guards=())
    assert watch(PRUNE, "y\n", plans=(first, same)).count(QUESTION) == 1
    shown = watch(PRUNE, "y\n", "y\n", plans=(first, more))
    assert shown.split(QUESTION)[1] == (
        "Another run finished first. The plan is now:\nOBJECT        PLAN\n"
        "configmap/b   would be pruned\nconfigmap/c   would be pruned\n"
    )


@pytest.mark.parametrize(
    ("value", "asked"), [("", True), ("false", True), ("0", True), ("true", False), ("1", False)]
)
def test_runner_of_a_pipeline_is_not_asked(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, value: str, asked: bool
) -> None:
    """It may give a terminal, but nobody is there to answer."""
    monkeypatch.setenv("CI", value)
    shown = watch(PRUNE, "y\n")
    assert (QUESTION in shown, bool(shown)) == (asked, asked)


UNASKED: dict[str, tuple[Sequence[str], str]] = {
    "delete": (("delete", "web"), "deleting the set web"),
    "delete a part": (("delete", "web", "--only", "configmap/a"), "deleting a part of the set web"),
    "delete, by the file": (("delete", "web", "--config", "c.yaml"), "deleting the set web"),
    "repair": (("inventory", "repair", "web"), "repairing the inventory of the set web"),
    "make owned": (
        ("inventory", "repair", "web", "--record-as", "owned", "configmap/a"),
        "making objects of the set web owned",
    ),
}


@pytest.mark.parametrize("name", UNASKED)
def test_call_that_needs_a_yes_ends_without_a_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """Before anything is asked of a cluster; a file may say never, and confirms no deletion."""
    head = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\n"
    write(folder, {"c.yaml": f"{head}name: web\nask: never\n"})
    words, action = UNASKED[name]
    assert exit_code_of(lambda: cli.main(list(words), standalone_mode=False)) == 2
    assert capsys.readouterr().err == (
        f"error: {action} needs confirmation: there is no terminal to ask on\n"
        "  Add --yes, or try --dry-run first.\n"
    )


def _listing(monkeypatch: pytest.MonkeyPatch, *allowed: str) -> list[str]:
    """Let the sets be listed in these namespaces only; return where they were."""
    asked: list[str] = []

    def list_sets(_: object, namespace: str) -> list[ApplySetIdentity]:
        asked.append(namespace)
        if namespace not in allowed:
            raise Forbidden("no", code=403)
        far = applyset_identity("web", "far")
        return [applyset_identity("wep", HOME), *([] if namespace else [far])]

    monkeypatch.setattr("applyprune.cluster.inventory_store.list_sets", list_sets)
    return asked


@pytest.mark.parametrize(
    ("allowed", "reason"),
    [
        (("", HOME), "there is also the set wep and web in far"),
        ((HOME,), "there is also the set wep"),
        ((), ""),
    ],
)
def test_pipeline_is_warned_of_a_doubtful_new_set(
    monkeypatch: pytest.MonkeyPatch, allowed: Sequence[str], reason: str
) -> None:
    """As far as sets may be listed; nobody lists them for a set that exists, or in a deletion."""
    asked = _listing(monkeypatch, *allowed)
    cluster: Any = SimpleNamespace(client=None)

    def warned(row: Row) -> list[str]:
        mode = options_of(**row.options).mode
        events: list[Event] = [Started("r", mode, "web", HOME, DryRun.OFF), Planned(decide(row)[0])]
        told = warning_of_new_set((one for one in events), SET, cluster)
        return [str(one.problem) for one in told if isinstance(one, WarningRaised)]

    start = f"web is a new set in namespace {HOME}: "
    assert [one.splitlines()[0] for one in warned(NEW)] == ([f"{start}{reason}"] if reason else [])
    assert asked == (["", HOME] if "" not in allowed else [""])
    del asked[:]
    assert [*warned(_row(*ALL)), *warned(Row(options=DELETES)), *asked] == []
