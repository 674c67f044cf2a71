"""Check whether the Bundles that a Bundle depends on are ready, and find dependency cycles."""

from __future__ import annotations

from collections.abc import Sequence

from applyprune.controller.bundle import Bundle, Dependency
from applyprune.controller.bundle_client import BundleObjects, status_of
from applyprune.controller.status import is_ready, is_tried
from applyprune.model.live import LiveObject
from applyprune.model.readiness_state import Status
from applyprune.planning.readiness.cel import compile_rule

_MAX_SEEN = 100


def unready_dependencies(bundle: Bundle, bundles: BundleObjects) -> Sequence[str]:
    """Return why dependencies of a Bundle are not ready; empty when all are ready."""
    dependencies = bundle.spec.depends_on
    reasons = [
        reason
        for dependency in dependencies
        if (reason := _reason(bundle.namespace, dependency, bundles))
    ]
    if reasons and (cycle := _cycle(bundle, bundles)):
        reasons.append(f"they depend on each other: {' → '.join(cycle)}")
    return reasons


def _reason(namespace: str, dependency: Dependency, bundles: BundleObjects) -> str:
    name = dependency.name
    live = bundles.get((namespace, name))
    if live is None:
        return f"the Bundle {name} does not exist"
    if live.terminating:
        return f"the Bundle {name} is being deleted"
    if dependency.ready_when and is_tried(status_of(live), live.generation):
        judged = compile_rule(dependency.ready_when, where="spec.dependsOn").judge(live.body or {})
        ready = judged.status is Status.CURRENT
        return "" if ready else f"the Bundle {name}: {judged.message}"
    if not dependency.ready_when and is_ready(status_of(live), live.generation):
        return ""
    if (live.body or {}).get("spec", {}).get("suspend") is True:
        return f"the Bundle {name} is suspended, and its last change has not been applied"
    return f"the Bundle {name} is not ready"


def _cycle(bundle: Bundle, bundles: BundleObjects) -> Sequence[str]:
    """Return the path from a Bundle back to itself; empty if none is found in 100 Bundles."""
    dependencies = bundle.spec.depends_on
    paths: list[tuple[str, ...]] = [(bundle.name, dependency.name) for dependency in dependencies]
    seen: set[str] = set()
    while paths and len(seen) < _MAX_SEEN:
        path = paths.pop()
        if path[-1] == bundle.name:
            return path
        if path[-1] in seen:
            continue
        seen.add(path[-1])
        live = bundles.get((bundle.namespace, path[-1]))
        paths += [(*path, name) for name in (_depends_on(live) if live is not None else ())]
    return ()


def _depends_on(live: LiveObject) -> Sequence[str]:
    spec = (live.body or {}).get("spec") or {}
    return [str(dependency.get("name")) for dependency in spec.get("dependsOn") or ()]
