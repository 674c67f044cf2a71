"""The annotations that applyprune reads: its own, and those of other tools against deletion."""

from __future__ import annotations

from collections.abc import Mapping

READY_WHEN = "applyprune.dev/ready-when"

WAIT = "applyprune.dev/wait"

_VALUES = {
    "applyprune.dev/prune": "disabled",
    "helm.sh/resource-policy": "keep",
    "client.lifecycle.config.k8s.io/deletion": "detach",
    "cli-utils.sigs.k8s.io/on-remove": "keep",
    "kustomize.toolkit.fluxcd.io/prune": "disabled",
    "kapp.k14s.io/delete-strategy": "orphan",
    "kluctl.io/skip-delete": "true",
}
_ARGO = "argocd.argoproj.io/sync-options"
_ARGO_OPTIONS = {"Prune=false", "Delete=false", "Prune=confirm", "Delete=confirm"}


def orphan_mark(metadata: Mapping[str, object]) -> str:
    """Return ``key: value`` of the first annotation that forbids deletion; empty if there is none.

    Flux reads its annotation from labels too, so all annotations are searched in both.
    """
    for part in ("annotations", "labels"):
        marks = metadata.get(part)
        if not isinstance(marks, dict):
            continue
        for key, value in _VALUES.items():
            if str(marks.get(key, "")).lower() == value:
                return f"{key}: {value}"
        asked = {option.strip() for option in str(marks.get(_ARGO, "")).split(",")}
        if found := sorted(asked & _ARGO_OPTIONS):
            return f"{_ARGO}: {found[0]}"
    return ""
