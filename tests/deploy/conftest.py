"""A plane for the controller with its credentials there, and the account of a pipeline."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.localplane import PlaneSpec, start
from tests.support.api import Api
from tests.support.command import applyprune
from tests.support.controller import CONTROLLER, SYSTEM_NAMESPACE, Tenant, tenants
from tests.support.pipelines import PIPELINE, Runner, account_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.localplane import Binaries, Plane
    from tests.support.plane import Kubectl


@pytest.fixture(scope="session")
def ground(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane whose nodes run Pods; what a test installs there stays."""
    with start(binaries, PlaneSpec(), tmp_path_factory.mktemp("planes") / "ground") as plane:
        yield plane


@pytest.fixture(scope="session")
def ground_api(ground: Plane) -> Iterator[Api]:
    """Plain requests to the plane."""
    api = Api(ground)
    yield api
    api.close()


@pytest.fixture
def as_itself(ground: Plane, kubectl: Kubectl, tmp_path: Path) -> Path:
    """The kubeconfig of the controller's own ServiceAccount; applyprune is installed by then."""
    reply = applyprune("install", kubeconfig=ground.kubeconfig)
    assert reply.code == 0, reply
    token = kubectl(
        "create", "token", CONTROLLER, "-n", SYSTEM_NAMESPACE, "--duration=1h", plane=ground
    ).strip()
    cluster = {"server": ground.server, "certificate-authority": str(ground.ca_file)}
    path = tmp_path / "itself"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [
            {"name": "x", "context": {"cluster": "c", "user": "u", "namespace": SYSTEM_NAMESPACE}}
        ],
        "current-context": "x",
    }
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def new_tenant(ground_api: Api) -> Iterator[Callable[[], Tenant]]:
    """A factory of namespaces with an account ``default`` that may do all in it."""
    with tenants(ground_api) as make:
        yield make


@pytest.fixture(scope="package")
def shop(plane: Plane, api: Api, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The namespace of the recipes, and a kubeconfig of the account that they describe."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    status, reply = api("POST", "/api/v1/namespaces", body)
    assert status == 201, reply
    rights = (PIPELINE / "account.yaml").read_text()
    yield account_of(plane, "shop", rights, tmp_path_factory.mktemp("account"))
    api("DELETE", "/api/v1/namespaces/shop")


@pytest.fixture
def runner(shop: Path, tmp_path: Path) -> Runner:
    """A checkout, and ``applyprune`` and ``python`` on the path as in the image."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, arguments in {"applyprune": " -m applyprune", "python": ""}.items():
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)}{arguments} "$@"\n')
        script.chmod(0o755)
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    one = Runner(checkout, shop, {"PATH": f"{programs}:{os.environ['PATH']}"})
    one.variables["KUBECONFIG"] = ""
    one.write("green")
    return one


@pytest.fixture(scope="package")
def action() -> Any:
    """The program of the action, for its decisions alone; no bytecode of it comes into a wheel."""
    spec = importlib.util.spec_from_file_location("github_action", PIPELINE / "github_action.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        spec.loader.exec_module(module)
    return module
