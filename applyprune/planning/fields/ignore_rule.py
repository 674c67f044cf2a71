"""Rules that ignore a field of some objects.

Three inputs give such rules: ``--ignore``, ``spec.ignoreFields`` of a Bundle, and the
annotation ``applyprune.dev/ignore-fields``, whose rules are only for the object that has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache

from applyprune.errors import UsageError
from applyprune.model.fieldset import Path, from_pointer, is_under, to_pointer
from applyprune.model.identity import GroupKind, Ref
from applyprune.planning.applyset import PART_OF
from applyprune.values import dataclass, pattern

_ALL = "*"
# Up to a comma or a space outside of brackets; an unclosed bracket is an error in the pointer.
_POINTER = pattern(r"""(?:\[(?:"(?:[^"\\]|\\.)*"|[^\]"])*\]|[^\s,\[]|\[)+""")

# The identity of an object, and the label of its set, cannot be ignored.
_OURS: tuple[Path, ...] = (
    ("apiVersion",),
    ("kind",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "labels", PART_OF),
)


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """A field to ignore in the objects that the rule matches.

    Raises ValueError with the reason if the pointer is invalid, or leads to what must be sent.
    """

    pointer: str
    """The JSON pointer of the field; it names items of a list by their keys."""
    kind: str = _ALL
    """KIND or KIND.GROUP, in upper or lower case; ``*`` or empty for all kinds.

    ``KIND.`` is the kind of the core group only.
    """
    name: str = _ALL
    """A glob for the name of the object."""

    @property
    def path(self) -> Path:
        """Return the path of the field."""
        return _checked_path(self.pointer)

    @property
    def text(self) -> str:
        """Return the rule as ``--ignore`` takes it."""
        name = "" if self.name == _ALL else f"/{self.name}"
        return f"{self.kind.removesuffix('.') or _ALL}{name}:{self.pointer}"

    def __post_init__(self) -> None:
        """Check the pointer."""
        _checked_path(self.pointer)

    def matches(self, group_kind: GroupKind, name: str) -> bool:
        """Return whether the rule is for an object."""
        kind = group_kind.kind.lower()
        kinds = {"", _ALL, kind, f"{kind}.{group_kind.group}"}
        return self.kind.lower() in kinds and fnmatchcase(name, self.name)


@lru_cache(maxsize=1024)
def _checked_path(pointer: str) -> Path:
    """Parse a pointer, once: a run asks for the path with each object."""
    path = from_pointer(pointer)
    for ours in _OURS:
        if is_under(ours, path) or is_under(path, ours):
            raise ValueError(f"{to_pointer(ours)} cannot be ignored")
    return path


def is_ignorable(pointer: str) -> bool:
    """Return whether a rule may ignore the field at a valid pointer."""
    try:
        IgnoreRule(pointer)
    except ValueError:
        return False
    return True


def split_pointers(text: str) -> tuple[str, ...]:
    """Return the pointers of a list separated by commas or spaces, not yet checked."""
    return tuple(_POINTER.findall(text))


def parse_rule(text: str) -> IgnoreRule:
    """Parse ``KIND[/NAME]:/json/pointer``; raises UsageError if it is invalid."""
    # A name of an RBAC object may contain colons; no name contains a slash.
    about, _, pointer = text.partition(":/")
    kind, slash, name = about.partition("/")
    try:
        rule = IgnoreRule(f"/{pointer}", kind, name or _ALL)
    except ValueError as error:
        raise _refused(text, str(error)) from error
    if not kind or (slash and not name):
        raise _refused(text, "the kind, or the name after the slash, is missing")
    return rule


def ignored_paths(rules: Iterable[IgnoreRule], ref: Ref) -> tuple[Path, ...]:
    """Return the paths of the fields of an object that the rules ignore."""
    return tuple(rule.path for rule in rules if rule.matches(ref.group_kind, ref.name))


def _refused(text: str, reason: str) -> UsageError:
    return UsageError(
        f"invalid --ignore rule {text!r}",
        reason=reason,
        hint="Write KIND[/NAME]:/json/pointer, as in deployment:/spec/replicas or "
        """'deployment.apps/web-*:/spec/template/spec/containers[name="web"]/image'.""",
    )
