"""Decrypt the files that SOPS has encrypted, by the ``sops`` program.

sops gets its input by a pipe and its keys by its environment: nothing decrypted is ever on a disk.
It gets no network: the keys of clouds and of Vault are left out of what it reads. It reads OpenPGP
keys itself, without gpg. No message has any part of its output, or of what it writes to stderr.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from applyprune.clock import CLOCK
from applyprune.sources.remote.fetch_errors import DecryptionFailed, FetchFailed, SourceTooLarge
from applyprune.sources.sops.sops_file import Undecryptable, is_encrypted, joined, parts_of
from applyprune.sources.sops.sops_keys import UnusableKeys, sops_keys
from applyprune.system.processes import ProcessLimits, TooMuchOutput, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from applyprune.sources.sops.sops_file import Part
    from applyprune.sources.sops.sops_keys import SopsKeys

TIMEOUT = 60.0
"""Seconds for all files of one source."""
SIZE = 64 * 2**20
"""Bytes of one file, decrypted."""

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
_EDITED = "it was changed after its encryption: its content does not match its MAC"
_LATE = "sops did not finish in time"
_NOT_RUN = "sops cannot be run"
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
}
_HINT = "Restore the file from its history, and change it only by: sops edit FILE."


def encrypted_files(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """Return the paths of the files that SOPS has encrypted, for a source without decryption."""
    return tuple(path for path, data in files.items() if is_encrypted(path, data))


def decrypt(
    files: Mapping[str, bytes],
    keys: Mapping[str, bytes],
    *,
    timeout: float = TIMEOUT,
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
                home, self._fds = self.enter_context(_ring(keys.openpgp))
            except OSError as error:
                raise FetchFailed(
                    "the keys cannot be stored for sops",
                    reason=error.strerror or "",
                    hint="Check the free space of this machine.",
                ) from None
            self._environment["GNUPGHOME"] = str(home)

    def decrypted(self, path: str, parts: Sequence[Part]) -> bytes:
        """Return a file with its parts decrypted."""
        return joined([self._part(path, part) for part in parts])

    def _part(self, path: str, part: Part) -> bytes:
        if part.format is None:
            return part.content
        command = [self._program, "--decrypt"]
        command += ["--input-type", part.format, "--output-type", part.format, "/dev/stdin"]
        try:
            done = run(
                command,
                env=self._environment,
                stdin=part.content,
                deadline=self._deadline,
                max_output=self._size,
                limits=_LIMITS,
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
def _ring(keys: bytes) -> Iterator[tuple[Path, Sequence[int]]]:
    """Yield a folder in which sops finds the ring of private keys, and the files to pass on.

    Where the system can, the ring is a file in memory only, and the folder has a link to it.
    """
    with tempfile.TemporaryDirectory(prefix="applyprune-sops-") as name:
        ring = Path(name) / "secring.gpg"
        if not hasattr(os, "memfd_create"):
            ring.touch(mode=0o600)
            ring.write_bytes(keys)
            yield Path(name), ()
            return
        fd = os.memfd_create("secring")
        with os.fdopen(fd, "wb") as file:
            file.write(keys)
            file.flush()
            ring.symlink_to(f"/proc/self/fd/{fd}")
            yield Path(name), (fd,)


def _failure(path: str, reason: str) -> DecryptionFailed:
    return DecryptionFailed(
        "the file cannot be decrypted",
        location=path,
        reason=reason,
        hint=_HINTS.get(reason, _HINT),
    )
