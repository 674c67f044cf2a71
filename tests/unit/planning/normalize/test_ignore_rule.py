"""The rules that ignore fields: which objects they match, and how ``ignore`` writes them."""

from __future__ import annotations

import pytest

from applyprune.errors import UsageError
from applyprune.model.fieldset import to_pointer
from applyprune.model.identity import GroupKind, Ref
from applyprune.planning.normalize import IgnoreRule, ignored_paths, parse_rule, split_pointers

WEB = Ref("apps", "Deployment", "shop", "web-1")
ROLE = Ref("rbac.authorization.k8s.io", "ClusterRole", "", "system:node")


@pytest.mark.parametrize(
    ("rule", "ref", "pointer"),
    [
        ("deployment:/spec/replicas", WEB, "/spec/replicas"),
        ("Deployment.apps/web-*:/spec/replicas", WEB, "/spec/replicas"),
        ("*:/metadata/annotations/a.b~1c", WEB, "/metadata/annotations/a.b~1c"),
        ("clusterrole/system:node:/rules", ROLE, "/rules"),
        ("deployment/web:/spec", WEB, ""),
        ("deployment.extensions:/spec", WEB, ""),
        ("configmap:/data", WEB, ""),
        ('deployment:/spec/c[name="a:/b"]/image', WEB, '/spec/c[name="a:/b"]/image'),
    ],
)
def test_rule_matches_its_objects(rule: str, ref: Ref, pointer: str) -> None:
    """By kind with or without its group, and by a glob of the name."""
    assert "".join(map(to_pointer, ignored_paths([parse_rule(rule)], ref))) == pointer


@pytest.mark.parametrize(
    "rule", ["", "x", "deployment", ":/spec", "/web:/spec", "deployment/:/a", "deployment:spec"]
)
def test_invalid_rule_is_refused(rule: str) -> None:
    """As a mistake of the call."""
    with pytest.raises(UsageError, match=r"invalid rule .* in ignore"):
        parse_rule(rule)


@pytest.mark.parametrize(
    ("kind", "matched"),
    [
        ("", True),
        ("*", True),
        ("Deployment", True),
        ("deployment.apps", True),
        ("Deployment.extensions", False),
        ("Role", False),
        ("deployment.", False),
    ],
)
def test_rule_without_a_name_matches_by_kind(kind: str, matched: bool) -> None:
    """As in ``spec.ignoreFields`` of a Bundle."""
    assert IgnoreRule("/spec", kind).matches(WEB.group_kind, WEB.name) is matched


def test_kind_of_the_core_group_can_be_exact() -> None:
    """As the command line names it; a Bundle's rule is for each kind of that name."""
    core, knative = GroupKind("", "Service"), GroupKind("serving.knative.dev", "Service")
    for kind, matched in (("Service", [True, True]), ("service.", [True, False])):
        rule = IgnoreRule("/spec", kind)
        assert [rule.matches(one, "web") for one in (core, knative)] == matched
        assert rule.text.lower() == "service:/spec"


def test_rule_with_an_invalid_pointer_cannot_exist() -> None:
    """So no user of a rule has to check it."""
    with pytest.raises(ValueError, match="must begin with /"):
        IgnoreRule("spec")


def test_list_of_pointers_is_split_outside_of_brackets() -> None:
    """At commas and spaces."""
    pointers = ("/spec/a", '/spec/c[name="x, y",port=1]/image', "/spec/b")
    assert split_pointers(" , ".join(pointers)) == pointers
