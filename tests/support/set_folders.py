"""A folder of sets on a real API server, for the stories of one command over all of them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from applyprune.cli.many_runs import Inputs, PlansOutput, many_sets, run_many
from applyprune.cli.reporting import Reporting, with_finished
from applyprune.cli.run import apply, plan
from applyprune.cli.target import ClusterTarget
from applyprune.model.events import ErrorRaised, Event, Finished, SetEvent, WarningRaised
from applyprune.model.options import DryRun, Mode
from applyprune.planning.approval import PlanFile
from applyprune.sources.folders import API_VERSION, KIND
from applyprune.sources.plan_files import read_plans
from applyprune.values import replace
from tests.support.command import Ended, applyprune
from tests.support.input_files import write_input
from tests.support.stage import Stage, Story

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import click

    from applyprune.cli.many_sets import SetCall
    from applyprune.model.identity import SetKey
    from applyprune.model.options import Options
    from applyprune.planning.approval import Consent
    from tests.support.api import AuditTrail


class ManyStory(Struct, frozen=True):
    """The events of one command over many sets."""

    events: tuple[Event, ...]

    @property
    def sets(self) -> dict[str, Story]:
        """Return the events of each set, by its name, in the order in which they came."""
        found: dict[str, list[Event]] = {}
        for one in self.events:
            if isinstance(one, SetEvent):
                found.setdefault(one.key.name, []).append(one.event)
        return {name: Story(tuple(events)) for name, events in found.items()}

    @property
    def exit_codes(self) -> dict[str, int]:
        """Return the exit code of each set, by its name."""
        return {name: one.exit_code for name, one in self.sets.items()}

    @property
    def outcomes(self) -> dict[str, str]:
        """Return the outcome of each object, by ``set/name``."""
        return {
            f"{name}/{short.rpartition('/')[2]}": str(outcome)
            for name, story in self.sets.items()
            for short, outcome in story.outcomes.items()
        }

    @property
    def end(self) -> Finished:
        """Return the last event of the command."""
        (found,) = (one for one in self.events if isinstance(one, Finished))
        assert found is self.events[-1]
        return found

    @property
    def warnings(self) -> list[str]:
        """Return the warnings about the command as a whole."""
        return [str(one.problem) for one in self.events if isinstance(one, WarningRaised)]

    def errors(self, name: str) -> str:
        """Return what ended the run of a set."""
        return "\n".join(str(one.problem) for one in self.sets[name].of(ErrorRaised))


class SetFolders(Struct):
    """A folder for each set, below one, and the calls that a person makes there."""

    folder: Path
    kubeconfig: Path
    namespace: str
    seen: Callable[[str, Event], None] = lambda _name, _event: None
    """Is called with each event of a set, and its name."""

    def write(self, name: str, *bodies: dict[str, Any], **keys: Any) -> None:
        """Write the files of a set; ``keys`` are those of ``applyprune.yaml``, with ``_``."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        said = {key.replace("__", "-"): value for key, value in keys.items()}
        head = {"apiVersion": API_VERSION, "kind": KIND, "name": name, "filename": ["m.json"]}
        file = json.dumps({**head, "namespace": self.namespace, **said})
        (folder / "applyprune.yaml").write_text(file)
        write_input(folder / "m.json", bodies)

    def remove(self, name: str) -> None:
        """Remove the files of a set."""
        shutil.rmtree(self.folder / name)

    def stage(self, name: str, namespace: str = "") -> Stage:
        """Return one of the sets."""
        return Stage(self.kubeconfig, namespace or self.namespace, name=name)

    def listed(self, *names: str) -> dict[str, set[str]]:
        """Return the names of what each set lists."""
        return {name: {ref.name for ref in self.stage(name).inventory().entries} for name in names}

    def apply(
        self,
        *words: str,
        since: str | None = None,
        plans: Path | None = None,
        agreed: Mapping[SetKey, Consent] | None = None,
    ) -> ManyStory:
        """Apply all sets in this process; ``words`` are options of the command line.

        ``plans`` is a file that the run is bound to, and ``agreed`` what somebody has agreed to.
        """
        return self._run(apply, words, since, plans=plans, agreed=agreed, mode=Mode.APPLY)

    def plan(self, *words: str, since: str | None = None, out: Path | None = None) -> ManyStory:
        """Make a dry run of all sets in this process; write the plans to a file."""
        how = Reporting(quiet=True)
        output = PlansOutput(how, str(self.folder), str(out), 3600.0) if out else None
        return self._run(plan, words, since, output=output, dry_run=DryRun.SERVER)

    def call(self, *words: str | Path) -> Ended:
        """Run a command in a process of its own, in the folder above the sets."""
        return applyprune(*words, kubeconfig=self.kubeconfig, cwd=self.folder.parent)

    def _run(
        self,
        verb: click.Command,
        words: tuple[str, ...],
        since: str | None,
        *,
        plans: Path | None = None,
        agreed: Mapping[SetKey, Consent] | None = None,
        output: PlansOutput | None = None,
        **options: Any,
    ) -> ManyStory:
        folder, target = str(self.folder), ClusterTarget(str(self.kubeconfig), "", "")

        def options_of(call: SetCall) -> Options:
            found: Options = call.values["options"]
            return replace(found, **options)

        said: list[Event] = []
        with verb.make_context("applyprune", ["--all-in", folder, *words]) as made:
            bound = None if plans is None else read_plans(plans)
            assert not isinstance(bound, PlanFile)
            many = many_sets(made, folder, since, target, Reporting(quiet=True), bound)
            events = run_many(many, options_of, Inputs(many), agreed=agreed, output=output)
            for event in with_finished(events):
                said.append(event)
                if isinstance(event, SetEvent):
                    self.seen(event.key.name, event.event)
        return ManyStory(tuple(said))


def deleted(audit: AuditTrail, namespace: str) -> list[str]:
    """Return the names of the objects of a namespace that were deleted, in their order."""
    return [
        one["objectRef"]["name"]
        for one in audit.ours()
        if one["verb"] == "delete"
        and one["objectRef"].get("namespace") == namespace
        and not one["requestObject"].get("dryRun")
    ]
