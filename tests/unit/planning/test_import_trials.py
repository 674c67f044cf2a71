"""Which fields of an object a manifest needs, by the answers of a server to trials."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from applyprune.errors import Invalid
from applyprune.model.identity import Ref
from applyprune.model.live import DEPLOYMENTS, LiveObject
from applyprune.planning.import_trials import (
    NOTHING_SEEN,
    SeenDefaults,
    Trial,
    first_trial,
    lacking,
    whole_trial,
)
from applyprune.planning.requests import apply_trial, creation_trial

HEAD = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
MOST = 12


def invalid(*fields: str) -> Invalid:
    causes = [{"reason": "FieldValueRequired", "field": one, "message": "r"} for one in fields]
    return Invalid("it is invalid", code=422, causes=causes)


class Server:
    """It sets defaults where the map around them is there, and needs some fields of ``spec``."""

    def __init__(self, defaults: dict[str, Any], needed: tuple[str, ...] = ()) -> None:
        self.defaults, self.needed, self.asked = defaults, needed, 0

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        self.asked += 1
        created = copy.deepcopy(body)
        spec = created.setdefault("spec", {})
        if missing := [f"spec.{name}" for name in self.needed if name not in spec]:
            raise invalid(*missing)
        for name, value in self.defaults.items():
            spec.setdefault(name, value)
        return created


def trial_of(content: dict[str, Any], seen: SeenDefaults) -> Trial:
    return first_trial(content, content, seen)


def proved(server: Server, spec: dict[str, Any], seen: SeenDefaults = NOTHING_SEEN) -> Trial:
    """Return the last trial; the server has confirmed it."""
    trial = trial_of({**HEAD, "spec": spec}, seen)
    for _ in range(MOST):
        try:
            created = server.create(trial.body)
        except Invalid as error:
            more = trial.after_refusal(error)
            assert more is not None
            trial = more
            continue
        after = trial.after_reply(created)
        if after.kept == trial.kept:
            return after
        trial = after
    raise AssertionError("the trials do not end")


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        ({"replicas": 1, "paused": True}, {"paused": True}),
        ({"replicas": 2, "paused": False}, {"replicas": 2}),
        # A map whose parts are all defaults goes, and comes back with what it is.
        ({"strategy": {"type": "RollingUpdate"}}, {}),
        ({"strategy": {"type": "Recreate"}}, {"strategy": {"type": "Recreate"}}),
        (
            {"text": "of a person", "labels": {"a": "B"}},
            {"text": "of a person", "labels": {"a": "B"}},
        ),
        # The items of a list keep their places.
        (
            {"items": [{"name": "a", "n": 1}, {"on": True}]},
            {"items": [{"name": "a", "n": 1}, {"on": True}]},
        ),
        ({"list": ["a", 1]}, {"list": ["a", 1]}),
        # One rule that allows everything is not the same as none.
        ({"egress": [{}]}, {"egress": [{}]}),
        ({"egress": [{}, {"to": "b"}, {}]}, {"egress": [{}, {"to": "b"}, {}]}),
        ({"rules": [{"on": True}, {}]}, {"rules": [{"on": True}, {}]}),
        ({"emptyDir": {}}, {"emptyDir": {}}),
    ],
)
def test_manifest_lacks_what_the_server_sets_by_itself(
    spec: dict[str, Any], left: dict[str, Any]
) -> None:
    """And has everything else."""
    defaults = {"replicas": 1, "paused": False, "strategy": {"type": "RollingUpdate"}}
    server = Server(defaults)
    found = proved(server, spec).body
    assert found.get("spec", {}) == left, found
    assert lacking({**HEAD, "spec": spec}, server.create(found)) == ()


def test_needed_field_comes_back_after_a_refusal() -> None:
    """Only what the error names; the rest stays a default."""
    server = Server({"replicas": 1, "mode": "Fast"}, needed=("mode",))
    found = proved(server, {"replicas": 1, "mode": "Fast"})
    assert found.body["spec"] == {"mode": "Fast"}
    assert server.asked == 2


def test_refusal_that_names_nothing_ends_the_trials() -> None:
    trial = trial_of({**HEAD, "spec": {"replicas": 1}}, NOTHING_SEEN)
    assert trial.after_refusal(Invalid("no", code=422)) is None
    assert trial.after_refusal(invalid("status.x")) is None


def test_refusal_around_a_field_brings_back_what_is_in_it() -> None:
    """First what is no well-known default."""
    part = {"volume": {"count": 7, "defaultMode": 420}}
    trial = trial_of({**HEAD, "spec": part}, NOTHING_SEEN)
    after = trial.after_refusal(invalid("spec.volume"))
    assert after is not None
    assert after.body["spec"] == {"volume": {"count": 7}}
    again = after.after_refusal(invalid("spec.volume"))
    assert again is not None
    assert again.body["spec"] == part


def test_default_that_brings_another_field_is_written() -> None:
    """A strategy that is only named has no partition; one that the server has chosen has."""

    class Strategic(Server):
        def create(self, body: dict[str, Any]) -> dict[str, Any]:
            created = super().create(body)
            strategy = created["spec"].setdefault("strategy", {})
            if not strategy:
                strategy.update({"kind": "Rolling", "on": True, "partition": 0})
            strategy.setdefault("on", True)
            return created

    live = {"strategy": {"kind": "Rolling", "on": True}, "size": 1}
    found = proved(Strategic({"size": 1}), live)
    assert found.body["spec"] == {"strategy": {"kind": "Rolling"}}


def test_one_trial_is_enough_for_the_second_object_of_a_kind() -> None:
    """The first one has shown the defaults, also where its own values are others."""
    defaults = {"replicas": 1, "paused": False, "grace": 30}
    seen = proved(Server(defaults), {"replicas": 5, "paused": False, "grace": 30}).seen
    server = Server(defaults)
    found = proved(server, {"replicas": 1, "paused": False, "grace": 10}, seen)
    assert found.body["spec"] == {"grace": 10}
    assert server.asked == 1


def test_default_that_depends_on_another_field_is_found_by_the_trial() -> None:
    """What another object has shown is only a guess."""
    seen = SeenDefaults({("spec", "pull"): frozenset({'"Always"', '"Never"'})})
    found = proved(Server({"pull": "Never"}), {"pull": "Always"}, seen)
    assert found.body["spec"] == {"pull": "Always"}


def test_whole_trial_lacks_the_usual_defaults_only() -> None:
    """Where the server creates nothing."""
    spec = {"protocol": "TCP", "replicas": 1, "mode": "Fast"}
    trial = whole_trial(trial_of({**HEAD, "spec": spec}, NOTHING_SEEN))
    assert trial.body["spec"] == {"replicas": 1, "mode": "Fast"}


@given(
    spec=st.dictionaries(
        st.sampled_from("abcdef"), st.one_of(st.booleans(), st.integers(0, 3), st.text(max_size=2))
    ),
    defaults=st.dictionaries(
        st.sampled_from("abcdef"), st.one_of(st.booleans(), st.integers(0, 3))
    ),
    needed=st.sets(st.sampled_from("abcdef")),
)
def test_manifest_makes_the_same_object_whatever_the_defaults_are(
    spec: dict[str, Any], defaults: dict[str, Any], needed: set[str]
) -> None:
    """The server creates from it what lives; and it has no number that is a default."""
    live = {**defaults, **spec}
    server = Server(defaults, needed=tuple(needed & live.keys()))
    found = proved(server, live).body.get("spec", {})
    made = server.create({**HEAD, "spec": found})
    assert lacking({"spec": live}, made) == ()
    for name in found.keys() - needed:
        if not isinstance(found[name], str):
            is_default = name in defaults and type(defaults[name]) is type(found[name])
            assert not (is_default and defaults[name] == found[name])


def test_trials_are_a_create_under_another_name_and_an_apply_to_the_same_object() -> None:
    """Nothing else may be sent, and nobody else's object can be meant."""
    ref = Ref("apps", "Deployment", "home", "a" * 60)
    live = LiveObject.of(ref, "u", "7", {"name": ref.name}, {})
    create = creation_trial(DEPLOYMENTS, ref, HEAD)
    assert create.precondition.resource_version == "1"
    assert create.ref.name != ref.name
    assert create.body["metadata"] == {"name": create.ref.name, "namespace": "home"}
    apply = apply_trial(DEPLOYMENTS, live, HEAD, force=True)
    assert (apply.ref, apply.precondition.uid, apply.force) == (ref, "u", True)
