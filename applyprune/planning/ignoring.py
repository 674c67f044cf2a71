"""``diff --ignore``: fields that are left out of one comparison."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from applyprune.errors import UsageError
from applyprune.planning.field_paths import from_pointer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from applyprune.model.identity import Ref
    from applyprune.planning.field_paths import Path


@dataclass(frozen=True, slots=True)
class Ignored:
    """One rule: ``kind`` is ``deployment``, ``deployment.apps`` or ``*``, ``name`` a glob."""

    kind: str
    name: str
    path: Path

    def is_about(self, ref: Ref) -> bool:
        """Return whether the rule is about an object."""
        kind = ref.kind.lower()
        kinds = {"*", kind, f"{kind}.{ref.group}" if ref.group else kind}
        return self.kind in kinds and fnmatchcase(ref.name, self.name)


def parse_rule(text: str) -> Ignored:
    """Read ``KIND[/NAME]:/json/pointer``; raises UsageError."""
    # A name of RBAC's may hold colons, and no name a slash.
    about, _, pointer = text.partition(":/")
    kind, slash, name = about.partition("/")
    try:
        path = from_pointer(f"/{pointer}")
    except ValueError as error:
        raise _refused(text, str(error)) from error
    if not kind or (slash and not name):
        raise _refused(text, "it names no kind, or no name after the slash")
    return Ignored(kind.lower(), name or "*", path)


def _refused(text: str, why: str) -> UsageError:
    return UsageError(
        f"--ignore {text!r} is no rule",
        why=why,
        hint="Write KIND[/NAME]:/json/pointer, as in deployment:/spec/replicas or "
        """'deployment.apps/web-*:/spec/template/spec/containers[name="web"]/image'.""",
    )


def ignored_of(rules: Iterable[Ignored], ref: Ref) -> tuple[Path, ...]:
    """Return what is left out of the comparison of one object."""
    return tuple(rule.path for rule in rules if rule.is_about(ref))
