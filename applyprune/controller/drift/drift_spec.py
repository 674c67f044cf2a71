"""The part of a Bundle's spec that is about drift."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictInt
from pydantic.dataclasses import dataclass as checked

from applyprune.controller.constants import DriftPolicy
from applyprune.controller.spec_types import CAMEL, Seconds
from applyprune.model.options import OnDrift

__all__ = ["ON_DRIFT", "DriftPolicy", "DriftSpec"]

ON_DRIFT = {
    DriftPolicy.CORRECT: OnDrift.REVERT,
    DriftPolicy.REPORT: OnDrift.KEEP,
    DriftPolicy.IGNORE: OnDrift.KEEP,
}
"""What a run does: Report and Ignore differ only in what the Bundle says."""


@checked(config=CAMEL, frozen=True, slots=True)
class Contention:
    """How often the same field is reverted in which period before its object is left alone."""

    reverts: Annotated[StrictInt, Field(ge=1, le=100)] = 5
    within: Seconds = 600.0


@checked(config=CAMEL, frozen=True, slots=True)
class DriftSpec:
    """What happens to drift."""

    policy: DriftPolicy = DriftPolicy.CORRECT
    contention: Contention = Contention()
