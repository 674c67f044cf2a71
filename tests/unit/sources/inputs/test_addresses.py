"""Addresses of artifacts, read from a real registry: what a load makes of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import InputError, InputErrors
from applyprune.sources import Overlay, read
from applyprune.sources.oci_artifact import push
from applyprune.sources.tree import AuthenticationFailed, PathNotFound
from tests.support.artifacts import source_of
from tests.support.followed_sources import login
from tests.support.source_text import config_map

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.registries import Registry


@pytest.fixture
def url(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An artifact with two tags, and a user who has logged in."""
    for tag in ("main", "dev"):
        files = {"m/a.yaml": config_map(tag).encode(), "docs/README.md": b"# x"}
        push(source_of(registry, f"addresses/web:{tag}"), files)
    login(tmp_path, registry)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SSL_CERT_FILE", str(registry.ca))
    monkeypatch.chdir(tmp_path)
    return f"oci://{registry.host}/addresses/web"


@pytest.mark.parametrize("path", ["//gone", "//M", "//m/a.yaml/b"])
def test_missing_path_is_an_error(url: str, path: str) -> None:
    with pytest.raises(PathNotFound) as caught:
        read([f"{url}:dev{path}"])
    assert str(caught.value).startswith(f"{url}:dev{path}: ")


def test_file_of_an_artifact_is_read(url: str) -> None:
    (manifest,) = read([f"{url}:dev//m/a.yaml"])
    assert str(manifest.origin) == f"{url}:dev//m/a.yaml:1"


def test_each_file_of_a_version_is_read_once(url: str) -> None:
    given = read([f"{url}:dev//m/a.yaml", f"{url}:dev//m"])
    assert [one.name for one in given] == ["dev"]
    assert given.empty == ()


def test_versions_of_a_source_have_names_of_their_own(url: str, registry: Registry) -> None:
    """Otherwise a message would show a line of the other version."""
    files = {"m/a.yaml": config_map("old").encode()}
    digest = push(source_of(registry, "addresses/web:main"), files)
    push(source_of(registry, "addresses/web:main"), {"m/a.yaml": config_map("new").encode()})
    given = read([f"{url}:main//m", f"{url}:main@{digest}//m"])
    assert {one.origin.path: one.name for one in given} == {
        f"{url}:main//m/a.yaml": "new",
        f"{url}:main (2)//m/a.yaml": "old",
    }
    assert f"name: {given[1].name}" in given.texts[given[1].origin.path]


def test_folder_without_manifests_is_empty(url: str) -> None:
    given = read([f"{url}:dev//docs"])
    assert (len(given), given.empty) == (0, (f"{url}:dev//docs",))


def test_all_errors_of_an_input_are_reported(url: str) -> None:
    with pytest.raises(InputErrors) as caught:
        read([f"{url}:gone", "gone.yaml", f"{url}:dev//gone"])
    assert [str(one).partition(": ")[0] for one in caught.value.errors] == [
        f"{url}:gone",
        "gone.yaml",
        f"{url}:dev//gone",
    ]


def test_address_to_build_needs_a_kustomization(url: str) -> None:
    with pytest.raises(InputError, match=r"//m: it contains no kustomization\.yaml"):
        read([Overlay(f"{url}:dev//m")])


def test_wrong_password_is_an_error(url: str, registry: Registry, tmp_path: Path) -> None:
    login(tmp_path, replace(registry, password="hunter3"))
    with pytest.raises(AuthenticationFailed) as caught:
        read([f"{url}:dev"])
    assert str(caught.value).startswith(f"{url}:dev: ")
    assert "hunter" not in str(caught.value)
