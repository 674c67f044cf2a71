"""``applyprune diff``: show what an apply would change, object by object.

An external diff program gets two folders, as kubectl calls it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from applyprune.cli.command import Command
from applyprune.cli.options.plan_check import check_option
from applyprune.cli.options.planning import planning_options
from applyprune.cli.options.reporting import reporting_options, show_unchanged_option
from applyprune.errors import RunFailed, UsageError
from applyprune.model.events import Finished, ObjectDiff
from applyprune.model.options import Mode
from applyprune.output.diff_text import as_yaml
from applyprune.values import pattern, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from applyprune.cli.options.reporting import Reporting
    from applyprune.cli.target import ClusterTarget
    from applyprune.model.events import Event
    from applyprune.model.options import Options
    from applyprune.sources import Overlay


@click.command(cls=Command)
@planning_options
@check_option
@show_unchanged_option
@reporting_options
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
@click.option(
    "--values",
    is_flag=True,
    help="Compare every value with the cluster: believe neither the inventory nor the server's "
    "record of the writes.",
)
def diff(
    name: str,
    paths: tuple[str | Overlay, ...],
    cluster_target: ClusterTarget,
    reporting: Reporting,
    options: Options,
    external_diff: str,
    fail_on_drift: bool,
    values: bool,
) -> int:
    """Show what `apply` with the same options would change, prunes included; change nothing.

    The server computes it in a dry run. Values of Secrets are masked. Exits with 0 if nothing
    would change, with 1 if something would, and with a higher code for an error.

    \b
    Examples:
      applyprune diff web -f manifests/
      applyprune diff web -f manifests/ --ignore deployment:/spec/replicas
      applyprune diff web -f manifests/ --values
      applyprune diff web -f manifests/ --external-diff 'diff -ru'
    """
    from applyprune.cli.session import input_reader, run_set

    options = replace(
        options,
        mode=Mode.APPLY,
        # Nothing is written, so show the fields that others have taken.
        apply=replace(
            options.apply,
            force_conflicts=options.apply.force_conflicts or fail_on_drift,
            reapply_all=options.apply.reapply_all or values,  # guard: diff-values
        ),
        diff=replace(options.diff, enabled=True),
    )
    events = with_exit_code(
        run_set(cluster_target, name, input_reader(paths), options), drift_only=fail_on_drift
    )
    text = "diff"
    if external_diff.strip():
        text = "summary"
        events = with_external_diff(events, external_diff)
    return reporting.with_text(text).print_events(events)


def with_exit_code(events: Iterable[Event], *, drift_only: bool) -> Iterator[Event]:
    """Pass events on; change the exit code 0 to 1 if the run would change anything.

    With ``drift_only`` change it only for drift: a change to the manifest that was applied last.
    """
    drifted = False
    for event in events:
        if isinstance(event, ObjectDiff):
            drifted = drifted or event.drifted is not False  # guard: unknown-drift
        if isinstance(event, Finished) and event.exit_code == 0:
            changed = any(count and outcome.is_change for outcome, count in event.counts.items())
            yield replace(event, exit_code=int(drifted if drift_only else changed))
        else:
            yield event


# kubectl's own rule. kubectl drops other arguments silently; we report them.
_PLAIN = pattern(r"[A-Za-z0-9=-]+")
_LONGEST_NAME = 255


def _command(text: str) -> Sequence[str]:
    program, *arguments = text.split()
    if odd := [argument for argument in arguments if not _PLAIN.fullmatch(argument)]:
        raise UsageError(
            f"invalid argument {odd[0]!r} for the diff program",
            reason="as with kubectl, an argument may contain only letters, digits, - and =",
            hint="Use a script that calls the program with this argument.",
        )
    return program, *arguments


def with_external_diff(events: Iterable[Event], text: str) -> Iterator[Event]:
    """Pass events on, and run a diff program before the last of them.

    ``text`` is the program and its arguments. Raises UsageError if the program cannot start, or for
    an argument that kubectl would drop, and RunFailed if its exit code is greater than 1.
    """
    command = _command(text)
    with TemporaryDirectory(prefix="LIVE-") as live, TemporaryDirectory(prefix="MERGED-") as merged:
        for event in events:
            if isinstance(event, ObjectDiff):
                for folder, body in zip((live, merged), (event.before, event.after), strict=True):
                    if body is not None:
                        _write(Path(folder), event, body)
            if isinstance(event, Finished):
                _run_program([*command, live, merged])
            yield event


def _write(folder: Path, diff: ObjectDiff, body: Mapping[str, Any]) -> None:
    from applyprune.system.files import file_name

    state = diff.after or diff.before or {}
    version = str(state.get("apiVersion", "")).replace("/", ".")
    ref = diff.ref
    name = file_name(f"{version}.{ref.kind}.{ref.namespace}.{ref.name}")
    if len(name.encode()) > _LONGEST_NAME:
        end = hashlib.sha256(name.encode()).hexdigest()[:32]
        name = f"{name[: _LONGEST_NAME - len(end) - 1]}.{end}"
    # Only the user may read it: a ConfigMap may contain a password.
    handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        (lines,) = as_yaml(body)
        file.writelines(f"{line}\n" for line in lines)


def _run_program(command: Sequence[str]) -> None:
    from applyprune.system.processes import UnsafeArguments, command_line

    sys.stdout.flush()
    try:
        reply = subprocess.run(command_line(command, Path.cwd(), os.environ), check=False)
    except (OSError, UnsafeArguments) as error:
        reason = (error.strerror or "") if isinstance(error, OSError) else str(error)
        raise UsageError(f"the diff program {command[0]!r} cannot start", reason=reason) from error
    if reply.returncode not in {0, 1}:
        raise RunFailed(f"the diff program {command[0]!r} failed with exit code {reply.returncode}")
