"""Bundles whose sources have files that a rule leaves out: by default, in the tree, in the spec."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune.sources.oci_artifact import push
from tests.support.artifacts import source_of
from tests.support.command import applyprune
from tests.support.remote_bundles import (
    file_of,
    git_credentials,
    git_source,
    registry_source,
    stays,
)
from tests.support.settings import settings
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Controller, Tenant
    from tests.support.git_servers import HttpsSite
    from tests.support.registries import Registry

WORKFLOW = "on: push\njobs: {}\n"


def test_file_that_is_no_manifest_fails_no_bundle(
    tenant: Tenant, git: HttpsSite, running: Controller
) -> None:
    """By the default list; by rules in the tree, which replace it; and by those of the spec."""
    repository = git.repository()
    files = {"a.yaml": file_of("a"), ".github/x.yaml": WORKFLOW, "web/.sops.yaml": "x: 1\n"}
    first = repository.commit({**files, "web/b.yaml": file_of("b", "c")})
    git_credentials(tenant, git)
    tenant.bundle("web", source=git_source(git), interval="1h")
    tenant.applied("web", f"main@sha1:{first}")
    assert tenant.exists("a", "b", "c") == [True, True, True]

    repository.commit({"web/values.yaml": "replicas: 1\n"})
    assert "web/values.yaml" in tenant.failed("web", "InvalidSource")
    second = repository.commit({"web/.sourceignore": "values.yaml\n.sops.yaml\n"})
    tenant.applied("web", f"main@sha1:{second}")
    assert tenant.exists("a", "b", "c") == [True, True, True]

    tenant.patch("web", source=git_source(git, ignore="/a.yaml\n.github\n"))
    eventually(lambda: tenant.exists("a") == [False], lambda: "a is pruned")
    tenant.ready("web")
    assert tenant.exists("b", "c") == [True, True]
    told = [
        line["warning"]
        for line in running.lines
        if line.get("bundle") == "web"
        and line.get("namespace") == tenant.namespace
        and "warning" in line
    ]
    rule = "by the rule /a.yaml in spec.source.git.ignore"
    assert f"manifests are ignored: a.yaml: {rule}" in told


def test_rule_that_hides_most_of_a_set_is_refused_by_the_guards(
    tenant: Tenant, git: HttpsSite
) -> None:
    repository = git.repository()
    first = repository.commit({f"web/{name}.yaml": file_of(name) for name in "abc"})
    git_credentials(tenant, git)
    tenant.bundle("web", source=git_source(git, path="web"), interval="1h")
    tenant.applied("web", f"main@sha1:{first}")
    # Above the path.
    repository.commit({".sourceignore": "[bc].yaml\n"})
    message = tenant.failed("web", "PruneRefused")
    assert tenant.exists("a", "b", "c") == [True, True, True], message
    rule = "by the rule [bc].yaml in .sourceignore"
    blocked = tenant.condition("web", "PruneBlocked")[2]
    assert f"configmap/b: its manifest in web/b.yaml is ignored, {rule}" in blocked
    last = repository.commit({".sourceignore": "*.md\n"})
    tenant.applied("web", f"main@sha1:{last}")


def test_rule_that_hides_the_path_prunes_nothing(tenant: Tenant, git: HttpsSite) -> None:
    """It is not an empty set; the last good content stays, and drift of it is reverted."""
    repository = git.repository()
    first = repository.commit({"web/a.yaml": file_of("a")})
    git_credentials(tenant, git)
    tenant.bundle("web", source=git_source(git, path="web"), interval="1h")
    tenant.applied("web", f"main@sha1:{first}")
    repository.commit({".sourceignore": "/web\n"})
    message = tenant.failed("web", "PathNotFound")
    assert "it is ignored: by the rule /web in .sourceignore" in message
    stays(tenant, "a")
    last = repository.commit({".sourceignore": "/web\n!/web\n"})
    tenant.applied("web", f"main@sha1:{last}")


def test_build_of_what_is_ignored_says_why_it_fails(tenant: Tenant, git: HttpsSite) -> None:
    repository = git.repository()
    files = {"web/kustomization.yaml": "resources: [a.yaml]\n", "web/a.yaml": file_of("a")}
    first = repository.commit(files)
    git_credentials(tenant, git)
    tenant.bundle("web", source=git_source(git, path="web"), interval="1h")
    tenant.applied("web", f"main@sha1:{first}")
    repository.commit({".sourceignore": "a.yaml\n"})
    message = tenant.failed("web", "InvalidSource")
    rule = "by the rule a.yaml in .sourceignore"
    assert f"the kustomization names what is ignored: web/a.yaml, {rule}" in message
    stays(tenant, "a")


def test_artifact_has_the_same_rules(tenant: Tenant, registry: Registry) -> None:
    files = {
        "web/a.yaml": file_of("a").encode(),
        "web/values.yaml": b"x: 1",
        "web/b.yaml": file_of("b").encode(),
        ".sourceignore": b"values.yaml",
    }
    push(source_of(registry, "ignored/web:prod"), files)
    more = {
        "url": f"oci://{registry.host}/ignored/web",
        "ref": {"tag": "prod"},
        "path": "web",
        "ignore": "b.yaml",
    }
    tenant.bundle("web", source=registry_source(tenant, registry, **more), interval="1h")
    tenant.ready("web")
    assert tenant.exists("a", "b") == [True, False]


@pytest.mark.parametrize("ignore", ["", "b.yaml"])
def test_plan_in_a_request_is_that_of_the_bundle(
    tenant: Tenant, git: HttpsSite, site: Plane, tmp_path: Path, ignore: str
) -> None:
    """In the work tree that a pipeline has checked out: nothing is left to do."""
    repository = git.repository()
    files = {
        ".sourceignore": "values.yaml\n" if ignore else "",
        "web/a.yaml": file_of("a"),
        "web/b.yaml": file_of("b"),
        "web/.sops.yaml" if not ignore else "web/values.yaml": "x: 1\n",
    }
    first = repository.commit(files)
    git_credentials(tenant, git)
    tenant.bundle("web", source=git_source(git, path="web", ignore=ignore), interval="1h")
    tenant.applied("web", f"main@sha1:{first}")
    for name, text in {**files, ".git/HEAD": ""}.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    options = settings(tmp_path, ignore_paths=ignore) if ignore else ()
    planned = applyprune(
        *("diff", "web", "-n", tenant.namespace, "-f", tmp_path / "tree/web", *options),
        kubeconfig=site.kubeconfig,
    )
    assert planned.code == 0, planned.err
    assert planned.out.startswith(f"web: {1 if ignore else 2} unchanged\n"), planned.out
