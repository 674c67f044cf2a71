"""A command over three sets is killed at any request, or interrupted: the same command mends it."""

from __future__ import annotations

import itertools
import json
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from applyprune.model.inventory import Ownership
from applyprune.planning.applyset import PART_OF
from tests.support.api import Api
from tests.support.fault_proxy import Exchange, FaultProxy
from tests.support.interrupt import interrupt_at
from tests.support.kill import Moment, kill_at, kill_at_first
from tests.support.live import config_maps
from tests.support.objects import config_map
from tests.support.set_folders import SetFolders

KINDS = ("base", "web", "other")


class Trial:
    """Three sets in a namespace: web needs base; x moves there from base, and old leaves base."""

    def __init__(self, sets: SetFolders, api: Api, number: int) -> None:
        """Apply what was before, and write what comes next."""
        self.sets = SetFolders(sets.folder / str(number), sets.kubeconfig, sets.namespace)
        self.api, self.number = api, number
        self.write_back()
        assert self.sets.apply().end.exit_code == 0
        self.x = self.there()[self.name("x")]
        self._write(base=["same", "changes"], web=["stays", "x"], other=["kept", "new"], value="2")

    def write_back(self) -> None:
        """Write what was before."""
        self._write(base=["same", "changes", "old", "x"], web=["stays"], other=["kept", "gone"])

    def name(self, name: str) -> str:
        """Return a name of this trial."""
        return f"{name}-{self.number}"

    def _write(self, value: str = "1", **layout: list[str]) -> None:
        self.layout = {name: {self.name(one) for one in has} for name, has in layout.items()}
        for name, has in layout.items():
            bodies = [config_map(self.name(one), value if one == "changes" else "1") for one in has]
            needs = [self.name("base")] if name == "web" else []
            self.sets.write(self.name(name), *bodies, dependsOn=needs)

    @property
    def command(self) -> list[str | Path]:
        """Return the command."""
        return ["apply", "--all-in", self.sets.folder]

    def there(self) -> dict[str, str]:
        """Return the UIDs of the objects that exist, without inventories."""
        ending = f"-{self.number}"
        return {
            name: one["metadata"]["uid"]
            for name, one in config_maps(self.api, self.sets.namespace).items()
            if name.endswith(ending) and not name.startswith("applyprune-")
        }

    def recovers(self, where: str) -> None:
        """Run the command again; fail unless all is as if it had never been killed."""
        before = self.there()
        # An object with a set's label is in its inventory, at every moment.
        for name, stage in ((one, self.sets.stage(self.name(one))) for one in self.layout):
            assert self._labelled(name) <= {ref.name for ref in stage.inventory().entries}, where
        story = self.sets.apply()
        assert story.end.exit_code == 0, (where, story.events)
        after = self.there()
        assert after.keys() == set().union(*self.layout.values()), where
        assert after[self.name("x")] == self.x, where
        assert {name: uid for name, uid in before.items() if name in after}.items() <= (
            after.items()
        ), where
        for name, has in self.layout.items():
            stage = self.sets.stage(self.name(name))
            entries = stage.inventory().entries.values()
            assert {one.ref.name: one.uid for one in entries} == {one: after[one] for one in has}
            assert {one.ownership for one in entries} == {Ownership.OWNED}, where
            assert self._labelled(name) == has, where
        again = self.sets.apply()
        assert set(again.outcomes.values()) == {"unchanged"}, where

    def _labelled(self, name: str) -> set[str]:
        label = self.sets.stage(self.name(name)).target.id
        return {
            one
            for one, body in config_maps(self.api, self.sets.namespace).items()
            if (body["metadata"].get("labels") or {}).get(PART_OF) == label
        }


def sends(method: str, words: str) -> Callable[[Exchange], bool]:
    """Return what picks a request for an object that is no dry run."""

    def is_it(seen: Exchange) -> bool:
        is_dry = "dryRun" in seen.query or b"dryRun" in seen.body
        return seen.method == method and words in seen.path and not is_dry

    return is_it


is_deletion = sends("DELETE", "/")


MOMENTS = {
    "when web has the union, and not x": (sends("PUT", "applyprune-web"), Moment.AFTER),
    "when x has changed its set": (sends("PATCH", "/x-"), Moment.AFTER),
    "before x changes its set": (sends("PATCH", "/x-"), Moment.BEFORE),
    "before the old one is deleted": (sends("DELETE", "/old-"), Moment.BEFORE),
    "when the old one is deleted": (sends("DELETE", "/old-"), Moment.AFTER),
    "when another set has begun": (sends("PATCH", "/new-"), Moment.AFTER),
}


@pytest.mark.holds("owned-at-once", row="when x has changed its set")
@pytest.mark.parametrize(("is_meant", "moment"), MOMENTS.values(), ids=MOMENTS)
def test_command_killed_at_a_step_is_run_again(
    sets: SetFolders,
    proxy: FaultProxy,
    api: Api,
    tmp_path: Path,
    is_meant: Callable[[Exchange], bool],
    moment: Moment,
) -> None:
    """Between the steps of a move, and around the deletion of what others needed."""
    trial = Trial(sets, api, 0)
    kill_at_first(proxy, is_meant, moment, trial.command, proxy.kubeconfig(tmp_path))
    trial.recovers("")


def test_killed_command_is_taken_back(
    sets: SetFolders, proxy: FaultProxy, api: Api, tmp_path: Path
) -> None:
    """Somebody reverts the change, and applies: what has moved comes home."""
    trial = Trial(sets, api, 0)
    is_moved = sends("PATCH", "/x-")
    kill_at_first(proxy, is_moved, Moment.AFTER, trial.command, proxy.kubeconfig(tmp_path))
    trial.write_back()
    trial.recovers("")


@pytest.mark.sweep
@pytest.mark.parametrize("back", [False, True], ids=["run again", "taken back"])
@pytest.mark.parametrize("moment", list(Moment))
def test_command_killed_at_each_request_is_mended(
    sets: SetFolders, proxy: FaultProxy, api: Api, tmp_path: Path, moment: Moment, back: bool
) -> None:
    """Until a command finishes: the last one has been killed at no request."""
    for number in itertools.count(1):
        trial = Trial(sets, api, number)
        killed = kill_at(proxy, number, moment, trial.command, proxy.kubeconfig(tmp_path))
        if back:
            trial.write_back()
        trial.recovers(f"{moment} {killed}")
        if killed is None:
            break
    assert number > 40


CUT = {
    "before the second runs": sends("PATCH", "/x-"),
    "in a second run": sends("DELETE", "/old-"),
}


@pytest.mark.parametrize("is_meant", CUT.values(), ids=CUT)
def test_signal_in_the_middle_leaves_the_rest_to_the_next_command(
    sets: SetFolders,
    proxy: FaultProxy,
    api: Api,
    tmp_path: Path,
    is_meant: Callable[[Exchange], bool],
) -> None:
    """What was in flight is recorded; nothing that was to come after it is done."""
    trial = Trial(sets, api, 0)
    kubeconfig = proxy.kubeconfig(tmp_path)
    ended = interrupt_at(proxy, is_meant, signal.SIGINT, trial.command, kubeconfig)
    assert ended.code == 130, ended
    deleted = [seen.path for seen in proxy.exchanges if is_deletion(seen)]
    assert any("/old-" in path for path in deleted) == (is_meant is CUT["in a second run"])
    trial.recovers("")


def test_signal_ends_what_runs_and_begins_no_other_set(
    sets: SetFolders, proxy: FaultProxy, api: Api, tmp_path: Path
) -> None:
    """Exit code 130; each set says whether it is done, and the next command goes on."""
    trial = Trial(sets, api, 0)
    ended = interrupt_at(
        proxy,
        sends("PATCH", "/changes-"),
        signal.SIGINT,
        [*trial.command, "-o", "jsonl"],
        proxy.kubeconfig(tmp_path),
    )
    assert ended.code == 130, ended
    events = [json.loads(line) for line in ended.out.splitlines()]
    codes = {
        one["set"]["name"]: one["exitCode"]
        for one in events
        if one["event"] == "finished" and one.get("set")
    }
    assert codes.keys() == {trial.name(name) for name in KINDS}
    assert codes[trial.name("web")] == 130
    begun = {one["set"]["name"] for one in events if one["event"] == "started"}
    assert trial.name("web") not in begun
    assert api.exists(sets.stage("base").path(trial.name("old")))
    assert trial.there()[trial.name("x")] == trial.x
    trial.recovers("")


def test_two_commands_at_a_time_do_all_once(sets: SetFolders, api: Api) -> None:
    """Whichever has a set first does it, and the other one waits, and finds nothing to do."""
    trial = Trial(sets, api, 0)
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(trial.sets.call, *trial.command) for _ in range(2)]
    for call in calls:
        ended = call.result()
        assert ended.code == 0, ended
    trial.recovers("")
