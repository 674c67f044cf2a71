"""Speak to the server of one source: only to it, at an address that was checked, as one user."""

from __future__ import annotations

import base64
import os
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from applyprune.http import is_address
from applyprune.sources.git.program.git_messages import failure, is_redirect
from applyprune.sources.git.program.git_program import GitProgram, Settings, Surroundings
from applyprune.sources.git.server.redirects import follow
from applyprune.sources.git.server.server_addresses import checked_addresses, reachable
from applyprune.sources.git.server.ssh_settings import ssh_surroundings
from applyprune.sources.remote.fetch_errors import AuthenticationFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from applyprune.sources.git.git_source import GitSource
    from applyprune.sources.git.git_url import GitUrl

REMOTE = "origin"
"""The name of the server for git; its URL is a setting."""
_HELPERS = ("git", "config", "--null", "--get-regexp", r"^credential\.")
_OWN_SECONDS = 10


class GitServer:
    """The server of a source, for one program."""

    def __init__(self, program: GitProgram, source: GitSource) -> None:
        """Connect to nothing."""
        self.where = program.where
        self._program = program
        self._source = source
        self._around: Surroundings | None = None

    def run(
        self,
        *arguments: str,
        repository: Path | None = None,
        settings: Settings = (),
        stdin: bytes = b"",
        records: tuple[bytes, int] | None = None,
    ) -> tuple[bytes, str]:
        """Return the output of a git that speaks to REMOTE, and what it wrote to standard error.

        Raises the errors of a source. A redirect is followed once for all later calls.
        """
        for is_last in (False, True):
            if self._around is None:
                self._around = self._surroundings(self._source.parts)
            code, out, err = self._program.try_run(
                *arguments,
                repository=repository,
                around=_more(self._around, settings),
                stdin=stdin,
                records=records,
            )
            if not code:
                return out, err
            if is_last or self._source.parts.scheme != "https" or not is_redirect(err):
                raise failure(err, code, self._program.where)
            url = follow(self._source, self._headers(), self._program.deadline)
            self._around = self._surroundings(url)
        raise AssertionError

    @property
    def settings(self) -> Settings:
        """The settings with which the server was asked the last time."""
        return self._around.settings if self._around is not None else ()

    def _surroundings(self, url: GitUrl) -> Surroundings:
        from applyprune.http import proxy_for

        source, where = self._source, self._program.where
        proxy = proxy_for(url.place, os.environ) if url.scheme == "https" else ""
        addresses = None
        # Behind a proxy only an address in the URL can be checked: the proxy resolves names.
        if source.addresses is not None and (not proxy or is_address(url.host)):
            addresses = checked_addresses(
                source.addresses, url.host, url.port, where, self._program.deadline
            )
        credentials = source.credentials
        user = url.user or credentials.username or "git"
        settings: Settings = (
            (f"remote.{REMOTE}.url", url.given(user)),
            (f"remote.{REMOTE}.tagOpt", "--no-tags"),
        )
        if url.scheme == "ssh":
            address = ""
            if addresses is not None:
                address = reachable(addresses, url.port, where, self._program.deadline)
            return _more(ssh_surroundings(self._program, source, address), settings)
        if addresses is not None and not is_address(url.host):
            pinned = ",".join(f"[{one}]" if ":" in one else one for one in addresses)
            settings = (*settings, *(("http.curloptResolve", f"{url.host}:{url.port}:{pinned}"),))
        return _more(self._https(proxy), settings)

    def _https(self, proxy: str) -> Surroundings:
        source = self._source
        place = source.parts.place
        settings: Settings = (
            ("protocol.https.allow", "always"),
            ("http.proxy", proxy),
            ("http.followRedirects", "false"),
            ("http.sslVerify", "true"),
            ("http.postBuffer", "1m"),
            # The settings of a URL are those of this host and port, and no redirect changes them.
            *(
                (f"http.{place}.extraHeader", f"{key}: {value}")
                for key, value in self._headers().items()
            ),
            *self._certificates(place),
        )
        environ: Mapping[str, str] = {}
        if source.uses_own and not self._headers():
            settings = (*settings, *own_helpers())
            environ = {
                name: value for name, value in os.environ.items() if not name.startswith("GIT_")
            }
        return Surroundings(settings, environ)

    def _certificates(self, place: str) -> Settings:
        credentials = self._source.credentials
        settings: Settings = ()
        if credentials.ca:
            (self._program.folder / "no-cas").mkdir(exist_ok=True)
            settings = (
                *settings,
                ("http.sslCAInfo", str(self._program.write("ca.crt", credentials.ca))),
                ("http.sslCAPath", str(self._program.folder / "no-cas")),
            )
        elif file := os.environ.get("SSL_CERT_FILE"):
            settings = (*settings, *(("http.sslCAInfo", file),))
        if credentials.certificate:
            certificate = self._program.write("tls.crt", credentials.certificate)
            key = self._program.write("tls.key", credentials.key or credentials.certificate)
            settings = (
                *settings,
                (f"http.{place}.sslCert", str(certificate)),
                (f"http.{place}.sslKey", str(key)),
            )
        return settings

    def _headers(self) -> Mapping[str, str]:
        """Return the headers that authenticate this source to its host."""
        credentials, url = self._source.credentials, self._source.parts
        if token := credentials.bearer_token.strip():
            if not token.isascii() or not token.isprintable():
                raise AuthenticationFailed(
                    "the bearer token contains invalid characters", location=self._program.where
                )
            return {"Authorization": f"Bearer {token}"}
        user = credentials.username or url.user
        password = credentials.password or url.password
        if not user and not password:
            return {}
        login = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
        return {"Authorization": f"Basic {login}"}


def own_helpers() -> Settings:
    """Return the credential helpers in the user's own configuration of git."""
    settings = []
    with suppress(OSError, subprocess.SubprocessError):
        found = subprocess.run(
            _HELPERS, capture_output=True, timeout=_OWN_SECONDS, check=False, cwd="/"
        )
        for entry in found.stdout.decode("utf-8", "replace").split("\0"):
            key, line, value = entry.partition("\n")
            if line:
                settings.append((key, value))
    return tuple(settings)


def _more(around: Surroundings, settings: Settings) -> Surroundings:
    return Surroundings((*around.settings, *settings), around.environ)
