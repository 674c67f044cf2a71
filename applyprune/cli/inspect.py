"""The verbs that only read: ``list``, ``status`` and ``rbac``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from applyprune.cli.config import no_set_given
from applyprune.cli.options import (
    ALL_NAMESPACES,
    CLUSTER,
    CONFIG,
    FAIL_FAST,
    INPUT,
    LIST_OUTPUT,
    MANY,
    NAMES,
    OPTIONAL_NAME,
    OUTPUT,
    PLACEMENT,
    TIMEOUT,
    Option,
    command,
    is_given,
)
from applyprune.errors import (
    AccessError,
    InventoryError,
    NotReady,
    RunFailed,
    UsageError,
)
from applyprune.model.events import ApplySetListed, Finished, WarningRaised
from applyprune.model.text import and_more
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune.api.sets import ApplySet
    from applyprune.cli.many_runs import ManySets
    from applyprune.cli.reporting import Reporting
    from applyprune.cli.session import InputPaths, Session
    from applyprune.cli.target import ClusterTarget
    from applyprune.engine.ports import Cancellation
    from applyprune.model.events import Event
    from applyprune.model.options import Options, StatusOptions
    from applyprune.model.problem import Problem
    from applyprune.planning.rights import RoleText


@command(
    CLUSTER,
    LIST_OUTPUT,
    ALL_NAMESPACES.but(help="List the sets of all namespaces."),
    CONFIG,
    name="list",
)
def list_(cluster_target: ClusterTarget, reporting: Reporting, all_namespaces: bool) -> int:
    """List the sets: their objects, the last run that changed something, and the current run.

    A set whose inventory cannot be read is listed with a warning. With -o wide, the ready objects
    are counted too, for which all of them are read.

    \b
    Examples:
      applyprune list -A
      applyprune list -n shop -o wide
    """
    return reporting.print_events(
        _applysets(cluster_target, everywhere=all_namespaces, count_ready=reporting.wide)
    )


def _applysets(
    cluster_target: ClusterTarget, *, everywhere: bool, count_ready: bool
) -> Iterator[Event]:
    from applyprune.cli.advice import offering_one_namespace
    from applyprune.cli.session import open_session
    from applyprune.cluster.inventory_store import list_inventories
    from applyprune.engine.status import applyset_listed

    with open_session(cluster_target) as session:
        namespace = session.cluster.namespace
        with offering_one_namespace("applyprune list", offer=everywhere):
            found = list_inventories(session.cluster.client, "" if everywhere else namespace)
        if not found:
            place = "any namespace" if everywhere else namespace
            yield WarningRaised(UsageError(f"no sets in {place}").problem)
        for listed in found:
            name, namespace = listed.name, listed.namespace
            if listed.root is not None and count_ready:
                yield from _applyset_status(session, name, namespace)
            elif listed.root is not None:
                yield applyset_listed(listed.root.inventory, objects=listed.root.count)
            else:
                error = InventoryError(
                    f"the inventory of {name} in namespace {namespace} cannot be read",
                    reason=listed.reason,
                    hint=f"See: applyprune inventory check {name} -n {namespace}",
                )
                yield ApplySetListed(name, namespace, problem=error.problem)


def _applyset_status(session: Session, name: str, namespace: str) -> Iterator[Event]:
    """Yield a set and its number of ready objects; an error is part of the event, not raised."""
    events = session.applyset(name, namespace).iter_status(cancellation=session.stop)
    try:
        yield from (event for event in events if isinstance(event, ApplySetListed))
    except (AccessError, InventoryError, UsageError) as error:
        yield ApplySetListed(name, namespace, problem=error.problem)


@command(
    NAMES,
    MANY,
    CLUSTER,
    OUTPUT,
    ALL_NAMESPACES.but(help="Show the sets of all namespaces."),
    Option(
        "--drift",
        values=("record", "values"),
        type=click.Choice(["record", "values"]),
        help="Name all fields that have drifted, with their values, and who wrote them: by the "
        "server's record, or by a comparison of every value with the last applied manifest.",
    ),
    Option(
        "--exit-code",
        sets="status_options.fail_on_drift",
        is_flag=True,
        help="Exit with 1 if an object has drifted, or if that is unknown.",
    ),
    Option(
        "-w",
        "--watch",
        heading="Waiting",
        sets="status_options.watch",
        is_flag=True,
        help="Keep running and show changes, until Ctrl-C.",
    ),
    Option(
        "--wait",
        heading="Waiting",
        values=("ready", "deleted"),
        type=click.Choice(["ready", "deleted"]),
        help="Wait until every object is ready, or one can never be; or until the set and all of "
        "its objects are gone.",
    ),
    FAIL_FAST.but(sets="status_options.fail_fast"),
    Option(
        "--tree",
        sets="status_options.tree",
        is_flag=True,
        help="Show the set by wave, with what each object owns, down to Pods.",
    ),
    Option(
        "--logs",
        sets="status_options.logs",
        is_flag=True,
        help="Add the last 10 log lines of failing containers, also of the instance that crashed.",
    ),
    TIMEOUT.but(sets="status_options.timeout", help="How long to wait, for all sets together."),
)
def status(
    names: tuple[str, ...],
    all_in: str | None,
    changed_since: str | None,
    cluster_target: ClusterTarget,
    reporting: Reporting,
    status_options: StatusOptions,
    drift: str | None,
    wait: str | None,
    all_namespaces: bool,
) -> int:
    """Show the health and drift of each object in the set NAME, or in several sets.

    Of an object that is not ready, it names the Pod, the condition and the last warning events.

    Exits with 5 if an object is not ready or missing, and with 3 if one could not be read. An
    object has drifted if somebody else has changed a field that the set owns. The server's own
    record (managedFields) shows this. With --wait=deleted, it shows nothing, and exits with 5
    if something is left at the timeout.

    \b
    Examples:
      applyprune status web
      applyprune status web --tree --logs
      applyprune status web --drift
      applyprune status web --drift=values
      applyprune status web shop
      applyprune status -A
      applyprune status --all-in deploy/prod --drift
      applyprune status web --wait --timeout 2m
      applyprune status web --wait=deleted
      applyprune status web --exit-code -q            # for a nightly job
    """
    if all_namespaces and is_given("names"):
        raise UsageError("-A shows all sets: give either -A or NAME")
    if all_namespaces and all_in is not None:
        raise UsageError("-A shows all sets: give either -A or --all-in")
    is_many = all_namespaces or all_in is not None
    names = () if is_many else names
    if not (names or is_many):
        raise no_set_given()
    if status_options.watch and (is_many or len(names) > 1):
        raise UsageError("--watch follows a single set", hint="Give one NAME.")
    if wait == "deleted" and status_options.watch:
        raise UsageError("--wait=deleted excludes --watch")
    status_options = replace(
        status_options,
        drift=drift is not None,
        values=drift == "values",
        wait=wait == "ready",
        deleted=wait == "deleted",
    )
    if status_options.drift:
        reporting = reporting.with_text("drift")
    if all_in is not None:
        from applyprune.cli.many_runs import many_sets

        ctx = click.get_current_context()
        many = many_sets(ctx, all_in, changed_since, cluster_target, reporting)
        return reporting.print_events(_of_many(many, status_options))
    return reporting.print_events(_events(cluster_target, names, status_options))


def _of_many(many: ManySets, status_options: StatusOptions) -> Iterator[Event]:
    from applyprune.cli.session import open_session

    yield from map(WarningRaised, many.concerned.notes)
    with open_session(many.cluster_target) as session:
        sets = [session.applyset(key.name, key.namespace) for key in many.keys]
        yield from _each(sets, status_options, session)


def _events(
    cluster_target: ClusterTarget, names: tuple[str, ...], status_options: StatusOptions
) -> Iterator[Event]:
    """Yield the events of each set; ``names`` is empty for all sets of all namespaces."""
    from applyprune.cli.advice import offering_one_namespace
    from applyprune.cli.session import open_session
    from applyprune.cluster.inventory_store import list_sets

    with open_session(cluster_target) as session:
        if len(names) == 1:
            events = session.applyset(names[0]).iter_status(
                status_options, cancellation=session.stop
            )
            yield from events
            return
        sets = [session.applyset(name) for name in dict.fromkeys(names)]
        if not names:
            with offering_one_namespace("applyprune list"):
                listed = list_sets(session.cluster.client)
            sets = [session.applyset(one.name, one.namespace) for one in listed]
        if not sets:
            yield WarningRaised(UsageError("no sets in any namespace").problem)
        yield from _each(sets, status_options, session)


def _each(
    sets: Sequence[ApplySet], status_options: StatusOptions, session: Session
) -> Iterator[Event]:
    """Yield the events of several sets, one after the other, and one end for all of them.

    A set that cannot be read does not end the others: its event says why.
    """
    from applyprune.cli.advice import add_advice

    began, stop, cluster = time.monotonic(), session.stop, session.cluster
    failed: dict[str, int] = {}
    for applyset in sets:
        left = max(0.0, status_options.timeout - (time.monotonic() - began))
        options = replace(status_options, timeout=left)
        try:
            for event in applyset.iter_status(options, cancellation=stop):
                if not isinstance(event, Finished):
                    yield event
                elif event.exit_code:
                    failed[applyset.identity.arguments] = event.exit_code
        except (AccessError, InventoryError, UsageError) as error:
            add_advice(error, applyset.identity, cluster)
            yield ApplySetListed(applyset.name, applyset.namespace, problem=error.problem)
            failed[applyset.identity.arguments] = error.exit_code
        if stop.requested:
            break
    yield _ended(failed, len(sets), stop, time.monotonic() - began)


_DRIFTED = 1
_SHOWN = 5


def _ended(failed: Mapping[str, int], count: int, stop: Cancellation, elapsed: float) -> Finished:
    codes = set(failed.values())
    if stop.requested:
        return Finished({}, stop.exit_code, elapsed)
    if codes <= {_DRIFTED}:
        return Finished({}, max(codes, default=0), elapsed)
    message = f"{len(failed)} of the {count} sets failed: {and_more(list(failed), _SHOWN)}"
    is_late = codes <= {_DRIFTED, NotReady.exit_code}
    error = NotReady(message) if is_late else RunFailed(message)
    return Finished({}, error.exit_code, elapsed, error.problem)


@command(
    OPTIONAL_NAME,
    INPUT,
    CLUSTER,
    PLACEMENT,
    Option(
        "--account",
        "accounts",
        multiple=True,
        metavar="NS/NAME",
        help="Bind the roles to this ServiceAccount, or to user:NAME or group:NAME. Repeatable.",
    ),
)
def rbac(
    name: str | None,
    paths: InputPaths,
    cluster_target: ClusterTarget,
    options: Options,
    accounts: tuple[str, ...],
) -> None:
    """Print the roles that an account needs to apply, prune and delete a set.

    The output is YAML for `kubectl apply`: a Role for each namespace, a ClusterRole, and the
    bindings that you ask for. Plurals and scopes come from the server, and from the CRDs in the
    input. With NAME, what the inventory lists counts too: it may be pruned. In cluster scope the
    rules name each object, so print them again when the set changes. Nothing is written.

    \b
    Examples:
      applyprune rbac web -f manifests/ --account shop/applyprune
      applyprune rbac web -f manifests/ --account group:deployers
      applyprune rbac -f manifests/ -n shop
    """
    from applyprune.output.diff_text import rbac_text
    from applyprune.output.terminal import Terminal
    from applyprune.planning.rights import bindings

    subjects = list(map(_subject, accounts))
    found = _roles(cluster_target, name, paths, options)
    Terminal().out(rbac_text((*found, *bindings(found, subjects))))


_KINDS = {"user": "User", "group": "Group"}


def _subject(text: str) -> Mapping[str, str]:
    """Return whom a role is bound to; no namespace has a colon."""
    word, _, rest = text.partition(":")
    if word in _KINDS and rest:
        return {"apiGroup": "rbac.authorization.k8s.io", "kind": _KINDS[word], "name": rest}
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise UsageError(
            f"--account {text} does not name a ServiceAccount",
            hint="Write NAMESPACE/NAME: shop/applyprune. For others: user:NAME or group:NAME.",
        )
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def _roles(
    cluster_target: ClusterTarget,
    name: str | None,
    paths: InputPaths,
    options: Options,
) -> Sequence[RoleText]:
    from applyprune.cli.session import input_reader, open_session
    from applyprune.engine.plan_stage import rbac as roles_of

    given = input_reader(paths)(warn=_warn)
    with open_session(cluster_target) as session:
        # Without a name, only the namespace of the set matters.
        applyset = session.applyset(name or "applyprune")
        inventory = applyset.inventory() if name else None
        return roles_of(
            given.manifests, inventory, applyset.identity, options, session.cluster.client
        )


def _warn(problem: Problem) -> None:
    from applyprune.output.problem_text import problem_text
    from applyprune.output.terminal import Terminal

    Terminal().err(problem_text("warning", problem))
