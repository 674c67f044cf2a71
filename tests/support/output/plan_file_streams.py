"""The streams of runs that end with a plan file: wrong, outdated, unwritable, or applied already.

Each error is raised by the code that raises it in a run.
"""

from __future__ import annotations

import os
from contextlib import chdir, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from applyprune._version import __version__
from applyprune.engine.context import RunSummary
from applyprune.model.events import ErrorRaised
from applyprune.model.fate import Fate
from applyprune.model.inventory import RunRecord
from applyprune.model.options import Adopt, Options
from applyprune.model.plan import ApplyStep, Cascaded, Plan, RemoveStep
from applyprune.planning.approval import (
    LARGEST,
    PlanFile,
    PlanFiles,
    encode_plan_file,
    encode_plan_files,
    misfits,
    plan_file_of,
    refuse_expired,
    refuse_other_cluster,
    refuse_other_inventory,
    refuse_other_options,
    refuse_other_set,
    refuse_validity,
)
from applyprune.sources.plan_files import read_plan, refuse_unwritable
from applyprune.values import replace
from tests.support.options import options_of
from tests.support.output.plan_streams import ended_by, finished, previewed, started
from tests.support.output.plans import ALLOWED, applied, removed, wanted
from tests.support.plan_files import CREATED, with_checksum
from tests.support.planning import TARGET, inventory, live, recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from applyprune.model.events import Event

_LAST = RunRecord("r1", "apply", "ann@ci", "2026-11-22T11:00:00Z", 0)
_NOBODY = 65534


def _file_of(plan: Plan, **cluster: str) -> PlanFile:
    """Return the file of a plan; the keywords are the UIDs of Namespaces."""
    week = timedelta(days=7)
    return plan_file_of(plan, TARGET, Options(), cluster=cluster, now=CREATED, valid_for=week)


FILE = _file_of(replace(ALLOWED, inventory="i1/3"), **{"kube-system": "k1", "home": "n1"})
_DATA = encode_plan_file(FILE)
_CONTENT = _DATA.partition(b"\n")[2]
_ROW = _CONTENT.splitlines(keepends=True)[-2]


def _forged(old: bytes, new: bytes) -> bytes:
    """Return the file with another content, and with the right checksum."""
    assert old in _CONTENT
    return with_checksum(_CONTENT.replace(old, new, 1))


_CONTENTS = {
    "plan file is a manifest": b"apiVersion: v1\nkind: ConfigMap\n",
    "plan file edited": _DATA.replace(b'"fate":"prune"', b'"fate":"leave"', 1),
    "plan file cut off": _DATA[:-100],
    "plan file of many sets": encode_plan_files(PlanFiles("deploy/prod", (FILE,))),
    "plan file of a newer version": _DATA.replace(b"plan/v1", b"plan/v2", 1),
    "plan file forged: other form": _forged(b'"created"', b' "created"'),
    "plan file forged: nothing in a place": _forged(b'"created":', b'"made":'),
    "plan file forged: other type": _forged(b'"generation":3', b'"generation":"3"'),
    "plan file forged: no digest": _forged(FILE.digest.encode(), b"sha256:abc"),
    "plan file forged: twice": _forged(b"\n" + _ROW, b"\n" + _ROW.rstrip() + b",\n" + _ROW),
}


def _read(name: str) -> Iterator[Event]:
    """Yield the events of an apply that cannot read its plan file, which is called web.plan."""
    path = Path("web.plan")
    if name in _CONTENTS:
        path.write_bytes(_CONTENTS[name])
    elif name == "plan file too large":
        path.touch()
        os.truncate(path, LARGEST + 1)
    given = {"plan file without a path": "", "plan file is a device": os.devnull}
    for event in ended_by(partial(read_plan, given.get(name, path))):
        yield _of_any_version(event)
    path.unlink(missing_ok=True)


def _of_any_version(event: Event) -> Event:
    """Return an event whose text does not change with the version of the program."""
    if not isinstance(event, ErrorRaised):
        return event
    reason = event.problem.reason.replace(__version__, "VERSION")
    return ErrorRaised(replace(event.problem, reason=reason))


@contextmanager
def _as_nobody() -> Iterator[None]:
    """Let what the real user may do be that of nobody: root may write everything."""
    real, effective = os.getuid(), os.geteuid()
    if effective == 0:
        os.setreuid(_NOBODY, effective)
    try:
        yield
    finally:
        os.setreuid(real, effective)


def _write(name: str) -> Iterator[Event]:
    """Yield the events of a plan whose file cannot be written."""
    folder = Path("plans")
    folder.mkdir(exist_ok=True)
    (folder / "web.yaml").write_text("kind: ConfigMap\n")
    paths: dict[str, str | Path] = {
        "file to write without a path": "",
        "file to write is a folder": folder,
        "file to write is no plan file": folder / "web.yaml",
        "file to write without a folder": "missing/web.plan",
    }
    if name in paths:
        yield from ended_by(partial(refuse_unwritable, paths[name]))
        return
    folder.chmod(0o500)
    with _as_nobody():
        yield from ended_by(partial(refuse_unwritable, folder / "web.plan"))
    folder.chmod(0o700)


_UNREADABLE = (
    "plan file missing",
    "plan file without a path",
    "plan file is a device",
    "plan file too large",
    *_CONTENTS,
)
_UNWRITABLE = (
    "file to write without a path",
    "file to write is a folder",
    "file to write is no plan file",
    "file to write without a folder",
    "file to write in a folder of others",
)
_ELSEWHERE: Mapping[str, Callable[[], object]] = {
    "plan file of another set": partial(refuse_other_set, replace(FILE, name="shop"), TARGET),
    "plan file of other options": partial(
        refuse_other_options, FILE, options_of(adopt=Adopt.ALL, recreate=True)
    ),
    "plan file of another cluster": partial(refuse_other_cluster, FILE, {"kube-system": "k2"}),
    "plan file of an unknown cluster": partial(
        refuse_other_cluster, replace(FILE, inventory_uid=""), {}
    ),
}
_LATER: Mapping[str, Callable[[], object]] = {
    "plan file expired": partial(refuse_expired, FILE, FILE.expires),
    "plan file of another inventory": partial(
        refuse_other_inventory, replace(FILE, inventory_uid="other"), inventory()
    ),
}


def _unnamed() -> Iterator[Event]:
    """Yield the events of a plan without a file, because nothing identifies the cluster."""
    few = replace(ALLOWED, removals=(), consequences=(), guards=(), warnings=(), inventory="/0")
    *events, _ = previewed(replace(few, applies=ALLOWED.applies[2:4], deletions=""))
    return ended_by(partial(_file_of, few), *events)


def _changed(step: ApplyStep, **changes: Any) -> ApplyStep:
    return replace(step, desired=replace(step.desired, **changes))


def _moved(step: ApplyStep, **changes: Any) -> ApplyStep:
    return replace(step, live=live(step.desired.ref, **changes))


_EDITED, _REPLACED, _TOUCHED = (
    applied(Fate.CHANGE, name, "Deployment") for name in ("edited", "replaced", "touched")
)
_GREEN = removed(Fate.PRUNE, "green", "Namespace")
_POD = Cascaded(wanted("web-0", "Pod").ref, "u8")
_THEN_AND_NOW: Sequence[tuple[ApplyStep | RemoveStep | None, ApplyStep | RemoveStep | None],] = (
    (_EDITED, _changed(_EDITED, digest="other")),
    (_REPLACED, _moved(_REPLACED, uid="u9")),
    (_TOUCHED, _moved(_TOUCHED, uid="u-touched", version="6")),
    (applied(Fate.CHANGE, "left-out"), None),
    (None, applied(Fate.CREATE, "added")),
    (removed(Fate.PRUNE, "back"), applied(Fate.CHANGE, "back")),
    (None, removed(Fate.PRUNE, "listed")),
    (removed(Fate.PRUNE, "unlisted"), None),
    (applied(Fate.CHANGE, "deleted"), applied(Fate.CREATE, "deleted")),
    (applied(Fate.CREATE, "created"), applied(Fate.ADOPT, "created")),
    (applied(Fate.LEAVE, "drifted"), applied(Fate.CHANGE, "drifted")),
    (
        applied(Fate.LEAVE, "valued", "Secret", is_checked=True),
        applied(Fate.CHANGE, "valued", "Secret", is_checked=True),
    ),
    (applied(Fate.RECREATE, "fixed"), applied(Fate.LEAVE, "fixed")),
    (replace(applied(Fate.LEAVE, "once"), live=None), applied(Fate.CREATE, "once")),
    (applied(Fate.CHANGE, "shared"), applied(Fate.ADOPT, "shared")),
    (removed(Fate.PRUNE, "kept"), removed(Fate.ORPHAN, "kept")),
    (removed(Fate.REFUSE, "gone"), removed(Fate.REMOVE_FROM_INVENTORY, "gone")),
    (_GREEN, replace(_GREEN, cascade=(_POD,))),
)
"""What a plan file has about an object, and what an apply would do now; each pair differs."""


def _plan_of(steps: Iterable[ApplyStep | RemoveStep | None]) -> Plan:
    steps = tuple(steps)
    return Plan(
        tuple(step for step in steps if isinstance(step, ApplyStep)),
        tuple(step for step in steps if isinstance(step, RemoveStep)),
        inventory="i1/3",
    )


def _outdated() -> Iterator[Event]:
    """Yield the events of an apply whose plan file does not fit any of the objects."""
    then, now = (_plan_of(steps) for steps in zip(*_THEN_AND_NOW, strict=True))
    labelled = wanted("labelled")
    now = replace(now, recovered=(recorded(labelled, live(labelled.ref)),))
    found = misfits(_file_of(then), now, inventory())
    summary = RunSummary("run1", held=True)
    yield started()
    yield from summary.counted(found)
    yield finished(summary)


def _wrong() -> Iterator[tuple[str, Sequence[Event]]]:
    with TemporaryDirectory() as folder, chdir(folder):
        yield from ((name, tuple(_read(name))) for name in _UNREADABLE)
        yield from ((name, tuple(_write(name))) for name in _UNWRITABLE)
    yield "validity of a plan file", tuple(ended_by(partial(refuse_validity, 0)))
    for name, refuse in _ELSEWHERE.items():
        yield name, tuple(ended_by(refuse, started()))
    yield "plan of an unknown cluster", tuple(_unnamed())


WRONG: Mapping[str, Sequence[Event]] = dict(_wrong())
"""Runs that end because of a wrong plan file, or of the place for it, each under its name."""
OUTDATED: Mapping[str, Sequence[Event]] = {
    **{name: tuple(ended_by(refuse, started())) for name, refuse in _LATER.items()},
    "plan outdated": tuple(_outdated()),
}
"""Runs that end because their plan file is not valid any more."""
