"""Applies of a plan file that a sweep kills: each scenario is a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.objects import config_map
from tests.support.stage import Stage
from tests.sweeps.scenarios import key, named

if TYPE_CHECKING:
    from tests.support.live import Body


@dataclass(frozen=True, slots=True)
class PlanScenario:
    """An ``apply --plan`` that is killed at each of its ``requests``.

    The first ``reads`` of them write nothing. All names have the set's name as a prefix.
    """

    name: str
    after: tuple[Body, ...]
    """The planned input; afterwards the set has exactly these objects."""
    requests: int
    reads: int
    before: tuple[Body, ...] = ()
    """The set before."""
    adopted: tuple[Body, ...] = ()
    """What somebody has created with kubectl before."""
    orphaned: tuple[Body, ...] = ()
    """What exists afterwards, and belongs to no set."""
    options: tuple[str, ...] = ()
    approves: bool = False
    """Whether the apply needs an approval of its deletions."""
    makes_namespace: bool = False
    """Whether the set has the namespace of its inventory, which does not exist before."""

    def place(self, namespace: str, stage: Stage) -> Stage:
        """Return the set of one trial."""
        if not self.makes_namespace:
            return stage
        return Stage(stage.kubeconfig, f"{namespace}-{stage.name}", name=stage.name)

    def input(self, stage: Stage) -> list[Body]:
        """Return the planned input of a trial's set."""
        bodies = named(stage, self.after)
        if self.makes_namespace:
            metadata = {"name": stage.namespace, "labels": {"team": "web"}}
            bodies.append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        return bodies

    def arguments(self, stage: Stage) -> list[str]:
        """Return the options of the plan and of the apply."""
        orphaned = (f"--orphan={key(body)}" for body in named(stage, self.orphaned))
        return [*self.options, *orphaned]


def _wave(name: str, wave: int, value: str = "v") -> Body:
    return config_map(name, value, annotations={"applyprune.dev/wave": str(wave)})


def _fixed(value: str) -> Body:
    """Return a ConfigMap whose values can only be changed by its deletion."""
    return {**config_map("fixed", value), "immutable": True}


_A, _B, _C, _D, _E, _F = (config_map(letter) for letter in "abcdef")

PLAN_SCENARIOS = (
    # Two Namespaces, inventory, discovery 2, list, two reads, two lists of the guarded kinds, two
    # of what may use the ConfigMap that goes, schemas; then union, the fields of kubectl, three
    # applies, the two lists again, intent, delete, orphan, the read of what is gone, shrunk.
    PlanScenario(
        "mixed",
        before=(_A, _B, _C, _D),
        adopted=(_E,),
        after=(_A, config_map("b", "changed"), config_map("e", "adopted"), _F),
        orphaned=(_D,),
        options=("--max-prune=5",),
        requests=25,
        reads=13,
    ),
    # Without the two reads; then union, refused apply, read, trial, intent, delete, read, record,
    # create, two lists, intent, four deletes, a list of what is gone, shrunk.
    PlanScenario(
        "recreate",
        before=(_A, _B, _C, _D, _E, _fixed("old")),
        after=(_A, _fixed("new")),
        options=("--recreate", "--max-prune=1"),
        approves=True,
        requests=29,
        reads=11,
    ),
    # The Namespace is read four times, then the sets (one of nearly its name?), and it is applied;
    # then come the union, two applies, the end.
    PlanScenario(
        "namespace",
        after=(_A, _B),
        makes_namespace=True,
        requests=18,
        reads=13,
    ),
    # A kill between two applies leaves a wave that was not sent. The second call applies all again.
    PlanScenario(
        "waves",
        before=(_wave("a", 0), _wave("b", 1), _wave("d", 2)),
        after=(_wave("a", 0, "changed"), _wave("b", 1, "changed"), _wave("c", 2)),
        options=("--max-prune=1", "--reapply-all"),
        requests=22,
        reads=12,
    ),
)
