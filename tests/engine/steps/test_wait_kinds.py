"""``--wait-for-kinds``: an operator of the set installs a CRD while the set is applied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from applyprune.errors import InputError, UsageError
from applyprune.model.events import (
    Event,
    Finished,
    InventoryWritten,
    ObjectDone,
    Planned,
    ReadinessReported,
    Started,
)
from applyprune.model.fate import Outcome
from applyprune.model.options import DryRun, PruneAlso
from applyprune.model.text import parse_selector
from applyprune.planning.desired import PRUNES_LATER
from tests.support.api import Api
from tests.support.fault_proxy import FaultProxy, always, faults
from tests.support.forged import edit_entry, remove_entries
from tests.support.input_files import write_input
from tests.support.objects import DEPLOYMENT, config_map, crd, custom_resource
from tests.support.pseudo_terminal import on_terminal
from tests.support.stage import Stage, Story

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _of_wave(name: str, wave: int) -> dict[str, Any]:
    return config_map(name, annotations={"applyprune.dev/wave": str(wave)})


def _count(story: Story, kind: type[Event]) -> int:
    return sum(isinstance(event, kind) for event in story.events)


def _install(stage: Stage, api: Api, *definitions: dict[str, Any]) -> None:
    """Install the CRDs as soon as the ConfigMap ``operator`` is applied."""

    def seen(event: Event) -> None:
        if isinstance(event, ObjectDone) and event.ref.name == "operator":
            for definition in definitions:
                assert api("POST", CRDS, definition)[0] in {201, 409}

    stage.seen = seen


def test_objects_of_kinds_that_an_operator_installs_are_applied_in_the_same_run(
    crd_stage: Stage, crds: Api
) -> None:
    """Their scope is known only then; the next run prunes what has left the set."""
    assert crd_stage.run(config_map("leaves"), config_map("stays")).exit_code == 0
    _install(crd_stage, crds, crd("LateOne"), crd("LateAll", scope="Cluster"))
    name = f"one-{crd_stage.namespace}"
    bodies = [
        custom_resource("one", "LateOne"),
        custom_resource(name, "LateAll"),
        config_map("operator"),
        config_map("stays"),
        _of_wave("after", 1),
    ]
    story = crd_stage.run(*bodies, kinds=300.0, max_prune=crd_stage.most(1), check=True)
    assert story.exit_code == 0
    late = {"lateone.x.example.com/one", f"lateall.x.example.com/{name}"}
    made = {*late, "configmap/operator", "configmap/after"}
    assert story.outcomes == {
        **dict.fromkeys(made, Outcome.CREATED),
        "configmap/stays": Outcome.UNCHANGED,
        "configmap/leaves": Outcome.NOT_PRUNED,
    }
    (kept,) = (event for event in story.of(ObjectDone) if event.outcome is Outcome.NOT_PRUNED)
    assert (kept.ref.name, kept.reason) == ("leaves", PRUNES_LATER)
    assert [_count(story, kind) for kind in (Started, Planned, Finished)] == [1, 2, 1]
    (end,) = story.of(Finished)
    assert end.counts == {Outcome.CREATED: 4, Outcome.UNCHANGED: 1, Outcome.NOT_PRUNED: 1}
    order = [event.ref.short for event in story.of(ObjectDone)]
    assert order.index("configmap/operator") < min(map(order.index, late))
    assert max(map(order.index, late)) < order.index("configmap/after")
    listed = {ref.short: ref.namespace for ref in crd_stage.inventory().entries}
    assert listed == {
        **dict.fromkeys({*made, "configmap/stays", "configmap/leaves"}, crd_stage.namespace),
        f"lateall.x.example.com/{name}": "",
    }
    crd_stage.seen = lambda _: None
    pruned = crd_stage.run(*bodies, kinds=300.0)
    assert pruned.outcomes == {
        **dict.fromkeys({*made, "configmap/stays"}, Outcome.UNCHANGED),
        "configmap/leaves": Outcome.PRUNED,
    }
    again = crd_stage.run(*bodies, kinds=300.0)
    assert set(again.outcomes.values()) == {Outcome.UNCHANGED}
    assert _count(again, InventoryWritten) == 0


def test_kind_that_is_not_served_in_time_fails_its_objects_and_prunes_nothing(
    crd_stage: Stage,
) -> None:
    """What comes after them is not applied either; nothing about them is recorded."""
    assert crd_stage.run(config_map("leaves"), config_map("stays")).exit_code == 0
    before = crd_stage.inventory().generation
    bodies = [
        custom_resource("one", "NeverServed"),
        config_map("stays"),
        config_map("operator"),
        _of_wave("after", 1),
    ]
    story = crd_stage.run(*bodies, kinds=1.0)
    assert story.exit_code == 5
    assert story.outcomes == {
        "neverserved.x.example.com/one": Outcome.FAILED,
        "configmap/stays": Outcome.UNCHANGED,
        "configmap/operator": Outcome.CREATED,
        "configmap/after": Outcome.SKIPPED,
        "configmap/leaves": Outcome.NOT_PRUNED,
    }
    assert "was not served within 1 s" in story.problem("neverserved.x.example.com/one")
    inventory = crd_stage.inventory()
    assert {ref.name for ref in inventory.entries} == {"leaves", "stays", "operator"}
    # The first part has ended well, and the run has not.
    assert inventory.last is not None
    assert (inventory.last.exit_code, inventory.last.created) == (5, 1)
    assert _count(story, InventoryWritten) == inventory.generation - before


def test_unknown_kind_is_refused_before_any_write_without_the_option(crd_stage: Stage) -> None:
    """The error names the option; other errors of such objects are found at once with it too."""
    one = custom_resource("one", "NeverServed")
    with pytest.raises(InputError, match="no matches for kind") as refused:
        crd_stage.run(one, config_map("operator"))
    assert "--wait-for-kinds" in refused.value.hint
    one["metadata"]["annotations"] = {"applyprune.dev/wave": "first"}
    with pytest.raises(InputError, match=r"invalid applyprune\.dev/wave"):
        crd_stage.run(one, config_map("operator"), kinds=300.0)
    one["metadata"]["annotations"] = {"kapp.k14s.io/noop": "yes"}
    with pytest.raises(InputError, match=r"invalid kapp\.k14s\.io/noop"):
        crd_stage.run(one, config_map("operator"), kinds=300.0)
    typo = {**config_map("a"), "apiVersion": "v1", "kind": "ConfigMapp"}
    with pytest.raises(InputError, match="no matches for kind"):
        crd_stage.run(typo, config_map("operator"), kinds=300.0)
    assert not crd_stage.inventory().exists


@pytest.mark.holds("prune-after-unknown")
def test_dry_run_says_which_objects_it_could_not_plan(crd_stage: Stage) -> None:
    """It waits for nothing."""
    assert crd_stage.run(config_map("b"), config_map("leaves")).exit_code == 0
    one = custom_resource("one", "NeverServed")
    given = (one, config_map("a"), config_map("b"))
    story = crd_stage.run(*given, kinds=300.0, dry_run=DryRun.SERVER)
    assert story.exit_code == 0
    assert story.outcomes == {
        "configmap/a": Outcome.CREATED,
        "configmap/b": Outcome.UNCHANGED,
        "configmap/leaves": Outcome.NOT_PRUNED,
    }
    (warning,) = story.warnings
    assert "not served yet: neverserved.x.example.com/one" in warning


def test_wrong_folder_is_refused_before_any_write(crd_stage: Stage, crds: Api) -> None:
    """The guards judge the prune by the set as it was, not by what the first part has added."""
    old = {f"configmap/old{number}" for number in range(4)}
    assert crd_stage.run(*(config_map(f"old{number}") for number in range(4))).exit_code == 0
    _install(crd_stage, crds, crd("LateFolder"))
    other = [config_map("operator"), *(config_map(f"new{number}") for number in range(4))]
    bodies = [*other, _of_wave("after", 1), custom_resource("one", "LateFolder")]
    story = crd_stage.run(*bodies, kinds=300.0)
    assert story.exit_code == 6
    assert "no object in common" in story.refusal
    assert _count(story, InventoryWritten) == 0
    assert crd_stage.listed() == old
    assert story.outcomes == dict.fromkeys(old, Outcome.NOT_PRUNED)
    anyway = crd_stage.run(*bodies, kinds=300.0, apply_anyway=True)
    assert anyway.exit_code == 6
    assert anyway.outcomes["latefolder.x.example.com/one"] is Outcome.CREATED
    assert {anyway.outcomes[name] for name in old} == {Outcome.NOT_PRUNED}
    for name in old:
        kept = f"/api/v1/namespaces/{crd_stage.namespace}/{name.replace('map/', 'maps/')}"
        assert crds.exists(kept)


def test_late_objects_count_as_input_when_the_prune_is_judged(crd_stage: Stage, crds: Api) -> None:
    """Their new version is not served yet: they have not left the set, and share it."""
    kept = [custom_resource(name, "LateVersion") for name in ("one", "two")]
    crds.create(CRDS, crd("LateVersion"))
    left = [config_map("a"), config_map("b")]
    assert crd_stage.run(*kept, *left, kinds=300.0).exit_code == 0
    newer = [{**body, "apiVersion": "x.example.com/v2"} for body in kept]
    after = _of_wave("after", 1)
    story = crd_stage.run(*newer, config_map("c"), after, kinds=300.0, dry_run=DryRun.SERVER)
    assert (story.exit_code, story.refusal) == (0, "")
    assert story.outcomes == {
        "configmap/c": Outcome.CREATED,
        "configmap/a": Outcome.NOT_PRUNED,
        "configmap/b": Outcome.NOT_PRUNED,
    }


@pytest.mark.holds("second-part-removes-nothing")
def test_run_that_finds_the_inventory_lost_prunes_nothing_in_its_second_part(
    crd_stage: Stage, crds: Api
) -> None:
    """The first part has recorded again what the objects' labels say; the next run prunes."""
    names = ("a", "b", "operator")
    assert crd_stage.run(*map(config_map, names)).exit_code == 0
    maps = crd_stage.path()
    crds("DELETE", f"{maps}/{crd_stage.target.inventory.name}")
    _install(crd_stage, crds, crd("LateFound"))
    bodies = [config_map("a"), config_map("operator"), custom_resource("one", "LateFound")]
    story = crd_stage.run(*bodies, kinds=300.0, also=frozenset({PruneAlso.ADOPTED}))
    assert story.exit_code == 0
    assert story.outcomes["configmap/b"] is Outcome.NOT_PRUNED
    assert crds.exists(f"{maps}/b")
    assert "configmap/b" in crd_stage.listed()


def test_late_object_that_is_not_selected_is_not_waited_for(crd_stage: Stage, crds: Api) -> None:
    """A name of an object that waits is one of the input; another name is not."""
    late = custom_resource("one", "LateSelected", labels={"app": "late"})
    after = _of_wave("after", 1)
    bodies = [config_map("operator", labels={"app": "web"}), after, late]
    for chosen in ({"only": frozenset({"cm/operator"})}, {"selector": parse_selector("app=web")}):
        story = crd_stage.run(*bodies, kinds=0.5, **chosen)
        assert story.exit_code == 0
        assert set(story.outcomes) == {"configmap/operator"}
    with pytest.raises(UsageError, match="the input has no configmap/other"):
        crd_stage.run(*bodies, kinds=0.5, only=frozenset({"configmap/other"}))
    both = frozenset({"configmap/after", "lateselected/one"})
    story = crd_stage.run(*bodies, kinds=0.5, only=both)
    assert story.exit_code == 5
    assert story.outcomes == {
        "lateselected.x.example.com/one": Outcome.FAILED,
        "configmap/after": Outcome.SKIPPED,
    }
    _install(crd_stage, crds, crd("LateSelected"))
    changed = [config_map("operator", "new"), after, late]
    story = crd_stage.run(*changed, kinds=300.0, only=both | {"configmap/operator"})
    assert story.exit_code == 0
    assert crd_stage.listed() == {
        "configmap/operator",
        "configmap/after",
        "lateselected.x.example.com/one",
    }


def test_first_part_does_not_warn_about_objects_of_the_second(crd_stage: Stage, crds: Api) -> None:
    """They are in the input: an apply of them removes a mark of their entries."""
    bodies = [config_map("a"), _of_wave("marked", 1), _of_wave("lost", 1)]
    assert crd_stage.run(*bodies).exit_code == 0
    edit_entry(crd_stage, crds, "marked", orphaning=True)
    remove_entries(crd_stage, crds, "lost")
    late = custom_resource("one", "NeverServed")
    story = crd_stage.run(*bodies, late, kinds=300.0, dry_run=DryRun.SERVER)
    (warning,) = story.warnings
    assert "not served yet" in warning


def test_second_part_is_announced_and_a_no_says_what_stays(
    crd_stage: Stage, crds: Api, tmp_path: Path
) -> None:
    """No other run was first, and the first part has written."""
    again = {"applyprune.dev/wave": "1", "applyprune.dev/recreate": "allowed"}
    after = {**config_map("after", annotations=again), "immutable": True}
    assert crd_stage.run(after).exit_code == 0
    bodies = [
        config_map("operator"),
        {**after, "data": {"key": "new"}},
        custom_resource("one", "LateAsked"),
    ]
    given = ("-f", write_input(tmp_path / "in.json", bodies), "--wait-for-kinds", "60s")
    call = ("apply", "web", "-n", crd_stage.namespace, *given)
    with on_terminal(*call, kubeconfig=crd_stage.kubeconfig, columns=120) as terminal:
        terminal.read_until("configmap/operator created")
        crds.create(CRDS, crd("LateAsked"))
        shown = terminal.read_until("Apply these changes? [y/N] ")
        terminal.type("n\n")
        assert terminal.ended() == 1
    assert "This would change in the second part:" in shown
    assert "Another run" not in terminal.shown
    assert "nothing was changed" not in terminal.shown
    assert "nothing more was changed: what the first part has applied stays" in terminal.shown
    assert crd_stage.listed() == {"configmap/after", "configmap/operator"}


def test_first_part_does_not_wait_for_what_may_need_the_second(crd_stage: Stage, crds: Api) -> None:
    """With --wait, the end of the run waits for everything, the objects of the first part too."""
    rule = "self.metadata.annotations[?'done'].orValue('') == 'yes'"
    user = config_map("user", annotations={"applyprune.dev/ready-when": rule})
    path = crd_stage.path("user")
    patch = {"metadata": {"annotations": {"done": "yes"}}}

    def seen(event: Event) -> None:
        if isinstance(event, ObjectDone) and event.ref.name == "operator":
            assert crds("POST", CRDS, crd("LateNeed"))[0] in {201, 409}
        if isinstance(event, ObjectDone) and event.ref.kind == "LateNeed":
            crds.patch(path, patch)

    crd_stage.seen = seen
    bodies = (custom_resource("one", "LateNeed"), config_map("operator"), user)
    story = crd_stage.run(*bodies, kinds=300.0, wait=True, timeout=300.0)
    assert story.exit_code == 0, story.events
    ready = {event.ref.name for event in story.of(ReadinessReported)}
    assert ready == {"user", "one"}


def test_second_part_repeats_neither_what_was_skipped_nor_a_warning_of_the_server(
    crd_stage: Stage, crds: Api
) -> None:
    """Both parts plan the whole input, and with --reapply-all both send it."""
    _install(crd_stage, crds, crd("LateTwice"))
    restricted = {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}}
    home = f"/api/v1/namespaces/{crd_stage.namespace}"
    crds.patch(home, restricted)
    web = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "replicas": 0}}
    off = config_map("off", annotations={"applyprune.dev/apply": "disabled"})
    bodies = (custom_resource("one", "LateTwice"), config_map("operator"), web, off)
    story = crd_stage.run(*bodies, kinds=300.0, reapply_all=True)
    assert story.exit_code == 0, story.events
    assert sum("would violate PodSecurity" in warning for warning in story.warnings) == 1
    told = story.of(ObjectDone)
    assert [event.outcome for event in told if event.ref.name == "off"] == [Outcome.SKIPPED]
    (end,) = story.of(Finished)
    assert end.counts[Outcome.SKIPPED] == 1


def test_discovery_that_fails_until_the_timeout_is_the_reason(
    spoiled: Stage, proxy: FaultProxy
) -> None:
    """Nobody knows whether the kind was served in time."""

    def seen(event: Event) -> None:
        if isinstance(event, ObjectDone) and event.ref.name == "operator":
            proxy.rule = always(
                faults.status(403, reason="Forbidden", message="no discovery today"),
                where=lambda seen: seen.path in {"/api", "/apis"},
            )

    spoiled.seen = seen
    story = spoiled.run(custom_resource("one", "NeverServed"), config_map("operator"), kinds=1.0)
    assert story.exit_code == 5
    problem = story.problem("neverserved.x.example.com/one")
    assert "the served kinds could not be read within 1 s" in problem
    assert "no discovery today" in problem
