"""One deadline, credentials for one host, and no address that is forbidden: on real connections."""

from __future__ import annotations

import gzip
import io
import ipaddress
import os
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trustme

from applyprune.addresses import AddressRules
from applyprune.clock import BOOT_CLOCK
from applyprune.errors import InputError
from applyprune.http import SILENCE, Patience
from applyprune.sources.tree import (
    AuthenticationFailed,
    FetchFailed,
    SourceCredentials,
    SourceTooLarge,
)
from applyprune.sources.web import MAX_TRIES, bearer, open_web
from tests.support.clocks import ManualClock
from tests.support.listening import silent_host, silent_port
from tests.support.tls_site import Answer, files_of, site
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from applyprune.clock import Clock
    from tests.support.tls_site import Call, Site

SECRET = "hunter2"
LOOPBACK = AddressRules((ipaddress.ip_network("127.0.0.1/32"),))


def get(
    url: str,
    ca: bytes,
    *,
    authorization: str = "",
    credentials: SourceCredentials | None = None,
    addresses: AddressRules | None = None,
    timeout: float = 600.0,
    clock: Clock = BOOT_CLOCK,
) -> bytes:
    with (
        open_web(
            url,
            timeout=timeout,
            credentials=credentials or SourceCredentials(ca=ca),
            addresses=addresses,
            clock=clock,
        ) as web,
        web.request("GET", url, authorization=authorization) as reply,
    ):
        assert reply.status == 200, reply.status
        return reply.read(2**20)


def failure(url: str, ca: bytes, **options: object) -> InputError:
    with pytest.raises(InputError) as caught:
        get(url, ca, **options)  # type: ignore[arg-type]
    return caught.value


def moved(to: str) -> Answer:
    return Answer(302, headers={"Location": to})


@pytest.mark.parametrize(
    ("answer", "kind", "expected"),
    {
        "not found": (Answer(404), FetchFailed, "the server answered 404 Not Found"),
        "broken": (Answer(500), FetchFailed, "the server answered 500 Internal Server Error"),
        "partial": (Answer(206), FetchFailed, "the server answered 206 Partial Content"),
        "strange": (Answer(799), FetchFailed, "the server answered 799"),
        "who are you": (Answer(401), AuthenticationFailed, "the server answered 401 Unauthorized"),
        "not you": (Answer(403), AuthenticationFailed, "the server answered 403 Forbidden"),
        "not changed": (Answer(304), FetchFailed, "the server answered 304"),
        "compressed": (
            Answer(body=gzip.compress(b"x"), headers={"Content-Encoding": "gzip"}),
            FetchFailed,
            "the reply is compressed",
        ),
        "no length": (Answer(body=b"x", length=""), FetchFailed, "does not send the length"),
        "two numbers": (Answer(body=b"x", length="1, 1"), FetchFailed, "does not send the length"),
        "a word": (Answer(body=b"x", length="one"), FetchFailed, "does not send the length"),
        "a coding of two": (
            Answer(body=b"x", headers={"Transfer-Encoding": "gzip, chunked"}),
            FetchFailed,
            "does not send the length",
        ),
        "short": (Answer(body=b"x", length="2"), FetchFailed, "was cut off"),
        "chunks cut": (
            Answer(body=b"1\r\nx\r\n", headers={"Transfer-Encoding": "chunked"}, length=""),
            FetchFailed,
            "was cut off",
        ),
        "to http": (
            Answer(302, headers={"Location": f"http://x/y?{SECRET}"}),
            FetchFailed,
            "redirected to http://x/y?…: only redirects to https:// are followed",
        ),
        "to a file": (
            Answer(302, headers={"Location": "file:///etc/passwd"}),
            FetchFailed,
            "only redirects to https:// are followed",
        ),
        "to nothing": (
            Answer(302, headers={"Location": "https://["}),
            FetchFailed,
            "only redirects to https:// are followed",
        ),
        "to no port": (
            Answer(302, headers={"Location": "https://x:99999/"}),
            FetchFailed,
            "only redirects to https:// are followed",
        ),
        "to itself": (Answer(302), FetchFailed, "redirect loop"),
        "too large": (Answer(body=bytes(2**16 + 1)), SourceTooLarge, "larger than 64 KiB"),
        "endless chunks": (
            Answer(
                body=b"10000\r\n%s\r\n" % bytes(2**16) * 3,
                headers={"Transfer-Encoding": "chunked"},
                length="",
            ),
            SourceTooLarge,
            "larger than 64 KiB",
        ),
    }.values(),
)
def test_bad_reply_is_refused(
    web_site: Site, answer: Answer, kind: type[InputError], expected: str
) -> None:
    """Each for its own reason; none as an empty or a smaller body."""
    web_site.answers["/a"] = lambda _: answer
    with pytest.raises(InputError) as caught:
        save(f"{web_site.url}/a?{SECRET}", web_site.ca)
    assert type(caught.value).kind == kind.kind
    assert expected in str(caught.value)
    assert SECRET not in str(caught.value)


def test_connection_cut_at_every_tenth_is_an_error(web_site: Site) -> None:
    data = os.urandom(1000)
    cuts = [len(data) * tenth // 10 for tenth in range(10)]
    web_site.answers["/a"] = lambda _: Answer(body=data, cut=cuts.pop())
    for _ in range(10):
        with pytest.raises(FetchFailed, match="was cut off"):
            save(f"{web_site.url}/a", web_site.ca)
    assert cuts == []


def save(url: str, ca: bytes) -> None:
    """Write at most 64 KiB of a URL to a file, as a source does."""
    with (
        open_web(url, timeout=600, credentials=SourceCredentials(ca=ca)) as web,
        web.request("GET", url) as reply,
    ):
        if reply.status != 200:
            raise reply.refusal()
        reply.save(io.BytesIO(), 2**16)


def test_authorization_that_no_header_can_have_is_refused(web_site: Site) -> None:
    odd = f"{SECRET}\r\nX-Other: 1"
    with pytest.raises(AuthenticationFailed) as caught:
        get(f"{web_site.url}/a", web_site.ca, authorization=bearer(odd))
    assert SECRET not in str(caught.value)
    assert web_site.calls == []


@pytest.mark.holds("authorization-of-one-host")
def test_authorization_goes_to_its_host_only(web_site: Site) -> None:
    """Not to another name of the same machine, and again to its own."""
    web_site.answers |= {
        "/a": lambda _: moved("/b"),
        "/b": lambda _: moved(f"{web_site.other_url}/c"),
        "/c": lambda _: moved(f"{web_site.url.upper().replace('HTTPS', 'https')}/d"),
        "/d": lambda _: Answer(body=b"x"),
    }
    assert get(f"{web_site.url}/a", web_site.ca, authorization="Bearer x") == b"x"
    sent = [call.headers.get("Authorization", "") for call in web_site.calls]
    assert sent == ["Bearer x", "Bearer x", "", "Bearer x"]


def test_authorization_goes_to_its_port_only(web_site: Site, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    with site(files_of(tmp_path), authority=web_site.authority) as other:
        web_site.answers["/a"] = lambda _: moved(f"{other.url}/a")
        assert get(f"{web_site.url}/a", web_site.ca, authorization="Bearer x") == b"x"
        assert "Authorization" not in other.calls[0].headers


def test_login_in_a_redirect_is_not_used(web_site: Site) -> None:
    """A server cannot make us send what it wants to another one."""
    web_site.answers |= {
        "/a": lambda _: moved(web_site.other_url.replace("//", "//me:hunter2@") + "/b"),
        "/b": lambda _: Answer(body=b"x"),
    }
    assert get(f"{web_site.url}/a", web_site.ca) == b"x"
    assert "Authorization" not in web_site.calls[1].headers


def test_cookies_are_never_sent_back(web_site: Site) -> None:
    web_site.answers |= {
        "/a": lambda _: Answer(302, headers={"Location": "/b", "Set-Cookie": "a=b"}),
        "/b": lambda _: Answer(body=b"x"),
    }
    get(f"{web_site.url}/a", web_site.ca)
    assert "Cookie" not in web_site.calls[1].headers


def test_five_redirects_are_followed_and_no_more(web_site: Site) -> None:
    for number in range(6):
        web_site.answers[f"/{number}"] = lambda call: moved(f"/{int(call.path[1:]) + 1}")
    web_site.answers["/6"] = lambda _: Answer(body=b"x")
    assert get(f"{web_site.url}/1", web_site.ca) == b"x"
    assert failure(f"{web_site.url}/0", web_site.ca).message == "more than 5 redirects"


def test_only_reading_requests_follow_redirects(web_site: Site) -> None:
    web_site.answers["/a"] = lambda _: moved("/b")
    url = f"{web_site.url}/a"
    with (
        open_web(url, timeout=600, credentials=SourceCredentials(ca=web_site.ca)) as web,
        web.request("PUT", url, body=b"x") as reply,
    ):
        assert reply.status == 302
    assert len(web_site.calls) == 1


def test_client_certificate_is_shown_to_its_host_only(tmp_path: Path) -> None:
    clients = trustme.CA()
    issued = clients.issue_cert("client.example")
    (tmp_path / "a").write_bytes(b"x")
    with site(files_of(tmp_path), clients=clients) as one:
        credentials = SourceCredentials(
            ca=one.ca,
            certificate=issued.cert_chain_pems[0].bytes(),
            key=issued.private_key_pem.bytes(),
        )
        one.answers["/r"] = lambda _: moved(f"{one.other_url}/a")
        assert get(f"{one.url}/r", b"", credentials=credentials) == b"x"
        assert [call.certificate for call in one.calls] == ["client.example", ""]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (SourceCredentials(ca=b"no PEM"), "the source's CA is not a PEM certificate"),
        (
            SourceCredentials(certificate=b"hunter2", key=b"hunter2"),
            "client certificate and its key",
        ),
    ],
)
def test_unusable_certificates_are_reported(
    web_site: Site, wrong: SourceCredentials, expected: str
) -> None:
    error = failure(f"{web_site.url}/a", b"", credentials=wrong)
    assert isinstance(error, AuthenticationFailed)
    assert expected in error.message
    assert "hunter2" not in str(error)


def test_expired_certificate_is_refused(tmp_path: Path) -> None:
    with site(files_of(tmp_path), expired=True) as one:
        error = failure(f"{one.url}/a", one.ca)
        assert one.calls == []
    assert isinstance(error, FetchFailed)
    assert error.message == f"the certificate of {one.host} is not trusted"
    assert error.reason == "certificate has expired"


def test_own_ca_replaces_those_of_the_system(web_site: Site) -> None:
    error = failure(f"{web_site.url}/a", trustme.CA().cert_pem.bytes())
    assert error.message == f"the certificate of {web_site.host} is not trusted"
    assert "SSL_CERT_FILE" in error.hint
    assert web_site.calls == []


@pytest.mark.holds("web-clock")
def test_busy_server_is_asked_again(web_site: Site) -> None:
    answers = [Answer(status) for status in (429, 502, 503, 504)]
    web_site.answers["/a"] = lambda _: answers.pop(0) if answers else Answer(body=b"x")
    clock = ManualClock()
    assert get(f"{web_site.url}/a", web_site.ca, clock=clock) == b"x"
    assert (len(web_site.calls), len(clock.waits)) == (5, 4)
    longest = (0.1, 0.2, 0.4, 0.8)
    assert all(most / 2 <= one <= most for one, most in zip(clock.waits, longest, strict=True))


def test_retry_after_is_obeyed(web_site: Site) -> None:
    answers = [Answer(429, headers={"Retry-After": "60"}), Answer(body=b"x")]
    web_site.answers["/a"] = lambda _: answers.pop(0)
    clock = ManualClock()
    assert get(f"{web_site.url}/a", web_site.ca, clock=clock) == b"x"
    (wait,) = clock.waits
    assert 60 <= wait <= 60.1


def test_longer_wait_than_the_deadline_is_an_error_at_once(web_site: Site) -> None:
    web_site.answers["/a"] = lambda _: Answer(503, headers={"Retry-After": "3600"})
    clock = ManualClock()
    error = failure(f"{web_site.url}/a", web_site.ca, clock=clock)
    assert error.message == "the server answered 503 Service Unavailable"
    assert "it asks to wait 3600 s, and 600 s are left" in error.reason
    assert (len(web_site.calls), clock.waits) == (1, [])


def test_server_that_stays_busy_ends_in_time(web_site: Site) -> None:
    """When a wait would take longer than is left, or after the last try."""
    trusted = SourceCredentials(ca=web_site.ca)
    # Four waits take 0.75 to 1.5 s, the fifth would take at least 0.8 s.
    for left, tries in ((1.525, 5), (600.0, MAX_TRIES)):
        clock = ManualClock()
        web_site.answers["/a"] = lambda _: Answer(503)
        with open_web(web_site.url, timeout=600, credentials=trusted, clock=clock) as web:
            clock.advance(600 - left)
            with web.request("GET", f"{web_site.url}/a") as reply:
                assert reply.status == 503
        assert len(web_site.calls) == tries
        web_site.calls.clear()


def test_dripping_server_times_out(web_site: Site) -> None:
    """The time is for all requests: a byte now and then does not restart it."""
    clock = ManualClock()
    drip = partial(clock.advance, 250)
    web_site.answers["/a"] = lambda _: Answer(body=bytes(1000), before_byte=drip)
    error = failure(f"{web_site.url}/a", web_site.ca, clock=clock)
    assert "sent no complete response in 600 s" in error.reason


@contextmanager
def stalling() -> Iterator[tuple[ManualClock, Callable[[], bool]]]:
    """Yield a clock, and what stalls a server while the clock goes on."""
    clock, ended = ManualClock(), threading.Event()

    def passes() -> bool:
        clock.advance(SILENCE)
        return ended.is_set()

    try:
        yield clock, lambda: eventually(passes)
    finally:
        ended.set()


def silence(site: Site, clock: Clock) -> str:
    """Return why a reply cannot be read that is small, and waited for with patience."""
    url, credentials = f"{site.url}/a", SourceCredentials(ca=site.ca)
    patience = Patience(SILENCE)
    with (
        open_web(url, timeout=1e9, credentials=credentials, clock=clock, patience=patience) as web,
        pytest.raises(FetchFailed) as caught,
        web.request("GET", url) as reply,
    ):
        reply.read(2**20)
    return caught.value.reason


@pytest.mark.holds("silent-server")
def test_silent_server_differs_from_one_that_stops(web_site: Site) -> None:
    """By what is waited for patiently only: a long download may pause."""
    host = web_site.host
    with stalling() as (clock, stall):
        web_site.answers["/a"] = lambda _: Answer(status=200 if stall() else 500)
        assert (
            silence(web_site, clock) == f"{host} accepted the connection and sent nothing for 15 s"
        )
    with stalling() as (clock, stall):
        web_site.answers["/a"] = lambda _: Answer(body=b"x", before_byte=stall)
        assert silence(web_site, clock) == f"{host} sent no more of its response for 15 s"


def test_handshake_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not as a response that is not complete, nor with the time of all of it."""
    monkeypatch.setattr("applyprune.http.CONNECT_TIMEOUT", 0.5)
    with silent_host() as silent:
        host = f"127.0.0.1:{silent.port}"
        error = failure(f"https://{host}/a", trustme.CA().cert_pem.bytes())
    text = f"{host} accepted the connection, and the TLS handshake took longer than 0.5 s"
    assert error.reason == text


def test_connection_is_kept_for_the_next_request(web_site: Site) -> None:
    """Also after a reply that nobody has read; a long one is not read for that."""
    clients: list[str] = []
    sizes = iter((10, 2**22, 10, 10))

    def answer(call: Call) -> Answer:
        clients.append(call.headers["User-Agent"])
        return Answer(404, bytes(next(sizes)))

    web_site.answers["/a"] = answer
    with open_web(web_site.url, timeout=600, credentials=SourceCredentials(ca=web_site.ca)) as web:
        for _ in range(4):
            with web.request("GET", f"{web_site.url}/a") as reply:
                assert reply.status == 404
    ports = [call.port for call in web_site.calls]
    assert (len(ports), len(set(ports))) == (4, 2)
    assert clients[0].startswith("applyprune/")


def test_full_disk_is_an_error_of_the_source(web_site: Site) -> None:
    """The kernel's own: every write to this device fails so."""
    web_site.answers["/a"] = lambda _: Answer(body=b"x")
    with (
        open_web(web_site.url, timeout=600, credentials=SourceCredentials(ca=web_site.ca)) as web,
        web.request("GET", f"{web_site.url}/a") as reply,
        Path("/dev/full").open("wb", buffering=0) as full,
        pytest.raises(FetchFailed) as caught,
    ):
        reply.save(full, 100)
    assert caught.value.message == "what was fetched cannot be stored"
    assert caught.value.reason == "No space left on device"


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("localhost", marks=pytest.mark.holds("checked-source-address")),
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
    ],
)
def test_refused_address_is_not_connected_to(web_site: Site, host: str) -> None:
    """However it is written; the message names the flag."""
    port = web_site.host.rpartition(":")[2]
    error = failure(f"https://{host}:{port}/a", web_site.ca, addresses=AddressRules())
    assert isinstance(error, FetchFailed)
    assert error.message == f"the name {host}:{port} means a loopback address"
    assert error.reason == "nothing was sent"
    assert "--allow-source-cidr" in error.hint
    assert web_site.calls == []


def test_redirect_to_a_refused_address_is_not_followed(web_site: Site) -> None:
    """Each host is checked, not only the first one."""
    port = web_site.host.rpartition(":")[2]
    web_site.answers["/a"] = lambda _: moved(f"https://127.0.0.2:{port}/b")
    error = failure(f"{web_site.other_url}/a", web_site.ca, addresses=LOOPBACK)
    assert error.message == f"the name 127.0.0.2:{port} means a loopback address"
    assert [call.path for call in web_site.calls] == ["/a"]


def test_allowed_address_is_connected_to(web_site: Site) -> None:
    web_site.answers["/a"] = lambda _: Answer(body=b"x")
    assert get(f"{web_site.other_url}/a", web_site.ca, addresses=LOOPBACK) == b"x"


@pytest.mark.parametrize("host", ["169.254.169.254", "0xa9fea9fe", "[fe80::1]"])
def test_proxy_is_not_asked_for_a_refused_address(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy resolves names itself, but an address needs no resolver."""
    monkeypatch.setenv("HTTPS_PROXY", "http://localhost:1")
    error = failure(
        f"https://{host}/a", b"", credentials=SourceCredentials(), addresses=AddressRules()
    )
    assert "means a link-local address" in error.message


def test_proxy_of_the_environment_may_be_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator has chosen it: the rules are for what others name."""
    with silent_port() as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://localhost:{port}")
        error = failure(
            "https://manifests.example/a",
            b"",
            credentials=SourceCredentials(),
            addresses=AddressRules(),
        )
    assert "the proxy failed" in error.reason
    assert "HTTPS_PROXY" in error.hint
