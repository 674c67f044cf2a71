"""``diff`` and ``apply`` of an artifact: followed, changed, gone and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.command import Ended, applyprune
from tests.support.followed_sources import FollowedSource, followed
from tests.support.source_text import config_map

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.components import Components
    from tests.support.plane import Kubectl

A, B = config_map("a", "data: {k: v}\n"), config_map("b", "data: {k: v}\n")
ELSEWHERE = {"staging/c.yaml": config_map("c"), "README.md": "# Not a manifest\n"}


@pytest.fixture
def source(tmp_path: Path, components: Components) -> Iterator[FollowedSource]:
    with followed(tmp_path, components) as found:
        yield found


def test_source_is_followed_changed_gone_and_back(
    source: FollowedSource, plane: Plane, kubectl: Kubectl, namespace: str
) -> None:
    """A source that is gone prunes nothing: that is the file's own doing, never the server's.

    Slow: it is ten processes.
    """

    def run(*verb: str) -> Ended:
        given = ("-f", source.address, "-n", namespace)
        return applyprune(*verb, *given, kubeconfig=plane.kubeconfig, more=source.environ)

    def left() -> set[str]:
        names = kubectl("get", "configmap", "-n", namespace, "-o", "name").split()
        return {name.removeprefix("configmap/") for name in names} & {"a", "b", "c", "prod-a"}

    source.publish({"prod/a.yaml": A, "prod/b.yaml": B, **ELSEWHERE})
    assert run("diff", "web").code == 1
    done = run("apply", "web")
    assert (done.code, done.lines) == (0, {"configmap/a": "created", "configmap/b": "created"})
    assert (run("diff", "web").code, left()) == (0, {"a", "b"})

    source.publish({"prod/a.yaml": A.replace("k: v", "k: w"), **ELSEWHERE})
    changed = run("diff", "web")
    assert changed.code == 1
    assert "+  k: w" in changed.out
    assert left() == {"a", "b"}
    done = run("apply", "web")
    assert (done.code, done.lines) == (0, {"configmap/a": "updated", "configmap/b": "pruned"})
    assert left() == {"a"}

    source.publish(ELSEWHERE)
    missing = run("apply", "web")
    assert missing.code == 2
    assert missing.err.startswith(f"error: {source.shown}")
    assert left() == {"a"}

    source.remove()
    for verb in ("diff", "apply", "plan"):
        gone = run(verb, "web")
        assert gone.code == 2
        assert gone.err.startswith(f"error: {source.shown}: ")
    assert left() == {"a"}

    source.publish(
        {
            "prod/kustomization.yaml": "resources: [../base]\nnamePrefix: prod-\n",
            "base/kustomization.yaml": "resources: [a.yaml]\n",
            "base/a.yaml": A,
            **ELSEWHERE,
        }
    )
    back = run("apply", "web")
    assert back.code == 0, back.err
    assert left() == {"prod-a"}
