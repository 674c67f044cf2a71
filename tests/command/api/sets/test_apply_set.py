"""The calls of an ApplySet on a real API server."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from applyprune import (
    ApplyOptions,
    ApplySet,
    Cancellation,
    ConflictsFound,
    DryRun,
    Forbidden,
    InputError,
    Interrupted,
    NotReady,
    ObjectDone,
    Outcome,
    PruneLimit,
    PruneOptions,
    PruneRefused,
    RunFailed,
    Status,
    StatusOptions,
    UsageError,
    WaitMode,
    WaitOptions,
    connect,
    load,
)
from applyprune.cluster.access import cluster_access
from applyprune.model.events import ApplySetListed, Event, Finished, Planned
from applyprune.model.fate import Fate
from applyprune.model.options import Conflicts
from applyprune.output.printers import OutputTarget, discard, printer
from applyprune.planning.marks import WAVE
from applyprune.values import replace
from tests.support.clocks import ManualClock
from tests.support.command import applyprune
from tests.support.objects import config_map, text
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from applyprune import ClusterConnection, Input, RunReport
    from applyprune.localplane import Plane
    from tests.support.api import Api


def _outcomes(report: RunReport) -> list[Outcome | None]:
    return [one.outcome for one in report.objects]


def _path(web: ApplySet, name: str) -> str:
    return f"/api/v1/namespaces/{web.namespace}/configmaps/{name}"


def settings(*names: str, value: str = "v") -> Input:
    """Return ConfigMaps."""
    return load(objects=[config_map(name, value) for name in names])


def test_apply_reports_every_object(web: ApplySet) -> None:
    """Once as created, then as unchanged."""
    report = web.apply(settings("a", "b"))
    assert {one.ref.short: one.outcome for one in report.objects} == {
        "configmap/a": Outcome.CREATED,
        "configmap/b": Outcome.CREATED,
    }
    assert (len(report.changed), report.exit_code, report.problems) == (2, 0, [])
    report.raise_for_failures()
    again = web.apply(settings("a", "b"))
    assert (len(again.objects), again.changed, again.exit_code) == (2, [], 0)


def test_timeout_limits_the_wait_and_failure_is_raised_on_demand(web: ApplySet) -> None:
    """Not ready in time: the report says so, and ``raise_for_failures`` raises it."""
    given = config_map("a", annotations={"applyprune.dev/ready-when": "has(self.data)"})
    (ready,) = web.apply(given, wait=WaitOptions(WaitMode.ALL, timeout=3600)).objects
    assert ready.readiness is not None
    assert ready.readiness.status is Status.CURRENT
    never = config_map("never", annotations={"applyprune.dev/ready-when": "false"})
    report = web.apply([given, never], wait=True, timeout=0.5)
    assert report.exit_code == 5
    with pytest.raises(NotReady, match="not ready or not deleted before the timeout") as caught:
        report.raise_for_failures()
    assert caught.value.exit_code == report.exit_code
    assert any("configmap/never" in note for note in caught.value.__notes__)


def test_apply_prunes_what_left_the_input(web: ApplySet) -> None:
    """And not more than it may; ``prune`` applies nothing, and a dry run does neither."""
    web.apply(settings(*"abcdefgh"))
    refused = web.apply(settings("a", "b"), prune=PruneOptions(max_prune=PruneLimit(2, 0)))
    assert (refused.exit_code, refused.changed) == (6, [])
    with pytest.raises(PruneRefused, match="nothing was deleted"):
        refused.raise_for_failures()
    allowed = PruneOptions(max_prune=PruneLimit(6, 0))
    tried = web.apply(settings("a", "b"), prune=allowed, dry_run=DryRun.SERVER)
    pruned = web.apply(settings("a", "b"), prune=allowed)
    for report in (tried, pruned):
        assert _outcomes(report).count(Outcome.PRUNED) == len(report.changed) == 6
    assert {ref.short for ref in web.inventory().entries} == {"configmap/a", "configmap/b"}
    report = web.prune(settings("a", value="other"))
    assert {one.ref.short: one.outcome for one in report.changed} == {"configmap/b": Outcome.PRUNED}


def test_diff_shows_what_an_apply_would_change(web: ApplySet) -> None:
    """Prunes included, and without what is ignored."""
    web.apply(settings("a", "b"))
    fresh = settings("a", value="new")
    changed = {one.ref.short: one for one in web.diff(fresh)}
    assert changed.keys() == {"configmap/a", "configmap/b"}
    before, after = changed["configmap/a"].before, changed["configmap/a"].after
    assert (before or {})["data"] == {"key": "v"}
    assert (after or {})["data"] == {"key": "new"}
    assert changed["configmap/b"].fate is Fate.PRUNE
    lines = changed["configmap/a"].unified().splitlines()
    name = f"{web.namespace}/configmap/a"
    assert lines[:2] == [f"--- live/{name}", f"+++ merged/{name}"]
    assert [line for line in lines[2:] if line[0] in "+-"] == ["-  key: v", "+  key: new"]
    rest = web.diff(fresh, options=ApplyOptions(ignore=("configmap:/data/key",)))
    # Of the other one, only the owner of that field changes.
    assert [one.ref.short for one in rest if one.before != one.after] == ["configmap/b"]
    assert web.apply(settings("a", "b")).changed == []


def test_diff_raises_what_would_fail(web: ApplySet) -> None:
    """The caller must not take it for a complete answer."""
    web.apply(settings("a"))
    with pytest.raises(RunFailed) as caught:
        web.diff(load(objects=[config_map("Not-A-Name")]))
    assert "configmap/Not-A-Name" in "".join(caught.value.__notes__)


def test_status_names_what_has_drifted(web: ApplySet, api: Api) -> None:
    """Each object once, in its latest state."""
    web.apply(settings("a", "b"))
    api.patch(_path(web, "a"), {"data": {"key": "theirs"}})
    found = {one.ref.short: one for one in web.status(drift=True, wait=True, timeout=3600)}
    assert {name: one.drifted for name, one in found.items()} == {
        "configmap/a": True,
        "configmap/b": False,
    }
    assert [one.path for one in found["configmap/a"].drift] == ["/data/key"]


def test_set_is_listed_explained_and_deleted(web: ApplySet) -> None:
    """It is explicit already, so nobody is asked; to delete twice is no failure."""
    web.apply(settings("a"))
    inventory = web.inventory()
    assert [ref.short for ref in inventory.entries] == ["configmap/a"]
    assert inventory.last is not None
    assert inventory.last.exit_code == 0
    (kept,) = web.explain("configmap/a", settings("a"))
    (left,) = web.explain("configmap/a")
    assert "unchanged" in kept.verdict
    assert "it would be deleted" in left.verdict
    assert {one.outcome for one in web.delete().changed} == {Outcome.DELETED}
    assert not web.inventory().exists
    assert web.delete().exit_code == 0


def test_conflict_is_raised_with_its_own_class(web: ApplySet, api: Api) -> None:
    """And the field manager is named in the problem. The text of an enum is that option."""
    web.apply(settings("a"))
    api.apply(_path(web, "a"), config_map("a", "theirs"), by="other", force=True)
    given, texts = settings("a", value="ours"), ApplyOptions(conflicts="fail", take_over=["nobody"])  # type: ignore[arg-type]
    report = web.apply(given, options=texts, dry_run="none")  # type: ignore[arg-type]
    assert report.exit_code == 4
    with pytest.raises(ConflictsFound):
        report.raise_for_failures()
    (problem,) = report.problems
    assert [one.manager for one in problem.conflicts] == ["other"]
    forced = web.apply(settings("a", value="ours"), options=ApplyOptions(conflicts=Conflicts.FORCE))
    assert forced.exit_code == 0


def test_problem_of_an_object_points_into_the_file(web: ApplySet, tmp_path: Path) -> None:
    """What the server refuses is found in the file as well."""
    file = tmp_path / "service.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\nspec:\n  ports: [{port: 99999}]\n"
    )
    report = web.apply(load(file, objects=[config_map("a")]))
    # The check is the default: without it, the rest is applied.
    assert (report.exit_code, report.changed, web.inventory().exists) == (3, [], False)
    (problem,) = report.problems
    assert problem.origin is not None
    assert (problem.origin.path, problem.origin.line) == (str(file), 6)
    assert "6 |" in problem.excerpt
    file.write_text("apiVersion: v1\nkind: ConfgMap\nmetadata:\n  name: web\n")
    with pytest.raises(InputError) as caught:
        web.apply(load(file))
    assert str(caught.value).startswith(f"{file}:2:")
    assert "2 | kind: ConfgMap" in str(caught.value)


def test_missing_right_is_raised(plane: Plane, namespace: str) -> None:
    """As the class that a caller may catch; the access is of the caller's own making."""
    admin = cluster_access(kubeconfig=str(plane.kubeconfig), environ={})
    access = replace(admin, impersonation=(("Impersonate-User", "nobody"),))
    with connect(access=access, namespace=namespace, cache=False) as cluster:
        assert cluster.server == plane.server
        with pytest.raises(Forbidden) as caught:
            ApplySet("web", cluster=cluster).apply(settings("a"))
        assert caught.value.exit_code == 7


def test_access_excludes_a_context(plane: Plane) -> None:
    """One of them would be ignored."""
    access = cluster_access(kubeconfig=str(plane.kubeconfig), environ={})
    with pytest.raises(UsageError, match="takes either an access, or a context"):
        connect("prod", access=access)


def test_objects_that_are_no_manifests_are_refused() -> None:
    """All errors at once, each with the place of its object."""
    with pytest.raises(InputError, match="not plain JSON data"):
        load(objects=[{"apiVersion": "v1", "kind": "ConfigMap", "data": {"time": object()}}])
    with pytest.raises(InputError, match=r"objects\[1\]: not a Kubernetes object"):
        load(objects=[config_map("a"), {"a": 1}])


def test_methods_take_plain_objects(web: ApplySet) -> None:
    """One, several, and beside manifests; they are read as by ``load``."""
    one, two = config_map("a", "v"), config_map("b", "v")
    assert _outcomes(web.apply(one)) == [Outcome.CREATED]
    assert [each.ref.name for each in web.diff([one, two])] == ["b"]
    assert [each.ref.name for each in web.diff(iter([one, two]))] == ["b"]
    assert _outcomes(web.apply([*load(objects=one), two])) == [Outcome.UNCHANGED, Outcome.CREATED]
    (told,) = web.explain("configmap/b", [one, two])
    assert "unchanged" in told.verdict
    assert _outcomes(web.prune(one)) == [Outcome.PRUNED]


WRONG: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"conflicts": "bogus"}, {}),
    ({"conflicts": None}, {}),
    ({"adopt": True}, {}),
    ({"take_over": "kubectl"}, {}),
    ({"recreate": "no"}, {}),
    ({}, {"enabled": "false"}),
    ({}, {"max_prune": 4}),
    ({}, {"orphan": "configmap/a"}),
    ({}, {"also": {"adopted", "other"}}),
    ({}, {"propagation": "orphan"}),
]


def test_option_of_another_type_is_refused(web: ApplySet) -> None:
    """Before anything is read: it must never be taken for the option that allows more."""
    for options, prune in WRONG:
        ((name, _),) = [*options.items(), *prune.items()]
        apply, others = ApplyOptions(**options), PruneOptions(**prune)
        for call in (web.apply, web.plan, web.diff, web.prune):
            with pytest.raises(UsageError, match=rf"^an option is invalid: (apply|prune)\.{name}"):
                call(settings("a"), options=apply, prune=others)
    assert not web.inventory().exists


@pytest.mark.parametrize(
    "dry_run",
    [pytest.param(None, marks=pytest.mark.holds("options-of-a-program")), "off", 1],
)
def test_dry_run_of_another_type_is_refused(web: ApplySet, dry_run: Any) -> None:
    """It would be a dry run, as whatever is not DryRun.OFF; the error names the right values."""
    valid = "use none, client, server"
    with pytest.raises(UsageError, match=rf"^an option is invalid: dry_run: .*{valid}"):
        web.apply(settings("a"), dry_run=dry_run)


def test_dry_run_and_wait_are_words_of_python(web: ApplySet) -> None:
    """True is a dry run by the server; a text for ``wait`` would count as true."""
    assert web.apply(settings("a"), dry_run=True).changed
    assert not web.inventory().exists
    with pytest.raises(UsageError, match="wait: 'no' is not True, False, None or WaitOptions"):
        web.apply(settings("a"), wait="no")  # type: ignore[arg-type]
    assert not web.inventory().exists
    report = web.apply(settings("a"), dry_run=False, wait=False)
    assert web.inventory().exists
    assert str(report).splitlines()[0].split() == ["NAMESPACE", "OBJECT", "OUTCOME", "REASON"]
    assert str(report).splitlines()[-1] == "web: 1 created; exit code 0"
    assert "<td>created</td>" in report._repr_html_()


@pytest.mark.parametrize("wrong", ["manifests/", b"a", Path("a"), 1, None])
def test_input_without_objects_is_refused(cluster: ClusterConnection, wrong: Any) -> None:
    """In one sentence; a path is not read by surprise."""
    with pytest.raises(UsageError, match=r"^objects are expected, and not "):
        ApplySet("web", cluster=cluster).apply(wrong)
    with pytest.raises(InputError, match=r"objects\[0\]: "):
        ApplySet("web", cluster=cluster).apply([wrong])
    with pytest.raises(UsageError, match="invalid set name 'Web'"):
        ApplySet("Web", cluster=cluster)


def test_objects_are_copied_and_lists_expanded() -> None:
    """Who changes an object later changes no manifest."""
    body = config_map("a")
    given = load(objects=[{"apiVersion": "v1", "kind": "List", "items": [body, config_map("b")]}])
    body["metadata"]["name"] = "changed"
    assert [one.name for one in given] == ["a", "b"]


def test_load_reads_paths_and_builds(tmp_path: Path) -> None:
    """In the order that they are given."""
    (tmp_path / "one.yaml").write_text(text(config_map("one")))
    (tmp_path / "two.yaml").write_text(text(config_map("two")))
    given = load(tmp_path / "two.yaml", str(tmp_path / "one.yaml"), objects=[config_map("three")])
    assert [one.name for one in given] == ["two", "one", "three"]


def test_calls_print_nothing_and_leave_signals_alone(
    web: ApplySet, capfd: pytest.CaptureFixture[str]
) -> None:
    """Even when they fail, even in the middle of a run."""
    before = _handlers()
    seen = {_handlers() for _ in web.iter_apply(settings("a"), wait=True)}
    web.apply(load(objects=[config_map("Bad")]))
    web.diff(settings("a"))
    web.status(drift=True)
    web.delete()
    assert seen == {before}
    assert capfd.readouterr() == ("", "")


def _handlers() -> tuple[object, ...]:
    return tuple(signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM))


def test_calls_work_in_any_thread(web: ApplySet) -> None:
    """Only the main thread could install a signal handler."""
    reports = []
    worker = Thread(target=lambda: reports.append(web.apply(settings("a"))))
    worker.start()
    worker.join(HANG)
    assert [one.exit_code for one in reports] == [0]


@pytest.mark.holds("summary-clock")
def test_time_of_a_question_does_not_count(web: ApplySet) -> None:
    """Whoever gets the plan may ask somebody about it; any other time is the run's."""
    clock = ManualClock()
    for event in web.iter_apply(settings("a"), cancellation=Cancellation(clock)):
        if isinstance(event, Planned):
            clock.advance(3600)
        elif isinstance(event, ObjectDone):
            clock.advance(60)
    assert isinstance(event, Finished)
    assert 60 <= event.elapsed < 3600


def test_cancellation_ends_a_run_from_another_thread(web: ApplySet) -> None:
    """As Ctrl-C does, and no further wave begins; the next run goes on from there."""
    cancellation, begun = Cancellation(), Flag()

    def cancel() -> None:
        assert begun.wait(HANG)
        cancellation.request()

    canceller = Thread(target=cancel)
    canceller.start()
    first, later = ([f"{wave}{number}" for number in range(10)] for wave in "ab")
    waves = (
        *map(config_map, first),
        *(config_map(name, annotations={WAVE: "1"}) for name in later),
    )
    given, done = load(objects=waves), set()

    def follow() -> None:
        for event in web.iter_apply(given, cancellation=cancellation):
            if isinstance(event, ObjectDone):
                done.add(event.ref.name)
                begun.set()
                canceller.join(HANG)

    with pytest.raises(Interrupted) as caught:
        follow()
    assert (caught.value.exit_code, done <= {*first}) == (130, True)
    assert len(web.inventory().entries) == len(waves)
    again = web.apply(given)
    assert (again.exit_code, len(again.objects)) == (0, len(waves))
    assert web.apply(given).changed == []


def test_interrupted_run_of_an_approval_is_continued(web: ApplySet) -> None:
    """What is left to delete has another digest, and is a part of what was approved."""
    late = config_map("late", annotations={"applyprune.dev/wave": "1"})
    web.apply(load(objects=[config_map("a"), config_map("b"), late]))
    given = load(objects=[config_map("a")])
    strict = replace(PruneOptions(), max_prune=PruneLimit(count=0, percent=0.0))
    plan = web.plan(given, prune=strict).plan
    assert plan is not None
    approved = replace(strict, approved=plan.deletions)
    cancellation = Cancellation()
    events = web.iter_apply(given, prune=approved, cancellation=cancellation)
    next(one for one in events if isinstance(one, ObjectDone) and one.outcome is Outcome.PRUNED)
    # Also if it is killed now.
    recorded = web.inventory().approved
    assert recorded is not None
    assert recorded.digest == plan.deletions
    cancellation.request()
    with pytest.raises(Interrupted) as caught:
        list(events)
    assert caught.value.hint == "Run the same command again to continue."
    rest = web.plan(given, prune=strict).plan
    assert rest is not None
    assert rest.deletions not in {"", plan.deletions}
    done = web.apply(given, prune=approved)
    assert (done.exit_code, _outcomes(done).count(Outcome.PRUNED)) == (0, 1)
    assert web.inventory().approved is None


def test_cancellation_ends_a_status_that_waits(web: ApplySet) -> None:
    """A watch ends quietly; a wait that did not get its answer does not."""
    web.apply(load(objects=[config_map("a", annotations={"applyprune.dev/ready-when": "false"})]))
    cancellation = Cancellation()
    events: list[Event] = []
    for event in web.iter_status(StatusOptions(watch=True), cancellation=cancellation):
        events.append(event)
        if isinstance(event, ApplySetListed):
            cancellation.request()
    assert isinstance(events[-1], Finished)
    with pytest.raises(Interrupted):
        web.status(wait=True, cancellation=cancellation)


def test_stream_is_that_of_the_command(web: ApplySet, plane: Plane, tmp_path: Path) -> None:
    """Line by line, but for the run's id, the time, and that the name of the set is doubtful."""
    file = tmp_path / "set.yaml"
    file.write_text(text(config_map("a")))
    ours = _lines(web.iter_apply(load(file)))
    web.delete()
    arguments = ("apply", "web", "-n", web.namespace, "-f", file, "-o", "jsonl")
    theirs = applyprune(*arguments, kubeconfig=plane.kubeconfig)
    assert theirs.code == 0
    told = [line for line in theirs.out.splitlines() if '"NewSet"' not in line]
    assert ours == [_plain(line) for line in told]
    assert {"started", "object", "finished"} <= {one["event"] for one in ours}


def _lines(events: Iterable[Event]) -> list[Any]:
    lines: list[str] = []
    shown = printer("jsonl", OutputTarget(out=lines.append, err=discard))
    for event in events:
        shown.show(event)
    shown.close()
    return [_plain(line) for line in lines]


def _plain(line: str) -> Any:
    return json.loads(re.sub(r'"(run|elapsed)": ?("[^"]*"|[0-9.]+)', r'"\1": 0', line))
