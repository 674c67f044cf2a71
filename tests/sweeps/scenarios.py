"""What is killed: each scenario is a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from applyprune.model.options import Mode
from tests.engine.stage import config_map
from tests.engine.test_set import SERVICE
from tests.sweeps.inputs import write_input

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.engine.stage import Stage, Story
    from tests.sweeps.living import Body


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a verb and its input; names get the set's in front, so that no two sets share."""

    mode: Mode
    bodies: tuple[Body, ...] = ()

    def wanted(self, stage: Stage) -> list[Body]:
        """Return the objects that are to be there after it, and no others of the set."""
        return [
            {**body, "metadata": {**body["metadata"], "name": prefix(stage) + name(body)}}
            for body in self.bodies
        ]

    def run(self, stage: Stage) -> Story:
        """Make it in this process."""
        return stage.run(*self.wanted(stage), mode=self.mode)

    def arguments(self, stage: Stage, folder: Path) -> Sequence[str | Path]:
        """Return the arguments of the command that makes it."""
        target: list[str | Path] = [self.mode, stage.name, "-n", stage.namespace]
        if self.mode is Mode.DELETE:
            return [*target, "--yes"]
        return [*target, "-f", write_input(folder / f"{stage.name}.json", self.wanted(stage))]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A call that is killed at each of its ``requests``, what was made before, and a smaller one.

    No call leaves more than five objects to be pruned, nor does a call after one that was killed:
    a larger prune may have to be asked for by name.
    """

    name: str
    before: tuple[Call, ...]
    killed: Call
    smaller: Call
    requests: int


def prefix(stage: Stage) -> str:
    """Return what the names of a set's objects begin with."""
    return f"{stage.name}-"


def name(body: Body) -> str:
    """Return the name of a manifest."""
    return str(body["metadata"]["name"])


def _apply(*bodies: Body) -> Call:
    return Call(Mode.APPLY, bodies)


_FIVE = tuple(config_map(letter) for letter in "abcde")

SCENARIOS = (
    # Inventory, discovery 2, namespace, three reads, what bears the set's marks, union, three
    # applies, shrunk.
    Scenario(
        "create",
        before=(),
        killed=_apply(*_FIVE[:3]),
        smaller=_apply(_FIVE[0]),
        requests=13,
    ),
    # Inventory, discovery 2, two lists, union, apply, intent, four deletes and a look at the one
    # that was answered with its object, shrunk.
    Scenario(
        "shrink",
        before=(_apply(*_FIVE, SERVICE),),
        killed=_apply(_FIVE[0], config_map("b", "changed")),
        smaller=_apply(_FIVE[0]),
        requests=14,
    ),
    # Inventory, discovery 2, two lists, union, intent, four deletes and a look, shards, the
    # inventory's own delete; then the run lets go of what is gone: a write and a look.
    Scenario(
        "destroy",
        before=(_apply(*_FIVE[:3], SERVICE),),
        killed=Call(Mode.DELETE),
        smaller=_apply(_FIVE[0]),
        requests=16,
    ),
)
