"""What the user decides about a run, in one value.

Spans of time as Go and Kubernetes write them: 90s, 5m, 1h30m.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from applyprune.model.label_selector import Selector

_WHOLE = 100
_DIGITS = 10


class Mode(StrEnum):
    """What a run does with the set."""

    APPLY = "apply"
    PRUNE = "prune"
    DELETE = "delete"
    ORPHAN = "orphan"
    MOVE = "move"
    REPAIR = "repair"


class Adopt(StrEnum):
    """Which existing objects an apply may take into the set."""

    NONE = "none"
    UNOWNED = "unowned"
    ALL = "all"


class DryRun(StrEnum):
    """Whether, and where, a run only pretends."""

    OFF = "none"
    CLIENT = "client"
    SERVER = "server"


class Propagation(StrEnum):
    """What becomes of an object's dependents; the server's word for it."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


@dataclass(frozen=True, slots=True)
class PruneLimit:
    """How many objects one prune may delete: the larger of ``count`` and ``percent`` of the set."""

    count: int = 5
    percent: float = 30.0

    @classmethod
    def parse(cls, text: str) -> PruneLimit:
        """Return what ``N`` or ``N%`` says; raises ValueError, worded to follow the text."""
        number = text.removesuffix("%")
        is_number = number.isascii() and number.isdecimal() and len(number) < _DIGITS
        if not is_number or (number != text and int(number) > _WHOLE):
            raise ValueError("is neither a number nor a percentage up to 100%")
        if number != text:
            return cls(count=0, percent=float(number))
        return cls(count=int(number), percent=0.0)

    def of(self, listed: int) -> int:
        """Return the number for a set that lists so many objects."""
        return max(self.count, int(listed * self.percent / 100))


@dataclass(frozen=True, slots=True)
class Options:
    """The decisions of one run.

    ``timeout`` bounds each wait (for CRDs, for deletions) and ``lock_timeout`` the wait for another
    run's end, both in seconds; ``lease`` is how long this run's hold outlives its last sign of
    life. ``reapply_all`` sends everything, changed or not. ``orphan`` and ``allow_cascade`` name
    objects as ``Ref.is_among`` takes them: those to orphan rather than delete, and the Namespaces
    and CRDs that may take along what is not of the set. ``allow_kinds`` holds the guarded kinds
    that a prune may delete, by their words in ``planning.budget.GUARDED``. ``prune_adopted``
    deletes adopted objects as if the set had created them. ``select`` names the objects to orphan
    in that mode, all of them when it is empty. ``take_over`` names field managers whose fields
    become the set's own. ``recreate`` lets what cannot be changed in place be deleted and created
    anew. ``allow_partial`` lets a repair rebuild a lost inventory from the objects that it could
    list. ``wait`` waits until everything is ready before anything is pruned; ``ready_when`` are
    pairs of ``KIND.GROUP`` and a CEL expression by which that kind is ready. ``selector`` applies
    only the manifests that it matches, and prunes nothing. ``namespace_override`` is where every
    namespaced manifest goes, whatever it says. ``compare`` asks a server dry run for a comparison
    of each object that would change, and ``ignore`` are the rules of what it leaves out, as
    ``planning.ignoring`` reads them. ``approved`` is the ``Plan.approval`` of the one refused prune
    that may be carried out all the same.
    """

    mode: Mode = Mode.APPLY
    prune: bool = True
    dry_run: DryRun = DryRun.OFF
    adopt: Adopt = Adopt.UNOWNED
    force_conflicts: bool = False
    reapply_all: bool = False
    create_namespace: bool = False
    orphan: frozenset[str] = frozenset()
    allow_cascade: frozenset[str] = frozenset()
    allow_empty: bool = False
    allow_kinds: frozenset[str] = frozenset()
    max_prune: PruneLimit = PruneLimit()
    prune_adopted: bool = False
    select: frozenset[str] = frozenset()
    take_over: frozenset[str] = frozenset()
    recreate: bool = False
    allow_partial: bool = False
    wait: bool = False
    ready_when: tuple[tuple[str, str], ...] = ()
    selector: Selector | None = None
    namespace_override: str = ""
    compare: bool = False
    ignore: tuple[str, ...] = ()
    approved: str = ""
    propagation: Propagation = Propagation.BACKGROUND
    timeout: float = 300.0
    lock_timeout: float = 60.0
    lease: float = 15.0
    concurrency: int = 16


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds_of(text: str) -> float:
    """Return the seconds of a duration, or of a bare number of seconds.

    Raises ValueError, worded to follow the text, for what is no duration or not more than nothing.
    """
    total, rest = 0.0, text.strip()
    while rest:
        digits = len(rest) - len(rest.lstrip("0123456789."))
        number, rest = rest[:digits], rest[digits:]
        unit = next((unit for unit in ("ms", "s", "m", "h") if rest.startswith(unit)), "")
        try:
            total += float(number) * (_UNITS[unit] if unit else 1.0)
        except ValueError:
            raise ValueError("is no time such as 90s or 5m") from None
        if not unit and rest:
            raise ValueError("is no time such as 90s or 5m")
        rest = rest[len(unit) :]
    if total <= 0:
        raise ValueError("is not more than nothing")
    return total
