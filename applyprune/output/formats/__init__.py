"""Formats for programs: JSON, JUnit, annotations, names."""
