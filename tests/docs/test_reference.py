"""The tables in the docs are those of the code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from applyprune import errors
from applyprune.cli.crash import BUG
from applyprune.cli.options import KEYS
from applyprune.controller.reasons import STALLED_REASONS, ConditionType
from applyprune.controller.spec import DeletionPolicy
from applyprune.model.fate import Outcome
from applyprune.model.plan import ConsequenceKind
from applyprune.output.printers import FORMATS
from applyprune.planning import applyset, desired, marks, order
from applyprune.planning.marks import OWNER_MARKS, PEER_MARKS, PURE_MARKS, Meaning
from tests.docs import config_schema
from tests.docs.generate import commands, generated, options
from tests.docs.pages import PAGES, ROOT, first_column, page

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_ERRORS = {0, 1, BUG}
"""Exit codes that no error has: done, differences found, our own mistake."""
OF_BUNDLES = {marks.ACCEPT_CLUSTER, marks.APPROVE, marks.ORPHAN, marks.RECONCILE_NOW}
EXIT_CODES = page("docs/reference/exit-codes.md")
ANNOTATIONS = page("docs/reference/annotations.md")
OUTPUT = page("docs/reference/output.md")
BUNDLE = page("docs/reference/bundle.md")


def test_schema_of_the_configuration_is_up_to_date() -> None:
    """It has the keys of the one table."""
    assert config_schema.FILE.read_text() == config_schema.config_schema(), "run `make docs`"


def test_generated_parts_are_up_to_date() -> None:
    """Otherwise: `make docs`. It takes seconds to make them, so no import of this file does."""
    outdated = [name for name, text in generated().items() if page(name).text != text]
    assert not outdated, "run `make docs`"


def test_reference_has_every_command() -> None:
    """Each under a heading of its own."""
    headings = set(
        re.findall(r"^## (applyprune .*)$", page("docs/reference/cli.md").text, re.MULTILINE)
    )
    assert headings == {name for name, _ in commands()}


def test_commands_and_options_exist() -> None:
    """On every page, wherever they are written as code."""
    named = dict(commands())
    flags = {
        flag
        for name, command in named.items()
        for rows in options(name, command).values()
        for row, _ in rows
        for flag in re.findall(r"--[a-z][a-z-]*", row)
    } | {"--help", "--help-all", "--version"}
    wrong = []
    for one in PAGES:
        if one.name in {"docs/words.md", "CHANGELOG.md"}:
            continue
        for code in re.findall(r"`([^`\n]+)`", one.prose):
            said = re.findall(r"(?<![\w-])--[a-z][a-z-]*", code)
            if code.startswith(("applyprune ", "-")):
                wrong += [f"{one.name}: {flag}" for flag in said if flag not in flags]
            if code.startswith("applyprune ") and not _is_command(code, named):
                wrong.append(f"{one.name}: {code}")
    assert wrong == []


def _is_command(code: str, named: Mapping[str, object]) -> bool:
    words = code.split()
    groups = {" ".join(name.split()[:2]) for name in named}
    return code.endswith(
        (" --version", "COMMAND --help", "COMMAND --help-all", "VERB --help")
    ) or any(" ".join(words[:count]) in {*named, *groups} for count in (2, 3))


def test_exit_codes_are_those_of_the_errors() -> None:
    """Every code that an error has is in the table, and no other."""
    codes = re.findall(r"^\| (\d[\d, ]*) \|", EXIT_CODES.text, re.MULTILINE)
    said = {int(code) for row in codes for code in row.split(",")}
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.ApplypruneError)
    ]
    interrupted = {errors.Interrupted(number).exit_code for number in (2, 15)}
    assert said == NO_ERRORS | interrupted | {one.exit_code for one in classes}


def test_annotations_of_a_manifest_are_listed() -> None:
    """Those that the planner reads, with one of cli-utils and one of Helm."""
    said = re.findall(
        r"`([a-z0-9./-]+)`", " ".join(first_column(ANNOTATIONS.section("On a manifest")))
    )
    assert set(said) == {
        order.DEPENDS_ON,
        desired.HOOK,
        *(key for key, known in marks._ANNOTATIONS.items() if known.in_manifests),
    } - {*OF_BUNDLES, applyset.MANIFEST_DIGEST, applyset.OWNED_BY}


def test_annotations_of_a_bundle_are_listed() -> None:
    """Those that the controller reads."""
    said = re.findall(
        r"`([a-z0-9./-]+)`", " ".join(first_column(ANNOTATIONS.section("On a Bundle")))
    )
    assert set(said) == OF_BUNDLES


def test_names_with_our_prefix_are_listed() -> None:
    """Whatever the package calls applyprune.dev/…, but for the API's own versions."""
    found = {
        name
        for path in (ROOT / "applyprune").rglob("*.py")
        for name in re.findall(r"applyprune\.dev/[a-z-]+\b(?![0-9/])", path.read_text("utf-8"))
    }
    # It only moves a resourceVersion, for the length of one request.
    assert {name for name in found if name not in ANNOTATIONS.text} == {applyset.WANTED}


def test_keep_annotations_are_listed() -> None:
    """The table of annotations is the one that the planner reads."""
    kept = ANNOTATIONS.section("Keeping an object")
    said = set(re.findall(r"`([a-z0-9./-]+: [a-z]+)`", kept))
    keeping = [mark for mark in PEER_MARKS if mark.meaning is Meaning.ORPHAN]
    assert {f"{marks.PRUNE}: {marks.DISABLED}"} | {
        f"{mark.key}: {mark.documented[0]}" for mark in keeping if mark.tool != "Argo CD"
    } == said
    argo = next(mark for mark in keeping if mark.tool == "Argo CD")
    assert all(f"`{one}`" in kept for one in (argo.key, *argo.documented))


def test_marks_of_other_tools_are_listed() -> None:
    """Each key and each documented value, below what applyprune does about it."""
    honoured, refused, not_read = (
        ANNOTATIONS.section(f"Marks of other tools that are {handled}")
        for handled in ("honoured", "refused", "not read")
    )
    for mark in PEER_MARKS:
        if mark.meaning is not Meaning.ORPHAN:
            there = not_read if mark.instead else honoured
            assert f"`{mark.key}" in there, mark
            assert all(value in there for value in mark.documented), mark
    assert all(f"`{mark.key}`" in refused for mark in OWNER_MARKS)


def test_marks_that_an_adoption_removes_are_listed() -> None:
    """Each in the column of its part, and no other."""
    section = ANNOTATIONS.section("Marks of other tools that an adoption removes")
    said = {
        (tool.strip(), part, text)
        for tool, *cells in re.findall(r"^\| (.+?) \| (.*?) ?\| (.*?) ?\|$", section, re.MULTILINE)
        for part, cell in zip(("annotations", "labels"), cells, strict=True)
        for text in re.findall(r"`([^`]+)`", cell)
    }
    assert said == {
        (mark.tool, mark.part, f"{mark.key}: {mark.value}" if mark.value else mark.key)
        for mark in PURE_MARKS
    }


def test_formats_are_listed() -> None:
    """Those of -o."""
    assert set(first_column(OUTPUT.section("Formats"))) == {f"`{name}`" for name in FORMATS}


def test_outcomes_are_listed() -> None:
    """Those of an object."""
    said = {cell.strip("`") for cell in first_column(OUTPUT.section("Outcomes"))}
    assert said == set(map(str, Outcome))


def test_consequences_are_listed() -> None:
    """Each kind, in the order of the code."""
    said = [cell.strip("`") for cell in first_column(OUTPUT.section("Consequences"))]
    assert said == [str(kind) for kind in ConsequenceKind]


def test_conditions_and_deletion_policies_are_listed() -> None:
    """Those of a Bundle, each in its table, and the reasons that stall one."""
    assert set(first_column(BUNDLE.section("Conditions"))) == {f"`{one}`" for one in ConditionType}
    assert set(first_column(BUNDLE.section("Deletion policies"))) == {
        f"`{one}`" for one in DeletionPolicy
    }
    (stalled,) = re.findall(r"^\| `Stalled` \| .*?: (.*) \|$", BUNDLE.text, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", stalled)) == set(map(str, STALLED_REASONS))


def test_keys_that_the_configuration_file_refuses_are_listed() -> None:
    """With the values of which this is true."""
    text = page("docs/guides/input.md").section("Configuration file")
    (never,) = re.findall(
        r"^- Options that disable a guard .* These are (.*)\.$", text, re.MULTILINE
    )
    named = dict(re.findall(r"`([a-z-]+)(?:: (\w+))?`", never))
    assert named.pop("ready-when") == ""
    values = {key: str(value).lower() for key, value in KEYS.unsafe.items()}
    assert named == dict.fromkeys(KEYS.guards, "") | values


def test_fields_of_a_bundle_have_a_meaning() -> None:
    """`kubectl explain` shows it too."""
    assert re.findall(r"^\| (`.*`) \|.*\|  \|$", BUNDLE.text, re.MULTILINE) == []
