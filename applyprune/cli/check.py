"""``applyprune check``: what is wrong with manifests, as far as no cluster is needed to know it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from applyprune.cli.options import AT, CLUSTER, INPUT, OPTIONAL_NAME, OUTPUT, PLACEMENT, command
from applyprune.errors import EmptyInput, raise_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.cli.reporting import Reporting
    from applyprune.cli.session import InputPaths, InputReader
    from applyprune.model.events import Event
    from applyprune.model.options import Options


_NAMESPACE = CLUSTER[-1].but(
    sets="",
    help="Namespace of manifests without one.  [env: APPLYPRUNE_NAMESPACE; default: default]",
)


@command(OPTIONAL_NAME, INPUT, AT, _NAMESPACE, PLACEMENT, OUTPUT)
def check(
    name: str | None, paths: InputPaths, namespace: str, options: Options, reporting: Reporting
) -> int:
    """Check manifests without any cluster.

    Finds what no cluster would take: YAML that tools read differently, kinds and scopes of the
    built-in API, duplicates, invalid names, labels and keys, annotations that nobody understands,
    chart hooks, waves and cycles, values that a Secret or ConfigMap cannot have, what SOPS has
    encrypted, an input without any object. Warns about references that look mistyped, and
    names the kinds that only a cluster knows. Which fields a kind has, only the server knows: plan
    and apply check them. Exits with 2 if anything is wrong.

    \b
    Examples:
      applyprune check -f manifests/
      applyprune check -k overlays/prod -n shop -o github
    """
    from applyprune.cli.session import input_reader

    return reporting.print_events(
        _events(name or _ANY, input_reader(paths), namespace or "default", options)
    )


_ANY = "check"
"""The set, where none is named: only its own inventory could not be in the input."""


def _events(name: str, read: InputReader, namespace: str, options: Options) -> Iterator[Event]:
    from applyprune.cli.session import read_input
    from applyprune.model.events import WarningRaised
    from applyprune.model.reports import InputChecked
    from applyprune.planning.applyset import applyset_identity
    from applyprune.planning.input_check import check_input
    from applyprune.sources.load import with_excerpt

    given = yield from read_input(read)

    def events() -> Iterator[Event]:
        if not given:
            raise EmptyInput(
                "there is no object in the input",
                hint="Check the paths, and the ignore rules of the folder.",
            )
        found = check_input(given, applyset_identity(name, namespace), options)
        yield from map(WarningRaised, found.warnings)
        raise_all(found.errors)
        unknown = (f"{gvk.api_version} {gvk.kind}" for gvk in found.unknown)
        yield InputChecked(len(given), tuple(unknown))

    yield from with_excerpt(events(), given)
