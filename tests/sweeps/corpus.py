"""Apply a published set of manifests as its users do, and list every way in which it misbehaves."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from applyprune.model.identity import GroupKind
from applyprune.model.kinds import CRD, GUARDED_KINDS, NAMESPACE
from applyprune.sources import read
from tests.support.api import Api, AuditTrail, writes
from tests.support.command import applyprune
from tests.support.everything import contents, everything, lasting
from tests.support.objects import text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from applyprune.localplane import Plane
    from tests.support.command import Ended


_AUTOSCALER = "HorizontalPodAutoscaler"
_OF_NAMESPACES = ("default", "kube-root-ca.crt")
# A Job with a TTL may be gone already.
_LEFT = ("pruned", "removed from inventory")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a user would not expect."""

    step: str
    what: str


@dataclass(slots=True)
class CorpusRun:
    """The life of one set on a plane of its own: applied, left alone, shrunk, deleted."""

    plane: Plane
    source: Path
    folder: Path
    """An empty folder for the smaller set."""
    settle: float
    """How many seconds the controllers get."""
    findings: list[Finding] = field(default_factory=list)

    def run(self) -> Sequence[Finding]:
        """Return what was found, in the order of the steps."""
        api = Api(self.plane)
        audit = AuditTrail(self.plane, api)
        try:
            before = lasting(everything(api))
            self._expect("diff before", self._call("diff", self.source), 1)
            if self._expect("apply", self._call("apply", self.source, "--no-wait"), 0):
                self._again("apply again", audit)
                time.sleep(self.settle)
                self._hand_over(audit)
                self._again(f"after {self.settle:g} s", audit)
                self._differences(api)
                self._shrink(api)
            self._delete()
            left = lasting(everything(api))
            self._compare("delete", "is left", left.keys() - before.keys())
            self._compare("delete", "was deleted too", before.keys() - left.keys())
        finally:
            api.close()
        return self.findings

    def _call(self, verb: str, source: Path | None, *options: str) -> Ended:
        inputs: list[str | Path] = [] if source is None else ["-f", source]
        return applyprune(verb, "corpus", *inputs, *options, kubeconfig=self.plane.kubeconfig)

    def _expect(self, step: str, ended: Ended, code: int) -> bool:
        if ended.code != code:
            self._found(step, f"exit code {ended.code} instead of {code}: {ended.err.strip()}")
        return ended.code == code

    def _found(self, step: str, what: str) -> None:
        self.findings.append(Finding(step, what))

    def _compare(self, step: str, what: str, objects: set[str]) -> None:
        for name in sorted(objects):
            self._found(step, f"{name} {what}")

    def _again(self, step: str, audit: AuditTrail) -> None:
        """Apply the same input again: nothing may be written."""
        audit.restart()
        ended = self._call("apply", self.source, "--no-wait", "-v")
        self._expect(step, ended, 0)
        for name, outcome in ended.objects:
            if not outcome.startswith("unchanged"):
                self._found(step, f"{name} {outcome}")
        for write in writes(audit, dry_runs=True):
            self._found(step, f"wrote: {write}")

    def _hand_over(self, audit: AuditTrail) -> None:
        """Apply once more: replicas that an autoscaler has set are left to it from now on.

        The record of such an object is written again, and nothing else.
        """
        scaled = {
            (f"{target['kind'].lower()}s", target["name"])
            for manifest in read([str(self.source)])
            if manifest.gvk.kind == _AUTOSCALER
            for target in (manifest.body["spec"]["scaleTargetRef"],)
        }
        if not scaled:
            return
        audit.restart()
        self._expect("hand over", self._call("apply", self.source, "--no-wait"), 0)
        for write in writes(audit, dry_runs=True):
            plural, name = write.partition("?")[0].split("/")[-2:]
            if (plural, name) not in {*scaled, ("configmaps", "applyprune-corpus")}:
                self._found("hand over", f"wrote: {write}")

    def _differences(self, api: Api) -> None:
        """Compare in every way that there is: nothing may differ."""
        for options in ((), ("--reapply-all",), ("--drift",)):
            ended = self._call("diff", self.source, *options)
            if ended.code:
                self._found(f"diff {' '.join(options)}", f"{ended.code}: {ended.out}{ended.err}")
        before = contents(api)
        ended = self._call("apply", self.source, "--no-wait", "--reapply-all", "-v")
        self._expect("--reapply-all", ended, 0)
        after = contents(api)
        same = [key for key in before if before[key] == after.get(key)]
        for name, outcome in ended.objects:
            # The server may store an equal object again.
            stored_again = outcome.startswith("updated") and any(
                _is_key_of(key, name) for key in same
            )
            if not outcome.startswith("unchanged") and not stored_again:
                self._found("--reapply-all", f"{name} {outcome}")
        drifted = self._call("status", None, "--drift", "-o", "jsonl")
        for one in map(json.loads, drifted.out.splitlines()):
            if one["event"] != "objectStatus" or one["drifted"] is False:
                continue
            # Of a Job that its TTL has removed, nobody knows it.
            if one["drifted"] or one["age"] is not None:
                self._found("status --drift", f"{one['ref']}: {one['drift']}")

    def _shrink(self, api: Api) -> None:
        """Take every third object out that contains neither data nor other objects.

        An autoscaler stays: whether the replicas that it has set become the manifest's is for a
        person to decide, so its removal is a conflict. What controllers create in each namespace
        stays too: it is adopted, and would be orphaned.
        """
        manifests = read([str(self.source)])
        guarded = {*GUARDED_KINDS, NAMESPACE, CRD, GroupKind("autoscaling", _AUTOSCALER)}
        plain = [
            manifest
            for manifest in manifests
            if GroupKind(manifest.gvk.group, manifest.gvk.kind) not in guarded
            and manifest.name not in _OF_NAMESPACES
        ]
        leaving = plain[::3]
        kept = [manifest.body for manifest in manifests if manifest not in leaving]
        path = self.folder / "smaller.yaml"
        path.write_text(text(*map(dict, kept)))
        before = lasting(everything(api))
        limit = f"--max-prune={len(manifests)}"
        ended = self._call("apply", path, "--no-wait", limit, "--yes")
        self._expect("shrink", ended, 0)
        pruned = [name for name, outcome in ended.objects if outcome.startswith(_LEFT)]
        if len(pruned) != len(leaving):
            self._found("shrink", f"{len(pruned)} pruned instead of {len(leaving)}")
        after = lasting(everything(api))
        names = {manifest.name for manifest in leaving}
        gone = {key for key in before.keys() - after.keys() if not _is_of(key, names)}
        self._compare("shrink", "was deleted too", gone)

    def _delete(self) -> None:
        self._expect("delete", self._call("delete", None, "--yes"), 0)


def _is_of(key: str, names: set[str]) -> bool:
    """Return whether an object has one of these names, or that of something made from it."""
    name = key.rpartition("/")[2]
    return any(name == one or name.startswith(f"{one}-") for one in names)


def _is_key_of(key: str, shown: str) -> bool:
    """Return whether ``policies shop/web`` is the key of ``policy.example.com/web``."""
    kind, _, name = shown.partition("/")
    # The last letter is another one in some plurals.
    return key.startswith(kind.partition(".")[0][:-1]) and key.endswith(f"/{name}")


def table(found: Sequence[Finding]) -> str:
    """Return findings as a table of Markdown."""
    lines = (f"| {one.step} | {' '.join(one.what.split())} |" for one in found)
    return "\n".join(("| step | finding |", "|---|---|", *lines))
