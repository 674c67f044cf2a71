"""``python -m tests.demos.gitops``: a Bundle that follows a Git repository, commit by commit.

It is not in the package: its Git server, with its own CA, is the one of the tests.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.cli.sandbox import Shell
from applyprune.errors import RunFailed
from applyprune.localplane import PlaneSpec, ensure_built, progress_on, start
from tests.support.git_servers import author, git_site

if TYPE_CHECKING:
    from tests.support.git_servers import HttpsSite

FIXTURES = Path(__file__).parents[2] / "fixtures"
_SYSTEM, _ACCOUNT = "applyprune-system", "applyprune-controller"
_CONTROLLER = (
    "applyprune controller --listen 127.0.0.1:0 "
    "--allow-source-cidr 127.0.0.0/8 --allow-source-cidr ::1/128"
)
_BUNDLE = """\
apiVersion: applyprune.dev/v1alpha1
kind: Bundle
metadata:
  name: shop
  namespace: shop
spec:
  serviceAccountName: deployer
  source:
    git:
      url: {url}
      ref:
        branch: main
      path: shop
      interval: 1s
      secretRef:
        name: git-credentials
  wait: true
"""
_README = "# The shop\n\nWhat is in this folder runs in the namespace shop.\n"
_WAIT = "kubectl wait bundle/shop -n shop --timeout=30s --for"
_GET = "kubectl get bundle shop -n shop -o wide"
_STATUS = "applyprune status shop -n shop"
_IMAGE = "'jsonpath={.spec.template.spec.containers[0].image}'"


def main() -> int:
    """Run the demo; return the exit code."""
    progress = progress_on(sys.stderr)
    binaries = ensure_built(progress)
    # The plane removes this folder, even if this process is killed.
    folder = Path(tempfile.mkdtemp(prefix="applyprune-demo-"))
    with (
        start(binaries, PlaneSpec(), folder, name="demo", progress=progress) as plane,
        git_site(folder / "git", login="shop:only-for-the-demo") as site,
    ):
        site.repository("deploy").set("http.receivepack", "true")
        work = folder / "work"
        work.mkdir()
        (work / "ca.crt").write_bytes(site.ca)
        (work / "bundle.yaml").write_text(_BUNDLE.format(url=site.url("deploy")))
        settings = {name: value for name, value in author().items() if name.startswith("GIT_")}
        environ = {**settings, "GIT_SSL_CAINFO": str(work / "ca.crt")}
        try:
            _demonstrate(Shell(plane, work, environ), site)
        except RunFailed as error:
            sys.stderr.write(f"error: {error}\n")
            return error.exit_code
    return 0


def _demonstrate(shell: Shell, site: HttpsSite) -> None:
    """Commit, and look at what the controller makes of it; raise RunFailed if it is wrong."""
    shell.comment("Install the CRD and the rights of the controller, as a set.")
    shell.run("applyprune install -q")
    shell.comment("It runs here, and may reach a Git server here only by --allow-source-cidr.")
    log = shell.plane.folder / "controller.log"
    with shell.in_the_background(_CONTROLLER, user=f"{_SYSTEM}/{_ACCOUNT}", log=log):
        repository = _cloned(shell, site)
        _commit_is_applied(shell, repository)
        _removed_file_is_pruned(shell, repository)
        _nothing_left_is_refused(shell, repository)
        _hand_edit_is_reverted(shell)
    shell.comment("Demo finished. Removing the control plane.")


def _cloned(shell: Shell, site: HttpsSite) -> Shell:
    """Return a shell in a work tree of the repository; its first commit is applied."""
    shell.comment("A repository with one folder for the shop, behind TLS and a password.")
    shell.echo_command(f"cd {shell.folder}")
    login = site.url("deploy").replace("https://", f"https://{site.login}@")
    shell.run(f"git clone --quiet {login} deploy")
    folder = shell.folder / "deploy" / "shop"
    folder.mkdir()
    (folder / "README.md").write_text(_README)
    for name in ("storefront", "ingress", "nightly-report"):
        shell.run(f"cp {FIXTURES / 'shop' / name}.yaml deploy/shop")
    repository = Shell(shell.plane, shell.folder / "deploy", shell.environ)
    repository.run("git checkout --quiet -B main")
    repository.run("git add shop")
    commit = _pushed(repository, "The shop")

    shell.comment("A Bundle that follows its branch main, with the credentials in a Secret.")
    shell.run(f"kubectl apply -f {FIXTURES / 'demo' / 'controller' / 'tenant.yaml'}")
    user, _, password = site.login.partition(":")
    shell.run(
        "kubectl create secret generic git-credentials -n shop --from-file=ca.crt "
        f"--from-literal=username={user} --from-literal=password={password}"
    )
    shell.run("cat bundle.yaml")
    shell.run("kubectl apply -f bundle.yaml")
    _applied(shell, commit)
    shell.run(_STATUS, contains="cronjob.batch/nightly-report")
    shell.run("kubectl get cronjobs -n shop", contains="nightly-report")
    return repository


def _commit_is_applied(shell: Shell, repository: Shell) -> None:
    repository.comment("A commit with a new image: it is applied.")
    repository.run("sed -i.old s/storefront:1.0.0/storefront:1.1.0/ shop/storefront.yaml")
    commit = _pushed(repository, "storefront 1.1.0")
    _applied(shell, commit)
    shell.run(f"kubectl get deployment storefront -n shop -o {_IMAGE}", contains="storefront:1.1.0")


def _removed_file_is_pruned(shell: Shell, repository: Shell) -> None:
    repository.comment("A commit that removes a file: its object is pruned.")
    repository.run("git rm --quiet shop/nightly-report.yaml")
    commit = _pushed(repository, "No nightly report")
    _applied(shell, commit)
    shell.run("kubectl get cronjobs -n shop", contains="No resources found")
    shell.run(_STATUS, contains="deployment.apps/storefront")


def _nothing_left_is_refused(shell: Shell, repository: Shell) -> None:
    repository.comment("A commit without any manifest: the prune is blocked, nothing is deleted.")
    repository.run("git rm --quiet shop/storefront.yaml shop/ingress.yaml")
    _pushed(repository, "Clean up")
    shell.run(f"{_WAIT}=condition=PruneBlocked")
    shell.run(_GET, contains="False")
    shell.run("kubectl describe bundle shop -n shop", contains="PruneBlocked")
    shell.run("kubectl get deployment storefront -n shop", contains="storefront")
    repository.comment("Revert that commit: all is well again.")
    repository.run("git revert --no-edit HEAD")
    commit = _pushed(repository)
    _applied(shell, commit)


def _hand_edit_is_reverted(shell: Shell) -> None:
    shell.comment("Somebody changes an object: the controller reverts it at once.")
    shell.run("kubectl scale deployment storefront -n shop --replicas=7")
    back = "--for=jsonpath={.spec.replicas}=2 --timeout=10s"
    shell.run(f"kubectl wait deployment/storefront -n shop {back}", contains="condition met")
    shell.run(_GET, contains="True")
    # The Event comes after the status; who watches the demo wants to see it.
    time.sleep(1)
    shell.run("kubectl get events -n shop --field-selector involvedObject.kind=Bundle")


def _pushed(repository: Shell, message: str = "") -> str:
    """Commit what has changed, push it and return the commit's ID."""
    if message:
        repository.run(f"git commit --quiet --all --message '{message}'")
    repository.run("git push --quiet origin main")
    return repository.output_of("git rev-parse HEAD")


def _applied(shell: Shell, commit: str) -> None:
    """Wait until a commit is applied, and show the Bundle."""
    revision = f"main@sha1:{commit}"
    shell.run(f"{_WAIT}=jsonpath={{.status.lastAppliedRevision}}={revision}")
    shell.run(f"{_WAIT}=condition=Ready")
    shell.run(_GET, contains=commit)


if __name__ == "__main__":
    sys.exit(main())
