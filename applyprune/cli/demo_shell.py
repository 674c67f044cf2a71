"""What the demos have in common: commands as a user would type them, run and checked."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from applyprune.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from applyprune.localplane import Plane

_OURS = "applyprune/"
_READS = {"get", "list", "watch"}


@dataclass(frozen=True, slots=True)
class Shell:
    """Prints and runs what a user would type in ``folder``, with KUBECONFIG set to the plane."""

    plane: Plane
    folder: Path

    def say(self, text: str) -> None:
        """Write a line of the story."""
        click.secho(f"\n# {text}", bold=True)

    def show(self, command: str) -> None:
        """Write a command as it would stand in a terminal."""
        click.secho(f"$ {command}", fg="cyan")

    def run(
        self,
        command: str,
        *,
        code: int = 0,
        counts: Mapping[str, int] | None = None,
        holds: str = "",
    ) -> None:
        """Run a command and show its output; raise RunFailed when it is not as expected.

        Its exit code must be ``code``, its output hold ``holds``, its summary say just ``counts``.
        """
        self.show(command)
        output: list[str] = []
        with subprocess.Popen(
            self._arguments(command),
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            for line in process.stdout or ():
                click.echo(line, nl=False)
                output.append(line)
        if process.returncode != code:
            raise not_as_told(command, f"its exit code is {process.returncode}")
        if holds not in "".join(output):
            raise not_as_told(command, f"its output does not say {holds!r}")
        if counts is not None and _counts(output[-1] if output else "") != counts:
            expected = ", ".join(f"{count} {word}" for word, count in counts.items())
            raise not_as_told(command, f"it should have ended with {expected}")

    def ask(self, command: str) -> str:
        """Return what a command says, which is shown as well."""
        self.show(command)
        reply = subprocess.run(
            self._arguments(command),
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        click.echo(reply.stdout)
        if reply.returncode != 0 or not reply.stdout.strip():
            raise not_as_told(command, f"its exit code is {reply.returncode}, and it says nothing")
        return reply.stdout.strip()

    @contextmanager
    def in_the_background(self, command: str, *, user: str, log: Path) -> Iterator[None]:
        """Run a command, as the ServiceAccount NAMESPACE/NAME, until the block ends.

        What it says goes to ``log``; its last lines are shown when the block raises.
        """
        self.show(f"{command} &")
        arguments = [*self._arguments(command), "--kubeconfig", str(self._kubeconfig_of(user))]
        with (
            log.open("w") as file,
            subprocess.Popen(
                arguments,
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            ) as process,
        ):
            try:
                yield
            except BaseException:
                click.echo("".join(log.read_text().splitlines(keepends=True)[-10:]))
                raise
            finally:
                process.terminate()

    def _kubeconfig_of(self, user: str) -> Path:
        namespace, _, name = user.partition("/")
        asked = self._arguments(f"kubectl create token {name} -n {namespace} --duration=1h")
        reply = subprocess.run(
            asked, env=self._environment(), stdout=subprocess.PIPE, text=True, check=False
        )
        if reply.returncode != 0:
            raise not_as_told(f"the token of {user}", f"its exit code is {reply.returncode}")
        plane = self.plane
        cluster = {"server": plane.server, "certificate-authority": str(plane.ca_file)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": user, "cluster": cluster}],
            "users": [{"name": user, "user": {"token": reply.stdout.strip()}}],
            "contexts": [
                {"name": user, "context": {"cluster": user, "user": user, "namespace": namespace}}
            ],
            "current-context": user,
        }
        path = plane.folder / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(content))
        return path

    def requests(self) -> list[Mapping[str, Any]]:
        """Return what applyprune has asked of the API server so far, by the server's audit log."""
        log = self.plane.audit_log
        lines = log.read_bytes().splitlines() if log else []
        events = [json.loads(line) for line in lines]
        return [event for event in events if event.get("userAgent", "").startswith(_OURS)]

    def tell_requests(self, *, before: list[Mapping[str, Any]]) -> None:
        """Say what was asked since ``before``; raise RunFailed when any of it was a write."""
        verbs = [str(event["verb"]) for event in self.requests()[len(before) :]]
        writes = [verb for verb in verbs if verb not in _READS]
        click.echo(f"(the server's audit log: {len(verbs)} requests, {len(writes)} of them writes)")
        if writes or not verbs:
            raise not_as_told("the second apply", f"the audit log has {writes or 'no requests'}")

    def _arguments(self, command: str) -> list[str]:
        program, *arguments = shlex.split(command)
        if program == "applyprune":
            return [sys.executable, "-m", "applyprune", *arguments]
        return [str(self.plane.kubectl), *arguments]

    def _environment(self) -> dict[str, str]:
        # What the user's own environment says of clusters and kubectl does not concern the demo,
        # and its caches go when the plane goes.
        kept = {key: value for key, value in os.environ.items() if not key.startswith("KUBE")}
        caches = str(self.plane.folder / "caches")
        return {
            **kept,
            "KUBECONFIG": str(self.plane.kubeconfig),
            "KUBECACHEDIR": caches,
            "XDG_CACHE_HOME": caches,
        }


def _counts(summary: str) -> dict[str, int]:
    """Return the counts of a run's last line, ``shop: 1 created, 14 unchanged in 0.2 s``."""
    return {word: int(count) for count, word in re.findall(r"(\d+) ([a-z]{4,})", summary)}


def not_as_told(where: str, why: str) -> RunFailed:
    """Return the error for a story that has come out differently."""
    return RunFailed("the demo did not go as told", where=where, why=why)
