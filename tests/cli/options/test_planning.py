"""The options that ``apply`` and the verbs that show its plan have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import pytest

from applyprune.cli.options import execution_options, planning_options
from applyprune.cli.run import apply, diff, explain, plan
from applyprune.model.options import DryRun

if TYPE_CHECKING:
    from applyprune.model.options import Options


@planning_options
def _nothing() -> None:
    """No verb, but its options."""


def _described(verb: Any) -> dict[str, object]:
    params = verb.params if isinstance(verb, click.Command) else verb.__click_params__
    return {param.name: param.to_info_dict() for param in params}


@pytest.mark.parametrize("verb", [plan, diff, explain, apply])
def test_planning_options_are_the_same_for_every_verb(verb: click.Command) -> None:
    """So that ``apply`` does what the others show."""
    shared = _described(_nothing)
    assert {"name", "paths", "namespace", "max_prune", "selector", "adopt"} <= shared.keys()
    assert shared.items() <= _described(verb).items()


def test_execution_options_reach_the_verb_with_those_of_the_plan() -> None:
    """Both groups fill the same options."""
    got: list[Options] = []

    @click.command
    @execution_options
    @planning_options
    def verb(options: Options, **_others: object) -> None:
        got.append(options)

    words = "web -f x --dry-run=client --timeout 7s --orphan a/b --adopt all --max-prune 3"
    verb.main(words.split(), standalone_mode=False)
    (options,) = got
    assert (options.dry_run, options.wait.timeout) == (DryRun.CLIENT, 7)
    assert options.prune.orphan == {"a/b"}
    assert str(options.apply.adopt) == "all"
    assert options.prune.max_prune is not None
