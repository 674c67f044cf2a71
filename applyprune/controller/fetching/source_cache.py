"""The cache of fetched sources on the disk, within a size; every process of a replica uses it."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from applyprune.sources.tree import FetchFailed
from applyprune.values import dataclass

_LARGEST_HEAD = 16 * 2**20


@dataclass(frozen=True, slots=True)
class SourceCache:
    """Two folders: artifacts by the name of their content, and what is kept of Git servers."""

    folder: Path
    limit: int
    """Bytes, for both together; the least recently used are removed first."""

    @property
    def artifacts(self) -> Path:
        """Return the folder of the artifacts."""
        return self.folder / "artifacts"

    @property
    def stores(self) -> Path:
        """Return the folder of the Git repositories."""
        return self.folder / "git"

    def artifact_name(self, place: str, content: str) -> str:
        """Return the name of the artifact with a content that was read from a place.

        Nothing that is read with other credentials has the same name.
        """
        return hashlib.sha256(f"{place}\n{content}".encode()).hexdigest()[:40]

    def has(self, artifact: str) -> bool:
        """Return whether an artifact is there; then it counts as used."""
        with suppress(OSError):
            os.utime(self.artifacts / artifact)
            return True
        return False

    def put(self, artifact: str, files: Mapping[str, bytes]) -> None:
        """Write an artifact: all of it, or nothing. Raises FetchFailed if the disk is full."""
        head = json.dumps([[path, len(data)] for path, data in files.items()]).encode()
        digest = hashlib.sha256(head)
        for data in files.values():
            digest.update(data)
        with refused_disk():
            self.artifacts.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial = self.artifacts / f".{secrets.token_hex(8)}"
            try:
                with partial.open("xb") as stream:
                    stream.write(digest.hexdigest().encode() + b" %d\n" % len(head) + head)
                    stream.writelines(files.values())
                partial.replace(self.artifacts / artifact)
            finally:
                partial.unlink(missing_ok=True)

    def read(self, artifact: str) -> Mapping[str, bytes] | None:
        """Return the files of an artifact; None if it is not there, or not as it was written."""
        try:
            with (self.artifacts / artifact).open("rb") as stream:
                first = stream.readline(100).split()
                head = stream.read(min(int(first[1]), _LARGEST_HEAD))
                digest = hashlib.sha256(head)
                files = {}
                for path, size in json.loads(head):
                    files[path] = stream.read(size)
                    digest.update(files[path])
        except (OSError, ValueError, IndexError, TypeError):
            return None
        if digest.hexdigest().encode() != first[0]:  # guard: whole-artifact
            return None
        self.has(artifact)
        return files

    def store(self, place: str) -> Path:
        """Return the folder of a Git repository; it counts as used, and may not exist yet."""
        folder = self.stores / place
        with refused_disk():
            self.stores.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(OSError):
            os.utime(folder)
        return folder

    def trim(self, keep: Path | None = None) -> None:
        """Remove what was not used for the longest time, until the rest is within the limit.

        ``keep`` is in use. Whoever needs something that is removed fetches it again.
        """
        found = sorted(self._entries())
        total = sum(size for _, _, size in found)
        for _, path, size in found:
            if total <= self.limit:
                return
            if path == keep:
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
            total -= size

    def _entries(self) -> Iterator[tuple[float, Path, int]]:
        """Yield each artifact and each repository: when it was used, and its size."""
        for folder in (self.artifacts, self.stores):
            for path in folder.iterdir() if folder.is_dir() else ():
                with suppress(OSError):
                    yield path.stat().st_mtime, path, _size(path)


@contextmanager
def refused_disk() -> Iterator[None]:
    """Turn an error of the disk into FetchFailed: it is one of the Bundle, not of the program."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise FetchFailed(
            "the source cannot be kept", reason=f"the source cache: {reason}"
        ) from error


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(
        (Path(folder) / name).stat().st_size for folder, _, names in os.walk(path) for name in names
    )
