"""Build a folder with a kustomization by the ``kustomize`` program.

This module parses no kustomize file: only kustomize itself, or kubectl's copy, reads them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from applyprune.errors import InputError
from applyprune.model.json_access import one_line
from applyprune.model.manifest import Origin
from applyprune.model.problem import Problem, ProblemKind
from applyprune.sources.source import Source, shown_path, too_much

if TYPE_CHECKING:
    Warn = Callable[[Problem], None]

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""The names of kustomize's file, in the order in which kustomize looks for them."""

TIMEOUT = 120.0
"""Seconds for one build, including the remote bases that it may fetch."""

_STDERR = 64 * 1024
# The parts of the input that kustomize quotes in its errors: they may belong to a Secret.
_QUOTED = re.compile(
    r"`[^`]*`|\[.*\]|(?<=invalid literal source ).*|(?<=node contents:).*"
    r"|(?<=invalid utf8 bytes : ).*|(?<=out of bounds for value ).*|(?<=Unexpected kind: ).*"
    # A patch that kustomize treats as a file name.
    r"|(?<=failure on ')(?=[^']*\n).*"
    r'|(?<=source ")[^"]*(?=" key name or file path)',
    re.DOTALL,
)
_PREFIX = re.compile(r'\A(?:Error: |error: |.*?"command failed" err=)')


@dataclass(frozen=True, slots=True)
class Overlay:
    """A folder to build, as ``-k`` names it."""

    folder: str


def kustomization_in(folder: Path) -> Path | None:
    """Return the kustomization file of a folder, or None; raises OSError."""
    return next((path for name in NAMES if (path := folder / name).is_file()), None)


def build(overlay: Overlay, limit: int, warn: Warn) -> Source | InputError:
    """Build a folder; return the source, which is named after the folder, or the error.

    ``limit`` is in bytes. ``warn`` receives what the program writes to standard error.
    """
    where = Origin(f"{shown_path(overlay.folder)} (kustomize)")
    try:
        _check(overlay.folder)
        command = _command(overlay.folder)
        code, out, err = _run(command, limit)
    except InputError as error:
        return error
    except TimeoutError:
        return InputError(f"the build did not finish within {TIMEOUT:.0f} s", location=where)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return InputError("cannot be built", location=where, reason=reason or "")
    if len(out) > limit:
        return too_much(where.path)
    if code:
        reason = _message(err) or f"{' '.join(command[:-1])} exited with code {code}"
        return InputError("the build failed", location=where, reason=reason)
    if not out.strip():
        return InputError(
            "the build is empty", location=where, hint="Check that it lists resources."
        )
    if message := _message(err):
        warn(Problem(ProblemKind.KUSTOMIZE, message, str(where)))
    return Source(where.path, out)


def _check(folder: str) -> None:
    where = Origin(shown_path(folder))
    if "://" in folder:
        raise InputError(
            "-k needs a folder",
            location=where,
            hint="Clone it and build the folder, or pipe the build in: "
            "kustomize build URL | applyprune … -f -",
        )
    if not Path(folder).is_dir():
        raise InputError("no such folder", location=where)
    if kustomization_in(Path(folder)) is None:
        raise InputError(f"it contains no {', '.join(NAMES[:-1])} or {NAMES[-1]}", location=where)


def _command(folder: str) -> Sequence[str]:
    # An absolute path: kustomize treats some relative paths as the address of a repository.
    path = os.path.abspath(folder)  # noqa: PTH100 -- links in it stay as they are
    if program := shutil.which("kustomize"):
        return (program, "build", path)
    if program := shutil.which("kubectl"):
        return (program, "kustomize", path)
    raise InputError(
        "kustomize or kubectl is needed to build a kustomization, and neither is installed",
        location=Origin(shown_path(folder)),
        hint="Install either (https://kubectl.docs.kubernetes.io/installation/kustomize/), "
        "or build it on another machine and pipe it in: kustomize build DIR | applyprune … -f -",
    )


def _run(command: Sequence[str], limit: int) -> tuple[int, bytes, str]:
    """Return the exit code, up to ``limit`` + 1 bytes of output, and the end of standard error.

    Raises TimeoutError. In every case, no process that was started is left running.
    """
    with (
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # In a session of its own it cannot prompt on the terminal, and git is killed with it.
            start_new_session=True,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        ) as process,
        ThreadPoolExecutor(2) as readers,
    ):
        out = readers.submit(_first, process, limit + 1)
        err = readers.submit(_last, process.stderr)
        try:
            process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            _kill(process)
        return process.returncode, out.result(), err.result()


def _first(process: subprocess.Popen[bytes], count: int) -> bytes:
    """Return the first bytes of the output; kill a process that writes more."""
    data = process.stdout.read(count) if process.stdout else b""
    if len(data) == count:
        _kill(process)
    return data


def _last(stream: IO[bytes] | None) -> str:
    kept = b""
    while stream and (more := stream.read(_STDERR)):
        kept = (kept + more)[-_STDERR:]
    return kept.decode("utf-8", "replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    # Not after it was waited for: another process may have its pid by then.
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _message(err: str) -> str:
    """Return the program's error text without the input that it quotes."""
    text = _PREFIX.sub("", err.strip())
    return one_line(_QUOTED.sub("…", text).strip('"'))
