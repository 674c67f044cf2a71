"""What a rule costs is known before it is evaluated: in a small process, none takes much."""

from __future__ import annotations

import resource
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from applyprune.errors import InputError
from applyprune.model.events import Status
from applyprune.planning.cel import (
    Call,
    Collection,
    Constant,
    Loop,
    Name,
    Select,
    compile_rule,
    unknown_in,
)
from tests.support.waiting import HANG

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


TEN = "[0,0,0,0,0,0,0,0,0,0]"
LARGE: dict[str, Any] = {
    "numbers": list(range(9000)),
    "objects": [{"name": "b"} for _ in range(9000)],
    "text": "x" * 900_000,
}
COSTLY = [
    # Each of these takes hundreds of megabytes or seconds without a limit.
    "self.objects.map(o, o.name).size() > 1",
    "self.objects.filter(o, true).size() > 1",
    "self.numbers.map(a, self.text + 'a').size() > 1",
    "self.numbers.all(a, (self.text + 'a').size() > 1)",
    "self.numbers.all(a, self.numbers == self.numbers)",
    "self.numbers.all(a, 8999 in self.numbers)",
    "self.text.replace('', self.text).size() > 1",
    "self.text.split('').join(self.text).size() > 1",
    "self.text.contains(self.text + 'y') || true",
    f"{TEN}.map(a, self.text).map(b, {TEN}.map(c, b + b)).size() > 1",
    "[self.text]" + ".map(a, a + a)" * 14 + ".exists(a, a == '')",
    "['x']" + ".map(a, a + a)" * 28 + ".exists(a, a == '')",
    "[1]" + ".map(a, [a, a])" * 27 + ".exists(a, a == a)",
]


@pytest.mark.parametrize("text", COSTLY, ids=range(len(COSTLY)))
def test_costly_rule_is_not_evaluated(text: str) -> None:
    """The message says why; the object may become smaller, so it is no failure."""
    found = compile_rule(text, where="here").judge(LARGE)
    assert found.status is Status.IN_PROGRESS
    assert "it would cost too much memory or time on an object of this size" in found.message


def test_rule_that_is_too_long_is_refused() -> None:
    """Before anything is applied."""
    with pytest.raises(InputError, match="is not a CEL expression") as caught:
        compile_rule("self.a == 1" + " && self.a == 1" * 700, where="here")
    assert caught.value.reason == "it is longer than 10000 characters"


def test_rule_that_is_too_deep_is_refused() -> None:
    """The library says so."""
    with pytest.raises(InputError) as caught:
        compile_rule("self" + ".a" * 200, where="here")
    assert "recursion depth" in caught.value.reason


def test_function_whose_cost_is_unknown_is_named() -> None:
    """A later version of the library may have more of them, and more macros."""
    known = Call("size", (Name("self"),))
    none = Constant()
    assert unknown_in(Call("_==_", (known, none))) == ""
    assert unknown_in(Collection((known, Select(Call("grow", ()), "a", is_test=False)))) == "grow"
    fold = Loop(("x",), Name("self"), "all", Name("self"), none, none, none)
    assert unknown_in(fold) == "all"
    assert unknown_in(replace(fold, result_name="@result", begin=none)) == ""


def test_every_rule_stays_within_little_memory() -> None:
    """By the kernel: a process with 400 MB of addresses judges all of these rules."""
    program = (
        "from tests.planning.cel.test_cel_cost import *\n"
        "for text in COSTLY + GOOD:\n"
        "    rule = compile_rule(text, where='here')\n"
        "    rule.judge(LARGE), rule.judge(USUAL)\n"
        "print('done')"
    )

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (400 * 2**20, 400 * 2**20))

    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
        preexec_fn=limited,
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr
