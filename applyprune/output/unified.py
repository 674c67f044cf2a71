"""The unified diff of one object's YAML, for every format that shows one."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.model.events import ObjectDiff

_CONTEXT = 3
_NOWHERE = "/dev/null"


def unified(compared: ObjectDiff) -> Iterator[str]:
    """Yield the lines of the unified diff of one object."""
    # Imported here: without a change there is nothing to write.
    from applyprune.output.yaml_text import as_yaml

    before, after = as_yaml(compared.before, compared.after)
    name = f"{compared.ref.namespace}/{compared.ref.short}".lstrip("/")
    old, new = (f"live/{name}" if before else _NOWHERE, f"merged/{name}" if after else _NOWHERE)
    if not (before and after):
        # Nothing to look for: all of it comes, or goes.
        sign, lines = ("+", after) if after else ("-", before)
        yield f"--- {old}"
        yield f"+++ {new}"
        yield f"@@ -{0 if after else 1},{len(before)} +{1 if after else 0},{len(after)} @@"
        yield from (sign + line for line in lines)
    elif before == after:
        yield "  (no field changes, only who owns them)"
    else:
        yield from unified_diff(before, after, old, new, n=_CONTEXT, lineterm="")
