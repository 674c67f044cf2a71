"""Documents → manifests: what is taken from the text, and what is left out of the body."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from applyprune.errors import InputError
from applyprune.model.identity import GVK
from applyprune.model.problem import Origin
from applyprune.model.text import is_dns_label
from applyprune.sources import read
from applyprune.sources.load import is_api_version, is_kind, name_problem

if TYPE_CHECKING:
    from applyprune.model.problem import Manifest


def manifests(text: str) -> tuple[Manifest, ...]:
    return read(["-"], stdin=io.BytesIO(text.encode())).manifests


def test_manifest_is_read() -> None:
    text = """\
---
# comment
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: shop
  labels: {app: web}
spec: {replicas: 2}
"""
    (manifest,) = manifests(text)
    assert manifest.gvk == GVK("apps", "v1", "Deployment")
    assert (manifest.namespace, manifest.name) == ("shop", "web")
    assert manifest.origin == Origin("<stdin>", 1, 3)
    assert manifest.body == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"replicas": 2},
    }


def test_empty_documents_are_not_counted() -> None:
    text = "# none\n---\n---\nkind: A\napiVersion: v1\nmetadata: {name: a}\n---\n# none\n---\n" * 2
    assert [str(manifest.origin) for manifest in manifests(text)] == [
        "<stdin>:4",
        "<stdin>:13 (document 2)",
    ]


@pytest.mark.parametrize(
    "noise",
    [
        "creationTimestamp: null",
        'resourceVersion: ""',
        "uid:",
        "managedFields: []",
        "managedFields:",
    ],
)
def test_unset_fields_written_by_go_are_left_out(noise: str) -> None:
    text = f"apiVersion: v1\nkind: A\nmetadata:\n  name: a\n  {noise}\n  labels:\n"
    (manifest,) = manifests(text)
    assert manifest.body["metadata"] == {"name": "a", "labels": None}


def test_status_and_string_data_stay() -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: b}\nstatus: {}\n"
    (manifest,) = manifests(text)
    assert manifest.body["stringData"] == {"a": "b"}
    assert manifest.body["status"] == {}


def test_null_labels_and_annotations_stay() -> None:
    """Null removes them with the apply."""
    fields = "metadata: {name: a, labels: {b: null}, annotations: {c: ~, d: x}}"
    (manifest,) = manifests(f"apiVersion: v1\nkind: A\n{fields}\n")
    assert manifest.body["metadata"]["labels"] == {"b": None}
    assert manifest.body["metadata"]["annotations"] == {"c": None, "d": "x"}


WRONG_SECRETS = {
    "stringData: {pin: 0123}": "4:14: stringData: the value of 'pin' is a number, not a string",
    "stringData: {on: true}": "4:14: stringData: the value of 'true' is a boolean, not a string",
    "stringData: {list: [a, b]}": "4:14: stringData: the value of 'list' is a list, not a string",
    "stringData: {map: {a: b}}": "4:14: stringData: the value of 'map' is a mapping, not a string",
    "stringData: text": "4:1: stringData is a string, not a mapping",
    "stringData: [hunter2]": "4:1: stringData is a list, not a mapping",
    "data: [hunter2]\nstringData: {a: b}": "4:1: data is a list, not a mapping",
    "data: {a: 42424242}": "4:8: data: the value of 'a' is a number, not a string",
}


@pytest.mark.holds("text-of-a-map", row="stringData: {pin: 0123}")
@pytest.mark.parametrize("fields", WRONG_SECRETS)
def test_values_of_a_secret_are_strings(fields: str) -> None:
    """Or ``0123`` would be stored as 83, and ``[a, b]`` as Python writes it."""
    with pytest.raises(InputError) as caught:
        manifests(f"apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\n{fields}\n")
    assert f"<stdin>:{WRONG_SECRETS[fields]}" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "42424242" not in str(caught.value)


def test_null_in_a_secret_is_no_fault() -> None:
    """It removes the key; of another kind, the fields mean something else."""
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {a: ~}\ndata:\n"
    assert manifests(text)
    assert manifests("apiVersion: x.io/v1\nkind: A\nmetadata: {name: a}\nstringData: [1]\n")


def test_placeholder_in_a_namespace_is_recognised() -> None:
    """Nobody has replaced it."""
    with pytest.raises(InputError) as caught:
        manifests("apiVersion: v1\nkind: A\nmetadata: {name: a, namespace: '${NS}'}\n")
    assert "invalid metadata.namespace" in str(caught.value)
    assert "envsubst" in str(caught.value)


@pytest.mark.parametrize("namespace", ["", '""', "null"])
def test_empty_namespace_means_none(namespace: str) -> None:
    (manifest,) = manifests(
        f"apiVersion: v1\nkind: A\nmetadata:\n  name: a\n  namespace: {namespace}\n"
    )
    assert manifest.namespace == ""


def test_all_errors_of_a_document_come_in_line_order() -> None:
    text = """\
kind: 1
metadata:
  annotations: {a: y}
  namespace: A
  name: a/b
  uid: x
  labels: [a]
apiVersion: a/b/c
"""
    with pytest.raises(InputError) as caught:
        manifests(text)
    lines = [line for line in str(caught.value).split("\n") if not line.startswith("  ")]
    assert [line.split(":")[1] for line in lines] == ["1", "3", "4", "5", "6", "7", "8"]


def test_hint_recognises_a_kustomization() -> None:
    text = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: []\n"
    with pytest.raises(InputError, match="-k DIR"):
        manifests(text)


@pytest.mark.parametrize(
    "name",
    ["a", "a.b-c", "system:node", "System:Ümlaut", "a_b@c", "...", "x" * 253, "a&b=c", "web team"],
)
def test_names_that_a_path_can_contain_are_accepted(name: str) -> None:
    assert name_problem(name) == ""


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "a/b",
        "a%2fb",
        "a?b",
        "a#b",
        "a\nb",
        "a\tb",
        "a\0",
        "\x1b[31m",
        "a\u202eb",
        "\xa0",
    ],
)
def test_names_that_change_a_path_are_refused(name: str) -> None:
    assert name_problem(name)


def test_namespaces_kinds_and_versions_are_checked() -> None:
    assert all(map(is_dns_label, ["a", "kube-system", "0", "x" * 63]))
    assert not any(map(is_dns_label, ["", "A", "a.b", "-a", "a-", "a\n", "x" * 64, "ä"]))
    assert all(map(is_kind, ["A", "ConfigMap", "KNativeServing2", "My-Kind"]))
    assert not any(map(is_kind, ["", "1A", "A/B", "A.b", "A ", "A\n", "..", "Ä", "A" * 64]))
    assert all(map(is_api_version, ["v1", "apps/v1", "rbac.authorization.k8s.io/v1beta1"]))
    assert not any(
        map(is_api_version, ["", "/v1", "a/", "a/b/c", "../v1", "A/v1", "v1\n", "a..b/v1", "a b"])
    )
