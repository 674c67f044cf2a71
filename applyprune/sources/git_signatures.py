"""Check who has signed a commit or a tag, with git: OpenPGP and SSH.

A name says which keys are trusted: ``*.asc`` are public keys of OpenPGP, ``*.sshpub`` of SSH.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct, field

from applyprune.model.live import one_line
from applyprune.sources.git_program import ADD_USER, NO_USER, GitEnvironment, GitProgram
from applyprune.sources.tree import FetchFailed, VerificationFailed
from applyprune.values import hiding, pattern

if TYPE_CHECKING:
    from pathlib import Path

    from applyprune.sources.address import FoundRef
    from applyprune.sources.git_store import GitStore
    from applyprune.sources.tree import Deadline


class SignatureMode(StrEnum):
    """What must be signed; the values are those of Flux."""

    HEAD = "HEAD"
    TAG = "Tag"
    TAG_AND_HEAD = "TagAndHEAD"


class GitVerification(Struct, frozen=True):
    """What must be signed, and by whom."""

    mode: SignatureMode
    keys: Mapping[str, bytes] = field(default_factory=dict)
    """Public keys by the names of their files, which end in .asc or .sshpub."""

    __repr__ = hiding("keys")


def verify(
    store: GitStore,
    found: FoundRef,
    verification: GitVerification,
    where: str,
    deadline: Deadline | None = None,
) -> None:
    """Raise VerificationFailed unless the commit, its tag, or both are signed by a trusted key."""
    mode = verification.mode
    with store.opened(where, deadline) as (program, repository):
        environment = _write_trusted_keys(program, verification.keys)
        if mode is not SignatureMode.TAG:
            _check_signature(program, repository, environment, "commit", found.commit)
        if mode is not SignatureMode.HEAD:
            _check_tag_name(program, repository, found)
            _check_signature(program, repository, environment, "tag", found.oid)


def _check_signature(
    program: GitProgram, repository: Path, environment: GitEnvironment, kind: str, oid: str
) -> None:
    code, _, err = program.try_run(
        f"verify-{kind}", "--raw", oid, repository=repository, environment=environment
    )
    fault = _signature_fault(err)
    if code:
        _check_programs(err, program.where)
    if code or fault:
        raise VerificationFailed(
            f"the {kind} {oid} is not signed by a trusted key",
            location=program.where,
            reason=one_line(fault or "it has no signature"),
            hint="Sign it with a key that the source trusts, or add the public key of its signer.",
        )


_NOT_RUN = pattern(r"^error: cannot run (gpg|ssh-keygen): (.+)$", re.MULTILINE)
_PROGRAMS = {
    "gpg": ("OpenPGP", "Install gpg; into the image by: docker build --build-arg GPG=yes."),
    "ssh-keygen": ("SSH", "Install the client of OpenSSH."),
}


def _check_programs(err: str, where: str) -> None:
    """Raise VerificationFailed if nothing was checked: git could not run what checks."""
    if found := _NOT_RUN.search(err):
        raise _not_run(found[1], where, found[2])
    if found := NO_USER.search(err):
        raise VerificationFailed(
            "the signature cannot be checked",
            location=where,
            reason=f"ssh-keygen needs an entry in /etc/passwd for the user that runs it, and says: "
            f"{found[0]}",
            hint=ADD_USER,
        )


def _not_run(program: str, where: str, reason: str) -> VerificationFailed:
    kind, hint = _PROGRAMS[program]
    return VerificationFailed(
        f"{program} is needed to check {kind} signatures, and it cannot be run",
        location=where,
        reason=one_line(reason),
        hint=hint,
    )


_STATUS = pattern(r"^\[GNUPG:\] (\w+) ?(.*)$", re.MULTILINE)
_FINGERPRINT = pattern(r"SHA256:[A-Za-z0-9+/]+")
# What a status of gpg says, the first that occurs; "" is a good signature.
_STATUSES = (
    ("REVKEYSIG", "its key was revoked"),
    ("EXPKEYSIG", "its key has expired"),
    ("EXPSIG", "the signature has expired"),
    ("BADSIG", "the signature is wrong: the content was changed, or it belongs to another"),
    ("ERRSIG", "its key is not among the trusted keys"),
    ("GOODSIG", ""),
)


def _signature_fault(err: str) -> str:
    """Return what is wrong with a signature by the messages about it; empty if nothing is."""
    statuses = dict(_STATUS.findall(err))
    for status, fault in _STATUSES:
        if status in statuses:
            # gpg shows who has signed, as the key says it.
            key, _, signer = statuses[status].partition(" ")
            signer = "" if status == "ERRSIG" else f" ({signer})"
            return f"signed by {key}{signer}: {fault}" if fault else ""
    if 'Good "git" signature for ' in err:
        return ""
    if found := _FINGERPRINT.search(err):
        return f"signed by {found[0]}: its key is not among the trusted keys"
    if "signature" in err.lower() and "no signature found" not in err:
        return "the signature is wrong, or its key is not among the trusted keys"
    return "it has no signature"


_TAG_NAME = pattern(rb"^tag (.+)$", re.MULTILINE)


def _check_tag_name(program: GitProgram, repository: Path, found: FoundRef) -> None:
    """Raise VerificationFailed unless an annotated tag was signed under the name it has now."""
    if found.oid == found.commit:
        raise VerificationFailed(
            "the source is not at a signed tag",
            location=program.where,
            reason="only an annotated tag has a signature",
            hint="Follow a tag that was made with git tag --sign, or use the mode HEAD.",
        )
    text = program.run("cat-file", "tag", found.oid, repository=repository)
    name = _TAG_NAME.search(text.partition(b"\n\n")[0])
    signed = name[1].decode("utf-8", "replace") if name else ""
    if found.name.removeprefix("refs/tags/") != signed:
        raise VerificationFailed(
            "the tag was signed under another name",
            location=program.where,
            reason=one_line(f"as {signed}"),
            hint="Somebody may have given an old tag a new name.",
        )


_PGP, _SSH = ".asc", ".sshpub"
_GPG_SETTINGS = "trust-model always\nno-auto-key-retrieve\nno-auto-key-locate\nno-autostart\n"


def _write_trusted_keys(program: GitProgram, keys: Mapping[str, bytes]) -> GitEnvironment:
    """Write the keys where gpg and ssh-keygen find them, and nothing else."""
    pgp = [data for name, data in sorted(keys.items()) if name.endswith(_PGP)]
    ssh = [line for name, data in sorted(keys.items()) for line in _allowed_signers(name, data)]
    if not pgp and not ssh:
        raise VerificationFailed(
            "no key is trusted",
            location=program.where,
            hint="Give public keys as NAME.asc (OpenPGP) or NAME.sshpub (SSH).",
        )
    home = program.folder / "gnupg"
    home.mkdir(mode=0o700)
    (home / "gpg.conf").write_text(_GPG_SETTINGS, encoding="ascii")
    environment = GitEnvironment(
        (("gpg.ssh.allowedSignersFile", str(program.write("signers", "".join(ssh).encode()))),),
        {"GNUPGHOME": str(home)},
    )
    if pgp:
        _import_gpg_keys(program, environment, b"\n".join(pgp))
    return environment


_PRINCIPAL = pattern(r"[^A-Za-z0-9_.-]")
_KEY_LINE = pattern(r"(?:ssh-|ecdsa-|sk-)[a-z0-9@.-]+ [A-Za-z0-9+/=]+")


def _allowed_signers(name: str, data: bytes) -> Iterator[str]:
    """Yield the lines of allowed signers for a file of public keys; the name is that of the file.

    Nothing of a line but its key is used: it could contain options.
    """
    if not name.endswith(_SSH):
        return
    principal = _PRINCIPAL.sub("_", name.removesuffix(_SSH)) or "key"
    for line in data.decode("utf-8", "replace").splitlines():
        if found := _KEY_LINE.match(line.strip()):
            yield f'{principal} namespaces="git" {found[0]}\n'


def _import_gpg_keys(program: GitProgram, environment: GitEnvironment, keys: bytes) -> None:
    # Where prlimit starts it, that it is missing is an exit code as another fault is.
    if shutil.which("gpg") is None:
        raise _not_run("gpg", program.where, "it is not installed")
    try:
        code, _, _ = program.try_run(
            *("--batch", "--quiet", "--no-tty", "--import"),
            environment=environment,
            stdin=keys,
            program="gpg",
        )
    except FetchFailed as error:
        if error.reason:
            raise _not_run("gpg", program.where, error.reason) from None
        raise
    if code:
        raise VerificationFailed(
            "gpg cannot read a trusted key",
            location=program.where,
            hint="Export it with gpg --export --armor.",
        )
