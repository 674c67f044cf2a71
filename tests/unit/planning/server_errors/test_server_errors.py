"""What a server's refusal is about, by its own words (of 1.36), in the manifest as it was sent."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.errors import Invalid, NotFound
from applyprune.model.identity import Ref
from applyprune.model.problem import Field, Mark
from applyprune.planning.server_errors import (
    advice_on,
    clean_message,
    dotted,
    error_fields,
    is_about,
    said_missing,
    undeclared_elsewhere,
)

BODY: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "web",
        "labels": {"app": "w b", "app.kubernetes.io/name": "web"},
        "annotations": {"a[0].b": "c"},
    },
    "spec": {
        "clusterIP": "x",
        "containers": [
            {"name": "a", "image": "i"},
            {"name": "b", "ports": [{"containerPort": 80}, {"containerPort": 80}]},
        ],
        "limits": {"memory": "1GB", "cpu": "100m"},
    },
}
TYPED = "failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): "
FIELDS: dict[str, tuple[str, Field]] = {
    "an index": ("spec.containers[1].name", ("spec", "containers", 1, "name")),
    "an item that is not there": ("spec.containers[7].name", ("spec", "containers")),
    "a key with dots": (
        "metadata.labels.app.kubernetes.io/name",
        ("metadata", "labels", "app.kubernetes.io/name"),
    ),
    "a key in brackets": (
        "metadata.labels[app.kubernetes.io/name]",
        ("metadata", "labels", "app.kubernetes.io/name"),
    ),
    "a key with brackets": ("metadata.annotations[a[0].b]", ("metadata", "annotations", "a[0].b")),
    "a field that is missing": ("spec.template.spec", ("spec",)),
    "a list beside one value": ("spec.clusterIPs[0]", ("spec", "clusterIP")),
    "nothing": ("<nil>", ()),
    "rubbish": ("spec..[[", ("spec",)),
}
MESSAGES: dict[str, tuple[str, list[Field]]] = {
    "an unknown field": (
        f'{TYPED}.spec.containers[name="b"].imagee: field not declared in schema',
        [("spec", "containers", 1)],
    ),
    "several": (
        (
            f"{TYPED}errors: .spec.limits: expected string, got &{{[a b]}} "
            '.spec.containers[name="a"].image: expected string, got '
            "&value.valueUnstructured{Value:1}"
        ),
        [("spec", "limits"), ("spec", "containers", 0, "image")],
    ),
    "twins": (
        (
            f'{TYPED}.spec.containers[name="b"].ports: duplicate entries for key '
            '[containerPort=80,protocol="TCP"]'
        ),
        [("spec", "containers", 1, "ports", 0), ("spec", "containers", 1, "ports", 1)],
    ),
    "strict decoding": (
        'strict decoding error: unknown field "spec.limits", duplicate field "metadata.name"',
        [("spec", "limits"), ("metadata", "name")],
    ),
    "a quantity": (
        (
            "failed to convert new object (/a; apps/v1, Kind=D) to proper version: unable to "
            "convert unstructured object to apps/v1, Kind=D: quantities must match the regular "
            "expression '^x$'"
        ),
        [("spec", "limits", "memory")],
    ),
    "an admission policy": ("ValidatingAdmissionPolicy 'x' denied request: no", []),
}


def _refusal(message: str, *causes: tuple[str, str]) -> Invalid:
    told = [{"reason": "", "field": field, "message": why} for field, why in causes]
    return Invalid(message, code=422, causes=told)


@pytest.mark.parametrize("name", FIELDS)
def test_cause_names_its_field(name: str) -> None:
    field, path = FIELDS[name]
    marks = error_fields(_refusal("is invalid", (field, "Required value")), BODY)
    assert [mark.field for mark in marks] == ([path] if path else [])


@pytest.mark.parametrize("name", MESSAGES)
def test_message_names_its_fields(name: str) -> None:
    message, paths = MESSAGES[name]
    assert [mark.field for mark in error_fields(_refusal(message), BODY)] == paths


def test_label_is_found_by_its_quoted_part() -> None:
    why = 'Invalid value: "w b": a valid label must be'
    assert error_fields(_refusal("", ("metadata.labels", why)), BODY) == (
        Mark(("metadata", "labels", "app"), why),
    )


UNDECLARED = "field not declared in schema"


@pytest.mark.parametrize(
    ("message", "is_elsewhere"),
    [
        (f"{TYPED}.spec.mode: {UNDECLARED}", True),
        (f"{TYPED}.metadata.name: {UNDECLARED}", False),
        (f"{TYPED}errors: .metadata.name: {UNDECLARED} .spec.mode: {UNDECLARED}", False),
        (f"{TYPED}.spec.mode: expected string, got &{{}}", False),
        ("anything else", False),
    ],
)
def test_undeclared_field_may_be_none_of_the_manifest(message: str, is_elsewhere: bool) -> None:
    """Then an entry of another version is the cause."""
    assert undeclared_elsewhere(_refusal(message), BODY) is is_elsewhere


def test_missing_field_note_names_it() -> None:
    (mark,) = error_fields(_refusal("", ("spec.template", "Required value")), BODY)
    assert mark == Mark(("spec",), "spec.template: Required value")


REWORDED = {
    f"{TYPED}.spec.a: field not declared in schema": ".spec.a: field not declared in schema",
    f"{TYPED}.a: expected string, got &value.valueUnstructured{{Value:1}}": (
        ".a: expected string, got 1"
    ),
    'Deployment.apps "a" is invalid: [spec.a: Required value, spec.b: no]': (
        "spec.a: Required value, spec.b: no"
    ),
    "anything else [at all]": "anything else [at all]",
}


@pytest.mark.parametrize("message", REWORDED)
def test_message_is_cleaned(message: str) -> None:
    assert clean_message(message) == REWORDED[message]


STORED_VERSION = (
    'CustomResourceDefinition.apiextensions.k8s.io "a.x.io" is invalid: status.storedVersions[0]: '
    'Invalid value: "v1": missing from spec.versions; v1 was previously a storage version'
)


def test_refusals_have_advice() -> None:
    assert "Quote it" in advice_on(f"{TYPED}.a: expected string, got &{{1}}")
    assert "served: false" in advice_on(STORED_VERSION)
    assert advice_on("expected string, got map") == ""
    assert advice_on("no") == ""
    assert dotted(("spec", "containers", 0, "a.b", "c")) == "spec.containers[0][a.b].c"


RBAC = "rbac.authorization.k8s.io"
ROLE, OWN = Ref(RBAC, "Role", "shop", "reader"), Ref("", "ServiceAccount", "shop", "reader")
CLUSTER_ROLE = Ref(RBAC, "ClusterRole", "", "reader")
APP = Ref("", "ServiceAccount", "shop", "app")
HIGH = Ref("scheduling.k8s.io", "PriorityClass", "", "high")
GVISOR = Ref("node.k8s.io", "RuntimeClass", "", "gvisor")
LOOKUP = 'pods "x" is forbidden: error looking up service account shop/app: serviceaccount '
MISSING: dict[str, tuple[str, Ref | None]] = {
    "a role": (f'roles.{RBAC} "reader" not found', ROLE),
    "a role, under the kind of its binding": (f'rolebindings.{RBAC} "reader" not found', ROLE),
    "an account": (f'{LOOKUP}"app" not found', APP),
    "a class of priority": (
        'pods "x" is forbidden: no PriorityClass with name high was found',
        HIGH,
    ),
    "a class of runtime": (
        'pods "x" is forbidden: pod rejected: RuntimeClass "gvisor" not found',
        GVISOR,
    ),
    "another role": (f'roles.{RBAC} "writer" not found', None),
    "a role whose name ends like it": (f'roles.{RBAC} "a-reader" not found', None),
    "a role with a longer name": (f'roles.{RBAC} "reader-a" not found', None),
    "another class": ("no PriorityClass with name higher was found", None),
    "an object of another kind": ('configmaps "app" not found', None),
    "an object of another group": ('roles.example.com "reader" not found', None),
    "a class with the name of an account": ("no PriorityClass with name app was found", None),
    "anything else": ('ValidatingAdmissionPolicy "reader" denied request: app', None),
}


def _missing(message: str, *named: Ref) -> Ref | None:
    said = list(said_missing(NotFound(message, code=404)))
    return next((ref for ref in named if any(is_about(one, ref) for one in said)), None)


@pytest.mark.parametrize("name", MISSING)
def test_missing_object_is_named(name: str) -> None:
    """By its name and its kind, or its group: an account may have the name of its role."""
    message, missing = MISSING[name]
    assert _missing(message, OWN, APP, ROLE, HIGH, GVISOR) == missing


def test_missing_role_is_no_account_of_the_same_name() -> None:
    """The set has only the account: the role is nowhere."""
    message = MISSING["a role, under the kind of its binding"][0]
    assert _missing(message, OWN) is None
    assert _missing(message, OWN, CLUSTER_ROLE) == CLUSTER_ROLE
