"""Who else changes objects in a test: one person and one program."""

from __future__ import annotations

ALICE = "alice"
"""A person with kubectl: her field manager, and the user that she is."""

ARGO = "argo"
"""Another program that applies the same objects: its field manager."""
