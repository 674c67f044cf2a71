"""``--plane-from``: the folder or HTTPS mirror that the control plane is taken from."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

import click

from applyprune.errors import AccessError, ApplypruneError

if TYPE_CHECKING:
    from applyprune.localplane import PlaneOrigin

VARIABLE = "APPLYPRUNE_PLANE"
_TIMEOUT = 900.0
"""Seconds for one file: a wheel has 60 MB, and a line may be slow."""

plane_from = click.option(
    "--plane-from",
    metavar="FOLDER|URL",
    envvar=VARIABLE,
    show_envvar=True,
    default="",
    help="Take the control plane from a mirror: a folder, or https://…#sha256=….",
)


def origin_of(named: str) -> PlaneOrigin | None:
    """Return the mirror that the user has named; None for none."""
    from applyprune.localplane import PlaneOrigin

    return PlaneOrigin(named, download) if named else None


def download(url: str, file: IO[bytes], limit: int) -> None:
    """Write the content of an HTTPS address to a file, at most ``limit`` bytes.

    Raises AccessError if it is not received completely, is larger, or is a web page.
    """
    from urllib.parse import urlsplit

    from applyprune.sources.address import login_of, shown_url, url_parts
    from applyprune.sources.web import basic, open_web

    if url_parts(url) is None:
        raise _failure("", "the URL is invalid", "")
    try:
        with (
            open_web(url, timeout=_TIMEOUT) as web,
            web.request("GET", url, authorization=basic(*login_of(urlsplit(url)))) as reply,
        ):
            if reply.status != 200:
                raise reply.refusal(hint="Check the address of the mirror.")
            if reply.header("Content-Type").lower().startswith("text/html"):
                raise _failure(
                    shown_url(url),
                    "the response is a web page",
                    "Use the address below which the files themselves are.",
                )
            reply.save(file, limit)
    except AccessError:
        raise
    except ApplypruneError as error:
        reason = f"{error.message}{f': {error.reason}' if error.reason else ''}"
        raise _failure(shown_url(url), reason, error.hint) from None


def _failure(where: str, reason: str, hint: str) -> AccessError:
    return AccessError(
        "the control plane cannot be fetched",
        location=where,
        reason=reason,
        hint=hint or "Run it again, or leave out --plane-from and APPLYPRUNE_PLANE.",
    )
