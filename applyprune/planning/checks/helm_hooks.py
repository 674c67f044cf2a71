"""Find the chart hooks in an input, and decide which of them are left out.

Helm does not install an object with the annotation ``helm.sh/hook`` like the others: it creates it
at certain events of a release. The value is a comma-separated list of events; spaces and case do
not matter (``SortManifests`` in Helm's ``manifest_sorter.go``, and
https://helm.sh/docs/topics/charts_hooks/). ``test-success``, ``test-failure`` and ``crd-install``
are events of Helm 2; of these, Helm 3 only knows the first.

applyprune runs no hooks. A test, delete or rollback hook must never be applied: a ``pre-delete``
Job would run at once. Only the user knows whether an install or upgrade hook may be applied like
any other object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from applyprune.errors import InputError
from applyprune.model.identity import Ref
from applyprune.model.live import mapping
from applyprune.model.options import HelmHooks
from applyprune.model.problem import Mark, Problem, ProblemKind
from applyprune.planning.marks.apply_mark import is_disabled
from applyprune.planning.suggest import did_you_mean
from applyprune.values import dataclass

if TYPE_CHECKING:
    from applyprune.model.problem import Manifest

HOOK = "helm.sh/hook"
_FIELD = ("metadata", "annotations", HOOK)
_INSTALL = frozenset({"crd-install", "pre-install", "post-install", "pre-upgrade", "post-upgrade"})
_NEVER = frozenset(
    {
        "pre-delete",
        "post-delete",
        "pre-rollback",
        "post-rollback",
        "test",
        "test-success",
        "test-failure",
    }
)


@dataclass(frozen=True, slots=True)
class ChartHook:
    """An object of the input that Helm would create as a hook."""

    manifest: Manifest
    events: tuple[str, ...]
    """The events of a release at which Helm would create it."""

    @property
    def needs_decision(self) -> bool:
        """Return whether it is an install or upgrade hook, whatever else it is."""
        return not _INSTALL.isdisjoint(self.events)

    @property
    def name(self) -> str:
        """Return ``job.batch/migrate``."""
        gvk = self.manifest.gvk
        return Ref(gvk.group, gvk.kind, "", self.manifest.name).short

    @property
    def described(self) -> str:
        """Return ``job.batch/migrate (pre-install, pre-upgrade)``."""
        return f"{self.name} ({', '.join(self.events)})"

    def is_left_out(self, decision: HelmHooks) -> bool:
        """Return whether the object does not belong to the set."""
        return not self.needs_decision or decision is HelmHooks.SKIP  # guard: left-out-hook


@dataclass(frozen=True, slots=True)
class FoundHooks:
    """The chart hooks of an input."""

    hooks: tuple[ChartHook, ...]
    manifests: tuple[Manifest, ...]
    """The manifests that belong to the set."""
    errors: tuple[InputError, ...]
    """An error for each unknown event."""


def find_hooks(manifests: Iterable[Manifest], decision: HelmHooks) -> FoundHooks:
    """Find the hooks among manifests, and separate those that are left out."""
    hooks: list[ChartHook] = []
    kept: list[Manifest] = []
    errors: list[InputError] = []
    for manifest in manifests:
        text = _hook_text(manifest)
        if text is None:
            kept.append(manifest)
            continue
        hook = ChartHook(manifest, tuple(_events(text)))
        unknown = [event for event in hook.events if event not in _INSTALL | _NEVER]
        if unknown:
            errors.append(_unknown_event(manifest, unknown[0]))
        else:
            hooks.append(hook)
        if unknown or not hook.is_left_out(decision):
            kept.append(manifest)
    return FoundHooks(tuple(hooks), tuple(kept), tuple(errors))


def is_undecided(manifest: Manifest, decision: HelmHooks) -> bool:
    """Return whether an object that ``find_hooks`` kept cannot be applied: its hook is an error."""
    return decision is not HelmHooks.APPLY and _hook_text(manifest) is not None


def _hook_text(manifest: Manifest) -> str | None:
    """Return the value of the annotation; None if there is none, or the manifest is left out."""
    if not manifest.packed.mentions(HOOK):
        return None
    annotations = mapping(mapping(manifest.body.get("metadata")).get("annotations"))
    if HOOK not in annotations or is_disabled(manifest):
        return None
    return str(annotations[HOOK])


def _events(text: str) -> Iterable[str]:
    return (event.strip().lower() for event in text.split(","))


def _unknown_event(manifest: Manifest, event: str) -> InputError:
    """Return the error for an event that Helm does not know: it drops such an object silently."""
    known = sorted(_INSTALL | _NEVER)
    return InputError(
        f"invalid {HOOK}",
        location=manifest.origin,
        reason=f"{event!r} is not an event of a chart hook",
        hint=did_you_mean(event, known) or f"The events are {', '.join(known)}.",
        field=_FIELD,
    )


def hooks_refusal(hooks: Collection[ChartHook], decision: HelmHooks) -> InputError | None:
    """Return the error that names all hooks which need a decision; None if there is none."""
    undecided = [hook for hook in hooks if hook.needs_decision]
    if not undecided or decision is not HelmHooks.REFUSE:
        return None
    many = len(undecided) > 1
    return InputError(
        f"{len(undecided)} objects are install or upgrade hooks of a chart"
        if many
        else f"{undecided[0].name} is an install or upgrade hook of a chart",
        location=undecided[0].manifest.origin,
        reason=", ".join(f"{hook.described} in {hook.manifest.origin}" for hook in undecided)
        if many
        else f"Helm would create it at {' and '.join(undecided[0].events)}",
        hint="applyprune runs no hooks. To leave them out, use `helm template --no-hooks`, or "
        "--helm-hooks=skip. To apply them like other objects, use --helm-hooks=apply.",
        marks=[Mark(_FIELD, hook.name, hook.manifest.origin) for hook in undecided]
        if many
        else [Mark(_FIELD)],
    )


def hooks_warning(hooks: Collection[ChartHook], decision: HelmHooks) -> Problem | None:
    """Return the warning that names all hooks which are left out; None if there is none."""
    left_out = [hook for hook in hooks if hook.is_left_out(decision)]
    if not left_out:
        return None
    what = "chart hook is" if len(left_out) == 1 else "chart hooks are"
    return Problem(
        kind=ProblemKind.CHART_HOOKS,
        message=f"{len(left_out)} {what} left out",
        location=str(left_out[0].manifest.origin),
        reason=", ".join(hook.described for hook in left_out),
        origin=left_out[0].manifest.origin,
        hint="applyprune runs no hooks. `helm template --no-hooks` prints none.",
    )
