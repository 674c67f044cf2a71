"""A plane for one module after the other: what a module leaves there is removed before the next."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from applyprune.sources import read
from tests.support.api import Api
from tests.support.controller import BUNDLE_CRD
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextlib import AbstractContextManager

    from applyprune.localplane import Plane

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_BUNDLES = "/apis/applyprune.dev/v1alpha1/bundles"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_NAMESPACES = "/api/v1/namespaces"
_TENANTS = "tenant-"
_SHARED = (
    _NAMESPACES,
    _DEFINITIONS,
    "/apis/apiregistration.k8s.io/v1/apiservices",
    f"{_ADMISSION}/validatingwebhookconfigurations",
    f"{_ADMISSION}/mutatingwebhookconfigurations",
    f"{_ADMISSION}/validatingadmissionpolicies",
    f"{_ADMISSION}/validatingadmissionpolicybindings",
    f"{_RBAC}/clusterroles",
    f"{_RBAC}/clusterrolebindings",
    f"{_NAMESPACES}/default/configmaps",
    f"{_NAMESPACES}/default/events",
    f"{_NAMESPACES}/default/secrets",
    f"{_NAMESPACES}/default/serviceaccounts",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    f"{_RBAC}/namespaces/default/rolebindings",
)
"""What belongs to no tenant: the next module would see a new object in here."""


_LAST = f"{_NAMESPACES}/default/configmaps/kube-root-ca.crt"
"""What a new plane makes by itself, after it is ready."""
_WITHIN = 10.0


class SharedSite:
    """The plane; a module that leaves something there that stays gets the next one a new plane."""

    def __init__(self, start_one: Callable[[], AbstractContextManager[Plane]]) -> None:
        """Start none before it is needed."""
        self._start_one = start_one
        self._ends = ExitStack()
        self._plane: Plane | None = None
        self._before: dict[str, object] = {}

    def plane(self) -> Plane:
        """Return the running plane, with the CRD of Bundles and nothing else."""
        if self._plane is None:
            self._plane = self._ends.enter_context(self._start_one())
            with closing(Api(self._plane)) as api:
                _install_crd(api)
                self._before = _of_no_tenant(api)
        return self._plane

    def clear(self) -> None:
        """Remove all Bundles, whose controllers have ended, and what was not there at first."""
        if self._plane is None:
            return
        with closing(Api(self._plane)) as api:
            until = time.monotonic() + _WITHIN
            while _remove_bundles(api) or _of_no_tenant(api) != self._before:
                if time.monotonic() > until:
                    self.close()
                    return
                _remove_new(api, self._before)
                time.sleep(0.05)

    def close(self) -> None:
        """Stop the plane."""
        self._plane = None
        self._ends.close()


def _install_crd(api: Api) -> None:
    (crd,) = read([str(BUNDLE_CRD)])
    status, reply = api("POST", _DEFINITIONS, crd.body)
    assert status == 201, reply
    eventually(lambda: api("GET", _BUNDLES)[0] == 200, lambda: "the CRD")
    eventually(lambda: api.exists(_LAST), lambda: "what each cluster has")


def _of_no_tenant(api: Api) -> dict[str, object]:
    """Return the state of each object that belongs to no tenant, by its path."""
    found: dict[str, object] = {}
    for path in _SHARED:
        for one in api.get(path)["items"]:
            metadata = one["metadata"]
            # The namespace of a tenant is new for each, and takes its time to go.
            if path != _NAMESPACES or not metadata["name"].startswith(_TENANTS):
                state = metadata["uid"], one.get("spec"), one.get("rules"), one.get("data")
                found[f"{path}/{metadata['name']}"] = state
    return found


def _remove_bundles(api: Api) -> bool:
    """Return whether there were any."""
    found = api.get(_BUNDLES)["items"]
    for one in found:
        metadata = one["metadata"]
        namespace = f"namespaces/{metadata['namespace']}"
        path = _BUNDLES.replace("bundles", f"{namespace}/bundles/{metadata['name']}")
        api("DELETE", path)
        if metadata.get("finalizers"):
            free = {"metadata": {"finalizers": None}}
            api("PATCH", path, free, content_type="application/merge-patch+json")
    return bool(found)


def _remove_new(api: Api, before: Collection[str]) -> None:
    for path in _of_no_tenant(api).keys() - set(before):
        api("DELETE", path)
