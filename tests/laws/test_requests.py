"""The law of the client: only its own modules build a request, a path or an exchange."""

from __future__ import annotations

import ast

import pytest

from tests.support.package import modules, tree

BUILDER = "applyprune.cluster.requests"
"""The only module that makes a request."""
CLIENT = {
    "applyprune.cluster.client",
    "applyprune.cluster.discovery",
    "applyprune.cluster.watch",
}
"""The modules of the `KubernetesClient`: they hand a request to the transport."""
# They speak to a control plane that starts, and ask for its health; no object is written so.
OTHER_SERVERS = ("applyprune.localplane.",)


def imported(module: str, package: str) -> dict[str, str]:
    """Return the names that a module imports from a package, as name → where it is defined."""
    found = {}
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package):
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def builds_a_request(module: str) -> list[int]:
    """Return the lines on which a module calls ``ApiRequest`` of the cluster's package."""
    names = imported(module, "applyprune.cluster")
    return [
        node.lineno
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and names.get(node.func.id, "").endswith(".ApiRequest")
    ]


def sends(module: str) -> list[int]:
    """Return the lines on which a module calls ``send`` or ``stream`` of a transport."""
    return [
        node.lineno
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"send", "stream"}
        and "transport" in ast.unparse(node.func.value)
    ]


def builds_a_path(module: str) -> list[int]:
    """Return the lines on which a module imports a path builder or writes an API path itself."""
    lines = []
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            if names & {"collection_path", "object_path", "segment"}:
                lines.append(node.lineno)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            parts = node.value.split("/")
            if len(parts) > 1 and parts[0] == "" and parts[1] in {"api", "apis", "openapi"}:
                lines.append(node.lineno)
    return lines


def outside(*allowed: str) -> list[str]:
    """Return every module but these."""
    return [
        module
        for module in modules()
        if module not in allowed and not module.startswith(OTHER_SERVERS)
    ]


def test_only_one_module_builds_a_request() -> None:
    """What a request must have, it has wherever it comes from."""
    found = {module: lines for module in outside(BUILDER) if (lines := builds_a_request(module))}
    assert found == {}
    assert builds_a_request(BUILDER)


def test_only_the_client_sends_a_request() -> None:
    """Its users name an operation, and never a method of HTTP."""
    found = {module: lines for module in outside(*CLIENT) if (lines := sends(module))}
    assert found == {}


@pytest.mark.parametrize("module", sorted(CLIENT))
def test_client_modules_all_send(module: str) -> None:
    """The list above has no module too many."""
    assert sends(module)


def test_everything_but_a_read_is_sent_under_the_leases() -> None:
    """The one method that adds them sends whatever is not a GET."""
    (client,) = (
        node
        for node in tree("applyprune.cluster.client").body
        if isinstance(node, ast.ClassDef) and node.name == "KubernetesClient"
    )
    unleased = [
        ast.unparse(call)
        for method in client.body
        for call in ast.walk(method)
        if isinstance(call, ast.Call)
        and ast.unparse(call.func) == "self._transport.send"
        and getattr(method, "name", "") != "_write"
        and not ast.unparse(call.args[0]).partition("(")[2].startswith("'GET'")
    ]
    assert unleased == []


def test_only_the_client_builds_a_path() -> None:
    """A name is checked before it becomes part of a path, and only there is it made."""
    paths = "applyprune.cluster.requests"
    found = {
        module: lines
        for module in outside(BUILDER, paths, *CLIENT)
        if (lines := builds_a_path(module))
    }
    assert found == {}
    assert builds_a_path(BUILDER)


PROOFS = {
    "Absent": "applyprune.cluster.client",
    "KindDeleted": "applyprune.planning.served_kinds",
    "CompleteResourceMap": "applyprune.planning.served_kinds",
}
"""The types that are proofs, and the module with the only call that makes one."""


@pytest.mark.parametrize("proof", PROOFS)
def test_proof_is_made_by_one_call(proof: str) -> None:
    """Who has a value of the type need not ask where it comes from."""
    calls = [
        module
        for module in modules()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == proof
    ]
    assert calls == [PROOFS[proof]]
    named = imported(PROOFS[proof], "applyprune.model").values()
    assert any(name.endswith(f".{proof}") for name in named)


def test_absence_is_proved_by_a_get() -> None:
    """The only proof is the NotFound of a GET: no other request of that function can raise it."""
    (function,) = (
        node
        for node in ast.walk(tree(PROOFS["Absent"]))
        if isinstance(node, ast.FunctionDef) and "return Absent()" in ast.unparse(node)
    )
    (tried,) = (node for node in ast.walk(function) if isinstance(node, ast.Try))
    assert [ast.unparse(line) for line in tried.body] == [
        "return self.get(resource, ref, full=full, any_name=True)"
    ]
    assert [ast.unparse(one.type) for one in tried.handlers if one.type] == ["NotFound"]


DECIDERS = {"applyprune.planning.requests", "applyprune.model.plan"}
"""The modules that make the request of a plan."""
OF_THE_INVENTORY = {"applyprune.cluster.inventory_store"}
"""It deletes its own ConfigMap, which no plan is about."""
PLANNED = {"ApplyRequest", "PatchRequest", "DeleteRequest"}
EXECUTORS = (
    "applyprune.engine.apply",
    "applyprune.engine.send",
    "applyprune.engine.send",
)
"""The modules that send the requests of one applied object."""
DECISIONS = ("requests", "replies", "plan", "ownership")
"""The modules of planning that decide about an object."""
# The eighth: only a refusal shows that the server cannot use an entry of another version.
MOST_DECISIONS = 8
ENDS = {
    "created_by_others",
    "is_repeated",
    "not_deleted",
    "not_stored",
    "proves_apply",
    "proves_patch",
    "refuse_false_absence",
    "shows_apply",
    "skips",
}
"""They only say what a reply means; nothing else is sent after them."""


def makes_planned_requests(module: str) -> list[int]:
    """Return the lines on which a module makes or changes a request of a plan."""
    lines = []
    real = imported(module, "applyprune.model")
    for node in ast.walk(tree(module)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        name = real.get(name, name).rpartition(".")[2]
        changed = ast.unparse(node.args[0]) if name == "replace" and node.args else ""
        if name in PLANNED or "request" in changed:
            lines.append(node.lineno)
    return lines


def test_only_planning_makes_the_requests_of_a_plan() -> None:
    """So nothing can be sent for an object that its plan does not show."""
    found = {
        module: lines
        for module in outside(BUILDER, *DECIDERS, *OF_THE_INVENTORY)
        if (lines := makes_planned_requests(module))
    }
    assert found == {}
    assert makes_planned_requests("applyprune.planning.requests")


def test_whole_object_is_only_replaced_in_a_dry_run() -> None:
    """A PUT is no request of a plan: it shows what an adoption leaves."""
    calls = [
        node
        for module in modules()
        if module.startswith("applyprune.engine")
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("cluster.replace")
    ]
    assert calls
    for call in calls:
        given = {word.arg: ast.unparse(word.value) for word in call.keywords}
        assert given.get("dry_run") == "True", ast.unparse(call)


def test_sending_goes_back_to_planning_at_few_places() -> None:
    """Only where the live state has changed since: each of these functions is one decision.

    An object that no server has checked yet is checked late by the functions of the check itself
    (``check_apply``, ``check_recreation``), which then decide for the first time.
    """
    decisions = {
        name
        for module in EXECUTORS
        for name, source in imported(module, "applyprune.planning").items()
        if source.split(".")[2] in DECISIONS and name not in ENDS
    }
    assert len(decisions) <= MOST_DECISIONS, decisions
    assert decisions
