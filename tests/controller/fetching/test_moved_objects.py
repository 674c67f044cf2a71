"""Objects that move between Bundles of one source: no UID changes, and one set has each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
def repository(git: HttpsSite, tenant: Tenant) -> Repository:
    """A repository with two folders; the first one has what will move."""
    git_credentials(tenant, git)
    made = git.repository()
    begin(made)
    return made


@pytest.mark.parametrize(
    "moves", [2, pytest.param(20, marks=pytest.mark.sweep)], ids=["few", "twenty"]
)
@pytest.mark.parametrize("retry", ["2s", "5m"])
def test_objects_that_move_keep_their_uids(
    site: Plane,
    tenant: Tenant,
    running: Controller,
    git: HttpsSite,
    repository: Repository,
    retry: str,
    moves: int,
) -> None:
    """Both ways: the taker's name is after the giver's, and before it. A deletion takes them."""
    before = follow(tenant, git, "a", "b", retryInterval=retry)
    assert all(before.values())
    at = "a"
    for _ in range(moves):
        at = "b" if at == "a" else "a"
        commit(tenant, repository, layout(at), "a", "b")
        assert uids(tenant) == before
    other = "b" if at == "a" else "a"
    has_left(site.kubeconfig, tenant, other)
    tenant.delete(at)
    tenant.gone(at)
    assert set(uids(tenant).values()) == {""}
    assert tenant.exists(f"of-{other}") == [True]


def test_bundle_is_renamed(
    tenant: Tenant, running: Controller, git: HttpsSite, repository: Repository
) -> None:
    """As by an outer Bundle: the new one comes, and the old one goes."""
    before = follow(tenant, git, "a")
    tenant.bundle("renamed", source=git_source(git, path="a"), interval="1h", wait=False)
    tenant.delete("a")
    tenant.gone("a")
    tenant.ready("renamed")
    assert uids(tenant) == before


def test_bundles_swap_their_folders(
    tenant: Tenant, running: Controller, git: HttpsSite, repository: Repository
) -> None:
    """Each wants what the other one has."""
    before = follow(tenant, git, "a", "b")
    others = [tenant.api.get(tenant.path("configmaps", f"of-{one}")) for one in ("a", "b")]
    tenant.patch("a", source={"git": {"path": "b"}})
    tenant.patch("b", source={"git": {"path": "a"}})
    for name in ("a", "b"):
        tenant.ready(name)
    assert uids(tenant) == before
    after = [tenant.api.get(tenant.path("configmaps", f"of-{one}")) for one in ("a", "b")]
    assert [one["metadata"]["uid"] for one in others] == [one["metadata"]["uid"] for one in after]


@pytest.mark.parametrize("depends", ["a", "b"])
def test_dependency_holds_no_move(
    tenant: Tenant, running: Controller, git: HttpsSite, repository: Repository, depends: str
) -> None:
    """Whichever of them waits for the other one."""
    before = follow(tenant, git, "a", "b")
    tenant.patch(depends, dependsOn=[{"name": "b" if depends == "a" else "a"}])
    tenant.ready(depends)
    commit(tenant, repository, layout("b"), "a", "b")
    assert uids(tenant) == before


@pytest.mark.parametrize("spec", [{"suspend": True}, {"approval": "Always"}], ids=str)
def test_sibling_that_takes_nothing_holds_nothing(
    tenant: Tenant,
    running: Controller,
    git: HttpsSite,
    repository: Repository,
    spec: dict[str, Any],
) -> None:
    """What has left is pruned at once."""
    follow(tenant, git, "a", "b")
    tenant.patch("b", **spec)
    tenant.reconciled("b", "seen")
    commit(tenant, repository, layout("b"), "a")
    eventually(lambda: set(uids(tenant).values()) == {""}, lambda: "the prune")


def test_object_that_nobody_takes_is_pruned(
    tenant: Tenant, running: Controller, git: HttpsSite, repository: Repository
) -> None:
    """Both folders have changed, and no sibling names it."""
    follow(tenant, git, "a", "b")
    gone = {**layout("b"), "b/moved.yaml": None, "b/own.yaml": file_of(*own("b"), value="2")}
    commit(tenant, repository, gone, "a", "b")
    eventually(lambda: set(uids(tenant).values()) == {""}, lambda: "the prune")


def test_sibling_that_cannot_be_read_holds_the_object(
    site: Plane, tenant: Tenant, running: Controller, git: HttpsSite, repository: Repository
) -> None:
    """Its new content is broken: what it names is not known. The giver says whom it waits for."""
    before = follow(tenant, git, "a", "b")
    revision = f"main@sha1:{repository.commit({**layout('b'), 'b/broken.yaml': '['})}"
    tenant.failed("b", "InvalidSource")
    tenant.applied("a", revision)
    assert uids(tenant) == before
    assert tenant.condition("a")[2] == "17 objects applied; 4 offered to the Bundle b"
    commit(tenant, repository, {"b/broken.yaml": None}, "b")
    has_left(site.kubeconfig, tenant, "a")
    assert uids(tenant) == before


def test_faulty_sibling_takes_the_object_when_it_is_repaired(
    tenant: Tenant, running: Controller, git: HttpsSite, repository: Repository
) -> None:
    """It names the object; its run is refused for another one."""
    before = follow(tenant, git, "a", "b")
    faulty = text({**config_map("of-b"), "data": {"key": {"no": "text"}}})
    revision = f"main@sha1:{repository.commit({**layout('b'), 'b/own.yaml': faulty})}"
    tenant.applied("a", revision)
    assert uids(tenant) == before
    commit(tenant, repository, {"b/own.yaml": file_of(*own("b"))}, "b")
    assert uids(tenant) == before


def test_bundle_of_another_account_takes_nothing(
    tenant: Tenant, running: Controller, git: HttpsSite, repository: Repository
) -> None:
    """Its rights are others: the object is pruned, and created again."""
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    tenant.account("second", rule)
    before = follow(tenant, git, "a")
    follow(tenant, git, "b", serviceAccountName="second", retryInterval="2s")
    commit(tenant, repository, layout("b"), "a", "b")
    assert set(before.values()).isdisjoint(uids(tenant).values())
