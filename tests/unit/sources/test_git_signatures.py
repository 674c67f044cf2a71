"""Signatures by real keys of OpenPGP and SSH, checked by the real git, gpg and ssh-keygen."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from applyprune.sources.address import GitRef
from applyprune.sources.git_server import find_ref
from applyprune.sources.git_signatures import GitVerification, SignatureMode, verify
from applyprune.sources.git_store import GitStore
from applyprune.sources.tree import Deadline, VerificationFailed
from tests.support.git_servers import HttpsSite
from tests.support.git_servers.reads import read_path
from tests.support.signers import GpgSigner, SshSigner, gpg_home

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

FILES = {"a/x.yaml": "x"}


@pytest.fixture(scope="module")
def gpg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home of gpg, whose agent ends with the tests."""
    with gpg_home(tmp_path_factory.mktemp("g")) as home:
        yield home


def read(
    site: HttpsSite,
    tmp_path: Path,
    keys: Mapping[str, bytes],
    mode: SignatureMode = SignatureMode.HEAD,
    **ref: str,
) -> Mapping[str, bytes]:
    """Read a path, verified; the store is a new one."""
    source = site.source(ref=GitRef(**(ref or {"branch": "main"})))
    store, found = GitStore(tmp_path / f"store-{len(site.requests)}"), find_ref(source)
    store.fetch(source, found)
    where = source.parts.shown
    verify(store, found, GitVerification(mode, keys), where, Deadline(source.timeout))
    return read_path(store, found.commit, "a")


def refusal(
    site: HttpsSite,
    tmp_path: Path,
    keys: Mapping[str, bytes],
    mode: SignatureMode = SignatureMode.HEAD,
    **ref: str,
) -> str:
    with pytest.raises(VerificationFailed) as caught:
        read(site, tmp_path, keys, mode, **ref)
    return str(caught.value)


def test_openpgp_signature_is_checked(site: HttpsSite, tmp_path: Path, gpg: Path) -> None:
    """Foreign, expired and revoked keys are refused, each with the name of the key."""
    repository = site.repository()
    first = repository.commit(FILES)
    known, other = GpgSigner(gpg, "known"), GpgSigner(gpg, "other")
    expired, revoked = GpgSigner(gpg, "expired", expired=True), GpgSigner(gpg, "revoked")
    keys = {"known.asc": known.public()}
    assert "it has no signature" in refusal(site, tmp_path, keys)
    repository.sign(known.settings, first)
    assert read(site, tmp_path, keys) == {"a/x.yaml": b"x"}
    assert read(site, tmp_path, {"other.asc": other.public(), **keys})
    text = refusal(site, tmp_path, {"other.asc": other.public()})
    assert f"signed by {known.key_id}: its key is not among the trusted keys" in text

    repository.sign(revoked.settings, first)
    assert read(site, tmp_path, {"r.asc": revoked.public()})
    revoked.revoke()
    text = refusal(site, tmp_path, {"r.asc": revoked.public()})
    assert (
        f"signed by {revoked.key_id} (revoked <revoked@example.com>): its key was revoked" in text
    )

    repository.sign(expired.settings, first)
    text = refusal(site, tmp_path, {"e.asc": expired.public()})
    assert f"signed by {expired.key_id} (expired <expired@example.com>): its key has" in text


def test_ssh_signature_is_checked(site: HttpsSite, tmp_path: Path) -> None:
    repository = site.repository()
    first = repository.commit(FILES)
    known, other = SshSigner(tmp_path / "known"), SshSigner(tmp_path / "other")
    repository.sign(known.settings, first)
    keys = {"me.sshpub": known.public()}
    assert read(site, tmp_path, keys)
    assert read(site, tmp_path, {"both.sshpub": other.public() + known.public()})
    text = refusal(site, tmp_path, {"me.sshpub": other.public()})
    assert f"signed by {known.fingerprint}: its key is not among the trusted keys" in text


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"README": b"x"},
        {"a.asc": b"-----BEGIN PGP PUBLIC KEY BLOCK-----\nx\n-----END PGP PUBLIC KEY BLOCK-----\n"},
        {"a.asc": b""},
        {"a.sshpub": b"cert-authority ssh-ed25519 AAAA\n* ssh-ed25519 AAAA\n"},
        {"a.sshpub": b""},
    ],
)
def test_unusable_keys_trust_nobody(
    site: HttpsSite, tmp_path: Path, keys: Mapping[str, bytes]
) -> None:
    repository = site.repository()
    repository.sign(SshSigner(tmp_path / "key").settings, repository.commit(FILES))
    assert refusal(site, tmp_path, keys)


def test_changed_commit_is_refused(site: HttpsSite, tmp_path: Path) -> None:
    """The signature of another commit signs nothing."""
    repository = site.repository()
    signer = SshSigner(tmp_path / "key")
    signed = repository.sign(signer.settings, repository.commit(FILES))
    text = repository.git("cat-file", "commit", signed) + "\n"
    forged = repository.git(
        *("hash-object", "-t", "commit", "-w", "--stdin"),
        stdin=text.replace("\n\ntest", "\n\nother").encode(),
    )
    repository.git("update-ref", "refs/heads/main", forged)
    assert "not among the trusted keys" in refusal(site, tmp_path, {"a.sshpub": signer.public()})


def test_tags_are_checked_in_their_modes(site: HttpsSite, tmp_path: Path) -> None:
    repository = site.repository()
    signer, other = SshSigner(tmp_path / "key"), SshSigner(tmp_path / "other")
    keys = {"a.sshpub": signer.public()}
    commit = repository.commit(FILES)
    repository.git(*signer.settings, "tag", "-s", "-m", "x", "v1.0.0", commit)
    repository.git(*other.settings, "tag", "-s", "-m", "x", "v1.1.0", commit)
    repository.tag("v1.2.0", commit, annotated=True)
    repository.tag("v1.3.0", commit)
    repository.git("update-ref", "refs/tags/v9.0.0", repository.oid("refs/tags/v1.0.0"))
    assert read(site, tmp_path, keys, SignatureMode.TAG, tag="v1.0.0")
    assert read(site, tmp_path, keys, SignatureMode.TAG, semver="<1.1.0")
    both = refusal(site, tmp_path, keys, SignatureMode.TAG_AND_HEAD, tag="v1.0.0")
    assert f"the commit {commit} is not signed" in both
    assert "not among" in refusal(site, tmp_path, keys, SignatureMode.TAG, tag="v1.1.0")
    assert "no signature" in refusal(site, tmp_path, keys, SignatureMode.TAG, tag="v1.2.0")
    assert "only an annotated tag" in refusal(site, tmp_path, keys, SignatureMode.TAG, tag="v1.3.0")
    assert "only an annotated tag" in refusal(
        site, tmp_path, keys, SignatureMode.TAG, branch="main"
    )
    assert "under another name: as v1.0.0" in refusal(
        site, tmp_path, keys, SignatureMode.TAG, tag="v9.0.0"
    )
    signed = repository.sign(signer.settings, commit)
    repository.git(*signer.settings, "tag", "-s", "-m", "x", "v2.0.0", signed)
    assert read(site, tmp_path, keys, SignatureMode.TAG_AND_HEAD, tag="v2.0.0")


def test_keys_of_the_user_are_not_trusted(
    site: HttpsSite, tmp_path: Path, gpg: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only those of the source: not those in the home of whoever runs the controller."""
    repository = site.repository()
    signer = GpgSigner(gpg, "user")
    repository.sign(signer.settings, repository.commit(FILES))
    monkeypatch.setenv("GNUPGHOME", str(gpg))
    assert "not among" in refusal(site, tmp_path, {"a.asc": GpgSigner(gpg, "else").public()})


def test_checks_leave_no_agent(site: HttpsSite, tmp_path: Path, gpg: Path) -> None:
    repository = site.repository()
    signer = GpgSigner(gpg, "last")
    repository.sign(signer.settings, repository.commit(FILES))
    assert read(site, tmp_path, {"a.asc": signer.public()})
    shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "applyprune-git-" not in shown.stdout


def test_signature_that_was_not_checked_is_not_called_wrong(
    site: HttpsSite, tmp_path: Path, be_without_passwd_entry: Callable[[], None]
) -> None:
    """ssh-keygen does nothing for a user without an entry in /etc/passwd."""
    repository = site.repository()
    signer = SshSigner(tmp_path / "key")
    repository.sign(signer.settings, repository.commit(FILES))
    be_without_passwd_entry()
    text = refusal(site, tmp_path, {"me.sshpub": signer.public()})
    assert "the signature cannot be checked" in text
    assert "No user exists for uid 54321" in text
    assert "not signed" not in text


@pytest.mark.parametrize(
    ("missing", "of_key", "kind"),
    [("gpg", "gpg", "OpenPGP"), ("gpg", "ssh", "OpenPGP"), ("ssh-keygen", "ssh", "SSH")],
)
def test_missing_program_is_named(
    site: HttpsSite,
    tmp_path: Path,
    gpg: Path,
    monkeypatch: pytest.MonkeyPatch,
    missing: str,
    of_key: str,
    kind: str,
) -> None:
    """Whether it would read a trusted key, or only check the signature."""
    repository = site.repository()
    pgp, ssh = GpgSigner(gpg, f"without-{missing}-{of_key}"), SshSigner(tmp_path / "key")
    signer = pgp if kind == "OpenPGP" else ssh
    repository.sign(signer.settings, repository.commit(FILES))
    keys = {"me.asc": pgp.public()} if of_key == "gpg" else {"me.sshpub": ssh.public()}
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("git", "gpg", "prlimit", "setpriv", "sh", "ssh-keygen"):
        program = shutil.which(name)
        if program is not None and name != missing:
            (programs / name).symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))
    text = refusal(site, tmp_path, keys)
    assert f"{missing} is needed to check {kind} signatures, and it cannot be run" in text
    assert "Install" in text
    assert "not signed" not in text
