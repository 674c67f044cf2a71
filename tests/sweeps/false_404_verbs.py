"""What a sweep of false 404s runs: a call of each command, the state before, the state after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from applyprune.planning.applyset import OWNED_BY, PART_OF
from tests.support.forged import remove_entries
from tests.support.input_files import write_input
from tests.support.objects import SERVICE, config_map
from tests.sweeps.scenarios import key, named, other_set

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.support.api import Api
    from tests.support.live import Body
    from tests.support.stage import Stage

BUNDLES = "/apis/applyprune.dev/v1alpha1/namespaces/{}/bundles"


@dataclass(frozen=True, slots=True)
class Site:
    """The set of one call, and what its preparation needs; all names have the set's as a prefix."""

    stage: Stage
    api: Api
    folder: Path

    def path(self, name: str = "") -> str:
        """Return the path of a ConfigMap in the set's namespace, or of all of them."""
        path = f"/api/v1/namespaces/{self.stage.namespace}/configmaps"
        return f"{path}/{name}" if name else path

    def create(self, path: str, body: Body) -> None:
        """Create an object that does not belong to applyprune."""
        status, reply = self.api("POST", path, body)
        assert status == 201, reply

    def merge(self, name: str, patch: Body) -> None:
        """Change a ConfigMap under its own name, as somebody else does."""
        (body,) = named(self.stage, [config_map(name)])
        path = self.path(body["metadata"]["name"])
        kind = "application/merge-patch+json"
        status, reply = self.api("PATCH", path, patch, content_type=kind)
        assert status == 200, reply


@dataclass(frozen=True, slots=True)
class Verb:
    """A call of the command of that name, with a set before it and its state after it.

    In ``arguments``, ``{set}`` is the set, ``{to}`` the other one, and ``{b}`` the object ``b``.
    """

    command: str
    arguments: str = "{set}"
    case: str = ""
    before: tuple[Body, ...] = ()
    """The objects of the set."""
    prepare: Callable[[Site], None] = lambda _: None
    """What happens to them afterwards."""
    given: tuple[Body, ...] | None = None
    """The input; None for a command that reads none."""
    writes: bool = True
    code: int = 0
    after: tuple[Body, ...] = ()
    """The objects of the set after the call."""
    loose: tuple[Body, ...] = ()
    """The objects in no set after the call."""
    gives: tuple[Body, ...] = ()
    """The objects of the other set before the call, which takes them; their set lists them yet."""
    new: tuple[Body, ...] = ()
    """The objects that are deleted and created again."""
    owner: str = ""
    """The Bundle to which the set belongs before the call."""
    owner_after: str = ""
    planned: bool = False
    """Whether the call applies a plan file, which the same call of ``plan`` has written."""

    @property
    def id(self) -> str:
        """Return the name of the case."""
        return " ".join(filter(None, (self.command, self.case)))

    def line(self, site: Site, command: str = "") -> list[str]:
        """Return the command line, or that of another command with the same arguments."""
        stage = site.stage
        names = {letter: key(named(stage, [body])[0]) for letter, body in _NAMED.items()}
        places = {"set": stage.name, "to": other_set(stage).name, **names}
        words = [word.format(**places) for word in self.arguments.split()]
        line = [*(command or self.command).split(), *words]
        if self.command != "version":
            line += ["-n", stage.namespace]
        if self.given is not None:
            bodies = named(stage, self.given)
            line += ["-f", str(write_input(site.folder / f"{stage.name}.json", bodies))]
        return line


_A, _B, _C, _D = (config_map(letter) for letter in "abcd")
_NAMED: Mapping[str, Body] = {"b": _B, "c": _C, "service": SERVICE}
_CHANGED = config_map("b", "changed")
_FIXED, _FIXED_NEW = ({**config_map("fixed", value), "immutable": True} for value in ("v", "w"))
_BEFORE = (_A, _B, _C, SERVICE)
_INPUT = (_A, _CHANGED, _D)


def _made_by_kubectl(site: Site) -> None:
    """Create an object as ``kubectl apply`` does, and one that nobody manages."""
    for body in named(site.stage, [_C, _D]):
        site.create(f"{site.path()}?fieldManager=kubectl-client-side-apply", body)
    site.merge("d", {"metadata": {"managedFields": [{}]}})


def _unlike(site: Site) -> None:
    """Remove the entry of an object, and take the label from another one."""
    (_, b, _, _) = named(site.stage, _BEFORE)
    remove_entries(site.stage, site.api, b["metadata"]["name"])
    site.merge("c", {"metadata": {"labels": {PART_OF: None}}})


def _disowned(site: Site) -> None:
    """Take the annotation of ownership from an object."""
    site.merge("c", {"metadata": {"annotations": {OWNED_BY: None}}})


def _lost(site: Site) -> None:
    """Delete the inventory."""
    assert site.api("DELETE", site.path(site.stage.target.inventory.name))[0] == 200


def _drifted(site: Site) -> None:
    """Change a value of the set."""
    site.merge("a", {"data": {"key": "theirs"}})


def _bundle(site: Site, *, suspend: bool) -> None:
    """Create the Bundle to which the set belongs."""
    body = {
        "apiVersion": "applyprune.dev/v1alpha1",
        "kind": "Bundle",
        "metadata": {"name": site.stage.name},
        "spec": {"source": {"inline": ""}, "suspend": suspend},
    }
    site.create(BUNDLES.format(site.stage.namespace), body)


_OWNER = "Bundle {namespace}/{set}"
_APPLY = Verb(
    "apply",
    "{set} --max-prune=5",
    before=_BEFORE,
    given=_INPUT,
    after=_INPUT,
)
_ORPHAN = Verb(
    "inventory orphan", "{set} {b} {service}", before=_BEFORE, after=(_A, _C), loose=(_B, SERVICE)
)
_REPAIR = Verb("inventory repair", "{set} --yes", before=_BEFORE, prepare=_unlike, after=_BEFORE)
_OWN = Verb(
    "inventory repair",
    "{set} --record-as owned {b} {c} --yes",
    case="of two objects",
    before=_BEFORE,
    prepare=_disowned,
    after=_BEFORE,
)
_RELEASE = Verb(
    "inventory release",
    before=(_A,),
    prepare=lambda site: _bundle(site, suspend=True),
    owner=_OWNER,
    after=(_A,),
)
_READ = Verb("", before=_BEFORE, after=_BEFORE, writes=False)

VERBS = (
    _APPLY,
    Verb("apply", case="of a new set", given=(_A, _B, SERVICE), after=(_A, _B, SERVICE)),
    replace(_APPLY, case="of a plan", planned=True),
    Verb(
        "apply",
        case="with adoption",
        before=(_A,),
        prepare=_made_by_kubectl,
        given=(_A, _C, _D),
        after=(_A, _C, _D),
    ),
    Verb(
        "apply",
        "{set} --recreate",
        case="with recreation",
        before=(_A, _FIXED),
        given=(_A, _FIXED_NEW),
        after=(_A, _FIXED_NEW),
        new=(_FIXED,),
    ),
    Verb(
        "prune",
        "{set} --max-prune=5",
        before=_BEFORE,
        given=_INPUT,
        after=(_A, _B),
    ),
    Verb(
        "apply",
        "{set} --adopt=set/{to}",
        case="from another set",
        before=(_A,),
        given=_BEFORE,
        gives=(_B, _C, SERVICE),
        after=_BEFORE,
    ),
    Verb("delete", "{set} --yes", before=_BEFORE),
    _ORPHAN,
    Verb("inventory orphan", "{set} --all", "of all", before=_BEFORE, loose=_BEFORE),
    _REPAIR,
    replace(_REPAIR, case="of a lost one", prepare=_lost),
    _OWN,
    _RELEASE,
    replace(
        _RELEASE,
        case="from an active Bundle",
        prepare=lambda site: _bundle(site, suspend=False),
        writes=False,
        code=2,
        owner_after=_OWNER,
    ),
    replace(_READ, command="plan", arguments="{set} --max-prune=5", given=_INPUT),
    replace(_READ, command="diff", arguments="{set} --max-prune=5", given=_INPUT, code=1),
    replace(_READ, command="status", arguments="{set} --drift=values", prepare=_drifted),
    replace(_READ, command="explain", arguments="{set} {b}", given=_INPUT),
    replace(_READ, command="explain", arguments="{set} {c}", case="without input"),
    replace(_READ, command="inventory check", prepare=_unlike, code=1),
    replace(_READ, command="list", arguments="-o wide"),
    replace(_READ, command="inventory show"),
    replace(_READ, command="history"),
    replace(_READ, command="version", arguments=""),
)
_OF_BUNDLES = ("approve", "reconcile", "resume", "suspend")
LEFT_OUT: Mapping[str, str] = {
    "rollback": "it reads the inventory, and is an `apply` then",
    **{
        f"bundle {verb}": "it writes one field of the Bundle at most, and no object of the set"
        for verb in _OF_BUNDLES
    },
    "init": "it reads the name of the context, and asks no server",
    "import": "it has no set and writes nothing: what it cannot list is named, and in no file",
    "rbac": "it reads no object, and prints manifests instead of events",
    "install": "it is an apply with an input of its own",
    "controller": "it never ends; what it does are applies and deletes, and they are above",
}
"""The commands that talk to a cluster and are not swept, each with the reason."""
