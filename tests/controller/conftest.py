"""One plane with the CRD for all stories of a process, and a tenant for each of them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from applyprune.localplane import PlaneSpec, start
from tests.support.api import Api, AuditTrail
from tests.support.controller import Controller, Tenant, controller, tenants
from tests.support.registries import Registry, password_registry
from tests.support.shared_site import SharedSite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from applyprune.localplane import Binaries, Plane
    from tests.components import Components


@pytest.fixture(scope="package")
def sites(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedSite]:
    """The plane of the modules of a process that want the CRD and no node."""

    def start_one() -> AbstractContextManager[Plane]:
        spec = PlaneSpec(scheduler=False, kwok=False, nodes=0, audit=True)
        return start(binaries, spec, tmp_path_factory.mktemp("planes") / "bundles")

    with closing(SharedSite(start_one)) as shared:
        yield shared


@pytest.fixture(scope="module")
def site(sites: SharedSite) -> Iterator[Plane]:
    """A plane with the CRD, and without a Bundle."""
    yield sites.plane()
    sites.clear()


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


@pytest.fixture(scope="session")
def registry(
    components: Components, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """A registry that wants a password; each test names an artifact of its own there."""
    with password_registry(components, tmp_path_factory.mktemp("registry")) as one:
        yield one
