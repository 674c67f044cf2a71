"""One stream with an event of every type, and with hostile text from others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.model.events import (
    ApplySetListed,
    ContainerLog,
    EntryListed,
    ErrorRaised,
    Explanation,
    FieldsOfManager,
    Finished,
    InventoryWritten,
    MismatchFound,
    ObjectBelongs,
    ObjectDiff,
    ObjectDone,
    ObjectStatus,
    ObjectStuck,
    Pending,
    Phase,
    Planned,
    PruneBlocked,
    Readiness,
    ReadinessReported,
    RetryReported,
    RunListed,
    SetEvent,
    SetsBegan,
    Started,
    Status,
    TreeNode,
    Waiting,
    WarningEvent,
    WarningRaised,
)
from applyprune.model.fate import Fate, Outcome
from applyprune.model.fieldset import Drift
from applyprune.model.identity import Ref, SetKey
from applyprune.model.inventory import (
    ApplyFingerprint,
    InventoryEntry,
    Mismatch,
    MismatchType,
    ObjectsOfOutcome,
    Ownership,
    Repair,
    RunRecord,
    RunSource,
    Wave,
)
from applyprune.model.options import DryRun, Mode
from applyprune.model.plan import (
    ApplyStep,
    Consequence,
    ConsequenceKind,
    Guard,
    GuardResult,
    GuardVerdict,
    Plan,
    RemoveStep,
    ToolRecord,
)
from applyprune.model.problem import ContestedField, ManagerConflict, Origin, Problem, ProblemKind
from applyprune.model.reports import (
    ArtifactPushed,
    ImportEnded,
    InputChecked,
    ManifestMade,
    OwnerFound,
    VersionReport,
)
from applyprune.values import replace
from tests.support.planning import DEPLOYMENTS, SECRETS, body, desired, live

if TYPE_CHECKING:
    from applyprune.model.events import Event

SECRET_VALUE = "aHVudGVyMg=="
EVIL = "::error::x ##[error]y\n::warning::z\r<script>|`a``b`|</script> \x1b[2J\x9b \u202e @team #1"
"""A server's message that could be taken for a command, the end of a cell, HTML or a link."""

_DEPLOYMENT = Ref("apps", "Deployment", "home", "web")
_POD = Ref("", "Pod", "home", "web-1")
_CONFIG = Ref("", "ConfigMap", "home", "a")
_SECRET = Ref("", "Secret", "home", "s")
_ROLE = Ref("rbac.authorization.k8s.io", "ClusterRole", "", "::add-mask::##[x]|`")
_OLD = Ref("", "Service", "home", "old")
_PLACE = Origin("manifests/web.yaml", 2, 12, 3)

_CONFLICT = Problem(
    ProblemKind.CONFLICT,
    "deployment.apps/web in namespace home: .spec.replicas is owned by hpa",
    str(_PLACE),
    EVIL,
    "Say --conflicts force: 100%, or leave it.",
    4,
    _PLACE,
    ("spec", "containers", 0, "image"),
    "  replicas: 3\n  ^",
    conflicts=(
        ManagerConflict(
            "hpa",
            "Update",
            "scale",
            "2026-11-21T10:00:00Z",
            (ContestedField(".spec.replicas", "/spec/replicas", "3", "5"),),
        ),
    ),
)
_SKIPPED = Problem(
    ProblemKind.RUN_FAILED, "configmap/late waits for deployment.apps/web", exit_code=3
)
_BROKEN = Problem(ProblemKind.INVENTORY_ERROR, "it cannot be read", reason="no JSON", exit_code=3)

_ENTRY = InventoryEntry(
    ref=_CONFIG,
    plural="configmaps",
    version="v1",
    uid_before_apply=None,
    uid="u1",
    ownership=Ownership.ADOPTED,
    digest="sha256:feed",
    fingerprint=ApplyFingerprint("5", 1, "sha256:beef", "2026-11-21T10:00:00Z"),
    wave=Wave(0, 2, 0),
    depends_on=(_DEPLOYMENT,),
    orphan_reason="applyprune.dev/prune: disabled",
)
_OF_A_SECRET = desired(body("Secret", "s", data={"password": SECRET_VALUE}), SECRETS)
_PLAN = Plan(
    applies=(
        ApplyStep(
            desired(body("Deployment", "web"), DEPLOYMENTS),
            Fate.CHANGE,
            replace(_ENTRY, ref=_DEPLOYMENT),
            reason="a field was changed",
            not_checked="not checked: it needs role/r",
            taken_from=("kubectl",),
            reverts=((".spec.replicas", "hpa"),),
        ),
        ApplyStep(_OF_A_SECRET, Fate.CREATE, _ENTRY, live(_SECRET, full={"data": SECRET_VALUE})),
    ),
    removals=(RemoveStep(replace(_ENTRY, ref=_OLD), None, Fate.REFUSE, problem=_BROKEN),),
    no_prune="not everything was applied",
    deletions=f"sha256:{'d' * 64}",
    digest=f"sha256:{'a' * 64}",
    guards=(
        GuardResult(Guard.CASCADE, GuardVerdict.PASSED, "no deletion cascades"),
        GuardResult(
            Guard.MORE_THAN_HALF,
            GuardVerdict.LIFTED,
            "5 deletions are more than half of the set's 8 live objects",
            "--max-prune 5",
            "--max-prune 60%",
        ),
        GuardResult(
            Guard.EMPTY_INPUT, GuardVerdict.REFUSED, f"no object in {EVIL}", "--allow-empty"
        ),
    ),
    refusal=Problem(ProblemKind.PRUNE_REFUSED, "it would delete 31 objects", exit_code=6),
    recovered=(_ENTRY,),
    consequences=(
        Consequence(ConsequenceKind.ROLLOUT, _DEPLOYMENT, "rollout, 12 Pods", 12),
        Consequence(
            ConsequenceKind.READ_BY, _CONFIG, f"read by {EVIL}", 1, (_DEPLOYMENT,), certain=False
        ),
    ),
    records=(
        ToolRecord("Flux", f"Kustomization {EVIL}", 3, runs=True),
        ToolRecord("Helm", "release web in namespace shop", 1, "kubectl delete secret web"),
    ),
)

_LATE = SetKey("shop", "late")
_API = SetKey("shop", "api")
_OF_SETS: tuple[Event, ...] = (
    SetEvent(_API, f"deploy/{EVIL}", Started("run2", Mode.APPLY, "api", "shop", DryRun.OFF)),
    SetEvent(_API, f"deploy/{EVIL}", WarningRaised(Problem(ProblemKind.FORBIDDEN, EVIL))),
    SetEvent(_API, f"deploy/{EVIL}", Planned(_PLAN)),
    SetEvent(
        _API, f"deploy/{EVIL}", ObjectDone(replace(_CONFIG, namespace="shop"), Outcome.CREATED)
    ),
    SetEvent(
        _LATE,
        "deploy/late",
        ErrorRaised(
            Problem(
                ProblemKind.RUN_FAILED,
                "the set shop/late was not run",
                reason="it depends on shop/api, which has failed",
            )
        ),
    ),
    SetEvent(_LATE, "deploy/late", Finished({}, 3, 0.0)),
    SetEvent(
        _API,
        f"deploy/{EVIL}",
        ObjectDone(
            replace(_DEPLOYMENT, namespace="shop"), Outcome.FAILED, _PLACE, problem=_CONFLICT
        ),
    ),
    SetEvent(
        _API,
        f"deploy/{EVIL}",
        Finished(
            {Outcome.CREATED: 1, Outcome.FAILED: 1},
            4,
            0.5,
            Problem(ProblemKind.CONFLICTS_FOUND, "1 object failed", exit_code=4),
        ),
    ),
)
"""Two of the sets of one command, side by side: one fails, and the other waits for it."""

EVENTS: tuple[Event, ...] = (
    SetsBegan(2),
    Started("run1", Mode.APPLY, "web", "home", DryRun.OFF),
    Waiting(None, "another run on the set", 1.25, 60.0),
    WarningRaised(
        Problem(ProblemKind.FORBIDDEN, "nodes cannot be listed", reason=EVIL, exit_code=7)
    ),
    Planned(_PLAN),
    InventoryWritten(Phase.BEFORE_APPLY, 4, 7),
    ObjectDone(_CONFIG, Outcome.CREATED, Origin("manifests/a.yaml", 1, 1)),
    ObjectDone(_SECRET, Outcome.UNCHANGED, Origin("manifests/s.yaml", 1, 1)),
    ObjectDone(_ROLE, Outcome.UPDATED, Origin("<stdin>", 1, 1), reason=f"it was {EVIL}"),
    ObjectDone(_DEPLOYMENT, Outcome.FAILED, _PLACE, problem=_CONFLICT),
    ObjectDone(Ref("", "ConfigMap", "home", "late"), Outcome.SKIPPED, problem=_SKIPPED),
    Waiting(
        _CONFIG, "ready", 2.0, 300.0, f"it was {EVIL}", (Pending(_DEPLOYMENT, "0 of 1 Pods"),), 2
    ),
    ReadinessReported(_CONFIG, Readiness(Status.CURRENT, "it is there"), 0.25),
    ReadinessReported(
        Ref("batch", "Job", "home", "once"),
        Readiness(Status.FAILED, "BackoffLimitExceeded"),
        9.0,
        Problem(ProblemKind.NOT_READY, "job.batch/once is not ready", exit_code=5),
    ),
    ObjectStuck(_DEPLOYMENT, Readiness(Status.IN_PROGRESS, EVIL, stuck=True), 20.0),
    RetryReported(
        'the webhook "w.example.com"',
        'the webhook "w.example.com" does not answer',
        4,
        2.5,
        EVIL,
    ),
    ObjectDone(_OLD, Outcome.NOT_PRUNED, reason="not everything was applied"),
    ObjectDone(Ref("", "Service", "home", "older"), Outcome.PRUNED),
    PruneBlocked(
        Problem(
            ProblemKind.PRUNE_REFUSED, "the prune was refused", hint="--max-prune 31", exit_code=6
        )
    ),
    MismatchFound(
        Mismatch(MismatchType.UNLABELLED, Repair.MARK, "no label", _CONFIG, _ENTRY, live(_CONFIG))
    ),
    MismatchFound(Mismatch(MismatchType.STRAY_SHARD, Repair.NONE, "applyprune-web.feed")),
    ObjectDiff(_CONFIG, Fate.CREATE, None, {"data": {"k": "```\n</details>\x1b[2J"}}, _PLACE),
    ObjectDiff(_OLD, Fate.PRUNE, {"spec": {"a": 1, "b": [1, None]}}, None, None, "no webhook"),
    ObjectDiff(_SECRET, Fate.LEAVE, {}, {}),
    ObjectStatus(
        _DEPLOYMENT,
        Readiness(Status.IN_PROGRESS, "1 of 3"),
        Ownership.OWNED,
        61.5,
        drifted=True,
        drift=(Drift("/spec/replicas", "3", "5", "kubectl", "Update", "2026-11-21T10:00:00Z"),),
        name="web",
        namespace="home",
        wave=2,
        events=(WarningEvent("pod/web-1", "BackOff", EVIL, 7, "2026-11-21T10:00:00Z"),),
        not_read="its events cannot be read: forbidden",
        logs=(
            ContainerLog(_POD, "main", previous=True, lines=("panic: \\u001b[2J",)),
            ContainerLog(_POD, "main", previous=False, lines=(), problem=EVIL),
        ),
        tree=TreeNode(
            _DEPLOYMENT,
            "1/3",
            "InProgress",
            None,
            61.5,
            (TreeNode(_POD, "0/1", "CrashLoopBackOff", 7, 60.0),),
        ),
    ),
    ApplySetListed(
        "web", "home", 3, 2, RunRecord("run0", "apply", "me@here", "2026-11-21T09:00:00Z", 0)
    ),
    ApplySetListed("bad", "home", problem=_BROKEN),
    EntryListed("web", "home", _ENTRY),
    RunListed(
        "web",
        "home",
        RunRecord(
            "run0",
            "apply",
            "me@here",
            "2026-11-21T09:00:00Z",
            None,
            actor="mona",
            url="https://ci.example/jobs/1",
            source=RunSource(
                "deploy/prod", "3f2a91c0" * 5, differs=True, paths={"filename": ("deploy/prod",)}
            ),
            number=7,
            is_whole=True,
            created=1,
            changed=2,
            pruned=3,
        ),
        {Outcome.CREATED: ObjectsOfOutcome(60, (_CONFIG,))},
    ),
    ObjectBelongs(
        _CONFIG,
        ("the set web in namespace home", "the kapp app 17"),
        "2026-11-21T09:00:00Z",
        "deploy/prod @ 3f2a91c",
        (FieldsOfManager("kubectl-label", ("the label team",), 3, "2026-11-21T09:00:00Z"),),
        190,
    ),
    InputChecked(3, ("cert-manager.io/v1 Certificate",), checksum=f"sha256:{'0' * 64}"),
    OwnerFound("the Helm release web", "shop", 3, {"ConfigMap": 3}, "helm:web"),
    ManifestMade(
        _DEPLOYMENT, {"apiVersion": "apps/v1", "kind": "Deployment"}, "the Helm release web"
    ),
    ImportEnded({"what owners make": 2}, {"ConfigMap": 1}, "out", "applyprune plan web -f out"),
    ArtifactPushed(
        f"oci://registry.example.com/shop/web:1.4.0@sha256:{'ab' * 32}", f"sha256:{'ab' * 32}", 3
    ),
    VersionReport("0.1.0", "3.11.7", "Linux x86_64", "v1.36.3"),
    Explanation(
        _CONFIG, "nothing", ("it is as it was applied",), _PLACE, ("guard max-prune passed: 1",)
    ),
    *_OF_SETS,
    ErrorRaised(
        Problem(
            ProblemKind.INPUT_ERROR,
            "no kind",
            "b.yaml:3:1",
            origin=Origin("b.yaml", 1, 3, 1),
            exit_code=2,
        )
    ),
    Finished(
        {Outcome.CREATED: 1, Outcome.UNCHANGED: 1, Outcome.FAILED: 1, Outcome.PRUNED: 1},
        3,
        1.23456,
        Problem(ProblemKind.RUN_FAILED, "1 object failed"),
    ),
)
