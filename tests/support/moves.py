"""Objects that move between the folders of two Bundles, a and b, of one repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.objects import DEPLOYMENT, SECRET, SERVICE, config_map, text
from tests.support.remote_bundles import file_of, git_source
from tests.support.stage import Stage
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.controller import Tenant
    from tests.support.git_servers import HttpsSite, Repository

MOVED: dict[str, dict[str, Any]] = {
    "configmaps": config_map("x"),
    "secrets": SECRET,
    "services": SERVICE,
    "deployments": DEPLOYMENT,
}
GROUPS = {"deployments": "apps/v1"}


def uids(tenant: Tenant) -> dict[str, str]:
    """Return the UID of each moved object; empty for one that does not exist."""
    found = {}
    for plural, body in MOVED.items():
        live = tenant.api.find(
            tenant.path(plural, body["metadata"]["name"], GROUPS.get(plural, ""))
        )
        found[plural] = live["metadata"]["uid"] if live else ""
    return found


def lists(kubeconfig: Path, tenant: Tenant, name: str) -> dict[str, bool]:
    """Return which of what moves a set lists, by name, and whether it only offers it."""
    entries = Stage(kubeconfig, tenant.namespace, name=name).inventory().entries
    mine = {*own(name)}
    return {ref.name: bool(entry.offered) for ref, entry in entries.items() if ref.name not in mine}


def has_left(kubeconfig: Path, tenant: Tenant, name: str, folder: str = "") -> None:
    """Wait until a Bundle lists nothing of what moves, but all else of its folder."""
    inventory = Stage(kubeconfig, tenant.namespace, name=name).inventory
    eventually(
        lambda: {ref.name for ref in inventory().entries} == {*own(folder or name)},
        lambda: f"{name} lists {[ref.short for ref in inventory().entries]}",
    )


def own(name: str) -> list[str]:
    """Return the names of what never moves: so much that a prune of the rest is no mass prune."""
    return [f"of-{name}", *(f"{name}-{number}" for number in range(12))]


def layout(at: str, *, others: tuple[str, ...] = ("a", "b")) -> dict[str, str | bytes | None]:
    """Return the files of two folders, of which one has what moves."""
    files: dict[str, str | bytes | None] = {
        f"{name}/own.yaml": file_of(*own(name)) for name in others
    }
    files |= {f"{name}/moved.yaml": None for name in others}
    return {**files, f"{at}/moved.yaml": text(*MOVED.values())}


def begin(repository: Repository) -> None:
    """Commit both folders; the first one has what will move."""
    repository.commit({name: data for name, data in layout("a").items() if data is not None})


def follow(tenant: Tenant, git: HttpsSite, *names: str, **spec: Any) -> dict[str, str]:
    """Create Bundles of folders that have their names; return the UIDs when all are ready."""
    for name in names:
        source = git_source(git, path=name)
        tenant.bundle(name, source=source, **{"interval": "1h", "wait": False, **spec})
    for name in names:
        tenant.ready(name)
    return uids(tenant)


def commit(tenant: Tenant, repository: Repository, files: dict[str, Any], *names: str) -> None:
    """Commit, and wait until these Bundles have applied it."""
    revision = f"main@sha1:{repository.commit(files)}"
    for name in names:
        tenant.applied(name, revision)
