"""What is known to be wrong with an input without any cluster, and what is not."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest

from applyprune.model.options import HelmHooks, Options
from applyprune.planning.applyset import applyset_identity
from applyprune.planning.input_check import InputCheck, check_input
from applyprune.sources import read
from tests.support.objects import (
    CRON_JOB,
    DEPLOYMENT,
    SERVICE,
    annotation_texts,
    config_map,
    manifest,
)
from tests.support.options import options_of

SET = applyset_identity("web", "home")
HIDDEN = "hunter2"


def checked(*bodies: dict[str, Any], options: Options | None = None) -> InputCheck:
    manifests = [manifest(raw, line) for line, raw in enumerate(bodies, 1)]
    return check_input(manifests, SET, options or Options())


def body(api_version: str, kind: str, name: str = "a", **more: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}


def secret(**parts: Any) -> dict[str, Any]:
    return body("v1", "Secret", **parts)


def noted(**texts: str) -> dict[str, Any]:
    return config_map("a", annotations=annotation_texts(**texts))


ENCRYPTED = "ENC[AES256_GCM,data:aGVsbG8=,iv:AAAA,tag:BBBB,type:str]"
CERTIFICATE = body("cert-manager.io/v1", "Certificate")
WRONG: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a kind that is mistyped": ([body("apps/v1", "Deploymnt")], "Did you mean apps/v1 Deployment?"),
    "a version that is none": ([body("apps/v2", "Deployment")], "apps/v1"),
    "a group that is gone": ([body("extensions/v1beta1", "Ingress")], "networking.k8s.io/v1"),
    "a version that is gone": ([body("batch/v1beta1", "CronJob")], "batch/v1"),
    "a duplicate": ([config_map("a", "1"), config_map("a", "2")], "is defined twice"),
    "a duplicate in the default namespace": (
        [config_map("a", "1"), config_map("a", "2", namespace="home")],
        "is defined twice",
    ),
    "a duplicate of a kind that nobody knows": ([CERTIFICATE, CERTIFICATE], "is defined twice"),
    "an annotation of ours": ([noted(applyprune_dev__wvae="1")], "unknown annotation"),
    "the same on an unknown kind": (
        [{**CERTIFICATE, "metadata": {"name": "a", "annotations": {"applyprune.dev/x": "y"}}}],
        "unknown annotation",
    ),
    "a wave": ([noted(applyprune_dev__wave="first")], "is not a whole number"),
    "a dependency": (
        [noted(config_kubernetes_io__depends_on="/namespaces/home/ConfigMap/b")],
        "depends on an object outside the set",
    ),
    "a hook": ([noted(helm_sh__hook="pre-install")], "hook of a chart"),
    "the inventory": ([config_map("applyprune-web")], "is the inventory of this set"),
    "a value of a Secret that is no base64": ([secret(data={"pw": HIDDEN})], "illegal base64"),
    "a value of a Secret that is a number": ([secret(data={"pw": 5})], "got integer"),
    "a value of a ConfigMap that is a list": (
        [body("v1", "ConfigMap", data={"a": ["b"]})],
        "expected string, got list",
    ),
    "a name": (
        [config_map("Web_Upper")],
        "configmap/Web_Upper in namespace home: invalid metadata",
    ),
    "a name with a colon": ([config_map("a:b")], "invalid metadata.name"),
    "a name that is a placeholder": ([config_map("a-${B}")], "envsubst"),
    "a name that is too long": ([config_map("a" * 254)], "invalid metadata.name"),
    "a name of a Service with a dot": ([body("v1", "Service", "a.b")], "and '-', at most 63"),
    "a name of a Namespace with a dot": ([body("v1", "Namespace", "a.b")], "and '-', at most 63"),
    "a key of a label": ([config_map("a", labels={"a b": "c"})], "metadata.labels: invalid key"),
    "a prefix of a label": ([config_map("a", labels={"A.io/b": "c"})], "labels: invalid key"),
    "a value of a label": (
        [config_map("a", labels={"a": "-c"})],
        "metadata.labels: invalid value of a",
    ),
    "a key of an annotation": (
        [config_map("a", annotations={"a/b/c": "d"})],
        "metadata.annotations: invalid key",
    ),
    "a key of a ConfigMap": ([body("v1", "ConfigMap", data={"a b": "c"})], "data: invalid key"),
    "a key of a Secret": ([secret(data={"..a": ""})], "data: invalid key"),
    "what SOPS has encrypted": (
        [secret(stringData={"a": ENCRYPTED}, sops={"mac": ENCRYPTED, "version": "3.9.0"})],
        "SOPS has encrypted this file\n  Decrypt it first: sops decrypt set.yaml | apply",
    ),
    "an encrypted value without its block": (
        [secret(stringData={"a": "b", "c": ENCRYPTED})],
        "Secret a: stringData.c: SOPS has encrypted this value, and the block sops:",
    ),
    "an encrypted value in base64": (
        [secret(data={"a": base64.b64encode(ENCRYPTED.encode()).decode()})],
        "Secret a: data.a: SOPS has encrypted this value",
    ),
    "an encrypted value of a ConfigMap": (
        [body("v1", "ConfigMap", data={"a": ENCRYPTED})],
        "ConfigMap a: data.a: SOPS has encrypted this value",
    ),
    "binary data that is no base64": (
        [body("v1", "ConfigMap", binaryData={"a": "ü"})],
        "illegal base64",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_input_that_would_end_every_run_has_an_error(name: str) -> None:
    """With file and line, and no value of a Secret."""
    bodies, expected = WRONG[name]
    found = checked(*bodies)
    told = [str(error) for error in found.errors]
    assert [text for text in told if expected in text]
    assert all(text.startswith(f"set.yaml:{len(bodies)}:") for text in told)
    assert HIDDEN not in str(told)


AXIS = (
    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
    "metadata: {name: axes.example.com}\n"
    "spec:\n  group: example.com\n  names: {kind: Axis, plural: axes}\n  scope: Namespaced\n"
    "  versions:\n  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: \n"
    "{type: object, properties: {spec: {type: object, properties: {\n"
    "labels: {type: object, additionalProperties: {type: string}},\n"
    "values: {type: object, x-kubernetes-preserve-unknown-fields: true%s}}}}}}}\n"
)
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a%s}\ndata: {a: b%s}\n"
IN_A_LIST = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {n: x}}"
CUSTOM = "apiVersion: example.com/v1\nkind: Axis\nmetadata: {name: a%s}\nspec: {%s}\n"
_POD = (
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n"
    "  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n"
    "    spec: {nodeSelector: {0x10: z}, containers: [{name: a, image: b}]}\n"
)
# What is an error, and what is a warning: LINE:COLUMN of each key, or its words.
KEYS: dict[str, tuple[str, list[str], list[str]]] = {
    "a key of a ConfigMap": (
        CONFIG_MAP % ("", ", y: c"),
        ['4:14: data: without quotes, the key y becomes "true"'],
        [],
    ),
    "every key": (
        CONFIG_MAP % (", labels: {No: x}, annotations: {1_000: x}", ", 010: c"),
        [
            '3:30: metadata.labels: without quotes, the key No becomes "false"',
            '3:52: metadata.annotations: without quotes, the key 1_000 becomes "1000"',
            '4:14: data: without quotes, the key 010 becomes "8"',
        ],
        [],
    ),
    "keys that stay": (CONFIG_MAP % ("", ", 8080: c, 'y': d, 2001-01-01: e, \"on\": f"), [], []),
    "a Secret": (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {on: hunter2}\n",
        ['4:14: stringData: without quotes, the key on becomes "true"'],
        [],
    ),
    "a field of a built-in kind": (
        _POD,
        ['8:27: spec.template.spec.nodeSelector: without quotes, the key 0x10 becomes "16"'],
        [],
    ),
    "an item of a list": (
        f"apiVersion: v1\nkind: List\nitems: [{json.dumps(config_map('b'))}, {IN_A_LIST}]\n",
        ["3:"],
        [],
    ),
    "the labels of a custom resource": (
        CUSTOM % (", labels: {y: a}", ""),
        ['3:30: metadata.labels: without quotes, the key y becomes "true"'],
        [],
    ),
    "a kind that nobody knows": (
        CUSTOM % ("", "on: 1"),
        [],
        ['4:8: axis.example.com/a: spec: without quotes, the key on becomes "true"'],
    ),
    "a field that the CRD knows": (
        f"{AXIS % ''}---\n{CUSTOM % ('', 'labels: {on: x}')}",
        ["17:17 (document 2): axis.example.com/a in namespace home: spec.labels"],
        [],
    ),
    "a part that keeps any JSON": (
        f"{AXIS % ''}---\n{CUSTOM % ('', 'values: {on: {n: x}}')}",
        [],
        ["17:17 (document 2): axis.example.com/a: spec.values"],
    ),
    "a property of a CRD": (
        AXIS % ", properties: {y: {type: string}}",
        ["12:81: spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.values"],
        [],
    ),
    "a default in a CRD": (
        AXIS % ", default: {y: 1}",
        [],
        ["12:78: customresourcedefinition.apiextensions.k8s.io/axes.example.com: spec"],
    ),
}  # fmt: skip


@pytest.mark.holds("changed-key", row="a key of a ConfigMap")
@pytest.mark.parametrize("name", KEYS)
def test_key_of_which_yaml_makes_another_text(name: str) -> None:
    """An error in a field that is known, a warning in what may be any JSON; never a value."""
    text, errors, warnings = KEYS[name]
    given = read(["-"], stdin=io.BytesIO(text.encode()))
    found = check_input(given, SET, Options())
    told = [str(given.pointed(error.problem)) for error in found.errors]
    warned = [str(given.pointed(problem)) for problem in found.warnings]
    for texts, expected in ((told, errors), (warned, warnings)):
        assert len(texts) == len(expected)
        for one, begin in zip(texts, expected, strict=True):
            assert one.startswith(f"<stdin>:{begin}")
            assert "Quote the key" in one
            assert HIDDEN not in one


FINE: dict[str, list[dict[str, Any]]] = {
    "names of roles": [body("rbac.authorization.k8s.io/v1", "Role", "system:a B")],
    "a name that is an address": [body("networking.k8s.io/v1", "IPAddress", "2001:db8::1")],
    "a name of a kind that nobody knows": [{**CERTIFICATE, "metadata": {"name": "A_b"}}],
    "names with dots, keys with prefixes": [
        body("v1", "ConfigMap", "a.b-1", data={".a_B": "c"}),
        config_map("c", labels={"a.io/b": "", "A": "x_Y.z"}, annotations={"A.io/B": "x y"}),
    ],
    "a custom kind that is encrypted": [
        {**CERTIFICATE, "spec": {"a": ENCRYPTED}, "sops": {"mac": ENCRYPTED}}
    ],
    "a text that quotes an encrypted file": [
        body("v1", "ConfigMap", data={"a.yaml": f"pw: {ENCRYPTED}\nsops: {{}}\n"})
    ],
    "built-in kinds": [DEPLOYMENT, SERVICE, CRON_JOB, body("v1", "Namespace")],
    "one name in two namespaces": [config_map("a"), config_map("a", namespace="other")],
    "a kind of another scope": [body("v1", "Namespace"), config_map("a")],
    "base64 with line ends": [
        secret(data={"a": base64.encodebytes(b"x" * 100).decode(), "b": ""}, stringData={"c": "d"})
    ],
    "equal duplicates": [config_map("a"), config_map("a")],
    "a dependency on what nobody knows": [
        noted(config_kubernetes_io__depends_on="cert-manager.io/namespaces/home/Certificate/a"),
        CERTIFICATE,
    ],
}


@pytest.mark.parametrize("name", FINE)
def test_valid_input_has_no_error(name: str) -> None:
    assert checked(*FINE[name]).errors == ()


def test_unknown_kinds_are_named_once_each() -> None:
    """Custom resources, and versions of built-in kinds that come and go; not what a CRD brings."""
    crd = body(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "shops.example.com",
        spec={
            "group": "example.com",
            "names": {"kind": "Shop", "plural": "shops"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    )
    beta = body("networking.k8s.io/v1beta1", "ServiceCIDR")
    new = body("resource.k8s.io/v1alpha3", "DeviceTaintRule")
    other = {**CERTIFICATE, "metadata": {"name": "b"}}
    found = checked(crd, body("example.com/v1", "Shop"), CERTIFICATE, other, beta, new)
    assert found.errors == ()
    assert [f"{gvk.api_version} {gvk.kind}" for gvk in found.unknown] == [
        "networking.k8s.io/v1beta1 ServiceCIDR",
        "resource.k8s.io/v1alpha3 DeviceTaintRule",
        "cert-manager.io/v1 Certificate",
    ]


def test_reference_that_is_almost_right_is_a_warning() -> None:
    """What is nowhere near may be in the cluster; a key of the set's own ConfigMap is not."""

    def reading(name: str, key: str = "key") -> dict[str, Any]:
        reference = {"configMapKeyRef": {"name": name, "key": key}}
        container = {"name": "a", "image": "b", "env": [{"name": "A", "valueFrom": reference}]}
        return body("v1", "Pod", spec={"containers": [container]})

    settings = config_map("settings")
    (near,) = checked(settings, reading("setings")).warnings
    assert near.message == (
        "pod/a refers to configmap/setings in namespace home, which is not in the input"
    )
    assert near.hint == "Did you mean settings?"
    (key,) = checked(settings, reading("settings", "kee")).warnings
    assert "reads the key 'kee'" in key.message
    assert checked(settings, reading("elsewhere")).warnings == ()


def test_options_of_the_placement_count() -> None:
    """Two namespaces become one, and hooks are left out."""
    twice = (config_map("a", "1"), config_map("a", "2", namespace="other"))
    assert checked(*twice).errors == ()
    assert checked(*twice, options=options_of(namespace_override="home")).errors
    hook = noted(helm_sh__hook="pre-install")
    assert checked(hook, options=options_of(helm_hooks=HelmHooks.SKIP)).errors == ()
