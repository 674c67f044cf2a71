"""Chart hooks in an input: nothing runs that Helm would run at another time.

How events are read is a table of ``tests/unit/planning/desired``.
"""

from __future__ import annotations

import pytest

from applyprune.errors import EmptyInput, InputError
from applyprune.model.fate import Fate
from applyprune.model.options import HelmHooks, Mode
from applyprune.model.plan import Guard
from applyprune.planning.desired import HOOK
from tests.decisions.rows import Row, rows
from tests.decisions.world import Body
from tests.support.objects import config_map, of_kind


def _job(name: str, events: str = "") -> Body:
    marks = {HOOK: events, "helm.sh/hook-delete-policy": "before-hook-creation"}
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    metadata = {"annotations": marks} if events else {}
    return of_kind("Job", name, metadata, spec={"suspend": True, "template": {"spec": pod}})


WEB, CLEAN, TEST = config_map("web"), _job("clean", "pre-delete"), _job("check", "test")
MIGRATE = _job("migrate", "pre-install,pre-upgrade")
CREATED, KEPT = {"configmap/web": Fate.CREATE}, {"job.batch/clean": Fate.LEAVE}
REFUSED = ["job.batch/migrate is an install or upgrade hook"]
SKIP, APPLY = {"helm_hooks": HelmHooks.SKIP}, {"helm_hooks": HelmHooks.APPLY}
HOOKS = {
    "of a deletion, and a test": Row(
        given=[WEB, CLEAN, TEST], fates=CREATED,
        warns=["2 chart hooks are left out: job.batch/clean (pre-delete), job.batch/check"],
    ),
    "of an installation": Row(given=[WEB, CLEAN, MIGRATE], error=InputError, says=REFUSED),
    "of an installation: prune": Row(
        [WEB], given=[WEB, MIGRATE], options={"mode": Mode.PRUNE}, error=InputError, says=REFUSED
    ),
    "of an installation: skip": Row(
        given=[WEB, CLEAN, MIGRATE], options=SKIP, fates=CREATED,
        warns=["job.batch/migrate (pre-install, pre-upgrade)"],
    ),
    "of an installation: apply": Row(
        given=[WEB, CLEAN, MIGRATE], options=APPLY,
        fates={**CREATED, "job.batch/migrate": Fate.CREATE}, warns=["1 chart hook is left out"],
    ),
    "of an older version": Row([WEB, _job("clean")], given=[WEB, CLEAN], fates=KEPT),
    "of an older version: prune": Row(
        [WEB, _job("clean")], given=[WEB, CLEAN], options={"mode": Mode.PRUNE}, fates=KEPT
    ),
    "alone, of a new set": Row(given=[CLEAN, TEST], error=EmptyInput),
    "alone, of a new set: skip": Row(given=[MIGRATE], options=SKIP, error=EmptyInput),
    "alone": Row(
        [WEB], given=[CLEAN], refused=frozenset({Guard.EMPTY_INPUT}),
        says=["no object in the input"],
    ),
}  # fmt: skip


@pytest.mark.holds("left-out-hook", row="of a deletion, and a test")
@pytest.mark.holds("kept-hook", row="of an older version")
@rows(HOOKS)
def test_chart_hook_is_left_out_or_refused(row: Row) -> None:
    """One that an older version of the set has applied is kept until it leaves the input."""
    row.holds()
