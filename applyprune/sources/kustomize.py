"""Build a folder with a kustomization by the ``kustomize`` program.

This module parses no kustomize file: only kustomize itself, or kubectl's copy, reads them.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from applyprune.errors import InputError
from applyprune.model.json_access import one_line
from applyprune.model.manifest import Origin
from applyprune.model.problem import Problem, ProblemKind
from applyprune.sources.source import Source, shown_path, too_much
from applyprune.system.processes import GROUP_FLAGS, kill_group, wait_for
from applyprune.values import dataclass, field, pattern

if TYPE_CHECKING:
    Warn = Callable[[Problem], None]

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""The names of kustomize's file, in the order in which kustomize looks for them."""

TIMEOUT = 120.0
"""Seconds for one build, including the remote bases that it may fetch."""

_STDERR = 64 * 1024
# The parts of the input that kustomize quotes in its errors: they may belong to a Secret.
_QUOTED = pattern(
    r"`[^`]*`|\[.*\]|(?<=invalid literal source ).*|(?<=node contents:).*"
    r"|(?<=invalid utf8 bytes : ).*|(?<=out of bounds for value ).*|(?<=Unexpected kind: ).*"
    # A patch that kustomize treats as a file name.
    r"|(?<=failure on ')(?=[^']*\n).*"
    r'|(?<=source ")[^"]*(?=" key name or file path)',
    re.DOTALL,
)
# One letter is a drive of Windows.
_URL = pattern(r"[A-Za-z][A-Za-z0-9+.-]+://")
_PREFIX = pattern(r'\A(?:Error: |error: |.*?"command failed" err=)')


class Guard(Protocol):
    """Ends a process when this one ends, even by SIGKILL."""

    def add(self, group: int) -> None:
        """Remember a process group."""

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the group of a process that was added."""


@dataclass(frozen=True, slots=True)
class BuildRules:
    """How a folder is built that is not the user's own."""

    shown_text: Callable[[str], str] = str
    """Makes what the program writes fit to be shown."""
    environ: Mapping[str, str] | None = field(default=None, repr=False)
    """The program's whole environment; None for that of this process."""
    within: Sequence[str] = ()
    """The beginning of a command that limits the program."""
    guard: Guard | None = None


_OWN = BuildRules()


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
    try:
        _check(overlay.folder)
    except InputError as error:
        return error
    return build_folder(overlay.folder, shown_path(overlay.folder), limit, warn)


def build_folder(
    folder: str, shown: str, limit: int, warn: Warn, rules: BuildRules = _OWN
) -> Source | InputError:
    """Build a folder that has a kustomization; messages call it ``shown``."""
    where = Origin(f"{shown} (kustomize)")
    try:
        command = _command(folder, shown)
        code, out, err = _run(command, limit, rules)
    except InputError as error:
        return error
    except TimeoutError:
        return InputError(f"the build did not finish within {TIMEOUT:.0f} s", location=where)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return InputError("cannot be built", location=where, reason=reason or "")
    if len(out) > limit:
        return too_much(where.path)
    message = _message(rules.shown_text(err))
    if code:
        reason = message or f"{' '.join(command[:-1])} exited with code {code}"
        return InputError("the build failed", location=where, reason=reason)
    if not out.strip():
        return InputError(
            "the build is empty", location=where, hint="Check that it lists resources."
        )
    if message:
        warn(Problem(ProblemKind.KUSTOMIZE, message, str(where)))
    return Source(where.path, out)


def _check(folder: str) -> None:
    where = Origin(shown_path(folder))
    if _URL.match(folder):
        raise InputError(
            "-k needs a folder, or the address of one",
            location=where,
            hint="Write git+https://HOST/REPO.git//PATH?ref=BRANCH, or pipe the build in: "
            "kustomize build URL | applyprune … -f -",
        )
    if not Path(folder).is_dir():
        raise InputError("no such folder", location=where)
    if kustomization_in(Path(folder)) is None:
        raise no_kustomization(where)


def no_kustomization(where: Origin) -> InputError:
    """Return the error for a folder that is to be built, and has no kustomization."""
    return InputError(f"it contains no {', '.join(NAMES[:-1])} or {NAMES[-1]}", location=where)


def _command(folder: str, shown: str) -> Sequence[str]:
    from applyprune.system.processes import find_program

    # An absolute path: kustomize treats some relative paths as the address of a repository.
    path = os.path.abspath(folder)  # noqa: PTH100 -- links in it stay as they are
    if program := find_program("kustomize", os.environ):
        return (program, "build", path)
    if program := find_program("kubectl", os.environ):
        return (program, "kustomize", path)
    raise InputError(
        "kustomize or kubectl is needed to build a kustomization, and neither is installed",
        location=Origin(shown),
        hint="Install either (https://kubectl.docs.kubernetes.io/installation/kustomize/), "
        "or build it on another machine and pipe it in: kustomize build DIR | applyprune … -f -",
    )


def _run(command: Sequence[str], limit: int, rules: BuildRules) -> tuple[int, bytes, str]:
    """Return the exit code, up to ``limit`` + 1 bytes of output, and the end of standard error.

    Raises TimeoutError. In every case, no process that was started is left running.
    """
    environ = os.environ if rules.environ is None else rules.environ
    with (
        subprocess.Popen(
            [*rules.within, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # In a session of its own it cannot prompt on the terminal, and git is killed with it.
            start_new_session=True,
            creationflags=GROUP_FLAGS,
            env={**environ, "GIT_TERMINAL_PROMPT": "0"},
        ) as process,
        ThreadPoolExecutor(2) as readers,
    ):
        if rules.guard is not None:
            rules.guard.add(process.pid)
        out = readers.submit(_first, process, limit + 1)
        err = readers.submit(_last, process.stderr)
        try:
            wait_for(process, TIMEOUT)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            _kill(process)
            if rules.guard is not None:
                rules.guard.end(process)
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
            kill_group(process.pid)


def _message(err: str) -> str:
    """Return the program's error text without the input that it quotes."""
    text = _PREFIX.sub("", err.strip())
    return one_line(_QUOTED.sub("…", text).strip('"'))
