"""``python -m tests.versions.derive VERSION``: write go.mod and go.sum for another Kubernetes.

They require what the default go.mod requires directly, with three differences: the modules of
Kubernetes in the version wanted, etcd in the version that this Kubernetes is released with, and a
kwok that is not newer than it. Go chooses the rest, so what is linked is what the release requires.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from applyprune.localplane.build import MODULE
from tests.versions.releases import go_mod_of

KWOK_BEFORE_1_36 = "v0.6.1"
"""v0.8.0 requires modules that Kubernetes has since 1.36, v0.7.0 a constant that only 1.33 has."""
EASYCEL = "v0.6.0"
"""v0.5.0, which this kwok requires, was made for an older CEL than that of Kubernetes 1.34."""


def main(arguments: list[str]) -> int:
    """Write the files of the version; return the exit code."""
    version = f"v{arguments[0].removeprefix('v')}"
    path = go_mod_of(version)
    told: dict[str, str] = json.loads(
        _go("mod", "download", "-json", f"k8s.io/kubernetes@{version}")
    )
    release = Path(told["GoMod"]).read_text()
    path.write_text(derived((MODULE / "go.mod").read_text(), release, version))
    path.with_suffix(".sum").unlink(missing_ok=True)
    _go("mod", "tidy", f"-modfile={path}")
    sys.stdout.write(f"wrote {path} and {path.with_suffix('.sum').name}\n")
    return 0


def derived(default: str, release: str, version: str) -> str:
    """Return the go.mod before Go has completed it, from the default one and that of a release."""
    staging = version.replace("v1.", "v0.", 1)
    minor = int(version.split(".")[1])
    head, _, rest = default.partition("require (\n")
    lines = []
    for line in rest.partition(")")[0].splitlines():
        module, pinned = line.split()
        if module == "k8s.io/kubernetes":
            pinned = version
        elif module.startswith("k8s.io/"):
            pinned = staging
        elif module == "go.etcd.io/etcd/server/v3":
            pinned = released(release, module)
        elif module == "sigs.k8s.io/kwok" and minor < 36:
            pinned = KWOK_BEFORE_1_36
            lines.append(f"\tgithub.com/wzshiming/easycel {EASYCEL}\n")
        lines.append(f"\t{module} {pinned}\n")
    of_staging = re.findall(r"^\t(k8s\.io/\S+) => \./staging/", release, re.MULTILINE)
    replaced = "".join(f"\t{one} => {one} {staging}\n" for one in of_staging)
    return f"{head}require (\n{''.join(lines)})\n\nreplace (\n{replaced})\n"


def released(go_mod: str, module: str) -> str:
    """Return the version of a module that a go.mod requires."""
    found = re.search(rf"^\t{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise ValueError(f"go.mod does not require {module}")
    return found[1]


def _go(*arguments: str) -> str:
    own = {"GOWORK": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-modcacherw"}
    return subprocess.run(
        ["go", *arguments],
        cwd=MODULE,
        env=os.environ | own,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
