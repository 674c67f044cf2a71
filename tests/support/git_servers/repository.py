"""A bare repository on a server, and commits to it that need no work tree."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

LINK, SUBMODULE = "120000", "160000"
"""Modes of entries that are no files."""
LFS_POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4d' * 32}\nsize 12345\n"
"""What Git LFS commits instead of a large file."""
_FILE = "100644"
_AUTHOR = "A Tester <tester@example.com>"


def author() -> Mapping[str, str]:
    """Return the environment in which git needs no configuration."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.devnull,
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{f"GIT_{role}_NAME": "A Tester" for role in ("AUTHOR", "COMMITTER")},
        **{f"GIT_{role}_EMAIL": "tester@example.com" for role in ("AUTHOR", "COMMITTER")},
    }


class Repository:
    """A bare repository; by default its server sends parts of it, and any commit by its ID."""

    def __init__(self, folder: Path, *, is_new: bool = True) -> None:
        """Create it, empty, with the default branch main, unless it exists."""
        self.folder = folder
        self._seconds = 1_700_000_000
        if not is_new:
            return
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(folder))
        self.set("uploadpack.allowAnySHA1InWant", "true")

    def git(
        self, *arguments: str, stdin: bytes = b"", environ: Mapping[str, str] | None = None
    ) -> str:
        """Run git in the repository and return what it prints."""
        return (
            subprocess.run(
                ["git", *arguments],
                cwd=self.folder if self.folder.exists() else self.folder.parent,
                env={**author(), **(environ or {})},
                input=stdin,
                stdout=subprocess.PIPE,
                check=True,
            )
            .stdout.decode()
            .strip()
        )

    def set(self, key: str, value: str) -> None:
        """Set a setting of the server's."""
        self.git("config", key, value)

    def commit(
        self,
        files: Mapping[str, str | bytes | None],
        branch: str = "main",
        *,
        keeps: bool = True,
        modes: Mapping[str, str] | None = None,
    ) -> str:
        """Commit files to a branch and return the commit's ID; None deletes a file.

        With ``keeps`` false, the branch has this commit only: a force-push. ``modes`` are those of
        the files that are no plain ones; the content of a submodule is a commit's ID.
        """
        return self.import_commit(
            (
                self._line(path.encode(), data, (modes or {}).get(path, _FILE))
                for path, data in files.items()
            ),
            branch,
            keeps=keeps,
        )

    def import_commit(
        self, lines: Iterable[bytes], branch: str = "main", *, keeps: bool = True
    ) -> str:
        """Commit what the lines of ``git fast-import`` say."""
        ref = f"refs/heads/{branch}"
        self._seconds += 1
        head = f"commit {ref}\ncommitter {_AUTHOR} {self._seconds} +0000\ndata 4\ntest\n"
        if keeps and (before := self.oid(ref)):
            head += f"from {before}\n"
        elif not keeps:
            self.git("update-ref", "-d", ref)
        self.git(
            *("fast-import", "--quiet", "--force", "--done"),
            stdin=b"".join([head.encode(), *lines, b"\ndone\n"]),
        )
        return self.oid(ref)

    def _line(self, path: bytes, data: str | bytes | None, mode: str) -> bytes:
        quoted = path.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
        if data is None:
            return b'D "%s"\n' % quoted
        content = data.encode() if isinstance(data, str) else data
        if mode == SUBMODULE:
            return b'M %s %s "%s"\n' % (mode.encode(), content, quoted)
        return b'M %s inline "%s"\ndata %d\n%s\n' % (mode.encode(), quoted, len(content), content)

    def oid(self, name: str) -> str:
        """Return what a name means; empty if nothing."""
        found = subprocess.run(
            ["git", "rev-parse", "--quiet", "--verify", name],
            cwd=self.folder,
            env=author(),
            capture_output=True,
            check=False,
        )
        return found.stdout.decode().strip()

    def tag(self, name: str, oid: str = "main", *, annotated: bool = False) -> str:
        """Tag a commit and return the ID of the tag, or of the commit."""
        note = ("-a", "-m", name) if annotated else ()
        self.git("tag", "--force", *note, name, oid)
        return self.oid(f"refs/tags/{name}")

    def sign(self, settings: Sequence[str], commit: str, branch: str = "main") -> str:
        """Sign a copy of a commit, set a branch to it, and return its ID."""
        signed = self.git(*settings, "commit-tree", "-S", "-m", "test", f"{commit}^{{tree}}")
        self.git("update-ref", f"refs/heads/{branch}", signed)
        return signed

    def delete_branch(self, name: str) -> None:
        """Delete a branch, also the default one."""
        self.git("update-ref", "-d", f"refs/heads/{name}")

    def write_refs(self, refs: Mapping[str, str]) -> None:
        """Write many references at once, instead of all that are packed."""
        lines = (f"{oid} {name}\n" for name, oid in sorted(refs.items()))
        head = "# pack-refs with: peeled fully-peeled sorted \n"
        (self.folder / "packed-refs").write_text(head + "".join(lines))
