"""The argument NAME of the verbs about one Bundle."""

from __future__ import annotations

import click

from applyprune.cli.options.completion import BUNDLE

bundle_argument = click.argument("name", type=BUNDLE, metavar="NAME")
"""Adds NAME, which the verb gets as ``name``."""
