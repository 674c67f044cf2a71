"""A site with an archive on it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support.archives import packed
from tests.support.tls_site import Site, files_of, site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = {"web/a.yaml": b"a: 1\n", "web/b/c.yaml": b"c: 1\n", "other/d.yaml": b"d: 1\n"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Path]]:
    """A server of the files of a folder, for all tests of a module."""
    folder = tmp_path_factory.mktemp("site")
    with site(files_of(folder)) as one:
        yield one, folder


@pytest.fixture
def web_site(running: tuple[Site, Path]) -> Site:
    """The server, with ``/web.tar.gz`` and without the answers and calls of other tests."""
    one, folder = running
    one.answers.clear()
    one.calls.clear()
    (folder / "web.tar.gz").write_bytes(packed(FILES))
    os.utime(folder / "web.tar.gz", (1e9, 1e9))
    return one


@pytest.fixture
def folder(running: tuple[Site, Path]) -> Path:
    """The folder with the server's files."""
    return running[1]
