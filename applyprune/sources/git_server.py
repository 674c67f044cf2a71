"""The server of one Git repository: what a reference means there, and how git reaches it.

git speaks to this server only, at addresses that were checked, and with the credentials of one
source.
"""

from __future__ import annotations

import math
import os
import re
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from applyprune.addresses import bracketed, is_ip_address
from applyprune.errors import UsageError
from applyprune.http import CONNECT_TIMEOUT, SILENCE, addresses_of, one_try, system_authorities
from applyprune.model.problem import Origin
from applyprune.sources.address import FoundRef, GitUrl, best_version, parse_git_url
from applyprune.sources.git_program import (
    GitEnvironment,
    GitProgram,
    Settings,
    dying_with_git,
    failure,
    is_redirect,
)
from applyprune.sources.tree import AuthenticationFailed, Deadline, FetchFailed, PathNotFound
from applyprune.sources.web import (
    basic,
    bearer,
    connection_failed,
    located,
    open_web,
    source_proxy,
)
from applyprune.system.processes import MOST_ERRORS
from applyprune.values import replace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from applyprune.addresses import AddressRules
    from applyprune.sources.address import GitSource


# What a reference means now, in one request.


MOST_REFS = 50_000
"""How many references a server may name in one answer."""
_HEADS, _TAGS = "refs/heads/", "refs/tags/"
_PEELED = "^{}"


def find_ref(source: GitSource, deadline: Deadline | None = None) -> FoundRef:
    """Return what the reference of a source means now; a commit needs no request.

    Raises PathNotFound if the server has no such reference, SourceTooLarge for more than MOST_REFS
    references, FetchFailed and AuthenticationFailed.
    """
    ref, where = source.ref, source.parts.shown
    if ref.commit:
        name = f"{_HEADS}{ref.branch}" if ref.branch else ""
        return FoundRef(name, ref.commit, ref.commit, ref.branch)
    deadline = deadline or Deadline(source.timeout)
    with GitProgram(where, deadline, source.limits.transfer) as program:
        out, _ = GitServer(program, source).run(
            *("ls-remote", "--quiet", "--symref"),
            *_ls_remote_arguments(source),
            records=(b"\n", MOST_REFS),
        )
    refs, targets = _parse(out, where)
    if ref.semver and not ref.name:
        tags = [name.removeprefix(_TAGS) for name in refs if name.startswith(_TAGS)]
        best = best_version(ref.semver, (tag for tag in tags if not tag.endswith(_PEELED)))
        if best is None:
            raise PathNotFound(
                f"no tag of the repository is in the range {ref.semver}",
                location=where,
                hint="A tag must be a whole version, such as v1.2.3.",
            )
        name = f"{_TAGS}{best}"
    else:
        name = _ref_name(source)
    oid = refs.get(name, "")
    if not oid:
        raise _no_such_ref(name, where, is_empty=not refs)
    found = targets.get(name, name)
    return FoundRef(
        "" if found == "HEAD" else found,
        oid,
        refs.get(f"{name}{_PEELED}", oid),
        ref.name or found.removeprefix(_HEADS).removeprefix(_TAGS),
    )


def _ls_remote_arguments(source: GitSource) -> Sequence[str]:
    """Return the options and patterns that limit the answer: the server sends no other folder."""
    ref, name = source.ref, _ref_name(source)
    if ref.semver and not ref.name:
        return ("--tags", REMOTE)
    for option, folder in (("--heads", _HEADS), ("--tags", _TAGS)):
        if name.startswith(folder):
            return (option, REMOTE, name, f"{name}{_PEELED}")
    return (REMOTE, name, f"{name}{_PEELED}")


def _ref_name(source: GitSource) -> str:
    ref = source.ref
    if ref.name:
        return ref.name
    if ref.tag:
        return f"{_TAGS}{ref.tag}"
    return f"{_HEADS}{ref.branch}" if ref.branch else "HEAD"


def _parse(out: bytes, where: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the objects of the references, and what symbolic ones lead to, by name."""
    refs, targets = {}, {}
    for line in out.decode("utf-8", "surrogateescape").splitlines():
        value, _, name = line.partition("\t")
        if value.startswith("ref: "):
            targets[name] = value.removeprefix("ref: ")
        elif len(value) == 40:
            refs[name] = value
        else:
            raise FetchFailed(
                "the repository cannot be read",
                location=where,
                reason="it uses SHA-256, and only SHA-1 is supported",
            )
    return refs, targets


def _no_such_ref(name: str, where: str, *, is_empty: bool) -> PathNotFound:
    kinds = {_HEADS: "branch", _TAGS: "tag"}
    for folder, kind in kinds.items():
        if name.startswith(folder):
            return PathNotFound(
                f"the repository has no {kind} {name.removeprefix(folder)}",
                location=where,
                hint="It may have been deleted or renamed, or the repository is empty.",
            )
    if name == "HEAD" and is_empty:
        return PathNotFound(
            "the repository has no HEAD",
            location=where,
            hint="It is empty, or its default branch does not exist: name a branch.",
        )
    return PathNotFound(f"the repository has no {name}", location=where)


# The server for git: the URL, the credentials and the addresses are settings of git.


REMOTE = "origin"
"""The name of the server for git; its URL is a setting."""


class GitServer:
    """The server of a source, for one program."""

    def __init__(self, program: GitProgram, source: GitSource) -> None:
        self.where = program.where
        self._program = program
        self._source = source
        self._environment: GitEnvironment | None = None
        self._address = ""

    def run(
        self,
        *arguments: str,
        repository: Path | None = None,
        settings: Settings = (),
        records: tuple[bytes, int] | None = None,
    ) -> tuple[bytes, str]:
        """Return the output of a git that speaks to REMOTE, and what it wrote to standard error.

        Raises the errors of a source. A redirect is followed once for all later calls.
        """
        for is_last in (False, True):
            if self._environment is None:
                self._environment = self._environment_for(self._source.parts)
            log = self._program.folder / _SSH_LOG
            log.unlink(missing_ok=True)
            code, out, err = self._program.try_run(
                *arguments,
                repository=repository,
                environment=_with_settings(self._environment, settings),
                records=records,
            )
            if not code:
                return out, err
            if is_last or self._source.parts.scheme != "https" or not is_redirect(err):
                raise failure(err, code, self._program.where, self._said_by_ssh(log))
            url = follow_redirects(self._source, self._authorization(), self._program.deadline)
            self._environment = self._environment_for(url)
        raise AssertionError

    def _said_by_ssh(self, log: Path) -> str:
        """Return the end of what ssh has logged, without the host, its address and the user.

        The place of the error names the host. An address may be another one at each try, and the
        user may be of a Secret.
        """
        try:
            with log.open("rb") as file:
                file.seek(max(0, log.stat().st_size - MOST_ERRORS))
                said = file.read(MOST_ERRORS).decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
        hidden = (self._source.parts.host, self._address, self._source.credentials.username)
        for name in filter(None, hidden):
            said = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", "…", said, flags=re.IGNORECASE)
        return said

    @property
    def settings(self) -> Settings:
        """The settings with which the server was asked the last time."""
        return self._environment.settings if self._environment is not None else ()

    def _environment_for(self, url: GitUrl) -> GitEnvironment:
        with located(Origin(self._program.where)):
            return self._checked_environment(url)

    def _checked_environment(self, url: GitUrl) -> GitEnvironment:
        source, where = self._source, self._program.where
        proxy = source_proxy(url.place) if url.scheme == "https" else ""
        addresses = None
        # Behind a proxy only an address in the URL can be checked: the proxy resolves names.
        if source.addresses is not None and (not proxy or is_ip_address(url.host)):
            addresses = checked_addresses(source.addresses, url, where, self._program.deadline)
        credentials = source.credentials
        user = url.user or credentials.username or "git"
        settings: Settings = (
            (f"remote.{REMOTE}.url", url.given(user)),
            (f"remote.{REMOTE}.tagOpt", "--no-tags"),
        )
        if url.scheme == "ssh":
            if addresses is not None:
                self._address = reachable(addresses, url.port, where, self._program.deadline)
            return _with_settings(ssh_environment(self._program, source, self._address), settings)
        if addresses is not None and not is_ip_address(url.host):
            pinned = ",".join(bracketed(one.partition("%")[0]) for one in addresses)
            settings = (*settings, ("http.curloptResolve", f"{url.host}:{url.port}:{pinned}"))
        return _with_settings(self._https_environment(proxy), settings)

    def _https_environment(self, proxy: str) -> GitEnvironment:
        source = self._source
        place, authorization = source.parts.place, self._authorization()
        header = (f"http.{place}.extraHeader", f"Authorization: {authorization}")
        settings: Settings = (
            ("protocol.https.allow", "always"),
            ("http.proxy", proxy),
            ("http.followRedirects", "false"),
            ("http.sslVerify", "true"),
            ("http.postBuffer", "1m"),
            *_low_speed(self._program.deadline),
            # The settings of a URL are those of this host and port, and no redirect changes them.
            *((header,) if authorization else ()),
            *self._certificates(place),
        )
        return GitEnvironment(settings)

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
        elif os.environ.get("SSL_CERT_FILE"):
            try:
                settings = (*settings, ("http.sslCAInfo", system_authorities()))
            except OSError as error:
                raise connection_failed(error, place, 0.0) from None
        if credentials.certificate:
            certificate = self._program.write("tls.crt", credentials.certificate)
            key = self._program.write("tls.key", credentials.key or credentials.certificate)
            settings = (
                *settings,
                (f"http.{place}.sslCert", str(certificate)),
                (f"http.{place}.sslKey", str(key)),
            )
        return settings

    def _authorization(self) -> str:
        credentials = self._source.credentials
        with located(Origin(self._program.where)):
            return bearer(credentials.bearer_token) or basic(
                credentials.username, credentials.password
            )


def _low_speed(deadline: Deadline) -> Settings:
    """Return the settings with which git gives up on a server that sends nothing for so long."""
    patience = deadline.patience
    if patience is None or math.isinf(patience.silence):
        return ()
    seconds = str(math.ceil(patience.silence))
    # guard: silent-git-server -> ()
    return (("http.lowSpeedLimit", "1"), ("http.lowSpeedTime", seconds))


def _with_settings(environment: GitEnvironment, settings: Settings) -> GitEnvironment:
    return GitEnvironment((*environment.settings, *settings), environment.environ)


# The redirects of a repository's URL: git itself follows none, and checks no address.


_SERVICE = "/info/refs?service=git-upload-pack"


def follow_redirects(source: GitSource, authorization: str, deadline: Deadline) -> GitUrl:
    """Return the URL at which the repository of a source is.

    ``authorization`` is sent to the host and port of the source only. Raises FetchFailed.
    """
    found = [source.parts]
    url = f"{found[0].place}{found[0].path}{_SERVICE}"
    with (
        located(Origin(source.parts.shown)),
        open_web(
            url,
            timeout=deadline.left(source.parts.shown),
            credentials=source.credentials,
            addresses=source.addresses,
            on_redirect=lambda target: found.append(_repository_at(target)),
            patience=deadline.patience,
        ) as web,
        web.request("GET", url, authorization=authorization),
    ):
        return found[-1]


def _repository_at(url: str) -> GitUrl:
    if url.endswith(_SERVICE):
        with suppress(UsageError):
            # Credentials that a server puts into a URL are not ours.
            return replace(parse_git_url(url.removesuffix(_SERVICE)), user="", password="")
    raise FetchFailed(
        "the server redirects to something that is not a repository over https://",
        hint="Use the URL of the repository itself.",
    )


# The addresses of a server that somebody else has named: resolved once, checked, then pinned.


def checked_addresses(
    rules: AddressRules, url: GitUrl, where: str, deadline: Deadline
) -> Sequence[str]:
    """Return every address of a host; raise FetchFailed if one of them is refused, or none is."""
    seconds = deadline.left(where)
    with located(Origin(where)), one_try(seconds):
        try:
            # guard: refused-git-address -> addresses_of(url.host, url.port, None)
            return addresses_of(url.host, url.port, rules)
        except OSError as error:
            raise connection_failed(error, url.host, seconds) from None


def reachable(addresses: Sequence[str], port: int, where: str, deadline: Deadline) -> str:
    """Return the first address that accepts a connection, or the first one if none does."""
    for address in addresses if len(addresses) > 1 else ():
        wait = min(CONNECT_TIMEOUT, deadline.left(where))
        try:
            with socket.create_connection((address, port), wait):
                return address
        except OSError:
            continue
    return addresses[0]


# SSH: which key the client shows, and which host keys it trusts.


_SSH_LOG = "ssh.log"
_KNOWN_HOSTS = "Get the keys with `ssh-keyscan HOST`, check them, and give them as known_hosts."


def ssh_environment(program: GitProgram, source: GitSource, address: str) -> GitEnvironment:
    """Return what git has for SSH; ``address`` is that of the host, if it was checked.

    Raises AuthenticationFailed without the credentials that SSH needs.
    """
    credentials, url = source.credentials, source.parts
    lines = ["BatchMode yes", "StrictHostKeyChecking yes", "UpdateHostKeys no"]
    lines += [f"ConnectTimeout {SILENCE:.0f}", "ServerAliveInterval 15", "PermitLocalCommand no"]
    if address:
        alias = url.host if url.port == 22 else f"[{url.host}]:{url.port}"
        lines += [
            f"HostName {address.replace('%', '%%')}",
            f"HostKeyAlias {alias}",
            "CheckHostIP no",
        ]
    if not credentials.known_hosts:
        raise AuthenticationFailed(
            "SSH needs known_hosts", location=program.where, hint=_KNOWN_HOSTS
        )
    if not credentials.identity:
        raise AuthenticationFailed(
            "SSH needs a private key",
            location=program.where,
            hint="Give it as identity; a password alone is not supported.",
        )
    known = program.write("known_hosts", credentials.known_hosts)
    identity = program.write("identity", _private_key(source, program.where))
    lines += [f'UserKnownHostsFile "{known}"', "GlobalKnownHostsFile none"]
    lines += [f'IdentityFile "{identity}"', "IdentitiesOnly yes", "IdentityAgent none"]
    lines += ["PreferredAuthentications publickey"]
    lines += ["ForwardAgent no", "ClearAllForwardings yes", "ControlMaster no", "ControlPath none"]
    file = program.write("ssh_config", "\n".join(["Host *", *lines, ""]).encode())
    # What ssh itself says is in a log: what the server says there could pass for it.
    command = dying_with_git("ssh", "-F", str(file), "-E", str(program.folder / _SSH_LOG))
    return GitEnvironment(
        (("protocol.ssh.allow", "always"),),
        {"GIT_SSH_COMMAND": command, "GIT_SSH_VARIANT": "ssh"},
    )


def _private_key(source: GitSource, where: str) -> bytes:
    """Return the private key of a source, without a passphrase if the source has it."""
    credentials = source.credentials
    data = credentials.identity.strip() + b"\n"
    if not credentials.password:
        return data
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
        load_ssh_private_key,
    )

    passphrase = credentials.password.encode()
    is_openssh = b"BEGIN OPENSSH PRIVATE KEY" in data
    try:
        key = (load_ssh_private_key if is_openssh else load_pem_private_key)(data, passphrase)
    except TypeError:
        return data  # it has no passphrase
    except (ValueError, UnsupportedAlgorithm):
        raise AuthenticationFailed(
            "the private key cannot be decrypted",
            location=where,
            hint="Check identity, and password, which is its passphrase.",
        ) from None
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
