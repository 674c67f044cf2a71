"""A controller that is killed while objects move: the next one finishes each move."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.controller import controller
from tests.support.moves import begin, commit, follow, has_left, layout, own, uids
from tests.support.remote_bundles import LOOPBACK, file_of, git_credentials
from tests.support.stage import Stage
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Tenant
    from tests.support.git_servers import HttpsSite


def test_killed_controller_loses_no_object_that_moves(
    site: Plane, git: HttpsSite, new_tenant: Callable[[], Tenant], tmp_path: Path
) -> None:
    """Killed as soon as a commit is there, or has moved something; the next one knows nothing."""
    tenant = new_tenant()
    git_credentials(tenant, git)
    repository = git.repository()
    begin(repository)
    before: dict[str, str] = {}
    for number, (giver, taker) in enumerate((("a", "b"), ("b", "a")) * 2):
        log = tmp_path / f"log-{number}"
        with controller(site.kubeconfig, log, "--no-lease", *LOOPBACK) as one:
            before = before or follow(tenant, git, "a", "b")
            for name in ("a", "b"):
                tenant.ready(name)
            repository.commit(layout(taker))
            if number % 2:
                moved_or_offered(Stage(site.kubeconfig, tenant.namespace, name=giver))
            one.kill()
        assert uids(tenant) == before
    with controller(site.kubeconfig, tmp_path / "last", "--no-lease", *LOOPBACK):
        commit(tenant, repository, {"b/own.yaml": file_of(*own("b"), value="2")}, "b")
        has_left(site.kubeconfig, tenant, giver)
        assert uids(tenant) == before


def moved_or_offered(giver: Stage) -> None:
    """Wait until a set offers something, or no longer has it."""

    def begun() -> bool:
        entries = giver.inventory().entries
        return {ref.name for ref in entries} == {*own(giver.name)} or any(
            one.offered for one in entries.values()
        )

    eventually(begun, lambda: "an offer")
