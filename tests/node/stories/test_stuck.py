"""What a deletion waits for: a Pod that ignores SIGTERM, a finalizer of others, a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.node.waits import container
from tests.support.command import applyprune
from tests.support.objects import config_map, text
from tests.support.waiting import eventually
from tests.support.workloads import MERGE

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.workloads import Body


def pod(namespace: str, name: str, *arguments: str, **metadata: object) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {
            "terminationGracePeriodSeconds": 600,
            "containers": [container("serve", *arguments)],
        },
    }


def test_delete_says_for_what_it_waits_and_ends_later(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """The grace period with its container, the finalizers, the namespace; then nothing is left."""
    own = f"{namespace}-own"
    body = text(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own}},
        pod(own, "slow", "-ignore-term"),
        pod(own, "held", finalizers=["example.com/hold"]),
        {**config_map("map"), "metadata": {"name": "map", "namespace": own}},
    )
    (tmp_path / "all.yaml").write_text(body)

    def run(verb: str, *arguments: str | Path) -> tuple[int, str]:
        ended = applyprune(
            verb, "web", "-n", namespace, *arguments, kubeconfig=plane.kubeconfig, cwd=tmp_path
        )
        return ended.code, ended.out + ended.err

    code, said = run("apply", "-f", "all.yaml", "--wait")
    assert (code, said.count(" ready")) == (0, 4), said
    code, said = run("delete", "--yes", "--timeout", "15s")
    assert code == 5, said
    for shown in (said, run("status")[1]):
        assert "example.com/hold" in shown
        assert "grace period" in shown
        assert "main" in shown
    # The container still runs, as the node says.
    slow = api.get(f"/api/v1/namespaces/{own}/pods/slow")
    assert "running" in slow["status"]["containerStatuses"][0]["state"]
    path = f"/api/v1/namespaces/{own}/pods"
    free = {"metadata": {"finalizers": None}}
    assert api("PATCH", f"{path}/held", free, content_type=MERGE)[0] == 200
    assert api("DELETE", f"{path}/slow?gracePeriodSeconds=0")[0] == 200
    code, said = run("delete", "--yes")
    assert code == 0, said
    eventually(lambda: not api.exists(f"/api/v1/namespaces/{own}"), lambda: "the namespace gone")
