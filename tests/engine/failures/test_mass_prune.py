"""failures §1.3: the mass prune. A test a row, named after it; its tables are in planning."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from applyprune.errors import ApplypruneError, EmptyInput
from applyprune.localplane import Plane
from applyprune.model.events import ObjectDone
from applyprune.model.fate import Outcome
from applyprune.model.options import Mode, PruneLimit
from tests.support.api import Api
from tests.support.command import applyprune
from tests.support.fault_proxy import Exchange, Fault, FaultProxy, always, faults
from tests.support.objects import GUARDED, config_map
from tests.support.stage import Stage


def _there(api: Api, stage: Stage) -> set[str]:
    items = api.get(stage.path())["items"]
    return {item["metadata"]["name"] for item in items} - {"kube-root-ca.crt", "applyprune-web"}


def test_source_returns_empty_with_success(stage: Stage, api: Api) -> None:
    """Refused without --allow-empty; with it the budget is still asked."""
    with pytest.raises(EmptyInput):
        stage.run()
    bodies = [config_map(f"c-{number}") for number in range(8)]
    stage.run(*bodies)
    for mode in (Mode.APPLY, Mode.PRUNE):
        story = stage.run(mode=mode)
        assert story.exit_code == 6
        assert set(story.outcomes.values()) == {Outcome.NOT_PRUNED}
        reasons = {one.reason for one in story.of(ObjectDone)}
        assert reasons == {"prune refused"}
        assert "no object in the input" in story.refusal
        assert story.refusal.endswith("To allow this: --allow-empty --max-prune 8")
        story = stage.run(mode=mode, allow_empty=True)
        assert story.exit_code == 6
        assert "it would delete 8 objects" in story.refusal
        assert story.refusal.endswith("To allow this: --max-prune 8")
    assert len(_there(api, stage)) == 8
    story = stage.run(allow_empty=True, max_prune=stage.most(8))
    assert set(story.outcomes.values()) == {Outcome.PRUNED}
    assert not _there(api, stage)


EMPTY = {
    "nothing at all": "",
    "a comment": "# nothing\n",
    "a separator": "---\n",
    "separators and comments": "---\n# a\n---\n\n---\n",
    "an empty list": "apiVersion: v1\nkind: List\nitems: []\n",
}


@pytest.mark.parametrize("name", EMPTY)
def test_input_without_objects_prunes_nothing(
    plane: Plane, stage: Stage, api: Api, tmp_path: Path, name: str
) -> None:
    """From the command line: a file, an empty directory, a closed standard input."""
    stage.run(config_map("a"), config_map("b"))
    source = tmp_path / "in"
    source.mkdir()
    target: list[str | Path] = ["apply", "web", "-n", stage.namespace, "-f"]
    calls = [applyprune(*target, "-", kubeconfig=plane.kubeconfig, stdin=EMPTY[name])]
    calls.append(applyprune(*target, source, kubeconfig=plane.kubeconfig))
    (source / "set.yaml").write_text(EMPTY[name])
    calls.append(applyprune(*target, source, kubeconfig=plane.kubeconfig))
    assert all(ended.code in {2, 6} for ended in calls), calls
    assert "--allow-empty" in calls[0].err
    assert _there(api, stage) == {"a", "b"}


@pytest.mark.parametrize(
    ("limit", "goes"), [(PruneLimit(6, 0.0), False), (PruneLimit(7, 0.0), True)], ids=str
)
def test_sharply_smaller_input_is_refused(
    stage: Stage, api: Api, limit: PruneLimit, goes: bool
) -> None:
    """Seven of twenty: all of them, or none. planning/test_guards.py has the limits themselves."""
    before, now = 20, 13
    bodies = [config_map(f"c-{number}") for number in range(before)]
    stage.run(*bodies)
    story = stage.run(*bodies[:now], max_prune=limit)
    assert story.exit_code == (0 if goes else 6)
    assert len(_there(api, stage)) == (now if goes else before)
    assert len(stage.listed()) == (now if goes else before)
    if not goes:
        doomed = {f"configmap/c-{number}" for number in range(now, before)}
        kept = {name for name, outcome in story.outcomes.items() if outcome is Outcome.NOT_PRUNED}
        assert kept == doomed
        assert f"--max-prune {len(doomed)}" in story.refusal
        story = stage.run(*bodies[:now], max_prune=stage.most(len(doomed)))
        assert story.exit_code == 0
        assert len(_there(api, stage)) == now


@pytest.mark.parametrize("kind", GUARDED)
def test_guarded_kinds_are_not_pruned_by_default(stage: Stage, kind: str) -> None:
    """Not one of them, until the kind is allowed; `delete` is that word already."""
    body = {**GUARDED[kind], "metadata": {"name": f"{stage.namespace}-x"}}
    stage.run(body, config_map("a"))
    story = stage.run(config_map("a"))
    assert story.exit_code == 6
    assert f"a {kind} is only pruned if that is allowed" in story.refusal
    assert story.refusal.endswith(f"To allow this: --allow-kind {kind}")
    allowed = stage.run(config_map("a"), allow_kinds=frozenset({kind}))
    assert allowed.exit_code == 0, allowed.events
    stage.run(body, config_map("a"))
    assert stage.run(mode=Mode.DELETE).exit_code == 0


LISTS: dict[str, Fault] = {
    "500": faults.status(500, reason="InternalError"),
    "403": faults.status(403, reason="Forbidden"),
    "503 text": faults.text(503, "service unavailable"),
    "404 text": faults.text(404, "404 page not found"),
    "cut off": faults.truncate(),
    "a web page": faults.web_page(),
    "an empty object": faults.answer(200, b"{}"),
}


@pytest.mark.parametrize("name", LISTS)
def test_list_error_read_as_none(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, name: str
) -> None:
    """Whichever list or look fails, discovery's too: no delete in that run."""
    stage.run(config_map("a"), config_map("b"))
    spoiled.budget = 0.2
    for place in ("/configmaps", "/api", "/apis", "/configmaps/applyprune-web"):
        if name == "403" and place == "/configmaps":
            continue  # what may not be listed is looked at object by object

        def is_there(seen: Exchange, end: str = place) -> bool:
            return seen.method == "GET" and seen.path.endswith(end)

        proxy.rule = always(LISTS[name], where=is_there)
        try:
            code = spoiled.run(config_map("a")).exit_code
        except ApplypruneError as error:
            code = error.exit_code
        assert code, place
        assert not [seen for seen in proxy.exchanges if seen.method == "DELETE"], place
    assert _there(api, stage) == {"a", "b"}
    assert stage.listed() == {"configmap/a", "configmap/b"}


def test_link_loss(spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api) -> None:
    """The connection is lost, before the run and during it: nothing is deleted."""
    stage.run(config_map("a"), config_map("b"))
    spoiled.budget = 0.2
    proxy.rule = always(faults.reset())
    with pytest.raises(ApplypruneError):
        spoiled.run(config_map("a"))
    seen_by_now = itertools.count()

    def after_a_few(seen: Exchange) -> Fault | None:
        return faults.reset() if next(seen_by_now) >= 4 else None

    proxy.rule = after_a_few
    with pytest.raises(ApplypruneError):
        spoiled.run(config_map("a", "changed"))
    assert _there(api, stage) == {"a", "b"}
    proxy.rule = always(faults.reset(), where=lambda _: False)
    assert spoiled.run(config_map("a", "changed")).outcomes["configmap/b"] is Outcome.PRUNED


def test_silent_document_loss_in_the_parser(
    plane: Plane, stage: Stage, api: Api, tmp_path: Path
) -> None:
    """Wherever a file is truncated, the rest is valid or an error; no more is pruned.

    A cut at a boundary between documents leaves a valid file: this is why the guard exists.
    """
    text = "\n---\n".join(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  k: v"
        for name in "abc"
    )
    (tmp_path / "set.yaml").write_text(text)
    target: list[str | Path] = ["apply", "web", "-n", stage.namespace, "-f", tmp_path]
    assert applyprune(*target, kubeconfig=plane.kubeconfig).code == 0
    marker = text.index("\n---\n")
    for cut in range(marker - 4, marker + 24, 3):
        (tmp_path / "set.yaml").write_text(text[:cut])
        ended = applyprune(*target, "--max-prune", "0", kubeconfig=plane.kubeconfig)
        assert ended.code in {2, 3, 6}, (text[:cut], ended)
        assert _there(api, stage) == {"a", "b", "c"}
    (tmp_path / "set.yaml").write_text(text[: marker + 1] + "...\nkind: Nonsense\n")
    assert applyprune(*target, kubeconfig=plane.kubeconfig).code == 2
    assert _there(api, stage) == {"a", "b", "c"}


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_prune_after_partial_apply_failure(
    spoiled: Stage, stage: Stage, proxy: FaultProxy, api: Api, failing: int
) -> None:
    """Whichever of the applies fails: no delete in that run, and the next one prunes."""
    stage.run(*(config_map(name) for name in "abcx"))
    spoiled.budget = 0.2
    proxy.rule = always(
        faults.status(500, reason="InternalError"),
        where=lambda seen: seen.method == "PATCH" and seen.path.endswith("abc"[failing]),
    )
    story = spoiled.run(*(config_map(name, "changed") for name in "abc"))
    assert story.exit_code == 3
    assert story.outcomes["configmap/x"] is Outcome.NOT_PRUNED
    assert _there(api, stage) == {"a", "b", "c", "x"}
    assert stage.run(*(config_map(name, "changed") for name in "abc")).exit_code == 0
    assert _there(api, stage) == {"a", "b", "c"}


def test_last_object_in_a_namespace_or_kind_never_pruned(stage: Stage, api: Api) -> None:
    """The opposite failure, a leak: the inventory knows the kinds and namespaces of before."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    elsewhere = config_map("last", namespace="default")
    stage.run(config_map("a"), config_map("b"), secret, elsewhere)
    story = stage.run(config_map("a"), config_map("b"))
    assert story.outcomes["secret/s"] is Outcome.PRUNED
    assert story.outcomes["configmap/last"] is Outcome.PRUNED
    assert not api.exists("/api/v1/namespaces/default/configmaps/last")
    assert stage.run(allow_empty=True).outcomes == {
        "configmap/a": Outcome.PRUNED,
        "configmap/b": Outcome.PRUNED,
    }
    assert not _there(api, stage)


def test_folder_that_became_empty_blocks_the_prune(
    plane: Plane, namespace: str, tmp_path: Path
) -> None:
    """As it is typed: apply and prune refuse, diff and explain say so beforehand."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "set.json").write_text(json.dumps(config_map(name)))
    given = ("-f", tmp_path / "here", "-f", tmp_path / "there", "-n", namespace)
    first = applyprune("apply", "web", *given, kubeconfig=plane.kubeconfig)
    assert (first.code, len(first.lines)) == (0, 2)
    (tmp_path / "there/set.json").unlink()
    for verb in ("diff", "apply", "prune"):
        ended = applyprune(verb, "web", *given, kubeconfig=plane.kubeconfig)
        assert ended.code == 6
        assert f"no object in {tmp_path / 'there'}" in ended.err
    told = applyprune("explain", "web", "configmap/there", *given, kubeconfig=plane.kubeconfig)
    assert "To allow this: --allow-empty" in told.out
    meant = applyprune("apply", "web", *given, "--allow-empty", kubeconfig=plane.kubeconfig)
    assert (meant.code, meant.lines["configmap/there"]) == (0, "pruned")
