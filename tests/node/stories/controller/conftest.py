"""One installation for all stories, each of which leaves it as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.node.installed import Installed
from tests.support.controller import tenants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.controller import Tenant


@pytest.fixture(scope="module")
def installed(plane: Plane, api: Api) -> Iterator[Installed]:
    """The controller, as its guide installs it."""
    one = Installed(plane, api)
    one.install()
    one.rolled_out()
    yield one
    one.check_logs()


@pytest.fixture
def new_tenant(api: Api) -> Iterator[Callable[[], Tenant]]:
    """A factory of namespaces with an account ``default`` that may do all in it."""
    with tenants(api) as make:
        yield make


@pytest.fixture
def tenant(installed: Installed, new_tenant: Callable[[], Tenant]) -> Tenant:
    """A namespace whose Bundles the installed controller serves."""
    assert installed.await_leader()
    return new_tenant()
