"""A diff program of the user's own, called as kubectl calls it: with two folders."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from applyprune.errors import RunFailed, UsageError
from applyprune.model.events import Finished, ObjectDiff
from applyprune.output.text.yaml_object import as_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from applyprune.model.events import Event

# kubectl's own rule; it drops what it does not take, we say so.
_PLAIN = re.compile(r"[A-Za-z0-9=-]+")
_LONGEST_NAME = 255


def _command(text: str) -> Sequence[str]:
    program, *arguments = text.split()
    if odd := [one for one in arguments if not _PLAIN.fullmatch(one)]:
        raise UsageError(
            f"the diff program cannot be given the argument {odd[0]!r}",
            why="as with kubectl, an argument is made of letters, digits, - and =",
            hint="Write a script that calls the program as you like, and name that.",
        )
    return program, *arguments


def through(events: Iterable[Event], text: str) -> Iterator[Event]:
    """Pass events on, and show what they compare by a program before the last of them.

    ``text`` is the program and its arguments. Raises UsageError when it cannot be started, or for
    an argument that kubectl would drop, and RunFailed when it ends with more than 1.
    """
    command = _command(text)
    with TemporaryDirectory(prefix="LIVE-") as live, TemporaryDirectory(prefix="MERGED-") as merged:
        for event in events:
            if isinstance(event, ObjectDiff):
                for folder, body in zip((live, merged), (event.before, event.after), strict=True):
                    if body is not None:
                        _write(Path(folder), event, body)
            if isinstance(event, Finished):
                _show([*command, live, merged])
            yield event


def _write(folder: Path, compared: ObjectDiff, body: Mapping[str, Any]) -> None:
    whole = compared.after or compared.before or {}
    version = str(whole.get("apiVersion", "")).replace("/", ".")
    ref = compared.ref
    name = f"{version}.{ref.kind}.{ref.namespace}.{ref.name}"
    if len(name.encode()) > _LONGEST_NAME:
        end = hashlib.sha256(name.encode()).hexdigest()[:32]
        name = f"{name[: _LONGEST_NAME - len(end) - 1]}.{end}"
    # For nobody else's eyes: a ConfigMap may hold what it should not.
    handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        (lines,) = as_yaml(body)
        file.writelines(f"{line}\n" for line in lines)


def _show(command: Sequence[str]) -> None:
    sys.stdout.flush()
    try:
        reply = subprocess.run(command, check=False)
    except OSError as error:
        raise UsageError(
            f"the diff program {command[0]!r} cannot be started", why=error.strerror or ""
        ) from error
    if reply.returncode not in {0, 1}:
        raise RunFailed(f"the diff program {command[0]!r} ended with {reply.returncode}")
