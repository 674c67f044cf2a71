"""What a Bundle's object tells, and when a wait for it has ended."""

from __future__ import annotations

from typing import Any

import pytest

from applyprune.api.bundles import ERRORS, bundle_readiness, bundle_status, not_ready
from applyprune.controller.reasons import Reason
from applyprune.errors import (
    ApplypruneError,
    ConflictsFound,
    NotApproved,
    NotReady,
    PruneRefused,
    UsageError,
)
from applyprune.model.events import Status, failed, in_progress, stuck
from applyprune.model.identity import Ref
from applyprune.model.live import LiveObject
from applyprune.model.reports import BundleCondition, BundleStatus, PendingObject
from applyprune.values import replace
from tests.support.output.bundles import BUNDLE

SECRET_VALUE = "hunter2-of-the-source"
ASKED = "2026-11-23T07:00:00.000000+00:00"
READY = replace(BUNDLE, ready="True", reason="Applied", pending=None, conditions=())
FAILING = replace(READY, ready="False", reason="NotReady", message="m")
STALLED = BundleCondition("Stalled", "True", "InvalidSource", "m", "")


def read(body: dict[str, Any], **metadata: Any) -> BundleStatus:
    """Return the state of a Bundle with this body."""
    ref = Ref("applyprune.dev", "Bundle", "shop", "web")
    facts = {"name": "web", "generation": 2, **metadata}
    return bundle_status(LiveObject.of(ref, "u", "1", facts, {"metadata": facts, **body}))


def test_source_is_never_shown() -> None:
    """An inline source may contain a Secret."""
    assert SECRET_VALUE not in repr(read({"spec": {"source": {"inline": SECRET_VALUE}}}))


def test_new_bundle_is_unknown() -> None:
    """The controller has not seen it; defaults are those of the CRD."""
    found = read({"spec": {"source": {"inline": ""}}})
    assert (found.ready, found.reason, found.observed_generation) == ("Unknown", "", -1)
    assert (found.revision, found.pending) == ("", None)
    assert bundle_readiness(found, "").status is Status.IN_PROGRESS


def test_whole_status_is_read() -> None:
    """With what its annotations say."""
    digest = f"sha256:{'1' * 64}"
    pending = {
        "digest": digest,
        "scope": "Deletions",
        "since": "2026-11-23T06:00:00Z",
        "counts": {"prune": 2, "cascaded": 1},
        "objects": [
            {"object": "service/old", "namespace": "shop", "fate": "prune", "cascade": "c"}
        ],
    }
    status = {
        "observedGeneration": 2,
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "PruneRefused", "message": "m"},
            {"type": "Drifted", "status": "True", "reason": "Drifted", "message": "d"},
        ],
        "lastAppliedRevision": "sha256:a",
        "lastHandledReconcileAt": "t",
        "pendingPlan": pending,
    }
    found = read(
        {"spec": {"suspend": True}, "status": status},
        annotations={"applyprune.dev/approve": digest, "applyprune.dev/reconcile-now": "t2"},
        deletionTimestamp="2026-11-23T06:59:30Z",
    )
    assert (found.ready, found.reason, found.revision) == ("False", "PruneRefused", "sha256:a")
    assert (found.suspended, found.deleting) == (True, True)
    assert [one.type for one in found.conditions] == ["Ready", "Drifted"]
    assert (found.requested_at, found.reconciled_at) == ("t2", "t")
    assert found.pending is not None
    assert (found.pending.counts, found.pending.approved) == ({"prune": 2, "cascaded": 1}, True)
    assert found.pending.objects == (PendingObject("service/old", "shop", "prune", "c"),)
    # Somebody else's status may have any shape.
    for broken in ({"conditions": "x", "pendingPlan": []}, {"conditions": [1]}, "x"):
        assert read({"spec": "x", "status": broken}).ready == "Unknown"


@pytest.mark.parametrize(
    ("found", "requested", "wanted"),
    [
        (READY, "", Status.CURRENT),
        (replace(READY, requested_at=ASKED, reconciled_at=ASKED), ASKED, Status.CURRENT),
        (replace(READY, requested_at=ASKED, reconciled_at="before"), ASKED, Status.IN_PROGRESS),
        # Another request came after ours, and the controller has handled that one.
        (replace(READY, requested_at="later", reconciled_at="later"), ASKED, Status.CURRENT),
        (replace(READY, generation=5), "", Status.IN_PROGRESS),
        (replace(READY, deleting=True), "", Status.TERMINATING),
        (replace(READY, suspended=True), "", Status.FAILED),
        (FAILING, "", Status.IN_PROGRESS),
        (replace(FAILING, conditions=(STALLED,)), "", Status.FAILED),
        (replace(FAILING, conditions=(replace(STALLED, status="False"),)), "", Status.IN_PROGRESS),
        (replace(FAILING, pending=BUNDLE.pending), "", Status.FAILED),
        (replace(READY, ready="Unknown"), "", Status.IN_PROGRESS),
    ],
)
def test_wait_ends_when_nothing_can_change(
    found: BundleStatus, requested: str, wanted: Status
) -> None:
    """Ready, or stalled until somebody changes something; a retry is waited for."""
    readiness = bundle_readiness(found, requested)
    assert readiness.status is wanted
    # --fail-fast ends at what the controller retries.
    assert readiness.stuck is (found.ready == "False" and wanted is Status.IN_PROGRESS)


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("Conflicts", ConflictsFound),
        ("PendingApproval", NotApproved),
        ("PruneRefused", PruneRefused),
        ("InvalidSpec", UsageError),
        ("Forbidden", NotReady),
    ],
)
def test_error_of_a_failed_wait_is_that_of_its_reason(
    reason: str, kind: type[ApplypruneError]
) -> None:
    """With the exit codes of `apply`."""
    found = replace(FAILING, reason=reason)
    assert type(not_ready(found, failed("m"))) is kind
    late = not_ready(found, stuck("m"), within=5)
    assert type(late) is kind
    assert "within 5 s" in late.message
    assert type(not_ready(found, in_progress("m"), within=5)) is NotReady


def test_reasons_are_those_of_the_controller() -> None:
    """A reason that it never writes would never match."""
    assert ERRORS.keys() - set(Reason) == set()
