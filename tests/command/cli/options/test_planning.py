"""The options that ``apply`` and the verbs that show its plan have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from applyprune.cli.options import HEADINGS, NAME, PLANNING, REST, ROWS, RUN, command
from applyprune.cli.run import apply, diff, explain, plan
from applyprune.model.kinds import GUARDED_KINDS
from applyprune.model.options import Adopt, AdoptFrom, DryRun, Options
from applyprune.planning.normalize import DefaultRule

if TYPE_CHECKING:
    from collections.abc import Iterable


def _described(params: Iterable[click.Parameter]) -> dict[str, object]:
    return {str(param.name): param.to_info_dict() for param in params}


@pytest.mark.parametrize("verb", [plan, diff, explain, apply])
def test_planning_options_are_the_same_for_every_verb(verb: click.Command) -> None:
    """So that ``apply`` does what the others show."""
    shared = _described((*NAME, *PLANNING))
    assert {"name", "paths", "namespace", "max_prune", "selector", "adopt"} <= shared.keys()
    assert shared.items() <= _described(verb.params).items()


def test_execution_options_reach_the_verb_with_those_of_the_plan() -> None:
    """Both groups fill the same options."""
    got: list[Options] = []

    @command(RUN, NAME, PLANNING)
    def verb(options: Options, **_others: object) -> None:
        got.append(options)

    words = "web -f x --dry-run=client --timeout 7s --orphan a/b --adopt all --max-prune 3"
    verb.main(words.split(), standalone_mode=False)
    (options,) = got
    assert (options.dry_run, options.wait.timeout) == (DryRun.CLIENT, 7)
    assert options.prune.orphan == {"a/b"}
    assert str(options.apply.adopt) == "all"
    assert options.prune.max_prune is not None


@pytest.mark.parametrize(
    ("word", "adopt"),
    [
        ("none", Adopt.NONE),
        ("unowned", Adopt.UNOWNED),
        ("set/shop", AdoptFrom("shop")),
        ("set/shop.other", AdoptFrom("shop", "other")),
    ],
)
def test_adoption_is_a_word_or_a_set(word: str, adopt: Adopt | AdoptFrom) -> None:
    assert adoption_of(word) == adopt


@pytest.mark.parametrize(
    "word", ["set/", "set/A", "set/a.", "set/a.b.c", "set/-", "sets/a", "some"]
)
def test_adoption_from_no_set_is_an_error(word: str) -> None:
    with pytest.raises(click.BadParameter, match=r"names no set|is not one of"):
        adoption_of(word)


def adoption_of(word: str) -> object:
    got: list[Options] = []

    @command(RUN, NAME, PLANNING)
    def verb(options: Options, **_others: object) -> None:
        got.append(options)

    verb.main(["web", "-f", "x", "--adopt", word], standalone_mode=False)
    return got[0].apply.adopt


def test_options_set_fields_that_exist() -> None:
    """A row names the field of ``Options`` that it sets, and one of the headings."""
    for row in ROWS:
        assert row.heading in {REST, *HEADINGS}
        value, *path = row.sets.split(".")
        if value == "options":
            field: object = Options()
            for name in path:
                field = getattr(field, name)


def test_command_line_knows_words_of_the_planner() -> None:
    """Without an import of it, which would slow the start of every verb."""
    rows = {row.key: row for row in ROWS}
    rules = rows["no-default-ignore"].type
    assert sorted(getattr(rules, "choices", ())) == sorted(map(str, DefaultRule))
    kinds = (rows["allow-kind"].help or "").partition(": ")[2]
    assert kinds == ", ".join(sorted(GUARDED_KINDS.values())) + "."
