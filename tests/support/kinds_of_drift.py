"""The ways in which others change, remove and delete what a set owns, each on its own object."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.objects import config_map

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.support.api import Api
    from tests.support.plane import Kubectl

MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
PART_OF = "applyset.kubernetes.io/part-of"

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Opponent:
    """Who changes the objects of one namespace."""

    api: Api
    kubectl: Kubectl
    namespace: str

    def path(self, body: Body) -> str:
        """Return the path of an object."""
        version, kind = body["apiVersion"], body["kind"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        plural = f"{kind.lower()}s"
        return f"{root}/namespaces/{self.namespace}/{plural}/{body['metadata']['name']}"

    def patch(self, body: Body, change: object, kind: str = MERGE, sub: str = "") -> None:
        """Change an object by a patch of the given type, or one of its subresources."""
        path = f"{self.path(body)}{sub}?fieldManager=opponent"
        status, reply = self.api("PATCH", path, change, content_type=kind)
        assert status == 200, reply

    def put(self, body: Body, edit: Callable[[Body], object]) -> None:
        """Change an object by a PUT."""
        live = copy.deepcopy(self.live(body))
        assert live is not None
        edit(live)
        status, reply = self.api("PUT", f"{self.path(body)}?fieldManager=opponent", live)
        assert status == 200, reply

    def live(self, body: Body) -> Body | None:
        """Return an object as it is; None if it does not exist."""
        status, reply = self.api("GET", self.path(body))
        assert status in {200, 404}, reply
        return dict(reply) if status == 200 else None

    def said(self, body: Body) -> Body | None:
        """Return what a manifest may say of an object; None if it does not exist."""
        live = self.live(body)
        if live is None:
            return None
        metadata = {key: live["metadata"].get(key) for key in ("labels", "annotations")}
        notes = metadata["annotations"] or {}
        ours = {key: text for key, text in notes.items() if key in {"note", "other"}}
        metadata["annotations"] = ours
        return {**{key: live[key] for key in live.keys() - {"status"}}, "metadata": metadata}


def _map(name: str) -> Body:
    body = config_map(name, labels={"team": "x"}, annotations={"note": "y"})
    return {**body, "data": {"key": "mine", "other": "o"}}


def _cron_job(name: str) -> Body:
    """Return a suspended CronJob: no controller writes to it, and it has every kind of list."""
    containers = [
        {
            "name": "c",
            "image": "x:1",
            "args": ["--a", "--b"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        },
        {"name": "side", "image": "y:1"},
    ]
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {"disk": "fast", "zone": "a"},
        "containers": containers,
    }
    template = {"spec": {"template": {"spec": pod}}}
    spec = {"schedule": "30 3 * * *", "suspend": True, "jobTemplate": template}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}


def _service(name: str) -> Body:
    ports = [
        {"name": "http", "port": 80, "protocol": "TCP"},
        {"name": "https", "port": 443, "protocol": "TCP"},
    ]
    spec = {"selector": {"app": "web", "tier": "front"}, "ports": ports}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def _deployment(name: str) -> Body:
    labels = {"app": name}
    pod = {"containers": [{"name": "c", "image": "x:1"}]}
    spec = {
        "replicas": 1,
        "paused": True,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": spec,
    }


def _secret(name: str) -> Body:
    data = {"password": "b3Vycw=="}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def _pod(body: Body) -> Any:
    """Return the Pod specification of a CronJob."""
    return body["spec"]["jobTemplate"]["spec"]["template"]["spec"]


def _edited(who: Opponent, body: Body) -> None:
    who.kubectl(
        "edit",
        f"configmap/{body['metadata']['name']}",
        "-n",
        who.namespace,
        env={"KUBE_EDITOR": "sed -i s/mine/theirs/"},
    )


def _replaced(who: Opponent, body: Body) -> None:
    """Replace it by its own manifest with another value: the set's label goes, too."""
    changed = {**body, "data": {**body["data"], "key": "theirs"}}
    who.kubectl("replace", "-n", who.namespace, "-f", "-", stdin=json.dumps(changed))


def _applied(who: Opponent, body: Body) -> None:
    changed = {**body, "data": {**body["data"], "key": "theirs"}}
    who.kubectl("apply", "-n", who.namespace, "-f", "-", stdin=json.dumps(changed))


def _scaled(who: Opponent, body: Body) -> None:
    name = f"deployment/{body['metadata']['name']}"
    who.kubectl("scale", name, "-n", who.namespace, "--replicas=3")


def _deleted(who: Opponent, body: Body) -> None:
    assert who.api("DELETE", who.path(body))[0] == 200


def _wiped(live: Body) -> None:
    live["metadata"]["managedFields"] = [{}]
    live["data"]["key"] = "theirs"


def _patches(change: object, kind: str = MERGE, sub: str = "") -> Callable[[Opponent, Body], None]:
    return lambda who, body: who.patch(body, change, kind, sub)


def _puts(edit: Callable[[Body], object]) -> Callable[[Opponent, Body], None]:
    return lambda who, body: who.put(body, edit)


def _metadata(part: str, key: str, value: object) -> Callable[[Opponent, Body], None]:
    return _patches({"metadata": {part: {key: value}}})


_ENV = {"name": "c", "env": [{"name": "A", "value": "theirs"}]}
_TEMPLATE = {"spec": {"template": {"spec": {"containers": [_ENV]}}}}
KINDS: Mapping[str, tuple[Callable[[str], Body], Callable[[Opponent, Body], None]]] = {
    "merge patch": (_map, _patches({"data": {"key": "theirs"}})),
    "merge patch to null": (_map, _patches({"data": {"key": None}})),
    "JSON patch": (
        _map,
        _patches([{"op": "replace", "path": "/data/key", "value": "theirs"}], JSON),
    ),
    "JSON patch that removes": (_map, _patches([{"op": "remove", "path": "/data"}], JSON)),
    "strategic merge patch": (
        _cron_job,
        _patches({"spec": {"jobTemplate": _TEMPLATE}}, STRATEGIC),
    ),
    "PUT": (_map, _puts(lambda live: live["data"].update(key="theirs"))),
    "kubectl edit": (_map, _edited),
    "kubectl replace": (_map, _replaced),
    "kubectl apply, client-side": (_map, _applied),
    "kubectl scale": (_deployment, _scaled),
    "PATCH of the scale subresource": (
        _deployment,
        _patches({"spec": {"replicas": 3}}, sub="/scale"),
    ),
    "label changed": (_map, _metadata("labels", "team", "z")),
    "label removed": (_map, _metadata("labels", "team", None)),
    "annotation changed": (_map, _metadata("annotations", "note", "z")),
    "annotation removed": (_map, _metadata("annotations", "note", None)),
    "the set's own label removed": (_map, _metadata("labels", PART_OF, None)),
    "list of one value, in another order": (
        _cron_job,
        _puts(lambda live: _pod(live)["containers"][0]["args"].reverse()),
    ),
    "map of one value": (_service, _puts(lambda live: live["spec"]["selector"].update(new="1"))),
    "item of a list with keys removed": (
        _cron_job,
        _puts(lambda live: _pod(live)["containers"].pop()),
    ),
    "list with keys, in another order": (
        _cron_job,
        _puts(lambda live: _pod(live)["containers"].reverse()),
    ),
    "value of a Secret": (_secret, _patches({"data": {"password": "dGhlaXJz"}})),
    "managedFields cleared": (_map, _puts(_wiped)),
    "object deleted": (_map, _deleted),
}
"""Its manifest by its name, and the change."""


def manifests() -> Mapping[str, Body]:
    """Return the manifest of each kind of drift; its name says nothing."""
    return {kind: make(f"d{number}") for number, (kind, (make, _)) in enumerate(KINDS.items(), 1)}
