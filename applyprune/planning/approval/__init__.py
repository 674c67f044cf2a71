"""Bind a run to what was reviewed: the digests of a plan, the plan file, and whether it fits."""
