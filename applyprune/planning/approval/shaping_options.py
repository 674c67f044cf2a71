"""The options that shape a plan, by their names on the command line.

Other options say how a run waits or reports, or lift a guard. A plan file does not bind those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from applyprune.model.options import Options

OptionValue: TypeAlias = "bool | str | tuple[str, ...]"


def shaping_options(options: Options) -> Mapping[str, OptionValue]:
    """Return the value of each option that shapes a plan."""
    apply, prune = options.apply, options.prune
    return {
        "adopt": str(apply.adopt),
        "adopt-as": str(apply.adopt_as),
        "create-namespace": apply.create_namespace,
        "force-conflicts": apply.force_conflicts,
        "helm-hooks": str(apply.helm_hooks),
        "ignore": tuple(sorted(apply.ignore)),
        "namespace-override": apply.namespace_override,
        "on-drift": str(apply.on_drift),
        "no-default-ignore": tuple(sorted(apply.no_default_ignore)),
        "only": tuple(sorted(apply.only)),
        "orphan": tuple(sorted(prune.orphan)),
        "propagation": str(prune.propagation).lower(),
        "prune": prune.enabled,
        "prune-adopted": prune.prune_adopted,
        "prune-shared": prune.prune_shared,
        "reapply-all": apply.reapply_all,
        "recreate": apply.recreate,
        "selector": apply.selector.text if apply.selector else "",
        "take-over": tuple(sorted(apply.take_over)),
    }


def as_written(name: str, value: OptionValue) -> str:
    """Return an option as on the command line: ``--adopt=all``, ``--no-prune``; or how it is."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}" if name == "prune" else f"no --{name}"
    if not value:
        return f"no --{name}"
    values = value if isinstance(value, tuple) else (value,)
    return " ".join(f"--{name}={one}" for one in values)


def changed_options(
    before: Mapping[str, OptionValue], now: Mapping[str, OptionValue]
) -> list[tuple[str, str]]:
    """Return each option that differs, as it was written before and as it is now."""
    names = sorted({*before, *now})
    return [
        (as_written(name, before.get(name, "")), as_written(name, now.get(name, "")))
        for name in names
        if before.get(name, "") != now.get(name, "")
    ]
