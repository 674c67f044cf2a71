"""Each right of the controller, taken away: who looks at it sees at once which one is missing."""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.sources import read
from tests.support.controller import CONTROLLER, SYSTEM_NAMESPACE, Tenant, controller
from tests.support.objects import config_map, custom_resource
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.api import Api
    from tests.support.controller import Controller

RBAC = Path(__file__).parents[2] / "deploy" / "rbac.yaml"
WHO = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER}"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Right:
    """One verb of one rule; ``path`` is that of the role which has it, ``rules`` are all of its."""

    path: str
    rules: tuple[dict[str, Any], ...]
    index: int
    verb: str

    @property
    def rule(self) -> dict[str, Any]:
        """Return the rule."""
        return self.rules[self.index]

    @property
    def name(self) -> str:
        """Return the right as a person would say it."""
        return f"{self.verb} {self.rule['resources'][0]}"

    @property
    def fewer(self) -> list[dict[str, Any]]:
        """Return the rules without it."""
        verbs = [one for one in self.rule["verbs"] if one != self.verb]
        without = {**self.rule, "verbs": verbs}
        rules = [without if one is self.rule else one for one in self.rules]
        return [one for one in rules if one["verbs"]]


def rights() -> list[Right]:
    """Return every right that ``deploy/rbac.yaml`` gives to the controller."""
    found = []
    for one in read(("-",), stdin=BytesIO(RBAC.read_bytes())):
        if one.gvk.kind in {"ClusterRole", "Role"} and one.name.startswith(CONTROLLER):
            scope = f"namespaces/{one.namespace}/roles" if one.namespace else "clusterroles"
            path = f"/apis/rbac.authorization.k8s.io/v1/{scope}/{one.name}"
            rules = tuple(one.body["rules"])
            found += [
                Right(path, rules, index, verb)
                for index, rule in enumerate(rules)
                for verb in rule["verbs"]
            ]
    return found


def set_rules(api: Api, right: Right, rules: list[dict[str, Any]], *, may: bool) -> None:
    """Give a role its rules, and wait until the server goes by them."""
    kind = "application/merge-patch+json"
    assert api("PATCH", right.path, {"rules": rules}, content_type=kind)[0] == 200
    resource, _, subresource = right.rule["resources"][0].partition("/")
    asked = {
        "verb": right.verb,
        "group": right.rule["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "namespace": SYSTEM_NAMESPACE,
        "name": "".join(right.rule.get("resourceNames", ())),
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": WHO, "resourceAttributes": asked},
    }
    eventually(lambda: api("POST", REVIEWS, review)[1]["status"]["allowed"] is may, right.name)


@contextmanager
def without(api: Api, right: Right) -> Iterator[None]:
    """Take a right away meanwhile."""
    set_rules(api, right, right.fewer, may=False)
    try:
        yield
    finally:
        set_rules(api, right, list(right.rules), may=True)


def missed(right: Right, tenant: Tenant, log: Path) -> None:
    """Wait until the log, or a condition, has the server's own words for what is missing."""
    resource = right.rule["resources"][0]
    words = f'cannot {right.verb} resource "{resource}"'

    def told() -> bool:
        conditions = [
            condition["message"]
            for bundle in tenant.api.get(tenant.bundle_path())["items"]
            for condition in bundle.get("status", {}).get("conditions", ())
        ]
        return any(words in one.replace('\\"', '"') for one in (log.read_text(), *conditions))

    eventually(told, f"{words!r} in {log.read_text()}")


def create(tenant: Tenant, name: str) -> None:
    """Make a Bundle."""
    tenant.bundle(name, config_map(name))


def remove(tenant: Tenant, name: str) -> None:
    """Make one, and delete it when it is ready."""
    create(tenant, name)
    tenant.ready(name)
    tenant.delete(name)


def search(tenant: Tenant, name: str) -> None:
    """Delete one whose first run has applied nothing: objects are searched by their label."""
    tenant.bundle(name, {**config_map(name), "kind": "Unknown"})
    tenant.failed(name, "InvalidSource")
    tenant.delete(name)


def lack_kind(tenant: Tenant, name: str) -> None:
    """Make one whose kind does not exist."""
    tenant.bundle(name, custom_resource(name, "Never"))
    tenant.failed(name, "KindNotFound")


def say_again(tenant: Tenant, name: str) -> None:
    """Break one, mend it, and break it in the same way."""
    for source in ("[", json.dumps(config_map(name)), "["):
        tenant.bundle(name, source={"inline": source})
        if source == "[":
            tenant.failed(name, "InvalidSource")
        else:
            tenant.ready(name)


AT_WORK: dict[str, Callable[[Tenant, str], None]] = {
    "get bundles": create,
    "patch bundles": create,
    "update bundles/status": create,
    "get serviceaccounts": create,
    "impersonate serviceaccounts": create,
    "create events": create,
    "get events": say_again,
    "patch events": say_again,
    "get namespaces": remove,
    "get customresourcedefinitions": remove,
    "list customresourcedefinitions": search,
    "watch customresourcedefinitions": lack_kind,
    "list apiservices": search,
}
"""What shows that a right is missing while the controller runs."""
AT_START = {"list bundles": 7, "watch bundles": None}
"""What shows when it starts, and the exit code with which it ends, if it does."""
FOR_THE_LEASE = ("create leases", "get leases", "update leases")


def named(names: Any) -> list[Right]:
    """Return rights by their names, in the order of the file."""
    return [one for one in rights() if one.name in names]


def test_permission_cases_cover_every_permission() -> None:
    """No right without a test here, and no test for a right that is not given."""
    tested = [*AT_WORK, *AT_START, *FOR_THE_LEASE]
    assert sorted(one.name for one in rights()) == sorted(tested)


@pytest.fixture
def tenant(new_tenant: Callable[[], Tenant]) -> Tenant:
    """A tenant."""
    return new_tenant()


def running_alone(as_itself: Path, tenant: Tenant, log: Path) -> Any:
    """Return a controller that leads without a Lease."""
    return controller(as_itself, log, "--no-leader-elect", "--watch-namespaces", tenant.namespace)


def test_missing_permission_is_named_while_running(
    as_itself: Path, tenant: Tenant, tmp_path: Path
) -> None:
    """The words are in the log or in a condition; with the right, everything goes on by itself."""
    running: Controller
    with running_alone(as_itself, tenant, tmp_path / "log") as running:
        for number, right in enumerate(named(AT_WORK)):
            name = f"b{number}"
            with without(tenant.api, right):
                AT_WORK[right.name](tenant, name)
                missed(right, tenant, running.log)
            if AT_WORK[right.name] in {remove, search}:
                tenant.gone(name)
            elif AT_WORK[right.name] is create:
                tenant.ready(name)


def test_controller_without_rights_ends_no_removal(
    as_itself: Path, tenant: Tenant, tmp_path: Path
) -> None:
    """The account could delete the objects: the Bundle waits for the controller's right."""
    (right,) = named(["impersonate serviceaccounts"])
    with running_alone(as_itself, tenant, tmp_path / "log") as running:
        tenant.bundle("web", config_map("a"), timeout="1s")
        tenant.ready("web")

        def looks() -> int:
            return sum(line.get("reason") == "Forbidden" for line in running.lines)

        with without(tenant.api, right):
            tenant.delete("web")
            # With a growing pause, so the third look is after the timeout.
            eventually(lambda: looks() >= 3, "three looks")
            assert "cannot impersonate" in tenant.condition("web")[2]
        tenant.gone("web")
    assert tenant.exists("a", "applyprune-web") == [False, False]


@pytest.mark.parametrize("name", AT_START)
def test_missing_permission_is_named_at_the_start(
    as_itself: Path, tenant: Tenant, tmp_path: Path, name: str
) -> None:
    """What it cannot do without ends it, with the words."""
    (right,) = named([name])
    log = tmp_path / "log"
    with without(tenant.api, right), running_alone(as_itself, tenant, log) as running:
        missed(right, tenant, log)
        if (code := AT_START[name]) is not None:
            assert running.process.wait(20) == code


@pytest.mark.parametrize("name", FOR_THE_LEASE)
def test_missing_permission_is_named_at_leader_election(
    as_itself: Path, tenant: Tenant, tmp_path: Path, name: str
) -> None:
    """It stands by, says why, and leads as soon as it may."""
    (right,) = named([name])
    log = tmp_path / "log"
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{CONTROLLER}"
    tenant.api("DELETE", lease)
    if name != "create leases":
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": CONTROLLER, "namespace": SYSTEM_NAMESPACE},
        }
        assert tenant.api("POST", lease.rpartition("/")[0], body)[0] == 201
    with ExitStack() as ends:
        with without(tenant.api, right):
            running = ends.enter_context(controller(as_itself, log, "--lease-duration", "2s"))
            missed(right, tenant, log)
        eventually(lambda: any(one["message"] == "leading" for one in running.lines), "the leader")
