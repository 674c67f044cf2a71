"""The order of test files: what takes long comes first, so that nothing waits for it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

LONG_FILES = (
    "tests/controller/test_running.py",
    "tests/controller/drift/test_broken_watches.py",
    "tests/controller/replicas/test_replicas.py",
    "tests/controller/clusters/test_other_cluster.py",
    "tests/controller/test_stories.py",
    "tests/controller/test_quiet_status.py",
    "tests/controller/fetching/test_shared_sources.py",
    "tests/controller/fetching/faults/test_unwritable_cache.py",
    "tests/controller/test_secret_source_untold.py",
    "tests/controller/test_bundle_verbs.py",
    "tests/controller/drift/test_drift_policies.py",
    "tests/controller/test_approvals.py",
    "tests/controller/test_tenants_cannot_escape.py",
    "tests/controller/fetching/faults/test_killed_controller.py",
    "tests/controller/drift/test_contention_stories.py",
    "tests/controller/test_costly_input.py",
    "tests/controller/test_hand_over.py",
    "tests/controller/fetching/test_source_attacks.py",
    "tests/controller/fetching/faults/test_bad_sources.py",
    "tests/controller/test_limits.py",
    "tests/controller/test_removal.py",
    "tests/controller/test_cost.py",
    "tests/controller/test_failover.py",
    "tests/controller/test_waits.py",
    "tests/controller/replicas/test_killed_replicas.py",
    "tests/controller/fetching/test_git_bundles.py",
    "tests/controller/drift/test_drift_in_seconds.py",
    "tests/controller/drift/test_rewriting_policy.py",
    "tests/controller/fetching/faults/test_ended_fetches.py",
    "tests/controller/drift/test_failed_reverts.py",
    "tests/controller/test_search.py",
    "tests/controller/test_missing.py",
    "tests/controller/fetching/test_signed_bundles.py",
    "tests/controller/fetching/test_encrypted_bundles.py",
    "tests/controller/drift/test_contention_ends.py",
    "tests/controller/fetching/faults/test_killed_servers.py",
    "tests/controller/fetching/test_oci_bundles.py",
    "tests/controller/drift/test_counts_survive.py",
    "tests/controller/clusters/test_guide.py",
    "tests/controller/clusters/test_kubeconfig_untold.py",
    "tests/controller/test_monitoring.py",
    "tests/controller/drift/test_labelled_strangers.py",
    "tests/controller/test_uninstalled.py",
    "tests/packaging/test_wheel.py",
    "tests/localplane/test_command.py",
    "tests/localplane/test_plane.py",
    "tests/e2e/test_secrets_untold.py",
    "tests/e2e/plans/test_apply_plan.py",
    "tests/e2e/plans/test_interrupted_plan.py",
    "tests/e2e/test_confirmation.py",
    "tests/sweeps/test_kill_sweep.py",
    "tests/e2e/test_bad_input.py",
    "tests/sweeps/test_kill_plan_sweep.py",
    "tests/e2e/plans/test_plan_paths.py",
    "tests/e2e/test_formats.py",
    "tests/cluster/test_watch.py",
    "tests/e2e/test_real_sets.py",
    "tests/deploy/test_rights.py",
    "tests/cluster/transport/test_transport.py",
    "tests/sweeps/test_other_managers_sweep.py",
    "tests/sweeps/test_false_404_sweep.py",
    "tests/sweeps/test_races.py",
    "tests/deploy/test_image.py",
    "tests/e2e/test_terminal.py",
    "tests/e2e/test_screens.py",
    "tests/engine/inventory/test_shards.py",
    "tests/engine/steps/test_wait_end.py",
    "tests/engine/steps/test_wait.py",
    "tests/engine/test_shuffled_input.py",
    "tests/engine/inventory/test_lost_lock.py",
    "tests/engine/steps/test_stuck_deletion.py",
    "tests/engine/guards/test_guard_options.py",
    "tests/engine/steps/test_wait_faults.py",
    "tests/engine/failures/test_mass_prune.py",
    "tests/engine/failures/test_outside_changes.py",
    "tests/engine/failures/test_inventory_and_crash.py",
    "tests/engine/failures/test_faults.py",
    "tests/engine/steps/test_many_crds.py",
    "tests/engine/operations/test_move.py",
    "tests/engine/operations/test_check_incomplete.py",
    "tests/engine/failures/test_broken_api_service.py",
    "tests/engine/failures/test_random_changes.py",
)
"""The files that take longest, about by their time; see ``pytest --durations=0``.

The Bundle stories first: most of their time is waiting. Those of a folder are neighbours, so that a
process has the plane of one folder only, beside the plane of the run.
"""

_TURNS = {path: turn for turn, path in enumerate(LONG_FILES)}


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by the turn of their file; all other files keep their order behind those."""
    items.sort(key=lambda item: _TURNS.get(item.nodeid.partition("::")[0], len(_TURNS)))
