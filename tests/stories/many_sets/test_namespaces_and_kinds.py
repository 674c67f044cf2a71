"""A Namespace or a CRD that one set brings is there for the others, on an empty cluster too."""

from __future__ import annotations

from applyprune.model.fate import Outcome
from tests.support.api import Api, AuditTrail, writes
from tests.support.objects import config_map, crd, custom_resource, of_kind
from tests.support.set_folders import SetFolders


def test_namespace_of_another_set_holds_objects_and_an_inventory(
    sets: SetFolders, api: Api, audit: AuditTrail, fresh_name: str
) -> None:
    """Without ``dependsOn``: the plan says what will be, and the apply does it in one go."""
    sets.write("apps", config_map("a", namespace=fresh_name), config_map("b"))
    sets.write("home", config_map("c"), namespace=fresh_name)
    sets.write("spaces", of_kind("Namespace", fresh_name))
    planned = sets.plan()
    assert planned.end.exit_code == 0, planned.events
    assert set(planned.outcomes.values()) == {"created"}
    assert writes(audit) == []
    done = sets.apply()
    assert done.end.exit_code == 0, done.events
    assert done.outcomes == planned.outcomes
    assert next(iter(done.exit_codes)) == "spaces"
    assert sets.stage("home", fresh_name).listed() == {"configmap/c"}
    again = sets.plan()
    assert set(again.outcomes.values()) == {"unchanged"}


def test_kind_of_another_set_is_there_for_its_users(crd_sets: SetFolders, crds: Api) -> None:
    """The server cannot try the custom resource before; the plan has it nevertheless."""
    crd_sets.write("apps", custom_resource("one", "Brought"))
    crd_sets.write("kinds", crd("Brought"))
    planned = crd_sets.plan()
    assert planned.end.exit_code == 0, planned.events
    assert planned.sets["apps"].outcomes == {"brought.x.example.com/one": Outcome.CREATED}
    done = crd_sets.apply()
    assert done.end.exit_code == 0, done.events
    assert done.outcomes == planned.outcomes
    again = crd_sets.plan()
    assert set(again.outcomes.values()) == {"unchanged"}


def test_set_without_what_it_uses_fails_and_others_go_on(
    sets: SetFolders, api: Api, fresh_name: str
) -> None:
    """The set that was to bring the Namespace has failed."""
    api.create(sets.stage("spaces").path(), config_map("theirs"))
    sets.write("apps", config_map("a"), namespace=fresh_name)
    theirs = config_map("theirs", annotations={"applyprune.dev/wave": "-1"})
    sets.write("spaces", theirs, of_kind("Namespace", fresh_name), adopt="none")
    sets.write("other", config_map("b"))
    story = sets.apply()
    assert story.exit_codes == {"spaces": 3, "apps": 2, "other": 0}
    assert f"the namespace {fresh_name} does not exist" in story.errors("apps")
    sets.write("spaces", of_kind("Namespace", fresh_name))
    assert sets.apply().end.exit_code == 0


def test_plan_of_sets_that_use_each_other_fails_as_the_apply_would(
    crd_sets: SetFolders, crds: Api
) -> None:
    """One of them would have to begin without the other; nothing is written."""
    name = f"{crd_sets.namespace}-lent"
    crd_sets.write("a", crd("Lent"), config_map("x", namespace=name))
    crd_sets.write("b", of_kind("Namespace", name), custom_resource("y", "Lent"))
    planned = crd_sets.plan()
    done = crd_sets.apply()
    assert "no matches for kind Lent" in planned.errors("b")
    assert planned.errors("b") == done.errors("b")
    assert not crds.exists(f"/api/v1/namespaces/{name}")
