"""The rules of ``diff --ignore``."""

from __future__ import annotations

import pytest

from applyprune.errors import UsageError
from applyprune.model.identity import Ref
from applyprune.planning.fields.path import to_pointer
from applyprune.planning.ownership.ignored_fields import ignored_of, parse_rule

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
    assert "".join(map(to_pointer, ignored_of([parse_rule(rule)], ref))) == pointer


@pytest.mark.parametrize(
    "rule", ["", "x", "deployment", ":/spec", "/web:/spec", "deployment/:/a", "deployment:spec"]
)
def test_invalid_rule_is_refused(rule: str) -> None:
    """As a mistake of the call."""
    with pytest.raises(UsageError, match="invalid --ignore rule"):
        parse_rule(rule)
