"""Turn the plain arguments of the Python API into the values of a run."""

from __future__ import annotations

from applyprune.engine.cancellation import Cancellation
from applyprune.model.options import WaitMode, WaitOptions
from applyprune.values import replace


def wait_options(timeout: float | None, wait: bool | WaitOptions | None = None) -> WaitOptions:
    """Return what a run waits for; ``wait`` is as ``--wait`` or ``--no-wait``, None for neither."""
    options = wait if isinstance(wait, WaitOptions) else WaitOptions(WaitMode.asked(wait))
    return options if timeout is None else replace(options, timeout=timeout)


def given_or_new(cancellation: Cancellation | None) -> Cancellation:
    """Return the cancellation of the caller, or one that nobody requests."""
    return Cancellation() if cancellation is None else cancellation
