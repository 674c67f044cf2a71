"""What each release has written is read by this version, and this version still writes the same."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from applyprune._version import __version__
from applyprune.cluster.inventory_format import decode_entries
from applyprune.planning.approval import decode_plan_file, encode_plan_file, sealed
from applyprune.values import replace
from tests.formats.written import (
    CONFIG_MAPS,
    FORMATS,
    INPUT,
    NAMESPACE,
    SETS,
    clear,
    compared,
    ensure_namespace,
    entries_of,
    lines_of,
    many,
    write,
)
from tests.support.api import Api
from tests.support.command import applyprune
from tests.support.output.printed import printed
from tests.support.output.schemas import FOLDER as SCHEMAS
from tests.support.output.schemas import NAMES, complaints_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.localplane import Plane
    from tests.support.command import Ended

VERSIONS = sorted(path.name for path in FORMATS.iterdir() if path != INPUT)
WRITTEN = (
    "change.plan",
    "create.plan",
    "entries.json",
    *(f"inventory-{form}.json" for form in SETS),
    "objects.json",
    "runs.json",
)
KEPT = ("name", "namespace", "labels", "annotations")
"""What a backup keeps of the metadata of an object."""


def load(version: str, name: str) -> Any:
    """Return the content of a file of a release."""
    return json.loads((FORMATS / version / name).read_bytes())


def ownership(entries: list[dict[str, Any]]) -> dict[str, str]:
    """Return the ownership of each object that has an entry."""
    return {
        f"{one['ref']['kind'].lower()}/{one['ref']['name']}": one["ownership"] for one in entries
    }


def owned(form: str) -> dict[str, str]:
    """Return the ownership of each object in a set with many."""
    return {f"configmap/{one['metadata']['name']}": "owned" for one in many(SETS[form])}


@pytest.fixture(scope="module")
def today(
    request: pytest.FixtureRequest, plane: Plane, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder with what this version writes; the fixtures, with ``--write-formats``."""
    api = Api(plane)
    folder = tmp_path_factory.mktemp("formats") / "today"
    with pytest.MonkeyPatch.context() as patch:
        write(plane, api, folder, patch)
    api.close()
    if request.config.getoption("--write-formats"):
        shutil.copytree(folder, FORMATS / __version__, dirs_exist_ok=True)
    return folder


@pytest.mark.parametrize("name", WRITTEN)
def test_written_format_is_the_frozen_one(name: str, today: Path) -> None:
    """A new field or another word is a decision: ``--write-formats`` writes it down.

    What a release has written is never changed: a later version gets a folder of its own.
    """
    frozen = FORMATS / __version__ / name
    assert frozen.exists(), "run: pytest tests/formats --write-formats"
    assert compared(today / name) == compared(frozen)


def test_every_form_of_an_inventory_is_frozen() -> None:
    """As text, as one stream, and in several shards."""
    stored = {form: load(__version__, f"inventory-{form}.json") for form in SETS}
    assert "entries" in stored["text"][0]["data"]
    assert "entries.gz" in stored["stream"][0]["binaryData"]
    assert len(stored["shards"]) > 2


@pytest.mark.parametrize("form", SETS)
@pytest.mark.parametrize("version", VERSIONS)
def test_inventory_of_a_release_is_decoded(version: str, form: str) -> None:
    """Every entry, with its ownership."""
    stored = load(version, f"inventory-{form}.json")
    entries = [one for part in lines_of(stored) for one in decode_entries(part)]
    found = {entry.ref.short: str(entry.ownership) for entry in entries}
    expected = ownership(load(version, "entries.json")) if form == "text" else owned(form)
    assert found == expected
    assert (found.get("configmap/found") == "adopted") == (form == "text")


@pytest.fixture
def cleared(plane: Plane, api: Api) -> Iterator[Api]:
    """The namespace of the sets, without any object before and after the test."""
    ensure_namespace(api)
    clear(api)
    yield api
    clear(api)


def call(plane: Plane, *arguments: str | Path, cwd: Path | None = None) -> Ended:
    """Run a command in the namespace of the sets."""
    return applyprune(*arguments, "-n", NAMESPACE, kubeconfig=plane.kubeconfig, cwd=cwd)


@pytest.mark.parametrize("form", SETS)
@pytest.mark.parametrize("version", VERSIONS)
def test_inventory_of_a_release_is_read_from_a_server(
    version: str, form: str, plane: Plane, cleared: Api
) -> None:
    """As after a restored backup: the ConfigMaps have other UIDs."""
    for one in load(version, f"inventory-{form}.json"):
        kept = {key: one["metadata"].get(key) for key in KEPT}
        status, reply = cleared("POST", CONFIG_MAPS, {**one, "metadata": kept})
        assert status == 201, reply
    shown = call(plane, "inventory", "show", SETS[form], "-o", "json")
    assert shown.code == 0, shown.err
    found = ownership(entries_of(shown.out))
    if form == "text":
        assert found == ownership(load(version, "entries.json"))
        runs = call(plane, "history", SETS[form], "-o", "json")
        assert json.loads(runs.out)["runs"] == load(version, "runs.json")
    else:
        assert found == owned(form)


@pytest.mark.parametrize("version", VERSIONS)
def test_marks_of_a_release_tell_that_an_inventory_was_lost(
    version: str, plane: Plane, cleared: Api, tmp_path: Path
) -> None:
    """By the label and the field manager of the live objects, whose inventory is not there."""
    objects = load(version, "objects.json")
    for one in objects:
        kept = {key: one["metadata"].get(key) for key in KEPT}
        manager = one["metadata"]["managedFields"][0]["manager"]
        path = f"/api/v1/namespaces/{NAMESPACE}/{one['kind'].lower()}s/{kept['name']}"
        status, reply = cleared(
            "PATCH",
            f"{path}?fieldManager={manager}",
            {**one, "metadata": kept},
            content_type="application/apply-patch+yaml",
        )
        assert status == 201, reply
    first, *_ = (INPUT / "second" / "set.yaml").read_text().split("---\n")
    (tmp_path / "one.yaml").write_text(first)
    applied = call(plane, "apply", SETS["text"], "-f", tmp_path / "one.yaml")
    assert applied.code == 0, applied.err
    lost = f"was lost, and {len(objects)} objects have its label and field manager"
    assert lost in " ".join(applied.err.split())
    shown = call(plane, "inventory", "show", SETS["text"], "-o", "json")
    found = ownership(entries_of(shown.out))
    assert found == dict.fromkeys(ownership(load(version, "entries.json")), "adopted")


@pytest.mark.parametrize("version", VERSIONS)
def test_plan_file_of_a_release_is_applied(
    version: str, plane: Plane, cleared: Api, tmp_path: Path
) -> None:
    """Only the cluster and the times are those of today: the digests must be the same."""
    file = decode_plan_file((FORMATS / version / "create.plan").read_bytes(), source="create.plan")
    cluster = {
        name: cleared.get(f"/api/v1/namespaces/{name}")["metadata"]["uid"] for name in file.cluster
    }
    valid = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    today = sealed(replace(file, cluster=cluster, expires=valid))
    (tmp_path / "create.plan").write_bytes(encode_plan_file(today))
    shutil.copytree(INPUT, tmp_path / "input")
    done = call(plane, "apply", "--plan", "create.plan", cwd=tmp_path)
    assert done.code == 0, done.err
    assert done.lines["configmap/settings"] == "created"


@pytest.mark.parametrize("name", ["create.plan", "change.plan"])
@pytest.mark.parametrize("version", VERSIONS)
def test_plan_file_of_a_release_is_read(version: str, name: str) -> None:
    """A plan that deletes something, too."""
    file = decode_plan_file((FORMATS / version / name).read_bytes(), source=name)
    assert (file.name, file.namespace) == (SETS["text"], NAMESPACE)
    assert bool(file.deletions) == (name == "change.plan")


@pytest.mark.parametrize("version", VERSIONS)
def test_output_keeps_the_promise_of_the_schemas_of_a_release(version: str) -> None:
    """A program that was written for it reads the output of today.

    The schemas of this version are those of the package.
    """
    folder = SCHEMAS if version == __version__ else FORMATS / version / "schemas"
    assert folder.exists(), f"copy applyprune/output/schemas of the tag v{version} there"
    schemas = {name: json.loads((folder / f"{name}.json").read_bytes()) for name in NAMES}
    lines = [json.loads(line) for line in printed("jsonl").splitlines()]
    assert [one for line in lines for one in complaints_by(schemas, "events", line)] == []
    assert complaints_by(schemas, "document", json.loads(printed("json"))) == []
