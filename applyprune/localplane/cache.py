"""The folders of planes and programs: locks, folders that appear complete, progress of a step."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import platformdirs

from applyprune.errors import AccessError
from applyprune.system import processes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TextIO


def user_cache_folder() -> Path:
    """Return applyprune's cache folder; everything in it can be rebuilt."""
    return platformdirs.user_cache_path("applyprune", appauthor=False)


def planes_folder() -> Path:
    """Return the folder that holds one folder for each named plane."""
    return platformdirs.user_state_path("applyprune", appauthor=False) / "planes"


# A folder that is either absent or complete, even after interruptions.


def make_once(
    folder: Path,
    fill: Callable[[Path], None],
    doing: str,
    progress: Progress,
    *,
    programs: Sequence[str] = (),
) -> None:
    """Let ``fill`` create the folder's content, unless the folder exists.

    ``fill`` writes to a temporary folder beside it, which is renamed at the end. If another
    process does the same, this process waits, reports what the other is ``doing``, and uses the
    other's folder. A folder without all of the ``programs`` counts as absent. Raises AccessError
    if the cache cannot be written.
    """

    def while_waiting(seconds: float) -> None:
        if seconds < 0.1:
            progress.step(f"another process is {doing}: waiting for it")
        else:
            progress.tick(f"another process is {doing}: waiting for {minutes_and_seconds(seconds)}")

    if has_programs(folder, programs):
        return
    with _writing(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder, while_waiting):
        if has_programs(folder, programs):
            return
        with _writing(folder.parent):
            for left_over in folder.parent.glob(f"{folder.name}.making-*"):
                shutil.rmtree(left_over)
            making = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}.making-"))
        try:
            fill(making)
            with _writing(folder.parent):
                if folder.is_dir():
                    shutil.rmtree(folder)
                making.rename(folder)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise


def has_programs(folder: Path, programs: Sequence[str] = ()) -> bool:
    """Return whether the folder exists, with all of the programs."""
    return folder.is_dir() and all(os.access(folder / name, os.X_OK) for name in programs)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise AccessError(
            "the cache cannot be written",
            location=str(folder),
            reason=error.strerror or str(error),
            hint="Free space or make it writable, or set XDG_CACHE_HOME to another folder.",
        ) from None


@contextmanager
def _locked(folder: Path, while_waiting: Callable[[float], None]) -> Iterator[None]:
    """Hold the lock of the folder; only the attempt to lock is an attempt to write the cache."""
    with ExitStack() as stack:
        with _writing(folder.parent):
            lock = holding_lock(folder.with_name(f"{folder.name}.lock"), while_waiting)
            stack.enter_context(lock)
        yield


# File locks that the kernel releases when their holder dies.


@contextmanager
def holding_lock(path: Path, while_waiting: Callable[[float], None]) -> Iterator[None]:
    """Hold the lock; until it is free, call ``while_waiting`` with the seconds waited so far."""
    start = time.monotonic()
    while (descriptor := try_lock(path)) is None:
        while_waiting(time.monotonic() - start)
        time.sleep(0.2)
    try:
        yield
    finally:
        os.close(descriptor)


def try_lock(path: Path) -> int | None:
    """Return the descriptor of the locked file, or None if another process holds the lock.

    The lock belongs to the open file, not to the process: it lasts until every process that
    inherited the descriptor has closed it.
    """
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if not processes.try_lock(descriptor):
            os.close(descriptor)
            return None
        # The previous holder may have removed the file in between: that lock would be useless.
        try:
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except FileNotFoundError:
            pass
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Return whether a living process holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        # A shared lock: two processes that only check do not see each other.
        return not processes.try_lock(descriptor, is_shared=True)
    finally:
        os.close(descriptor)


# The progress of a long build or start: permanent steps, and ticks that are replaced.


class Progress(Protocol):
    def step(self, text: str) -> None:
        """Report the start or end of a step: a permanent line."""

    def tick(self, text: str) -> None:
        """Report the current progress: shown from time to time, and replaced by the next tick."""

    def clear(self) -> None:
        """Remove the current tick, because other output follows."""


def progress_on(stream: TextIO) -> Progress:
    """Return the Progress for the stream: for a terminal, or for a log."""
    return ProgressTerminal(stream) if stream.isatty() else Lines(stream)


class Silence:
    """A Progress that prints nothing."""

    def step(self, text: str) -> None:
        """Discard the text."""

    def tick(self, text: str) -> None:
        """Discard the text."""

    def clear(self) -> None:
        """Do nothing."""


class Lines:
    """A Progress for logs: prints at most one tick, as a line, in ``every`` seconds."""

    def __init__(self, stream: TextIO, every: float = 15.0) -> None:
        """Write to ``stream``; the first tick also waits for ``every`` seconds."""
        self._stream = stream
        self._every = every
        self._last = time.monotonic()

    def step(self, text: str) -> None:
        self._last = time.monotonic()
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def tick(self, text: str) -> None:
        """Write the line if nothing has been written for ``every`` seconds."""
        if time.monotonic() - self._last >= self._every:
            self.step(text)

    def clear(self) -> None:
        """Do nothing: each line is complete."""


class ProgressTerminal:
    """A Progress for a terminal: each tick overwrites the previous tick on the last line."""

    def __init__(self, stream: TextIO, every: float = 0.1) -> None:
        """Write to ``stream``, a terminal, at most once in ``every`` seconds."""
        self._stream = stream
        self._every = every
        self._last = 0.0
        self._ticking = False

    def step(self, text: str) -> None:
        self.clear()
        self._stream.write(f"{text}\n")
        self._stream.flush()

    def tick(self, text: str) -> None:
        """Show the text, cut to the terminal's width, until the next tick."""
        now = time.monotonic()
        if now - self._last < self._every:
            return
        self._last = now
        width = shutil.get_terminal_size().columns
        self._stream.write(f"\r{text[: width - 1]}\x1b[K")
        self._stream.flush()
        self._ticking = True

    def clear(self) -> None:
        if self._ticking:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._ticking = False


def minutes_and_seconds(seconds: float) -> str:
    """Return minutes and seconds, for example ``5:40``."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
