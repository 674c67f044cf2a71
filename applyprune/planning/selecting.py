"""The objects that a user names on the command line, and the names that stand for none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from applyprune.model.inventory import Entry
    from applyprune.model.refs import Ref


def chosen(names: Collection[str], entries: Iterable[Entry]) -> Sequence[Entry]:
    """Return the entries that are named; all of them when no name is given."""
    return [entry for entry in entries if not names or entry.ref.is_among(names)]


def unlisted(names: Collection[str], refs: Collection[Ref]) -> Sequence[str]:
    """Return the names that stand for no object."""
    return sorted(name for name in names if not any(ref.is_among((name,)) for ref in refs))
