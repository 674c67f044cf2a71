"""What was read before the plan, as one value."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from applyprune.model.identity import GroupKind, Ref
    from applyprune.model.live import LiveObject, State
    from applyprune.model.resources import Resource


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """What was read before the plan.

    ``states`` covers every desired object and every entry, and what else of a recorded kind was
    found to bear the set's marks; ``schemas`` holds the generation of the
    CRD behind each custom resource, None where it could not be read; ``resources`` the endpoint of
    each recorded kind that is still served; ``occupied`` the namespaces that hold an inventory;
    ``contents`` what each Namespace and CRD that is leaving holds. ``marked`` is looked for only
    where there is no inventory: objects that bear the set's marks all the same;
    ``unseen`` says what could not be looked at for them.
    """

    states: Mapping[Ref, State] = field(hash=False)
    schemas: Mapping[GroupKind, int | None] = field(default_factory=dict, hash=False)
    resources: Mapping[GroupKind, Resource] = field(default_factory=dict, hash=False)
    occupied: frozenset[str] = frozenset()
    contents: Mapping[Ref, CascadeContents] = field(default_factory=dict, hash=False)
    marked: tuple[LiveObject, ...] = ()
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CascadeContents:
    """What a Namespace or a CRD holds; ``uncounted`` says what could not be read, and why."""

    lives: tuple[LiveObject, ...]
    uncounted: str = ""
