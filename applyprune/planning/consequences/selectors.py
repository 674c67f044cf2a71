"""Find the Services of a set whose selector matches no Pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from applyprune.model.identity import Ref
from applyprune.model.live import field, mapping
from applyprune.model.plan import Consequence, ConsequenceKind, Fate
from applyprune.planning.consequences.facts import (
    DEPLOYMENT,
    JOB,
    SERVICE,
    Change,
    Facts,
)
from applyprune.planning.consequences.rollouts import WORKLOADS, changes_template
from applyprune.planning.pod_template import CRON_JOB, POD, pod_template

Labels = Mapping[str, str]
_SENT = frozenset({Fate.CREATE, Fate.CHANGE, Fate.ADOPT, Fate.RECREATE})
_HAS_PODS = WORKLOADS | {POD, JOB, CRON_JOB}


def selector_of(change: Change) -> Labels:
    """Return the selector of a Service; empty if it has none, or selects by a name outside."""
    if change.kind != SERVICE or change.fate is Fate.REFUSE:
        return {}
    if change.value("spec", "type") == "ExternalName":
        return {}
    return {key: str(value) for key, value in mapping(change.value("spec", "selector")).items()}


def without_template(facts: Facts) -> Mapping[Ref, Labels]:
    """Return the selector of each Service that the set gives no Pods, if the plan concerns it.

    A Service that does not change itself counts only if its Pods may have been those of a workload
    that is deleted or gets other labels.
    """
    templates = LabelIndex(
        (member.ref.namespace, _labels(member.ref, member.body)) for member in facts.wanted
    )
    lost, unknown = _lost(facts)
    found: dict[Ref, Labels] = {}
    for change in facts.changes:
        selector, place = selector_of(change), change.ref.namespace
        if not selector or templates.matches(place, selector):
            continue
        if change.fate in _SENT or place in unknown or lost.matches(place, selector):
            found[change.ref] = selector
    return found


def no_pods(facts: Facts) -> Iterator[Consequence]:
    """Yield each Service whose selector matches no Pod template and no Pod; none if unknown."""
    if not facts.related.was_read(POD):
        return
    failure = facts.related.failures.get(POD, "")
    leaving = _leaving(facts)
    pods = LabelIndex(
        (pod.ref.namespace, pod.labels)
        for pod in facts.related.of(POD)
        if not (pod.terminating or pod.uid in leaving)
    )
    for ref, selector in without_template(facts).items():
        if pods.matches(ref.namespace, selector):
            continue
        told = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
        end = f"; {failure}" if failure else " and no Pod in the cluster"
        yield Consequence(
            ConsequenceKind.NO_PODS,
            ref,
            f"its selector {told} matches no Pod template of the set{end}",
            None if failure else 0,
            certain=not failure,
        )


class LabelIndex:
    """Finds out fast whether a selector matches any of many sets of labels."""

    def __init__(self, labelled: Iterable[tuple[str, Labels]]) -> None:
        """Take the labels, each with its namespace."""
        self._found: dict[tuple[str, str, object], list[Labels]] = {}
        for namespace, labels in labelled:
            for key, value in labels.items():
                self._found.setdefault((namespace, key, value), []).append(labels)

    def matches(self, namespace: str, selector: Labels) -> bool:
        """Return whether some labels in a namespace have every label of a selector."""
        lists = (self._found.get((namespace, *label), []) for label in selector.items())
        rarest = min(lists, key=len, default=[])
        return any(selector.items() <= labels.items() for labels in rarest)


def _labels(ref: Ref, body: Mapping[str, object]) -> Labels:
    """Return the labels of an object's Pods; a custom resource may have a template as well."""
    template = pod_template(ref.group_kind, body) or field(body, "spec", "template")
    return mapping(field(mapping(template), "metadata", "labels"))


def _lost(facts: Facts) -> tuple[LabelIndex, frozenset[str]]:
    """Return the labels of Pods that may be lost, and the namespaces where these are unknown."""
    labelled: list[tuple[str, Labels]] = []
    unknown: set[str] = set()
    for change in facts.changes:
        if change.kind not in _HAS_PODS or not (change.fate is Fate.PRUNE or change.is_changed):
            continue
        if change.before is not None:
            labelled.append((change.ref.namespace, _labels(change.ref, change.before)))
        elif change.fate is Fate.PRUNE:
            unknown.add(change.ref.namespace)
    return LabelIndex(labelled), frozenset(unknown)


def _leaving(facts: Facts) -> frozenset[str]:
    """Return the UIDs of the Pods that the plan deletes or replaces, and of their owners."""
    workloads = [
        change.uid
        for change in facts.changes
        if change.uid
        and change.kind in _HAS_PODS
        and (change.is_deleted or (change.is_changed and changes_template(change)))
    ]
    return frozenset(workloads) | facts.owned_by(workloads).keys()


def needs_owners(facts: Facts) -> bool:
    """Return whether only the ReplicaSets show which Pods stay."""
    return any(
        change.kind == DEPLOYMENT and (change.is_deleted or change.is_changed)
        for change in facts.changes
    )
