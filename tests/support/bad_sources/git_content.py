"""Bad content of a Git repository: one commit has all of it, each below another path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.bad_sources.bad_source import BadSource, Body, both, one
from tests.support.bad_sources.servers import INTERVAL, KEYS, LOGIN
from tests.support.encryption import encrypt
from tests.support.git_servers import LFS_POINTER, LINK, SUBMODULE
from tests.support.remote_bundles import file_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.bad_sources.servers import BadServers

_GONE: Mapping[str, None] = {"a.yaml": None, "b.yaml": None}
_COMMIT = "1" * 40
_LARGE = 65 * 2**20


def _begin(servers: BadServers, name: str) -> Body:
    servers.files_of_content |= {f"{name}/{file}": data for file, data in both(name).items()}
    return _source(servers, name)


def _source(servers: BadServers, name: str) -> Body:
    url = servers.git.url("content")
    ref = {"branch": "main"}
    return {"git": {"url": url, "ref": ref, "path": name, "interval": INTERVAL, "secretRef": LOGIN}}


def _content(
    reason: str,
    says: str,
    files: Mapping[str, str | bytes | None],
    mode: str = "",
    *,
    keeps: bool = True,
) -> BadSource:
    """Return a source whose second file is replaced by some files, perhaps with a mode."""

    def spoil(servers: BadServers, name: str) -> None:
        bad = {"b.yaml": None, **one(name), **files}
        servers.files_of_content |= {f"{name}/{file}".rstrip("/"): bad[file] for file in bad}
        if mode:
            servers.modes_of_content |= {f"{name}/{file}": mode for file in files}

    return BadSource(reason, says, _begin, spoil, keeps=keeps)


def _not_utf8(servers: BadServers, name: str) -> None:
    servers.files_of_content[f"{name}/b.yaml"] = None
    servers.raw_content.append(b'M 100644 inline "%s/\\377.yaml"\ndata 1\nx\n' % name.encode())


def _sealed(servers: BadServers, name: str, file: str) -> bytes:
    rules = ("--age", servers.key.recipient, "--encrypted-regex", "^data$")
    return encrypt(servers.components, file_of(f"{name}-{file}"), *rules)


def _begin_sealed(servers: BadServers, name: str) -> Body:
    files = {f"{name}/{file}.yaml": _sealed(servers, name, file) for file in "ab"}
    servers.files_of_content |= files
    return _source(servers, name)


def _edit(servers: BadServers, name: str) -> None:
    sealed = _sealed(servers, name, "a")
    edited = sealed.replace(f"name: {name}-a".encode(), f"name: {name}-c".encode())
    assert edited != sealed
    servers.files_of_content |= {f"{name}/a.yaml": edited, f"{name}/b.yaml": None}


CONTENT: dict[str, BadSource] = {
    "missing-path": _content("PathNotFound", "no path", _GONE),
    "path-is-a-file": _content("InvalidSource", "", {**_GONE, "": "not a manifest"}),
    "link": _content("FetchFailed", "link/l.yaml is a symbolic link", {"l.yaml": "a.yaml"}, LINK),
    "link-out": _content("FetchFailed", "is a symbolic link", {"out": "../../.."}, LINK),
    "submodule": _content("FetchFailed", "is a submodule", {"s": _COMMIT}, SUBMODULE),
    "lfs": _content("FetchFailed", "is a pointer of Git LFS", {"l.yaml": LFS_POINTER}),
    "case": _content("FetchFailed", "differ only in case", {"A.yaml": "x"}),
    "not-utf8": BadSource("FetchFailed", "is not UTF-8", _begin, _not_utf8),
    "large": _content("SourceTooLarge", "larger than 64 MiB", {"z": bytes(_LARGE)}),
    "invalid": _content("InvalidSource", "b.yaml", {"b.yaml": "kind: ["}),
    "edited": BadSource(
        "DecryptionFailed",
        "it was changed after its encryption",
        _begin_sealed,
        _edit,
        {"decryption": {"provider": "sops", "secretRef": KEYS}},
    ),
    "not-decrypted": BadSource(
        "DecryptionFailed",
        "spec.decryption is not set",
        _begin,
        _begin_sealed,
    ),
}
