"""A controller that is killed while its fetches hang leaves no process and nothing partial."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from applyprune.controller.fetch import SourceCache
from tests.support.controller import controller
from tests.support.git_servers import git_site
from tests.support.hanging_fetches import FETCH_WORKERS, HangingFetches
from tests.support.namespaces import kill_all_inside, kill_inside
from tests.support.processes import family, is_running, name_of, working_in
from tests.support.remote_bundles import LOOPBACK, file_of, git_credentials, git_source
from tests.support.waiting import eventually

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.components import Components
    from tests.support.controller import Tenant

PROGRAMS = ("git ", "git-remote-https", "ssh ", "sleep 301", "sleep 302")


def of_applyprune(private: Path) -> list[Path]:
    """Return what a controller has in its folder for temporary files."""
    return sorted(private.glob("applyprune-*"))


def left_in(folder: Path) -> list[str]:
    """Return the names of private folders and of unfinished files in a cache folder."""
    # It is removed meanwhile, which rglob does not bear.
    names = [name for _, *found in os.walk(folder) for one in found for name in one]
    return [name for name in names if name.startswith(("applyprune-", "tmp_", "."))]


def check_whole(cache: SourceCache) -> None:
    """Fail unless each artifact is one that was written to its end; there must be one."""
    names = [path.name for path in cache.artifacts.iterdir()]
    assert names
    assert [name for name in names if not cache.read(name)] == []


@pytest.mark.parametrize(
    "kill",
    # Whoever is killed with all that it has started has nobody left who could fail to end.
    [kill_inside, pytest.param(kill_all_inside, marks=pytest.mark.sweep)],
    ids=["alone", "with all"],
)
def test_killed_controller_leaves_nothing_of_its_fetches(
    site: Plane,
    new_tenant: Callable[[], Tenant],
    components: Components,
    private: Path,
    tmp_path: Path,
    kill: Callable[[subprocess.Popen[str]], None],
) -> None:
    """Killed alone, or with all that it has started; the next one applies every Bundle."""
    tenant = new_tenant()
    arguments = ("lease=0", *LOOPBACK, f"fetch_workers={FETCH_WORKERS}")
    with (
        git_site(tmp_path / "git", login="me:hunter2") as git,
        HangingFetches(tmp_path, components, tenant) as fetches,
    ):
        git.repository().commit({"web/a.yaml": file_of("good")})
        git_credentials(tenant, git)
        tenant.bundle("good", source=git_source(git, path="web", interval="1h"), interval="1h")
        fetches.begin()
        within = ("env", f"TMPDIR={private}", f"PATH={fetches.search_path}")
        run = partial(controller, site.kubeconfig, within=within)
        with run(tmp_path / "killed", *arguments) as killed:
            tenant.reconciled("good", "killed")
            fetches.wait(killed.process.pid)
            started = family(killed.process.pid)
            names = [name_of(one) for one in started]
            assert [one for one in PROGRAMS if not any(one in name for name in names)] == []
            kill(killed.process)
            eventually(lambda: not working_in(private), lambda: "the end of what works for it")
            eventually(lambda: not any(map(is_running, started)), lambda: "the end of all")
        (folder,) = private.glob("applyprune-controller-*")
        check_whole(SourceCache(folder / "sources", 1 << 30))
        fetches.reset()
        fetches.release()
        with run(tmp_path / "last", *arguments):
            for name in fetches.hangs:
                tenant.ready(name)
                assert tenant.value(name) == "1"
            tenant.reconciled("good", "last")
            assert tenant.condition("good")[:2] == ("True", "Applied")
            eventually(lambda: len(of_applyprune(private)) == 1, lambda: "the removal of the rest")
            (own,) = of_applyprune(private)
            assert own != folder
            check_whole(SourceCache(own / "sources", 1 << 30))
            eventually(lambda: left_in(own) == [], lambda: "the removal of private files")
