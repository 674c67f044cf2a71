"""A real registry behind a relay that does one thing wrong: an error that names it, in time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import pytest

from applyprune.errors import InputError
from applyprune.sources.address import OciRef
from applyprune.sources.oci_artifact import OciSource, fetch_artifact, find_artifact, push
from applyprune.sources.oci_registry import challenges, shares_domain
from applyprune.sources.tree import (
    AuthenticationFailed,
    FetchFailed,
    SourceCredentials,
    SourceTooLarge,
    VerificationFailed,
)
from applyprune.values import replace
from tests.support.artifacts import FILES, known, source_of
from tests.support.registries import PASSWORD
from tests.support.tls_site import Answer, passed_on, site
from tests.support.waiting import HANG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.registries import Registry
    from tests.support.tls_site import Answering, Call, Site

MANIFEST = "/v2/shop/web/manifests/1"


@dataclass(frozen=True, slots=True)
class Behind:
    """An artifact, as a client gets it through the relay."""

    relay: Site
    registry: Answering
    source: OciSource
    digest: str
    layer: str
    """The path of the layer's blob."""


@pytest.fixture
def behind(registry: Registry) -> Iterator[Behind]:
    pushed = source_of(registry, "shop/web:1")
    digest = push(pushed, FILES)
    manifest = json.loads(registry.blob(digest).read_bytes())
    layer = f"/v2/shop/web/blobs/{manifest['layers'][0]['digest']}"
    answers = passed_on(registry.host, registry.ca)
    with site(answers) as relay:
        source = replace(
            pushed, url=f"oci://{relay.host}/shop/web:1", credentials=known(relay.ca), timeout=HANG
        )
        yield Behind(relay, answers, source, digest, layer)


def failure(source: OciSource) -> InputError:
    with pytest.raises(InputError) as caught:
        fetch_artifact(source)
    assert PASSWORD not in str(caught.value)
    return caught.value


def changed(behind: Behind, path: str, change: Callable[[Answer], Answer]) -> None:
    """Let the relay change the registry's good replies for a path."""

    def answer(call: Call) -> Answer:
        reply = behind.registry(call)
        return change(reply) if reply.status == 200 else reply

    behind.relay.answers[path] = answer


def with_header(name: str, value: str) -> Callable[[Answer], Answer]:
    return lambda reply: replace(reply, headers={**reply.headers, name: value})


def asking(challenge: str) -> Answering:
    return lambda _: Answer(401, headers={"WWW-Authenticate": challenge})


def test_relay_alone_changes_nothing(behind: Behind) -> None:
    assert fetch_artifact(behind.source).files == FILES
    assert find_artifact(behind.source).digest == behind.digest


def test_manifest_with_another_digest_is_refused(behind: Behind) -> None:
    """By tag, the digest is the one that the registry states; a found one is known."""
    found = find_artifact(behind.source)
    longer = lambda reply: replace(reply, body=reply.body + b"\n")  # noqa: E731
    changed(behind, MANIFEST, longer)
    error = failure(behind.source)
    assert isinstance(error, VerificationFailed)
    assert error.message == "the manifest has another digest"
    changed(behind, f"/v2/shop/web/manifests/{behind.digest}", longer)
    with pytest.raises(VerificationFailed):
        fetch_artifact(behind.source, found)


def test_tag_that_moves_between_two_requests_is_refused(behind: Behind, registry: Registry) -> None:
    """The registry states the old digest, and sends the new manifest."""
    other = push(source_of(registry, "shop/web:2"), {"a.yaml": b"other"})
    changed(behind, MANIFEST, with_header("Docker-Content-Digest", other))
    assert isinstance(failure(behind.source), VerificationFailed)


def test_blob_with_another_digest_is_refused(behind: Behind) -> None:
    changed(behind, behind.layer, lambda reply: replace(reply, body=bytes(len(reply.body))))
    error = failure(behind.source)
    assert isinstance(error, VerificationFailed)
    assert error.message == "a blob has another digest"


@pytest.mark.parametrize("more", [b"x", bytes(10**6)])
def test_longer_blob_is_refused(behind: Behind, more: bytes) -> None:
    changed(behind, behind.layer, lambda reply: replace(reply, body=reply.body + more))
    error = failure(behind.source)
    assert isinstance(error, VerificationFailed)
    assert error.message == "a blob is longer than its manifest says"


def test_shorter_blob_is_refused(behind: Behind) -> None:
    changed(behind, behind.layer, lambda reply: replace(reply, body=reply.body[:-1]))
    assert isinstance(failure(behind.source), VerificationFailed)


def test_blob_cut_at_every_tenth_is_an_error(behind: Behind) -> None:
    tenths = list(range(10))
    changed(
        behind,
        behind.layer,
        lambda reply: replace(reply, cut=len(reply.body) * tenths.pop() // 10),
    )
    for _ in range(10):
        assert "was cut off" in str(failure(behind.source))
    assert tenths == []


def test_registry_that_states_no_digest_is_read(behind: Behind) -> None:
    """The manifest proves itself; a check then takes one request more."""

    def silent(reply: Answer) -> Answer:
        kept = {
            name: value
            for name, value in reply.headers.items()
            if name.lower() != "docker-content-digest"
        }
        return replace(reply, headers=kept)

    changed(behind, MANIFEST, silent)
    assert find_artifact(behind.source).digest == behind.digest
    assert fetch_artifact(behind.source).revision == f"1@{behind.digest}"


def test_registry_without_head_is_asked_with_get(behind: Behind) -> None:
    def answer(call: Call) -> Answer:
        return Answer(405) if call.method == "HEAD" else behind.registry(call)

    behind.relay.answers[MANIFEST] = answer
    assert find_artifact(behind.source).digest == behind.digest


@pytest.mark.parametrize(
    ("challenge", "expected"),
    [
        ('Basic realm="x"', "the server answered 401 Unauthorized"),
        ('Bearer realm="http://x/token"', "a token server that is not https://"),
        ('Bearer realm="x",service="y"', "a token server that is not https://"),
        ("Bearer", "a token server that is not https://"),
        ("Negotiate", "a login of an unknown kind"),
        ("", "a login of an unknown kind"),
    ],
)
def test_endless_question_ends(behind: Behind, challenge: str, expected: str) -> None:
    """After one answer at most."""
    behind.relay.answers[MANIFEST] = asking(challenge)
    error = failure(behind.source)
    assert isinstance(error, AuthenticationFailed)
    assert expected in error.message
    assert len(behind.relay.calls) <= 2


@pytest.mark.parametrize(
    ("answer", "kind", "expected"),
    [
        (Answer(401), AuthenticationFailed, "the server answered 401 Unauthorized"),
        (Answer(403), AuthenticationFailed, "the server answered 403 Forbidden"),
        (Answer(500), FetchFailed, "the server answered 500 Internal Server Error"),
        (Answer(body=b"<html>"), FetchFailed, "the registry's response is not JSON"),
        (Answer(body=b"[" * 10**5), FetchFailed, "the registry's response is not JSON"),
        (Answer(body=b"{}"), AuthenticationFailed, "the token server sends no token"),
        (Answer(body=b'{"token": 1}'), AuthenticationFailed, "the token server sends no token"),
        (Answer(body=b'{"token": "a\\r\\nb"}'), AuthenticationFailed, "the token is invalid"),
        (Answer(body=b" " * (2**20 + 1)), SourceTooLarge, "the response is larger than 1 MiB"),
        (
            Answer(body=b'{"token": "wrong"}'),
            AuthenticationFailed,
            "the server answered 401 Unauthorized",
        ),
    ],
)
def test_bad_token_server_is_reported(
    behind: Behind, answer: Answer, kind: type[InputError], expected: str
) -> None:
    challenge = f'Bearer realm="{behind.relay.url}/token?a=b",service="s s",scope="other"'
    behind.relay.answers |= {MANIFEST: asking(challenge), "/token": lambda _: answer}
    error = failure(behind.source)
    assert type(error).kind == kind.kind
    assert error.message == expected
    question, token, *_ = behind.relay.calls
    assert "Authorization" not in question.headers
    assert token.path == "/token?a=b&service=s+s&scope=repository%3Ashop%2Fweb%3Apull"
    assert token.headers["Authorization"].startswith("Basic ")
    assert len(behind.relay.calls) <= 3


def test_refresh_token_is_exchanged(behind: Behind) -> None:
    """It goes to the token server only, in a form; the registry gets what it is exchanged for."""
    realm = f"{behind.relay.url}/token"
    behind.relay.answers |= {
        MANIFEST: asking(f'Bearer realm="{realm}",service="s"'),
        "/token": lambda _: Answer(body=b'{"access_token": "exchanged"}'),
    }
    host = behind.source.url.removeprefix("oci://").partition("/")[0]
    config = json.dumps({"auths": {host: {"identitytoken": "refresh+me"}}}).encode()
    given = SourceCredentials(docker_config=config, ca=behind.relay.ca)
    assert isinstance(failure(replace(behind.source, credentials=given)), AuthenticationFailed)
    question, token, answer = behind.relay.calls
    assert "Authorization" not in question.headers
    assert (token.method, token.headers["Content-Type"]) == (
        "POST",
        "application/x-www-form-urlencoded",
    )
    assert dict(parse_qsl(token.body.decode())) == {
        "grant_type": "refresh_token",
        "refresh_token": "refresh+me",
        "service": "s",
        "scope": "repository:shop/web:pull",
        "client_id": "applyprune",
    }
    assert answer.headers["Authorization"] == "Bearer exchanged"


@pytest.mark.parametrize(
    "kind",
    [pytest.param("password", marks=pytest.mark.holds("token-server")), "entry", "refresh token"],
)
def test_credentials_do_not_go_to_a_token_server_elsewhere(behind: Behind, kind: str) -> None:
    """Unless the user has the same for its host: then it learns nothing new, nor does the registry.

    What the user has for that host alone would get a token that the registry must not see.
    """
    realm = f"{behind.relay.other_url}/token"
    behind.relay.answers |= {
        MANIFEST: asking(f'Bearer realm="{realm}",service="s"'),
        "/token": lambda _: Answer(body=b'{"token": "given"}'),
    }
    mine: dict[str, str] = {"username": "me", "password": PASSWORD}
    if kind == "refresh token":
        mine = {"identitytoken": PASSWORD}
    login = SourceCredentials(username="me", password=PASSWORD) if kind == "password" else None

    def sent(entry: dict[str, str] | None) -> InputError:
        auths = {} if login else {behind.relay.host: mine}
        if entry is not None:
            auths[behind.relay.other_url] = entry
        config = json.dumps({"auths": auths}).encode()
        given = replace(login or SourceCredentials(), docker_config=config, ca=behind.relay.ca)
        behind.relay.calls.clear()
        return failure(replace(behind.source, credentials=given))

    for other in (None, {**mine, "username": "you", "identitytoken": "other"}, {}):
        error = sent(other)
        assert error.message == (
            f"the registry redirects to a token server on another host: {realm}"
        )
        assert error.reason == "the credentials for localhost are not sent to it"
        assert "add them to auths for 127.0.0.1" in error.hint
        assert [call.path for call in behind.relay.calls] == [MANIFEST]
    sent(mine)
    question, token, answer = behind.relay.calls
    assert "Authorization" not in question.headers
    assert PASSWORD in token.body.decode() or "Authorization" in token.headers
    assert answer.headers["Authorization"] == "Bearer given"


def test_token_server_elsewhere_is_asked_by_nobody(behind: Behind) -> None:
    """Who has no credentials gets its token for everybody."""
    realm = f"{behind.relay.other_url}/token"
    behind.relay.answers |= {
        MANIFEST: asking(f'Bearer realm="{realm}"'),
        "/token": lambda _: Answer(body=b'{"token": "given"}'),
    }
    given = SourceCredentials(ca=behind.relay.ca)
    assert isinstance(failure(replace(behind.source, credentials=given)), AuthenticationFailed)
    _, token, answer = behind.relay.calls
    assert "Authorization" not in token.headers
    assert answer.headers["Authorization"] == "Bearer given"


@pytest.mark.parametrize(
    ("registry", "host", "expected"),
    [
        ("ghcr.io", "ghcr.io", True),
        ("registry-1.docker.io", "auth.docker.io", True),
        ("registry.gitlab.com", "gitlab.com", True),
        ("registry.digitalocean.com", "api.digitalocean.com", True),
        ("registry.cn-hangzhou.aliyuncs.com", "dockerauth.cn-hangzhou.aliyuncs.com", True),
        ("registry.example.co.uk", "gitlab.example.co.uk", True),
        ("example.io", "auth.example.io", True),
        ("example.co.uk", "auth.example.co.uk", True),
        ("example.io", "evil.io", False),
        ("example.co.uk", "evil.co.uk", False),
        ("registry.example.com", "registry.example.com.evil.net", False),
        ("registry.example.com", "evilexample.com", False),
        ("registry.example.com", "example.net", False),
        ("rg.fr-par.scw.cloud", "api.scaleway.com", False),
        ("registry", "registry", True),
        ("registry", "evil", False),
        ("localhost", "127.0.0.1", False),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "2.0.0.1", False),
        ("::1", "::1", True),
    ],
)
def test_token_server_of_the_registry(registry: str, host: str, expected: bool) -> None:
    assert shares_domain(registry, host) is expected


def test_token_for_the_registry_is_sent_unasked(behind: Behind) -> None:
    """And is not replaced by a password."""
    given = SourceCredentials(bearer_token="mine", ca=behind.relay.ca)
    assert isinstance(failure(replace(behind.source, credentials=given)), AuthenticationFailed)
    assert behind.relay.calls[0].headers["Authorization"] == "Bearer mine"


@pytest.mark.holds("question-of-another-host")
def test_question_of_another_host_is_not_answered(behind: Behind) -> None:
    """A redirect must not lead to a host that then asks for the password."""
    elsewhere = f"{behind.relay.other_url}/elsewhere"
    behind.relay.answers |= {
        MANIFEST: lambda _: Answer(307, headers={"Location": elsewhere}),
        "/elsewhere": asking(f'Bearer realm="{behind.relay.url}/token"'),
    }
    assert isinstance(failure(behind.source), AuthenticationFailed)
    assert [call.path for call in behind.relay.calls] == [MANIFEST, "/elsewhere"]


def test_busy_registry_is_asked_again(behind: Behind) -> None:
    waits = [Answer(429, headers={"Retry-After": "0"}), Answer(503)]

    def answer(call: Call) -> Answer:
        return waits.pop() if waits else behind.registry(call)

    behind.relay.answers[MANIFEST] = answer
    assert fetch_artifact(behind.source).files == FILES


def test_busy_registry_that_asks_for_more_than_there_is_ends_at_once(behind: Behind) -> None:
    behind.relay.answers[MANIFEST] = lambda _: Answer(429, headers={"Retry-After": "3600"})
    error = failure(behind.source)
    assert error.message == "the server answered 429 Too Many Requests"
    assert "it asks to wait 3600 s" in error.reason
    assert len(behind.relay.calls) == 1


def test_dripping_registry_ends_in_time(behind: Behind) -> None:
    changed(behind, behind.layer, lambda reply: replace(reply, pause=0.05))
    assert isinstance(failure(replace(behind.source, timeout=1.0)), FetchFailed)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "the manifest is not JSON"),
        (b"[" * 10**5, "the manifest is not JSON"),
        (b"[]", "not one of schema version 2"),
        (b'{"schemaVersion": 1}', "not one of schema version 2"),
        (b'{"schemaVersion": 2, "mediaType": "x\\u001b"}', r"unknown type of manifest: x\x1b"),
        (b'{"schemaVersion": 2}', "the manifest has no layers"),
        (b'{"schemaVersion": 2, "layers": {}}', "the manifest has no layers"),
        (b'{"schemaVersion": 2, "layers": [], "manifests": []}', "this is an index"),
        (b'{"schemaVersion": 2, "layers": [1]}', "a descriptor has no valid digest or size"),
        (
            b'{"schemaVersion": 2, "layers": [{"digest": "sha512:00", "size": 1}]}',
            "a descriptor has no valid digest or size",
        ),
        (
            b'{"schemaVersion": 2, "layers": [{"digest": "sha256:%s", "size": -1}]}' % (b"0" * 64),
            "a descriptor has no valid digest or size",
        ),
    ],
)
def test_invalid_manifest_is_refused(behind: Behind, body: bytes, expected: str) -> None:
    kind = {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}
    behind.relay.answers[MANIFEST] = lambda _: Answer(body=body, headers=kind)
    error = failure(behind.source)
    assert type(error).kind == FetchFailed.kind
    assert expected in error.message


def test_large_manifest_is_refused(behind: Behind) -> None:
    behind.relay.answers[MANIFEST] = lambda _: Answer(body=bytes(2**22 + 1))
    assert isinstance(failure(behind.source), SourceTooLarge)


@pytest.mark.parametrize(
    ("answer", "kind", "expected"),
    [
        (
            lambda _: Answer(
                body=b'{"tags": []}', headers={"Link": '<https://other.example/>; rel="next"'}
            ),
            FetchFailed,
            "a list continues on another host: https://other.example/",
        ),
        (
            lambda _: Answer(
                body=json.dumps({"tags": ["x"] * 10_000}).encode(),
                headers={"Link": '<?last=x>; rel="next"'},
            ),
            SourceTooLarge,
            "the repository has more than 100000 tags",
        ),
        (lambda _: Answer(body=b"x"), FetchFailed, "the registry's response is not JSON"),
    ],
    ids=["elsewhere", "endless", "not JSON"],
)
def test_bad_list_of_tags_is_refused(
    behind: Behind, answer: Answering, kind: type[InputError], expected: str
) -> None:
    behind.relay.answers["/v2/shop/web/tags/list"] = answer
    url = behind.source.url.removesuffix(":1")
    error = failure(replace(behind.source, url=url, ref=OciRef(semver="1.x")))
    assert type(error).kind == kind.kind
    assert error.message == expected


def test_error_of_the_registry_names_its_code(behind: Behind) -> None:
    """And nothing else of what it says."""
    body = json.dumps({"errors": [{"code": "DENIED", "message": "\x1b hunter2"}]}).encode()
    behind.relay.answers[MANIFEST] = lambda _: Answer(403, body)
    error = failure(behind.source)
    assert (error.message, error.reason) == ("the server answered 403 Forbidden", "DENIED")
    odd = json.dumps({"errors": [{"code": "no code \x1b"}]}).encode()
    behind.relay.answers[MANIFEST] = lambda _: Answer(403, odd)
    assert failure(behind.source).reason == ""


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", {}),
        ("Basic", {"basic": {}}),
        ('Basic realm="a, b"', {"basic": {"realm": "a, b"}}),
        (
            'Bearer realm="https://x/t",service="s",scope="repository:a:pull,push"',
            {
                "bearer": {
                    "realm": "https://x/t",
                    "service": "s",
                    "scope": "repository:a:pull,push",
                }
            },
        ),
        ("bearer realm=x , service=y", {"bearer": {"realm": "x", "service": "y"}}),
        (
            'Basic realm="a", Bearer realm="b"',
            {"basic": {"realm": "a"}, "bearer": {"realm": "b"}},
        ),
        ('Negotiate, Basic realm="a"', {"basic": {"realm": "a"}}),
        ('Bearer realm="a",realm="b"', {"bearer": {"realm": "a"}}),
        ('Bearer realm="unfinished', {"bearer": {}}),
        ("Bearerx realm=a", {}),
    ],
)
def test_challenges_are_parsed(header: str, expected: object) -> None:
    assert challenges(header) == expected
