"""A user's rule: what it decides, and what is said of one that is wrong."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from applyprune.errors import InputError, UsageError
from applyprune.model.events import Status
from applyprune.planning.cel import compile_rule
from applyprune.planning.readiness import assess

WHERE = "rules.yaml:3"
BODY: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Database",
    "metadata": {"name": "db", "generation": 2},
    "spec": {"replicas": 3},
    "status": {
        "phase": "Green",
        "ready": 3,
        "nodes": [],
        "conditions": [{"type": "Synced", "status": "True"}],
    },
}


@pytest.mark.parametrize(
    "text",
    [
        "self.status.phase == 'Green'",
        "self.status.ready >= self.spec.replicas",
        "self.status.conditions.exists(c, c.type == 'Synced' && c.status == 'True')",
        "!has(self.status.error)",
        "self.?status.?error.orValue('') == ''",
        "self.status.phase.lowerAscii() == 'green'",
    ],
)
def test_true_rule_is_ready(text: str) -> None:
    """Macros, optional fields and string functions work as in Kubernetes' own rules."""
    assert compile_rule(text, where=WHERE).judge(BODY).status is Status.CURRENT


def test_false_rule_is_in_progress() -> None:
    """The message is the rule itself."""
    found = compile_rule("self.status.phase == 'Blue'", where=WHERE).judge(BODY)
    assert found.status is Status.IN_PROGRESS
    assert found.message == "the rule “self.status.phase == 'Blue'” does not hold yet"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("self.status.leader == 'a'", 'Key not found in map: "leader"'),
        ("has(self.status.leader.name)", 'Key not found in map: "leader"'),
        ("self.status.nodes[0].up", "Index error"),
        ("self.status.phase.name == 'a'", "SELECT"),
        ("self.status.ready > 'a'", "No matching overloads"),
    ],
)
def test_rule_that_cannot_be_evaluated_yet_is_in_progress(text: str, says: str) -> None:
    """What is missing, or of another type, may be right once the controller has written it."""
    found = compile_rule(text, where=WHERE).judge(BODY)
    assert found.status is Status.IN_PROGRESS
    assert says in found.message


@pytest.mark.parametrize(
    ("text", "says"),
    [("self.status.ready", "returns an int, not a bool"), ("self.spec", "returns a map<dyn, dyn>")],
)
def test_non_boolean_rule_is_failed(text: str, says: str) -> None:
    """No later state of the object mends the rule; its value is not shown."""
    found = compile_rule(text, where=WHERE).judge(BODY)
    assert found.status is Status.FAILED
    assert says in found.message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("self.status.phase ==", "1:21: Syntax error: mismatched input '<EOF>'"),
        ("", "1:1: Syntax error: mismatched input '<EOF>'"),
        ("status.phase == 'Green'", "1:7: undeclared reference to 'status.phase'"),
        ("self.status.nodes.exists(n, m.up)", "undeclared reference to 'm.up'"),
        ("ready(self)", "undeclared reference to 'ready'"),
        ("size(1) == 1", "no matching overload for 'size'"),
        ("1 + 1", "it returns an int, not a bool"),
        ("'\ud800' == self.a", "it contains invalid characters"),
    ],
)
def test_invalid_rule_is_refused(text: str, why: str) -> None:
    """Before anything is applied: the place, the expression, and the reason."""
    with pytest.raises(InputError) as caught:
        compile_rule(text, where=WHERE)
    assert caught.value.location == WHERE
    assert why in caught.value.reason
    assert caught.value.message.startswith("the rule “")
    assert "\n" not in caught.value.reason


def test_long_rule_is_quoted_in_part() -> None:
    """A message is read on a terminal."""
    text = " && ".join(["self.status.phase == 'Green'"] * 30)
    assert len(compile_rule(text, where=WHERE).judge(BODY).message) < 250


def test_secret_values_are_never_shown() -> None:
    """An error of CEL may quote what it has computed from."""
    secret = {"kind": "Secret", "data": {"a": "c2VjcmV0"}}
    rule = compile_rule("{'b': 1}[self.data.a] == 1", where=WHERE)
    assert "c2VjcmV0" in rule.judge(secret | {"kind": "Database"}).message
    assert "c2VjcmV0" not in rule.judge(secret).message


def test_body_that_cel_rejects_is_not_shown() -> None:
    """The library's message would be the whole of it."""
    found = compile_rule("self.a == 'b'", where=WHERE).judge({"a": "x\ud800"})
    assert found.status is Status.IN_PROGRESS
    assert "\ud800" not in found.message


NODES = [
    {"name": f"n{number}", "ready": True, "pods": [f"p{pod}" for pod in range(20)]}
    for number in range(100)
]
CONDITIONS = [
    {"type": f"T{number}", "status": "True", "message": "m" * 2000} for number in range(30)
]
USUAL: dict[str, Any] = {
    "metadata": {"annotations": {"long": "x" * 200_000}},
    "spec": {"replicas": 3, "names": [node["name"] for node in NODES]},
    "status": {"phase": "Ready", "conditions": CONDITIONS, "nodes": NODES},
}

GOOD = [
    "self.status.phase == 'Ready' && self.spec.replicas * 2 - 1 > 4 ? true : false",
    "self.status.conditions.exists(c, c.type == 'T29' && c.status == 'True')",
    "self.status.conditions.filter(c, c.status == 'True').size() == 30",
    "self.status.conditions.all(c, c.message.contains('m'))",
    "self.status.conditions.exists(c, c.type.matches('^T2[0-9]$'))",
    "self.status.nodes.all(n, n.ready && n.name in self.spec.names)",
    "self.status.nodes.all(n, self.spec.names.exists(m, m == n.name))",
    "self.status.nodes.all(n, n.pods.size() == 20 && n.pods.all(p, p.startsWith('p')))",
    "self.status.nodes.map(n, n.name) == self.spec.names",
    "self.status.nodes.filter(n, n.ready).map(n, n.name).join(',').contains('n99')",
    "self.status.nodes.map(n, n.ready, n.name).exists_one(name, name == 'n5')",
    "self.metadata.annotations.all(k, self.metadata.annotations[k].size() > 1)",
    "self.?status.?phase.orValue('') == 'Ready' && self.status[?'phase'].hasValue()",
    "self.?status.optMap(s, s.phase).orValue('') == 'Ready'",
    "'%s-%d'.format([self.status.phase, self.spec.replicas]) == 'Ready-3'",
    "self.status.phase.replace('R', 'r').split('e')[0].lowerAscii() == 'r'",
    "timestamp('2020-01-01T00:00:00Z').getFullYear() == 2020 && duration('1h') > duration('1m')",
    "{'a': self.spec.replicas}['a'] == int('3') && string(3) == '3' && [?self.?x].size() == 0",
]


@pytest.mark.parametrize("text", GOOD)
def test_usual_rule_is_evaluated(text: str) -> None:
    """An object with long lists and texts is not large."""
    assert compile_rule(text, where="here").judge(USUAL).status is Status.CURRENT


@pytest.mark.holds("longest-rule")
def test_rule_that_is_too_long_is_refused() -> None:
    """Before anything is applied."""
    with pytest.raises(InputError, match="is not a CEL expression") as caught:
        compile_rule("self.a == 1" + " && self.a == 1" * 70, where="here")
    assert caught.value.reason == "it is longer than 1000 characters"


def test_rule_that_is_too_deep_is_refused() -> None:
    """The library says so."""
    with pytest.raises(InputError) as caught:
        compile_rule("self" + ".a" * 200, where="here")
    assert "recursion depth" in caught.value.reason


LOOPS = {
    "all": "self.a.all(x, self.a.all(y, x == y || x != y))",
    "exists": "self.a.exists(x, self.a.exists(y, y < 0))",
    "exists_one": "self.a.all(x, self.a.exists_one(y, y == x))",
}


@pytest.mark.parametrize("name", LOOPS)
def test_rule_with_too_many_steps_says_so(name: str) -> None:
    """Nothing is wrong with the object's values."""
    found = compile_rule(LOOPS[name], where=WHERE).judge({"a": list(range(300))})
    assert found.status is Status.IN_PROGRESS
    assert "its loops would take more than 10,000 steps" in found.message
    few = compile_rule(LOOPS[name], where=WHERE).judge({"a": [1]})
    assert "steps" not in few.message


def test_rule_replaces_the_rule_of_the_kind() -> None:
    """It is asked once the controller has seen the generation, and not of what is being deleted."""
    rule = compile_rule("self.status.phase == 'Green'", where=WHERE)
    not_ready = [{"type": "Ready", "status": "False"}]
    body = BODY | {"status": BODY["status"] | {"conditions": not_ready}}
    assert assess(body).status is Status.IN_PROGRESS
    assert assess(body, rule=rule).status is Status.CURRENT
    behind = body | {"status": body["status"] | {"observedGeneration": 1}}
    assert assess(behind, rule=rule).status is Status.IN_PROGRESS
    going = body | {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert assess(going, rule=rule).status is Status.TERMINATING


def test_rule_does_not_hide_a_failed_controller() -> None:
    """A rule has no word for Failed: Stalled is one, unless the rule holds."""
    stalled = [{"type": "Stalled", "status": "True", "reason": "NoQuota"}]
    body = BODY | {"status": BODY["status"] | {"conditions": stalled}}
    blue = assess(body, rule=compile_rule("self.status.phase == 'Blue'", where=WHERE))
    assert (blue.status, blue.message) == (Status.FAILED, "NoQuota")
    green = assess(body, rule=compile_rule("self.status.phase == 'Green'", where=WHERE))
    assert green.status is Status.CURRENT


def test_rules_are_refused_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no wheel for every platform; everything else works there."""
    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    with pytest.raises(UsageError, match="cel-expr-python is not installed"):
        compile_rule("true", where=WHERE)


def test_library_is_imported_only_for_a_rule() -> None:
    """Most runs have none."""
    script = (
        "import sys, applyprune.planning.readiness, applyprune.planning.cel\n"
        "print(any(name.startswith('cel') for name in sys.modules))"
    )
    reply = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert reply.stdout.strip() == "False"
