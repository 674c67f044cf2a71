"""Ask the API server what the account of this connection may do.

A review is a POST that stores nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from applyprune.cluster.object_requests import for_collection
from applyprune.model.json_access import items, mapping
from applyprune.model.request import Access, AccessRule
from applyprune.model.resources import Resource
from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.cluster.transport.transport import Transport

_GROUP = "authorization.k8s.io"
_ACCESS = Resource(
    _GROUP, "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
_RULES = Resource(
    _GROUP, "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False
)


@dataclass(frozen=True, slots=True)
class AccessReviews:
    """Reviews of one account; thread-safe, and nothing is cached."""

    transport: Transport

    def rules(self, namespace: str) -> Sequence[AccessRule]:
        """Return rules that allow something in a namespace; others may exist.

        The server's list is incomplete by contract: what it lacks may be allowed too. It says
        nothing of cluster scope: a rule of a Role does not hold there.
        """
        status = self._review(_RULES, {"namespace": namespace})
        return [
            AccessRule(*(_texts(rule, key) for key in ("verbs", "apiGroups", "resources", _NAMES)))
            for rule in items(status, "resourceRules")
        ]

    def is_allowed(self, access: Access) -> bool:
        """Return whether the server would authorize a request."""
        attributes = {
            "verb": access.verb,
            "group": access.group,
            "resource": access.plural,
            "namespace": access.namespace,
            "name": access.name,
        }
        return self._review(_ACCESS, {"resourceAttributes": attributes}).get("allowed") is True

    def _review(self, resource: Resource, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        body = {"apiVersion": resource.gvk.api_version, "kind": resource.kind, "spec": spec}
        response = self.transport.send(for_collection("POST", resource, body=body))
        return mapping(response.body.get("status"))


_NAMES = "resourceNames"


def _texts(rule: Mapping[str, Any], key: str) -> frozenset[str]:
    values = rule.get(key)
    return frozenset(map(str, values)) if isinstance(values, list) else frozenset()
