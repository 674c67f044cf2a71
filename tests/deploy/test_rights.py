"""Each right of the deployment, and the verb approve: without it something fails and says which.

So the roles are the minimum. The rights are read from ``deploy/``: a new one fails here until its
use is named.
"""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.sources import read
from tests.support.command import applyprune
from tests.support.controller import CONTROLLER, SYSTEM_NAMESPACE, Tenant, controller
from tests.support.objects import config_map, custom_resource
from tests.support.waiting import HANG, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.api import Api
    from tests.support.command import Ended
    from tests.support.controller import Controller, Tenant

DEPLOY = Path(__file__).parents[2] / "deploy"
WHO = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{CONTROLLER}"
EDITOR = "editor-of-bundles"
APPROVER = "approver-of-bundles"
GROUP = "rbac.authorization.k8s.io"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM_NAMESPACE}/leases/{CONTROLLER}"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Right:
    """One verb of one resource of one rule of a role, which has all ``rules``."""

    path: str
    """Where the role is."""
    rules: tuple[dict[str, Any], ...]
    index: int
    resource: str
    verb: str

    @property
    def role(self) -> str:
        """Return the name of the role."""
        return self.path.rpartition("/")[2]

    @property
    def rule(self) -> dict[str, Any]:
        """Return the rule."""
        return self.rules[self.index]

    @property
    def name(self) -> str:
        """Return the right as a person would say it."""
        return f"{self.verb} {self.resource}"

    @property
    def fewer(self) -> list[dict[str, Any]]:
        """Return the rules without it."""
        others = [one for one in self.rule["resources"] if one != self.resource]
        verbs = [one for one in self.rule["verbs"] if one != self.verb]
        less = [
            {**self.rule, "resources": [self.resource], "verbs": verbs},
            {**self.rule, "resources": others},
        ]
        rules = [one for one in self.rules if one is not self.rule]
        return [*rules, *(one for one in less if one["resources"] and one["verbs"])]


def rights(*, of_people: bool = False) -> list[Right]:
    """Return every right that ``deploy/`` gives to the controller, or to people."""
    found = []
    for one in read([str(path) for path in sorted(DEPLOY.glob("*.yaml")) if path.name != FOLDER]):
        if one.gvk.kind not in {"ClusterRole", "Role"}:
            continue
        if one.name.startswith(CONTROLLER) is of_people:
            continue
        scope = f"namespaces/{one.namespace}/roles" if one.namespace else "clusterroles"
        rules = tuple(one.body["rules"])
        found += [
            Right(f"/apis/{GROUP}/v1/{scope}/{one.name}", rules, index, resource, verb)
            for index, rule in enumerate(rules)
            for resource in rule["resources"]
            for verb in rule["verbs"]
        ]
    return found


FOLDER = "kustomization.yaml"


def set_rules(
    api: Api,
    right: Right,
    rules: list[dict[str, Any]],
    *,
    may: bool,
    who: str,
    namespace: str,
) -> None:
    """Give a role its rules, and wait until the server goes by them."""
    kind = "application/merge-patch+json"
    assert api("PATCH", right.path, {"rules": rules}, content_type=kind)[0] == 200
    resource, _, subresource = right.resource.partition("/")
    asked = {
        "verb": right.verb,
        "group": right.rule["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "namespace": namespace,
        "name": "".join(right.rule.get("resourceNames", ())),
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": who, "resourceAttributes": asked},
    }
    eventually(
        lambda: api("POST", REVIEWS, review)[1]["status"]["allowed"] is may, lambda: right.name
    )


@contextmanager
def without(
    api: Api, right: Right, who: str = WHO, namespace: str = SYSTEM_NAMESPACE
) -> Iterator[None]:
    """Take a right away from somebody in a namespace meanwhile."""
    set_rules(api, right, right.fewer, may=False, who=who, namespace=namespace)
    try:
        yield
    finally:
        set_rules(api, right, list(right.rules), may=True, who=who, namespace=namespace)


def missed(right: Right, tenant: Tenant, log: Path) -> None:
    """Wait until the log, or a condition, has the server's own words for what is missing."""
    words = f'cannot {right.verb} resource "{right.resource}"'

    def told() -> bool:
        conditions = [
            condition["message"]
            for bundle in tenant.api.get(tenant.bundle_path())["items"]
            for condition in bundle.get("status", {}).get("conditions", ())
        ]
        return any(words in one.replace('\\"', '"') for one in (log.read_text(), *conditions))

    eventually(told, lambda: f"{words!r} in {log.read_text()}")


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


def a_bundle(**metadata: Any) -> dict[str, Any]:
    """Return a Bundle that does nothing."""
    return {
        "apiVersion": "applyprune.dev/v1alpha1",
        "kind": "Bundle",
        "metadata": {"name": "web", **metadata},
        "spec": {"source": {"inline": ""}, "suspend": True},
    }


APPROVED = {"metadata": {"annotations": {"applyprune.dev/approve": f"sha256:{'0' * 64}"}}}
BY_PEOPLE: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "get bundles": ("GET", "/web", None),
    "list bundles": ("GET", "", None),
    "watch bundles": ("GET", "?watch=1&timeoutSeconds=1", None),
    "create bundles": ("POST", "?dryRun=All", a_bundle(name="new")),
    "update bundles": ("PUT", "/web?dryRun=All", None),
    "patch bundles": ("PATCH", "/web?dryRun=All", {"spec": {"interval": "7m"}}),
    "delete bundles": ("DELETE", "/web?dryRun=All", None),
    "approve bundles": ("PATCH", "/web?dryRun=All", APPROVED),
}
"""What somebody cannot do any more without a right: method, path and body of a request."""
ROLES = {"applyprune-edit-bundles": (EDITOR, "edit"), "applyprune-approver": (APPROVER, "")}
"""Who has each role of people, and the ClusterRole that it is aggregated into, if any."""


def named(names: Any) -> list[Right]:
    """Return rights by their names, in the order of the file."""
    return [one for one in rights() if one.name in names]


def test_permission_cases_cover_every_permission() -> None:
    """No right without a test here, and no test for a right that is not given."""
    tested = [*AT_WORK, *AT_START, *FOR_THE_LEASE]
    assert sorted(one.name for one in rights()) == sorted(tested)
    of_people = rights(of_people=True)
    assert {one.role for one in of_people} == ROLES.keys()
    assert {one.name for one in of_people} == BY_PEOPLE.keys()
    assert len({(one.role, one.name) for one in of_people}) == len(of_people)


def _answer(tenant: Tenant, user: str, method: str, path: str, body: dict[str, Any] | None) -> int:
    """Return the status of the reply to a request of a user about Bundles."""
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    headers = {"Impersonate-User": user}
    path = f"{tenant.bundle_path()}{path}"
    if method == "PUT":
        body = tenant.get("web")  # a replacement needs the resourceVersion
    return tenant.api(method, path, body, content_type=kind, headers=headers)[0]


def _is_done(ask: Callable[[], int]) -> bool:
    return ask() in {200, 201}


def test_role_of_people_is_the_minimum(as_itself: Path, tenant: Tenant) -> None:
    """Without each of its rights a request is refused that is allowed with it.

    Those who may edit a namespace have it by aggregation.
    """
    assert as_itself.exists(), "applyprune is installed"
    tenant.put("bundles", a_bundle(), "applyprune.dev/v1alpha1")
    for role, (user, into) in ROLES.items():
        binding = {
            "apiVersion": f"{GROUP}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": user},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": into or role},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
        }
        tenant.put("rolebindings", binding, f"{GROUP}/v1")
    for right in rights(of_people=True):
        user = ROLES[right.role][0]
        ask = partial(_answer, tenant, user, *BY_PEOPLE[right.name])
        eventually(partial(_is_done, ask), partial("{}: {}".format, user, right.name))
        with without(tenant.api, right, user, tenant.namespace):
            assert ask() == 403, (user, right.name)


@pytest.fixture
def tenant(new_tenant: Callable[[], Tenant]) -> Tenant:
    """A tenant."""
    return new_tenant()


def running_alone(as_itself: Path, tenant: Tenant, log: Path) -> Any:
    """Return a controller that serves all Bundles, without a Lease."""
    return controller(as_itself, log, "lease=0", "--watch-namespaces", tenant.namespace)


def test_missing_permission_is_named_while_running(
    as_itself: Path, tenant: Tenant, tmp_path: Path
) -> None:
    """The words are in the log or in a condition; with the right, everything goes on by itself.

    Slow: each right is taken away and given back.
    """
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


@pytest.mark.holds("may-impersonate")
def test_controller_without_rights_ends_no_removal(
    as_itself: Path, tenant: Tenant, tmp_path: Path
) -> None:
    """The account could delete the objects: the Bundle waits for the controller's right.

    Slow: a removal is tried three times, with growing pauses.
    """
    (right,) = named(["impersonate serviceaccounts"])
    with running_alone(as_itself, tenant, tmp_path / "log") as running:
        tenant.bundle("web", config_map("a"), timeout="1s")
        tenant.ready("web")

        def looks() -> int:
            return sum(line.get("reason") == "Forbidden" for line in running.lines)

        with without(tenant.api, right):
            tenant.delete("web")
            # With a growing pause, so the third look is after the timeout.
            eventually(lambda: looks() >= 3, lambda: "three looks")
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
            assert running.process.wait(HANG) == code


@pytest.mark.parametrize("name", FOR_THE_LEASE)
def test_missing_permission_is_named_while_it_serves_nothing(
    as_itself: Path, tenant: Tenant, tmp_path: Path, name: str
) -> None:
    """It says why, also when it is asked whether it is ready, and serves as soon as it may."""
    (right,) = named([name])
    log, arguments = tmp_path / "log", ("lease=2", "-n", SYSTEM_NAMESPACE)
    assert tenant.api("DELETE", LEASE)[0] in {200, 404}  # one before has left it
    with ExitStack() as ends:
        with without(tenant.api, right):
            running = ends.enter_context(controller(as_itself, log, *arguments))
            missed(right, tenant, log)
            eventually(lambda: running.ask("/readyz")[0] == 503, lambda: "it serves nothing")
            assert running.metric("applyprune_leader") == 0
            assert f"cannot {right.verb}" in running.ask("/readyz")[1]
        eventually(lambda: running.metric("applyprune_leader") == 1, lambda: "it leads")
        assert running.ask("/readyz") == (200, "ok\n")
        assert running.stop() == 0


APPROVE = "applyprune.dev/approve"
DIGEST = "sha256:" + "0" * 64
RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLES = f"/apis/{RBAC}/v1/clusterroles"
MERGE = "application/merge-patch+json"


def bundle(name: str, approval: str = "") -> dict[str, Any]:
    """Return the body of a Bundle, with the annotation if one is given."""
    metadata = {"name": name, **({"annotations": {APPROVE: approval}} if approval else {})}
    return {
        "apiVersion": "applyprune.dev/v1alpha1",
        "kind": "Bundle",
        "metadata": metadata,
        "spec": {"source": {"inline": ""}},
    }


class Person:
    """An account of a tenant's namespace, by impersonation."""

    def __init__(self, home: Tenant, name: str) -> None:
        """Act as this user."""
        self.home, self.name = home, f"{name}-of-{home.namespace}"

    def bind(self, kind: str, role: str) -> None:
        """Give the user a role in the namespace."""
        body = {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{self.name}-{role}"},
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": self.name}],
        }
        self.home.put("rolebindings", body, f"{RBAC}/v1")

    def __call__(
        self, method: str, name: str, body: object, *, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """Send a request about a Bundle; return the status and the message or the annotations."""
        status, reply = self.home.api(
            method,
            self.home.bundle_path(name),
            body,
            content_type=content_type,
            headers={"Impersonate-User": self.name},
        )
        if status >= 400:
            return status, reply["message"]
        return status, reply["metadata"].get("annotations", {})

    def annotate(self, name: str, value: str | None) -> tuple[int, Any]:
        """Set or remove the annotation."""
        patch = {"metadata": {"annotations": {APPROVE: value}}}
        return self("PATCH", name, patch, content_type=MERGE)


@pytest.fixture
def home(ground: Plane, new_tenant: Callable[[], Tenant]) -> Tenant:
    """A tenant of a plane on which applyprune is installed, and its policy is in force."""
    reply = applyprune("install", kubeconfig=ground.kubeconfig)
    assert reply.code == 0, reply
    home = new_tenant()
    probe = person(home, "probe", "edit")
    path = f"{home.bundle_path()}?dryRun=All"

    def refused() -> bool:
        headers = {"Impersonate-User": probe.name}
        return home.api("POST", path, bundle("probe", DIGEST), headers=headers)[0] == 403

    eventually(refused, lambda: "the policy")
    return home


def person(home: Tenant, name: str, *roles: str) -> Person:
    """Return a user with cluster roles in the namespace, which the server already goes by."""
    one = Person(home, name)
    for role in roles:
        one.bind("ClusterRole", role)
    eventually(lambda: one("PATCH", "none", {}, content_type=MERGE)[0] == 404, lambda: f"{roles}")
    return one


def test_only_an_approver_may_approve(home: Tenant) -> None:
    """An editor may do anything else with a Bundle, and withdraw an approval."""
    editor = person(home, "editor", "edit")
    approver = person(home, "approver", "applyprune-approver")
    assert editor("POST", "", bundle("web"))[0] == 201
    status, message = editor.annotate("web", DIGEST)
    assert status == 403
    for part in (editor.name, APPROVE, "the verb approve", "applyprune-approver"):
        assert part in message
    assert APPROVE not in home.get("web")["metadata"].get("annotations", {})
    assert approver.annotate("web", DIGEST) == (200, {APPROVE: DIGEST})
    # What leaves the annotation as it is, is not an approval.
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert editor("PATCH", "web", labels, content_type=MERGE)[0] == 200
    assert editor.annotate("web", DIGEST[:-1] + "1")[0] == 403
    assert editor.annotate("web", None)[0] == 200
    assert editor.annotate("web", DIGEST)[0] == 403


def test_created_bundle_cannot_bring_its_approval(home: Tenant) -> None:
    """Copied with its annotation, applied by any method, or with a generated name."""
    editor = person(home, "editor", "edit")
    assert editor("POST", "", bundle("web", DIGEST))[0] == 403
    status, _ = editor(
        "PATCH",
        "web?fieldManager=x",
        bundle("web", DIGEST),
        content_type="application/apply-patch+yaml",
    )
    assert status == 403
    body = bundle("web", DIGEST)
    body["metadata"]["generateName"] = body["metadata"].pop("name")
    assert editor("POST", "", body)[0] == 403
    assert home.api.get(home.bundle_path())["items"] == []
    both = person(home, "both", "edit", "applyprune-approver")
    assert both("POST", "", bundle("web", DIGEST)) == (201, {APPROVE: DIGEST})


def test_only_an_approver_may_weaken_the_approval(home: Tenant) -> None:
    """Else an editor would need no approval; to ask for more approvals is everybody's right."""
    editor = person(home, "editor", "edit")
    approver = person(home, "approver", "applyprune-approver")

    def demand(one: Person, approval: str | None) -> tuple[int, Any]:
        patch = {"spec": {"approval": approval, "interval": "1h"}}
        return one("PATCH", "web", patch, content_type=MERGE)

    assert editor("POST", "", bundle("web"))[0] == 201
    for stronger in ("Prune", "Always", "Always"):
        assert demand(editor, stronger)[0] == 200
    for weaker in ("Prune", "Automatic", None):
        status, message = demand(editor, weaker)
        assert status == 403
        assert f"{editor.name} may not weaken spec.approval" in message
    assert home.get("web")["spec"]["approval"] == "Always"
    assert demand(approver, "Prune")[0] == 200
    assert demand(editor, "Automatic")[0] == 403
    assert demand(approver, None)[0] == 200
    assert home.get("web")["spec"]["approval"] == "Automatic"


def test_status_cannot_bring_an_approval(home: Tenant) -> None:
    """The policy does not cover the status, because the server ignores annotations in it."""
    assert home.api("POST", home.bundle_path(), bundle("web"))[0] == 201
    path = home.bundle_path("web") + "/status"
    patch = {"metadata": {"annotations": {APPROVE: DIGEST}}}
    assert home.api("PATCH", path, patch, content_type=MERGE)[0] == 200
    assert APPROVE not in home.get("web")["metadata"].get("annotations", {})


def test_roles_of_a_namespace_do_not_include_the_verb(ground_api: Api, home: Tenant) -> None:
    """Whoever may edit or administer a namespace may not approve unless somebody says so."""
    for name in ("edit", "admin"):
        rules = ground_api.get(f"{CLUSTER_ROLES}/{name}")["rules"]
        verbs = {
            verb
            for rule in rules
            if "bundles" in rule.get("resources", ())
            for verb in rule["verbs"]
        }
        assert "patch" in verbs
        assert not verbs & {"approve", "*"}
    admin = person(home, "admin", "admin")
    assert admin("POST", "", bundle("web", DIGEST))[0] == 403


def test_verb_approves_with_the_users_own_rights(
    ground: Plane, home: Tenant, tmp_path: Path
) -> None:
    """The policy decides: `applyprune bundle approve` says what it says."""
    editor = person(home, "editor", "edit")
    approver = person(home, "approver", "applyprune-approver")
    assert editor("POST", "", bundle("web"))[0] == 201
    asked = ("bundle", "reconcile", "web", "-n", home.namespace, "--wait", "--timeout", "1s")
    nobody = applyprune(*asked, kubeconfig=ground.kubeconfig)
    assert nobody.code == 5
    assert "the controller has not handled the request yet" in nobody.err
    plan = {"digest": DIGEST, "scope": "Deletions", "since": "2026-11-23T07:00:00Z"}
    path = f"{home.bundle_path('web')}/status"
    patch = {"status": {"pendingPlan": plan}}
    assert home.api("PATCH", path, patch, content_type=MERGE)[0] == 200

    def approve(one: Person) -> Ended:
        access = json.loads(ground.kubeconfig.read_text(encoding="utf-8"))
        access["users"][0]["user"]["as"] = one.name
        config = tmp_path / one.name
        config.write_text(json.dumps(access), encoding="utf-8")
        where = ("-n", home.namespace, DIGEST)
        return applyprune("bundle", "approve", "web", *where, kubeconfig=config)

    refused = approve(editor)
    assert refused.code == 7
    assert f"{editor.name} may not set {APPROVE}" in refused.err
    assert "the verb approve on this Bundle" in " ".join(refused.err.split())
    assert APPROVE not in home.get("web")["metadata"].get("annotations", {})
    approved = approve(approver)
    assert approved.code == 0, approved
    assert home.get("web")["metadata"]["annotations"][APPROVE] == DIGEST
