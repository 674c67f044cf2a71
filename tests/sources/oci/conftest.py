"""Real registries, each started once: a test uses names of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.registries import (
    anonymous_registry,
    password_registry,
    referrers_registry,
    token_registry,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.components import Components
    from tests.support.registries import Registry


@pytest.fixture(scope="session")
def registry(
    components: Components, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """A registry that asks for a user and a password."""
    with password_registry(components, tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture(scope="session")
def with_tokens(
    components: Components, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """A registry that asks for a token of another server."""
    with token_registry(components, tmp_path_factory.mktemp("tokens")) as running:
        yield running


@pytest.fixture(scope="session")
def with_referrers(
    components: Components, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """A registry with the referrers API, which asks for a user and a password."""
    with referrers_registry(components, tmp_path_factory.mktemp("referrers")) as running:
        yield running


@pytest.fixture(scope="session")
def without_login(
    components: Components, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """A registry that asks nobody."""
    with anonymous_registry(components, tmp_path_factory.mktemp("anonymous")) as running:
        yield running


@pytest.fixture(params=["without_login", "registry", "with_tokens", "with_referrers"])
def any_registry(request: pytest.FixtureRequest, components: Components) -> Registry:
    """Each kind of registry."""
    running: Registry = request.getfixturevalue(request.param)
    return running
