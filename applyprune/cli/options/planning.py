"""The options that decide a plan: ``plan``, ``diff`` and ``apply`` have the same ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.cli.options.apply import apply_options
from applyprune.cli.options.cluster_access import cluster_options
from applyprune.cli.options.config_defaults import name_argument
from applyprune.cli.options.run_options import (
    guard_options,
    input_option,
    placement_option,
    removal_options,
    selection_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def planning_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add NAME, the input, the cluster and the options of an apply and its prune.

    The verb gets ``name``, ``paths``, ``cluster_target`` and ``options``.
    """
    verb = selection_option(apply_options(verb))
    verb = guard_options(placement_option(verb))
    return name_argument(input_option(cluster_options(removal_options(verb))))
