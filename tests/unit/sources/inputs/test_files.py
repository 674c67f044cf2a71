"""Paths → bytes: what a directory holds, what is read once, and that nothing unread is empty."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from applyprune.errors import InputError, UsageError
from applyprune.sources import inputs, read
from applyprune.sources.folders import read_configuration
from tests.support.source_text import config_map, write


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(*paths: str, stdin: bytes | None = None) -> list[str]:
    stream = io.BytesIO(stdin) if stdin is not None else None
    return [manifest.name for manifest in read(paths, stdin=stream)]


def message(*paths: str) -> str:
    with pytest.raises(InputError) as caught:
        read(paths)
    return str(caught.value)


def test_directory_is_read_recursively_in_name_order(folder: Path) -> None:
    write(
        folder,
        {
            "m/b.yaml": config_map("b"),
            "m/a/z.yml": config_map("a-z"),
            "m/a/c/x.json": '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a-c-x"}}',
            "m/c.yaml": config_map("c"),
            "m/.hidden/h.yaml": config_map("h"),
            "m/README.md": "no manifest",
            "m/d.yaml.bak": "no: [manifest",
        },
    )
    assert names("m") == ["h", "a-c-x", "a-z", "b", "c"]
    assert [str(manifest.origin) for manifest in read(["m/"])][1:3] == [
        "m/a/c/x.json:1",
        "m/a/z.yml:1",
    ]


def test_ending_may_be_in_capitals(folder: Path) -> None:
    """A file that was only renamed would leave the set, and its object would be pruned."""
    object_ = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"d"}}'
    texts = {
        "m/A.YAML": config_map("a"),
        "m/b.Yml": config_map("b"),
        "m/sub/c.Yaml": config_map("c"),
    }
    write(folder, {**texts, "m/D.JSON": object_})
    assert sorted(names("m")) == ["a", "b", "c", "d"]


def test_encodings_of_windows_are_read_with_their_lines(folder: Path) -> None:
    """A file, and our own configuration beside it, which is still skipped."""
    text = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: u16}\n"
    (folder / "m").mkdir()
    (folder / "m/a.yaml").write_bytes(text.encode("utf-16"))
    config = "apiVersion: applyprune.dev/v1alpha1\nkind: Config\nwait: true\n"
    (folder / "m/applyprune.yaml").write_bytes(config.encode("utf-16"))
    assert names("m") == ["u16"]
    settings = read_configuration("m/applyprune.yaml")
    assert settings.settings == {"wait": True}
    assert settings.origin("wait").line == 3
    (folder / "m/a.yaml").write_bytes(text.replace("u16", "80").encode("utf-16"))
    assert "m/a.yaml:3:12: metadata.name is a number" in message("m")
    assert "3 | metadata: {name: 80}" in message("m")


def test_file_may_have_any_name(folder: Path) -> None:
    write(folder, {"manifest": config_map("a"), "-": config_map("dash")})
    assert names("manifest", "./-") == ["a", "dash"]


def test_each_file_is_read_once(folder: Path) -> None:
    write(folder, {"m/a.yaml": config_map("a"), "m/b.yaml": config_map("b")})
    (folder / "link.yaml").symlink_to("m/b.yaml")
    assert names("m/b.yaml", "m", "m/../m/a.yaml", "link.yaml") == ["b", "a"]


def test_links_are_followed_and_loops_end(folder: Path) -> None:
    write(folder, {"real/a.yaml": config_map("a"), "m/b.yaml": config_map("b")})
    (folder / "m/linked").symlink_to(folder / "real")
    (folder / "m/loop").symlink_to(folder / "m")
    (folder / "m/up").symlink_to("..")
    assert sorted(names("m")) == ["a", "b"]


def test_mounted_config_map_is_read_once(folder: Path) -> None:
    """The kubelet mounts one as files that are links into a hidden folder, by a hidden link."""
    write(folder, {"m/..2026_01_01/a.yaml": config_map("a")})
    (folder / "m/..data").symlink_to("..2026_01_01")
    (folder / "m/a.yaml").symlink_to("..data/a.yaml")
    assert names("m") == ["a"]


def test_missing_path_is_an_error(folder: Path) -> None:
    assert message("nowhere.yaml") == "nowhere.yaml: cannot be read: No such file or directory"
    assert "cannot be read" in message("nowhere/")
    assert "cannot be read" in message("a\0b")


@pytest.mark.parametrize("name", ["dangling.yaml", "dangling", "conf.d", "v1.2"])
def test_dangling_link_is_an_error(folder: Path, name: str) -> None:
    write(folder, {"m/a.yaml": config_map("a")})
    (folder / "m" / name).symlink_to("gone")
    assert f"m/{name}: cannot be read" in message("m")


def test_link_to_itself_is_an_error(folder: Path) -> None:
    (folder / "m").mkdir()
    (folder / "m/self.yaml").symlink_to("self.yaml")
    assert "m/self.yaml: cannot be read" in message("m")
    assert "m/self.yaml: cannot be read" in message("m/self.yaml")


def test_unreadable_directory_is_not_empty(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read everything, so the refusal is made here; so is the file that fails halfway."""
    write(folder, {"m/a.yaml": config_map("a"), "m/n/b.yaml": config_map("b")})
    honest = Path.iterdir

    def denied(path: Path) -> object:
        if path.name == "n":
            raise PermissionError(13, "Permission denied")
        return honest(path)

    monkeypatch.setattr(Path, "iterdir", denied)
    assert message("m") == "m/n: cannot be read: Permission denied"


def test_failed_read_is_not_an_empty_file(folder: Path) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(InputError, match="<stdin>: cannot be read: Input/output error"):
        read(["-"], stdin=Broken())


def test_directory_yields_only_regular_files(folder: Path) -> None:
    (folder / "m").mkdir()
    os.mkfifo(folder / "m/pipe.yaml")
    os.mkfifo(folder / "m/pipe")
    (folder / "m/zero.json").symlink_to("/dev/zero")
    assert message("m") == "m/pipe.yaml: not a regular file\nm/zero.json: not a regular file"


def test_empty_directory_and_empty_files_contain_no_manifests(folder: Path) -> None:
    write(folder, {"m/README.md": "", "empty.yaml": "", "comments.yaml": "# none\n---\n"})
    assert names("m", "empty.yaml", "comments.yaml") == []


def test_standard_input_is_read(folder: Path) -> None:
    write(folder, {"a.yaml": config_map("a")})
    assert names("-", "a.yaml", stdin=config_map("in").encode()) == ["in", "a"]
    with pytest.raises(UsageError, match="only once"):
        names("-", "a.yaml", "-", stdin=b"")
    with pytest.raises(UsageError, match="standard input is not available"):
        names("-")
    with pytest.raises(InputError, match=r"^<stdin>:2:1: "):
        names("-", stdin=b"a: 1\na: 2\n")


def test_empty_path_is_not_the_current_directory(folder: Path) -> None:
    write(folder, {"a.yaml": config_map("a")})
    with pytest.raises(UsageError, match="empty path"):
        names("")


def test_total_input_is_limited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder, {"a.yaml": config_map("a"), "b.yaml": config_map("b")})
    monkeypatch.setattr(inputs, "MAX_BYTES", len(config_map("a")) + 5)
    assert names("a.yaml") == ["a"]
    assert "b.yaml: the input is larger than" in message("a.yaml", "b.yaml")
    assert "/dev/zero: the input is larger than" in message("/dev/zero")


def test_unprintable_path_is_escaped(folder: Path) -> None:
    os.mkdir(b"m")  # noqa: PTH102 - a name that is no text
    with open(b"m/\xff\x1b[31m.yaml", "w") as file:  # noqa: PTH123
        file.write("a: [")
    assert message("m").startswith(r"m/\xff\x1b[31m.yaml:1:5: ")


def test_input_without_objects_is_mentioned(folder: Path) -> None:
    """A folder that is not mounted, a file that was cut off: the run decides what it means."""
    write(folder, {"m/a.yaml": config_map("a"), "none/note.txt": "", "none/b.yaml": "# nothing\n"})
    write(folder, {"list.yaml": "apiVersion: v1\nkind: List\nitems: []\n", "cut.yaml": ""})
    found = read(["m", "none", "list.yaml", "cut.yaml", "*.yaml"])
    assert found.empty == ("none", "list.yaml", "cut.yaml", "*.yaml")
    # What was given before holds what it holds.
    assert read(["m", "m/a.yaml", "m/*", "m"]).empty == ()
