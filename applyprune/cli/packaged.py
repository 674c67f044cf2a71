"""The files that applyprune contains beside its code: the demo's manifests, and ``deploy/``."""

from __future__ import annotations

from pathlib import Path

from applyprune.errors import UsageError

_PACKAGE = Path(__file__).parent.parent
_CHECKOUT = {"demo": "fixtures/demo", "deploy": "deploy"}


def packaged_folder(name: str) -> Path:
    """Return the folder ``demo`` or ``deploy``, from ``applyprune/_data`` or from the checkout.

    Raises UsageError if neither exists.
    """
    folders = (_PACKAGE / "_data" / name, _PACKAGE.parent / _CHECKOUT[name])
    for folder in folders:
        if folder.is_dir():
            return folder
    raise UsageError(
        f"the folder {name!r} of the installation is missing",
        reason=f"neither {folders[0]} nor {folders[1]} exists",
        hint="Install applyprune again.",
    )
