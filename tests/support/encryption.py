"""Keys, and files that the real sops has encrypted for them."""

from __future__ import annotations

import re
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.components import Components


@dataclass(frozen=True, slots=True)
class Key:
    """A key, as a Secret has it."""

    name: str
    """Its key in the Secret."""
    private: bytes = field(repr=False)
    recipient: str = ""
    """Whom sops encrypts for."""

    @property
    def secret(self) -> dict[str, bytes]:
        """The data of a Secret that has only this key."""
        return {self.name: self.private}


def age_key(components: Components, name: str = "cluster.agekey") -> Key:
    """Return a new age key."""
    reply = subprocess.run([components.age_keygen], capture_output=True, text=True, check=True)
    recipient = re.search(r"public key: (\S+)", reply.stdout)
    assert recipient is not None
    return Key(name, reply.stdout.encode(), recipient[1])


@contextmanager
def gnupg_home(folder: Path) -> Iterator[Path]:
    """Yield a home for gpg; its agent ends with the block."""
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        subprocess.run(["gpgconf", "--homedir", folder, "--kill", "all"], check=True)


def openpgp_key(home: Path, algorithm: str, name: str = "cluster.asc", user: str = "tests") -> Key:
    """Return a new OpenPGP key; ``algorithm`` is a word of gpg: ``rsa2048``, ``future-default``."""
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", ""]
    made = subprocess.run(
        [*gpg, "--status-fd", "1", "--quick-generate-key", user, algorithm, "default", "never"],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"KEY_CREATED \w (\w+)", made.stdout)
    assert found is not None
    fingerprint = found[1]
    if algorithm.startswith("rsa"):
        add = ["--quick-add-key", fingerprint, algorithm, "encr", "never"]
        subprocess.run([*gpg, *add], check=True)
    export = [*gpg, "--armor", "--export-secret-keys", fingerprint]
    private = subprocess.run(export, capture_output=True, check=True).stdout
    return Key(name, private, fingerprint)


def encrypt(
    components: Components,
    content: str | bytes,
    *recipients: str,
    kind: str = "yaml",
    home: Path | None = None,
) -> bytes:
    """Return the content as sops encrypts it; ``recipients`` are options of sops with values.

    ``kind`` is the format; ``home`` that of gpg.
    """
    command = [str(components.sops), "--encrypt", *recipients]
    command += ["--input-type", kind, "--output-type", "json" if kind == "binary" else kind]
    reply = subprocess.run(
        [*command, "/dev/stdin"],
        input=content.encode() if isinstance(content, str) else content,
        capture_output=True,
        check=False,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GNUPGHOME": str(home or "/")},
    )
    assert reply.returncode == 0, reply.stderr.decode()
    return reply.stdout
