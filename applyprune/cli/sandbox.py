"""``applyprune demo`` and ``local``: a real control plane on this machine, to try things on.

Both demos run commands as a user would type them, and check each result.
"""

from __future__ import annotations

import codecs
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

import click
from msgspec import Struct, field

from applyprune.cli.options import CommandGroup, Option, command
from applyprune.errors import AccessError, RunFailed, UsageError
from applyprune.model.options import CONTROLLER_NAMESPACE

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune.localplane import Plane
    from applyprune.localplane.planes import PlaneStatus


@command(click.Argument(("what",), type=click.Choice(["sets", "bundles"]), default="sets"))
def demo(what: str) -> int:
    """Demonstrate a diff, a prune, a refused prune and a conflict on a throw-away control plane.

    With `bundles`, it demonstrates the controller. Starts the embedded control plane, which is
    built if nothing has it, runs the commands that it prints, answers their questions, checks what
    each one did, and leaves nothing behind.

    \b
    Examples:
      applyprune demo
      applyprune demo bundles
    """
    from applyprune.cli.controller import packaged_folder
    from applyprune.localplane import PlaneSpec, ensure_built, progress_on, start

    manifests = packaged_folder("demo")
    progress = progress_on(sys.stderr)
    binaries = ensure_built(progress)
    # The plane removes this folder, even if this process is killed.
    folder = Path(tempfile.mkdtemp(prefix="applyprune-demo-"))
    with start(binaries, PlaneSpec(), folder, name="demo", progress=progress) as plane:
        if what == "bundles":
            demonstrate_bundles(Shell(plane, manifests / "controller"))
        else:
            demonstrate_apply(Shell(plane, manifests))
    return 0


_BY_HAND = """kubectl patch configmap settings -p '{"data":{"CURRENCY":"GBP"}}'"""


def demonstrate_apply(shell: Shell) -> None:
    """Apply, compare and prune a set; raise RunFailed if a result is not as expected.

    It fits a screen: at 80 columns, 65 lines with those of the control plane.
    """
    shell.run("applyprune apply store -f store --wait -q", why="the set store, of four objects")
    shell.run(
        "applyprune diff store -f dollars",
        why="another currency",
        code=1,
        contains="keeps the old values until its Pods restart",
    )
    click.echo()
    shell.run(
        "applyprune apply store -f plain",
        why="without one of the objects",
        contains="3 unchanged, 1 pruned",
        answer="y",
    )
    click.echo()
    shell.run(
        "applyprune apply store -f store/settings.yaml",
        why="by mistake: one file of three",
        code=6,
        contains="the prune was refused",
    )
    click.echo()
    shell.run(_BY_HAND, why="by hand")
    shell.run(
        "applyprune apply store -f plain",
        why="it overwrites nothing",
        code=4,
        contains="owned by kubectl-patch",
    )
    shell.run("applyprune apply store -f plain --conflicts revert --yes -q", why="reverts it")
    shell.comment('Demo finished. To try it yourself: eval "$(applyprune local up)"')


def demonstrate_bundles(shell: Shell) -> None:
    """Install the controller and use a Bundle; raise RunFailed if a result is not as expected."""
    shell.comment("Install the CRD, the rights and the Deployment of the controller, as a set.")
    shell.run("applyprune install --wait -q")
    shell.run(f"kubectl get deployments -n {CONTROLLER_NAMESPACE}", contains="2/2")

    shell.comment("Pods run nothing on this plane: the controller runs here, with its own rights.")
    log = shell.plane.folder / "controller.log"
    controller = "applyprune controller --listen 127.0.0.1:0"
    user = f"{CONTROLLER_NAMESPACE}/applyprune-controller"
    with shell.in_the_background(controller, user=user, log=log):
        _bundle_life(shell)

    shell.comment("Uninstall it. The CRD stays, because deleting it deletes every Bundle.")
    shell.run(f"applyprune delete applyprune -n {CONTROLLER_NAMESPACE} --yes -q")
    shell.run(f"kubectl get deployments -n {CONTROLLER_NAMESPACE}", contains="No resources found")
    shell.run("kubectl get crd bundles.applyprune.dev -o name", contains="bundles.applyprune.dev")
    shell.comment("Demo finished. Removing the control plane.")


_SHOW = "applyprune inventory show shop -n shop"
_URL = "http://catalogue:8080"
_PATCH = """kubectl patch configmap storefront -n shop -p '{{"data":{{"CATALOGUE_URL":"{}"}}}}'"""
_WAIT_READY = "kubectl wait bundle/shop -n shop --for=condition=Ready --timeout=60s"


def _bundle_life(shell: Shell) -> None:
    shell.comment("A Bundle with its manifests in a ConfigMap, applied as the account deployer.")
    shell.echo_command(f"cd {shlex.quote(str(shell.folder))}")
    shell.run("kubectl apply -f tenant.yaml -f v1.yaml -f bundle.yaml")
    shell.run(_WAIT_READY)
    shell.run("kubectl get bundles -n shop", contains="Applied")
    shell.run(_SHOW, contains="cronjob.batch/nightly-report")

    shell.comment("Somebody changes an object: the controller reverts it at once.")
    shell.run(_PATCH.format("http://elsewhere"))
    back = f"--for=jsonpath={{.data.CATALOGUE_URL}}={_URL} --timeout=10s"
    shell.run(f"kubectl wait configmap/storefront -n shop {back}", contains="condition met")
    reverted = "kubectl get events -n shop --field-selector involvedObject.kind=Bundle"
    shell.run(reverted, contains="reverted 1 field that kubectl-patch had changed")

    shell.comment("A script changes it without end: after five reverts the controller gives way.")
    with shell.again_and_again(_PATCH.format("http://fight-{}")):
        contended = (
            """--for=jsonpath='{.status.conditions[?(@.type=="Drifted")].reason}'=Contended"""
        )
        shell.run(f"kubectl wait bundle/shop -n shop {contended} --timeout=60s")
    shell.run("kubectl get bundle shop -n shop", contains="Contended")
    condition = '{.status.conditions[?(@.type=="Drifted")].message}'
    message = shell.output_of(f"kubectl get bundle shop -n shop -o 'jsonpath={condition}'")
    if "ignoreFields" not in message:
        raise demo_failed("the condition Drifted", "it does not say what would end this")

    shell.comment("The script is stopped. Ask for the manifest's value again.")
    shell.run("applyprune bundle reconcile shop -n shop --wait", contains="ready")
    shell.run(f"kubectl wait configmap/storefront -n shop {back}", contains="condition met")

    shell.comment("Change it: a new image, and no CronJob, which is pruned.")
    shell.run("kubectl apply -f v2.yaml")
    shell.run("kubectl wait cronjob/nightly-report -n shop --for=delete --timeout=60s")
    shell.run(_WAIT_READY)
    shell.run("kubectl get deployment storefront -n shop -o wide", contains="storefront:1.1.0")

    shell.comment("Somebody removes almost all manifests: the prune is refused.")
    shell.run("kubectl apply -f v3.yaml")
    shell.run("kubectl wait bundle/shop -n shop --for=condition=PruneBlocked --timeout=60s")
    shell.run("kubectl get bundle shop -n shop -o wide", contains="6 to prune")
    shell.run("kubectl get deployment storefront -n shop", contains="2/2")

    shell.comment("The command line cannot interfere: the set belongs to the Bundle.")
    shell.run(
        "applyprune delete shop -n shop --yes", code=2, contains="belongs to Bundle shop/shop"
    )

    shell.comment("If the prune is intended: approve exactly this prune, by its digest.")
    digest = shell.output_of(
        "kubectl get bundle shop -n shop -o jsonpath={.status.pendingPlan.digest}"
    )
    shell.run(f"kubectl annotate bundle shop -n shop applyprune.dev/approve={digest}")
    shell.run(_WAIT_READY)
    shell.run(_SHOW, contains="configmap/storefront")
    shell.run("kubectl get deployments -n shop", contains="No resources found")

    shell.comment("Delete the Bundle: its objects and its inventory are deleted too.")
    shell.run("kubectl delete bundle shop -n shop --timeout=60s")
    shell.run("applyprune list -n shop", contains="no sets")
    shell.run("kubectl get configmaps -n shop -l applyset.kubernetes.io/part-of", contains="No res")


_QUESTION = "[y/N/d]"


class Shell(Struct, frozen=True):
    """Prints and runs commands in ``folder``, with KUBECONFIG set to the plane."""

    plane: Plane
    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    """What the commands have in their environment beside that of this process."""

    def comment(self, text: str) -> None:
        """Print a comment."""
        click.secho(f"\n# {text}", bold=True)

    def echo_command(self, command: str, why: str = "") -> None:
        """Print a command as a terminal shows it, with a comment."""
        click.secho(f"$ {command}", fg="cyan", nl=not why)
        if why:
            click.secho(f"  # {why}", bold=True)

    def run(
        self,
        command: str,
        *,
        why: str = "",
        code: int = 0,
        contains: str = "",
        answer: str = "",
    ) -> None:
        """Run a command on a terminal; raise RunFailed if what it does is not as expected.

        The exit code must be ``code``, and the output must contain ``contains``, wherever its lines
        end. ``answer`` is typed after the question, which then must come.
        """
        self.echo_command(command, why)
        output, ended = self._on_terminal(command, f"{_QUESTION} " if answer else "", answer)
        shown = " ".join(click.unstyle(output).split())
        if ended != code:
            raise demo_failed(command, f"its exit code is {ended}")
        if contains not in shown:
            raise demo_failed(command, f"its output does not contain {contains!r}")
        if answer and f"{_QUESTION} {answer}" not in shown:
            raise demo_failed(command, "it does not ask")

    def _on_terminal(self, command: str, question: str, answer: str) -> tuple[str, int]:
        """Run a command, show what its terminal shows, and return that and the exit code."""
        from applyprune.system.terminal import new_terminal

        is_seen = sys.stdout.isatty()
        terminal, inner = new_terminal(shutil.get_terminal_size().columns if is_seen else 80)
        with terminal:
            try:
                process = subprocess.Popen(
                    self._arguments(command),
                    cwd=self.folder,
                    env=self._environment() | ({} if is_seen else {"TERM": "dumb"}),
                    stdin=inner,
                    stdout=inner,
                    stderr=inner,
                )
            finally:
                os.close(inner)
            text = codecs.getincrementaldecoder("utf-8")("replace")
            shown = ""
            # If nobody reads what is shown, the terminal is closed before its end is waited for.
            with process, terminal:
                while data := _read(terminal):
                    part = text.decode(data)
                    click.echo(part, nl=False)
                    shown += part
                    if question and shown.endswith(question):
                        question = ""
                        terminal.write(f"{answer}\n".encode())
        return shown, process.returncode

    def output_of(self, command: str) -> str:
        """Run a command, show its output and return it."""
        self.echo_command(command)
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
            raise demo_failed(
                command, f"its exit code is {reply.returncode}, or it printed nothing"
            )
        return reply.stdout.strip()

    @contextmanager
    def again_and_again(self, command: str) -> Iterator[None]:
        """Run a command each second, with another number in place of ``{}``, until the end."""
        self.echo_command(f"while sleep 1; do {command.replace('{}', '$RANDOM')}; done &")
        ended = Event()

        def repeat() -> None:
            number = 0
            while not ended.wait(1.0):
                number += 1
                subprocess.run(
                    self._arguments(command.replace("{}", str(number))),
                    env=self._environment(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=False,
                )

        thread = Thread(target=repeat, name="applyprune-demo")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    @contextmanager
    def in_the_background(self, command: str, *, user: str, log: Path) -> Iterator[None]:
        """Run a command as the ServiceAccount NAMESPACE/NAME until the block ends.

        Its output goes to ``log``; the last lines are shown if the block raises.
        """
        self.echo_command(f"{command} &")
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
        arguments = self._arguments(f"kubectl create token {name} -n {namespace} --duration=1h")
        reply = subprocess.run(
            arguments, env=self._environment(), stdout=subprocess.PIPE, text=True, check=False
        )
        if reply.returncode != 0:
            raise demo_failed(f"the token of {user}", f"its exit code is {reply.returncode}")
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

    def _arguments(self, command: str) -> list[str]:
        program, *arguments = shlex.split(command)
        if program == "applyprune":
            return [sys.executable, "-m", "applyprune", *arguments]
        if program == "kubectl":
            return [str(self.plane.kubectl), *arguments]
        return [program, *arguments]

    def _environment(self) -> dict[str, str]:
        # Without the user's own variables for clusters, kubectl and applyprune, and without that of
        # a pipeline, in which nothing is asked. The caches are in the plane's folder, which is
        # removed with the plane.
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("KUBE", "APPLYPRUNE_")) and key != "CI"
        }
        caches = str(self.plane.folder / "caches")
        return {
            **kept,
            "KUBECONFIG": str(self.plane.kubeconfig),
            "KUBECACHEDIR": caches,
            "XDG_CACHE_HOME": caches,
            **self.environ,
        }


def _read(terminal: io.FileIO) -> bytes:
    """Return what a terminal shows next; nothing once no program has it open."""
    try:
        return os.read(terminal.fileno(), 65536)
    except OSError:  # so on Linux; elsewhere a read returns nothing
        return b""


def demo_failed(location: str, reason: str) -> RunFailed:
    """Return the error for an unexpected result."""
    return RunFailed("the demo failed", location=location, reason=reason)


@click.group(cls=CommandGroup)
def local() -> None:
    """Run a real Kubernetes control plane on this machine: API server, controllers, fake nodes."""


_NAME = click.Argument(("name",), default="default")


@command(_NAME, of=local)
def up(name: str) -> None:
    """Start the plane NAME, `default` without one, and leave it running.

    Its programs come from the cache, else the package applyprune-plane, else they are built from
    source, which takes minutes.

    Prints a shell command: `eval` it to point applyprune and kubectl at the plane.

    \b
    Examples:
      eval "$(applyprune local up)"
      eval "$(applyprune local up trial)"
    """
    from applyprune.localplane import PlaneSpec, progress_on
    from applyprune.localplane.planes import bring_up

    plane, started = bring_up(name, PlaneSpec(), progress_on(sys.stderr))
    if not started:
        click.echo(f"the plane {name} is already running", err=True)
    named = "" if name == "default" else f" {name}"
    click.echo(f"its API server is {plane.server}", err=True)
    if sys.stdout.isatty():
        click.echo("in this shell, use it by:", err=True)
    click.echo(f"export KUBECONFIG={shlex.quote(str(plane.kubeconfig))}")
    click.echo("To look at it: applyprune local kubectl get nodes", err=True)
    click.echo(f"To remove it: applyprune local down{named}", err=True)


@command(_NAME, Option("--all", "every", is_flag=True, help="All planes."), of=local)
def down(name: str, *, every: bool) -> None:
    """Stop the plane NAME and remove its data. Succeeds if there is no such plane.

    \b
    Examples:
      applyprune local down
      applyprune local down --all
    """
    from applyprune.localplane.planes import bring_down, plane_names

    for each in plane_names() if every else (name,):
        done = bring_down(each)
        others = "" if done else _planes(plane_names())
        click.echo(f"the plane {each} {'is down' if done else 'does not exist'}{others}", err=True)


def _planes(names: Sequence[str]) -> str:
    """Return which planes there are, to follow that one does not exist."""
    return f"; the planes are: {', '.join(names)}" if names else ""


@command(click.Argument(("name",), required=False), of=local)
def status(name: str | None) -> None:
    """List the planes, or only NAME: phase, and kubeconfig or the reason why it does not run.

    \b
    Examples:
      applyprune local status
    """
    from applyprune.localplane.planes import plane_names, plane_status
    from applyprune.output.terminal import Terminal, table

    names = plane_names()
    if name is not None and name not in names:
        raise UsageError(f"the plane {name} does not exist{_planes(names)}")
    statuses = [plane_status(one) for one in names if name in {None, one}]
    if not statuses:
        click.echo("no planes; start one with `applyprune local up`", err=True)
        return
    terminal = Terminal()
    width = terminal.size()[0] if terminal.out_is_screen else None
    terminal.out(table(("NAME", "PHASE", "SERVER", "DETAIL"), [*map(_row, statuses)], width))


def _row(status: PlaneStatus) -> tuple[str, str, str, str]:
    if status.plane is not None:
        return status.name, status.phase, status.plane.server, str(status.plane.kubeconfig)
    return status.name, status.phase, "-", status.reason or str(status.folder)


@command(
    click.Argument(("arguments",), nargs=-1, type=click.UNPROCESSED),
    of=local,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    add_help_option=False,
)
def kubectl(arguments: tuple[str, ...]) -> None:
    """Run kubectl against the plane of KUBECONFIG, or else the default one.

    All arguments go to kubectl.
    """
    from applyprune.localplane.planes import name_of, running_plane

    plane = running_plane(name_of(os.environ.get("KUBECONFIG", "")))
    environment = os.environ | {"KUBECONFIG": str(plane.kubeconfig)}
    # This process becomes kubectl, with kubectl's exit code, terminal and signals.
    try:
        os.execve(plane.kubectl, ["kubectl", *arguments], environment)  # noqa: S606 - no shell
    except FileNotFoundError:
        raise AccessError(
            "kubectl is missing from the cache",
            location=str(plane.kubectl),
            reason="the cache was emptied while the plane was running",
            hint="Stop the plane and start it again: `applyprune local down`, then `up`.",
        ) from None
