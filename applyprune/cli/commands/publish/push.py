"""``applyprune push``: publish manifests as an artifact in an OCI registry."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from applyprune.cli.command import Command
from applyprune.cli.options.reporting import reporting_options
from applyprune.cli.options.run_options import optional_input_option, timeout_option
from applyprune.errors import UsageError
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from applyprune.cli.options.reporting import Reporting
    from applyprune.model.events import Event
    from applyprune.sources import Overlay
    from applyprune.sources.address import OciAddress


@click.command(cls=Command)
@click.argument("artifact", metavar="oci://HOST/NAME:TAG")
@optional_input_option
@reporting_options
@click.option("--with-secrets", is_flag=True, help="Push Secrets too that are not encrypted.")
@click.option("--dry-run", is_flag=True, help="Print the digest, and send nothing.")
@timeout_option("How long the push may take.")
def push(
    artifact: str,
    paths: Sequence[str | Overlay],
    reporting: Reporting,
    with_secrets: bool,
    dry_run: bool,
    timeout: float,
) -> int:
    """Publish manifests as an artifact in an OCI registry, and print its digest.

    The input is read as `apply` reads it. The artifact can be applied with `-f oci://…`, and Flux
    and Argo CD can read it. The same objects always give the same digest. A Secret is refused,
    unless SOPS has encrypted it. The credentials are those of `docker login`.

    \b
    Examples:
      applyprune push oci://registry.example.com/shop/web:1.4.0 -f manifests/
      applyprune push oci://registry.example.com/shop/web:1.4.0 -k prod --dry-run
    """
    address = _address(artifact)
    if not paths:
        raise UsageError("no input given", hint="Give -f PATH or -k DIR.")
    return reporting.print_events(
        _events(address, paths, with_secrets=with_secrets, dry_run=dry_run, timeout=timeout)
    )


def _address(text: str) -> OciAddress:
    from applyprune.sources.address import OciAddress, parse_address, shown_address

    address = parse_address(text)
    if not isinstance(address, OciAddress):
        shown = shown_address(text) if "://" in text else text
        raise UsageError(f"{shown!r} is not an address of a registry", hint=_FORM)
    if not address.tag or address.path or address.semver:
        reason = "it has a path" if address.path else "it names no tag"
        raise UsageError(f"cannot push to {address.shown}", reason=reason, hint=_FORM)
    return address


_FORM = "Write oci://HOST/NAME:TAG."


def _events(
    address: OciAddress,
    paths: Sequence[str | Overlay],
    *,
    with_secrets: bool,
    dry_run: bool,
    timeout: float,
) -> Iterator[Event]:
    from applyprune.cli.commands.publish.artifact_files import artifact_files
    from applyprune.cli.session import input_reader, read_input
    from applyprune.model.reports.pushed_artifact import ArtifactPushed
    from applyprune.sources.fetch import artifact_source
    from applyprune.sources.oci_artifact import OciRef, pack
    from applyprune.sources.oci_artifact import push as send
    from applyprune.sources.tree import VerificationFailed

    given = yield from read_input(input_reader(paths))
    files = artifact_files(given, with_secrets=with_secrets)
    digest = pack(files).digest
    named = f"{address.name}:{address.tag}"
    if address.digest not in {"", digest}:
        raise VerificationFailed(
            "the input has another digest", location=named, reason=f"{digest}, not {address.digest}"
        )
    if not dry_run:
        source = artifact_source(address, os.environ)
        digest = send(replace(source, url=named, ref=OciRef(), timeout=timeout), files)
    yield ArtifactPushed(f"{named}@{digest}", digest, len(given), dry_run)
