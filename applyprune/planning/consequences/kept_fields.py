"""Find the fields that an adopted object keeps although its manifest does not contain them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from applyprune.model.fieldset import MISSING, leaves, to_server, value_at
from applyprune.model.plan import Consequence, ConsequenceKind, Fate
from applyprune.model.text import and_more
from applyprune.planning.consequences.facts import Change
from applyprune.planning.ownership.conflicts import is_by_hand, is_kubernetes

_SHOWN = 3


def kept_fields(change: Change) -> Iterator[Consequence]:
    """Yield what each other manager keeps on an adopted object.

    Kubernetes' own controllers are left out, and status: nobody means to declare that.
    """
    if change.fate is not Fate.ADOPT or change.live is None or change.desired is None:
        return
    found: defaultdict[str, list[str]] = defaultdict(list)
    for entry in change.live.managed_fields:
        manager = str(entry.get("manager", ""))
        if entry.get("subresource") or manager in change.managers or is_kubernetes(manager):
            continue
        for path in leaves(entry.get("fieldsV1") or {}):
            if path[0] != "status" and value_at(change.desired.body, path) is MISSING:
                found[manager].append(to_server(path))
    for manager, names in sorted(found.items()):
        count = "1 field" if len(names) == 1 else f"{len(names)} fields"
        verb = "is" if len(names) == 1 else "are"
        what = f"{count} of {manager}, which the manifest lacks, {verb} kept"
        end = f"; --take-over {manager} removes them" if is_by_hand(manager) else ""
        yield Consequence(
            ConsequenceKind.FIELDS_KEPT,
            change.ref,
            f"{what}: {and_more(sorted(names), _SHOWN)}{end}",
            len(names),
        )
