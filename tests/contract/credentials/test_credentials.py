"""Being someone to the real API server: tokens, certificates, plugins, and their renewal."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.cluster.access import cluster_access
from applyprune.cluster.credentials import CredentialFiles, Identity, Issued, RenewableCredentials
from applyprune.cluster.messages import ApiRequest
from applyprune.cluster.transport import Transport
from applyprune.errors import AccessError, Forbidden, Unauthorized
from tests.support.actors import ALICE
from tests.support.clocks import ManualClock
from tests.support.fault_proxy import faults, first
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from applyprune.localplane import Plane
    from tests.support.fault_proxy import FaultProxy
    from tests.support.plane import OpenTransport

VERSION = ApiRequest("GET", "/version")
# Anyone may read /version; this one says who asks.
WHO_AM_I = ApiRequest(
    "POST",
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    body=b'{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}',
)
NAMESPACES = ApiRequest("GET", "/api/v1/namespaces")


def groups(transport: Transport) -> list[str]:
    found: list[str] = transport.send(WHO_AM_I).body["status"]["userInfo"]["groups"]
    return found


def plugin(folder: Path, script: str, **more: Any) -> dict[str, Any]:
    """Return a user whose exec plugin runs the Python script; each run adds a line to ``runs``."""
    counted = f"open({str(folder / 'runs')!r}, 'a').write('run\\n')\n"
    (folder / "plugin.py").write_text("import os, sys, json, time\n" + counted + script)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(folder / "plugin.py")],
            "env": None,
            "interactiveMode": "Never",
            "provideClusterInfo": False,
            **more,
        }
    }


def prints(**status: Any) -> str:
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": status,
    }
    return f"print(json.dumps({credential!r}))"


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


# Token files.


def test_rotated_token_is_read_at_once_after_a_401(
    open_transport: OpenTransport, proxy: FaultProxy, plane: Plane, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("expired")
    transport = open_transport(proxy.kubeconfig(tmp_path, user={"tokenFile": str(token)}))
    token.write_text(plane.token)

    assert "system:masters" in groups(transport)
    assert [seen.status for seen in proxy.exchanges] == [401, 201]
    assert "system:masters" in groups(transport)
    assert [seen.status for seen in proxy.exchanges] == [401, 201, 201]


def test_401_is_final_without_another_token(
    open_transport: OpenTransport, proxy: FaultProxy, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("expired")
    transport = open_transport(proxy.kubeconfig(tmp_path, user={"tokenFile": str(token)}))

    with pytest.raises(Unauthorized, match=r"context 'proxied', user 'admin'.*log in again"):
        transport.send(NAMESPACES)
    assert [seen.status for seen in proxy.exchanges] == [401]


def test_second_401_in_a_row_is_final(
    open_transport: OpenTransport, proxy: FaultProxy, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("expired")
    transport = open_transport(proxy.kubeconfig(tmp_path, user={"tokenFile": str(token)}))
    token.write_text("expired-too")

    with pytest.raises(Unauthorized):
        transport.send(NAMESPACES)
    assert [seen.status for seen in proxy.exchanges] == [401, 401]


def test_expired_token_is_one_clear_error(
    open_transport: OpenTransport, proxy: FaultProxy, tmp_path: Path
) -> None:
    transport = open_transport(proxy.kubeconfig(tmp_path, user={"token": "expired"}))

    with pytest.raises(Unauthorized) as caught:
        transport.send(NAMESPACES)
    assert len(str(caught.value).splitlines()) == 2
    assert "expired" not in str(caught.value).splitlines()[0]


def test_token_file_is_read_again_after_a_while(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    clock = ManualClock()
    credentials = RenewableCredentials(CredentialFiles(token=path).issue, clock)
    assert credentials.current().token == "one"
    path.write_text("two")

    clock.advance(59)
    assert credentials.current().token == "one"
    clock.advance(1)
    assert credentials.current().token == "two"


def test_token_file_may_be_missing_for_a_moment(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    credentials = RenewableCredentials(CredentialFiles(token=path, max_age=0).issue)
    assert credentials.current().token == "one"
    path.unlink()

    assert credentials.current().token == "one"
    assert credentials.renewed(Identity(token="one")).token == "one"
    path.write_text("two")
    assert credentials.current().token == "two"


def test_token_rotation_under_load_fails_no_request(
    open_transport: OpenTransport, proxy: FaultProxy, plane: Plane, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("expired-0")
    transport = open_transport(proxy.kubeconfig(tmp_path, user={"tokenFile": str(token)}))
    token.write_text(plane.token)
    failures: list[Exception] = []

    def load() -> None:
        try:
            for _ in range(10):
                transport.send(NAMESPACES)
        except Exception as error:  # noqa: BLE001 -- asserted on below
            failures.append(error)

    workers = [threading.Thread(target=load) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert failures == []
    # At most one for each thread: what it had sent before the token was renewed.
    statuses = [seen.status for seen in proxy.exchanges]
    assert 1 <= statuses.count(401) <= len(workers)
    assert statuses.count(200) == 40


def test_failing_source_is_asked_once_for_all_threads() -> None:
    asked: list[int] = []

    def fail() -> Issued:
        asked.append(1)
        raise AccessError("no")

    clock = ManualClock()
    credentials = RenewableCredentials(fail, clock)

    for seconds, times in ((0, 1), (4, 1), (1, 2), (4, 2)):
        clock.advance(seconds)
        for _ in range(16):
            with pytest.raises(AccessError):
                credentials.current()
        assert len(asked) == times


def test_refused_threads_renew_the_token_once() -> None:
    issued: list[int] = []

    def issue() -> Issued:
        issued.append(1)
        return Issued(Identity(token=f"number-{len(issued)}"))

    credentials = RenewableCredentials(issue)
    refused = credentials.current()

    assert {credentials.renewed(refused).token for _ in range(16)} == {"number-2"}


# Certificates.


def test_client_certificate_is_presented(plane: Plane, open_transport: OpenTransport) -> None:
    access = cluster_access(
        kubeconfig=str(plane.kubeconfig), context=f"{plane.name}-cert", environ={}
    )
    transport = Transport(access)

    assert access.credentials.current().token == ""
    assert "system:masters" in groups(transport)
    transport.close()


# Plugins.


def test_plugin_runs_once(
    open_transport: OpenTransport, proxy: FaultProxy, plane: Plane, tmp_path: Path
) -> None:
    user = plugin(tmp_path, prints(token=plane.token))
    transport = open_transport(proxy.kubeconfig(tmp_path, user=user))

    assert "system:masters" in groups(transport)
    assert "system:masters" in groups(transport)
    assert runs(tmp_path) == 1


def test_plugin_gets_its_environment(
    open_transport: OpenTransport, proxy: FaultProxy, plane: Plane, tmp_path: Path
) -> None:
    script = (
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "assert info['spec']['cluster']['server'].startswith('https://')\n"
        "token = os.environ['THE_TOKEN']\n"
        "print(json.dumps({'apiVersion': info['apiVersion'], 'kind': 'ExecCredential',"
        " 'status': {'token': token}}))"
    )
    env = [{"name": "THE_TOKEN", "value": plane.token}]
    user = plugin(tmp_path, script, env=env, provideClusterInfo=True)

    assert "system:masters" in groups(open_transport(proxy.kubeconfig(tmp_path, user=user)))


def test_plugin_runs_again_when_its_token_expires(
    open_transport: OpenTransport, proxy: FaultProxy, plane: Plane, tmp_path: Path
) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=5)).isoformat()
    user = plugin(tmp_path, prints(token=plane.token, expirationTimestamp=soon))
    transport = open_transport(proxy.kubeconfig(tmp_path, user=user))

    transport.send(VERSION)
    transport.send(VERSION)
    # Within ten seconds of its end a token counts as ended.
    assert runs(tmp_path) == 2


def test_plugin_runs_again_after_a_401(
    open_transport: OpenTransport, proxy: FaultProxy, plane: Plane, tmp_path: Path
) -> None:
    script = "first = not os.path.exists('once')\nopen('once', 'w').close()\n"
    fresh = prints(token=plane.token)
    stale = prints(token="expired")
    user = plugin(tmp_path, f"{script}if first:\n    {stale}\nelse:\n    {fresh}")
    transport = open_transport(proxy.kubeconfig(tmp_path, user=user))

    assert "system:masters" in groups(transport)
    assert [seen.status for seen in proxy.exchanges] == [401, 201]
    assert runs(tmp_path) == 2


def test_plugin_can_issue_a_certificate(plane: Plane, tmp_path: Path) -> None:
    issued = prints(
        clientCertificateData=plane.client_cert_file.read_text(),
        clientKeyData=plane.client_key_file.read_text(),
    )
    config = json.loads(plane.kubeconfig.read_text())
    config["users"][0]["user"] = plugin(tmp_path, issued)
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    transport = Transport(cluster_access(kubeconfig=str(path), environ={}))

    assert "system:masters" in groups(transport)
    transport.close()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "sys.exit('step one\\nyou are not logged in')",
            "failed: you are not logged in",
        ),
        ("print('no json')", "failed: it printed no JSON"),
        ("print('{}')", "failed: it printed no ExecCredential"),
        ("print('7')", "failed: it printed no ExecCredential"),
        ("sys.exit(3)", "failed: its exit code is 3"),
        (prints(token="t").replace("/v1'", "/v2'"), "it printed another apiVersion"),
        (prints(), "printed neither a token nor a client certificate"),
        (prints(clientCertificateData="x"), "a client certificate without its key"),
        (prints(token=7), "malformed credentials: token is not text"),
        (prints(token="a\nb"), "the token contains invalid characters"),
        (prints(token="t", expirationTimestamp="soon"), "an invalid expiration time"),
    ],
)
def test_failing_plugin_is_one_clear_error(
    open_transport: OpenTransport, proxy: FaultProxy, tmp_path: Path, script: str, message: str
) -> None:
    transport = open_transport(proxy.kubeconfig(tmp_path, user=plugin(tmp_path, script)))

    with pytest.raises(AccessError, match=message) as caught:
        transport.send(VERSION)
    assert "Traceback" not in str(caught.value)
    assert caught.value.exit_code == 7
    # Nothing is sent without the credentials.
    assert proxy.exchanges == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"command": "no-such-program", "installHint": "get it\x1b[0m"},
            r"(?s)cannot be found.*get it\\x1b",
        ),
        ({"command": ""}, "exec has no command"),
        ({"apiVersion": None}, "exec has no apiVersion"),
        ({"args": "x"}, "args must be a list"),
    ],
)
def test_unrunnable_plugin_is_one_clear_error(
    open_transport: OpenTransport,
    proxy: FaultProxy,
    tmp_path: Path,
    changes: dict[str, Any],
    message: str,
) -> None:
    user = plugin(tmp_path, "", **changes)

    with pytest.raises(AccessError, match=message):
        open_transport(proxy.kubeconfig(tmp_path, user=user)).send(VERSION)


HANGS = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open("pids", "w").write(f"{os.getpid()} {child.pid}")
time.sleep(600)
"""
ASKS = """
import sys
from pathlib import Path
from applyprune.cluster.credentials import CredentialFiles
from applyprune.cluster.credentials import KubeconfigEntry
from applyprune.cluster.credentials import ExecPlugin
from applyprune.errors import AccessError
settings = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable}
plugin = KubeconfigEntry("me", {**settings, "args": ["plugin.py"]}, Path.cwd())
seconds = 1.0
# Longer where it had no time to start the other one.
while not Path("pids").read_text():
    seconds *= 2
    try:
        cluster = KubeconfigEntry("c", {}, Path.cwd())
        ExecPlugin(plugin, cluster, CredentialFiles(), timeout=seconds).issue()
    except AccessError as error:
        print(error)
"""


def test_plugin_that_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    """As in a pipeline: no terminal, so nobody else would end it."""
    (tmp_path / "plugin.py").write_text(HANGS)
    (tmp_path / "pids").touch()
    told = subprocess.run(
        (sys.executable, "-c", ASKS),
        cwd=tmp_path,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG,
        check=True,
    )
    assert "did not finish within 2 seconds" in told.stdout
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2
    eventually(lambda: not any(map(_runs, pids)), lambda: "the end of both")


def _runs(pid: str) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"  # its parent has not asked yet


# Providers.


def id_token(**claims: Any) -> str:
    def part(content: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part(claims)}.c2ln"


def oidc(token: str) -> dict[str, Any]:
    settings = {
        "id-token": token,
        "refresh-token": "s3cr3t",
        "client-id": "c",
        "client-secret": "s3cr3t",
        "idp-issuer-url": "https://127.0.0.1:1",
    }
    return {"auth-provider": {"name": "oidc", "config": settings}}


def test_oidc_token_is_sent(
    open_transport: OpenTransport, proxy: FaultProxy, tmp_path: Path
) -> None:
    token = id_token(exp=2**33, iss="x")
    transport = open_transport(proxy.kubeconfig(tmp_path, user=oidc(token)))

    with pytest.raises(Unauthorized):
        transport.send(NAMESPACES)
    assert proxy.exchanges[0].header("Authorization") == f"Bearer {token}"


@pytest.mark.parametrize("token", [id_token(exp=1), "no token", ""])
def test_unavailable_oidc_token_is_one_clear_error(
    open_transport: OpenTransport, proxy: FaultProxy, tmp_path: Path, token: str
) -> None:
    transport = open_transport(proxy.kubeconfig(tmp_path, user=oidc(token)))

    with pytest.raises(
        AccessError, match="the auth-provider 'oidc' of user 'admin' failed"
    ) as caught:
        transport.send(NAMESPACES)
    assert "s3cr3t" not in str(caught.value)
    assert proxy.exchanges == []


# Acting as somebody else.


def test_impersonation_is_sent(
    open_transport: OpenTransport, proxy: FaultProxy, plane: Plane, tmp_path: Path
) -> None:
    user = {"token": plane.token, "as": ALICE, "as-groups": ["red", "blue"]}
    transport = open_transport(proxy.kubeconfig(tmp_path, user=user))

    who = transport.send(WHO_AM_I).body["status"]["userInfo"]
    assert who["username"] == ALICE
    assert set(who["groups"]) == {"red", "blue", "system:authenticated"}
    with pytest.raises(Forbidden, match=f'User "{ALICE}" cannot list') as caught:
        transport.send(NAMESPACES)
    assert "Ask for the right to list namespaces" in caught.value.hint


def test_missing_credentials_mean_anonymous(
    open_transport: OpenTransport, proxy: FaultProxy, tmp_path: Path
) -> None:
    transport = open_transport(proxy.kubeconfig(tmp_path, user={"token": ""}))

    with pytest.raises(Forbidden, match="system:anonymous"):
        transport.send(NAMESPACES)
    proxy.rule = first(1, faults.reset())
    assert transport.send(VERSION).status == 200
