"""The files of an artifact: the same objects give the same files, and no Secret slips in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from applyprune.cli.publish import artifact_files
from applyprune.errors import EmptyInput, InputError, InputErrors
from applyprune.sources import Input, read
from applyprune.sources.oci_artifact import pack
from tests.support.source_text import config_map, values, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAC = "ENC[AES256_GCM,data:bWFj,iv:aXY=,tag:dGFn,type:str]"
CIPHER = "ENC[AES256_GCM,data:eA==,iv:aXY=,tag:dGFn,type:str]"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {p: hunter2}\n"
ENCRYPTED = f"""\
kind: Secret
apiVersion: v1
metadata:
    name: s
    # A comment that stays.
stringData:
    z: {CIPHER}
    a: {CIPHER}
sops:
    mac: {MAC}
    version: 3.9.0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def given(folder: Path, *texts: str) -> Input:
    """Read texts, each from a file of its own."""
    write(folder, {f"{number}.yaml": text for number, text in enumerate(texts)})
    return read([f"{number}.yaml" for number in range(len(texts))])


def text_of(files: Mapping[str, bytes], name: str = "manifests.yaml") -> str:
    return files[name].decode()


def test_objects_are_sorted_in_one_file(folder: Path) -> None:
    files = artifact_files(given(folder, config_map("b"), config_map("a")))
    assert list(files) == ["manifests.yaml"]
    read_back = values(files["manifests.yaml"])
    assert read_back is not None
    assert [one["metadata"]["name"] for one in read_back] == ["a", "b"]
    assert text_of(files).startswith("---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n")


def test_same_objects_give_the_same_digest(folder: Path) -> None:
    """In another order, in other files, in a List, with comments, as JSON."""
    a, b = config_map("a"), config_map("b")
    as_list = (
        '{"kind": "List", "apiVersion": "v1", "items": ['
        '{"kind": "ConfigMap", "metadata": {"name": "b"}, "apiVersion": "v1"},'
        '{"kind": "ConfigMap", "metadata": {"name": "a"}, "apiVersion": "v1"}]}'
    )
    inputs = [(a, b), (b, a), (f"# x\n{a}---\n{b}",), (as_list,)]
    digests = {pack(artifact_files(given(folder, *texts))).digest for texts in inputs}
    assert len(digests) == 1
    other = given(folder, config_map("a"), config_map("c"))
    assert pack(artifact_files(other)).digest not in digests


def test_values_stay_what_they_are(folder: Path) -> None:
    text = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {n: '1e3', y: 'on'}}\n"
        "data:\n  octal: '0777'\n  'no': 'no'\n  lines: |\n    ---\n    a: b\n  tab: \"a\\tb\\n\"\n"
        "  time: '12:30:45'\n  empty: ''\n  'null': 'null'\n  uni: \"\\u2028\\U0001f600\"\n"
    )
    read_in = given(folder, text)
    files = artifact_files(read_in)
    assert values(files["manifests.yaml"]) == [read_in[0].body]


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        SECRET.replace("stringData: {p: hunter2}", "data: {p: aHVudGVyMg==}"),
        SECRET.replace("stringData: {p: hunter2}\n", ""),
        '{"apiVersion":"v1","kind":"List","items":[{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"}}]}',
        ENCRYPTED + "data: {q: aHVudGVyMg==}\n",
        ENCRYPTED.replace(f"a: {CIPHER}", "a: hunter2"),
        ENCRYPTED.replace(f"a: {CIPHER}", f"a: {CIPHER}hunter2"),
        ENCRYPTED.replace(f"mac: {MAC}", "note: none"),
        ENCRYPTED.replace(f"    mac: {MAC}\n    version: 3.9.0", "    - mac"),
    ],
)
def test_secret_that_can_be_read_is_refused(folder: Path, text: str) -> None:
    read_in = given(folder, config_map("a"), text)
    with pytest.raises(InputError) as caught:
        artifact_files(read_in)
    assert str(caught.value).startswith("1.yaml:1")
    assert "Secret s is not encrypted" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_kinds_that_look_like_secrets_are_pushed(folder: Path) -> None:
    text = "apiVersion: example.com/v1\nkind: Secret\nmetadata: {name: s}\n"
    assert artifact_files(given(folder, text))


def test_encrypted_secret_keeps_its_text(folder: Path) -> None:
    """SOPS computes its MAC over the values in their order."""
    files = artifact_files(given(folder, ENCRYPTED, config_map("a")))
    assert sorted(files) == ["encrypted/1.yaml", "manifests.yaml"]
    assert text_of(files, "encrypted/1.yaml") == ENCRYPTED
    alone = artifact_files(given(folder, ENCRYPTED))
    assert list(alone) == ["encrypted/1.yaml"]


def test_encrypted_documents_of_one_file_stay_together(folder: Path) -> None:
    """They have one MAC; those of another file have another one, and another file."""
    second = ENCRYPTED.replace("name: s", "name: t")
    foreign = ENCRYPTED.replace("name: s", "name: u").replace("data:bWFj", "data:b3Ro")
    text = f"{ENCRYPTED}---\n{second}---\n{config_map('a')}"
    files = artifact_files(given(folder, text, foreign))
    assert sorted(files) == ["encrypted/1.yaml", "encrypted/2.yaml", "manifests.yaml"]
    texts = {text_of(files, "encrypted/1.yaml"), text_of(files, "encrypted/2.yaml")}
    assert texts == {f"{ENCRYPTED}---\n{second}", foreign}


def test_object_that_is_there_twice_is_an_error(folder: Path) -> None:
    """In two versions, it is the same object too."""
    job = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: j}\n"
    other = config_map("a", "data: {a: b}\n")
    read_in = given(folder, config_map("a"), other, job, job.replace("v1", "v1beta1"))
    with pytest.raises(InputErrors) as caught:
        artifact_files(read_in)
    assert str(caught.value).splitlines() == [
        "1.yaml:1: ConfigMap a is defined twice: it is also in 0.yaml:1",
        "  Remove the duplicate.",
        "3.yaml:1: CronJob j is defined twice: it is also in 2.yaml:1",
        "  Remove the duplicate.",
    ]


def test_equal_duplicate_is_published_once(folder: Path) -> None:
    """As it is applied once."""
    once = artifact_files(given(folder, config_map("a")))
    assert artifact_files(given(folder, config_map("a"), config_map("a"))) == once


def test_empty_input_is_never_published(folder: Path) -> None:
    with pytest.raises(EmptyInput):
        artifact_files(given(folder, "# nothing\n"))
