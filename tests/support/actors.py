"""Others who change objects during a test: a person and a program."""

from __future__ import annotations

ALICE = "alice"
"""A person with kubectl: her field manager and her user name."""

ARGO = "argo"
"""Another program that applies the same objects: its field manager."""
