"""What the process that forks the workers has loaded: every module that their work needs.

It starts no thread: a fork copies one thread only, and what the others had locked would stay
locked."""

from __future__ import annotations

import ssl

import applyprune.controller.fetch
import applyprune.controller.reconcile
import applyprune.controller.source_checker
import applyprune.controller.worker

__all__ = ["applyprune"]

# What OpenSSL makes at its first use takes 2 MiB, which all of them share.
ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
