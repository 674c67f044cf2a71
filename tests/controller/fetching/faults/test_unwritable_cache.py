"""A cache that cannot be written is an error of the Bundles that need it, until it can be again."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.support.archives import packed
from tests.support.artifacts import served_artifact
from tests.support.controller import controller, served
from tests.support.encryption import encrypt, gnupg_home, openpgp_key
from tests.support.namespaces import PROVED, kill_inside
from tests.support.remote_bundles import (
    LOOPBACK,
    file_of,
    git_credentials,
    git_source,
    open_registry_source,
    secret,
    set_value,
)
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.tls_site import Answer, Site
from tests.support.tls_site import site as tls_site
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.components import Components
    from tests.support.controller import Tenant
    from tests.support.encryption import Key
    from tests.support.git_servers import HttpsSite

KEPT = ("git", "oci")
"""The Bundles whose content the cache has as it is applied."""
WRITTEN = ("build", "sealed")
"""Those that need to write for each reconcile: a build, and a ring of OpenPGP keys."""
SIZE = "64m"
LEFT = 32 * 2**20
"""Bytes that a killed controller leaves beside its cache, as of a fetch that was killed."""
LARGE = 2**20
"""Bytes beside the manifests of each source: more than what becomes free on a disk that is full."""


@pytest.fixture
def web() -> Iterator[Site]:
    """A registry of what a test publishes."""
    with tls_site(lambda _: Answer(404)) as one:
        yield one


def publish(git: HttpsSite, web: Site, value: str, **more: bytes) -> None:
    """Give the objects of all Bundles a value; ``more`` are files of Bundles in Git."""
    manifest = file_of("oci", value=value).encode()
    layer = packed({"a.yaml": manifest, "notes.txt": os.urandom(LARGE)})
    web.answers |= served_artifact("shop/web", layer)
    files: dict[str, str | bytes | None] = {
        "build/kustomization.yaml": "resources: [a.yaml]\n",
        **{f"{name}/a.yaml": file_of(name, value=value) for name in ("git", "build")},
        **{f"{name}/a.yaml": data for name, data in more.items()},
        **{f"{name}/notes.txt": os.urandom(LARGE) for name in ("git", "build", *more)},
    }
    git.repository_of("web").commit(files)


def follow(tenant: Tenant, git: HttpsSite, web: Site) -> None:
    """Apply the Bundles, but the sealed one."""
    git_credentials(tenant, git)
    for name in ("git", "build"):
        tenant.bundle(name, source=git_source(git, path=name), interval="1h")
    tenant.bundle("oci", source=open_registry_source(tenant, web), interval="1h")


def applied(tenant: Tenant, value: str, *names: str) -> None:
    """Wait until the objects of Bundles have a value, and these are ready."""

    def has_value(name: str) -> bool:
        return tenant.exists(name) == [True] and tenant.value(name) == value

    for name in names:
        eventually(partial(has_value, name), partial("{} with the value {}".format, name, value))
        tenant.ready(name)


def unusable(tenant: Tenant, value: str, reconciled: str) -> None:
    """Fail unless all Bundles say what is wrong, prune nothing, and revert what they can.

    Who asks for a check is told of its failure at once, and not when the source is silent.
    """
    for name in (*KEPT, *WRITTEN):
        tenant.annotate(name, reconcile_now=f"new, {reconciled}")
    for name in (*KEPT, *WRITTEN):
        tenant.failed(name, "FetchFailed")
        assert tenant.value(name) == value
    for name in KEPT:
        assert tenant.condition(name)[2].endswith("stays applied")
        set_value(tenant, name, "theirs")
        eventually(lambda: tenant.value(name) == value, lambda: "the drift is reverted")  # noqa: B023
    for name in WRITTEN:
        tenant.reconciled(name, reconciled)
        assert tenant.condition(name)[:2] == ("False", "FetchFailed")


@pytest.fixture
def key(tmp_path: Path) -> Iterator[tuple[Path, Key]]:
    """An OpenPGP key, and the home of gpg that has it."""
    with gnupg_home(tmp_path / "gnupg") as home:
        yield home, openpgp_key(home, "future-default")


@pytest.fixture(params=PROVED)
def disk(request: pytest.FixtureRequest, private: Path) -> Iterator[SmallDisk]:
    """The only disk that a controller can write."""
    with small_disk(private, SIZE, proof=request.param) as one:
        yield one


def test_full_or_read_only_disk_is_an_error_of_the_bundle(
    site: Plane,
    new_tenant: Callable[[], Tenant],
    components: Components,
    git: HttpsSite,
    web: Site,
    key: tuple[Path, Key],
    disk: SmallDisk,
    tmp_path: Path,
) -> None:
    """And not of the controller: one that starts on a full disk removes what another has left.

    Slow: each of four Bundles is fetched and written four times.
    """
    tenant, other = new_tenant(), new_tenant()
    home, own = key

    def change(value: str) -> None:
        manifest = file_of("sealed", value=value)
        sealed = encrypt(components, manifest, "--pgp", own.recipient, home=home)
        publish(git, web, value, sealed=sealed)

    git.repository()
    change("1")
    arguments = ("lease=0", *LOOPBACK)
    path = f"PATH={components.sops.parent}:{os.environ['PATH']}"
    within = (*disk.within, path)
    with controller(site.kubeconfig, tmp_path / "first", *arguments, within=within) as first:
        follow(tenant, git, web)
        secret(tenant, "keys", own.secret)
        decryption = {"provider": "sops", "secretRef": {"name": "keys"}}
        source = git_source(git, path="sealed")
        tenant.bundle("sealed", source=source, interval="1h", decryption=decryption)
        applied(tenant, "1", *KEPT, *WRITTEN)
        (left,) = disk.seen.glob("applyprune-controller-*")
        (left / "left").write_bytes(bytes(LEFT))
        disk.fill()
        change("2")
        unusable(tenant, "1", "full")
        served(other, first, "full")
        kill_inside(first.process)
    with controller(site.kubeconfig, tmp_path / "second", *arguments, within=within) as second:
        applied(tenant, "2", *KEPT, *WRITTEN)
        disk.free()
        disk.forbid_writes()
        change("3")
        unusable(tenant, "2", "read-only")
        served(other, second, "read-only")
        disk.allow_writes()
        applied(tenant, "3", *KEPT, *WRITTEN)
