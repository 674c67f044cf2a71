"""What type checkers see of the API. mypy checks this file, and nothing runs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, assert_type

from applyprune import (
    AccessError,
    Adopt,
    ApplyOptions,
    ApplypruneError,
    ApplySet,
    Bundle,
    BundleStatus,
    Cancellation,
    ClusterAccess,
    ClusterConnection,
    ConflictsFound,
    DryRun,
    Event,
    Explanation,
    Forbidden,
    Input,
    InputError,
    Inventory,
    InventoryEntry,
    Manifest,
    Mode,
    NotReady,
    ObjectDiff,
    ObjectDone,
    ObjectReport,
    ObjectStatus,
    Options,
    Outcome,
    Plan,
    Problem,
    Propagation,
    PruneLimit,
    PruneOptions,
    Readiness,
    Ref,
    RunFailed,
    RunReport,
    Status,
    StatusOptions,
    WaitOptions,
    __version__,
    connect,
    load,
)

if TYPE_CHECKING:
    pass


if TYPE_CHECKING:
    from collections.abc import Iterator


def connections(access: ClusterAccess) -> None:
    """Every way to connect."""
    assert_type(__version__, str)
    assert_type(connect(), ClusterConnection)
    connect("prod", kubeconfig=Path("admin.conf"), namespace="shop", cache=False, trace=print)
    connect(access=access, retry_budget=5)
    with connect() as cluster:
        assert_type(cluster, ClusterConnection)
        assert_type(cluster.namespace, str)


def inputs() -> None:
    """Every way to load."""
    given = load(
        "manifests/", Path("more.yaml"), kustomize="overlays/prod", objects=[{"kind": "A"}]
    )
    assert_type(given, Input)
    assert_type(given[0], Manifest)
    assert_type(given[:2], tuple[Manifest, ...])
    assert_type(given[0].namespace, str)
    load(kustomize=["a", Path("b")])


def runs(web: ApplySet, given: Input) -> None:
    """Every call that changes something."""
    cancellation = Cancellation()
    cancellation.request()
    report = web.apply(
        given,
        wait=WaitOptions(ready_when=(("certificate.cert-manager.io", "self.status.ready"),)),
        timeout=60,
        options=ApplyOptions(adopt=Adopt.NONE, create_namespace=True),
        prune=PruneOptions(max_prune=PruneLimit(count=3), propagation=Propagation.FOREGROUND),
        dry_run=DryRun.SERVER,
        cancellation=cancellation,
    )
    assert_type(report, RunReport)
    assert_type(report.objects, list[ObjectReport])
    assert_type(report.changed, list[ObjectReport])
    assert_type(report.objects[0].ref, Ref)
    assert_type(report.objects[0].outcome, Outcome | None)
    assert_type(report.problems, list[Problem])
    assert_type(report.plan, Plan | None)
    assert_type(report.exit_code, int)
    assert_type(web.apply(list(given), wait=True), RunReport)
    assert_type(web.prune(given), RunReport)
    assert_type(web.delete(timeout=10), RunReport)
    assert_type(web.iter_apply(given), Iterator[Event])
    assert_type(web.iter_run(given, Options(Mode.PRUNE)), Iterator[Event])
    for event in web.iter_apply(given):
        if isinstance(event, ObjectDone):
            assert_type(event.outcome, Outcome)


def looks(web: ApplySet, given: Input) -> None:
    """Every call that changes nothing."""
    assert_type(web.diff(given), list[ObjectDiff])
    (first, *_) = web.status(drift=True, wait=True, timeout=5)
    assert_type(first, ObjectStatus)
    assert_type(first.readiness, Readiness)
    assert_type(first.readiness.status, Status)
    assert_type(web.iter_status(StatusOptions(watch=True)), Iterator[Event])
    assert_type(web.inventory(), Inventory)
    assert_type(next(iter(web.inventory().entries.values())), InventoryEntry)
    assert_type(web.explain("deployment/web", given), list[Explanation])


def bundles(cluster: ClusterConnection) -> None:
    """Every call about a Bundle."""
    web = Bundle("web", "shop", cluster=cluster)
    assert_type(web.status(), BundleStatus)
    assert_type(web.suspend(), bool)
    assert_type(web.resume(), bool)
    assert_type(web.reconcile(wait=True, timeout=5, cancellation=Cancellation()), RunReport)
    assert_type(web.approve("sha256:"), BundleStatus)


def errors(report: RunReport) -> int:
    """What a caller may catch, from the special to the general."""
    try:
        report.raise_for_failures()
    except (ConflictsFound, NotReady) as error:
        assert_type(error, ConflictsFound | NotReady)
    except RunFailed as error:
        assert_type(error.message, str)
    except (InputError, Forbidden, AccessError):
        return 1
    except ApplypruneError as error:
        return error.exit_code
    return 0
