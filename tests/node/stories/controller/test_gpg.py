"""The image with gpg, to which an installation is updated, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.node.cluster import ADDRESS, import_images
from tests.node.images import WITH_GPG, archive_of
from tests.support.git_servers import git_site
from tests.support.remote_bundles import file_of, git_credentials, git_source, secret
from tests.support.signers import GpgSigner, gpg_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.node.installed import Installed
    from tests.support.controller import Tenant


@pytest.fixture
def update_to_gpg(installed: Installed) -> Iterator[Callable[[], None]]:
    """Updates the controller to the image with gpg, and back at the end."""

    def update() -> None:
        import_images([archive_of(WITH_GPG, installed.plane.folder)])
        installed.install(WITH_GPG)

    yield update
    installed.install()
    installed.rolled_out()


def test_commits_signed_by_openpgp_need_an_image_with_gpg(
    update_to_gpg: Callable[[], None], tenant: Tenant, tmp_path: Path
) -> None:
    """The normal one says what is missing; with gpg, only those of the right key are applied."""
    (tmp_path / "gpg").mkdir()
    with git_site(tmp_path / "git", host=ADDRESS) as git, gpg_home(tmp_path / "gpg") as home:
        own, foreign = GpgSigner(home, "own"), GpgSigner(home, "foreign")
        repository = git.repository()
        git_credentials(tenant, git)
        secret(tenant, "signers", {"own.asc": own.public()})
        first = repository.sign(own.settings, repository.commit({"web/a.yaml": file_of("a")}))
        verify = {"mode": "HEAD", "secretRef": {"name": "signers"}}
        source = git_source(git, path="web", verify=verify)
        tenant.bundle("web", source=source, interval="1h", retryInterval="1h")
        message = tenant.failed("web", "VerificationFailed")
        assert "gpg is needed to check OpenPGP signatures" in message
        assert "it is not installed" in message
        assert tenant.exists("a") == [False]
        update_to_gpg()
        tenant.applied("web", f"main@sha1:{first}")
        second = repository.commit({"web/a.yaml": file_of("a", value="x")})
        repository.sign(foreign.settings, second)
        assert f"main@sha1:{first} stays applied" in tenant.failed("web", "VerificationFailed")
        third = repository.commit({"web/a.yaml": file_of("a", value="3")})
        third = repository.sign(own.settings, third)
        tenant.applied("web", f"main@sha1:{third}")
        assert tenant.value("a") == "3"
