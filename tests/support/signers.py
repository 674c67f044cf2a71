"""Keys with which a test signs commits and tags: OpenPGP by the real gpg, SSH by ssh-keygen."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

_UNPROTECTED = ("--batch", "--pinentry-mode", "loopback", "--passphrase", "")


@contextlib.contextmanager
def gpg_home(folder: Path) -> Iterator[Path]:
    """Yield a home of gpg; its agent has ended afterwards."""
    folder.chmod(0o700)
    try:
        yield folder
    finally:
        subprocess.run(["gpgconf", "--homedir", folder, "--kill", "all"], check=False)


class GpgSigner:
    """A key of OpenPGP in a home of gpg."""

    def __init__(self, home: Path, name: str, *, expired: bool = False) -> None:
        """Make the key; it may sign, and has no passphrase. An expired one has signed in time."""
        self._home = home
        self._clock = ("--faked-system-time", "20200101T000000") if expired else ()
        self._mail = f"{name}@example.com"
        until = "20210101T000000" if expired else "never"
        user = f"{name} <{self._mail}>"
        self._gpg(*_UNPROTECTED, "--quick-generate-key", user, "ed25519", "sign", until)
        listed = self._gpg("--list-keys", "--with-colons", self._mail).decode()
        self.fingerprint = next(
            line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:")
        )
        self.key_id = self.fingerprint[-16:]

    @property
    def settings(self) -> Sequence[str]:
        """The options of git with which it signs by this key."""
        program = self._home / f"sign-{self.key_id}"
        command = shlex.join(["gpg", "--homedir", str(self._home), *self._clock])
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)
        return (
            *("-c", f"user.signingKey={self.fingerprint}"),
            *("-c", f"gpg.program={program}"),
        )

    def public(self) -> bytes:
        """Return the public key, as it is now."""
        return self._gpg("--armor", "--export", self.fingerprint)

    def revoke(self) -> None:
        """Revoke the key."""
        file = self._home / "openpgp-revocs.d" / f"{self.fingerprint}.rev"
        # gpg puts a colon before it, so that nobody imports it by mistake.
        text = file.read_text().replace(":-----BEGIN", "-----BEGIN")
        self._gpg("--batch", "--import", stdin=text.encode())

    def _gpg(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return subprocess.run(
            ["gpg", "--homedir", self._home, "--quiet", *self._clock, *arguments],
            input=stdin,
            capture_output=True,
            check=True,
        ).stdout


class SshSigner:
    """A key of SSH in a file."""

    def __init__(self, file: Path) -> None:
        """Make the key, without a passphrase."""
        self._file = file
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me", "-f", file], check=True
        )
        shown = subprocess.run(
            ["ssh-keygen", "-l", "-f", file], capture_output=True, text=True, check=True
        )
        self.fingerprint = shown.stdout.split()[1]

    @property
    def settings(self) -> Sequence[str]:
        """The options of git with which it signs by this key."""
        return ("-c", "gpg.format=ssh", "-c", f"user.signingKey={self._file}")

    def public(self) -> bytes:
        """Return the public key."""
        return self._file.with_name(f"{self._file.name}.pub").read_bytes()
