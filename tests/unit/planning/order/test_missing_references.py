"""What a plan warns about: references to missing or pruned objects, and missing keys."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.model.fate import Fate
from applyprune.model.identity import Ref
from applyprune.model.live import Absent, LiveObject, Resource, State, Unknown
from applyprune.model.plan import ApplyStep, Desired, Plan, RemoveStep
from applyprune.model.problem import Origin, Problem, ProblemKind
from applyprune.planning.order import (
    missing_keys,
    missing_references,
    outside_references,
    pruned_references,
)
from applyprune.values import replace
from tests.support.planning import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    SECRETS,
    TARGET,
    body,
    desired,
    inventory,
    live,
    managed,
    recorded,
)

GONE = Absent()
UNREADABLE = Unknown(Problem(kind=ProblemKind.FORBIDDEN, message="no"))
CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", namespaced=True)
VOLUMES = Resource("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
CERTIFICATES = Resource("cert-manager.io", "v1", "Certificate", "certificates", namespaced=True)


def _deployment(name: str = "web", **pod: Any) -> Desired:
    raw = body("Deployment", name, spec={"template": {"spec": pod}})
    return desired(raw, DEPLOYMENTS)


def _reads(kind: str, name: str, key: str = "", **more: Any) -> dict[str, Any]:
    part = {"ConfigMap": "configMap", "Secret": "secret"}[kind]
    if not key:
        return {"containers": [{"envFrom": [{f"{part}Ref": {"name": name, **more}}]}]}
    source = {f"{part}KeyRef": {"name": name, "key": key, **more}}
    return {"containers": [{"env": [{"name": "A", "valueFrom": source}]}]}


def _plan(*members: Desired, fate: Fate = Fate.CREATE, **states: LiveObject) -> Plan:
    return Plan(
        tuple(
            ApplyStep(
                replace(member, origin=Origin("set.yaml", 1, line)),
                fate,
                recorded(member, live(member.ref)),
                states.get(member.ref.name),
            )
            for line, member in enumerate(members, 1)
        ),
        (),
    )


def _missing(plan: Plan, state: State = GONE, hook: Ref | None = None) -> list[Problem]:
    uses, left_out = outside_references(plan), {hook: "as a chart hook"} if hook else {}
    return list(missing_references(uses, dict.fromkeys(uses, state), plan, left_out))


def _map(name: str, resource: Resource = CONFIG_MAPS, **parts: Any) -> Desired:
    return desired(body(resource.kind, name, **parts), resource)


WEB = _deployment(**_reads("Secret", "db"))


def test_missing_object_is_a_warning_at_the_field_that_names_it() -> None:
    """With file and line of the object that refers to it."""
    (problem,) = _missing(_plan(_map("a"), WEB))
    assert problem.kind is ProblemKind.MISSING_REFERENCE
    assert str(problem) == (
        "set.yaml:2: deployment.apps/web refers to secret/db in namespace home, which is neither "
        "in the set nor in the cluster, unless something in the set makes it when it runs"
    )
    assert problem.field == ("spec", "template", "spec", "containers", 0, "envFrom", 0,
                             "secretRef", "name")  # fmt: skip


@pytest.mark.parametrize("state", [live(Ref("", "Secret", "home", "db")), UNREADABLE])
def test_object_that_exists_or_cannot_be_read_is_no_warning(state: State) -> None:
    """An account that may not read Secrets is not warned about each of them."""
    assert _missing(_plan(WEB), state) == []


def test_missing_object_is_reported_once_for_all_that_refer_to_it() -> None:
    """At the first, with the number of the others."""
    others = [_deployment(name, **_reads("Secret", "db")) for name in "abc"]
    both = _deployment("d", **_reads("Secret", "db"), imagePullSecrets=[{"name": "db"}])
    (problem,) = _missing(_plan(*others, both))
    assert (problem.location, problem.reason) == ("set.yaml:1", "3 other objects do the same")
    (problem,) = _missing(_plan(WEB, others[0]))
    assert problem.reason == "1 other object does the same"
    (problem,) = _missing(_plan(both))
    assert problem.reason == ""


PLAIN: dict[str, tuple[Desired, ...]] = {
    "in the set": (WEB, _map("db", SECRETS)),
    "optional": (_deployment(**_reads("Secret", "db", optional=True)),),
    "an optional key": (_deployment(**_reads("Secret", "db", "k", optional=True)),),
    "the account of every namespace": (_deployment(serviceAccountName="default"),),
    "the certificates of every namespace": (
        _deployment(**_reads("ConfigMap", "kube-root-ca.crt")),
    ),
    "named by a custom resource of the set": (
        WEB,
        desired(
            {
                "apiVersion": "cert-manager.io/v1",
                "kind": "Certificate",
                "metadata": {"name": "c"},
                "spec": {"secretName": "db"},
            },
            CERTIFICATES,
        ),
    ),
    "created by a custom resource of its name": (
        WEB,
        desired(
            {"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": {"name": "db"}},
            CERTIFICATES,
        ),
    ),
    "the class of a volume of the set": (
        _map("a", CLAIMS, spec={"storageClassName": "manual"}),
        _map("v", VOLUMES, spec={"storageClassName": "manual"}),
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_reference_that_needs_no_object_is_not_looked_up(name: str) -> None:
    """No request is sent for it."""
    assert outside_references(_plan(*PLAIN[name])) == {}


def test_unchanged_object_is_not_looked_up() -> None:
    """It was checked when it was applied; otherwise each run would ask again."""
    assert outside_references(_plan(WEB, fate=Fate.LEAVE)) == {}
    for fate in (Fate.CHANGE, Fate.ADOPT, Fate.RECREATE):
        assert len(outside_references(_plan(WEB, fate=fate))) == 1


MEANT: dict[str, tuple[str, list[Desired], str]] = {
    "without the hash of kustomize": (
        "web-config",
        [_map("web-config-7h2k8m9f2t"), _map("other-config-7h2k8m9f2t")],
        "Did you mean web-config-7h2k8m9f2t?",
    ),
    "with an old hash": (
        "web-config-2c4d5f6g7h",
        [_map("web-config-7h2k8m9f2t")],
        "Did you mean web-config-7h2k8m9f2t?",
    ),
    "a typing error": ("web-confg", [_map("web-config")], "Did you mean web-config?"),
    "two letters": ("web-konfigs", [_map("web-config")], "Did you mean web-config?"),
    "more than two letters": ("web-config-new", [_map("web-config")], ""),
    "another kind": ("web-config", [_map("web-config", SECRETS)], ""),
    "nothing like it": ("web-config", [_map("zzz")], ""),
    "another namespace": (
        "web-config",
        [replace(_map("web-config"), ref=Ref("", "ConfigMap", "other", "web-config"))],
        "The set has configmap/web-config in namespace other.",
    ),
}


@pytest.mark.parametrize("name", MEANT)
def test_similar_object_of_the_set_is_suggested(name: str) -> None:
    """Of the same kind; a generated hash does not hide the likeness."""
    named, others, expected = MEANT[name]
    (problem,) = _missing(_plan(_deployment(**_reads("ConfigMap", named)), *others))
    assert problem.hint == expected
    # A typing error is no object that a Job of the set makes.
    assert problem.message.endswith("makes it when it runs") is not bool(expected)


def test_hook_that_is_left_out_is_named_as_the_reason() -> None:
    """A chart may create a Secret in a hook."""
    (problem,) = _missing(_plan(WEB), hook=Ref("", "Secret", "home", "db"))
    assert "chart hook" in problem.hint


def _pruning(member: Desired, fate: Fate = Fate.PRUNE, **changes: Any) -> Plan:
    entry = recorded(member, live(member.ref))
    removal = RemoveStep(entry, member.resource, fate, live(member.ref))
    plan = _plan(_deployment(**_reads("ConfigMap", "config-2c4d5f6g7h")), fate=Fate.LEAVE)
    new = _plan(_map("config-7h2k8m9f2t")).applies
    return replace(plan, applies=(*plan.applies, *new), removals=(removal,), **changes)


def test_object_that_is_pruned_but_still_named_is_a_warning() -> None:
    """The Deployment may be unchanged: its Pods would not start again."""
    old = _map("config-2c4d5f6g7h")
    assert old.ref in inventory(recorded(old, live(old.ref))).entries
    (problem,) = pruned_references(_pruning(old))
    assert str(problem) == (
        "set.yaml:1: deployment.apps/web refers to configmap/config-2c4d5f6g7h in namespace home, "
        "which is pruned\n  Did you mean config-7h2k8m9f2t?"
    )
    assert list(pruned_references(_pruning(old, Fate.ORPHAN))) == []
    assert list(pruned_references(_pruning(old, no_prune="--no-prune"))) == []


VOLUME: dict[str, Any] = {
    "volumes": [{"configMap": {"name": "config", "items": [{"key": "nope", "path": "x"}]}}]
}
KEYS: dict[str, tuple[Desired, Desired, tuple[str, str] | None]] = {
    "of a ConfigMap": (
        _deployment(**_reads("ConfigMap", "config", "urll")),
        _map("config", data={"url": "x"}),
        ("urll", "Did you mean url?"),
    ),
    "of a Secret": (
        _deployment(**_reads("Secret", "db", "user")),
        _map("db", SECRETS, stringData={"password": "hunter2"}),
        ("user", ""),
    ),
    "of a volume": (_deployment(**VOLUME), _map("config", data={"url": "x"}), ("nope", "")),
    "that exists": (
        _deployment(**_reads("ConfigMap", "config", "url")),
        _map("config", data={"url": "x"}),
        None,
    ),
    "that holds bytes": (
        _deployment(**_reads("ConfigMap", "config", "url")),
        _map("config", binaryData={"url": "eA=="}),
        None,
    ),
    "that is optional": (
        _deployment(**_reads("ConfigMap", "config", "nope", optional=True)),
        _map("config", data={"url": "x"}),
        None,
    ),
    "of an object that others fill": (
        _deployment(**_reads("ConfigMap", "config", "nope")),
        _map("config"),
        None,
    ),
    "of an object outside the set": (
        _deployment(**_reads("ConfigMap", "other", "nope")),
        _map("config", data={"url": "x"}),
        None,
    ),
}


@pytest.mark.parametrize("name", KEYS)
def test_key_that_an_object_of_the_set_lacks_is_a_warning(name: str) -> None:
    """Keys only: no value is in the message."""
    reader, source, expected = KEYS[name]
    found = list(missing_keys(_plan(reader, source, fate=Fate.LEAVE), TARGET.manager))
    if expected is None:
        assert found == []
        return
    (problem,) = found
    key, hint = expected
    assert (
        problem.message
        == f"deployment.apps/web reads the key {key!r} of {source.ref}, which does not have it"
    )
    assert (problem.location, problem.hint) == ("set.yaml:1", hint)
    assert problem.field[-1] == "key"
    assert "hunter2" not in repr(problem)


MANAGERS: dict[str, tuple[str, bool]] = {
    "another controller": ("cert-injector", True),
    "this set": (TARGET.manager, False),
}


@pytest.mark.parametrize("name", MANAGERS)
def test_key_that_another_manager_has_set_is_there(name: str) -> None:
    """An apply keeps it; a key that only we have set is removed by the apply."""
    manager, kept = MANAGERS[name]
    fields: dict[str, Any] = {"f:data": {".": {}, "f:ca.crt": {}}}
    entry = {**managed(manager), "fieldsV1": fields}
    there = live(Ref("", "ConfigMap", "home", "config"), entries=[entry])
    plan = _plan(
        _deployment(**_reads("ConfigMap", "config", "ca.crt")),
        _map("config", data={"url": "x"}),
        fate=Fate.CHANGE,
        config=there,
    )
    assert [problem.kind for problem in missing_keys(plan, TARGET.manager)] == (
        [] if kept else [ProblemKind.MISSING_REFERENCE]
    )
