"""What the messages of git and ssh mean, without the credentials and URLs in them."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING

from applyprune.model.json_access import one_line
from applyprune.sources.remote.fetch_errors import (
    AuthenticationFailed,
    FetchFailed,
    PathNotFound,
    SourceTooLarge,
)
from applyprune.values import pattern

if TYPE_CHECKING:
    from applyprune.errors import InputError

_CREDENTIALS = "Check the credentials of the source, and that they may read this repository."
_HOST_KEY = "Check known_hosts: `ssh-keyscan HOST` shows the keys that the server has now."
_CERTIFICATE = "Give the certificate of its CA as ca.crt, or renew the certificate of the server."
_LARGE = "Read a smaller path, or keep large files out of the repository."
_REFUSED = "the server refuses the credentials, or wants some"
# How the kernel ends a process at a limit.
_OF_LIMITS = [one.value for one in signal.Signals if one.name in {"SIGXCPU", "SIGXFSZ"}]
_REPOSITORY = "Check the URL. Some servers say so too when the credentials are missing."
# The first pattern that matches decides.
_MEANINGS: tuple[tuple[str, type[InputError], str, str], ...] = (
    (
        r"host key verification failed|remote host identification has changed",
        AuthenticationFailed,
        "the server has no host key that known_hosts names",
        _HOST_KEY,
    ),
    (r"permission denied \(|too many authentication", AuthenticationFailed, _REFUSED, _CREDENTIALS),
    (
        (
            r"authentication failed for|could not read (?:username|password)"
            r"|returned error: 40[17]\b|http basic: access denied|invalid username or"
        ),
        AuthenticationFailed,
        _REFUSED,
        _CREDENTIALS,
    ),
    (
        r"returned error: 403\b",
        AuthenticationFailed,
        "the server answers 403: these credentials may not read it",
        _CREDENTIALS,
    ),
    (
        r"load key .*(?:invalid format|error in libcrypto|incorrect passphrase)",
        AuthenticationFailed,
        "ssh cannot read the identity",
        "Give a private key in OpenSSH or PEM format; its passphrase is the field password.",
    ),
    (
        r"recv error|properly terminated|ssl_error_syscall|unexpected eof",
        FetchFailed,
        "the connection was cut off",
        "",
    ),
    (
        r"certificate|ssl|gnutls|tls",
        FetchFailed,
        "no trusted TLS connection to the server",
        _CERTIFICATE,
    ),
    (
        (
            rf"(?:died of|terminated by) signal (?:{'|'.join(map(str, _OF_LIMITS))})\b"
            r"|file size limit|file too large|out of memory|cannot allocate|malloc failed"
            r"|mmap failed|pack exceeds maximum"
        ),
        SourceTooLarge,
        "git exceeded its limit of memory, time or file size",
        _LARGE,
    ),
    (
        r"no space left|disk quota exceeded",
        FetchFailed,
        "no space is left on this machine",
        "Free some space, or lower --source-cache.",
    ),
    (
        r"couldn't find remote ref|not our ref|unadvertised object|no such remote ref",
        PathNotFound,
        "the repository has no such commit or reference",
        "Check the reference; a force-push may have removed the commit.",
    ),
    (
        (
            r"repository .* not found|not appear to be a git repository|repository not found"
            r"|returned error: 404\b"
        ),
        FetchFailed,
        "no such repository",
        _REPOSITORY,
    ),
    (
        r"dumb http",
        FetchFailed,
        "the server has only the dumb HTTP protocol",
        "Serve the repository with git http-backend, or over SSH.",
    ),
    (
        r"could not resolve host",
        FetchFailed,
        "the name of the server cannot be resolved",
        "Check the URL.",
    ),
    (
        (
            r"connection refused|failed to connect|no route to host|network is unreachable"
            r"|connection timed out|operation timed out|couldn't connect"
        ),
        FetchFailed,
        "the server cannot be reached",
        "Check the URL and the network.",
    ),
    (
        r"returned error: (?:3\d\d)\b",
        FetchFailed,
        "the server redirects in the middle of a fetch",
        "Use the URL to which it redirects.",
    ),
    (r"returned error: 429\b", FetchFailed, "the server wants fewer requests (429)", ""),
    (r"returned error: 5\d\d\b", FetchFailed, "the server has an error of its own (5xx)", ""),
    (
        (
            r"early eof|unexpected disconnect|hung up|curl (?:18|52|55|56|92)\b|rpc failed"
            r"|reset by peer|connection closed|broken pipe|transfer closed|empty reply"
        ),
        FetchFailed,
        "the connection was cut off",
        "",
    ),
    (
        r"mismatched algorithms|wrong object format",
        FetchFailed,
        "the repository uses SHA-256, and only SHA-1 is supported",
        "",
    ),
    (
        (
            r"fsck error|error in object|index-pack|bad object|did not send all necessary"
            r"|unresolved delta|pack has|invalid object"
        ),
        FetchFailed,
        "the server sent invalid objects",
        "Check the repository with git fsck.",
    ),
    (
        r"not valid|protocol error|bad line length|invalid server response|bad band",
        FetchFailed,
        "the server does not speak the protocol of Git",
        "Check the URL.",
    ),
)
_PATTERNS = tuple(
    (pattern(text, re.IGNORECASE), kind, reason, hint) for text, kind, reason, hint in _MEANINGS
)
_QUOTED = pattern(r"'[^'\n]*'|\"[^\"\n]*\"|\S*://\S*|/\S+")
_FATAL = pattern(r"^(?:fatal|error): (.+)$", re.MULTILINE)
_SIGNALLED = {code for number in _OF_LIMITS for code in (-number, 128 + number)}
_LIMITS = next(one for one in _PATTERNS if one[1] is SourceTooLarge)
_REDIRECT = pattern(r"returned error: 30[12378]\b", re.IGNORECASE)


def failure(err: str, code: int, where: str) -> InputError:
    """Return the error for what git wrote to standard error before it ended with a code."""
    err = _clean(err)
    found = (one for one in _PATTERNS if one[0].search(err))
    _, kind, reason, hint = _LIMITS if code in _SIGNALLED else next(found, _UNKNOWN)
    messages = {
        AuthenticationFailed: "the repository refuses to be read",
        SourceTooLarge: "the repository is too large",
        PathNotFound: "not in the repository",
    }
    message = messages.get(kind, "the repository cannot be read")
    if not reason:
        reason = next(reversed(_FATAL.findall(err)), f"git ended with code {code}")
    return kind(message, location=where, reason=one_line(reason), hint=hint)


def _clean(err: str) -> str:
    """Return the lines that git and ssh wrote themselves, without names and URLs."""
    own = (line for line in err.splitlines() if not line.startswith("remote:"))
    return _QUOTED.sub("…", "\n".join(own))


_UNKNOWN = (pattern(""), FetchFailed, "", "Try the same with git ls-remote.")


def is_redirect(err: str) -> bool:
    """Return whether git ended because the server redirects."""
    return _REDIRECT.search(err) is not None
