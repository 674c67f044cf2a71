"""The fields of ``spec.source`` and ``spec.decryption``; names and Secret keys are Flux's."""

from __future__ import annotations

import re
from dataclasses import field
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, WithJsonSchema, model_validator
from pydantic.dataclasses import dataclass as checked

from applyprune.controller.spec_types import CAMEL, Name, Seconds
from applyprune.sources.tree import clean_path
from applyprune.values import pattern

_GIT_URL = pattern(r"(?:https|ssh)://[^\s@/?#]+(?:@[^\s@/?#]+)?/[^\s?#]+")
_USER = pattern(r"https://[^/]*@")
_OCI_URL = pattern(r"oci://[A-Za-z0-9.\-]+(?::[0-9]+)?(?:/[a-z0-9]+(?:[._\-]+[a-z0-9]+)*)+")
_ARCHIVE_URL = pattern(r"https://[^\s@/?#]+/[^\s#]+")
_ARCHIVE_NAME = pattern(r"\.(?:tar|tar\.gz|tgz)(?:\?|$)")
_REF = pattern(r"[^\s~^:?*\[\\\x00-\x1f\x7f-]+[^\s~^:?*\[\\\x00-\x1f\x7f]*")
_COMMIT = pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DIGEST = pattern(r"sha256:[0-9a-f]{64}")
_TAG = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,127}")


def _git_url(text: str) -> str:
    if _GIT_URL.fullmatch(text) is None or _USER.match(text):
        raise ValueError("must be https://HOST/PATH or ssh://USER@HOST/PATH, without a password")
    return text


def _oci_url(text: str) -> str:
    if _OCI_URL.fullmatch(text) is None:
        raise ValueError("must be oci://HOST/NAME, without a tag: that is in ref")
    return text


def _archive_url(text: str) -> str:
    if _ARCHIVE_URL.fullmatch(text) is None or _ARCHIVE_NAME.search(text) is None:
        raise ValueError("must be https://HOST/PATH that ends in .tar.gz, .tgz or .tar")
    return text


def _one_word(word: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "enum": [word]})


def _matching(pattern: re.Pattern[str], words: str) -> AfterValidator:
    def check(text: str) -> str:
        if text and pattern.fullmatch(text) is None:
            raise ValueError(f"must be {words}")
        return text

    return AfterValidator(check)


def _ref(text: str) -> str:
    wrong = ".." in text or text.endswith(("/", ".lock")) or "@{" in text
    if text and (wrong or _REF.fullmatch(text) is None):
        raise ValueError("must be the name of a Git reference")
    return text


def _full_ref(text: str) -> str:
    if text and not text.startswith("refs/"):
        raise ValueError("must begin with refs/")
    return _ref(text)


def _path(text: str) -> str:
    path = clean_path(text)
    if path is None or not path.isprintable():
        raise ValueError("must be a relative path without .. and control characters")
    return path


RefName = Annotated[str, AfterValidator(_ref)]
Path = Annotated[str, AfterValidator(_path)]
Digest = Annotated[str, _matching(_DIGEST, "sha256: and 64 hexadecimal digits")]


@checked(config=CAMEL, frozen=True, slots=True)
class SourceRef:
    """A ConfigMap or Secret whose values are manifests; without ``keys``, all values."""

    name: Name
    keys: tuple[str, ...] = ()


@checked(config=CAMEL, frozen=True, slots=True)
class SecretRef:
    """A Secret of the Bundle's namespace."""

    name: Name


class GitVerifyMode(StrEnum):
    """Which signatures of a Git source must be valid."""

    HEAD = "HEAD"
    """That of the commit."""
    TAG = "Tag"
    """That of the tag."""
    BOTH = "TagAndHEAD"


@checked(config=CAMEL, frozen=True, slots=True)
class GitVerify:
    """Whose signatures a Git source must have: ``*.asc`` and ``*.sshpub`` of a Secret."""

    secret_ref: SecretRef
    mode: GitVerifyMode = GitVerifyMode.HEAD


@checked(config=CAMEL, frozen=True, slots=True)
class GitRefSpec:
    """What of a repository is followed; without a field, its default branch."""

    branch: RefName = ""
    tag: RefName = ""
    semver: str = ""
    """A range of versions; the highest tag in it."""
    name: Annotated[str, AfterValidator(_full_ref)] = ""
    commit: Annotated[str, _matching(_COMMIT, "a whole commit ID")] = ""


@checked(config=CAMEL, frozen=True, slots=True)
class GitSpec:
    """A Git repository; times are in seconds."""

    url: Annotated[str, AfterValidator(_git_url)]
    ref: GitRefSpec = GitRefSpec()
    path: Path = ""
    interval: Seconds = 60.0
    timeout: Seconds = 60.0
    secret_ref: SecretRef | None = None
    verify: GitVerify | None = None


@checked(config=CAMEL, frozen=True, slots=True)
class OciVerify:
    """Whose signatures an artifact must have: ``*.pub`` of a Secret."""

    secret_ref: SecretRef
    provider: Annotated[Literal["cosign"], _one_word("cosign")] = "cosign"


@checked(config=CAMEL, frozen=True, slots=True)
class OciRefSpec:
    """Which version of an artifact is followed; without a field, the tag latest."""

    tag: Annotated[str, _matching(_TAG, "the name of a tag")] = ""
    semver: str = ""
    """A range of versions; the highest tag in it."""
    digest: Digest = ""


@checked(config=CAMEL, frozen=True, slots=True)
class OciSpec:
    """An artifact in an OCI registry; times are in seconds."""

    url: Annotated[str, AfterValidator(_oci_url)]
    ref: OciRefSpec = OciRefSpec()
    path: Path = ""
    interval: Seconds = 60.0
    timeout: Seconds = 60.0
    secret_ref: SecretRef | None = None
    cert_secret_ref: SecretRef | None = None
    verify: OciVerify | None = None


@checked(config=CAMEL, frozen=True, slots=True)
class ArchiveSpec:
    """A tar archive at an HTTPS URL; times are in seconds."""

    url: Annotated[str, AfterValidator(_archive_url)]
    digest: Digest = ""
    path: Path = ""
    interval: Seconds = 60.0
    timeout: Seconds = 60.0
    secret_ref: SecretRef | None = None
    cert_secret_ref: SecretRef | None = None


@checked(config=CAMEL, frozen=True, slots=True)
class Source:
    """The source of the manifests: exactly one of the fields is set."""

    inline: str | None = field(default=None, repr=False)
    config_map_refs: tuple[SourceRef, ...] = ()
    secret_refs: tuple[SourceRef, ...] = ()
    git: GitSpec | None = None
    oci: OciSpec | None = None
    archive: ArchiveSpec | None = None

    @property
    def remote(self) -> GitSpec | OciSpec | ArchiveSpec | None:
        """Return the source on another host; None if the manifests are in the cluster."""
        return self.git or self.oci or self.archive

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        given = (
            self.inline is not None,
            bool(self.config_map_refs),
            bool(self.secret_refs),
            self.git is not None,
            self.oci is not None,
            self.archive is not None,
        )
        if sum(given) != 1:
            raise ValueError(
                "give exactly one of inline, configMapRefs, secretRefs, git, oci and archive"
            )
        return self


@checked(config=CAMEL, frozen=True, slots=True)
class Decryption:
    """How encrypted files of a source are decrypted: ``*.agekey`` and ``*.asc`` of a Secret."""

    secret_ref: SecretRef
    provider: Annotated[Literal["sops"], _one_word("sops")] = "sops"
