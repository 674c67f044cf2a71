"""``applyprune check``: what is wrong with manifests, as far as no cluster is needed to know it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from applyprune.cli.options import (
    AT,
    CLUSTER,
    INPUT,
    MANY,
    OPTIONAL_NAME,
    OUTPUT,
    PLACEMENT,
    command,
)
from applyprune.errors import ApplypruneError, EmptyInput, InputErrors, raise_all

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


@command(OPTIONAL_NAME, INPUT, AT, MANY, _NAMESPACE, PLACEMENT, OUTPUT)
def check(
    name: str | None,
    paths: InputPaths,
    all_in: str | None,
    changed_since: str | None,
    namespace: str,
    options: Options,
    reporting: Reporting,
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
      applyprune check --all-in deploy
      applyprune check --all-in deploy --changed-since origin/main
    """
    from applyprune.cli.session import input_reader

    if all_in:
        return reporting.print_events(_all(all_in, changed_since or "", reporting))
    return reporting.print_events(
        _events(name or _ANY, input_reader(paths), namespace or "default", options)
    )


def _all(folder: str, since: str, reporting: Reporting) -> Iterator[Event]:
    """Check each set below a folder; what is wrong with one does not end the others."""
    from applyprune.cli.many_sets import ConcernedSets, concerned_by, sets_of_call
    from applyprune.cli.session import input_reader
    from applyprune.model.events import WarningRaised
    from applyprune.model.reports import InputChecked
    from applyprune.planning.digests import digest_of

    calls = sets_of_call(click.get_current_context(), folder, lambda _: "default", reporting)
    errors: list[ApplypruneError] = []
    objects, unknown, checksums = 0, dict[str, None](), dict[str, str]()
    found = concerned_by(calls, folder, since) if since else ConcernedSets(calls.sets)
    yield from map(WarningRaised, found.notes)
    for call in found.sets:
        key, values = call.found.key, call.values
        try:
            read = input_reader(values["paths"])
            for event in _events(key.name, read, key.namespace, values["options"]):
                if isinstance(event, InputChecked):
                    objects += event.objects
                    unknown |= dict.fromkeys(event.unknown)
                    checksums[str(key)] = event.checksum
                else:
                    yield event
        except InputErrors as several:
            errors += several.errors
        except ApplypruneError as error:
            errors.append(error)
    # A base that many sets share is wrong once.
    raise_all(list({str(error): error for error in errors}.values()))
    yield InputChecked(objects, tuple(unknown), len(found.sets), digest_of(checksums))


_ANY = "check"
"""The set, where none is named: only its own inventory could not be in the input."""


def _events(name: str, read: InputReader, namespace: str, options: Options) -> Iterator[Event]:
    from applyprune.cli.session import read_input
    from applyprune.model.events import WarningRaised
    from applyprune.model.reports import InputChecked
    from applyprune.planning.applyset import applyset_identity
    from applyprune.planning.digests import digest_of
    from applyprune.planning.input_check import check_input
    from applyprune.planning.normalize import canonical_text
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
        texts = sorted(canonical_text(manifest.body) for manifest in given)
        yield InputChecked(len(given), tuple(unknown), checksum=digest_of(texts))

    yield from with_excerpt(events(), given)
