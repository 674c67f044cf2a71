"""What each format promises, of streams that are whole, cut off, or hostile."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from applyprune.model.events import (
    ApplySetListed,
    ErrorRaised,
    Event,
    Finished,
    ObjectDiff,
    ObjectDone,
    ObjectStatus,
    Planned,
    PruneBlocked,
    Readiness,
    Started,
    Status,
    WarningRaised,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.identity import Ref
from applyprune.model.inventory import InventoryEntry, Ownership
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import Consequence, ConsequenceKind, Plan, Removals, RemoveStep
from applyprune.model.problem import Origin, Problem, ProblemKind
from applyprune.model.reports import VersionReport
from applyprune.model.text import without_commands
from applyprune.output.markdown import block, code
from applyprune.output.pipelines import GitHubPrinter
from applyprune.output.printers import OutputTarget, RepositoryPaths, printer
from applyprune.values import replace
from tests.support.output.parsers import JUNIT, commands
from tests.support.output.printed import FILES, printed
from tests.support.output.schemas import complaints
from tests.support.output.stream import EVENTS, EVIL

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from applyprune.model.events import Event

STARTED = Started("run1", Mode.APPLY, "web", "home", DryRun.OFF)


@pytest.mark.parametrize("end", range(len(EVENTS) + 1))
def test_every_prefix_of_a_stream_is_valid(end: int) -> None:
    """Wherever it is cut off, each format is what it should be, and says that it is not whole."""
    events = EVENTS[:end]
    whole = end == len(EVENTS)
    lines = [json.loads(line) for line in printed("jsonl", events).splitlines()]
    assert lines[0]["schema"] == "applyprune.dev/output/v1"
    assert [found for line in lines for found in complaints("events", line)] == []
    assert len(lines) == end + 1
    document = json.loads(printed("json", events))
    assert complaints("document", document) == []
    assert (document["finished"], document["exitCode"]) == ((True, 3) if whole else (False, None))
    junit = printed("junit", events)
    assert [str(one) for one in JUNIT.iter_errors(junit)] == []
    assert ("did not finish" in junit) is not whole
    report = json.loads(printed("gitlab", events))
    assert ("applyprune/NotFinished" in {one["check_name"] for one in report}) is not whole


def test_version_document_is_small() -> None:
    """With nothing of a run in it; why no server answered is there as well."""
    versions = VersionReport("0.1.0", "3.11.7", "Linux x86_64", "v1.36.3")
    document = json.loads(printed("json", (versions, Finished({}, 0, 0.1))))
    assert complaints("version", document) == []
    assert document.keys() == {
        "schema", "version", "client", "python", "platform", "server", "errors"
    }  # fmt: skip
    assert (document["server"], document["errors"]) == ("v1.36.3", [])
    failed = ErrorRaised(Problem(ProblemKind.UNREACHABLE, "nothing answers", exit_code=7))
    events = (replace(versions, server=""), failed, Finished({}, 7, 0.1))
    document = json.loads(printed("json", events))
    assert complaints("version", document) == []
    assert (document["server"], document["errors"][0]["exitCode"]) == ("", 7)


def test_object_processed_twice_is_listed_twice() -> None:
    """The second word does not hide a failure."""
    ref = Ref("", "ConfigMap", "home", "a")
    failed = ObjectDone(ref, Outcome.FAILED, problem=Problem(ProblemKind.API_ERROR, "no"))
    document = json.loads(printed("json", (STARTED, failed, ObjectDone(ref, Outcome.NOT_PRUNED))))
    assert [one["outcome"] for one in document["objects"]] == ["failed", "not-pruned"]


def test_page_shows_deletions_first_and_fits_into_a_comment() -> None:
    """However many other objects change; at the end of a cut page a line says so."""
    refs = [Ref("", "ConfigMap", "home", f"n{number}") for number in range(300)]
    created = [ObjectDone(ref, Outcome.CREATED) for ref in refs]
    diffs = [ObjectDiff(ref, Fate.CREATE, None, {"k": "x" * 500}) for ref in refs]
    gone = Ref("", "Namespace", "", "gone")
    deleted: list[Event] = [
        ObjectDiff(gone, Fate.PRUNE, {"k": "v"}, None),
        ObjectDone(gone, Outcome.PRUNED),
    ]
    plan = Plan((), (), digest="sha256:p", deletions="sha256:d")
    dry = replace(STARTED, dry_run=DryRun.SERVER)
    events: list[Event] = [dry, Planned(plan), *diffs, *created, *deleted]
    events.append(Finished({}, 0, 0.1))
    text = printed("markdown", events)
    assert len(text) <= 65_000
    assert text.index("namespace/gone") < text.index("configmap/n0")
    assert text.index("<details><summary><code>namespace/gone") < text.index("<code>configmap/")
    assert "`--approve sha256:d`" in text
    assert "are left out" in text.splitlines()[-5]
    assert text.splitlines()[-1] == "To approve its deletions: `--approve sha256:d`."


GONE = Ref("", "ConfigMap", "home", "gone")
ONE = RemoveStep(InventoryEntry(GONE, "configmaps", "v1", None, "uid"), None, Fate.PRUNE)
REFUSAL = Problem(
    ProblemKind.PRUNE_REFUSED,
    "the prune was refused: it would delete 3 objects, including 2 cascaded deletions",
)
UNAPPROVED = Problem(ProblemKind.NOT_APPROVED, "the deletions are not approved")
NEEDS = "The merge needs an approval."


@pytest.mark.parametrize(
    ("refusal", "lifted", "dry", "expected"),
    [
        (
            REFUSAL,
            Removals((ONE,)),
            DryRun.SERVER,
            f"**Refused**: this would delete 3 objects, including 2 cascaded deletions. {NEEDS}",
        ),
        (
            replace(REFUSAL, message="the delete was refused"),
            Removals((ONE,)),
            DryRun.SERVER,
            f"**Refused**: this would delete 1 object. {NEEDS}",
        ),
        (
            replace(REFUSAL, message="the delete was refused"),
            Removals((ONE,), refusal=REFUSAL),
            DryRun.SERVER,
            "**Refused**: this would delete 1 object. No approval allows that: see the problems.",
        ),
        (
            replace(REFUSAL, message="the prune was refused"),
            Removals((ONE,)),
            DryRun.OFF,
            "**Refused**: this would delete 1 object. It needs an approval.",
        ),
        (
            UNAPPROVED,
            None,
            DryRun.SERVER,
            f"**Not approved**: this would delete 1 object. {NEEDS}",
        ),
    ],
)
def test_page_of_a_refused_plan_says_first_what_it_would_delete(
    refusal: Problem, lifted: Removals | None, dry: DryRun, expected: str
) -> None:
    plan = Plan((), (ONE,), refusal=refusal, if_approved=lifted, digest="sha256:p")
    done = ObjectDone(GONE, Outcome.NOT_PRUNED, reason="prune refused")
    end = Finished({Outcome.NOT_PRUNED: 1}, 6, 0.1)
    events = (replace(STARTED, dry_run=dry), Planned(plan), done, PruneBlocked(refusal), end)
    lines = printed("markdown", events).splitlines()
    assert lines[2] == expected
    assert lines[-1] == "The plan's digest is `sha256:p`."
    is_shown = "| 1 |" in lines and "| to prune (refused) |" in lines
    assert is_shown is (dry is not DryRun.OFF)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([ObjectDone(GONE, Outcome.PRUNED)], ["major"]),
        # A comparison says it twice.
        ([ObjectDiff(GONE, Fate.PRUNE, {}, None), ObjectDone(GONE, Outcome.PRUNED)], ["major"]),
        (
            [ObjectDiff(GONE, Fate.RECREATE, {}, {}), ObjectDone(GONE, Outcome.RECREATED)],
            ["major"],
        ),
        ([ObjectDiff(GONE, Fate.CHANGE, {}, {}), ObjectDone(GONE, Outcome.UPDATED)], ["info"]),
        (
            [
                Planned(
                    Plan((), (), consequences=(Consequence(ConsequenceKind.CASCADE, GONE, "x"),))
                )
            ],
            ["major"],
        ),
        (
            [
                Planned(
                    Plan((), (), consequences=(Consequence(ConsequenceKind.ROLLOUT, GONE, "x"),))
                )
            ],
            ["info"],
        ),
    ],
)
def test_gitlab_shows_a_deletion_as_major(events: list[Event], expected: list[str]) -> None:
    dry = replace(STARTED, dry_run=DryRun.SERVER)
    report = json.loads(printed("gitlab", [dry, *events, Finished({}, 0, 0.1)]))
    assert [one["severity"] for one in report] == expected


def test_unfinished_file_is_valid_and_says_so() -> None:
    """What a file holds while the run goes on is valid, and says that it is not the end."""
    for form in ("json", "junit", "gitlab"):
        drafts: list[str] = []
        printer(form, OutputTarget(out=drafts.append, err=drafts.append, draft=drafts.append))
        (draft,) = drafts
        if form == "junit":
            assert [str(one) for one in JUNIT.iter_errors(draft)] == []
            assert "did not finish" in draft
        elif form == "json":
            assert complaints("document", json.loads(draft)) == []
            assert json.loads(draft)["finished"] is False
        else:
            assert [one["severity"] for one in json.loads(draft)] == ["blocker"]


TAGS = {"failure": "@failures", "error": "@errors", "skipped": "@skipped"}


def test_junit_counts_match_its_content() -> None:
    """The numbers of a suite are those of its cases, and those of the whole are their sums."""
    text = printed("junit")
    found: Any = JUNIT.to_dict(text)
    suites = found["testsuite"]
    for suite in suites:
        cases = suite["testcase"]
        assert int(suite["@tests"]) == len(cases)
        for tag, attribute in TAGS.items():
            assert int(suite[attribute]) == sum(tag in one for one in cases)
    for attribute in ("@tests", "@failures", "@errors"):
        assert int(found[attribute]) == sum(int(suite[attribute]) for suite in suites)
    cases = suites[0]["testcase"]
    (failed,) = (one for one in cases if one["@name"] == "deployment.apps/web in namespace home")
    assert failed["@classname"] == "apps/Deployment"
    assert "manifests/web.yaml:12:3" in failed["failure"][0]["$"]


def test_github_commands_are_only_ours() -> None:
    """Read back by the runner's rules: kinds, places, and whole messages; none was smuggled in."""
    found = commands(printed("github"))
    assert {name for name, _, _ in found} == {"error", "warning", "notice"}
    (conflict,) = (one for one in found if one[1].get("title") == "deployment.apps/web failed")
    name, properties, message = conflict
    assert name == "error"
    assert properties["file"] == "deploy/manifests/web.yaml"
    assert (properties["line"], properties["col"]) == ("12", "3")
    assert "\n::warning::z\\r<script>" in message
    assert "100%, or leave it." in message
    # Standard input is no file.
    assert all("stdin" not in one.get("file", "") for _, one, _ in found)


HOSTILE = [
    EVIL,
    "::stop-commands::x",
    "\n::set-output name=a::b",
    "  ::add-mask::x",
    "\r::error::",
    "##[set-env name=PATH]x",
    "%0A::error::",
    "a,line=9::error::b",
    "\u2028::error::",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_text_is_never_a_command(text: str) -> None:
    """Wherever it stands: in a name, a reason, a message, a path."""
    events = (
        STARTED,
        ObjectDone(Ref("", text, text, text), Outcome.UPDATED, Origin(text), reason=text),
        ObjectDone(
            Ref("", "A", "b", text),
            Outcome.FAILED,
            Origin(text, 1, 2, 3),
            problem=Problem(ProblemKind.API_ERROR, text, text, text, text),
        ),
        ErrorRaised(Problem(ProblemKind.INPUT_ERROR, text, origin=Origin(text, 1, 4))),
    )
    found = commands(printed("github", events))
    assert [name for name, _, _ in found] == ["error", "error"]
    assert [one["line"] for _, one, _ in found] == ["2", "4"]


@given(st.text(st.characters(), max_size=30))
@settings(max_examples=60, deadline=None)
def test_text_breaks_no_format(text: str) -> None:
    """Halves of surrogates, controls, what XML has no place for: each parser takes it."""
    problem = Problem(
        ProblemKind.API_ERROR, text, text, text, text, origin=Origin(text, 1, 2), excerpt=text
    )
    events = (
        replace(STARTED, name=text),
        WarningRaised(problem),
        ObjectDone(Ref(text, text, text, text), Outcome.UPDATED, Origin(text), reason=text),
        ObjectDone(Ref("", "A", "b", text), Outcome.FAILED, problem=problem),
        ErrorRaised(problem),
        Finished({Outcome.FAILED: 1}, 3, 0.1, problem),
    )
    printed_as = {form: printed(form, events) for form in FILES}
    for one in printed_as.values():
        one.encode()
        assert all(char.isprintable() for char in one if char != "\n")
    assert json.loads(printed_as["json"])["errors"][0]["message"] == text
    assert json.loads(printed_as["jsonl"].splitlines()[1])["name"] == text
    assert [str(one) for one in JUNIT.iter_errors(printed_as["junit"])] == []
    assert [name for name, _, _ in commands(printed_as["github"])] == ["warning", "error", "error"]
    assert len(json.loads(printed_as["gitlab"])) == 3
    assert len(printed_as["name"].splitlines()) == 1


def test_summary_is_appended_to_what_is_there(tmp_path: Path) -> None:
    """A step of a job may have written one before; in a file, no line is a command."""
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    printed("github", summary=summary)
    before, appended = summary.read_text().split("\n", 1)
    assert before == "before"
    assert appended != printed("markdown")
    assert without_commands(appended) == printed("markdown")


def test_unwritable_summary_is_reported(tmp_path: Path) -> None:
    """Is warned of, and fails nothing."""
    text = printed("github", (STARTED, Finished({}, 0, 0.1)), tmp_path)
    ((name, _, message),) = commands(text)
    assert name == "warning"
    assert str(tmp_path) in message


def _changes(count: int, size: int) -> Sequence[Event]:
    # Of the size asked for, each of them, and different.
    return [
        ObjectDiff(Ref("", "ConfigMap", "a", f"n{one}"), Fate.CHANGE, {}, {"k": "x" * size})
        for one in range(count)
    ]


@pytest.mark.parametrize("before", [0, 1024 * 1024 - 3000, 1024 * 1024])
def test_summary_respects_the_size_limit(tmp_path: Path, before: int) -> None:
    """1 MiB with what was in the file; GitHub would take nothing of more."""
    summary = tmp_path / "summary.md"
    summary.write_text("x" * before)
    events = [STARTED, *_changes(150, 10_000), Finished({}, 1, 0.1)]
    printed("github", events, summary)
    text = summary.read_text()
    assert len(text.encode()) <= 1024 * 1024
    assert ("parts are left out" in text) is (before < 1024 * 1024)


def test_long_lists_are_cut_and_say_so(tmp_path: Path) -> None:
    """Two hundred rows are read by nobody; what is left out is counted."""
    summary = tmp_path / "summary.md"
    refs = [Ref("", "ConfigMap", "a", f"n{one}") for one in range(1000)]
    created = [ObjectDone(ref, Outcome.CREATED) for ref in refs]
    failed = [
        ObjectDone(
            replace(ref, kind="B"),
            Outcome.FAILED,
            problem=Problem(ProblemKind.API_ERROR, f"no: {number}"),
        )
        for number, ref in enumerate(refs)
    ]
    printed("github", [STARTED, *created, *failed, *_changes(1000, 10)], summary)
    text = summary.read_text()
    assert text.count("… and 800 more") == 3
    assert text.count("<details>") == 200


def test_list_that_does_not_fit_is_cut_after_a_row() -> None:
    """What would be deleted is shown, however long its names are, and what comes after it too."""
    refs = [Ref("", "ConfigMap", "a", f"{one:03}-{'n' * 249}") for one in range(200)]
    pruned = [ObjectDone(ref, Outcome.PRUNED, reason="no longer here " * 9) for ref in refs]
    errors = [ErrorRaised(Problem(ProblemKind.API_ERROR, f"{one} " * 200)) for one in range(150)]
    text = printed("markdown", [STARTED, *pruned, *errors, Finished({Outcome.PRUNED: 200}, 3, 0.1)])
    assert 32_000 < len(text.encode()) <= 64_000
    changes, _, problems = text.partition("#### Problems")
    for part, row, of in ((changes, "| `configmap/", 200), (problems, "- error\n", 150)):
        shown = part.count(row)
        assert 0 < shown < of
        assert f"\n\n… and {of - shown} more." in part
    assert problems.count("```") % 2 == 0


def test_page_names_the_context() -> None:
    """Two clusters may have the same set."""
    text = printed("markdown", [replace(STARTED, context="prod `1`"), Finished({}, 0, 0.1)])
    assert text.startswith("### applyprune apply: `web` in namespace `home` → `` prod `1` ``\n")


@pytest.mark.parametrize("text", ["a", "`", "``a`", "a`", "\n", "", "```\nx\n````", "~~~", EVIL])
def test_code_block_cannot_be_closed_from_within(text: str) -> None:
    """A span and a block are fenced by more backticks than stand in a row in them."""
    for made, inner in ((code(text), 1), (block(text), 3)):
        fence = re.match("`+", made)
        assert fence
        assert len(fence.group()) >= inner
        assert made.endswith(fence.group())
        within = made[fence.end() : -fence.end()]
        assert fence.group() not in within
    assert "\n" not in code(text)


def test_gitlab_fingerprints_are_stable() -> None:
    """Unique in a report, the same when a line moves, and of paths from the root."""
    report = json.loads(printed("gitlab"))
    prints = [one["fingerprint"] for one in report]
    assert len(set(prints)) == len(prints)
    for one in report:
        assert one.keys() == {
            "description", "check_name", "fingerprint", "severity", "location"
        }  # fmt: skip
        assert one["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert one["location"]["lines"]["begin"] >= 1

    def at(line: int) -> Any:
        error = ErrorRaised(
            Problem(ProblemKind.INPUT_ERROR, "no kind", origin=Origin("b.yaml", 1, line))
        )
        return json.loads(printed("gitlab", (error, error, Finished({}, 2, 0.1))))

    assert [one["fingerprint"] for one in at(3)] == [one["fingerprint"] for one in at(9)]
    assert [one["location"]["lines"]["begin"] for one in at(9)] == [9, 9]
    assert len({one["fingerprint"] for one in at(3)}) == 2


# Working directory, root, path as the user wrote it, and what it is from the root.
PATHS = [
    ("/repo", "/repo", "a.yaml", "a.yaml"),
    ("/repo/deploy", "/repo", "./x/../a.yaml", "deploy/a.yaml"),
    ("/repo/deploy", "/repo", "../a.yaml", "a.yaml"),
    ("/repo", "/repo", "/repo/x/a.yaml", "x/a.yaml"),
    ("/repo", "/repo", "/elsewhere/a.yaml", "/elsewhere/a.yaml"),
    ("/repo", "/repo", "../repository/a.yaml", "../repository/a.yaml"),
    ("/repo", "", "/repo/a.yaml", "a.yaml"),
    ("", "", "./a.yaml", "a.yaml"),
    ("/repo", "/repo", "<stdin>", ""),
    ("/repo", "/repo", "https://example.com/a.yaml", ""),
]


@pytest.mark.parametrize(("here", "root", "given", "told"), PATHS)
def test_paths_are_relative_to_the_repository(here: str, root: str, given: str, told: str) -> None:
    """Else no page of a commit can show them."""
    assert RepositoryPaths(here, root).path(Origin(given, 1, 1)) == told


def test_end_alone_reports_its_problem() -> None:
    """A wait that was in vain, of objects none of which has failed: no format keeps silent."""
    ref = Ref("", "Service", "home", "never")
    standing = ObjectStatus(ref, Readiness(Status.IN_PROGRESS, "no address"), Ownership.OWNED, 1.0)
    problem = Problem(ProblemKind.NOT_READY, "1 object is not ready", exit_code=5)
    events: tuple[Event, ...] = (
        standing,
        ApplySetListed("web", "home", 1, 0),
        standing,
        ApplySetListed("web", "home", 1, 0),
        Finished({}, 5, 1.0, problem),
    )
    document = json.loads(printed("json", events))
    assert document["set"] == {"name": "web", "namespace": "home"}
    assert (len(document["applySets"]), len(document["objects"])) == (1, 1)
    assert document["problem"]["kind"] == "NotReady"
    assert 'failures="1"' in printed("junit", events)
    assert [name for name, _, _ in commands(printed("github", events))] == ["error"]
    assert [one["severity"] for one in json.loads(printed("gitlab", events))] == ["critical"]


def test_skipped_object_is_no_failure() -> None:
    """Only the end says why the run has failed: a report that is green would be a lie."""
    ref = Ref("", "ConfigMap", "home", "late")
    waits = Problem(ProblemKind.RUN_FAILED, f"{ref.short} waits for deployment.apps/web")
    problem = Problem(ProblemKind.RUN_FAILED, "1 object failed", exit_code=3)
    events = (
        STARTED,
        ObjectDone(ref, Outcome.SKIPPED, problem=waits),
        Finished({Outcome.SKIPPED: 1}, 3, 1.0, problem),
    )
    junit = printed("junit", events)
    assert ('failures="1"' in junit, 'skipped="1"' in junit) == (True, True)
    assert [name for name, _, _ in commands(printed("github", events))] == ["warning", "error"]
    found = json.loads(printed("gitlab", events))
    assert [one["severity"] for one in found] == ["info", "critical"]
    assert "1 object failed" in printed("markdown", events)


def test_names_are_printed() -> None:
    """Once each; nothing of what failed or was passed over."""
    ref = Ref("apps", "Deployment", "home", "web")
    events: tuple[Event, ...] = (
        ObjectDone(ref, Outcome.UNCHANGED),
        ObjectDone(ref, Outcome.UNCHANGED),
        *(
            ObjectDone(replace(ref, name=str(one)), one)
            for one in (Outcome.FAILED, Outcome.SKIPPED, Outcome.NOT_PRUNED, Outcome.PRUNED)
        ),
        ObjectDiff(replace(ref, name="same"), Fate.LEAVE, {}, {}),
    )
    assert printed("name", events) == "deployment.apps/web\ndeployment.apps/pruned\n"


def test_longest_message_is_cut() -> None:
    """An annotation of a server's endless answer is still one that GitHub takes."""
    lines: list[str] = []
    one = GitHubPrinter(OutputTarget(out=lines.append, err=lines.append))
    one.show(ErrorRaised(Problem(ProblemKind.API_ERROR, "%" * 100_000)))
    assert len(lines[0]) < 64 * 1024
