"""When each set of a command runs, and what a failure stops: its dependents, and nothing else."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from applyprune.model.events import Event, Finished, Planned, Started, Waiting
from applyprune.model.fate import Outcome
from tests.support.api import Api, AuditTrail
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.objects import SERVICE, config_map
from tests.support.other_run import take_from_elsewhere
from tests.support.repository import Repository
from tests.support.set_folders import ManyStory, SetFolders, deleted
from tests.support.waiting import HANG
from tests.support.workloads import NOWHERE, workload

BALANCED = {**SERVICE, "spec": {**SERVICE["spec"], "type": "LoadBalancer"}}
"""Ready when somebody gives it an address."""
ADDRESS = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}


def begun(story: ManyStory) -> set[str]:
    """Return the sets of which a run has begun."""
    return {name for name, one in story.sets.items() if one.of(Started)}


def test_dependent_begins_when_all_that_it_needs_is_ready(
    sets: SetFolders, proxied: SetFolders, proxy: FaultProxy, api: Api
) -> None:
    """Applied is not enough; and nothing of it is read before."""
    sets.write("web", config_map("of-web"), dependsOn=["base"])
    sets.write("base", BALANCED)
    ready_after: list[int] = []

    def see(name: str, event: Event) -> None:
        if name == "base" and isinstance(event, Waiting) and not ready_after:
            ready_after.append(len(proxy.exchanges))
            path = f"{sets.stage('base').path('web', 'services')}/status"
            code, reply = api("PATCH", path, ADDRESS, content_type="application/merge-patch+json")
            assert code == 200, reply

    proxied.seen = see
    story = proxied.apply("--timeout", "1h")
    assert (story.end.exit_code, story.exit_codes) == (0, {"base": 0, "web": 0})
    about = [at for at, one in enumerate(proxy.exchanges) if "-web" in one.path]
    assert ready_after
    assert min(about) > ready_after[0]
    assert list(story.sets) == ["base", "web"]


def test_set_that_never_gets_ready_stops_its_dependents_alone(sets: SetFolders) -> None:
    """Through several steps, each of which is named; the next command goes on."""
    sets.write("base", workload("Deployment", "slow", pods=NOWHERE))
    sets.write("api", config_map("of-api"), dependsOn=["base"])
    sets.write("web", config_map("of-web"), dependsOn=["api", "other"])
    sets.write("other", config_map("of-other"))
    story = sets.apply("--timeout", "1s")
    assert story.exit_codes == {"base": 5, "api": 3, "web": 3, "other": 0}
    assert begun(story) == {"base", "other"}
    base, api, web = (f"{sets.namespace}/{name}" for name in ("base", "api", "web"))
    assert f"the set {api} was not run" in story.errors("api")
    assert f"it depends on {base}, which has failed" in story.errors("api")
    assert f"it depends on {api}, which was not run, because {base} has failed" in (
        story.errors("web")
    )
    assert story.end.exit_code == 5, "what was not run adds no code"
    assert story.end.problem is not None
    assert story.end.problem.message == f"3 of the 4 sets failed: {base}, {api}, {web}"
    sets.write("base", config_map("quick"))
    again = sets.apply()
    assert again.end.exit_code == 0
    assert set(again.outcomes.values()) == {"created", "unchanged", "pruned"}


def test_refused_set_stops_its_dependents_alone(sets: SetFolders, api: Api) -> None:
    """An object that belongs to somebody else is no reason to stop others."""
    api.create(sets.stage("base").path(), config_map("theirs"))
    sets.write("base", config_map("theirs"), adopt="none")
    sets.write("web", config_map("of-web"), dependsOn=["base"])
    sets.write("other", config_map("of-other"))
    story = sets.apply()
    assert story.exit_codes == {"base": 3, "web": 3, "other": 0}
    assert story.end.exit_code == 3
    assert not api.exists(sets.stage("web").path("of-web"))


@pytest.mark.parametrize("fault", ["no YAML", "no object"])
def test_set_that_cannot_be_read_fails_alone(sets: SetFolders, api: Api, fault: str) -> None:
    """What it needs has run; what needs it does not."""
    sets.write("base", config_map("of-base"))
    sets.write("web", dependsOn=["base"])
    if fault == "no YAML":
        (sets.folder / "web" / "m.json").write_text("{")
    sets.write("late", config_map("of-late"), dependsOn=["web"])
    sets.write("other", config_map("of-other"))
    story = sets.apply()
    assert story.exit_codes == {"base": 0, "other": 0, "web": 2, "late": 3}
    assert begun(story) <= {"base", "other", "web"}
    assert [name for name in sets.listed("base", "late", "other") if sets.stage(name).listed()] == [
        "base",
        "other",
    ]


def test_locked_set_waits_and_holds_up_no_other_one(sets: SetFolders) -> None:
    """Its lock is free only when the other set has ended."""
    sets.write("web", config_map("of-web", "1"))
    sets.write("other", config_map("of-other"))
    sets.apply()
    take_from_elsewhere(sets.stage("web"))
    sets.write("web", config_map("of-web", "2"))

    def see(name: str, event: Event) -> None:
        if name == "other" and isinstance(event, Finished):
            take_from_elsewhere(sets.stage("web"), None)

    sets.seen = see
    story = sets.apply()
    assert story.exit_codes == {"other": 0, "web": 0}
    assert story.outcomes == {"other/of-other": "unchanged", "web/of-web": "updated"}


def test_set_that_stays_locked_fails_alone(sets: SetFolders) -> None:
    """Who holds it is named, and its dependents do not run."""
    sets.write("web", config_map("of-web", "1"))
    sets.apply()
    take_from_elsewhere(sets.stage("web"))
    sets.write("web", config_map("of-web", "2"), lock__timeout="1s")
    sets.write("late", config_map("of-late"), dependsOn=["web"])
    sets.write("other", config_map("of-other"))
    story = sets.apply()
    assert story.exit_codes == {"web": 8, "late": 3, "other": 0}
    assert "is locked by another run" in story.errors("web")
    assert begun(story) == {"web", "other"}


def test_independent_sets_overlap(sets: SetFolders, proxied: SetFolders, proxy: FaultProxy) -> None:
    """No first write of a set is answered before each of the others has sent one."""
    names = [f"s-{number}" for number in range(4)]
    for name in names:
        sets.write(name, config_map(f"of-{name}"))
    meet, met, lock = threading.Barrier(len(names)), set[str](), threading.Lock()

    def hold(seen: Exchange) -> None:
        if seen.method != "PATCH" or "dryRun" in seen.query:
            return
        with lock:
            is_first = seen.path not in met
            met.add(seen.path)
        if is_first:
            meet.wait(HANG)

    proxy.before_reply = hold
    assert proxied.apply().end.exit_code == 0
    assert len(met) == len(names)


def test_dry_run_waits_for_no_set(sets: SetFolders) -> None:
    """All is planned by the same state of the cluster, and a failure stops nothing."""
    sets.write("base")
    sets.write("web", config_map("of-web"), dependsOn=["base"])
    story = sets.plan()
    assert story.exit_codes == {"base": 2, "web": 0}
    assert [one.plan for one in story.sets["web"].of(Planned)]
    assert story.sets["web"].outcomes == {"configmap/of-web": Outcome.CREATED}


def test_set_that_a_change_does_not_concern_holds_up_nothing(
    sets: SetFolders, audit: AuditTrail, tmp_path: Path
) -> None:
    """It is not run; those around it keep their order, also for their prunes.

    What the far one needs through it must be ready.
    """
    repository = Repository(tmp_path / "repository")
    sets.folder = repository.root / "sets"
    needs = {"a": [], "b": ["a"], "c": ["b"]}
    for name, on in needs.items():
        sets.write(name, config_map(f"of-{name}"), config_map(f"old-of-{name}"), dependsOn=on)
    repository.commit()
    assert sets.apply().end.exit_code == 0
    for name in ("a", "c"):
        sets.write(name, config_map(f"of-{name}"), dependsOn=needs[name])
    audit.restart()
    story = sets.apply(since="HEAD")
    assert story.exit_codes == {"a": 0, "c": 0}
    assert deleted(audit, sets.namespace) == ["old-of-c", "old-of-a"]
    for name in ("a", "c"):
        slow = workload("Deployment", f"slow-{name}", pods=NOWHERE)
        sets.write(name, config_map(f"of-{name}"), slow, dependsOn=needs[name])
    story = sets.apply("--timeout", "1s", since="HEAD")
    assert story.exit_codes == {"a": 5, "c": 3}
    b = f"{sets.namespace}/b"
    assert f"it depends on {b}, which was not run, because {sets.namespace}/a" in story.errors("c")
