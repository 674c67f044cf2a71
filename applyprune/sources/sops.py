"""Decrypt what SOPS has encrypted, by the ``sops`` program: which files, and with which keys.

sops gets its input by a pipe and its keys by its environment: nothing decrypted is ever on a disk.
It gets no network: the keys of clouds and of Vault are left out of what it reads.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import enum
import json
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from applyprune.clock import CLOCK
from applyprune.sources.documents import read_documents
from applyprune.sources.tree import DecryptionFailed, FetchFailed, SourceTooLarge
from applyprune.sources.yaml import Allowance, YAMLFault
from applyprune.system.memory_files import memory_file
from applyprune.system.processes import ProcessLimits, TooMuchOutput, run_program
from applyprune.values import hiding, pattern

if TYPE_CHECKING:
    from collections.abc import Iterator


DECRYPT_TIMEOUT = 60.0
"""Seconds for all files of one source."""
SIZE = 64 * 2**20
"""Bytes of one file, decrypted."""


def decrypt(
    files: Mapping[str, bytes],
    keys: Mapping[str, bytes],
    *,
    timeout: float = DECRYPT_TIMEOUT,
    size: int = SIZE,
    program: str = "sops",
) -> dict[str, bytes]:
    """Return all files, by their path, with those decrypted that SOPS has encrypted.

    ``keys`` is the data of the Secret. ``timeout`` is in seconds, for all files; ``size`` in bytes,
    for each. Raises DecryptionFailed for the first file that cannot be decrypted,
    SourceTooLarge, and FetchFailed if no folder can be written; then no file may be used.
    """
    found: dict[str, tuple[Part, ...]] = {}
    for path, data in files.items():
        try:
            parts = parts_of(path, data)
        except Undecryptable as error:
            raise _failure(path, str(error)) from None
        if any(part.format for part in parts):
            found[path] = parts
    if not found:
        return dict(files)
    path_of_program = shutil.which(program)
    if path_of_program is None:
        raise DecryptionFailed(
            f"{len(found)} encrypted files need sops, and it is not installed",
            location=next(iter(found)),
            hint="Install sops 3.8 or newer (https://getsops.io), or use an image that has it.",
        )
    try:
        usable = sops_keys(keys)
    except UnusableKeys as error:
        raise DecryptionFailed(str(error), hint=error.hint) from None
    deadline = CLOCK.now() + timeout
    with (
        _Sops(path_of_program, usable, deadline, size) as sops,
        ThreadPoolExecutor(min(_AT_ONCE, len(found))) as threads,
    ):
        try:
            results = list(threads.map(sops.decrypted, found, found.values()))
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return {**files, **dict(zip(found, results, strict=True))}


def encrypted_files(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the paths of the files that SOPS has encrypted, for a source without decryption."""
    return tuple(path for path, data in files.items() if is_encrypted(path, data))


_LIMITS = ProcessLimits(memory=2**30, cpu=30, file_size=0, files=64)
_AT_ONCE = 4
# Nothing listens there: whatever sops would ask fails at once.
_NO_PROXY = "http://127.0.0.1:9"
_ENVIRONMENT = {
    # sops looks for more keys there.
    "HOME": "/nonexistent",
    "GNUPGHOME": "/nonexistent",
    "SOPS_GPG_EXEC": "/nonexistent",
    "SOPS_DECRYPTION_ORDER": "age,pgp",
    "SOPS_HC_VAULT_ALLOWLIST": "none",
    "SOPS_DISABLE_VERSION_CHECK": "true",
    "AWS_EC2_METADATA_DISABLED": "true",
    "HTTP_PROXY": _NO_PROXY,
    "HTTPS_PROXY": _NO_PROXY,
    "GOMAXPROCS": "2",
    "GOMEMLIMIT": "512MiB",
}


class _Sops(contextlib.ExitStack):
    """Runs sops with the keys of one Secret, until a deadline."""

    def __init__(self, program: str, keys: SopsKeys, deadline: float, size: int) -> None:
        super().__init__()
        self._program = program
        self._deadline = deadline
        self._size = size
        self._environment = _ENVIRONMENT | {"SOPS_AGE_KEY": keys.age}
        self._fds: Sequence[int] = ()
        if keys.openpgp:
            try:
                home, self._fds = self.enter_context(_keyring(keys.openpgp))
            except OSError as error:
                raise FetchFailed(
                    "the keys cannot be stored for sops",
                    reason=error.strerror or "",
                    hint="Check the free space of this machine.",
                ) from None
            self._environment["GNUPGHOME"] = str(home)

    def decrypted(self, path: str, parts: Sequence[Part]) -> bytes:
        return join_documents([self._part(path, part) for part in parts])

    def _part(self, path: str, part: Part) -> bytes:
        if part.format is None:
            return part.content
        command = [self._program, "--decrypt"]
        command += ["--input-type", part.format, "--output-type", part.format, "/dev/stdin"]
        try:
            done = run_program(
                [*_LIMITS.command(), *command],
                env=self._environment,
                stdin=part.content,
                deadline=self._deadline,
                max_output=self._size,
                pass_fds=self._fds,
            )
        except TimeoutError:
            raise _failure(path, _LATE) from None
        except TooMuchOutput:
            raise SourceTooLarge(
                f"a decrypted file is larger than {self._size / 2**20:g} MiB", location=path
            ) from None
        except OSError:
            raise _failure(path, _NOT_RUN) from None
        if done.code:
            raise _failure(path, _REASONS.get(done.code, f"sops ended with code {done.code}"))
        return done.stdout


@contextlib.contextmanager
def _keyring(keys: bytes) -> Iterator[tuple[Path, Sequence[int]]]:
    """Yield a folder in which sops finds the ring of private keys, and the files to pass on."""
    with (
        memory_file(keys) as (ring, fds),
        # A disk that has become read-only keeps the folder, which has a link only.
        tempfile.TemporaryDirectory(prefix="applyprune-sops-", ignore_cleanup_errors=True) as name,
    ):
        (Path(name) / "secring.gpg").symlink_to(ring)
        yield Path(name), fds


_EDITED = "it was changed after its encryption: its content does not match its MAC"
_LATE = "sops did not finish in time"
_NOT_RUN = "sops cannot be run"
_INI = "it looks encrypted as INI; only YAML, JSON, dotenv and binary are supported"
# By the exit code of sops.
_REASONS: Mapping[int, str] = {
    24: _EDITED,
    25: _EDITED,
    51: _EDITED,
    52: "its MAC is missing: it was changed after its encryption",
    128: "no key of the Secret can decrypt it",
}
_HINTS: Mapping[str, str] = {
    _REASONS[128]: "Encrypt it for a key of the Secret too: sops updatekeys FILE.",
    _LATE: "Encrypt fewer files, or try again.",
    _NOT_RUN: "Check the memory and the processes of this machine.",
    _INI: "Encrypt it as binary: sops encrypt --input-type binary --output-type binary FILE.",
}
_HINT = "Restore the file from its history, and change it only by: sops edit FILE."


def _failure(path: str, reason: str) -> DecryptionFailed:
    return DecryptionFailed(
        "the file cannot be decrypted",
        location=path,
        reason=reason,
        hint=_HINTS.get(reason, _HINT),
    )


# The keys of a Secret with which SOPS decrypts; their names are those of Flux.


AGE = ".agekey"
OPENPGP = ".asc"
# One of a plugin (AGE-PLUGIN-…) would run a program.
_AGE_KEY = pattern(r"^AGE-SECRET-KEY-[A-Z0-9-]+$", re.MULTILINE)
_ARMOR = pattern(
    rb"-----BEGIN PGP PRIVATE KEY BLOCK-----[ \t\r]*\n(?:[^\n:]+:[^\n]*\n)*(?P<body>.*?)"
    rb"-----END PGP PRIVATE KEY BLOCK-----",
    re.DOTALL,
)
_CHECKSUM = pattern(rb"\n=[^\n]{4}\s*\Z")


def sops_keys(secret: Mapping[str, bytes]) -> SopsKeys:
    """Return the keys ``*.agekey`` and ``*.asc`` of a Secret's data; others are ignored.

    Raises UnusableKeys for a key that is not one, or if there is none.
    """
    age: list[str] = []
    openpgp = b""
    for name, content in sorted(secret.items()):
        if name.endswith(AGE):
            found = _AGE_KEY.findall(content.decode("utf-8", "replace").replace("\r", ""))
            if not found:
                raise _unusable(name, "an age identity (AGE-SECRET-KEY-…)")
            age += found
        elif name.endswith(OPENPGP):
            openpgp += _unarmored(name, content)
    if not age and not openpgp:
        raise UnusableKeys(
            "the Secret has no key for decryption",
            hint=f"Add an age identity as NAME{AGE}, or an OpenPGP private key as NAME{OPENPGP}.",
        )
    return SopsKeys("\n".join(age), openpgp)


class SopsKeys(Struct, frozen=True):
    """What can decrypt, as sops reads it."""

    age: str = ""
    """Identities, each on a line."""
    openpgp: bytes = b""
    """A ring of private keys, not armored."""

    __repr__ = hiding("age", "openpgp")


class UnusableKeys(Exception):
    """A key of the Secret cannot be used, or it has none; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def _unarmored(name: str, content: bytes) -> bytes:
    ring = b""
    for block in _ARMOR.finditer(content.replace(b"\r", b"")):
        try:
            ring += base64.b64decode(_CHECKSUM.sub(b"", block["body"]), validate=False)
        except binascii.Error:
            raise _unusable(name, "an armored OpenPGP private key") from None
    if not ring:
        raise _unusable(name, "an armored OpenPGP private key")
    return ring


def _unusable(name: str, what: str) -> UnusableKeys:
    return UnusableKeys(
        f"the key {name} of the Secret is not {what}",
        hint="Write the key into the Secret again, without a passphrase.",
    )


# Find the files that SOPS has encrypted, and leave out the keys for which it would use a network.
#
# The MAC of a file does not protect the list of its keys, so parts of it may be removed. SOPS would
# ask each service that the file names, also one that somebody else has written into it.


class SopsFormat(enum.StrEnum):
    """What sops calls the format of a file."""

    YAML = "yaml"
    JSON = "json"
    DOTENV = "dotenv"
    BINARY = "binary"


_SUFFIXES = {
    ".yaml": SopsFormat.YAML,
    ".yml": SopsFormat.YAML,
    ".json": SopsFormat.JSON,
    ".env": SopsFormat.DOTENV,
}


class Part(Struct, frozen=True):
    """A part of a file: one input of sops, or text that is not encrypted."""

    content: bytes
    format: SopsFormat | None
    """None if it is not encrypted."""


class Undecryptable(Exception):
    """A file is encrypted, and is not given to sops; the message says why."""


def is_encrypted(path: str, data: bytes) -> bool:
    """Return whether SOPS has encrypted a file, or a document in it; also if it is broken."""
    try:
        return any(part.format for part in parts_of(path, data))
    except Undecryptable:
        return True


_METADATA = "sops"
_LOCAL_KEYS = frozenset({"age", "pgp"})
# What sops writes beside keys; anything else, such as a key in other capitals, is left out.
_PLAIN = frozenset(
    {
        "encrypted_comment_regex",
        "encrypted_regex",
        "encrypted_suffix",
        "lastmodified",
        "mac",
        "mac_only_encrypted",
        "shamir_threshold",
        "unencrypted_comment_regex",
        "unencrypted_regex",
        "unencrypted_suffix",
        "version",
    }
)
_GROUPS = "key_groups"
_KEPT_NAMES = _LOCAL_KEYS | _PLAIN | {_GROUPS}
_METADATA_NAMES = _LOCAL_KEYS | {
    "mac",
    "lastmodified",
    "version",
    "kms",
    "gcp_kms",
    "azure_kv",
    "hc_vault",
}
_MEMORY = 128 << 20
"""Bytes for the values of one file, by the measure of an Allowance."""
_SEPARATOR = pattern(r"^(?=---)", re.MULTILINE)
_BINARY = pattern(r'\s*\{\s*"data":\s*"ENC\[[^"]*",\s*"sops":')
_DOTENV_SIGN = pattern(r"^[ \t]*sops_(?:mac|version|lastmodified|age__|pgp__)", re.MULTILINE)
_DOTENV_LINE = pattern(r"[ \t]*sops_(?P<name>[^=\s]*)[ \t]*=")
_INI_SECTION = pattern(r"^[ \t]*\[[^\n]*sops[^\n]*$", re.MULTILINE)
_YAML_SIGN = pattern(r"^sops:", re.MULTILINE)
_OTHER_KEYS = "it names no age or OpenPGP key; keys of a cloud or of Vault are not supported"
_OTHER_GROUPS = "one of its key groups names other keys than age and OpenPGP"


def parts_of(path: str, data: bytes) -> tuple[Part, ...]:
    """Return the parts of a file in order; raise Undecryptable.

    Only a YAML file has several: its documents may be encrypted one by one, or all at once.
    """
    plain = (Part(data, None),)
    if b"sops" not in data or b"ENC[" not in data:
        return plain
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return plain
    known = _SUFFIXES.get(path[path.rfind(".") :].lower())
    kind = known or _guess_format(text)
    if kind is SopsFormat.DOTENV:
        return (_dotenv_part(text),) if _DOTENV_SIGN.search(text) else plain
    if kind is None:
        return plain
    pieces = [text] if kind is SopsFormat.JSON else _SEPARATOR.split(text.replace("\r\n", "\n"))
    allowance = Allowance(_MEMORY)
    parts = [_document_part(piece, kind, allowance) for piece in pieces]
    if known is None and kind is SopsFormat.JSON and _BINARY.match(text):
        parts = [(text, SopsFormat.BINARY if mac else None, mac) for text, _, mac in parts]
    return tuple(
        Part("".join(text for text, _, _ in group).encode(), key[0])
        for key, group in groupby(parts, key=lambda part: part[1:])
    )


def _guess_format(text: str) -> SopsFormat | None:
    """Return the format of a file whose name does not say it; raise Undecryptable for INI."""
    if text.lstrip().startswith("{"):
        return SopsFormat.JSON
    if _INI_SECTION.search(text):
        raise Undecryptable(_INI)
    if _DOTENV_SIGN.search(text):
        return SopsFormat.DOTENV
    return SopsFormat.YAML if _YAML_SIGN.search(text) else None


def _document_part(
    text: str, kind: SopsFormat, allowance: Allowance
) -> tuple[str, SopsFormat | None, str]:
    """Return a document as sops may read it, its format, and its MAC: "" if it is not encrypted.

    Documents that were encrypted at once have the same MAC.
    """
    if "sops" not in text or "ENC[" not in text:
        return text, None, ""
    documents = [one.content for one in read_documents(text.encode(), allowance)]
    values = [one.value for one in documents if not isinstance(one, YAMLFault)]
    if len(values) < len(documents):
        raise Undecryptable(f"it looks encrypted, and cannot be read as {kind.upper()}")
    found = [value for value in values if _has_metadata(value)]
    if not found:
        return text, None, ""
    if len(values) > 1:
        raise Undecryptable("it is one of several documents without a line --- between them")
    metadata = found[0][_METADATA]
    mac = str(metadata.get("mac"))
    foreign = _names_to_drop(metadata)
    kept = {key: value for key, value in metadata.items() if key not in foreign}
    if foreign:
        # JSON is YAML as well. The MAC is of the values, in their order, and of no comment.
        text = json.dumps(found[0] | {_METADATA: kept}, ensure_ascii=False)
        text = text if kind is SopsFormat.JSON else f"---\n{text}\n"
    return text, kind, mac


def _has_metadata(value: Any) -> bool:
    """Return whether a document has what sops adds to it; its MAC may be lost."""
    metadata = value.get(_METADATA) if isinstance(value, Mapping) else None
    return isinstance(metadata, Mapping) and not _METADATA_NAMES.isdisjoint(metadata)


def _names_to_drop(metadata: Mapping[str, Any]) -> frozenset[str]:
    """Return the names to leave out; raise Undecryptable if no key would be left."""
    groups = metadata.get(_GROUPS) or []
    for group in groups if isinstance(groups, list) else [groups]:
        if not isinstance(group, Mapping) or any(group[name] for name in set(group) - _LOCAL_KEYS):
            raise Undecryptable(_OTHER_GROUPS)
    if not groups and not any(metadata.get(name) for name in _LOCAL_KEYS):
        raise Undecryptable(_OTHER_KEYS)
    return frozenset(metadata) - _KEPT_NAMES


_FLAT_GROUP = pattern(r"list_\d+__map_([a-z]+)__")


def _dotenv_part(text: str) -> Part:
    """Return a file whose metadata is lines of names and values, without those to leave out."""
    kept: list[str] = []
    names: set[str] = set()
    for line in text.splitlines(keepends=True):
        found = _DOTENV_LINE.match(line)
        name, _, rest = found["name"].partition("__") if found else ("", "", "")
        group = _FLAT_GROUP.match(rest) if name == _GROUPS else None
        if name == _GROUPS and (group is None or group[1] not in _LOCAL_KEYS):
            raise Undecryptable(_OTHER_GROUPS)
        names.add(name)
        if not name or name in _KEPT_NAMES:
            kept.append(line)
    if names.isdisjoint({*_LOCAL_KEYS, _GROUPS}):
        raise Undecryptable(_OTHER_KEYS)
    return Part("".join(kept).encode(), SopsFormat.DOTENV)


def join_documents(parts: Sequence[bytes]) -> bytes:
    """Return the parts of a YAML file as one file, after their decryption."""
    text = b""
    for part in parts:
        if text and not part.startswith(b"---"):
            text += b"---\n" if text.endswith(b"\n") else b"\n---\n"
        text += part
    return text
