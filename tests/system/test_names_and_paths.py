"""Names, paths and folders of Windows: pure functions, so that every system tests them."""

from __future__ import annotations

from pathlib import Path

import pytest

from applyprune.sources.address import is_address
from applyprune.sources.folders import is_pattern
from applyprune.sources.tree import is_url
from applyprune.system.files import (
    in_home,
    is_windows_name,
    split_path,
    split_windows_path,
    windows_homes,
    without_colons,
)

SPLIT = (
    (r"C:\a\*.yaml", "C:\\", ["a", "*.yaml"]),
    ("C:/a/b*", "C:\\", ["a", "b*"]),
    (r"C:a\b", "C:", ["a", "b"]),
    (r"a\b/c", "", ["a", "b", "c"]),
    (r".\..\*", "", [".", "..", "*"]),
    (r"\a", "\\", ["a"]),
    (r"\\host\share\a\*", "\\\\host\\share\\", ["a", "*"]),
    # The question mark is not one of a pattern.
    (r"\\?\C:\a\b", "\\\\?\\C:\\", ["a", "b"]),
)
NAMES = (
    *((name, True) for name in ("a", "a.yaml", ".a", "a b", "ä", "console", "com", "com10", "-")),
    *((name, False) for name in ("a\\b", "c:", "a:b", "a*", "a?", 'a"', "a|b", "a<", "\x01")),
    *((name, False) for name in ("nul", "NUL", "con.txt", "Com1", "lpt9.a.b", "aux .x", "conin$")),
    *((name, False) for name in ("a.", "a ", "..", "...")),
)
PATHS = ("C:\\x", "C:/x", "c:x", "C://x", "D:\\a\\b.yaml", "\\\\host\\share\\x", ".\\x", "file:x")
HOMES: tuple[tuple[dict[str, str], tuple[str, ...]], ...] = (
    ({}, ()),
    ({"USERPROFILE": r"C:\u"}, (r"C:\u",)),
    ({"HOME": r"D:\h", "USERPROFILE": r"C:\u"}, (r"D:\h", r"C:\u")),
    ({"HOMEDRIVE": "H:", "HOMEPATH": "\\", "USERPROFILE": r"C:\u"}, ("H:\\", r"C:\u")),
    ({"HOMEDRIVE": "C:", "HOMEPATH": r"\u", "USERPROFILE": r"C:\u"}, (r"C:\u",)),
    ({"HOMEDRIVE": "C:"}, ()),
)


@pytest.mark.parametrize(("path", "root", "parts"), SPLIT, ids=[one[0] for one in SPLIT])
def test_path_of_windows_is_split(path: str, root: str, parts: list[str]) -> None:
    """Both separators count, and a drive or a share stays whole."""
    assert split_windows_path(path) == (root, parts)


def test_path_is_split_here() -> None:
    """A backslash is a character of a name."""
    assert split_path("/a//b\\c") == ("/", ["a", "b\\c"])
    assert split_path("./a/*") == ("", [".", "a", "*"])


@pytest.mark.parametrize("path", PATHS)
def test_path_of_windows_is_no_url(path: str) -> None:
    """A drive is not a scheme."""
    assert not is_url(path)
    assert not is_address(path)
    assert not is_pattern(path)


@pytest.mark.parametrize("url", ["https://h/x", "http://h", "s3://b/x", "file:///C:/x"])
def test_url_is_a_url(url: str) -> None:
    """Also one that is then refused."""
    assert is_url(url)


@pytest.mark.parametrize(("name", "is_usable"), NAMES)
def test_name_of_windows(name: str, is_usable: bool) -> None:
    """Anything else would be a device, a stream, or a file of another folder."""
    assert is_windows_name(name) == is_usable


def test_object_name_becomes_a_file_name() -> None:
    """``system:node`` is the name of a ClusterRole."""
    assert without_colons("v1.ClusterRole..system:node") == "v1.ClusterRole..system-node"


@pytest.mark.parametrize(("environ", "homes"), HOMES)
def test_homes_of_windows_are_those_of_kubectl(
    environ: dict[str, str], homes: tuple[str, ...]
) -> None:
    """In its order."""
    assert tuple(windows_homes(environ)) == homes


def test_file_in_the_home_folder_may_be_missing(tmp_path: Path) -> None:
    """Then its place is known all the same."""
    environ = {"HOME": str(tmp_path)}
    assert in_home(environ, ".kube", "config") == tmp_path / ".kube" / "config"
    assert in_home({}, ".kube", "config") is None
