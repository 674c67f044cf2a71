"""The stage of the tests that wait: statuses that they write, and a kind with a status."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from tests.support.api import Api
from tests.support.waiting import eventually
from tests.support.workloads import Puppets, definition


@pytest.fixture
def puppets(api: Api, namespace: str) -> Puppets:
    """The statuses of the test's namespace."""
    return Puppets(api, namespace)


@pytest.fixture(scope="module")
def group(api: Api) -> Iterator[str]:
    """The group of a kind Widget on the run's plane, for the length of this file."""
    name = f"{secrets.token_hex(3)}.example.com"
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.create(path, definition(name))
    eventually(lambda: api("GET", f"/apis/{name}/v1/widgets")[0] == 200, lambda: name)
    yield name
    api("DELETE", f"{path}/widgets.{name}")
