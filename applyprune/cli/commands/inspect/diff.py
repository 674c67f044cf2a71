"""``applyprune diff``: what an apply would change, object by object.

A diff program of the user's own, called as kubectl calls it: with two folders.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from applyprune.cli.command import Command
from applyprune.cli.options.apply import apply_options
from applyprune.cli.options.config_defaults import name_argument
from applyprune.cli.options.reporting import reporting_options
from applyprune.cli.options.run_options import (
    cluster_options,
    guard_options,
    input_option,
    placement_option,
    removal_options,
    selection_option,
)
from applyprune.errors import RunFailed, UsageError
from applyprune.model.events import Finished, ObjectDiff
from applyprune.model.options import DryRun, Mode
from applyprune.output.text.yaml_object import as_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event
    from applyprune.model.options import Options
    from applyprune.sources import Overlay


@click.command(cls=Command)
@name_argument
@input_option
@cluster_options
@removal_options
@guard_options
@placement_option
@selection_option
@apply_options
@reporting_options
@click.option(
    "--ignore",
    multiple=True,
    metavar="RULE",
    help="Ignore a field: KIND[/NAME]:/json/pointer, with * and ? in NAME.",
)
@click.option(
    "--external-diff",
    envvar="KUBECTL_EXTERNAL_DIFF",
    default="",
    metavar="COMMAND",
    help="A program that compares two folders.  [env: KUBECTL_EXTERNAL_DIFF]",
)
@click.option(
    "--fail-on-drift",
    is_flag=True,
    help="Exit with 1 only if others have changed the set since the last apply of the "
    "same manifests. Fields that others have taken count as drift then, not as "
    "conflicts.",
)
def diff(
    name: str,
    paths: tuple[str | Overlay, ...],
    where: ClusterTarget,
    reporting: Reporting,
    options: Options,
    ignore: tuple[str, ...],
    external_diff: str,
    fail_on_drift: bool,
) -> int:
    """Show what `apply` with the same options would change, prunes included; change nothing.

    The server computes it in a dry run. Values of Secrets are masked. Exits with 0 if nothing
    would change, with 1 if something would, and with a higher code for an error.

    \b
    Examples:
      applyprune diff web -f manifests/
      applyprune diff web -f manifests/ --ignore deployment:/spec/replicas
      applyprune diff web -f manifests/ --external-diff 'diff -ru'
    """
    from applyprune.cli.session import input_reader, run_set

    decided = replace(
        options,
        mode=Mode.APPLY,
        dry_run=DryRun.SERVER,
        # Nothing is written: what others have taken of ours is to be seen.
        apply=replace(
            options.apply, force_conflicts=options.apply.force_conflicts or fail_on_drift
        ),
        diff=replace(options.diff, enabled=True, ignore=ignore),
    )
    events = judged(run_set(where, name, input_reader(paths), decided), drift_only=fail_on_drift)
    text = "diff"
    if external_diff.strip():
        text = "summary"
        events = through(events, external_diff)
    formats = tuple((text if form == "text" else form, path) for form, path in reporting.formats)
    return replace(reporting, formats=formats).print_events(events)


def judged(events: Iterable[Event], *, drift_only: bool) -> Iterator[Event]:
    """Pass events on; a run without failure ends with 1 when it would change anything.

    With ``drift_only`` it does so for drift alone: where the manifest is the one applied last.
    """
    drifted = False
    for event in events:
        if isinstance(event, ObjectDiff):
            drifted = drifted or event.drifted
        if isinstance(event, Finished) and event.exit_code == 0:
            changed = any(count and outcome.is_change for outcome, count in event.counts.items())
            yield replace(event, exit_code=int(drifted if drift_only else changed))
        else:
            yield event


# kubectl's own rule; it drops what it does not take, we say so.
_PLAIN = re.compile(r"[A-Za-z0-9=-]+")
_LONGEST_NAME = 255


def _command(text: str) -> Sequence[str]:
    program, *arguments = text.split()
    if odd := [one for one in arguments if not _PLAIN.fullmatch(one)]:
        raise UsageError(
            f"the diff program cannot be given the argument {odd[0]!r}",
            reason="as with kubectl, an argument is made of letters, digits, - and =",
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
            f"the diff program {command[0]!r} cannot be started", reason=error.strerror or ""
        ) from error
    if reply.returncode not in {0, 1}:
        raise RunFailed(f"the diff program {command[0]!r} ended with {reply.returncode}")
