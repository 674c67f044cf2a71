"""What a sweep kills and what it runs afterwards: each scenario is a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from applyprune.model.events import ObjectDone
from applyprune.model.options import Adopt, AdoptFrom, Mode
from tests.support.input_files import write_input
from tests.support.objects import SERVICE, config_map
from tests.support.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from tests.support.live import Body
    from tests.support.stage import Story

ANOTHERS = "another set"
"""The message of an apply that refuses an object because of its label."""
_MOST = 5
"""How many objects a call may prune: most of so small a set."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a verb and its input; all names have the set's name as a prefix.

    ``by_other_set`` says that the call is about the other set, ``takes`` that the set takes what
    that one lists, and ``may_refuse`` that objects may belong to another set by then.
    """

    mode: Mode
    bodies: tuple[Body, ...] = ()
    by_other_set: bool = False
    takes: bool = False
    may_refuse: bool = False

    def run(self, stage: Stage) -> Story:
        """Call it in this process."""
        bodies = named(stage, self.bodies)
        by = other_set(stage) if self.by_other_set else stage
        adopt = AdoptFrom(other_set(stage).name) if self.takes else Adopt.UNOWNED
        return by.run(*bodies, mode=self.mode, adopt=adopt, max_prune=Stage.most(_MOST))

    def allows(self, story: Story) -> bool:
        """Return whether the call may end like this."""
        problems = [
            str(one.problem) for one in story.events if isinstance(one, ObjectDone) and one.problem
        ]
        if not self.may_refuse or not problems:
            return story.exit_code == 0
        return all(ANOTHERS in problem for problem in problems)

    def arguments(self, stage: Stage, folder: Path) -> Sequence[str | Path]:
        """Return the arguments of the command that does the same, for the set itself."""
        bodies = named(stage, self.bodies)
        where = ("-n", stage.namespace)
        if self.mode is Mode.DELETE:
            return [self.mode, stage.name, *where, "--yes"]
        return [
            self.mode,
            stage.name,
            *where,
            f"--max-prune={_MOST}",
            *([f"--adopt=set/{other_set(stage).name}"] if self.takes else ()),
            "-f",
            write_input(folder / f"{stage.name}.json", bodies),
        ]


@dataclass(frozen=True, slots=True)
class Recovery:
    """The calls after a killed one, and the objects that they leave in each of the two sets."""

    calls: tuple[Call, ...]
    left: tuple[Body, ...] = ()
    in_other_set: tuple[Body, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """A call that is killed at each of its ``requests``, the state before, the calls after.

    So many of them are ``writes``. The short form of a sweep kills at those only, and takes the
    recoveries that ``turns`` names in turn. ``lasting`` are the objects that no call may delete,
    not even to re-create them. Each call allows itself to prune five objects; none, and none after
    a killed one, leaves more to prune.
    """

    name: str
    before: tuple[Call, ...]
    killed: Call
    recoveries: Mapping[str, Recovery]
    requests: int
    writes: int
    turns: tuple[str, ...] = ("smaller",)
    lasting: tuple[Body, ...] = ()


def prefix(stage: Stage) -> str:
    """Return the prefix of the names of a set's objects, and that of the other set."""
    return f"{stage.name}-"


def other_set(stage: Stage) -> Stage:
    """Return the set that gives objects to this one."""
    return Stage(stage.kubeconfig, stage.namespace, name=f"{stage.name}-to")


def named(stage: Stage, bodies: Iterable[Body]) -> list[Body]:
    """Return manifests under this set's own names."""
    return [
        {**body, "metadata": {**body["metadata"], "name": prefix(stage) + body["metadata"]["name"]}}
        for body in bodies
    ]


def key(body: Body) -> str:
    """Return ``kind/name`` of a manifest."""
    return f"{body['kind'].lower()}/{body['metadata']['name']}"


def _apply(*bodies: Body) -> Call:
    return Call(Mode.APPLY, bodies)


def _then(call: Call) -> Recovery:
    """Return a recovery by one call, which is about the set itself."""
    return Recovery((call,), left=call.bodies)


_FIVE = tuple(config_map(letter) for letter in "abcde")
_A, _B, _C, _D, _E = _FIVE
_CHANGED = _apply(_A, config_map("b", "changed"))
_GIVEN = (_B, _C, SERVICE)
_TAKE = Call(Mode.APPLY, (_A, *_GIVEN), takes=True)
_FORGET = Call(Mode.APPLY, (_D,), by_other_set=True)

SCENARIOS = (
    # Inventory, discovery 2, namespace, three reads, the set's labelled objects, schemas, three dry
    # runs, rights, the sets (one of nearly its name?), union, three applies, shrunk.
    Scenario(
        "create",
        before=(),
        killed=_apply(_A, _B, _C),
        recoveries={"same": _then(_apply(_A, _B, _C)), "smaller": _then(_apply(_A))},
        requests=19,
        writes=5,
    ),
    # Inventory, discovery 2, two lists, two of the guarded kinds (what a delete could take along),
    # two of what may use what goes, schemas, a dry run and the object that it compares, rights,
    # union, apply, intent, a delete and its look, the lists of what may use what goes again, three
    # deletes and their look, shrunk.
    Scenario(
        "shrink",
        before=(_apply(*_FIVE, SERVICE),),
        killed=_CHANGED,
        recoveries={"same": _then(_CHANGED), "smaller": _then(_apply(_A))},
        requests=25,
        writes=8,
        lasting=(_A,),
    ),
    # Inventory, discovery 2, two lists, two of the guarded kinds, rights, union, intent, four
    # deletes and two looks, shards, the inventory's own delete and its look.
    Scenario(
        "destroy",
        before=(_apply(_A, _B, _C, SERVICE),),
        killed=Call(Mode.DELETE),
        recoveries={"same": _then(Call(Mode.DELETE)), "smaller": _then(_apply(_A))},
        requests=19,
        writes=7,
    ),
    # Of three objects of another set: for each the transfer, its second patch, and the apply.
    Scenario(
        "take",
        before=(_apply(_A), Call(Mode.APPLY, (*_GIVEN, _D), by_other_set=True)),
        killed=_TAKE,
        recoveries={
            "same": Recovery((_TAKE, _FORGET), left=(_A, *_GIVEN), in_other_set=(_D,)),
            # First the other set runs with its old input: it still has what was not taken.
            "kept": Recovery(
                (
                    Call(Mode.APPLY, (*_GIVEN, _D), by_other_set=True, may_refuse=True),
                    _TAKE,
                    _FORGET,
                ),
                left=(_A, *_GIVEN),
                in_other_set=(_D,),
            ),
        },
        requests=31,
        writes=11,
        turns=("same", "kept"),
        lasting=(*_FIVE[:4], SERVICE),
    ),
)
