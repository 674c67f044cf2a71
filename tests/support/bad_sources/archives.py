"""Archives that become bad, or whose server does."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.support.archives import archive, member, packed, zeros
from tests.support.bad_sources.bad_source import BadSource, Body, both, one
from tests.support.bad_sources.git_servers import SHORT
from tests.support.bad_sources.servers import CAS, INTERVAL
from tests.support.tls_site import Answer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.bad_sources.servers import BadServers

_BOMB = 112 * 2**20
"""More bytes than an archive of 64 MiB in 20,000 files can have."""


def _file(servers: BadServers, name: str) -> Path:
    return servers.files / f"{name}.tar.gz"


def _begin(pinned: bool = False, **more: Any) -> Callable[[BadServers, str], Body]:
    def begin(servers: BadServers, name: str) -> Body:
        data = packed({f"web/{file}": content for file, content in both(name).items()})
        _file(servers, name).write_bytes(data)
        url = f"{servers.web.url}/{name}.tar.gz"
        digest = {"digest": f"sha256:{hashlib.sha256(data).hexdigest()}"} if pinned else {}
        given = {"url": url, "interval": INTERVAL, "certSecretRef": CAS, "path": "web"}
        return {"archive": {**given, **digest, **more}}

    return begin


def _data(
    reason: str, says: str, data: Callable[[str], bytes], *, pinned: bool = False
) -> BadSource:
    """Return an archive that is replaced by other data."""

    def spoil(servers: BadServers, name: str) -> None:
        _file(servers, name).write_bytes(data(name))

    return BadSource(reason, says, _begin(pinned), spoil)


def _member(says: str, *members: bytes) -> BadSource:
    """Return an archive that gets a bad member."""

    def data(name: str) -> bytes:
        good = member("web/a.yaml", one(name)["a.yaml"])
        return gzip.compress(archive([good, *members]))

    return _data("FetchFailed", says, data)


def _answer(reason: str, says: str, change: Callable[[Answer], Answer], **more: Any) -> BadSource:
    """Return an archive for which the server has another answer."""

    def spoil(servers: BadServers, name: str) -> None:
        data = packed({f"web/{file}": content for file, content in one(name).items()})
        servers.web.answers[f"/{name}.tar.gz"] = lambda _: change(Answer(200, data))

    return BadSource(reason, says, _begin(**more), spoil)


ARCHIVES: dict[str, BadSource] = {
    "above": _member("leads out of it", member("../b.yaml", b"x")),
    "absolute": _member("leads out of it", member("/etc/passwd", b"x")),
    "hard-link": _member("a hard link", member("l", kind=tarfile.LNKTYPE, link="web/a.yaml")),
    "device": _member("a device", member("d", kind=tarfile.CHRTYPE)),
    "twice": _member("two files of one name", member("web/a.yaml", b"x")),
    "bomb": _data("SourceTooLarge", "", lambda _: zeros(_BOMB)),
    "web-page": _data("FetchFailed", "archive", lambda _: b"<!doctype html>" + bytes(1000)),
    "other-digest": _data(
        "VerificationFailed",
        "another digest",
        lambda name: packed({f"web/{file}": data for file, data in one(name).items()}),
        pinned=True,
    ),
    "no-folder": _data("PathNotFound", "no such path", lambda name: packed(one(name))),
    "no-archive": _answer("FetchFailed", "404", lambda _: Answer(404)),
    "no-login": _answer("AuthenticationFailed", "401", lambda _: Answer(401)),
    "cut-archive": _answer(
        "FetchFailed", "cut off", lambda reply: replace(reply, cut=len(reply.body) // 2)
    ),
    "slow-archive": _answer(
        "FetchFailed", "", lambda reply: replace(reply, pause=1.0), timeout=SHORT
    ),
}
