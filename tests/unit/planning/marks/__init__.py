"""Tests of applyprune.planning.marks."""
