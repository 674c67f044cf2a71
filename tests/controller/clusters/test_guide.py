"""The commands of the guide about other clusters, typed by a reader with two clusters."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.docs.pages import page
from tests.docs.reader import commands, reader_environment, write_files, wrong_commands
from tests.support.objects import config_map, text

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.localplane import Binaries, Plane
    from tests.support.controller import Tenant
    from tests.support.other_cluster import OtherCluster

GUIDE = page("docs/guides/other-clusters.md")


def test_commands_of_the_guide_apply_a_bundle_in_another_cluster(
    tenant: Tenant, other: OtherCluster, site: Plane, binaries: Binaries, tmp_path: Path
) -> None:
    """In order and in one shell; only the namespace has another name.

    Slow: each command of the guide is a process.
    """
    environment = reader_environment(binaries, tmp_path)
    there = tmp_path / "prod-eu"
    shutil.copy(other.second.plane.kubeconfig, there)
    rename = ("config", "rename-context", "second", "prod-eu")
    known = [str(binaries.kubectl), "--kubeconfig", str(there)]
    subprocess.run([*known, *rename], check=True, capture_output=True)
    environment["KUBECONFIG"] = f"{site.kubeconfig}:{there}"
    folder = tmp_path / "home"
    write_files(GUIDE, folder)
    bundle = folder / "bundle.yaml"
    bundle.write_text(bundle.read_text().replace("shop", tenant.namespace))
    (folder / "manifests").mkdir()
    (folder / "manifests" / "web.yaml").write_text(text(config_map("a"), config_map("b")))
    typed = [
        replace(command, line=command.line.replace("shop", tenant.namespace))
        for command in commands(GUIDE)
    ]
    assert len(typed) >= 16
    assert wrong_commands(typed, folder, environment) == []
    assert other.exists(tenant, "a", "b", "applyprune-web") == [True, True, True]
    assert tenant.exists("a", "b", "applyprune-web") == [False, False, False]
