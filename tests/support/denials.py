"""Admission policies that deny requests in one namespace."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.objects import of_kind
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.api import Api

_GROUP = "admissionregistration.k8s.io/v1"


@contextmanager
def denied(
    api: Api,
    namespace: str,
    plural: str,
    operation: str,
    tried: Callable[[], int],
    **validation: str,
) -> Iterator[None]:
    """Deny an operation on core kinds that fail a validation, as soon as ``tried`` is denied.

    ``tried`` returns the status of a request that the policy denies. Policy and binding have the
    name of the namespace.
    """
    rule = {
        "apiGroups": [""],
        "apiVersions": ["*"],
        "operations": [operation],
        "resources": plural.split(),
    }
    home = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    kind = "ValidatingAdmissionPolicy"
    policy = of_kind(kind, namespace, api=_GROUP, spec={
        "matchConstraints": {"namespaceSelector": home, "resourceRules": [rule]},
        "validations": [validation],
    })  # fmt: skip
    spec = {"policyName": namespace, "validationActions": ["Deny"]}
    binding = of_kind(f"{kind}Binding", namespace, api=_GROUP, spec=spec)
    made = {
        f"/apis/{_GROUP}/validatingadmissionpolicies": policy,
        f"/apis/{_GROUP}/validatingadmissionpolicybindings": binding,
    }
    try:
        for path, body in made.items():
            api.create(path, body)
        eventually(lambda: tried() >= 400, lambda: "the policy")
        yield
    finally:
        for path in reversed(made):
            api("DELETE", f"{path}/{namespace}")
