"""What must hold after a run with a false 404, and after the next run without one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from applyprune.planning.applyset import PART_OF
from tests.support.live import config_maps, members, objects
from tests.sweeps.scenarios import key, named, other_set, prefix

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune import ClusterConnection
    from applyprune.model.inventory import Inventory
    from tests.support.fault_proxy import Exchange
    from tests.support.live import Body
    from tests.support.stage import Stage
    from tests.sweeps.false_404_verbs import Site, Verb

BUG = 70
"""The exit code of an internal error, instead of a traceback."""
NO_SUCH_SET = 2
"""The exit code of a call about a set that does not exist."""
FORGOTTEN = {"created", "removed-from-inventory"}
"""The outcomes that say that an object was not there, in a forecast too."""
DELETED = {"pruned", "deleted", "recreated"}
"""The outcomes that say that an object, with its UID, is gone."""
GONE = re.compile(r"\bgone\b|no longer exists|does not exist|was deleted", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command reported, and which requests it made."""

    code: int
    events: Sequence[Mapping[str, Any]]
    requests: Sequence[Exchange]

    @property
    def is_partial(self) -> bool:
        """Return whether a check or a repair says that it could not read everything."""
        mismatches = (event.get("mismatch") or {} for event in self.events)
        return any(one.get("type") == "unknown" for one in mismatches)


@dataclass(frozen=True, slots=True)
class Trial:
    """A prepared call, and what was there before it."""

    verb: Verb
    site: Site
    line: Sequence[str]
    uids: Mapping[str, str]
    listed: frozenset[str]
    unlisted: frozenset[str]
    cluster: ClusterConnection
    """Where the inventories are read: a connection for each reading would take most of the time."""

    def owner(self, pattern: str) -> str:
        """Return the Bundle of that pattern."""
        stage = self.site.stage
        return pattern.format(set=stage.name, namespace=stage.namespace)

    def again(self) -> Sequence[str]:
        """Return the line that does what is left to do: an orphan's names what is still listed."""
        if self.verb.command != "inventory orphan":
            return self.line
        listed, _ = records(self.site, self.cluster)
        return [word for word in self.line if word not in self.uids or word in listed]

    def inventories(self) -> tuple[Inventory, Inventory]:
        """Return the inventories of the two sets."""
        ours, other = self.sets
        return ours.applyset(self.cluster).inventory(), other.applyset(self.cluster).inventory()

    def there(self) -> dict[str, Body]:
        """Return the objects by ``kind/name``."""
        stage = self.site.stage
        return objects(self.site.api, stage.namespace, prefix(stage))

    @property
    def sets(self) -> tuple[Stage, Stage]:
        """Return the set and the other one."""
        return self.site.stage, other_set(self.site.stage)

    def states(self) -> dict[str, str]:
        """Return the resourceVersion of every object and inventory."""
        stage = self.site.stage
        found = config_maps(self.site.api, stage.namespace)
        records = {
            name: item["metadata"]["resourceVersion"]
            for name, item in found.items()
            if any(name.startswith(one.target.inventory.name) for one in self.sets)
        }
        items = self.there().items()
        return records | {name: item["metadata"]["resourceVersion"] for name, item in items}


def records(site: Site, cluster: ClusterConnection) -> tuple[frozenset[str], frozenset[str]]:
    """Return the objects in an inventory of the two sets, and those with the label of one."""
    sets = (site.stage, other_set(site.stage))
    listed = (ref.short for one in sets for ref in one.applyset(cluster).inventory().entries)
    labelled = (name for one in sets for name in members(site.api, one.target.id))
    return frozenset(listed), frozenset(labelled)


def check_listed(trial: Trial, where: str) -> None:
    """Assert that no live object of the set has left the inventory, unless it left the set."""
    listed, labelled = records(trial.site, trial.cluster)
    # A lost inventory may stay lost, but it must not come back incomplete.
    allowed = trial.unlisted if trial.listed or not listed else frozenset()
    assert labelled - listed <= allowed, where
    orphaned = {
        name
        for name, item in trial.there().items()
        if name in trial.listed - listed and item["metadata"]["uid"] == trial.uids.get(name)
    }
    loose = {key(body) for body in named(trial.site.stage, trial.verb.loose)}
    assert orphaned <= loose, where


def check_reports(trial: Trial, ended: Ended, where: str) -> None:
    """Assert that no object is called gone or orphaned that is not."""
    there = trial.there()
    for event in ended.events:
        for ref, said in _sayings(event):
            live = there.get(f"{ref['kind'].lower()}/{ref['name']}")
            if live is not None and live["metadata"]["uid"] in trial.uids.values():
                assert not _is_false(said, live, trial), (said, where)


def _sayings(event: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, str], Mapping[str, str]]]:
    """Yield what an event, or a step of a plan, says about each object."""
    about = event.get("mismatch", event)
    if about.get("ref"):
        yield about["ref"], about
    for step in (event.get("plan") or {}).get("objects", ()):
        yield step["ref"], step


def _is_false(said: Mapping[str, Any], live: Body, trial: Trial) -> bool:
    """Return whether something wrong is said about an object that exists as before."""
    ours = trial.site.stage.target.id
    label = (live["metadata"].get("labels") or {}).get(PART_OF)
    told = " ".join(str(said.get(key) or "") for key in ("reason", "message", "verdict"))
    return (
        said.get("outcome") in FORGOTTEN
        or (said.get("outcome") in DELETED and trial.verb.writes)
        or (said.get("outcome") == "orphaned" and label == ours)
        or said.get("fate") in {"create", "remove-from-inventory"}
        or said.get("type") in {"gone", "uid-changed"}
        or (said.get("readiness") or {}).get("status") == "NotFound"
        or GONE.search(told) is not None
    )


def check_state(trial: Trial, where: str) -> None:
    """Assert that exactly the wanted objects exist, and to which set each of them belongs."""
    verb, stage = trial.verb, trial.site.stage
    there = trial.there()
    wanted = {
        key(body): (body.get("data"), label)
        for label, bodies in ((stage.target.id, verb.after), (None, verb.loose))
        for body in named(stage, bodies)
    }
    assert {
        name: (item.get("data"), (item["metadata"].get("labels") or {}).get(PART_OF))
        for name, item in there.items()
    } == wanted, where
    new = {key(body) for body in named(stage, verb.new)}
    for name, item in there.items():
        if name in trial.uids:
            assert (item["metadata"]["uid"] != trial.uids[name]) is (name in new), (name, where)
    inventories = trial.inventories()
    for inventory, bodies in zip(inventories, (verb.after, verb.gives), strict=True):
        uids = {key(body): there[key(body)]["metadata"]["uid"] for body in named(stage, bodies)}
        found = {entry.ref.short: entry.uid for entry in inventory.entries.values()}
        assert (found, inventory.exists) == (uids, bool(uids)), where
    assert inventories[0].owner == trial.owner(verb.owner_after), where
