"""What other tools still have of the objects that a set adopts, and the commands that end that.

The objects do not say it any more: an adoption removes the marks. But a tool may find an object by
its own record, as Helm does, which looks at names only; and one that runs in the cluster writes it
again. The names come from labels and annotations that anybody may write: a command has only those
that objects can have.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from applyprune.model.fate import Fate
from applyprune.model.kinds import APPLICATION, CONFIG_MAP, HELM_RELEASE, KUSTOMIZATION, SECRET
from applyprune.model.live import LiveObject, mapping, text
from applyprune.model.plan import Plan, ToolRecord
from applyprune.model.text import is_dns_label, is_dns_subdomain
from applyprune.planning.applyset import PART_OF, SET_ID, TOOLING
from applyprune.planning.marks import OwnerMark
from applyprune.planning.ownership import foreign_label, other_set, tool_marks
from applyprune.planning.secrets import HIDDEN
from applyprune.values import pattern

if TYPE_CHECKING:
    from applyprune.model.identity import GroupKind
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.planning.ownership import OtherSet


LookUp: TypeAlias = "Callable[[GroupKind, str, str], Sequence[LiveObject] | None]"
"""Returns the objects of a kind, in a namespace or in all, that a label selector chooses.

ConfigMaps come in full. None if they cannot be read, and nothing if the kind is not served.
"""


class _Trace(Struct, frozen=True):
    """What an object says of a record."""

    mark: OwnerMark
    name: str
    """The name in the mark; empty if it is hidden."""
    namespace: str = ""
    """The namespace that the mark names; empty if it names none."""


class _Place(Struct, frozen=True):
    """Where a tool has its record, and how that ends."""

    kinds: tuple[GroupKind, ...] = ()
    """The kinds of the object that it is; without any, nobody can look for it."""
    selector: str = ""
    """A label selector, with the name in the mark as ``{}``."""
    matches: Callable[[LiveObject, _Trace], bool] | None = None
    """Whether one of these objects is the record; None if each is."""
    ends: str = ""
    """The command, with ``{name}`` and ``{namespace}``; empty if there is none."""
    by_mark: bool = True
    """Whether these names are those in the mark; if not, the record itself has them."""
    runs: bool = False
    """Whether the tool runs in the cluster, and writes the objects again."""
    unless: tuple[str, ...] = ()
    """The ends of names for which the command is wrong."""


_LABEL_VALUE = pattern(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def _has_name(live: LiveObject, trace: _Trace) -> bool:
    return live.ref.name == trace.name


def _is_app(live: LiveObject, trace: _Trace) -> bool:
    """Return whether a ConfigMap is the record of the app of kapp that a label belongs to."""
    try:
        spec = mapping(json.loads(text(live.body or {}, "data", "spec")))
    except ValueError:
        return False
    return spec.get("labelValue") == trace.name


def _is_of_kubectl(live: LiveObject, _: _Trace) -> bool:
    return live.annotations.get(TOOLING, "").startswith("kubectl/")


def _patched(kind: str, change: str) -> str:
    """Return the command that changes an object so that its deletion deletes nothing else."""
    where = f"{kind} -n {{namespace}} {{name}}"
    braces = change.replace("{", "{{").replace("}", "}}")
    return f"kubectl patch {where} --type=merge -p '{braces}' && kubectl delete {where}"


_IN_FLUX = _Place(
    (KUSTOMIZATION,),
    matches=_has_name,
    ends=_patched(
        "kustomizations.kustomize.toolkit.fluxcd.io", '{"spec":{"suspend":true,"prune":false}}'
    ),
    runs=True,
)
_IN_ARGO = _Place(
    (APPLICATION,),
    matches=_has_name,
    ends=_patched(
        "applications.argoproj.io",
        '{"metadata":{"finalizers":null},"spec":{"syncPolicy":{"automated":null}}}',
    ),
    by_mark=False,
    runs=True,
)
_RUNS = _Place(runs=True)
PLACES: Mapping[str, _Place | None] = {
    "meta.helm.sh/release-name": _Place(
        (SECRET,),
        "owner=helm,name={}",
        ends="kubectl delete secret -n {namespace} -l owner=helm,name={name}",
    ),
    "kustomize.toolkit.fluxcd.io/name": _IN_FLUX,
    "helm.toolkit.fluxcd.io/name": _Place(
        (HELM_RELEASE,),
        matches=_has_name,
        ends=_patched("helmreleases.helm.toolkit.fluxcd.io", '{"spec":{"suspend":true}}'),
        runs=True,
    ),
    "argocd.argoproj.io/tracking-id": _IN_ARGO,
    "argocd.argoproj.io/instance": _IN_ARGO,
    "app.kubernetes.io/instance": _IN_ARGO,
    "kapp.k14s.io/app": _Place(
        (CONFIG_MAP,),
        "kapp.k14s.io/is-app",
        _is_app,
        "kubectl delete configmap -n {namespace} {name}",
        by_mark=False,
        # So kapp-controller names its apps, and would deploy them again.
        unless=tuple(
            f"{end}{more}" for end in ("-ctrl", ".app", ".pkgr") for more in ("", ".apps.k14s.io")
        ),
    ),
    "config.k8s.io/owning-inventory": _Place(
        (CONFIG_MAP,),
        "cli-utils.sigs.k8s.io/inventory-id={}",
        ends="kubectl delete configmap -A -l cli-utils.sigs.k8s.io/inventory-id={name}",
    ),
    # It finds its objects by the mark only.
    "kluctl.io/discriminator": None,
    "configsync.gke.io/resource-id": _RUNS,
    "objectset.rio.cattle.io/id": _RUNS,
    "olm.owner": _RUNS,
    PART_OF: _Place(
        (SECRET, CONFIG_MAP),
        f"{SET_ID}={{}}",
        _is_of_kubectl,
        "kubectl delete {kind} -n {namespace} {name}",
        by_mark=False,
    ),
}
"""By the key of the mark; None if the tool keeps none."""
_APPLYSET = OwnerMark("kubectl", "labels", PART_OF, "the kubectl ApplySet {}")


def tool_records(
    plan: Plan,
    applyset: ApplySetIdentity,
    others: Mapping[str, OtherSet],
    look_up: LookUp,
) -> tuple[ToolRecord, ...]:
    """Return what other tools still have of the objects that a plan adopts.

    What is known not to be there is left out. ``others`` are the sets whose labels objects have.
    """
    traces = Counter(
        trace
        for step in plan.applies
        if step.fate is Fate.ADOPT and step.live is not None
        for trace in _traces(step.live, applyset, others)
    )
    named = {trace.mark.key for trace in traces if trace.name}
    found: dict[tuple[str, str], ToolRecord] = {}
    for trace, count in traces.items():
        # Of a Secret, the name is hidden; other objects of the release may show it.
        if not trace.name and trace.mark.key in named:
            continue
        if (record := _record(trace, count, look_up)) is not None:
            found.setdefault((record.tool, record.owner), record)
    return tuple(sorted(found.values(), key=lambda one: (not one.runs, one.tool, one.owner)))


def _traces(
    live: LiveObject, applyset: ApplySetIdentity, others: Mapping[str, OtherSet]
) -> Iterator[_Trace]:
    for mark, value in tool_marks(live, applyset.manager):
        name = value.partition(mark.ends_at)[0] if mark.ends_at else value
        there = live.labels if mark.part == "labels" else live.annotations
        namespace = there.get(mark.namespace, "") if name and mark.namespace else ""
        if mark.tool == "Argo CD":  # it writes NAMESPACE_NAME for one outside of its own
            namespace, _, name = name.rpartition("_")
        yield _Trace(mark, name, namespace)
    label = foreign_label(live, applyset)
    known = others.get(label)
    if label and not other_set(live) and (known is None or not known.named):
        yield _Trace(_APPLYSET, label)


def _record(trace: _Trace, count: int, look_up: LookUp) -> ToolRecord | None:
    """Return the record that an object speaks of; None if there is none, or none any more."""
    mark, place = trace.mark, PLACES.get(trace.mark.key)
    if place is None:
        return None
    found = _found(place, trace, look_up)
    if found is not None and not found:
        return None
    name, namespace, command = trace.name, trace.namespace, ""
    # Two of the same name: nobody knows which one it is.
    record = found[0] if found is not None and len(found) == 1 else None
    if record is not None and not place.by_mark:
        name, namespace = record.ref.name, record.ref.namespace
    is_known = place.by_mark or record is not None or bool(namespace)
    if is_known and not name.endswith(place.unless):
        kind = "" if record is None else record.ref.kind.lower()
        command = _command(place.ends, name, namespace, kind)
    words = mark.named.format(name or HIDDEN).removeprefix("the ").removeprefix(mark.tool)
    where = f" in namespace {namespace}" if namespace else ""
    return ToolRecord(mark.tool, f"{words.lstrip(', ')}{where}", count, command, runs=place.runs)


def _found(place: _Place, trace: _Trace, look_up: LookUp) -> Sequence[LiveObject] | None:
    """Return the objects that are the record; None if that is not known."""
    if not place.kinds or _LABEL_VALUE.fullmatch(trace.name) is None:
        return None
    if trace.namespace and not is_dns_label(trace.namespace):
        return None
    found: list[LiveObject] = []
    for kind in place.kinds:
        there = look_up(kind, trace.namespace, place.selector.format(trace.name))
        if there is None:
            return None
        matches = place.matches
        found += (live for live in there if matches is None or matches(live, trace))
    return found


def _command(ends: str, name: str, namespace: str, kind: str) -> str:
    """Return a command with these names; empty if it would not be about one object."""
    needs = "{namespace}" in ends
    # guard: named-record never
    if not is_dns_subdomain(name) or (needs and not is_dns_label(namespace)):
        return ""
    return ends.format(name=name, namespace=namespace, kind=kind)
