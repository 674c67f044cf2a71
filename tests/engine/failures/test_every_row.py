"""Every row of failures §1.1 to §1.3 has a test that is named after it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

SHARED = Path(__file__).parents[4] / "shared" / "failures.md"
_CRASH = "test_inventory_and_crash"
_WRONG = "test_deletes_the_wrong_thing"
_MASS = "test_mass_prune"

# The beginning of each row, and its test.
ROWS = {
    "Crash between apply and inventory write": (
        _CRASH,
        "test_crash_between_apply_and_inventory_write",
    ),
    "Write-ahead entry has no UID yet": (_CRASH, "test_write_ahead_entry_has_no_uid_yet"),
    "Apply error for a *new* object": (
        _CRASH,
        "test_apply_error_for_a_new_object_drops_it_from_the_inventory",
    ),
    "Failed prune forgotten": (_CRASH, "test_failed_prune_forgotten"),
    "Inventory deleted with the objects left; destroy": (
        _CRASH,
        "test_inventory_deleted_with_the_objects_left",
    ),
    "Inventory vanishes while running": (_CRASH, "test_inventory_vanishes_while_running"),
    "Lost update by a second runner": (_CRASH, "test_lost_update_by_a_second_runner"),
    "Crash lock never released": (_CRASH, "test_crash_lock_never_released"),
    "Too large": (_CRASH, "test_too_large"),
    "Key encoding collides": (_CRASH, "test_key_encoding_collides"),
    "Unreadable inventory read as empty": (_CRASH, "test_unreadable_inventory_read_as_empty"),
    "Hand-edited inventory": (_CRASH, "test_hand_edited_inventory_is_a_confused_deputy"),
    "Inventory's own namespace pruned": (_CRASH, "test_inventorys_own_namespace_pruned"),
    "Object moved between inventories": (_CRASH, "test_object_moved_between_inventories"),
    "Grows without bound": (_CRASH, "test_grows_without_bound"),
    "Same UID under two groups": (_WRONG, "test_same_uid_under_two_groups"),
    "Labels copied to children": (_WRONG, "test_labels_copied_to_children"),
    "KEP rule not implemented": (_WRONG, "test_kep_rule_not_implemented"),
    "Recreated object (new UID) deleted": (_WRONG, "test_recreated_object_new_uid_deleted"),
    "Wait-for-delete hangs": (
        _WRONG,
        "test_wait_for_delete_hangs_because_name_was_recreated",
    ),
    "Scope confusion": (_WRONG, "test_scope_confusion"),
    "Default namespace/context changed": (_WRONG, "test_default_namespace_or_context_changed"),
    "kustomize `namespace:` renames": (
        _WRONG,
        "test_kustomize_namespace_renames_namespace_objects",
    ),
    "Aggregated API ignores labelSelector": (
        _WRONG,
        "test_aggregated_api_ignores_label_selector",
    ),
    "CRD pruned": (_WRONG, "test_crd_pruned_takes_all_custom_resources"),
    '"force"/recreate on immutable field': (
        _WRONG,
        "test_force_or_recreate_on_an_immutable_field",
    ),
    "Children deleted before parents": (_WRONG, "test_children_deleted_before_parents"),
    "Default propagation orphans": (_WRONG, "test_default_propagation_orphans"),
    "Backup restore / cluster clone": (
        _WRONG,
        "test_backup_restore_or_cluster_clone_gives_every_object_a_new_uid",
    ),
    "Shared label across envs": (_WRONG, "test_shared_label_across_environments"),
    "Source/render returns empty": (_MASS, "test_source_returns_empty_with_success"),
    'Generator/list error read as "none"': (_MASS, "test_list_error_read_as_none"),
    "Link loss": (_MASS, "test_link_loss"),
    "Silent document loss in the parser": (_MASS, "test_silent_document_loss_in_the_parser"),
    "Prune after partial apply failure": (_MASS, "test_prune_after_partial_apply_failure"),
    "Last object in a ns/kind never pruned": (
        _MASS,
        "test_last_object_in_a_namespace_or_kind_never_pruned",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_failure_has_its_test(row: str) -> None:
    """The name is that of a function that pytest collects."""
    module, name = ROWS[row]
    found = getattr(importlib.import_module(f"tests.engine.failures.{module}"), name)
    assert callable(found)


@pytest.mark.skipif(not SHARED.exists(), reason="the catalogue is not beside this checkout")
def test_every_failure_of_the_catalogue_is_listed() -> None:
    """Each row of the three tables begins with exactly one of the names above."""
    text = SHARED.read_text(encoding="utf-8")
    part = text[text.index("### 1.1") : text.index("### 1.4")]
    rows = [
        line.split("|")[1].strip()
        for line in part.splitlines()
        if re.match(r"\| (?!Failure|-)", line)
    ]
    assert len(rows) == len(ROWS)
    for row in rows:
        assert len([name for name in ROWS if row.startswith(name)]) == 1, row
