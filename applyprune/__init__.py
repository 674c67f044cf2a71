"""Apply a set of Kubernetes manifests, record what was created, prune what left the set.

The names below are the Python API; each is imported when it is first used.
"""

from __future__ import annotations

import os
import sys

if sys.platform == "win32":
    # Before anything is imported that is missing there.
    why = (
        "applyprune does not run on Windows: it needs the file locks, process groups and limits "
        "of Linux or macOS\n  Run it in WSL, the Windows Subsystem for Linux."
    )
    # A command, and ``python -m``: an error like all others of the command line.
    if "applyprune" in os.path.basename(sys.argv[0]) or sys.argv[0] == "-m":  # noqa: PTH119
        print(f"error: {why}", file=sys.stderr)  # noqa: T201
        sys.exit(2)
    raise ImportError(why)

from applyprune._version import __version__

# Not from typing: a Ctrl-C while that is imported would print a traceback, before the command line
# can handle it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from applyprune.api.bundles import Bundle
    from applyprune.api.sets import ApplySet, ClusterConnection, connect, load
    from applyprune.cluster.access import ClusterAccess
    from applyprune.engine.ports import Cancellation
    from applyprune.errors import (
        AccessError,
        ApplypruneError,
        ConflictsFound,
        Denied,
        EmptyInput,
        Forbidden,
        InputError,
        Interrupted,
        InventoryError,
        InventoryLocked,
        NoSuchNamespace,
        NoSuchSet,
        NotReady,
        PlanOutdated,
        PruneRefused,
        RunFailed,
        Unauthorized,
        UsageError,
    )
    from applyprune.model.events import (
        Event,
        Explanation,
        ObjectDiff,
        ObjectDone,
        ObjectStatus,
        Readiness,
        Status,
    )
    from applyprune.model.fate import Outcome
    from applyprune.model.identity import Ref
    from applyprune.model.inventory import Inventory, InventoryEntry, Ownership
    from applyprune.model.options import (
        Adopt,
        AdoptFrom,
        ApplyOptions,
        Conflicts,
        DryRun,
        HelmHooks,
        Mode,
        Options,
        Propagation,
        PruneAlso,
        PruneLimit,
        PruneOptions,
        StatusOptions,
        WaitMode,
        WaitOptions,
    )
    from applyprune.model.plan import Plan
    from applyprune.model.problem import Manifest, Problem
    from applyprune.model.reports import BundleStatus
    from applyprune.output.report import ObjectReport, RunReport
    from applyprune.planning.approval import PlanFile
    from applyprune.sources.load import Input
    from applyprune.sources.plan_files import read_plan, write_plan

__all__ = [
    "AccessError",
    "Adopt",
    "AdoptFrom",
    "ApplyOptions",
    "ApplySet",
    "ApplypruneError",
    "Bundle",
    "BundleStatus",
    "Cancellation",
    "ClusterAccess",
    "ClusterConnection",
    "Conflicts",
    "ConflictsFound",
    "Denied",
    "DryRun",
    "EmptyInput",
    "Event",
    "Explanation",
    "Forbidden",
    "HelmHooks",
    "Input",
    "InputError",
    "Interrupted",
    "Inventory",
    "InventoryEntry",
    "InventoryError",
    "InventoryLocked",
    "Manifest",
    "Mode",
    "NoSuchNamespace",
    "NoSuchSet",
    "NotReady",
    "ObjectDiff",
    "ObjectDone",
    "ObjectReport",
    "ObjectStatus",
    "Options",
    "Outcome",
    "Ownership",
    "Plan",
    "PlanFile",
    "PlanOutdated",
    "Problem",
    "Propagation",
    "PruneAlso",
    "PruneLimit",
    "PruneOptions",
    "PruneRefused",
    "Readiness",
    "Ref",
    "RunFailed",
    "RunReport",
    "Status",
    "StatusOptions",
    "Unauthorized",
    "UsageError",
    "WaitMode",
    "WaitOptions",
    "__version__",
    "connect",
    "load",
    "read_plan",
    "write_plan",
]

_MODULES = {
    "api.bundles": ("Bundle",),
    "api.sets": (
        "ApplySet",
        "ClusterConnection",
        "connect",
        "load",
    ),
    "cluster.access": ("ClusterAccess",),
    "engine.ports": ("Cancellation",),
    "errors": (
        "AccessError",
        "ApplypruneError",
        "ConflictsFound",
        "Denied",
        "EmptyInput",
        "Forbidden",
        "InputError",
        "Interrupted",
        "InventoryError",
        "InventoryLocked",
        "NoSuchNamespace",
        "NoSuchSet",
        "NotReady",
        "PlanOutdated",
        "PruneRefused",
        "RunFailed",
        "Unauthorized",
        "UsageError",
    ),
    "model.events": (
        "Event",
        "Explanation",
        "ObjectDiff",
        "ObjectDone",
        "ObjectStatus",
        "Readiness",
        "Status",
    ),
    "model.fate": ("Outcome",),
    "model.identity": ("Ref",),
    "model.inventory": (
        "Inventory",
        "InventoryEntry",
        "Ownership",
    ),
    "model.options": (
        "Adopt",
        "AdoptFrom",
        "ApplyOptions",
        "Conflicts",
        "DryRun",
        "HelmHooks",
        "Mode",
        "Options",
        "Propagation",
        "PruneAlso",
        "PruneLimit",
        "PruneOptions",
        "StatusOptions",
        "WaitMode",
        "WaitOptions",
    ),
    "model.plan": ("Plan",),
    "model.problem": (
        "Manifest",
        "Problem",
    ),
    "model.reports": ("BundleStatus",),
    "output.report": (
        "ObjectReport",
        "RunReport",
    ),
    "planning.approval": ("PlanFile",),
    "sources.load": ("Input",),
    "sources.plan_files": (
        "read_plan",
        "write_plan",
    ),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}
"""The module of each public name."""


def __getattr__(name: str) -> object:
    """Import the module of a public name, and return the name's value."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    from importlib import import_module

    value: object = getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, imported or not, and nothing that only this module needs."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
