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


READ = "fatal: Could not read from remote repository.\n\nPlease make sure you have …\n"
NO_KEY = (
    "No ED25519 host key is known for […]:22 and you have requested strict checking.\r\n"
    "Host key verification failed.\r\n"
)
CHANGED = (
    "@@@@@@@@@@@@@@@@@@@@@@\r\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n"
    "The fingerprint for the ED25519 key sent by the remote host is\nSHA256:x.\r\n"
    "Host key for … has changed and you have requested strict checking.\r\n"
    "Host key verification failed.\r\n"
)
# As OpenSSH writes them, after the names of the host were taken out.
OF_SSH = [
    ("Connection timed out during banner exchange\r\n", "sent nothing", "banner exchange", ""),
    ("ssh: connect to host … port 22: Connection refused\r\n", "cannot be reached", "refused", ""),
    (
        "ssh: connect to host … port 22: Connection timed out\r\n",
        "cannot be reached",
        "ssh: connect to host … port 22: Connection timed out",
        "the network",
    ),
    (
        "ssh: Could not resolve hostname …: Name or service not known\r\n",
        "the name of the server cannot be resolved",
        "Could not resolve hostname …: Name or service not known",
        "Check the URL",
    ),
    (NO_KEY, "known_hosts names", "strict checking; Host key verification failed", "ssh-keyscan"),
    (CHANGED, "known_hosts names", "has changed and you have requested", "ssh-keyscan"),
    (
        "me@h: Permission denied (publickey).\r\n",
        "refuses the credentials",
        "ssh says: Permission denied (publickey)",
        "Check the credentials",
    ),
    (
        (
            'Load key "/tmp/x/identity": error in libcrypto\r\n'
            "me@h: Permission denied (publickey).\r\n"
        ),
        "refuses the credentials",
        "Load key …: error in libcrypto; Permission denied (publickey)",
        "",
    ),
    (
        (
            "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures\r\n"
            "Disconnected from 10.0.0.1 port 22\r\n"
        ),
        "refuses the credentials",
        "Too many authentication failures; Disconnected from",
        "Check the credentials",
    ),
    (
        (
            "kex_exchange_identification: Connection closed by remote host\r\n"
            "Connection closed by 10.0.0.1 port 22\r\n"
        ),
        "cut off",
        "kex_exchange_identification: Connection closed by remote host; Connection closed by",
        "",
    ),
    (
        (
            "kex_exchange_identification: read: Connection reset by peer\r\n"
            "Connection reset by 10.0.0.1 port 22\r\n"
        ),
        "cut off",
        "read: Connection reset by peer",
        "",
    ),
    (
        (
            "kex_exchange_identification: banner line contains invalid characters\r\n"
            "banner exchange: Connection to 10.0.0.1 port 22: invalid format\r\n"
        ),
        "does not speak SSH",
        "invalid characters",
        "the port",
    ),
    (
        (
            "Unable to negotiate with 10.0.0.1 port 22: no matching host key type found. "
            "Their offer: ssh-rsa\r\n"
        ),
        "no algorithm in common",
        "Their offer: ssh-rsa",
        "Update the server",
    ),
    ("Timeout, server … not responding.\r\n", "cut off", "Timeout, server … not responding", ""),
    (
        (
            "** WARNING: connection is not using a post-quantum key exchange algorithm.\r\n"
            "client_loop: send disconnect: Broken pipe\r\n"
        ),
        "cut off",
        "ssh says: client_loop: send disconnect: Broken pipe",
        "",
    ),
    (
        "/tmp/x/ssh_config: line 3: Bad configuration option: foo\r\n",
        "ssh says:",
        "line 3: Bad configuration option: foo",
        "git ls-remote",
    ),
]


@pytest.mark.parametrize(("log", "meaning", "words", "hint"), OF_SSH)
def test_own_words_of_ssh_are_kept(log: str, meaning: str, words: str, hint: str) -> None:
    """After what they mean, where that is known; of the user that they name, nothing."""
    error = failure(READ, 128, "place", log)
    assert meaning in error.reason
    assert words in error.reason.partition("ssh says: ")[2] or words in error.reason
    assert hint in error.hint
    for unsaid in ("me@", "/tmp", "Could not read from remote", "WARNING", "\r", "\n"):
        assert unsaid not in error.reason


def test_ssh_without_a_user_says_so() -> None:
    """Where its user ID has no entry in /etc/passwd, it has no log yet."""
    error = failure(f"No user exists for uid 65532\r\n{READ}", 128, "place")
    assert error.reason == (
        "ssh needs an entry in /etc/passwd for the user that runs it; "
        "ssh says: No user exists for uid 65532"
    )
    assert "65532" in error.hint
    assert "mount an /etc/passwd" in error.hint


def test_ssh_that_has_said_nothing_is_not_quoted() -> None:
    assert failure(READ, 128, "place").reason == "Could not read from remote repository."


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
