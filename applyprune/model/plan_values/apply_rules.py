"""What a manifest asks for beyond its fields: when it is applied, and when it is recreated."""

from __future__ import annotations

from enum import StrEnum


class ApplyRule(StrEnum):
    """What a manifest asks for instead of being applied in each run."""

    ALWAYS = ""
    DISABLED = "disabled"
    """It is left out; an object that it names is left alone."""
    ONCE = "once"
    """Its object is created if it does not exist, and never changed."""
    EXISTS = "exists"
    """Its object must exist, and does not belong to the set."""


class Recreate(StrEnum):
    """When a manifest allows to delete and recreate its object."""

    NEVER = ""
    ALLOWED = "allowed"
    """If a field has changed that cannot be changed in place."""
    ON_CHANGE = "on-change"
    """Whenever the manifest has changed."""


ON_CHANGE = "its manifest has changed, and is marked applyprune.dev/recreate: on-change"
"""The reason of RECREATE for a manifest with ``Recreate.ON_CHANGE``."""
OUTSIDE = "it must exist, and does not belong to the set"
"""The reason of LEAVE for a manifest with ``ApplyRule.EXISTS``."""
