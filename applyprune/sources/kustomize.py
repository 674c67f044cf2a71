"""Folders with a kustomization → the YAML that the ``kustomize`` program builds of them.

Nothing of kustomize is read here: its own program, or kubectl's copy of it, is the only reader.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from applyprune.errors import InputError
from applyprune.model.manifests import Origin
from applyprune.model.problems import Problem
from applyprune.planning.live_fields import one_line
from applyprune.sources.source import Source, shown_path, too_much

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Warn = Callable[[Problem], None]

NAMES = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""What kustomize calls its file, in the order in which it looks."""

TIMEOUT = 120.0
"""Seconds for one build, with the remote bases that it may fetch."""

_STDERR = 64 * 1024
# What kustomize quotes of its input in its errors: it may be a Secret's.
_QUOTED = re.compile(
    r"`[^`]*`|\[.*\]|(?<=invalid literal source ).*|(?<=node contents:).*"
    r"|(?<=invalid utf8 bytes : ).*|(?<=out of bounds for value ).*|(?<=Unexpected kind: ).*"
    # A patch that it takes for the name of a file.
    r"|(?<=failure on ')(?=[^']*\n).*"
    r'|(?<=source ")[^"]*(?=" key name or file path)',
    re.DOTALL,
)
_PREFIX = re.compile(r'\A(?:Error: |error: |.*?"command failed" err=)')


@dataclass(frozen=True, slots=True)
class Overlay:
    """A folder that is to be built, as ``-k`` names it."""

    folder: str


def kustomization_in(folder: Path) -> Path | None:
    """Return the kustomization of a folder, None when it has none; raises OSError."""
    return next((path for name in NAMES if (path := folder / name).is_file()), None)


def build(overlay: Overlay, limit: int, warn: Warn) -> Source | InputError:
    """Build a folder; the source is named after it, and may have so many bytes.

    ``warn`` is given what the program says beside its output.
    """
    where = Origin(f"{shown_path(overlay.folder)} (kustomize)")
    try:
        _check(overlay.folder)
        command = _command(overlay.folder)
        code, out, err = _run(command, limit)
    except InputError as error:
        return error
    except TimeoutError:
        return InputError(f"the build did not end within {TIMEOUT:.0f} s", where=where)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return InputError("cannot be built", where=where, why=why or "")
    if len(out) > limit:
        return too_much(where.path)
    if code:
        why = _told(err) or f"{' '.join(command[:-1])} ended with exit code {code}"
        return InputError("the build failed", where=where, why=why)
    if not out.strip():
        return InputError("the build is empty", where=where, hint="Does it name any resources?")
    if said := _told(err):
        warn(Problem("Kustomize", said, str(where)))
    return Source(where.path, out)


def _check(folder: str) -> None:
    where = Origin(shown_path(folder))
    if "://" in folder:
        raise InputError(
            "-k takes a folder",
            where=where,
            hint="Clone it and build the folder, or pipe it in: "
            "kustomize build URL | applyprune … -f -",
        )
    if not Path(folder).is_dir():
        raise InputError("there is no such folder", where=where)
    if kustomization_in(Path(folder)) is None:
        raise InputError(f"there is no {', '.join(NAMES[:-1])} or {NAMES[-1]} in it", where=where)


def _command(folder: str) -> Sequence[str]:
    # An absolute path: kustomize takes some relative ones for the address of a repository.
    target = os.path.abspath(folder)  # noqa: PTH100 -- links in it stay as they are
    if program := shutil.which("kustomize"):
        return (program, "build", target)
    if program := shutil.which("kubectl"):
        return (program, "kustomize", target)
    raise InputError(
        "a kustomization, and there is neither kustomize nor kubectl to build it",
        where=Origin(shown_path(folder)),
        hint="Install one of the two (https://kubectl.docs.kubernetes.io/installation/kustomize/), "
        "or pipe in what another machine builds: kustomize build DIR | applyprune … -f -",
    )


def _run(command: Sequence[str], limit: int) -> tuple[int, bytes, str]:
    """Return exit code, standard output up to one byte beyond ``limit``, the end of the errors.

    Raises TimeoutError. However it ends, nothing that was started is left running.
    """
    with (
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # In a session of its own nothing can ask on the terminal, and git goes with it.
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
    """Return the first bytes of the output; what writes more is ended."""
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
    # Not once it has been waited for: its number may be another process's by then.
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _told(err: str) -> str:
    """Return what the program said, without what it quotes of its input."""
    text = _PREFIX.sub("", err.strip())
    return one_line(_QUOTED.sub("…", text).strip('"'))
