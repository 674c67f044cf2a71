"""A plane and a controller for one module after the other.

What a module leaves there is removed before the next.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from applyprune.sources import read
from tests.support.api import Api
from tests.support.controller import BUNDLE_CRD, TENANTS, controller
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.controller import Controller

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_BUNDLES = "/apis/applyprune.dev/v1alpha1/bundles"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_NAMESPACES = "/api/v1/namespaces"
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
_INVALID = {
    "apiVersion": "applyprune.dev/v1alpha1",
    "kind": "Bundle",
    "metadata": {"name": "invalid"},
    "spec": {"source": {"inline": ""}, "serviceAccountName": "a/b"},
}

_Objects = dict[str, dict[str, Any]]
"""Objects by their paths."""


class SharedSite:
    """The plane; a module that replaces what it had at first gets the next one a new plane."""

    def __init__(
        self, start_one: Callable[[], AbstractContextManager[Plane]], new_folder: Callable[[], Path]
    ) -> None:
        """Start none before it is needed; each controller has its log in a folder of its own."""
        self._start_one = start_one
        self._new_folder = new_folder
        self._ends = ExitStack()
        self._controllers = ExitStack()
        self._controller: Controller | None = None
        self._options: tuple[str, ...] = ()
        self._plane: Plane | None = None
        self._before: _Objects = {}

    def plane(self) -> Plane:
        """Return the running plane, with the CRD of Bundles and nothing else."""
        if self._plane is None:
            self._plane = self._ends.enter_context(self._start_one())
            with closing(Api(self._plane)) as api:
                _install_crd(api)
                self._before = _of_no_tenant(api)
        return self._plane

    def controller(self, *options: str) -> Controller:
        """Return a running controller of all Bundles, with a log that begins now."""
        dead = self._controller is None or self._controller.process.poll() is not None
        if dead or options != self._options:
            self.stop_controller()
            kubeconfig, log = self.plane().kubeconfig, self._new_folder() / "log"
            one = controller(kubeconfig, log, "lease=0", *options)
            self._controller = self._controllers.enter_context(one)
            self._options = options
        assert self._controller is not None
        # A module that has others stops this one first.
        return replace(self._controller, begins=self._controller.log.stat().st_size)

    def stop_controller(self) -> None:
        """Let a module have controllers of its own."""
        self._controller = None
        self._controllers.close()

    def clear(self) -> None:
        """Remove all Bundles, and restore what was there at first."""
        if self._plane is None:
            return
        with closing(Api(self._plane)) as api:
            eventually(lambda: self._is_clear(api), lambda: f"left: {self._left(api)}")

    def _is_clear(self, api: Api) -> bool:
        """Remove and restore what can be; return whether the next module may begin."""
        now = _of_no_tenant(api)
        if any(_uid(now.get(path)) != _uid(one) for path, one in self._before.items()):
            # Nobody can restore it.
            self.close()
            return True
        for path in now.keys() - self._before.keys():
            api("DELETE", path)
        changed = [path for path, one in self._before.items() if _state(now[path]) != _state(one)]
        for path in changed:
            version = now[path]["metadata"]["resourceVersion"]
            metadata = {**self._before[path]["metadata"], "resourceVersion": version}
            api("PUT", path, {**self._before[path], "metadata": metadata})
        is_as_before = not changed and now.keys() == self._before.keys()
        return _serves_bundles(api) and not _remove_bundles(api) and is_as_before

    def _left(self, api: Api) -> list[str]:
        """Return what is not as it was at first."""
        states = [
            {(path, _state(one)) for path, one in each.items()}
            for each in (_of_no_tenant(api), self._before)
        ]
        return sorted({path for path, _ in states[0] ^ states[1]})

    def close(self) -> None:
        """Stop the plane, and its controller first."""
        self.stop_controller()
        self._plane = None
        self._ends.close()


def _install_crd(api: Api) -> None:
    (crd,) = read([str(BUNDLE_CRD)])
    status, reply = api("POST", _DEFINITIONS, crd.body)
    assert status == 201, reply
    eventually(lambda: _serves_bundles(api), lambda: "the CRD")
    eventually(lambda: api.exists(_LAST), lambda: "what each cluster has")


def _serves_bundles(api: Api) -> bool:
    """Return whether the CRD is served as it is stored: its cache is filled, too."""
    listed = api("GET", f"{_BUNDLES}?resourceVersion=0")[0]
    path = _BUNDLES.replace("bundles", "namespaces/default/bundles?dryRun=All")
    return (listed, api("POST", path, _INVALID)[0]) == (200, 422)


def _of_no_tenant(api: Api) -> _Objects:
    """Return each object that belongs to no tenant."""
    found: _Objects = {}
    for path in _SHARED:
        listed = api.get(path)
        head = {
            "apiVersion": listed["apiVersion"],
            "kind": listed["kind"].removesuffix("List"),
        }
        for one in listed["items"]:
            name = one["metadata"]["name"]
            # The namespace of a tenant is new for each, and takes its time to go.
            if path != _NAMESPACES or not name.startswith(TENANTS):
                found[f"{path}/{name}"] = {**head, **one}
    return found


def _uid(one: Mapping[str, Any] | None) -> str | None:
    return None if one is None else str(one["metadata"]["uid"])


def _state(one: Mapping[str, Any]) -> str:
    """Return what a module may have changed; the plane itself writes what it aggregates."""
    rules = None if "aggregationRule" in one else one.get("rules")
    return repr([_uid(one), one.get("spec"), rules, one.get("data")])


def _remove_bundles(api: Api) -> bool:
    """Return whether there were any, or may be."""
    status, listed = api("GET", _BUNDLES)
    if status != 200:
        # The server makes the storage of a CRD again that was restored.
        return True
    found = listed["items"]
    for one in found:
        metadata = one["metadata"]
        namespace = f"namespaces/{metadata['namespace']}"
        path = _BUNDLES.replace("bundles", f"{namespace}/bundles/{metadata['name']}")
        api("DELETE", path)
        if metadata.get("finalizers"):
            free = {"metadata": {"finalizers": None}}
            api("PATCH", path, free, content_type="application/merge-patch+json")
    return bool(found)
