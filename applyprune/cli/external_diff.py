"""``KUBECTL_EXTERNAL_DIFF`` of ``diff``: a program gets two folders, as kubectl calls it.

A module of its own: nothing else on the command line needs a process or a YAML writer at the start.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from applyprune.errors import RunFailed, UsageError
from applyprune.model.events import Finished, ObjectDiff, SetEvent
from applyprune.model.object_yaml import as_yaml
from applyprune.values import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from applyprune.model.events import Event


def with_external_diff(events: Iterable[Event], text: str) -> Iterator[Event]:
    """Pass events on, and run a diff program before the last of them.

    ``text`` is the program and its arguments. Raises UsageError if the program cannot start, or for
    an argument that kubectl would drop, and RunFailed if its exit code is greater than 1.
    """
    command = _command(text)
    with TemporaryDirectory(prefix="LIVE-") as live, TemporaryDirectory(prefix="MERGED-") as merged:
        for event in events:
            diff = event.event if isinstance(event, SetEvent) else event
            if isinstance(diff, ObjectDiff):
                for folder, body in zip((live, merged), (diff.before, diff.after), strict=True):
                    if body is not None:
                        _write(Path(folder), diff, body)
            if isinstance(event, Finished):
                _run_program([*command, live, merged])
            yield event


# kubectl's own rule. kubectl drops other arguments silently; we report them.
_PLAIN = pattern(r"[A-Za-z0-9=-]+")


def _command(text: str) -> Sequence[str]:
    program, *arguments = text.split()
    if odd := [argument for argument in arguments if not _PLAIN.fullmatch(argument)]:
        raise UsageError(
            f"invalid argument {odd[0]!r} for the diff program",
            reason="as with kubectl, an argument may contain only letters, digits, - and =",
            hint="Use a script that calls the program with this argument.",
        )
    return program, *arguments


_LONGEST_NAME = 255


def _write(folder: Path, diff: ObjectDiff, body: Mapping[str, Any]) -> None:
    state = diff.after or diff.before or {}
    version = str(state.get("apiVersion", "")).replace("/", ".")
    ref = diff.ref
    name = f"{version}.{ref.kind}.{ref.namespace}.{ref.name}"
    if len(name.encode()) > _LONGEST_NAME:
        end = hashlib.sha256(name.encode()).hexdigest()[:32]
        name = f"{name[: _LONGEST_NAME - len(end) - 1]}.{end}"
    # Only the user may read it: a ConfigMap may contain a password.
    handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        (lines,) = as_yaml(body)
        file.writelines(f"{line}\n" for line in lines)


def _run_program(command: Sequence[str]) -> None:
    sys.stdout.flush()
    try:
        reply = subprocess.run(command, check=False)
    except OSError as error:
        what = f"the diff program {command[0]!r} cannot start"
        raise UsageError(what, reason=error.strerror or "") from error
    if reply.returncode not in {0, 1}:
        raise RunFailed(f"the diff program {command[0]!r} failed with exit code {reply.returncode}")
