"""Rights: one request that an account may or may not send, and the rules that allow requests."""

from __future__ import annotations

from dataclasses import dataclass

_ANY = "*"


@dataclass(frozen=True, slots=True, order=True)
class Access:
    """One verb on one resource, or on one object, as the server authorizes a request."""

    verb: str
    group: str
    plural: str
    namespace: str = ""
    """The namespace; empty for cluster scope."""
    name: str = ""
    """The name of the object; empty if the request names none, as a POST, or for all objects."""

    @property
    def full_plural(self) -> str:
        """Return ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


@dataclass(frozen=True, slots=True)
class AccessRule:
    """A rule of a role, as the server reports it."""

    verbs: frozenset[str]
    groups: frozenset[str]
    plurals: frozenset[str]
    names: frozenset[str]
    """The names of the objects that it is limited to; empty for all of them."""

    def allows(self, access: Access) -> bool:
        """Return whether the rule allows a request in its namespace."""
        return (
            not self.verbs.isdisjoint({access.verb, _ANY})
            and not self.groups.isdisjoint({access.group, _ANY})
            and not self.plurals.isdisjoint({access.plural, _ANY})
            and (not self.names or access.name in self.names)  # guard: resource-names
        )
