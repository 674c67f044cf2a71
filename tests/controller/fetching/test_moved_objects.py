"""Objects that move between Bundles of one source: no UID changes, and one set has each.

Who may still take what leaves is a table in tests/controller/test_siblings.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.moves import begin, commit, follow, has_left, layout, own, uids
from tests.support.objects import config_map, text
from tests.support.remote_bundles import file_of, git_credentials, git_source
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from applyprune.localplane import Plane
    from tests.support.controller import Controller, Tenant
    from tests.support.git_servers import HttpsSite, Repository


@pytest.fixture
def repository(git: HttpsSite, tenant: Tenant, running: Controller) -> Repository:
    """A repository with two folders; the first one has what will move."""
    assert running.process.poll() is None
    git_credentials(tenant, git)
    made = git.repository()
    begin(made)
    return made


@pytest.mark.parametrize(
    "moves", [2, pytest.param(20, marks=pytest.mark.sweep)], ids=["few", "twenty"]
)
def test_objects_that_move_keep_their_uids(
    site: Plane, tenant: Tenant, git: HttpsSite, repository: Repository, moves: int
) -> None:
    """Both ways: the taker's name is after the giver's, and before it. A deletion takes them.

    Two that swap their folders move everything, and no dependency holds a move.

    Slow: each move is a run of both Bundles, after a check.
    """
    before = follow(tenant, git, "a", "b", retryInterval="5m")
    assert all(before.values())
    at = "a"
    tenant.patch("b", dependsOn=[{"name": "a"}])
    tenant.ready("b")
    for _ in range(moves):
        at = "b" if at == "a" else "a"
        commit(tenant, repository, layout(at), "a", "b")
        assert uids(tenant) == before
    tenant.patch("b", dependsOn=[])
    tenant.patch("a", source={"git": {"path": "b"}})
    tenant.patch("b", source={"git": {"path": "a"}})
    for name in ("a", "b"):
        tenant.ready(name)
    assert uids(tenant) == before
    # The folder has the other Bundle now.
    at, other = ("b", "a") if at == "a" else ("a", "b")
    has_left(site.kubeconfig, tenant, other, folder=at)
    tenant.delete(at)
    tenant.gone(at)
    assert set(uids(tenant).values()) == {""}
    assert tenant.exists(f"of-{at}") == [True]


def test_bundle_is_renamed(tenant: Tenant, git: HttpsSite, repository: Repository) -> None:
    """As by an outer Bundle: the new one comes, and the old one goes."""
    before = follow(tenant, git, "a")
    tenant.bundle("renamed", source=git_source(git, path="a"), interval="1h", wait=False)
    tenant.delete("a")
    tenant.gone("a")
    tenant.ready("renamed")
    assert uids(tenant) == before


def test_sibling_with_a_fault_holds_the_object(
    site: Plane, tenant: Tenant, git: HttpsSite, repository: Repository
) -> None:
    """Broken content names nothing; a refused run of another object takes it once mended.

    The giver says whom it waits for. What nobody names is pruned.

    Slow: each of four commits is checked, and applied by both Bundles.
    """
    before = follow(tenant, git, "a", "b")
    revision = f"main@sha1:{repository.commit({**layout('b'), 'b/broken.yaml': '['})}"
    tenant.failed("b", "InvalidSource")
    tenant.applied("a", revision)
    assert uids(tenant) == before
    assert tenant.condition("a")[2] == "17 objects applied; 4 offered to the Bundle b"
    faulty = text({**config_map("of-b"), "data": {"key": {"no": "text"}}})
    repository.commit({"b/broken.yaml": None, "b/own.yaml": faulty})
    tenant.failed("b", "ApplyFailed")
    assert uids(tenant) == before
    commit(tenant, repository, {"b/own.yaml": file_of(*own("b"))}, "b")
    has_left(site.kubeconfig, tenant, "a")
    assert uids(tenant) == before
    gone = {"b/moved.yaml": None, "a/own.yaml": file_of(*own("a"), value="2")}
    commit(tenant, repository, gone, "a", "b")
    eventually(lambda: set(uids(tenant).values()) == {""}, lambda: "the prune")


def test_bundle_of_another_account_takes_nothing(
    tenant: Tenant, git: HttpsSite, repository: Repository
) -> None:
    """Its rights are others: the object is pruned, and created again."""
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    tenant.account("second", rule)
    before = follow(tenant, git, "a")
    follow(tenant, git, "b", serviceAccountName="second", retryInterval="2s")
    commit(tenant, repository, layout("b"), "a", "b")
    assert set(before.values()).isdisjoint(uids(tenant).values())
