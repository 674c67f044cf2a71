"""One plane with the CRD for all stories of a process, and a tenant for each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune.localplane import PlaneSpec, start
from applyprune.sources import read
from tests.support.api import Api, AuditTrail
from tests.support.controller import BUNDLE_CRD, Controller, Tenant, controller, tenants
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.localplane import Binaries, Plane


@pytest.fixture(scope="module")
def site(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane with the CRD."""
    spec = PlaneSpec(scheduler=False, kwok=False, nodes=0, audit=True)
    with start(binaries, spec, tmp_path_factory.mktemp("planes") / "bundles") as plane:
        api = Api(plane)
        (crd,) = read([str(BUNDLE_CRD)])
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        status, reply = api("POST", path, crd.body)
        assert status == 201, reply
        eventually(lambda: api("GET", "/apis/applyprune.dev/v1alpha1/bundles")[0] == 200, "the CRD")
        api.close()
        yield plane


@pytest.fixture(scope="module")
def running(site: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """A controller for the stories of a module."""
    log = tmp_path_factory.mktemp("controller") / "log"
    with controller(site.kubeconfig, log, "--lease-duration", "4s") as one:
        yield one


@pytest.fixture
def site_api(site: Plane) -> Iterator[Api]:
    """Plain requests to the plane."""
    api = Api(site)
    yield api
    api.close()


@pytest.fixture
def site_audit(site: Plane, site_api: Api) -> AuditTrail:
    """The audit events of the plane since the test began."""
    return AuditTrail(site, site_api)


@pytest.fixture
def new_tenant(site_api: Api) -> Iterator[Callable[[], Tenant]]:
    """A factory of namespaces with an account ``default`` that may do all in it."""
    with tenants(site_api) as make:
        yield make


@pytest.fixture
def tenant(running: Controller, new_tenant: Callable[[], Tenant]) -> Tenant:
    """A tenant whose Bundles the module's controller reconciles."""
    assert running.process.poll() is None, running.log.read_text()
    return new_tenant()
