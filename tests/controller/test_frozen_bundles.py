"""The Bundles of each release: the CRD and the parser of this version take every field of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml  # type: ignore[import-untyped]

from applyprune._version import __version__
from applyprune.controller.spec import read_bundle
from applyprune.model.identity import Ref
from applyprune.model.live import BUNDLES, LiveObject
from applyprune.sources import read
from tests.formats.written import FORMATS
from tests.support.controller import BUNDLE_CRD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.api import Api

PATH = "/apis/applyprune.dev/v1alpha1/namespaces/default/bundles"
FILES = sorted(FORMATS.glob("*/bundles.yaml"))
OLD = [(path.parent.name, body) for path in FILES for body in yaml.safe_load_all(path.read_text())]
IDS = [f"{version}-{body['metadata']['name']}" for version, body in OLD]
each = pytest.mark.parametrize("body", [body for _, body in OLD], ids=IDS)


@each
def test_bundle_of_a_release_is_parsed(body: dict[str, Any]) -> None:
    """Without a fault, and with each value that it gives."""
    metadata = body["metadata"]
    ref = Ref(BUNDLES.group, BUNDLES.kind, metadata["namespace"], metadata["name"])
    live = LiveObject.of(ref, "u", "1", {**metadata, "generation": 1}, body)
    bundle = read_bundle(live)
    assert (bundle.name, bundle.namespace) == (metadata["name"], "default")


@each
def test_crd_takes_a_bundle_of_a_release(body: dict[str, Any], site_api: Api) -> None:
    """The server rejects a field or a value that the CRD does not know."""
    strict = "?dryRun=All&fieldValidation=Strict"
    status, stored = site_api("POST", f"{PATH}{strict}", body)
    assert status == 201, stored
    assert set(_paths(body["spec"])) - set(_paths(stored["spec"])) == set()


def test_every_field_of_the_spec_is_frozen() -> None:
    """A new field needs a Bundle that has it."""
    (crd,) = read([str(BUNDLE_CRD)])
    schema = crd.body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    known = set(_fields(schema["properties"]["spec"]))
    ours = [body["spec"] for version, body in OLD if version == __version__]
    assert known - {path for spec in ours for path in _paths(spec)} == set()


def _fields(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the path of each field in a schema."""
    for name, below in schema.get("properties", {}).items():
        yield f"{path}.{name}"
        yield from _fields(below, f"{path}.{name}")
    if "items" in schema:
        yield from _fields(schema["items"], path)


def _paths(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each field in a value, without the places in lists."""
    if isinstance(value, list):
        for one in value:
            yield from _paths(one, path)
    elif isinstance(value, dict):
        for name, below in value.items():
            yield f"{path}.{name}"
            yield from _paths(below, f"{path}.{name}")
