"""The bill of materials of the wheel: CycloneDX 1.6, from an environment that has it installed."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

from applyprune import __version__

ROOT = Path(__file__).parents[3]
EXTRAS = ("cel", "controller")
"""What the image has as well. The extra ``plane`` is a wheel with a bill of its own."""


def write_bill(wheel: Path, path: Path) -> None:
    """Write what pip installs for the wheel and its extras today, with versions and licenses."""
    with TemporaryDirectory() as folder:
        venv.create(folder, with_pip=False)
        wanted = f"{wheel.absolute()}[{','.join(EXTRAS)}]"
        pip = (sys.executable, "-m", "pip", "--python", folder, "install", "--quiet")
        subprocess.run([*pip, "--no-compile", wanted], check=True)
        cyclonedx = (sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible")
        more = ("--spec-version", "1.6", "--pyproject", ROOT / "pyproject.toml")
        python = Path(folder) / "bin" / "python"
        subprocess.run([*cyclonedx, *more, "--output-file", path, python], check=True)
        libraries = bundled_libraries(python)
    bill = json.loads(path.read_bytes())
    (pycurl,) = (part for part in bill["components"] if part["name"] == "pycurl")
    pycurl["components"] = [
        {
            "type": "library",
            "bom-ref": f"{pycurl['bom-ref']}/{name}",
            "name": name,
            "version": version,
            "purl": f"pkg:generic/{name.lower()}@{version}",
        }
        for name, version in libraries.items()
    ]
    # pyproject.toml leaves the version to the package.
    root = bill["metadata"]["component"]
    root["version"] = __version__
    root["purl"] = f"pkg:pypi/applyprune@{__version__}"
    path.write_text(f"{json.dumps(bill, indent=1)}\n", encoding="utf-8")


def bundled_libraries(python: Path) -> dict[str, str]:
    """Return the libraries that the wheel of ``pycurl`` brings, each with its version.

    libcurl and OpenSSL are among them, and no metadata of the wheel names them.
    """
    program = "import pycurl; print(pycurl.version)"
    said = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True)
    found = dict(word.split("/", 1) for word in said.stdout.split())
    del found["PycURL"]
    return found
