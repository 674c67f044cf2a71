"""The order of test files: what takes long comes first, so that nothing waits for it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

LONG_FILES = (
    "tests/e2e/test_secrets_untold.py",
    "tests/e2e/plans/test_apply_plan.py",
    "tests/controller/clusters/test_other_cluster.py",
    "tests/e2e/plans/test_interrupted_plan.py",
    "tests/e2e/test_confirmation.py",
    "tests/controller/test_costly_input.py",
    "tests/controller/replicas/test_replicas.py",
    "tests/sweeps/test_kill_sweep.py",
    "tests/controller/test_bundle_verbs.py",
    "tests/controller/test_quiet_status.py",
    "tests/e2e/test_bad_input.py",
    "tests/sweeps/test_kill_plan_sweep.py",
    "tests/e2e/plans/test_plan_paths.py",
    "tests/e2e/test_formats.py",
    "tests/engine/inventory/test_shards.py",
    "tests/cluster/test_watch.py",
    "tests/e2e/test_real_sets.py",
    "tests/engine/steps/test_wait_end.py",
    "tests/engine/steps/test_wait.py",
    "tests/engine/test_shuffled_input.py",
    "tests/engine/inventory/test_lost_lock.py",
    "tests/controller/drift/test_contention_stories.py",
    "tests/controller/drift/test_broken_watches.py",
    "tests/controller/test_running.py",
    "tests/controller/test_stories.py",
    "tests/controller/test_secret_source_untold.py",
    "tests/controller/test_tenants_cannot_escape.py",
    "tests/deploy/test_rights.py",
    "tests/engine/steps/test_stuck_deletion.py",
    "tests/engine/guards/test_guard_options.py",
    "tests/engine/steps/test_wait_faults.py",
    "tests/engine/failures/test_mass_prune.py",
    "tests/engine/failures/test_outside_changes.py",
    "tests/engine/failures/test_inventory_and_crash.py",
    "tests/cluster/transport/test_transport.py",
    "tests/engine/failures/test_faults.py",
    "tests/controller/test_hand_over.py",
    "tests/controller/drift/test_drift_policies.py",
    "tests/controller/drift/test_drift_in_seconds.py",
    "tests/controller/drift/test_counts_survive.py",
    "tests/controller/drift/test_labelled_strangers.py",
    "tests/sweeps/test_other_managers_sweep.py",
    "tests/engine/steps/test_many_crds.py",
    "tests/sweeps/test_false_404_sweep.py",
    "tests/sweeps/test_races.py",
    "tests/engine/operations/test_move.py",
    "tests/engine/operations/test_check_incomplete.py",
    "tests/engine/failures/test_broken_api_service.py",
    "tests/deploy/test_image.py",
    "tests/packaging/test_wheel.py",
    "tests/localplane/test_command.py",
    "tests/e2e/test_terminal.py",
    "tests/localplane/test_plane.py",
    "tests/engine/failures/test_random_changes.py",
    "tests/e2e/test_screens.py",
    "tests/controller/test_uninstalled.py",
)
"""The files that take longest, about by their time; see ``pytest --durations=0``."""

_TURNS = {path: turn for turn, path in enumerate(LONG_FILES)}


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by the turn of their file; all other files keep their order behind those."""
    items.sort(key=lambda item: _TURNS.get(item.nodeid.partition("::")[0], len(_TURNS)))
