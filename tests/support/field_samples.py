"""Bodies with one field each, of every kind and every type: made from the server's own schemas.

This shares no code with the check of fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.api import DISCOVERY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.api import Api

Step = tuple[str, Any]
"""``("field", NAME)``, or ``("item", KEYS)`` with the fields that tell the items apart."""
VALUES: tuple[Any, ...] = (
    None, True, 1, -1, 1.5, 2.0, 2**40, "", "x", "1", [], {}, ["x"], [1], [None], ["x", "x"],
    {"a": "b"}, {"a": 1}, [{"a": "b"}],
)  # fmt: skip
_FILLED = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": []}
_IDENTITY = {"apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.generateName"}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind that the server serves, and its schemas as it publishes them."""

    group: str
    version: str
    kind: str
    path: str
    """The path of its objects, below which each has its name."""
    schema: Mapping[str, Any]
    schemas: Mapping[str, Any]

    @property
    def identity(self) -> dict[str, Any]:
        """Return the body of an object without fields."""
        api_version = f"{self.group}/{self.version}" if self.group else self.version
        return {"apiVersion": api_version, "kind": self.kind, "metadata": {"name": "x"}}

    def places(self, depth: int) -> Iterator[tuple[Step, ...]]:
        """Yield the path of every field, and of an unknown one in each object."""
        for path in _places(self.schema, self.schemas, depth):
            name = ".".join(name for kind, name in path if kind == "field")
            if path and name not in _IDENTITY and name != "metadata":
                yield path

    def body(self, path: tuple[Step, ...], value: Any) -> dict[str, Any]:
        """Return the body of an object with only this field."""
        whole = value
        for kind, detail in reversed(path):
            if kind == "field":
                whole = {detail: whole}
            else:
                whole = [{**detail, **whole} if isinstance(whole, dict) else whole]
        metadata = {"name": "x", **whole.pop("metadata", {})}
        return {**self.identity, **whole, "metadata": metadata}


def served_kinds(api: Api, namespace: str) -> Iterator[Kind]:
    """Yield every kind that can be patched."""
    for root in ("/api", "/apis"):
        status, groups = api("GET", root, headers={"Accept": DISCOVERY})
        assert status == 200, groups
        for group in groups["items"]:
            for version in group["versions"]:
                yield from _of_version(api, group["metadata"].get("name", ""), version, namespace)


def _of_version(api: Api, group: str, version: Mapping[str, Any], namespace: str) -> Iterator[Kind]:
    base = f"apis/{group}/{version['version']}" if group else f"api/{version['version']}"
    schemas = api.get(f"/openapi/v3/{base}")["components"]["schemas"]
    for resource in version["resources"]:
        if "patch" not in resource["verbs"]:
            continue
        kind = resource["responseKind"]["kind"]
        wanted = {"group": group, "version": version["version"], "kind": kind}
        found = [
            schema
            for schema in schemas.values()
            if wanted in schema.get("x-kubernetes-group-version-kind", ())
        ]
        where = f"namespaces/{namespace}/" if resource["scope"] == "Namespaced" else ""
        path = f"/{base}/{where}{resource['resource']}"
        if found:
            yield Kind(group, version["version"], kind, path, found[0], schemas)


def _places(
    schema: Mapping[str, Any], schemas: Mapping[str, Any], depth: int
) -> Iterator[tuple[Step, ...]]:
    facts = _facts(schema, schemas)
    yield ()
    if depth == 0:
        return
    for name, inner in facts.get("properties", {}).items():
        yield from ((("field", name), *rest) for rest in _places(inner, schemas, depth - 1))
    if "properties" in facts:
        yield (("field", "zzz"),)
    if isinstance(others := facts.get("additionalProperties"), dict):
        yield from ((("field", "key"), *rest) for rest in _places(others, schemas, depth - 1))
    if "items" in facts:
        item = _facts(facts["items"], schemas).get("properties", {})
        keys = {
            key: _FILLED.get(_facts(item.get(key, {}), schemas).get("type", ""), "x")
            for key in facts.get("x-kubernetes-list-map-keys", ())
        }
        yield from ((("item", keys), *rest) for rest in _places(facts["items"], schemas, depth))


def _facts(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref") or next(
        (part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part), ""
    )
    return _facts(schemas[reference.rpartition("/")[2]], schemas) if reference else schema
