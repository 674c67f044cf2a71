"""The guards that fit small sets: an unrelated input, and a prune of most of the set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from applyprune.model.fate import Outcome
from applyprune.model.options import Mode
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api, AuditTrail, writes
from tests.support.command import applyprune
from tests.support.input_files import write_input
from tests.support.objects import config_map, of_kind
from tests.support.stage import Stage

MERGE = "application/merge-patch+json"
WRONG = (config_map("wrong-1"), config_map("wrong-2"))


def _many(count: int) -> list[dict[str, Any]]:
    return [config_map(f"c-{number}") for number in range(count)]


def _there(api: Api, stage: Stage) -> set[str]:
    items = api.get(stage.path())["items"]
    return {item["metadata"]["name"] for item in items} - {"kube-root-ca.crt", "applyprune-web"}


@pytest.mark.parametrize(
    "mode", [pytest.param(Mode.APPLY, marks=pytest.mark.holds("nothing-in-common")), Mode.PRUNE]
)
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


@pytest.mark.holds("more-than-half")
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


@pytest.mark.holds("own-live-objects", row="being deleted")
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
