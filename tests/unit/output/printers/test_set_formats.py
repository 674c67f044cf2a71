"""What each format promises of a command over many sets."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.events import (
    ErrorRaised,
    Finished,
    ObjectDiff,
    ObjectDone,
    Planned,
    SetEvent,
    WarningRaised,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import SetKey
from applyprune.model.options import DryRun
from applyprune.model.plan import Plan
from applyprune.model.problem import Origin, Problem, ProblemKind
from applyprune.model.text import without_commands
from applyprune.output.markdown import page
from applyprune.output.report import report_of
from tests.support.output.parsers import JUNIT, commands
from tests.support.output.printed import printed
from tests.support.output.schemas import complaints
from tests.support.output.set_streams import (
    API,
    APPLIED,
    DENIED,
    DOCS,
    NOT_RUN,
    PAY,
    PLANNED,
    WEB,
    mixed,
    of_set,
    ref,
    started,
)
from tests.support.output.stream import EVIL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from syrupy.assertion import SnapshotAssertion

    from applyprune.model.events import Event

STREAMS = {"plan": PLANNED, "apply": APPLIED}
GOLDENS = {
    "markdown": "markdown.md",
    "junit": "junit.xml",
    "github": "github.txt",
    "gitlab": "gitlab.json",
    "name": "name.txt",
}
NOTHING = Finished({}, 0, 0.1)
FAILED = Problem(ProblemKind.RUN_FAILED, "1 of the 2 sets failed: shop/api")


@pytest.mark.parametrize("form", GOLDENS)
@pytest.mark.parametrize("stream", STREAMS)
def test_formats_of_many_sets_match_their_golden_files(
    stream: str, form: str, golden: SnapshotAssertion
) -> None:
    assert printed(form, STREAMS[stream]) == golden(name=f"output/sets-{stream}.{GOLDENS[form]}")


@pytest.mark.parametrize("stream", STREAMS)
def test_every_prefix_of_a_stream_of_sets_is_valid(stream: str) -> None:
    """Wherever it is cut off: a set that has ended is not the end of the command."""
    whole = STREAMS[stream]
    for end in range(len(whole) + 1):
        events = whole[:end]
        lines = [json.loads(line) for line in printed("jsonl", events).splitlines()]
        assert [found for line in lines for found in complaints("events", line)] == []
        document = json.loads(printed("json", events))
        assert complaints("document", document) == []
        assert document["finished"] is (end == len(whole))
        junit = printed("junit", events)
        assert [str(one) for one in JUNIT.iter_errors(junit)] == []
        assert ("did not finish" in junit) is (end < len(whole))
        kinds = {one["check_name"] for one in json.loads(printed("gitlab", events))}
        assert ("applyprune/NotFinished" in kinds) is (end < len(whole))
        assert ("did not finish" in printed("markdown", events)) is (end < len(whole))


# JSON.


def test_event_of_a_set_names_it() -> None:
    """And one of the command does not."""
    *of_sets, last = map(json.loads, printed("jsonl", APPLIED).splitlines()[1:])
    assert {one["set"]["name"] for one in of_sets} == {"web", "api", "docs", "payments"}
    assert of_sets[0]["set"] == {"name": "web", "namespace": "shop", "input": "deploy/prod/web"}
    assert last["event"] == "finished"
    assert "set" not in last


def test_document_has_one_for_each_set() -> None:
    """The top has what is the same for all, and what is about the whole."""
    document = json.loads(printed("json", PLANNED))
    assert [one["set"]["name"] for one in document["sets"]] == ["web", "api", "docs", "payments"]
    assert document["sets"][1]["set"]["input"] == "deploy/prod/api"
    assert (document["mode"], document["dryRun"]) == ("apply", "server")
    assert (document["context"], document["server"]) == ("prod", "https://prod.example.com")
    assert [document[key] for key in ("set", "run", "plan")] == [None, None, None]
    assert (document["objects"], len(document["warnings"])) == ([], 1)
    assert (document["counts"]["updated"], document["exitCode"]) == (2, 6)
    refused = document["sets"][1]
    assert (refused["run"], refused["pruneBlocked"]["kind"]) == ("run-api", "PruneRefused")
    assert {key: refused[key] for key in ("finished", "exitCode", "sets")} == {
        "finished": True, "exitCode": 6, "sets": []
    }  # fmt: skip


def test_document_has_null_for_what_differs() -> None:
    """Two contexts; and what no set has begun with."""
    other = of_set(API, started(API), NOTHING)
    here = SetEvent(WEB, "web", started(WEB, DryRun.SERVER))
    document = json.loads(printed("json", [*other, here, Finished({}, 0, 0.1)]))
    assert (document["mode"], document["dryRun"], document["context"]) == ("apply", None, "prod")
    none = json.loads(printed("json", of_set(PAY, ErrorRaised(NOT_RUN))))
    assert [none[key] for key in ("mode", "dryRun", "context", "server")] == [None] * 4


def test_schema_demands_the_folder_of_a_set() -> None:
    document = json.loads(printed("json", PLANNED))
    del document["sets"][0]["set"]["input"]
    assert complaints("document", document) == ["$.sets[0].set: 'input' is a required property"]


# The page.


def sections(text: str) -> list[tuple[str, str]]:
    """Return the name and the text of the details of each set on a page."""
    found = re.split(
        r"^<details(?: open)?><summary><code>([^<]*)</code>(?: in| \()", text, flags=re.MULTILINE
    )
    return list(zip(found[1::2], found[2::2], strict=True))


def is_balanced(text: str) -> bool:
    """Return whether each block of a page that is opened is closed."""
    opened = len(re.findall("^<details", text, re.MULTILINE))
    closed = len(re.findall("^</details>$", text, re.MULTILINE))
    return opened == closed and text.count("```") % 2 == 0


TABLE = re.compile(
    r"^\| set \| namespace \| input \| plan \|\n\| ---.*\n((?:\| .*\n)+)(?:\n… and (\d+) more)?",
    re.MULTILINE,
)


def of_many(count: int, changes: int = 1, size: int = 10) -> Iterator[Event]:
    """Yield a plan of so many sets, each with so many changes; the last one is refused."""
    for number in range(count):
        key = SetKey("shop", f"s{number:03}")
        refs = [ref(key, str(one)) for one in range(changes)]
        yield from of_set(
            key,
            started(key, DryRun.SERVER),
            Planned(Plan((), (), digest=f"sha256:{number:064}")),
            *(ObjectDiff(one, Fate.CHANGE, {}, {"k": "x" * size}) for one in refs),
            *(ObjectDone(one, Outcome.UPDATED, reason="a field was changed") for one in refs),
            *([ErrorRaised(DENIED)] if number == count - 1 else []),
            Finished({Outcome.UPDATED: changes}, 0, 0.1),
        )
    yield Finished({Outcome.UPDATED: count * changes}, 3, 0.1, FAILED)


@pytest.mark.parametrize("room", [64_000, 16_000, 4_000, 1_000])
@pytest.mark.parametrize(("count", "changes", "size"), [(3, 2, 10), (40, 30, 300), (1000, 1, 10)])
def test_page_of_sets_fits_and_counts_what_does_not(
    count: int, changes: int, size: int, room: int
) -> None:
    """Each set has a line or is counted, and has its details or is counted."""
    text = page(report_of(of_many(count, changes, size)), room)
    assert len(text.encode()) <= room
    assert text.startswith(f"### What applyprune apply would do: {count} sets → `prod`\n")
    assert is_balanced(text)
    if table := TABLE.search(text):
        assert table[1].count("\n") + int(table[2] or 0) == count
    else:
        assert "… 1 parts are left out" in text
    found = sections(text)
    left_out = re.search(r"… The details of (\d+) sets? are left out", text)
    assert len(found) + (int(left_out[1]) if left_out else 0) == count
    if found:
        assert found[0][0] == f"s{count - 1:03}"


def test_page_does_not_fit_into_no_room() -> None:
    """Then there is none, rather than one that says nothing."""
    assert page(report_of(PLANNED), 100) == ""


def test_set_with_much_to_say_displaces_no_other() -> None:
    """Not the table, nor the details of others; and all details come before the first diff."""
    long = Problem(ProblemKind.INPUT_ERROR, "x " * 400)
    errors = [ErrorRaised(Problem(ProblemKind.INPUT_ERROR, f"{one} " * 400)) for one in range(200)]
    bad = of_set(API, ErrorRaised(long), *errors, Finished({}, 2, 0.1))
    *others, end = of_many(20, changes=3, size=30_000)
    text = page(report_of([*bad, *others, end]), 64_000)
    assert len(text.encode()) <= 64_000
    found = dict(sections(text))
    assert found.keys() == {"api", *(f"s{one:03}" for one in range(20))}
    assert all(one.count("would be updated |") == 3 for name, one in found.items() if name != "api")
    assert re.search(r"… and \d+ more\.", found["api"])
    assert text.count("\n| `") > 21
    assert is_balanced(text)


def test_set_without_a_change_has_only_its_line() -> None:
    """And so has one that was not run: the line says for which set."""
    assert [name for name, _ in sections(printed("markdown", PLANNED))] == [
        "api",
        "web",
        "payments",
    ]
    text = printed("markdown", APPLIED)
    assert [name for name, _ in sections(text)] == ["api", "docs", "web"]
    assert "| `not run: it depends on shop/api, which has failed` |" in text


def test_page_of_sets_does_not_depend_on_which_ends_first() -> None:
    """The same comment is written again by the next run."""
    streams = {key: [one for one in PLANNED if _key(one) == key] for key in (PAY, DOCS, API, WEB)}
    rest = [one for one in PLANNED if _key(one) is None]
    in_turn = [event for events in streams.values() for event in events]
    for form in ("markdown", "junit"):
        assert printed(form, [*in_turn, *rest]) == printed(form, PLANNED)


def _key(event: Event) -> SetKey | None:
    return event.key if isinstance(event, SetEvent) else None


@pytest.mark.parametrize(
    "text", [EVIL, "</details>", "a\n\n</details>\n\n# b", "```", "|x|", "@me"]
)
def test_text_of_a_set_leaves_its_block_on_no_page(text: str) -> None:
    """Whatever its folder is called, and whatever a server says."""
    problem = Problem(ProblemKind.API_ERROR, text, reason=text)
    evil = SetKey(text, text)
    events: list[Event] = [
        SetEvent(evil, text, started(evil)),
        SetEvent(evil, text, WarningRaised(problem)),
        SetEvent(evil, text, ErrorRaised(problem)),
        SetEvent(evil, text, Finished({}, 3, 0.1)),
        Finished({}, 3, 0.1, Problem(ProblemKind.RUN_FAILED, text)),
    ]
    page_text = printed("markdown", events)
    assert len(re.findall("^<details", page_text, re.MULTILINE)) == 1
    assert len(re.findall("^</details>", page_text, re.MULTILINE)) == 1
    assert [line for line in page_text.splitlines() if line.startswith("# ")] == []
    (row,) = (line for line in page_text.splitlines() if line.startswith("| ") and "failed" in line)
    assert row.count("|") == 5
    (summary,) = (line for line in page_text.splitlines() if "<summary>" in line)
    assert re.sub("<code>[^<]*</code>", "", summary) == (
        "<details open><summary> in namespace  (): </summary>"
    )
    assert {name for name, _, _ in commands(printed("github", events))} == {"warning", "error"}


# JUnit, GitHub and GitLab.


def suites(events: Sequence[Event]) -> dict[str, Any]:
    """Return each suite of a JUnit report by its name."""
    found: Any = JUNIT.to_dict(printed("junit", events))
    return {one["@name"]: one for one in found["testsuite"]}


def test_junit_has_a_suite_for_each_set() -> None:
    """One that was not run has an error; the command has one only if something is about it."""
    found = suites(APPLIED)
    assert list(found) == [
        "api in namespace shop",
        "docs in namespace shop",
        "payments in namespace pay",
        "web in namespace shop",
    ]
    assert found["payments in namespace pay"]["@errors"] == "1"
    assert suites(PLANNED)["applyprune"]["@tests"] == "1"
    broken = ErrorRaised(Problem(ProblemKind.UNREACHABLE, "nothing answers", exit_code=7))
    error = suites([*APPLIED[:-1], broken, Finished({}, 7, 0.1)])["applyprune"]
    assert (error["@tests"], error["@errors"]) == ("1", "1")


def test_end_of_a_command_over_sets_repeats_no_failure() -> None:
    """The sets that have failed say why; but an end without a failed set is not passed over."""
    for form in ("junit", "gitlab", "github"):
        assert "of the 4 sets failed" not in printed(form, APPLIED)
    events: list[Event] = [*of_set(WEB, started(WEB), NOTHING), Finished({}, 3, 0.1, FAILED)]
    for form in ("junit", "gitlab", "github", "markdown"):
        assert FAILED.message in printed(form, events)


def test_end_of_an_interrupted_command_says_which_sets_are_done() -> None:
    """Beside what each set says; those that had not begun have their lines alone."""
    cut = Problem(ProblemKind.INTERRUPTED, "interrupted", reason="nothing was changed")
    end = Problem(ProblemKind.INTERRUPTED, "interrupted", reason="1 set is done, 1 has not begun")
    late = of_set(API, ErrorRaised(cut), Finished({}, 130, 0.0, cut))
    events = [*of_set(WEB, started(WEB), NOTHING), *late, Finished({}, 130, 0.1, end)]
    for form in ("junit", "gitlab", "github", "markdown"):
        assert end.reason in printed(form, events)
    text = printed("markdown", events)
    assert "**1 set interrupted.**" in text
    assert "| `interrupted: nothing was changed` |" in text
    assert sections(text) == []


def test_annotations_name_the_set() -> None:
    """And a warning that asks for nothing is a notice."""
    found = {one["title"]: name for name, one, _ in commands(printed("github", APPLIED))}
    assert found == {
        "shop/docs": "error",
        "shop/api": "warning",
        "shop/api: configmap/api-a failed": "error",
        "pay/payments": "error",
    }
    last = commands(printed("github", PLANNED))[-1]
    assert last == (
        "notice", {"title": "applyprune"}, "37 sets are not concerned by this change"
    )  # fmt: skip


def test_log_has_a_line_for_the_end_of_each_set() -> None:
    ends = [line for line in printed("github", APPLIED).splitlines() if " s" in line[-20:]]
    assert "shop/web: 1 updated in 0.4 s" in ends
    assert "shop/api: 1 created, 1 failed in 0.3 s, exit code 3" in ends
    assert "pay/payments: nothing done in 0.0 s, exit code 3" in ends
    assert ends[-1] == "4 sets: 1 created, 1 updated, 1 failed in 0.5 s, exit code 3"


def test_summary_is_one_page_for_all_sets(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    printed("github", PLANNED, summary)
    assert without_commands(summary.read_text()) == printed("markdown", PLANNED)


def test_fingerprints_of_two_sets_differ() -> None:
    """For the same finding in a file that both read, and in whichever order they come."""
    same = Problem(ProblemKind.FORBIDDEN, "no rights", origin=Origin("base/a.yaml", 1, 7))
    one, two = (of_set(key, ErrorRaised(same), Finished({}, 3, 0.1)) for key in (WEB, API))

    def prints(events: Sequence[Event]) -> dict[str, str]:
        found = json.loads(printed("gitlab", [*events, Finished({}, 3, 0.1)]))
        return {each["description"]: each["fingerprint"] for each in found}

    found = prints([*one, *two])
    assert found.keys() == {"shop/web: no rights", "shop/api: no rights"}
    assert len(set(found.values())) == 2
    assert prints([*two, *one]) == found
    assert prints(list(mixed(two, one))) == found
