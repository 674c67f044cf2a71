"""Whether the Bundles that another one depends on are ready, and whether they ever can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.controller.objects import status_of
from applyprune.controller.status import is_ready
from applyprune.model.readiness import Status
from applyprune.planning.ready_rules import compile_rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.controller.bundle import Bundle, Dependency
    from applyprune.controller.objects import BundleObjects
    from applyprune.model.live import Live

_MOST = 100


def awaited(bundle: Bundle, bundles: BundleObjects) -> Sequence[str]:
    """Return why each Bundle that another depends on is not ready; empty when all are."""
    whys = [why for one in bundle.spec.depends_on if (why := _why(bundle, one, bundles))]
    if whys and (circle := _circle(bundle, bundles)):
        whys.append(f"they depend on each other: {' → '.join(circle)}")
    return whys


def _why(bundle: Bundle, one: Dependency, bundles: BundleObjects) -> str:
    live = bundles.get((bundle.namespace, one.name))
    if live is None:
        return f"the Bundle {one.name} is not there"
    if live.terminating:
        return f"the Bundle {one.name} is being deleted"
    if one.ready_when:
        judged = compile_rule(one.ready_when, where="spec.dependsOn").judge(live.body or {})
        ready = judged.status is Status.CURRENT
        return "" if ready else f"the Bundle {one.name}: {judged.message}"
    if is_ready(status_of(live), live.generation):
        return ""
    return f"the Bundle {one.name} is not ready"


def _circle(bundle: Bundle, bundles: BundleObjects) -> Sequence[str]:
    """Return the way from a Bundle back to itself; empty when there is none, or a very long one."""
    ways: list[tuple[str, ...]] = [(bundle.name, one.name) for one in bundle.spec.depends_on]
    seen: set[str] = set()
    while ways and len(seen) < _MOST:
        way = ways.pop()
        if way[-1] == bundle.name:
            return way
        if way[-1] in seen:
            continue
        seen.add(way[-1])
        live = bundles.get((bundle.namespace, way[-1]))
        ways += [(*way, name) for name in (_named_by(live) if live is not None else ())]
    return ()


def _named_by(live: Live) -> Sequence[str]:
    spec = (live.body or {}).get("spec") or {}
    return [str(one.get("name")) for one in spec.get("dependsOn") or ()]
