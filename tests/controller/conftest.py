"""One plane with the CRD and one controller for all stories, and a tenant for each of them."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest

from applyprune.localplane import PlaneSpec, start
from tests.support.api import Api, AuditTrail
from tests.support.controller import Controller, Tenant, tenants
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

    with closing(SharedSite(start_one, partial(tmp_path_factory.mktemp, "controller"))) as shared:
        yield shared


@pytest.fixture(scope="module")
def site(sites: SharedSite, request: pytest.FixtureRequest) -> Iterator[Plane]:
    """A plane with the CRD, without a Bundle, and with no controller but those of the module."""
    its = [one for one in request.session.items if one.path == request.path]
    if not any("shared_controller" in getattr(one, "fixturenames", ()) for one in its):
        sites.stop_controller()
    yield sites.plane()
    sites.clear()


@pytest.fixture(scope="package")
def shared_controller() -> str:
    """Show that a module wants the controller of all: it has no other one of the same Bundles."""
    return "shared"


@pytest.fixture(scope="module")
def running(site: Plane, sites: SharedSite, shared_controller: str) -> Controller:
    """The controller for the stories of a module: of all Bundles, with the usual options."""
    return sites.controller()


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
