"""Every request of every verb is answered with a third party's 404, one at a time."""

from __future__ import annotations

import itertools
import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
import pytest

from applyprune.cli.main import cli, exit_code_of
from applyprune.localplane import API_SERVER_ONLY, start
from applyprune.sources import read
from applyprune.values import replace
from tests.support.api import Api
from tests.support.controller import BUNDLE_CRD
from tests.support.fault_proxy import FaultProxy
from tests.support.live import objects
from tests.support.other_run import take_from_elsewhere
from tests.support.renewals import Renewals, without_renewals
from tests.support.stage import Stage
from tests.support.waiting import eventually, next_second
from tests.sweeps.false_404 import Answer, fault_of, has_failed, is_write
from tests.sweeps.false_404_checks import (
    BUG,
    NO_SUCH_SET,
    Ended,
    Trial,
    check_listed,
    check_reports,
    check_state,
    records,
)
from tests.sweeps.false_404_verbs import BUNDLES, LEFT_OUT, VERBS, Site
from tests.sweeps.scenarios import named, other_set, prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from applyprune import ClusterConnection
    from applyprune.localplane import Binaries, Plane
    from tests.support.fault_proxy import Exchange, Fault
    from tests.sweeps.false_404_verbs import Verb

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
each_verb = pytest.mark.parametrize("verb", VERBS, ids=lambda one: one.id)


@pytest.fixture(scope="module")
def plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane of the module's own, with the CRD of Bundles."""
    folder = tmp_path_factory.mktemp("planes") / "false-404"
    with start(binaries, API_SERVER_ONLY, folder) as running:
        api = Api(running)
        (crd,) = read([str(BUNDLE_CRD)])
        assert api("POST", DEFINITIONS, crd.body)[0] == 201
        eventually(lambda: api("GET", BUNDLES.format("default"))[0] == 200, lambda: "the kind")
        api.close()
        yield running


@pytest.fixture
def api(plane: Plane) -> Iterator[Api]:
    """Plain requests to it."""
    with_plane = Api(plane)
    yield with_plane
    with_plane.close()


def test_every_command_that_talks_to_a_cluster_is_swept() -> None:
    """A new one that is forgotten in the table fails here."""
    found = {name for name, command in _commands(cli) if _talks(command)}
    assert found == {verb.command for verb in VERBS} | LEFT_OUT.keys()


def _commands(group: click.Group, *before: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, *before, name)
        else:
            yield " ".join((*before, name)), command


def _talks(command: click.Command) -> bool:
    return any("--kubeconfig" in one.opts for one in command.params)


@pytest.mark.parametrize("verb", [one for one in VERBS if one.writes], ids=lambda one: one.id)
def test_false_404_to_the_first_change_loses_nothing(
    plane: Plane, api: Api, namespace: str, tmp_path: Path, verb: Verb
) -> None:
    """The short form: the first write to an object, or to the inventory if that is all."""
    is_record = verb.command in {"inventory release", "inventory repair"}

    def is_meant(seen: Exchange, _: int) -> bool:
        return is_write(seen) and (is_record or seen.method in {"DELETE", "PATCH"})

    with opened_sweep(plane, api, namespace, tmp_path, verb) as sweep:
        sweep.spoil(sweep.trial("short"), is_meant, Answer.OWN)


@pytest.mark.sweep
@each_verb
def test_false_404_to_each_request_loses_nothing(
    plane: Plane, api: Api, namespace: str, tmp_path: Path, verb: Verb
) -> None:
    """Reads too."""
    with opened_sweep(plane, api, namespace, tmp_path, verb) as sweep:
        clean = sweep.clean()
        turns = [
            (number, answer)
            for number, seen in enumerate(clean, 1)
            # The answers take turns to reads, of which there are many, and alike.
            for answer in Answer
            if is_write(seen) or number % 2 == (answer is Answer.OWN)
        ]
        if verb.planned:
            # All plans first, because of the second.
            trials = iter([sweep.trial(f"set-{number}") for number in range(len(turns))])
        else:
            trials = (sweep.trial(f"set-{number}") for number in itertools.count())
        trial = None
        for number, answer in turns:
            trial = trial or next(trials)
            if not sweep.spoil(trial, _is_number(number), answer):
                trial = None


def _is_number(number: int) -> Callable[[Exchange, int], bool]:
    return lambda _seen, at: at == number


@contextmanager
def opened_sweep(
    plane: Plane, api: Api, namespace: str, folder: Path, verb: Verb
) -> Iterator[Sweep]:
    """Yield a sweep with a proxy and a connection of its own."""
    direct = Stage(plane.kubeconfig, namespace)
    with FaultProxy(plane) as proxy, direct.connection() as cluster:
        proxy.kubeconfig(folder)
        yield Sweep(proxy, cluster, api, namespace, folder, verb)


@dataclass(frozen=True, slots=True)
class Sweep:
    """One verb in one namespace, through a proxy."""

    proxy: FaultProxy
    cluster: ClusterConnection
    api: Api
    namespace: str
    folder: Path
    verb: Verb

    @property
    def kubeconfig(self) -> Path:
        """Return the kubeconfig that leads to the proxy."""
        return self.folder / "kubeconfig-through-proxy"

    def clean(self) -> Sequence[Exchange]:
        """Make the call without a fault; return its requests, without renewals."""
        trial = self.trial("clean")
        if self.verb.planned:
            # managedFields count in seconds, so an apply within the second of the one before its
            # plan cannot be told from it, and is refused.
            next_second()
        ended = self._run(trial.line)
        assert ended.code == self.verb.code, ended
        if self.verb.writes:
            check_state(trial, "without a fault")
        check_reports(trial, ended, "without a fault")
        return without_renewals(ended.requests)

    def spoil(
        self, trial: Trial, is_meant: Callable[[Exchange, int], bool], answer: Answer
    ) -> bool:
        """Spoil a request, check, make the call again if it has failed, and check the end.

        Return whether the run has written nothing: the set is as before, and can be used again.
        """
        spoiled: list[Exchange] = []
        renewals, numbers = Renewals(), itertools.count(1)

        def rule(seen: Exchange) -> Fault | None:
            if renewals.is_sent(seen) or not is_meant(seen, next(numbers)) or spoiled:
                return None
            spoiled.append(seen)
            return fault_of(seen, answer)

        before = trial.states()
        self.proxy.rule = rule
        ended = self._run(trial.line)
        self.proxy.rule = lambda _seen: None
        assert spoiled
        where = f"{trial.verb.id}: {answer} 404 to {spoiled}: {ended.code} {ended.events}"
        assert ended.code != BUG, where
        check_reports(trial, ended, where)
        check_listed(trial, where)
        if has_failed(spoiled[0], ended.requests):
            assert ended.code != 0, where
        if not any(is_write(seen) and seen.forwarded for seen in ended.requests):
            assert trial.states() == before, where
            # Nothing else is left to do.
            assert not trial.verb.writes or ended.code != trial.verb.code, where
            return True
        assert trial.verb.writes, where
        if ended.code != trial.verb.code or ended.is_partial:
            self._recover(trial, where)
        check_state(trial, where)
        return False

    def _recover(self, trial: Trial, where: str) -> None:
        """Make the call again, without a fault."""
        for one, inventory in zip(trial.sets, trial.inventories(), strict=True):
            # A run of this process that takes its lock for lost keeps it while the process lives.
            if inventory.holder is not None:
                take_from_elsewhere(one, None)
        # All was orphaned, and only the look at the inventory's deletion was spoiled.
        is_done = trial.verb.command == "inventory orphan" and not trial.inventories()[0].exists
        again = self._run(trial.again())
        assert again.code == (NO_SUCH_SET if is_done else trial.verb.code), (where, again)

    def trial(self, name: str) -> Trial:
        """Create the state before a call; the name is that of the set."""
        verb = self.verb
        stage = Stage(self.kubeconfig, self.namespace, name=name)
        owner = verb.owner.format(set=stage.name, namespace=stage.namespace)
        site = Site(replace(stage, owner=owner), self.api, self.folder)
        if verb.before:
            assert site.stage.run(*named(stage, verb.before)).exit_code == 0
        if verb.gives:
            assert other_set(stage).run(*named(stage, verb.gives)).exit_code == 0
        verb.prepare(site)
        line = verb.line(site)
        if verb.planned:
            file = self.folder / f"{name}.plan"
            planned = self._run([*verb.line(site, "plan"), "--out", str(file)])
            assert planned.code == 0, planned
            line += ["--plan", str(file)]
        there = objects(self.api, stage.namespace, prefix(stage))
        uids = {name: item["metadata"]["uid"] for name, item in there.items()}
        listed, labelled = records(site, self.cluster)
        return Trial(verb, site, line, uids, listed, labelled - listed, self.cluster)

    def _run(self, line: Sequence[str]) -> Ended:
        """Run the command in this process: starting one would take most of the time."""
        out = self.folder / "events.jsonl"
        out.unlink(missing_ok=True)
        arguments = [*line, "--kubeconfig", str(self.kubeconfig), "-o", f"jsonl={out}"]
        made = len(self.proxy.exchanges)

        def work() -> int:
            code = cli.main(arguments, standalone_mode=False, prog_name="applyprune")
            return code if isinstance(code, int) else 0

        code = exit_code_of(work)
        written = out.read_text().splitlines() if out.exists() else []
        return Ended(code, [json.loads(one) for one in written], self.proxy.exchanges[made:])
