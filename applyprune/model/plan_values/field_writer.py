"""A field of an object, and the field manager that has changed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.model.identity import Ref


@dataclass(frozen=True, slots=True, order=True)
class FieldWriter:
    """A manager that has changed a field; the fields are texts, so that a status can hold them."""

    object: str
    """The short name of the object: ``deployment.apps/web``."""
    namespace: str
    """Its namespace; empty for cluster scope."""
    field: str
    """The JSON pointer of the field; empty if the whole object was deleted."""
    manager: str
    """The field manager; empty if the server's record names none."""

    @classmethod
    def of(cls, ref: Ref, field: str, manager: str) -> FieldWriter:
        """Return the writer of a field of the object ``ref``."""
        return cls(ref.short, ref.namespace, field, manager)

    def covers(self, other: FieldWriter) -> bool:
        """Return whether another one has written the same field, or something in it."""
        if (self.object, self.namespace, self.manager) != (
            other.object,
            other.namespace,
            other.manager,
        ):
            return False
        is_inside = bool(self.field) and other.field.startswith(
            (f"{self.field}/", f"{self.field}[")
        )
        return other.field == self.field or is_inside
