"""What git and ssh write means one of the reasons, whatever words the other side chose."""

from __future__ import annotations

import signal

import pytest

from applyprune.errors import InputError
from applyprune.sources.git_program import failure
from applyprune.sources.tree import AuthenticationFailed, FetchFailed, PathNotFound, SourceTooLarge

URL = "https://h.example/tls-certificate.git/"


@pytest.mark.parametrize(
    ("err", "kind"),
    [
        (f"fatal: Authentication failed for '{URL}'", AuthenticationFailed),
        (
            f"fatal: could not read Username for '{URL}': terminal prompts disabled",
            AuthenticationFailed,
        ),
        (
            f"fatal: unable to access '{URL}': The requested URL returned error: 403",
            AuthenticationFailed,
        ),
        ("git@h: Permission denied (publickey).", AuthenticationFailed),
        ("Host key verification failed.", AuthenticationFailed),
        (f"fatal: unable to access '{URL}': The requested URL returned error: 500", FetchFailed),
        (f"fatal: unable to access '{URL}': SSL certificate problem: expired", FetchFailed),
        (f"fatal: repository '{URL}' not found", FetchFailed),
        ("fatal: couldn't find remote ref refs/heads/x", PathNotFound),
        ("fatal: remote error: upload-pack: not our ref 12", PathNotFound),
        ("error: Server does not allow request for unadvertised object 12", PathNotFound),
        ("fatal: write error: File too large", SourceTooLarge),
        ("error: index-pack died of signal 24", SourceTooLarge),
        ("fatal: Out of memory, malloc failed (tried to allocate 1 bytes)", SourceTooLarge),
        ("fatal: write error: No space left on device", FetchFailed),
        ("GnuTLS recv error (-110): The TLS connection was non-properly terminated.", FetchFailed),
        ("fatal: the remote end hung up unexpectedly", FetchFailed),
        ("fatal: early EOF", FetchFailed),
        ("something new", FetchFailed),
        ("", FetchFailed),
    ],
)
def test_message_has_one_meaning(err: str, kind: type[InputError]) -> None:
    error = failure(err, 128, "place")
    assert type(error) is kind
    assert error.reason
    assert str(error).startswith("place: ")


@pytest.mark.parametrize(
    "err",
    [
        "fatal: unable to access '…': Operation too slow. Less than 1 bytes/sec transferred",
        "Connection timed out during banner exchange\nfatal: Could not read from remote",
    ],
)
def test_silence_of_a_server_is_named(err: str) -> None:
    """By git over HTTPS, and by ssh: not as a host that cannot be reached."""
    reason = "the server accepted the connection and sent nothing for 15 s"
    assert failure(err, 128, "place").reason == reason


def test_words_of_the_server_decide_nothing() -> None:
    """What it sends as a message is not what git says."""
    err = "remote: Authentication failed for you\nremote: No space left\nfatal: early EOF\n"
    error = failure(err, 128, "place")
    assert (type(error), error.reason) == (FetchFailed, "the connection was cut off")


@pytest.mark.parametrize(
    "err",
    [
        "fatal: odd thing at 'https://me:hunter2@h/a?token=hunter2'",
        "fatal: odd thing at https://me:hunter2@h/a",
        "fatal: odd file /tmp/hunter2/x",
        'fatal: odd "hunter2"',
        "remote: hunter2",
    ],
)
def test_unknown_message_shows_no_name(err: str) -> None:
    assert "hunter2" not in str(failure(err, 128, "place"))


@pytest.mark.parametrize("number", [signal.SIGXCPU, signal.SIGXFSZ])
def test_exceeded_limit_is_too_large(number: signal.Signals) -> None:
    assert type(failure("", -number, "place")) is SourceTooLarge
