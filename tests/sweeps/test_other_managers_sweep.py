"""Other managers on every kind of a set: no field of theirs changes without a line about it."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import pytest

from applyprune.localplane import API_SERVER_ONLY, start
from applyprune.model.fate import Outcome
from applyprune.model.options import Conflicts, DryRun, PruneAlso
from applyprune.output.terminal import rendered
from tests.support.api import Api
from tests.support.objects import config_map, crd, custom_resource
from tests.support.output.printed import printed
from tests.support.samples import Sample
from tests.support.stage import Stage, Story
from tests.support.waiting import eventually
from tests.sweeps.other_managers import (
    CREATOR,
    EDITOR,
    VOLUME,
    Others,
    Written,
    manifests,
    samples,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from applyprune.localplane import Binaries, Plane
    from tests.support.live import Body

LASTING = frozenset({"Namespace", "PersistentVolume", "PersistentVolumeClaim"})
"""The kinds that never leave a set here: without controllers, their deletion does not end."""
IDENTITY = {"apiVersion", "kind", "metadata"}
FINALIZED = LASTING | {"CustomResourceDefinition"}
"""The kinds to which the server gives finalizers of its own."""
CALLS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "APIService"})
"""The kinds whose prune is refused if others apply a part: an orphan could block the cluster."""
FEW = frozenset({"ConfigMap", "Secret", "ServiceAccount", "Service", "Deployment", "PodTemplate"})
ALLOWED: dict[str, Any] = {
    "allow_kinds": frozenset({"customresourcedefinition", "statefulset"}),
    "max_prune": Stage.most(99),
    "wait": False,
}


class Record(StrEnum):
    """What happens to managedFields."""

    KEPT = "kept"
    CLEARED = "cleared"
    """Somebody clears it after the others have written."""
    INVENTED = "cleared, then applied"
    """Then the applier applies, and the server books the rest to ``before-first-apply``."""
    NONE = "none"
    """The objects have none before the first apply."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One set, the other managers of its objects, and how its runs are checked."""

    api: Api
    stage: Stage
    samples: Sequence[Sample]
    others: Others
    lost: list[Written] = field(default_factory=list)
    """Everything that the runs have taken from the others."""
    texts: list[Texts] = field(default_factory=list)
    """What the runs have printed."""

    def run(self, bodies: Sequence[Body], *, code: int = 0, **options: Any) -> Story:
        """Diff and run; each field that is lost must be named by both."""
        assert self.others.lost() == []
        chosen = {**ALLOWED, **options}
        forecast = self.stage.run(*bodies, dry_run=DryRun.SERVER, diff=True, **chosen)
        assert self.others.lost() == []
        story = self.stage.run(*bodies, **chosen)
        lost = self.others.lost()
        texts = Texts.of(self.stage, forecast, story)
        assert story.exit_code == code, texts.run
        silent = [text for one in lost for text in texts.silent_about(one)]
        assert not silent, "\n".join(silent)
        self.lost.extend(lost)
        self.texts.append(texts)
        return story


@dataclass(frozen=True, slots=True)
class Texts:
    """What a diff, a plan and the run that followed have printed."""

    namespace: str
    diff: str
    plan: str
    run: str

    @classmethod
    def of(cls, stage: Stage, forecast: Story, story: Story) -> Texts:
        """Print the events as the verbs do."""
        return cls(
            stage.namespace,
            diff=rendered(printed("diff", forecast.events), colour=False),
            plan=rendered(printed("plan", forecast.events), colour=False),
            run=rendered(printed("text", story.events), colour=False),
        )

    def silent_about(self, lost: Written) -> Iterator[str]:
        """Yield which of the texts do not tell that a field was lost."""
        name = re.escape(_short(lost.sample))
        place = rf"(?: -n {self.namespace})?"
        hunk = re.search(rf"^{name}{place} (would be .*)\n((?:.+\n)*)", self.diff, re.MULTILINE)
        step = next(one for one in reversed(lost.field) if isinstance(one, str))
        told = re.compile(rf"^[-+](.*[^\w.-])?{re.escape(step)}:", re.MULTILINE)
        if hunk is None or not ("pruned" in hunk[1] or told.search(hunk[2])):
            yield f"diff: {lost.told}\n{hunk and hunk[0]}"
        for verb, text in (("plan", self.plan), ("run", self.run)):
            line = re.search(rf"^{name}{place} +(.*)$", text, re.MULTILINE)
            if line is None or re.match("(unchanged|would not|failed|skipped|not )", line[1]):
                yield f"{verb}: {lost.told}: {line and line[0]}"


def _short(sample: Sample) -> str:
    group = sample.body["apiVersion"].rpartition("/")[0]
    kind = sample.kind.lower() + (f".{group}" if group else "")
    return f"{kind}/{sample.body['metadata']['name']}"


@pytest.fixture(scope="module")
def plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """A plane of the module's own: no controller writes, and half of the kinds are clustered."""
    folder = tmp_path_factory.mktemp("planes") / "managers"
    with start(binaries, API_SERVER_ONLY, folder) as running:
        yield running


@pytest.fixture
def api(plane: Plane) -> Iterator[Api]:
    """Plain requests to it."""
    own = Api(plane)
    yield own
    own.close()


def _trial(plane: Plane, api: Api, namespace: str, kinds: frozenset[str] = frozenset()) -> Trial:
    """Return a set with an object of each kind; with all of them, a CRD and a custom resource."""
    own = () if kinds else _custom(namespace)
    chosen = samples(namespace, *own, kinds=kinds)
    return Trial(api, Stage(plane.kubeconfig, namespace), chosen, Others(api))


def _custom(namespace: str) -> tuple[Sample, Sample]:
    kind = f"Foo{namespace.rpartition('-')[2]}"
    definition, resource = crd(kind), custom_resource("one", kind, namespace=namespace)
    resource["spec"]["b"] = 2
    group = "/apis/x.example.com/v1"
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    plural = f"{kind.lower()}s"
    return (
        Sample(f"{definitions}/{plural}.x.example.com", definition),
        Sample(f"{group}/namespaces/{namespace}/{plural}/one", resource),
    )


def _bodies(chosen: Sequence[Sample], number: int) -> list[Body]:
    return [manifests(one)[number] for one in chosen]


TRIALS = [(when, record) for record in Record for when in range(3)]
SHORT = [(0, Record.KEPT), (0, Record.NONE), (1, Record.KEPT), (2, Record.CLEARED)]


@pytest.mark.parametrize(("when", "record"), SHORT)
def test_fields_of_others_survive_applies_of_few_kinds(
    plane: Plane, api: Api, namespace: str, when: int, record: Record
) -> None:
    """The short form.

    Slow: other managers write between many runs.
    """
    _sweep(_trial(plane, api, namespace, FEW), when, record)


@pytest.mark.sweep
@pytest.mark.parametrize(("when", "record"), TRIALS)
def test_fields_of_others_survive_applies_of_every_kind(
    plane: Plane, api: Api, namespace: str, when: int, record: Record
) -> None:
    """Three applies, a prune and an orphan; the others write before the apply ``when``."""
    _sweep(_trial(plane, api, namespace), when, record)


def _sweep(trial: Trial, when: int, record: Record) -> None:
    chance = random.Random(f"{when} {record}")  # noqa: S311 - no secret
    existed = when == 0 or record is Record.NONE
    # The server books a list with defaults in it to ``before-first-apply``, as another value.
    is_contended = when == 0 and record in {Record.INVENTED, Record.NONE}
    if existed:
        _create(trial, record)
    for number in range(3):
        if number == when:
            _write(trial, record, adds=number < 2, shares=True)
        # Of the values of a Secret there is no digest that says that nobody has changed them.
        is_unproved = number == when and record in {Record.CLEARED, Record.INVENTED}
        trial.run(
            _bodies(trial.samples, number),
            conflicts=Conflicts.FORCE if is_contended or is_unproved else Conflicts.FAIL,
        )
    assert [one.told for one in trial.lost if one.alone] == []
    if record is Record.KEPT:
        # What kubectl apply has declared becomes the set's own. A list item goes with its owner.
        declared = {one.field for one in trial.lost if one.manager == CREATOR}
        assert declared == ({("metadata", "annotations", "declared")} if existed else set())
        inside = {one.field[:5] for one in trial.lost if one.manager != CREATOR}
        assert inside == {VOLUME}
    _prune(trial, chance, is_ours=not existed and record is Record.KEPT)


def _create(trial: Trial, record: Record) -> None:
    for one in trial.samples:
        if one.kind.startswith("Foo"):
            _await_kind(trial.api, one.path.rpartition("/")[0])
        trial.others.create(one)
        if record is Record.NONE:
            trial.others.clear(one)


def _await_kind(api: Api, collection: str) -> None:
    eventually(lambda: api("GET", collection)[0] == 200, lambda: "the kind")


def _write(trial: Trial, record: Record, *, adds: bool, shares: bool) -> None:
    others = trial.others
    for number, one in enumerate(trial.samples):
        others.update(one)
        if adds:
            others.update_added(one)
        if record is Record.INVENTED:
            others.clear(one)
        others.apply(one, shares=shares and number % 2 == 0)
        if record is Record.CLEARED:
            others.clear(one)


def _prune(trial: Trial, chance: random.Random, *, is_ours: bool) -> None:
    """Let half of the objects leave the set; some of them have another owner by now."""
    # A CRD takes its objects with it: the prune is refused as long as one of them stays.
    lasting = LASTING | {"CustomResourceDefinition"}
    kept = lasting | CALLS
    may_leave = [
        one
        for one in trial.samples
        if one.kind not in (kept if trial.others.applies_a_part(one) else lasting)
    ]
    leaving = chance.sample(may_leave, len(may_leave) // 2)
    staying = [one for one in trial.samples if one not in leaving]
    shared = [
        one for one in leaving[::2] if one.kind not in kept and manifests(one)[2].keys() > IDENTITY
    ]
    for one in shared:
        trial.others.run(one)
    for one in staying:
        if one.kind not in FINALIZED:
            trial.others.update(one, finalizers=["a.test/hold"])
    applied = [one for one in leaving if trial.others.applies_a_part(one)]
    story = trial.run(_bodies(staying, 2))
    for one in leaving:
        pruned = is_ours and one not in shared and one not in applied
        outcome = Outcome.PRUNED if pruned else Outcome.ORPHANED
        assert story.outcomes[_short(one)] is outcome, one
    assert trial.stage.orphan().exit_code == 0
    assert trial.others.lost() == []


FIXED = frozenset({"Secret", "Job", "StorageClass", "RoleBinding", "PriorityClass", "Deployment"})
"""Kinds of which one field is changed that only a new object can have."""
each_size = pytest.mark.parametrize(
    "kinds", [FEW, pytest.param(frozenset(), marks=pytest.mark.sweep)], ids=["few", "all"]
)


@each_size
def test_overwritten_fields_are_left_or_taken_with_a_line(
    plane: Plane, api: Api, namespace: str, kinds: frozenset[str]
) -> None:
    """A run without force changes nothing at all; one with force names the other manager."""
    trial = _trial(plane, api, namespace, kinds)
    trial.run(_bodies(trial.samples, 0))
    _write(trial, Record.KEPT, adds=True, shares=True)
    for one in trial.samples:
        trial.others.overwrite(one)
    trial.run(_bodies(trial.samples, 1), code=4)
    assert trial.lost == []
    story = trial.run(_bodies(trial.samples, 1), conflicts=Conflicts.FORCE)
    assert {one.field for one in trial.lost} == {("metadata", "labels", "team")}
    assert len(trial.lost) == len(trial.samples)
    plan, stream = trial.texts[-1].plan, printed("jsonl", story.events)
    assert plan.count(f"takes fields from {EDITOR}") == len(trial.samples)
    assert len(re.findall(rf'"takenFrom":\[[^]]*"{EDITOR}"\]', stream)) == len(trial.samples)


@each_size
def test_fields_of_others_go_with_a_recreated_object_with_a_line(
    plane: Plane, api: Api, namespace: str, kinds: frozenset[str]
) -> None:
    """The diff shows each of them."""
    trial = _trial(plane, api, namespace, kinds)
    trial.run(_bodies(trial.samples, 0))
    _write(trial, Record.KEPT, adds=False, shares=False)
    bodies = [
        _with_other_value(one) if one.kind in FIXED else manifests(one)[0] for one in trial.samples
    ]
    # Another manager applies a part of each; without that option, they are refused.
    trial.run(bodies, recreate=True, also=frozenset({PruneAlso.SHARED}))
    changed = {one.path for one in trial.samples if one.kind in FIXED}
    assert {one.sample.path for one in trial.lost} == changed


def _with_other_value(sample: Sample) -> Body:
    """Return a manifest with another value in an immutable field."""
    body: Body = manifests(sample)[0]
    match sample.kind:
        case "Secret":
            body["type"] = "example.com/other"
        case "Job":
            body["spec"]["template"]["spec"]["containers"][0]["image"] = "other:1"
        case "StorageClass":
            body["provisioner"] = "example.com/other"
        case "RoleBinding":
            body["roleRef"]["name"] = "other"
        case "PriorityClass":
            body["value"] = 2000
        case _:
            body["spec"]["selector"] = {"matchLabels": {"tier": "front"}}
    return body


def test_objects_of_others_go_with_their_kind_with_a_line(
    plane: Plane, api: Api, namespace: str
) -> None:
    """A custom resource of somebody else: only if that is allowed."""
    own = _custom(namespace)
    definition, resource = own
    trial = Trial(api, Stage(plane.kubeconfig, namespace), own, Others(api))
    first = [*_bodies(own, 0), config_map("a")]
    trial.run(first)
    collection = resource.path.rpartition("/")[0]
    theirs = custom_resource("theirs", resource.kind, namespace=namespace)
    assert api("POST", collection, theirs)[0] == 201
    trial.run(first[2:], code=6)
    assert api.exists(f"{collection}/theirs")
    allowed = frozenset({_short(definition)})
    trial.run(first[2:], allow_cascade=allowed)
    assert not api.exists(f"{collection}/theirs")
    texts = trial.texts[-1]
    for text in (texts.diff, texts.plan):
        assert f"→ deleted with it: 1 {resource.kind}\n" in text
    assert f"{_short(definition)} would cascade-delete objects that must stay" in texts.run
