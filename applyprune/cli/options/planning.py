"""The options that decide a plan: ``apply`` and the verbs that show its plan have the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from applyprune.cli.options.apply import apply_options
from applyprune.cli.options.cluster_access import cluster_options
from applyprune.cli.options.config_defaults import name_argument
from applyprune.cli.options.guard_options import guard_options
from applyprune.cli.options.part_options import selection_option
from applyprune.cli.options.run_options import (
    input_option,
    optional_input_option,
    placement_option,
    removal_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def planning_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add NAME, the input, the cluster and the options of an apply and its prune.

    The verb gets ``name``, ``paths``, ``cluster_target`` and ``options``.
    """
    return name_argument(input_option(_plan_options(verb)))


def optional_planning_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Add the same to a verb that needs no input; ``paths`` may be empty."""
    return name_argument(optional_input_option(_plan_options(verb)))


def _plan_options(verb: Callable[..., Any]) -> Callable[..., Any]:
    verb = guard_options(placement_option(selection_option(apply_options(verb))))
    return cluster_options(removal_options(verb))
