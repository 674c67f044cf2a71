"""The server that the stories run on: the version that it says, and what a user reads of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.command import applyprune

if TYPE_CHECKING:
    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.plane import Kubectl


def test_server_kubectl_and_applyprune_say_the_version_that_was_asked_for(
    api: Api, kubectl: Kubectl, plane: Plane, kubernetes: str
) -> None:
    said = api.get("/version")
    assert (said["gitVersion"], f"v{said['major']}.{said['minor']}") == (
        kubernetes,
        kubernetes.rpartition(".")[0],
    )
    lines = kubectl("version").splitlines()
    assert f"Client Version: {kubernetes}" in lines
    assert f"Server Version: {kubernetes}" in lines
    ended = applyprune("version", kubeconfig=plane.kubeconfig)
    assert f"Kubernetes {kubernetes}" in ended.out.splitlines()
