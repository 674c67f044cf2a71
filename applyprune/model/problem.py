"""Problems, which are errors and warnings as values, and the manifests that they are about."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct

from applyprune.model.identity import GVK
from applyprune.values import Packed

Field: TypeAlias = "tuple[str | int, ...]"
"""The path of a field in an object: names of fields and indices of items."""
MOST_ERRORS = 1000
"""How many errors of one input are reported, and how many fields are shown in their lines."""


class Problem(Struct, frozen=True):
    """A problem: what happened, where, why, and what to do.

    A part that does not apply is empty. No part ever contains a Secret's value.
    """

    kind: ProblemKind
    message: str
    """What happened."""
    location: str = ""
    """The place in words: a file and line, or a ref."""
    reason: str = ""
    """Why it happened."""
    hint: str = ""
    """What to do about it."""
    exit_code: int = 3
    """The exit code of a run that ends with this problem."""
    origin: Origin | None = None
    """The place in the input; None if there is none."""
    field: Field = ()
    """The path of the field that it is about, in the object at ``origin``."""
    excerpt: str = ""
    """Lines of the input, each with a caret line below it."""
    marks: tuple[Mark, ...] = ()
    """All fields that it is about, if there are several."""
    conflicts: tuple[ManagerConflict, ...] = ()
    """The field managers that it is in conflict with."""
    lasting_reason: str = ""
    """The reason without counts of tries and times left, which differ in each try.

    Empty if the reason has none of them. A reason has no ages, but times: text output makes ages of
    them.
    """
    remedy: str = ""
    """Why a Bundle does not do more about it, and the way out, by its own fields."""

    def __str__(self) -> str:
        """Return ``where: what: why``; below it the excerpt, indented, and the hint."""
        line = ": ".join(part for part in (self.location, self.message, self.reason) if part)
        below = [*self.excerpt.splitlines(), *([self.hint] if self.hint else [])]
        return "\n".join((line, *(f"  {text}" for text in below)))


class ProblemKind(StrEnum):
    """The kind of a problem; its value is the word in every output."""

    ERROR = "Error"
    USAGE_ERROR = "UsageError"
    OWNED_BY_BUNDLE = "OwnedByBundle"
    INPUT_ERROR = "InputError"
    EMPTY_INPUT = "EmptyInput"
    RUN_FAILED = "RunFailed"
    CONFLICTS_FOUND = "ConflictsFound"
    NOT_READY = "NotReady"
    DECLINED = "Declined"
    PRUNE_REFUSED = "PruneRefused"
    NOT_APPROVED = "NotApproved"
    ACCESS_ERROR = "AccessError"
    UNREACHABLE = "Unreachable"
    API_ERROR = "ApiError"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    DENIED = "Denied"
    NOT_FOUND = "NotFound"
    NOT_SERVED = "NotServed"
    CONFLICT = "Conflict"
    ALREADY_EXISTS = "AlreadyExists"
    EXPIRED = "Expired"
    INVALID = "Invalid"
    UNAVAILABLE = "Unavailable"
    INVENTORY_ERROR = "InventoryError"
    INVENTORY_INCOMPLETE = "InventoryIncomplete"
    INVENTORY_TOO_NEW = "InventoryTooNew"
    INVENTORY_LOCKED = "InventoryLocked"
    PLAN_OUTDATED = "PlanOutdated"
    INTERRUPTED = "Interrupted"
    # Sources on other hosts.
    FETCH_FAILED = "FetchFailed"
    AUTHENTICATION_FAILED = "AuthenticationFailed"
    VERIFICATION_FAILED = "VerificationFailed"
    PATH_NOT_FOUND = "PathNotFound"
    SOURCE_TOO_LARGE = "SourceTooLarge"
    DECRYPTION_FAILED = "DecryptionFailed"
    # The controller's own errors.
    ACCOUNT_MISSING = "AccountMissing"
    INVALID_SPEC = "InvalidSpec"
    SOURCE_MISSING = "SourceMissing"
    LIMIT_EXCEEDED = "LimitExceeded"
    # Warnings without an error class.
    IGNORED_NAMESPACE = "IgnoredNamespace"
    IGNORED_ANNOTATION = "IgnoredAnnotation"
    IGNORED_NULL = "IgnoredNull"
    IGNORED_MANIFEST = "IgnoredManifest"
    REPEATED = "Repeated"
    PLACEHOLDER = "Placeholder"
    CHANGED_KEY = "ChangedKey"
    NO_CERTIFICATE = "NoCertificate"
    CHART_HOOKS = "ChartHooks"
    MISSING_REFERENCE = "MissingReference"
    REWRITTEN_VALUES = "RewrittenValues"
    AMBIGUOUS_NAME = "AmbiguousName"
    PART_OF_THE_SET = "PartOfTheSet"
    KUSTOMIZE = "Kustomize"
    NO_WAIT = "NoWait"
    HELD_INVENTORY = "HeldInventory"
    SERVER_WARNING = "ServerWarning"
    REDIRECTED = "Redirected"
    NEW_SET = "NewSet"
    TOOL_RECORD = "ToolRecord"


class Mark(Struct, frozen=True):
    """A field that a problem is about."""

    field: Field
    note: str = ""
    """What is wrong with the field, in a few words."""
    origin: Origin | None = None
    """The object that contains the field; None for the problem's own object."""


class ManagerConflict(Struct, frozen=True):
    """Another field manager, with the fields that it owns and a manifest sets differently."""

    manager: str
    operation: str
    """``Apply`` or ``Update``; empty if the server does not name the manager."""
    subresource: str
    time: str
    """The time of its last write, RFC 3339; empty if unknown."""
    fields: tuple[ContestedField, ...] = ()


class ContestedField(Struct, frozen=True):
    """A field in conflict, with both values; the values of a Secret are masked."""

    field: str
    """The field as the server names it: ``.spec.replicas``."""
    path: str | None
    """Its path as in ``ignore-fields``; None if the manifest has no such field."""
    ours: str | None
    """The manifest's value; None if it is unknown."""
    theirs: str | None
    """The live value; None if it could not be read."""


JSONObject: TypeAlias = "dict[str, Any]"


class Manifest(Struct, frozen=True):
    """One object as the user wants it."""

    gvk: GVK
    namespace: str
    """The namespace in the text; empty if it has none."""
    name: str
    packed: Packed
    """The object in the text, as plain JSON data."""
    origin: Origin
    changed_keys: tuple[ChangedKey, ...] = ()
    """The keys of which YAML makes another text; JSON has none."""

    @property
    def body(self) -> Mapping[str, Any]:
        """Return the object in the text."""
        found: Mapping[str, Any] = self.packed.value
        return found


class ChangedKey(Struct, frozen=True):
    """A key that is not a string without quotes, and so gets another text: ``y`` becomes true."""

    place: Field
    """Its path, which ends with what it becomes."""
    written: str
    """What stands in the file."""


class IgnoredManifest(Struct, frozen=True):
    """An object in a file that an ignore rule leaves out: it is not in the input."""

    gvk: GVK
    namespace: str
    """The namespace in the text; empty if it has none."""
    name: str
    path: str
    """The path of the file, safe to print."""
    rule: str
    """``the rule *.yaml in .sourceignore``."""


class Origin(Struct, frozen=True, order=True):
    """The place of a manifest, or of an error in it.

    ``document``, ``line`` and ``column`` count from 1; 0 means that the place has none, for example
    a whole file.
    """

    path: str
    """The path as the user wrote it; ``<stdin>`` for standard input."""
    document: int = 0
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Return ``web.yaml:12:3``, or ``web.yaml:12:3 (document 3)`` after the first document."""
        numbers = (number for number in (self.line, self.column) if number)
        place = ":".join((self.path, *map(str, numbers)))
        return f"{place} (document {self.document})" if self.document > 1 else place
