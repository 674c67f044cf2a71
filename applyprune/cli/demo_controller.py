"""``applyprune demo --controller``: what becomes of a Bundle, each result checked."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from applyprune.cli.demo_shell import Shell

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
