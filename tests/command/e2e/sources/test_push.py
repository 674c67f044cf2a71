"""``push`` publishes what ``apply`` reads, and the digest that it prints is what ``apply`` gets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.command import Ended, applyprune
from tests.support.followed_sources import login
from tests.support.registries import password_registry
from tests.support.source_text import config_map, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.components import Components
    from tests.support.plane import Kubectl
    from tests.support.registries import Registry

    Push = Callable[..., Ended]

SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: hunter2}\n"


@pytest.fixture
def registry(tmp_path: Path, components: Components) -> Iterator[Registry]:
    with password_registry(components, tmp_path / "registry") as running:
        login(tmp_path, running)
        yield running


@pytest.fixture
def push(tmp_path: Path, registry: Registry) -> Push:
    """Run push with the user's login, from the folder of the test."""

    def run(*arguments: str, **more: str) -> Ended:
        environ = {"HOME": str(tmp_path), "SSL_CERT_FILE": str(registry.ca), **more}
        ended = applyprune(
            "push", *arguments, kubeconfig=tmp_path / "none", cwd=tmp_path, more=environ
        )
        assert "hunter2" not in ended.out + ended.err
        return ended

    return run


def writes(registry: Registry) -> list[str]:
    """Return the requests that have changed the registry."""
    return [one for one in registry.requests() if not one.startswith(("GET", "HEAD"))]


def test_pushed_artifact_is_applied(
    push: Push, registry: Registry, tmp_path: Path, plane: Plane, kubectl: Kubectl, namespace: str
) -> None:
    """By its tag and by its digest; the second push sends no blob."""
    write(tmp_path, {"m/b.yaml": config_map("b"), "m/n/a.yaml": config_map("a")})
    name = f"oci://{registry.host}/shop/web"
    dry = push(f"{name}:1.4.0", "-f", "m", "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert registry.requests() == []
    done = push(f"{name}:1.4.0", "-f", "m")
    assert (done.code, done.out, done.err) == (0, dry.out, "")
    named, _, digest = done.out.strip().partition("@")
    assert named == f"{name}:1.4.0"
    sent = len(writes(registry))
    again = push(f"{name}:1.4.1", "-f", "m/n/a.yaml", "-f", "m/b.yaml", "-o", "json")
    assert json.loads(again.out)["artifact"] == {
        "artifact": f"{name}:1.4.1@{digest}",
        "digest": digest,
        "objects": 2,
        "dryRun": False,
    }
    assert [one.split()[0] for one in writes(registry)[sent:]] == ["PUT"]
    for address in (f"{name}:1.4.0", f"{name}@{digest}", f"{done.out}"):
        applied = applyprune(
            *("apply", "web", "-f", address.strip(), "-n", namespace),
            kubeconfig=plane.kubeconfig,
            more={"HOME": str(tmp_path), "SSL_CERT_FILE": str(registry.ca)},
        )
        assert applied.code == 0, applied.err
    assert "2 unchanged" in applied.out
    assert set(kubectl("get", "cm", "-n", namespace, "-o", "name").split()) >= {
        "configmap/a",
        "configmap/b",
    }


@pytest.mark.holds("pushed-secrets")
def test_readable_secret_is_not_pushed(push: Push, registry: Registry, tmp_path: Path) -> None:
    write(tmp_path, {"m/a.yaml": config_map("a"), "m/s.yaml": SECRET})
    name = f"oci://{registry.host}/web:1"
    refused = push(name, "-f", "m")
    assert refused.code == 2
    assert refused.err.startswith("error: m/s.yaml:1: Secret s is not encrypted: ")
    assert writes(registry) == []


def test_other_digest_than_the_named_one_is_refused(
    push: Push, registry: Registry, tmp_path: Path
) -> None:
    write(tmp_path, {"a.yaml": config_map("a"), "b.yaml": config_map("b")})
    name = f"oci://{registry.host}/web:1"
    digest = push(name, "-f", "a.yaml", "--dry-run").out.strip()
    other = push(digest, "-f", "b.yaml")
    assert other.code == 2
    assert "the input has another digest: sha256:" in other.err
    assert registry.requests() == []
    assert push(digest, "-f", "a.yaml").out.strip() == digest
