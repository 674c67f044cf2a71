"""What the process that forks the workers has loaded: every module that their work needs.

Its import changes that process, so nothing else may import it. It starts no thread: a fork copies
one thread only, and what the others had locked would stay locked."""

from __future__ import annotations

import gc
import signal

import applyprune.controller.checker
import applyprune.controller.fetch
import applyprune.controller.reconcile
import applyprune.controller.worker

__all__ = ["applyprune"]

# A signal to the whole group is the parent's to handle. This process ends with its parent.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
# The workers share these pages as long as no collection of theirs writes to them.
gc.collect()
gc.freeze()
