"""The folders of the package: how many files each holds, and which siblings each imports."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

import pytest

from applyprune.cli.main import VERBS
from tests.support.package import NAME, PACKAGE, imports, is_ours, layer, modules

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_FILES = 15
NO_VERBS_OF_THEIR_OWN = frozenset({"move", "own", "wait"})
"""``inventory move``, ``inventory own`` and ``--wait``: words of the command line."""
SIBLINGS: Mapping[str, set[str]] = {
    "cli.commands.about": {"cli.command", "cli.main", "cli.options", "cli.session", "cli.target"},
    "cli.commands.bundles": {
        "cli.command",
        "cli.confirmation",
        "cli.options",
        "cli.session",
        "cli.target",
    },
    "cli.commands.change": {
        "cli.confirmation",
        "cli.options",
        "cli.session",
        "cli.target",
    },
    "cli.commands.configure": {"cli.command", "cli.options"},
    "cli.commands.continuous": {
        "cli.command",
        "cli.options",
        "cli.packaged",
        "cli.session",
        "cli.target",
    },
    "cli.commands.inspect": {
        "cli.command",
        "cli.confirmation",
        "cli.options",
        "cli.plan_output",
        "cli.session",
        "cli.target",
    },
    "cli.commands.publish": {"cli.command", "cli.options", "cli.session"},
    "cli.commands.sandbox": {
        "cli.command",
        "cli.packaged",
    },
    "cli.options": {
        "cli.command",
        "cli.session",
        "cli.target",
    },
    "cluster.auth": {
        "cluster.transport",
    },
    "cluster.inventory": {
        "cluster.json_text",
        "cluster.client",
    },
    "cluster.transport": {
        "cluster.json_text",
        "cluster.auth",
    },
    "cluster.watching": {
        "cluster.auth",
        "cluster.object_requests",
        "cluster.objects",
        "cluster.transport",
        "cluster.watch",
    },
    "controller.clusters": {
        "controller.bundle",
        "controller.bundle_client",
        "controller.constants",
        "controller.runtime",
        "controller.task",
    },
    "controller.drift": {
        "controller.bundle",
        "controller.bundle_client",
        "controller.constants",
        "controller.result",
        "controller.secret_source",
        "controller.spec_types",
        "controller.status",
    },
    "controller.fetching": {
        "controller.bundle",
        "controller.constants",
        "controller.runtime",
        "controller.source_spec",
    },
    "controller.reconcile": {
        "controller.bundle",
        "controller.bundle_client",
        "controller.clusters",
        "controller.constants",
        "controller.drift",
        "controller.fetching",
        "controller.known_bundle",
        "controller.pending_plan",
        "controller.result",
        "controller.runtime",
        "controller.source_spec",
        "controller.status",
        "controller.task",
    },
    "controller.replicas": {
        "controller.constants",
        "controller.runtime",
    },
    "controller.runtime": {
        "controller.constants",
        "controller.drift",
        "controller.known_bundle",
        "controller.task",
    },
    "controller.workers": {
        "controller.bundle_client",
        "controller.clusters",
        "controller.constants",
        "controller.fetching",
        "controller.reconcile",
        "controller.result",
        "controller.runtime",
        "controller.task",
    },
    "engine.checks": {
        "engine.context",
        "engine.plan_stage",
        "engine.ports",
        "engine.preview",
        "engine.snapshot_reader",
        "engine.steps",
    },
    "engine.operations": {
        "engine.cancellation",
        "engine.checks",
        "engine.context",
        "engine.informer",
        "engine.inventory_lock",
        "engine.listing",
        "engine.ports",
        "engine.preflight",
        "engine.plan_stage",
        "engine.snapshot_reader",
        "engine.steps",
    },
    "engine.steps": {
        "engine.cancellation",
        "engine.context",
        "engine.cascade_counter",
        "engine.informer",
        "engine.inventory_lock",
        "engine.listing",
        "engine.ports",
        "engine.snapshot_reader",
    },
    "localplane.program": {
        "localplane.folders",
        "localplane.locks",
        "localplane.supported",
    },
    "output.formats": {"output.collector", "output.printers", "output.text", "output.wire_names"},
    "model.plan_values": {"model.identity"},
    "model.reports": {"model.identity"},
    "output.text": {
        "output.printers",
        "output.terminal",
        "output.text.inspection",
    },
    "output.text.inspection": {
        "output.printers",
        "output.terminal",
        "output.text",
    },
    "planning.adoption": {
        "planning.applyset",
        "planning.diff",
        "planning.fields",
        "planning.inventory",
        "planning.marks",
        "planning.ownership",
        "planning.prune",
        "planning.replies",
        "planning.requests",
        "planning.snapshot",
    },
    "planning.checks": {
        "planning.applyset",
        "planning.marks",
        "planning.ownership",
        "planning.fields",
        "planning.order",
        "planning.pod_template",
        "planning.readiness",
        "planning.schema",
        "planning.suggest",
        "planning.summary",
    },
    "planning.approval": {
        "planning.applyset",
        "planning.fields",
        "planning.ownership",
        "planning.plan",
        "planning.prune",
    },
    "planning.consequences": {
        "planning.applyset",
        "planning.fields",
        "planning.order",
        "planning.ownership",
        "planning.pod_template",
        "planning.prune",
        "planning.snapshot",
    },
    "planning.diff": {"planning.applyset", "planning.fields", "planning.ownership"},
    "planning.fields": {
        "planning.applyset",
    },
    "planning.inventory": {
        "planning.applyset",
        "planning.marks",
        "planning.ownership",
        "planning.readiness",
        "planning.schema",
        "planning.snapshot",
    },
    "planning.ownership": {
        "planning.annotations",
        "planning.applyset",
        "planning.fields",
        "planning.marks",
        "planning.pod_template",
    },
    "planning.prune": {
        "planning.annotations",
        "planning.applyset",
        "planning.fields",
        "planning.checks",
        "planning.inventory",
        "planning.marks",
        "planning.order",
        "planning.ownership",
        "planning.pod_template",
        "planning.requests",
        "planning.schema",
        "planning.snapshot",
    },
    "planning.readiness": {
        "planning.annotations",
        "planning.applyset",
        "planning.diff",
        "planning.marks",
        "planning.ownership",
    },
    "planning.schema": {
        "planning.annotations",
        "planning.applyset",
        "planning.fields",
        "planning.marks",
        "planning.ownership",
        "planning.readiness",
        "planning.suggest",
    },
    "sources.archives": {"sources.remote", "sources.source"},
    "sources.fetched": {
        "sources.folder_rules",
        "sources.kustomize",
        "sources.remote",
        "sources.source",
        "sources.yaml",
    },
    "sources.git": {
        "sources.git.content",
        "sources.git.program",
        "sources.git.server",
        "sources.kustomize",
        "sources.remote",
        "sources.source",
        "sources.yaml",
    },
    "sources.git.content": {
        "sources.folder_rules",
        "sources.git",
        "sources.git.program",
        "sources.git.server",
        "sources.kustomize",
        "sources.remote",
        "sources.source",
    },
    "sources.git.program": {"sources.remote"},
    "sources.git.server": {"sources.git", "sources.git.program", "sources.remote"},
    "sources.oci": {"sources.archives", "sources.remote", "sources.source"},
    "sources.remote": {"sources.sops", "sources.source"},
    "sources.sops": {"sources.yaml"},
}
"""What the modules of a folder import from the rest of their layer: a folder or a module."""


def folder(module: str) -> str:
    """Return the folder of a module within the package: ``planning.fields``."""
    parts = module.split(".")[1:]
    return ".".join(parts if modules()[module].stem == "__init__" else parts[:-1])


def siblings(module: str) -> set[str]:
    """Return what a module imports of its own layer but outside its own folder."""
    found = set()
    for imported in imports(module):
        if not is_ours(imported) or layer(imported) != layer(module):
            continue
        place = folder(imported)
        if place != folder(module):
            inner = "." in place
            found.add(place if inner else imported.removeprefix(f"{NAME}."))
    return found


INNER = sorted({folder(module) for module in modules() if "." in folder(module)})


def test_folders_hold_few_files() -> None:
    """A stranger finds a file by reading the names in a folder once."""
    counts = Counter(path.parent for path in PACKAGE.rglob("*.py"))
    assert {str(place): count for place, count in counts.items() if count > MOST_FILES} == {}


def test_file_names_on_several_layers_are_verbs() -> None:
    """The user's verb names its module on each layer; any other name has one home."""
    homes = defaultdict(set)
    for module, path in modules().items():
        if path.stem != "__init__":
            homes[path.stem].add(layer(module))
    verbs = {verb for listed in VERBS.values() for verb in listed} | NO_VERBS_OF_THEIR_OWN
    several = {name for name, layers in homes.items() if len(layers) > 1}
    assert several - verbs == set()
    assert several >= NO_VERBS_OF_THEIR_OWN - {"wait"}


@pytest.mark.parametrize("name", INNER)
def test_folder_imports_only_the_siblings_it_may(name: str) -> None:
    """Inside a layer, imports between folders are a table too; a line that nobody needs goes."""
    inside = [module for module in modules() if folder(module) == name]
    assert {one for module in inside for one in siblings(module)} == SIBLINGS.get(name, set())


def test_sibling_table_names_folders_that_exist() -> None:
    """A folder that has gone leaves no line."""
    assert SIBLINGS.keys() - set(INNER) == set()
