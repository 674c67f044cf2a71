"""The text of a command over many sets, on a terminal, in a log and in a file."""

from __future__ import annotations

import gc
import sys
import weakref
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import (
    ErrorRaised,
    Finished,
    ObjectDiff,
    ObjectDone,
    ObjectStuck,
    Planned,
    PruneBlocked,
    ReadinessReported,
    RetryReported,
    SetEvent,
    SetsBegan,
    Started,
    WarningRaised,
    current,
    stuck,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref, SetKey
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import Guard, GuardResult, GuardVerdict, Plan
from applyprune.model.problem import Problem, ProblemKind
from applyprune.output.printers import TEXTS, OutputTarget, discard, printer
from applyprune.output.set_text import SetsPrinter
from applyprune.output.terminal import rendered
from applyprune.output.text import TextPrinter
from applyprune.planning.guards import WOULD_DELETE
from applyprune.values import replace
from tests.support.output.parsers import commands
from tests.support.output.plan_streams import STREAMS, previewed, ran
from tests.support.output.plans import applied, refused_by, removed
from tests.support.output.stream import EVIL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from applyprune.model.events import Event

CHANGED = Plan(
    (applied(Fate.CREATE, "new"), applied(Fate.CHANGE, "a"), applied(Fate.LEAVE, "same")),
    (removed(Fate.PRUNE, "old"),),
)
SAME = Plan((applied(Fate.LEAVE, "same"),), ())
NOT_CONCERNED = Problem(ProblemKind.USAGE_ERROR, "37 sets are not concerned by this change")
GONE = Problem(
    ProblemKind.USAGE_ERROR, "the set shop/old is gone", reason="old/a.yaml named it at HEAD~1"
)
NOT_RUN = Problem(
    ProblemKind.RUN_FAILED,
    "the set back/api was not run",
    reason="it depends on shop/web, which has failed",
)
LIVE = GuardResult(
    Guard.MORE_THAN_HALF,
    GuardVerdict.REFUSED,
    "4 deletions are more than half of the set's 6 live objects",
)
TOO_MANY = Problem(
    ProblemKind.PRUNE_REFUSED, "the prune was refused: it would delete 4 objects", exit_code=6
)


def of(name: str, events: Iterable[Event], namespace: str = "shop") -> list[Event]:
    """Return the events of a run as those of one set of many."""
    key = SetKey(namespace, name)
    return [
        SetEvent(
            key,
            f"deploy/{name}",
            replace(one, name=name, namespace="home") if isinstance(one, Started) else one,
        )
        for one in events
    ]


def mixed(*streams: Sequence[Event]) -> Iterator[Event]:
    """Yield the events of sets that run side by side."""
    yield from (one for one in chain.from_iterable(zip_longest(*streams)) if one is not None)


def failed(problem: Problem) -> list[Event]:
    """Return the events of a set that fails before it has begun."""
    return [ErrorRaised(problem), Finished({}, 3, 0.0)]


def end(*, problem: Problem | None = None, **counts: int) -> Finished:
    """Return the end of the command."""
    found = {outcome: counts[outcome] for outcome in Outcome if outcome in counts}
    return Finished(found, 3 if problem else 0, 4.2, problem)


def lines(events: Iterable[Event], form: str = "text", width: int = 0, **given: Any) -> list[str]:
    """Return what a format writes, messages behind ``! ``; on a terminal if it has a width."""
    found: list[str] = []

    def out(text: str) -> None:
        found.extend(rendered(text, colour=False).split("\n"))

    def err(text: str) -> None:
        found.extend(f"! {line}".rstrip() for line in rendered(text, colour=False).split("\n"))

    on_screen = {"live": True, "is_watched": True, "width": width, "redraw": lambda _: None}
    given = {"out": out, "err": err, "joined": True, **(on_screen if width else {}), **given}
    one = printer(form, OutputTarget(**given))
    for event in events:
        one.show(event)
    one.close()
    return found


def test_command_over_many_sets_reads_as_one_report() -> None:
    """A block where something changes, a line for each set in the order of their folders."""
    web, quiet = of("web", ran(CHANGED)), of("quiet", ran(SAME))
    events = [
        SetsBegan(3),
        WarningRaised(NOT_CONCERNED),
        WarningRaised(GONE),
        *mixed(web, quiet),
        *of("api", failed(NOT_RUN), "back"),
        end(
            created=1,
            updated=1,
            pruned=1,
            unchanged=2,
            problem=Problem(ProblemKind.RUN_FAILED, "1 of the 3 sets failed: back/api"),
        ),
    ]
    assert lines(events) == [
        "web in namespace shop (deploy/web):",
        "configmap/new created",
        "configmap/a updated",
        "configmap/old pruned",
        "web: 1 created, 1 updated, 1 unchanged, 1 pruned in 1.2 s",
        "",
        "SET     NAMESPACE   INPUT          RESULT",
        "api     back        deploy/api     not run: it depends on shop/web, which has failed",
        "quiet   shop        deploy/quiet   1 unchanged",
        "web     shop        deploy/web     1 created, 1 updated, 1 pruned",
        "! 37 sets are not concerned by this change",
        "! warning: the set shop/old is gone: old/a.yaml named it at HEAD~1",
        "3 sets: 1 created, 1 updated, 2 unchanged, 1 pruned in 4.2 s",
        "! error: 1 of the 3 sets failed: back/api",
    ]


WIDTHS = {
    80: [
        "SET   INPUT        PLAN",
        "api   deploy/api   refused: the prune would delete 4 of 6 objects",
        "web   deploy/web   1 to create, 1 to update, 1 to prune",
    ],
    50: [
        "SET   INPUT        PLAN",
        "api   deploy/api   refused: the prune would delete",
        "                   4 of 6 objects",
        "web   deploy/web   1 to create, 1 to update, 1 to",
        "                   prune",
    ],
    40: [
        "SET   INPUT",
        "api   deploy/api",
        "    refused: the prune would delete 4 of",
        "    6 objects",
        "web   deploy/web",
        "    1 to create, 1 to update, 1 to prune",
    ],
}


@pytest.mark.parametrize("width", WIDTHS)
def test_table_of_a_plan_fits_the_terminal(width: int) -> None:
    """A result is wrapped in its column, or stands below its line where that would be narrow."""
    refused: list[Event] = [FULL, PruneBlocked(TOO_MANY), Finished({}, 6, 1.0)]
    streams = (of("web", previewed(CHANGED), ""), of("api", refused, ""))
    found = lines([*chain(*streams), end(created=1, updated=1, pruned=1)], "plan", width)
    at = next(at for at, line in enumerate(found) if line.startswith("SET"))
    assert found[at : at + len(WIDTHS[width])] == WIDTHS[width]
    assert found[at + len(WIDTHS[width])].startswith("2 sets: ")
    assert all(len(line.removeprefix("! ")) <= width for line in found)


DONE = Ref("", "ConfigMap", "home", "a")
DRY = Started("r", Mode.APPLY, "web", "home", DryRun.SERVER)
WET = replace(DRY, dry_run=DryRun.OFF)
OTHER = Problem(ProblemKind.INPUT_ERROR, "no kind. Each has one\nor not", "a.yaml:1", exit_code=2)
NOT_APPROVED = Problem(ProblemKind.NOT_APPROVED, "the deletions are not approved", reason="sha256:")
UNMATCHED = Problem(
    ProblemKind.PRUNE_REFUSED, "the prune was refused", reason="--orphan a/b matches no object"
)
ALONG = replace(TOO_MANY, message=f"{TOO_MANY.message}, including 3 cascaded deletions")
ADOPTED = Planned(Plan((applied(Fate.ADOPT, "a"), applied(Fate.ADOPT, "b")), ()))
SOME = {Outcome.CREATED: 1, Outcome.UNCHANGED: 5, Outcome.NOT_PRUNED: 4}
FULL = Planned(Plan((), (), guards=(LIVE,)))
RESULTS: list[tuple[Sequence[Event], str]] = [
    ([WET, Finished({}, 0, 0.1)], "nothing to do"),
    ([WET, Finished({Outcome.UNCHANGED: 5, Outcome.CREATED: 0}, 0, 0.1)], "5 unchanged"),
    ([WET, Finished(SOME, 0, 0.1)], "1 created, 4 not pruned"),
    ([DRY, Finished(SOME, 0, 0.1)], "1 to create, 4 not pruned"),
    ([DRY, ADOPTED, Finished({Outcome.UPDATED: 3}, 0, 0.1)], "1 to update, 2 to adopt"),
    ([DRY, FULL, PruneBlocked(TOO_MANY), Finished(SOME, 6, 0.1)],
     "refused: the prune would delete 4 of 6 objects"),
    ([WET, FULL, PruneBlocked(TOO_MANY), Finished(SOME, 6, 0.1)],
     "refused: the prune would delete 4 of 6 objects; 1 created"),
    ([DRY, PruneBlocked(TOO_MANY), Finished(SOME, 6, 0.1)],
     "refused: the prune would delete 4 objects"),
    ([DRY, FULL, PruneBlocked(ALONG), Finished(SOME, 6, 0.1)],
     "refused: the prune would delete 4 objects, including 3 cascaded deletions"),
    ([DRY, PruneBlocked(NOT_APPROVED), Finished({}, 6, 0.1)],
     "refused: the deletions are not approved"),
    ([DRY, PruneBlocked(UNMATCHED), Finished({}, 6, 0.1)],
     "refused: --orphan a/b matches no object"),
    ([ErrorRaised(OTHER), ErrorRaised(TOO_MANY), Finished({}, 2, 0.1)],
     "failed: no kind (and 1 more error)"),
    ([WET, ErrorRaised(OTHER), Finished(SOME, 2, 0.1)],
     "failed: no kind; 1 created, 4 not pruned"),
    ([WET, ObjectDone(DONE, Outcome.FAILED, problem=OTHER),
      Finished({Outcome.FAILED: 1, Outcome.UNCHANGED: 2}, 3, 0.1, OTHER)], "1 failed"),
    ([WET, Finished({Outcome.CREATED: 2}, 5, 0.1, replace(OTHER, message="1 was not ready"))],
     "failed: 1 was not ready; 2 created"),
    ([ErrorRaised(Problem(ProblemKind.DECLINED, "nothing was changed")), Finished({}, 1, 0.1)],
     "nothing was changed"),
    (failed(NOT_RUN), f"not run: {NOT_RUN.reason}"),
    ([WET, ObjectDone(DONE, Outcome.CREATED)], "not finished"),
]  # fmt: skip


@pytest.mark.parametrize(("events", "result"), RESULTS)
def test_line_of_a_set_says_its_result(events: Sequence[Event], result: str) -> None:
    """In the words of the summary of one set; first why it has failed as a whole."""
    found = lines([*of("web", events), end()])
    (row,) = (line for line in found if line.startswith("web   shop"))
    assert row == f"web   shop        deploy/web   {result}"


def test_refusal_of_a_guard_says_of_how_many_objects() -> None:
    """The guard itself words their number."""
    plan = refused_by(Guard.MORE_THAN_HALF)
    blocked = PruneBlocked(replace(TOO_MANY, message=f"no{WOULD_DELETE}6 objects"))
    found = lines([*of("web", [DRY, Planned(plan), blocked, Finished({}, 6, 0.1)]), end()])
    assert any("refused: the prune would delete 6 of 9 objects" in line for line in found)


def test_adoptions_of_all_sets_are_counted() -> None:
    """In the summary, as in the lines of the sets; how many change, if that is known of all."""
    adopts = (applied(Fate.ADOPT, "a"), applied(Fate.ADOPT, "b"))
    known = Plan((replace(adopts[0], alters=True), replace(adopts[1], alters=False)), ())
    for other, words in ((known, "4 to adopt, 2 changed"), (Plan(adopts, ()), "4 to adopt")):
        streams = (of("web", previewed(known)), of("api", previewed(other)))
        found = lines([*chain(*streams), end(updated=5)], "plan")
        assert found[-1] == f"2 sets: 1 to update, {words} in 4.2 s"


SAYING: list[Event] = [
    ObjectDone(DONE, Outcome.UPDATED),
    ObjectDone(DONE, Outcome.NOT_PRUNED),
    ObjectDone(DONE, Outcome.UNCHANGED, problem=OTHER),
    ObjectDiff(DONE, Fate.CHANGE, {"a": 1}, {"a": 2}),
    ObjectStuck(DONE, stuck("no node"), 2.0),
    ReadinessReported(DONE, stuck("no node"), 2.0, OTHER),
    PruneBlocked(TOO_MANY),
    WarningRaised(OTHER),
    ErrorRaised(OTHER),
]


@pytest.mark.parametrize("event", SAYING, ids=lambda one: type(one).__name__)
def test_set_with_something_to_say_has_a_block(event: Event) -> None:
    """A change, a failure, a refusal, a warning, an object that is stuck."""
    found = lines([*of("web", [WET, event, Finished({Outcome.UNCHANGED: 1}, 0, 0.1)]), end()])
    assert found[0].removeprefix("! ") == "web in namespace shop (deploy/web):"


@pytest.mark.parametrize(
    "event",
    [
        ObjectDone(DONE, Outcome.UNCHANGED, reason="it is there"),
        ObjectDiff(DONE, Fate.LEAVE, {}, {}),
        ReadinessReported(DONE, current("it is ready"), 0.0),
    ],
)
@pytest.mark.parametrize("form", ["text", "plan", "diff", "summary"])
def test_set_without_a_change_has_a_block_only_if_requested(form: str, event: Event) -> None:
    """Its line in the table says all."""
    events = [*of("web", [WET, event, Finished({Outcome.UNCHANGED: 1}, 0, 0.1)]), end(unchanged=1)]
    assert lines(events, form)[0].startswith("SET ")
    assert lines(events, form, verbose=True)[0] == "web in namespace shop (deploy/web):"


def test_one_set_has_the_same_form() -> None:
    """What reads the output of many sets reads that of one."""
    events = [SetsBegan(1), *of("web", previewed(SAME)), end(unchanged=1)]
    assert lines(events, "plan") == [
        "SET   NAMESPACE   INPUT        PLAN",
        "web   shop        deploy/web   1 unchanged",
        "1 set: 1 unchanged in 4.2 s",
    ]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (
            [WarningRaised(NOT_CONCERNED), end()],
            ["! 37 sets are not concerned by this change", "0 sets: nothing to do in 4.2 s"],
        ),
        ([ErrorRaised(OTHER), Finished({}, 2, 4.2)], ["! error: a.yaml:1: no kind. Each has one"]),
        ([], []),
    ],
)
def test_command_without_any_set_has_no_table(
    events: Sequence[Event], expected: Sequence[str]
) -> None:
    """Nothing is concerned, something is wrong with the command, or it was cut off at once."""
    assert [line for line in lines([SetsBegan(0), *events]) if "or not" not in line] == expected


def test_sets_that_run_side_by_side_are_not_mixed() -> None:
    """Each block is what the set would print alone; the set that ends first is first."""
    streams = {name: [*stream] for name, stream in STREAMS.items() if name != "deletion-run"}
    found = lines([*mixed(*(of(name, one) for name, one in streams.items())), end()], "diff")
    whole = "\n".join(found)
    for name, stream in streams.items():
        alone = [replace(one, name=name) if isinstance(one, Started) else one for one in stream]
        text = "\n".join(lines(alone, "diff", is_watched=False))
        assert f"{name} in namespace shop (deploy/{name}):\n{text}\n" in whole
    heads = [line.removeprefix("! ").split()[0] for line in found if line.endswith("):")]
    assert heads == sorted(streams, key=lambda name: len(streams[name]))


def test_stream_that_is_cut_off_says_which_sets_have_not_finished() -> None:
    """What they have done until then is there; how many objects it is is unknown."""
    begun = of("web", [WET, ObjectDone(DONE, Outcome.CREATED)])
    assert lines([SetsBegan(2), *begun, *of("api", [WET])]) == [
        "web in namespace shop (deploy/web):",
        "configmap/a created",
        "",
        "SET   NAMESPACE   INPUT        RESULT",
        "api   shop        deploy/api   not finished",
        "web   shop        deploy/web   not finished",
    ]


@pytest.mark.parametrize("end_at", range(24))
def test_every_prefix_of_a_stream_names_each_set_once(end_at: int) -> None:
    """Wherever it is cut off."""
    events = [SetsBegan(2), *mixed(of("web", ran(CHANGED)), of("api", ran(SAME))), end()][:end_at]
    known = {one.key.name for one in events if isinstance(one, SetEvent)}
    found = lines(events)
    assert sorted(line.split()[0] for line in found if " deploy/" in line) == sorted(known)


QUIET = [
    SetsBegan(3),
    WarningRaised(NOT_CONCERNED),
    WarningRaised(GONE),
    *of("web", [DRY, WarningRaised(OTHER), *[*previewed(CHANGED)][1:]]),
    *of("api", failed(Problem(ProblemKind.FORBIDDEN, "no"))),
    *of("late", failed(NOT_RUN)),
    end(created=1, problem=Problem(ProblemKind.RUN_FAILED, "2 sets failed")),
]


@pytest.mark.parametrize("form", ["text", "plan", "diff", "summary"])
def test_quiet_command_prints_errors_with_their_sets(form: str) -> None:
    """And nothing else."""
    assert lines(QUIET, form, out=discard, quiet=True) == [
        "! api in namespace shop (deploy/api):",
        "! error: no",
        "!",
        "! late in namespace shop (deploy/late):",
        "! error: the set back/api was not run: it depends on shop/web, which has failed",
        "! error: 2 sets failed",
    ]


def test_messages_beside_data_name_their_sets() -> None:
    """Where another format has standard output, and where nobody knows who reads it."""
    events = [*of("web", [WET, WarningRaised(GONE), Finished({Outcome.UNCHANGED: 1}, 0, 0.1)])]
    message = "! warning: the set shop/old is gone: old/a.yaml named it at HEAD~1"
    assert lines([*events, end()], out=discard) == [
        "! web in namespace shop (deploy/web):",
        message,
    ]
    found: list[str] = []
    assert lines([*events, end()], out=found.append, err=found.append, joined=False) == []
    assert sum("deploy/web):" in line for line in found) == 1
    assert lines([*events, *of("api", failed(OTHER)), end()], joined=False)[:8] == [
        "! web in namespace shop (deploy/web):",
        "web in namespace shop (deploy/web):",
        message,
        "web: 1 unchanged in 0.1 s",
        "!",
        "! api in namespace shop (deploy/api):",
        "! error: a.yaml:1: no kind. Each has one",
        "!   or not",
    ]


def test_cluster_is_named_once_on_a_terminal() -> None:
    """Before anything else; an apply shows it with its question."""
    started = replace(DRY, context="prod", server="https://k")
    ended = Finished({Outcome.UNCHANGED: 1}, 0, 0.1)
    events = [*of("web", [started, ended]), *of("api", [started, ended]), end(unchanged=2)]
    assert lines(events, "plan", 80)[0] == "! context prod (https://k)"
    assert sum("https://k" in line for line in lines(events, "plan", 80)) == 1
    for form, given in (("plan", {}), ("text", {"width": 80}), ("plan", {"quiet": True})):
        assert not any("https://k" in line for line in lines(events, form, **given))


def test_server_that_does_not_answer_is_reported_at_once() -> None:
    """With the set that waits for it; the set may not end before."""
    retry = RetryReported("w", "the webhook w does not answer", 2, 2.5, "timeout\nforged")
    events = [*of("web", [WET, retry]), *of("api", [retry]), retry]
    assert lines(events) == [
        "! shop/web: waiting: the webhook w does not answer, try 2 (2 s): timeout forged",
        "! shop/api: waiting: the webhook w does not answer, try 2 (2 s): timeout forged",
        "! waiting: the webhook w does not answer, try 2 (2 s): timeout forged",
        "",
        "SET   NAMESPACE   INPUT        RESULT",
        "api   shop        deploy/api   not finished",
        "web   shop        deploy/web   not finished",
    ]
    assert not any("waiting" in line for line in lines(events, quiet=True))


def test_text_of_one_run_needs_nothing_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it is for is imported with the first event of many sets."""
    monkeypatch.setitem(sys.modules, SetsPrinter.__module__, None)  # an import of it fails
    assert lines(ran(SAME)) == ["web: 1 unchanged in 1.2 s"]
    with pytest.raises(ImportError):
        lines([SetsBegan(1)])


def test_names_are_those_of_the_objects_of_all_sets() -> None:
    """Without headings and without a table."""
    done = [of(name, [ObjectDone(replace(DONE, name=name), Outcome.CREATED)]) for name in "ab"]
    assert lines([SetsBegan(2), *chain(*done), end(created=2)], "name") == [
        "configmap/a",
        "configmap/b",
    ]


@pytest.mark.parametrize("form", ["text", *TEXTS])
def test_texts_of_others_stay_texts(form: str) -> None:
    """In the name, the folder and the problems of a set: no command, no line of ours."""
    hostile = f"{EVIL}\nerror: forged"
    problem = Problem(ProblemKind.FORBIDDEN, hostile, hostile, hostile, hostile)
    retry = RetryReported(hostile, hostile, 1, 1.0, hostile)
    events: list[Event] = [WET, WarningRaised(problem), retry, ErrorRaised(problem)]
    ends: list[Event] = [Finished({}, 3, 0.1, problem)]
    key = SetKey(hostile, hostile)
    for width in (0, 80):
        many = [SetEvent(key, hostile, one) for one in (*events, *ends)]
        found = lines([*many, WarningRaised(problem), *ends], form, width)
        text = "\n".join(line.removeprefix("! ") for line in found)
        assert commands(text) == []
        assert all(line.isprintable() for line in found)
        assert "error: forged" not in (line.removeprefix("! ") for line in found)


def test_text_of_a_set_is_kept_until_it_has_ended() -> None:
    """Thousands of sets take the memory of those that run side by side."""
    made: list[weakref.ref[TextPrinter]] = []

    def make(target: OutputTarget) -> TextPrinter:
        one = TextPrinter(target)
        made.append(weakref.ref(one))
        return one

    many = SetsPrinter("text", make, OutputTarget(discard, discard))
    gc.disable()
    try:
        *first, last = of("web", ran(CHANGED))
        for event in (*first, *of("api", [WET])):
            many.show(event)
        assert [one() is None for one in made] == [False, False]
        many.show(last)
        assert [one() is None for one in made] == [True, False]
    finally:
        gc.enable()
