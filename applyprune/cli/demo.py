"""``applyprune demo``: the verbs at work on a real API server, each result checked."""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from applyprune.cli.helping import Command

if TYPE_CHECKING:
    from applyprune.cli.demo_shell import Shell

_KINDS = "namespaces,crds,deployments,services,configmaps,secrets,roles,cronjobs,networkpolicies"


@click.command(cls=Command)
@click.option("--controller", is_flag=True, help="Show what becomes of a Bundle instead.")
def demo(controller: bool) -> int:
    """Show apply, prune and delete on a real API server of its own.

    Starts the embedded control plane (built on the first use, about 6 minutes), runs the commands
    that it prints, checks what each one did, and leaves nothing behind.

    \b
    Examples:
      applyprune demo
      applyprune demo --controller
    """
    from applyprune.cli.demo_controller import tell_of_a_bundle
    from applyprune.cli.demo_shell import Shell
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
