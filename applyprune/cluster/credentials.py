"""Credentials: tokens, certificates and plugins; and the kubeconfig files that name them."""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, TypeVar

from msgspec import Struct, field
from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.scanner import ScannerError

from applyprune.clock import CLOCK, Clock
from applyprune.cluster.failures import safe_text
from applyprune.errors import AccessError
from applyprune.model.text import time_of
from applyprune.values import hiding


class Identity(Struct, frozen=True):
    """The credentials of one request: a bearer token, a client certificate, both or neither.

    None of them may be shown.
    """

    token: str = ""
    certificate: bytes = b""
    """PEM."""
    key: bytes = b""
    """PEM."""

    __repr__ = hiding("token", "certificate", "key")


NOBODY = Identity()
"""No credentials."""


class Credentials(Protocol):
    """A source of identities; both methods are thread-safe and raise AccessError."""

    def current(self) -> Identity:
        """Return the identity to use now; this is cheap unless it must be renewed."""

    def renewed(self, refused: Identity) -> Identity:
        """Return the identity to use after a 401 for ``refused``; the same one means: give up."""


class FixedCredentials:
    """An identity that never changes: no credentials, a token, or an inline certificate."""

    def __init__(self, identity: Identity = NOBODY) -> None:
        self._identity = identity

    def current(self) -> Identity:
        """Return the identity."""
        return self._identity

    def renewed(self, refused: Identity) -> Identity:  # noqa: ARG002 -- the Protocol's
        """Return the identity: there is no other."""
        return self._identity


FAILURE_HOLDS = 5.0


class RenewableCredentials:
    """Caches the identity from ``issue`` until it expires or is refused; thread-safe.

    ``issue`` runs at the first use, in one thread at a time. A failure is kept for five seconds, so
    that many threads do not fail one after the other.
    """

    def __init__(self, issue: Callable[[], Issued], clock: Clock = CLOCK) -> None:
        """Keep the source; it raises AccessError when it has no identity."""
        self._issue = issue
        self._clock = clock
        self._lock = threading.Lock()
        self._identity: Identity | None = None
        self._ends = 0.0
        self._failure: AccessError | None = None
        self._failure_ends = 0.0

    def __reduce__(self) -> tuple[type[RenewableCredentials], tuple[Callable[[], Issued]]]:
        """Pickle the source alone: another process gets an identity of its own."""
        return RenewableCredentials, (self._issue,)

    def current(self) -> Identity:
        """Return the identity, renewed if it has expired."""
        with self._lock:
            if self._identity is None or self._clock.now() >= self._ends:
                self._identity = self._renew()
            return self._identity

    def renewed(self, refused: Identity) -> Identity:
        """Renew the identity, unless it has been renewed since ``refused`` was in use."""
        with self._lock:
            if self._identity is None or self._identity == refused:
                self._identity = self._renew()
            return self._identity

    def _renew(self) -> Identity:
        if self._failure is not None and self._clock.now() < self._failure_ends:
            raise self._failure
        try:
            issued = self._issue()
        except AccessError as error:
            self._failure, self._failure_ends = error, self._clock.now() + FAILURE_HOLDS
            raise
        self._failure = None
        self._ends = self._clock.now() + issued.seconds
        return issued.identity


class Issued(Struct, frozen=True):
    """An identity that a source has issued."""

    identity: Identity
    seconds: float = math.inf
    """How long it may be used."""


# As client-go: a projected service account token is rotated long before the old one ends.
FILE_MAX_AGE = 60.0


class CredentialFiles(Struct):
    """Files that are rotated by others: the token, the client certificate and its key.

    A readable token file takes precedence over the inline token, as in client-go.
    """

    token: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    fixed: Identity = NOBODY
    """The kubeconfig's inline values."""
    max_age: float = FILE_MAX_AGE
    """Seconds until the files are read again."""
    _last: Identity | None = None

    def issue(self) -> Issued:
        """Read the files; keep the last identity while one is missing, as between two renames."""
        try:
            self._last = self._read()
        except AccessError:
            if self._last is None:
                raise
        return Issued(self._last, self.max_age)

    def _read(self) -> Identity:
        fixed = self.fixed
        return Identity(
            token=_read_token(self.token, fixed.token) if self.token else fixed.token,
            certificate=read_file(self.certificate) if self.certificate else fixed.certificate,
            key=read_file(self.key) if self.key else fixed.key,
        )


def _read_token(path: Path, fallback: str) -> str:
    """Return the token of a file; the inline token when the file cannot be read."""
    try:
        token = read_file(path).decode("ascii", "replace")
    except AccessError:
        if fallback:
            return fallback
        raise
    token = checked_token(token, str(path)) or fallback
    if not token:
        raise AccessError("the token file is empty", location=str(path))
    return token


def read_file(path: Path) -> bytes:
    """Return the bytes of a file that the connection needs; raises AccessError with its path."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise AccessError(
            "cannot read a file that the connection needs",
            location=str(path),
            reason=error.strerror or type(error).__name__,
        ) from None


def checked_token(token: str, where: str) -> str:
    """Return the token, stripped; raises AccessError if it cannot be a header value."""
    token = token.strip()
    if any(not 0x21 <= ord(character) <= 0x7E for character in token):
        raise AccessError("the token contains invalid characters", location=where)
    return token


# Credentials that other programs issue.


# Seconds. There is no limit if the plugin may ask a person (standard output is a terminal).
PLUGIN_TIMEOUT = 60.0
# Renew this long before they expire, because of requests under way.
EXPIRY_SKEW = timedelta(seconds=10)


class ExecPlugin:
    """Runs an exec plugin of the kubeconfig and reads the credentials that it prints.

    The official client's loader would log a plugin's failure and continue without credentials, and
    its runner keeps the process to itself, so that nobody could end it.
    """

    def __init__(
        self,
        plugin: KubeconfigEntry,
        cluster: KubeconfigEntry,
        plain: Credentials,
        timeout: float = PLUGIN_TIMEOUT,
    ) -> None:
        """Keep the ``exec`` mapping; ``plain`` adds the user's own client certificate, if any."""
        self._plugin = plugin
        self._cluster = cluster
        self._plain = plain
        self._timeout = timeout

    def issue(self) -> Issued:
        """Run the plugin; raises AccessError unless it prints usable credentials."""

        environment, folder = self._environment(), self._plugin.base
        # A person at a terminal gets all the time.
        limit = None if _is_interactive() else self._timeout
        try:
            code, out, err = _run(self._command(), environment, folder, limit)
        except FileNotFoundError:
            raise self._failure("cannot be found", hint=self._plugin.text("installHint")) from None
        except subprocess.TimeoutExpired:
            raise self._failure(f"did not finish within {limit:.0f} seconds") from None
        except (OSError, ValueError) as error:
            raise self._failure("failed", type(error).__name__) from None
        if code:
            raise self._failure("failed", _last_line(err) or f"its exit code is {code}")
        return self._from_status(self._status(out))

    def _command(self) -> Sequence[str]:
        for key in ("command", "apiVersion"):
            if not self._plugin.text(key):
                raise AccessError(
                    "the kubeconfig is malformed",
                    location=f"user {self._plugin.name!r}",
                    reason=f"exec has no {key}",
                )
        return self._plugin.text("command"), *self._plugin.texts("args")

    def _environment(self) -> Mapping[str, str]:
        added = {
            str(item.get("name", "")): str(item.get("value", ""))
            for item in self._plugin.items("env")
        }
        spec: dict[str, Any] = {"interactive": _is_interactive()}
        if self._plugin.flag("provideClusterInfo"):
            spec["cluster"] = dict(self._cluster.fields)
            for extension in self._cluster.items("extensions"):
                if extension.get("name") == "client.authentication.k8s.io/exec":
                    spec["cluster"]["config"] = extension.get("extension")
        info = {
            "apiVersion": self._plugin.text("apiVersion"),
            "kind": "ExecCredential",
            "spec": spec,
        }
        return {**os.environ, **added, "KUBERNETES_EXEC_INFO": json.dumps(info)}

    def _status(self, out: bytes) -> dict[str, Any]:
        try:
            printed = json.loads(out)
        except (ValueError, RecursionError):
            raise self._failure("failed", "it printed no JSON") from None
        if not isinstance(printed, dict) or not {"apiVersion", "kind", "status"} <= printed.keys():
            raise self._failure("failed", "it printed no ExecCredential with a status")
        if printed["apiVersion"] != (version := self._plugin.text("apiVersion")):
            raise self._failure("failed", f"it printed another apiVersion than {version}")
        if not isinstance(status := printed["status"], dict):
            raise self._failure("printed no credentials")
        return status

    def _from_status(self, status: dict[str, Any]) -> Issued:
        def text(key: str) -> str:
            value = status.get(key) or ""
            if not isinstance(value, str):
                raise self._failure("printed malformed credentials", f"{key} is not text")
            return value

        plain = self._plain.current()
        certificate, key = text("clientCertificateData"), text("clientKeyData")
        if bool(certificate) != bool(key):
            raise self._failure("printed a client certificate without its key, or the reverse")
        token = checked_token(text("token"), f"credential plugin of user {self._plugin.name!r}")
        if not token and not certificate:
            raise self._failure("printed neither a token nor a client certificate")
        identity = Identity(
            token, certificate.encode() or plain.certificate, key.encode() or plain.key
        )
        return Issued(identity, self._seconds_until(text("expirationTimestamp")))

    def _seconds_until(self, expiration: str) -> float:
        """Return the seconds until that RFC 3339 time, minus the skew; infinity if it is empty."""
        if not expiration:
            return math.inf
        if (until := time_of(expiration)) is None:
            raise self._failure("printed an invalid expiration time")
        return (until - datetime.now(UTC) - EXPIRY_SKEW).total_seconds()

    def _failure(self, happened: str, reason: str = "", hint: str = "") -> AccessError:
        command = self._plugin.text("command")
        return AccessError(
            f"the credential plugin {command!r} of user {self._plugin.name!r} {happened}",
            reason=reason,
            hint=safe_text(hint)
            or f"Run {command} yourself to see what it needs, such as a login.",
        )


def _is_interactive() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _run(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, seconds: float | None
) -> tuple[int, bytes, str]:
    """Run a plugin; return its exit code and output. After ``seconds``, end it and what it started.

    Raises subprocess.TimeoutExpired then. In a terminal, only the plugin itself is ended: it must
    stay in the group of processes that gets Ctrl-C.
    """
    from applyprune.system.terminal import has_terminal

    own_group = seconds is not None and not has_terminal()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=sys.stderr if seconds is None else subprocess.PIPE,
        cwd=folder,
        env=environment,
        process_group=0 if own_group else None,
    ) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except BaseException:
            with suppress(OSError):
                if own_group:
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.kill()
            raise
    # Its text is UTF-8 on every system, whatever the terminal has.
    return process.returncode, out, (err or b"").decode("utf-8", "replace")


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return safe_text(lines[-1].strip()) if lines else ""


SUPPORTED = frozenset({"oidc", "gcp"})


class AuthProvider:
    """Lets the official client load a provider's token from the kubeconfig files.

    The client renews an OIDC token only while loading, within five minutes of its expiry, and
    writes it back into the kubeconfig as kubectl does. So the token is loaded again every minute.
    """

    def __init__(self, provider: KubeconfigEntry, files: Sequence[Path], context: str) -> None:
        """Keep the ``auth-provider`` mapping; raises AccessError for an unsupported provider."""
        name = provider.text("name")
        if name not in SUPPORTED:
            raise AccessError(
                f"user {provider.name!r} has the unsupported auth-provider {name!r}",
                hint="Kubernetes replaced such providers with exec plugins; log in with one.",
            )
        self._user = provider.name
        self._name = name
        self._files = os.pathsep.join(str(path) for path in files)
        self._context = context

    def issue(self) -> Issued:
        """Load the token; raises AccessError when the provider returns none."""
        # Imported here: the import takes 0.25 s, and few users have such a provider.
        from kubernetes.client import Configuration
        from kubernetes.config import load_kube_config

        configuration = Configuration()
        try:
            load_kube_config(
                config_file=self._files,
                context=self._context,
                client_configuration=configuration,
                persist_config=True,
            )
        except Exception as error:  # noqa: BLE001 -- five libraries deep, and all mean the same
            # The text may hold a token or a client secret: show only the type of the error.
            raise self._failure(type(error).__name__) from None
        token = str(configuration.api_key.get("BearerToken", "")).removeprefix("Bearer ")
        if not token:
            raise self._failure("it returned no token")
        identity = Identity(token=checked_token(token, f"auth-provider {self._name!r}"))
        return Issued(identity, FILE_MAX_AGE)

    def _failure(self, reason: str) -> AccessError:
        return AccessError(
            f"the auth-provider {self._name!r} of user {self._user!r} failed",
            reason=reason,
            hint="Log in again; the kubeconfig's refresh token may have expired.",
        )


# Kubeconfig files, found, read and merged by kubectl's rules.


def candidate_files(kubeconfig: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files to read: the option's, else those in ``KUBECONFIG``, else the default.

    The option's file is the only one and must exist; raises AccessError.
    """
    if kubeconfig:
        path = Path(kubeconfig).expanduser()
        if not path.exists():
            raise AccessError(
                "the kubeconfig file does not exist",
                location=kubeconfig,
                hint="--kubeconfig names exactly one file, and it must exist.",
            )
        return (path,)
    if listed := environ.get("KUBECONFIG"):
        # Even if it names no file, as ":" does, the default is not used.
        parts = [part for part in listed.split(os.pathsep) if part]
        return tuple(dict.fromkeys(Path(part) for part in parts))
    home = environ.get("HOME")
    return (Path(home, ".kube", "config"),) if home else ()


def load_kubeconfig(paths: Iterable[Path]) -> Kubeconfig:
    """Read the files that exist and merge them; raises AccessError for an invalid one."""
    files: list[Path] = []
    current = ""
    merged: dict[str, dict[str, KubeconfigEntry]] = {"clusters": {}, "users": {}, "contexts": {}}
    for path in paths:
        content = _read(path)
        if content is None:
            continue
        files.append(path)
        whole = KubeconfigEntry(str(path), content, path.absolute().parent)
        current = current or whole.text("current-context")
        for section, kind in (("clusters", "cluster"), ("users", "user"), ("contexts", "context")):
            for entry in _entries(whole, section, kind):
                merged[section].setdefault(entry.name, entry)
    return Kubeconfig(
        tuple(files), current, merged["clusters"], merged["users"], merged["contexts"]
    )


def _read(path: Path) -> dict[str, Any] | None:
    """Return the content of a file, every scalar as text; None when it does not exist."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AccessError(
            "cannot read the kubeconfig", location=str(path), reason=error.strerror or ""
        ) from None
    try:
        content = _parsed(raw)
    except (YAMLError, UnicodeDecodeError, RecursionError) as error:
        # The parser's own message may quote a value, and values here are tokens.
        raise AccessError(
            "the kubeconfig is not valid YAML", location=str(path), reason=_problem(error)
        ) from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise _malformed(str(path), "it must be a mapping")
    return content


def _parsed(raw: bytes) -> Any:
    """Parse one YAML document, every scalar as text."""
    try:
        return YAML(typ="base").load(raw)
    except ScannerError:
        # The C parser is older than YAML 1.2: it refuses ``{server: https://host}``.
        return YAML(typ="base", pure=True).load(raw)


def _problem(error: Exception) -> str:
    if not isinstance(error, MarkedYAMLError):
        return ""
    problem = "duplicate key" if isinstance(error, DuplicateKeyError) else error.problem
    line = f"line {error.problem_mark.line + 1}" if error.problem_mark else ""
    return ": ".join(part for part in (line, problem) if part)


# How YAML spells null and true; every scalar is read as text.
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})


def _entries(whole: KubeconfigEntry, section: str, kind: str) -> list[KubeconfigEntry]:
    """Return the entries of ``clusters``, ``users`` or ``contexts`` of one file."""
    items = whole.fields.get(section, [])
    if isinstance(items, str) and items in _NOTHING:
        return []
    entries = []
    for item in items if isinstance(items, list) else [items]:
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or not name:
            raise _malformed(whole.name, f"{section} must be a list of mappings with a name")
        named = KubeconfigEntry(f"{whole.name}: {section}", item, whole.base)
        entries.append(KubeconfigEntry(name, named.mapping(kind) or {}, whole.base))
    times = Counter(entry.name for entry in entries)
    if twice := next((name for name, count in times.items() if count > 1), None):
        hint = "kubectl refuses this too: remove one of the two."
        raise _malformed(whole.name, f"{section} has {twice!r} twice", hint)
    return entries


class Kubeconfig(Struct, frozen=True):
    """Kubeconfig files merged into one: for each name, the first file that has it wins."""

    files: tuple[Path, ...] = ()
    current_context: str = ""
    clusters: Mapping[str, KubeconfigEntry] = field(default_factory=dict)
    users: Mapping[str, KubeconfigEntry] = field(default_factory=dict)
    contexts: Mapping[str, KubeconfigEntry] = field(default_factory=dict)


T = TypeVar("T")
_YES = frozenset({"true", "yes", "on", "y", "1", "t"})


class KubeconfigEntry(Struct, frozen=True):
    """One named cluster, user or context."""

    name: str
    fields: Mapping[str, Any]
    base: Path
    """The folder at which its relative paths start."""

    __repr__ = hiding("fields")

    def text(self, key: str) -> str:
        """Return a text field; empty when it is missing or null."""
        value = self.fields.get(key, "")
        if not isinstance(value, str):
            raise _malformed(self.name, f"{key} must be text")
        return "" if value in _NOTHING else value

    def flag(self, key: str) -> bool:
        """Return a boolean field; false when it is missing."""
        return self.text(key).lower() in _YES

    def path(self, key: str) -> Path | None:
        """Return a field with the path of a file, made absolute."""
        value = self.text(key)
        return self.base / value if value else None

    def data(self, key: str) -> bytes:
        """Return a base64 field as bytes; empty when it is missing."""
        try:
            return base64.b64decode("".join(self.text(key).split()), validate=True)
        except (binascii.Error, ValueError):
            raise _malformed(self.name, f"{key} is not base64") from None

    def texts(self, key: str) -> list[str]:
        """Return a list of texts; empty when it is missing or null."""
        return self._list(key, str, "texts")

    def items(self, key: str) -> list[Mapping[str, Any]]:
        """Return a list of mappings; empty when it is missing or null."""
        return self._list(key, dict, "mappings")

    def mapping(self, key: str) -> Mapping[str, Any] | None:
        """Return a mapping; None when it is missing or null."""
        value = self.fields.get(key, "")
        if isinstance(value, str) and value in _NOTHING:
            return None
        if not isinstance(value, dict):
            raise _malformed(self.name, f"{key} must be a mapping")
        return value

    def _list(self, key: str, kind: type[T], kinds: str) -> list[T]:
        value = self.fields.get(key, [])
        if isinstance(value, str) and value in _NOTHING:
            return []
        if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
            raise _malformed(self.name, f"{key} must be a list of {kinds}")
        return value


def _malformed(location: str, reason: str, hint: str = "") -> AccessError:
    return AccessError("the kubeconfig is malformed", location=location, reason=reason, hint=hint)
