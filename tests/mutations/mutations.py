"""What is taken out, one guard at a time, and the test that must not pass without it.

A comment ``# guard: NAME`` marks the line of a guard: the line that the comment ends, or, when it
is alone on its line, the next one. A replacement uses no name of the code if it can, so that to
rename something raises no false alarm.
"""

from __future__ import annotations

from dataclasses import dataclass

LINE = r".+"


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of the marked lines: in each, what ``pattern`` matches becomes ``replacement``."""

    takes_out: str
    guards: tuple[str, ...]
    pattern: str
    replacement: str
    test: str


_APPROVAL = "tests/engine/test_approval.py::"
_CONFLICTS = "tests/engine/test_conflicts.py::"
_FAULTS = "tests/engine/test_faults.py::"
_GUARDS = "tests/engine/test_guards_hold.py::"
_SET = "tests/engine/test_set.py::"
_SWEEP = "tests/sweeps/test_kill_sweep.py::"

MUTATIONS = (
    Mutation(
        "the write-ahead",
        ("write-ahead",),
        LINE,
        "",
        f"{_SWEEP}test_killed_at_every_request[create]",
    ),
    Mutation(
        "the wait for a delete's confirmation before its entry goes",
        ("delete-confirmed",),
        "in .*:",
        "in [*entries]:",
        f"{_GUARDS}test_an_entry_stays_until_its_delete_is_confirmed",
    ),
    Mutation(
        "the refusal of an empty input",
        ("empty-input",),
        LINE,
        "",
        f"{_SET}test_an_empty_input_is_refused",
    ),
    Mutation(
        "the UID of a delete",
        ("delete-uid",),
        LINE,
        "",
        f"{_GUARDS}test_every_delete_names_the_very_object_and_its_state",
    ),
    Mutation(
        "the resourceVersion of a delete",
        ("delete-version",),
        LINE,
        "",
        f"{_FAULTS}test_an_object_changed_between_read_and_delete_is_judged_again",
    ),
    Mutation(
        "both preconditions of a delete",
        ("delete-uid", "delete-version"),
        LINE,
        "",
        f"{_FAULTS}test_an_object_recreated_between_read_and_delete_survives",
    ),
    Mutation(
        "create-only",
        ("create-only",),
        "= .*",
        "= {}",
        f"{_FAULTS}test_an_object_created_between_read_and_apply_is_not_taken",
    ),
    Mutation(
        "the UID of an apply",
        ("apply-uid",),
        "= .*",
        "= {}",
        f"{_GUARDS}test_an_object_recreated_between_read_and_apply_is_not_written_to",
    ),
    Mutation(
        "the resourceVersion of a forced apply",
        ("forced-apply-version",),
        LINE,
        "pass",
        f"{_GUARDS}test_a_forced_apply_does_not_overwrite_what_it_was_not_judged_on",
    ),
    Mutation(
        "the UID of a write of the inventory",
        ("inventory-uid",),
        LINE,
        "pass",
        f"{_GUARDS}test_every_write_of_an_inventory_that_exists_names_the_one_that_was_read",
    ),
    Mutation(
        "the compare-and-swap of the inventory",
        ("inventory-version",),
        LINE,
        "pass",
        f"{_GUARDS}test_an_inventory_that_another_run_has_written_is_read_again_and_not_written_over",
    ),
    Mutation(
        "the compare-and-swap of the inventory's removal",
        ("inventory-removal-version",),
        LINE,
        "",
        f"{_GUARDS}test_an_inventory_that_another_run_has_written_is_not_removed",
    ),
    Mutation(
        "the second owner of a field that is left to others",
        ("second-owner",),
        LINE,
        "pass",
        f"{_CONFLICTS}test_a_field_that_we_alone_own_stays_as_it_is_when_it_is_yielded",
    ),
    Mutation(
        "the dry run before an object that may be skipped",
        ("dry-run-before-skip",),
        LINE,
        "pass",
        f"{_CONFLICTS}test_what_was_skipped_at_its_adoption_is_not_listed",
    ),
    Mutation(
        "the mask of a Secret in a diff",
        ("secret-in-diff",),
        "lambda .*: True",
        "lambda _: False",
        "tests/engine/test_comparing.py::test_a_secret_is_masked_everywhere",
    ),
    Mutation(
        "the mask of a Secret in a conflict",
        ("secret-in-conflict",),
        "if .*:",
        "if False:",
        f"{_CONFLICTS}test_a_conflict_of_a_secret_shows_neither_value",
    ),
    Mutation(
        "the other set's say about a forced apply",
        ("other-set",),
        "return .*",
        "return True",
        f"{_CONFLICTS}test_force_does_not_touch_an_object_of_another_set[True]",
    ),
    Mutation(
        "the owner of a set",
        ("set-owner",),
        LINE,
        "pass",
        f"{_APPROVAL}test_a_set_belongs_to_its_bundle",
    ),
    Mutation(
        "the one prune that an approval is of",
        ("one-approval",),
        "if .* == ",
        "if ",
        f"{_APPROVAL}test_an_approval_is_of_one_prune_only",
    ),
)
