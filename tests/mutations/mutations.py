"""The guards to remove, one at a time, and the test that must fail without each.

A comment ``# guard: NAME`` marks the line of a guard: the line with the comment or, if the comment
is alone on its line, the next one. A replacement avoids names of the code, so that a rename causes
no false alarm.
"""

from __future__ import annotations

from dataclasses import dataclass

LINE = r".+"


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of the marked lines: in each, ``replacement`` replaces what ``pattern`` matches."""

    takes_out: str
    guards: tuple[str, ...]
    pattern: str
    replacement: str
    test: str


_APPROVAL = "tests/engine/guards/test_approval.py::"
_STEPS = "tests/engine/steps/"
_TRANSFER = "tests/engine/steps/test_field_transfer.py::"
_WITNESS = "tests/engine/guards/test_witness.py::"
_OTHER_OWNER = "tests/engine/guards/test_other_owner_stories.py::"
_INVENTORY = "tests/engine/inventory/"
_ON_CHANGE = "tests/engine/steps/test_recreate_on_change.py::"
_DRIFT = "tests/engine/operations/test_drift_reports.py::"
_FOREIGN = "tests/engine/inventory/test_foreign_metadata.py::"
_CASCADES = "tests/engine/guards/test_cascades.py::"
_CONFLICTS = f"{_STEPS}test_conflicts.py::"
_FAULTS = "tests/engine/failures/test_faults.py::"
_FALSE_ABSENCE = "tests/engine/failures/test_false_absence.py::"
_FIELDS = "tests/engine/checks/test_fields.py::"
_GUARDS = "tests/engine/guards/test_guards_hold.py::"
_HIDDEN = "tests/engine/guards/test_hidden_kinds.py::"
_HOOKS = "tests/engine/checks/test_chart_hooks.py::"
_OWNERSHIP = "tests/engine/guards/test_ownership.py::"
_LEASE = "tests/cluster/transport/test_lease.py::"
_INCOMPLETE = "tests/engine/failures/test_incomplete_kinds.py::"
_FOUND = f"{_STEPS}test_found_at_create.py::"
_OWN = "tests/engine/operations/test_own.py::"
_PARENT = "tests/engine/inventory/test_foreign_parent.py::"
_PLAN_FILE = "tests/e2e/plans/test_apply_plan.py::"
_WARNINGS = "tests/e2e/test_server_warnings.py::"
_REMAINING = "tests/planning/prune/test_remaining.py::"
_REQUIRED = "tests/planning/approval/test_required.py::"
_PRUNE_GUARDS = "tests/engine/guards/test_small_sets.py::"
_SET = "tests/engine/test_set.py::"
_UNSERVED = "tests/engine/failures/test_unserved_kinds.py::"
_PART = "tests/engine/test_part_of_a_set.py::"
_RIGHTS = "tests/engine/checks/test_permissions.py::"
_SWEEP = "tests/sweeps/test_kill_sweep.py::"

_MARKS = "tests/engine/guards/test_marks.py::"
_STAY = "tests/engine/guards/test_objects_that_stay.py::"
_FORGED = "tests/engine/guards/test_forged_records.py::"
_WAITING = "tests/engine/guards/test_waiting_plans.py::"

_CONTROLLERS = "tests/engine/checks/test_controllers_fields.py::"
_EMPTY = "tests/planning/ownership/test_empty_fields.py::"

MUTATIONS = (
    Mutation(
        "the proof on the object that its manifest has changed",
        ("digest-on-the-object",),
        r" and owns.+",
        "",
        f"{_ON_CHANGE}test_edited_inventory_recreates_nothing",
    ),
    Mutation(
        "the result of the create in a recreation",
        ("recreated-by-others",),
        r"if .+:",
        "if False:",
        f"{_ON_CHANGE}test_recreation_that_others_were_faster_than_is_not_reported_as_done",
    ),
    Mutation(
        "the check that no fields are in another API version",
        ("other-version",),
        r"return \(\)",
        "pass",
        f"{_DRIFT}test_drift_is_not_reverted_beside_fields_of_another_api_version",
    ),
    Mutation(
        "what does not become owned",
        ("own-no-defaults", "own-nothing-left-alone"),
        r"if .+:",
        'if mark := "":',
        f"{_OWN}test_objects_of_controllers_and_left_alone_ones_do_not_become_owned",
    ),
    Mutation(
        "the doubt about objects that cannot be read",
        ("unknown-is-not-gone",),
        r"elif .+:",
        "elif False:",
        "tests/e2e/test_several_sets.py::test_end_of_a_set_that_cannot_be_read_is_unknown",
    ),
    Mutation(
        "leaving the value of a Secret's mark out of the inventory",
        ("mark-of-a-secret",),
        r"= .+",
        "= False",
        "tests/planning/ownership/test_other_owner.py::test_mark_of_a_secret_is_recorded_without_its_value",
    ),
    Mutation(
        "the dry run before a removal",
        ("dry-run-before-removal",),
        r"= .+",
        "= False",
        f"{_STEPS}test_removals.py::test_nothing_is_removed_before_an_apply_that_conflicts",
    ),
    Mutation(
        "no force for drift where null contests a field of others",
        ("drift-beside-null",),
        r" and not [^)]+\)",
        ")",
        f"{_STEPS}test_removals.py::test_null_over_a_field_of_another_manager_is_a_conflict",
    ),
    Mutation(
        "masking copies of a Secret's values that are not sent",
        ("secret-unsent",),
        r", \*_texts\(manifest\)",
        "",
        f"{_STEPS}test_dry_run.py::test_ignore_rule_does_not_unmask_a_secret[secret:/data]",
    ),
    Mutation(
        "force for drift beside a real conflict",
        ("real-conflict",),
        r"return \(\)",
        "continue",
        f"{_DRIFT}test_drift_beside_a_conflict_is_not_reverted",
    ),
    Mutation(
        "the check that only planned drift is reverted",
        ("unplanned-revert",),
        r"if .+:",
        "if False:",
        f"{_DRIFT}test_drift_that_nobody_has_planned_to_revert_is_not",
    ),
    Mutation(
        "exit code 1 for unknown drift",
        ("unknown-drift", "unknown-drift-of-status"),
        r"drifted is not False",
        "drifted",
        f"{_DRIFT}test_drift_of_a_killed_run_is_unknown",
    ),
    Mutation(
        "removing with null only what nobody else owns",
        ("removes-only-unowned",),
        r"return .+",
        "return True",
        f"{_STEPS}test_removals.py::test_null_over_a_field_of_another_manager_is_a_conflict",
    ),
    Mutation(
        "sending an empty value that the set owns",
        ("own-empty-value",),
        r" or .+:",
        ":",
        f"{_EMPTY}test_empty_value_is_left_to_whoever_has_filled_it",
    ),
    Mutation(
        "the conflict about an empty value that a person has filled",
        ("edited-empty-value",),
        r"if .+:",
        "if True:",
        f"{_CONTROLLERS}test_empty_value_is_left_to_a_controller_and_not_to_a_person",
    ),
    Mutation(
        "leaving the API versions alone that are served",
        ("served-version",),
        r" and .+",
        "",
        f"{_EMPTY}test_only_versions_that_are_not_served_are_dead",
    ),
    Mutation(
        "the rule that nothing has left a set of which only a part is applied",
        ("part-of-input",),
        "if .*:",
        "if 0:",
        f"{_PART}test_named_objects_are_applied_and_nothing_is_pruned",
    ),
    Mutation(
        "the inventory after the deletion of a part of the set",
        ("whole-set",),
        " and not .*",
        "",
        f"{_PART}test_part_of_a_set_is_deleted_by_name",
    ),
    Mutation(
        "the labels of an object that is read again before its delete",
        ("selected-labels",),
        "if .*:",
        "if 0:",
        f"{_PART}test_object_that_loses_the_labels_before_its_delete_stays",
    ),
    Mutation(
        "the dependents of a part of the set",
        ("part-dependents",),
        LINE,
        "",
        f"{_PART}test_part_that_the_rest_depends_on_is_not_deleted",
    ),
    Mutation(
        "the names to which a rule of a role is limited",
        ("resource-names",),
        r"not self\.names",
        "True",
        f"{_RIGHTS}test_rule_with_names_allows_only_these",
    ),
    Mutation(
        "the server's answer about a right",
        ("access-review",),
        "if not .*}",
        "if 0}",
        f"{_RIGHTS}test_missing_rights_are_all_reported_before_the_first_write",
    ),
    Mutation(
        "the refusal of a plan with a forbidden write",
        ("missing-rights",),
        "= .*",
        "= False",
        f"{_RIGHTS}test_plan_with_a_forbidden_prune_writes_nothing",
    ),
    Mutation(
        "the write-ahead",
        ("write-ahead",),
        LINE,
        "",
        f"{_SWEEP}test_run_killed_at_each_request_recovers[create]",
    ),
    Mutation(
        "the check of fields before the first write",
        ("field-check",),
        r"= with_fields_checked\(.*?\)",
        "= stage.plan",
        f"{_FIELDS}test_typo_in_one_object_leaves_the_whole_set_unwritten",
    ),
    Mutation(
        "the wait for a delete's confirmation before its entry goes",
        ("delete-confirmed",),
        "in .*:",
        "in [*entries]:",
        f"{_GUARDS}test_entry_stays_until_its_delete_is_confirmed",
    ),
    Mutation(
        "the wait before a prune of what may be in use",
        ("ready-before-prune",),
        "= .*",
        "= False",
        f"{_STEPS}test_wait_before_prune.py::test_renamed_deployment_stays_until_the_new_one_is_ready",
    ),
    Mutation(
        "what holds back a later wave",
        ("wave-order",),
        "= .*",
        "= None",
        f"{_STEPS}test_wait_order.py::test_second_wave_is_held_back_by_an_object_that_was_not_applied",
    ),
    Mutation(
        "the refusal of an empty input",
        ("empty-input",),
        "if .* else",
        "if 0 else",
        f"{_SET}test_empty_input_is_refused",
    ),
    Mutation(
        "the UID of a delete",
        ("delete-uid",),
        LINE,
        "",
        f"{_GUARDS}test_delete_carries_uid_and_resource_version",
    ),
    Mutation(
        "the resourceVersion of a delete",
        ("delete-version",),
        LINE,
        "",
        f"{_FAULTS}test_object_changed_between_read_and_delete_is_decided_again",
    ),
    Mutation(
        "both preconditions of a delete",
        ("delete-uid", "delete-version"),
        LINE,
        "",
        f"{_FAULTS}test_object_recreated_between_read_and_delete_survives",
    ),
    Mutation(
        "create-only",
        ("create-only",),
        'resource_version="1"',
        "",
        f"{_FAULTS}test_object_created_between_read_and_apply_is_not_taken",
    ),
    Mutation(
        "the UID of an apply",
        ("apply-uid",),
        "= .*",
        '= ""',
        f"{_GUARDS}test_object_recreated_between_read_and_apply_is_not_written",
    ),
    Mutation(
        "the resourceVersion of a forced apply",
        ("forced-apply-version",),
        "= .*",
        '= ""',
        f"{_GUARDS}test_forced_apply_does_not_overwrite_a_newer_version",
    ),
    Mutation(
        "the UID of a write of the inventory",
        ("inventory-uid",),
        LINE,
        "pass",
        f"{_GUARDS}test_inventory_write_carries_uid_and_resource_version",
    ),
    Mutation(
        "the compare-and-swap of the inventory",
        ("inventory-version",),
        LINE,
        "pass",
        f"{_GUARDS}test_inventory_written_by_another_run_is_read_again",
    ),
    Mutation(
        "the compare-and-swap of the inventory's removal",
        ("delete-version",),
        LINE,
        "",
        f"{_GUARDS}test_inventory_written_by_another_run_is_not_removed",
    ),
    Mutation(
        "the second owner of a field that is left to others",
        ("second-owner",),
        "if .*:",
        "if False:",
        f"{_CONFLICTS}test_ignored_field_that_only_we_own_keeps_its_value",
    ),
    Mutation(
        "the field manager of an orphan",
        ("parting-entry",),
        "if .*:",
        "if False:",
        f"{_TRANSFER}test_next_applier_of_an_orphan_has_no_conflict",
    ),
    Mutation(
        "the entry of an object without managedFields",
        ("untracked-object",),
        "if .*:",
        "if False:",
        f"{_TRANSFER}test_second_apply_keeps_what_others_have_on_an_untracked_object",
    ),
    Mutation(
        "the recorded fields of an object that has lost our entry",
        ("restored-fields", "untracked-object"),
        "if .*:",
        "if False:",
        f"{_TRANSFER}test_cleared_managed_fields_cost_nobody_a_field",
    ),
    Mutation(
        "the witness on an object that is pruned",
        ("witness",),
        "return .*",
        "return None",
        f"{_WITNESS}test_edited_inventory_deletes_no_adopted_object",
    ),
    Mutation(
        "the witness on an object that is recreated",
        ("witness-recreate",),
        "= .*",
        "= False",
        f"{_WITNESS}test_edited_inventory_recreates_no_adopted_object",
    ),
    Mutation(
        "the API group in the name of an object",
        ("name-in-group",),
        r"\{.*\}",
        '{self.short, f"{self.kind.lower()}/{self.name}"}',
        "tests/engine/guards/test_names.py::test_name_without_a_group_means_one_kind",
    ),
    Mutation(
        "another tool's object that is pruned",
        ("other-owner",),
        "return .*",
        "return None",
        f"{_OTHER_OWNER}test_object_that_another_tool_runs_is_orphaned[apply-Helm]",
    ),
    Mutation(
        "another tool's object that is recreated",
        ("other-owner-recreate",),
        "= .*",
        '= ""',
        f"{_OTHER_OWNER}test_recreation_of_what_another_tool_runs_is_refused",
    ),
    Mutation(
        "the dry run before an object that may be skipped",
        ("dry-run-before-skip",),
        "if .*:",
        "if False:",
        f"{_CONFLICTS}test_object_skipped_at_adoption_is_not_listed",
    ),
    Mutation(
        "the mask of a Secret in a diff",
        ("secret-in-diff",),
        "lambda .*: True",
        "lambda *_: False",
        "tests/engine/steps/test_dry_run.py::test_diff_masks_a_secret_everywhere",
    ),
    Mutation(
        "the mask of the labels of a Secret that its manifest lacks",
        ("secret-label",),
        "return .*",
        "return False",
        "tests/engine/steps/test_dry_run.py::test_copies_in_a_secrets_metadata_are_not_shown",
    ),
    Mutation(
        "the mask of the annotations of a Secret that its manifest lacks",
        ("secret-annotation",),
        "return .*",
        "return False",
        "tests/engine/steps/test_dry_run.py::test_copies_in_a_secrets_metadata_are_not_shown",
    ),
    Mutation(
        "the mask of a Secret whose kind is mistyped",
        ("mistyped-secret",),
        " or .*",
        "",
        "tests/planning/fields/test_redact.py::test_mistyped_secret_is_masked_too",
    ),
    Mutation(
        "the doubt about a webhook's causes",
        ("forged-cause",),
        "= .*",
        "= True",
        "tests/cluster/transport/test_status_errors.py"
        "::test_forged_causes_of_a_webhook_show_only_paths[409]",
    ),
    Mutation(
        "the doubt about a webhook's conflict",
        ("webhook-conflict",),
        "if .*:",
        "if False:",
        "tests/engine/failures/test_webhook_refusals.py"
        "::test_conflict_of_a_webhook_is_no_race_of_a_delete",
    ),
    Mutation(
        "the look at the name that an object was created with",
        ("other-name",),
        "if .*:",
        "if True:",
        "tests/engine/failures/test_webhook_changes.py"
        "::test_renamed_object_is_refused_until_it_is_deleted",
    ),
    Mutation(
        "the mask of a Secret in a conflict",
        ("secret-in-conflict",),
        "if .*:",
        "if False:",
        f"{_CONFLICTS}test_secret_conflict_shows_neither_value",
    ),
    Mutation(
        "the other set's say about a forced apply",
        ("other-set",),
        "return .*",
        "return True",
        f"{_CONFLICTS}test_force_leaves_an_object_of_another_set_alone[True]",
    ),
    Mutation(
        "the refusal of another tool's ApplySet parent",
        ("other-tools-parent",),
        "if .*:",
        "if False:",
        f"{_PARENT}test_parent_of_kubectl_is_not_taken_over",
    ),
    Mutation(
        "the refusal of an ApplySet parent with another ID",
        ("other-parent-id",),
        "if .*:",
        "if False:",
        f"{_PARENT}test_parent_of_somebody_else_is_refused[another ID]",
    ),
    Mutation(
        "the refusal of an ApplySet parent of nobody knows which tool",
        ("nobodys-parent",),
        "if .*:",
        "if False:",
        f"{_PARENT}test_parent_without_a_tool_is_refused[bare]",
    ),
    Mutation(
        "the refusal of an inventory with wrong group-kinds",
        ("wrong-group-kinds",),
        "if .*:",
        "if False:",
        f"{_PARENT}test_wrong_group_kinds_are_refused_and_repaired[other kinds]",
    ),
    Mutation(
        "the refusal to adopt what an approved plan creates",
        ("reviewed-create",),
        "if .*:",
        "if False:",
        f"{_FOUND}test_rules_of_adoption_hold_for_an_object_found_at_its_create[reviewed]",
    ),
    Mutation(
        "the refusal to adopt what a person has created during the run",
        ("found-from-controller",),
        "if .*:",
        "if False:",
        f"{_FAULTS}test_object_created_between_read_and_apply_is_not_taken",
    ),
    Mutation(
        "the record of an adoption before its apply",
        ("found-recorded",),
        LINE,
        "",
        f"{_FOUND}test_adoption_at_the_create_is_recorded_before_its_apply",
    ),
    Mutation(
        "the decision that another tool's object is adopted, and not owned",
        ("own-nothing-of-others",),
        "return .*",
        "return True",
        f"{_OWN}test_object_of_another_tool_is_not_adopted_as_owned[another applier]",
    ),
    Mutation(
        "the question before an adoption as owned",
        ("own-asks",),
        " or step.becomes_owned",
        "",
        "tests/planning/approval/test_consent.py::test_adoption_as_owned_needs_consent",
    ),
    Mutation(
        "the refusal to own an object of somebody else",
        ("own-only-ours",),
        "= .*",
        "= None",
        f"{_OWN}test_object_of_somebody_else_does_not_become_owned[Helm]",
    ),
    Mutation(
        "the look at the annotation before an object is recorded as owned",
        ("witness-before-record",),
        "if .*:",
        "if True:",
        f"{_OWN}test_refused_annotation_is_not_recorded",
    ),
    Mutation(
        "the decision that a hook is left out",
        ("left-out-hook",),
        "return .*",
        "return False",
        f"{_HOOKS}test_delete_hook_of_a_rendered_chart_does_not_run",
    ),
    Mutation(
        "the entry of a hook that is left out",
        ("kept-hook",),
        "if .*:",
        "if True:",
        f"{_HOOKS}test_recorded_object_that_becomes_a_hook_is_kept",
    ),
    Mutation(
        "the errors for unknown annotations of a manifest",
        ("unknown-annotation",),
        r"\*.*\)",
        "*()",
        f"{_OWNERSHIP}test_mark_that_is_not_understood_keeps_the_object[false]",
    ),
    Mutation(
        "the look at a live object's annotations before its delete",
        ("mark-before-delete",),
        "= .*",
        '= ""',
        f"{_OWNERSHIP}test_mark_that_is_not_understood_keeps_the_object[mistyped]",
    ),
    Mutation(
        "the look at a live object's annotations before its recreation",
        ("mark-before-recreation",),
        "= .*",
        '= ""',
        f"{_STEPS}test_recreate.py::test_foreign_object_is_not_recreated[unclear]",
    ),
    Mutation(
        "the field manager as a condition of the advice to label an object",
        ("label-hint",),
        "= .*",
        "= None",
        "tests/engine/failures/test_inventory_and_crash.py"
        "::test_hand_edited_inventory_is_a_confused_deputy",
    ),
    Mutation(
        "the count of an object that two groups serve",
        ("object-once",),
        r"_each_once\((.*)\)",
        r"\1",
        "tests/engine/failures/test_deletes_the_wrong_thing.py"
        "::test_object_listed_under_two_groups_counts_once",
    ),
    Mutation(
        "the owner of a set",
        ("set-owner",),
        LINE,
        "pass",
        f"{_APPROVAL}test_set_belongs_to_its_bundle",
    ),
    Mutation(
        "the refusal of an input of another set",
        ("nothing-in-common",),
        "= .*",
        "= 0",
        f"{_PRUNE_GUARDS}test_unrelated_input_is_refused[apply]",
    ),
    Mutation(
        "the refusal of a prune of most of a set",
        ("more-than-half",),
        "if .* else",
        "if 0 else",
        f"{_PRUNE_GUARDS}test_prune_of_more_than_half_is_refused",
    ),
    Mutation(
        "the size of a set without what is being deleted",
        ("own-live-objects",),
        "return .*",
        "return True",
        f"{_PRUNE_GUARDS}test_dead_entries_do_not_hide_a_prune[being deleted]",
    ),
    Mutation(
        "the count of ServiceAccounts named default that somebody has filled",
        ("default-account",),
        "return .*",
        "return True",
        f"{_CASCADES}test_contents_made_by_hand_save_a_namespace[serviceaccount/default]",
    ),
    Mutation(
        "the count of EndpointSlices made by hand",
        ("endpoint-slices",),
        "return .*",
        "return True",
        f"{_CASCADES}test_contents_made_by_hand_save_a_namespace"
        "[endpointslice.discovery.k8s.io/by-hand]",
    ),
    Mutation(
        "the count of what an object of the set owns",
        ("owned-by-ours",),
        "= .*",
        "= {}",
        f"{_CASCADES}test_data_that_names_a_pruned_owner_saves_it[apply]",
    ),
    Mutation(
        "the count of what a deleted object owns in the set",
        ("owned-and-listed",),
        LINE,
        "pass",
        f"{_STAY}test_owner_of_an_object_that_is_not_selected_is_not_deleted",
    ),
    Mutation(
        "the rule that a listed object is not its owner's to delete",
        ("listed-stays",),
        "= .*",
        "= {*()}",
        f"{_STAY}test_namespace_of_an_object_that_stays_is_not_pruned_though_its_owner_is",
    ),
    Mutation(
        "the refusal to prune where an owner could not be read",
        ("unread-owners",),
        "= .*",
        "= certain",
        f"{_CASCADES}test_owner_that_cannot_be_read_is_refused",
    ),
    Mutation(
        "the refusal to recreate what owns other data",
        ("recreation-cascade",),
        "= .*",
        "= None",
        f"{_CASCADES}test_recreation_counts_what_its_object_owns[True]",
    ),
    Mutation(
        "the refusal to recreate at the apply what owns other data",
        ("late-recreation-cascade",),
        LINE,
        "pass",
        f"{_CASCADES}test_recreation_counts_what_its_object_owns[False]",
    ),
    Mutation(
        "the second run of a Job that somebody deleted before its TTL",
        ("before-ttl",),
        "return .*",
        "return False",
        f"{_STEPS}test_finished_jobs.py::test_job_deleted_before_its_ttl_is_created_again",
    ),
    Mutation(
        "the doubt about a Job that is gone without a recorded result",
        ("unknown-result",),
        "if .*:",
        "if 0:",
        f"{_STEPS}test_finished_jobs.py::test_wait_for_a_job_of_unknown_result_fails_at_once",
    ),
    Mutation(
        "the refusal of the apply with its prune",
        ("apply-anyway",),
        LINE,
        "and 0",
        "tests/engine/guards/test_apply_anyway.py::test_refused_prune_writes_nothing[apply]",
    ),
    Mutation(
        "the one prune that an approval is of",
        ("one-approval",),
        "= .* == ",
        "= ",
        f"{_APPROVAL}test_approval_covers_one_prune_only",
    ),
    Mutation(
        "the one set of deletions that an approval is of",
        ("deletions-approved",),
        "= .* == ",
        "= ",
        f"{_REQUIRED}test_approval_never_lets_a_newer_revision_run[Prune]",
    ),
    Mutation(
        "the one plan that an approval is of",
        ("whole-plan-approved",),
        "= .* == ",
        "= ",
        f"{_REQUIRED}test_approval_never_lets_a_newer_revision_run[Always]",
    ),
    Mutation(
        "the wait of deletions that are not approved",
        ("unapproved-deletions",),
        LINE,
        "",
        f"{_WAITING}test_unapproved_deletions_wait",
    ),
    Mutation(
        "the wait of a plan that is not approved",
        ("unapproved-plan",),
        "or .*",
        "",
        f"{_WAITING}test_unapproved_plan_writes_nothing",
    ),
    Mutation(
        "the refusal of an object that does not fit the plan file",
        ("plan-fits",),
        "ends_run",
        "is_done",
        f"{_PLAN_FILE}test_changed_cluster_is_refused[to prune, and changed]",
    ),
    Mutation(
        "the refusal of another plan than that of the file",
        ("same-plan",),
        LINE,
        "pass",
        f"{_PLAN_FILE}test_other_run_in_between_is_refused",
    ),
    Mutation(
        "the refusal of another Namespace than the plan creates",
        ("own-namespace",),
        "and .*",
        "",
        "tests/e2e/plans/test_new_namespaces.py::"
        "test_plan_killed_after_its_namespace_was_created_goes_on[with its Namespace]",
    ),
    Mutation(
        "the refusal of a plan file that is written in another form",
        ("plan-file-form",),
        "= .*",
        "= True",
        "tests/planning/approval/test_plan_file.py::"
        "test_plan_file_with_right_checksum_is_still_read_strictly[{'unknown': 1}]",
    ),
    Mutation(
        "the refusal to replace another file by a plan file",
        ("keep-other-files",),
        " and not .*",
        " and False:",
        "tests/sources/test_plan_files.py::test_other_file_is_not_replaced[manifest]",
    ),
    Mutation(
        "the proof that another set lists an object",
        ("listed-elsewhere",),
        "return .*",
        "return True",
        f"{_FORGED}test_foreign_label_does_not_let_an_object_escape[nobody's-apply]",
    ),
    Mutation(
        "the entry of an object that has our Apply entry",
        ("applied-stays-listed",),
        " and not applied",
        "",
        f"{_FORGED}test_edited_entry_does_not_let_an_object_escape[False-never confirmed]",
    ),
    Mutation(
        "the entry of an object that was restored with our label",
        ("restored-stays-listed",),
        "if labelled and",
        "if False and",
        "tests/engine/operations/test_repair.py::test_restored_object_stays_listed[adopted-False]",
    ),
    Mutation(
        "marks on what only the inventory names",
        ("unmarked-stays-unmarked",),
        "elif not applied:",
        "elif False:",
        f"{_FORGED}test_repair_marks_nothing_that_only_the_inventory_names",
    ),
    Mutation(
        "an adoption by a record alone",
        ("record-adopts-nothing",),
        "and not is_ours",
        "and False",
        f"{_FORGED}test_forged_entry_adopts_nothing",
    ),
    Mutation(
        "the entry of an object that only its mark says was orphaned",
        ("orphaned-without-record",),
        " and not applied",
        "",
        f"{_FORGED}test_edited_entry_does_not_let_an_object_escape[False-to be orphaned]",
    ),
    Mutation(
        "the refusal to remove a set with unlisted objects",
        ("unlisted-at-delete",),
        LINE,
        "pass",
        f"{_FORGED}test_entries_removed_by_hand_are_reported",
    ),
    Mutation(
        "the comparison of our Apply entry at an equal resourceVersion",
        ("own-apply-entry",),
        "if .*:",
        "if False:",
        f"{_FORGED}test_forged_resource_version_hides_no_drift",
    ),
    Mutation(
        "the comparison of values in a status",
        ("status-values",),
        "return .*",
        "return False",
        f"{_FORGED}test_values_are_compared_without_any_record",
    ),
    Mutation(
        "the comparison of values in a diff",
        ("diff-values",),
        " or values",
        "",
        f"{_FORGED}test_values_are_compared_without_any_record",
    ),
    Mutation(
        "the refusal of a recreation that nobody has approved",
        ("unplanned-recreation",),
        " or .*",
        "",
        f"{_WAITING}test_object_is_not_recreated_if_the_plan_does_not_say_so[Prune]",
    ),
    Mutation(
        "the end of a lease when the machine was paused",
        ("paused-machine",),
        "if .*:",
        "if False:",
        f"{_INVENTORY}test_expired_lease.py::"
        "test_nothing_is_written_after_a_pause_if_another_run_has_the_lock"
        "[the virtual machine was paused]",
    ),
    Mutation(
        "the leases of every write",
        ("write-lease",),
        ", leases=[^)]*",
        "",
        f"{_LEASE}test_write_is_not_sent_after_the_end_of_its_lease[apply]",
    ),
    Mutation(
        "the renewal before each try of a write",
        ("lease-before-try",),
        LINE,
        "pass",
        f"{_LEASE}test_write_is_not_sent_again_after_the_end_of_its_lease[apply]",
    ),
    Mutation(
        "the last look at the lease before a write is sent",
        ("late-write",),
        "if .*:",
        "if False:",
        f"{_LEASE}test_write_is_not_sent_after_the_end_of_its_lease[apply]",
    ),
    Mutation(
        "the longest lease that a run waits for",
        ("longest-lease",),
        "=.*",
        "=1e9,",
        "tests/cluster/inventory/test_codec.py::test_impossible_lease_is_the_longest_one[1e9]",
    ),
    Mutation(
        "what sees that a run has ended",
        ("seen-to-end",),
        LINE,
        "pass",
        f"{_INVENTORY}test_ended_run.py::test_own_run_is_not_taken_for_ended",
    ),
    Mutation(
        "the disbelief in the file of another user",
        ("own-lock-file",),
        "and .*",
        "",
        f"{_INVENTORY}test_ended_run.py::test_file_of_another_user_proves_nothing[False]",
    ),
    Mutation(
        "the disbelief in a file that is not in memory",
        ("memory-only",),
        "if .*:",
        "if False:",
        f"{_INVENTORY}test_ended_run.py::test_file_is_created_in_memory_only[False]",
    ),
    Mutation(
        "the proof that a first write is no copy",
        ("first-write-copied",),
        "not .*",
        "False",
        "tests/engine/operations/test_repair.py::"
        "test_copy_of_the_first_write_is_recognized[by hand]",
    ),
    Mutation(
        "the UID in the confirmation of a delete",
        ("deletion-names-uid",),
        r"bool\(.*?\)",
        "True",
        f"{_FALSE_ABSENCE}test_success_that_names_no_uid_confirms_no_deletion",
    ),
    Mutation(
        "the read after a 404",
        ("absence-confirmed",),
        LINE,
        "",
        f"{_FALSE_ABSENCE}test_webhook_answers_a_prune_with_404[missing]",
    ),
    Mutation(
        "the metadata of other tools in a write of the inventory",
        ("foreign-metadata-kept",),
        r"with_foreign_metadata\(.*?\)",
        "body",
        f"{_FOREIGN}test_metadata_of_other_tools_stays_and_stops_no_run",
    ),
    Mutation(
        "the comparison of applyprune's own data before an inventory is written again",
        ("inventory-own-data",),
        "if .*:",
        "if 0:",
        f"{_FOREIGN}test_change_of_applyprunes_own_data_still_ends_the_run",
    ),
    Mutation(
        "the refusal to write an inventory that is being deleted",
        ("terminating-inventory",),
        LINE,
        "",
        f"{_FOREIGN}test_finalizer_of_another_tool_holds_the_deleted_inventory",
    ),
    Mutation(
        "the refusal to use a shard that is being deleted",
        ("terminating-shard",),
        "if .*:",
        "if 0:",
        f"{_INVENTORY}test_shards.py::test_shard_that_another_tools_finalizer_holds_is_not_used_again",
    ),
    Mutation(
        "the order of waves in a prune",
        ("prune-wave-order",),
        r"found\.append\(.*\)",
        "pass",
        f"{_REMAINING}test_only_what_is_needed_waits[an earlier wave]",
    ),
    Mutation(
        "the wait of what a remaining object needs",
        ("needed-remains",),
        r"found\.append\(.*\)",
        "pass",
        f"{_REMAINING}test_only_what_is_needed_waits[its dependency]",
    ),
    Mutation(
        "the wait of a remaining object's owner",
        ("owner-remains",),
        r"found\.append\(.*\)",
        "pass",
        f"{_REMAINING}test_only_what_is_needed_waits[its owner]",
    ),
    Mutation(
        "the wait of a remaining object's Namespace",
        ("namespace-remains",),
        r"found\.append\(.*\)",
        "pass",
        f"{_REMAINING}test_only_what_is_needed_waits[its Namespace]",
    ),
    Mutation(
        "the wait of a remaining custom resource's CRD",
        ("crd-remains",),
        r"found\.append\(.*\)",
        "pass",
        f"{_REMAINING}test_only_what_is_needed_waits[its CRD]",
    ),
    Mutation(
        "the wait of a remaining custom resource's controller",
        ("controller-remains",),
        r"found\.append\(.*\)",
        "pass",
        f"{_REMAINING}test_only_what_is_needed_waits[a workload, of a custom resource]",
    ),
    Mutation(
        "the wait of what may remove a foreign finalizer",
        ("foreign-finalizer",),
        "= .*",
        "= False",
        f"{_STAY}test_controller_of_a_built_in_object_stays",
    ),
    Mutation(
        "the order of a controller and what it must clean up",
        ("controller-after-finalizer",),
        ", awaits",
        ", False",
        f"{_STAY}test_controller_of_a_built_in_object_stays",
    ),
    Mutation(
        "what an object needs that is left alone",
        ("left-alone-needs",),
        "return .*",
        "return []",
        f"{_STAY}test_need_of_a_left_alone_object_stays",
    ),
    Mutation(
        "what is reported of the fields that could not be read",
        ("unread-fields",),
        "return .*",
        'return step, None, ""',
        f"{_STAY}test_need_of_an_unreadable_object_stays",
    ),
    Mutation(
        "the stop of a prune if the fields of what remains are unknown",
        ("unread-remains",),
        r"self\._all = self\._all or",
        "_ =",
        f"{_REMAINING}test_everything_waits_if_what_is_needed_is_unknown_or_the_server_is_gone",
    ),
    Mutation(
        "the removal of values from a warning about a Secret",
        ("secret-in-warning",),
        r"without_values\(text\) if .*? else text",
        "text",
        f"{_WARNINGS}test_server_warning_is_in_every_format_once_with_file_and_line",
    ),
    Mutation(
        "the mask of the set's Secrets in other warnings of the server",
        ("secret-in-text",),
        r"text = .*",
        "pass",
        "tests/planning/checks/test_warning_text.py::"
        "test_values_of_the_sets_secrets_are_masked_in_every_warning",
    ),
    Mutation(
        "the refusal of an object that waits for one which does not change",
        ("excused-by-a-change",),
        "if .*:",
        "if 0:",
        "tests/engine/checks/test_needs_of_the_set.py::"
        "test_object_beyond_the_present_quota_is_not_checked",
    ),
    Mutation(
        "the removals that wait until all kinds are served",
        ("first-part-removes-nothing",),
        r"\(\) if .* else ",
        "",
        f"{_STEPS}test_wait_kinds.py::"
        "test_kind_that_is_not_served_in_time_fails_its_objects_and_prunes_nothing",
    ),
    Mutation(
        "the later waves that wait until all kinds are served",
        ("late-wave-order",),
        "member.wave.wave > first or ",
        "",
        f"{_STEPS}test_wait_kinds.py::"
        "test_objects_of_kinds_that_an_operator_installs_are_applied_in_the_same_run",
    ),
    Mutation(
        "the read after the deletion of an inventory",
        ("inventory-removed",),
        r"self\..*\)",
        "()",
        f"{_FALSE_ABSENCE}test_webhook_answers_the_deletion_of_the_inventory_with_404",
    ),
    Mutation(
        "the record of a CRD that is gone",
        ("kind-deleted",),
        "if .*:",
        "if 1:",
        f"{_UNSERVED}test_crd_that_was_not_recorded_keeps_its_objects_listed",
    ),
    Mutation(
        "the recorded plural",
        ("recorded-plural",),
        "if .*",
        "if 1",
        f"{_UNSERVED}test_kind_of_an_entry_is_edited[another kind]",
    ),
    Mutation(
        "the complete list of kinds for a search",
        ("search-needs-kinds",),
        "if .*:",
        "if 0:",
        f"{_INCOMPLETE}test_lost_inventory_is_not_rebuilt_by_an_incomplete_list[a check]",
    ),
    Mutation(
        "the second list of kinds",
        ("lists-agree",),
        "= .*",
        "= 1",
        f"{_INCOMPLETE}test_search_without_the_proof_needs_lists_that_agree",
    ),
    Mutation(
        "the ready server",
        ("server-ready",),
        "= .*",
        "= 1",
        f"{_INCOMPLETE}test_search_without_the_proof_needs_a_ready_server",
    ),
    Mutation(
        "the complete list of kinds for a count",
        ("count-needs-kinds",),
        "if .*:",
        "if 0:",
        f"{_INCOMPLETE}test_namespace_is_not_counted_by_an_incomplete_list",
    ),
    Mutation(
        "the refusal of a search without an inventory in which a list has failed",
        ("failed-search",),
        "if .*:",
        "if 0:",
        "tests/engine/failures/test_failed_lists.py::"
        "test_lost_inventory_is_not_taken_for_a_new_set[apply-configmaps]",
    ),
    Mutation(
        "the kinds that could not be listed before the end of a Bundle",
        ("finalizer-search",),
        "= .*",
        "= ()",
        "tests/controller/test_search.py::test_finalizer_stays_while_a_kind_cannot_be_listed",
    ),
    Mutation(
        "the unlisted kind that is not served",
        ("hidden-not-served",),
        "return .*",
        "return (), None",
        f"{_HIDDEN}test_kind_that_is_stored_and_not_served",
    ),
    Mutation(
        "the unlisted kinds in a new annotation",
        ("hidden-kinds-kept",),
        "inventory.*,",
        "(),",
        f"{_HIDDEN}test_runs_and_a_move_keep_the_annotation",
    ),
    Mutation(
        "the CRD of a kind that a repair forgets",
        ("repair-forgets",),
        "if .*:",
        "if 0:",
        f"{_HIDDEN}test_kind_that_is_stored_and_not_served",
    ),
    Mutation(
        "the read of a Bundle after a 404",
        ("bundle-absence",),
        LINE,
        "pass",
        "tests/controller/test_false_absence.py::test_webhook_answers_the_end_of_a_bundle_with_404",
    ),
    Mutation(
        "what leaves a disabled manifest out",
        ("disabled-manifest",),
        "if .*:",
        "if 0:",
        f"{_MARKS}test_manifest_that_is_left_out_changes_nothing",
    ),
    Mutation(
        "the error for an unknown value of another tool's mark",
        ("unknown-peer-value",),
        r"\*.*\)",
        "*()",
        f"{_MARKS}test_unknown_values_in_manifests_are_errors",
    ),
    Mutation(
        "what leaves a marked live object alone",
        ("left-alone",),
        ":= .*:",
        ':= "":',
        f"{_MARKS}test_marked_live_object_is_left_alone",
    ),
    Mutation(
        "what keeps a marked live object from a prune",
        ("left-alone-at-prune",),
        "= .*",
        '= ""',
        f"{_MARKS}test_marked_live_object_is_left_alone",
    ),
    Mutation(
        "what keeps a marked object listed if a part of the set is deleted",
        ("left-alone-in-part",),
        "if .*:",
        "if 1:",
        f"{_STAY}test_marked_object_is_left_alone_if_a_part_is_deleted",
    ),
    Mutation(
        "the recovery of an object that is left alone",
        ("left-alone-recovered",),
        " - unlisted",
        "",
        f"{_STAY}test_object_that_is_left_alone_is_recovered",
    ),
    Mutation(
        "what keeps a marked live object from a recreation",
        ("left-alone-recreate",),
        ":= .*:",
        ':= "":',
        f"{_MARKS}test_object_marked_after_the_plan_is_not_recreated",
    ),
    Mutation(
        "the second look before a recreation on change",
        ("late-recreation-on-change",),
        ":= .*:",
        ':= "":',
        f"{_MARKS}test_object_marked_after_the_plan_is_not_recreated",
    ),
    Mutation(
        "what refuses a recreation on change",
        ("recreation-on-change",),
        ":= .*:",
        ':= "":',
        f"{_MARKS}test_protected_object_is_not_recreated_on_change",
    ),
    Mutation(
        "the search for conflicts before a recreation on change",
        ("conflict-before-recreation",),
        r"cluster\.apply\(.*\)",
        "pass",
        f"{_MARKS}test_object_that_could_not_be_created_again_is_not_recreated_on_change",
    ),
    Mutation(
        "the dry run of a creation before its recreation on change",
        ("trial-before-recreation",),
        LINE,
        "",
        f"{_MARKS}test_object_that_could_not_be_created_again_is_not_recreated_on_change",
    ),
    Mutation(
        "what keeps an object out of the inventory that does not belong to the set",
        ("unlisted-object",),
        " and not .*",
        "",
        f"{_MARKS}test_object_that_must_exist_is_never_ours",
    ),
    Mutation(
        "what orphans an object that shall only exist",
        ("released-is-orphaned",),
        r"append\(.*\)",
        "append(entry)",
        f"{_MARKS}test_own_object_that_shall_only_exist_is_released",
    ),
    Mutation(
        "the refusal to adopt an object of another tool",
        ("owned-by-tool",),
        "if .*:",
        "if 0:",
        f"{_MARKS}test_object_of_another_tool_is_not_adopted",
    ),
)
