"""Run git within limits, without a shell, home, system configuration, hooks, prompt or work tree.

Every process dies with this one, however it ends. Its messages become errors without the
credentials and URLs in them.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias

from msgspec import Struct, field

from applyprune.http import SILENCE
from applyprune.model.live import one_line
from applyprune.sources.tree import AuthenticationFailed, FetchFailed, PathNotFound, SourceTooLarge
from applyprune.system.processes import MOST_ERRORS, ProcessGuard, ProcessLimits, exchange
from applyprune.values import hiding, pattern

if TYPE_CHECKING:
    from types import TracebackType

    from applyprune.errors import InputError
    from applyprune.sources.tree import Deadline


Settings: TypeAlias = Sequence[tuple[str, str]]
"""Settings of git, each a key and a value; a key may occur more than once."""
MEMORY = 2**30
"""Bytes of address space for one process."""


class GitEnvironment(Struct, frozen=True):
    """What the git that speaks to one server has beside the settings of every git."""

    settings: Settings = ()
    environ: Mapping[str, str] = field(default_factory=dict)

    __repr__ = hiding("settings", "environ")


LOCAL = GitEnvironment()
"""Those of a git that speaks to no server."""
_OUTPUT = 64 * 2**20
_LAST_ERRORS = slice(-MOST_ERRORS, None)
"""git says last what it ends with."""


class GitProgram:
    """Runs git until a deadline, with a private folder; a context manager."""

    def __init__(self, where: str, deadline: Deadline, size: int) -> None:
        """Start nothing. ``where`` is the place in errors; ``size`` limits a file, in bytes."""
        self.where = where
        self.deadline = deadline
        self._size = size
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Create the private folder, which only this user can read."""
        if shutil.which("git") is None:
            raise FetchFailed(
                "git is needed to read this source, and it is not installed",
                location=self.where,
                hint="Install git 2.39 or newer.",
            )
        try:
            place = tempfile.mkdtemp(prefix="applyprune-git-")
            self.folder = Path(os.path.realpath(place))
            self._open.callback(shutil.rmtree, self.folder, ignore_errors=True)
            (self.folder / "home").mkdir()
            self._guard = self._open.enter_context(ProcessGuard(self.folder))
        except OSError as error:
            self._open.close()
            raise self.unusable(error) from None
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._open.close()

    def unusable(self, error: OSError) -> FetchFailed:
        """Return the error for a file or process that the system refuses."""
        return FetchFailed(
            "git cannot be run",
            location=self.where,
            reason=error.strerror or "",
            hint="Check the free space and memory of this machine.",
        )

    def write(self, name: str, data: bytes) -> Path:
        """Write a file into the private folder."""
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_bytes(data)
        return path

    def run(self, *arguments: str, repository: Path | None = None) -> bytes:
        """Return the output of git; raise FetchFailed or what its message means."""
        code, out, err = self.try_run(*arguments, repository=repository)
        if code:
            raise failure(err, code, self.where)
        return out

    def try_run(
        self,
        *arguments: str,
        repository: Path | None = None,
        environment: GitEnvironment = LOCAL,
        stdin: bytes = b"",
        limit: int = _OUTPUT,
        records: tuple[bytes, int] | None = None,
        program: str = "git",
    ) -> tuple[int, bytes, str]:
        """Return the exit code, the output, and the end of what was written to standard error.

        Raises SourceTooLarge for more than ``limit`` bytes, or more than a number of ``records``,
        which end with a byte.
        """
        limits = ProcessLimits(
            memory=MEMORY,
            # Two threads; whoever computes longer has not been given that much to do.
            cpu=2 * math.ceil(self.deadline.left(self.where)) + 1,
            file_size=self._size,
            files=256,
            address_space=MEMORY,
        )
        with contextlib.ExitStack() as opened:
            try:
                given = opened.enter_context(tempfile.TemporaryFile(dir=self.folder))
                given.write(stdin)
                given.seek(0)
                # TemporaryFile is unbuffered only for this process: git has the same position.
                given.flush()
                process = subprocess.Popen(
                    [*limits.command(), program, *arguments],
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    # Without a terminal; and what it starts is killed with it.
                    start_new_session=True,
                    cwd=self.folder,
                    env=self._process_environ(environment, repository),
                    bufsize=0,
                    # Python ignores SIGXFSZ, and so does git then: it says that a file is too
                    # large, where its death would say nothing. git itself restores SIGPIPE.
                    restore_signals=False,
                )
                opened.callback(_close, process)
                opened.callback(self._guard.end, process)
                self._guard.add(process.pid)
                out, err = self._read(process, limit, records)
                code = process.wait(self.deadline.left(self.where))
            except subprocess.TimeoutExpired:
                raise self.deadline.passed(self.where) from None
            except OSError as error:
                raise self.unusable(error) from None
        return code, out, err.decode("utf-8", "replace")

    def _read(
        self, process: subprocess.Popen[bytes], limit: int, records: tuple[bytes, int] | None
    ) -> tuple[bytes, bytes]:
        count = 0

        def check(data: bytes, size: int) -> None:
            nonlocal count
            if size > limit:
                raise SourceTooLarge(
                    f"the source is larger than {limit // 2**20} MiB", location=self.where
                )
            if records is None:
                return
            count += data.count(records[0])
            if count > records[1]:
                raise SourceTooLarge(
                    f"the source has more than {records[1]} entries", location=self.where
                )

        left = partial(self.deadline.next_wait, self.where)
        return exchange(process, left, check, errors=_LAST_ERRORS)

    def _process_environ(
        self, environment: GitEnvironment, repository: Path | None
    ) -> dict[str, str]:
        settings = (*_SETTINGS, *environment.settings)
        environ = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder),
            **environment.environ,
            "LC_ALL": "C",
            "LANGUAGE": "",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_CEILING_DIRECTORIES": str(self.folder.parent),
            "GIT_CONFIG_COUNT": str(len(settings)),
        }
        for number, (key, value) in enumerate(settings):
            environ[f"GIT_CONFIG_KEY_{number}"] = key
            environ[f"GIT_CONFIG_VALUE_{number}"] = value
        if repository is not None:
            environ["GIT_DIR"] = str(repository)
        return environ


_OF_WORK_TREES = (
    *("gitmodulesBlob", "gitmodulesLarge", "gitmodulesMissing", "gitmodulesName"),
    *(
        "gitmodulesParse",
        "gitmodulesPath",
        "gitmodulesSymlink",
        "gitmodulesUpdate",
        "gitmodulesUrl",
    ),
    *("gitattributesBlob", "gitattributesLarge", "gitattributesLineLength", "gitattributesMissing"),
    *("gitattributesSymlink", "gitignoreSymlink", "mailmapSymlink"),
)
"""Faults of files that only a work tree reads: anywhere in a repository, they fail no path."""

# Nothing of a repository or of its server makes git run a program, or speak to another server.
_SETTINGS: Settings = (
    ("core.hooksPath", "/dev/null"),
    ("core.askPass", ""),
    ("core.fsmonitor", "false"),
    # Larger objects are streamed: the memory does not grow with them.
    ("core.bigFileThreshold", "8m"),
    ("core.packedGitLimit", "256m"),
    ("core.packedGitWindowSize", "32m"),
    ("core.multiPackIndex", "false"),
    ("core.alternateRefsCommand", "true"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("fetch.fsckObjects", "true"),
    ("transfer.fsckObjects", "true"),
    # Old and harmless faults that published repositories have.
    ("fetch.fsck.zeroPaddedFilemode", "ignore"),
    ("fetch.fsck.missingSpaceBeforeDate", "ignore"),
    ("fetch.fsck.badTimezone", "ignore"),
    *((f"fetch.fsck.{fault}", "ignore") for fault in _OF_WORK_TREES),
    # Always a pack: it is complete, or it has no name yet.
    ("fetch.unpackLimit", "1"),
    ("transfer.unpackLimit", "1"),
    ("fetch.writeCommitGraph", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.uriProtocols", ""),
    ("transfer.bundleURI", "false"),
    ("submodule.recurse", "false"),
    ("protocol.version", "2"),
    ("protocol.allow", "never"),
    ("pack.threads", "2"),
    ("credential.helper", ""),
    ("advice.objectNameWarning", "false"),
)


def _close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def dying_with_git(*command: str) -> str:
    """Return a command for a setting of git that dies with the git that starts it."""
    program = shutil.which("setpriv")
    start = [program, "--pdeathsig", "KILL", "--"] if program else []
    return shlex.join([*start, *command])


# What the messages of git and ssh mean.


def failure(err: str, code: int, where: str, ssh: str = "") -> InputError:
    """Return the error for what git wrote to standard error before it ended with a code.

    ``ssh`` is what the ssh of this git has logged.
    """
    err = _clean(err)
    # Without a user, ssh has no log yet.
    ssh = _clean(ssh) or "\n".join(NO_USER.findall(err)[:1])
    said = f"{ssh}\n{err}"
    found = (one for one in _PATTERNS if one[0].search(said))
    _, kind, reason, hint = _LIMITS if code in _SIGNALLED else next(found, _UNKNOWN)
    messages = {
        AuthenticationFailed: "the server refuses to serve the repository",
        SourceTooLarge: "the repository is too large",
        PathNotFound: "not in the repository",
    }
    message = messages.get(kind, "the repository cannot be read")
    words = _last_words(ssh)
    if not reason and not words:
        reason = next(reversed(_FATAL.findall(err)), f"git ended with code {code}")
    reason = "; ".join(filter(None, (reason, words and f"ssh says: {words}")))
    return kind(message, location=where, reason=one_line(reason), hint=hint)


def _last_words(ssh: str) -> str:
    """Return the last two lines that ssh has logged: the last alone often says too little."""
    lines = [one.strip().rstrip(".") for one in ssh.splitlines() if not _DECORATION.match(one)]
    return "; ".join(_USER.sub("", one) for one in lines[-2:])


def _clean(err: str) -> str:
    """Return the lines that git and ssh wrote themselves, without names and URLs."""
    own = (line for line in err.splitlines() if line and not line.startswith("remote:"))
    return _QUOTED.sub("…", "\n".join(own))


NO_USER = pattern(r"^No user exists for uid \d+(?=\r?$)", re.MULTILINE)
"""What ssh and ssh-keygen say, and no more, where their user has no entry in /etc/passwd."""
ADD_USER = (
    "In the image, run as its own user, 65532. For another user ID, mount an /etc/passwd that has "
    "an entry for it."
)
_DECORATION = pattern(r"@|\*\*|warning:", re.IGNORECASE)
# The user may be of a Secret.
_USER = pattern(r"^.*(?=permission denied \()", re.IGNORECASE)
_QUOTED = pattern(r"'[^'\n]*'|\"[^\"\n]*\"|\S*://\S*|/\S+")
_FATAL = pattern(r"^(?:fatal|error): (.+)$", re.MULTILINE)
_REDIRECT = pattern(r"returned error: 30[12378]\b", re.IGNORECASE)


def is_redirect(err: str) -> bool:
    """Return whether git ended because the server redirects."""
    return _REDIRECT.search(err) is not None


_CREDENTIALS = "Check the credentials of the source, and whether they may read this repository."
_REFUSED = "the server refuses the credentials, or needs some"
# How the kernel ends a process at a limit.
_OF_LIMITS = [one.value for one in signal.Signals if one.name in {"SIGXCPU", "SIGXFSZ"}]
# The first pattern that matches decides.
_MEANINGS: tuple[tuple[str, type[InputError], str, str], ...] = (
    (
        r"no user exists for uid \d",
        FetchFailed,
        "ssh needs an entry in /etc/passwd for the user that runs it",
        ADD_USER,
    ),
    (
        r"host key verification failed|remote host identification has changed",
        AuthenticationFailed,
        "the server has no host key that known_hosts names",
        "Check known_hosts: `ssh-keyscan HOST` shows the keys that the server has now.",
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
        r"no matching (?:host key type|key exchange method|cipher|mac) found",
        FetchFailed,
        "ssh and the server have no algorithm in common",
        "Update the server: it offers only what ssh no longer trusts.",
    ),
    (
        r"^kex_exchange_identification: banner line|^bad remote protocol|protocol mismatch",
        FetchFailed,
        "the server does not speak SSH",
        "Check the host and the port in the URL.",
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
        "Give the certificate of its CA as ca.crt, or renew the certificate of the server.",
    ),
    (
        (
            rf"(?:died of|terminated by) signal (?:{'|'.join(map(str, _OF_LIMITS))})\b"
            r"|file size limit|file too large|out of memory|cannot allocate|malloc failed"
            r"|mmap failed|pack exceeds maximum"
        ),
        SourceTooLarge,
        "git exceeded its limit of memory, time or file size",
        "Read a smaller path, or keep large files out of the repository.",
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
        "Check the URL. Some servers say so too when the credentials are missing.",
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
        r"operation too slow|timed out during banner exchange",
        FetchFailed,
        f"the server accepted the connection and sent nothing for {SILENCE:.3g} s",
        "Check the server and the network.",
    ),
    (
        (
            r"connection refused|failed to connect|no route to host|network is unreachable"
            r"|connection timed out|operation timed out|couldn't connect"
            r"|^connection to .* timed out"
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
    (r"returned error: 429\b", FetchFailed, "the server is rate limiting (429)", ""),
    (r"returned error: 5\d\d\b", FetchFailed, "the server failed (5xx)", ""),
    (
        (
            r"early eof|unexpected disconnect|hung up|curl (?:18|52|55|56|92)\b|rpc failed"
            r"|reset by peer|connection closed|broken pipe|transfer closed|empty reply"
            r"|^connection (?:to|reset by) |^timeout, server"
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
    (pattern(text, re.IGNORECASE | re.MULTILINE), kind, reason, hint)
    for text, kind, reason, hint in _MEANINGS
)
_UNKNOWN = (pattern(""), FetchFailed, "", "Try it with git ls-remote.")
_SIGNALLED = {code for number in _OF_LIMITS for code in (-number, 128 + number)}
_LIMITS = next(one for one in _PATTERNS if one[1] is SourceTooLarge)
