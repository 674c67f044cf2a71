"""The software bill of materials of the wheel: CycloneDX 1.6 in JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from applyprune.localplane.wheel import DISTRIBUTION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from applyprune.localplane.wheel import WheelFacts
    from tests.packaging.plane_wheel.linked import LinkedModule

_ROOT = "wheel"


def bill_of_materials(facts: WheelFacts, version: str, modules: Sequence[LinkedModule]) -> bytes:
    """Return the document: the programs, and each Go module in them with digest and licenses.

    It has no time and no serial number: two builds of the same sources are the same bytes.
    """
    programs = [
        {
            "type": "application",
            "bom-ref": f"program:{name}",
            "name": name,
            "version": facts.kubernetes,
            "hashes": [{"alg": "SHA-256", "content": digest}],
        }
        for name, digest in sorted(facts.programs.items())
    ]
    purls = [module.purl for module in modules]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": _ROOT,
                "name": DISTRIBUTION,
                "version": version,
                "purl": f"pkg:pypi/{DISTRIBUTION}@{version}",
            },
            "properties": [
                {"name": "applyprune:module", "value": facts.module},
                {"name": "applyprune:platform", "value": facts.platform},
            ],
        },
        "components": [*programs, *(_component(module) for module in modules)],
        "dependencies": [
            {"ref": _ROOT, "dependsOn": [one["bom-ref"] for one in programs]},
            *({"ref": one["bom-ref"], "dependsOn": purls} for one in programs),
        ],
    }
    return f"{json.dumps(document, indent=1)}\n".encode()


def _component(module: LinkedModule) -> dict[str, Any]:
    digest = [{"name": "go:sum", "value": module.sum}] if module.sum else []
    return {
        "type": "library",
        "bom-ref": module.purl,
        "name": module.path,
        "version": module.version,
        "licenses": [{"license": {"id": one}} for one in module.licenses],
        "purl": module.purl,
        **({"properties": digest} if digest else {}),
    }
