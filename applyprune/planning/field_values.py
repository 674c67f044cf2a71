"""Values of fields as they may be shown: on one line, not too long, and none of a Secret."""

from __future__ import annotations

import json

from applyprune.planning.field_paths import MISSING

_LONGEST = 60
_SECRET = "(secret)"  # noqa: S105  # what is shown instead of one


def shown(value: object, *, secret: bool) -> str:
    """Return a value as JSON, cut after 60 characters; ``none`` for MISSING.

    ``secret`` says that it is a Secret's: then nothing of it is told, not even whether it is there.
    """
    if secret:
        return _SECRET
    if value is MISSING:
        return "none"
    text = json.dumps(value, ensure_ascii=False)
    if not text.isprintable():
        text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
