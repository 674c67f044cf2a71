"""What runs after ``applyprune install``: two replicas, and nothing that they need not have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import urllib3

from tests.node.installed import LEASE, PORT, SYSTEM
from tests.support.controller import CONTROLLER
from tests.support.objects import config_map
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from tests.node.installed import Installed
    from tests.support.controller import Tenant

USER = "65532"


def status_of(process: int) -> dict[str, str]:
    """Return what the kernel says of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def test_replicas_run_on_different_nodes(installed: Installed) -> None:
    """Both are ready, by their probes, and were started once."""
    pods = installed.pods()
    assert {pod["spec"]["nodeName"] for pod in pods.values()} == {"node-1", "node-2"}
    assert [*installed.restarts().values()] == [0, 0]
    for name, pod in pods.items():
        (container,) = pod["status"]["containerStatuses"]
        assert container["started"] is container["ready"] is True
        assert installed.ask(name, "/livez") == installed.ask(name, "/readyz") == (200, "ok\n")


def test_processes_have_no_rights_on_the_node(installed: Installed) -> None:
    """Each runs as the image's user, without capabilities, and can write nowhere but in /tmp."""
    for pod in installed.pods():
        first, *others = installed.processes(pod)
        assert others, "its workers"
        for process in (first, *others):
            told = status_of(process)
            assert told["Uid"].split() == told["Gid"].split() == [USER] * 4
            for which in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                assert int(told[which], 16) == 0, which
            assert told["NoNewPrivs"] == "1"
            assert told["Seccomp"] == "2"
        mounts = Path(f"/proc/{first}/mountinfo").read_text()
        found = dict(re.findall(r"^\S+ \S+ \S+ \S+ (\S+) (\S+)", mounts, re.MULTILINE))
        assert "ro" in found["/"].split(",")
        assert "rw" in found["/tmp"].split(",")


def test_kernel_would_end_a_worker_first(installed: Installed) -> None:
    """When the node or the container has no memory left."""
    for pod in installed.pods():
        first, *others = installed.processes(pod)
        scores = [int(Path(f"/proc/{one}/oom_score_adj").read_text()) for one in (first, *others)]
        assert scores.count(1000) >= 4
        assert scores[0] < 1000


def test_one_replica_leads(installed: Installed) -> None:
    """By the only Lease, by its metric, and by the log of each."""
    leader = installed.await_leader()
    leases = installed.api.get(LEASE.rpartition("/")[0])["items"]
    assert [one["metadata"]["name"] for one in leases] == [CONTROLLER]
    told = {pod: installed.ask(pod, "/metrics")[1] for pod in installed.pods()}
    leads = {pod: "\napplyprune_leader 1.0\n" in text for pod, text in told.items()}
    assert leads == {pod: pod == leader for pod in told}


def test_service_leads_to_the_metrics(installed: Installed) -> None:
    """By its own address, through kube-proxy."""
    address = installed.api.get(f"{SYSTEM}/services/{CONTROLLER}")["spec"]["clusterIP"]
    reply = urllib3.request("GET", f"http://{address}:{PORT}/metrics", timeout=HANG, retries=False)
    assert reply.status == 200
    assert b"\napplyprune_build_info{" in reply.data


def test_log_says_what_was_done(installed: Installed, tenant: Tenant) -> None:
    """As JSON; the replica that stands by says nothing of Bundles."""
    tenant.bundle("web", config_map("a"))
    tenant.ready("web")
    leader = installed.await_leader()

    def about(pod: str) -> list[str]:
        lines = installed.log(pod)
        return [line["bundle"] for line in lines if line.get("namespace") == tenant.namespace]

    eventually(lambda: "web" in about(leader), lambda: "a line about the Bundle")
    (other,) = installed.pods().keys() - {leader}
    assert installed.log(other) != []
    assert about(other) == []
    assert tenant.get("web")["status"]["replica"].startswith(leader)
