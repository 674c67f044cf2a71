"""How much a prune may delete, and what the words are that allow it.

The limits themselves are a table of ``tests/unit/planning/test_guards.py``.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from applyprune import load
from applyprune.errors import EmptyInput, InputError, InputErrors
from applyprune.model.fate import Fate
from applyprune.model.live import Resource
from applyprune.model.options import Mode, PruneLimit
from applyprune.model.plan import Guard
from tests.decisions.rows import Row, decide, rows
from tests.decisions.world import Change, created, deleted, deleting, relabelled
from tests.support.objects import CLAIM, GUARDED, config_map, of_kind

A, B = config_map("a"), config_map("b")
HALF, MAX, UNLIKE = Guard.MORE_THAN_HALF, Guard.MAX_PRUNE, Guard.NOTHING_IN_COMMON
STATEFUL: dict[str, Any] = {**GUARDED["statefulset"], "metadata": {"name": "db"}}
NAMESPACE = of_kind("Namespace", "home-x")


def _many(count: int) -> list[dict[str, Any]]:
    return [config_map(f"c-{number}") for number in range(count)]


def _refused(*guards: Guard) -> frozenset[Guard]:
    return frozenset(guards)


LIMITS = {
    "half of four": Row(
        _many(4), given=_many(2), fates={f"configmap/c-{at}": Fate.PRUNE for at in (2, 3)}
    ),
    "most of three": Row(_many(3), given=_many(1), refused=_refused(HALF)),
    "seven of twenty": Row(_many(20), given=_many(13), refused=_refused(MAX)),
    "nothing in common": Row(
        _many(3), given=[A, B], fates={"configmap/a": Fate.CREATE, "configmap/b": Fate.CREATE},
        refused=_refused(HALF, UNLIKE), says=["it would delete 3 objects", "--max-prune 3"],
    ),
    "an empty input": Row(
        [A, B], given=[], refused=_refused(Guard.EMPTY_INPUT), says=["--allow-empty"]
    ),
    # A missing mount looks just like it, even if nothing would be deleted.
    "an empty input, and nothing to delete": Row(
        [A], [deleted("configmap/a")], given=[], refused=_refused(Guard.EMPTY_INPUT),
        fates={"configmap/a": Fate.REMOVE_FROM_INVENTORY},
        says=["the prune was refused: no object in the input"],
    ),
    "an empty input of a new set": Row(error=EmptyInput),
    "an empty input, allowed": Row(
        _many(8), given=[], options={"allow_empty": True}, refused=_refused(MAX),
        says=["it would delete 8 objects", "--max-prune 8"],
    ),
    **{
        f"a {kind}": Row(
            [A, {**body, "metadata": {"name": "home-x"}}], given=[A],
            refused=_refused(Guard.GUARDED_KIND),
            says=[f"a {kind} is only pruned if that is allowed", f"--allow-kind {kind}"],
        )
        for kind, body in GUARDED.items()
    },
    **{
        f"a {kind}, of a whole set": Row(
            [A, {**body, "metadata": {"name": "home-x"}}], options={"mode": Mode.DELETE},
            fates={"configmap/a": Fate.PRUNE,
                f"{kind}{'.apps' if kind == 'statefulset' else ''}/home-x": Fate.PRUNE},
        )
        for kind, body in GUARDED.items()
    },
}  # fmt: skip


@pytest.mark.holds("empty-input", row="an empty input")
@pytest.mark.holds("more-than-half", row="most of three")
@pytest.mark.holds("nothing-in-common", row="nothing in common")
@rows(LIMITS)
def test_prune_of_much_or_of_data_is_refused(row: Row) -> None:
    """A deletion of the whole set has said so already."""
    row.holds()


# What does not live any more counts for neither side.


def _job(name: str) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c:1"}]}
    spec = {"suspend": True, "ttlSecondsAfterFinished": 3600, "template": {"spec": pod}}
    return of_kind("Job", name, spec=spec)


def _held(name: str) -> dict[str, Any]:
    return config_map(name, finalizers=["example.com/hold"])


def _mostly_dead(dead: Sequence[dict[str, Any]], changes: Sequence[Change], mode: Mode) -> Row:
    says = ["4 deletions are more than half of the set's 5 live objects"]
    return Row(
        [*dead, *_many(5)],
        changes,
        [*dead, config_map("c-0")],
        {"mode": mode},
        refused=_refused(HALF),
        says=says,
    )


NAMES = [f"d-{number}" for number in range(9)]
DEAD = {
    "gone": _mostly_dead(
        [config_map(name) for name in NAMES],
        [deleted(f"configmap/{name}") for name in NAMES], Mode.PRUNE,
    ),
    "being deleted": _mostly_dead(
        [_held(name) for name in NAMES], [deleting(f"configmap/{name}") for name in NAMES],
        Mode.PRUNE,
    ),
    "without the label": _mostly_dead(
        [config_map(name) for name in NAMES],
        [relabelled(f"configmap/{name}", None) for name in NAMES], Mode.PRUNE,
    ),
    "jobs with a TTL": _mostly_dead([_job(name) for name in NAMES], [], Mode.PRUNE),
}  # fmt: skip


@pytest.mark.holds("own-live-objects", row="being deleted")
@rows(DEAD)
def test_dead_entries_do_not_hide_a_prune(row: Row) -> None:
    """Nine of fourteen entries go away by themselves: four of the other five are nearly all."""
    row.holds()


# The options that a refusal prints: all of them allow exactly that prune, and none is too many.

FOREIGN = [created(config_map(name, namespace="home-x")) for name in ("s-1", "s-2")]
KIND, EMPTY, CASCADE = Guard.GUARDED_KIND, Guard.EMPTY_INPUT, Guard.CASCADE
PRINTED = {
    "count": Row(_many(8), given=_many(1), refused=_refused(HALF, MAX), says=["--max-prune 7"]),
    "kind": Row([A, CLAIM], given=[A], refused=_refused(KIND)),
    "two kinds": Row([*_many(2), CLAIM, STATEFUL], given=_many(2), refused=_refused(KIND)),
    "count and kind": Row(
        [*_many(7), CLAIM], given=_many(1), refused=_refused(HALF, MAX, KIND)
    ),
    "empty": Row([A, B], given=[], refused=_refused(EMPTY), says=["To allow this: --allow-empty"]),
    "empty and count": Row(_many(8), given=[], refused=_refused(EMPTY, MAX)),
    "empty and a Namespace": Row(
        [NAMESPACE, config_map("in", namespace="home-x")], given=[], refused=_refused(EMPTY, KIND)
    ),
    "empty, count and kinds": Row(
        [*_many(6), CLAIM, STATEFUL], given=[], refused=_refused(EMPTY, MAX, KIND)
    ),
    "a cascade": Row(
        [A, NAMESPACE], FOREIGN, [A], refused=_refused(CASCADE),
        says=["--allow-cascade namespace/home-x"],
    ),
    "all of them": Row(
        [*_many(6), CLAIM, NAMESPACE], FOREIGN, [], refused=_refused(EMPTY, MAX, KIND, CASCADE)
    ),
}  # fmt: skip


def _options(refusal: str) -> list[tuple[str, Any]]:
    """Return each option that a refusal prints, as ``options_of`` takes it."""
    words = iter(shlex.split(refusal.rpartition("To allow this: ")[2]))
    found: list[tuple[str, Any]] = []
    for word in words:
        if word == "--allow-empty":
            found.append(("allow_empty", True))
        elif word == "--max-prune":
            found.append(("max_prune", PruneLimit(int(next(words)), 0.0)))
        else:
            name = {"--allow-kind": "allow_kinds", "--allow-cascade": "allow_cascade"}[word]
            found.append((name, frozenset({next(words)})))
    return found


def _with(row: Row, options: Sequence[tuple[str, Any]], mode: Mode) -> Row:
    given: dict[str, Any] = {"mode": mode}
    for name, value in options:
        joined = isinstance(value, frozenset)
        given[name] = given.get(name, frozenset()) | value if joined else value
    return replace(row, options=given)


@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.PRUNE])
@rows(PRINTED)
def test_printed_options_allow_exactly_the_refused_prune(row: Row, mode: Mode) -> None:
    """With one of them left out it is refused again."""
    refused, _ = decide(_with(row, [], mode))
    printed = _options(str(refused.refusal))
    assert printed
    for left_out in printed:
        fewer = [one for one in printed if one is not left_out]
        again, _ = decide(_with(row, fewer, mode))
        assert again.refusal is not None, left_out
    allowed, _ = decide(_with(row, printed, mode))
    assert allowed.refusal is None
    assert all(step.fate is Fate.PRUNE for step in allowed.removals)
    assert [step.entry.ref for step in allowed.removals] == [
        step.entry.ref for step in refused.removals
    ]


# --orphan: a name that matches nothing may mean an object that would go.

ROLE = of_kind("Role", "App.Reader", rules=[])
ROLE_NAME = "role.rbac.authorization.k8s.io/App.Reader"
CUSTOM = Resource("x.example.com", "v1", "ConfigMap", "configmaps", namespaced=True)
TWIN, TWIN_NAME = of_kind("ConfigMap", "a", api="x.example.com/v1"), "configmap.x.example.com/a"
PRUNES = (("apply", Mode.APPLY, [A]), ("prune", Mode.PRUNE, [A]), ("delete", Mode.DELETE, None))
ORPHANS = {
    **{
        f"upper case: {verb}": Row(
            [A, ROLE], given=given, options={"mode": mode, "orphan": {"role/App.Reader"}},
            fates={ROLE_NAME: Fate.ORPHAN, **({} if given else {"configmap/a": Fate.PRUNE})},
        )
        for verb, mode, given in PRUNES
    },
    **{
        f"{lost}: {verb}": Row(
            [A, B, ROLE], given=given, options={"mode": mode, "orphan": {lost, "configmap/b"}},
            fates={"configmap/b": Fate.ORPHAN},
            refused=_refused(Guard.ORPHAN_NAMES),
            says=[f"/{lost.partition('/')[2]} matches no object in the inventory"],
        )
        for verb, mode, given in PRUNES
        for lost in ("role/app.reader", "configmap/typo")
    },
    **{
        f"nothing to prune: {verb}": Row(
            [A, B], options={"mode": mode, "orphan": {"configmap/gone", "configmap/b"}},
            given=[A, B],
        )
        for verb, mode, _ in PRUNES[:2]
    },
    "a name of two kinds": Row(
        [A, B, TWIN], given=[B], options={"orphan": {"configmap/a"}}, served=[CUSTOM],
        fates={"configmap/a": Fate.ORPHAN, TWIN_NAME: Fate.PRUNE},
        warns=[f"could also match {TWIN_NAME}"], never="no server serves such a kind",
    ),
    "a name of two kinds, with its group": Row(
        [A, B, TWIN], given=[B], options={"orphan": {TWIN_NAME}}, served=[CUSTOM],
        fates={"configmap/a": Fate.PRUNE, TWIN_NAME: Fate.ORPHAN},
        never="no server serves such a kind",
    ),
    "one goes, one is gone long ago": Row(
        [A, B], given=[A], options={"orphan": {"configmap/gone", "configmap/b"}},
        fates={"configmap/b": Fate.ORPHAN},
    ),
}  # fmt: skip


@pytest.mark.holds("name-in-group", row="a name of two kinds")
@rows(ORPHANS)
def test_orphan_option_matches_objects_by_name(row: Row) -> None:
    """The whole prune is refused for a name that matches nothing, but where nothing is pruned."""
    row.holds()


# An input that is cut off.

TEXT = "\n---\n".join(
    f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  k: v" for name in "abc"
)


def _read(text: str) -> list[dict[str, Any]]:
    return [dict(one.body) for one in load(Path("-"), stdin=io.BytesIO(text.encode()))]


NO_OBJECTS = (
    "",
    "# nothing\n",
    "---\n",
    "---\n# a\n---\n\n---\n",
    "kind: List\nitems: []\napiVersion: v1",
)


@pytest.mark.parametrize("text", NO_OBJECTS)
def test_input_without_objects_prunes_nothing(text: str) -> None:
    """An empty file, comments, separators, an empty list."""
    assert _read(text) == []
    replace(LIMITS["an empty input"], given=_read(text)).holds()


def test_silent_document_loss_prunes_nothing() -> None:
    """Wherever a file is truncated, the rest is an error, or it is valid and the prune is refused.

    A cut at a boundary between documents leaves a valid file: this is why the guards exist.
    """
    whole = _read(TEXT)
    first = TEXT.index("\n---\n")
    valid = 0
    for cut in range(first - 4, first + 24):
        try:
            plan, _ = decide(
                Row(whole, given=_read(TEXT[:cut]), options={"max_prune": PruneLimit(0, 0.0)})
            )
        except (InputError, InputErrors):
            continue
        valid += 1
        assert plan.refusal is not None
    assert valid
