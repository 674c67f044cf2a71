"""The options of a run, and durations as Go and Kubernetes write them: 90s, 5m, 1h30m."""

from __future__ import annotations

from enum import StrEnum
from math import inf

from msgspec import Struct

from applyprune.model.fieldset import ObjectWriter
from applyprune.model.identity import Ref
from applyprune.model.inventory import Ownership
from applyprune.model.text import Selector, is_dns_label

CONTROLLER_NAMESPACE = "applyprune-system"
"""The namespace of the controller, unless it was installed elsewhere."""


class Mode(StrEnum):
    """What a run does with the set."""

    APPLY = "apply"
    PRUNE = "prune"
    DELETE = "delete"
    ORPHAN = "orphan"
    REPAIR = "repair"

    @property
    def removal(self) -> str:
        """Return the verb for what it removes: ``delete`` deletes, all others prune."""
        return "delete" if self is Mode.DELETE else "prune"


class DryRun(StrEnum):
    """Whether a run is a dry run, and where it is computed."""

    OFF = "none"
    CLIENT = "client"
    SERVER = "server"


class Approval(StrEnum):
    """Which plans run only if their digest is approved."""

    AUTOMATIC = "Automatic"
    """Those that a guard refuses."""
    PRUNE = "Prune"
    """Those that would delete an object; without an approval they run without the deletions."""
    ALWAYS = "Always"
    """All that would change anything; without an approval nothing is written."""


class Adopt(StrEnum):
    """Which existing objects an apply may take into the set."""

    NONE = "none"
    UNOWNED = "unowned"
    ALL = "all"


class AdoptFrom(Struct, frozen=True):
    """A set that gives its objects: the apply may adopt them too, owned as they were there."""

    name: str
    namespace: str = ""
    """The namespace of its inventory; empty for that of the set which adopts."""

    @classmethod
    def parse(cls, text: str) -> AdoptFrom | None:
        """Return the set of ``set/NAME[.NAMESPACE]``; None for a text of another form.

        Raises ValueError, worded to follow the text, if it has no valid names.
        """
        if not text.startswith(_SET):
            return None
        name, dot, namespace = text.removeprefix(_SET).partition(".")
        if not is_dns_label(name) or (dot and not is_dns_label(namespace)):
            raise ValueError("names no set: write set/NAME, or set/NAME.NAMESPACE")
        return cls(name, namespace)

    def __str__(self) -> str:
        """Return it as ``--adopt`` has it."""
        return ".".join(filter(None, (f"{_SET}{self.name}", self.namespace)))


_SET = "set/"


class Conflicts(StrEnum):
    """What an apply does with fields of the input that others have changed or own."""

    FAIL = "fail"
    """Report a conflict: the object is not applied."""
    REVERT = "revert"
    """Revert drift: fields of the set that somebody has changed by an Update since its last
    apply. Others are a conflict."""
    FORCE = "force"
    """Take all of them."""


class HelmHooks(StrEnum):
    """What an apply does with the install and upgrade hooks of a chart."""

    REFUSE = "refuse"
    SKIP = "skip"
    APPLY = "apply"


class ApplyOptions(Struct, frozen=True, repr_omit_defaults=True):
    """How the manifests are applied."""

    adopt: Adopt | AdoptFrom = Adopt.UNOWNED
    """Which existing objects the set may take in; those of one set are beside the unowned."""
    conflicts: Conflicts = Conflicts.FAIL
    """What to do with fields that others have changed or own."""
    keep_drift: bool = False
    """Leave an object with drift as it is until its manifest changes, and apply a changed one as a
    whole, whatever ``conflicts`` says about drift."""
    adopt_as: Ownership = Ownership.ADOPTED
    """How the set takes them in: as owned, a later prune deletes them."""
    take_over: frozenset[str] = frozenset()
    """Field managers whose fields become the set's own."""
    reapply_all: bool = False
    """Send every object, changed or not."""
    recreate: bool = False
    """Delete and recreate objects whose immutable fields have changed."""
    create_namespace: bool = False
    """Create the namespace of the inventory if it does not exist."""
    helm_hooks: HelmHooks = HelmHooks.REFUSE
    """What to do with install and upgrade hooks of a chart; its other hooks are always left out."""
    namespace_override: str = ""
    """The namespace of every namespaced manifest, whatever the manifest says; empty for none."""
    ignore: tuple[str, ...] = ()
    """The rules for fields that are sent at creation and then left to other field managers, as
    ``planning.normalize.parse_rule`` parses them."""
    no_default_ignore: frozenset[str] = frozenset()
    """The default rules that are switched off: see ``DefaultRule``."""
    selector: Selector | None = None
    """Apply only the manifests that it matches, and prune nothing; None for all manifests."""
    only: frozenset[str] = frozenset()
    """Apply only these objects, each as KIND/NAME, and prune nothing; empty for all manifests."""

    @property
    def reverts_drift(self) -> bool:
        """Return whether drift is reverted."""
        return self.conflicts is not Conflicts.FAIL and not self.keep_drift

    @property
    def fails_on_drift(self) -> bool:
        """Return whether drift is a conflict."""
        return self.conflicts is Conflicts.FAIL and not self.keep_drift

    @property
    def is_part(self) -> bool:
        """Return whether only a part of the input is applied."""
        return self.selector is not None or bool(self.only)


class Propagation(StrEnum):
    """What happens to an object's dependents, in the server's words."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class PruneLimit(Struct, frozen=True):
    """How many objects one prune may delete: the larger of ``count`` and ``percent`` of the set.

    ``percent`` is that of the set's own live objects.
    """

    count: int = 5
    percent: float = 30.0

    @classmethod
    def parse(cls, text: str) -> PruneLimit:
        """Return the limit of ``N`` or ``N%``; raises ValueError, worded to follow the text."""
        number = text.removesuffix("%")
        is_number = number.isascii() and number.isdecimal() and len(number) < 10
        if not is_number or (number != text and int(number) > 100):
            raise ValueError("is neither a number nor a percentage up to 100%")
        if number != text:
            return cls(count=0, percent=float(number))
        return cls(count=int(number), percent=0.0)

    def of(self, live: int) -> int:
        """Return the limit for a set with ``live`` objects of its own in the cluster."""
        return max(self.count, int(live * self.percent / 100))

    @property
    def text(self) -> str:
        """Return the limit as ``--max-prune`` takes it, ``N`` or ``N%``; ``N or N%`` if both."""
        percent = f"{self.percent:g}%"
        if self.count and self.percent:
            return f"{self.count} or {percent}"
        return percent if self.percent else str(self.count)


class PruneAlso(StrEnum):
    """What a prune orphans, unless its options name it."""

    ADOPTED = "adopted"
    """Objects that the set has adopted, not created."""
    SHARED = "shared"
    """Objects that another tool or another applier manages too."""


class PruneOptions(Struct, frozen=True, repr_omit_defaults=True):
    """What may be deleted, and how."""

    enabled: bool = True
    """Delete the objects that have left the set; otherwise they stay in the inventory."""
    max_prune: PruneLimit | None = None
    """How many objects one prune may delete; None for ``PruneLimit()`` and at most half."""
    allow_empty: bool = False
    """Accept an input without objects: every object of the set may be deleted."""
    allow_kinds: frozenset[str] = frozenset()
    """The guarded kinds that may be deleted, by any name that kubectl takes."""
    allow_cascade: frozenset[str] = frozenset()
    """The objects, each as KIND/NAME, whose deletion may also delete objects that are not in the
    set, or may take the controller away that Bundles need."""
    orphan: frozenset[str] = frozenset()
    """Objects, each as KIND/NAME, to orphan instead of deleting them."""
    also: frozenset[PruneAlso] = frozenset()
    """What to delete as well, instead of orphaning it."""
    propagation: Propagation = Propagation.BACKGROUND
    """What happens to the dependents of a deleted object."""
    apply_anyway: bool = False
    """Apply the input although the prune is refused; otherwise nothing is written."""
    approved: str = ""
    """The ``Plan.deletions`` of the only deletions that may run, also if a guard refuses them.

    Only a check finds recreations, which are part of that digest: see ``Options.check``.
    """
    only_approved: bool = True
    """Refuse other deletions than those of ``approved``, also if no guard does. A Bundle does not:
    its annotation may be about an earlier plan."""


class WaitMode(StrEnum):
    """For whose readiness a run waits; it always waits for waves and for depends-on."""

    AUTO = "auto"
    """Wait only for what may still need an object that is pruned."""
    ALL = "all"
    """Wait for all objects, whether anything is pruned or not."""
    NONE = "none"
    """Prune without waiting, also what live Pods use."""

    @classmethod
    def asked(cls, wait: bool | None) -> WaitMode:
        """Return the mode for ``--wait`` (True), ``--no-wait`` (False) or neither of them."""
        if wait is None:
            return cls.AUTO
        return cls.ALL if wait else cls.NONE


class WaitOptions(Struct, frozen=True, repr_omit_defaults=True):
    """What a run waits for, and how long."""

    mode: WaitMode = WaitMode.AUTO
    """For whose readiness the run waits."""
    timeout: float = 300.0
    """How many seconds each wait may take: for readiness, for CRDs, for deletions."""
    turn: float = inf
    """How many seconds of a wait for readiness or for deletions this run may spend.

    A later run continues it, so a wait holds nobody up.
    """
    fail_fast: bool = False
    """End a wait as soon as a problem holds an object up, even if the problem can pass."""
    ready_when: tuple[tuple[str, str], ...] = ()
    """Pairs of a kind and the CEL expression by which objects of that kind are ready."""


class DiffOptions(Struct, frozen=True, repr_omit_defaults=True):
    """What a server dry run compares."""

    enabled: bool = False
    """Compare each object that would change with its live state."""
    drift_only: bool = False
    """Show the fields that others have taken as drift: nothing conflicts."""
    of_plan: bool = False
    """Refuse what a missing right forbids, as a plan does; a diff alone only notes it."""


class StatusOptions(Struct, frozen=True, repr_omit_defaults=True):
    """What a status reports, and for how long."""

    drift: bool = False
    """Warn about drift that cannot be attributed to any field."""
    values: bool = False
    """Compare every value with the last applied manifest, not only the server's record."""
    fail_on_drift: bool = False
    """End with exit code 1 if an object has drifted."""
    watch: bool = False
    """Keep running until it is cancelled, and report changes."""
    wait: bool = False
    """Wait until every object is ready, or one can never become ready."""
    deleted: bool = False
    """Instead of a report, wait until the set and all of its objects are gone."""
    fail_fast: bool = False
    """End the wait as soon as a problem holds an object up, even if the problem can pass."""
    tree: bool = False
    """Include what each object owns, down to Pods."""
    logs: bool = False
    """Include the last log lines of failing containers."""
    timeout: float = 300.0
    """How many seconds to wait at most."""


class Actor(Struct, frozen=True):
    """Who is recorded as the author of a run, and why: for people, no decision depends on it."""

    name: str = ""
    """The user or the program, beyond the user@host that each run records; empty for none."""
    commit: str = ""
    """The commit that is applied; empty if unknown."""
    url: str = ""
    """The job of a pipeline; empty if unknown."""


class Options(Struct, frozen=True, repr_omit_defaults=True):
    """All options of a run."""

    mode: Mode = Mode.APPLY
    """What the run does with the set."""
    dry_run: DryRun = DryRun.OFF
    """Whether the run is a dry run, and where it is computed."""
    check: bool = True
    """Check the plan on the server, by dry runs of what would be sent, and look up references and
    rights, before the first write."""
    select: frozenset[str] = frozenset()
    """The objects that a delete, a repair or ``Mode.ORPHAN`` works on, each as KIND/NAME; empty for
    all objects of the set."""
    select_labels: Selector | None = None
    """The labels of the live objects that a delete works on; None for all objects of the set."""
    approval: Approval = Approval.AUTOMATIC
    """Which plans run only if their digest is approved."""
    approved_plan: str = ""
    """The ``Plan.digest`` of the only plan that may run with ``Approval.ALWAYS``."""
    source: str = ""
    """What changes whenever the input does, if a digest may not show it: values of Secrets."""
    allow_partial: bool = False
    """Let a repair rebuild a lost inventory by what it could list; let a delete of a set without an
    inventory go on by that."""
    contended: frozenset[ObjectWriter] = frozenset()
    """Who keeps changing a field back: an object with such a change is left as it is."""
    corrects: frozenset[Ref] = frozenset()
    """Set back the drift of these listed objects, read no other, and prune nothing; empty for all
    manifests. If more than their drift is to be decided, the run raises WholeSetNeeded."""
    tries_rewritten: bool = False
    """Send the objects again that the server has stored with other values than were sent."""
    reruns_jobs: bool = False
    """Create the Jobs with a TTL again that are gone, unless a run has seen them complete."""
    actor: Actor = Actor()
    """Who to record in the inventory as the author of the run."""
    apply: ApplyOptions = ApplyOptions()
    """How the manifests are applied."""
    prune: PruneOptions = PruneOptions()
    """What may be deleted, and how."""
    wait: WaitOptions = WaitOptions()
    """What the run waits for, and how long."""
    diff: DiffOptions = DiffOptions()
    """What a server dry run compares."""
    lock_timeout: float = 60.0
    """How many seconds to wait for another run that holds the inventory."""
    lease: float = 15.0
    """How many seconds this run holds the inventory after its last renewal; at most 30."""
    concurrency: int = 16
    """How many requests are sent in parallel."""

    @property
    def removes_set(self) -> bool:
        """Return whether the run removes the whole set, with its inventory."""
        return (
            self.mode in {Mode.DELETE, Mode.ORPHAN}
            # guard: whole-set
            and not self.is_part
        )

    @property
    def is_part(self) -> bool:
        """Return whether the run works on a part of the set only."""
        return bool(self.select) or self.select_labels is not None or self.applies_part

    @property
    def applies_whole(self) -> bool:
        """Return whether a whole input is applied, and what has left it pruned."""
        return self.mode is Mode.APPLY and self.prune.enabled and not self.is_part

    @property
    def applies_part(self) -> bool:
        """Return whether only a part of the input is applied."""
        return self.apply.is_part or bool(self.corrects)


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Return the seconds of a duration, or of a plain number of seconds.

    Raises ValueError, worded to follow the text, for an invalid duration, or if it is not positive.
    """
    total, rest = 0.0, text.strip()
    while rest:
        digits = len(rest) - len(rest.lstrip("0123456789."))
        number, rest = rest[:digits], rest[digits:]
        unit = next((unit for unit in ("ms", "s", "m", "h") if rest.startswith(unit)), "")
        try:
            total += float(number) * (_UNITS[unit] if unit else 1.0)
        except ValueError:
            raise ValueError("must be a duration such as 90s or 5m") from None
        if not unit and rest:
            raise ValueError("must be a duration such as 90s or 5m")
        rest = rest[len(unit) :]
    if total <= 0:
        raise ValueError("must be greater than zero")
    return total


def parse_ready_when(text: str) -> tuple[str, str]:
    """Return the kind and the CEL expression of a readiness rule ``KIND.GROUP=EXPRESSION``.

    Raises ValueError, worded to follow the text.
    """
    kind, equals, expression = text.partition("=")
    if not (kind and equals and expression.strip()):
        raise ValueError(
            "must be KIND.GROUP=EXPRESSION: certificate.cert-manager.io=self.status.ready"
        )
    return kind, expression


class ImportOptions(Struct, frozen=True):
    """Which objects an import writes."""

    objects: tuple[str, ...] = ()
    """``KIND/NAME`` of each; empty for all."""
    selector: Selector | None = None
    """Which labels the objects have in the cluster; None for any."""
    source: str = ""
    """``TOOL:NAME`` of the record of another tool; empty for whatever lives there."""
    everywhere: bool = False
    """Whether all namespaces count, and what has none."""
    secrets: bool = False
    """Whether Secrets are written, with their values."""
