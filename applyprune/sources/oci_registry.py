"""Requests to one repository of a registry, with the login that the registry asks for.

Nothing is sent unasked but a token that the user has for this registry. A registry asks once: a
second 401 is the end.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from applyprune.addresses import is_ip_address
from applyprune.clock import CLOCK
from applyprune.errors import InputError
from applyprune.model.live import items, mapping, text
from applyprune.sources.address import host_of, is_https, joined, origin_of, shown_url
from applyprune.sources.tree import (
    ANONYMOUS,
    AuthenticationFailed,
    FetchFailed,
    SourceCredentials,
    shown_path,
)
from applyprune.sources.web import basic, bearer
from applyprune.system.processes import TooMuchOutput, run_program
from applyprune.values import hiding, pattern, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from applyprune.sources.address import ArtifactReference
    from applyprune.sources.web import Reply, Web


PULL = "pull"
PULL_AND_PUSH = "pull,push"


class Registry:
    """One repository of a registry, for as long as a source is read or written."""

    def __init__(
        self, web: Web, reference: ArtifactReference, credentials: SourceCredentials, actions: str
    ) -> None:
        """Keep the settings; ``actions`` is PULL or PULL_AND_PUSH. Raises AuthenticationFailed."""
        self._web = web
        self._base = f"https://{reference.host}/v2/{reference.repository}/"
        self._origin = origin_of(self._base)
        self._scope = f"repository:{reference.repository}:{actions}"
        self._credentials = credentials
        self._login = login_for(reference, credentials)
        self._authorization = bearer(self._login.bearer_token)
        self._has_logged_in = False

    @contextmanager
    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Iterator[Reply]:
        """Send a request and yield its reply, after a login if the registry asks for one.

        ``path`` is relative to the repository, or a whole URL, which gets no authorization if it is
        on another host. Raises AuthenticationFailed and FetchFailed.
        """
        url = joined(self._base, path)
        if not is_https(url):
            raise FetchFailed(f"the registry names {shown_url(url)}", reason="it is not https://")
        with ExitStack() as stack:
            reply = stack.enter_context(self._send(method, url, headers, body))
            if self._asks_for_login(reply):
                challenge = reply.header("WWW-Authenticate")
                stack.close()
                self._has_logged_in = True
                self._authorization = self._log_in(challenge)
                reply = stack.enter_context(self._send(method, url, headers, body))
            yield reply

    def check_time(self) -> None:
        """Raise FetchFailed if the time for the source has passed."""
        self._web.check_time()

    def _send(
        self, method: str, url: str, headers: Mapping[str, str] | None, body: bytes | None
    ) -> AbstractContextManager[Reply]:
        is_own = origin_of(url) == self._origin
        authorization = self._authorization if is_own else ""
        return self._web.request(
            method, url, authorization=authorization, headers=headers, body=body
        )

    def _asks_for_login(self, reply: Reply) -> bool:
        """Return whether the registry itself asks who we are, for the first time."""
        # guard: question-of-another-host -> True
        is_own = origin_of(reply.url) == self._origin
        return is_own and reply.status == 401 and not self._has_logged_in

    def _log_in(self, challenge: str) -> str:
        """Return the authorization that a challenge asks for; raises AuthenticationFailed."""
        asked = challenges(challenge)
        login = basic(self._login.username, self._login.password)
        if "bearer" in asked:
            return self._fetch_token(asked["bearer"], login)
        if "basic" in asked and login:
            return login
        if "basic" in asked:
            raise AuthenticationFailed(
                "the registry asks for a user and a password",
                hint="Give the credentials for this host.",
            )
        raise AuthenticationFailed("the registry asks for a login of an unknown kind")

    def _fetch_token(self, asked: Mapping[str, str], login: str) -> str:
        realm = asked.get("realm", "")
        if not is_https(realm):
            raise AuthenticationFailed(
                "the registry redirects to a token server that is not https://",
                reason=shown_url(realm),
            )
        self._check_token_server(realm, login)
        query = {"service": asked["service"]} if asked.get("service") else {}
        query["scope"] = self._scope
        if self._login.refresh_token:
            grant = {"grant_type": "refresh_token", "refresh_token": self._login.refresh_token}
            form = urlencode({**grant, **query, "client_id": "applyprune"}).encode()
            kind = {"Content-Type": "application/x-www-form-urlencoded"}
            opened = self._web.request("POST", realm, headers=kind, body=form)
        else:
            opened = self._web.request("GET", _with_query(realm, query), authorization=login)
        with opened as reply:
            if reply.status != 200:
                where = f"the token server {shown_url(realm)}"
                raise reply.refusal(reason=f"{where}: {error_code(reply)}".rstrip(": "))
            given = mapping(read_json(reply, _MOST_TOKEN))
        token = text(given, "token") or text(given, "access_token")
        if not token:
            raise AuthenticationFailed("the token server sends no token", reason=shown_url(realm))
        return bearer(token)

    def _check_token_server(self, realm: str, login: str) -> None:
        """Raise AuthenticationFailed if what it would get is not for its host.

        It is for the domain of the registry, and for a host for which the user has the same.
        """
        secret = self._login.refresh_token or login
        registry, (host, _) = self._origin[0], origin_of(realm)
        if not secret or shares_domain(registry, host):
            return
        parts = urlsplit(realm)
        own = _configured(self._credentials, f"{host_of(parts)}{parts.path}")
        # guard: token-server always
        if secret in {own.refresh_token, basic(own.username, own.password)}:
            return
        raise AuthenticationFailed(
            f"the registry redirects to a token server on another host: {shown_url(realm)}",
            reason=f"the credentials for {registry} are not sent to it",
            hint=f"If they are for both hosts, add them to auths for {host}, in Docker's "
            "config.json or in .dockerconfigjson.",
        )


# The words below a country's domain under which everybody can have a name, as in co.uk.
_OF_MANY = frozenset({"ac", "co", "com", "edu", "go", "gov", "ne", "net", "or", "org"})


def shares_domain(registry: str, host: str) -> bool:
    """Return whether a host is the registry's, or in its domain: ``auth.example.io`` for
    ``example.io`` and for ``registry.example.io``.
    """
    if is_ip_address(registry) or is_ip_address(host):
        return registry == host
    parent = registry.partition(".")[2]
    second, _, top = parent.rpartition(".")
    is_of_many = not second or (len(top) == 2 and second in _OF_MANY)
    domain = registry if is_of_many else parent
    return host == domain or host.endswith(f".{domain}")


_LONGEST_CHALLENGE = 8 * 2**10
_SCHEME = pattern(r"(?:^|,)\s*(Bearer|Basic)(?=\s|,|$)", re.IGNORECASE)
_PARAMETER = pattern(r'\s*,?\s*([A-Za-z_]+)\s*=\s*(?:"([^"\\]*)"|([^\s",]+))')


def challenges(header: str) -> dict[str, dict[str, str]]:
    """Return the parameters of each scheme in ``WWW-Authenticate``, by its name in lower case."""
    header = header[:_LONGEST_CHALLENGE]
    found: dict[str, dict[str, str]] = {}
    for scheme in _SCHEME.finditer(header):
        at, parameters = scheme.end(), found.setdefault(scheme[1].lower(), {})
        while one := _PARAMETER.match(header, at):
            parameters.setdefault(one[1].lower(), one[2] if one[2] is not None else one[3])
            at = one.end()
    return found


def _with_query(url: str, query: Mapping[str, str]) -> str:
    parts = urlsplit(url)
    own = [(key, value) for key, value in parse_qsl(parts.query) if key not in query]
    return urlunsplit(parts._replace(query=urlencode([*own, *query.items()]), fragment=""))


_MOST_JSON = 4 * 2**20
_MOST_TOKEN = 2**20
_MOST_ERROR = 16 * 2**10
_CODE = pattern(r"[A-Z][A-Z_]{1,40}")
_NEXT = pattern(r'\s*<([^<>]+)>\s*;\s*rel="?next"?')


def unexpected_status(reply: Reply) -> InputError:
    """Return the error for a reply with another status than the expected one."""
    return reply.refusal(reason=error_code(reply))


def error_code(reply: Reply) -> str:
    """Return the code of a registry's error, such as ``MANIFEST_UNKNOWN``; empty if it has none."""
    try:
        errors = items(mapping(read_json(reply, _MOST_ERROR)), "errors")
    except InputError:
        return ""
    code = text(mapping(errors[0]), "code") if errors else ""
    return code if _CODE.fullmatch(code) else ""


def read_json(reply: Reply, limit: int = _MOST_JSON) -> object:
    """Return the JSON of a reply of at most ``limit`` bytes; raises FetchFailed, SourceTooLarge."""
    data = reply.read(limit)
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise FetchFailed("the registry's response is not JSON") from None


def next_page(reply: Reply) -> str:
    """Return the URL of the next page of a list; empty for the last. Raises FetchFailed."""
    found = _NEXT.match(reply.header("Link"))
    if found is None:
        return ""
    url = joined(reply.url, str(found[1]))
    if not is_https(url) or origin_of(url) != origin_of(reply.url):
        raise FetchFailed(f"a list continues on another host: {shown_url(url)}")
    return url


# Credentials for a registry in ``.dockerconfigjson``, the content of an image pull Secret.


_HINT = "Check .dockerconfigjson in the source's Secret."


def login_for(reference: ArtifactReference, credentials: SourceCredentials) -> Login:
    """Return the login for a registry: the one that is given, else that of its host.

    Raises AuthenticationFailed for a ``.dockerconfigjson`` that cannot be read.
    """
    if credentials.username or credentials.password or credentials.bearer_token:
        return Login(credentials.username, credentials.password, credentials.bearer_token)
    return _configured(credentials, f"{reference.host}/{reference.repository}")


def _configured(credentials: SourceCredentials, place: str) -> Login:
    """Return the login that the configuration of docker has for a host with a path."""
    if not credentials.docker_config:
        return Login()
    try:
        config = json.loads(credentials.docker_config)
    except (ValueError, RecursionError):
        # The error would quote a password.
        raise AuthenticationFailed("the credentials are not JSON", hint=_HINT) from None
    entries = mapping(mapping(config).get("auths"))
    place = place.lower()
    # As kubelet does: the longest name wins, which may be that of a part of the registry.
    best = max(
        (key for key in entries if _covers(_normalized(key), place)),
        key=lambda key: len(_normalized(key)),
        default=None,
    )
    return _login(mapping(entries[best])) if best is not None else Login()


class Login(Struct, frozen=True):
    """Who pulls and pushes; each field is empty if it is not known."""

    username: str = ""
    password: str = ""
    bearer_token: str = ""
    """A token for the registry itself, which is sent unasked."""
    refresh_token: str = ""
    """A token that the registry's token server exchanges for another one."""

    __repr__ = hiding("username", "password", "bearer_token", "refresh_token")


def _normalized(key: str) -> str:
    name = key.lower().removeprefix("https://").rstrip("/")
    for end in ("/v1", "/v2"):
        name = name.removesuffix(end)
    return name


def _covers(name: str, place: str) -> bool:
    return bool(name) and (place == name or place.startswith(f"{name}/"))


def _login(entry: Mapping[str, object]) -> Login:
    username, password = text(entry, "username"), text(entry, "password")
    if auth := text(entry, "auth"):
        try:
            decoded = base64.b64decode(auth, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise AuthenticationFailed("the field auth is not base64", hint=_HINT) from None
        username, _, password = decoded.rstrip("\n").partition(":")
    return Login(
        username,
        password,
        text(entry, "registrytoken"),
        text(entry, "identitytoken"),
    )


# The user's own credentials for a registry, where ``docker login`` keeps them.
#
# The file is ``config.json`` in ``$DOCKER_CONFIG``, or in ``~/.docker``. Where it names a
# credential helper for the host, that program is asked, as docker asks it.


HELPER_TIMEOUT = 30.0
"""Seconds for one credential helper."""
_MAX_BYTES = 2**20
_FILE = "config.json"
_MOST_OF_A_LOGIN = 2**20
"""Bytes of a helper's answer."""
_HELPER = pattern(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def registry_login(
    host: str, environ: Mapping[str, str], where: str, timeout: float = HELPER_TIMEOUT
) -> SourceCredentials:
    """Return the credentials for a registry, ANONYMOUS if there are none.

    ``host`` has its port, if it is not 443. ``timeout`` is in seconds, for a helper. Raises
    AuthenticationFailed for ``where`` if the file is invalid, or a helper that it names fails.
    """
    home = environ.get("HOME")
    folder = environ.get("DOCKER_CONFIG") or (home and Path(home, ".docker"))
    if not folder:
        return ANONYMOUS
    path = Path(folder, _FILE)
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return ANONYMOUS
    except OSError as error:
        raise _config_unreadable(path, where, error.strerror or "") from None
    try:
        config = json.loads(data)
    except ValueError:
        raise _config_unreadable(path, where, "it is not JSON") from None
    if not isinstance(config, dict):
        raise _config_unreadable(path, where, "it is not a JSON object")
    if helper := _helper(config, host):
        login = _run_helper(helper, host, environ, where, timeout)
        if login is not None:
            # The file may have the same login for a token server on another host.
            return replace(login, docker_config=login.docker_config or data)
    return SourceCredentials(docker_config=data)


def _helper(config: Mapping[str, Any], host: str) -> str:
    """Return the name of the helper for a host, empty for none."""
    helpers = config.get("credHelpers")
    own = helpers.get(host) if isinstance(helpers, dict) else None
    name = own if own is not None else config.get("credsStore")
    return name if isinstance(name, str) else ""


def _run_helper(
    name: str, host: str, environ: Mapping[str, str], where: str, timeout: float
) -> SourceCredentials | None:
    """Return what a helper knows about a host; None if it has no credentials for it."""
    program = f"docker-credential-{name}"
    if _HELPER.fullmatch(name) is None:
        raise _helper_failed(where, program, "its name is invalid")
    try:
        ended = run_program(
            [program, "get"],
            env=environ,
            stdin=host.encode(),
            deadline=CLOCK.now() + timeout,
            max_output=_MOST_OF_A_LOGIN,
            cwd=None,
        )
    except TimeoutError:
        reason = f"it did not finish within {timeout:.3g} s"
        raise _helper_failed(where, program, reason) from None
    except OSError as error:
        raise _helper_failed(where, program, error.strerror or "") from None
    except TooMuchOutput:
        raise _helper_failed(where, program, "its answer is too long") from None
    if ended.code:
        if "credentials not found" in ended.stdout.decode("utf-8", "replace").lower():
            return None
        raise _helper_failed(where, program, f"it exited with code {ended.code}")
    try:
        reply = json.loads(ended.stdout)
        user, secret = reply["Username"], reply["Secret"]
    except (ValueError, TypeError, KeyError):
        raise _helper_failed(where, program, "its answer is invalid") from None
    if not (isinstance(user, str) and isinstance(secret, str)):
        raise _helper_failed(where, program, "its answer is invalid")
    if user == "<token>":
        # As docker stores it without a helper: a token for the registry's server of tokens.
        entry = {"auths": {host: {"identitytoken": secret}}}
        return SourceCredentials(docker_config=json.dumps(entry).encode())
    return SourceCredentials(username=user, password=secret)


def _config_unreadable(path: Path, where: str, reason: str) -> AuthenticationFailed:
    return AuthenticationFailed(
        f"{shown_path(str(path))} cannot be read",
        location=where,
        reason=reason,
        hint="It stores the credentials for registries: run `docker login` again.",
    )


def _helper_failed(where: str, program: str, reason: str) -> AuthenticationFailed:
    return AuthenticationFailed(
        f"the credential helper {shown_path(program)} failed",
        location=where,
        reason=reason,
        hint="Docker's config.json names it in credHelpers or credsStore. Check it with: "
        f"echo HOST | {shown_path(program)} get",
    )
