"""Tests of the checks before the first write."""
