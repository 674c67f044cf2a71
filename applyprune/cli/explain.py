"""``applyprune explain``: why a run does with an object what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.access import cluster_options
from applyprune.cli.completing import OBJECT
from applyprune.cli.helping import Verb
from applyprune.cli.options import optional_input_option, set_argument
from applyprune.cli.reporting import reporting_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.cli.reporting import Reporting
    from applyprune.cli.where import Where
    from applyprune.model.events import Event
    from applyprune.sources import Overlay


@click.command(cls=Verb)
@set_argument
@click.argument("ref", type=OBJECT, metavar="KIND/NAME")
@optional_input_option
@cluster_options
@reporting_options
def explain(
    name: str, ref: str, paths: tuple[str | Overlay, ...], where: Where, reporting: Reporting
) -> int:
    """Tell what `apply` would do about one object, and everything that it is judged by.

    KIND/NAME is deployment/web or deployment.apps/web, in every namespace of the set, or in one:
    shop/deployment/web. It may be an object that is in no set, or in another. Without input the
    object is judged as if it alone had left the set. Nothing is written.

    \b
    Examples:
      applyprune explain web deployment/web -f manifests/
      applyprune explain web configmap/old
    """
    return reporting.follow(_judged(where, name, ref, paths))


def _judged(where: Where, name: str, ref: str, paths: tuple[str | Overlay, ...]) -> Iterator[Event]:
    from applyprune.cli.pointing import pointed
    from applyprune.cli.session import at_work, reading, what_is_read
    from applyprune.engine.judging import judge
    from applyprune.planning.tracking import identity

    given = None
    if paths:
        given = yield from what_is_read(reading(paths))
    with at_work(where) as work:
        target = identity(name, work.namespace)
        events = judge(
            target,
            given,
            ref,
            work.cluster,
            work.store(target),
            work.stop,
            namespace=work.namespace,
            hollow=given.empty if given is not None else (),
        )
        yield from events if given is None else pointed(events, given)
