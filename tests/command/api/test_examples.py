"""The programs in docs/examples run, and have the types that a strict checker wants."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from applyprune import ApplySet, DryRun, load
from tests.docs.pages import ROOT
from tests.support.objects import SERVICE, config_map, text

if TYPE_CHECKING:
    from applyprune import ClusterConnection
    from applyprune.localplane import Binaries, Plane
    from tests.support.plane import Kubectl

EXAMPLES = ROOT / "docs/examples"
IN_A_POD = (
    "import pathlib, runpy, sys; from applyprune.cluster import access\n"
    "access._SERVICE_ACCOUNT = pathlib.Path(sys.argv[1])\n"
    "runpy.run_path(sys.argv[2], run_name='__main__')"
)
"""Only the folder of the account is another than in a Pod."""


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python with nothing in the environment that would name a cluster."""
    own = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=own | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_examples_pass_a_strict_type_check() -> None:
    """Each of them, as a program of its own."""
    programs = sorted(EXAMPLES.glob("*.py"))
    assert [one.name for one in programs] == ["job.py", "script.py", "test_with_pytest.py"]
    reply = run("-m", "mypy", "--strict", *programs, MYPYPATH=str(ROOT))
    assert reply.returncode == 0, reply.stdout


def test_script_prints_what_changed(plane: Plane, namespace: str, tmp_path: Path) -> None:
    """And ends with the code of the run."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "web.yaml").write_text(text(config_map("web"), SERVICE))
    call = (EXAMPLES / "script.py", "web", folder, "-n", namespace)
    first, second = (run(*call, KUBECONFIG=str(plane.kubeconfig)) for _ in range(2))
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.splitlines() == ["configmap/web created", "service/web created"]
    assert (second.returncode, second.stdout) == (0, "")
    (folder / "web.yaml").write_text(text({**SERVICE, "spec": {"ports": [{"port": 99_999}]}}))
    failed = run(*call, KUBECONFIG=str(plane.kubeconfig))
    assert failed.returncode == 3
    assert f"error: {folder}/web.yaml:1:" in failed.stderr


def test_pytest_fixture_applies_to_a_cluster(plane: Plane, tmp_path: Path) -> None:
    """That of KUBECONFIG."""
    reply = _pytest(tmp_path, KUBECONFIG=str(plane.kubeconfig))
    assert reply.returncode == 0, reply.stdout + reply.stderr
    assert "2 passed" in reply.stdout


def test_pytest_fixture_starts_the_embedded_plane(binaries: Binaries, tmp_path: Path) -> None:
    """Where nothing names a cluster; it is gone afterwards.

    Slow: the example starts a control plane of its own.
    """
    programs = tmp_path / "bin"
    programs.mkdir()
    script = programs / "applyprune"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m applyprune "$@"\n')
    script.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    reply = _pytest(tmp_path, PATH=path, XDG_STATE_HOME=str(tmp_path / "state"))
    assert reply.returncode == 0, reply.stdout + reply.stderr
    assert "2 passed" in reply.stdout
    assert list((tmp_path / "state").rglob("kubeconfig*")) == []


def _pytest(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    options = ("-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder)
    return run("-m", "pytest", *options, EXAMPLES / "test_with_pytest.py", **environment)


def test_job_applies_with_the_account_of_its_pod(
    cluster: ClusterConnection, plane: Plane, kubectl: Kubectl, tmp_path: Path
) -> None:
    """With the rights that job.yaml gives it, and with no others."""
    namespace = cluster.namespace
    source = tmp_path / "job.yaml"
    example = (EXAMPLES / "job.yaml").read_text(encoding="utf-8")
    source.write_text(example.replace("namespace: shop", f"namespace: {namespace}"))
    manifests = load(source)
    setup = ApplySet("setup", cluster=cluster)
    setup.apply(manifests, dry_run=DryRun.SERVER).raise_for_failures()
    setup.apply([one for one in manifests if one.gvk.kind != "Job"]).raise_for_failures()

    account, folder = tmp_path / "account", tmp_path / "job"
    account.mkdir()
    token = kubectl("create", "token", "applyprune-job", "-n", namespace).strip()
    (account / "token").write_text(token)
    (account / "namespace").write_text(namespace)
    shutil.copy(plane.ca_file, account / "ca.crt")
    folder.mkdir()
    shutil.copy(EXAMPLES / "job.py", folder)
    (folder / "web.yaml").write_text(text(config_map("web"), SERVICE))
    server = urlsplit(plane.server)
    environment = {
        "KUBERNETES_SERVICE_HOST": str(server.hostname),
        "KUBERNETES_SERVICE_PORT": str(server.port),
        "HOME": str(tmp_path),
    }
    reply = run("-c", IN_A_POD, account, folder / "job.py", **environment)
    assert (reply.returncode, reply.stderr) == (0, "")
    assert reply.stdout.splitlines() == [
        f"applying to {plane.server} as in-cluster",
        "configmap/web created",
        "service/web created",
    ]
    last = json.loads(
        kubectl("get", "service", "web", "-n", namespace, "-o", "json", "--show-managed-fields")
    )
    assert f"applyprune/{namespace}/web" in {
        one["manager"] for one in last["metadata"]["managedFields"]
    }
    # Without the right to it, an object fails, and the Job with it.
    (folder / "account.yaml").write_text(
        "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: more\n"
    )
    reply = run("-c", IN_A_POD, account, folder / "job.py", **environment)
    assert reply.returncode != 0
    assert "serviceaccounts" in reply.stderr


@pytest.mark.parametrize("name", sorted(one.name for one in EXAMPLES.iterdir() if one.is_file()))
def test_example_is_named_in_the_reference(name: str) -> None:
    """Otherwise nobody would find it."""
    page = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    assert f"(../examples/{name})" in page
