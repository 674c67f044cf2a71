"""Which make target runs a test: `test` what a change can break, `stories` and `lint` the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

NODE = "tests/node/stories/"
"""What takes real nodes: `make node` runs it."""
LINT = (
    "tests/benchmarks/",
    "tests/docs/",
    "tests/laws/",
    "tests/command/api/test_examples.py",
    "tests/mutations/",
    "tests/versions/",
)
"""What is proved about the sources themselves: laws, words, links, generated pages, examples.

Those of them that need a server are stories: `make lint` builds none.
"""
STORIES = (
    "tests/components/",
    "tests/controller/clusters/",
    "tests/controller/drift/test_broken_watches.py",
    "tests/controller/drift/test_contention_stories.py",
    "tests/controller/fetching/faults/",
    "tests/controller/fetching/test_remote_bundles.py",
    "tests/controller/fetching/test_shared_sources.py",
    "tests/controller/fetching/test_source_attacks.py",
    "tests/controller/leader/test_killed_replicas.py",
    "tests/controller/leader/test_takeover.py",
    "tests/controller/test_limits.py",
    "tests/controller/test_monitoring.py",
    "tests/controller/test_other_crds.py",
    "tests/controller/test_running.py",
    "tests/controller/test_secret_source_untold.py",
    "tests/controller/test_tenants_cannot_escape.py",
    "tests/deploy/",
    "tests/command/e2e/sources/",
    "tests/command/e2e/test_ipv6_only.py",
    "tests/command/e2e/test_killed.py",
    "tests/command/e2e/test_screens.py",
    "tests/command/e2e/test_secrets_untold.py",
    "tests/command/e2e/test_terminal.py",
    "tests/stories/failures/test_inventory_and_crash.py",
    "tests/stories/failures/test_random_changes.py",
    "tests/stories/many_sets/test_killed_commands.py",
    "tests/localplane/",
    "tests/node/test_isolation.py",
    "tests/packaging/",
    "tests/unit/sources/git_server/test_bad_servers.py",
    "tests/unit/sources/git_program/test_killed_fetch.py",
    "tests/unit/sources/oci_registry/test_bad_registries.py",
    "tests/sweeps/",
)
"""What several processes, hosts or clusters do: replicas, attacks, kills, races, fights, sources of
Bundles, screens, installs, recipes."""


def add_marks(items: list[pytest.Item], needs_a_server: Callable[[pytest.Item], bool]) -> None:
    """Mark each test that `make test` leaves out with its target."""
    for item in items:
        if item.nodeid.startswith(NODE):
            item.add_marker(pytest.mark.node)
        elif item.nodeid.startswith(LINT):
            item.add_marker(pytest.mark.story if needs_a_server(item) else pytest.mark.lint)
        elif item.nodeid.startswith(STORIES):
            item.add_marker(pytest.mark.story)
