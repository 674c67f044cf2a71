"""Requests to one repository of a registry, with the login that the registry asks for.

Nothing is sent unasked but a token that the user has for this registry. A registry asks once: a
second 401 is the end.
"""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from applyprune.errors import InputError
from applyprune.model.json_access import items, mapping, text
from applyprune.sources.oci.docker_config import login_for
from applyprune.sources.remote.fetch_errors import AuthenticationFailed, FetchFailed
from applyprune.sources.remote.url import is_https, joined, origin_of, shown_url
from applyprune.sources.remote.web import basic, bearer
from applyprune.values import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from applyprune.sources.oci.reference import Reference
    from applyprune.sources.remote.source_credentials import Credentials
    from applyprune.sources.remote.web import Web
    from applyprune.sources.remote.web_reply import Reply

PULL = "pull"
PULL_AND_PUSH = "pull,push"

_MOST_JSON = 4 * 2**20
_MOST_TOKEN = 2**20
_MOST_ERROR = 16 * 2**10
_LONGEST_CHALLENGE = 8 * 2**10
_SCHEME = pattern(r"(?:^|,)\s*(Bearer|Basic)(?=\s|,|$)", re.IGNORECASE)
_PARAMETER = pattern(r'\s*,?\s*([A-Za-z_]+)\s*=\s*(?:"([^"\\]*)"|([^\s",]+))')
_CODE = pattern(r"[A-Z][A-Z_]{1,40}")
_NEXT = pattern(r'\s*<([^<>]+)>\s*;\s*rel="?next"?')


class Registry:
    """One repository of a registry, for as long as a source is read or written."""

    def __init__(
        self, web: Web, reference: Reference, credentials: Credentials, actions: str
    ) -> None:
        """Keep the settings; ``actions`` is PULL or PULL_AND_PUSH. Raises AuthenticationFailed."""
        self._web = web
        self._base = f"https://{reference.host}/v2/{reference.repository}/"
        self._origin = origin_of(self._base)
        self._scope = f"repository:{reference.repository}:{actions}"
        self._login = login_for(reference, credentials)
        self._authorization = bearer(self._login.bearer_token)
        self._has_asked = False

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
            reply = stack.enter_context(self._sent(method, url, headers, body))
            if self._is_question(reply):
                challenge = reply.header("WWW-Authenticate")
                stack.close()
                self._has_asked = True
                self._authorization = self._answer(challenge)
                reply = stack.enter_context(self._sent(method, url, headers, body))
            yield reply

    def check_time(self) -> None:
        """Raise FetchFailed if the time for the source has passed."""
        self._web.check_time()

    def _sent(
        self, method: str, url: str, headers: Mapping[str, str] | None, body: bytes | None
    ) -> AbstractContextManager[Reply]:
        is_own = origin_of(url) == self._origin
        authorization = self._authorization if is_own else ""
        return self._web.request(
            method, url, authorization=authorization, headers=headers, body=body
        )

    def _is_question(self, reply: Reply) -> bool:
        """Return whether the registry itself asks who we are, for the first time."""
        # guard: question-of-another-host
        is_own = origin_of(reply.url) == self._origin
        return is_own and reply.status == 401 and not self._has_asked

    def _answer(self, challenge: str) -> str:
        """Return the authorization that a challenge asks for; raises AuthenticationFailed."""
        asked = challenges(challenge)
        login = basic(self._login.username, self._login.password)
        if "bearer" in asked:
            return self._token(asked["bearer"], login)
        if "basic" in asked and login:
            return login
        if "basic" in asked:
            raise AuthenticationFailed(
                "the registry asks for a user and a password",
                hint="Give the credentials for this host.",
            )
        raise AuthenticationFailed("the registry asks for a login of an unknown kind")

    def _token(self, asked: Mapping[str, str], login: str) -> str:
        realm = asked.get("realm", "")
        if not is_https(realm):
            raise AuthenticationFailed(
                "the registry sends us to a token server that is not https://",
                reason=shown_url(realm),
            )
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


def read_json(reply: Reply, limit: int = _MOST_JSON) -> object:
    """Return the JSON of a reply of at most ``limit`` bytes; raises FetchFailed, SourceTooLarge."""
    data = reply.read(limit)
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise FetchFailed("the registry's response is not JSON") from None


def error_code(reply: Reply) -> str:
    """Return the code of a registry's error, such as ``MANIFEST_UNKNOWN``; empty if it has none."""
    try:
        errors = items(mapping(read_json(reply, _MOST_ERROR)), "errors")
    except InputError:
        return ""
    code = text(mapping(errors[0]), "code") if errors else ""
    return code if _CODE.fullmatch(code) else ""


def refused(reply: Reply) -> InputError:
    """Return the error for a reply with another status than the expected one."""
    return reply.refusal(reason=error_code(reply))


def next_page(reply: Reply) -> str:
    """Return the URL of the next page of a list; empty for the last. Raises FetchFailed."""
    found = _NEXT.match(reply.header("Link"))
    if found is None:
        return ""
    url = joined(reply.url, str(found[1]))
    if not is_https(url) or origin_of(url) != origin_of(reply.url):
        raise FetchFailed(f"a list goes on at another host: {shown_url(url)}")
    return url


def _with_query(url: str, query: Mapping[str, str]) -> str:
    parts = urlsplit(url)
    own = [(key, value) for key, value in parse_qsl(parts.query) if key not in query]
    return urlunsplit(parts._replace(query=urlencode([*own, *query.items()]), fragment=""))
