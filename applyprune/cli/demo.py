"""``applyprune demo``: the verbs at work on a real API server, each result checked."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from applyprune.cli.helping import Verb
from applyprune.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.localplane import Plane

_OURS = "applyprune/"
_READS = {"get", "list", "watch"}
_KINDS = "namespaces,crds,deployments,services,configmaps,secrets,roles,cronjobs,networkpolicies"


@click.command(cls=Verb)
def demo() -> int:
    """Show apply, prune and delete on a real API server of its own.

    Starts the embedded control plane (built on the first use, about 6 minutes), runs the commands
    that it prints, checks what each one did, and leaves nothing behind.

    \b
    Examples:
      applyprune demo
    """
    from applyprune.cli.packaged import packaged_folder
    from applyprune.localplane import PlaneSpec, ensure_built, progress_on, start

    manifests = packaged_folder("demo")
    progress = progress_on(sys.stderr)
    binaries = ensure_built(progress)
    # The plane removes its own folder, even when this process is killed: there is no other.
    folder = Path(tempfile.mkdtemp(prefix="applyprune-demo-"))
    with start(binaries, PlaneSpec(audit=True), folder, name="demo", progress=progress) as plane:
        _tell(_Shell(plane, manifests))
    return 0


def _tell(shell: _Shell) -> None:
    """Go through the story; whatever does not come out as it is told here raises RunFailed."""
    shell.say("A shop: a Namespace, a CRD and its custom resource, two Deployments, and so on.")
    shell.show(f"cd {shlex.quote(str(shell.folder))}")
    shell.run("applyprune apply shop -f v1", counts={"created": 15})
    shell.run("kubectl wait deployment --all -n shop --for=condition=Available --timeout=60s")
    shell.run("kubectl get deployments,services,promotions -n shop", holds="summer-sale")

    shell.say("Once more: every object is known to be as it should be, so nothing is written.")
    requests = shell.requests()
    shell.run("applyprune apply shop -f v1", counts={"unchanged": 15})
    shell.tell_requests(before=requests)

    shell.say("Version 2: another image, a NetworkPolicy more, a CronJob less. First only a look.")
    second = {"created": 1, "configured": 1, "unchanged": 13, "pruned": 1}
    shell.run("applyprune apply shop -f v2 --dry-run", counts=second)
    shell.run("kubectl get cronjobs -n shop", holds="nightly-report")

    shell.say("Then for good: the CronJob has left the manifests, so it is pruned.")
    shell.run("applyprune apply shop -f v2", counts=second)
    shell.run("kubectl get cronjobs -n shop", holds="No resources found")
    shell.run("kubectl get networkpolicies -n shop", holds="catalogue")

    shell.say("The wrong path, one file instead of all: refused, with all that it would take.")
    shell.run("applyprune apply shop -f v2/namespace.yaml", code=6, holds="--max-prune")

    shell.say("What the set is, by its own record: the inventory, a ConfigMap in the cluster.")
    shell.run("applyprune inventory show shop", holds="promotion.shop.example.com/summer-sale")

    shell.say("Delete the whole set: nothing of it is left, the record included.")
    shell.run("applyprune delete shop --yes", counts={"deleted": 15})
    label = "applyset.kubernetes.io/part-of"
    shell.run(f"kubectl get {_KINDS} -A -l {label}", holds="No resources found")
    shell.run("applyprune inventory list -A", holds="no sets in any namespace")
    shell.say("All of it went as told. The control plane is thrown away now.")


@dataclass(frozen=True, slots=True)
class _Shell:
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
            raise _not_as_told(command, f"its exit code is {process.returncode}")
        if holds not in "".join(output):
            raise _not_as_told(command, f"its output does not say {holds!r}")
        if counts is not None and _counts(output[-1] if output else "") != counts:
            expected = ", ".join(f"{count} {word}" for word, count in counts.items())
            raise _not_as_told(command, f"it should have ended with {expected}")

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
            raise _not_as_told("the second apply", f"the audit log has {writes or 'no requests'}")

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


def _not_as_told(where: str, why: str) -> RunFailed:
    return RunFailed("the demo did not go as told", where=where, why=why)
