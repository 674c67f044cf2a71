"""Manifests settled: endpoint, scope and namespace, or an error that says file and line."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from applyprune.errors import InputError, InputErrors, raise_all
from applyprune.model.identity import Ref
from applyprune.model.live import Resource, ResourceMap
from applyprune.planning.applyset import PART_OF
from applyprune.planning.built_in_kinds import built_in_kinds
from applyprune.planning.desired import HOOK, resolve
from applyprune.planning.marks import IGNORE_FIELDS
from applyprune.planning.order import DEPENDS_ON
from applyprune.planning.server_errors import dotted
from tests.support.objects import config_map, manifest
from tests.support.options import options_of
from tests.support.planning import CATALOGUE, TARGET, body


def _definition(*versions: str, scope: str = "Namespaced", **names: Any) -> dict[str, Any]:
    named = {"kind": "Foo", "plural": "foos", **names}
    return body(
        "CustomResourceDefinition",
        f"{named['plural']}.x.io",
        spec={
            "group": "x.io",
            "scope": scope,
            "names": named,
            "versions": [{"name": name, "served": True} for name in versions],
        },
    )


def _custom(version: str) -> dict[str, Any]:
    return {"apiVersion": f"x.io/{version}", "kind": "Foo", "metadata": {"name": "f"}}


_OLD = Resource("x.io", "v1", "Foo", "foos", namespaced=True)
_WITH_OLD = ResourceMap(
    {**CATALOGUE.served, _OLD.gvk: _OLD}, {**CATALOGUE.preferred, _OLD.group_kind: _OLD}
)
"""The server serves the kind in the version v1."""


@pytest.mark.parametrize(
    ("versions", "version", "notes", "only", "fault"),
    [
        (("v1", "v2"), "v1", {}, (), ""),
        (("v1", "v2"), "v2", {}, (), ""),
        (("v2",), "v2", {}, (), ""),
        # It ends with the apply of the CRD, unless that is not applied, or left as it is.
        pytest.param(
            ("v2",),
            "v1",
            {},
            (),
            "Its CustomResourceDefinition in the input serves x.io/v2.",
            marks=pytest.mark.holds("version-of-its-crd"),
        ),
        (("v2",), "v1", {}, ("foo.x.io/f",), ""),
        (("v2",), "v1", {"applyprune.dev/apply": "disabled"}, (), ""),
        (("v2",), "v1", {"applyprune.dev/apply": "once"}, (), ""),
        # It begins with the apply of the CRD.
        (("v2",), "v2", {}, ("foo.x.io/f",), "is in set.yaml:1, and is not selected"),
    ],
)
def test_crd_of_the_input_decides_about_the_versions_of_its_kind(
    versions: tuple[str, ...],
    version: str,
    notes: dict[str, str],
    only: tuple[str, ...],
    fault: str,
) -> None:
    """Whatever the server serves now; an object in another version is an error at its line."""
    definition = _definition(*versions)
    definition["metadata"]["annotations"] = notes
    given = [manifest(definition), manifest(_custom(version), 2)]
    options = options_of(only=frozenset(only))
    found = resolve(given, _WITH_OLD, TARGET, namespace="home", options=options)
    assert [one.location for one in found.errors] == (["set.yaml:2"] if fault else [])
    assert all(fault in str(one) for one in found.errors)


def _refs(*bodies: dict[str, Any], namespace: str = "home") -> list[Ref]:
    manifests = [manifest(raw, line) for line, raw in enumerate(bodies, 1)]
    found = resolve(manifests, CATALOGUE, TARGET, namespace=namespace)
    raise_all(found.errors)
    return [one.ref for one in found.desired]


def test_namespace_is_filled_in_and_never_overridden() -> None:
    """``-n`` is for those that name none."""
    assert _refs(body(), body(name="b", metadata={"namespace": "other"})) == [
        Ref("", "ConfigMap", "home", "a"),
        Ref("", "ConfigMap", "other", "b"),
    ]


def test_cluster_scoped_object_has_no_namespace() -> None:
    """The server drops it silently, and two refs for one object would prune the live one."""
    raw = body("ClusterRole", metadata={"namespace": "x"})
    found = resolve([manifest(raw)], CATALOGUE, TARGET, namespace="home")
    assert found.desired[0].ref == Ref("rbac.authorization.k8s.io", "ClusterRole", "", "a")
    assert "cluster-scoped" in found.warnings[0].message
    assert found.warnings[0].location == "set.yaml:1"


@pytest.mark.parametrize(("scope", "namespace"), [("Namespaced", "home"), ("Cluster", "")])
def test_new_kind_is_taken_from_the_crd_in_the_input(scope: str, namespace: str) -> None:
    """Also when the custom resource stands before its CRD."""
    custom = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}}
    assert _refs(custom, _definition("v1", scope=scope))[1] == Ref("x.io", "Foo", namespace, "f")


ERRORS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "an unknown kind": (
        [{"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}}],
        "set.yaml:1: no matches for kind Foo in x.io/v1",
    ),
    "a version that is not served": (
        [{"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "f"}}],
        "Deployment is served as apps/v1.",
    ),
    "a version that the CRD in the input does not serve": (
        [_definition("v1"), {"apiVersion": "x.io/v2", "kind": "Foo", "metadata": {"name": "f"}}],
        "set.yaml:2: no matches for kind Foo in x.io/v2",
    ),
    "two CRDs of one kind": (
        [_definition("v1"), _definition("v1", plural="others")],
        "set.yaml:2: the kind Foo of x.io is defined twice: it is also in set.yaml:1",
    ),
    "two CRDs with one short name": (
        [
            _definition("v1", shortNames=["f"]),
            _definition("v1", kind="Bar", plural="bars", shortNames=["b", "f"]),
        ],
        "the name f of x.io is defined twice",
    ),
    "one object twice": (
        [body(), body(data={"a": "b"})],
        "set.yaml:2: configmap/a in namespace home is defined twice: it is also in set.yaml:1",
    ),
    "one object twice, once with its namespace": (
        [body(), body(metadata={"namespace": "home", "labels": {"b": "c"}})],
        "is defined twice",
    ),
    "an ApplySet label": (
        [body(metadata={"labels": {PART_OF: "applyset-x-v1"}})],
        f"set.yaml:1: configmap/a in namespace home already has the label {PART_OF}",
    ),
    "the inventory itself": ([body(name="applyprune-web")], "is the inventory of this set"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_invalid_manifest_is_refused(name: str) -> None:
    """Each with its place."""
    bodies, expected = ERRORS[name]
    with pytest.raises(InputError) as caught:
        _refs(*bodies)
    assert expected in str(caught.value)


@pytest.mark.parametrize("versions", [("v1", "events.k8s.io/v1"), ("events.k8s.io/v1", "v1")])
def test_object_under_two_groups_is_one_object(versions: tuple[str, str]) -> None:
    """It would be counted twice, and a later prune of one of them would take both."""
    groups = [version.rpartition("/")[0] for version in versions]
    events = [Resource(group, "v1", "Event", "events", namespaced=True) for group in groups]
    kinds = [*CATALOGUE.preferred.values(), *events]
    catalogue = ResourceMap({one.gvk: one for one in kinds}, {one.group_kind: one for one in kinds})
    raw = [{"apiVersion": one, "kind": "Event", "metadata": {"name": "e"}} for one in versions]
    given = [manifest(one, line) for line, one in enumerate(raw, 1)]
    found = resolve(given, catalogue, TARGET, namespace="home")
    assert ["is defined twice" in str(error) for error in found.errors] == [True]


EQUAL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the same": (body(data={"a": "b"}), body(data={"a": "b"})),
    "another order": (body(data={"a": "b", "c": "d"}), body(data={"c": "d", "a": "b"})),
    "one with its namespace": (body(), body(metadata={"namespace": "home"})),
    "a Secret in another form": (
        body("Secret", stringData={"a": "b"}),
        body("Secret", data={"a": "Yg=="}),
    ),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_duplicate_is_taken_once(name: str) -> None:
    """Official files of one project repeat objects; a warning names both places."""
    first, second = EQUAL[name]
    found = resolve([manifest(first), manifest(second, 9)], CATALOGUE, TARGET, namespace="home")
    assert found.errors == ()
    assert [str(one.origin) for one in found.desired] == ["set.yaml:1"]
    (warning,) = found.warnings
    assert "defined twice with the same content" in warning.message
    assert (warning.location, warning.reason) == ("set.yaml:9", "it is also in set.yaml:1")


DIFFERENT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a value": (body(data={"a": "b"}), body(data={"a": "c"})),
    "a type": (body(immutable=True), body(immutable=1)),
    "a value of a Secret": (
        body("Secret", stringData={"a": "b"}),
        body("Secret", stringData={"a": "c"}),
    ),
    "what is left to others": (
        body(data={"a": "b"}),
        body(data={"a": "b"}, metadata={"annotations": {IGNORE_FIELDS: "/data/a"}}),
    ),
}


@pytest.mark.holds("equal-duplicate", row="a value")
@pytest.mark.parametrize("name", DIFFERENT)
def test_different_duplicate_is_refused(name: str) -> None:
    """Nobody knows which of them is meant."""
    first, second = DIFFERENT[name]
    found = resolve([manifest(first), manifest(second, 9)], CATALOGUE, TARGET, namespace="home")
    assert ["is defined twice" in error.message for error in found.errors] == [True]


def test_all_errors_are_reported_at_once() -> None:
    """Not the first, then the next, run after run."""
    with pytest.raises(InputErrors) as caught:
        _refs(
            body(),
            body(data={"a": "b"}),
            {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}},
        )
    assert len(caught.value.errors) == 2


def test_unavailable_group_does_not_block_other_objects() -> None:
    """Its scope cannot be known: it fails, under the name that it would have."""
    silent = {"apiVersion": "metrics.k8s.io/v1", "kind": "PodMetrics", "metadata": {"name": "f"}}
    found = resolve([manifest(silent), manifest(body())], CATALOGUE, TARGET, namespace="home")
    assert [one.ref.kind for one in found.desired] == ["ConfigMap"]
    (one,) = found.unknown
    assert one.ref == Ref("metrics.k8s.io", "PodMetrics", "home", "f")
    assert "does not answer" in one.problem.reason
    assert found.blocked == {}


@pytest.mark.holds("late-wave-order")
def test_unknown_objects_block_later_waves_and_what_depends_on_them() -> None:
    """Also what depends on a blocked object; nothing else."""
    wave, after = "applyprune.dev/wave", "config.kubernetes.io/depends-on"
    late = {"apiVersion": "metrics.k8s.io/v1", "kind": "Late", "metadata": {"name": "one"}}
    marks = {
        "free": {},
        "earlier": {wave: "-1"},
        "later": {wave: "1"},
        "names": {after: "metrics.k8s.io/namespaces/home/Late/one"},
        "names-cluster": {after: "metrics.k8s.io/Late/one"},
        "names-names": {after: "/namespaces/home/ConfigMap/names"},
    }
    given = [manifest(late), *(manifest(config_map(one, annotations=marks[one])) for one in marks)]
    found = resolve(given, CATALOGUE, TARGET, namespace="home")
    (unknown,) = found.unknown
    assert {one.ref.name for one in found.desired} == marks.keys()
    assert {ref.name: problem.reason for ref, problem in found.blocked.items()} == {
        "later": f"{unknown.ref}, of an earlier wave, was not applied",
        "names": f"it depends on {unknown.ref}, which was not applied",
        "names-cluster": f"it depends on {unknown.refs[1]}, which was not applied",
        "names-names": "it depends on configmap/names in namespace home, which was not applied",
    }


def test_kind_that_is_neither_served_nor_in_the_input_is_an_error() -> None:
    """A typo must not apply half a set. A custom kind may be a controller's of the same set."""
    custom = {"apiVersion": "x.example.com/v1", "kind": "Late", "metadata": {"name": "one"}}
    for unknown, is_custom in ((custom, True), ({**body(), "kind": "ConfigMapp"}, False)):
        found = resolve([manifest(unknown)], CATALOGUE, TARGET, namespace="home")
        with pytest.raises(InputError, match="no matches for kind") as refused:
            raise_all(found.errors)
        assert ("apply that first: by --only" in refused.value.hint) is is_custom
        assert found.unknown == ()


OVERRIDE = options_of(namespace_override="there")


def test_override_moves_namespaced_objects_only() -> None:
    """A Namespace keeps its name, and what a manifest names in its own fields stays."""
    subjects = [{"kind": "ServiceAccount", "name": "s", "namespace": "other"}]
    binding = body("Deployment", subjects=subjects, metadata={"namespace": "other"})
    bodies = [body(metadata={"namespace": "x"}), body("Namespace", "x"), binding]
    manifests = [manifest(raw, line) for line, raw in enumerate(bodies, 1)]
    found = resolve(manifests, CATALOGUE, TARGET, namespace="home", options=OVERRIDE).desired
    assert {str(one.ref) for one in found} == {
        "namespace/x",
        "configmap/a in namespace there",
        "deployment.apps/a in namespace there",
    }
    (sent,) = (one.body for one in found if one.ref.kind == "Deployment")
    assert sent["metadata"]["namespace"] == "there"
    assert sent["subjects"] == subjects


def test_override_that_merges_two_objects_is_an_error() -> None:
    """With the places of both."""
    bodies = [body(metadata={"namespace": "x"}), body(metadata={"namespace": "y"})]
    manifests = [manifest(raw, line) for line, raw in enumerate(bodies, 1)]
    (error,) = resolve(manifests, CATALOGUE, TARGET, namespace="home", options=OVERRIDE).errors
    text = str(error)
    assert "set.yaml:2: configmap/a in namespace there is defined twice" in text
    assert "it is also in set.yaml:1" in text
    assert "namespace-override gives both the same namespace" in text


ADVICE: dict[str, tuple[str, str, str]] = {
    "a mistyped kind": ("apps/v1", "Deploymnet", "Did you mean apps/v1 Deployment?"),
    "a kind in lower case": ("v1", "configmap", "Did you mean v1 ConfigMap?"),
    "a kind of another group": ("v1", "Job", "Did you mean batch/v1? Job is served there."),
    "a group of old": ("extensions/v1beta1", "Deployment", "Did you mean apps/v1?"),
    "a mistyped group and kind": ("app/v1", "Deploymnt", "Did you mean apps/v1 Deployment?"),
    "a kind of nobody": ("v1", "Zzz", "Check the spelling"),
    "somebody's own that is like a built-in one": (
        "traefik.io/v1",
        "Secrets",
        "add its CustomResourceDefinition",
    ),
}


@pytest.mark.parametrize("name", ADVICE)
def test_likely_kind_is_suggested(name: str) -> None:
    api_version, kind, expected = ADVICE[name]
    with pytest.raises(InputError) as caught:
        _refs({"apiVersion": api_version, "kind": kind, "metadata": {"name": "f"}})
    assert expected in caught.value.hint


def test_dependency_with_an_error_of_its_own_is_not_missing() -> None:
    """The one error is told, not one more for each that follows from it."""
    needy = body(metadata={"annotations": {DEPENDS_ON: "apps/namespaces/home/Deploymnet/f"}})
    wrong = {"apiVersion": "apps/v1", "kind": "Deploymnet", "metadata": {"name": "f"}}
    with pytest.raises(InputError) as caught:
        _refs(needy, wrong)
    assert not isinstance(caught.value, InputErrors)
    assert "Deploymnet" in caught.value.message


def test_marks_are_reported_with_the_other_errors_of_their_manifest() -> None:
    """And the dependency on a refused manifest is not missing."""
    needy = body(name="n", metadata={"annotations": {DEPENDS_ON: "/namespaces/home/ConfigMap/b"}})
    with pytest.raises(InputErrors) as caught:
        _refs(
            body(
                name="b",
                metadata={
                    "annotations": {"applyprune.dev/prun": "", "applyprune.dev/wait": "never"},
                    "labels": {PART_OF: "applyset-x-v1"},
                },
            ),
            needy,
        )
    assert [error.problem.field[-1] for error in caught.value.errors] == [
        "applyprune.dev/prun",
        "applyprune.dev/wait",
        PART_OF,
    ]


def test_all_sorts_of_errors_are_reported_at_once() -> None:
    """An unknown kind, an annotation that is no word, a dependency that is missing, a circle."""
    with pytest.raises(InputErrors) as caught:
        _refs(
            {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}},
            body(name="b", metadata={"annotations": {"applyprune.dev/wait": "never"}}),
            body(name="c", metadata={"annotations": {DEPENDS_ON: "/Secret/nowhere"}}),
            *(
                body(name=one, metadata={"annotations": {DEPENDS_ON: _config_map(other)}})
                for one, other in ("de", "ed", "fg", "gf")
            ),
        )
    errors = caught.value.errors
    assert [error.message.partition(" ")[0] for error in errors] == [
        "no", "invalid", "configmap/c", "objects", "objects",
    ]  # fmt: skip
    assert [len(error.problem.marks) for error in errors] == [0, 0, 0, 2, 2]


def test_valid_objects_come_with_the_errors_of_the_others() -> None:
    """So that they can be checked too: all but the hook that somebody must decide about."""
    bodies = [
        {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "f"}},
        body(name="hook", metadata={"annotations": {HOOK: "pre-install"}}),
        body(name="typo", metadata={"annotations": {HOOK: "pre-instal"}}),
        body(name="lacks", metadata={"annotations": {DEPENDS_ON: "/Secret/nowhere"}}),
        *(
            body(name=one, metadata={"annotations": {DEPENDS_ON: _config_map(other)}})
            for one, other in ("de", "ed")
        ),
        body(name="good"),
    ]
    manifests = [manifest(raw, line) for line, raw in enumerate(bodies, 1)]
    found = resolve(manifests, CATALOGUE, TARGET, namespace="home")
    assert len(found.errors) == 5
    assert {one.ref.name for one in found.desired} == {"lacks", "d", "e", "good"}


def _config_map(name: str) -> str:
    return f"/namespaces/home/ConfigMap/{name}"


def _pod(**container: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "a", "image": "a:1", **container}]}}}


PLACEHOLDERS: dict[str, tuple[dict[str, Any], str]] = {
    "a name": (body(name="web-${ENV}"), "metadata.name"),
    "a label": (body(metadata={"labels": {"a": "${A:-b}"}}), "metadata.labels.a"),
    "an image": (
        body("Deployment", spec=_pod(image="web:${TAG}")),
        "spec.template.spec.containers[0].image",
    ),
    "a number": (body("Deployment", spec={"replicas": "${N:=1}"}), "spec.replicas"),
    "a flag": (
        body("Deployment", spec=_pod(args=["--on", "--gates=Pool=${POOL:=false},X=true"])),
        "spec.template.spec.containers[0].args[1]",
    ),
    "a value of a Secret": (body("Secret", data={"a": "${HUNTER2}"}), "data.a"),
    "a value of a ConfigMap": (body(data={"a": "${A}"}), "data.a"),
}


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_placeholder_that_nobody_replaced_is_named(name: str) -> None:
    """With its field, and never with its value."""
    raw, place = PLACEHOLDERS[name]
    found = resolve([manifest(raw)], CATALOGUE, TARGET, namespace="home")
    (warning,) = found.warnings
    assert warning.message.endswith(f"is left in {place}")
    assert "HUNTER2" not in str(warning)


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


PEM = _encoded("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
# name: (the object, the places that are named)
BUNDLES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "webhooks": (
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "a"},
            "webhooks": [
                {"name": "a.b.c", "clientConfig": {"caBundle": one}}
                for one in (_encoded("REPLACE-ME"), PEM, _encoded("null"), _encoded("\n"), "", "?")
            ],
        },
        ["webhooks[0].clientConfig.caBundle", "webhooks[2].clientConfig.caBundle"],
    ),
    "a CRD": (
        body(
            "CustomResourceDefinition",
            "foos.x.io",
            spec={"conversion": {"webhook": {"clientConfig": {"caBundle": _encoded("x")}}}},
        ),
        ["spec.conversion.webhook.clientConfig.caBundle"],
    ),
    "an APIService": (
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1.x.io"},
            "spec": {"caBundle": _encoded("x")},
        },
        ["spec.caBundle"],
    ),
}


@pytest.mark.parametrize("name", BUNDLES)
def test_bundle_without_a_certificate_is_named(name: str) -> None:
    """An empty one is left to its injector, and what is not base64 to the server."""
    raw, places = BUNDLES[name]
    found = resolve([manifest(raw)], built_in_kinds(), TARGET, namespace="home")
    assert found.errors == ()
    (warning,) = found.warnings
    assert "the caBundle holds no certificate in PEM" in warning.message
    assert [dotted(mark.field) for mark in warning.marks] == places


READ_LATER: dict[str, dict[str, Any]] = {
    "a script": body(data={"run.sh": "#!/bin/sh\necho ${HOME}\n"}),
    "a command of a shell": body("Deployment", spec=_pod(command=["sh", "-c", "cd ${HOME} && a"])),
    "a variable of a shell": body("Deployment", spec=_pod(args=["-c", "echo -n ${HOME}"])),
    "what Kubernetes replaces": body("Deployment", spec=_pod(args=["--a=$(A)"])),
    "a name with a dot": body(metadata={"annotations": {"a": "${pvc.name}"}}),
    "an annotation for a proxy": body(metadata={"annotations": {"a": "set $x ${y};"}}),
    "a CRD": _definition("${V}"),
}


@pytest.mark.parametrize("name", READ_LATER)
def test_placeholder_of_a_later_program_stays(name: str) -> None:
    """A warning that is often wrong is not read."""
    found = resolve([manifest(READ_LATER[name])], CATALOGUE, TARGET, namespace="home")
    assert found.warnings == ()
