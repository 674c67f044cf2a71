"""Find the Services of a set whose selector matches no Pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from applyprune.model.identity import Ref
from applyprune.model.json_access import field, mapping
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
    templates: dict[str, list[Labels]] = {}
    for member in facts.wanted:
        if labels := _labels(member.ref, member.body):
            templates.setdefault(member.ref.namespace, []).append(labels)
    found: dict[Ref, Labels] = {}
    for change in facts.changes:
        selector = selector_of(change)
        if not selector:
            continue
        if any(selects(selector, labels) for labels in templates.get(change.ref.namespace, ())):
            continue
        if change.fate in _SENT or _loses_pods(change, selector, facts):
            found[change.ref] = selector
    return found


def no_pods(facts: Facts) -> Iterator[Consequence]:
    """Yield each Service whose selector matches no Pod template and no Pod; none if unknown."""
    if not facts.related.was_read(POD):
        return
    failure = facts.related.failures.get(POD, "")
    leaving = _leaving(facts)
    pods = [pod for pod in facts.related.of(POD) if not (pod.terminating or pod.uid in leaving)]
    for ref, selector in without_template(facts).items():
        there = (pod for pod in pods if pod.ref.namespace == ref.namespace)
        if any(selects(selector, pod.labels) for pod in there):
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


def selects(selector: Labels, labels: Labels) -> bool:
    """Return whether labels have every label of a selector."""
    return all(labels.get(key) == value for key, value in selector.items())


def _labels(ref: Ref, body: Mapping[str, object]) -> Labels:
    """Return the labels of an object's Pods; a custom resource may have a template as well."""
    template = pod_template(ref.group_kind, body) or field(body, "spec", "template")
    return mapping(field(mapping(template), "metadata", "labels"))


def _loses_pods(service: Change, selector: Labels, facts: Facts) -> bool:
    for change in facts.changes:
        if change.kind not in _HAS_PODS or change.ref.namespace != service.ref.namespace:
            continue
        if change.before is None:
            if change.fate is Fate.PRUNE:
                return True
        elif (change.fate is Fate.PRUNE or change.is_changed) and selects(
            selector, _labels(change.ref, change.before)
        ):
            return True
    return False


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
