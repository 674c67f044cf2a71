"""What is taken out, one guard at a time, and the test that must not pass without it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of one place in the package: ``text`` stands in ``file`` exactly once."""

    takes_out: str
    file: str
    text: str
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
        "engine/run.py",
        ", **sent}",
        "}",
        f"{_SWEEP}test_killed_at_every_request[create]",
    ),
    Mutation(
        "the wait for a delete's confirmation before its entry goes",
        "engine/run.py",
        "for ref in remover.gone:",
        "for ref in [step.entry.ref for step in steps]:",
        f"{_GUARDS}test_an_entry_stays_until_its_delete_is_confirmed",
    ),
    Mutation(
        "the refusal of an empty input",
        "planning/budget.py",
        """*(["--allow-empty"] if empty else []),""",
        "",
        f"{_SET}test_an_empty_input_is_refused",
    ),
    Mutation(
        "the UID of a delete",
        "cluster/api_server.py",
        '"preconditions": {"uid": uid, "resourceVersion": resource_version}',
        '"preconditions": {"resourceVersion": resource_version}',
        f"{_GUARDS}test_every_delete_names_the_very_object_and_its_state",
    ),
    Mutation(
        "the resourceVersion of a delete",
        "cluster/api_server.py",
        '"preconditions": {"uid": uid, "resourceVersion": resource_version}',
        '"preconditions": {"uid": uid}',
        f"{_FAULTS}test_an_object_changed_between_read_and_delete_is_judged_again",
    ),
    Mutation(
        "both preconditions of a delete",
        "cluster/api_server.py",
        '"preconditions": {"uid": uid, "resourceVersion": resource_version}',
        '"preconditions": {}',
        f"{_FAULTS}test_an_object_recreated_between_read_and_delete_survives",
    ),
    Mutation(
        "create-only",
        "engine/applying.py",
        'guard: dict[str, str] = {"resourceVersion": "1"}',
        "guard: dict[str, str] = {}",
        f"{_FAULTS}test_an_object_created_between_read_and_apply_is_not_taken",
    ),
    Mutation(
        "the UID of an apply",
        "engine/applying.py",
        'guard = {"uid": step.live.uid}',
        "guard = {}",
        f"{_GUARDS}test_an_object_recreated_between_read_and_apply_is_not_written_to",
    ),
    Mutation(
        "the resourceVersion of a forced apply",
        "engine/applying.py",
        'guard["resourceVersion"] = step.live.resource_version',
        "pass",
        f"{_GUARDS}test_a_forced_apply_does_not_overwrite_what_it_was_not_judged_on",
    ),
    Mutation(
        "the UID of a write of the inventory",
        "cluster/inventory_codec.py",
        'metadata["uid"] = inventory.uid',
        "pass",
        f"{_GUARDS}test_every_write_of_an_inventory_that_exists_names_the_one_that_was_read",
    ),
    Mutation(
        "the compare-and-swap of the inventory",
        "cluster/inventory_codec.py",
        'metadata["resourceVersion"] = inventory.resource_version',
        "pass",
        f"{_GUARDS}"
        "test_an_inventory_that_another_run_has_written_is_read_again_and_not_written_over",
    ),
    Mutation(
        "the compare-and-swap of the inventory's removal",
        "cluster/inventory_store.py",
        '"resourceVersion": inventory.resource_version,',
        "",
        f"{_GUARDS}test_an_inventory_that_another_run_has_written_is_not_removed",
    ),
    Mutation(
        "the second owner of a field that is left to others",
        "engine/yielding.py",
        "live = self._co_own(one, live)",
        "pass",
        f"{_CONFLICTS}test_a_field_that_we_alone_own_stays_as_it_is_when_it_is_yielded",
    ),
    Mutation(
        "the dry run before an object that may be skipped",
        "engine/applying.py",
        "self._try_first(step)",
        "pass",
        f"{_CONFLICTS}test_what_was_skipped_at_its_adoption_is_not_listed",
    ),
    Mutation(
        "the mask of a Secret in a diff",
        "planning/masking.py",
        "lambda _: True",
        "lambda _: False",
        "tests/engine/test_comparing.py::test_a_secret_is_masked_everywhere",
    ),
    Mutation(
        "the mask of a Secret in a conflict",
        "planning/masking.py",
        "if secret:",
        "if False:",
        f"{_CONFLICTS}test_a_conflict_of_a_secret_shows_neither_value",
    ),
    Mutation(
        "the other set's say about a forced apply",
        "planning/conflicts.py",
        "return not any(str(manager).startswith(MANAGERS) for manager in appliers)",
        "return True",
        f"{_CONFLICTS}test_force_does_not_touch_an_object_of_another_set[True]",
    ),
    Mutation(
        "the owner of a set",
        "engine/run.py",
        "refuse_owned(self.inventory, request.owner, options, takes_over=request.takes_over)",
        "pass",
        f"{_APPROVAL}test_a_set_belongs_to_its_bundle",
    ),
    Mutation(
        "the one prune that an approval is of",
        "planning/removal.py",
        "if approval == options.approved:",
        "if options.approved:",
        f"{_APPROVAL}test_an_approval_is_of_one_prune_only",
    ),
)
