"""Bundles that follow a Git repository: its commits, what it does not have, and what is back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.remote_bundles import CREDENTIALS, file_of, git_credentials, git_source, secret
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.controller import Tenant
    from tests.support.git_servers import HttpsSite


def follow(tenant: Tenant, git: HttpsSite, name: str = "web", **more: Any) -> None:
    """Apply a Bundle that follows the path of its name."""
    git_credentials(tenant, git)
    tenant.bundle(name, source=git_source(git, path=name, **more), interval="1h")


def applied(tenant: Tenant, commit: str) -> None:
    """Wait until a commit of the branch main is applied."""
    tenant.applied("web", f"main@sha1:{commit}")


def test_bundle_follows_the_commits_of_a_branch(tenant: Tenant, git: HttpsSite) -> None:
    """What a commit changes is changed, and what it removes is pruned; an Event names both."""
    repository = git.repository()
    first = repository.commit({"web/a.yaml": file_of("a", "b"), "web/notes.txt": "no manifest"})
    follow(tenant, git)
    applied(tenant, first)
    assert tenant.exists("a", "b") == [True, True]

    second = repository.commit({"web/a.yaml": file_of("a", value="2")})
    applied(tenant, second)
    assert tenant.value("a") == "2"
    assert tenant.exists("b") == [False]
    told = f"main@sha1:{first} → main@sha1:{second}"
    eventually(lambda: [one for one in tenant.events("web") if told in one[2]], lambda: "the Event")


def test_commit_elsewhere_reconciles_nothing(
    tenant: Tenant, git: HttpsSite, running: object
) -> None:
    """Of two Bundles of one repository, only the one whose path has changed is reconciled."""
    repository = git.repository()
    repository.commit({"web/a.yaml": file_of("a"), "api/b.yaml": file_of("b")})
    follow(tenant, git)
    follow(tenant, git, "api")
    tenant.ready("web")
    before = tenant.ready("api")
    second = repository.commit({"web/a.yaml": file_of("a", value="2")})
    applied(tenant, second)
    assert tenant.get("api")["status"] == before


def test_server_is_asked_once_for_all_bundles_of_a_branch(tenant: Tenant, git: HttpsSite) -> None:
    """Nine Bundles, one look; and one for each request, not one for each Bundle."""
    repository = git.repository()
    names = [f"b{number}" for number in range(9)]
    repository.commit({f"{name}/a.yaml": file_of(name) for name in names})
    git_credentials(tenant, git)
    for name in names:
        tenant.bundle(name, source=git_source(git, path=name, interval="1h"), interval="1h")
    for name in names:
        tenant.ready(name)
    # The look and what it fetches; then the files of each path.
    assert len(looks(git)) <= 2 + len(names), git.paths()
    for name in names[:2]:
        git.requests.clear()
        tenant.reconciled(name, "again")
        eventually(lambda: len(git.requests) == 2, git.paths.__repr__)
        assert len(looks(git)) == 1, git.paths()


def looks(git: HttpsSite) -> list[str]:
    """Return with what each request at a repository has begun."""
    return [path for path in git.paths() if path.startswith("GET")]


def test_source_that_is_gone_changes_nothing_and_is_followed_when_it_is_back(
    tenant: Tenant, git: HttpsSite
) -> None:
    """A deleted branch, and a deleted folder: nothing is pruned, and drift is still reverted."""
    repository = git.repository()
    first = repository.commit({"web/a.yaml": file_of("a")})
    follow(tenant, git)
    tenant.ready("web")
    repository.delete_branch("main")
    message = tenant.failed("web", "PathNotFound")
    assert "the repository has no branch main" in message
    assert f"main@sha1:{first} stays applied" in message
    assert tenant.exists("a") == [True]
    patch = {"data": {"key": "theirs"}}
    kind = "application/merge-patch+json"
    path = tenant.path("configmaps", "a")
    assert tenant.api("PATCH", path, patch, content_type=kind)[0] == 200
    eventually(lambda: tenant.value("a") == "1", lambda: "the drift is reverted")

    second = repository.commit({"web/a.yaml": None, "other/a.yaml": file_of("c")})
    assert second
    message = tenant.failed("web", "PathNotFound")
    assert tenant.exists("a") == [True]
    third = repository.commit({"web/a.yaml": file_of("a", value="3")})
    applied(tenant, third)
    assert tenant.value("a") == "3"


def test_mistyped_path_shows_the_right_one(tenant: Tenant, git: HttpsSite) -> None:
    """In the status, and it is checked again: a commit may bring the path."""
    repository = git.repository()
    repository.commit({"web/deploy/a.yaml": file_of("a"), "web/docs/a.md": ""})
    follow(tenant, git)
    tenant.ready("web")
    tenant.bundle("web", source=git_source(git, path="web/deplyo"), interval="1h")
    message = tenant.failed("web", "PathNotFound")
    assert "the source has no path web/deplyo. Did you mean web/deploy?" in message
    assert tenant.condition("web", "Reconciling")[:2] == ("True", "Retrying")
    repository.commit({"web/deplyo/a.yaml": file_of("a", value="2")})
    tenant.ready("web")
    assert tenant.value("a") == "2"


def test_bundle_waits_for_a_source_that_is_checked_again(tenant: Tenant, git: HttpsSite) -> None:
    """Also as long as the last good content stays applied."""
    repository = git.repository()
    repository.commit({"web/a.yaml": file_of("a")})
    follow(tenant, git)
    tenant.ready("web")
    repository.delete_branch("main")
    tenant.failed("web", "PathNotFound")
    told = tenant.condition("web", "Reconciling")
    assert told == ("True", "Retrying", "it is retried after PathNotFound")


def test_commit_without_manifests_is_refused_by_the_guards(tenant: Tenant, git: HttpsSite) -> None:
    """A force-push to a branch with nothing in common prunes nothing either."""
    repository = git.repository()
    repository.commit({"web/a.yaml": file_of("a", "b", "c")})
    follow(tenant, git)
    tenant.ready("web")
    repository.commit({"web/other.yaml": file_of("x")}, keeps=False)
    message = tenant.failed("web", "PruneRefused")
    assert tenant.exists("a", "b", "c") == [True, True, True], message


def test_wrong_password_is_reported_and_a_new_one_is_tried_at_once(
    tenant: Tenant, git: HttpsSite
) -> None:
    """The Secret is watched. No credential appears in the status."""
    git.repository().commit({"web/a.yaml": file_of("a")})
    secret(tenant, CREDENTIALS, {"username": "me", "password": "wrong", "ca.crt": git.ca})
    source = git_source(git, path="web", interval="1h")
    tenant.bundle("web", source=source, interval="1h", retryInterval="1h")
    message = tenant.failed("web", "AuthenticationFailed")
    assert "wrong" not in message
    git_credentials(tenant, git)
    tenant.ready("web")


def test_missing_secret_is_waited_for(tenant: Tenant, git: HttpsSite) -> None:
    """In any order."""
    git.repository().commit({"web/a.yaml": file_of("a")})
    source = git_source(git, path="web")
    tenant.bundle("web", source=source, interval="1h", retryInterval="1h")
    message = tenant.failed("web", "SourceNotFound")
    assert f"secret/{CREDENTIALS} does not exist" in message
    git_credentials(tenant, git)
    tenant.ready("web")


def test_kustomization_is_built_with_the_folders_that_it_names(
    tenant: Tenant, git: HttpsSite
) -> None:
    """A commit to its base is a change of it."""
    repository = git.repository()
    overlay = "resources: [../base]\nnameSuffix: -prod\n"
    repository.commit(
        {
            "web/kustomization.yaml": overlay,
            "base/kustomization.yaml": "resources: [a.yaml]\n",
            "base/a.yaml": file_of("a"),
        }
    )
    follow(tenant, git)
    tenant.ready("web")
    assert tenant.value("a-prod") == "1"
    second = repository.commit({"base/a.yaml": file_of("a", value="2")})
    applied(tenant, second)
    assert tenant.value("a-prod") == "2"


def test_remote_base_is_refused(tenant: Tenant, git: HttpsSite) -> None:
    """Whatever it leads to: the controller would fetch it with its own network."""
    repository = git.repository()
    repository.commit({"web/kustomization.yaml": f"resources: ['{git.base}/x.yaml']\n"})
    follow(tenant, git)
    assert "remote" in tenant.failed("web", "InvalidSource")
