"""A field conflict in words: which field, whose, and the option that takes it."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from applyprune.errors import Conflict

if TYPE_CHECKING:
    from applyprune.model.refs import Ref

_CAUSE = re.compile(r'conflict with "(?P<manager>(?:[^"\\]|\\.)*)"(?P<rest>.*)', re.DOTALL)


def explain(error: Conflict, ref: Ref) -> Conflict:
    """Return the conflict worded by manager and field; the server's causes name no values."""
    fields: defaultdict[str, list[str]] = defaultdict(list)
    for cause in error.causes:
        match = _CAUSE.match(cause.get("message", ""))
        manager = match["manager"] if match else "another manager"
        fields[manager].append(cause.get("field", "").removeprefix("."))
    owned = "; ".join(
        f"{manager} owns {', '.join(sorted(paths))}" for manager, paths in sorted(fields.items())
    )
    return Conflict(
        f"{ref} is in conflict with another field manager",
        code=error.code,
        reason=error.reason,
        causes=error.causes,
        why=owned,
        hint="Take the field out of the manifest to leave it to its owner, "
        "or take it with --force-conflicts.",
    )
