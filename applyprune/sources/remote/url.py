"""The parts of a URL: the host that credentials are for, and what of it is safe to print."""

from __future__ import annotations

from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from applyprune.sources.source import shown_path


def url_parts(url: str) -> SplitResult | None:
    """Return the parts of a URL; None when it is invalid."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts


def is_https(url: str) -> bool:
    """Return whether a URL is valid, has a host, and is ``https://``."""
    parts = url_parts(url)
    return parts is not None and parts.scheme == "https" and bool(parts.hostname)


def joined(url: str, target: str) -> str:
    """Return where a reference in a reply from ``url`` leads; empty if it is invalid."""
    try:
        return urljoin(url, target)
    except ValueError:
        return ""


def host_of(parts: SplitResult) -> str:
    """Return the host and port as in the URL, without user and password."""
    return parts.netloc.rpartition("@")[2]


def origin_of(url: str) -> tuple[str, int]:
    """Return the host and port of a valid HTTPS URL: what credentials are for."""
    parts = urlsplit(url)
    return (parts.hostname or "").rstrip("."), parts.port or 443


def login_of(parts: SplitResult) -> tuple[str, str]:
    """Return the user and the password in a URL; empty for none."""
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    return unquote(user), unquote(password)


def shown_url(url: str) -> str:
    """Return a URL that is safe to print: without user, password, query and fragment."""
    parts = url_parts(url)
    if parts is None:
        return f"{url.partition(':')[0]}://…"
    query = "?…" if parts.query else ""
    return shown_path(f"{parts.scheme}://{host_of(parts)}{parts.path}{query}")
