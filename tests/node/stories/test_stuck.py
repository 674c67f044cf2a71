"""What a deletion waits for: a Pod that ignores SIGTERM, a finalizer of others, a namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.node.waits import container
from tests.support.command import applyprune
from tests.support.objects import config_map, text
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


class Desk:
    """The set ``web`` of one namespace, with objects in another one that is its own."""

    def __init__(self, plane: Plane, namespace: str, folder: Path, *manifests: Body) -> None:
        self._plane, self._namespace, self._folder = plane, namespace, folder
        (folder / "all.yaml").write_text(text(*manifests))

    def run(self, verb: str, *arguments: str) -> tuple[int, str]:
        """Return the exit code and all that a command says."""
        ended = applyprune(
            *(verb, "web", "-n", self._namespace, *arguments),
            kubeconfig=self._plane.kubeconfig,
            cwd=self._folder,
        )
        return ended.code, ended.out + ended.err


def test_delete_says_which_container_ignores_its_end(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """Until when its grace period lasts; when the Pod is killed, the next delete ends."""
    desk = Desk(plane, namespace, tmp_path, pod(namespace, "slow", "-ignore-term"))
    assert desk.run("apply", "-f", "all.yaml", "--wait")[0] == 0
    code, said = desk.run("delete", "--yes", "--timeout", "3s")
    assert code == 5, said
    path = f"/api/v1/namespaces/{namespace}/pods/slow"
    slow = api.get(path)
    # The container still runs, as the node says.
    assert "running" in slow["status"]["containerStatuses"][0]["state"]
    until = slow["metadata"]["deletionTimestamp"]
    for shown in (said, desk.run("status")[1], desk.run("explain", "pod/slow")[1]):
        assert f"container main may run until {until}, 600 s in all" in shown
    assert api("DELETE", f"{path}?gracePeriodSeconds=0")[0] == 200
    code, said = desk.run("delete", "--yes")
    assert code == 0, said
    assert not api.exists(path)


def test_delete_names_a_foreign_finalizer(
    plane: Plane, api: Api, namespace: str, tmp_path: Path
) -> None:
    """And the namespace that it keeps; when it is gone, another delete leaves nothing."""
    own = f"{namespace}-own"
    desk = Desk(
        plane,
        namespace,
        tmp_path,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": own}},
        pod(own, "held", finalizers=["example.com/hold"]),
        {**config_map("map"), "metadata": {"name": "map", "namespace": own}},
    )
    assert desk.run("apply", "-f", "all.yaml", "--wait")[0] == 0
    code, said = desk.run("delete", "--yes", "--timeout", "10s")
    assert code == 5, said
    for shown in (said, desk.run("status")[1]):
        assert "example.com/hold" in shown
    # Its containers have ended long ago: only the finalizer keeps it.
    held = f"/api/v1/namespaces/{own}/pods/held"
    free = {"metadata": {"finalizers": None}}
    assert api("PATCH", held, free, content_type=MERGE)[0] == 200
    code, said = desk.run("delete", "--yes")
    assert code == 0, said
    assert not api.exists(f"/api/v1/namespaces/{own}")
