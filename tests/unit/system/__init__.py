"""Tests of what the operating systems have in different ways."""
