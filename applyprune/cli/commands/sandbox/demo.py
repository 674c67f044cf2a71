"""``applyprune demo``: the verbs at work on a real API server, each result checked.

``applyprune demo --controller``: what becomes of a Bundle, each result checked.

What the demos have in common: commands as a user would type them, run and checked.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from applyprune.cli.command import Command
from applyprune.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from applyprune.localplane import Plane

_KINDS = "namespaces,crds,deployments,services,configmaps,secrets,roles,cronjobs,networkpolicies"


@click.command(cls=Command)
@click.option("--controller", is_flag=True, help="Demonstrate Bundles instead.")
def demo(controller: bool) -> int:
    """Demonstrate apply, prune and delete on a throw-away control plane.

    Starts the embedded control plane (built on the first use, about 6 minutes), runs the commands
    that it prints, checks what each one did, and leaves nothing behind.

    \b
    Examples:
      applyprune demo
      applyprune demo --controller
    """
    from applyprune.cli.packaged import packaged_folder
    from applyprune.localplane import PlaneSpec, ensure_built, progress_on, start

    manifests = packaged_folder("demo")
    progress = progress_on(sys.stderr)
    binaries = ensure_built(progress)
    # The plane removes its own folder, even when this process is killed: there is no other.
    folder = Path(tempfile.mkdtemp(prefix="applyprune-demo-"))
    with start(binaries, PlaneSpec(audit=True), folder, name="demo", progress=progress) as plane:
        if controller:
            tell_of_a_bundle(Shell(plane, manifests / "controller"))
        else:
            _tell(Shell(plane, manifests))
    return 0


def _tell(shell: Shell) -> None:
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


_HOME = "applyprune-system"
_ALL = "deployments,services,pdb,networkpolicies,ingresses,cronjobs,configmaps,serviceaccounts"
_MINE = f"kubectl get {_ALL} -n shop -l applyset.kubernetes.io/part-of"
_READY = "kubectl wait bundle/shop -n shop --for=condition=Ready --timeout=60s"


def tell_of_a_bundle(shell: Shell) -> None:
    """Go through the story; whatever does not come out as it is told here raises RunFailed."""
    shell.say("Into the cluster: the CRD, its rights, the Deployment, as a set of its own.")
    shell.run("applyprune install --wait", holds="13 created")
    shell.run(f"kubectl get deployments -n {_HOME}", holds="2/2")

    shell.say(
        "The nodes of this plane are played, and their Pods run nothing. So the controller runs "
        "here, with the rights of its ServiceAccount in the cluster and no others."
    )
    log = shell.plane.folder / "controller.log"
    controller = "applyprune controller --listen 127.0.0.1:0 --lease-duration 5s"
    user = f"{_HOME}/applyprune-controller"
    with shell.in_the_background(controller, user=user, log=log):
        _live(shell)

    shell.say("Without its controller: the CRD stays, or every Bundle would go along with it.")
    shell.run(f"applyprune delete applyprune -n {_HOME} --yes", holds="12 deleted, 2 orphaned")
    shell.say("All of it went as told. The control plane is thrown away now.")


def _live(shell: Shell) -> None:
    shell.say("A Bundle, whose manifests are in a ConfigMap, carried out as the account deployer.")
    shell.show(f"cd {shlex.quote(str(shell.folder))}")
    shell.run("kubectl apply -f tenant.yaml -f v1.yaml -f bundle.yaml")
    shell.run(_READY)
    shell.run("kubectl get bundles -n shop", holds="Applied")
    shell.run(_MINE, holds="cronjob.batch/nightly-report")

    shell.say("Changed: another image, and a CronJob less, which is pruned.")
    shell.run("kubectl apply -f v2.yaml")
    shell.run("kubectl wait cronjob/nightly-report -n shop --for=delete --timeout=60s")
    shell.run(_READY)
    shell.run("kubectl get deployment storefront -n shop -o wide", holds="storefront:1.1.0")

    shell.say("Somebody loses almost all of it: refused, and everything stays as it is.")
    shell.run("kubectl apply -f v3.yaml")
    shell.run("kubectl wait bundle/shop -n shop --for=condition=PruneBlocked --timeout=60s")
    shell.run("kubectl get bundle shop -n shop -o wide", holds="it would delete 6 objects")
    shell.run("kubectl get deployment storefront -n shop", holds="2/2")

    shell.say("Nobody gets in the controller's way: the set belongs to the Bundle.")
    shell.run("applyprune delete shop -n shop --yes", code=2, holds="belongs to Bundle shop/shop")

    shell.say("If it is meant after all: exactly this prune is approved, by its digest.")
    digest = shell.ask("kubectl get bundle shop -n shop -o jsonpath={.status.pendingPrune.digest}")
    shell.run(f"kubectl annotate bundle shop -n shop applyprune.dev/approve={digest}")
    shell.run(_READY)
    shell.run(_MINE, holds="configmap/storefront")
    shell.run("kubectl get deployments -n shop", holds="No resources found")

    shell.say("Deleted: what it has applied goes along, and its inventory.")
    shell.run("kubectl delete bundle shop -n shop --timeout=60s")
    shell.run(_MINE, holds="No resources found")
    shell.run("kubectl get events -n shop --field-selector involvedObject.kind=Bundle")


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
    return RunFailed("the demo did not go as told", location=where, reason=why)
