"""What the command line adds to the errors of a cluster: the name that may be meant, and rights.

The errors themselves come from below, where nobody knows which commands there are, or who reads
them. What is asked here is asked only after an error.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, cast

from applyprune.errors import (
    ApplypruneError,
    Denied,
    Forbidden,
    NoSuchNamespace,
    NoSuchSet,
)
from applyprune.model.events import Finished, Planned, Started, WarningRaised
from applyprune.model.options import Mode
from applyprune.model.problem import Problem, ProblemKind
from applyprune.planning.approval import changes_anything
from applyprune.planning.names import (
    CLOSE_SET,
    about_new_set,
    closest,
    set_in_words,
    similar_sets,
)
from applyprune.planning.server_errors import denied_account
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from applyprune.api.sets import ClusterConnection
    from applyprune.model.events import Event
    from applyprune.model.plan import Plan
    from applyprune.planning.applyset import ApplySetIdentity
    from applyprune.sources import Input


def add_advice(
    error: ApplypruneError, applyset: ApplySetIdentity, cluster: ClusterConnection
) -> None:
    """Add to the hint of an error what may be meant, or which command prints missing rights."""
    hint = error.hint
    if isinstance(error, NoSuchSet) and (names := similar_names(applyset, cluster)):
        hint = f"Did you mean {' or '.join(names)}?\n{hint}"
    elif isinstance(error, NoSuchNamespace) and (name := _similar_namespace(applyset, cluster)):
        hint = f"Did you mean the namespace {name}?\n{hint}"
    elif isinstance(error, Forbidden) and not isinstance(error, Denied):
        hint = _with_rights(hint, denied_account(error.message), applyset)
    error.problem = replace(error.problem, hint=hint)


def with_rights(
    events: Iterator[Event], applyset: ApplySetIdentity, given: Input
) -> Iterator[Event]:
    """Pass the events of a run on; if a right was missing, its end names the command for roles."""
    account = ""
    with closing(cast("Generator[Event, None, None]", events)):
        for event in events:
            problem = getattr(event, "problem", None)
            if isinstance(problem, Problem) and problem.kind is ProblemKind.FORBIDDEN:
                account = account or denied_account(str(problem))
            if isinstance(event, Finished) and event.problem is not None and account:
                hint = _with_rights(event.problem.hint, account, applyset)
                yield replace(event, problem=given.pointed(replace(event.problem, hint=hint)))
            else:
                yield event


def _with_rights(hint: str, account: str, applyset: ApplySetIdentity) -> str:
    if not account:
        return hint
    command = f"{applyset.roles_command} {account}"
    return f"{hint}\nThe roles for this set, printed by an administrator: {command}".lstrip("\n")


@contextmanager
def offering_one_namespace(command: str, *, offer: bool = True) -> Iterator[None]:
    """Offer the command for one namespace if that for all is forbidden."""
    try:
        yield
    except Forbidden as error:
        if offer:
            hint = f"{error.hint}\nFor one namespace: {command} -n NS".lstrip("\n")
            error.problem = replace(error.problem, hint=hint)
        raise


def similar_names(applyset: ApplySetIdentity, cluster: ClusterConnection) -> Sequence[str]:
    """Return which existing sets may be meant by one that does not exist."""
    return set_in_words(similar_sets(applyset, _sets(applyset, cluster)), applyset.namespace)


def new_set(plan: Plan, applyset: ApplySetIdentity, cluster: ClusterConnection) -> tuple[str, bool]:
    """Return what to say of a new set, and whether it may be a mistake; one list of the sets."""
    found = _sets(applyset, cluster)
    text, is_doubtful = about_new_set(applyset, found, creates_namespace=plan.creates_namespace)
    return text, is_doubtful and changes_anything(plan)


def warning_of_new_set(
    events: Iterator[Event], applyset: ApplySetIdentity, cluster: ClusterConnection
) -> Iterator[Event]:
    """Pass the events of a run on, with a warning if it makes a set that may be a mistake."""
    mode = None
    with closing(cast("Generator[Event, None, None]", events)):
        for event in events:
            mode = event.mode if isinstance(event, Started) else mode
            if isinstance(event, Planned) and event.plan.new_set and mode is Mode.APPLY:
                text, is_doubtful = new_set(event.plan, applyset, cluster)
                if is_doubtful:
                    yield WarningRaised(_doubt(applyset, text))
            yield event


def _doubt(applyset: ApplySetIdentity, text: str) -> Problem:
    return Problem(
        ProblemKind.NEW_SET,
        f"{applyset.name} is a new set in namespace {applyset.namespace}",
        reason=text,
        hint="If another one is meant, give its NAME and its -n.",
    )


def _sets(applyset: ApplySetIdentity, cluster: ClusterConnection) -> Sequence[ApplySetIdentity]:
    """Return the sets of the cluster, or of the namespace if no more may be listed."""
    from applyprune.cluster.inventory_store import list_sets

    for namespace in ("", applyset.namespace):
        try:
            return list_sets(cluster.client, namespace)
        except Forbidden:
            continue
        except ApplypruneError:
            break
    return ()


def _similar_namespace(applyset: ApplySetIdentity, cluster: ClusterConnection) -> str:
    from applyprune.model.live import NAMESPACES

    try:
        found = [live.ref.name for live in cluster.client.list(NAMESPACES)]
    except ApplypruneError:
        return ""
    return closest(applyset.namespace, found, CLOSE_SET)
