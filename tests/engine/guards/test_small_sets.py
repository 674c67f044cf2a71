"""The guards that fit small sets: an unrelated input, and a prune of most of the set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.inventory import Ownership
from applyprune.model.options import DryRun, Mode, PruneLimit
from applyprune.planning.applyset import PART_OF
from tests.support.api import writes
from tests.support.command import applyprune
from tests.support.input_files import write_input
from tests.support.objects import config_map, of_kind

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.api import Api, AuditTrail
    from tests.support.stage import Stage

MERGE = "application/merge-patch+json"
WRONG = (config_map("wrong-1"), config_map("wrong-2"))


def _many(count: int) -> list[dict[str, Any]]:
    return [config_map(f"c-{number}") for number in range(count)]


def _there(api: Api, stage: Stage) -> set[str]:
    items = api.get(stage.path())["items"]
    return {item["metadata"]["name"] for item in items} - {"kube-root-ca.crt", "applyprune-web"}


@pytest.mark.parametrize("mode", [Mode.APPLY, Mode.PRUNE])
def test_unrelated_input_is_refused(stage: Stage, api: Api, audit: AuditTrail, mode: Mode) -> None:
    """A wrong folder and a set of three: nothing is written, as the audit log shows."""
    stage.run(*_many(3))
    audit.restart()
    story = stage.run(*WRONG, mode=mode)
    assert writes(audit) == []
    assert story.exit_code == 6
    assert "the input has no object in common with the inventory" in story.refusal
    assert story.refusal.endswith("To allow this: --max-prune 3")
    assert set(story.outcomes.values()) == {Outcome.NOT_PRUNED}
    assert _there(api, stage) == {"c-0", "c-1", "c-2"}


def test_unrelated_input_is_refused_though_most_was_adopted(stage: Stage, api: Api) -> None:
    """Only two of six would be deleted, so that no number and no part shows what is wrong."""
    path = stage.path()
    adopted = [config_map(f"old-{number}") for number in range(4)]
    assert {api("POST", path, one)[0] for one in adopted} == {201}
    stage.run(*_many(2), *adopted)
    ownerships = [entry.ownership for entry in stage.inventory().entries.values()]
    assert ownerships.count(Ownership.ADOPTED) == 4
    story = stage.run(*WRONG)
    assert story.exit_code == 6
    assert "the input has no object in common with the inventory" in story.refusal
    assert "half" not in story.refusal
    assert len(_there(api, stage)) == 6


def test_prune_of_more_than_half_is_refused(stage: Stage, api: Api, audit: AuditTrail) -> None:
    """Three of five, with one object in common: below every number, and nothing is written."""
    bodies = _many(5)
    stage.run(*bodies)
    audit.restart()
    story = stage.run(config_map("c-0", "new"), bodies[1])
    assert writes(audit) == []
    assert story.exit_code == 6
    assert "3 deletions are more than half of the set's 5 live objects" in story.refusal
    assert story.refusal.endswith("To allow this: --max-prune 3")
    assert len(_there(api, stage)) == 5
    half = stage.run(*bodies[:3])
    assert half.exit_code == 0
    assert _there(api, stage) == {"c-0", "c-1", "c-2"}


def test_objects_that_are_gone_do_not_count(stage: Stage, api: Api) -> None:
    """Of six entries three are gone: two of the other three are most of what is left."""
    bodies = _many(6)
    stage.run(*bodies)
    path = stage.path()
    assert {api("DELETE", f"{path}/c-{number}")[0] for number in (3, 4, 5)} == {200}
    story = stage.run(bodies[0])
    assert story.exit_code == 6
    assert "it would delete 2 objects" in story.refusal
    assert "2 deletions are more than half of the set's 3 live objects" in story.refusal
    assert _there(api, stage) == {"c-0", "c-1", "c-2"}
    story = stage.run(*bodies[:2])
    assert story.exit_code == 0
    assert _there(api, stage) == {"c-0", "c-1"}
    assert stage.listed() == {"configmap/c-0", "configmap/c-1"}


def _job(name: str) -> dict[str, Any]:
    return of_kind(
        "Job",
        name,
        spec={
            "suspend": True,
            "ttlSecondsAfterFinished": 3600,
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c:1"}]}
            },
        },
    )


def _delete(api: Api, path: str) -> None:
    assert api("DELETE", path)[0] == 200


def _take_label(api: Api, path: str) -> None:
    patch = [{"op": "remove", "path": f"/metadata/labels/{PART_OF.replace('/', '~1')}"}]
    api.patch(path, patch)


DEAD: dict[str, tuple[Any, Any, Mode]] = {
    "gone": (config_map, _delete, Mode.APPLY),
    "being deleted": (
        lambda name: config_map(name, finalizers=["example.com/hold"]),
        _delete,
        Mode.PRUNE,
    ),
    "without the label": (config_map, _take_label, Mode.APPLY),
    "jobs with a TTL": (_job, lambda *_: None, Mode.APPLY),
}


@pytest.mark.parametrize("how", DEAD)
def test_dead_entries_do_not_hide_a_prune(stage: Stage, api: Api, how: str) -> None:
    """Forty-five of sixty entries go away by themselves: 14 of the other 15 are nearly all."""
    made, kill, mode = DEAD[how]
    dead, bodies = [made(f"d-{number}") for number in range(45)], _many(15)
    assert stage.run(*dead, *bodies).exit_code == 0
    path = stage.path()
    for number in range(45):
        kill(api, f"{path}/d-{number}")
    story = stage.run(*dead, bodies[0], mode=mode)
    for number in range(45 if mode is Mode.PRUNE else 0):
        api("PATCH", f"{path}/d-{number}", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert story.exit_code == 6
    assert "14 deletions are more than half of the set's 15 live objects" in story.refusal
    assert {f"c-{number}" for number in range(15)} <= _there(api, stage)


@pytest.mark.parametrize("limit", [PruneLimit(3, 0.0), PruneLimit(0, 100.0), PruneLimit()])
def test_given_limit_lifts_the_guards(stage: Stage, api: Api, limit: PruneLimit) -> None:
    """A number or a part that the user has given, even one equal to the default."""
    stage.run(*_many(3))
    story = stage.run(*WRONG, max_prune=limit)
    assert story.exit_code == 0
    assert _there(api, stage) == {"wrong-1", "wrong-2"}
    lifted = {result.lifted_by for result in story.plan.guards if result.lifted_by}
    assert lifted == {f"--max-prune {limit.text}"}


def test_too_low_a_limit_lifts_nothing(stage: Stage, api: Api) -> None:
    """It says less than the default, and is held."""
    stage.run(*_many(3))
    story = stage.run(*WRONG, max_prune=stage.most(2))
    assert (story.exit_code, len(_there(api, stage))) == (6, 3)
    assert "it would delete 3 objects: 3 deletions are more than 2" in story.refusal


def test_digest_approves_the_prune_of_a_small_set(stage: Stage, api: Api) -> None:
    """Exactly this one; after one more object has gone it approves nothing."""
    stage.run(*_many(4))
    refused = stage.run(*WRONG)
    assert stage.run(WRONG[0], config_map("c-0"), approved=refused.deletions).exit_code == 6
    assert len(_there(api, stage)) == 4
    assert stage.run(*WRONG, approved=refused.deletions).exit_code == 0
    assert _there(api, stage) == {"wrong-1", "wrong-2"}


def test_applied_anyway_the_set_keeps_all_objects(stage: Stage, api: Api) -> None:
    """The input is applied, the old objects stay listed, and the exit code is that of the guard."""
    stage.run(*_many(3))
    story = stage.run(*WRONG, apply_anyway=True)
    assert story.exit_code == 6
    assert story.outcomes["configmap/wrong-1"] is Outcome.CREATED
    assert story.outcomes["configmap/c-0"] is Outcome.NOT_PRUNED
    assert len(_there(api, stage)) == len(stage.listed()) == 5


def test_delete_of_a_small_set_is_not_held(stage: Stage, api: Api) -> None:
    """It names the set, so that all of it goes."""
    stage.run(*_many(3))
    story = stage.run(mode=Mode.DELETE)
    assert (story.exit_code, set(story.outcomes.values())) == (0, {Outcome.DELETED})
    assert _there(api, stage) == set()


@pytest.mark.parametrize("dry", [DryRun.CLIENT, DryRun.SERVER])
def test_dry_run_refuses_as_the_run_does(stage: Stage, dry: DryRun) -> None:
    """With the same results of the same guards."""
    stage.run(*_many(3))
    looked, done = stage.run(*WRONG, dry_run=dry), stage.run(*WRONG)
    assert looked.exit_code == done.exit_code == 6
    assert looked.plan.guards == done.plan.guards
    assert looked.refusal == done.refusal


def test_command_line_names_the_guards(stage: Stage, tmp_path: Path) -> None:
    """Refused and lifted ones in every verb; those that pass only where one object is explained."""
    stage.run(*_many(3))
    wrong = write_input(tmp_path / "wrong.json", WRONG)
    call = ("apply", "web", "-n", stage.namespace, "-f", wrong)
    refused = applyprune(*call, kubeconfig=stage.kubeconfig)
    assert refused.code == 6
    assert "it would delete 3 objects: 2 guards refuse it\n" in refused.err
    assert "    nothing-in-common: the input has no object in common" in refused.err
    assert "    more-than-half: 3 deletions are more than half of the set's 3 live" in refused.err
    for dry in ("--dry-run", "--dry-run=client"):
        looked = applyprune(*call, "--max-prune=3", dry, kubeconfig=stage.kubeconfig)
        assert looked.code == 0
        assert "guard nothing-in-common lifted by --max-prune 3: the input has no" in looked.err
    quiet = applyprune(*call, "--max-prune=3", "--dry-run", "-q", kubeconfig=stage.kubeconfig)
    assert "guard" not in quiet.err
    diff = applyprune("diff", *call[1:], "--max-prune=3", kubeconfig=stage.kubeconfig)
    assert "guard more-than-half lifted by --max-prune 3" in diff.err
    explain = ("explain", "web", "configmap/c-0", *call[2:], "-v")
    told = applyprune(*explain, kubeconfig=stage.kubeconfig)
    assert "guard max-prune passed: 3 deletions are not more than 5" in told.out
    assert "3 deletions are more than half of the set's 3 live objects" in told.out
    done = applyprune(*call, "--max-prune=3", kubeconfig=stage.kubeconfig)
    assert done.code == 0
    assert "guard more-than-half lifted by --max-prune 3" in done.err
    assert "passed" not in done.err
