"""What verbs without a run report: versions, a pushed artifact; and the state of a Bundle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from applyprune.model.identity import Ref
from applyprune.model.text import and_more, counted


class BundleStatus(Struct, frozen=True):
    """The state of a Bundle. Never the text of its source, which may hold a Secret."""

    name: str
    namespace: str
    uid: str = ""
    generation: int = 0
    observed_generation: int = -1
    """The generation that the status describes; -1 if the controller has not seen it yet."""
    ready: str = "Unknown"
    """The status of the condition Ready, in the present generation."""
    reason: str = ""
    message: str = ""
    suspended: bool = False
    deleting: bool = False
    revision: str = ""
    """The revision that was applied last, completely."""
    requested_at: str = ""
    """The value of the annotation reconcile-now."""
    reconciled_at: str = ""
    """The last value of that annotation that was handled."""
    pending: BundlePlan | None = None
    conditions: tuple[BundleCondition, ...] = ()

    def condition(self, kind: str) -> BundleCondition | None:
        """Return a condition; None if the Bundle has none of this type."""
        return next((one for one in self.conditions if one.type == kind), None)


class BundleCondition(Struct, frozen=True):
    """A condition of a Bundle."""

    type: str
    status: str
    """``True``, ``False`` or ``Unknown``."""
    reason: str
    message: str
    since: str
    """When its status changed, RFC 3339."""


class BundlePlan(Struct, frozen=True):
    """A plan of a Bundle that waits for an approval."""

    digest: str
    scope: str
    """What the digest covers: ``Deletions`` or ``Plan``."""
    since: str
    """When this digest was computed first, RFC 3339."""
    revision: str = ""
    """The revision of the source; empty if unknown."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many objects it concerns, by what happens to them."""
    objects: tuple[PendingObject, ...] = ()
    """The first of these objects."""
    approved: bool = False
    """Whether the Bundle's annotation approves exactly this."""


class PendingObject(Struct, frozen=True):
    """An object that a pending plan is about."""

    name: str
    namespace: str
    """Empty for cluster scope."""
    fate: str
    cascade: str = ""
    """What its deletion deletes with it; empty for nothing."""


class VersionReport(Struct, frozen=True):
    """The versions of the client and the server."""

    client: str
    python: str
    platform: str
    server: str = ""
    """The version of the server; empty if it was not requested, or did not answer."""


class InputChecked(Struct, frozen=True):
    """Manifests were checked without a cluster, and nothing in them would end a run."""

    objects: int
    """How many objects the input has."""
    unknown: tuple[str, ...] = ()
    """The kinds that only a cluster knows, each as ``GROUP/VERSION KIND``."""
    sets: int = 1
    """How many sets the input is of."""
    checksum: str = ""
    """That of the manifests, and of the names of many sets: the same for the same input, from
    whatever files, in whatever order and form."""

    @property
    def text(self) -> str:
        """Return a line about it."""
        many = "" if self.sets == 1 else f" of {self.sets} sets"
        custom = f", and all but the name of {and_more(self.unknown, 5)}" if self.unknown else ""
        return (
            f"no fault found in {counted(self.objects, 'object')}{many}; "
            f"only a cluster can check the fields{custom}: applyprune plan"
        )


class ArtifactPushed(Struct, frozen=True):
    """An artifact with manifests is in its registry; in a dry run, it would be."""

    artifact: str
    """``oci://HOST/NAME:TAG@sha256:…``, safe to print."""
    digest: str
    """``sha256:…`` of the artifact's manifest."""
    objects: int
    """How many objects its manifests have."""
    dry_run: bool = False
    """Whether nothing was sent."""


class ManifestMade(Struct, frozen=True):
    """An import has made the manifest of a live object, and proved it."""

    ref: Ref
    manifest: Mapping[str, Any] | None
    """The manifest; None if a file has it."""
    tool: str = ""
    """What of another tool owns the object; empty if nothing does."""
    path: str = ""
    """The file that has it; empty for standard output."""


class ImportEnded(Struct, frozen=True):
    """An import has ended."""

    left_out: Mapping[str, int]
    """How many objects were left out, by the reason in words."""
    kinds: Mapping[str, int] = field(default_factory=dict)
    """How many manifests there are, by kind."""
    path: str = ""
    """The folder or the file that has them; empty for standard output."""
    next: str = ""
    """The command that shows what an adoption would do; empty if there is none."""


class OwnerFound(Struct, frozen=True):
    """Objects that live in one namespace, and are under one owner."""

    owner: str
    """Whose they are: ``the Helm release web``; empty if no tool says that they are its own."""
    namespace: str
    """Empty for objects without a namespace."""
    count: int
    kinds: Mapping[str, int]
    """How many of each kind."""
    source: str = ""
    """What ``--from`` takes for it: ``helm:web``; empty if that is nothing."""
