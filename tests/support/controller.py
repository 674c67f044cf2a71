"""The controller as its own process, and a tenant's namespace with Bundles."""

from __future__ import annotations

import json
import re
import secrets
import signal
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import urllib3

from tests.support.command import start
from tests.support.controller_program import program_for
from tests.support.namespaces import kill_inside, terminate_inside
from tests.support.objects import config_map, text
from tests.support.processes import children, suspend
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Sequence

    from tests.support.api import Api


@dataclass(slots=True)
class Controller:
    """A running controller; ``log`` is the file of its standard error."""

    process: subprocess.Popen[str]
    log: Path
    begins: int = 0
    """Where in the file the lines begin that are looked at: those before are of other modules."""

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Return its log; every line is JSON, except the error that it ends with."""
        return _parsed(self._text().splitlines(keepends=True))

    def _text(self) -> str:
        with self.log.open(encoding="utf-8") as file:
            file.seek(self.begins)
            return file.read()

    def _start(self, key: str) -> str:
        """Wait until a line of its start has a value; return it."""

        def found() -> str:
            assert self.process.poll() is None, self.log.read_text()
            lines = _parsed(self.log.read_text().splitlines(keepends=True)[:100])
            return next((str(line[key]) for line in lines if key in line), "")

        return str(eventually(found, lambda: "the controller"))

    @property
    def address(self) -> str:
        """Wait until it serves, and return its address."""
        return f"http://{self._start('listen')}"

    @property
    def replica(self) -> str:
        """Wait until it serves, and return the name of the replica."""
        return self._start("replica")

    def ask(self, path: str) -> tuple[int, str]:
        """Return the status and text of its reply at a path."""
        reply = urllib3.request("GET", self.address + path, timeout=HANG, retries=False)
        return reply.status, reply.data.decode()

    def metric(self, name: str) -> float:
        """Return one series, with its labels as Prometheus writes them."""
        found = [
            line.rpartition(" ") for line in self.ask("/metrics")[1].splitlines() if line[:1] != "#"
        ]
        return float(next(value for series, _, value in found if series == name))

    def reconciles(self, tenant: Tenant, name: str = "") -> list[str]:
        """Return the reason of each reconcile of a tenant's Bundles, or of one of them, so far."""
        about = f'"message": "bundle reconciled", "namespace": "{tenant.namespace}"'
        # Of a long log, all but these lines are somebody else's.
        lines = self._text().splitlines(keepends=True)
        found = _parsed([line for line in lines if about in line])
        return [line["reason"] for line in found if name in {"", line["bundle"]}]

    def workers(self) -> list[int]:
        """Return the IDs of its worker processes, which a process of their own has started."""
        (server,) = (one for one in children(self.process.pid) if children(one))
        return children(server)

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        terminate_inside(self.process)
        return self.process.wait(HANG)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let it see and do nothing meanwhile."""
        suspend(self.process.pid)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it by SIGKILL."""
        kill_inside(self.process)


def _parsed(lines: list[str]) -> list[dict[str, Any]]:
    """Return the lines of a log as far as they are complete, without the error at the end."""
    ends = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    return [json.loads(line) for line in lines[: ends[0] if ends else None] if line[-1:] == "\n"]


@contextmanager
def controller(
    kubeconfig: Path,
    log: Path,
    *arguments: str,
    within: Sequence[str] = (),
    verbose: bool = True,
) -> Iterator[Controller]:
    """Run ``applyprune controller`` as its own process; kill it at the end.

    ``arguments`` may have words of ``controller_program``, and ``within`` is the beginning of the
    command that runs it.
    """
    options = ("--listen", "127.0.0.1:0", *(["-v"] if verbose else []), *arguments)
    program = program_for(options)
    with log.open("w") as file:
        process = start(
            *options, kubeconfig=kubeconfig, stderr=file, within=within, program=program
        )
    with process:
        running = Controller(process, log)
        try:
            yield running
        finally:
            process.kill()
    assert "Traceback" not in log.read_text()
    broken = [line for line in running.lines if "traceback" in line]
    assert broken == []


@dataclass(slots=True)
class Tenant:
    """A namespace with Bundles, and an account that may do anything in it by default."""

    api: Api
    namespace: str

    def path(self, plural: str, name: str = "", group: str = "") -> str:
        """Return the path of objects of the namespace."""
        base = f"/apis/{group}" if group else "/api/v1"
        return f"{base}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def bundle_path(self, name: str = "") -> str:
        """Return the path of Bundles."""
        return self.path("bundles", name, "applyprune.dev/v1alpha1")

    def put(self, plural: str, body: dict[str, Any], group: str = "") -> dict[str, Any]:
        """Apply an object by server-side apply as ``tenant``."""
        path = self.path(plural, body["metadata"]["name"], group)
        return dict(self.api.apply(path, body, by="tenant", force=True))

    def drop(self, name: str, plural: str = "configmaps", group: str = "") -> None:
        """Delete an object, by default a ConfigMap."""
        status, reply = self.api("DELETE", self.path(plural, name, group))
        assert status == 200, reply

    def bundle(self, name: str, *manifests: dict[str, Any], **spec: Any) -> dict[str, Any]:
        """Apply a Bundle of these manifests, or of the given source."""
        body = {
            "apiVersion": "applyprune.dev/v1alpha1",
            "kind": "Bundle",
            "metadata": {"name": name},
            "spec": {"source": {"inline": text(*manifests)}, "retryInterval": "1s", **spec},
        }
        return self.put("bundles", body, "applyprune.dev/v1alpha1")

    def suspended(self, name: str, **spec: Any) -> None:
        """Suspend a Bundle, perhaps with a change, and wait until its controller knows it."""
        self.patch(name, suspend=True, **spec)
        eventually(lambda: self.condition(name, "Reconciling")[1] == "Suspended")

    def get(self, name: str) -> dict[str, Any]:
        """Return a Bundle."""
        return dict(self.api.get(self.bundle_path(name)))

    def patch(self, name: str, **spec: Any) -> None:
        """Change fields of a Bundle's spec."""
        self._merge(name, {"spec": spec})

    def annotate(self, name: str, **annotations: str) -> None:
        """Set our annotations on a Bundle; ``a_b`` is ``applyprune.dev/a-b``."""
        told = {f"applyprune.dev/{key.replace('_', '-')}": v for key, v in annotations.items()}
        self._merge(name, {"metadata": {"annotations": told}})

    def _merge(self, name: str, body: dict[str, Any]) -> None:
        self.api.patch(self.bundle_path(name), body)

    def delete(self, name: str) -> None:
        """Delete a Bundle; its finalizer may keep it."""
        status, reply = self.api("DELETE", self.bundle_path(name))
        assert status == 200, reply

    def condition(self, name: str, kind: str = "Ready") -> tuple[str, str, str]:
        """Return the status, reason and message of a condition of the last generation."""
        found = self.get(name)
        for one in found.get("status", {}).get("conditions", ()):
            check_words(one["message"])
            if one["type"] == kind:
                if one["observedGeneration"] != found["metadata"]["generation"]:
                    return "Unknown", "Outdated", one["message"]
                return one["status"], one["reason"], one["message"]
        return "", "", ""

    def ready(self, name: str) -> dict[str, Any]:
        """Wait until a Bundle is ready in its last generation; return its status."""
        eventually(
            lambda: self.condition(name)[0] == "True" or None,
            lambda: f"{name} ready: {self.condition(name)}",
        )
        return dict(self.get(name)["status"])

    def applied(self, name: str, revision: str) -> None:
        """Wait until a Bundle is ready with a revision.

        An object is changed before the status says so, and a Bundle is ready with the old revision.
        """
        eventually(
            lambda: (
                self.get(name).get("status", {}).get("lastAppliedRevision") == revision
                and self.condition(name)[0] == "True"
            ),
            lambda: f"{name} at {revision}: {self.get(name).get('status')}",
        )

    def failed(self, name: str, reason: str) -> str:
        """Wait until a Bundle is not ready for a reason; return the message."""
        eventually(
            lambda: self.condition(name)[:2] == ("False", reason),
            lambda: f"{name} {reason}: {self.condition(name)}",
        )
        return self.condition(name)[2]

    def waits(self, name: str, message: str) -> None:
        """Wait until a Bundle waits for its objects, and says for which."""
        wanted = ("Unknown", "Progressing", message)
        eventually(
            lambda: self.condition(name) == wanted,
            lambda: f"{name} {message}: {self.condition(name)}",
        )

    def reconciled(self, name: str, request: str) -> None:
        """Ask for a reconcile of a Bundle, and wait until it is over."""
        self.annotate(name, reconcile_now=request)
        eventually(
            lambda: self.get(name)["status"].get("lastHandledReconcileAt") == request,
            lambda: f"{name} reconciled for {request}",
        )

    def failures(self, name: str) -> dict[str, str]:
        """Return the messages of the objects that fail."""
        found = {one["object"]: one["message"] for one in self.get(name)["status"]["failing"]}
        for message in found.values():
            check_words(message)
        return found

    def gone(self, name: str) -> None:
        """Wait until a Bundle is gone."""
        eventually(lambda: not self.api.exists(self.bundle_path(name)), lambda: f"{name} gone")

    def exists(self, *names: str) -> list[bool]:
        """Return for each ConfigMap whether it exists."""
        return [self.api.exists(self.path("configmaps", name)) for name in names]

    def value(self, name: str) -> str:
        """Return the only value of a ConfigMap."""
        return str(self.api.get(self.path("configmaps", name))["data"]["key"])

    def strip(self, name: str) -> None:
        """Remove the finalizers of a ConfigMap."""
        self.api.patch(self.path("configmaps", name), {"metadata": {"finalizers": None}})

    def events(self, name: str) -> list[tuple[str, str, str]]:
        """Return the type, reason and message of the Events about a Bundle."""
        return [
            (one["type"], one["reason"], one["message"])
            for one in self.api.get(self.path("events"))["items"]
            if (one["involvedObject"]["kind"], one["involvedObject"]["name"]) == ("Bundle", name)
        ]

    def runs(self, name: str) -> set[str]:
        """Return the IDs of the runs that the Events about a Bundle name."""
        return {
            one["metadata"].get("annotations", {}).get("applyprune.dev/run", "")
            for one in self.api.get(self.path("events"))["items"]
            if one["involvedObject"]["name"] == name
        }

    def get_map(self, name: str) -> Any:
        """Return a ConfigMap of the namespace."""
        return self.api.get(self.path("configmaps", name))

    def account(self, name: str, *rules: dict[str, Any]) -> None:
        """Create a ServiceAccount that may do everything in the namespace, or what rules allow."""
        rbac = "rbac.authorization.k8s.io"
        self.put("serviceaccounts", _body("v1", "ServiceAccount", name))
        role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "cluster-admin"}
        if rules:
            self.put(
                "roles", {**_body(f"{rbac}/v1", "Role", name), "rules": list(rules)}, f"{rbac}/v1"
            )
            role = {"apiGroup": rbac, "kind": "Role", "name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
        binding = {**_body(f"{rbac}/v1", "RoleBinding", name), "roleRef": role}
        self.put("rolebindings", {**binding, "subjects": [subject]}, f"{rbac}/v1")


def _body(version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


_OPTION = re.compile(r"(?<!\S)--(?!allow-source-cidr)[a-z]")
_COMMAND = re.compile(r"(?<!\S)(?:kubectl|applyprune) .*")


def check_words(message: str) -> None:
    """Fail if a status names an option that is not in a command: a Bundle has none."""
    assert not _OPTION.search(_COMMAND.sub("", message)), message


def told_of_namespace(tenant: Tenant) -> list[str]:
    """Return the messages of the Events about the namespace of a tenant."""
    events = tenant.api.get("/api/v1/namespaces/default/events")["items"]
    return [one["message"] for one in events if one["involvedObject"]["name"] == tenant.namespace]


def told(tenant: Tenant, running: Controller) -> str:
    """Return everything that the controller says anywhere."""
    bundles = tenant.api.get(tenant.bundle_path())["items"]
    events = [
        one
        for one in tenant.api.get(tenant.path("events"))["items"]
        if one["involvedObject"]["kind"] == "Bundle"
    ]
    statuses = [bundle.get("status") for bundle in bundles]
    return "\n".join(
        [json.dumps([statuses, events]), running.log.read_text(), running.ask("/metrics")[1]]
    )


def served(other: Tenant, running: Controller, name: str) -> None:
    """Another tenant's new Bundle is applied, and the controller says that it is well."""
    other.bundle(name, config_map(name))
    other.ready(name)
    assert other.exists(name) == [True]
    assert running.ask("/healthz") == (200, "ok\n")
    assert running.process.poll() is None


BUNDLE_CRD = Path(__file__).parents[2] / "deploy" / "crd.yaml"

SYSTEM_NAMESPACE = "applyprune-system"
CONTROLLER = "applyprune-controller"


TENANTS = "tenant-"
"""How the name of a tenant's namespace begins."""


@contextmanager
def tenants(api: Api) -> Iterator[Callable[[], Tenant]]:
    """Yield a function that makes a namespace with an account ``default`` that may do all in it."""
    names = []

    def make() -> Tenant:
        name = f"{TENANTS}{secrets.token_hex(3)}"
        names.append(name)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert api("POST", "/api/v1/namespaces", body)[0] == 201
        tenant = Tenant(api, name)
        tenant.account("default")
        return tenant

    yield make
    for name in names:
        api("DELETE", f"/api/v1/namespaces/{name}")
