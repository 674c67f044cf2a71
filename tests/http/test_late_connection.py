"""A connection whose caller leaves before it is there."""

from __future__ import annotations

import socket
from threading import Event

import pytest

from applyprune.http import DeadlineHTTPConnection, Stopped, one_try
from tests.support.waiting import HANG, eventually


@pytest.mark.parametrize("failure", [None, OSError("no handshake")], ids=["success", "failure"])
def test_socket_of_a_connection_is_closed_by_the_thread_that_connects(
    failure: OSError | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the caller, who may close another one that has got the same number."""
    ours, theirs = socket.socketpair()
    began, ends = Event(), Event()
    connection = DeadlineHTTPConnection("127.0.0.1")

    def connect(self: DeadlineHTTPConnection) -> None:
        self.sock = ours
        began.set()
        assert ends.wait(HANG)
        if failure:
            raise failure

    monkeypatch.setattr("urllib3.connection.HTTPConnection.connect", connect)
    with one_try(HANG, began.is_set), pytest.raises(Stopped):
        connection.connect()
    connection.close()
    assert ours.fileno() != -1
    ends.set()
    eventually(lambda: ours.fileno() == -1, lambda: "the end of the socket")
    theirs.close()
